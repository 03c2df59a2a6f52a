//! Words of run files that decide something, as enums; in the file they are the same words as ever.

use serde::{Deserialize, Serialize};

/// How the cells of a run took turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOrder {
    /// In short blocks in turn.
    #[default]
    Interleaved,
    /// One after another.
    Sequential,
    /// All at the same time, each on a CPU of its own.
    AtOnce,
    /// The run has one cell.
    Single,
    /// Another tool recorded the run.
    Imported,
    /// The cells are those of several runs.
    Compared,
}

/// What happened to a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadEventKind {
    /// All its parts run.
    Started,
    /// A part ended by itself.
    PartDied,
    /// A part was replaced by another one, because its program is missing.
    PartSubstituted,
    /// All its parts have ended.
    Stopped,
    /// What its parts did, after the end.
    Report,
    /// A word that this version does not have.
    #[serde(other)]
    Unknown,
}

impl LoadEventKind {
    /// Whether the reader of a run must know: the load is not what was requested.
    #[must_use]
    pub const fn matters(self) -> bool {
        matches!(self, Self::PartDied | Self::PartSubstituted)
    }
}
