//! What an experiment has around it.

use std::process::Command;
use std::sync::atomic::Ordering;

use crate::campaign::CampaignReport;
use crate::load::Load;
use crate::probe::Interruptions;

/// The processes and signals around an experiment.
pub struct Conditions<'c> {
    /// Returns a command whose process carries a load ([`crate::load::serve`]); the load `idle`
    /// needs none.
    pub carrier: &'c dyn Fn(&Load) -> Command,
    /// Signals.
    pub interruptions: &'c Interruptions,
    /// Receives what happens.
    pub report: CampaignReport<'c>,
}

impl Conditions<'_> {
    /// Whether the user asked to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.interruptions.stop.load(Ordering::Relaxed)
    }
}
