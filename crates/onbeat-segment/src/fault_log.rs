//! The fault log of a segment: one line of JSON per entry.
//!
//! ```text
//! {"at_ns":1000000,"frame":1000,"fault":"lose","device":null,"what":"begins","seed":7}
//! ```
//!
//! `at_ns` is the time on the carrier's clock, `frame` the number of frames sent before. The values
//! of a fault (`with`, `by`, `code`, `state`, `mails`) follow its device. On a virtual clock the
//! same file and frames give the same bytes.

use std::io::{self, Write};

use serde::Serialize;

use super::fault_table::to_table;
use super::link::{FaultChange, FaultLogEntry};
use super::segment::Segment;
use onbeat_ethercat::description::FaultTable;

/// Writes a fault log.
#[derive(Debug)]
pub struct FaultLog<W> {
    to: W,
    names: Vec<String>,
    seed: u64,
}

#[derive(Serialize)]
struct FaultLogLine<'l> {
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

impl FaultChange {
    /// Returns the name in logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Begins => "begins",
            Self::Ends => "ends",
            Self::Affects => "affects",
            Self::Impossible => "impossible",
        }
    }
}

impl<W: Write> FaultLog<W> {
    /// Creates a log of this segment that is written to `to`.
    pub fn new(segment: &Segment, to: W) -> Self {
        let names = segment.devices.iter().map(|device| device.name.to_string()).collect();
        Self { to, names, seed: segment.seed() }
    }

    fn table(&self, logged: &FaultLogEntry) -> FaultTable {
        to_table(&logged.fault, |device| self.names.get(device).map(String::as_str))
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn record(&mut self, logged: &FaultLogEntry) -> io::Result<()> {
        let table = self.table(logged);
        let line = FaultLogLine {
            at_ns: logged.at.as_ns(),
            frame: logged.frame,
            fault: &table.kind,
            device: table.device.as_deref(),
            with: table.with.as_deref(),
            by: table.by,
            code: table.code,
            state: table.state,
            mails: table.mails,
            what: logged.what.word(),
            seed: self.seed,
        };

        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        self.to.write_all(&bytes)
    }

    /// Returns an entry as a sentence: `frame 1000: power-off of "left knee" begins`.
    #[must_use]
    pub fn sentence(&self, logged: &FaultLogEntry) -> String {
        let table = self.table(logged);
        let device = table.device.map_or(String::new(), |name| format!(" of \"{name}\""));
        let what = match logged.what {
            FaultChange::Impossible => {
                "is not possible: the device does not exist or cannot have this fault"
            }
            what => what.word(),
        };

        format!("frame {}: {}{device} {what}", logged.frame, table.kind)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
