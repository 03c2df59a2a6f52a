//! What a step of a plan changes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::change::Kind;
use crate::task_setting::TaskSetting;

/// Threads by what they are, resolved when a plan is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ThreadGroup {
    /// The loop's thread.
    Loop,
    /// All threads of programs, except the loop's process and this one.
    User,
    /// Kernel threads that may run anywhere.
    UnboundKernel,
    /// Kernel threads whose name fits one of these patterns with `*`.
    Kernel(Vec<String>),
    /// Threads of virtual CPUs.
    Vcpus,
    /// The other threads of processes with virtual CPUs.
    Emulator,
}

/// What a step changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StepTarget {
    /// A file that holds a value.
    File {
        /// The file.
        path: String,
        /// How values are compared.
        compare: Kind,
    },
    /// Where an interrupt may be sent.
    Interrupt {
        number: u32,
        /// Its handlers: with others it is another interrupt, and is left alone.
        handlers: Vec<String>,
    },
    /// The CPUs of threads: the value is the CPUs that each of them keeps or gets.
    Affinity {
        /// Which threads.
        threads: ThreadGroup,
    },
    /// Another attribute of threads.
    Threads {
        /// Which threads.
        threads: ThreadGroup,
        /// Which attribute.
        setting: TaskSetting,
    },
    /// A shield: cpusets that keep everything but the loop off its CPUs.
    Shield {},
    /// A unit of systemd: `active` or `inactive`.
    Unit { name: String },
    /// A value that holds while a process keeps a file open.
    Held {
        /// The file.
        path: String,
    },
    /// Bits of a model-specific register, as a decimal number.
    Register {
        cpu: u32,
        /// The register's number.
        register: u32,
        /// The highest of the bits.
        high: u32,
        /// The lowest.
        low: u32,
    },
    /// Kernel parameters: nothing that can be applied now.
    Boot {},
}

impl fmt::Display for ThreadGroup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop => out.write_str("the loop's thread"),
            Self::User => out.write_str("threads of programs"),
            Self::UnboundKernel => out.write_str("unbound kernel threads"),
            Self::Kernel(names) => write!(out, "kernel threads {}", names.join(", ")),
            Self::Vcpus => out.write_str("threads of virtual CPUs"),
            Self::Emulator => out.write_str("other threads of virtual machines"),
        }
    }
}

impl fmt::Display for StepTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => out.write_str(path),
            Self::Interrupt { number, handlers } => {
                write!(out, "interrupt {number} ({})", handlers.join(", "))
            }
            Self::Affinity { threads } => write!(out, "CPUs of {threads}"),
            Self::Threads { threads, setting } => write!(out, "{setting} of {threads}"),
            Self::Shield {} => out.write_str("shield of the loop's CPUs"),
            Self::Unit { name } => out.write_str(name),
            Self::Held { path } => write!(out, "{path}, kept open"),
            Self::Register { cpu, register, high, low } => {
                write!(out, "MSR {register:#x} bits {high}-{low} of CPU {cpu}")
            }
            Self::Boot {} => out.write_str("kernel command line"),
        }
    }
}
