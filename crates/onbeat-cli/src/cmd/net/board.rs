//! `onbeat net board`: the second of two boards, which writes an output for each edge.

use std::time::Duration;

use onbeat::thread::ThreadRequest;
use onbeat_net::boards::output_board::{BoardCounts, BoardOptions, OutputBoard};
use onbeat_net::boards::ptp::{PtpMonitor, PtpRole};

use super::options::NetBoardOptions;
use super::serving::{allowed, end_in_time, others, prepare_thread, read};
use crate::cmd::failure::net::NetFailure;
use crate::cmd::looping::check_cpu;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, wrapped};

/// How long `ptp4l` is watched before the board serves edges.
const PTP_STARTS_WITHIN: Duration = Duration::from_millis(300);

pub(super) fn run(options: &NetBoardOptions) -> Result<ExitVerdict, Failure> {
    check_cpu(options.cpu)?;
    let (allow, allowed) = allowed(&options.allow);
    let board = OutputBoard::open(&BoardOptions {
        bind: options.bind,
        port: options.port,
        output: options.output.clone(),
        allow,
    })?;
    let transmitter = |interface: &String| PtpMonitor::start(interface, PtpRole::Transmitter);
    let ptp = options.ptp.as_ref().map(transmitter).transpose().map_err(NetFailure::from)?;
    // It ends at once where the interface does not exist.
    let has_ended = |ptp: &PtpMonitor| ptp.await_reading(PTP_STARTS_WITHIN).map(drop);
    ptp.as_ref().map_or(Ok(()), has_ended).map_err(NetFailure::from)?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let greeting = format!(
        "the board takes edges at {}, UDP port {}, and writes to {}; allowed: {allowed}; Ctrl-C ends",
        options.bind, options.port, options.output
    );
    advise(Tone::Plain, &wrapped(&greeting, 80));

    let request = ThreadRequest {
        fifo: (options.priority > 0).then_some(options.priority),
        cpu: options.cpu,
        lock_memory: options.priority > 0,
        ..ThreadRequest::default()
    };
    prepare_thread(&request, "the board runs", "it answers later");
    end_in_time(&interruptions, options.duration);
    board.serve(&interruptions.stop).map_err(NetFailure::from)?;

    advise(Tone::Plain, &outcome(&board.counts));
    drop(ptp);
    Ok(ExitVerdict::Pass)
}

fn outcome(counts: &BoardCounts) -> String {
    let others = others(&[
        (read(&counts.failed), "writes failed"),
        (read(&counts.refused), "packets from addresses that are not allowed"),
        (read(&counts.invalid), "not valid edges"),
        (read(&counts.unsent), "reports not sent by the system"),
    ]);
    format!("{} outputs written{others}", read(&counts.written))
}
