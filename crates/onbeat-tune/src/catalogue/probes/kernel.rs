//! The kernel's command line, its build options, and the processor's flags.

use serde::Deserialize;

use super::file::ValueFormat;
use super::{NoValue, Probe, ProbeReading};
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};
use crate::cpu_list::CpuList;
use crate::lint::kernel_cpus;

/// A parameter of the kernel command line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterProbe {
    /// Its name; `-` and `_` are alike.
    pub name: String,
    /// `list` for a parameter that lists CPUs.
    #[serde(default = "as_text")]
    pub format: ValueFormat,
    /// What its value should be.
    pub want: WantedValue,
}

const fn as_text() -> ValueFormat {
    ValueFormat::Text
}

impl ParameterProbe {
    fn value(&self, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        let parameter = survey.parameter(&self.name)?;
        match (parameter.map(|parameter| parameter.value.as_deref()), self.format) {
            (None, ValueFormat::List) => Ok(ProbeValue::Cpus(CpuList::default())),
            (None, _) => Ok(ProbeValue::Absent),
            (Some(None), _) => Ok(ProbeValue::Text("given".to_owned())),
            (Some(Some(value)), ValueFormat::List) => {
                let list = without_flags(value);
                let last = survey.online().ok().and_then(|online| online.iter().last());
                let read = last.and_then(|last| kernel_cpus::on_machine(&list, last));
                read.map(ProbeValue::Cpus).map_or_else(|| ValueFormat::List.parse(&list), Ok)
            }
            (Some(Some(value)), format) => format.parse(value),
        }
    }
}

/// The CPUs of `managed_irq,domain,2-3`, whose flags stand in front.
fn without_flags(value: &str) -> String {
    let is_flag = |piece: &&str| {
        piece.starts_with(|c: char| c.is_ascii_lowercase()) && !piece.starts_with("all")
    };
    value.split(',').skip_while(is_flag).collect::<Vec<_>>().join(",")
}

impl Probe for ParameterProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        vec![ProbeReading::new(format!("kernel parameter {}", self.name), self.value(survey))]
    }
}

/// An option that the kernel was built with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigProbe {
    /// Its name: `CONFIG_...`.
    pub option: String,
    /// What its value should be; `n` for an option that is not set.
    pub want: WantedValue,
}

impl Probe for ConfigProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let value = survey
            .config()
            .map(|options| options.get(&self.option).map_or("n", String::as_str).to_owned());
        vec![ProbeReading::new(&self.option, value.map(ProbeValue::Text))]
    }
}

/// Flags of the processor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlagsProbe {
    /// Their names.
    pub names: Vec<String>,
    /// The number of NUMA nodes up to which the kernel trusts the flags; beyond it they prove
    /// nothing.
    #[serde(default)]
    pub most_nodes: Option<usize>,
    /// `present` or `absent`, for each of them.
    pub want: WantedValue,
}

impl FlagsProbe {
    fn value(&self, name: &str, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        if let Some(most) = self.most_nodes {
            let nodes = survey.numa_nodes()?;
            if nodes > most {
                return Err(NoValue::Unknown(format!(
                    "{nodes} NUMA nodes: the flags decide for at most {most}"
                )));
            }
        }

        let flags = &survey.processor()?.flags;
        // A text without any flag is not a list of them.
        if flags.is_empty() {
            return Err(NoValue::Unknown("/proc/cpuinfo lists no flags".to_owned()));
        }
        Ok(if flags.contains(name) {
            ProbeValue::Text("present".to_owned())
        } else {
            ProbeValue::Absent
        })
    }
}

impl Probe for FlagsProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let reading =
            |name: &String| ProbeReading::new(format!("flag {name}"), self.value(name, survey));
        self.names.iter().map(reading).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_in_front_of_a_list_of_cpus_are_left_out() {
        assert_eq!(without_flags("managed_irq,domain,2-3,5"), "2-3,5");
        assert_eq!(without_flags("2-3"), "2-3");
        assert_eq!(without_flags("domain"), "");
        assert_eq!(without_flags("all:1/2"), "all:1/2");
    }
}
