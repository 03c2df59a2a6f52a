//! CPUs of the loop: their siblings, idle states and registers.

use serde::Deserialize;

use super::file::ValueFormat;
use super::{NoValue, Probe, ProbeReading};
use crate::catalogue::host_tree::is_absent;
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};
use crate::cpu_list::CpuList;

/// Which CPUs are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuSelection {
    /// The loop's.
    Loop,
    /// The online threads of the cores that the loop's CPUs belong to.
    Siblings,
    /// All that are online.
    Online,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuSetProbe {
    /// Which CPUs.
    pub of: CpuSelection,
    /// What they should be.
    pub want: WantedValue,
}

fn siblings(survey: &Survey<'_>) -> Result<CpuList, NoValue> {
    let mut all = Vec::new();
    for cpu in survey.loop_cpus()?.iter() {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let cpus = CpuList::parse_list(&survey.text(&path)?)
            .map_err(|error| NoValue::Unknown(error.to_string()))?;
        all.extend(cpus.iter());
    }

    Ok(all.into_iter().collect::<CpuList>().and(&survey.online()?))
}

impl Probe for CpuSetProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let (place, cpus) = match self.of {
            CpuSelection::Loop => ("the loop", survey.loop_cpus()),
            CpuSelection::Siblings => ("threads of the loop's cores", siblings(survey)),
            CpuSelection::Online => ("online", survey.online()),
        };
        vec![ProbeReading::new(place, cpus.map(ProbeValue::Cpus))]
    }
}

/// The exit latency of the deepest idle state that each CPU of the loop may enter, in microseconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleStatesProbe {
    /// What it should be.
    pub want: WantedValue,
    /// What a change would write to `disable` of the states that take longer.
    #[serde(default)]
    pub set: Option<String>,
}

impl IdleStatesProbe {
    fn deepest(cpu: u32, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let Some(names) = survey.names_if_there(&directory)? else {
            survey.require_anchor(&directory)?;
            let reason = "the kernel lists no idle states: the firmware may still use some";
            return Err(NoValue::Unknown(reason.to_owned()));
        };

        let limit = format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        let limit = survey.text(&limit).and_then(|text| ValueFormat::ResumeLatency.parse(&text));
        // Without the file nothing is limited.
        let limit = match limit {
            Ok(ProbeValue::Number(limit)) => limit,
            _ => i64::MAX,
        };

        let mut deepest = None;
        for state in names.iter().filter(|name| name.starts_with("state")) {
            let number = |file: &str| {
                let text = survey.text(&format!("{directory}/{state}/{file}"))?;
                text.trim()
                    .parse::<i64>()
                    .map_err(|_| NoValue::Unknown(format!("{state}/{file} is not a number")))
            };
            let latency = number("latency")?;
            if number("disable")? == 0 && latency <= limit {
                deepest = deepest.max(Some(latency));
            }
        }

        deepest
            .map(ProbeValue::Number)
            .ok_or_else(|| NoValue::Unknown("no idle state is enabled".to_owned()))
    }
}

impl Probe for IdleStatesProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let reading = |cpu| {
            let place = format!("exit latency of CPU {cpu} in µs");
            ProbeReading::new(place, Self::deepest(cpu, survey))
        };
        let readings = survey.loop_cpus().map(|cpus| cpus.iter().map(reading).collect());
        ProbeReading::of_all("idle states", readings)
    }

    fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }
}

/// Bits of a model-specific register of the loop's CPUs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MsrProbe {
    /// The register's number.
    pub register: u32,
    /// Its bits: `16`, or the highest and the lowest as `3-0`.
    pub bits: String,
    /// What they should be, as a number.
    pub want: WantedValue,
}

impl MsrProbe {
    /// The highest and the lowest bit; `None` for a text that does not name bits of a 64-bit
    /// register.
    #[must_use]
    pub fn bit_range(&self) -> Option<(u32, u32)> {
        let (high, low) = self.bits.split_once('-').unwrap_or((&self.bits, &self.bits));
        let high = high.parse().ok().filter(|bit| *bit < 64)?;
        let low = low.parse().ok().filter(|bit| *bit <= high)?;
        Some((high, low))
    }

    fn value(&self, cpu: u32, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        let (high, low) = self
            .bit_range()
            .ok_or_else(|| NoValue::Unknown(format!("\"{}\" names no bits", self.bits)))?;
        let path = format!("/dev/cpu/{cpu}/msr");
        let mut bytes = [0; 8];
        let read = survey.host().read_device_at(&path, u64::from(self.register), &mut bytes);
        match read {
            Ok(()) => {
                let mask = u64::MAX >> (63 - (high - low));
                let bits = u64::from_ne_bytes(bytes) >> low & mask;
                Ok(ProbeValue::Number(i64::try_from(bits).unwrap_or(i64::MAX)))
            }
            Err(error) if is_absent(&error) => Err(NoValue::Unknown(
                "registers cannot be read: the module msr is not loaded".to_owned(),
            )),
            Err(error) => Err(NoValue::from_error(&path, &error)),
        }
    }
}

impl Probe for MsrProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let reading = |cpu| {
            let place = format!("MSR {:#x} bits {} of CPU {cpu}", self.register, self.bits);
            ProbeReading::new(place, self.value(cpu, survey))
        };
        let readings = survey.loop_cpus().map(|cpus| cpus.iter().map(reading).collect());
        ProbeReading::of_all("MSR", readings)
    }
}

/// A 32-bit number that a device returns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceValueProbe {
    /// The device.
    pub path: String,
    /// What the number should be.
    pub want: WantedValue,
}

impl Probe for DeviceValueProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let mut bytes = [0; 4];
        let value = match survey.host().read_device_at(&self.path, 0, &mut bytes) {
            Ok(()) => Ok(ProbeValue::Number(i32::from_ne_bytes(bytes).into())),
            Err(error) => Err(NoValue::from_error(&self.path, &error)),
        };
        vec![ProbeReading::new(&self.path, value)]
    }

    fn path(&self) -> Option<String> {
        Some(self.path.clone())
    }
}
