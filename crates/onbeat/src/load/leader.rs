//! The process that carries a load: it leads a session of its own, inherits orphans, and ends with
//! its starter.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal, setpgid,
    setsid,
};

use super::error::Error;
use onbeat_host::process::{self, Stat};

/// The signals that end a load gracefully.
const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Whether this process carries a load, or has carried one: signals, session and orphans belong to
/// the whole process.
static TAKEN: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// This process as the leader of a load, for the rest of its life.
pub(super) struct Leader {
    pub(super) own: Stat,
    /// Children from before, which do not belong to the load.
    pub(super) foreign: Vec<Stat>,
    /// The process whose end ends the load.
    parent: Option<Pid>,
}

impl Leader {
    /// Makes this process the leader.
    pub(super) fn take() -> Result<Self, Error> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(Error::AlreadySupervising);
        }

        let parent = getppid();
        lead_session()?;
        let own = own_stat()?;
        let mut foreign = process::all().map_err(|_| Error::NoProc)?;
        foreign.retain(|stat| stat.parent == own.pid);
        ENDING.into_iter().try_for_each(catch)?;
        let setting = |what| move |why: Errno| Error::Setting { what, why: why.into() };
        match set_child_subreaper(Some(getpid())) {
            // Every kernel since 3.4 knows orphans; QEMU's emulation of single programs does not,
            // and a load there has only the processes of its session.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(why) => return Err(setting("inherit orphans")(why)),
        }
        set_parent_process_death_signal(Some(Signal::TERM))
            .map_err(setting("ask for a signal at the starter's end"))?;
        Ok(Self { own, foreign, parent })
    }

    /// Whether a signal requested the end.
    pub(super) fn is_asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }

    /// Whether the starter has ended.
    pub(super) fn is_orphan(&self) -> bool {
        self.parent.is_some() && getppid() != self.parent
    }
}

fn own_stat() -> Result<Stat, Error> {
    Stat::read(getpid().as_raw_nonzero().get()).ok_or(Error::NoProc)
}

fn lead_session() -> Result<(), Error> {
    let own = own_stat()?;
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

    setsid().map(|_| ()).map_err(|why| Error::Session(why.into()))
}

fn catch(signal: libc::c_int) -> Result<(), Error> {
    // SAFETY: all-zero is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ask as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is valid for the call, and the handler only stores to an atomic
    // (signal-safety(7)).
    let answer = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };

    if answer == 0 {
        Ok(())
    } else {
        Err(Error::Setting {
            what: "catch the signals that end it",
            why: std::io::Error::last_os_error(),
        })
    }
}
