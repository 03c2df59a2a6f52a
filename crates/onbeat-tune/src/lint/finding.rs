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
    /// The program reads it; what it does to latency is not judged.
    Known,
    /// It works as written.
    Valid,
}

impl LintVerdict {
    /// Whether something should be changed.
    #[must_use]
    pub const fn is_problem(self) -> bool {
        !matches!(self, Self::Valid | Self::Unknown | Self::Known)
    }

    /// Whether nothing is said of the piece's effect.
    #[must_use]
    pub const fn is_unjudged(self) -> bool {
        matches!(self, Self::Unknown | Self::Known)
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
            Self::Known => "known, not judged",
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
    /// The corrected text; the text as it is where nothing is corrected.
    pub corrected: String,
    /// Why nothing is corrected, though something is wrong.
    pub refusal: Option<String>,
    /// Lines of the file that hold nothing of what is judged.
    pub other_lines: usize,
    /// How many pieces were judged, are known without a judgement, and are unknown.
    pub counts: LintCounts,
}

/// Pieces of a text by what is said of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LintCounts {
    /// With a judgement.
    pub judged: usize,
    /// The program reads them; nothing is said of their effect.
    pub known: usize,
    /// Not in the dictionary.
    pub unknown: usize,
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

/// What directories end with of which only files with an ending are read, and the ending.
const ENDINGS: [(&str, &str); 8] = [
    ("sysctl.d", ".conf"),
    ("limits.d", ".conf"),
    ("modprobe.d", ".conf"),
    ("system.conf.d", ".conf"),
    (".service.d", ".conf"),
    (".slice.d", ".conf"),
    (".scope.d", ".conf"),
    ("rules.d", ".rules"),
];

/// Endings of templates, which become files under another name.
const TEMPLATES: [&str; 5] = [".j2", ".in", ".tmpl", ".tpl", ".erb"];

/// What a unit of a user's manager has no right to, or no unit for.
const OF_SYSTEM: [(&str, LintVerdict, &str); 4] = [
    ("CPUSchedulingPolicy=fifo", LintVerdict::Incomplete, NO_PRIORITY),
    ("CPUSchedulingPolicy=rr", LintVerdict::Incomplete, NO_PRIORITY),
    (
        "AllowedCPUs=",
        LintVerdict::Incomplete,
        "A user's manager has no cpusets without Delegate=cpuset in a drop-in of user@.service, and \
         ignores it.",
    ),
    (
        "WantedBy=multi-user.target",
        LintVerdict::NoEffect,
        "A user's manager has no multi-user.target: default.target starts a service.",
    ),
];
const NO_PRIORITY: &str = "A user's manager needs a limit of its own: LimitRTPRIO= in a drop-in of user@.service, or limits.d \
                           where its PAM reads it. Else the service fails with status 214/SETSCHEDULER.";

impl LintReport {
    /// Adds what the path of the text's file says of it: under some names nothing reads it.
    pub fn note_file(&mut self, path: &str) {
        let Some((directory, name)) = path.rsplit_once('/') else { return };
        if self.subject == LintSubject::SystemdUnit
            && format!("{directory}/").contains("systemd/user/")
        {
            self.note_user_unit();
        }
        let known = ENDINGS.iter().find(|(known, _)| directory.ends_with(known));
        let is_template = TEMPLATES.iter().any(|ending| name.ends_with(ending));
        let wrong = known.filter(|(_, ending)| !is_template && !name.ends_with(ending));
        let (verdict, message, instead) = match wrong {
            Some((_, ending)) => (
                LintVerdict::NoEffect,
                format!("Nothing reads it: of {directory} only files that end with {ending} are read."),
                format!("{name}{ending}"),
            ),
            None if path.ends_with("etc/sysctl.conf") => (
                LintVerdict::Discouraged,
                "systemd reads files in sysctl.d alone: without a link to this one there, as in Debian 13 \
                 and Arch, nothing reads it at the start."
                    .to_owned(),
                "/etc/sysctl.d/90-robot.conf".to_owned(),
            ),
            None => return,
        };
        if self.problems().next().is_none() {
            self.refusal = Some("the name of the file is what has to change".to_owned());
        }
        let (text, instead) = (name.to_owned(), Some(instead));
        let finding = LintFinding { id: None, verdict, line: 1, column: 1, text, message, instead };
        self.findings.insert(0, finding);
    }

    /// Says what the manager of a user cannot do for a service by itself.
    fn note_user_unit(&mut self) {
        let had_problem = self.problems().next().is_some();
        for finding in self.findings.iter_mut().filter(|of| of.verdict == LintVerdict::Valid) {
            let found = OF_SYSTEM.iter().find(|(start, ..)| finding.text.starts_with(start));
            let Some((_, verdict, message)) = found else { continue };
            (finding.verdict, finding.message) = (*verdict, (*message).to_owned());
        }
        if !had_problem && self.problems().next().is_some() {
            self.refusal = Some("the text alone decides none of these changes".to_owned());
        }
    }

    /// Whether another report has no problem of a kind of which this one has fewer.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let count = |report: &Self, like: &LintFinding| {
            let is_like =
                |known: &&LintFinding| known.verdict == like.verdict && known.id == like.id;
            report.problems().filter(is_like).count()
        };
        other.problems().all(|left| count(other, left) <= count(self, left))
    }

    /// Whether a part of the text was not judged.
    #[must_use]
    pub const fn is_partly_unjudged(&self) -> bool {
        self.counts.known > 0 || self.counts.unknown > 0 || self.other_lines > 0
    }

    /// The pieces of one kind without a judgement, in a sentence.
    fn unjudged(&self, verdict: LintVerdict, what: &str) -> Option<String> {
        let pieces: Vec<_> = self.with_verdict(verdict).map(|one| one.text.as_str()).collect();
        (!pieces.is_empty()).then(|| format!("{what}: {}", pieces.join(", ")))
    }

    /// What was judged and what was not, in lines.
    #[must_use]
    pub fn account(&self) -> Vec<String> {
        let LintCounts { judged, known, unknown } = self.counts;
        let mut lines = vec![format!(
            "Read as {}. Judged: {judged}; known but not judged: {known}; unknown: {unknown}.",
            self.subject.words()
        )];
        lines.extend(self.unjudged(LintVerdict::Known, "Known, not judged"));
        lines.extend(self.unjudged(LintVerdict::Unknown, "Unknown, not judged"));
        if self.other_lines > 0 {
            let noun = if self.other_lines == 1 { "line" } else { "lines" };
            lines.push(format!("{} other {noun} of the file not judged.", self.other_lines));
        }
        lines
    }
}

impl fmt::Display for LintReport {
    /// The problems, as compilers print them, what was not judged, then the corrected text.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COLUMNS: usize = 80;
        let mut count = 0;
        for finding in self.problems() {
            let LintFinding { verdict, line, column, text, .. } = finding;
            writeln!(out, "{line}:{column}: {verdict}: {text}")?;
            finding.details().iter().try_for_each(|detail| writeln!(out, "    {detail}"))?;
            count += 1;
        }
        if count > 0 {
            writeln!(out)?;
        }
        for line in self.account().iter().flat_map(|line| wrap(line, COLUMNS)) {
            writeln!(out, "{line}")?;
        }

        match (count, &self.refusal) {
            (0, _) if self.is_partly_unjudged() => {
                writeln!(out, "No problem in what was judged; the rest is open.")
            }
            (0, _) => writeln!(out, "No problem found."),
            (_, Some(why)) => wrap(&format!("Not corrected: {why}."), COLUMNS)
                .iter()
                .try_for_each(|line| writeln!(out, "{line}")),
            (_, None) => writeln!(out, "\nCorrected:\n\n{}", self.corrected.trim_end()),
        }
    }
}
