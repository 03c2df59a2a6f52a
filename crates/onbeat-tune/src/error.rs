//! Errors of changes to the host. Each message names the next step.

use std::io;
use std::path::{Path, PathBuf};

use super::cpu_list::{CpuList, CpuListError};
use super::holder::Holder;
use onbeat_host::user::user_name;

/// An error of a change to the host.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A text is not a set of CPUs.
    #[error(transparent)]
    NoCpus(#[from] CpuListError),
    /// A file of the host could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file of the host could not be written.
    #[error(
        "cannot write \"{value}\" to {path}: {source}. Earlier changes are on record: `onbeat repair` undoes them"
    )]
    Write {
        /// Which file.
        path: String,
        value: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A task's CPUs could not be set.
    #[error(
        "cannot keep task {tid} on CPUs {cpus}: {source}. See what allows it: grep allowed_list /proc/{tid}/status"
    )]
    Affinity {
        /// Which task.
        tid: i32,
        /// The CPUs it should have had.
        cpus: CpuList,
        /// The kernel's error.
        source: io::Error,
    },
    /// The task that may use the shielded CPUs does not exist.
    #[error(
        "task {tid}, which may use the shielded CPUs, does not exist. Start the loop before the shield"
    )]
    NoSuchTask {
        /// The number asked for.
        tid: i32,
    },
    /// The thread of a plan has ended, and its number has been given to another one.
    #[error(
        "task {tid} is not the task of the plan: it started at tick {now} since boot, that one at tick {planned}. Nothing was changed; make a new plan: onbeat tune plan --task NAME"
    )]
    OtherTask {
        /// The number.
        tid: i32,
        /// When that of the plan started, in clock ticks since boot.
        planned: u64,
        /// When the present one started.
        now: u64,
    },
    /// The journal could not be written; then nothing is changed.
    #[error(
        "cannot {doing} the journal {path}: {source}. Nothing is changed without it: make the directory writable, or set ONBEAT_STATE_DIR to another one"
    )]
    Journal {
        /// The operation: create, write, sync, read, remove, lock.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A journal without a readable head holds changes; their owner and boot are unknown.
    #[error(
        "the head of the journal {path} is damaged, but {steps} changes follow it. They are not undone: compare them by hand, then delete the file"
    )]
    Headless {
        /// Which file.
        path: PathBuf,
        /// Number of changes, and of lines that cannot be read.
        steps: usize,
    },
    /// A journal in the format of another version of onbeat.
    #[error(
        "the journal {path} has format {format}, of onbeat {version}; this onbeat undoes format {}. It is not undone: \
         run `onbeat repair` of that version, or restart the machine, which reverts its changes",
        super::journal::FORMAT
    )]
    OtherFormat {
        /// Which file.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// Version of the onbeat that wrote it.
        version: String,
    },
    /// A journal or its directory belongs to another user.
    #[error(
        "{path} belongs to {}, and this is {}: it is not undone, because another user could have written it. Inspect it, then delete it",
        user_name(*.owner),
        user_name(*.user)
    )]
    NotOwn {
        /// The file or directory.
        path: PathBuf,
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// A journal or its directory can be written by the group or by everybody.
    #[error(
        "{path} can be written by other users (mode {mode:04o}): it is not undone. Inspect it, then: chmod go-w {path}"
    )]
    OpenToOthers {
        /// The file or directory.
        path: PathBuf,
        mode: u32,
    },
    /// The guard of a run could not be started; then nothing is changed.
    #[error(
        "cannot start the guard that undoes the changes if this process is killed: {0}. Nothing is changed without it: free processes or memory (ulimit -u)"
    )]
    Guard(io::Error),
    /// Another onbeat is changing this host.
    #[error("another onbeat is changing this machine: {0}. Try again when it has finished")]
    Busy(Holder),
    /// Some changes could not be undone, so the journal stays.
    #[error(
        "{left} of {steps} changes are not undone; they stay on record in {path}. `onbeat repair` tries again and reports why"
    )]
    NotAllUndone {
        /// Number of changes left.
        left: usize,
        /// Number of all changes.
        steps: usize,
        /// The journal.
        path: PathBuf,
    },
    /// The host does not let this user shield CPUs.
    #[error("shielding CPU {rt} needs root: it writes cpusets and /proc/irq. Run: sudo {command}")]
    NeedsRoot {
        /// The CPUs to be shielded.
        rt: CpuList,
        /// The command as it was typed.
        command: String,
    },
    /// No CPU was given.
    #[error("no CPU to shield is given. Choose one of {online}, preferably not 0")]
    NoRtCpu { online: CpuList },
    /// A CPU to be shielded is not online.
    #[error("CPU {rt} cannot be shielded: only {online} are online. Choose one of these")]
    NotOnline {
        /// The CPUs to shield.
        rt: CpuList,
        online: CpuList,
    },
    /// No CPU would be left for the rest of the machine.
    #[error(
        "shielding CPU {rt} leaves none of {online} for everything else. Shield fewer CPUs; with a single CPU there is nothing to shield"
    )]
    NoHousekeeping {
        /// The CPUs to shield.
        rt: CpuList,
        online: CpuList,
    },
    /// Nothing that keeps other tasks off a CPU is permitted to this process. Nothing was changed.
    #[error(
        "shielding CPU {rt} is not permitted: {closed}, and without CAP_SYS_NICE no task can be kept off it. {}",
        to_permit(*.is_in_bounding_set)
    )]
    ShieldNotPermitted {
        /// The CPUs to shield.
        rt: CpuList,
        /// Why no cpuset can be used.
        closed: String,
        /// Whether root may have the capability here at all; not in most containers.
        is_in_bounding_set: bool,
    },
    /// Another onbeat shields CPUs of this machine, with another directory of journals. Nothing was
    /// changed.
    #[error(
        "another onbeat shields CPUs of this machine: pid {pid}, `{command}`, with another state directory. Try again when it has finished"
    )]
    Shielded {
        /// Its process.
        pid: i32,
        /// Its command line.
        command: String,
    },
    /// A cgroup with the shield's name exists, and no open journal here records its creation.
    #[error("{path} exists, and no journal of this state directory records it: {}", in_use(*.tasks, .path))]
    CgroupExists {
        /// The cgroup's directory.
        path: String,
        tasks: usize,
    },
}

const fn to_permit(is_in_bounding_set: bool) -> &'static str {
    if is_in_bounding_set {
        "Start onbeat with all of root's capabilities: sudo onbeat"
    } else {
        "Start the container with --cap-add=SYS_NICE, or shield the CPU on its host"
    }
}

fn in_use(tasks: usize, path: &str) -> String {
    if tasks == 0 {
        return format!("it is empty and left over. Remove it: rmdir {path}");
    }
    let noun = if tasks == 1 { "task is" } else { "tasks are" };
    format!(
        "{tasks} {noun} in it, so it is in use, by an onbeat in another container or one that was killed. \
         `onbeat repair` undoes the latter, there or with its ONBEAT_STATE_DIR"
    )
}

pub(super) fn journal_error(doing: &'static str, path: &Path, source: io::Error) -> TuneError {
    TuneError::Journal { doing, path: path.to_owned(), source }
}
