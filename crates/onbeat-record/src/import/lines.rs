//! Lines of text as people keep it: terminal output with escape codes and carriage returns, text of
//! any length, bytes that are no text.

use std::io::{BufRead, Read};

use super::error::Error;
use super::format::{Format, SourceOptions};

/// What is longer is cut: no line of any format that is read here is.
const LONGEST_LINE: u64 = 16 * 1024;
/// What is longer than this is no text: nobody waits for the end of a file without lines.
const MOST_OF_A_LINE: u64 = 64 << 20;
/// Characters of a line that a sentence repeats.
const SHOWN: usize = 40;

pub(super) struct Line<'l> {
    /// Without its end and without escape codes; blanks at its ends are kept.
    pub(super) text: &'l str,
    /// From 1.
    pub(super) number: usize,
    /// Whether its end is in the file: the last line of a file that was cut off has none.
    pub(super) has_end: bool,
}

/// Calls `take` with every line that says something. What a carriage return would have overwritten
/// on a terminal is a line of the same number. Returns how many lines there are.
pub(super) fn each_line(
    file: &mut impl BufRead,
    mut take: impl FnMut(&Line<'_>) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut bytes = Vec::new();
    let mut plain = String::new();
    for number in 1.. {
        bytes.clear();
        if file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(number - 1);
        }

        let has_end = bytes.last() == Some(&b'\n') || pass_over_rest(file, &bytes, number)?;
        let text = String::from_utf8_lossy(&bytes);
        plain.clear();
        without_escapes(&text, &mut plain);
        for part in plain.split(['\r', '\n']) {
            let text = without_interrupt(part);
            if !text.trim().is_empty() {
                take(&Line { text, number, has_end })?;
            }
        }
    }

    Ok(0)
}

/// Passes over the rest of a line that is too long; whether its end is in the file.
fn pass_over_rest(file: &mut impl BufRead, line: &[u8], number: usize) -> Result<bool, Error> {
    let mut length = line.len() as u64;
    if length < LONGEST_LINE {
        return Ok(false);
    }

    loop {
        if length > MOST_OF_A_LINE {
            return Err(Error::NoText { line: number, most_mib: MOST_OF_A_LINE >> 20 });
        }
        let ahead = file.fill_buf()?;
        length += ahead.len() as u64;
        if ahead.is_empty() {
            return Ok(false);
        }
        match ahead.iter().position(|byte| *byte == b'\n') {
            Some(place) => {
                file.consume(place + 1);
                return Ok(true);
            }
            None => {
                let passed = ahead.len();
                file.consume(passed);
            }
        }
    }
}

/// The text without control sequences (ECMA-48: ESC, `[`, parameters, a final byte), without
/// strings for the terminal (ESC, `]`, up to BEL or ESC `\`: a title, a shell's marks of prompt and
/// output) and without the byte order mark.
fn without_escapes(text: &str, plain: &mut String) {
    let mut rest = text.trim_start_matches('\u{feff}');
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = match after.chars().next() {
            Some('[') => {
                let end = after[1..].find(|c: char| ('@'..='~').contains(&c));
                end.map_or("", |end| &after[end + 2..])
            }
            // The ESC before `\` is a sequence of its own.
            Some(']') => after.find(['\u{7}', '\u{1b}']).map_or("", |end| {
                let ended = &after[end..];
                ended.strip_prefix('\u{7}').unwrap_or(ended)
            }),
            // One character, which may have several bytes, or one after a parenthesis: `tput sgr0`
            // writes ESC `(B`.
            _ => {
                let mut left = after.strip_prefix(['(', ')']).unwrap_or(after).chars();
                left.next();
                left.as_str()
            }
        };
    }

    plain.push_str(rest);
}

/// The text without the `^C` that a terminal shows where a tool was interrupted, in front of what
/// the tool prints then.
pub(super) fn without_interrupt(text: &str) -> &str {
    text.trim_start_matches("^C")
}

/// The beginning of a line, for a sentence.
pub(super) fn begins(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// Whether a line begins in one of these ways.
pub(super) fn begins_with(text: &str, known: &[&str]) -> bool {
    known.iter().any(|known| text.starts_with(known))
}

/// Lines that a format does not know, counted.
#[derive(Default)]
pub(super) struct PassedOver {
    lines: u64,
    first: Option<(usize, String)>,
}

impl PassedOver {
    pub(super) fn count(&mut self, line: &Line<'_>) {
        self.lines += 1;
        self.first.get_or_insert_with(|| (line.number, begins(line.text)));
    }

    /// What was passed over, as a sentence, of a tool's text.
    pub(super) fn sentence(&self, tool: &str) -> Option<String> {
        let (number, begins) = self.first.as_ref()?;
        Some(match self.lines {
            1 => format!("line {number} is not {tool}'s and was passed over: `{begins}`"),
            lines => format!(
                "{lines} lines are not {tool}'s and were passed over; the first is line {number}: `{begins}`"
            ),
        })
    }
}

/// Lines of a format that are damaged: refused, or counted where `--skip-damaged` is given.
#[derive(Default)]
pub(super) struct Damage {
    is_skipped: bool,
    lines: u64,
    first: Option<(usize, String)>,
    cut: Option<(usize, String)>,
}

impl Damage {
    pub(super) fn new(asked: &SourceOptions) -> Self {
        Self { is_skipped: asked.skip_damaged, ..Self::default() }
    }

    /// A damaged line: counted, or an error that says how much there is before it, and of what (in
    /// the plural).
    pub(super) fn meet(
        &mut self,
        line: usize,
        reason: String,
        (format, before, what): (Format, u64, &'static str),
    ) -> Result<(), Error> {
        if !self.is_skipped {
            return Err(Error::Damaged { format, line, reason, before, what });
        }

        self.lines += 1;
        self.first.get_or_insert((line, reason));
        Ok(())
    }

    /// A line that cannot be read: cut off where it has no end, damaged where it has one.
    pub(super) fn unread(
        &mut self,
        line: &Line<'_>,
        reason: String,
        before: (Format, u64, &'static str),
    ) -> Result<(), Error> {
        if line.has_end {
            return self.meet(line.number, reason, before);
        }

        self.cut(line.number, reason);
        Ok(())
    }

    /// The last line is cut off: all before it is kept.
    pub(super) fn cut(&mut self, line: usize, reason: String) {
        self.cut = Some((line, reason));
    }

    /// How many lines were passed over.
    pub(super) const fn lines(&self) -> u64 {
        self.lines
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let cut = self.cut.as_ref().map(|(line, why)| {
            format!("the file is cut off: its last line, {line}, is not imported ({why})")
        });
        let skipped = self.first.as_ref().map(|(line, why)| match self.lines {
            1 => format!("1 damaged line is not imported: line {line} ({why})"),
            lines => {
                format!("{lines} damaged lines are not imported; the first is line {line} ({why})")
            }
        });
        skipped.into_iter().chain(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn lines(bytes: &[u8]) -> Vec<(usize, String, bool)> {
        let mut all = Vec::new();
        each_line(&mut Cursor::new(bytes), |line| {
            all.push((line.number, line.text.to_owned(), line.has_end));
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn what_a_terminal_overwrote_are_lines_without_their_escape_codes() {
        let text = b"\xef\xbb\xbfone\r\n\x1b[3Atwo\rthree \x1b[K\n\nfour";
        let all = lines(text);
        let read: Vec<(usize, &str, bool)> =
            all.iter().map(|(n, text, end)| (*n, text.as_str(), *end)).collect();
        assert_eq!(
            read,
            [(1, "one", true), (2, "two", true), (2, "three ", true), (4, "four", false)]
        );
    }

    #[test]
    fn after_an_escape_any_character_is_passed_over_and_nothing_else() {
        assert_eq!(lines("\u{1b}µ12 us\n".as_bytes()), [(1, "12 us".to_owned(), true)]);
        assert_eq!(lines(b"12\x1b"), [(1, "12".to_owned(), false)]);
        for begin in ["\u{1b}]0;a title\u{7}", "\u{1b}]133;C\u{1b}\\", "\u{1b}(B\u{1b}[m"] {
            let text = format!("{begin}T: 0\n");
            assert_eq!(lines(text.as_bytes()), [(1, "T: 0".to_owned(), true)], "{text:?}");
        }
        assert_eq!(lines(b"12\x1b]0;cut off"), [(1, "12".to_owned(), false)]);
    }

    #[test]
    fn a_line_without_end_is_cut_and_the_next_one_is_whole() {
        let text = [vec![b'x'; 100_000], b"\nnext\n".to_vec()].concat();
        let all = lines(&text);
        assert_eq!((all[0].1.len() as u64, all[0].2), (LONGEST_LINE, true));
        assert_eq!(all[1], (2, "next".to_owned(), true));
    }
}
