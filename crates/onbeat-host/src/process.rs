//! `/proc`: descendants of a process, and killing everything that a load started.
//!
//! A process number does not identify a process, because it is reused. Here a process is identified
//! by its number and its start time in clock ticks since boot (field 22 of `/proc/PID/stat`,
//! proc(5)), and signals are sent through a process descriptor that is checked after opening.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::foreign::printable;

/// Environment variable that identifies a load's programs and their descendants after their starter
/// is gone.
pub const MARK: &str = "ONBEAT_LOAD";

/// Maximum time for killed processes to end.
pub const KILL_TIME: Duration = Duration::from_secs(5);

/// Whether this process ignores SIGHUP, as one that nohup(1) has started: the end of its terminal is
/// not to end it. Asked before it catches the signal.
#[must_use]
pub fn ignores_hangup() -> bool {
    text("self", "status").is_ok_and(|status| ignores(&status, Signal::HUP))
}

/// Reads the set of ignored signals of a `/proc/PID/status` (proc(5)).
fn ignores(status: &str, signal: Signal) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    (set >> (signal.as_raw() - 1)) & 1 == 1
}

/// Reads a file of `/proc/ID`, of a process or thread. Names in it need not be UTF-8: the kernel
/// cuts them after 15 bytes, in the middle of a character too.
///
/// # Errors
/// When it has ended, or may not be read.
pub fn text(id: impl fmt::Display, file: &str) -> io::Result<String> {
    fs::read(format!("/proc/{id}/{file}")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the name of a process or thread, printable; empty if it has ended.
#[must_use]
pub fn name(id: u32) -> String {
    text(id, "comm").map_or_else(|_| String::new(), |name| printable(name.trim_end_matches('\n')))
}

/// A line of `/proc/PID/stat`, of a process or a thread.
#[derive(Clone, Debug)]
pub struct StatLine<'t> {
    /// Number of the process or thread.
    pub id: i32,
    /// Its name.
    pub name: &'t str,
    fields: Vec<&'t str>,
}

impl<'t> StatLine<'t> {
    /// Splits a line; `None` for one that was cut off. The name in brackets may contain brackets and
    /// blanks: fields are counted from the last bracket.
    #[must_use]
    pub fn parse(line: &'t str) -> Option<Self> {
        let (head, fields) = line.rsplit_once(')')?;
        let (id, name) = head.split_once('(')?;
        let fields = fields.split_ascii_whitespace().collect();
        Some(Self { id: id.trim().parse().ok()?, name, fields })
    }

    /// Returns a field by its number in proc_pid_stat(5), from 3, the state.
    #[must_use]
    pub fn field(&self, number: usize) -> Option<&'t str> {
        self.fields.get(number.checked_sub(3)?).copied()
    }

    /// Returns the number in a field.
    #[must_use]
    pub fn number<N: FromStr>(&self, number: usize) -> Option<N> {
        self.field(number)?.parse().ok()
    }
}

/// Contents of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Number of the process.
    pub pid: i32,
    /// Letter of its state, as in ps(1).
    pub state: char,
    /// Number of its parent.
    pub parent: i32,
    /// Process group and session; 0 if their leader is outside the PID namespace of `/proc`, as for
    /// all children of the kernel's first process. rustix asserts that they are not 0, so they are
    /// read here.
    pub group: i32,
    /// Session; see `group`.
    pub session: i32,
    /// Start, in clock ticks since boot.
    pub start_ticks: u64,
}

impl Stat {
    /// Reads the state of a process; `None` if there is none of this number.
    #[must_use]
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&text(pid, "stat").ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        let line = StatLine::parse(line)?;
        Some(Self {
            pid: line.id,
            state: line.field(3)?.chars().next()?,
            parent: line.number(4)?,
            group: line.number(5)?,
            session: line.number(6)?,
            start_ticks: line.number(22)?,
        })
    }

    /// Whether it has ended, waited for or not.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Sends SIGKILL to exactly this process; `false` if it is gone.
    pub fn kill(&self) -> bool {
        let Some(pid) = Pid::from_raw(self.pid) else { return false };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => {
                self.is_same() && pidfd_send_signal(&descriptor, Signal::KILL).is_ok()
            }
            // Kernels before 5.3 have no process descriptors; check and signal are then
            // microseconds apart.
            Err(rustix::io::Errno::NOSYS) => {
                self.is_same() && kill_process(pid, Signal::KILL).is_ok()
            }
            Err(_) => false,
        }
    }

    fn is_same(&self) -> bool {
        Self::read(self.pid)
            .is_some_and(|now| now.start_ticks == self.start_ticks && !now.is_dead())
    }
}

/// Returns all processes.
///
/// # Errors
/// The kernel's, where `/proc` cannot be listed; `NotFound` where it has no process, as an empty
/// directory in a chroot: this one is there wherever it is mounted.
pub fn all() -> io::Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc")?.collect::<io::Result<Vec<_>>>()?;
    let numbers = entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<Stat> = numbers.filter_map(Stat::read).collect();
    if all.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(all) }
}

/// Returns the processes that descend from `ancestor` or belong to its session, except those in
/// `except` and their descendants.
///
/// # Errors
/// As [`all`].
pub fn descendants(ancestor: Stat, except: &[Stat]) -> io::Result<Vec<Stat>> {
    let is_excepted =
        |stat: &Stat| except.iter().any(|e| (e.pid, e.start_ticks) == (stat.pid, stat.start_ticks));
    let mut rest = all()?;
    rest.retain(|stat| stat.pid != ancestor.pid && !is_excepted(stat));
    let mut found: Vec<Stat> = Vec::new();
    let mut known = vec![ancestor.pid];
    loop {
        let before = found.len();
        let (new, others): (Vec<Stat>, Vec<Stat>) = rest.into_iter().partition(|stat| {
            known.contains(&stat.parent)
                || (ancestor.session == ancestor.pid && stat.session == ancestor.pid)
        });
        known = new.iter().map(|stat| stat.pid).collect();
        found.extend(new);
        rest = others;

        if found.len() == before {
            return Ok(found);
        }
    }
}

/// Returns session number and start time, in clock ticks since boot, of a process that leads its
/// session, as arguments for [`kill_session`]. `None` if the process does not exist, or does not
/// lead its session.
#[must_use]
pub fn session_identity(pid: i32) -> Option<(i32, u64)> {
    let stat = Stat::read(pid)?;
    (stat.session == stat.pid).then_some((stat.session, stat.start_ticks))
}

/// Returns the mark in the environment of the programs of a load with this identity.
#[must_use]
pub fn mark(sid: i32, start_ticks: u64) -> String {
    format!("{sid}:{start_ticks}")
}

/// Kills every process that a load with a killed supervisor left behind: sends SIGKILL to all
/// processes of session `sid` that started at or after `start_ticks`, repeatedly until none is
/// left, for at most five seconds. Returns the number of killed processes.
///
/// The arguments were returned by [`session_identity`] since the last boot. Another session with
/// the same number is never affected: a process belongs to the load if its session's leader has the
/// same start time or, after the leader has ended, if it has the load's mark in its environment.
///
/// # Errors
/// As [`all`].
pub fn kill_session(sid: i32, start_ticks: u64) -> io::Result<usize> {
    let own = std::process::id();
    if sid <= 1 || own_session() == Some(sid) {
        return Ok(0);
    }

    let mut killed: Vec<(i32, u64)> = Vec::new();
    let until = Instant::now() + KILL_TIME;
    loop {
        let left: Vec<Stat> = all()?
            .into_iter()
            .filter(|stat| {
                stat.session == sid && stat.start_ticks >= start_ticks && !stat.is_dead()
            })
            .filter(|stat| stat.pid.unsigned_abs() != own && belongs(stat, sid, start_ticks))
            .collect();
        if left.is_empty() || Instant::now() > until {
            return Ok(killed.len());
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
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    })
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

    /// The kernel cuts a name off in the middle of a letter.
    #[test]
    fn a_thread_whose_name_is_not_utf_8_is_read() {
        let named = std::thread::Builder::new().name("regelschleife_ü".to_owned());
        let read = || (fs::read("/proc/thread-self/comm"), text("thread-self", "stat"));
        let (name, line) = named.spawn(read).unwrap().join().unwrap();
        assert_eq!(name.unwrap(), b"regelschleife_\xc3\n");
        let line = line.unwrap();
        let line = StatLine::parse(&line).unwrap();
        assert_eq!((line.name, line.field(3)), ("regelschleife_\u{fffd}", Some("R")));
    }

    #[test]
    fn a_process_whose_name_is_not_text_is_found_and_its_name_is_printable() {
        let (tid_of, tid) = std::sync::mpsc::channel();
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let named = std::thread::spawn(move || {
            let own = rustix::thread::gettid();
            rustix::thread::set_name(c"Regler\x1b[2J \xe4").unwrap();
            tid_of.send(own.as_raw_nonzero().get()).unwrap();
            let _ = end.recv();
        });
        let tid = tid.recv().unwrap();
        assert!(Stat::read(tid).is_some_and(|stat| stat.pid == tid));
        assert_eq!(name(tid.unsigned_abs()), "Regler?[2J \u{fffd}");
        drop(ends);
        named.join().unwrap();
        assert_eq!(name(u32::MAX), "");
    }

    #[test]
    fn a_signal_is_ignored_where_its_bit_is_set() {
        let status = "Name:\tonbeat\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n";
        assert!(ignores(status, Signal::PIPE) && !ignores(status, Signal::HUP));
        assert!(ignores("SigIgn:\t0000000000000001\n", Signal::HUP));
        assert!(!ignores("Name:\tonbeat\n", Signal::HUP));
    }

    #[test]
    fn this_process_is_found_with_its_parent_and_start() {
        let own = Stat::read(std::process::id().cast_signed()).unwrap();
        assert!(own.start_ticks > 0 && own.parent > 0 && !own.is_dead());
        // Its state changes while it is read.
        let first = Stat::read(1).unwrap();
        assert!(
            all()
                .unwrap()
                .iter()
                .any(|stat| (stat.pid, stat.start_ticks) == (1, first.start_ticks))
        );
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
        assert_eq!([own, 1, 0].map(|sid| kill_session(sid, 0).unwrap()), [0, 0, 0]);
    }
}
