//! The figures that stand first: before and after in numbers.

use super::cell::CellSummary;
use super::statistics::{Percentile, Share};
use super::summary::Summary;
use super::table::NO_FIGURE;
use super::units::{Letters, count, percent, time_ns};
use super::verdict::Limit;

pub use super::digest::SHARES;

/// A line of the figures before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRow {
    /// `p99`, `max`, `missed or skipped`.
    pub name: String,
    /// For each tuning of the focus.
    pub figures: Vec<FirstFigure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstFigure {
    /// With its unit; `-` where it is not known.
    pub text: String,
    /// Whether at least ten samples are beyond it; an observation always is.
    pub supported: bool,
}

impl Summary {
    /// The cells to look at first: those of its focus, and of a run without one its only cell.
    #[must_use]
    pub fn first_cells(&self) -> Vec<&CellSummary> {
        match &self.focus {
            Some(focus) => {
                let cell = |tuning: &String| self.cell(tuning, &focus.load);
                focus.tunings.iter().filter_map(cell).collect()
            }
            None => self.cells.iter().filter(|cell| cell.main().is_some()).collect(),
        }
    }

    /// Figures of [`Self::first_cells`] in lines: percentiles, the largest value, missed or skipped.
    #[must_use]
    pub fn first_rows(&self, letters: Letters) -> Vec<FirstRow> {
        let cells = self.first_cells();
        let row = |name: String, of: &dyn Fn(&CellSummary) -> Option<FirstFigure>| FirstRow {
            name,
            figures: cells
                .iter()
                .map(|cell| of(cell).unwrap_or_else(|| observed(NO_FIGURE.to_owned())))
                .collect(),
        };
        let of_share = |share: Share| {
            row(share.label(), &move |cell: &CellSummary| {
                let Percentile { value_ns, supported, .. } = cell.main()?.1.percentile(share)?;
                Some(FirstFigure { text: time_ns(value_ns, letters), supported })
            })
        };

        let mut rows: Vec<FirstRow> = SHARES.into_iter().map(of_share).collect();
        rows.push(row("max".to_owned(), &|cell: &CellSummary| {
            Some(observed(time_ns(cell.main()?.1.max_ns, letters)))
        }));
        // A limit on another series is not of these figures.
        let is_of_these = |limit: &Limit| {
            limit.limit_ns > 0
                && cells.iter().any(|cell| cell.main().is_some_and(|(of, _)| of == limit.on))
        };
        if let Some(limit) = self.limit.filter(is_of_these)
            && cells.iter().any(|cell| cell.verdict.is_some())
        {
            let name = format!("over {}", time_ns(limit.limit_ns, letters));
            rows.push(row(name, &|cell: &CellSummary| {
                let verdict = cell.verdict.as_ref()?;
                Some(observed(share(verdict.over, verdict.releases)))
            }));
        }
        if cells.iter().any(|cell| cell.deadline_misses.is_some() || cell.skipped.is_some()) {
            rows.push(row("missed or skipped".to_owned(), &late));
        }
        rows
    }
}

/// `10.7 % (420 of 3,921)`; `None` where the source does not count them, or nothing was released.
fn late(cell: &CellSummary) -> Option<FirstFigure> {
    if cell.slots == 0 || cell.deadline_misses.is_none() && cell.skipped.is_none() {
        return None;
    }
    Some(observed(share(cell.late_or_skipped(), cell.slots)))
}

fn share(part: u64, all: u64) -> String {
    let rate = percent(part as f64 / all.max(1) as f64);
    format!("{rate} ({} of {})", count(part), count(all))
}

const fn observed(text: String) -> FirstFigure {
    FirstFigure { text, supported: true }
}
