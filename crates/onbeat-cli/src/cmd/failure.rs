//! Why a command could not run: one sentence, exit status 2.
//!
//! What several commands can meet is a [`Common`]; what only one can is an enum of its own, in a file below, or beside
//! the one that meets it.

pub(crate) mod import;
pub(crate) mod loads;
pub(crate) mod message;
pub(crate) mod net;
pub(crate) mod robot;
pub(crate) mod robot_goal;
pub(crate) mod spike;
pub(crate) mod tune;
pub(crate) mod vm;
pub(crate) mod watch;

pub(crate) use onbeat_commands::failure::{Common, Failure, bus, cpus, gateway};
