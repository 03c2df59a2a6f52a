//! How long a CPU quota of the loop's cgroups held it back: the kernel adds that up (`throttled_usec` or `throttled_time` of
//! `cpu.stat`; kernel, Documentation/scheduler/sched-bwc.rst).

use std::fs;
use std::path::{Path, PathBuf};

/// The accounts of the cgroups that a thread is in, from its own up to the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Quota {
    /// Each with what it said last, in nanoseconds.
    accounts: Vec<(PathBuf, u64)>,
}

impl Quota {
    /// Those of a thread, as they are now. Empty where the kernel has no CPU controller, or shows none.
    pub(super) fn of_thread(tid: u32) -> Self {
        let file = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let paths = accounts(&file(&format!("/proc/{tid}/cgroup")), &file("/proc/self/mountinfo"));
        Self { accounts: paths.into_iter().filter_map(|path| throttled_ns(&path).map(|ns| (path, ns))).collect() }
    }

    /// How long the thread was held back since this was asked last, in nanoseconds: the longest of its cgroups. `None` where no
    /// account can be read.
    pub(super) fn throttled_ns(&mut self) -> Option<u64> {
        let since_last = |(path, before): &mut (PathBuf, u64)| {
            let now = throttled_ns(path)?;
            Some(now.saturating_sub(std::mem::replace(before, now)))
        };
        self.accounts.iter_mut().filter_map(since_last).max()
    }
}

fn throttled_ns(account: &Path) -> Option<u64> {
    let text = fs::read_to_string(account).ok()?;
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", us) => Some(us.trim().parse::<u64>().ok()? * 1_000),
        ("throttled_time", ns) => ns.trim().parse().ok(),
        _ => None,
    })
}

/// Paths of `cpu.stat`, from the lines of `/proc/PID/cgroup` and of `/proc/self/mountinfo`.
fn accounts(cgroups: &str, mounts: &str) -> Vec<PathBuf> {
    let hierarchy = |is_v2: bool| {
        let mount = mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            let (kind, options) = (right.next()?, right.nth(1)?);
            let is_it =
                if is_v2 { kind == "cgroup2" } else { kind == "cgroup" && options.split(',').any(|o| o == "cpu") };
            let mut left = left.split(' ').skip(3);
            is_it.then_some((left.next()?, left.next()?))
        });
        let path = cgroups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let is_it = if is_v2 { controllers.is_empty() } else { controllers.split(',').any(|name| name == "cpu") };
            is_it.then_some(path)
        });
        mount.zip(path)
    };
    let Some(((root, mount), path)) = hierarchy(false).or_else(|| hierarchy(true)) else { return Vec::new() };

    // What stands above the mounted root is not shown.
    let below =
        Path::new(path).strip_prefix(root).or_else(|_| Path::new(path).strip_prefix("/")).unwrap_or(Path::new(""));
    below.ancestors().map(|cgroup| Path::new(mount).join(cgroup).join("cpu.stat")).collect()
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
        let expected = ["/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat"];
        let all = found("4:cpu,cpuacct:/a/b\n3:cpuset:/else\n0::/unified\n", V1);
        assert_eq!(all[..2], expected);
        assert_eq!(all[2], "/sys/fs/cgroup/cpu,cpuacct/cpu.stat");
        assert_eq!(found("0::/user.slice/me\n", V2)[0], "/sys/fs/cgroup/user.slice/me/cpu.stat");
    }

    #[test]
    fn a_part_of_the_hierarchy_is_known_where_only_that_is_mounted() {
        let container = "25 24 0:21 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(found("0::/docker/x/app\n", container)[0], "/sys/fs/cgroup/app/cpu.stat");
    }

    #[test]
    fn without_a_cpu_controller_nothing_is_known() {
        assert_eq!(found("3:cpuset:/else\n", V1), [""; 0]);
        assert_eq!(Quota::default().throttled_ns(), None);
    }
}
