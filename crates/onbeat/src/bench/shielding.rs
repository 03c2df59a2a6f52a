//! Changes of a bench to the host: the shield that is raised and lowered between blocks, settings
//! that are made before a block and undone after it, and the sessions of its loads. Each is in the
//! journal before it is made.

use std::path::Path;

use super::host_settings::{self, HostSetting, SettingError};
use onbeat_host::thread::{Grant, Refusal, shell_line};
use onbeat_tune::shield::{Free, refuse_second};
use onbeat_tune::{
    CpuList, HostFiles, Intent, Journal, Key, LiveHost, Purpose, Shield, TuneError, UndoMode,
    journal,
};

/// The journal of a bench, and its shield when it has one.
pub(super) struct Shielding {
    host: LiveHost,
    journal: Option<Journal>,
    shield: Option<Shield>,
    raised: bool,
    session: Option<journal::ChangeId>,
    /// Changes of the settings of the block that runs.
    made: Vec<journal::ChangeId>,
    words: Vec<String>,
}

impl Shielding {
    /// Begins the journal. Where it cannot be written, a bench without a shield still runs: its
    /// loads end with it by themselves, and the journal is only a second means.
    pub(super) fn begin(directory: &Path, command: &[String]) -> Result<Self, TuneError> {
        let host = LiveHost::new();
        let purpose = Purpose::new("bench", shell_line(command));
        let (journal, words) = match Journal::begin(directory, &host, &purpose) {
            Ok(journal) => (Some(journal), Vec::new()),
            Err(why @ (TuneError::Busy { .. } | TuneError::Guard(_))) => return Err(why),
            Err(why) => (None, vec![format!("changes cannot be recorded in a journal: {why}")]),
        };

        Ok(Self {
            host,
            journal,
            shield: None,
            raised: false,
            session: None,
            made: Vec::new(),
            words,
        })
    }

    /// Prepares the shield of these CPUs for these processes, and raises it once to record its
    /// effect on this host.
    pub(super) fn prepare(&mut self, cpus: &CpuList, pids: &[u32]) -> Result<Grant, TuneError> {
        let wanted = format!("CPU {cpus} for the loop alone");
        let Some(journal) = &mut self.journal else {
            let why = self.words.join("; ");
            let refused = refusal(&why, "ONBEAT_STATE_DIR=DIRECTORY, which this user can write");
            return Ok(Grant::refused("CPU shield", wanted, refused));
        };
        let free: Vec<Free> = pids.iter().map(|pid| Free::Process(pid.cast_signed())).collect();

        match Shield::prepare(&self.host, journal, cpus, &free) {
            Ok(shield) => self.shield = Some(shield),
            Err(why) => {
                let remedy = match why {
                    TuneError::NeedsRoot { .. }
                    | TuneError::ShieldNotPermitted { is_in_bounding_set: true, .. } => {
                        "sudo onbeat ..."
                    }
                    TuneError::NoHousekeeping { .. } => "a machine with at least two CPUs",
                    TuneError::ShieldNotPermitted { .. } => {
                        "docker run --cap-add=SYS_NICE ...    # or the same with podman"
                    }
                    _ => return Err(why),
                };
                return Ok(Grant::refused("CPU shield", wanted, refusal(&why.to_string(), remedy)));
            }
        }

        self.set(true)?;
        self.set(false)?;
        Ok(Grant::given("CPU shield", wanted))
    }

    /// Refuses a shield beside that of another onbeat, which also bounds where loops may run.
    pub(super) fn refuse_second(&self) -> Result<(), TuneError> {
        let command = self.journal.as_ref().map_or("onbeat", Journal::command);
        refuse_second(&self.host, command)
    }

    /// Returns what the shield moves and what it cannot move, as sentences.
    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    /// Records the session of a load, so that the next start of onbeat ends it if this one is
    /// killed.
    pub(super) fn remember_session(&mut self, sid: i32, start_ticks: u64) -> Result<(), TuneError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let intent =
            Intent::new("load.session", Key::Session { sid, start_ticks }, "absent", "running");
        self.session = Some(journal.intend(intent)?);
        Ok(())
    }

    /// Removes the session of a load that has ended from the journal.
    pub(super) fn forget_session(&mut self) -> Result<(), TuneError> {
        if let (Some(journal), Some(step)) = (&mut self.journal, self.session.take()) {
            journal.undo(&self.host, &[step], UndoMode::Careful)?;
        }
        Ok(())
    }

    /// Raises the shield or lowers it. Raising it again also moves tasks that were started since.
    pub(super) fn set(&mut self, up: bool) -> Result<(), TuneError> {
        let (Some(journal), Some(shield)) = (&mut self.journal, &mut self.shield) else {
            return Ok(());
        };
        if up {
            let report = shield.raise(&self.host, journal)?;
            if self.words.is_empty() {
                self.words = report.sentences();
            }
        } else if self.raised {
            shield.lower(&self.host, journal)?;
        }

        self.raised = up;
        Ok(())
    }

    /// Whether settings of the host can be changed: by root, with a journal.
    pub(super) fn can_change(&self) -> bool {
        self.journal.is_some() && self.host.is_root()
    }

    /// Makes the settings of a block, in order.
    pub(super) fn make<'s>(
        &mut self,
        settings: impl Iterator<Item = &'s HostSetting>,
    ) -> Result<(), SettingError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        for setting in settings {
            host_settings::make(&self.host, journal, setting, &mut self.made)?;
        }
        Ok(())
    }

    /// Undoes the settings of a block.
    pub(super) fn undo_settings(&mut self) -> Result<(), SettingError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let made = std::mem::take(&mut self.made);
        host_settings::undo(&self.host, journal, &made)
    }

    /// Undoes all changes and ends the journal.
    pub(super) fn dismantle(mut self) -> Result<(), TuneError> {
        self.forget_session()?;
        let Some(mut journal) = self.journal else { return Ok(()) };
        if let Some(shield) = self.shield {
            shield.dismantle(&self.host, &mut journal)?;
        }

        journal.undo_all(&self.host, UndoMode::Careful)?;
        journal.close()
    }
}

/// A reason that ends with the command that has the right has its remedy.
fn refusal(why: &str, remedy: &str) -> Refusal {
    let costs = "other programs and interrupts run on the loop's CPU, and delay it by up to milliseconds under load";
    let (why_not, remedy) = why.split_once(". Run: ").unwrap_or((why, remedy));
    Refusal { why_not: why_not.to_owned(), costs, remedy: remedy.to_owned() }
}
