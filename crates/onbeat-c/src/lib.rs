//! `libonbeat`: the loop and the rings of onbeat for C and C++. `include/onbeat.h` is the header;
//! what it declares is specified there.
//!
//! Four modules: [`run_loop`] runs a C function once per period in a prepared thread, [`ring`]
//! publishes records in shared memory, [`delayed_lock`] is a lock that gives way to releases,
//! [`last_error`] keeps the sentence about a failure. Reading
//! rings and commanding robots needs no library: `include/onbeat_ring.h`,
//! `include/onbeat_control.h`.
//!
//! ```c
//! struct onbeat_loop_options options = {.period_ns = 1000000, .priority = 80};
//! if (onbeat_loop_run(&options, cycle, &state, NULL) != ONBEAT_LOOP_OK) puts(onbeat_last_error());
//! ```
//!
//! Absent on purpose: a loop of its own, printing, signal handlers, and panics that reach C.

pub mod delayed_lock;
pub mod last_error;
pub mod ring;
pub mod run_loop;
