//! `onbeat measure PROBE --loads idle,paper` and `--load-sweep 0..100/10`: one probe under several
//! loads, a run file each.

use std::path::Path;
use std::time::Duration;

use onbeat::bench::conduct::check_names;
use onbeat::bench::schedule::{CellOrder, RAMP};
use onbeat::bench::sweep::SweepSteps;
use onbeat::bench::turns::{TurnsPlan, UnfinishedTurns, conduct};
use onbeat::load::Load;
use onbeat::probe::ports::PortAddress;
use onbeat::probe::{Given, Interruptions, SettingValue};
use onbeat::record::SweepNote;
use onbeat::record::run_dir::{BENCH_FILE, take_up};
use onbeat_report::units::spoken;

use super::life::Life;
use super::new_run;
use super::options::Measure;
use super::probe_plan::probe_plan;
use super::resume::{PlannedMeasurement, find_turns};
use super::shown::ShownMeasurement;
use crate::cmd::failure::loads::LoadsFailure;
use crate::cmd::{ExitVerdict, Failure};
use crate::term::{Tone, advise, wrapped};

/// Jitter that the paper allows within one machine, and through a network, in nanoseconds.
const ALLOWED_LOCAL_NS: u64 = 100_000;
const ALLOWED_NETWORKED_NS: u64 = 1_000_000;
/// Time from the start of a sweep's load to the first release.
const SETTLING: Duration = Duration::from_millis(300);

pub(super) fn run(
    measure: &Measure,
    life: Option<Life>,
    interruptions: &Interruptions,
) -> Result<ExitVerdict, Failure> {
    let options = &measure.options;
    let plan = plan(measure)?;
    // What cannot run leaves no directory behind.
    let opened = plan.what.open()?;
    let planned = PlannedMeasurement::of_turns(measure, &plan);
    let out = &options.output.out;
    let found = if options.resume { find_turns(out, &planned, &plan)? } else { None };
    let left = found.as_ref().map_or_else(
        || vec![plan.what.releases; plan.loads.len()],
        |(_, unfinished)| unfinished.left(&plan),
    );
    let (path, new, unfinished) = match found {
        Some((dir, unfinished)) => {
            unfinished.check(&plan)?;
            advise(Tone::Careful, &wrapped(&resuming(&dir, &unfinished, &plan), 80));
            (take_up(out, &dir.join(BENCH_FILE))?, None, Some(unfinished))
        }
        None => {
            let new = new_run(out, &planned)?;
            (new.path().to_owned(), Some(new), None)
        }
    };

    if !options.output.json {
        advise(Tone::Faint, &wrapped(&shares(&plan, &left), 80));
    }

    let shown = ShownMeasurement {
        measure,
        setting: opened.setting.clone(),
        path,
        new,
        resumed: String::new(),
        left_s: plan.estimate_s(&left).unwrap_or(0.0),
    };
    shown.conduct(life, interruptions, |conditions| {
        conduct(&plan, opened, unfinished, &shown.path, conditions)
    })
}

/// Returns the plan of these options.
fn plan(measure: &Measure) -> Result<TurnsPlan, Failure> {
    let Measure { probe, options, .. } = measure;
    let loads = match &options.load_sweep {
        Some(steps) => steps.loads.clone(),
        None => options.loads.clone(),
    };

    check_names("load", loads.iter().map(Load::to_string))?;
    let sweep =
        options.load_sweep.as_ref().map(|steps| sweep_note(measure, steps)).transpose()?.flatten();
    // Rounded up: a share of 0 would have no end.
    let each_ns = options.duration.div_ceil(loads.len() as u64);
    // Turns would cut a probe that ends by itself into pieces.
    let ends_itself = options.duration == 0 && probe.defaults.duration == "0";
    let is_rising = options.load_sweep.is_some();
    Ok(TurnsPlan {
        what: probe_plan(measure, each_ns),
        loads,
        order: if is_rising || ends_itself {
            CellOrder::Sequential
        } else {
            CellOrder::Interleaved
        },
        sweep,
        settling: if is_rising { SETTLING } else { RAMP },
    })
}

/// Returns the jitter that a sweep of the CPUs' share is judged by; groups of tasks have no such
/// limit.
fn sweep_note(
    measure: &Measure,
    steps: &SweepSteps,
) -> Result<Option<(SweepNote, Vec<f64>)>, Failure> {
    let allowed_ns = measure.options.allowed_jitter;
    let Some(percents) = &steps.percents else {
        return match allowed_ns {
            Some(_) => Err(LoadsFailure::JitterOfGroups.into()),
            None => Ok(None),
        };
    };

    let standard =
        if is_networked(&measure.given) { ALLOWED_NETWORKED_NS } else { ALLOWED_LOCAL_NS };
    let allowed_jitter_ns = allowed_ns.unwrap_or(standard);
    let asked = percents.iter().map(|percent| f64::from(*percent)).collect();
    let is_default = allowed_ns.is_none();
    let series = measure.probe.series[0];
    Ok(Some((SweepNote { series, allowed_jitter_ns, is_default }, asked)))
}

fn is_networked(given: &Given) -> bool {
    given.0.iter().any(|(_, value)| matches!(value, SettingValue::Place(PortAddress::Udp(_))))
}

/// Describes the time of each load.
fn shares(plan: &TurnsPlan, left: &[u64]) -> String {
    let loads = plan.loads.len();
    let takes_turns = plan.order != CellOrder::Sequential;
    let Some((each_s, blocks)) = plan.share_s().zip(plan.blocks()) else {
        return if takes_turns {
            let block = spoken(plan.what.seconds(plan.block_releases()));
            format!("{loads} loads take turns in blocks of {block}, until Ctrl-C")
        } else {
            format!("{loads} loads, one after the other, each until the probe is done")
        };
    };
    let blocks = match blocks {
        _ if !takes_turns => ", one after the other".to_owned(),
        2.. => format!(" in {blocks} blocks, in turns"),
        _ => " in one block, in random order".to_owned(),
    };

    let all = plan.estimate_s(left).map_or_else(String::new, |s| {
        format!("; about {} to go, loads start and end in between", spoken(s))
    });
    format!("{loads} loads get {} of measuring each{blocks}{all}", spoken(each_s))
}

/// Describes what is resumed, and what each load has left.
fn resuming(dir: &Path, unfinished: &UnfinishedTurns, plan: &TurnsPlan) -> String {
    let how = if unfinished.is_cut_off() { "was cut off" } else { "was ended early" };
    let left = plan.loads.iter().zip(unfinished.left(plan)).filter(|(_, left)| *left > 0);
    let words = left.map(|(load, left)| match left {
        u64::MAX => load.to_string(),
        left => format!("{load} {}", spoken(plan.what.seconds(left))),
    });

    let words: Vec<String> = words.collect();
    let left =
        if words.is_empty() { "only the closing lines".to_owned() } else { words.join(", ") };
    format!("resuming {}, which {how}; left: {left}", dir.display())
}
