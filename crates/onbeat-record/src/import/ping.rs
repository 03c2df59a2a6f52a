//! ping of iputils, of busybox, of the BSDs, macOS and Windows: a round trip per line, with times
//! (`-D`) or without; of `-q` the closing figures. iputils translates its words, not the names of its
//! fields; Windows translates all but `TTL`.

use std::collections::BTreeSet;
use std::io::{BufRead, Seek};

use super::error::Error;
use super::format::{Format, SourceOptions};
use super::lines::{Damage, Line, PassedOver, begins_with, each_line};
use super::samples::{Extent, Sample, SampleCounter};
use super::stated::Stated;
use super::stream::Stream;
use crate::{Resolution, Series};

const FORMAT: Format = Format::Ping;
/// An answer is late by fewer requests than this.
const LATEST: u16 = 256;

struct Answer {
    sample: Sample,
    /// Digits after the point of the round trip in milliseconds.
    decimals: u32,
    is_duplicate: bool,
}

impl Answer {
    /// `[1795775926.081646] 64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.065 ms`.
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (stamp, rest) = match line.strip_prefix('[') {
            Some(rest) => rest.split_once("] ")?,
            None => ("", line),
        };
        let is_answer = rest.contains(" bytes from ") || rest.starts_with("Reply from ");
        let place = rest.find(" time=").or_else(|| rest.find(" time<")).filter(|_| is_answer);
        // `64 Bytes von 10.0.0.1: icmp_seq=1 ttl=64 Zeit=0.115 ms`: the last field.
        let by_place = || rest.rfind('=').filter(|_| has_fields(rest)).map(|end| end + 1);
        let begin = place.map(|place| place + " time=".len());
        let begin = begin.or_else(by_place).or_else(|| place_in_windows(rest))?;
        let time = &rest[begin..];
        let end = time.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(time.len());
        let (figure, unit) = time.split_at(end);
        if !unit.trim_start().starts_with("ms") {
            return None;
        }

        let ms = figure.parse::<f64>().ok().filter(|ms| *ms < 1e9)?;
        // Below the least that it prints.
        let ms = if rest[..begin].ends_with('<') { 0.0 } else { ms };
        let t_s = stamp.parse::<f64>().ok().filter(|t| t.is_finite() && t.abs() < 1e12);
        let digits = figure.split_once('.').map_or(0, |(_, digits)| digits.len());
        Some(Self {
            sample: Sample { ns: (ms * 1e6).round() as i64, t_s },
            decimals: u32::try_from(digits.min(6)).unwrap_or(6),
            is_duplicate: unit.contains("(DUP!)"),
        })
    }
}

/// Where the round trip of `Antwort von 10.0.0.1: Bytes=32 Zeit=2ms TTL=64` begins.
fn place_in_windows(line: &str) -> Option<usize> {
    let (before, _) = line.split_once("ms TTL=")?;
    before.rfind(['=', '<']).map(|end| end + 1)
}

/// Whether a line has the fields that iputils names alike in every language.
fn has_fields(line: &str) -> bool {
    line.contains(" icmp_seq=") && line.contains(" ttl=")
}

/// Whether a line is an answer.
#[must_use]
pub fn is_answer(line: &str) -> bool {
    Answer::parse(line).is_some()
}

/// Whether a line states figures over all: `rtt min/avg/max/mdev = 0.038/0.047/0.065/0.012 ms`.
#[must_use]
pub fn is_summary(line: &str) -> bool {
    summary(line).is_some()
}

/// Minimum, average and maximum, in milliseconds.
fn summary(line: &str) -> Option<[f64; 3]> {
    let (head, figures) = line.trim().split_once(" = ")?;
    if !head.contains("min/avg/max") {
        return None;
    }
    let mut figures = figures.split('/').map(|word| word.split(' ').next()?.parse::<f64>().ok());
    let [min, avg, max] = [figures.next()??, figures.next()??, figures.next()??];
    [min, avg, max].iter().all(|n| n.is_finite()).then_some([min, avg, max])
}

#[derive(Default)]
struct PingText {
    extent: Extent,
    decimals: u32,
    duplicates: u64,
    untimed: u64,
    figures: Option<[f64; 3]>,
    /// Requests sent and answers received, as the closing lines state.
    counts: Option<(u64, u64)>,
    /// Requests without an answer, of runs that have ended.
    lost: u64,
    /// Those of this run, by lines that say so and by the numbers of the others.
    unanswered: u64,
    /// Their numbers: an answer may still come.
    late: BTreeSet<u16>,
    /// Those of lines without a number, which the number of the next line passes over.
    unnumbered: u64,
    /// The number of the request after the last one.
    next: Option<u16>,
    peer: Option<String>,
    passed_over: PassedOver,
    damage: Damage,
}

/// One stream.
///
/// # Errors
/// [`Error`].
pub fn read(file: &mut (impl BufRead + Seek), asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    let mut text = PingText { damage: Damage::new(asked), ..PingText::default() };
    each_line(file, |line| text.line(line))?;
    let series = asked.series.unwrap_or(Series::RoundTrip);
    let mut stream = Stream::default();
    if text.extent.samples > 0 {
        let step_ns = 10_u64.pow(6 - text.decimals);
        // A text in which only some answers have times is one without.
        if text.untimed > 0 {
            text.extent.first_s = None;
        }
        let is_timed = text.extent.first_s.is_some();
        let resolution = Resolution::even(step_ns);
        let counter = SampleCounter::new(series, resolution, text.extent, asked.period_ns);
        stream = counter.count_all(file, |line| {
            let Answer { sample, .. } = Answer::parse(line.text).filter(|of| !of.is_duplicate)?;
            Some(Sample { t_s: sample.t_s.filter(|_| is_timed), ..sample })
        })?;
    } else if let Some(figures) = text.figures {
        let received = text.counts.map(|(_, received)| received).filter(|n| *n > 0);
        let stated = Stated::in_units(received, figures, 1e6);
        let contradiction = || Error::nothing(FORMAT, "its closing figures contradict each other");
        let stated = stated.ok_or_else(contradiction)?;
        stated.put_into(&mut stream, series, 1_000);
    } else {
        let reason = "no request was answered: there is no round trip to import";
        return Err(Error::nothing(FORMAT, reason));
    }

    text.describe(&mut stream);
    stream.lost_lines(&text.damage);
    stream.remarks.extend(text.passed_over.sentence("ping"));
    Ok(vec![stream])
}

impl PingText {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some(answer) = Answer::parse(text) {
            if answer.is_duplicate {
                self.duplicates += 1;
            } else {
                self.request(text, true);
                self.untimed += u64::from(answer.sample.t_s.is_none());
                self.decimals = self.decimals.max(answer.decimals);
                self.extent.take_in(&answer.sample);
            }
        } else if text.contains(" bytes from ") || has_fields(text) {
            let reason = format!("`{text}` has no round trip in milliseconds");
            self.damage.unread(line, reason, (FORMAT, self.extent.samples, "answers"))?;
            self.request(text, true);
        } else if let Some(figures) = summary(text) {
            if self.figures.is_some() && self.extent.samples == 0 {
                return Err(Error::second_run(FORMAT, line.number));
            }
            self.figures = Some(figures);
        } else if let Some((sent, received)) = counts(text) {
            // A log may have many runs to one peer.
            let (all_sent, all_received) = self.counts.unwrap_or_default();
            self.counts =
                Some((all_sent.saturating_add(sent), all_received.saturating_add(received)));
            self.end_run(sent.saturating_sub(received), None);
        } else if is_unanswered(text) {
            self.request(text, false);
        } else if let Some(peer) = PEER.iter().find_map(|before| text.strip_prefix(before)) {
            let peer = peer.split_whitespace().next().map(str::to_owned);
            if self.peer.is_some() && self.peer != peer {
                return Err(Error::second_run(FORMAT, line.number));
            }
            self.peer = peer;
            // Some count from 0, which is behind it.
            self.end_run(self.unanswered, Some(1));
        } else if !(text.starts_with("--- ") && text.ends_with(" ---") || is_of_windows(text)) {
            self.passed_over.count(line);
        }

        Ok(())
    }

    fn end_run(&mut self, lost: u64, next: Option<u16>) {
        self.lost = self.lost.saturating_add(lost);
        (self.unanswered, self.unnumbered) = (0, 0);
        self.late.clear();
        self.next = next;
    }

    /// Takes in a request. Those between the one before and this one have no line: no answer came.
    fn request(&mut self, text: &str, is_answered: bool) {
        let Some(number) = sequence(text) else {
            self.unanswered += u64::from(!is_answered);
            self.unnumbered += u64::from(!is_answered);
            return;
        };
        let passed = self.next.map_or(0, |next| number.wrapping_sub(next));
        let is_behind = passed > u16::MAX / 2;
        if is_behind && self.late.contains(&number) {
            if is_answered {
                self.late.remove(&number);
                self.unanswered -= 1;
            }
            return;
        }

        // What is behind and was not passed over is of another run.
        let passed = if is_behind { 0 } else { passed };
        self.late.extend((0..passed.min(LATEST)).map(|n| number.wrapping_sub(n + 1)));
        let unnumbered = std::mem::take(&mut self.unnumbered);
        self.unanswered += u64::from(passed).saturating_sub(unnumbered) + u64::from(!is_answered);
        if is_answered {
            // Numbers recur after 65,536 requests.
            self.late.remove(&number);
        } else {
            self.late.insert(number);
        }
        self.next = Some(number.wrapping_add(1));
    }

    fn describe(&self, stream: &mut Stream) {
        let lost = self.lost.saturating_add(self.unanswered);
        if lost > 0 {
            stream.lost = lost;
            stream.remarks.push(match self.counts {
                Some((sent, received)) if sent.saturating_sub(received) == lost => {
                    format!("{lost} of {sent} requests were not answered and are in no figure")
                }
                _ => format!("requests without an answer, which are in no figure: {lost}"),
            });
        }
        if let Some((_, received)) = self.counts.filter(|_| self.extent.samples > 0)
            && received != self.extent.samples
        {
            stream.remarks.push(format!(
                "ping states {received} answers, {} are in the text",
                self.extent.samples
            ));
        }
        if self.duplicates > 0 {
            stream
                .remarks
                .push(format!("duplicate answers, which are in no figure: {}", self.duplicates));
        }

        if let Some(peer) = &self.peer {
            stream.remarks.push(format!("round trips to {peer}"));
        }
        stream.lacks("the machine and the command: ping's output does not hold them");
    }
}

/// What stands before the peer in the first line.
const PEER: [&str; 2] = ["PING ", "Pinging "];

/// The number of a request: `icmp_seq=2`, `icmp_seq 2`, `seq=2` of busybox.
fn sequence(text: &str) -> Option<u16> {
    let rest = text.rsplit_once("seq")?.1.get(1..)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Whether a line says that an answer did not come: of iputils (`-O`), macOS and Windows.
fn is_unanswered(text: &str) -> bool {
    // The time of `-D`.
    let stamped = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let text = stamped.map_or(text, |(_, rest)| rest);
    let known =
        ["no answer yet for icmp_seq=", "Request timeout for icmp_seq ", "Request timed out"];
    begins_with(text, &known) || text.to_ascii_lowercase().contains("unreachable")
}

/// Other lines of Windows' ping.
fn is_of_windows(text: &str) -> bool {
    begins_with(text, &["Ping statistics for ", "Approximate round trip times", "Minimum = "])
}

/// `3 packets transmitted, 3 received, 0% packet loss`, `3 packets transmitted, 3 packets received`,
/// `3 Pakete übertragen, 3 empfangen, 0% packet loss`,
/// `Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),`,
/// `Pakete: Gesendet = 4, Empfangen = 3, Verloren = 1`.
fn counts(line: &str) -> Option<(u64, u64)> {
    let first = |text: &str| text.split([' ', ',']).next()?.parse::<u64>().ok();
    let of_windows: Vec<u64> = line.split(" = ").skip(1).map_while(first).collect();
    if let [sent, received, lost] = of_windows[..]
        && received.checked_add(lost) == Some(sent)
    {
        return Some((sent, received));
    }

    let (sent, rest) = line
        .split_once(" packets transmitted, ")
        .or_else(|| line.split_once(", ").filter(|(_, rest)| rest.contains('%')))?;
    Some((first(sent)?, first(rest)?))
}
