//! When a record applies: facts of the machine or of the loop.
//!
//! | text | holds |
//! |---|---|
//! | `x86`, `arm64`, `intel`, `amd` | on this processor |
//! | `kernel >= 6.12` | for this kernel and later ones |
//! | `preempt_rt`, `not preempt_rt` | on a real-time kernel, on any other |
//! | `config CONFIG_X` | where the kernel was built with it |
//! | `file PATH` | where the file or directory exists |
//! | `flag NAME` | where the processor has it |
//! | `cpus >= N` | with that number of online CPUs |
//! | `cpuset v1`, `cpuset v2`, `memory v2` | where the controller is on such a hierarchy |
//! | `systemd` | where systemd is the first process |
//! | `deep idle` | where an idle state of the loop's CPUs takes longer to leave than the loop bears |
//! | `polling`, `sleeping` | for such a loop |
//! | `task`, `interface` | where the loop's thread or network interface was named |

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::probes::{NoValue, expand};
use super::survey::{Architecture, Survey};

/// Vendors that records distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorVendor {
    Intel,
    Amd,
}

impl ProcessorVendor {
    /// Returns its name in `/proc/cpuinfo`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intel => "GenuineIntel",
            Self::Amd => "AuthenticAMD",
        }
    }
}

/// One fact that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Precondition {
    /// A processor of this architecture.
    Processor(Architecture),
    /// A processor of this vendor.
    Vendor(ProcessorVendor),
    /// A kernel of this version or a later one.
    KernelAtLeast(u32, u32),
    /// A PREEMPT_RT kernel, or none.
    PreemptRt(bool),
    /// A kernel that was built with this option.
    Config(String),
    /// A file or directory.
    File(String),
    /// A flag of the processor.
    Flag(String),
    /// A number of online CPUs.
    CpusAtLeast(usize),
    /// A controller on a hierarchy of this version.
    Controller {
        /// `cpuset`, `memory`.
        name: String,
        /// 1 or 2.
        version: u8,
    },
    /// systemd as the first process.
    Systemd,
    /// An idle state of the loop's CPUs that takes longer to leave than the loop bears.
    DeepIdle,
    /// A loop that polls without sleeping, or one that sleeps in each cycle.
    Polling(bool),
    /// The loop's thread.
    Task,
    /// The loop's network interface.
    Interface,
}

/// A text that is not in the module's table.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "\"{0}\" is not a valid precondition; write for example \"kernel >= 6.12\" or \"flag hwp\""
)]
pub struct PreconditionError(pub String);

impl FromStr for Precondition {
    type Err = PreconditionError;

    fn from_str(text: &str) -> Result<Self, PreconditionError> {
        parse(text).ok_or_else(|| PreconditionError(text.to_owned()))
    }
}

impl TryFrom<String> for Precondition {
    type Error = PreconditionError;

    fn try_from(text: String) -> Result<Self, PreconditionError> {
        text.parse()
    }
}

fn parse(text: &str) -> Option<Precondition> {
    let pieces: Vec<&str> = text.split(' ').collect();
    Some(match pieces.as_slice() {
        ["x86"] => Precondition::Processor(Architecture::X86),
        ["arm64"] => Precondition::Processor(Architecture::Arm64),
        ["intel"] => Precondition::Vendor(ProcessorVendor::Intel),
        ["amd"] => Precondition::Vendor(ProcessorVendor::Amd),
        ["preempt_rt"] => Precondition::PreemptRt(true),
        ["not", "preempt_rt"] => Precondition::PreemptRt(false),
        ["deep", "idle"] => Precondition::DeepIdle,
        ["polling"] => Precondition::Polling(true),
        ["sleeping"] => Precondition::Polling(false),
        ["systemd"] => Precondition::Systemd,
        ["task"] => Precondition::Task,
        ["interface"] => Precondition::Interface,
        ["kernel", ">=", version] => {
            let (major, minor) = version.split_once('.')?;
            Precondition::KernelAtLeast(major.parse().ok()?, minor.parse().ok()?)
        }
        ["cpus", ">=", number] => Precondition::CpusAtLeast(number.parse().ok()?),
        ["config", option] if option.starts_with("CONFIG_") => {
            Precondition::Config((*option).to_owned())
        }
        ["file", path] if path.starts_with('/') => Precondition::File((*path).to_owned()),
        ["flag", flag] => Precondition::Flag((*flag).to_owned()),
        [name @ ("cpuset" | "memory"), version @ ("v1" | "v2")] => Precondition::Controller {
            name: (*name).to_owned(),
            version: if *version == "v1" { 1 } else { 2 },
        },
        _ => return None,
    })
}

impl Precondition {
    /// Returns normally where the fact holds.
    ///
    /// # Errors
    /// [`NoValue::NotApplicable`] with the reason where it does not, [`NoValue::Unknown`] where it
    /// cannot be read.
    pub fn holds(&self, survey: &Survey<'_>) -> Result<(), NoValue> {
        let holds = match self {
            Self::Processor(architecture) => {
                survey.processor()?.architecture == Some(*architecture)
            }
            Self::Vendor(vendor) => survey.processor()?.vendor == vendor.name(),
            Self::KernelAtLeast(major, minor) => survey.kernel_version()? >= (*major, *minor),
            Self::PreemptRt(wanted) => survey.is_preempt_rt()? == *wanted,
            Self::Config(option) => survey.config()?.contains_key(option),
            Self::File(path) => survey.exists(path)?,
            Self::Flag(flag) => survey.processor()?.flags.contains(flag),
            Self::CpusAtLeast(number) => survey.online()?.iter().count() >= *number,
            Self::Controller { name, version } => {
                survey.controller_version(name)? == Some(*version)
            }
            Self::Systemd => survey.exists("/run/systemd/system")?,
            Self::DeepIdle => has_deep_idle(survey)?,
            Self::Polling(wanted) => survey.setup().polls == *wanted,
            Self::Task => survey.setup().task.is_some(),
            Self::Interface => !survey.setup().interfaces.is_empty(),
        };

        if holds { Ok(()) } else { Err(NoValue::NotApplicable(self.reason_against())) }
    }

    fn reason_against(&self) -> String {
        match self {
            Self::DeepIdle => {
                "the loop's CPUs have no idle state that takes long to leave".to_owned()
            }
            Self::Polling(true) => "the loop sleeps in each cycle".to_owned(),
            Self::Polling(false) => "the loop polls without sleeping".to_owned(),
            Self::PreemptRt(true) => "this is not a PREEMPT_RT kernel".to_owned(),
            Self::PreemptRt(false) => "this is a PREEMPT_RT kernel".to_owned(),
            Self::Task => "no thread of a loop was named".to_owned(),
            Self::Interface => "no network interface of the loop was named".to_owned(),
            Self::Controller { name, version } => {
                format!("the controller {name} is not on a v{version} hierarchy")
            }
            other => format!("only with {other}"),
        }
    }
}

/// Whether the kernel lists an idle state of the loop's CPUs that takes longer to leave than the
/// loop bears; disabled states count too. Where it lists none, a guest has none of its own.
fn has_deep_idle(survey: &Survey<'_>) -> Result<bool, NoValue> {
    let bound_us = survey.setup().idle_exit_us;
    for cpu in survey.loop_cpus()?.iter() {
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        if !survey.exists(&directory)? {
            if survey.is_guest()? {
                continue;
            }
            return Err(NoValue::Unknown(format!(
                "the kernel lists no idle states of CPU {cpu}, so a limit may have no effect"
            )));
        }

        for path in expand(&format!("{directory}/state*/latency"), survey)? {
            let latency = survey.text(&path)?;
            if latency.trim().parse::<i64>().is_ok_and(|us| us > bound_us) {
                return Ok(true);
            }
        }
    }

    Ok(false)
}

impl fmt::Display for Precondition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processor(Architecture::X86) => out.write_str("an x86 processor"),
            Self::Processor(Architecture::Arm64) => out.write_str("an ARM64 processor"),
            Self::Vendor(vendor) => write!(out, "a processor of {}", vendor.name()),
            Self::KernelAtLeast(major, minor) => write!(out, "Linux {major}.{minor} or later"),
            Self::PreemptRt(true) => out.write_str("a PREEMPT_RT kernel"),
            Self::PreemptRt(false) => out.write_str("a kernel without PREEMPT_RT"),
            Self::Config(option) => write!(out, "{option}"),
            Self::File(path) => write!(out, "{path}"),
            Self::Flag(flag) => write!(out, "the processor's flag {flag}"),
            Self::CpusAtLeast(number) => write!(out, "{number} or more CPUs"),
            Self::Controller { name, version } => write!(out, "the controller {name} (v{version})"),
            Self::Systemd => out.write_str("systemd"),
            Self::DeepIdle => out.write_str("deep idle states"),
            Self::Polling(true) => out.write_str("a loop that polls"),
            Self::Polling(false) => out.write_str("a loop that sleeps"),
            Self::Task => out.write_str("the loop's thread"),
            Self::Interface => out.write_str("the loop's network interface"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preconditions_are_read_as_the_table_has_them() {
        let parsed = |text: &str| text.parse::<Precondition>().unwrap();
        assert_eq!(parsed("deep idle"), Precondition::DeepIdle);
        assert_eq!(parsed("kernel >= 6.12"), Precondition::KernelAtLeast(6, 12));
        assert_eq!(
            parsed("cpuset v2"),
            Precondition::Controller { name: "cpuset".to_owned(), version: 2 }
        );
        assert_eq!(parsed("cpus >= 3"), Precondition::CpusAtLeast(3));
        for text in
            ["", "kernel 6.12", "kernel >= six", "cpuset v3", "config NO_HZ", "file etc", "guest"]
        {
            assert_eq!(text.parse::<Precondition>(), Err(PreconditionError(text.to_owned())));
        }
    }
}
