//! `onbeat vm lab`: a matrix of guests.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;

use onbeat::campaign::CampaignEvent;
use onbeat::record::Series;
use onbeat_lab::vm::{
    BootImage, CellFigures, ClockChoice, Free, KernelChoice, LabGuest, LabResults, Laboratory,
    Matrix, Measures, Shard, Virtual, VmClock,
};
use onbeat_report::Table;
use onbeat_report::units::counted;
use serde_json::{Value, json};

use super::options::{StockOptions, VmLabOptions};
use super::run::NOT_REPEATABLE;
use super::stock::Stock;
use crate::cmd::cells::{CellLines, say_missing};
use crate::cmd::failure::vm::VmFailure;
use crate::cmd::measure::in_guest::guest_plan;
use crate::cmd::{ExitVerdict, Failure};
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::term::print_json;
use crate::term::{Tone, advise, columns, say};

/// Guests give way to everything else on this machine; in virtual time that changes no figure.
pub(in crate::cmd) const NICENESS: i32 = 19;

pub(in crate::cmd) fn run(options: &VmLabOptions) -> Result<ExitVerdict, Failure> {
    let path = &options.file;
    let (mut matrix, is_the_agents) = read(path)?;
    if options.verify.is_some() {
        refuse_own_guests(&matrix, path, "--verify")?;
    }
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let _end = EndOf::prompt("its guest");
    let stop = &interruptions.stop;
    let stock = stock(&options.stock, &mut matrix, is_the_agents)?;
    let boots = boots(&stock, &matrix)?;

    let out = options.out.clone().unwrap_or_else(|| default_out(path));
    let niceness = if matrix.clock == ClockChoice::Real { 0 } else { NICENESS };
    let laboratory = Laboratory {
        work: &stock.work,
        out: &out,
        boots,
        jobs: jobs(options, matrix.clock),
        niceness,
        again: options.verify.unwrap_or(0),
        shard: options.shard.unwrap_or(Shard::WHOLE),
    };

    let mut progress = CellLines::new(&begun);
    let mut report = |event: CampaignEvent<'_>| progress.show(&event);
    match (matrix.clock, laboratory.boots.first()) {
        (ClockChoice::Virtual { shift }, _) => {
            let clock = |seed| Virtual { shift, seed };
            let results = laboratory.conduct(&matrix, clock, stop, &mut report)?;
            say_figures(options, &results)?;
            if matrix.own_guest().is_some() && !options.json {
                say(Tone::Faint, NOT_REPEATABLE);
            }
            Ok(conclude(&results, &out, stop.load(Ordering::Relaxed)))
        }
        (ClockChoice::Real, Some(boot)) => {
            let real = stock.real_clock(boot, stop)?;
            let results = laboratory.conduct(&matrix, |_| real.clone(), stop, &mut report)?;
            say_figures(options, &results)?;
            Ok(conclude(&results, &out, stop.load(Ordering::Relaxed)))
        }
        _ => {
            let results = laboratory.conduct(&matrix, |_| Free, stop, &mut report)?;
            if options.json {
                print_json(&outline(&results))?;
            } else {
                say_table(&results.table_without_figures());
            }
            Ok(conclude(&results, &out, stop.load(Ordering::Relaxed)))
        }
    }
}

/// What the guests of a laboratory are made of; it measures by plans where they carry the agent.
pub(super) fn stock(
    options: &StockOptions,
    matrix: &mut Matrix,
    is_the_agents: bool,
) -> Result<Stock, Failure> {
    let stock = Stock::open(options)?;
    let stock = if is_the_agents { stock.with_agent_if_needed() } else { stock };
    if !stock.has_agent() {
        matrix.plans = None;
    }
    Ok(stock)
}

/// Reads a laboratory, and whether the agent can do all that its guests have to do.
pub(super) fn read(path: &Path) -> Result<(Matrix, bool), Failure> {
    let mut matrix =
        Matrix::read(path).map_err(|source| VmFailure::File { path: path.to_owned(), source })?;
    let refused = |why| VmFailure::Measured { path: path.to_owned(), why };
    let is_the_agents = matrix.plan_by(guest_plan).map_err(refused)?;
    Ok((matrix, is_the_agents))
}

/// Refuses what compares the bytes that guests send where one of them is the user's.
pub(super) fn refuse_own_guests(
    matrix: &Matrix,
    path: &Path,
    what: &'static str,
) -> Result<(), VmFailure> {
    let kernel = matrix.own_guest().map(|own| own.name.clone());
    kernel.map_or(Ok(()), |kernel| {
        Err(VmFailure::NotRepeatable { path: path.to_owned(), kernel, what })
    })
}

/// The boot images of the kernels, in order.
pub(in crate::cmd) fn boots(stock: &Stock, matrix: &Matrix) -> Result<Vec<BootImage>, Failure> {
    let boot = |kernel: &KernelChoice| match kernel.open(&stock.work, &stock.source)? {
        LabGuest::Kernel(kernel) => stock.boot(&kernel, &[], matrix.wiring),
        LabGuest::Own(own) => stock.boot_own(&own),
    };
    matrix.kernels.iter().map(boot).collect()
}

pub(in crate::cmd) fn default_out(file: &Path) -> PathBuf {
    Path::new("onbeat-lab").join(file.file_stem().unwrap_or_default())
}

/// Guests by the real clock would disturb each other: one at a time without --jobs.
fn jobs(options: &VmLabOptions, clock: ClockChoice) -> usize {
    let usual = || match clock {
        ClockChoice::Real => 1,
        ClockChoice::Virtual { .. } | ClockChoice::Free => {
            thread::available_parallelism().map_or(1, NonZero::get)
        }
    };
    options.jobs.map_or_else(usual, usize::from)
}

/// The sentence before the first guest.
pub(in crate::cmd) fn begun(guests: usize, stored: usize, _: usize) -> String {
    let stand = if stored == 1 { "is" } else { "are" };
    let (guests, stored) = (counted(guests as u64, "guest"), counted(stored as u64, "experiment"));
    format!("{guests} to run, {stored} {stand} stored")
}

fn say_figures<C: Measures>(
    options: &VmLabOptions,
    results: &LabResults<C>,
) -> Result<(), Failure> {
    if !options.json {
        say_tables(&results.tables()?);
        return Ok(());
    }

    let mut object = outline(results);
    object["unit"] = C::UNIT.into();
    let mut cells = Vec::new();
    for series in results.series()? {
        cells.extend(results.cells_of(series)?.iter().map(|cell| cell_json(series, cell)));
    }
    object["cells"] = cells.into();
    Ok(print_json(&object)?)
}

/// Prints tables with an empty line between two of them.
pub(in crate::cmd) fn say_tables(tables: &[Table]) {
    for (place, table) in tables.iter().enumerate() {
        if place > 0 {
            say(Tone::Plain, "");
        }
        say_table(table);
    }
}

fn say_table(table: &Table) {
    if !table.rows.is_empty() {
        say(Tone::Plain, table.to_text(columns()).trim_end());
    }
}

fn outline<C: VmClock>(results: &LabResults<C>) -> Value {
    json!({
        "clock": C::NAME, "stored": results.stored.len(), "failed": results.failed.len(),
        "missing": results.missing, "compared": results.compared, "differing": results.differing.len(),
    })
}

fn cell_json<C: Measures>(series: Series, cell: &CellFigures<C>) -> Value {
    let figures = &cell.figures;
    json!({
        "series": series.tag(), "kernel": cell.cell.kernel, "command_line": cell.cell.command_line, "tuning": cell.cell.tuning,
        "load": cell.cell.load, "guests": cell.guests, "samples": figures.samples,
        "min_ns": figures.min_ns, "mean_ns": figures.mean_ns, "p50_ns": figures.median_ns, "p99_ns": figures.p99_ns, "max_ns": figures.max_ns,
        "worst_seed": cell.worst_seed, "worst": cell.worst,
    })
}

/// Says what is missing, and returns the verdict.
pub(in crate::cmd) fn conclude<C: VmClock>(
    results: &LabResults<C>,
    out: &Path,
    stopped: bool,
) -> ExitVerdict {
    let compared = results.compared;
    let differing = results.differing.len();
    if compared > 0 {
        let tone = if differing == 0 { Tone::Good } else { Tone::Bad };
        advise(tone, &format!("{} of {compared} guests sent the same bytes", compared - differing));
    }
    say_missing(results.missing, "experiments", stopped);
    advise(Tone::Faint, &format!("results in {}", out.display()));

    if differing > 0 {
        ExitVerdict::Fail
    } else if results.missing > 0 || !results.failed.is_empty() {
        ExitVerdict::Inconclusive
    } else {
        ExitVerdict::Pass
    }
}
