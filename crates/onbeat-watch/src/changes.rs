//! What is changed of a thread while it is measured: its program, name, policy, CPUs, cgroup.

use std::fs;

use onbeat_host::foreign::printable;
use onbeat_host::process::text;

use crate::process::{self, Policy, ThreadFacts};

/// What a thread is and where it belongs, at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// The program's file; empty where it cannot be read.
    program: String,
    /// Where its stack begins, which is elsewhere after each exec; 0 where it may not be known.
    stack_at: u64,
    name: String,
    policy: Policy,
    cpus: String,
    /// Lines of `/proc/TID/cgroup`.
    cgroup: String,
}

impl Seen {
    fn read(tid: i32) -> Option<Self> {
        let facts = process::thread(tid)?;
        let program = fs::read_link(format!("/proc/{tid}/exe"));
        Some(Self {
            stack_at: process::stack_at(tid),
            program: program.map(|file| file.display().to_string()).unwrap_or_default(),
            cgroup: text(tid, "cgroup").unwrap_or_default(),
            name: facts.name,
            policy: facts.policy,
            cpus: facts.cpus,
        })
    }

    /// What differs in `now`, as the ends of sentences.
    fn differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, before: &str, after: &str| {
            if before != after && !before.is_empty() && !after.is_empty() {
                found.push(format!(
                    "{what} was changed from {} to {}",
                    printable(before),
                    printable(after)
                ));
            }
        };
        compare("its policy", &self.policy.words(), &now.policy.words());
        compare("its list of CPUs", &self.cpus, &now.cpus);
        let (before, after) = (cgroup(&self.cgroup), cgroup(&now.cgroup));
        compare("its cgroup", &before, &after);
        let is_known = !self.program.is_empty() && !now.program.is_empty();
        let was_loaded = self.stack_at != now.stack_at && self.stack_at != 0 && now.stack_at != 0;
        if self.program != now.program && is_known {
            found.push(format!(
                "it became another program (exec), {} instead of {}: cycles from then on are that program's",
                printable(&now.program),
                printable(&self.program)
            ));
        } else if was_loaded {
            found.push(
                "it executed its own file again: later cycles are those of the new start"
                    .to_owned(),
            );
        } else {
            // Without an exec, it has renamed itself.
            compare("its name", &self.name, &now.name);
        }
        found
    }
}

/// The cgroup of version 2, or all of version 1.
fn cgroup(text: &str) -> String {
    match text.lines().find_map(|line| line.strip_prefix("0::")) {
        Some(path) => path.to_owned(),
        None => text.lines().collect::<Vec<_>>().join(" "),
    }
}

/// Follows a thread from its first look on.
#[derive(Debug)]
pub(crate) struct ThreadChanges {
    tid: i32,
    name: String,
    /// At the first look, before it was read.
    policy: Policy,
    seen: Option<Seen>,
}

impl ThreadChanges {
    pub(crate) fn new(thread: &ThreadFacts) -> Self {
        let tid = thread.id.tid;
        Self { tid, name: thread.name.clone(), policy: thread.policy, seen: Seen::read(tid) }
    }

    /// Its policy at the last look.
    pub(crate) fn policy(&self) -> Policy {
        self.seen.as_ref().map_or(self.policy, |seen| seen.policy)
    }

    /// Returns a sentence for each change since the last look; `t` is the time of a run in seconds.
    pub(crate) fn look(&mut self, t: f64) -> Vec<String> {
        let (Some(before), Some(now)) = (&self.seen, Seen::read(self.tid)) else {
            return Vec::new();
        };
        let differences = before.differences(&now);
        self.seen = Some(now);
        let (name, tid) = (&self.name, self.tid);
        let of = |what: String| format!("{t:.1} s after the start, {name} [{tid}]: {what}");
        differences.into_iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            program: "/usr/bin/controller".to_owned(),
            stack_at: 0x5500_1000,
            name: "control".to_owned(),
            policy: Policy::Fifo(80),
            cpus: "0-3".to_owned(),
            cgroup: "0::/robot.slice\n".to_owned(),
        }
    }

    #[test]
    fn nothing_changed_is_nothing_said() {
        assert_eq!(seen().differences(&seen()), Vec::<String>::new());
    }

    #[test]
    fn each_change_is_said_with_what_was_before() {
        let now = Seen {
            policy: Policy::Ordinary { nice: 0 },
            cpus: "0".to_owned(),
            cgroup: "0::/user.slice\n".to_owned(),
            ..seen()
        };
        assert_eq!(
            seen().differences(&now),
            [
                "its policy was changed from FIFO 80 to OTHER",
                "its list of CPUs was changed from 0-3 to 0",
                "its cgroup was changed from /robot.slice to /user.slice",
            ]
        );
    }

    #[test]
    fn another_program_has_another_name_and_is_said_once() {
        let now = Seen {
            program: "/opt/other\u{1b}[2J".to_owned(),
            stack_at: 0x5600_1000,
            name: "other".to_owned(),
            ..seen()
        };
        let said = seen().differences(&now);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("it became another program (exec), /opt/other?[2J instead of"));
    }

    #[test]
    fn the_same_program_begun_anew_is_said_and_a_new_name_alone_is_only_that() {
        let anew = Seen { stack_at: 0x5700_1000, name: "python3".to_owned(), ..seen() };
        assert_eq!(
            seen().differences(&anew),
            ["it executed its own file again: later cycles are those of the new start"]
        );
        let renamed = Seen { name: "worker".to_owned(), ..seen() };
        assert_eq!(seen().differences(&renamed), ["its name was changed from control to worker"]);
    }

    #[test]
    fn what_can_no_longer_be_read_is_no_change() {
        let now = Seen { program: String::new(), stack_at: 0, cgroup: String::new(), ..seen() };
        assert_eq!(seen().differences(&now), Vec::<String>::new());
    }
}
