//! What a log puts in front of each line that a tool printed: the journal, syslog, the time stamps of
//! a CI or of a serial console, Docker Compose, a quotation.

use super::date;
use super::format::Format;

/// What stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    /// `Nov 14 10:00:00 board cyclictest[123]: `, or with a date-time of one word.
    Syslog,
    /// `2023-11-14T10:00:00.1234567Z `, or in brackets; of GitLab with its stream, `01O `.
    Stamp,
    /// `[   12.345678] `.
    Console,
    /// `cyclictest-1  | `.
    Compose,
    /// `> `.
    Quotation,
}

impl Prefix {
    /// A date-time alone is in front of what syslog has behind it too.
    const ALL: [Self; 5] =
        [Self::Syslog, Self::Stamp, Self::Console, Self::Compose, Self::Quotation];

    /// The prefix of a text that is a tool's without it, and its format then.
    pub(super) fn of(beginning: &str) -> Option<(Self, Format)> {
        let beginning = beginning.trim_start_matches('\u{feff}');
        let with = Format::detect(beginning);
        // The last line may be cut off within its prefix.
        let shown = beginning.rfind('\n').map_or(beginning, |end| &beginning[..end]);
        Self::ALL.into_iter().find_map(|prefix| {
            let has = |line: &str| prefix.after(line).is_some();
            if !shown.lines().any(has) {
                return None;
            }
            // The times of a CSV look alike.
            let without =
                Format::detect(&prefix.strip(beginning)).filter(|of| *of != Format::Csv)?;
            // So do those of ping -D; and below a quotation there may be the answer to it.
            let is_its_own =
                prefix == Self::Console || !shown.lines().all(has) || with != Some(without);
            (with.is_none() || !is_its_own).then_some((prefix, without))
        })
    }

    /// The text without it, line by line.
    pub(super) fn strip(self, text: &str) -> String {
        let mut stripped = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let bare = line.trim_end_matches(['\r', '\n']);
            stripped.push_str(self.after(bare).unwrap_or(bare));
            stripped.push_str(&line[bare.len()..]);
        }
        stripped
    }

    /// What it is, for a sentence.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Syslog => "time, host and program of a journal",
            Self::Stamp => "date and time of a log",
            Self::Console => "seconds of a console",
            Self::Compose => "name of a container",
            Self::Quotation => "mark of a quotation",
        }
    }

    /// What follows it in a line that has it.
    fn after(self, line: &str) -> Option<&str> {
        match self {
            Self::Syslog => {
                let (head, rest) = line.split_once(": ")?;
                let words: Vec<&str> = head.split_whitespace().collect();
                let (stamp, program) = match words.as_slice() {
                    [_month, _day, clock, _host, program] => (clock, program),
                    [stamp, _host, program] => (stamp, program),
                    _ => return None,
                };
                let has_process = program.contains('[') && program.ends_with(']');
                date::stamp_s(stamp).filter(|_| has_process).map(|_| rest)
            }
            Self::Stamp => {
                let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
                let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
                let stamp = inner.unwrap_or(word);
                date::stamp_s(stamp).filter(|_| stamp.contains('T')).map(|_| {
                    match rest.as_bytes() {
                        [a, b, b'O' | b'E', b' ' | b'+', ..]
                            if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() =>
                        {
                            &rest[4..]
                        }
                        _ => rest,
                    }
                })
            }
            Self::Console => {
                let (stamps, rest) = line.strip_prefix('[')?.split_once("] ")?;
                let are_seconds = stamps.split_whitespace().all(|of| of.parse::<f64>().is_ok());
                are_seconds.then_some(rest)
            }
            Self::Compose => {
                let (name, rest) = line.split_once(" | ")?;
                let name = name.trim_end();
                (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(rest)
            }
            Self::Quotation => {
                line.strip_prefix('>').map(|rest| rest.strip_prefix(' ').unwrap_or(rest))
            }
        }
    }
}
