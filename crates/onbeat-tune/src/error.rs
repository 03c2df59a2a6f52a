//! What can go wrong while the host is changed, with the next step in each message.

use std::io;
use std::path::PathBuf;

use super::cpu_list::CpuList;
use super::journal::Holder;
use crate::user::user_name;

/// An error of this room.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A text that should name CPUs does not.
    #[error("\"{text}\" is no {kind} of CPUs at {at:?}. Write {example}")]
    NoCpus {
        /// `list` or `mask`.
        kind: &'static str,
        /// The text as it was given.
        text: String,
        /// The piece that does not fit.
        at: String,
        /// A text that would fit.
        example: &'static str,
    },
    /// A file of the host could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file of the host could not be written.
    #[error(
        "cannot write \"{value}\" to {path}: {source}. What was changed before is on record: `onbeat repair` puts it back"
    )]
    Write {
        /// Which file.
        path: String,
        /// What should have been written.
        value: String,
        /// The kernel's answer.
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
        /// The kernel's answer.
        source: io::Error,
    },
    /// There is no task of this number, so it cannot be kept free.
    #[error("there is no task {tid} to keep on the real-time CPUs. Start the loop before the shield")]
    NoSuchTask {
        /// The number asked for.
        tid: i32,
    },
    /// The journal could not be kept; then nothing is changed.
    #[error(
        "cannot {doing} the journal {path}: {source}. Nothing is changed without it: make the directory writable, or name another one by the variable ONBEAT_STATE_DIR"
    )]
    Journal {
        /// What was tried: create, write, sync, read, remove, lock.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A journal without a readable head holds changes; whose they are and of which boot is unknown.
    #[error(
        "the head of the journal {path} is damaged, but {steps} changes follow it. They are left alone: compare them by hand, then delete the file"
    )]
    Headless {
        /// Which file.
        path: PathBuf,
        /// How many changes can still be read.
        steps: usize,
    },
    /// A journal or its directory belongs to another user.
    #[error(
        "{path} belongs to {}, and this is {}: nothing in it is put back, because anyone could have written it. Look at it, then delete it",
        user_name(*.owner),
        user_name(*.user)
    )]
    NotOwn {
        /// The file or directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// A journal or its directory can be written by the group or by everybody.
    #[error(
        "{path} can be written by other users (mode {mode:04o}): nothing in it is put back. Look at it, then: chmod go-w {path}"
    )]
    OpenToOthers {
        /// The file or directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Another onbeat is changing this host.
    #[error("another onbeat is changing this machine: {0}. It is left alone; start again when it has ended")]
    Busy(Holder),
    /// Some changes could not be taken back, so the journal stays.
    #[error(
        "{left} of {steps} changes are not taken back; they stay on record in {path}. `onbeat repair` tries again and says why"
    )]
    NotAllUndone {
        /// How many are left.
        left: usize,
        /// How many there were.
        steps: usize,
        /// Where they are on record.
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
    /// No CPU was named.
    #[error("no CPU is named to be shielded. Name one of {online}, best not 0")]
    NoRtCpu {
        /// The CPUs there are.
        online: CpuList,
    },
    /// A CPU to be shielded is not there.
    #[error("CPU {rt} cannot be shielded: only {online} are online. Name one of these")]
    NotOnline {
        /// The CPUs asked for.
        rt: CpuList,
        /// The CPUs there are.
        online: CpuList,
    },
    /// Nothing would be left for the rest of the machine.
    #[error(
        "shielding CPU {rt} leaves none of {online} for everything else. Shield fewer CPUs; with a single CPU there is nothing to shield"
    )]
    NoHousekeeping {
        /// The CPUs asked for.
        rt: CpuList,
        /// The CPUs there are.
        online: CpuList,
    },
    /// A cgroup of the shield's name exists, and no open journal of ours made it.
    #[error("{path} exists already, and it is not known who made it. When nobody needs it: rmdir {path}")]
    CgroupExists {
        /// The cgroup's directory.
        path: String,
    },
}
