//! A text under judgement: its findings, and the replacements that correct it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::LintSubject;
use super::finding::{LintCounts, LintFinding, LintReport, LintVerdict};

/// A judgement of one piece, before its place is counted in lines and columns.
#[derive(Clone, Debug)]
pub(super) struct LintRemark {
    /// The record of the catalogue.
    pub(super) id: Option<String>,
    /// The judgement.
    pub(super) verdict: LintVerdict,
    /// In words.
    pub(super) message: String,
    /// What to write in its place.
    pub(super) instead: Option<String>,
}

impl LintRemark {
    /// A judgement without a replacement.
    pub(super) fn new(id: &str, verdict: LintVerdict, message: impl Into<String>) -> Self {
        Self { id: Some(id.to_owned()), verdict, message: message.into(), instead: None }
    }

    /// Words about a piece that no record is about.
    pub(super) fn unjudged(verdict: LintVerdict, message: impl Into<String>) -> Self {
        Self { id: None, verdict, message: message.into(), instead: None }
    }

    /// Words about a piece that is known not to matter.
    pub(super) fn plain() -> Self {
        Self::unjudged(LintVerdict::Valid, "No effect on latency.")
    }

    /// Words about a piece whose name nothing has.
    pub(super) fn unknown() -> Self {
        Self::unjudged(LintVerdict::Unknown, "Not in the dictionary; it is not judged.")
    }

    /// The same with what to write in its place.
    pub(super) fn instead(self, instead: impl Into<String>) -> Self {
        Self { instead: Some(instead.into()), ..self }
    }
}

/// Whether a piece is filled in before a program reads it: by Jinja, Go, ERB, configure or CMake.
pub(super) fn is_template(piece: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let parts: Vec<&str> = piece.split('@').collect();
    let is_name = |part: &&str| !part.is_empty() && part.chars().all(is_letter);
    let between = parts.get(1..parts.len() - 1).unwrap_or_default();
    ["{{", "{%", "<%"].iter().any(|sign| piece.contains(sign)) || between.iter().any(is_name)
}

/// A text, what was found in it, and what replaces its pieces.
#[derive(Debug)]
pub(super) struct Draft<'t> {
    text: &'t str,
    /// Where its lines begin.
    lines: Vec<usize>,
    findings: Vec<(usize, LintFinding)>,
    edits: Vec<(Range<usize>, String)>,
    refusal: Option<String>,
    other_lines: usize,
}

impl<'t> Draft<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let behind = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            lines: std::iter::once(0).chain(behind).collect(),
            findings: Vec::new(),
            edits: Vec::new(),
            refusal: None,
            other_lines: 0,
        }
    }

    pub(super) const fn text(&self) -> &'t str {
        self.text
    }

    /// Leaves the text as it is, because of what is not understood; the first reason counts.
    pub(super) fn refuse_correction(&mut self, why: impl Into<String>) {
        self.refusal.get_or_insert(why.into());
    }

    /// Counts lines that are not judged.
    pub(super) const fn add_others(&mut self, lines: usize) {
        self.other_lines += lines;
    }

    /// Whether something was said of a piece that begins between these bytes.
    pub(super) fn is_judged(&self, bytes: &Range<usize>) -> bool {
        self.findings
            .iter()
            .any(|(at, finding)| bytes.contains(at) && finding.verdict != LintVerdict::Missing)
    }

    /// Records a judgement of the piece at these bytes.
    pub(super) fn remark(&mut self, bytes: Range<usize>, mut remark: LintRemark) {
        // The kernel separates arguments by NUL.
        let text = self.text[bytes.clone()].replace('\0', " ");
        if remark.verdict.is_problem() && is_template(&text) {
            let message = "A template fills it in; it is not judged.";
            remark = LintRemark::unjudged(LintVerdict::Unknown, message);
        }
        // What a page on the web has for a blank is often why a piece is not known.
        let is_alike = |c: &char| c.is_whitespace() && !c.is_ascii();
        let is_odd = remark.verdict.is_problem() || remark.verdict == LintVerdict::Unknown;
        if let Some(alike) = text.chars().find(is_alike).filter(|_| is_odd) {
            let number = u32::from(alike);
            remark.message +=
                &format!(" U+{number:04X} in it looks like a blank and is not read as one.");
            if remark.verdict == LintVerdict::Unknown {
                remark.verdict = LintVerdict::InvalidValue;
            }
        }
        self.remark_as(bytes.start, text, remark);
    }

    /// Records a judgement without a replacement.
    pub(super) fn judge(
        &mut self,
        bytes: Range<usize>,
        id: &str,
        verdict: LintVerdict,
        message: impl Into<String>,
    ) {
        self.remark(bytes, LintRemark::new(id, verdict, message));
    }

    /// Records a judgement with what to write instead, and writes it, where there is something.
    pub(super) fn correct(
        &mut self,
        bytes: Range<usize>,
        remark: LintRemark,
        instead: Option<String>,
    ) {
        if let Some(instead) = &instead {
            self.replace(bytes.clone(), instead);
        }
        self.remark(bytes, LintRemark { instead, ..remark });
    }

    /// Records words about a piece that no record is about.
    pub(super) fn pass_over(&mut self, bytes: Range<usize>, verdict: LintVerdict, message: &str) {
        self.remark(bytes, LintRemark::unjudged(verdict, message));
    }

    /// Records a judgement of what is called `text`, at a byte.
    pub(super) fn remark_as(&mut self, at: usize, text: impl Into<String>, remark: LintRemark) {
        let line = self.lines.partition_point(|start| *start <= at);
        let column = self.text[self.lines[line - 1]..at].chars().count() + 1;
        let LintRemark { id, verdict, message, instead } = remark;
        self.findings.push((
            at,
            LintFinding { id, verdict, line, column, text: text.into(), message, instead },
        ));
    }

    /// Replaces bytes in the corrected text. Of overlapping replacements the first one counts.
    pub(super) fn replace(&mut self, bytes: Range<usize>, by: impl AsRef<str>) {
        if !self.is_replaced(&bytes) && !is_template(&self.text[bytes.clone()]) {
            self.edits.push((bytes, by.as_ref().to_owned()));
        }
    }

    fn is_replaced(&self, bytes: &Range<usize>) -> bool {
        let overlaps = |known: &Range<usize>| {
            !known.is_empty()
                && !bytes.is_empty()
                && known.start < bytes.end
                && bytes.start < known.end
        };
        self.edits.iter().any(|(known, _)| overlaps(known))
    }

    /// Inserts a text in front of a byte, unless the same text is inserted there already.
    pub(super) fn insert(&mut self, at: usize, text: impl Into<String>) {
        let edit = (at..at, text.into());
        if !self.edits.contains(&edit) {
            self.edits.push(edit);
        }
    }

    /// Whether something is inserted in front of this byte.
    pub(super) fn is_added_at(&self, at: usize) -> bool {
        self.edits.iter().any(|(bytes, _)| *bytes == (at..at))
    }

    /// Removes bytes, with the blanks in front of them or, at the beginning of a line, behind them;
    /// with the whole line where nothing else is on it.
    pub(super) fn remove(&mut self, bytes: Range<usize>) {
        let is_blank = |c: char| c == ' ' || c == '\t';
        let before = self.text[..bytes.start].trim_end_matches(is_blank).len();
        let at_line_start = before == 0 || self.text[..before].ends_with(['\n', '"', '\'']);

        let behind = self.text.len() - self.text[bytes.end..].trim_start_matches(is_blank).len();
        let with_blanks = match at_line_start {
            true if self.text[..before].ends_with('\n')
                && self.text[behind..].starts_with('\n') =>
            {
                before..behind + 1
            }
            true => bytes.start..behind,
            false => before..bytes.end,
        };
        // The blanks may have gone with the neighbour.
        self.replace(if self.is_replaced(&with_blanks) { bytes } else { with_blanks }, "");
    }

    fn corrected(&self) -> String {
        let mut edits: Vec<_> = self.edits.iter().collect();
        edits.sort_by_key(|(bytes, _)| (bytes.start, bytes.end));

        let mut corrected = String::new();
        let mut done = 0;
        for (bytes, by) in edits {
            // An insertion inside a removed piece goes where the piece was.
            corrected.push_str(&self.text[done..bytes.start.max(done)]);
            corrected.push_str(by);
            done = done.max(bytes.end);
        }

        corrected.push_str(&self.text[done..]);
        corrected
    }

    pub(super) fn into_report(mut self, subject: LintSubject) -> LintReport {
        self.findings.sort_by_key(|(at, finding)| (*at, finding.verdict));
        let mut corrected = match self.refusal {
            Some(_) => self.text.to_owned(),
            None => self.corrected(),
        };
        if subject == LintSubject::QemuScript && self.refusal.is_none() {
            corrected = without_empty_continuations(&corrected);
        }
        let counts = self.counts();

        let findings: Vec<_> = self.findings.into_iter().map(|(_, finding)| finding).collect();
        LintReport {
            schema: "onbeat.tune-lint/1",
            subject,
            findings,
            corrected,
            refusal: self.refusal,
            other_lines: self.other_lines,
            counts,
        }
    }

    /// Pieces at their places: one that several findings are about is one piece.
    fn counts(&self) -> LintCounts {
        let mut worst: BTreeMap<usize, LintVerdict> = BTreeMap::new();
        for (at, finding) in self.findings.iter().filter(|(_, f)| f.verdict != LintVerdict::Missing)
        {
            let known = worst.entry(*at).or_insert(finding.verdict);
            if known.is_unjudged() && !finding.verdict.is_unjudged() {
                *known = finding.verdict;
            }
        }
        let count = |verdict| worst.values().filter(|known| **known == verdict).count();
        let (known, unknown) = (count(LintVerdict::Known), count(LintVerdict::Unknown));
        LintCounts { judged: worst.len() - known - unknown, known, unknown }
    }
}

/// Line and column of a byte, both from 1, the column in characters.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// A line that only continues the one above is what a removed option leaves.
fn without_empty_continuations(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| line.trim() != "\\").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corrected(text: &str, edit: impl FnOnce(&mut Draft<'_>)) -> String {
        let mut draft = Draft::new(text);
        edit(&mut draft);
        draft.corrected()
    }

    #[test]
    fn a_removed_piece_takes_one_side_of_its_blanks_along() {
        assert_eq!(corrected("a b c", |draft| draft.remove(2..3)), "a c");
        assert_eq!(corrected("a b c", |draft| draft.remove(0..1)), "b c");
        assert_eq!(corrected("\"a b\"", |draft| draft.remove(1..2)), "\"b\"");
        assert_eq!(corrected("a\n  b\nc", |draft| draft.remove(4..5)), "a\nc");
        let all =
            |draft: &mut Draft<'_>| (0..3).for_each(|piece| draft.remove(2 * piece..2 * piece + 1));
        assert_eq!(corrected("a b c", all).trim(), "");
    }

    #[test]
    fn of_overlapping_replacements_the_first_counts_and_insertions_stay() {
        let both = |draft: &mut Draft<'_>| {
            draft.replace(0..3, "x");
            draft.replace(2..4, "y");
            draft.insert(5, "z");
        };
        assert_eq!(corrected("abcde", both), "xdez");
    }

    #[test]
    fn columns_count_characters_from_one() {
        assert_eq!(line_and_column("µs x\ny", "µs ".len()), (1, 4));
        assert_eq!(line_and_column("a\nbc", 3), (2, 2));
    }
}
