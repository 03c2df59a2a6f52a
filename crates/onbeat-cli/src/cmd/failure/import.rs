//! Why files cannot be imported.

use std::path::PathBuf;

use super::spike::pasted;

/// Why files cannot be imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportFailure {
    #[error("{path} exists and is not empty; choose another place with -o")]
    Taken { path: PathBuf },
    #[error(
        "{} is a file of another tool ({format}), not a run; make one of it with `onbeat import {}`",
        path.display(), pasted(path)
    )]
    NoRun { path: PathBuf, format: &'static str },
    #[error("cannot import {path}: {source}")]
    Import { path: PathBuf, source: onbeat::import::Error },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_blank_is_one_word_of_the_command() {
        let why = ImportFailure::NoRun { path: "my log.txt".into(), format: "cyclictest" };
        assert!(why.to_string().ends_with("`onbeat import 'my log.txt'`"), "{why}");
    }
}
