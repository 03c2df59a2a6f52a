//! `tune check --evidence`: the kernel's counters over some time, and a wake-up probe meanwhile.

use std::path::Path;

use onbeat::bench::Conditions;
use onbeat::bench::measurement::{self, MeasurementPlan, ProbePlan};
use onbeat::campaign::CampaignEvent;
use onbeat::host;
use onbeat::load::Load;
use onbeat::probe::{Setting, WAKE_UP};
use onbeat::record::interval_ns_for;
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat::thread::{Privilege, ThreadRequest};
use onbeat_report::{CellSummary, Statistics};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::evidence::{Evidence, HostCounters};
use serde::Serialize;

use super::spike_causes::SpikeCauses;
use crate::cmd::carrier::carrier;
use crate::cmd::so_far::counts_so_far;
use crate::cmd::{Common, Failure, runs, typed};
use crate::signals::{self, OnUsr1};
use crate::term::ProgressLine;

/// What a machine did while it was watched.
#[derive(Debug)]
pub(crate) struct WatchedMachine {
    pub(crate) evidence: Evidence,
    pub(crate) probe: WakeUpProbe,
    /// The causes of the probe's spikes, where they could be analysed.
    pub(crate) causes: Option<SpikeCauses>,
}

/// The result of the wake-up probe.
#[derive(Debug, Serialize)]
pub(crate) struct WakeUpProbe {
    /// Where it ran.
    pub(crate) cpu: u32,
    /// Its `SCHED_FIFO` priority; 0 where that was refused.
    pub(crate) priority: u32,
    /// Samples beyond the spike threshold.
    pub(crate) spikes: u64,
    /// Wake-up latency; `None` where the probe was interrupted before its first sample.
    pub(crate) wakeup_latency: Option<Statistics>,
}

/// Watches this machine for `duration_ns`, or until Ctrl-C.
pub(crate) fn watch(
    setup: &LoopSetup,
    duration_ns: u64,
    is_quiet: bool,
) -> Result<WatchedMachine, Failure> {
    let cpu = setup.cpus.iter().next().or_else(|| host::online_cpus().first().copied());
    let cpu = cpu.unwrap_or(0);
    let dir = tempfile::tempdir()
        .map_err(Common::file("create a directory in", &std::env::temp_dir()))?;
    let path = dir.path().join(format!("{}{RUN_FILE_ENDING}", WAKE_UP.name));

    let tree = HostTree::live();
    let began = Monotonic.now();
    let before = HostCounters::read(&tree, setup);
    run_probe(&path, &setting(setup, cpu, duration_ns), duration_ns, is_quiet)?;
    let after = HostCounters::read(&tree, setup);
    let seconds = Monotonic.now().ns_since(began) as f64 / 1e9;

    let judged = runs::judged(&path, None)?;
    let cell = judged.summary.cells.first();
    let cycles = cell.map_or(0, |cell| cell.cycles);
    let is_refused = judged
        .runs
        .iter()
        .flat_map(|run| &run.header.grants)
        .any(|grant| grant.privilege() == Some(Privilege::RealTimePriority) && !grant.granted);
    let priority = if is_refused { 0 } else { loop_priority(setup) };
    Ok(WatchedMachine {
        evidence: Evidence::between(&before, &after, rounded(seconds))
            .without_switches(cpu, cycles),
        probe: WakeUpProbe {
            cpu,
            priority,
            spikes: cell.and_then(|cell| cell.spike_count).unwrap_or(0),
            wakeup_latency: cell.and_then(CellSummary::main).map(|(_, figures)| figures.clone()),
        },
        causes: SpikeCauses::from_cells(&judged.summary.cells),
    })
}

/// To tenths: the readings take some milliseconds themselves.
fn rounded(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

fn loop_priority(setup: &LoopSetup) -> u32 {
    u32::try_from(setup.loop_priority).unwrap_or(0)
}

/// The loop that the machine is checked for, without work.
fn setting(setup: &LoopSetup, cpu: u32, duration_ns: u64) -> Setting {
    let period_ns = u64::try_from(setup.period_us).unwrap_or(1000).saturating_mul(1000).max(1000);
    Setting {
        thread: ThreadRequest {
            fifo: Some(loop_priority(setup)).filter(|priority| *priority > 0),
            cpu: Some(cpu),
            lock_memory: true,
            dma_latency_us: None,
        },
        interval_ns: interval_ns_for(duration_ns),
        causes: true,
        ..Setting::new(period_ns)
    }
}

fn run_probe(
    path: &Path,
    setting: &Setting,
    duration_ns: u64,
    is_quiet: bool,
) -> Result<(), Failure> {
    let releases = (duration_ns / setting.period_ns).max(1);
    let what = ProbePlan::new(WAKE_UP, setting.clone(), releases, &typed());
    let opened = what.open()?;
    let interruptions = signals::watch(OnUsr1::Summary)?;
    let progress = ProgressLine::new(duration_ns as f64 / 1e9, is_quiet);
    let mut report = |event: CampaignEvent<'_>| {
        if let CampaignEvent::Running { elapsed_s, recorder: Some(recorder), .. } = event {
            progress.show(elapsed_s, &counts_so_far(recorder));
        }
    };

    let plan = MeasurementPlan { what: &what, load: &Load::IDLE, tuning: None, path, out: path };
    let carrier = carrier(None)?;
    let conditions =
        Conditions { carrier: &carrier, interruptions: &interruptions, report: &mut report };
    measurement::measure(&plan, opened, None, conditions)?;
    progress.finish();
    Ok(())
}
