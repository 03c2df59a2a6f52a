//! Identification of a process that is safe against reuse of its id.

use onbeat_host::process::Stat;
use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};

/// Bits of a process id; the kernel's maximum is 2^22 (`PID_MAX_LIMIT`, include/linux/threads.h).
const PID_BITS: u32 = 22;

/// Process id and start time in one word, for atomic comparison and exchange. 0 stands for no
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process(u64);

impl Process {
    /// Returns the calling process.
    pub(super) fn this() -> Self {
        let pid = getpid().as_raw_nonzero().get();
        Self::new(pid, Stat::read(pid).map_or(0, |stat| stat.start_ticks))
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

    /// Returns whether this process still runs. A zombie does not.
    pub(super) fn is_alive(self) -> bool {
        let pid = self.pid().cast_signed();
        match Stat::read(pid) {
            Some(stat) => !stat.is_dead() && stat.start_ticks == self.0 >> PID_BITS,
            // Processes of others may be hidden (`hidepid`); then only the id is checked.
            None => {
                Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM))
            }
        }
    }

    /// Returns the name; empty if the process is gone.
    pub(super) fn name(self) -> String {
        onbeat_host::process::name(self.pid())
    }

    /// Returns process id and name of a writer; 0 and an empty name without one.
    pub(super) fn described(writer: Option<Self>) -> (u32, String) {
        writer.map_or((0, String::new()), |it| (it.pid(), it.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_id_and_start_time_and_dead_when_it_has_ended() {
        let own = Process::this();
        assert!(own.is_alive() && own.pid() == std::process::id() && !own.name().is_empty());
        assert_eq!(Process::from_word(own.word()), Some(own));
        assert!(
            !Process::new(own.pid().cast_signed(), 1).is_alive(),
            "an earlier process with the same id"
        );
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let other = Process::new(pid, Stat::read(pid).map_or(1, |stat| stat.start_ticks));
        child.wait().unwrap();

        assert!(!other.is_alive());
        assert_eq!(Process::from_word(0), None);
    }
}
