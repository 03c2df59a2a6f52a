//! A CPU that goes offline while its journal waits for a repair.

use onbeat_tune::CpuList;

use super::{Cgroups, World};

impl World {
    /// Other handlers for an interrupt.
    pub fn with_actions(&mut self, number: u32, actions: &[&str]) {
        self.irqs.get_mut(&number).unwrap().actions =
            actions.iter().map(|one| (*one).to_owned()).collect();
    }

    /// A CPU goes offline: cpusets of v1 lose it for good, and what has no other may use all that
    /// are left.
    pub fn take_offline(&mut self, cpu: u32) {
        let gone: CpuList = [cpu].into_iter().collect();
        let online = self.online().minus(&gone);
        self.files.insert("/sys/devices/system/cpu/online".to_owned(), format!("{online}\n"));
        if self.cgroups == Cgroups::V1 {
            self.regroup(|world| {
                world.groups.values_mut().for_each(|group| group.cpus = group.cpus.minus(&gone));
            });
        }

        for task in self.tasks.values_mut().filter(|task| !task.mask.meets(&online)) {
            task.mask = online.clone();
        }

        for irq in self.irqs.values_mut().filter(|irq| !irq.mask.meets(&online)) {
            irq.mask = online.clone();
        }
    }
}
