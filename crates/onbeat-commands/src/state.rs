//! Where onbeat keeps its own files between runs: the journal, and what belongs to it.

use std::env;
use std::path::{Path, PathBuf};

use onbeat_tune::{LiveHost, journal};

/// Returns the directory of the journal.
pub fn journal_directory() -> PathBuf {
    if let Some(state) = env::var_os("ONBEAT_STATE_DIR") {
        return Path::new(&state).join("journal");
    }
    let path = |name| env::var_os(name).map(PathBuf::from);
    journal::default_directory(
        &LiveHost::new(),
        path("XDG_STATE_HOME").as_deref(),
        path("HOME").as_deref(),
    )
}

/// Returns the directory of onbeat's own files, the journal among them.
pub fn state_directory() -> PathBuf {
    journal_directory().parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Returns whether a process has changes in the journal that are not undone.
pub fn has_journal_of(pid: u32) -> bool {
    journal::is_open(&journal_directory(), pid.cast_signed())
}
