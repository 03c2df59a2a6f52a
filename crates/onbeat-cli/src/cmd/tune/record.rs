//! What is on record, for `status`, `undo` and `repair`.

use std::env;
use std::path::{Path, PathBuf};

use onbeat_tune::apply::status::ChangeState;
use onbeat_tune::apply::{AppliedJournal, status};
use onbeat_tune::journal::JournalHead;
use onbeat_tune::{HostFiles, TuneError};

use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::typed;
use crate::state::journal_directory;

/// Where root's record is; see [`journal::default_directory`](onbeat_tune::journal::default_directory).
const RECORD_OF_ROOT: &str = "/var/lib/onbeat";

/// Returns the directory of the record, unless it is root's and this is another user: only root
/// can read it.
pub(super) fn directory(host: &dyn HostFiles) -> Result<PathBuf, TuneFailure> {
    let own = journal_directory();
    let is_named = env::var_os("ONBEAT_STATE_DIR").is_some_and(|named| !named.is_empty());
    if host.is_root() || is_named || !Path::new(RECORD_OF_ROOT).exists() {
        return Ok(own);
    }
    let directory = PathBuf::from(RECORD_OF_ROOT);
    Err(TuneFailure::RecordOfRoot { directory, command: typed().join(" ") })
}

/// The changes on record, newest command first.
pub(super) fn applied(
    host: &dyn HostFiles,
    directory: &Path,
) -> Result<Vec<AppliedJournal>, TuneError> {
    let mut journals = status(host, directory)?;
    journals.retain(|journal| !journal.changes.is_empty() || journal.damaged_lines > 0);
    Ok(journals)
}

/// Returns the sentence that a repair ends with: what was applied on purpose stays.
///
/// # Errors
/// As [`status`]: a directory that cannot be read may hold changes.
pub(crate) fn kept_sentence(host: &dyn HostFiles) -> Result<Option<String>, TuneError> {
    let journals = applied(host, &journal_directory())?;
    let kept = journals.iter().filter(|journal| journal.is_kept);
    let in_effect = |journal: &AppliedJournal| {
        journal.changes.iter().filter(|change| change.state == ChangeState::InEffect).count()
    };
    let count: usize = kept.map(in_effect).sum();
    let changes = super::plan_text::counted(count, "change");
    let stay = if count == 1 { "stays" } else { "stay" };
    Ok((count > 0).then(|| {
        format!(
            "{changes} made by `onbeat tune apply` {stay} in effect, as intended: `onbeat tune undo` undoes them"
        )
    }))
}

/// Which command and when: `` `onbeat tune apply plan.toml`, 2026-11-23 00:50:02 UTC ``.
pub(super) fn command_and_time(head: &JournalHead) -> String {
    format!("`{}`, {}", head.command, head.started())
}
