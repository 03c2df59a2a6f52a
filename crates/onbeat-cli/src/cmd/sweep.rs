//! `onbeat measure PROBE --load-sweep 0..100/10`: the probe under each load in turn, a run file each.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onbeat::bench::conduct::BENCH_FILE;
use onbeat::bench::sweep::{Busy, Steps};
use onbeat::probe::ports::Place;
use onbeat::probe::{self, Given, Interruptions, Value};
use onbeat::record::{Bench, Cell, Header, Note, RunWriter, StepNote, SweepNote};

use super::measure::{One, Zero, made_ready, so_far};
use super::{Failure, Verdict, limit, runs, show, typed, verdict};
use crate::cli_measure::Measure;
use crate::term::Progress;

/// Jitter that the paper allows to what stays on one machine, and to what goes through a network, in nanoseconds.
const ALLOWED_LOCAL_NS: u64 = 100_000;
const ALLOWED_NETWORKED_NS: u64 = 1_000_000;
/// From the start of a load to the first release, so that it has begun.
const SETTLING: Duration = Duration::from_millis(300);

pub(crate) fn run(measure: &Measure, steps: &Steps, interruptions: &Interruptions) -> Result<Verdict, Failure> {
    let place = runs::create(&measure.options.output.out)?;
    place.kept_if_begun(measured(measure, steps, interruptions, &place))?;
    shown(measure, &place.dir)
}

/// All steps, a run file each, and the sweep's own.
fn measured(
    measure: &Measure,
    steps: &Steps,
    interruptions: &Interruptions,
    place: &runs::Place,
) -> Result<(), Failure> {
    let (options, dir) = (&measure.options, &place.dir);
    let zero = Zero::now();
    let header = probe::header(&typed(), measure.probe.name, zero.unix_s);
    let mut bench = RunWriter::create(&dir.join(BENCH_FILE), &header)?;
    let each_ns = options.duration / steps.percents().len() as u64;
    let progress = Progress::new(options.duration as f64 / 1e9, options.output.json);
    let mut told = false;
    for (number, percent) in steps.percents().enumerate() {
        if interruptions.stop.load(Ordering::Relaxed) {
            break;
        }
        let load = Steps::load(percent);
        let cell = Cell { tuning: "sweep".to_owned(), load: load.to_string() };
        let path = dir.join(cell.file_name().replacen("sweep", measure.probe.name, 1));
        let mut before = None;
        let one = One { measure, load: &load, duration_ns: each_ns, path: &path, settling: SETTLING, zero };
        let began_s = number as f64 * each_ns as f64 / 1e9;
        let ready = made_ready(measure, each_ns)?;
        let opened = one.run(ready, None, interruptions, &mut |recorder, elapsed_s| {
            place.begun();
            before = before.or_else(|| Busy::read().ok());
            progress.show(began_s + elapsed_s, format!("load {percent} %  {}", so_far(recorder)));
        })?;
        let reached = Busy::read().ok().zip(before).and_then(|(after, before)| after.percent_since(before));
        if !told {
            bench.note(&Note::Bench(Box::new(note_of(measure, steps, &opened))))?;
            told = true;
        }
        let step = StepNote { load: load.to_string(), asked_percent: f64::from(percent), reached_percent: reached };
        bench.note(&Note::Step(step))?;
    }
    progress.finish();
    Ok(())
}

fn shown(measure: &Measure, dir: &Path) -> Result<Verdict, Failure> {
    let kept = runs::read(dir, None)?;
    show::summary(
        &kept,
        show::Extent {
            json: measure.options.output.json,
            verbose: measure.options.output.verbose,
            ..show::Extent::default()
        },
        None,
    )?;
    let judged = verdict(kept.summary.verdict.outcome);
    let allowed = kept.summary.sweep.is_none_or(|sweep| sweep.steps.iter().all(|step| step.is_allowed));
    // Without being asked for, what the paper allowed is shown and decides nothing.
    let is_judge = measure.options.allowed_jitter.is_some();
    Ok(if is_judge && !allowed && judged == Verdict::Holds { Verdict::Broken } else { judged })
}

fn note_of(measure: &Measure, steps: &Steps, first: &Header) -> Bench {
    let options = &measure.options;
    let standard = if is_networked(&measure.given) { ALLOWED_NETWORKED_NS } else { ALLOWED_LOCAL_NS };
    Bench {
        tunings: vec![first.tuning()],
        loads: steps.percents().map(|percent| Steps::load(percent).to_string()).collect(),
        order: "sequential".to_owned(),
        blocks: 1,
        block_s: options.duration as f64 / 1e9 / steps.percents().len() as f64,
        limit: limit(&options.limit, measure.probe.series[0]),
        not_permitted: Vec::new(),
        ladder: first.grants.clone(),
        shield: Vec::new(),
        sweep: Some(SweepNote {
            series: measure.probe.series[0],
            allowed_jitter_ns: options.allowed_jitter.unwrap_or(standard),
        }),
    }
}

fn is_networked(given: &Given) -> bool {
    given.0.iter().any(|(_, value)| matches!(value, Value::Place(Place::Udp(_))))
}
