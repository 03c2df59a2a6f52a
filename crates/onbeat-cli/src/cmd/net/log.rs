//! `onbeat net log`: the run files of other machines, received over UDP.

use std::path::Path;
use std::time::Duration;

use onbeat_net::run_log::{LogServer, LogServerOptions, LogShipment, LogShipper, ShippedRun};
use onbeat_report::units;

use super::options::NetLogOptions;
use super::serving::{allowed, end_in_time, others, read};
use crate::cmd::failure::net::NetFailure;
use crate::cmd::measure::options::MeasureOptions;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, columns, say, wrapped};

pub(in crate::cmd) fn run(options: &NetLogOptions) -> Result<ExitVerdict, Failure> {
    let (allow, allowed) = allowed(&options.allow);
    let server = LogServer::open(LogServerOptions {
        bind: options.bind,
        port: options.port,
        allow,
        out: options.out.clone(),
        writer_pause: Duration::ZERO,
    });
    let server = server.map_err(NetFailure::from)?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let greeting = format!(
        "the server takes runs at {}, UDP port {}, and writes them below {}; allowed: {allowed}; Ctrl-C ends",
        options.bind,
        options.port,
        options.out.display()
    );
    advise(Tone::Plain, &wrapped(&greeting, columns()));

    end_in_time(&interruptions, options.duration);
    let mut ended = |run: ShippedRun| say(Tone::Plain, &wrapped(&of_run(&run), columns()));
    server.serve(&interruptions.stop, &mut ended).map_err(NetFailure::from)?;
    advise(Tone::Plain, &wrapped(&outcome(&server), columns()));
    Ok(ExitVerdict::Pass)
}

fn of_run(run: &ShippedRun) -> String {
    let ShippedRun { from, path, counts, is_complete, failed } = run;
    let how = match (failed, is_complete) {
        (Some(why), _) => why.clone(),
        (None, true) => "complete to its last line".to_owned(),
        (None, false) => "its end was not received".to_owned(),
    };
    format!(
        "{} from {from}: {} lines in {} packets, {} lines in {} packets lost; {how}",
        path.display(),
        counts.lines,
        counts.parts,
        counts.lost_lines,
        counts.lost_parts
    )
}

fn outcome(server: &LogServer) -> String {
    let counts = &server.counts;
    let others = others(&[
        (read(&counts.without_room), "dropped because the disk was too slow"),
        (server.kernel_drops().unwrap_or(0), "dropped by the kernel at the socket"),
        (read(&counts.refused), "from addresses that are not allowed"),
        (read(&counts.invalid), "not parts of a run"),
    ]);
    format!("{} received{others}", units::counted(read(&counts.received), "packet"))
}

/// A run on its way to a server, when one was named.
pub(in crate::cmd) struct RunShipment(Option<(LogShipper, String)>);

impl RunShipment {
    /// Begins to follow a run file that need not exist yet.
    pub(in crate::cmd) fn start(options: &MeasureOptions, path: &Path) -> Result<Self, Failure> {
        let Some(to) = options.log_to.clone() else { return Ok(Self(None)) };
        let shipper = LogShipper::start(&to, path, options.cpu).map_err(NetFailure::from)?;
        Ok(Self(Some((shipper, to))))
    }

    /// Sends the rest, and says what became of it.
    pub(in crate::cmd) fn finish(self) {
        let Some((shipper, to)) = self.0 else { return };
        advise(Tone::Plain, &wrapped(&of_shipment(&to, &shipper.finish()), columns()));
    }
}

/// What became of a run that was sent to a server.
fn of_shipment(to: &str, shipment: &LogShipment) -> String {
    let LogShipment { sent, unsent, lines, .. } = shipment;
    let refused = match unsent {
        0 => String::new(),
        count => format!("; {count} more were refused by this system"),
    };
    let received = match shipment.lost() {
        Some(0) => "all were received".to_owned(),
        Some(lost) => format!("{lost} did not reach its file"),
        None => "the server did not confirm the end; the run is complete here".to_owned(),
    };
    format!("{lines} lines sent to the logging server {to} in {sent} packets: {received}{refused}")
}
