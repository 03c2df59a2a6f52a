//! Where interrupts of devices arrive.

use serde::Deserialize;

use super::file::ValueFormat;
use super::{NoValue, Probe, ProbeReading, matches};
use crate::catalogue::host_tree::is_absent;
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};

/// The CPUs where each interrupt arrives.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IrqProbe {
    /// Only interrupts with a handler whose name fits one of these patterns; empty: all that have a
    /// handler.
    #[serde(default)]
    pub devices: Vec<String>,
    /// What the CPUs should be.
    pub want: WantedValue,
    /// What a change would write to `smp_affinity_list`.
    #[serde(default)]
    pub set: Option<String>,
}

impl IrqProbe {
    fn read_all(&self, survey: &Survey<'_>) -> Result<Vec<ProbeReading>, NoValue> {
        let names = survey
            .host()
            .names("/proc/irq")
            .map_err(|error| NoValue::from_error("/proc/irq", &error))?;
        let mut readings = Vec::new();
        let mut has_handlers = false;
        for number in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
            let handlers = handlers(number, survey)?;
            has_handlers |= !handlers.is_empty();
            let is_meant = self.devices.is_empty()
                || handlers
                    .iter()
                    .any(|handler| self.devices.iter().any(|device| matches(device, handler)));
            if handlers.is_empty() || !is_meant {
                continue;
            }

            let place = format!("interrupt {number} ({})", handlers.join(", "));
            readings.push(ProbeReading::new(place, effective_cpus(number, survey)));
        }

        if has_handlers {
            Ok(readings)
        } else {
            Err(NoValue::Unknown("/proc/irq holds no interrupt with a handler".to_owned()))
        }
    }
}

/// The names of an interrupt's handlers: without any nobody uses it.
fn handlers(number: u32, survey: &Survey<'_>) -> Result<Vec<String>, NoValue> {
    let path = format!("/sys/kernel/irq/{number}/actions");
    match survey.host().read(&path) {
        Ok(actions) => {
            let names = actions.trim().split(',').filter(|name| !name.is_empty());
            Ok(names.map(str::to_owned).collect())
        }
        // Older kernels: each handler has a directory.
        Err(error) if is_absent(&error) => handler_directories(number, survey),
        Err(error) => Err(NoValue::from_error(&path, &error)),
    }
}

fn handler_directories(number: u32, survey: &Survey<'_>) -> Result<Vec<String>, NoValue> {
    let directory = format!("/proc/irq/{number}");
    let names =
        survey.host().names(&directory).map_err(|error| NoValue::from_error(&directory, &error))?;
    let is_handler = |name: &String| survey.host().names(&format!("{directory}/{name}")).is_ok();
    Ok(names.into_iter().filter(is_handler).collect())
}

/// Where it arrives in fact; what was asked for where the kernel does not show it, or before its
/// first use.
fn effective_cpus(number: u32, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
    for file in ["effective_affinity_list", "smp_affinity_list"] {
        let path = format!("/proc/irq/{number}/{file}");
        match survey.host().read(&path) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => return ValueFormat::List.parse(&text),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(NoValue::from_error(&path, &error)),
        }
    }

    Err(NoValue::Unknown(format!("the CPUs of interrupt {number} are not shown")))
}

impl Probe for IrqProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        match self.read_all(survey) {
            Ok(readings) if !readings.is_empty() => readings,
            Ok(_) => {
                let reason = format!("no interrupt of {} exists here", self.devices.join(", "));
                vec![ProbeReading::new("/proc/irq", Err(NoValue::NotApplicable(reason)))]
            }
            Err(why) => vec![ProbeReading::new("/proc/irq", Err(why))],
        }
    }

    fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }
}
