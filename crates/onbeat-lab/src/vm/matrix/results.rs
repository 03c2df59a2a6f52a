//! Figures of a laboratory: one row per cell, over all its seeds.

use std::marker::PhantomData;
use std::path::PathBuf;

use onbeat::record::Series;
use onbeat_figures::Statistics;
use onbeat_figures::table::{Column, Row, Table};
use onbeat_figures::units::capital;

use super::{Experiment, LabCell, StoredExperiment};
use crate::vm::VmError;
use crate::vm::clock::{Free, Measures, VmClock};
use crate::vm::figures::{GuestFigures, in_us, merged};

/// Results of a laboratory whose guests ran by clock `C`.
#[derive(Clone, Debug)]
pub struct LabResults<C: VmClock> {
    /// Experiments with results, in the order of the file.
    pub stored: Vec<StoredExperiment>,
    /// Experiments that failed, with the reason.
    pub failed: Vec<(String, String)>,
    /// Experiments that sent other bytes when they were run again.
    pub differing: Vec<Experiment>,
    /// Number of guests that were run again for comparison.
    pub compared: usize,
    /// Number of experiments that were not run, because of a stop.
    pub missing: usize,
    pub(super) clock: PhantomData<C>,
}

/// The figures of a cell by clock `C`, over all its seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct CellFigures<C: Measures> {
    pub cell: LabCell,
    /// Number of guests.
    pub guests: usize,
    /// Figures over the samples of all guests.
    pub figures: GuestFigures<C>,
    /// The seed with the largest sample; of equal ones the first.
    pub worst_seed: u32,
    /// Directory of that experiment.
    pub worst: PathBuf,
}

/// Columns that name a cell.
const NAMES: [&str; 4] = ["kernel", "command line", "tuning", "load"];

impl<C: VmClock> LabResults<C> {
    /// Stored experiments by cell, in order.
    fn by_cell(&self) -> impl Iterator<Item = &[StoredExperiment]> {
        self.stored.chunk_by(|a, b| a.cell == b.cell)
    }
}

impl<C: Measures> LabResults<C> {
    /// The series that the measurement is about, the main one first; none without results.
    ///
    /// # Errors
    /// When a stored run file cannot be read.
    pub fn series(&self) -> Result<Vec<Series>, VmError> {
        self.stored.first().map_or_else(|| Ok(Vec::new()), StoredExperiment::series)
    }

    /// Returns the figures of a series of each cell that has samples, in the order of the file.
    ///
    /// # Errors
    /// When a stored run file cannot be read.
    pub fn cells_of(&self, series: Series) -> Result<Vec<CellFigures<C>>, VmError> {
        let mut cells = Vec::new();
        for guests in self.by_cell() {
            cells.extend(cell_figures(guests, series)?);
        }

        Ok(cells)
    }

    /// Returns a table of the cells for each series, the main one first.
    ///
    /// # Errors
    /// As [`Self::cells_of`].
    pub fn tables(&self) -> Result<Vec<Table>, VmError> {
        let table = |series| Ok(figures_table(series, &self.cells_of(series)?));
        self.series()?.into_iter().map(table).collect()
    }
}

impl LabResults<Free> {
    /// Returns the table of the cells by the free clock, which has no figures.
    #[must_use]
    pub fn table_without_figures(&self) -> Table {
        let rows = self.by_cell().filter_map(|guests| {
            let mut row = names(&guests.first()?.cell);
            row.push(guests.len().to_string());
            Some(row)
        });
        Table {
            title: "Guests that ended their job (free clock)".to_owned(),
            columns: Column::all(&NAMES, &["guests"]),
            rows: rows.map(Row::new).collect(),
            legend: vec![
                "No latencies: by the free clock every kernel has the emulator's, milliseconds that differ each time. \
                 clock = \"virtual\" ranks kernels."
                    .to_owned(),
            ],
        }
    }
}

/// The figures of the guests of one cell; none without samples.
fn cell_figures<C: Measures>(
    guests: &[StoredExperiment],
    series: Series,
) -> Result<Option<CellFigures<C>>, VmError> {
    let samples = guests.iter().map(|one| one.samples(series)).collect::<Result<Vec<_>, _>>()?;
    let (distribution, moments) = merged(&samples);
    // Of equal ones `max_by_key` takes the last.
    let of_guests = guests.iter().zip(&samples).rev().filter(|(_, (_, moments))| moments.n > 0);
    let worst = of_guests.max_by_key(|(_, (_, moments))| moments.max_ns);
    let statistics = Statistics::new(&distribution, &moments);
    let (Some(statistics), Some((worst, _))) = (statistics, worst) else { return Ok(None) };
    Ok(Some(CellFigures {
        cell: worst.cell.clone(),
        guests: guests.len(),
        figures: GuestFigures::from_statistics(&statistics),
        worst_seed: worst.seed,
        worst: worst.directory.clone(),
    }))
}

fn figures_table<C: Measures>(series: Series, cells: &[CellFigures<C>]) -> Table {
    let rows = cells.iter().map(|cell| {
        let mut row = names(&cell.cell);
        let figures = &cell.figures;
        row.extend([cell.guests.to_string(), figures.samples.to_string()]);
        row.extend([in_us(Some(figures.min_ns)), in_us(Some(figures.mean_ns.round() as u64))]);
        row.extend([figures.median_ns, figures.p99_ns, Some(figures.max_ns)].map(in_us));
        row.push(cell.worst_seed.to_string());
        Row::new(row)
    });
    Table {
        title: format!("{} in {} ({} clock)", title(series), C::UNIT, C::NAME),
        columns: Column::all(
            &NAMES,
            &["guests", "samples", "min", "avg", "p50", "p99", "max", "worst seed"],
        ),
        rows: rows.collect(),
        legend: C::LEGEND.iter().map(|line| (*line).to_owned()).collect(),
    }
}

/// A series at the beginning of a title.
fn title(series: Series) -> String {
    let words = match series {
        // Nothing is skipped where the loop keeps up, and then both are one.
        Series::ReleaseLatency => Series::WakeupLatency.words(),
        series => series.words(),
    };
    capital(words)
}

fn names(cell: &LabCell) -> Vec<String> {
    let LabCell { kernel, command_line, tuning, load } = cell.clone();
    vec![kernel, command_line, tuning, load]
}

#[cfg(test)]
mod tests {
    use onbeat::record::{Distribution, Moments};

    use super::*;
    use crate::vm::clock::Virtual;

    fn cell(load: &str, samples: impl IntoIterator<Item = u64>) -> CellFigures<Virtual> {
        let values: Vec<u64> = samples.into_iter().collect();
        let mut moments = Moments::default();
        values.iter().for_each(|&ns| moments.add(ns));
        let statistics = Statistics::new(&Distribution::from_values(values), &moments);
        CellFigures {
            cell: LabCell {
                kernel: "rt".to_owned(),
                command_line: "default".to_owned(),
                tuning: "PM".to_owned(),
                load: load.to_owned(),
            },
            guests: 10,
            figures: GuestFigures::from_statistics(&statistics.expect("samples")),
            worst_seed: 7,
            worst: PathBuf::new(),
        }
    }

    #[test]
    fn a_table_names_clock_and_unit_and_leaves_out_unsupported_percentiles() {
        let cells = [cell("idle", (1..=2000).map(|n| n * 8)), cell("writer", [40_008, 50_000])];
        let table = figures_table(Series::ReleaseLatency, &cells);
        let text = table.to_text(120);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Wake-up latency in virtual us (virtual clock)");
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let rows: Vec<Vec<String>> = lines.iter().map(|line| words(line)).collect();
        assert!(
            rows.contains(&words("rt default PM idle 10 2000 0.0 8.0 8.0 15.8 16.0 7")),
            "{text}"
        );
        assert!(rows.contains(&words("rt default PM writer 10 2 40.0 45.0 - - 50.0 7")), "{text}");
        assert!(text.contains("predicts no hardware"), "{text}");
    }

    #[test]
    fn by_the_free_clock_guests_are_counted_and_no_latency_is_printed() {
        let results = LabResults::<Free> {
            stored: Vec::new(),
            failed: Vec::new(),
            differing: Vec::new(),
            compared: 0,
            missing: 0,
            clock: PhantomData,
        };
        let text = results.table_without_figures().to_text(200);
        assert!(!text.contains("p99") && !text.contains("max"), "{text}");
        assert!(text.contains("No latencies"), "{text}");
    }
}
