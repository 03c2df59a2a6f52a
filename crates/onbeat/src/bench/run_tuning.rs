//! One tuning for one run, as long as it lasts: what a bench makes before each block of a cell and
//! undoes after it is made before the run and undone at its end.
//!
//! A run that is killed leaves its changes in the journal; the next start of onbeat undoes them.

use std::path::PathBuf;

use onbeat_rt::Wait;

use super::cell_tuning::{CellTuning, LoopOptions};
use super::error::BenchError;
use super::host_settings::HostSetting;
use super::shielding::Shielding;
use crate::probe::Setting;
use onbeat_host::thread::Grant;

/// A tuning, with everything that this machine needs to make it.
#[derive(Clone, Debug)]
pub struct RunTuning {
    /// The tuning.
    pub tuning: CellTuning,
    /// The settings of the host that it names, resolved for this machine, in its order.
    pub settings: Vec<HostSetting>,
    /// The CPU of the loop, where the tuning binds or shields it.
    pub cpu: u32,
    /// Real-time priority that P sets, 1 to 99.
    pub priority: u32,
    /// How the loop waits with S.
    pub spin: Wait,
    /// Directory of the journal of changes to the host.
    pub journal: PathBuf,
    /// The command as typed, for the journal.
    pub command: Vec<String>,
}

impl RunTuning {
    /// Returns what the tuning changes of the loop, plans included.
    #[must_use]
    pub fn options(&self) -> LoopOptions {
        let implied = self.settings.iter().map(|setting| setting.implies);
        implied.fold(self.tuning.options(), LoopOptions::and)
    }

    /// Returns a loop's setting under the tuning: its priority, CPU, memory and wait are those of
    /// the tuning alone.
    #[must_use]
    pub fn tuned(&self, setting: &Setting) -> Setting {
        self.options().applied(setting, self.cpu, self.priority, self.spin)
    }

    /// Makes the tuning for the loop of this process. A load is started before: the shield moves it
    /// away from the loop's CPU, with everything that it starts later.
    ///
    /// # Errors
    /// [`BenchError`]; what was made before is undone.
    pub fn make(&self) -> Result<TunedHost, BenchError> {
        let options = self.options();
        let not_permitted =
            |refusal| BenchError::NotPermitted { tuning: self.tuning.to_string(), refusal };
        // What was made before an error is undone by its drop.
        let mut tuned = TunedHost { shielding: None, grants: Vec::new() };
        let shielding = tuned.shielding.insert(Shielding::begin(&self.journal, &self.command)?);
        let changes_host = self.settings.iter().any(|setting| !setting.plan.steps.is_empty());
        if changes_host && !shielding.can_change() {
            return Err(not_permitted("changing settings of the host needs root".to_owned()));
        }

        options.set(&self.tuning.to_string())?;
        if options.letters.shield {
            let grant =
                shielding.prepare(&[self.cpu].into_iter().collect(), &[std::process::id()])?;
            if !grant.granted {
                return Err(not_permitted(grant.refusal()));
            }
            tuned.grants.push(grant);
            shielding.set(true)?;
        }

        shielding.make(self.settings.iter())?;
        Ok(tuned)
    }
}

/// The host while a tuning is made. Dropping it undoes the tuning too, without a word about what
/// cannot be undone; that stays on record.
pub struct TunedHost {
    /// `None` once it is undone.
    shielding: Option<Shielding>,
    /// What was granted of the tuning beyond the loop's own thread.
    pub grants: Vec<Grant>,
}

impl TunedHost {
    /// Returns what the shield moves and what it cannot move, as sentences.
    #[must_use]
    pub fn words(&self) -> &[String] {
        self.shielding.as_ref().map_or(&[], Shielding::words)
    }

    /// Undoes the tuning, and ends the journal.
    ///
    /// # Errors
    /// [`BenchError`]; what is left stays on record for `onbeat repair`.
    pub fn undo(mut self) -> Result<(), BenchError> {
        self.shielding.take().map_or(Ok(()), undo)
    }
}

impl Drop for TunedHost {
    fn drop(&mut self) {
        let _ = self.shielding.take().map(undo);
    }
}

fn undo(mut shielding: Shielding) -> Result<(), BenchError> {
    let settings = shielding.undo_settings();
    let lowered = shielding.set(false);
    shielding.dismantle()?;
    lowered?;
    Ok(settings?)
}
