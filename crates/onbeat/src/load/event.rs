//! Events of a load while it runs, and its report at the end.

use std::fmt;

use onbeat_record::LoadEventKind;
use serde::{Deserialize, Serialize};

/// An event of a load, with the fields of the run file's note `load` (docs/format.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadNotice {
    /// Seconds since the load was requested.
    pub t: f64,
    /// The load, as typed.
    pub load: String,
    /// What happened.
    #[serde(flatten)]
    pub what: LoadNoticeKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "detail", rename_all = "snake_case")]
pub enum LoadNoticeKind {
    /// All parts run.
    Started {
        /// What each part does, with its limits.
        parts: Vec<String>,
        /// Refused settings, in sentences.
        limits: Vec<String>,
    },
    /// A part ended although it was not asked to.
    PartDied {
        /// The part.
        part: String,
        /// Exit status, signal or error, with the last line that it wrote.
        status: String,
    },
    /// A part was replaced by something else, or by something smaller.
    PartSubstituted {
        /// The part.
        part: String,
        /// The substitute.
        by: String,
        /// The missing Debian package, if that is the reason.
        package: Option<String>,
        /// The reason.
        why: String,
    },
    /// The load has ended and left nothing behind.
    Stopped {
        /// Why it ended.
        why: LoadStopReason,
    },
}

/// Why a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadStopReason {
    /// The starter closed its end of the pipe.
    Asked,
    /// SIGTERM, SIGINT or SIGHUP arrived.
    Signal,
    /// The process that started it has ended.
    ParentGone,
}

impl LoadNotice {
    /// Returns its kind in a run file.
    #[must_use]
    pub const fn kind(&self) -> LoadEventKind {
        match self.what {
            LoadNoticeKind::Started { .. } => LoadEventKind::Started,
            LoadNoticeKind::PartDied { .. } => LoadEventKind::PartDied,
            LoadNoticeKind::PartSubstituted { .. } => LoadEventKind::PartSubstituted,
            LoadNoticeKind::Stopped { .. } => LoadEventKind::Stopped,
        }
    }

    /// Whether all parts of the load run from here on.
    pub(super) const fn is_start(&self) -> bool {
        matches!(self.what, LoadNoticeKind::Started { .. })
    }

    /// Whether the user must know: the load is not what was requested.
    #[must_use]
    pub const fn matters(&self) -> bool {
        self.kind().matters()
    }
}

impl fmt::Display for LoadNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load, what, .. } = self;
        match what {
            LoadNoticeKind::Started { parts, limits } if parts.is_empty() && limits.is_empty() => {
                write!(f, "load {load} started")
            }
            LoadNoticeKind::Started { parts, limits } if limits.is_empty() => {
                write!(f, "load {load} started: {}", parts.join("; "))
            }
            LoadNoticeKind::Started { parts, limits } => {
                write!(f, "load {load} started: {} ({})", parts.join("; "), limits.join("; "))
            }
            LoadNoticeKind::PartDied { part, status } => {
                write!(f, "load part {part} died: {status}")
            }
            LoadNoticeKind::PartSubstituted { part, by, package, why } => {
                write!(f, "load part {part} was replaced by {by}: {why}")?;
                package.as_ref().map_or(Ok(()), |package| write!(f, " (package {package})"))
            }
            LoadNoticeKind::Stopped { why } => write!(f, "load {load} ended: {why}"),
        }
    }
}

impl fmt::Display for LoadStopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "stopped on request",
            Self::Signal => "stopped by a signal",
            Self::ParentGone => "its starter has ended",
        })
    }
}

impl fmt::Display for PartReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.alive { "" } else { ", died before the end" };
        write!(f, "{} ({}): {}{end}", self.part, self.by, self.did)
    }
}

impl fmt::Display for PartWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let (s, es) =
            (|n: u64| if n == 1 { "" } else { "s" }, |n: u64| if n == 1 { "" } else { "es" });
        match *self {
            Self::Cpu { cpus, wanted_share, reached_share } => {
                let reached = reached_share * 100.0;
                let wanted = wanted_share * 100.0;
                write!(f, "{reached:.0} % of {cpus} CPUs, requested {wanted:.0} %")
            }
            Self::Sched { groups, messages } => write!(f, "{messages} messages in {groups} groups"),
            Self::Disk { bytes_written, files, .. } => {
                write!(f, "{:.0} MB in {files} file{}", mb(bytes_written), s(files))
            }
            Self::Network { packets_sent, packets_received } => {
                write!(f, "{packets_sent} packets sent, {packets_received} received")
            }
            Self::Memory { bytes_moved, pages_mapped, .. } => {
                write!(f, "{:.0} MB moved, {pages_mapped} pages mapped", mb(bytes_moved))
            }
            Self::Walk { files, walks, .. } => {
                write!(f, "{files} file{} in {walks} walk{}", s(files), s(walks))
            }
            Self::Program { runs, processes, cpu_s, .. } => {
                let (runs_s, processes_s) = (s(runs), es(processes));
                write!(
                    f,
                    "{runs} run{runs_s}, {processes} process{processes_s}, {cpu_s:.1} s of CPU time"
                )
            }
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// Report of a load at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Why it ended.
    pub why: LoadStopReason,
    /// Reports of the parts.
    pub parts: Vec<PartReport>,
    /// Number of processes that did not end within five seconds: 0, unless the kernel blocks them.
    pub survivors: u32,
}

/// Report of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartReport {
    /// The part.
    pub part: String,
    /// What it ran as at the end: the program with its arguments, or "built in".
    pub by: String,
    /// Whether it was running until the end.
    pub alive: bool,
    /// Returns its counts.
    pub did: PartWork,
}

/// Counts of a part's work. They do not move if the part does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartWork {
    /// `cpu`.
    Cpu {
        /// Number of busy CPUs.
        cpus: u32,
        /// Requested share of each CPU, 0 to 1.
        wanted_share: f64,
        /// Share that the threads got according to their CPU clocks, 0 to 1.
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
        /// How often the file was written up to its limit.
        files: u64,
        /// The limit at the end, in bytes.
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
        /// Total buffer size, in bytes.
        buffer_bytes: u64,
        /// Bytes read and written while streaming.
        bytes_moved: u64,
        /// Pages mapped, written and unmapped.
        pages_mapped: u64,
    },
    /// `walk`.
    Walk {
        /// Files and directories whose metadata was read.
        files: u64,
        /// Number of complete walks of the tree.
        walks: u64,
        /// Number of directories that could not be read.
        unreadable: u64,
    },
    /// A program.
    Program {
        /// Number of starts.
        runs: u64,
        /// Number of its processes that have ended.
        processes: u64,
        /// Number of its processes that were killed, by the load or by others.
        killed: u64,
        /// CPU time of its ended processes, in seconds.
        cpu_s: f64,
        /// Packets that it reports as sent, for `ping`.
        packets_sent: Option<u64>,
    },
    /// It never ran.
    Nothing,
}
