//! `onbeat measure PROBE --cpus 1-3`: a loop on each of several CPUs at the same time, a run file
//! each.

use std::sync::atomic::Ordering;

use onbeat::bench::Conditions;
use onbeat::bench::at_once::{AtOncePlan, conduct};
use onbeat::campaign::CampaignEvent;
use onbeat::probe::noise::{NOISE, admit_at_once};
use onbeat::probe::{Interruptions, RunError};
use onbeat::record::run_dir::NewRunDir;
use onbeat_report::units::{Letters, count, time_ns};

use super::life::Life;
use super::options::Measure;
use super::probe_plan::probe_plan;
use crate::cmd::carrier::carrier;
use crate::cmd::cpu_choice::{CpuChoice, MachineCpus};
use crate::cmd::failure::cpus::CpusFailure;
use crate::cmd::looping::most_alarms;
use crate::cmd::so_far::SoFar;
use crate::cmd::view::BesideView;
use crate::cmd::{Common, ExitVerdict, Failure, runs, show};
use crate::term::{ProgressLine, Tone, advise, wrapped};

/// Probes whose loop needs no device, so that each CPU can have one.
const PER_CPU: [&str; 4] = ["timer", "hiccup", "latency", "noise"];

pub(crate) fn run(
    measure: &Measure,
    choice: &CpuChoice,
    life: Option<Life>,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let Measure { probe, options, given } = measure;
    if !PER_CPU.contains(&probe.name) {
        return Err(CpusFailure::OneLoop { probe: probe.name }.into());
    }
    if most_alarms(&options.limit).is_some() {
        let what = format!("measure {}", probe.name);
        return Err(Common::NoEvents { what, instead: "measure the probe `bus`" }.into());
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
    what.open()?;
    let plan = AtOncePlan { what: &what, cpus: &cpus, load: &options.load };
    let carrier = carrier(options.load_dir.as_deref())?;
    let new = NewRunDir::create(&options.output.out)?;
    let dir = new.path().to_owned();

    let progress = ProgressLine::new(options.duration as f64 / 1e9, options.output.json);
    let mut summary = SoFar::new(dir.clone(), &interruptions.summary);
    let mut view = BesideView::new(&options.beside_view, None);
    let mut life = life;
    let mut report = |event: CampaignEvent<'_>| match event {
        CampaignEvent::Warned(words) => {
            progress.above(|| advise(Tone::Careful, &wrapped(words, 80)));
        }
        CampaignEvent::AtOnce { elapsed_s, cycles, worst } => {
            runs::begin(&new);
            view.begin(&dir);
            if !summary.look_written() {
                progress.show(elapsed_s, &so_far(cycles, worst));
            }
            if life.as_mut().is_some_and(Life::is_over) {
                interruptions.stop.store(true, Ordering::Relaxed);
            }
        }
        _ => {}
    };
    let conditions = Conditions { carrier: &carrier, interruptions, report: &mut report };
    let conducted = conduct(&plan, &dir, conditions).map_err(Failure::from);
    progress.finish();
    summary.end();
    view.end();
    runs::keep_if_begun(&new, conducted)?;
    show::made(&dir, &options.output)
}

/// `12,000 cycles, worst 34 us on CPU 3`.
fn so_far(cycles: u64, (cpu, worst_ns): (u32, u64)) -> String {
    let worst = time_ns(worst_ns, Letters::Ascii);
    format!("{} cycles, worst {worst} on CPU {cpu}", count(cycles))
}
