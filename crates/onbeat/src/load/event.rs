//! What a load tells while it runs and when it has ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that happened to a load; the fields of the run file's note `load` (docs/format.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadNotice {
    /// Seconds since the load was asked for.
    pub t: f64,
    /// The load, as typed.
    pub load: String,
    /// What happened.
    #[serde(flatten)]
    pub what: LoadEventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "detail", rename_all = "snake_case")]
pub enum LoadEventKind {
    /// All parts run.
    Started {
        /// What each part does, with its bounds.
        parts: Vec<String>,
        /// What was not permitted, in sentences.
        limits: Vec<String>,
    },
    /// A part ended although nobody asked it to.
    PartDied {
        /// The part.
        part: String,
        /// How: an exit status, a signal, an error; with the last line it wrote.
        status: String,
    },
    /// Something else, or something smaller, stands in for a part.
    PartSubstituted {
        /// The part.
        part: String,
        /// What stands in.
        by: String,
        /// The Debian package that is missing, when that is the reason.
        package: Option<String>,
        /// Why.
        why: String,
    },
    /// Nothing of the load is left.
    Stopped {
        /// Why it ended.
        why: LoadStopReason,
    },
}

/// Why a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadStopReason {
    /// The stop flag was set, or the starter closed its end of the pipe.
    Asked,
    /// SIGTERM, SIGINT or SIGHUP arrived.
    Signal,
    /// The process that started it is gone.
    ParentGone,
}

impl LoadNotice {
    /// What happened, in the word of the run file's note.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self.what {
            LoadEventKind::Started { .. } => "started",
            LoadEventKind::PartDied { .. } => "part_died",
            LoadEventKind::PartSubstituted { .. } => "part_substituted",
            LoadEventKind::Stopped { .. } => "stopped",
        }
    }

    /// Whether a user must know: the load is not what was asked for.
    #[must_use]
    pub const fn matters(&self) -> bool {
        matches!(self.what, LoadEventKind::PartDied { .. } | LoadEventKind::PartSubstituted { .. })
    }
}

impl fmt::Display for LoadNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load, what, .. } = self;
        match what {
            LoadEventKind::Started { parts, limits } if limits.is_empty() => {
                write!(f, "the load {load} runs: {}", parts.join("; "))
            }
            LoadEventKind::Started { parts, limits } => {
                write!(f, "the load {load} runs: {} ({})", parts.join("; "), limits.join("; "))
            }
            LoadEventKind::PartDied { part, status } => write!(f, "the load's part {part} died: {status}"),
            LoadEventKind::PartSubstituted { part, by, package, why } => {
                write!(f, "instead of the load's part {part} runs {by}: {why}")?;
                package.as_ref().map_or(Ok(()), |package| write!(f, " (package {package})"))
            }
            LoadEventKind::Stopped { why } => write!(f, "the load {load} has ended: {why}"),
        }
    }
}

impl fmt::Display for LoadStopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "it was asked to",
            Self::Signal => "a signal asked it to",
            Self::ParentGone => "the process that started it is gone",
        })
    }
}

impl fmt::Display for PartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.alive { "" } else { ", dead before the end" };
        write!(f, "{} ({}): {}{end}", self.part, self.by, self.did)
    }
}

impl fmt::Display for PartWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        match *self {
            Self::Cpu { cpus, wanted_share, reached_share } => {
                let (reached, wanted) = (reached_share * 100.0, wanted_share * 100.0);
                write!(f, "{reached:.0} % of {cpus} CPUs, wanted {wanted:.0} %")
            }
            Self::Sched { groups, messages } => write!(f, "{messages} messages in {groups} groups"),
            Self::Disk { bytes_written, files, .. } => write!(f, "{:.0} MB in {files} files", mb(bytes_written)),
            Self::Network { packets_sent, packets_received } => {
                write!(f, "{packets_sent} packets sent, {packets_received} received")
            }
            Self::Memory { bytes_moved, pages_mapped, .. } => {
                write!(f, "{:.0} MB moved, {pages_mapped} pages mapped", mb(bytes_moved))
            }
            Self::Walk { files, walks, .. } => write!(f, "{files} files in {walks} walks"),
            Self::Program { runs, processes, cpu_s, .. } => {
                write!(f, "{runs} runs, {processes} processes, {cpu_s:.1} s of CPU time")
            }
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// What a load did, from start to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// The load, as typed.
    pub load: String,
    /// From the start of the parts to the stop, in seconds.
    pub seconds: f64,
    /// Why it ended.
    pub why: LoadStopReason,
    /// What each part did.
    pub parts: Vec<PartReport>,
    /// Processes that could not be ended within five seconds: 0, unless the kernel holds them.
    pub survivors: u32,
}

/// What a part did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartReport {
    /// The part.
    pub part: String,
    /// What carried it at the end: the program with its arguments, or "built in".
    pub by: String,
    /// Whether it was running until the end.
    pub alive: bool,
    /// Its counts.
    pub did: PartWork,
}

/// A part's counts. None of them moves when the part does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartWork {
    /// `cpu`.
    Cpu {
        /// CPUs kept busy.
        cpus: u32,
        /// Share of each that was wanted, 0 to 1.
        wanted_share: f64,
        /// Share that the threads got, by their own CPU clocks, 0 to 1.
        reached_share: f64,
    },
    /// `sched`.
    Sched {
        /// Groups of 20 senders and 20 receivers.
        groups: u32,
        /// Messages of 100 bytes received.
        messages: u64,
    },
    /// `disk`.
    Disk {
        /// Bytes written.
        bytes_written: u64,
        /// How often the file was written up to its bound.
        files: u64,
        /// The bound at the end, in bytes.
        largest_file_bytes: u64,
        /// How often there was no space left.
        no_space: u64,
    },
    /// `network`.
    Network {
        /// Packets of 10 bytes sent.
        packets_sent: u64,
        /// Packets received.
        packets_received: u64,
    },
    /// `memory`.
    Memory {
        /// Size of all buffers, in bytes.
        buffer_bytes: u64,
        /// Bytes read and written while streaming.
        bytes_moved: u64,
        /// Pages mapped, touched and given back.
        pages_mapped: u64,
    },
    /// `walk`.
    Walk {
        /// Files and directories whose metadata was read.
        files: u64,
        /// How often the whole tree was walked.
        walks: u64,
        /// Directories that could not be read.
        unreadable: u64,
    },
    /// A program.
    Program {
        /// How often it was started.
        runs: u64,
        /// Processes of it that have ended.
        processes: u64,
        /// Processes of it that were killed, by the load itself or by others.
        killed: u64,
        /// CPU time of its processes that have ended, in seconds.
        cpu_s: f64,
        /// Packets it says it sent, for `ping`.
        packets_sent: Option<u64>,
    },
    /// It never ran.
    Nothing,
}
