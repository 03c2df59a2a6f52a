//! The message that starts a cell.
//!
//! The bench starts the process of each cell without arguments and writes a [`CellStart`] to its
//! standard input: one JSON object on one line. Requests for blocks follow on the same pipe
//! ([`super::cell::CellRequest`]).

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

use super::cell_tuning::LoopOptions;
use super::error::BenchError;
use crate::json_lines;
use crate::probe::resume::ResumePoint;
use crate::probe::{self, Destination, Run, RunError, Setting};
use onbeat_host::thread::Grant;
use onbeat_record::{Cell, Past, Series};

/// The version of this onbeat.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Longest start of a cell, in bytes; a path has at most 4096.
const MOST_BYTES: u64 = 1 << 20;

/// All that a cell's process has to know before its first block.
///
/// ```
/// use onbeat::bench::LoopOptions;
/// use onbeat::bench::cell_start::{CellStart, CellTask};
/// use onbeat::probe::Setting;
/// use onbeat::record::Cell;
///
/// let start = CellStart {
///     onbeat: CellStart::version(),
///     command: vec!["onbeat".into(), "bench".into()],
///     cell: Cell::new("PM", "idle"),
///     file: "onbeat-runs/latest/PM-idle.onbeat.hlog".into(),
///     started_unix_s: 0.0,
///     origin_ns: 0,
///     task: CellTask::Timer,
///     setting: Setting::new(1_000_000),
///     options: LoopOptions::default(),
///     explain: false,
///     resume: None,
/// };
/// let mut line = Vec::new();
/// start.write(&mut line)?;
/// assert_eq!(CellStart::read(&mut line.as_slice())?, start);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellStart {
    /// Version of the bench's onbeat; a cell of another version does not start.
    pub onbeat: String,
    /// The command of the bench as typed, for the run file.
    pub command: Vec<String>,
    /// Tuning and load.
    pub cell: Cell,
    /// The run file to create or to resume.
    #[serde(with = "path_as_json")]
    pub file: PathBuf,
    /// Start of the bench by the wall clock, in seconds since 1970.
    pub started_unix_s: f64,
    /// The instant that is 0 in all files of the bench, in nanoseconds of `CLOCK_MONOTONIC`.
    pub origin_ns: u64,
    /// What the loop does in each cycle.
    pub task: CellTask,
    /// How the loop runs, with the tuning of the cell.
    pub setting: Setting,
    /// What the tuning of the cell changes of the loop; the setting has all of it but timer slack
    /// and OOM score.
    pub options: LoopOptions,
    /// Whether the cell asks the bench to explain spikes.
    pub explain: bool,
    /// Where the run file is resumed; `None` creates it.
    pub resume: Option<ResumePoint>,
}

/// What the loop of a cell does in each cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellTask {
    /// Works for the time that its setting plans.
    #[default]
    Timer,
    /// Exchanges process data with the devices of an EtherCAT segment, and moves the robot on it.
    /// The process that serves the cell brings both.
    Bus(BusCell),
    /// Has a drive of a simulated segment follow an input of a sensor, and measures how long that takes.
    Chain(BusCell),
    /// Sends a packet to each device of a network, and takes the answers.
    RoundTrip(RoundTripCell),
    /// Works as [`CellTask::Timer`], and touches memory for the first time.
    FreshMemory {
        /// Pages of 4 KiB in each cycle.
        pages: u32,
    },
    /// Is the loop of another program, which is started anew for each block and watched.
    Program(ProgramCell),
}

/// The program in a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramCell {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Name of the thread with the loop; `None` takes the most regular one.
    pub thread: Option<String>,
}

/// The devices of a cell's round trips, as typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundTripCell {
    /// Addresses of the devices; `None` for echo devices in the cell's process.
    pub to: Option<String>,
    /// Number of devices, at consecutive ports.
    pub devices: u64,
}

/// The bus in a cell's loop, as typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusCell {
    /// Segment file, or the name of a built-in robot.
    pub file: String,
    /// Network interface of real devices; `None` simulates them.
    pub interface: Option<String>,
    /// When replies are read: `pipelined`, `same-cycle`.
    pub exchange: String,
    /// Trajectory of the joints; `None` for the file's.
    pub trajectory: Option<String>,
    /// Processing time of simulated devices in nanoseconds; `None` for the file's.
    pub device_delay_ns: Option<u64>,
    /// Transport of frames, as of `onbeat measure bus --wire`; `None` for its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
}

/// The start of a cell could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CellStartError {
    /// Standard input could not be read.
    #[error(
        "cannot read the start of a cell from standard input: {0}; cells are started by `onbeat bench`"
    )]
    Read(#[from] io::Error),
    /// The line is not a start.
    #[error(
        "the first line of standard input is not a valid start of a cell: {0}; cells are started by `onbeat bench`"
    )]
    NotValid(#[from] serde_json::Error),
    /// The bench has another version.
    #[error(
        "the bench is onbeat {bench} and its cell onbeat {cell}: the program was replaced after the bench had started; \
         start the bench again"
    )]
    OtherVersion {
        /// Version of the bench.
        bench: String,
        /// Version of the cell.
        cell: &'static str,
    },
}

/// The one field that every version of the message has.
#[derive(Deserialize)]
struct VersionOfStart {
    onbeat: String,
}

impl CellStart {
    /// Returns the version that a start of this onbeat carries.
    #[must_use]
    pub fn version() -> String {
        VERSION.to_owned()
    }

    /// Writes the message as one line.
    ///
    /// # Errors
    /// What writing answers.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        json_lines::write(to, self)
    }

    /// Reads the message from the first line of `input`, and nothing behind it.
    ///
    /// # Errors
    /// [`CellStartError`]; another version is reported before anything else of the message is read.
    pub fn read(input: &mut impl BufRead) -> Result<Self, CellStartError> {
        let mut line = String::new();
        io::Read::take(&mut *input, MOST_BYTES).read_line(&mut line)?;
        let VersionOfStart { onbeat } = serde_json::from_str(&line)?;
        if onbeat != VERSION {
            return Err(CellStartError::OtherVersion { bench: onbeat, cell: VERSION });
        }

        Ok(serde_json::from_str(&line)?)
    }

    /// Prepares the process and creates the run file of the cell, or resumes it after its last
    /// complete block; `grants` were made before, `series` are those of the probe.
    ///
    /// # Errors
    /// As [`Run::open`] and [`Run::resume_at`], and [`BenchError::NotPermitted`].
    pub fn open_run(&self, series: &[Series], grants: Vec<Grant>) -> Result<Run, BenchError> {
        self.options.set(&self.cell.tuning)?;
        let mut header = probe::header(&self.command, "timer", series, self.started_unix_s);
        header.cell = Some(self.cell.clone());
        header.grants = grants;
        let setting = self.setting.clone();
        Ok(match self.resume.clone() {
            Some(point) => {
                let past = Past::open_at_whole_block(&self.file).map_err(RunError::from)?;
                Run::resume_at(past, header, setting, point)?
            }
            None => {
                let origin = Instant::from_ns(self.origin_ns);
                Run::open(Destination { path: &self.file, header, origin }, setting)?
            }
        })
    }
}

/// A path as JSON: text, or its bytes where it is not UTF-8.
pub mod path_as_json {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum TextOrBytes {
        Text(String),
        Bytes(Vec<u8>),
    }

    /// Writes a path as a field.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let bytes = || TextOrBytes::Bytes(path.as_os_str().as_bytes().to_vec());
        path.to_str().map_or_else(bytes, |text| TextOrBytes::Text(text.to_owned())).serialize(to)
    }

    /// Reads a path from a field.
    ///
    /// # Errors
    /// Those of the format.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match TextOrBytes::deserialize(from)? {
            TextOrBytes::Text(text) => text.into(),
            TextOrBytes::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;

    fn start() -> CellStart {
        CellStart {
            onbeat: CellStart::version(),
            command: vec!["onbeat".to_owned(), "bench".to_owned(), "--limit=100us".to_owned()],
            cell: Cell::new("PMCS", "cpu=50%+disk"),
            file: Path::new(OsStr::from_bytes(b"runs of \xff/PMCS \"x\"\n.onbeat.hlog")).to_owned(),
            started_unix_s: 1_700_000_000.25,
            origin_ns: u64::MAX,
            task: CellTask::Bus(BusCell {
                file: "my \"robot\".toml".to_owned(),
                interface: Some("eth1".to_owned()),
                exchange: "same-cycle".to_owned(),
                trajectory: None,
                device_delay_ns: Some(500_000),
                wire: Some("xdp".to_owned()),
            }),
            setting: Setting::new(250_000),
            options: LoopOptions {
                timer_slack_ns: Some(1),
                oom_score: Some(-1000),
                ..LoopOptions::default()
            },
            explain: true,
            resume: Some(ResumePoint::now(0.0, 0.5)),
        }
    }

    fn line(start: &CellStart) -> String {
        let mut line = Vec::new();
        start.write(&mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_start_is_one_line_and_what_follows_stays_in_the_pipe() {
        let start = start();
        let text = line(&start) + "{\"block\":{}}\n";
        let mut input = text.as_bytes();
        assert_eq!(CellStart::read(&mut input).unwrap(), start);
        assert_eq!(input, b"{\"block\":{}}\n");
    }

    #[test]
    fn another_version_is_reported_although_its_message_has_other_fields() {
        let why = CellStart::read(&mut "{\"onbeat\":\"99.0.0\",\"new\":1}\n".as_bytes())
            .unwrap_err()
            .to_string();
        assert!(why.contains("the bench is onbeat 99.0.0 and its cell onbeat"), "{why}");
        assert!(why.ends_with("start the bench again"), "{why}");
    }

    #[test]
    fn what_is_not_a_start_is_one_sentence() {
        let unknown = line(&start()).replacen('{', "{\"colour\":1,", 1);
        for wrong in ["", "\n", "{}\n", "PMC\n", "{\"onbeat\":1}\n", &unknown, &"x".repeat(2 << 20)]
        {
            let why = CellStart::read(&mut wrong.as_bytes()).unwrap_err().to_string();
            assert!(
                why.contains("is not a valid start of a cell") && why.contains("`onbeat bench`"),
                "{why}"
            );
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }
}
