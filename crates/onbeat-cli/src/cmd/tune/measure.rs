//! `onbeat tune measure`: what one setting is worth on this machine.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::worth::{Machine, RememberedWorth, remember};
use onbeat::bench::cell_start::CellTask;
use onbeat::bench::cell_tuning::{AFFINITY, PLACEBO, canonical};
use onbeat::bench::conduct::BenchPlan;
use onbeat::bench::schedule::CellOrder;
use onbeat::bench::{CellTuning, LoopOptions, Tuning};
use onbeat::host::Host;
use onbeat::record::run_dir::BENCH_FILE;
use onbeat::record::{Cell, RunFile, Series};
use onbeat_report::units::{capital, under};
use onbeat_report::worth::{self, Worth, WorthRequest};
use onbeat_tune::{HostFiles, LiveHost};
use serde::Serialize;

use super::measure_options::{MeasuredSeries, TuneMeasureOptions};
use crate::cmd::bench::options::BenchOptions;
use crate::cmd::bench::resume::TUNE_MEASURE;
use crate::cmd::looping::verdict;
use crate::cmd::{ExitVerdict, Failure, bench, typed};
use crate::options::OutputOptions;
use crate::signals::{self, EndOf, OnUsr1};
use crate::state::state_directory;
use crate::term::{Tone, advise, columns, say, say_folded, wrapped};

/// Names the fields of what `tune measure --json` prints.
const MEASURE_SCHEMA: &str = "onbeat.tune-measure/1";
/// Fresh pages per cycle where the worth of locked memory is measured.
const FRESH_PAGES: u32 = 16;

/// Why a tuning cannot be measured.
#[derive(Debug, thiserror::Error)]
enum MeasureTuningFailure {
    #[error("--tuning {tuning} has {what} already: choose letters without it")]
    NothingNew { tuning: Tuning, what: String },
    #[error("{what} cannot be measured here: {why}")]
    NotPermitted { what: String, why: String },
    #[error(
        "measuring {what} changes settings of this machine between blocks, which needs root. Run: sudo {command}"
    )]
    NeedsRoot { what: String, command: String },
}

pub(crate) fn run(options: &TuneMeasureOptions) -> Result<ExitVerdict, Failure> {
    let sides = Sides::new(options)?;
    let asked = bench_options(options, &sides)?;
    let plan = BenchPlan {
        order: CellOrder::Paired,
        task: match sides.pages {
            0 => CellTask::Timer,
            pages => CellTask::FreshMemory { pages },
        },
        ..bench::admitted(&asked)?
    };
    check_rights(&plan, options)?;
    if !asked.quiet {
        say_changes(&plan, options);
    }

    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("its load, its cells or the settings to be put back");
    let dir = bench::measured(&TUNE_MEASURE, &asked, &plan, &interruptions)?;
    let worth = sides.worth(&dir, options)?;
    let result = RememberedWorth {
        id: canonical(&options.what).unwrap_or_else(|| options.what.clone()),
        machine: Machine::from_host(&Host::read()),
        load: options.load.to_string(),
        without: sides.without.to_string(),
        period_ns: options.looping.period,
        measured_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        worth,
    };

    print(options, &sides, &result)?;
    let outcome = result.worth.outcome();
    // Chance is not worth remembering.
    if options.what != PLACEBO
        && let Err(why) = remember(&state_directory(), result)
    {
        advise(Tone::Careful, &wrapped(&why.to_string(), columns()));
    }
    Ok(verdict(Some(outcome)))
}

/// The two tunings that take turns.
struct Sides {
    without: CellTuning,
    with: CellTuning,
    pages: u32,
    series: Series,
}

impl Sides {
    /// Both sides are bound to one CPU: which one the scheduler takes is not what is measured.
    fn new(options: &TuneMeasureOptions) -> Result<Self, Failure> {
        let (alone, _) = CellTuning::default().with(&options.what)?;
        let is_of_host = alone.host_names().any(|name| name != PLACEBO);
        let usual = Tuning { priority: is_of_host, memory: is_of_host, ..Tuning::default() };
        let letters = CellTuning::from(options.tuning.unwrap_or(usual));
        let without = match alone.options() {
            LoopOptions { bound: true, .. } => letters,
            _ => letters.with(AFFINITY)?.0,
        };
        let (with, is_new) = without.with(&options.what)?;
        if !is_new {
            let tuning = options.tuning.unwrap_or_default();
            let what = options.what.clone();
            return Err(MeasureTuningFailure::NothingNew { tuning, what }.into());
        }

        let usual_pages = if alone.options().letters.memory { FRESH_PAGES } else { 0 };
        let pages = options.touch.unwrap_or(usual_pages);
        let series = match options.on {
            Some(MeasuredSeries::Response) => Series::ResponseTime,
            None if pages > 0 => Series::ResponseTime,
            Some(MeasuredSeries::Release) | None => Series::ReleaseLatency,
        };
        Ok(Self { without, with, pages, series })
    }

    /// Compares the files of the two cells.
    fn worth(&self, dir: &Path, options: &TuneMeasureOptions) -> Result<Worth, Failure> {
        let bench = RunFile::read(&dir.join(BENCH_FILE))?;
        let refused = bench.bench.iter().flat_map(|bench| &bench.not_permitted).next();
        if let Some(refused) = refused {
            let what = options.what.clone();
            let why = refused.why_not.clone();
            return Err(MeasureTuningFailure::NotPermitted { what, why }.into());
        }

        let read = |tuning: &CellTuning| {
            let cell = Cell::new(tuning.to_string(), options.load.to_string());
            RunFile::read(&dir.join(cell.file_name()))
        };
        let request = WorthRequest { series: self.series, at: options.at };
        Ok(worth::of(&read(&self.without)?, &read(&self.with)?, request)?)
    }
}

/// The bench that the measurement is.
fn bench_options(options: &TuneMeasureOptions, sides: &Sides) -> Result<BenchOptions, Failure> {
    let usual = BenchOptions::usual()?;
    Ok(BenchOptions {
        duration: options.duration,
        tunings: vec![sides.without.clone(), sides.with.clone()],
        loads: vec![options.load.clone()],
        load_dir: options.load_dir.clone(),
        cpu: options.cpu,
        priority: options.priority,
        spin: options.spin,
        // Its cost would be on one side when that side has more spikes.
        no_causes: true,
        seed: options.seed,
        resume: options.resume,
        quiet: options.quiet || options.json,
        looping: options.looping.clone(),
        output: OutputOptions { out: options.out.clone(), json: options.json, ..usual.output },
        ..usual
    })
}

fn check_rights(plan: &BenchPlan, options: &TuneMeasureOptions) -> Result<(), Failure> {
    let changes = plan.settings.iter().any(|setting| !setting.plan.steps.is_empty());
    if changes && !LiveHost::new().is_root() {
        let what = options.what.clone();
        return Err(MeasureTuningFailure::NeedsRoot { what, command: typed().join(" ") }.into());
    }

    Ok(())
}

/// Says what will be changed, and what that may break.
fn say_changes(plan: &BenchPlan, options: &TuneMeasureOptions) {
    for setting in &plan.settings {
        for change in setting.changes_in_words() {
            advise(Tone::Faint, &wrapped(&format!("in turns  {change}"), columns()));
        }
        for left in &setting.left_out {
            advise(Tone::Careful, &wrapped(&format!("not measured: {left}"), columns()));
        }

        let mut risks: Vec<&str> =
            setting.plan.steps.iter().map(|step| step.risk.as_str()).collect();
        risks.dedup();
        for risk in risks.into_iter().filter(|risk| !risk.is_empty()) {
            advise(Tone::Careful, &wrapped(&format!("risk  {risk}"), columns()));
        }
    }
    let on = format!("{} takes turns on CPU {}", options.what, plan.cpu);
    advise(Tone::Faint, &wrapped(&on, columns()));
}

/// A measurement as `--json` prints it.
#[derive(Serialize)]
struct PrintedMeasurement<'m> {
    schema: &'static str,
    /// The tuning of the blocks with it.
    with: String,
    sentence: String,
    visible: bool,
    #[serde(flatten)]
    result: &'m RememberedWorth,
}

fn print(
    options: &TuneMeasureOptions,
    sides: &Sides,
    result: &RememberedWorth,
) -> Result<(), Failure> {
    let sentence = result.worth.sentence(&options.what);
    if options.json {
        let printed = PrintedMeasurement {
            schema: MEASURE_SCHEMA,
            with: sides.with.to_string(),
            sentence,
            visible: result.worth.is_visible(),
            result,
        };
        say(Tone::Plain, &serde_json::to_string(&printed)?);
        return Ok(());
    }

    say_folded(Tone::Head, &sentence);
    let how = format!(
        "{}, {} pairs of blocks in turns, {} against {}; the interval has 99 %",
        under(&result.load),
        result.worth.pairs,
        sides.with,
        sides.without
    );
    say_folded(Tone::Plain, &capital(&how));
    Ok(())
}
