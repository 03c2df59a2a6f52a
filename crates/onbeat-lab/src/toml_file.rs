//! Reading of a TOML file whose tables are checked by their own types.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use onbeat_host::foreign::{self, MOST_BYTES_BY_HAND};
use serde::de::DeserializeOwned;

/// What is wrong with the file of a study or a laboratory; the caller names the file.
#[derive(Debug, thiserror::Error)]
pub enum TomlFileError {
    /// The file cannot be read.
    #[error("cannot be read: {source}")]
    Read {
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file is not valid TOML, or has an unknown key or value.
    #[error("line {line}, column {column}: {why}")]
    Syntax {
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Message of the parser.
        why: String,
    },
    /// A name occurs twice.
    #[error("`{list}` has \"{name}\" twice; names in a list must differ")]
    Twice {
        /// Key of the list.
        list: &'static str,
        name: String,
    },
    /// A value that its key cannot have, alone or beside others, in a sentence.
    #[error("{0}")]
    Wrong(String),
}

/// Reads the text of a file.
pub(crate) fn read(path: &Path) -> Result<String, TomlFileError> {
    foreign::text(path, MOST_BYTES_BY_HAND).map_err(|source| TomlFileError::Read { source })
}

/// Parses the text of a file; an error names the place in it.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, TomlFileError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        TomlFileError::Syntax { line, column, why: error.message().to_owned() }
    })
}

/// Refuses a value, for the reason of this sentence.
pub(crate) fn wrong<T>(why: impl Into<String>) -> Result<T, TomlFileError> {
    Err(TomlFileError::Wrong(why.into()))
}

/// Refuses a list that has a name twice.
pub(crate) fn check_distinct<N: Ord + ToString>(
    list: &'static str,
    names: impl IntoIterator<Item = N>,
) -> Result<(), TomlFileError> {
    let mut seen = BTreeSet::new();
    match names.into_iter().find_map(|name| seen.replace(name)) {
        Some(name) => Err(TomlFileError::Twice { list, name: name.to_string() }),
        None => Ok(()),
    }
}
