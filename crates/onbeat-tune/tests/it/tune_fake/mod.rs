//! A fake host that behaves as the kernel does: cpusets of both kinds, affinities, interrupts, and
//! their refusals.
//!
//! [`World`] is the host; [`Fake`] is the access to it that the code under test gets.
#![allow(dead_code, unreachable_pub)]

mod cpusets;
pub mod fake_files;
use crate::memory;
mod offline;

pub use fake_files::Fake;

use std::collections::BTreeMap;

// Each test binary uses a part of this module.
#[allow(unused_imports)]
pub use memory::directory_in_memory;
use onbeat_tune::CpuList;
use rustix::io::Errno;

pub const BOUND: u64 = 0x0420_0000;
pub const KERNEL: u64 = 0x0020_0000;
/// The process under test, and its loop's thread.
pub const OWN: i32 = 500;
pub const LOOP: i32 = 501;
const MOUNT: &str = "/sys/fs/cgroup";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cgroups {
    V1,
    V2,
    None,
}

#[derive(Clone, Debug)]
pub struct FakeTask {
    pub pid: i32,
    pub parent: i32,
    pub start: u64,
    pub flags: u64,
    pub comm: String,
    pub mask: CpuList,
    pub group: String,
    /// What `sched_setaffinity` asked for; kernels since 6.2 remember it.
    user: Option<CpuList>,
    /// Refuses to change its cgroup though it is not bound, as `kthreadd` does.
    stays_in_group: bool,
}

#[derive(Clone, Debug, Default)]
struct Group {
    cpus: CpuList,
    mems: String,
    partition: String,
}

#[derive(Clone, Debug)]
struct FakeIrq {
    actions: Vec<String>,
    mask: CpuList,
    effective: CpuList,
    managed: bool,
}

#[derive(Clone, Debug)]
pub struct World {
    pub files: BTreeMap<String, String>,
    pub tasks: BTreeMap<i32, FakeTask>,
    pub root: bool,
    pub remembers_user_masks: bool,
    /// A cgroup of v2 that has tasks, in it or below, keeps some list of CPUs once it has one:
    /// `ENOSPC`, as in 6.1 and 6.12.
    pub keeps_a_list: bool,
    /// The error for enabling a controller, as where the mounted root has tasks of its own.
    pub refuses_controllers: Option<Errno>,
    /// The partitions that this kernel accepts.
    pub partitions: Vec<&'static str>,
    /// The cgroup tree cannot be written, as in a container.
    pub read_only_cgroups: bool,
    cgroups: Cgroups,
    cpuset_on: bool,
    groups: BTreeMap<String, Group>,
    irqs: BTreeMap<u32, FakeIrq>,
    now: u64,
    next_pid: i32,
}

pub fn cpus(text: &str) -> CpuList {
    CpuList::parse_list(text).unwrap()
}

impl World {
    /// Four CPUs online of eight possible; kernel threads, a desktop, a pinned task, this process
    /// with a loop's thread.
    pub fn new(cgroups: Cgroups) -> Self {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let kind = match cgroups {
            Cgroups::V1 => "cgroup cgroup rw,cpuset",
            Cgroups::V2 => "cgroup2 cgroup2 rw",
            Cgroups::None => "tmpfs tmpfs rw",
        };

        let files = BTreeMap::from([
            file(
                "/proc/self/mountinfo",
                &format!("20 1 0:5 / /proc rw - proc proc rw\n34 31 0:31 / {MOUNT} rw - {kind}\n"),
            ),
            file("/proc/sys/kernel/random/boot_id", "6b1f0b1e-7f64-4f0a-9d3c-000000000001\n"),
            file("/sys/devices/system/cpu/online", "0-3\n"),
            file("/sys/devices/system/cpu/possible", "0-7\n"),
            file("/proc/irq/default_smp_affinity", "ff\n"),
            file("/sys/devices/virtual/workqueue/cpumask", "ff\n"),
            file(
                "/proc/interrupts",
                "  CPU0 CPU1 CPU2 CPU3\n 24: 1 2 3 40 edge eth0\n 25: 5 6 7 80 edge nvme0q4\nNMI: 0 0 0 0\n",
            ),
        ]);

        let irq = |actions: &str, mask: &str, effective: &str, managed: bool| FakeIrq {
            actions: actions.split_whitespace().map(str::to_owned).collect(),
            mask: cpus(mask),
            effective: cpus(effective),
            managed,
        };

        let mut world = Self {
            files,
            tasks: BTreeMap::new(),
            root: true,
            remembers_user_masks: true,
            keeps_a_list: true,
            refuses_controllers: None,
            partitions: vec!["isolated", "root"],
            read_only_cgroups: false,
            cgroups,
            cpuset_on: cgroups == Cgroups::V1,
            groups: BTreeMap::new(),
            irqs: BTreeMap::from([
                (1, irq("", "0-3", "0", false)),
                (24, irq("eth0", "0-3", "3", false)),
                (25, irq("nvme0q4", "3", "3", true)),
                (26, irq("uart usb1", "3", "3", false)),
                (27, irq("rtc0", "0-1", "1", false)),
            ]),
            now: 10_000,
            next_pid: 1_000,
        };

        world.make_groups();
        world.make_tasks();
        world
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn make_groups(&mut self) {
        let group = |list: &str| Group {
            cpus: cpus(list),
            mems: "0".to_owned(),
            partition: "member".to_owned(),
        };

        let groups: &[(&str, &str)] = match self.cgroups {
            Cgroups::V1 => &[
                ("", "0-3"),
                ("/pods", "0-3"),
                ("/pods/a", "1-3"),
                ("/pods/b", "0-1"),
                ("/dedicated", "3"),
            ],
            Cgroups::V2 => &[
                ("", ""),
                ("/user.slice", ""),
                ("/user.slice/app", ""),
                ("/system.slice", "0-3"),
                ("/dedicated", "3"),
            ],
            Cgroups::None => &[("", "")],
        };

        self.groups =
            groups.iter().map(|(path, list)| (format!("{MOUNT}{path}"), group(list))).collect();
        // Before a shield came, v2 had no cpusets switched on unless somebody used them.
        self.cpuset_on = self.cgroups != Cgroups::None;
    }

    fn make_tasks(&mut self) {
        let v1 = self.cgroups == Cgroups::V1;
        let user = |v2: &'static str| if v1 || self.cgroups == Cgroups::None { "" } else { v2 };
        let tasks: &[(i32, i32, i32, u64, &str, &str)] = &[
            (1, 1, 0, 0, "init", user("/system.slice")),
            (2, 2, 0, KERNEL, "kthreadd", ""),
            (15, 15, 2, BOUND, "ksoftirqd/3", ""),
            (16, 16, 2, KERNEL, "rcu_preempt", ""),
            (17, 17, 2, KERNEL, "irq/26-uart", ""),
            (100, 100, 1, 0, "desktop", user("/user.slice/app")),
            (101, 100, 1, 0, "desktop:gpu", user("/user.slice/app")),
            (110, 110, 1, 0, "pinned", user("/user.slice")),
            (111, 111, 1, 0, "pinned to rt", user("/user.slice")),
            (120, 120, 1, 0, "in a pod", if v1 { "/pods/a" } else { user("/system.slice") }),
            (
                121,
                121,
                1,
                0,
                "its own CPU",
                if self.cgroups == Cgroups::None { "" } else { "/dedicated" },
            ),
            (OWN, OWN, 100, 0, "onbeat", user("/user.slice/app")),
            (LOOP, OWN, 100, 0, "onbeat:loop", user("/user.slice/app")),
        ];

        let own = cpus("0-7");
        let made: Vec<(i32, FakeTask)> = tasks
            .iter()
            .map(|(tid, pid, parent, flags, comm, group)| {
                let task = FakeTask {
                    pid: *pid,
                    parent: *parent,
                    start: 100 + u64::from(tid.unsigned_abs()),
                    flags: *flags,
                    comm: (*comm).to_owned(),
                    mask: own.clone(),
                    group: format!("{MOUNT}{group}"),
                    user: None,
                    stays_in_group: *tid == 2,
                };
                (*tid, task)
            })
            .collect();

        self.tasks = made.into_iter().collect();
        for tid in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.settle(tid);
        }

        self.tasks.get_mut(&17).unwrap().mask = cpus("3");
        for (tid, list) in [(15, "3"), (110, "2-3"), (111, "3")] {
            let task = self.tasks.get_mut(&tid).unwrap();
            (task.mask, task.user) = (cpus(list), Some(cpus(list)));
        }
    }

    /// A child of `parent` starts, with all that is inherited. Returns its number.
    pub fn fork(&mut self, parent: i32) -> i32 {
        self.now += 100;
        self.next_pid += 1;
        let mut child = self.tasks[&parent].clone();
        child.parent = child.pid;
        (child.pid, child.start, child.comm) =
            (self.next_pid, self.now, format!("child of {parent}"));
        self.tasks.insert(self.next_pid, child);
        self.next_pid
    }

    /// Kills the process under test.
    pub fn kill_owner(&mut self) {
        self.tasks.retain(|_, task| task.pid != OWN);
    }

    /// Every setting that the shield could have changed, but not those of this process itself.
    pub fn settings(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.files.iter().map(|(path, text)| format!("{path}: {}", text.trim())).collect();
        all.extend(self.groups.iter().map(|(path, group)| format!("{path}: {group:?}")));
        all.push(format!("cpuset on: {}", self.cpuset_on));
        all.extend(self.irqs.iter().map(|(number, irq)| format!("{number}: {irq:?}")));
        let others = self.tasks.iter().filter(|(tid, task)| task.pid != OWN && **tid <= 1_000);
        all.extend(
            others
                .map(|(tid, task)| format!("{tid} {}: {} in {}", task.comm, task.mask, task.group)),
        );
        all
    }

    fn possible(&self) -> CpuList {
        cpus(&self.files["/sys/devices/system/cpu/possible"])
    }

    fn online(&self) -> CpuList {
        cpus(&self.files["/sys/devices/system/cpu/online"])
    }

    fn partition(&self) -> CpuList {
        let valid = |group: &&Group| self.partitions.contains(&group.partition.as_str());
        self.groups.values().find(valid).map(|group| group.cpus.clone()).unwrap_or_default()
    }

    /// The CPUs a group grants its tasks.
    fn granted(&self, path: &str) -> CpuList {
        if path == MOUNT || !self.cpuset_on {
            return self.possible().minus(&self.partition());
        }
        let own = &self.groups[path];
        if self.cgroups == Cgroups::V1 || self.partitions.contains(&own.partition.as_str()) {
            return own.cpus.clone();
        }
        let parent = path.rsplit_once('/').unwrap().0;
        let up = self.granted(parent).and(&self.online());
        let both = up.and(&own.cpus);
        if both.is_empty() { up } else { both }
    }

    fn settle(&mut self, tid: i32) {
        let granted = self.granted(&self.tasks[&tid].group.clone());
        let remembers = self.remembers_user_masks;
        let task = self.tasks.get_mut(&tid).unwrap();
        if task.flags & 0x0400_0000 != 0 {
            return;
        }
        let pinned = task
            .user
            .as_ref()
            .filter(|_| remembers)
            .map(|user| user.and(&granted))
            .unwrap_or_default();
        task.mask = if pinned.is_empty() { granted } else { pinned };
    }

    /// Changes the groups, and updates the tasks of groups whose CPUs changed.
    fn regroup(&mut self, change: impl FnOnce(&mut Self)) {
        let before: BTreeMap<String, CpuList> =
            self.groups.keys().map(|path| (path.clone(), self.granted(path))).collect();
        change(self);
        for tid in self.tasks.keys().copied().collect::<Vec<_>>() {
            let group = self.tasks[&tid].group.clone();
            if before.get(&group) != Some(&self.granted(&group)) {
                self.settle(tid);
            }
        }
    }

    fn write_cpus(&mut self, path: &str, list: CpuList) -> Result<(), Errno> {
        if self.cgroups == Cgroups::V1 {
            let up = path.rsplit_once('/').unwrap().0;
            let down = format!("{path}/");
            let busy = self
                .groups
                .iter()
                .any(|(at, group)| at.starts_with(&down) && !group.cpus.is_within(&list));
            if !list.is_within(&self.groups[up].cpus) {
                return Err(Errno::ACCESS);
            } else if busy {
                return Err(Errno::BUSY);
            } else if list.is_empty() && self.tasks.values().any(|task| task.group == path) {
                return Err(Errno::NOSPC);
            }
        } else if self.keeps_a_list
            && list.is_empty()
            && !self.groups[path].cpus.is_empty()
            && self.is_populated(path)
        {
            return Err(Errno::NOSPC);
        }
        self.regroup(|world| world.groups.get_mut(path).unwrap().cpus = list);
        Ok(())
    }

    fn attach(&mut self, path: &str, tid: i32) -> Result<(), Errno> {
        let task = self.tasks.get(&tid).ok_or(Errno::SRCH)?;
        if task.stays_in_group || task.flags & 0x0400_0000 != 0 {
            return Err(Errno::INVAL);
        }

        if self.cgroups == Cgroups::V1 && self.groups[path].cpus.is_empty() {
            return Err(Errno::NOSPC);
        }

        let pid = task.pid;
        let whole = self.cgroups == Cgroups::V2;
        let moved: Vec<i32> = self
            .tasks
            .iter()
            .filter(|(at, task)| **at == tid || (whole && task.pid == pid))
            .map(|(at, _)| *at)
            .collect();

        for at in moved {
            self.tasks.get_mut(&at).unwrap().group = path.to_owned();
            self.settle(at);
        }

        Ok(())
    }

    fn write_irq(&mut self, number: u32, list: &str) -> Result<(), Errno> {
        let online = self.online();
        let irq = self.irqs.get_mut(&number).ok_or(Errno::NOENT)?;
        if irq.managed {
            return Err(Errno::PERM);
        }

        let mask = CpuList::parse_list(list).map_err(|_| Errno::INVAL)?;
        if !mask.meets(&online) {
            return Err(Errno::INVAL);
        }

        irq.mask = mask;
        // As on x86: it is not moved while the CPU it is sent to is still allowed.
        if !irq.effective.meets(&irq.mask) {
            irq.effective = irq.mask.iter().take(1).collect();
        }

        let thread = format!("irq/{number}-");
        let effective = irq.effective.clone();
        for task in self.tasks.values_mut().filter(|task| task.comm.starts_with(&thread)) {
            task.mask.clone_from(&effective);
        }

        Ok(())
    }

    fn group_file<'p>(&self, path: &'p str) -> Option<(&'p str, &'p str)> {
        let (group, file) = path.rsplit_once('/')?;
        self.groups.contains_key(group).then_some((group, file))
    }

    fn read_group(&self, group: &str, file: &str) -> Option<String> {
        let (v1, v2) = (self.cgroups == Cgroups::V1, self.cgroups == Cgroups::V2);
        let member = |task: &FakeTask| task.group == group;
        let own = &self.groups[group];
        let below = v1 || (v2 && self.cpuset_on && group != MOUNT);

        Some(match file {
            "cpuset.cpus" if below => own.cpus.to_string(),
            "cpuset.mems" if below => own.mems.clone(),
            "cpuset.cpus.partition" if v2 && below => own.partition.clone(),
            "tasks" if v1 => self
                .tasks
                .iter()
                .filter(|(_, t)| member(t))
                .map(|(tid, _)| format!("{tid}\n"))
                .collect(),
            "cgroup.procs" if v2 => {
                let leaders =
                    self.tasks.iter().filter(|(tid, task)| member(task) && **tid == task.pid);
                leaders.map(|(tid, _)| format!("{tid}\n")).collect()
            }
            "cgroup.controllers" if v2 && group == MOUNT => "cpuset cpu memory".to_owned(),
            "cgroup.subtree_control" if v2 => {
                if self.cpuset_on { "cpuset memory" } else { "memory" }.to_owned()
            }
            _ => return None,
        })
    }

    fn write_group(&mut self, (group, file): (&str, &str), text: &str) -> Result<(), Errno> {
        if self.read_only_cgroups {
            return Err(Errno::ROFS);
        }
        self.read_group(group, file).ok_or(Errno::NOENT)?;
        let (v1, text) = (self.cgroups == Cgroups::V1, text.trim());
        match file {
            "cpuset.cpus" => {
                self.write_cpus(group, CpuList::parse_list(text).map_err(|_| Errno::INVAL)?)
            }
            "cpuset.mems" => {
                self.groups.get_mut(group).unwrap().mems = text.to_owned();
                Ok(())
            }
            "tasks" | "cgroup.procs" if v1 == (file == "tasks") => {
                self.attach(group, text.parse().map_err(|_| Errno::INVAL)?)
            }
            "cgroup.subtree_control" => {
                if let Some(refusal) = self.refuses_controllers {
                    return Err(refusal);
                }
                self.switch_cpusets(text == "+cpuset");
                Ok(())
            }
            "cpuset.cpus.partition" => {
                let agreed = text == "member" || self.partitions.contains(&text);
                let shown = if agreed {
                    text.to_owned()
                } else {
                    format!("{text} invalid (Cpu list not exclusive)")
                };
                self.regroup(|world| world.groups.get_mut(group).unwrap().partition = shown);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn read_proc(&self, path: &str) -> Option<String> {
        let mut parts = path.strip_prefix("/proc/")?.split('/');
        let first = parts.next()?;
        if first == "irq" {
            let irq = self.irqs.get(&parts.next()?.parse().ok()?)?;
            let list = if parts.next()?.starts_with("eff") { &irq.effective } else { &irq.mask };
            return Some(format!("{list}\n"));
        }

        if first == "uptime" {
            return Some(format!("{}.{:02} 0.00\n", self.now / 100, self.now % 100));
        }

        let file = path.rsplit_once('/')?.1;
        let mut tid: i32 = first.parse().ok()?;
        if parts.next()? == "task" {
            tid = parts.next()?.parse().ok()?;
        }

        let task = self.tasks.get(&tid)?;
        let group = task.group.strip_prefix(MOUNT)?;
        let group = if group.is_empty() { "/" } else { group };
        Some(match file {
            "stat" => format!(
                "{tid} ({}) S {} 1 1 0 -1 {} 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n",
                task.comm, task.parent, task.flags, task.start
            ),
            "status" => {
                format!("Name:\tx\nTgid:\t{}\nCpus_allowed_list:\t{}\n", task.pid, task.mask)
            }
            "cgroup" if self.cgroups == Cgroups::V1 => {
                format!("8:pids:/x\n3:cpuset:{group}\n0::/\n")
            }
            "cgroup" => format!("0::{group}\n"),
            _ => return None,
        })
    }
}
