//! What no file of the machine shows at one instant: the check says so, and where to look.

use serde::Deserialize;

use super::{NoValue, Probe, ProbeReading};
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::WantedValue;

fn unreadable(place: &str, reason: String) -> Vec<ProbeReading> {
    vec![ProbeReading::new(place, Err(NoValue::Unknown(reason)))]
}

/// What only two readings some seconds apart show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchProbe {
    /// What is read twice.
    pub what: String,
}

impl Probe for WatchProbe {
    fn read(&self, _: &Survey<'_>) -> Vec<ProbeReading> {
        unreadable("", format!("needs two readings some seconds apart: {}", self.what))
    }
}

/// What only a person can judge.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewProbe {
    /// What to look at.
    pub what: String,
}

impl Probe for ReviewProbe {
    fn read(&self, _: &Survey<'_>) -> Vec<ProbeReading> {
        unreadable("", format!("to be reviewed by hand: {}", self.what))
    }
}

/// What only another tool reports.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolProbe {
    /// Its command line, with variables in braces.
    pub tool: String,
    /// Why no file shows it.
    pub what: String,
}

impl Probe for ToolProbe {
    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let reading = |interface: &String| {
            let command = self.tool.replace("{interface}", interface);
            ProbeReading::new(
                interface,
                Err(NoValue::Unknown(format!("{}; see `{command}`", self.what))),
            )
        };
        survey.setup().interfaces.iter().map(reading).collect()
    }
}

/// An argument of QEMU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QemuProbe {
    /// The option: `-cpu`.
    pub option: String,
    /// What its argument should be.
    pub want: WantedValue,
}

impl Probe for QemuProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, _: &Survey<'_>) -> Vec<ProbeReading> {
        let reason = "no command line of a virtual machine was given".to_owned();
        vec![ProbeReading::new(&self.option, Err(NoValue::NotApplicable(reason)))]
    }
}
