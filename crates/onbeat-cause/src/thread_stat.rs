//! What `/proc/TID/stat` says of the loop's thread: policy, priority, and page faults that had to
//! wait for a device (proc_pid_stat(5)).

use std::collections::VecDeque;

use onbeat_host::process::{self, StatLine};
use onbeat_rt::Instant;

/// Number of kept readings.
const KEPT: usize = 64;
/// Kernel priority of real-time priority 0; `priority` in `/proc/TID/stat` counts from it.
const FIRST_ORDINARY: i32 = 100;

/// The loop's thread at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadReading {
    /// Kernel priority: −1 deadline, 99 − p for FIFO and RR p, 120 + nice otherwise.
    pub prio: i32,
    /// Number of the scheduling policy (`SCHED_OTHER` is 0).
    pub policy: i32,
    /// Page faults that waited for a device since the last reading before the wait; `None` if there
    /// is no such reading.
    pub major_faults: Option<u64>,
}

impl ThreadReading {
    /// Returns the name of the policy with the priority: `SCHED_FIFO 90`, `SCHED_OTHER`.
    #[must_use]
    pub fn policy_words(&self) -> String {
        match self.policy {
            libc::SCHED_OTHER => "SCHED_OTHER".to_owned(),
            libc::SCHED_BATCH => "SCHED_BATCH".to_owned(),
            libc::SCHED_IDLE => "SCHED_IDLE".to_owned(),
            libc::SCHED_DEADLINE => "SCHED_DEADLINE".to_owned(),
            libc::SCHED_FIFO => format!("SCHED_FIFO {}", FIRST_ORDINARY - 1 - self.prio),
            libc::SCHED_RR => format!("SCHED_RR {}", FIRST_ORDINARY - 1 - self.prio),
            other => format!("policy {other}"),
        }
    }
}

/// Readings of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadAccounts {
    tid: u32,
    /// Time of each reading, and the number of major page faults; oldest first.
    readings: VecDeque<(Instant, u64)>,
}

impl ThreadAccounts {
    pub(super) fn for_thread(tid: u32, now: Instant) -> Self {
        let mut accounts = Self { tid, ..Self::default() };
        accounts.reading(now, now);
        accounts
    }

    /// Returns the thread at `now`, with the page faults since the last reading before `from`.
    pub(super) fn reading(&mut self, from: Instant, now: Instant) -> Option<ThreadReading> {
        let stat = process::text(self.tid, "stat").ok()?;
        let (reading, faults) = parse(&stat)?;
        let before = self.readings.iter().rev().find(|(at, _)| *at <= from);
        let major_faults = before.map(|(_, before)| faults.saturating_sub(*before));
        if self.readings.len() == KEPT {
            self.readings.pop_front();
        }
        self.readings.push_back((now, faults));
        Some(ThreadReading { major_faults, ..reading })
    }
}

/// Returns the thread, and the number of its major page faults.
fn parse(stat: &str) -> Option<(ThreadReading, u64)> {
    let stat = StatLine::parse(stat)?;
    let priority: i32 = stat.number(18)?;
    let reading = ThreadReading {
        prio: priority.checked_add(FIRST_ORDINARY)?,
        policy: stat.number(41)?,
        major_faults: None,
    };
    Some((reading, stat.number(12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_priority_and_faults_are_read_from_the_kernels_line() {
        let line = |priority: i32, policy: u32| {
            format!(
                "7 (a ) b) S 1 7 7 0 -1 4194304 55 0 3 0 0 0 0 0 {priority} 0 1 0 99 {} 17 1 0 {policy} 0 0",
                "0 ".repeat(15).trim()
            )
        };
        let (fifo, faults) = parse(&line(-91, 1)).unwrap();
        assert_eq!((fifo.prio, faults, fifo.policy_words().as_str()), (9, 3, "SCHED_FIFO 90"));
        let (other, _) = parse(&line(20, 0)).unwrap();
        assert_eq!((other.prio, other.policy_words().as_str()), (120, "SCHED_OTHER"));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    fn this_thread_has_a_policy() {
        let now = Instant::from_ns(5);
        let mut accounts = ThreadAccounts::for_thread(std::process::id(), now);
        let reading = accounts.reading(now, Instant::from_ns(9)).unwrap();
        assert!(reading.policy_words().starts_with("SCHED_"), "{reading:?}");
        assert!(reading.major_faults.is_some());
    }
}
