//! Notes: what a run file says besides histograms, one JSON object per comment line.

use std::collections::BTreeMap;

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
    /// Exact figures of the interval whose histograms stand above.
    Interval(Box<Interval>),
    /// Something happened on the bus, or to the robot on it.
    Event(EventNote),
    /// How many events have no note.
    EventsLeftOut(EventsLeftOut),
    /// The run was resumed in this file.
    Resume(Resume),
    /// Largest values, second by second, where histograms are further apart.
    Maxima(Maxima),
    /// A few figures per step of time, where histograms are further apart.
    Trend(Box<Trend>),
    /// Exact figures second by second.
    Seconds(Box<Seconds>),
    /// A sample beyond the spike limit.
    Spike(SpikeNote),
    /// What the CPUs did around the spike above.
    Window(Box<WindowNote>),
    /// Something happened to a load.
    Load(LoadEvent),
    /// A load of a sweep is over; only in `bench.onbeat.hlog`.
    Step(StepNote),
    /// Something around the loop changed, and what was under way is in no series.
    Exclusion(ExclusionNote),
    /// The packets of the run so far, device by device.
    Packets(Box<PacketAccount>),
    /// The edges between two boards so far, and their clocks.
    Boards(Box<BoardAccount>),
    /// What a polling thread saw of its CPU so far.
    Noise(Box<NoiseAccount>),
    /// The chain through a bus that the run measures.
    Chain(Box<ChainNote>),
    /// What a robot did in the block above.
    Motion(Box<MotionNote>),
    /// The robot of the run.
    Robot(Box<RobotNote>),
    Joints(JointSteps),
    /// Its bus and devices so far.
    Devices(Box<DevicesNote>),
    /// How the CPUs of the loop rested and how fast they ran in the block above.
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

/// The header of a run: written once, before anything is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// `onbeat.run/1`.
    pub schema: String,
    /// Version of onbeat.
    pub version: String,
    /// The run's own number, drawn at random: 32 hexadecimal digits; empty in files of before, and of other tools. Of a bench that
    /// of `bench.onbeat.hlog` is the bench's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The number of the machine ([`onbeat_host::machine::salted_id`]); empty as above, and where the machine has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// What was measured: `timer`.
    pub probe: String,
    /// The series it is about, the main one first; release latency when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Wall clock at the start, for people: seconds since 1970.
    pub started_unix_s: f64,
    /// The machine.
    pub host: Host,
    /// The bench cell, when it is one.
    pub cell: Option<Cell>,
    /// The loop's timing; absent in `bench.onbeat.hlog`.
    pub timing: Option<Timing>,
    /// The privileges requested for the loop, and which were granted.
    pub grants: Vec<Grant>,
    /// The limit to judge this run by, when one was given; a bench has its own.
    #[serde(default)]
    pub limit: Option<LimitNote>,
    /// Looks at the run that shared the level of its verdict, because it was to end when it was
    /// decided; 0 and 1 for a run of a length given.
    #[serde(default, skip_serializing_if = "is_no_look")]
    pub looks: usize,
    /// How many alarms of bus and robot there may be, when a limit for them was given; a bench has
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_alarms: Option<u64>,
    /// Tunings that were not as wanted when the run began, the most harmful first; of a bench they
    /// stand in `bench.onbeat.hlog` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<FindingNote>,
    /// The thread whose loop was measured, where it is one of another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskNote>,
}

/// A thread of another program: its number is that of another one after its end, or after a boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskNote {
    /// Its number.
    pub tid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot, as in `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Its name, at most 15 bytes.
    pub name: String,
}

/// A tuning of the catalogue that is not as wanted, as `onbeat tune check` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingNote {
    /// The tuning: `irq.affinity`.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// Expected effect on the tail of a 1 kHz loop's latency: 3 up to milliseconds, 2 tens to
    /// hundreds of microseconds, 1 some microseconds or rare, 0 hygiene.
    pub effect: u8,
    /// What was found.
    pub current: String,
    /// What is wanted.
    pub wanted: String,
    /// What a change takes before it has an effect: `now`, `reboot`.
    pub takes: String,
    /// The causes that it removes or reduces, by their names in run files.
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
            cell: None,
            timing: None,
            grants: Vec::new(),
            limit: None,
            looks: 0,
            most_alarms: None,
            findings: Vec::new(),
            task: None,
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
}

impl Cell {
    /// The name of its run file: characters that file systems mind are replaced by `_`.
    #[must_use]
    pub fn file_name(&self) -> String {
        let sanitized = |text: &str| {
            text.chars()
                // A tuning may hold ids of the catalogue with dots and equal signs; a slash in it
                // must not leave the directory.
                .map(|c| if c.is_ascii_alphanumeric() || "-=%+.".contains(c) { c } else { '_' })
                .collect::<String>()
        };
        format!("{}-{}.onbeat.hlog", sanitized(&self.tuning), sanitized(&self.load))
    }
}

/// A stretch of the loop without a break.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Counts from 0 in each file.
    pub index: u32,
    /// Seconds since the file's start.
    pub t: f64,
    /// The load that ran in it.
    pub load: String,
    /// Of this number of releases at its start, cycles that were on time are in no series: they ran
    /// with cold caches.
    pub warmup: u64,
    /// Planned length in releases; `None` for a block without a planned end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releases: Option<u64>,
}

/// Exact figures of one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start, in seconds since the file's start.
    pub t: f64,
    /// Seconds.
    pub length: f64,
    /// The block it belongs to.
    pub block: u32,
    /// Cycles counted.
    pub cycles: u64,
    /// Releases skipped.
    pub skipped: u64,
    /// Cycles that ended after the next release.
    pub overruns: u64,
    /// Cycles that ended after their deadline.
    pub deadline_misses: u64,
    /// Samples dropped because the ring between loop and recorder was full.
    pub lost: u64,
    /// Cycles in no series because they ran with cold caches; not among `cycles`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup: u64,
    /// Slots in no series because something around the loop changed while they were under way; not
    /// among `cycles` and `skipped`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excluded: u64,
    /// Of these, releases that were skipped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excluded_skipped: u64,
    /// Of `cycles`, in a run that splits wake-ups, those of which a stamp is missing; the others are
    /// in the series of the parts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsplit: u64,
    /// Samples beyond the spike limit.
    pub spikes: u64,
    /// Exact moments of each series with samples.
    pub series: BTreeMap<Series, Moments>,
    /// Outages of what is watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<LateNote>,
    /// What made spikes late: how many by their main cause, and the worst of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<CauseKind, CauseCount>,
}

/// Spikes with one main cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// How many.
    pub spikes: u64,
    /// The largest lateness among them, in nanoseconds.
    pub worst_ns: u64,
    /// What of them is explained, from the programmed expiry on, all together, in nanoseconds: with
    /// a spin before the release that begins before the release.
    pub lateness_ns: u64,
    /// What of it the causes account for, in nanoseconds.
    pub accounted_ns: u64,
    /// By who did it, as in `dd/write` or `NET_RX`. At most [`Self::CULPRITS`] of them in an
    /// interval; the spikes of others are those that are missing here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub culprits: BTreeMap<String, CulpritCount>,
}

/// Spikes of one culprit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CulpritCount {
    /// How many.
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

/// Largest value per `every` seconds, for the intervals that follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maxima {
    /// Start, in seconds since the file's start.
    pub t: f64,
    /// Seconds between values.
    pub every: f64,
    /// Nanoseconds per series; 0 where there was no sample.
    pub series: BTreeMap<Series, Vec<u64>>,
}

/// One sample beyond the spike limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpikeNote {
    /// Its number in its run file, from 1 in the order of time. Not in the file, where its place
    /// records it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u64,
    /// Its release, in seconds since the file's start.
    pub t: f64,
    /// k.
    pub index: u64,
    /// The block it belongs to.
    pub block: u32,
    /// `s_k − r_k`.
    pub wakeup_latency_ns: u64,
    /// `e_k − s_k`.
    pub execution_time_ns: u64,
    /// Releases skipped before it.
    pub skipped: u64,
    /// What stopped the loop, when it was not the machine's own latency.
    pub stall: Option<Stall>,
    /// What made it late, with the nanoseconds that each cause accounts for; empty without an
    /// analysis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Whether what the CPUs did around it is in the file; `None` without an analysis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowFate>,
}

/// Something that happened to a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadEvent {
    /// Seconds since the file's start.
    pub t: f64,
    /// The load as typed.
    pub load: String,
    /// What happened.
    pub event: super::words::LoadEventKind,
    /// In words.
    pub detail: String,
}

/// How the CPUs of a loop rested and how fast they ran in a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerNote {
    /// Seconds since the file's start, at the end of the block.
    pub t: f64,
    /// The block.
    pub block: u32,
    /// What the kernel counted.
    #[serde(flatten)]
    pub used: PowerUse,
}

/// A remark on a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// In words, without a full stop.
    pub sentence: String,
}

/// The closing line: every slot accounted for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Seconds since the file's start.
    pub t: f64,
    /// Why the run ended.
    pub reason: EndReason,
    /// Releases that passed: `slots = cycles + skipped + lost`.
    pub slots: u64,
    /// Cycles whose samples were received, those of the warm-up and excluded ones among them.
    pub cycles: u64,
    /// Releases passed over, excluded ones among them.
    pub skipped: u64,
    /// Slots that are unknown because the ring between loop and recorder was full.
    pub lost: u64,
    /// Cycles that are in no series because they ran with cold caches.
    pub warmup: u64,
    /// The largest wake-up latency among them, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup_worst_ns: u64,
    /// Slots that are in no series because something around the loop changed while they were under
    /// way.
    #[serde(default)]
    pub excluded: u64,
    /// Slots of parts of the run that were killed before they recorded what the kernel had counted:
    /// the figures below are without them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold: u64,
    /// Page faults of the loop's thread while it ran.
    pub page_faults: u64,
    /// Times the loop's thread was made to leave the CPU.
    pub involuntary_switches: u64,
    /// CPU time of the loop's thread.
    pub cpu_ns: u64,
    /// CPU time spent explaining spikes, by a thread that is not the loop's.
    #[serde(default)]
    pub causes_cpu_ns: u64,
    /// Spikes explained.
    #[serde(default)]
    pub causes_explained: u64,
    /// Of these, spikes around which events were missing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub causes_incomplete: u64,
    /// The longest that a spike's cycle and its explanation were apart.
    #[serde(default)]
    pub causes_slowest_ns: u64,
    /// Memory held for it, in bytes.
    #[serde(default)]
    pub causes_bytes: u64,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its time was over.
    #[default]
    Complete,
    /// It was asked to: Ctrl-C, SIGTERM, the bench.
    Asked,
    /// A cycle overran and the loop was configured to stop then.
    Overrun,
    /// The task ended the loop.
    Task,
}

/// The options of a bench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// Tunings in the order asked for.
    pub tunings: Vec<String>,
    /// Loads in the order asked for.
    pub loads: Vec<String>,
    /// In which order the cells ran.
    pub order: super::words::RunOrder,
    /// Blocks per cell.
    pub blocks: u32,
    /// Seconds per block.
    pub block_s: f64,
    /// The limit to hold, when one was given.
    pub limit: Option<LimitNote>,
    /// Looks at each cell that shared the level of its verdict, because the bench was to end
    /// when it was decided; 0 and 1 for a bench of a length given.
    #[serde(default, skip_serializing_if = "is_no_look")]
    pub looks: usize,
    /// How many alarms of bus and robot a cell may have, when a limit for them was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_alarms: Option<u64>,
    /// Cells that could not be run, and why.
    pub not_permitted: Vec<CellNotPermitted>,
    /// The privileges requested, and which were granted.
    pub ladder: Vec<Grant>,
    /// What the shield moved and what it could not, in sentences.
    #[serde(default)]
    pub shield: Vec<String>,
    /// The series and limit of a sweep, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepNote>,
    /// The command that runs the robot of this bench, without tuning and load; empty without a
    /// robot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub robot_command: Vec<String>,
}

/// The series and limit of a sweep over rising load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepNote {
    pub series: Series,
    /// The largest jitter (max − min) that is allowed, in nanoseconds.
    pub allowed_jitter_ns: u64,
    /// Whether that is the paper's, because none was asked for: it is shown and decides nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
}

/// One load of a sweep: written when it begins, and again with what was reached when it, or a part
/// of it, is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepNote {
    /// The load as typed.
    pub load: String,
    /// Target CPU load, in percent of all of them.
    pub asked_percent: f64,
    /// How busy they were, the loop and everything else among it; `None` where that could not be
    /// read.
    pub reached_percent: Option<f64>,
    /// For how long that was measured, in seconds; 0 in files without it.
    #[serde(default)]
    pub seconds: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The signature that serde calls.
const fn is_no_look(looks: &usize) -> bool {
    *looks == 0
}

/// A limit as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitNote {
    /// Nanoseconds.
    pub limit_ns: u64,
    /// Percent of all releases, above 0 to 100.
    pub at: f64,
    /// The series it is on.
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
    /// Which.
    pub cell: Cell,
    /// Why, with what would grant it.
    pub why_not: String,
}

/// A resumed run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// Seconds since the file's start.
    pub t: f64,
    /// For how long nothing was measured before, in seconds.
    pub unmeasured_s: f64,
    /// Why the part before it ended; `None` when it was cut off.
    pub after: Option<EndReason>,
    /// `r_0 mod T` from here on: the clock restarts from 0 at boot.
    pub phase_ns: u64,
}
