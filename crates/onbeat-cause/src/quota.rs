//! Time for which CPU quotas throttled the loop's cgroups, as counted by the kernel
//! (`throttled_usec` or `throttled_time` of `cpu.stat`; kernel,
//! Documentation/scheduler/sched-bwc.rst).

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use onbeat_rt::Instant;

/// Number of kept readings: fewer spikes than this end within one wait.
const KEPT: usize = 64;

/// Interval between two looks at the cgroups of the thread, in nanoseconds.
const LOOK_EVERY_NS: u64 = 20_000_000;

/// The `cpu.stat` files of a thread's cgroups, from its own up to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QuotaAccounts {
    tid: u32,
    /// `/proc/TID/cgroup`, at the last look.
    cgroups: String,
    looked: Instant,
    accounts: Vec<PathBuf>,
    /// Time of each reading, and the throttled time of each cgroup in nanoseconds; oldest first.
    readings: VecDeque<(Instant, Vec<u64>)>,
}

impl QuotaAccounts {
    /// Opens the accounts of a thread and reads them at `now`. Empty if the kernel has no CPU
    /// controller or hides it.
    pub(super) fn for_thread(tid: u32, now: Instant) -> Self {
        let mut quota = Self { tid, ..Self::default() };
        quota.open(cgroups_of(tid), now);
        quota
    }

    /// Opens the accounts of other cgroups if the thread was moved: the kernel counts the time of
    /// the new ones there only.
    pub(super) fn keep_watch(&mut self, now: Instant) {
        if now.ns_since(self.looked) < LOOK_EVERY_NS {
            return;
        }

        self.looked = now;
        let cgroups = cgroups_of(self.tid);
        if cgroups != self.cgroups {
            self.open(cgroups, now);
        }
    }

    fn open(&mut self, cgroups: String, now: Instant) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let paths = accounts(&cgroups, &mounts).into_iter();
        self.accounts = paths.filter(|path| throttled_ns(path).is_some()).collect();
        self.cgroups = cgroups;
        self.looked = now;
        self.readings.clear();
        self.read(now);
    }

    fn read(&mut self, now: Instant) -> Vec<u64> {
        let said: Vec<u64> =
            self.accounts.iter().map(|path| throttled_ns(path).unwrap_or(0)).collect();
        if self.readings.len() == KEPT {
            self.readings.pop_front();
        }
        self.readings.push_back((now, said.clone()));
        said
    }

    /// Returns the time for which the thread was throttled between `from` and `now`, in
    /// nanoseconds: the maximum over its cgroups, since the last reading before `from`. `None` if
    /// no account can be read.
    pub(super) fn throttled_ns(&mut self, from: Instant, now: Instant) -> Option<u64> {
        let older = self
            .readings
            .iter()
            .rev()
            // The account only grows. The last reading before the wait is subtracted, so that what
            // was throttled earlier does not count for it.
            .find(|(at, _)| *at <= from)
            .or_else(|| self.readings.front());
        let before = older.map(|(_, said)| said.clone()).unwrap_or_default();
        let after = self.read(now);
        // A thread is throttled when any cgroup above it is. The one that was longest is what it
        // waited for; the sum would count one wait twice.
        after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before)).max()
    }
}

/// Returns `/proc/TID/cgroup`; empty if the thread is gone.
pub(super) fn cgroups_of(tid: u32) -> String {
    onbeat_host::process::text(tid, "cgroup").unwrap_or_default()
}

fn throttled_ns(account: &Path) -> Option<u64> {
    let text = fs::read_to_string(account).ok()?;
    text.lines().find_map(|line| match line.split_once(' ')? {
        // cgroup v2 counts microseconds, v1 nanoseconds, under another name.
        ("throttled_usec", us) => Some(us.trim().parse::<u64>().ok()? * 1_000),
        ("throttled_time", ns) => ns.trim().parse().ok(),
        _ => None,
    })
}

/// Returns the paths of `cpu.stat`, given `/proc/PID/cgroup` and `/proc/self/mountinfo`.
fn accounts(cgroups: &str, mounts: &str) -> Vec<PathBuf> {
    let v1 = directories(cgroups, mounts, Hierarchy::V1("cpu"));
    // On a hybrid hierarchy the cpu controller is on one of the two; the other one has directories
    // without an account.
    let found = if v1.is_empty() { directories(cgroups, mounts, Hierarchy::V2) } else { v1 };
    found.iter().map(|cgroup| cgroup.join("cpu.stat")).collect()
}

/// A hierarchy of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// The cgroup v1 hierarchy of a controller.
    V1(&'static str),
    V2,
}

/// Returns the directories of a process's cgroups in a hierarchy, from its own up to the root;
/// empty if the hierarchy is not mounted. `cgroups` is `/proc/PID/cgroup`, `mounts`
/// `/proc/self/mountinfo`.
pub(super) fn directories(cgroups: &str, mounts: &str, hierarchy: Hierarchy) -> Vec<PathBuf> {
    let lists = |list: &str, name: &str| list.split(',').any(|one| one == name);
    let mount = mounts.lines().find_map(|line| {
        // /proc/self/mountinfo has optional fields in the middle; the dash ends them (proc(5)).
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1)?;
        let is_it = match hierarchy {
            Hierarchy::V1(controller) => kind == "cgroup" && lists(options, controller),
            Hierarchy::V2 => kind == "cgroup2",
        };
        let mut left = left.split(' ').skip(3);

        is_it.then_some((left.next()?, left.next()?))
    });

    let path = cgroups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match hierarchy {
            Hierarchy::V1(controller) => lists(controllers, controller),
            Hierarchy::V2 => controllers.is_empty(),
        };
        is_it.then_some(path)
    });

    let Some(((root, mount), path)) = mount.zip(path) else { return Vec::new() };

    // Cgroups above the mounted root are not visible.
    let below = Path::new(path)
        .strip_prefix(root)
        .or_else(|_| Path::new(path).strip_prefix("/"))
        .unwrap_or(Path::new(""));
    below.ancestors().map(|cgroup| Path::new(mount).join(cgroup)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "25 24 0:21 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      26 24 0:22 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
    const V2: &str = "25 24 0:21 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn found(cgroups: &str, mounts: &str) -> Vec<String> {
        accounts(cgroups, mounts).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn accounts_reach_from_the_threads_own_cgroup_to_the_root() {
        let expected =
            ["/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat"];
        let all = found("4:cpu,cpuacct:/a/b\n3:cpuset:/else\n0::/unified\n", V1);
        assert_eq!(all[..2], expected);
        assert_eq!(all[2], "/sys/fs/cgroup/cpu,cpuacct/cpu.stat");
        assert_eq!(found("0::/user.slice/me\n", V2)[0], "/sys/fs/cgroup/user.slice/me/cpu.stat");
    }

    #[test]
    fn a_hierarchy_may_be_mounted_in_part() {
        let container = "25 24 0:21 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(found("0::/docker/x/app\n", container)[0], "/sys/fs/cgroup/app/cpu.stat");
    }

    #[test]
    fn throttled_time_is_counted_from_the_last_reading_before_the_spike() {
        let dir = tempfile::tempdir().unwrap();
        let account = dir.path().join("cpu.stat");
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let mut quota =
            QuotaAccounts { accounts: vec![account.clone()], ..QuotaAccounts::default() };
        let says = |us: u64| {
            fs::write(&account, format!("nr_throttled 3\nthrottled_usec {us}\n")).unwrap();
        };
        says(1_000);
        quota.read(at(0));
        says(41_000);

        assert_eq!(quota.throttled_ns(at(10), at(60)), Some(40_000_000));
        // A second spike of the same wait is counted from the reading before the first one.
        assert_eq!(quota.throttled_ns(at(20), at(61)), Some(40_000_000));
        says(46_000);
        assert_eq!(quota.throttled_ns(at(70), at(80)), Some(5_000_000));
    }

    #[test]
    fn a_thread_that_was_moved_is_counted_in_its_new_cgroup() {
        let own = std::process::id();
        let mut quota = QuotaAccounts::for_thread(own, Instant::from_ns(0));
        let found = quota.accounts.clone();
        quota.cgroups = "0::/another\n".to_owned();
        quota.accounts.clear();
        quota.readings.push_back((Instant::from_ns(1), vec![7]));

        quota.keep_watch(Instant::from_ns(LOOK_EVERY_NS - 1));
        assert_eq!(quota.cgroups, "0::/another\n", "too early for another look");
        quota.keep_watch(Instant::from_ns(LOOK_EVERY_NS));
        assert_eq!((quota.accounts, quota.cgroups), (found, cgroups_of(own)));
        assert_eq!(quota.readings.len(), 1, "what the old cgroups counted is forgotten");
    }

    #[test]
    fn without_a_cpu_controller_the_time_is_unknown() {
        assert_eq!(found("3:cpuset:/else\n", V1), [""; 0]);
        assert_eq!(
            QuotaAccounts::default().throttled_ns(Instant::from_ns(1), Instant::from_ns(2)),
            None
        );
    }
}
