//! What happens during an experiment.

use std::error::Error;

use onbeat_record::{Cell, CellNotPermitted, Progress, Recorder};

/// What happens during an experiment. The words for people are the caller's.
pub enum CampaignEvent<'e> {
    /// The schedule of cells that take turns, before the first block; one that is resumed has none.
    Planned {
        /// Estimate of the whole time, in seconds.
        estimate_s: f64,
        /// Blocks of each cell.
        blocks_per_cell: u32,
        /// Length of a block, in seconds.
        block_s: f64,
    },
    /// The cells are prepared.
    Prepared {
        /// Number of cells that run.
        running: usize,
        /// Cells that are not permitted, and why.
        not_permitted: &'e [CellNotPermitted],
    },
    /// Results were looked for, before the first measurement.
    Begun {
        /// Measurements to make.
        due: usize,
        /// Measurements that are stored.
        stored: usize,
        /// Measurements that wait for a reboot.
        waiting: usize,
    },
    /// The run is resumed in its file.
    Resumed,
    /// Settings of this machine are made for the cells that follow.
    Made {
        /// What they are made for.
        row: &'e str,
        /// Settings in effect.
        settings: usize,
        /// What the kernel refused.
        refused: &'e [String],
    },
    /// A sentence about what is measured.
    Said(&'e str),
    /// A sentence that the reader of the figures must know.
    Warned(&'e str),
    /// A block runs; reported every 20 to 50 ms.
    Running {
        /// The cell of the block.
        cell: &'e Cell,
        /// Seconds since this process began or resumed it.
        elapsed_s: f64,
        /// The recorder of its run, where this process has it.
        recorder: Option<&'e mut Recorder>,
    },
    /// Loops run on several CPUs at the same time; reported every 50 ms.
    AtOnce {
        /// Since the loops began, in seconds.
        elapsed_s: f64,
        /// Releases served so far, on all CPUs.
        cycles: u64,
        /// The CPU of the largest release latency so far, and that latency in nanoseconds.
        worst: (u32, u64),
    },
    /// A block is complete.
    Block {
        /// The cell.
        cell: &'e Cell,
        /// The results of the cell so far.
        progress: Progress,
    },
    /// A cell is measured and stored.
    Stored {
        /// Its name.
        cell: &'e str,
        /// Seconds that it took, by this machine's clock.
        elapsed_s: f64,
    },
    /// A stored cell was measured again.
    Compared {
        /// Its name.
        cell: &'e str,
        /// Whether its bytes are those that are stored.
        same: bool,
    },
    /// A cell failed; the others go on.
    Failed {
        /// Its name.
        cell: &'e str,
        /// Why.
        why: &'e dyn Error,
    },
}

/// Receives what happens.
pub type CampaignReport<'r> = &'r mut dyn FnMut(CampaignEvent<'_>);
