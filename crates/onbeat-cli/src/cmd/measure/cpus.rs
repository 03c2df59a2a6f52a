//! `onbeat measure PROBE --cpus 1-3`: a loop on each of several CPUs at the same time, a run file
//! each.

use onbeat::bench::at_once::{AtOncePlan, conduct};
use onbeat::probe::noise::{NOISE, admit_at_once};
use onbeat::probe::{Interruptions, RunError};
use onbeat::record::run_dir::NewRunDir;

use super::life::Life;
use super::options::Measure;
use super::probe_plan::probe_plan;
use super::shown::ShownMeasurement;
use crate::cmd::cpu_choice::{CpuChoice, MachineCpus};
use crate::cmd::failure::cpus::CpusFailure;
use crate::cmd::{ExitVerdict, Failure};

/// Probes whose loop needs no device, so that each CPU can have one.
pub(super) const PER_CPU: [&str; 4] = ["timer", "hiccup", "latency", "noise"];

pub(super) fn run(
    measure: &Measure,
    choice: &CpuChoice,
    life: Option<Life>,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let Measure { probe, options, given } = measure;
    if !PER_CPU.contains(&probe.name) {
        return Err(CpusFailure::OneLoop { probe: probe.name }.into());
    }
    let machine = MachineCpus::read();
    let cpus = machine.chosen(choice)?;
    if probe.name == NOISE.name {
        let of = (cpus.len() as u64, machine.usable().iter().count() as u64);
        let fifo = Some(options.priority).filter(|priority| *priority > 0);
        admit_at_once(of, given, fifo).map_err(RunError::from)?;
    }

    // What cannot run leaves no directory behind.
    let what = probe_plan(measure, options.duration);
    let setting = what.open()?.setting;
    let plan = AtOncePlan { what: &what, cpus: &cpus, load: &options.load };
    let new = NewRunDir::create(&options.output.out)?;
    let shown = ShownMeasurement {
        measure,
        setting,
        path: new.path().to_owned(),
        new: Some(new),
        resumed: String::new(),
        left_s: options.duration as f64 / 1e9,
    };
    shown.conduct(life, interruptions, |conditions| conduct(&plan, &shown.path, conditions))
}
