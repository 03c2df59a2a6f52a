//! Where onbeat keeps its own files between runs: the journal, and what belongs to it.

use std::path::{Path, PathBuf};

use onbeat_tune::journal;
pub use onbeat_tune::journal::own_directory as journal_directory;

/// Returns the directory of onbeat's own files, the journal among them.
pub fn state_directory() -> PathBuf {
    journal_directory().parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Returns whether a process has changes in the journal that are not undone.
pub fn has_journal_of(pid: u32) -> bool {
    journal::is_open(&journal_directory(), pid.cast_signed())
}
