//! Peers of the gateway: Python, Java, LCM, ZeroMQ. Without one, the harness says so test by test while it runs, which
//! the built-in one cannot.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod equipment;
mod hostile_network;
mod java_allocates_nothing;
mod jeromq_speaks_with_pyzmq;
mod lcm_types_match;
mod logs_open_elsewhere;
mod logs_play;
mod messages_arrive;
mod random_messages;
mod way;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share what is installed for them, and the CPUs.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let trials = [
        hostile_network::trials(),
        java_allocates_nothing::trials(),
        jeromq_speaks_with_pyzmq::trials(),
        lcm_types_match::trials(),
        logs_open_elsewhere::trials(),
        logs_play::trials(),
        messages_arrive::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}
