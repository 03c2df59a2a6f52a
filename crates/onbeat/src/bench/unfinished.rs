//! A bench that was killed or ended early: what each of its cells has measured, and the schedule of
//! the rest.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::error::BenchError;
use super::plan::{BenchPlan, pace, scheduled};
use super::schedule::Schedule;
use super::shared_file::{SharedFile, past_of};
use crate::probe::resume::OtherRun;
use crate::probe::{self, Origin};
use onbeat_record::run_dir::BENCH_FILE;
use onbeat_record::{Bench, Cell, EndReason, Past, RunFile, RunFileError, WriteError};

/// Interval between two attempts to open the file of a cell whose process is still closing it.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Attempts: the cells of a killed bench stop their block and close their files within
/// milliseconds, on a loaded machine within seconds.
const MOST_LOOKS: u32 = 200;

/// An unfinished bench. Its own file is locked: no other bench writes it.
#[derive(Debug)]
pub struct UnfinishedBench {
    /// The file of the bench.
    file: Past,
    measured: MeasuredBench,
}

/// What an unfinished bench was planned to be, and what its cells have measured.
#[derive(Debug)]
pub(super) struct MeasuredBench {
    note: Bench,
    pub(super) cells: BTreeMap<Cell, MeasuredCell>,
}

/// What the file of a cell holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredCell {
    /// Complete blocks.
    pub(super) blocks: u32,
    has_dropped: bool,
    pub(super) has_closing_line: bool,
    /// The last instant of the file, in seconds since the start of the bench.
    last_t: f64,
}

impl UnfinishedBench {
    /// Opens the bench in `dir`; `None` when it is complete, when it was cut off before its cells
    /// were prepared, and for a directory of another command. Waits until the processes of its
    /// cells have closed their files.
    ///
    /// # Errors
    /// [`RunFileError`]; [`RunFileError::BeingWritten`] while the bench is alive.
    pub fn open(dir: &Path) -> Result<Option<Self>, RunFileError> {
        let Some(file) = past_of(&dir.join(BENCH_FILE), Past::open)? else { return Ok(None) };
        if file.header.probe != "bench" || file.ended == Some(EndReason::Complete) {
            return Ok(None);
        }

        let Some(note) = RunFile::read(&file.path)?.bench else { return Ok(None) };
        let mut cells = BTreeMap::new();
        for load in &note.loads {
            for tuning in &note.tunings {
                for cell in note.cells(tuning, load) {
                    if let Some(measured) = MeasuredCell::read(&dir.join(cell.file_name()))? {
                        cells.insert(cell, measured);
                    }
                }
            }
        }

        Ok(Some(Self { file, measured: MeasuredBench { note, cells } }))
    }

    /// Returns whether the bench was cut off rather than ended.
    #[must_use]
    pub const fn is_cut_off(&self) -> bool {
        self.file.ended.is_none()
    }

    /// Returns the cells whose last block was not complete: it is dropped and measured again.
    pub fn dropped(&self) -> impl Iterator<Item = &Cell> {
        self.measured
            .cells
            .iter()
            .filter(|(_, measured)| measured.has_dropped)
            .map(|(cell, _)| cell)
    }

    /// Returns the number of tunings under a load that are permitted, on one CPU at least.
    #[must_use]
    pub fn permitted(&self) -> usize {
        let note = &self.measured.note;
        let all = note.loads.iter().flat_map(|load| note.tunings.iter().map(move |of| (of, load)));
        all.filter(|(tuning, load)| self.measured.is_permitted(&note.cells(tuning, load))).count()
    }

    /// Returns the schedule of the blocks that are left. Blocks have the length that was planned at
    /// first.
    ///
    /// # Errors
    /// As [`scheduled`].
    pub fn rest(&self, plan: &BenchPlan) -> Result<Schedule, BenchError> {
        let cells = |load: usize, tuning: usize| plan.cells(load, &plan.tunings[tuning]);
        let whole = scheduled(plan)?;
        let rest = whole
            .skip_blocks(|load, tuning| self.measured.blocks_of_all(&cells(load, tuning)))
            .retain_cells(|load, tuning| self.measured.is_permitted(&cells(load, tuning)));
        let block_s = self.measured.note.block_s;
        let estimate_s = pace(plan).estimate_s(&rest.turns, block_s);

        Ok(Schedule { block_s, estimate_s, ..rest })
    }

    /// Refuses to resume on another machine.
    ///
    /// # Errors
    /// [`OtherRun`].
    pub fn check(&self, plan: &BenchPlan) -> Result<(), OtherRun> {
        let now = probe::header(&plan.command, "bench", &[], self.file.header.started_unix_s);
        OtherRun::check(&self.file, &now)
    }

    /// Opens the file of the bench for writing, which decides where all its files continue.
    pub(super) fn take_up(self, origin: Origin) -> Result<(SharedFile, MeasuredBench), WriteError> {
        let Self { file, measured } = self;
        let last_t = measured.cells.values().map(|cell| cell.last_t).fold(0.0, f64::max);
        Ok((SharedFile::resume(file, last_t, origin)?, measured))
    }
}

impl MeasuredBench {
    /// Returns the number of blocks that all of these cells have. Loops that ran at the same time do
    /// not end in the same instant: where a kill came in between, some of them have one more, and
    /// keep it.
    fn blocks_of_all(&self, cells: &[Cell]) -> u32 {
        let permitted = cells.iter().filter(|cell| self.why_not_permitted(cell).is_none());
        let blocks = |cell: &Cell| self.cells.get(cell).map_or(0, |measured| measured.blocks);
        permitted.map(blocks).min().unwrap_or(0)
    }

    fn is_permitted(&self, cells: &[Cell]) -> bool {
        cells.iter().any(|cell| self.why_not_permitted(cell).is_none())
    }

    pub(super) fn why_not_permitted(&self, cell: &Cell) -> Option<String> {
        self.note
            .not_permitted
            .iter()
            .find(|refused| refused.cell == *cell)
            .map(|refused| refused.why_not.clone())
    }
}

impl MeasuredCell {
    /// Reads the file of a cell; `None` for a cell that has none, or one without a header.
    fn read(path: &Path) -> Result<Option<Self>, RunFileError> {
        let open = || past_of(path, Past::open_at_whole_block);
        let mut opened = open();
        for _ in 0..MOST_LOOKS {
            let Err(RunFileError::BeingWritten { .. }) = opened else { break };
            thread::sleep(LOOK_EVERY);
            opened = open();
        }

        Ok(opened?.map(|past| Self {
            blocks: past.next_block,
            has_dropped: past.dropped.is_some(),
            has_closing_line: past.ended.is_some(),
            last_t: past.last_t,
        }))
    }
}
