//! How the state of a tuning is read: a probe for each kind of target.
//!
//! | file | kinds |
//! |---|---|
//! | `file` | `file`, `sysctl`, `equal_files`, `lines`, `directory` |
//! | `kernel` | `parameter`, `config`, `flags` |
//! | `facts` | `fact` |
//! | `task` | `tasks`, `locked_memory` |
//! | `irq` | `irqs` |
//! | `unit` | `units` |
//! | `cgroup` | `cgroup`, `resctrl` |
//! | `cpu` | `cpus`, `idle_states`, `msr`, `device_value` |
//! | `elsewhere` | `watch`, `review`, `tool`, `qemu`: what no file shows |
//!
//! A probe reads; whether a value is as wanted is decided in one place, [`mod@super::check`].

pub mod cgroup;
pub mod cpu;
pub mod elsewhere;
pub mod facts;
pub mod file;
pub mod irq;
pub mod kernel;
pub mod task;
pub mod unit;

use serde::Deserialize;

use super::survey::Survey;
use super::wanted::{ProbeValue, WantedValue};

pub use super::no_value::NoValue;

/// A value, and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReading {
    /// A path, the name of a thread, an interrupt.
    pub place: String,
    /// The value, or why there is none.
    pub value: Result<ProbeValue, NoValue>,
}

impl ProbeReading {
    /// A reading of one place.
    pub fn new(place: impl Into<String>, value: Result<ProbeValue, NoValue>) -> Self {
        Self { place: place.into(), value }
    }

    /// Readings of several places, or why there are none.
    fn of_all(place: &str, readings: Result<Vec<Self>, NoValue>) -> Vec<Self> {
        readings.unwrap_or_else(|why| vec![Self::new(place, Err(why))])
    }
}

/// Reads the values that one tuning depends on, without changing anything.
pub trait Probe {
    /// Returns what the values should be; `None` where there is nothing to judge.
    fn wanted(&self) -> Option<&WantedValue> {
        None
    }

    /// Returns the value of each place: each CPU, interrupt, thread or file. At least one.
    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading>;

    /// Returns the value that a change would write, with variables in braces.
    fn set(&self) -> Option<&str> {
        None
    }

    /// Returns the path that is read, where it is one file or pattern.
    fn path(&self) -> Option<String> {
        None
    }
}

macro_rules! probe_kinds {
    ($($(#[$doc:meta])* $variant:ident($kind:ty) => $name:literal),+ $(,)?) => {
        /// A probe as a record describes it, by its `kind`.
        #[derive(Debug, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum ProbeSpec {
            $($(#[$doc])* $variant($kind),)+
        }

        impl ProbeSpec {
            /// Returns the kind's name in the records.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                }
            }

            /// Returns the probe itself.
            #[must_use]
            pub fn probe(&self) -> &dyn Probe {
                match self {
                    $(Self::$variant(probe) => probe,)+
                }
            }
        }
    };
}

probe_kinds! {
    /// A file that holds a value.
    File(file::FileProbe) => "file",
    /// A value below `/proc/sys`.
    Sysctl(file::SysctlProbe) => "sysctl",
    /// Two files that must hold the same value.
    EqualFiles(file::EqualFilesProbe) => "equal_files",
    /// The number of lines of a file.
    Lines(file::LinesProbe) => "lines",
    /// The number of entries of a directory.
    Directory(file::DirectoryProbe) => "directory",
    /// A parameter of the kernel command line.
    Parameter(kernel::ParameterProbe) => "parameter",
    /// An option that the kernel was built with.
    Config(kernel::ConfigProbe) => "config",
    /// Flags of the processor.
    Flags(kernel::FlagsProbe) => "flags",
    /// A fact of the machine.
    Fact(facts::FactProbe) => "fact",
    /// An attribute of tasks.
    Tasks(task::TaskProbe) => "tasks",
    /// Whether the loop's memory is locked.
    LockedMemory(task::LockedMemoryProbe) => "locked_memory",
    /// Where interrupts arrive.
    Irqs(irq::IrqProbe) => "irqs",
    /// Units of systemd.
    Units(unit::UnitProbe) => "units",
    /// A value of the loop's control group and those above it.
    Cgroup(cgroup::CgroupProbe) => "cgroup",
    /// A group of resctrl for the loop's CPUs.
    Resctrl(cgroup::ResctrlProbe) => "resctrl",
    Cpus(cpu::CpuSetProbe) => "cpus",
    /// The exit latency of the deepest idle state that the loop's CPUs may enter.
    IdleStates(cpu::IdleStatesProbe) => "idle_states",
    /// Bits of a model-specific register.
    Msr(cpu::MsrProbe) => "msr",
    /// A number that a device returns.
    DeviceValue(cpu::DeviceValueProbe) => "device_value",
    /// What only two readings show.
    Watch(elsewhere::WatchProbe) => "watch",
    /// What only a person can judge.
    Review(elsewhere::ReviewProbe) => "review",
    /// What only another tool reports.
    Tool(elsewhere::ToolProbe) => "tool",
    /// An argument of QEMU.
    Qemu(elsewhere::QemuProbe) => "qemu",
}

/// Returns the paths of a pattern: `{loop_cpu}` for each CPU of the loop, `{interface}`, `{task}`,
/// `{cgroup2}`, and `*` for any name in a directory.
///
/// # Errors
/// [`NoValue`] where a variable has no value. A pattern without a match gives no path.
pub fn expand(pattern: &str, survey: &Survey<'_>) -> Result<Vec<String>, NoValue> {
    let mut paths = vec![pattern.to_owned()];
    if pattern.contains("{loop_cpu}") {
        let cpus = survey.loop_cpus()?;
        paths = substitute(
            &paths,
            "{loop_cpu}",
            &cpus.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>(),
        );
    }
    if pattern.contains("{interface}") {
        let interfaces = &survey.setup().interfaces;
        if let Some(name) = interfaces
            .iter()
            .find(|name| name.is_empty() || name.contains('/') || name.starts_with('.'))
        {
            return Err(NoValue::Unknown(format!(
                "\"{name}\" is not a valid name of a network interface"
            )));
        }
        paths = substitute(&paths, "{interface}", interfaces);
    }
    if pattern.contains("{task}") {
        paths = substitute(&paths, "{task}", &[survey.loop_task()?.to_string()]);
    }
    if pattern.contains("{cgroup2}") {
        paths = substitute(&paths, "{cgroup2}", &[survey.unified_mount()?.path.clone()]);
    }

    let mut expanded = Vec::new();
    for path in paths {
        expanded.extend(expand_stars(&path, survey)?);
    }

    Ok(expanded)
}

fn substitute(paths: &[String], name: &str, values: &[String]) -> Vec<String> {
    paths
        .iter()
        .flat_map(|path| values.iter().map(move |value| path.replace(name, value)))
        .collect()
}

fn expand_stars(path: &str, survey: &Survey<'_>) -> Result<Vec<String>, NoValue> {
    let Some(star) = path.find('*') else { return Ok(vec![path.to_owned()]) };
    let start = path[..star].rfind('/').unwrap_or(0);
    let end = path[star..].find('/').map_or(path.len(), |slash| star + slash);
    let directory = &path[..start];
    let name = &path[start + 1..end];
    let rest = &path[end..];

    let names = survey.names_if_there(directory)?.unwrap_or_default();
    let mut expanded = Vec::new();
    for candidate in names.iter().filter(|candidate| matches(name, candidate)) {
        expanded.extend(expand_stars(&format!("{directory}/{candidate}{rest}"), survey)?);
    }

    Ok(expanded)
}

/// Whether a name fits a pattern with any number of `*`.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| matches(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_words_and_no_number_of_an_error() {
        let reason = |errno: rustix::io::Errno| {
            NoValue::from_error("/dev/cpu/3/msr", &errno.into()).to_string()
        };
        assert_eq!(reason(rustix::io::Errno::NOENT), "/dev/cpu/3/msr does not exist");
        assert!(reason(rustix::io::Errno::PERM).contains("lockdown"));
        assert_eq!(reason(rustix::io::Errno::IO), "cannot read /dev/cpu/3/msr: Input/output error");
    }

    #[test]
    fn stars_stand_for_any_part_of_a_name() {
        assert!(
            matches("nvme*", "nvme0q4")
                && matches("virtio*-req*", "virtio1-req.0")
                && matches("*", "")
        );
        assert!(
            !matches("nvme*", "eth0")
                && !matches("virtio*-req*", "virtio1-config")
                && !matches("a", "ab")
        );
    }
}
