//! Notes: what a run file says besides histograms, one JSON object per comment line.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::boards::BoardAccount;
use super::chain::ChainNote;
use super::events::{EventNote, EventsLeftOut};
use super::exclusion::ExclusionNote;
use super::imported::Import;
use super::joint_steps::JointSteps;
use super::moments::Moments;
use super::motion::MotionNote;
use super::noise::NoiseAccount;
use super::outages::LateNote;
use super::packets::PacketAccount;
use super::robot::{DevicesNote, RobotNote};
use super::seconds::Seconds;
use super::series::Series;
use super::timing::{Timing, is_zero};
use super::trend::Trend;
use super::tuning::Tuning;
use super::vocabulary::Stall;
use super::window::{WindowFate, WindowNote};
use onbeat_cause::{Cause, CauseKind};
use onbeat_host::idle::PowerUse;
use onbeat_host::machine::{Host, salted_id};
use onbeat_host::thread::{Grant, Privilege};

/// One comment line `#[onbeat: {...}]`. Kinds a reader does not know are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// The header; the first note of a file.
    Run(Box<Header>),
    /// The bench that the file belongs to; only in `bench.onbeat.hlog`.
    Bench(Box<Bench>),
    /// Another tool recorded this run; before the first histogram.
    Import(Box<Import>),
    /// An uninterrupted stretch of the loop begins.
    Block(Block),
    /// Counts and exact figures of the interval whose histograms precede it.
    Interval(Box<Interval>),
    /// An event on the bus, or of the robot on it.
    Event(EventNote),
    /// How many events have no note.
    EventsLeftOut(EventsLeftOut),
    /// The run was resumed in this file.
    Resume(Resume),
    /// Largest values, second by second, in files whose histograms are further apart.
    Maxima(Maxima),
    /// A few figures per step of time, in files whose histograms are further apart.
    Trend(Box<Trend>),
    /// Exact figures second by second.
    Seconds(Box<Seconds>),
    /// A sample beyond the spike limit.
    Spike(SpikeNote),
    /// Kernel events around the spike that precedes it.
    Window(Box<WindowNote>),
    /// Something happened to a load.
    Load(LoadEvent),
    /// A load of a sweep begins, or is over; only in `bench.onbeat.hlog`.
    Step(StepNote),
    /// A change around the loop; slots under way during it are in no series.
    Exclusion(ExclusionNote),
    /// What became of packets so far, device by device.
    Packets(Box<PacketAccount>),
    /// What became of the edges between two boards so far, and the state of their clocks.
    Boards(Box<BoardAccount>),
    /// What a polling thread saw of its CPU so far.
    Noise(Box<NoiseAccount>),
    /// The chain through a bus that the run measures.
    Chain(Box<ChainNote>),
    /// What a robot did during the block that precedes it.
    Motion(Box<MotionNote>),
    /// The robot of the run.
    Robot(Box<RobotNote>),
    /// Figures of the joints of a robot, step by step.
    Joints(JointSteps),
    /// State of a robot's bus and devices, and what was counted so far.
    Devices(Box<DevicesNote>),
    /// Idle states and frequency of the loop's CPUs during the block that precedes it.
    Power(Box<PowerNote>),
    /// A remark on the run.
    Remark(Remark),
    /// The closing line.
    End(Account),
}

impl Note {
    /// The kinds that this version knows.
    pub const KINDS: [&str; 27] = [
        "run",
        "bench",
        "import",
        "block",
        "interval",
        "maxima",
        "trend",
        "seconds",
        "spike",
        "window",
        "load",
        "step",
        "exclusion",
        "event",
        "events_left_out",
        "resume",
        "packets",
        "boards",
        "noise",
        "chain",
        "motion",
        "robot",
        "joints",
        "devices",
        "power",
        "remark",
        "end",
    ];
}

/// The header of a run: once, before the first histogram line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// `onbeat.run/1`.
    pub schema: String,
    /// Version of onbeat.
    pub version: String,
    /// 128 random bits, as 32 hexadecimal digits; in `bench.onbeat.hlog` the bench's. Empty in
    /// older files and in those of other tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The machine, as 32 hexadecimal digits: the first half of HMAC-SHA256 of an ID of onbeat's,
    /// keyed with `/etc/machine-id` ([`onbeat_host::machine::salted_id`]).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// The command as typed, word by word.
    pub command: Vec<String>,
    /// What was measured: `timer`; of an imported run the tool.
    pub probe: String,
    /// Series of the run's subject, the main one first; release latency when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Wall clock at the start: seconds since 1970.
    pub started_unix_s: f64,
    /// Facts about the machine ([`onbeat_host::machine`]).
    pub host: Host,
    /// Tuning and load; `None` outside a bench.
    pub cell: Option<Cell>,
    /// How the loop was timed; `None` in `bench.onbeat.hlog` and in imported runs.
    pub timing: Option<Timing>,
    /// Privileges requested for the loop.
    pub grants: Vec<Grant>,
    /// The limit that the run is judged by; `None` without one. A bench has its own.
    #[serde(default)]
    pub limit: Option<LimitNote>,
    /// Number of looks at which the verdict could end the run, and which share its level; absent
    /// for a run of fixed length.
    #[serde(default, skip_serializing_if = "is_no_look")]
    pub looks: usize,
    /// Limit on alarms of bus and robot. A bench has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_alarms: Option<u64>,
    /// Settings that differed from the recommended value when the run began, the most harmful
    /// first; of a bench in `bench.onbeat.hlog` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingNote>,
    /// The measured thread, if it belongs to another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskNote>,
}

/// A thread of another program. Its number is reused after its end and after a boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNote {
    /// Thread ID.
    pub tid: i32,
    /// Start of the thread, in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot: `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Name of the thread, at most 15 bytes.
    pub name: String,
}

/// A setting that differs from the recommended value, as `onbeat tune check` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingNote {
    /// Id in the catalogue of tunings: `irq.affinity`.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// Expected effect on the tail of a 1 kHz loop's latency: 3 up to milliseconds, 2 tens to
    /// hundreds of microseconds, 1 some microseconds or rarely, 0 good practice only.
    pub effect: u8,
    /// Value found.
    pub current: String,
    /// Recommended value.
    pub wanted: String,
    /// What a change needs to take effect: `now`, `reboot`.
    pub takes: String,
    /// Causes that it removes or reduces.
    pub mends: Vec<String>,
}

impl Header {
    /// `none`, or those of P, M, C and S that the run had.
    #[must_use]
    pub fn tuning(&self) -> String {
        self.tuned().to_string()
    }

    /// Returns which of P, M, C and S the run had.
    #[must_use]
    pub fn tuned(&self) -> Tuning {
        // By what was granted and not by what was asked for: a cell PM without rights is a cell
        // without a tuning.
        let has = |privilege| {
            self.grants.iter().any(|grant| grant.granted && grant.privilege() == Some(privilege))
        };
        Tuning {
            priority: has(Privilege::RealTimePriority),
            memory: has(Privilege::LockedMemory),
            shield: has(Privilege::CpuShield),
            // Spinning needs no privilege; it is in the loop's own setting.
            spin: self.timing.as_ref().is_some_and(|timing| timing.wait_kind().spins()),
        }
    }

    /// The present schema's name.
    pub const SCHEMA: &'static str = "onbeat.run/1";

    /// The header of a run on this machine, with what is known before its set-up; `started_unix_s`
    /// in seconds since 1970.
    #[must_use]
    pub fn new(command: &[String], probe: &str, series: &[Series], started_unix_s: f64) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id: random_id(),
            machine: salted_id().unwrap_or_default(),
            command: command.to_vec(),
            probe: probe.to_owned(),
            series: series.to_vec(),
            started_unix_s,
            host: Host::read(),
            ..Self::default()
        }
    }
}

/// 128 random bits: neither the clock, which may be set back, nor a counter on the disk, which is copied with it, tells two runs
/// apart. Empty where the kernel gives none.
fn random_id() -> String {
    let mut bits = [0; 16];
    match rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty()) {
        Ok(16) => bits.iter().map(|byte| format!("{byte:02x}")).collect(),
        _ => String::new(),
    }
}

/// One tuning under one load.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// `none`, or letters of P, M, C, S.
    pub tuning: String,
    /// The load as typed.
    pub load: String,
    /// The CPU of its loop, where each of several has one; `None` with one loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

impl Cell {
    /// The cell of one loop.
    #[must_use]
    pub fn new(tuning: impl Into<String>, load: impl Into<String>) -> Self {
        Self { tuning: tuning.into(), load: load.into(), cpu: None }
    }

    /// This cell with a loop on each of these CPUs; without any, alone.
    #[must_use]
    pub fn on_each(self, cpus: &[u32]) -> Vec<Self> {
        if cpus.is_empty() {
            return vec![self];
        }
        cpus.iter().map(|cpu| Self { cpu: Some(*cpu), ..self.clone() }).collect()
    }

    /// The name of its run file: characters that file systems mind are replaced by `_`. Where that
    /// is more than a space, or the name is long, a fingerprint tells it from all others.
    #[must_use]
    pub fn file_name(&self) -> String {
        /// File systems allow 255 bytes.
        const LONGEST: usize = 90;
        let typed = format!("{}-{}", self.tuning, self.load);
        let mut name = plain_name(&typed);
        if name != typed.replace(' ', "_") || name.len() > LONGEST {
            name.truncate(LONGEST);
            name += &format!("-{:08x}", fingerprint(&typed));
        }
        let cpu = self.cpu.map_or_else(String::new, |cpu| format!("-cpu{cpu}"));
        format!("{name}{cpu}.onbeat.hlog")
    }
}

/// Returns a text for the name of a file: characters that file systems mind are replaced by `_`.
#[must_use]
pub fn plain_name(text: &str) -> String {
    // A tuning may hold ids of the catalogue with dots and equal signs; a slash in it must not
    // leave the directory.
    text.replace(|c: char| !c.is_ascii_alphanumeric() && !"-=%+.".contains(c), "_")
}

/// Returns the 32-bit FNV-1a hash (Fowler, Noll and Vo), which is the same in every version of
/// onbeat.
#[must_use]
pub fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// `PMC/paper`, and with a loop on each of several CPUs `PMC/paper/2`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tuning, self.load)?;
        self.cpu.map_or(Ok(()), |cpu| write!(f, "/{cpu}"))
    }
}

/// An uninterrupted stretch of the loop begins; a bench cell has many. A resumed bench drops a
/// cell's last block if it counts fewer slots than planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Number of the block, from 0 in each file.
    pub index: u32,
    /// Start, in seconds since the file's start.
    pub t: f64,
    /// The load that ran in it.
    pub load: String,
    /// Number of first releases whose timely cycles are in no series, because they ran with cold
    /// caches.
    pub warmup: u64,
    /// Planned length in releases; `None` without a planned end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releases: Option<u64>,
}

/// Counts and exact moments of an interval, or of a part of one, after its histogram lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start, in seconds since the file's start.
    pub t: f64,
    /// Length in seconds.
    pub length: f64,
    /// Block that it belongs to.
    pub block: u32,
    /// Cycles counted.
    pub cycles: u64,
    /// Skipped releases.
    pub skipped: u64,
    /// Cycles that ended after the next release.
    pub overruns: u64,
    /// Cycles that ended after their deadline.
    pub deadline_misses: u64,
    /// Slots without a sample: the ring to the recorder was full or, imported, no answer came.
    pub lost: u64,
    /// Cycles in no series because they ran with cold caches; not among `cycles`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup: u64,
    /// Slots in no series because of an `exclusion`; not among `cycles` and `skipped`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excluded: u64,
    /// Skipped releases among `excluded`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excluded_skipped: u64,
    /// With `--split`: cycles without a time stamp of one of the parts, which are in no series of
    /// the parts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsplit: u64,
    /// Samples beyond the spike limit; the ten worst have a `spike` note.
    pub spikes: u64,
    /// Exact moments of each series with samples.
    pub series: BTreeMap<Series, Moments>,
    /// Outages, one entry per limit watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<LateNote>,
    /// Spikes by main cause; empty without an analysis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<CauseKind, CauseCount>,
}

/// Spikes with one main cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// Number of spikes.
    pub spikes: u64,
    /// The largest lateness among them, in nanoseconds.
    pub worst_ns: u64,
    /// Sum of the lateness explained, from the programmed expiry on, in nanoseconds.
    pub lateness_ns: u64,
    /// Part of that sum that the causes account for, in nanoseconds.
    pub accounted_ns: u64,
    /// By culprit, such as `dd/write` or `NET_RX`; threads of one program share its name. At most
    /// 16 per cause and interval ([`Self::CULPRITS`]); spikes of others are only in `spikes` above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub culprits: BTreeMap<String, CulpritCount>,
}

/// Spikes of one culprit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CulpritCount {
    /// Number of spikes.
    pub spikes: u64,
    /// The largest lateness among them, in nanoseconds.
    pub worst_ns: u64,
}

impl CauseCount {
    /// Culprits that an interval keeps of a kind.
    // A machine under load has hundreds of threads that delay something once. Those that matter
    // come early and often.
    pub const CULPRITS: usize = 16;

    /// Both together.
    #[must_use]
    pub fn merged(mut self, other: &Self) -> Self {
        for (name, of_culprit) in &other.culprits {
            // Merging drops nobody: the bound is on what one interval may write.
            self.add_culprit(name, *of_culprit, usize::MAX);
        }
        Self {
            spikes: self.spikes + other.spikes,
            worst_ns: self.worst_ns.max(other.worst_ns),
            lateness_ns: self.lateness_ns + other.lateness_ns,
            accounted_ns: self.accounted_ns + other.accounted_ns,
            culprits: self.culprits,
        }
    }

    /// Counts spikes of a culprit, when it is known already or fewer than `most` are.
    pub(super) fn add_culprit(&mut self, name: &str, of: CulpritCount, most: usize) {
        if self.culprits.len() >= most && !self.culprits.contains_key(name) {
            return;
        }
        let known = self.culprits.entry(name.to_owned()).or_default();
        known.spikes += of.spikes;
        known.worst_ns = known.worst_ns.max(of.worst_ns);
    }

    /// Returns the most frequent culprit of these spikes, where that is known.
    #[must_use]
    pub fn most_frequent(&self) -> Option<(&str, CulpritCount)> {
        let most = self.culprits.iter().max_by_key(|(_, of)| (of.spikes, of.worst_ns))?;
        Some((most.0, *most.1))
    }
}

/// Largest values per second, in runs with histogram intervals longer than a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maxima {
    /// Start, in seconds since the file's start.
    pub t: f64,
    /// Seconds per value.
    pub every: f64,
    /// Nanoseconds; 0 without a sample.
    pub series: BTreeMap<Series, Vec<u64>>,
}

/// A sample beyond the spike limit. The ten worst of an interval are kept; `spikes` of the note
/// `interval` counts all. The n-th note of a file is spike n: `onbeat export RUN --cell PMC/paper
/// --spike 3`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpikeNote {
    /// Number of the spike in its run file, from 1 in the order of time; in summaries only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u64,
    /// Its release, in seconds since the file's start.
    pub t: f64,
    /// Cycle number k.
    pub index: u64,
    /// Block that it belongs to.
    pub block: u32,
    /// `s_k − r_k`.
    pub wakeup_latency_ns: u64,
    /// `e_k − s_k`.
    pub execution_time_ns: u64,
    /// Releases skipped immediately before it.
    pub skipped: u64,
    /// A rule of the scheduler or a signal that stopped the loop; `None` where latency of the
    /// machine is the reason.
    pub stall: Option<Stall>,
    /// Causes, whose `ns` add up to the lateness, `unexplained` included; empty without an
    /// analysis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Whether a `window` note follows; `None` without an analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowFate>,
}

/// An event of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadEvent {
    /// Seconds since the file's start.
    pub t: f64,
    /// The load as typed.
    pub load: String,
    /// The event.
    pub event: super::words::LoadEventKind,
    /// Details in words.
    pub detail: String,
}

/// Idle states and frequency of the loop's CPUs during a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerNote {
    /// End of the block, in seconds since the file's start.
    pub t: f64,
    /// Number of the block.
    pub block: u32,
    /// Counters of the kernel.
    #[serde(flatten)]
    pub used: PowerUse,
}

/// A remark on the run, such as the number of commands without a visible effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The remark, without a full stop.
    pub sentence: String,
}

/// The closing line: every slot accounted for. The last one counts, for the whole file. A file
/// without one, or with a `block` or `resume` note after it, was cut off: its counts come from the
/// intervals. The writer holds an advisory lock (`flock`) during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Seconds since the file's start.
    pub t: f64,
    /// Reason of the end.
    pub reason: EndReason,
    /// Slots: `cycles + skipped + lost`.
    pub slots: u64,
    /// Cycles whose samples were received, those of `warmup` and `excluded` included.
    pub cycles: u64,
    /// Skipped releases, excluded ones included.
    pub skipped: u64,
    /// Slots whose samples did not reach the recorder, because the ring between loop and recorder
    /// was full.
    pub lost: u64,
    /// Cycles in no series because they ran with cold caches.
    pub warmup: u64,
    /// Largest wake-up latency of the warm-up, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup_worst_ns: u64,
    /// Slots in no series because of an `exclusion`.
    #[serde(default)]
    pub excluded: u64,
    /// Slots of parts that were killed before their closing line. The kernel's counters below do
    /// not contain them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold: u64,
    /// Page faults of the loop's thread while it ran, as the kernel counts them.
    pub page_faults: u64,
    /// Involuntary context switches of the loop's thread while it ran.
    pub involuntary_switches: u64,
    /// CPU time of the loop's thread, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the thread that explains spikes, in nanoseconds.
    #[serde(default)]
    pub causes_cpu_ns: u64,
    /// Spikes explained.
    #[serde(default)]
    pub causes_explained: u64,
    /// Spikes explained although events around them were missing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub causes_incomplete: u64,
    /// Longest time from the end of a spike's cycle to its explanation, in nanoseconds.
    #[serde(default)]
    pub causes_slowest_ns: u64,
    /// Memory held for the analysis, in bytes.
    #[serde(default)]
    pub causes_bytes: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The planned time was over.
    #[default]
    Complete,
    /// Ctrl-C, SIGTERM, or the bench.
    Asked,
    /// A cycle overran and the loop was configured to stop then.
    Overrun,
    /// The task ended the loop.
    Task,
}

/// The options and conditions of a bench; only in `bench.onbeat.hlog`, which has no samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// Tunings in the order requested.
    pub tunings: Vec<String>,
    /// Loads in the order requested.
    pub loads: Vec<String>,
    /// Order in which the cells ran.
    pub order: super::words::RunOrder,
    /// Blocks per cell.
    pub blocks: u32,
    /// Seconds per block.
    pub block_s: f64,
    /// The limit that the cells are judged by; `None` without one.
    pub limit: Option<LimitNote>,
    /// Number of looks at each cell at which the verdict could end the bench, and which share its
    /// level; absent for a bench of fixed length.
    #[serde(default, skip_serializing_if = "is_no_look")]
    pub looks: usize,
    /// Limit on alarms of bus and robot per cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_alarms: Option<u64>,
    /// Cells that were not run.
    pub not_permitted: Vec<CellNotPermitted>,
    /// Privileges requested.
    pub ladder: Vec<Grant>,
    /// What the shield moved and what it could not move, in sentences.
    #[serde(default)]
    pub shield: Vec<String>,
    /// Series and limit of a sweep; `None` in other benches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepNote>,
    /// The command that runs the robot of this bench, without tuning and load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub robot_command: Vec<String>,
    /// CPUs with a loop each, at the same time, in every cell; empty with one loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
}

impl Bench {
    /// Returns the cells of a tuning under a load, which ran at the same time: one for each CPU.
    #[must_use]
    pub fn cells(&self, tuning: &str, load: &str) -> Vec<Cell> {
        Cell::new(tuning, load).on_each(&self.cpus)
    }
}

/// The series and limit of a sweep over rising load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepNote {
    /// Series whose jitter is limited.
    pub series: Series,
    /// Largest jitter (max − min) allowed, in nanoseconds.
    pub allowed_jitter_ns: u64,
    /// Whether that is the paper's value, because none was requested: it is shown and decides
    /// nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
}

/// A load of a sweep: once when it begins, and again when it, or a part of it, is over. Only in
/// `bench.onbeat.hlog`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepNote {
    /// The load as typed.
    pub load: String,
    /// Requested CPU load, in percent of all CPUs.
    pub asked_percent: f64,
    /// Busy time of all CPUs by `/proc/stat`, loop and steal included, in percent; `None` at the
    /// beginning and where it cannot be read.
    pub reached_percent: Option<f64>,
    /// Seconds over which that was measured; the weight of a part.
    #[serde(default)]
    pub seconds: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The signature that serde calls.
const fn is_no_look(looks: &usize) -> bool {
    *looks == 0
}

/// A limit on a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitNote {
    /// Largest value that is on time, in nanoseconds.
    pub limit_ns: u64,
    /// Percentage of releases that must meet it, above 0 to 100.
    pub at: f64,
    /// Series that it applies to.
    pub on: Series,
}

impl LimitNote {
    /// Percent of the releases that are to meet the loop's own deadline where no limit is given.
    // Without a limit of the user's the deadline is watched as well, so that a later question about
    // it can be answered from the file.
    pub const OF_DEADLINE_AT: f64 = 99.9;

    /// The limit that a loop has by itself: its deadline.
    #[must_use]
    pub const fn of_deadline(deadline_ns: u64) -> Self {
        Self { limit_ns: deadline_ns, at: Self::OF_DEADLINE_AT, on: Series::ResponseTime }
    }
}

/// A cell that was not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellNotPermitted {
    /// The cell.
    pub cell: Cell,
    /// The reason, and what would permit it.
    pub why_not: String,
}

/// The run was resumed in this file; the next `block` follows. Times continue by the wall clock and
/// never go back; instants of `window` notes are of their own boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// Seconds since the file's start.
    pub t: f64,
    /// Seconds before it in which nothing was measured.
    pub unmeasured_s: f64,
    /// Reason for the end of the part before it; `None` when that was cut off.
    pub after: Option<EndReason>,
    /// `r_0 mod T` from here on, in nanoseconds: the clock restarts from 0 at boot.
    pub phase_ns: u64,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_cell_has_a_run_file_of_its_own_in_the_directory_of_its_run() {
        let long = format!("run:{}", "x".repeat(300));
        let longer = format!("{long}x");
        let loads = ["idle", "cpu=50%", "run:a b", "run:a_b", "run:a/b", &*long, &*longer];
        let cells = loads.map(|load| Cell::new("P+sched.rt_runtime", load));
        let of_plans = ["./a/b.toml", "./a_b.toml"].map(|plan| Cell::new(plan, "idle"));
        let names: BTreeSet<String> = cells.iter().chain(&of_plans).map(Cell::file_name).collect();
        assert_eq!(names.len(), loads.len() + of_plans.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 120 && !name.contains('/')), "{names:?}");
        assert!(names.contains("P+sched.rt_runtime-cpu=50%.onbeat.hlog"), "{names:?}");
        assert_eq!(Cell::new("CPU 0", "idle").file_name(), "CPU_0-idle.onbeat.hlog");
    }
}
