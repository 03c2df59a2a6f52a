//! The process that carries a load: it leads a session of its own, inherits orphans, and ends with
//! its starter.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, child_subreaper, getpid, getppid, parent_process_death_signal,
    set_child_subreaper, set_parent_process_death_signal, setpgid, setsid,
};

use super::error::Error;
use onbeat_host::process::{self, Stat};

/// The signals that end a load gracefully.
const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

static TAKEN: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// This process as the leader of a load. Dropping it restores the previous settings, except for the
/// session.
pub(super) struct Leader {
    pub(super) own: Stat,
    /// Children from before, which do not belong to the load.
    pub(super) foreign: Vec<Stat>,
    parent: Option<i32>,
    death_signal: Option<Signal>,
    /// `None` where orphans cannot be inherited.
    subreaper: Option<Option<Pid>>,
    actions: Vec<(libc::c_int, libc::sigaction)>,
    _taken: LeaderClaim,
}

/// Claim of the process by a load. Signals, session and orphans belong to the whole process, so
/// only one load can run.
struct LeaderClaim;

impl LeaderClaim {
    fn take() -> Result<Self, Error> {
        if TAKEN.swap(true, Ordering::SeqCst) { Err(Error::AlreadySupervising) } else { Ok(Self) }
    }
}

impl Drop for LeaderClaim {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::SeqCst);
    }
}

impl Leader {
    /// Makes this process the leader. `parent` is the process whose end ends the load; `None` for
    /// the current parent.
    pub(super) fn take(parent: Option<i32>) -> Result<Self, Error> {
        let taken = LeaderClaim::take()?;
        let number = |pid: Pid| pid.as_raw_nonzero().get();
        let parent = parent.or_else(|| getppid().map(number));
        lead_session()?;
        let setting = |what| move |why: Errno| Error::Setting { what, why: why.into() };
        let own = Stat::read(number(getpid())).ok_or(Error::NoProc)?;
        let foreign = process::all().into_iter().filter(|stat| stat.parent == own.pid).collect();
        let death_signal =
            parent_process_death_signal().map_err(setting("read the death signal"))?;
        let subreaper = known(child_subreaper()).map_err(setting("read the subreaper"))?;
        ASKED.store(false, Ordering::SeqCst);
        let mut leader = Self {
            own,
            foreign,
            parent,
            death_signal,
            subreaper,
            actions: Vec::new(),
            _taken: taken,
        };
        for signal in ENDING {
            leader.actions.push((signal, catch(signal)?));
        }

        known(set_child_subreaper(Some(getpid()))).map_err(setting("inherit orphans"))?;
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(setting("ask for a signal at the starter's end"))?;
        Ok(leader)
    }

    /// Whether a signal requested the end.
    pub(super) fn is_asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }

    /// Whether the starter has ended.
    pub(super) fn is_orphan(&self) -> bool {
        self.parent.is_some() && getppid().map(|pid| pid.as_raw_nonzero().get()) != self.parent
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        for (signal, action) in &self.actions {
            // SAFETY: `action` was returned by sigaction for the same signal and is valid for the
            // call.
            unsafe { libc::sigaction(*signal, action, std::ptr::null_mut()) };
        }

        // These values were in force before, so the kernel accepts them.
        let _ = set_child_subreaper(self.subreaper.flatten());
        let _ = set_parent_process_death_signal(self.death_signal);
    }
}

/// What the kernel answers about orphans. Every one since 3.4 knows them; QEMU's emulation of single
/// programs does not, and a load there has only the processes of its session.
fn known<T>(answer: rustix::io::Result<T>) -> rustix::io::Result<Option<T>> {
    match answer {
        Err(Errno::INVAL) => Ok(None),
        answer => answer.map(Some),
    }
}

fn lead_session() -> Result<(), Error> {
    let own = Stat::read(getpid().as_raw_nonzero().get()).ok_or(Error::NoProc)?;
    if own.session == own.pid {
        return Ok(());
    }

    // The leader of a process group cannot create a session (setsid(2)); in its parent's group it
    // is not a leader.
    if own.group == own.pid
        && let Some(parent) = Stat::read(own.parent)
    {
        // If this is not permitted, setsid fails below.
        let _ = setpgid(None, Pid::from_raw(parent.group));
    }

    setsid().map(|_| ()).map_err(|why| Error::Session { why: why.into() })
}

fn catch(signal: libc::c_int) -> Result<libc::sigaction, Error> {
    // SAFETY: all-zero is a valid sigaction: no flags, an empty mask.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction = ask as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: both structures are valid for the call, and the handler only stores to an atomic
    // (signal-safety(7)).
    let answer = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };

    if answer == 0 {
        Ok(before)
    } else {
        Err(Error::Setting {
            what: "catch the signals that end it",
            why: std::io::Error::last_os_error(),
        })
    }
}
