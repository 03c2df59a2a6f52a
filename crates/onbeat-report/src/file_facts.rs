//! What a run file says of itself: its cell, its end, and the series that it is about.

use onbeat_record::{Cell, RunFile, Series};

/// Series that are analysed besides the main one, where it has them.
const BESIDE: [Series; 3] = [Series::ResponseTime, Series::Hiccup, Series::RoundTrip];

/// The cell of a file; outside a bench, the tuning that was granted and the load that ran.
#[must_use]
pub fn cell_of(run: &RunFile) -> Cell {
    run.header.cell.clone().unwrap_or_else(|| {
        Cell::new(
            run.header.tuning(),
            run.blocks.first().map_or_else(|| "unknown".to_owned(), |block| block.load.clone()),
        )
    })
}

/// The end of a file, in seconds since its start.
pub(super) fn last_second(run: &RunFile) -> f64 {
    let intervals = run.intervals.iter().map(|interval| interval.t + interval.length);
    let entries = run.entries.iter().map(|entry| entry.t + entry.length);
    let ends = run.end.iter().map(|end| end.t);
    intervals.chain(entries).chain(ends).fold(0.0, f64::max)
}

/// The series of a run that conclusions are drawn of, the main one first: what it says that it is
/// about, and a few others; of a run that another tool recorded, all that it has.
#[must_use]
pub fn about(run: &RunFile) -> Vec<Series> {
    let has = |series: &Series| {
        run.entries.iter().any(|entry| entry.series == *series && entry.counts.count() > 0)
    };
    let mut about: Vec<Series> = match (&run.import, run.header.series.as_slice()) {
        (Some(_), _) => Series::ALL.into_iter().filter(has).collect(),
        (None, []) => vec![Series::ReleaseLatency],
        (None, series) => series.iter().copied().filter(has).collect(),
    };

    for series in BESIDE.into_iter().filter(has) {
        if run.import.is_none() && !about.contains(&series) {
            about.push(series);
        }
    }

    about
}
