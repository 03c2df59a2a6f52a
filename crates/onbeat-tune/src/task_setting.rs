//! Attributes of a task that can be set from outside: policy, timer slack, OOM score, limits.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An attribute of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskSetting {
    /// Policy and priority, such as `fifo 50` or `other nice 5`; see [`onbeat_host::policy`].
    Scheduling,
    /// Timer slack in nanoseconds.
    TimerSlack,
    /// The OOM killer's adjustment, -1000 to 1000.
    OomScore,
    /// The highest real-time priority that the process may ask for: soft and hard limit.
    PriorityLimit,
    /// The memory that the process may lock: soft and hard limit in bytes, or `unlimited`.
    LockedMemoryLimit,
    /// The time that a real-time thread may run without blocking: soft and hard limit in
    /// microseconds.
    RealTimeLimit,
    /// The size of a core dump: soft and hard limit in bytes.
    CoreLimit,
}

impl TaskSetting {
    /// Returns the file below `/proc/PID` that shows it, and the start of its line where that is
    /// one of several.
    #[must_use]
    pub const fn place(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Scheduling => ("stat", None),
            Self::TimerSlack => ("timerslack_ns", None),
            Self::OomScore => ("oom_score_adj", None),
            Self::PriorityLimit => ("limits", Some("Max realtime priority")),
            Self::LockedMemoryLimit => ("limits", Some("Max locked memory")),
            Self::RealTimeLimit => ("limits", Some("Max realtime timeout")),
            Self::CoreLimit => ("limits", Some("Max core file size")),
        }
    }

    const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::PriorityLimit | Self::LockedMemoryLimit | Self::RealTimeLimit | Self::CoreLimit
        )
    }

    /// Returns a wanted value in full: a limit that is given as one number is the soft one, and the
    /// hard one stays as it is in `now`.
    #[must_use]
    pub fn in_full(self, wanted: &str, now: &str) -> String {
        match (wanted.split_whitespace().nth(1), now.split_whitespace().nth(1)) {
            (None, Some(hard)) if self.is_limit() => format!("{} {hard}", wanted.trim()),
            _ => wanted.to_owned(),
        }
    }

    /// Whether two texts are the same value.
    #[must_use]
    pub fn same(self, a: &str, b: &str) -> bool {
        a.split_whitespace().eq(b.split_whitespace())
    }
}

impl fmt::Display for TaskSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Scheduling => "policy",
            Self::TimerSlack => "timer slack",
            Self::OomScore => "OOM score",
            Self::PriorityLimit => "limit of real-time priority",
            Self::LockedMemoryLimit => "limit of locked memory",
            Self::RealTimeLimit => "limit of real-time CPU time",
            Self::CoreLimit => "limit of core dumps",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::TaskSetting;

    #[test]
    fn a_limit_of_one_number_leaves_the_hard_one_as_it_is() {
        let limit = TaskSetting::CoreLimit;
        assert_eq!(limit.in_full("0", "unlimited 4096"), "0 4096");
        assert_eq!(limit.in_full("0 0", "unlimited unlimited"), "0 0");
        assert_eq!(TaskSetting::TimerSlack.in_full("1", "50000"), "1");
    }
}
