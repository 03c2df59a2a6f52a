//! A sweep of two axes, period × load: how late a loop starts in each of their cells, as a map.
//!
//! `cargo run -p onbeat --example sweep_two_axes -- sweep 500,1000,2000 idle,cpu=50%,cpu 2`
//!
//! Directory, periods in microseconds, loads, and seconds of each cell. Killed at any moment, the
//! same command goes on with the cells that have no result. This file is all that the experiment
//! is: its axes, what is measured in a cell, and the table.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::env::args;
use std::io::{stdin, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use onbeat::bench::measurement::{MeasurementPlan, ProbePlan, measure};
use onbeat::bench::{BenchError, Conditions};
use onbeat::campaign::{
    Campaign, CampaignEvent, CellFailure, FailureScope, ResultStore, StoreError, product,
};
use onbeat::load::{Load, Options, serve};
use onbeat::probe::{Interruptions, Setting, WAKE_UP};
use onbeat::record::{RunFile, RunFileError, Series};
use onbeat_report::{Share, Statistics};
use serde::{Deserialize, Serialize};

/// Begins the command line of the process that carries a load: this program again.
const CARRY: &str = "--carry";
const RUN_FILE: &str = "timer.onbeat.hlog";

/// The figures of a cell; the run file beside them has the rest.
#[derive(Serialize, Deserialize)]
struct Figures {
    releases: u64,
    p99_ns: Option<u64>,
    max_ns: u64,
}

#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error(transparent)]
    Measurement(#[from] BenchError),
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CellFailure for SweepError {
    fn scope(&self) -> FailureScope {
        match self {
            Self::Measurement(_) => FailureScope::Cell,
            Self::RunFile(_) | Self::Store(_) => FailureScope::Campaign,
        }
    }
}

struct Cell<'s> {
    period_us: u64,
    load: &'s Load,
    seconds: u64,
}

impl Cell<'_> {
    fn place(&self) -> PathBuf {
        format!("{}us-{}-{}s", self.period_us, self.load.file_name(), self.seconds).into()
    }

    /// Measures the cell into `dir`.
    fn measure(&self, dir: &Path, interruptions: &Interruptions) -> Result<Figures, SweepError> {
        let setting = Setting::new(self.period_us * 1000);
        let releases = (self.seconds * 1_000_000 / self.period_us).max(1);
        let command: Vec<String> = args().collect();
        let what = ProbePlan::new(WAKE_UP, setting, releases, &command);
        let opened = what.open().map_err(BenchError::from)?;
        let path = dir.join(RUN_FILE);
        let (load, tuning) = (self.load, None);
        let plan = MeasurementPlan { what: &what, load, tuning, path: &path, out: dir };
        let carrier = |load: &Load| {
            let mut carrier = Command::new("/proc/self/exe");
            carrier.args([CARRY, &load.to_string()]);
            carrier
        };
        let conditions = Conditions { carrier: &carrier, interruptions, report: &mut |_| {} };
        measure(&plan, opened, None, conditions)?;
        let run = RunFile::read(&path)?;
        let moments = run.moments(Series::ReleaseLatency);
        let statistics = Statistics::new(&run.distribution(Series::ReleaseLatency), &moments);
        let p99 = statistics.and_then(|all| all.percentile(Share::P99));
        let p99_ns = p99.filter(|one| one.supported).map(|one| one.value_ns);
        Ok(Figures { releases: moments.n, p99_ns, max_ns: moments.max_ns })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = args().skip(1).collect();
    let [out, periods, loads, seconds] = match &words[..] {
        [carry, load] if carry == CARRY => {
            let input = stdin().as_fd().try_clone_to_owned()?;
            serve(&load.parse()?, &Options::default(), input, &mut stdout())?;
            return Ok(());
        }
        [out, periods, loads, seconds] => [out, periods, loads, seconds],
        _ => return Err("name a directory, periods in us, loads, and seconds of a cell".into()),
    };
    let periods: Vec<u64> = periods.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let loads: Vec<Load> = loads.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let seconds = seconds.parse()?;
    let store = ResultStore::open(Path::new(out), "figures.json")?;
    let cells = || {
        let cell = |[p, l]: [usize; 2]| Cell { period_us: periods[p], load: &loads[l], seconds };
        product([periods.len(), loads.len()]).map(cell)
    };

    let interruptions = Interruptions::default();
    let mut report = |event: CampaignEvent<'_>| {
        if let CampaignEvent::Failed { cell, why } = event {
            eprintln!("{cell}: {why}");
        }
    };
    let mut campaign = Campaign::new(&interruptions.stop, &mut report);
    for cell in cells() {
        let place = cell.place();
        if store.find::<Figures>(&place)?.is_none() {
            let measured = store.measure(&place, |dir| cell.measure(dir, &interruptions));
            campaign.outcome(&place.display().to_string(), measured)?;
        }
    }

    println!("period_us load releases p99_ns max_ns");
    for cell in cells() {
        let Some(Figures { releases, p99_ns, max_ns }) = store.find(&cell.place())? else {
            println!("{} {} - - -", cell.period_us, cell.load);
            continue;
        };
        let p99 = p99_ns.map_or_else(|| "-".to_owned(), |ns| ns.to_string());
        println!("{} {} {releases} {p99} {max_ns}", cell.period_us, cell.load);
    }
    Ok(())
}
