//! A record of the catalogue: one tuning as data.

use std::fmt;

use serde::Deserialize;

use super::clue::Clue;
use super::precondition::Precondition;
use super::probes::ProbeSpec;

/// One tuning. Every field is data of `records/*.toml`; an unknown field is refused.
///
/// ```
/// use onbeat_tune::catalogue::catalogue;
///
/// let record = catalogue().get("mem.swappiness").expect("a record of the catalogue");
/// assert!(!record.is_check_only() && !record.ways_to_set().is_empty());
/// ```
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningRecord {
    /// Name in journals, plans and reports: section and item, `irq.affinity`.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// What it does, in a sentence.
    pub what: String,
    /// Why it matters to a periodic loop, in a sentence or two.
    pub why: String,
    /// Where it can be set.
    pub layers: Vec<TuningLayer>,
    /// What kind of thing is set.
    pub target: TuningTarget,
    /// Expected effect on the tail of a 1 kHz loop's latency: 3 up to milliseconds, 2 tens to
    /// hundreds of microseconds, 1 some microseconds or rare, 0 hygiene.
    pub effect: u8,
    /// What a change takes before it has an effect.
    pub takes_effect: Vec<TakesEffect>,
    /// What must be so for the record to apply; all of them.
    #[serde(default)]
    pub needs: Vec<Precondition>,
    /// How the values of several probes make one verdict.
    #[serde(default)]
    pub combine: ProbeCombination,
    /// How its state is read; at least one.
    pub probe: Vec<ProbeSpec>,
    /// Kernel parameters that set it at boot, with variables in braces.
    #[serde(default)]
    pub boot: Option<String>,
    /// What a person does to set it, where no probe names the value to write.
    #[serde(default)]
    pub fix: Option<String>,
    /// What the change may break; `None` for records that are only checked.
    #[serde(default)]
    pub risk: Option<TuningRisk>,
    /// Where the facts come from: tags of [`TuningSource`], or public issues as
    /// `OWNER/REPOSITORY#NUMBER`.
    pub sources: Vec<String>,
    /// Ids that are changed after this one.
    #[serde(default)]
    pub before: Vec<String>,
    /// Ids that are changed before this one.
    #[serde(default)]
    pub after: Vec<String>,
    /// Ids that cannot be in effect together with this one.
    #[serde(default)]
    pub conflicts: Vec<String>,
    /// Profiles that it enters first.
    #[serde(default)]
    pub profiles: Vec<String>,
    /// Causes of latency that it removes or reduces, as run files name them.
    #[serde(default)]
    pub mends: Vec<String>,
    /// Counters that move where the tuning matters: `device_interrupts`, `softirqs RCU`.
    #[serde(default)]
    pub evidence: Vec<Clue>,
    /// The section's file name without extension; not part of the text.
    #[serde(skip)]
    pub section: &'static str,
}

impl TuningRecord {
    /// Whether the record only reports and has nothing to change.
    #[must_use]
    pub fn is_check_only(&self) -> bool {
        self.takes_effect == [TakesEffect::Check]
    }

    /// Returns how it is set, with variables in braces: values to write, kernel parameters, what a
    /// person does.
    #[must_use]
    pub fn ways_to_set(&self) -> Vec<String> {
        self.ways_with(&self.probe)
    }

    /// The same, with the values of these of its probes alone.
    pub(super) fn ways_with<'p>(
        &self,
        probes: impl IntoIterator<Item = &'p ProbeSpec>,
    ) -> Vec<String> {
        let mut ways = Vec::new();
        for spec in probes {
            if let Some(value) = spec.probe().set() {
                let place = match spec {
                    ProbeSpec::Irqs(_) => "/proc/irq/N/smp_affinity_list".to_owned(),
                    ProbeSpec::IdleStates(_) => "`disable` of each deeper state".to_owned(),
                    _ => {
                        spec.probe().path().unwrap_or_else(|| "the control group's file".to_owned())
                    }
                };
                ways.push(format!("write {value} to {place}"));
            }
        }

        ways.extend(self.boot.iter().map(|parameters| format!("boot with {parameters}")));
        ways.extend(self.fix.clone());
        ways
    }
}

/// Where a tuning can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuningLayer {
    /// A kernel on hardware.
    Bare,
    /// A kernel that runs virtual machines.
    Host,
    /// The kernel of a virtual machine.
    Guest,
    /// The program with the loop.
    Program,
    /// The command line of a virtual machine monitor.
    Vmm,
}

/// What kind of thing a tuning sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuningTarget {
    /// Nothing: a fact that other tunings depend on.
    Fact,
    /// The firmware's set-up.
    Firmware,
    /// A model-specific register of the processor.
    Msr,
    /// How the kernel was built.
    KernelBuild,
    /// The kernel command line.
    KernelParameter,
    /// A parameter of a module, below `/sys/module`.
    ModuleParameter,
    /// A value below `/proc/sys`.
    Sysctl,
    /// A value below `/sys`.
    Sysfs,
    /// A value below `/sys/kernel/debug` or `/sys/kernel/tracing`.
    Debugfs,
    /// A value that holds while a descriptor is open.
    Descriptor,
    /// A control group.
    Cgroup,
    /// Where an interrupt is sent.
    Irq,
    /// Policy, priority, CPUs or timer slack of a thread.
    Thread,
    /// A unit of systemd.
    Systemd,
    /// A configuration file of another program.
    ConfigFile,
    /// A setting of a network interface outside `/sys`.
    Network,
    /// Mounts and swap.
    Filesystem,
    /// The kernel's clocks.
    Clock,
    /// Cache and memory bandwidth, by resctrl.
    Resctrl,
    /// The loop's own program.
    Program,
    /// An argument of QEMU.
    Qemu,
    /// An element of a libvirt definition.
    Libvirt,
}

/// What a change takes before it has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakesEffect {
    /// Nothing to change: the record is only checked.
    Check,
    /// It holds at once.
    Now,
    /// A service or session is started again.
    Service,
    /// The loop's program is changed or started again.
    Program,
    /// The virtual machine is started again.
    Vm,
    Reboot,
    /// The firmware's set-up, which includes a reboot.
    Firmware,
    /// Another kernel.
    Rebuild,
    /// The owner of the host that runs this guest.
    Host,
}

/// How the values of several probes make one verdict. Probes that do not apply are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeCombination {
    /// All values must be as wanted.
    #[default]
    All,
    /// One value as wanted is enough.
    Any,
}

/// What a change may break.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningRisk {
    /// How bad.
    pub level: RiskLevel,
    /// In words, shown where the choice is made.
    pub text: String,
}

/// How bad a risk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// None known.
    None,
    /// Costs power, throughput or comfort.
    Low,
    /// Takes a function away, or hides errors.
    Medium,
    /// Can lock the machine, lose data, open a security hole or damage hardware.
    High,
}

/// Another name for one or more records.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningAlias {
    /// The other name.
    pub id: String,
    /// The records.
    pub stands_for: Vec<String>,
    /// Why it is not a record.
    pub reason: String,
}

/// A set of records.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningProfile {
    /// Its name: `robot-1k`.
    pub name: String,
    /// What it is for.
    pub title: String,
    /// Profiles whose records it has as well.
    #[serde(default)]
    pub includes: Vec<String>,
}

/// A document, or a machine where something was tried.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningSource {
    /// How records name it.
    pub tag: String,
    /// Author and title.
    pub title: String,
}

/// A tuning as a document publishes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedParameter {
    /// The tag of the document.
    pub source: String,
    /// As the document has it.
    pub text: String,
    /// The records that it corresponds to.
    #[serde(default)]
    pub ids: Vec<String>,
    /// What is wrong with it or has changed since; required where no record corresponds.
    #[serde(default)]
    pub remark: Option<String>,
}

macro_rules! words {
    ($name:ident, $($variant:ident => $words:literal),+ $(,)?) => {
        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(match self {
                    $(Self::$variant => $words,)+
                })
            }
        }
    };
}

words!(TuningLayer, Bare => "hardware", Host => "host of guests", Guest => "guest", Program => "program", Vmm => "virtual machine");
words!(RiskLevel, None => "none", Low => "low", Medium => "medium", High => "high");
words!(TakesEffect,
    Check => "check only",
    Now => "now",
    Service => "restart of a service",
    Program => "the program",
    Vm => "restart of the virtual machine",
    Reboot => "reboot",
    Firmware => "firmware",
    Rebuild => "another kernel",
    Host => "the host",
);
words!(TuningTarget,
    Fact => "fact",
    Firmware => "firmware",
    Msr => "MSR",
    KernelBuild => "kernel build",
    KernelParameter => "kernel parameter",
    ModuleParameter => "module parameter",
    Sysctl => "sysctl",
    Sysfs => "sysfs",
    Debugfs => "debugfs",
    Descriptor => "open descriptor",
    Cgroup => "cgroup",
    Irq => "interrupt",
    Thread => "thread",
    Systemd => "systemd",
    ConfigFile => "configuration file",
    Network => "network interface",
    Filesystem => "mounts and swap",
    Clock => "clock",
    Resctrl => "resctrl",
    Program => "program",
    Qemu => "QEMU",
    Libvirt => "libvirt",
);
