//! The processor, and whether it is a virtual one.

use std::collections::BTreeSet;

use onbeat_host::machine::is_guest_by;

use super::{Fact, Survey};
use crate::catalogue::no_value::NoValue;

/// Architectures that records distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// 32- and 64-bit x86.
    X86,
    /// 64-bit ARM.
    Arm64,
}

/// What `/proc/cpuinfo` says of the first CPU.
#[derive(Clone, Debug)]
pub struct Processor {
    /// `None` for one that no record distinguishes.
    pub architecture: Option<Architecture>,
    /// `vendor_id`; empty where there is none.
    pub vendor: String,
    /// Flags (x86) or features (ARM).
    pub flags: BTreeSet<String>,
}

impl Survey<'_> {
    /// Returns what the processor is.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] where `/proc/cpuinfo` cannot be read.
    pub fn processor(&self) -> Fact<&Processor> {
        let read = || self.text("/proc/cpuinfo").map(|text| parse(&text));
        self.processor.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// Whether the kernel is a guest of a hypervisor.
    ///
    /// # Errors
    /// [`NoValue::Unknown`] on processors without the flag, where no other file decides.
    pub fn is_guest(&self) -> Fact<bool> {
        self.processor()?;
        let exists = |path: &str| self.host.exists(path).unwrap_or(false);
        is_guest_by(|path| self.host.read(path).ok(), exists).ok_or_else(|| {
            NoValue::Unknown("no file shows whether a hypervisor runs this kernel".to_owned())
        })
    }
}

fn parse(text: &str) -> Processor {
    let field = |wanted: &str| {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields
            .map(|(name, value)| (name.trim(), value.trim()))
            .find(|(name, _)| *name == wanted)
            .map(|(_, value)| value)
    };

    let vendor = field("vendor_id").unwrap_or_default().to_owned();
    let architecture = match (field("flags"), field("CPU architecture")) {
        (Some(_), _) if !vendor.is_empty() => Some(Architecture::X86),
        (_, Some("8")) => Some(Architecture::Arm64),
        _ => None,
    };

    let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
    Processor { architecture, vendor, flags: flags.split_whitespace().map(str::to_owned).collect() }
}
