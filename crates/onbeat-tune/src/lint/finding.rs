//! Findings of a lint.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::LintSubject;
use crate::wrap::wrap;

/// What a lint says of one piece of a text, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LintVerdict {
    /// It makes latency worse, or takes a protection away.
    Harmful,
    /// It cannot hold together with another piece.
    Contradiction,
    /// It does nothing: no program reads it, or nothing uses it.
    NoEffect,
    /// The value is not one that the program accepts.
    InvalidValue,
    /// It works in part: a partner is missing.
    Incomplete,
    /// Something that should be there is not.
    Missing,
    /// It is not known and resembles a name that is.
    Misspelt,
    /// An old name or spelling.
    Deprecated,
    /// It works, but another setting is better or its cost is seldom worth it.
    Discouraged,
    /// It works, but another piece implies it.
    Redundant,
    /// It is not in the dictionary and is not judged.
    Unknown,
    /// It works as written.
    Valid,
}

impl LintVerdict {
    /// Whether something should be changed.
    #[must_use]
    pub const fn is_problem(self) -> bool {
        !matches!(self, Self::Valid | Self::Unknown)
    }

    /// Returns the verdict in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Harmful => "harmful",
            Self::Contradiction => "contradiction",
            Self::NoEffect => "no effect",
            Self::InvalidValue => "invalid value",
            Self::Incomplete => "incomplete",
            Self::Missing => "missing",
            Self::Misspelt => "misspelt",
            Self::Deprecated => "deprecated",
            Self::Discouraged => "discouraged",
            Self::Redundant => "redundant",
            Self::Unknown => "unknown",
            Self::Valid => "valid",
        }
    }
}

impl fmt::Display for LintVerdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.words())
    }
}

/// What a lint says of one piece of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintFinding {
    /// The record of the catalogue that it belongs to; `None` where no record is about it.
    pub id: Option<String>,
    /// The judgement.
    pub verdict: LintVerdict,
    /// Line of the piece, from 1.
    pub line: usize,
    /// Column of the piece, from 1, in characters.
    pub column: usize,
    /// The piece as written; for what is missing, its name.
    pub text: String,
    /// What is right or wrong with it, in one or two sentences.
    pub message: String,
    /// What to write in its place; empty where the piece should go, `None` where it stays.
    pub instead: Option<String>,
}

impl LintFinding {
    /// The message and what to write, in lines of 76 columns; what to write is not broken.
    fn details(&self) -> Vec<String> {
        const COLUMNS: usize = 76;
        let id = self.id.as_ref().map(|id| format!(" [{id}]")).unwrap_or_default();
        let mut lines = wrap(&format!("{}{id}", self.message), COLUMNS);
        lines.extend(self.instead.as_deref().map(|instead| match instead {
            "" => "Remove it.".to_owned(),
            instead => format!("Write: {instead}"),
        }));
        lines
    }
}

/// All that a lint says of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintReport {
    /// Name and version of this structure in JSON: `onbeat.tune-lint/1`.
    pub schema: &'static str,
    /// What the text was judged as.
    pub subject: LintSubject,
    /// The findings, in the order of the text; what is missing stands where it belongs.
    pub findings: Vec<LintFinding>,
    /// The corrected text.
    pub corrected: String,
}

impl LintReport {
    /// Returns the findings that call for a change.
    pub fn problems(&self) -> impl Iterator<Item = &LintFinding> {
        self.findings.iter().filter(|finding| finding.verdict.is_problem())
    }

    /// Returns the findings of one verdict.
    pub fn with_verdict(&self, verdict: LintVerdict) -> impl Iterator<Item = &LintFinding> {
        self.findings.iter().filter(move |finding| finding.verdict == verdict)
    }
}

impl fmt::Display for LintReport {
    /// The problems, as compilers print them, then the corrected text.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut count = 0;
        for finding in self.problems() {
            let LintFinding { verdict, line, column, text, .. } = finding;
            writeln!(out, "{line}:{column}: {verdict}: {text}")?;
            finding.details().iter().try_for_each(|detail| writeln!(out, "    {detail}"))?;
            count += 1;
        }

        match count {
            0 => writeln!(out, "No problem found."),
            _ => writeln!(out, "\nCorrected:\n\n{}", self.corrected.trim_end()),
        }
    }
}
