//! The counters that a record names.

use serde::{Deserialize, Deserializer, de};

use super::{CounterGroup, CounterName};
use crate::catalogue::probes::matches;

/// A group of counters, and which of them: `softirqs RCU`, `memory pswp*`, `steal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clue {
    /// The group.
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
