//! `onbeat cell`: the process of one cell. Only a bench starts it, and talks to it over standard
//! input and output.

use std::io::{Write, stdin, stdout};
use std::sync::Arc;

use onbeat::bench::cell::{CellReply, CellServer};
use onbeat::bench::cell_start::{CellStart, CellTask};
use onbeat::bench::fresh_memory;
use onbeat::probe::description::Parts;
use onbeat::probe::{Interruptions, timer};
use onbeat::record::NoFigures;
use onbeat_net::rtt;
use onbeat_robot::probe::chain;

use super::bench::robot;
use super::watch::in_bench;
use super::{ExitVerdict, Failure};
use crate::probes;
use crate::signals::{self, OnUsr1};

/// A failure is reported to the bench alone, which reports it to people once.
pub(crate) fn run() -> Result<ExitVerdict, Failure> {
    let served = signals::watch(OnUsr1::Refuse).map_err(Failure::from).and_then(server);
    let is_served = match served {
        Ok(Served::Already { well }) => well,
        Ok(Served::By(served)) => {
            let (server, parts) = *served;
            server.serve_loop(parts, stdin(), stdout()).is_ok()
        }
        Err(why) => {
            let reply = serde_json::to_string(&CellReply::Failed(why.to_string()))? + "\n";
            // A bench that does not read any more has ended.
            let _ = stdout().write_all(reply.as_bytes());
            false
        }
    };

    Ok(if is_served { ExitVerdict::Pass } else { ExitVerdict::CouldNotRun })
}

/// How a cell is served.
enum Served {
    /// It was, to its end, which was reported.
    Already { well: bool },
    /// By a loop of this process.
    By(Box<(CellServer, Parts)>),
}

/// Reads the start of the cell, opens its probe, and prepares its run.
fn server(interruptions: Arc<Interruptions>) -> Result<Served, Failure> {
    let start = CellStart::read(&mut stdin().lock())?;
    let mut grants = Vec::new();
    let parts = match &start.task {
        CellTask::Timer => timer::parts(start.setting.work_ns, Box::new(NoFigures)),
        CellTask::Program(program) => {
            let well = in_bench::serve(&start, program, interruptions)?;
            return Ok(Served::Already { well });
        }
        CellTask::FreshMemory { pages } => fresh_memory::parts(start.setting.work_ns, *pages),
        CellTask::Bus(cell) => {
            let (parts, description) = robot::parts(&start.setting, cell)?;
            grants.push(description);
            parts
        }
        CellTask::Chain(cell) => {
            let (parts, description) = chain::parts_of_cell(&start.setting, cell)
                .map_err(onbeat::probe::RunError::from)?;
            grants.push(description);
            parts
        }
        CellTask::RoundTrip(cell) => {
            let (parts, description) =
                rtt::parts_of_cell(&start.setting, cell).map_err(onbeat::probe::RunError::from)?;
            grants.push(description);
            parts
        }
    };

    let run = start.open_run(probes::series_of("timer"), grants)?;
    let load = start.cell.load;
    let server = CellServer { run, load, interruptions, explain: start.explain };
    Ok(Served::By(Box::new((server, parts))))
}
