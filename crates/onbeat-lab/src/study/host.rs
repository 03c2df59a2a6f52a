//! The host of a study: settings of a row are made before its measurements and undone after them,
//! on record first, so that the next start undoes what a killed study has left.

use onbeat::bench::host_settings::{self, make_plan, planned};
use onbeat_tune::apply::{OnRefusal, StepOutcome, owners};
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::journal::ChangeId;
use onbeat_tune::{HostFiles, Journal, LiveHost, Purpose, UndoMode};

use super::conduct::StudyRequest;
use super::error::StudyError;
use super::row::Stage;
use super::setting::{Means, is_of_host};

/// The machine that is tuned.
pub(super) struct StudyHost {
    pub(super) host: LiveHost,
    pub(super) tree: HostTree,
    pub(super) journal: Journal,
    pub(super) setup: LoopSetup,
}

/// What was made of a row.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) changes: Vec<ChangeId>,
    /// Settings that are in effect.
    pub(super) settings: usize,
    /// What the kernel refused, with the reason.
    pub(super) refused: Vec<String>,
}

impl StudyHost {
    /// Takes the lock on the journal: no other onbeat changes this machine meanwhile.
    pub(super) fn open(request: &StudyRequest<'_>, setup: LoopSetup) -> Result<Self, StudyError> {
        let StudyRequest { journals, command, .. } = *request;
        let host = LiveHost::new();
        if !host.is_root() {
            return Err(StudyError::NeedsRoot { command: command.to_owned() });
        }
        let journal = Journal::begin(journals, &host, &Purpose::new("vm study", command))?;
        Ok(Self { host, tree: HostTree::live(), journal, setup })
    }

    /// Finds out which parameters of the stages are not in effect in this boot, as they are written
    /// on the kernel command line: probed, whatever a boot loader's file says.
    pub(super) fn outstanding(&self, stages: &[Stage]) -> Result<Vec<String>, StudyError> {
        let settings = stages.iter().flat_map(|stage| &stage.settings);
        let ids: Vec<&str> = settings
            .filter(|one| one.means() == Some(Means::Boot))
            .map(|one| one.id.as_str())
            .collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }

        let plan = planned(&self.tree, &ids, &self.setup)?;
        let mut parameters: Vec<String> = Vec::new();
        // Several tunings may take the same parameter.
        for word in plan.boot_parameters().flat_map(|step| step.new.split_whitespace()) {
            if !parameters.iter().any(|known| known == word) {
                parameters.push(word.to_owned());
            }
        }
        Ok(parameters)
    }

    /// Makes the settings of the host among `ids`. What the kernel refuses is left out and reported.
    pub(super) fn make(&mut self, ids: &[&str]) -> Result<Made, StudyError> {
        if ids.is_empty() {
            return Ok(Made::default());
        }

        let mut plan = planned(&self.tree, ids, &self.setup)?;
        plan.steps.retain(is_of_host);
        if let Some(owner) = owners::find(&self.host, &plan)? {
            return Err(StudyError::Owned(owner));
        }

        let mut made = Made::default();
        let wanted = (&plan, OnRefusal::LeaveOut);
        let steps = match make_plan(&self.host, &mut self.journal, wanted, &mut made.changes) {
            Ok(steps) => steps,
            Err(why) => {
                self.undo(&made.changes)?;
                return Err(why.into());
            }
        };

        for step in steps {
            match step.outcome {
                StepOutcome::Changed { settings, refused } => {
                    made.settings += settings;
                    made.refused
                        .extend(refused.into_iter().map(|why| format!("{}: {why}", step.id)));
                }
                StepOutcome::Refused { why } => made.refused.push(format!("{}: {why}", step.id)),
                StepOutcome::Nothing | StepOutcome::Later => {}
            }
        }
        Ok(made)
    }

    /// Undoes changes, newest first.
    pub(super) fn undo(&mut self, changes: &[ChangeId]) -> Result<(), StudyError> {
        Ok(host_settings::undo(&self.host, &mut self.journal, changes)?)
    }

    /// Ends the record after everything has been undone.
    pub(super) fn close(mut self) -> Result<(), StudyError> {
        self.journal.undo_all(&self.host, UndoMode::Careful)?;
        Ok(self.journal.close()?)
    }
}
