//! Who holds something: a process, never mistaken for a later one of the same number.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

/// Bits of a process number; the kernel's largest is 2^22 (`PID_MAX_LIMIT`, include/linux/threads.h).
const PID_BITS: u32 = 22;

/// A process by number and start time, in one word: it can be compared and exchanged at once. 0 is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process(u64);

impl Process {
    /// The calling one.
    pub(super) fn this() -> Self {
        let pid = getpid().as_raw_nonzero().get();
        Self::new(pid, start_ticks(pid).unwrap_or(0))
    }

    fn new(pid: i32, start_ticks: u64) -> Self {
        Self(start_ticks << PID_BITS | u64::from(pid.cast_unsigned()))
    }

    /// `None` for 0.
    pub(super) const fn from_word(word: u64) -> Option<Self> {
        if word == 0 { None } else { Some(Self(word)) }
    }

    pub(super) const fn word(self) -> u64 {
        self.0
    }

    pub(super) const fn pid(self) -> u32 {
        (self.0 & ((1 << PID_BITS) - 1)) as u32
    }

    /// Whether this very process still runs. One that has ended and was not waited for yet does not.
    pub(super) fn is_alive(self) -> bool {
        let pid = self.pid().cast_signed();
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => start_of(&stat) == Some(self.0 >> PID_BITS),
            // Others' processes may be hidden (`hidepid`); then the number alone has to do.
            Err(_) => Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM)),
        }
    }

    /// Its name, for people; nothing when it is gone.
    pub(super) fn name(self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.pid()))
            .map_or_else(|_| String::new(), |name| name.trim().to_owned())
    }
}

fn start_ticks(pid: i32) -> Option<u64> {
    start_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// When a process started, in clock ticks since boot (field 22 of `/proc/PID/stat`); `None` when it has ended.
fn start_of(stat: &str) -> Option<u64> {
    // The name may hold blanks and brackets: fields are counted behind the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") { None } else { fields.get(19)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_number_and_start_and_gone_when_it_has_ended() {
        let own = Process::this();
        assert!(own.is_alive() && own.pid() == std::process::id() && !own.name().is_empty());
        assert_eq!(Process::from_word(own.word()), Some(own));
        assert!(!Process::new(own.pid().cast_signed(), 1).is_alive(), "its predecessor of the same number");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let other = Process::new(pid, start_ticks(pid).unwrap_or(1));
        child.wait().unwrap();

        assert!(!other.is_alive());
        assert_eq!(Process::from_word(0), None);
    }
}
