//! One folder per command, with its options beside it: turns options into library calls, and results into words.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod bus;
mod carrier;
pub(crate) mod cell;
mod cells;
pub(crate) mod compare;
pub(crate) mod completion;
pub(crate) mod export;
mod failure;
mod findings;
pub(crate) mod fleet;
pub(crate) mod gate;
pub(crate) mod generate;
mod host_settings;
pub(crate) mod import;
pub(crate) mod inject;
mod lint_report;
pub(crate) mod load;
mod looping;
pub(crate) mod measure;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod net;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod robot;
mod run_clock;
mod run_tuning;
pub(crate) mod runs;
pub(crate) mod screen;
pub(crate) mod segment;
mod show;
mod so_far;
pub(crate) mod trend;
pub(crate) mod tune;
pub(crate) mod view;
pub(crate) mod vm;
pub(crate) mod watch;
mod watched;

pub(crate) use failure::{Common, Failure};
pub(crate) use onbeat_commands::{
    ExitVerdict, byte_words, cpu_choice, gateway, type_instead, typed, whole, worse,
};
