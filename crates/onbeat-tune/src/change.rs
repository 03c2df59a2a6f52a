//! One setting of the host: how it is identified, read, written and restored.
//!
//! A restore compares first. A setting with its old value needs nothing; one with onbeat's value is
//! restored; any other value was set by another program and is kept, unless [`UndoMode::Force`] is
//! given. A setting that no longer exists needs nothing. A second restore changes nothing.

use std::io;

use serde::{Deserialize, Serialize};

use super::cpu_list::{CpuList, CpuListError};
use super::host_files::HostFiles;
use super::interfaces::MadeInterface;
use super::irq_handlers;
use super::rights;
use super::task_setting::TaskSetting;
use super::tasks::{self, TaskId};

/// How two values of a setting are compared.
///
/// ```
/// use onbeat_tune::change::Kind;
///
/// assert!(Kind::List.same("0,1,2", "0-2\n"));
/// assert!(Kind::Mask.same("00000000,0000000f", "f"));
/// assert_eq!(Kind::Marked.value_in("always [madvise] never"), "madvise");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Byte by byte, without surrounding blanks.
    Text,
    /// As a set of CPUs, written `0-2,4`.
    List,
    /// As a set of CPUs, written `ff,ffffffff`.
    Mask,
    /// By the first word: `isolated invalid (reason)` was written as `isolated`.
    FirstWord,
    /// Word by word: `3\t4\t1\t7` was written as `3 4 1 7`.
    Words,
    /// By the marked word: `always [madvise] never` was written as `madvise`; also `none (full)`.
    Marked,
}

impl Kind {
    /// Whether two texts are the same value.
    #[must_use]
    pub fn same(self, a: &str, b: &str) -> bool {
        let sets = |parse: fn(&str) -> Result<CpuList, CpuListError>| match (parse(a), parse(b)) {
            (Ok(a), Ok(b)) => Some(a == b),
            _ => None,
        };
        match self {
            Self::Text => a.trim() == b.trim(),
            Self::List => sets(CpuList::parse_list).unwrap_or_else(|| a.trim() == b.trim()),
            Self::Mask => sets(CpuList::parse_mask).unwrap_or_else(|| a.trim() == b.trim()),
            Self::FirstWord => a.split_whitespace().next() == b.split_whitespace().next(),
            Self::Words => a.split_whitespace().eq(b.split_whitespace()),
            Self::Marked => marked(a) == marked(b),
        }
    }

    /// Returns the value in a text that the kernel shows, as it would be written.
    #[must_use]
    pub fn value_in(self, shown: &str) -> String {
        match self {
            Self::Text | Self::List | Self::Mask => shown.trim().to_owned(),
            Self::FirstWord => shown.split_whitespace().next().unwrap_or_default().to_owned(),
            Self::Words => shown.split_whitespace().collect::<Vec<_>>().join(" "),
            Self::Marked => marked(shown).to_owned(),
        }
    }
}

/// The word in brackets or parentheses; a text without marks is the word itself.
fn marked(text: &str) -> &str {
    between(text, '[', ']').or_else(|| between(text, '(', ')')).unwrap_or(text).trim()
}

/// What stands between two signs.
pub(super) fn between(text: &str, open: char, close: char) -> Option<&str> {
    Some(text.split_once(open)?.1.split_once(close)?.0)
}

/// The cgroup interface of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    /// A hierarchy per controller; threads are moved one by one.
    V1,
    /// The unified hierarchy; processes are moved whole.
    V2,
    /// A threaded cgroup of the unified hierarchy; threads are moved one by one.
    V2Threads,
}

impl CgroupVersion {
    /// The file that lists the members of a cgroup and takes new ones.
    #[must_use]
    pub const fn members(self) -> &'static str {
        match self {
            Self::V1 => "tasks",
            Self::V2 => "cgroup.procs",
            Self::V2Threads => "cgroup.threads",
        }
    }
}

/// Identifies a setting, so that it is found again and never mistaken for another one.
///
/// ```
/// use onbeat_tune::Key;
/// use onbeat_tune::change::Kind;
///
/// let path = "/proc/sys/vm/swappiness".to_owned();
/// let swappiness = Key::File { path, kind: Kind::Text, shown_in: None };
/// let line = serde_json::to_string(&swappiness)?;
/// assert_eq!(serde_json::from_str::<Key>(&line)?, swappiness, "a line of the journal");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// A file that holds one value.
    File {
        /// The file to write.
        path: String,
        /// How its values are compared.
        kind: Kind,
        /// The file that shows the written value, when it is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown_in: Option<String>,
    },
    /// The CPUs to which an interrupt may be sent.
    Irq {
        number: u32,
        /// Its handlers; with other handlers it is another interrupt.
        actions: Vec<String>,
        /// The CPU it was actually sent to; a restore sends it there first.
        effective: String,
    },
    /// The CPUs a task may use.
    Affinity {
        #[serde(flatten)]
        task: TaskId,
        /// It serves an interrupt and moves with it: only a list that the kernel has forgotten is
        /// restored.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        follows: bool,
    },
    /// The CPUs of later tasks that inherited a change from their parent.
    Born {
        /// They started at or after this, in clock ticks since boot.
        since_ticks: u64,
    },
    /// A cgroup created by onbeat: `absent` to `present`. Its tasks return to `home` before it is
    /// removed.
    CgroupDir {
        /// The directory.
        path: String,
        /// The directory of the cgroup its tasks came from.
        home: String,
        /// Its interface.
        version: CgroupVersion,
    },
    /// The cgroup of a task (v1) or of a process (v2), as a directory.
    CgroupTask {
        #[serde(flatten)]
        task: TaskId,
        /// The hierarchy that holds both cgroups.
        hierarchy: Hierarchy,
    },
    /// A controller enabled for the children of a v2 cgroup: `off` to `on`.
    Controller {
        /// The `cgroup.subtree_control` file.
        path: String,
        /// The controller's name.
        name: String,
    },
    /// A session of processes started by onbeat: `absent` to `running`. Undo kills the remaining
    /// processes.
    Session {
        /// The session's number.
        sid: i32,
        /// When its leader started, in clock ticks since boot.
        start_ticks: u64,
    },
    /// An attribute of a task, such as its policy.
    Task {
        #[serde(flatten)]
        task: TaskId,
        /// Which attribute.
        setting: TaskSetting,
    },
    /// A unit of systemd: `active` or `inactive`.
    Unit { name: String },
    /// A process that keeps a file open, because a value in it holds for that long: `absent` to the
    /// value.
    Holder {
        /// The file.
        path: String,
        #[serde(flatten)]
        process: TaskId,
    },
    /// Bits of a model-specific register of one CPU, as a decimal number.
    Register {
        cpu: u32,
        /// The register's number.
        register: u32,
        /// The highest of the bits, at most 63.
        high: u32,
        /// The lowest.
        low: u32,
    },
    /// A network interface that a run makes for itself, `absent` or `present`.
    Interface(MadeInterface),
}

/// A mounted cgroup hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: String,
    /// The cgroup seen at the mount: `/`, except in containers that share the host's cgroup names.
    pub root: String,
    /// Its interface.
    pub version: CgroupVersion,
}

impl Hierarchy {
    /// The directory of a task's cpuset cgroup, `None` when the task is gone or outside what is
    /// mounted.
    pub fn directory_of(&self, host: &dyn HostFiles, tid: i32) -> Option<String> {
        let name = if self.version == CgroupVersion::V1 { "cpuset" } else { "" };
        let path = tasks::cgroup_of(host, tid, name)?;
        let below = path.strip_prefix(self.root.trim_end_matches('/'))?.trim_end_matches('/');
        Some(format!("{}{below}", self.mount))
    }
}

/// A change to be made: the setting, its old value and its new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The tuning it belongs to, such as `irq.affinity`.
    pub id: String,
    /// The setting.
    pub key: Key,
    /// The value before.
    pub old: String,
    /// The value after.
    pub new: String,
    /// Intermediate values that onbeat or the kernel may set; they count as onbeat's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
}

/// What an undo does with settings that another program has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoMode {
    /// Keeps their value; the change stays on record.
    Careful,
    /// Restores them too.
    Force,
    /// Keeps their value and drops the change from the record.
    Forget,
}

/// The outcome of undoing one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Restored to the old value.
    Restored,
    /// It already had the old value.
    Already,
    /// Another program has changed it since; not touched.
    Changed {
        /// The current value.
        now: String,
    },
    /// The setting no longer exists.
    Gone,
    /// Restored without the CPUs that are offline, because the kernel refuses the old value with
    /// them.
    Narrowed {
        /// The CPUs set now, in the setting's own notation.
        given: String,
        /// The CPUs of the old value that are offline.
        offline: CpuList,
    },
    /// It could not be restored, and was dropped from the record as requested.
    Forgotten {
        /// The reason.
        why: String,
    },
    /// It could not be restored.
    Failed {
        /// The kernel's error.
        reason: String,
    },
}

impl ChangeOutcome {
    /// Whether the change needs no further action.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        !matches!(self, Self::Changed { .. } | Self::Failed { .. })
    }

    /// Whether a word of the journal stands for a settled outcome.
    pub(super) fn is_word_of_settled(word: &str) -> bool {
        matches!(word, "restored" | "already" | "gone" | "narrowed" | "forgotten")
    }

    /// The reason why a change is not undone; empty for settled outcomes.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Changed { now } => {
                format!("its value is now \"{now}\", which onbeat did not write")
            }
            Self::Failed { reason } | Self::Forgotten { why: reason } => reason.clone(),
            Self::Restored | Self::Already | Self::Gone | Self::Narrowed { .. } => String::new(),
        }
    }

    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Already => "already",
            Self::Changed { .. } => "changed",
            Self::Gone => "gone",
            Self::Narrowed { .. } => "narrowed",
            Self::Forgotten { .. } => "forgotten",
            Self::Failed { .. } => "failed",
        }
    }
}

impl Key {
    /// The noun for this kind of setting: singular, plural.
    #[must_use]
    pub const fn noun(&self) -> (&'static str, &'static str) {
        match self {
            Self::File { .. } => ("file", "files"),
            Self::Irq { .. } => ("interrupt", "interrupts"),
            Self::Affinity { .. } => ("task's CPUs", "tasks' CPUs"),
            Self::Born { .. } => ("group of later tasks", "groups of later tasks"),
            Self::CgroupDir { .. } => ("cgroup with its tasks", "cgroups with their tasks"),
            Self::CgroupTask { .. } => ("task's cgroup", "tasks' cgroups"),
            Self::Controller { .. } => ("cgroup controller", "cgroup controllers"),
            Self::Session { .. } => ("session of processes", "sessions of processes"),
            Self::Task { .. } => ("attribute of a task", "attributes of tasks"),
            Self::Unit { .. } => ("unit of systemd", "units of systemd"),
            Self::Holder { .. } => ("open descriptor", "open descriptors"),
            Self::Register { .. } => ("register", "registers"),
            Self::Interface(_) => ("network interface", "network interfaces"),
        }
    }

    /// Whether cpusets bound the value: such settings are restored after the cpusets.
    pub(super) const fn is_bounded_by_cpusets(&self) -> bool {
        matches!(self, Self::Affinity { .. } | Self::Born { .. })
    }

    /// Whether restoring it moves every task to another cpuset; kernels before 6.2 then forget the
    /// tasks' affinities.
    pub(super) const fn resets_affinities(&self) -> bool {
        matches!(self, Self::Controller { .. })
    }

    /// Whether both identify one setting, whatever else they record about it.
    #[must_use]
    pub fn is_same_setting(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Irq { number, actions, .. },
                Self::Irq { number: other_number, actions: other_actions, .. },
            ) => number == other_number && actions == other_actions,
            (Self::Affinity { task, .. }, Self::Affinity { task: other, .. }) => task == other,
            _ => self == other,
        }
    }

    /// The name of the setting for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::File { path, .. } | Self::CgroupDir { path, .. } => path.clone(),
            Self::Irq { number, actions, .. } => {
                format!("interrupt {number} ({})", actions.join(", "))
            }
            Self::Affinity { task, .. } => format!("the CPUs of task {}", task.tid),
            Self::Born { since_ticks } => {
                format!("the CPUs of tasks started since tick {since_ticks}")
            }
            Self::CgroupTask { task, .. } => format!("the cgroup of task {}", task.tid),
            Self::Controller { path, name } => format!("controller {name} in {path}"),
            Self::Session { sid, .. } => format!("session {sid}"),
            Self::Task { task, setting } => format!("{setting} of task {}", task.tid),
            Self::Unit { name } => name.clone(),
            Self::Holder { path, process } => {
                format!("{path}, kept open by process {}", process.tid)
            }
            Self::Register { cpu, register, high, low } => {
                format!("MSR {register:#x} bits {high}-{low} of CPU {cpu}")
            }
            Self::Interface(made) => format!("interface {}", made.name),
        }
    }

    /// Returns the current value; `None` when the setting no longer exists.
    ///
    /// # Errors
    /// The kernel's error, other than for a missing setting.
    pub fn current(&self, host: &dyn HostFiles) -> io::Result<Option<String>> {
        let present = |text: io::Result<String>| match text {
            Ok(text) => Ok(Some(text)),
            Err(error) if tasks::is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        };
        match self {
            Self::File { path, shown_in, .. } => {
                present(host.read(shown_in.as_deref().unwrap_or(path)))
            }
            Self::Irq { number, actions, .. } => {
                if &irq_handlers::actions(host, *number) != actions {
                    return Ok(None);
                }
                present(host.read(&format!("/proc/irq/{number}/smp_affinity_list")))
            }
            Self::Affinity { task, .. } if !tasks::is_movable(host, *task) => Ok(None),
            Self::Affinity { task, .. } => {
                present(tasks::affinity(host, task.tid).map(|cpus| cpus.to_string()))
            }
            Self::CgroupDir { path, .. } => {
                Ok(host.directories(path).is_ok().then(|| "present".to_owned()))
            }
            Self::CgroupTask { task, .. } if !tasks::is_alive(host, *task) => Ok(None),
            Self::CgroupTask { task, hierarchy } => Ok(hierarchy.directory_of(host, task.tid)),
            Self::Controller { path, name } => {
                let on = |text: String| {
                    if text.split_whitespace().any(|word| word == name) { "on" } else { "off" }
                };
                Ok(present(host.read(path))?.map(on).map(str::to_owned))
            }
            Self::Born { .. } | Self::Session { .. } => Ok(Some(String::new())),
            Self::Task { task, .. } if !tasks::is_alive(host, *task) => Ok(None),
            Self::Task { task, setting } => present(setting.read(host, task.tid)),
            Self::Unit { name } => present(host.unit_state(name)),
            Self::Holder { process, .. } => {
                Ok(tasks::is_alive(host, *process).then(|| "held".to_owned()))
            }
            Self::Register { cpu, register, high, low } => {
                let bits = |value: u64| {
                    (value.checked_shr(*low).unwrap_or(0) & bit_mask(*high, *low)).to_string()
                };
                present(host.read_register(*cpu, *register).map(bits))
            }
            Self::Interface(made) => Ok(host.has_interface(made)?.then(|| "present".to_owned())),
        }
    }

    /// Writes a value, within the rights of the user.
    ///
    /// # Errors
    /// The kernel's, and `EPERM` for the task of another user.
    pub fn set(&self, host: &dyn HostFiles, value: &str) -> io::Result<()> {
        rights::within(host, self, || self.write(host, value))?
    }

    fn write(&self, host: &dyn HostFiles, value: &str) -> io::Result<()> {
        match self {
            // An empty write would not reach the kernel; a bare newline clears the value.
            Self::File { path, .. } if value.is_empty() => host.write(path, "\n"),
            Self::File { path, .. } => host.write(path, value),
            Self::Irq { number, .. } => {
                host.write(&format!("/proc/irq/{number}/smp_affinity_list"), value)
            }
            Self::Affinity { task, .. } => host.set_affinity(task.tid, &list(value)?),
            Self::CgroupDir { path, .. } => host.create_dir(path),
            Self::CgroupTask { task, hierarchy } => host
                .write(&format!("{value}/{}", hierarchy.version.members()), &task.tid.to_string()),
            Self::Controller { path, name } => {
                host.write(path, &format!("{}{name}", if value == "on" { "+" } else { "-" }))
            }
            Self::Born { .. } | Self::Session { .. } => Ok(()),
            Self::Task { task, setting } => setting.write(host, task.tid, value),
            Self::Unit { name } => host.set_unit_state(name, value),
            Self::Holder { .. } => Err(io::ErrorKind::Unsupported.into()),
            Self::Register { cpu, register, high, low } => {
                let bits: u64 = value
                    .trim()
                    .parse()
                    .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
                let mask = bit_mask(*high, *low);
                if mask == 0 {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                let before = host.read_register(*cpu, *register)?;
                host.write_register(*cpu, *register, before & !(mask << low) | (bits & mask) << low)
            }
            // Its maker knows more about it than the journal.
            Self::Interface(_) if value == "present" => Err(io::ErrorKind::Unsupported.into()),
            Self::Interface(made) => host.remove_interface(made),
        }
    }
}

/// Ones in the lowest `high - low + 1` bits; none for bits that no register has.
const fn bit_mask(high: u32, low: u32) -> u64 {
    if high < low || high > 63 { 0 } else { u64::MAX >> (63 - (high - low)) }
}

impl Intent {
    /// Creates an intent without intermediate values.
    pub fn new(id: &str, key: Key, old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { id: id.to_owned(), key, old: old.into(), new: new.into(), also: Vec::new() }
    }

    /// Adds intermediate values that count as onbeat's.
    #[must_use]
    pub fn also(mut self, values: impl IntoIterator<Item = String>) -> Self {
        self.also.extend(values);
        self
    }

    /// Makes the change. Call it only after the intent is on disk.
    ///
    /// # Errors
    /// The kernel's.
    pub fn make(&self, host: &dyn HostFiles) -> io::Result<()> {
        self.key.set(host, &self.new)
    }

    /// Whether `a` and `b` are the same value of this setting; CPUs outside `online` are ignored.
    #[must_use]
    pub fn same(&self, a: &str, b: &str, online: &CpuList) -> bool {
        match &self.key {
            Key::File { kind, .. } => kind.same(a, b),
            Key::Irq { .. } => Kind::List.same(a, b),
            Key::Affinity { .. } | Key::Born { .. } => {
                match (CpuList::parse_list(a), CpuList::parse_list(b)) {
                    (Ok(a), Ok(b)) => a.and(online) == b.and(online),
                    _ => false,
                }
            }
            Key::Task { setting, .. } => setting.same(a, b),
            _ => a == b,
        }
    }

    /// Whether onbeat set `value`, or the kernel derived it from such a value when a CPU went
    /// offline: cpusets lose that CPU, and a setting that loses its last CPU gets all online ones.
    #[must_use]
    pub fn is_ours(&self, value: &str, online: &CpuList) -> bool {
        let left_of = |given: &str| {
            let left = self.cpus(given).filter(|given| !given.is_empty())?.and(online);
            Some(if left.is_empty() { online.clone() } else { left })
        };

        let given = || std::iter::once(&self.new).chain(&self.also);
        let now = self.cpus(value).map(|now| now.and(online)).filter(|now| !now.is_empty());
        given().any(|given| self.same(value, given, online))
            || now.is_some_and(|now| given().any(|given| left_of(given).as_ref() == Some(&now)))
    }

    /// Parses a value as CPUs; `None` when this setting does not hold CPUs.
    pub(super) fn cpus(&self, value: &str) -> Option<CpuList> {
        match &self.key {
            Key::File { kind: Kind::Mask, .. } => CpuList::parse_mask(value).ok(),
            Key::File { kind: Kind::List, .. } | Key::Irq { .. } | Key::Affinity { .. } => {
                CpuList::parse_list(value).ok()
            }
            _ => None,
        }
    }
}

/// The online CPUs; empty when the host does not report them.
pub(super) fn online(host: &dyn HostFiles) -> CpuList {
    let text = host.read("/sys/devices/system/cpu/online").unwrap_or_default();
    CpuList::parse_list(&text).unwrap_or_default()
}

pub(super) fn list(text: &str) -> io::Result<CpuList> {
    CpuList::parse_list(text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}
