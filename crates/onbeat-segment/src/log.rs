//! The fault log: what went wrong on a segment, a line of JSON each.
//!
//! ```text
//! {"at_ns":1000000,"frame":1000,"fault":"lose","device":null,"what":"begins","seed":7}
//! ```
//!
//! `at_ns` is the carrier's clock, `frame` how many frames were sent before. Values that belong to a fault (`with`, `by`, `code`, `state`,
//! `mails`) stand behind its device. On a virtual clock the same file and frames give the same bytes.

use std::io::{self, Write};

use serde::Serialize;

use super::fault_words::words_of;
use super::link::{Happening, Logged};
use super::segment::Segment;
use onbeat_ethercat::description::FaultWords;

/// Writes a fault log. It knows the names of the devices, and nothing else of the segment.
#[derive(Debug)]
pub struct FaultLog<W> {
    to: W,
    names: Vec<String>,
    seed: u64,
}

#[derive(Serialize)]
struct Line<'l> {
    at_ns: u64,
    frame: u64,
    fault: &'l str,
    device: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<&'l str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mails: Option<u32>,
    what: &'l str,
    seed: u64,
}

impl Happening {
    /// The word for it in logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Begins => "begins",
            Self::Ends => "ends",
            Self::Befalls => "befalls",
            Self::Impossible => "impossible",
        }
    }
}

impl<W: Write> FaultLog<W> {
    /// A log of this segment.
    pub fn of(segment: &Segment, to: W) -> Self {
        let names = segment.devices.iter().map(|device| device.name.to_string()).collect();
        Self { to, names, seed: segment.seed() }
    }

    fn words(&self, logged: &Logged) -> FaultWords {
        words_of(&logged.fault, |device| self.names.get(device).map(String::as_str))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// What writing says.
    pub fn record(&mut self, logged: &Logged) -> io::Result<()> {
        let words = self.words(logged);
        let line = Line {
            at_ns: logged.at.as_ns(),
            frame: logged.frame,
            fault: &words.kind,
            device: words.device.as_deref(),
            with: words.with.as_deref(),
            by: words.by,
            code: words.code,
            state: words.state,
            mails: words.mails,
            what: logged.what.word(),
            seed: self.seed,
        };

        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        self.to.write_all(&bytes)
    }

    /// What happened, for people: `frame 1000: power-off of "left knee" begins`.
    #[must_use]
    pub fn sentence(&self, logged: &Logged) -> String {
        let words = self.words(logged);
        let of = words.device.map_or(String::new(), |device| format!(" of \"{device}\""));
        let what = match logged.what {
            Happening::Impossible => "cannot be: there is no such device or it has nothing of the kind",
            what => what.word(),
        };

        format!("frame {}: {}{of} {what}", logged.frame, words.kind)
    }

    /// Writes out what is still held back.
    ///
    /// # Errors
    /// What writing says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
