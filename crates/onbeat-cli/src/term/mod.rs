//! Output in a terminal: results on standard output, progress and advice on standard error.

mod live;
pub(crate) mod motion;
mod progress;
pub(crate) mod robot;

pub(crate) use live::Live;
pub(crate) use onbeat_commands::term::*;
pub(crate) use progress::ProgressLine;
