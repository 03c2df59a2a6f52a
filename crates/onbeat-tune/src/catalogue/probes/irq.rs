//! Where interrupts of devices arrive.

use serde::Deserialize;

use super::file::ValueFormat;
use super::{NoValue, Probe, ProbeReading, matches};
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};

/// Handlers of interrupts that the kernel places itself, by the CPUs of their queue: a write to
/// their affinity is refused with EPERM, before Linux 6 with EIO. Of disks, as their drivers name
/// them where they ask for `PCI_IRQ_AFFINITY`.
const MANAGED: [&str; 11] = [
    "nvme*",
    "virtio*-req*",
    "megasas*-msix*",
    "mpt*-msix*",
    "mpi3mr*-msix*",
    "hpsa*-msix*",
    "smartpqi",
    "aacraid",
    "qla2xxx*_qpair*",
    "hisi_sas_v2_hw cq",
    "hisi_sas_v3_hw cq",
];
/// Queues of administration: their interrupts can be moved.
const NOT_MANAGED: [&str; 2] = ["nvme*q0", "mpi3mr*-msix0"];

/// Whether the kernel places an interrupt itself, by the name of its handler.
#[must_use]
pub fn is_managed(handler: &str) -> bool {
    let is_in = |names: &[&str]| names.iter().any(|pattern| matches(pattern, handler));
    is_in(&MANAGED) && !is_in(&NOT_MANAGED)
}

/// Handlers of interrupts that stay where they are: each CPU's own of ARM and RISC-V, their counters,
/// and the timer of a PC (`IRQD_PER_CPU` and `IRQD_NO_BALANCING` in kernel/irq/manage.c). They may
/// list all CPUs, and a write to their affinity is refused.
const BOUND: [&str; 9] = [
    "arch_timer",
    "kvm guest *timer",
    "vgic",
    "IPI",
    "arm-pmu",
    "arm_spe*",
    "riscv-timer",
    "riscv-pmu",
    "timer",
];

/// Whether an interrupt is one that nobody can move, by the name of its handler.
#[must_use]
pub fn is_bound(handler: &str) -> bool {
    BOUND.iter().any(|pattern| matches(pattern, handler))
}

/// Which interrupts a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IrqSelection {
    /// Those that can be moved.
    Movable,
    /// Those that the kernel places itself.
    Managed,
}

impl IrqSelection {
    fn has(self, handlers: &[String]) -> bool {
        let is_managed = handlers.iter().any(|handler| is_managed(handler));
        is_managed == (self == Self::Managed)
    }

    /// Why there is nothing to judge on a machine without one.
    const fn none_here(self) -> &'static str {
        match self {
            Self::Movable => "the kernel places each interrupt of this machine itself",
            Self::Managed => "the kernel places no interrupt of this machine itself",
        }
    }

    /// Returns the CPUs where each of them arrives.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where interrupts or their handlers cannot be listed.
    pub fn readings(self, survey: &Survey<'_>) -> Result<Vec<ProbeReading>, NoValue> {
        let mut readings = Vec::new();
        let mut has_handlers = false;
        let names = survey.names("/proc/irq")?;
        for number in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
            let handlers = handlers(number, survey)?;
            has_handlers |= !handlers.is_empty();
            let is_bound = handlers.iter().any(|handler| is_bound(handler));
            if handlers.is_empty() || is_bound || !self.has(&handlers) {
                continue;
            }

            let place = format!("interrupt {number} ({})", handlers.join(", "));
            readings.push(ProbeReading::new(place, effective_cpus(number, survey)));
        }

        if has_handlers {
            Ok(readings)
        } else {
            Err(NoValue::Unknown("/proc/irq holds no interrupt with a handler".to_owned()))
        }
    }
}

/// The CPUs where each interrupt arrives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IrqProbe {
    /// Which interrupts: those that the kernel refuses to move take another tuning.
    pub which: IrqSelection,
    /// What the CPUs should be.
    pub want: WantedValue,
    /// What a change would write to `smp_affinity_list`.
    #[serde(default)]
    pub set: Option<String>,
}

/// The names of an interrupt's handlers: without any nobody uses it.
fn handlers(number: u32, survey: &Survey<'_>) -> Result<Vec<String>, NoValue> {
    let path = format!("/sys/kernel/irq/{number}/actions");
    match survey.text_if_there(&path)? {
        Some(actions) => {
            let names = actions.trim().split(',').filter(|name| !name.is_empty());
            Ok(names.map(str::to_owned).collect())
        }
        // Older kernels: each handler has a directory.
        None => handler_directories(number, survey),
    }
}

pub(crate) fn handler_directories(
    number: u32,
    survey: &Survey<'_>,
) -> Result<Vec<String>, NoValue> {
    let directory = format!("/proc/irq/{number}");
    let names = survey.names(&directory)?;
    let is_handler = |name: &String| survey.host().names(&format!("{directory}/{name}")).is_ok();
    Ok(names.into_iter().filter(is_handler).collect())
}

/// Where it arrives in fact; what was asked for where the kernel does not show it, or before its
/// first use.
fn effective_cpus(number: u32, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
    for file in ["effective_affinity_list", "smp_affinity_list"] {
        let path = format!("/proc/irq/{number}/{file}");
        let text = survey.text_if_there(&path)?.unwrap_or_default();
        if !text.trim().is_empty() {
            return ValueFormat::List.parse(&text);
        }
    }

    Err(NoValue::Unknown(format!("the CPUs of interrupt {number} are not shown")))
}

impl Probe for IrqProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let none = || NoValue::NotApplicable(self.which.none_here().to_owned());
        let readings = self.which.readings(survey);
        let some = readings.and_then(|all| if all.is_empty() { Err(none()) } else { Ok(all) });
        ProbeReading::of_all("/proc/irq", some)
    }

    fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::{is_bound, is_managed};

    #[test]
    fn queues_are_placed_by_the_kernel_and_the_queue_of_administration_is_not() {
        assert!(
            ["nvme0q1", "nvme0q10", "virtio1-req.0", "mpt3sas0-msix3"].into_iter().all(is_managed)
        );
        assert!(!["nvme0q0", "virtio1-config", "eth0-TxRx-0"].into_iter().any(is_managed));
    }

    #[test]
    fn queues_of_disk_controllers_are_known_by_their_names() {
        assert!(
            ["mpi3mr0-msix1", "hpsa0-msix12", "smartpqi", "aacraid", "qla2xxx4_qpair1"]
                .into_iter()
                .all(is_managed)
        );
        assert!(is_managed("hisi_sas_v3_hw cq") && is_managed("megasas0-msix7"));
        let movable = ["mpi3mr0-msix0", "hisi_sas_v3_hw phy", "qla2xxx4_rsp_q", "mpt2sas0"];
        assert!(!movable.into_iter().any(is_managed));
    }

    #[test]
    fn interrupts_that_each_cpu_has_for_itself_cannot_be_moved() {
        assert!(["arch_timer", "kvm guest vtimer", "arm-pmu", "timer"].into_iter().all(is_bound));
        assert!(!["arch_mem_timer", "eth0", "mmc0"].into_iter().any(is_bound));
    }
}
