//! The series of a run: what is counted, once per cycle.

//! Their names, words and properties are data: `vocabulary/series.toml`.

pub use super::vocabulary::Series;

impl Series {
    /// The series of a tag.
    #[must_use]
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|series| series.tag() == tag)
    }
}
