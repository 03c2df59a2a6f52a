//! The causes of the spikes of a run or of a watched machine.

use std::collections::BTreeSet;

use onbeat_report::CellSummary;
use onbeat_report::causes::{self, Causes};

/// The causes of a run's spikes, and the tunings that its report advises.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpikeCauses {
    pub(crate) causes: Causes,
    pub(crate) advised: BTreeSet<String>,
}

impl SpikeCauses {
    /// Of all cells of a run; `None` where no spike was analysed.
    pub(crate) fn from_cells(cells: &[CellSummary]) -> Option<Self> {
        let causes = causes::merged(cells.iter().map(|cell| &cell.causes));
        let remedies = cells.iter().flat_map(|cell| &cell.remedies);
        let advised = remedies.flat_map(|remedy| remedy.tunings.iter().cloned()).collect();
        (!causes.is_empty()).then_some(Self { causes, advised })
    }
}
