//! The names that the catalogue asks for; others stay out of a capture.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::Catalogue;
use crate::catalogue::probes::file::FileProbe;
use crate::catalogue::probes::{ProbeSpec, matches};
use crate::catalogue::survey::name_of;
use crate::tasks::is_vcpu;

/// Parameters that facts depend on, beside those of records.
const PARAMETERS_OF_FACTS: [&str; 3] = ["preempt", "rt_group_sched", "no_timer_check"];

/// Which line of a file a probe reads.
#[derive(Debug)]
pub(super) enum AskedLine {
    /// The first that begins with this.
    Beginning(String),
    /// The first that contains this.
    With(String),
}

impl AskedLine {
    pub(super) fn fits(&self, line: &str) -> bool {
        match self {
            Self::Beginning(start) => line.trim_start().starts_with(start.as_str()),
            Self::With(part) => line.contains(part.as_str()),
        }
    }
}

/// Names in the catalogue.
#[derive(Debug, Default)]
pub(super) struct AskedNames {
    /// Patterns of threads' names.
    threads: Vec<String>,
    /// Units of systemd.
    units: BTreeSet<String>,
    /// Kernel parameters, with `_` for `-`.
    parameters: BTreeSet<String>,
    /// Files of which only a line is read.
    pub(super) lines: BTreeMap<String, Vec<AskedLine>>,
}

impl AskedNames {
    /// Collects the names of all records.
    pub(super) fn from_catalogue(catalogue: &Catalogue) -> Self {
        let mut asked = Self::default();
        asked.parameters.extend(PARAMETERS_OF_FACTS.map(str::to_owned));
        for record in &catalogue.records {
            record.probe.iter().for_each(|spec| asked.add(spec));
            let boot = record.boot.iter().flat_map(|text| text.split_whitespace());
            asked.parameters.extend(boot.map(name_of));
        }

        asked
    }

    fn add(&mut self, spec: &ProbeSpec) {
        match spec {
            ProbeSpec::Tasks(probe) => self.threads.extend(probe.names.iter().cloned()),
            ProbeSpec::Parameter(probe) => self.parameters.extend([name_of(&probe.name)]),
            ProbeSpec::File(probe) => self.add_line(probe),
            ProbeSpec::Units(probe) => {
                self.units.extend(probe.names.iter().cloned());
                self.threads.extend(probe.processes.iter().cloned());
            }
            _ => {}
        }
    }

    fn add_line(&mut self, probe: &FileProbe) {
        let line = match (&probe.line, &probe.line_with) {
            (Some(start), _) => AskedLine::Beginning(start.clone()),
            (None, Some(part)) => AskedLine::With(part.clone()),
            (None, None) => return,
        };
        self.lines.entry(probe.path.clone()).or_default().push(line);
    }

    /// Whether the name of a program's thread may be kept.
    pub(super) fn keeps_thread(&self, name: &str) -> bool {
        is_vcpu(name) || self.threads.iter().any(|pattern| matches(pattern, name))
    }

    /// Whether a unit's name may be kept.
    pub(super) fn keeps_unit(&self, name: &str) -> bool {
        self.units.contains(name)
    }

    /// Whether the value of a kernel parameter may be kept.
    pub(super) fn keeps_parameter(&self, parameter: &str) -> bool {
        self.parameters.contains(&name_of(parameter))
    }
}
