//! What a test needs to change the machine it runs on and to show that nothing has changed.
//!
//! | file | contents |
//! |---|---|
//! | `state` | a capture of every setting that a tuning may touch |
//! | `plans` | plans of everything that applies to this machine |
//! | `stage` | threads and an interface that stand for a loop, a virtual machine and a fieldbus |
#![allow(dead_code, unreachable_pub, clippy::print_stderr)]

pub mod plans;
pub mod stage;
pub mod state;
