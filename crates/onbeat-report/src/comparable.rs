//! Whether runs can be compared at all: what is not the same, and what the samples do not carry.

use std::collections::BTreeSet;

use super::bootstrap::{LEAST_RUNS, LEAST_STRETCHES};
use super::cell::CellSummary;
use super::digest::{Compared, Digest, WANDERS};
use super::load_events;
use super::order_statistics::ASSUMPTION;
use super::statistics::{LEAST_ABOVE, Share};
use super::units::{Letters, count, counted, listed, time_ns};
use onbeat_record::Series;

/// Sentences about what stands against comparing these runs; the last one always does.
#[must_use]
pub fn warnings(runs: &[Digest], cells: &[Compared]) -> Vec<String> {
    let mut warnings = Vec::new();
    if cells.is_empty() && runs.len() > 1 {
        let why = match has_series_in_common(runs) {
            true => {
                "The runs have no tuning or stream of the same name: nothing can be compared; two of their run files \
                 can be, whatever they are called"
            }
            false => "The runs have no series in common: nothing can be compared",
        };
        warnings.push(why.to_owned());
    }

    let mut differ = |what: &str, of: &dyn Fn(&Digest) -> Option<String>, why: &str| {
        let values: Vec<(String, String)> =
            runs.iter().filter_map(|run| Some((run.name.clone(), of(run)?))).collect();
        if values.iter().map(|(_, value)| value).collect::<BTreeSet<_>>().len() > 1 {
            let each: Vec<String> =
                values.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
            warnings.push(format!("{what}: {}; {why}", listed(&each)));
        }
    };

    let period = |run: &Digest| {
        (run.summary.period_ns > 0).then(|| time_ns(run.summary.period_ns, Letters::Ascii))
    };
    differ("The periods differ", &period, "sleeps and deadlines depend on the period");
    let probe = |run: &Digest| Some(run.probe.clone()).filter(|probe| !probe.is_empty());
    differ(
        "The runs were measured by different tools",
        &probe,
        "their measurements start and end at different instants",
    );
    let loads = |run: &Digest| {
        let is_compared = are_single(runs) || are_across_loads(runs);
        Some(run.summary.loads.join("+")).filter(|_| is_compared && !run.is_of_load)
    };
    differ("The loads differ", &loads, "their effect cannot be separated from other differences");

    for run in runs {
        for cell in &run.summary.cells {
            warnings.extend(unsupported_p99(run, cell));
            warnings.extend(lost(run, cell));
        }
        let of_loads = load_events::cautions(&run.summary.cells);
        warnings.extend(of_loads.into_iter().map(|caution| format!("{}: {caution}", run.name)));
    }

    let ratios = || cells.iter().flat_map(|cell| &cell.runs).flat_map(|figures| &figures.ratios);
    if ratios().any(|ratio| ratio.wanders) {
        warnings.push(format!("Some ratios have no interval: {WANDERS}"));
    }
    if ratios().any(|ratio| ratio.low.is_none() && !ratio.wanders) {
        warnings.push(format!(
            "Ratios without an interval have fewer than {LEAST_ABOVE} samples beyond the value, or a side with \
             neither {LEAST_STRETCHES} blocks or intervals nor {LEAST_RUNS} runs"
        ));
    }
    if ratios().any(|ratio| ratio.independently) {
        warnings.push(format!(
            "Ratios of plain histograms have intervals from ranks, {ASSUMPTION}; with three runs or more of each side \
             each run is a block: {SIDES}"
        ));
    }
    warnings.extend(runs.iter().flat_map(of_side));
    warnings.extend(alone(runs, cells));

    if runs.iter().all(|run| run.is_of_load) {
        // Loads that took turns saw the same background.
        let in_turns =
            runs.iter().all(|run| run.summary.order == onbeat_record::RunOrder::Interleaved);
        let order = "The loads ran one after another: a change in background activity can look like a difference; \
                     `onbeat measure timer --loads idle,paper` interleaves them";
        warnings.extend((!in_turns && runs.len() > 1).then(|| order.to_owned()));
        return warnings;
    }

    let order = "The runs were measured one after another: a change in background activity can look like a difference; \
                 `onbeat bench` interleaves its cells";
    warnings.push(order.to_owned());
    warnings
}

fn has_series_in_common(runs: &[Digest]) -> bool {
    let has = |run: &Digest, series: Series| {
        run.summary.cells.iter().any(|cell| cell.series.contains_key(&series))
    };
    Series::ALL.into_iter().any(|series| runs.iter().filter(|run| has(run, series)).count() > 1)
}

/// How several runs become a side.
const SIDES: &str = "onbeat compare before1 before2 before3 --against after1 after2 after3";

/// What several runs of one side were taken for, and what was not the same in them.
fn of_side(run: &Digest) -> Vec<String> {
    let mut words = Vec::new();
    let counts: BTreeSet<usize> = run.taken_together.values().copied().collect();
    for files in counts {
        let as_what = match files {
            LEAST_RUNS.. => "each as a block",
            _ => "one after the other; from three on each is a block",
        };
        words.push(format!("{}: {files} runs are taken together, {as_what}", run.name));
    }
    words.extend(run.apart.iter().map(|what| format!("{}: {what}", run.name)));
    if !run.unlike.is_empty() {
        let what = listed(&run.unlike);
        words.push(format!("The runs of {} are not alike: {what} differ", run.name));
    }
    words
}

/// Cells that one run has alone, where others are compared.
fn alone(runs: &[Digest], compared: &[Compared]) -> Option<String> {
    let is_compared = |place: usize, cell: &CellSummary| {
        compared.iter().flat_map(|of| &of.runs).any(|figures| {
            figures.run == place && figures.tuning == cell.tuning && figures.load == cell.load
        })
    };
    let name = |run: &Digest, cell: &CellSummary| match run.summary.cells.len() {
        1 => run.name.clone(),
        _ => format!("{} of {}", super::units::cell_name(&cell.tuning, &cell.load), run.name),
    };
    let left = runs.iter().enumerate().flat_map(|(place, run)| {
        let cells = run.summary.cells.iter().filter(|cell| !cell.series.is_empty());
        cells.filter(move |cell| !is_compared(place, cell)).map(move |cell| name(run, cell))
    });
    let left: Vec<String> = left.collect();
    (!left.is_empty() && !compared.is_empty())
        .then(|| format!("Without a counterpart, and not compared: {}", listed(&left)))
}

/// Whether each run has one cell: then they are compared whatever they are called.
pub(super) fn are_single(runs: &[Digest]) -> bool {
    runs.iter().all(|run| run.summary.cells.len() == 1)
}

/// Whether each run has one load, and not all the same one: then their cells are compared by
/// tuning or stream alone.
pub(super) fn are_across_loads(runs: &[Digest]) -> bool {
    let loads: BTreeSet<&Vec<String>> = runs.iter().map(|run| &run.summary.loads).collect();
    loads.len() > 1 && loads.iter().all(|of| of.len() == 1)
}

fn unsupported_p99(run: &Digest, cell: &CellSummary) -> Option<String> {
    let of = cell.main()?.1;
    (!Share::P99.is_supported_by(of.count)).then(|| {
        let name = named(run, cell);
        let has = match of.is_counted() {
            true => format!("has {}", counted(of.count, "sample")),
            false => "does not state its number of samples".to_owned(),
        };
        format!("{name} {has}; a p99 needs 1,000")
    })
}

fn lost(run: &Digest, cell: &CellSummary) -> Option<String> {
    let (lost, all) = (count(cell.lost), count(cell.slots));
    let name = named(run, cell);
    (cell.lost > 0).then(|| format!("{name} lost {lost} of {all} samples, which are in no figure"))
}

fn named(run: &Digest, cell: &CellSummary) -> String {
    match run.summary.cells.len() {
        1 => run.name.clone(),
        _ => format!("{} in {}", cell.tuning, run.name),
    }
}
