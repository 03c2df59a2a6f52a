//! Why the events of a spike cannot be written.

use std::path::{Path, PathBuf};

use onbeat::cause::ftrace::UnpackError;
use onbeat::thread::shell_word;

/// The events of a spike cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSpike {
    #[error("{} has no spikes: no cycle was later than the spike limit, which --spikes-over sets when it is measured", run.display())]
    None { run: PathBuf },
    #[error("{} was recorded by another tool; only runs of onbeat have spikes and their events", run.display())]
    Imported { run: PathBuf },
    #[error("{} has no cell {cell}; it has {has}", run.display())]
    NoSuchCell { run: PathBuf, cell: String, has: String },
    #[error("{} is not a bench and has no cells; leave out --cell", run.display())]
    NoCells { run: PathBuf },
    #[error(
        "the spikes of a bench are numbered cell by cell: add --cell {} --spike {number}, or another cell; --list shows all",
        shell_word(first)
    )]
    WhichCell { first: String, number: u64 },
    #[error(
        "{what} does not exist; there {}, and onbeat export {} --list shows them",
        in_all(*of),
        pasted(run)
    )]
    NoSuchNumber { run: PathBuf, what: String, of: usize },
    #[error("the events around {what} are not kept: {why}{other}")]
    NotKept { what: String, why: &'static str, other: String },
    #[error("the events around none of the {of} spikes of {} are kept; of the worst one: {why}", run.display())]
    NoneKept { run: PathBuf, of: usize, why: &'static str },
    #[error("{what}: {source}")]
    Edited { what: String, source: UnpackError },
}

/// `is 1 spike`, `are 2 spikes`.
fn in_all(spikes: usize) -> String {
    if spikes == 1 { "is 1 spike".to_owned() } else { format!("are {spikes} spikes") }
}

/// Returns the name of a run in a line to be pasted.
pub(crate) fn pasted(run: &Path) -> String {
    shell_word(&run.display().to_string())
}
