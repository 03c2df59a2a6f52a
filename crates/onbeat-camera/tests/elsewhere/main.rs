//! The camera beside programs of others: FFmpeg, GStreamer, Python, Octave, a C compiler. Without one, the harness
//! says so trial by trial, which the built-in one cannot.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod clients;
mod pictures;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let trials = [clients::trials(), pictures::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}
