//! Lines out of parts: whole lines only, in order, and what is missing counted.
//!
//! No socket, no file, no clock. Parts that overtook others wait for them, up to [`MOST_EARLY`]; a
//! line of which a part is missing is left out, and a remark takes its place.

use std::collections::BTreeMap;

use super::wire::LogPart;
use onbeat_record::{Note, Remark};

/// Parts that wait for an earlier one; with one more it is given up.
pub const MOST_EARLY: usize = 64;
/// The longest line that a run file can have, in bytes.
const LONGEST_LINE: usize = 4 << 20;
/// Gaps that have a remark of their own in the file.
const MOST_REMARKS: u64 = 100;

/// What was received of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssemblyCounts {
    /// Parts taken.
    pub parts: u64,
    /// Parts that were there already.
    pub duplicates: u64,
    /// Parts that came after a later one, in time.
    pub reordered: u64,
    /// Parts that never came, or came too late.
    pub lost_parts: u64,
    /// Lines written.
    pub lines: u64,
    /// Lines of which a part is missing.
    pub lost_lines: u64,
}

#[derive(Debug)]
struct OwnPart {
    line: u64,
    begins_line: bool,
    is_last: bool,
    bytes: Vec<u8>,
}

/// A run file on its way from its parts.
#[derive(Debug, Default)]
pub struct RunAssembly {
    /// The part that is next.
    expected: u64,
    /// The line that is next.
    next_line: u64,
    /// The beginning of a line.
    partial: Vec<u8>,
    /// Whether a continuation belongs to `partial`.
    in_line: bool,
    early: BTreeMap<u64, OwnPart>,
    counts: AssemblyCounts,
    remarks: u64,
    is_over: bool,
}

impl RunAssembly {
    /// Takes a part, and appends the lines that it completes to `out`.
    pub fn take(&mut self, part: &LogPart<'_>, out: &mut Vec<u8>) {
        if part.number < self.expected || self.early.contains_key(&part.number) {
            self.counts.duplicates += 1;
            return;
        }
        let is_overtaken = self.early.keys().next_back().is_some_and(|last| part.number < *last);
        self.counts.reordered += u64::from(is_overtaken);
        let LogPart { line, begins_line, is_last, bytes, .. } = *part;
        let own = OwnPart { line, begins_line, is_last, bytes: bytes.to_vec() };
        self.early.insert(part.number, own);

        self.admit_all(out);
        while self.early.len() > MOST_EARLY {
            self.give_up_one(out);
        }
    }

    /// Gives up the parts that are missing: nothing came for long, or nothing more will.
    pub fn give_up(&mut self, out: &mut Vec<u8>) {
        while !self.early.is_empty() {
            self.give_up_one(out);
        }
    }

    /// Whether the last part was taken, and all parts before it were taken or given up.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether parts wait for earlier ones.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.early.is_empty()
    }

    /// Returns the counts so far.
    #[must_use]
    pub const fn counts(&self) -> AssemblyCounts {
        self.counts
    }

    fn admit_all(&mut self, out: &mut Vec<u8>) {
        while let Some(part) = self.early.remove(&self.expected) {
            self.expected += 1;
            self.counts.parts += 1;
            self.admit(&part, out);
        }
    }

    fn give_up_one(&mut self, out: &mut Vec<u8>) {
        let Some(next) = self.early.keys().next().copied() else { return };
        self.counts.lost_parts += next - self.expected;
        self.expected = next;
        self.partial.clear();
        self.in_line = false;
        self.admit_all(out);
    }

    fn admit(&mut self, part: &OwnPart, out: &mut Vec<u8>) {
        if part.begins_line || part.is_last {
            self.partial.clear();
            self.miss(part.line.saturating_sub(self.next_line), out);
            self.next_line = self.next_line.max(part.line);
            self.in_line = true;
        }
        if self.in_line {
            self.append(&part.bytes, out);
        }
        self.is_over |= part.is_last;
    }

    fn append(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.partial.extend_from_slice(bytes);
        if let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') {
            let lines = self.partial[..=end].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.counts.lines += lines;
            self.next_line += lines;
            out.extend(self.partial.drain(..=end));
        }
        if self.partial.len() > LONGEST_LINE {
            self.partial.clear();
            self.in_line = false;
        }
    }

    /// Counts lines that are missing before the next one.
    fn miss(&mut self, lines: u64, out: &mut Vec<u8>) {
        if lines == 0 {
            return;
        }
        self.counts.lost_lines += lines;
        self.remarks += 1;
        // Before its header a run file has no notes.
        if self.counts.lines > 1 && self.remarks <= MOST_REMARKS {
            let first = self.next_line + 1;
            let last = self.next_line + lines;
            let sentence = format!(
                "lines {first} to {last} of this run were lost on their way to the logging server"
            );
            let remark = serde_json::to_string(&Note::Remark(Remark { sentence }));
            out.extend(
                remark.into_iter().flat_map(|json| format!("#[onbeat: {json}]\n").into_bytes()),
            );
        }
    }
}
