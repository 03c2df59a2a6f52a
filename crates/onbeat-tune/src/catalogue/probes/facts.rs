//! Facts of the machine: shown, and judged only where a record says what they should be.

use serde::Deserialize;

use super::{NoValue, Probe, ProbeReading};
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};
use crate::change::between;

/// Which fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactName {
    /// Hardware or guest.
    Virtualization,
    /// Whether the kernel restricts root.
    Lockdown,
    /// The capabilities of this process.
    Capabilities,
    /// Whether this process is in a container.
    Container,
    /// Which hierarchy has the cpuset controller.
    Cgroups,
    /// Whether control groups have real-time budgets.
    RtGroups,
    /// Where the kernel's configuration is.
    KernelConfig,
    /// Online CPUs and NUMA nodes.
    Topology,
    /// Where the kernel command line is configured.
    BootLoader,
    /// Whether systemd is the first process.
    Systemd,
    /// Ticks in a second.
    TickRate,
    /// Whether pressure is accounted for.
    Pressure,
    /// Whether SELinux is enforced.
    Selinux,
    /// Whether the kernel is a PREEMPT_RT one.
    PreemptRt,
    /// Where the kernel can be preempted: `full`, `lazy`, `voluntary` or `none`.
    Preemption,
    /// Whether the check of the timer is off.
    TimerCheck,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactProbe {
    /// Which.
    pub name: FactName,
    /// What it should be; without it the fact is only shown.
    #[serde(default)]
    pub want: Option<WantedValue>,
}

/// Files that show a boot loader, and what it is.
const BOOT_LOADERS: [(&str, &str); 7] = [
    ("/boot/firmware/cmdline.txt", "Raspberry Pi (/boot/firmware/cmdline.txt)"),
    ("/etc/default/grub", "GRUB (/etc/default/grub)"),
    ("/etc/kernel/cmdline", "kernel-install (/etc/kernel/cmdline)"),
    ("/boot/loader/entries", "boot loader entries (/boot/loader/entries)"),
    ("/efi/loader/entries", "boot loader entries (/efi/loader/entries)"),
    ("/boot/extlinux/extlinux.conf", "extlinux (/boot/extlinux/extlinux.conf)"),
    ("/run/ostree-booted", "rpm-ostree or bootc"),
];

/// Capabilities that tunings need, by their bits in `CapEff`.
const CAPABILITIES: [(u32, &str); 7] = [
    (12, "NET_ADMIN"),
    (14, "IPC_LOCK"),
    (17, "SYS_RAWIO"),
    (21, "SYS_ADMIN"),
    (23, "SYS_NICE"),
    (24, "SYS_RESOURCE"),
    (38, "PERFMON"),
];

fn yes_no(fact: bool) -> String {
    if fact { "yes" } else { "no" }.to_owned()
}

impl FactProbe {
    fn value(&self, survey: &Survey<'_>) -> Result<String, NoValue> {
        match self.name {
            FactName::Virtualization => {
                Ok(if survey.is_guest()? { "guest" } else { "hardware" }.to_owned())
            }
            FactName::Lockdown => lockdown(survey),
            FactName::Capabilities => capabilities(survey),
            FactName::Container => {
                Ok(survey.container().unwrap_or_else(|| "no mark of a container".to_owned()))
            }
            FactName::Cgroups => Ok(match survey.controller_version("cpuset")? {
                Some(version) => format!("cpuset on v{version}"),
                None => "no cpuset controller".to_owned(),
            }),
            FactName::RtGroups => rt_groups(survey),
            FactName::KernelConfig => {
                survey.config().map(|options| format!("{} options", options.len()))
            }
            FactName::Topology => topology(survey),
            FactName::BootLoader => boot_loader(survey),
            FactName::Systemd => survey.exists("/run/systemd/system").map(yes_no),
            FactName::TickRate => {
                config_value("CONFIG_HZ", survey).map(|rate| format!("{rate} Hz"))
            }
            FactName::Pressure => survey.exists("/proc/pressure").map(yes_no),
            FactName::Selinux => selinux(survey),
            FactName::PreemptRt => survey.is_preempt_rt().map(yes_no),
            FactName::Preemption => preemption(survey),
            FactName::TimerCheck => {
                let given = survey.parameter("no_timer_check")?.is_some();
                Ok(if given {
                    "no_timer_check given; it has no effect at run time"
                } else {
                    "default"
                }
                .to_owned())
            }
        }
    }
}

impl Probe for FactProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        self.want.as_ref()
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        vec![ProbeReading::new("", self.value(survey).map(ProbeValue::Text))]
    }
}

fn config_value(option: &str, survey: &Survey<'_>) -> Result<String, NoValue> {
    let value = survey.config()?.get(option).cloned();
    value.ok_or_else(|| {
        NoValue::NotApplicable(format!("the kernel's configuration has no {option}"))
    })
}

fn lockdown(survey: &Survey<'_>) -> Result<String, NoValue> {
    const PATH: &str = "/sys/kernel/security/lockdown";
    // securityfs may not be mounted while lockdown is in effect.
    mode_in(between(&survey.text(PATH)?, '[', ']'), PATH)
}

fn mode_in(mode: Option<&str>, path: &str) -> Result<String, NoValue> {
    mode.map(str::to_owned).ok_or_else(|| NoValue::Unknown(format!("{path} shows no mode")))
}

fn capabilities(survey: &Survey<'_>) -> Result<String, NoValue> {
    if !survey.host().is_live() {
        return Err(NoValue::NotApplicable("a captured tree has no process of its own".to_owned()));
    }

    let status = survey.text("/proc/self/status")?;
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    let bits =
        bits.ok_or_else(|| NoValue::Unknown("/proc/self/status shows no capabilities".to_owned()))?;

    let names: Vec<_> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| bits >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect();
    Ok(if names.is_empty() { "none".to_owned() } else { names.join(", ") })
}

fn preemption(survey: &Survey<'_>) -> Result<String, NoValue> {
    const PATH: &str = "/sys/kernel/debug/sched/preempt";
    if let Ok(text) = survey.host().read(PATH) {
        return mode_in(between(&text, '(', ')'), PATH);
    }

    let options = survey.config()?;
    if options.contains_key("CONFIG_PREEMPT_DYNAMIC") {
        let boot = survey
            .parameter("preempt")?
            .and_then(|parameter| parameter.value.as_deref())
            .unwrap_or("the default");
        let reason = format!(
            "booted with {boot}; what is in effect now is in {PATH} only (root, and no lockdown)"
        );
        return Err(NoValue::Unknown(reason));
    }

    let modes = [
        ("CONFIG_PREEMPT", "full"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
    ];
    let built = modes.iter().find(|(option, _)| options.contains_key(*option));
    Ok(built.map_or("none", |(_, mode)| mode).to_owned())
}

fn rt_groups(survey: &Survey<'_>) -> Result<String, NoValue> {
    if let Some(parameter) = survey.parameter("rt_group_sched")? {
        return Ok(if parameter.value.as_deref() == Some("0") { "no" } else { "yes" }.to_owned());
    }

    let options = survey.config()?;
    let is_built = options.contains_key("CONFIG_RT_GROUP_SCHED");
    let is_off = options.contains_key("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED");
    Ok(yes_no(is_built && !is_off))
}

fn topology(survey: &Survey<'_>) -> Result<String, NoValue> {
    let nodes = survey.numa_nodes()?;
    let plural = if nodes == 1 { "" } else { "s" };
    Ok(format!("CPUs {} online, {nodes} NUMA node{plural}", survey.online()?))
}

fn boot_loader(survey: &Survey<'_>) -> Result<String, NoValue> {
    let exists = |path: &str| survey.host().exists(path).unwrap_or(false);
    let found: Vec<_> =
        BOOT_LOADERS.iter().filter(|(path, _)| exists(path)).map(|(_, name)| *name).collect();
    if found.is_empty() {
        return Err(NoValue::Unknown("none of the usual files of a boot loader exists".to_owned()));
    }

    Ok(found.join("; "))
}

fn selinux(survey: &Survey<'_>) -> Result<String, NoValue> {
    match survey.host().read("/sys/fs/selinux/enforce") {
        Ok(text) if text.trim() == "1" => Ok("enforcing".to_owned()),
        Ok(_) => Ok("permissive".to_owned()),
        Err(_) => survey.exists("/sys/fs/selinux").and_then(|exists| match exists {
            true => Err(NoValue::Unknown("selinuxfs is not mounted or not readable".to_owned())),
            false => Ok("not built in or disabled".to_owned()),
        }),
    }
}
