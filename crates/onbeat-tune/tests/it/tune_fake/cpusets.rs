//! Cpusets of v2, switched on and off by the root of the made-up host.

use onbeat_tune::CpuList;

use super::{MOUNT, World};

impl World {
    /// A v2 host where nobody uses cpusets, as systemd leaves it: the root does not hand the
    /// controller on.
    pub fn without_cpusets(mut self) -> Self {
        let pins: Vec<(i32, Option<CpuList>)> =
            self.tasks.iter().map(|(tid, task)| (*tid, task.user.clone())).collect();
        self.switch_cpusets(false);
        for (tid, pin) in pins.into_iter().filter_map(|(tid, pin)| Some((tid, pin?))) {
            self.tasks.get_mut(&tid).unwrap().mask = pin;
        }

        self
    }

    /// Every task below the root changes its cpuset by it. Switched off, the children's own
    /// settings are gone for good.
    pub(super) fn switch_cpusets(&mut self, on: bool) {
        if self.cpuset_on == on {
            return;
        }

        self.regroup(|world| {
            world.cpuset_on = on;
            if !on {
                // A new cpuset has no list of its own.
                for (_, group) in world.groups.iter_mut().filter(|(path, _)| *path != MOUNT) {
                    (group.cpus, group.partition) = (CpuList::default(), "member".to_owned());
                }
            }
        });

        for tid in self.tasks.keys().copied().collect::<Vec<_>>() {
            if self.tasks[&tid].group != MOUNT {
                self.settle(tid);
            }
        }
    }

    pub(super) fn is_populated(&self, path: &str) -> bool {
        let down = format!("{path}/");
        self.tasks.values().any(|task| task.group == path || task.group.starts_with(&down))
    }
}
