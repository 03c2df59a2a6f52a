//! The counters that a record names.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::probes::matches;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterGroup {
    /// Interrupts of devices, by number.
    DeviceInterrupts,
    /// Interrupts of a CPU's own, by the kernel's letters: `LOC`, `RES`, `CAL`.
    LocalInterrupts,
    /// Softirqs by name.
    Softirqs,
    /// Time in which the hypervisor ran something else, in units of 10 ms.
    Steal,
    /// Switches to a thread: of each CPU where the kernel counts them, else of the machine.
    ContextSwitches,
    /// Events of memory of the whole machine, by the names of `/proc/vmstat`: page faults,
    /// swapping, compaction.
    Memory,
    FrequencyChanges,
    /// Times that a CPU was slowed down because of its temperature.
    Throttling,
    /// Errors of memory that the controller corrected.
    MemoryErrors,
    /// Page faults and switches of the loop's own thread, where it runs already.
    LoopThread,
}

impl CounterGroup {
    pub(crate) const NAMES: [(&'static str, Self); 10] = [
        ("device_interrupts", Self::DeviceInterrupts),
        ("local_interrupts", Self::LocalInterrupts),
        ("softirqs", Self::Softirqs),
        ("steal", Self::Steal),
        ("context_switches", Self::ContextSwitches),
        ("memory", Self::Memory),
        ("frequency_changes", Self::FrequencyChanges),
        ("throttling", Self::Throttling),
        ("memory_errors", Self::MemoryErrors),
        ("loop_thread", Self::LoopThread),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, group)| *group)
    }
}

impl fmt::Display for CounterGroup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, group)| group == self).map_or("", |(name, _)| name);
        out.write_str(&name.replace('_', " "))
    }
}

/// One counter of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CounterName {
    pub group: CounterGroup,
    /// Its name within the group; empty where the group has one counter for each CPU.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its CPU; `None` where it counts for the whole machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// The handlers of an interrupt, joined by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// A group of counters, and which of them: `softirqs RCU`, `memory pswp*`, `steal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clue {
    pub group: CounterGroup,
    /// The names, with `*` for any part; a device's name for its interrupts. `*` alone: all.
    pub names: String,
}

impl Clue {
    /// Whether it means a counter.
    #[must_use]
    pub fn fits(&self, counter: &CounterName) -> bool {
        if counter.group != self.group {
            return false;
        }

        match &counter.device {
            Some(devices) => devices.split(", ").any(|device| matches(&self.names, device)),
            None => matches(&self.names, &counter.name),
        }
    }
}

impl<'de> Deserialize<'de> for Clue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let (group, names) = text.split_once(' ').unwrap_or((&text, "*"));
        let known = CounterGroup::from_name(group);
        let group = known.ok_or_else(|| {
            let words: Vec<&str> = CounterGroup::NAMES.iter().map(|(name, _)| *name).collect();
            de::Error::custom(format!("\"{group}\" is not one of {}", words.join(", ")))
        })?;
        Ok(Self { group, names: names.to_owned() })
    }
}
