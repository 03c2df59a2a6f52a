//! Policy and priority of any task, as text: `other`, `other nice 5`, `batch`, `idle`, `fifo 50`,
//! `rr 10`, `deadline RUNTIME DEADLINE PERIOD` in nanoseconds, each with ` reset_on_fork` behind it
//! where that flag is set.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::str::FromStr;

const RESET_ON_FORK: u64 = 1;
const POLICIES: [(u32, &str); 6] =
    [(0, "other"), (1, "fifo"), (2, "rr"), (3, "batch"), (5, "idle"), (6, "deadline")];

/// What `sched_setattr(2)` takes, in its first form of 48 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// A text that does not name a policy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("\"{0}\" is not a policy; write for example \"fifo 50\" or \"other nice 0\"")]
pub struct SchedulingError(pub String);

impl Scheduling {
    const SIZE: u32 = size_of::<Self>() as u32;

    /// `SCHED_DEADLINE`, with a deadline at the end of each period.
    pub(crate) fn deadline(runtime_ns: u64, period_ns: u64) -> Self {
        let policy = libc::SCHED_DEADLINE.cast_unsigned();
        Self { policy, runtime_ns, deadline_ns: period_ns, period_ns, ..Self::default() }
    }

    /// Returns the policy of a task.
    ///
    /// # Errors
    /// The kernel's; `ESRCH` when the task is gone.
    pub fn of_thread(tid: i32) -> io::Result<Self> {
        let mut found = Self::default();
        // SAFETY: the kernel writes at most SIZE bytes into a structure of that size, which lives
        // across the call.
        let answer =
            unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut found, Self::SIZE, 0) };
        if answer == 0 { Ok(found) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets the policy of a task; 0 is the calling thread.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set(self, tid: i32) -> io::Result<()> {
        let attributes = Self { size: Self::SIZE, ..self };
        // SAFETY: the attributes are as long as they say and live across the call.
        let answer =
            unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = POLICIES
            .iter()
            .find(|(number, _)| *number == self.policy)
            .map_or("unknown", |(_, name)| name);
        out.write_str(name)?;
        match name {
            "fifo" | "rr" => write!(out, " {}", self.priority)?,
            "deadline" => {
                write!(out, " {} {} {}", self.runtime_ns, self.deadline_ns, self.period_ns)?;
            }
            _ if self.nice != 0 => write!(out, " nice {}", self.nice)?,
            _ => {}
        }

        if self.flags & RESET_ON_FORK == 0 { Ok(()) } else { out.write_str(" reset_on_fork") }
    }
}

impl FromStr for Scheduling {
    type Err = SchedulingError;

    fn from_str(text: &str) -> Result<Self, SchedulingError> {
        parse(text).ok_or_else(|| SchedulingError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Scheduling> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let flags = if words.last() == Some(&"reset_on_fork") { RESET_ON_FORK } else { 0 };
    if flags != 0 {
        words.pop();
    }

    let (name, operands) = words.split_first()?;
    let (policy, _) = POLICIES.iter().find(|(_, known)| known == name)?;
    let plain = Scheduling { policy: *policy, flags, ..Scheduling::default() };
    match (*name, operands) {
        ("fifo" | "rr", [priority]) => {
            let priority = priority.parse().ok().filter(|priority| (1..=99).contains(priority))?;
            Some(Scheduling { priority, ..plain })
        }
        ("deadline", [runtime, deadline, period]) => Some(Scheduling {
            runtime_ns: runtime.parse().ok()?,
            deadline_ns: deadline.parse().ok()?,
            period_ns: period.parse().ok()?,
            ..plain
        }),
        ("other" | "batch" | "idle", []) => Some(plain),
        ("other" | "batch" | "idle", ["nice", nice]) => {
            let nice = nice.parse().ok().filter(|nice| (-20..=19).contains(nice))?;
            Some(Scheduling { nice, ..plain })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_as_it_is_read() {
        for text in [
            "other",
            "other nice -5",
            "batch",
            "idle nice 3",
            "fifo 50",
            "rr 1 reset_on_fork",
            "deadline 1 2 3",
        ] {
            assert_eq!(text.parse::<Scheduling>().unwrap().to_string(), text);
        }
        for text in
            ["", "fifo", "fifo 0", "fifo 100", "other 5", "other nice 20", "deadline 1 2", "fair"]
        {
            assert_eq!(text.parse::<Scheduling>(), Err(SchedulingError(text.to_owned())));
        }
    }

    #[test]
    fn the_policy_of_this_thread_is_read_and_set_to_itself() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let before = Scheduling::of_thread(own).unwrap();
        before.to_string().parse::<Scheduling>().unwrap().set(own).unwrap();
        assert_eq!(Scheduling::of_thread(own).unwrap().to_string(), before.to_string());
    }
}
