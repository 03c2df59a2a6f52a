//! State of the cgroup freezer for the loop's cgroups, and the time for which the kernel counted
//! them frozen (kernel, Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst and
//! cgroup-v2.rst: `freezer.state`, `cgroup.events`, `cgroup.stat.local`).

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use onbeat_rt::Instant;

use super::quota::{Hierarchy, cgroups_of, directories};

/// Number of kept readings: fewer spikes than this end within one wait.
const KEPT: usize = 64;

/// What the kernel's files said about the freezer when a spike was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreezerReading {
    /// Time for which the loop's cgroups were frozen since the last reading before the wait, in
    /// nanoseconds; `None` if the kernel does not count it (cgroup v1, before Linux 6.18).
    pub frozen_ns: Option<u64>,
    /// The file that said that a cgroup of the loop was frozen when the spike was judged.
    pub frozen_now: Option<String>,
}

/// The freezer's files of a thread's cgroups, from its own up to the root, in both hierarchies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FreezerAccounts {
    tid: u32,
    cgroups: String,
    directories: Vec<PathBuf>,
    /// Time of each reading, and the frozen time in nanoseconds; oldest first.
    readings: VecDeque<(Instant, u64)>,
}

impl FreezerAccounts {
    pub(super) fn for_thread(tid: u32, now: Instant) -> Self {
        let mut freezer = Self { tid, ..Self::default() };
        freezer.open(cgroups_of(tid), now);
        freezer
    }

    fn open(&mut self, cgroups: String, now: Instant) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let of = |hierarchy| directories(&cgroups, &mounts, hierarchy);
        self.directories = of(Hierarchy::V1("freezer"));
        self.directories.extend(of(Hierarchy::V2));
        self.cgroups = cgroups;
        self.readings.clear();
        self.read(now);
    }

    fn read(&mut self, now: Instant) -> Option<u64> {
        let frozen_ns = self.directories.iter().filter_map(|path| frozen_ns(path)).max()?;
        if self.readings.len() == KEPT {
            self.readings.pop_front();
        }
        self.readings.push_back((now, frozen_ns));
        Some(frozen_ns)
    }

    /// Returns the state at `now`, and the time frozen since the last reading before `from`. The
    /// cgroups are those of this moment: a thread that was moved has no earlier reading.
    pub(super) fn reading(&mut self, from: Instant, now: Instant) -> FreezerReading {
        let cgroups = cgroups_of(self.tid);
        if cgroups != self.cgroups {
            self.open(cgroups, now);
        }

        let before = self.readings.iter().rev().find(|(at, _)| *at <= from).map(|(_, ns)| *ns);
        let after = self.read(now);
        let frozen_ns = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        FreezerReading {
            frozen_ns,
            frozen_now: self.directories.iter().find_map(|at| frozen_in(at)),
        }
    }
}

/// Returns the file of a cgroup that says that it is frozen.
fn frozen_in(cgroup: &Path) -> Option<String> {
    [("freezer.state", "FROZEN"), ("cgroup.events", "frozen 1")].into_iter().find_map(
        |(name, frozen)| {
            let path = cgroup.join(name);
            let text = fs::read_to_string(&path).ok()?;
            text.lines().any(|line| line.trim() == frozen).then(|| path.display().to_string())
        },
    )
}

fn frozen_ns(cgroup: &Path) -> Option<u64> {
    let text = fs::read_to_string(cgroup.join("cgroup.stat.local")).ok()?;
    let us = text.lines().find_map(|line| line.strip_prefix("frozen_usec "))?;
    Some(us.trim().parse::<u64>().ok()? * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// Accounts of this process, in directories of the test.
    fn accounts_in(directories: Vec<PathBuf>) -> FreezerAccounts {
        let tid = std::process::id();
        FreezerAccounts { tid, cgroups: cgroups_of(tid), directories, ..FreezerAccounts::default() }
    }

    #[test]
    fn the_frozen_time_is_counted_from_the_last_reading_before_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let says = |us: u64| {
            fs::write(dir.path().join("cgroup.stat.local"), format!("frozen_usec {us}\n")).unwrap();
        };
        let mut freezer = accounts_in(vec![dir.path().to_owned()]);
        says(1_000);
        assert_eq!(freezer.reading(at(0), at(1)).frozen_ns, None, "nothing was read before");
        says(31_000);

        assert_eq!(freezer.reading(at(10), at(60)).frozen_ns, Some(30_000_000));
        assert_eq!(freezer.reading(at(70), at(80)).frozen_ns, Some(0));
    }

    #[test]
    fn a_frozen_cgroup_is_found_in_its_own_file_and_in_those_of_its_ancestors() {
        let dir = tempfile::tempdir().unwrap();
        let (own, above) = (dir.path().join("a/b"), dir.path().join("a"));
        fs::create_dir_all(&own).unwrap();
        let mut freezer = accounts_in(vec![own.clone(), above.clone()]);
        let now = |freezer: &mut FreezerAccounts| freezer.reading(at(0), at(1)).frozen_now;

        fs::write(own.join("freezer.state"), "THAWED\n").unwrap();
        fs::write(above.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        assert_eq!(now(&mut freezer), None);
        fs::write(above.join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        assert!(now(&mut freezer).unwrap().ends_with("a/cgroup.events"));
        fs::write(own.join("freezer.state"), "FROZEN\n").unwrap();
        assert!(now(&mut freezer).unwrap().ends_with("a/b/freezer.state"));
    }
}
