//! `/proc`: who descends from whom, and the end of everything that a load once started.
//!
//! A process number alone names nobody: it is used again. Here a process is its number together with its start time
//! in clock ticks since boot (field 22 of `/proc/PID/stat`, proc(5)), and a signal goes through a descriptor of the
//! process that is checked again after it was opened.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// The variable by which a load's programs, and what they start, are known after their starter is gone.
pub(super) const MARK: &str = "ONBEAT_LOAD";

/// How long the kernel is given to end killed processes.
pub(super) const KILL_TIME: Duration = Duration::from_secs(5);

/// What `/proc/PID/stat` says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) state: char,
    pub(super) parent: i32,
    /// Process group and session; 0 when their leader is outside of the PID namespace that /proc shows, as for all
    /// that the kernel's first process starts. rustix asserts that there is no 0, so these come from here.
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) start_ticks: u64,
}

impl Stat {
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The command's name, in brackets, may hold anything, brackets and blanks included: fields count from the last one.
    fn parse(line: &str) -> Option<Self> {
        let pid = line.split_once(' ')?.0.parse().ok()?;
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let start_ticks = fields.nth(15)?.parse().ok()?;

        Some(Self { pid, state, parent, group, session, start_ticks })
    }

    pub(super) const fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Sends SIGKILL to this very process; `false` when it is gone.
    pub(super) fn kill(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => self.is_same() && pidfd_send_signal(&descriptor, Signal::KILL).is_ok(),
            // Kernels before 5.3 have no descriptors of processes; the check and the signal are microseconds apart.
            Err(rustix::io::Errno::NOSYS) => self.is_same() && kill_process(pid, Signal::KILL).is_ok(),
            Err(_) => false,
        }
    }

    fn is_same(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.start_ticks == self.start_ticks && !now.is_dead())
    }
}

/// All processes there are.
pub(super) fn all() -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Stat::read).collect()
}

/// The processes that descend from `ancestor` or belong to its session, without those in `except` and what descends
/// from them.
pub(super) fn descendants(ancestor: Stat, except: &[Stat]) -> Vec<Stat> {
    let is_excepted = |stat: &Stat| except.iter().any(|e| (e.pid, e.start_ticks) == (stat.pid, stat.start_ticks));
    let mut rest = all();
    rest.retain(|stat| stat.pid != ancestor.pid && !is_excepted(stat));
    let mut found: Vec<Stat> = Vec::new();
    let mut known = vec![ancestor.pid];
    loop {
        let before = found.len();
        let (new, others): (Vec<Stat>, Vec<Stat>) = rest.into_iter().partition(|stat| {
            known.contains(&stat.parent) || (ancestor.session == ancestor.pid && stat.session == ancestor.pid)
        });
        known = new.iter().map(|stat| stat.pid).collect();
        found.extend(new);
        rest = others;

        if found.len() == before {
            return found;
        }
    }
}

/// Session number and start time, in clock ticks since boot, of a process that leads its session: what
/// [`kill_session`] takes. `None` when there is no such process, or when it does not lead its session (then the session is
/// someone else's).
#[must_use]
pub fn session_identity(pid: i32) -> Option<(i32, u64)> {
    let stat = Stat::read(pid)?;
    (stat.session == stat.pid).then_some((stat.session, stat.start_ticks))
}

/// The mark that the programs of a load with this identity carry in their environment.
pub(super) fn mark(sid: i32, start_ticks: u64) -> String {
    format!("{sid}:{start_ticks}")
}

/// Ends every process that a load left behind whose supervisor was killed: SIGKILL to all that belong to session
/// `sid` and started at or after `start_ticks`, again until none is left (at most five seconds). Returns how many were
/// killed.
///
/// The numbers are those that [`session_identity`] gave, since the last boot. A session that only has the same number is
/// never hit: a process belongs to the load when its session's leader is the very one (same start time), or, when
/// the leader is gone, when it carries the load's mark in its environment.
pub fn kill_session(sid: i32, start_ticks: u64) -> usize {
    let own = std::process::id();
    if sid <= 1 || own_session() == Some(sid) {
        return 0;
    }

    let mut killed: Vec<(i32, u64)> = Vec::new();
    let until = Instant::now() + KILL_TIME;
    loop {
        let left: Vec<Stat> = all()
            .into_iter()
            .filter(|stat| stat.session == sid && stat.start_ticks >= start_ticks && !stat.is_dead())
            .filter(|stat| stat.pid.unsigned_abs() != own && belongs(stat, sid, start_ticks))
            .collect();
        if left.is_empty() || Instant::now() > until {
            return killed.len();
        }

        for stat in left {
            if stat.kill() && !killed.contains(&(stat.pid, stat.start_ticks)) {
                killed.push((stat.pid, stat.start_ticks));
            }
        }

        std::thread::sleep(Duration::from_millis(2));
    }
}

fn own_session() -> Option<i32> {
    Stat::read(std::process::id().cast_signed()).map(|own| own.session)
}

fn belongs(stat: &Stat, sid: i32, start_ticks: u64) -> bool {
    match Stat::read(sid) {
        Some(leader) if leader.session == sid => leader.start_ticks == start_ticks,
        _ => carries_mark(stat.pid, &mark(sid, start_ticks)),
    }
}

fn carries_mark(pid: i32, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let line = "12 (a) b) (c)) S 3 4 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 1000 200";
        let stat = Stat { pid: 12, state: 'S', parent: 3, group: 4, session: 5, start_ticks: 9876 };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse("12 (cut of"), None);
    }

    #[test]
    fn this_process_is_found_with_its_parent_and_start() {
        let own = Stat::read(std::process::id().cast_signed()).unwrap();
        assert!(own.start_ticks > 0 && own.parent > 0 && !own.is_dead());
        assert!(all().contains(&Stat::read(1).unwrap()));
    }

    #[test]
    fn a_process_that_does_not_lead_its_session_has_no_identity() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        let identity = session_identity(child.id().cast_signed());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(identity, None);
        assert_eq!(session_identity(i32::MAX), None);
    }

    #[test]
    fn neither_the_own_session_nor_that_of_init_is_ever_killed() {
        let own = own_session().unwrap();
        assert_eq!((kill_session(own, 0), kill_session(1, 0), kill_session(0, 0)), (0, 0, 0));
    }
}
