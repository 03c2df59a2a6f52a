//! A cell while its bench is running.

use std::path::Path;

use super::cell::{CellProcess, CellRequest};
use super::cell_tuning::CellTuning;
use super::error::BenchError;
use onbeat_host::thread::{Grant, Privilege};
use onbeat_record::{Cell, CellNotPermitted};

/// A cell of the bench, with its process while it may run.
pub(super) struct CellSlot {
    pub(super) cell: Cell,
    pub(super) tuning: CellTuning,
    pub(super) process: Option<CellProcess>,
    pub(super) why_not: Option<String>,
    pub(super) blocks: u32,
}

impl CellSlot {
    pub(super) fn not_permitted(&self) -> Option<CellNotPermitted> {
        Some(CellNotPermitted { cell: self.cell.clone(), why_not: self.why_not.clone()? })
    }

    /// Asks the cell for its next block, where it runs.
    pub(super) fn request_block(&mut self, releases: u64) -> Result<(), BenchError> {
        let Some(process) = &mut self.process else { return Ok(()) };
        process.request(&CellRequest::Block { index: self.blocks, releases })?;
        self.blocks += 1;
        Ok(())
    }

    /// Marks the cell as not permitted: its process ends, and its run file, without samples, is
    /// removed.
    pub(super) fn refuse(&mut self, why: String, file: &Path) -> Result<(), BenchError> {
        self.why_not = Some(why);
        if let Some(process) = self.process.take() {
            process.close()?;
        }

        // A file without samples is read as a cell that never ran, so a failure here loses nothing.
        let _ = std::fs::remove_file(file);
        Ok(())
    }
}

/// Returns whether a grant is part of a tuning. A cell runs without the others: evidence, idle
/// states.
pub(super) fn is_part_of_tuning(grant: &Grant) -> bool {
    use Privilege::{CpuAffinity, LockedMemory, RealTimePriority};
    matches!(grant.privilege(), Some(RealTimePriority | LockedMemory | CpuAffinity))
}
