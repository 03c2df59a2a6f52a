//! Settings of a study: by which means each is made, and whether it can be made here.

use onbeat::bench::host_settings::{planned, why_nothing};
use onbeat_tune::catalogue::{CheckVerdict, Finding, HostTree, LoopSetup};
use onbeat_tune::plan::{PlanStep, StepTarget, ThreadGroup};
use serde::{Deserialize, Serialize};

/// The stages of a study without a file: those of Pamuk and Rauh, 2024, less what does nothing,
/// each with the ids of its settings.
pub(super) const STAGES: [(&str, &str); 3] = [
    (
        "kernel",
        "shield.isolcpus shield.nohz_full shield.rcu_nocbs irq.managed mem.hugepages host.iommu \
         host.ple host.kvmclock_sync timer.skew_tick clock.tsc_watchdog dbg.audit idle.max_cstate",
    ),
    (
        "host",
        "shield.threads irq.default irq.affinity sched.rt_runtime sched.fair_server \
         timer.migration wq.unbound wq.writeback rcu.stall dbg.nmi_watchdog dbg.softlockup dbg.mce \
         host.halt_poll host.lapic_advance host.nx_huge",
    ),
    ("qemu", "vmm.cpu vmm.cpu_pm vmm.mem host.vcpu_pin host.emulator_pin host.vcpu_prio"),
];

/// The firmware's options of the same study: probed, never changed.
pub const FIRMWARE: [&str; 5] = ["fw.smt", "fw.speedstep", "fw.speedshift", "fw.cstates", "fw.vtd"];

/// A setting of QEMU's command line, or of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineSetting {
    /// `vmm.cpu`.
    Processor,
    /// `vmm.cpu_pm`.
    IdlesItself,
    /// `vmm.mem`.
    Memory,
    /// `host.vcpu_pin`.
    VcpuPin,
    /// `host.emulator_pin`.
    EmulatorPin,
    /// `host.vcpu_prio`.
    VcpuPriority,
}

impl MachineSetting {
    const ALL: [(&str, Self); 6] = [
        ("vmm.cpu", Self::Processor),
        ("vmm.cpu_pm", Self::IdlesItself),
        ("vmm.mem", Self::Memory),
        ("host.vcpu_pin", Self::VcpuPin),
        ("host.emulator_pin", Self::EmulatorPin),
        ("host.vcpu_prio", Self::VcpuPriority),
    ];

    /// The setting of an id; `None` where the id is one of the host's.
    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == id).map(|(_, setting)| *setting)
    }

    /// Why it cannot be made for a guest by this clock.
    fn refusal(self, clock: &str) -> Option<&'static str> {
        match (self, clock) {
            (Self::Processor | Self::IdlesItself, "virtual" | "free") => Some("it is one of KVM's"),
            (Self::VcpuPriority, "virtual") => Some(
                "a guest in virtual time never sleeps: under SCHED_FIFO it would keep its host CPU from everything else",
            ),
            _ => None,
        }
    }
}

/// By which means a setting is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// By `onbeat tune`, now.
    Host,
    /// On the host's kernel command line, which takes a reboot.
    Boot,
    /// At the start of the guest.
    Machine(MachineSetting),
}

/// Whether a setting is part of a study on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingState {
    /// It is made and priced.
    Priced(Means),
    /// The machine has the wanted value already.
    AsWanted { current: String },
    /// It is not made, because.
    LeftOut {
        /// The reason.
        because: String,
    },
}

impl SettingState {
    /// Of a setting that is not made, by what the check has found.
    pub(super) fn found(finding: Finding) -> Self {
        let because = match finding.verdict {
            CheckVerdict::Good => return Self::AsWanted { current: finding.current },
            CheckVerdict::Bad => {
                format!("not as wanted ({} instead of {})", finding.current, finding.wanted)
            }
            CheckVerdict::NotApplicable(because) => because,
            CheckVerdict::Unknown(because) => format!("its value is unknown: {because}"),
        };
        Self::LeftOut { because }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageSetting {
    /// Its id in the catalogue.
    pub id: String,
    /// Whether it is part of the study.
    pub state: SettingState,
}

impl StageSetting {
    /// By which means it is made; `None` where it is not.
    #[must_use]
    pub const fn means(&self) -> Option<Means> {
        match self.state {
            SettingState::Priced(means) => Some(means),
            SettingState::AsWanted { .. } | SettingState::LeftOut { .. } => None,
        }
    }
}

/// Whether a step can be made and undone around a measurement. The guest's own threads are placed by
/// its control socket.
pub(super) const fn is_of_host(step: &PlanStep) -> bool {
    match &step.target {
        StepTarget::Affinity { threads } | StepTarget::Threads { threads, .. } => {
            !matches!(threads, ThreadGroup::Loop | ThreadGroup::Vcpus | ThreadGroup::Emulator)
        }
        StepTarget::Boot {} | StepTarget::Shield {} => false,
        _ => true,
    }
}

/// Finds out how a setting can be made on this machine. Reads alone.
pub(super) fn resolve(tree: &HostTree, id: &str, setup: &LoopSetup, clock: &str) -> SettingState {
    let left_out = |because: String| SettingState::LeftOut { because };
    if let Some(setting) = MachineSetting::from_id(id) {
        return match setting.refusal(clock) {
            Some(because) => left_out(because.to_owned()),
            None => SettingState::Priced(Means::Machine(setting)),
        };
    }

    let made = match planned(tree, &[id], setup) {
        Ok(made) => made,
        Err(error) => return left_out(error.to_string()),
    };
    if made.steps.iter().any(is_of_host) {
        return SettingState::Priced(Means::Host);
    }
    if made.boot_parameters().next().is_some() {
        return SettingState::Priced(Means::Boot);
    }
    let Some(finding) = why_nothing(id, tree, setup) else {
        let because = made.left_out.first().map(|left| left.because.clone());
        return left_out(because.unwrap_or_else(|| "it has no step on this machine".to_owned()));
    };
    SettingState::found(finding)
}

#[cfg(test)]
mod tests {
    use onbeat_tune::catalogue::catalogue;

    use super::*;

    #[test]
    fn every_id_of_the_default_stages_is_in_the_catalogue() {
        for id in STAGES.iter().flat_map(|(_, ids)| ids.split_whitespace()).chain(FIRMWARE) {
            assert_eq!(catalogue().resolve(id).len(), 1, "{id}");
        }
    }

    #[test]
    fn settings_of_kvm_are_left_out_under_emulation_with_the_reason() {
        let tree = HostTree::live();
        let setup = LoopSetup::on("0".parse().expect("a list"));
        for id in ["vmm.cpu", "vmm.cpu_pm"] {
            let state = resolve(&tree, id, &setup, "free");
            assert_eq!(state, SettingState::LeftOut { because: "it is one of KVM's".to_owned() });
            assert!(matches!(
                resolve(&tree, id, &setup, "real"),
                SettingState::Priced(Means::Machine(_))
            ));
        }

        let by_clock = |clock| resolve(&tree, "host.vcpu_prio", &setup, clock);
        assert!(matches!(by_clock("virtual"), SettingState::LeftOut { .. }));
        assert!(matches!(by_clock("free"), SettingState::Priced(_)));
    }
}
