//! Mounted control group hierarchies.

use super::{Fact, Survey};
use crate::catalogue::no_value::NoValue;

/// A mounted hierarchy of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupMount {
    /// Where it is mounted.
    pub path: String,
    /// The cgroup seen at the mount; other than `/` in containers.
    pub root: String,
    /// 1 or 2.
    pub version: u8,
    /// The controllers of a v1 hierarchy; empty for v2.
    pub controllers: Vec<String>,
}

impl CgroupMount {
    /// The hierarchies in a `mountinfo` (proc_pid_mountinfo(5)), in its order.
    pub(crate) fn parse_all(mountinfo: &str) -> Vec<Self> {
        let mount = |line: &str| {
            let (head, tail) = line.split_once(" - ")?;
            let mut head = head.split(' ').skip(3).map(unescape);
            let (root, path) = (head.next()?, head.next()?);
            let mut tail = tail.split(' ');
            let version = match tail.next()? {
                "cgroup" => 1,
                "cgroup2" => 2,
                _ => return None,
            };
            let options = tail.nth(1).unwrap_or_default().split(',');
            let controllers = options.filter(|name| version == 1 && !["rw", "ro"].contains(name));
            let controllers = controllers.map(str::to_owned).collect();
            Some(Self { path, root, version, controllers })
        };
        mountinfo.lines().filter_map(mount).collect()
    }
}

/// Blanks in paths are written as `\040`.
fn unescape(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

impl Survey<'_> {
    /// Returns the mounted hierarchies.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where the mounts cannot be read.
    pub fn cgroup_mounts(&self) -> Fact<&[CgroupMount]> {
        let read = || {
            self.text("/proc/self/mountinfo")
                .or_else(|_| self.text("/proc/1/mountinfo"))
                .map(|text| CgroupMount::parse_all(&text))
        };
        self.mounts.get_or_init(read).as_ref().map(Vec::as_slice).map_err(Clone::clone)
    }

    /// Returns the mount of the unified hierarchy.
    ///
    /// # Errors
    /// [`NoValue::NotApplicable`] where it is not mounted.
    pub fn unified_mount(&self) -> Fact<&CgroupMount> {
        let mount = self.cgroup_mounts()?.iter().find(|mount| mount.version == 2);
        mount.ok_or_else(|| {
            NoValue::NotApplicable("no unified cgroup hierarchy is mounted".to_owned())
        })
    }

    /// Returns the version of the hierarchy that a controller is on; `None` where it is on none.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where the mounts or the controllers of the unified hierarchy cannot be
    /// read.
    pub fn controller_version(&self, controller: &str) -> Fact<Option<u8>> {
        let is_v1 = |mount: &&CgroupMount| {
            mount.version == 1 && mount.controllers.iter().any(|c| c == controller)
        };
        if self.cgroup_mounts()?.iter().any(|mount| is_v1(&mount)) {
            return Ok(Some(1));
        }

        let Ok(mount) = self.unified_mount() else { return Ok(None) };
        let listed = self.text(&format!("{}/cgroup.controllers", mount.path))?;
        Ok(listed.split_whitespace().any(|name| name == controller).then_some(2))
    }
}
