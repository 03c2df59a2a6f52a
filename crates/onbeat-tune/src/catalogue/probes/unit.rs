//! Units of systemd, and the processes of services where systemd does not run.

use std::io::ErrorKind;

use serde::Deserialize;

use super::{NoValue, Probe, ProbeReading};
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};

/// Where unit files are installed; the first directory that has a file of a name counts.
pub(crate) const UNIT_DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Whether services and timers run or would be started at boot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitProbe {
    /// The units.
    pub names: Vec<String>,
    /// Names of their processes, at most 15 bytes as the kernel cuts them.
    #[serde(default)]
    pub processes: Vec<String>,
    /// `is stopped`.
    pub want: WantedValue,
}

impl UnitProbe {
    /// The readings of what runs or is enabled; empty where nothing is.
    fn active(&self, survey: &Survey<'_>) -> Result<Vec<ProbeReading>, NoValue> {
        let running =
            |place: &str| ProbeReading::new(place, Ok(ProbeValue::Text("running".to_owned())));
        let tasks = survey.tasks()?;
        let runs =
            |name: &&String| tasks.iter().any(|task| !task.is_kernel() && task.comm == **name);
        let mut found: Vec<_> =
            self.processes.iter().filter(runs).map(|name| running(name)).collect();

        if survey.exists("/run/systemd/system")? {
            let groups = service_groups(survey)?;
            for name in &self.names {
                if groups.contains(name) {
                    found.push(running(name));
                } else if is_enabled(name, survey)? {
                    found.push(ProbeReading::new(name, Ok(ProbeValue::Text("enabled".to_owned()))));
                } else if name.ends_with(".timer") && is_installed(name, survey)? {
                    let reason = format!(
                        "{name} is not enabled; whether somebody started it is not visible in files"
                    );
                    found.push(ProbeReading::new(name, Err(NoValue::Unknown(reason))));
                }
            }
        }

        Ok(found)
    }
}

/// The names of the services that have a control group, and so run.
fn service_groups(survey: &Survey<'_>) -> Result<Vec<String>, NoValue> {
    let is_systemds =
        |controllers: &[String]| controllers.iter().any(|name| name == "name=systemd");
    let mounts = survey.cgroup_mounts()?;
    let mounts =
        mounts.iter().filter(|mount| mount.version == 2 || is_systemds(&mount.controllers));

    let mut names = Vec::new();
    let mut sees_slice = false;
    for mount in mounts {
        if let Ok(entries) = survey.host().names(&format!("{}/system.slice", mount.path)) {
            sees_slice = true;
            names.extend(entries);
        }
    }

    if sees_slice {
        Ok(names)
    } else {
        Err(NoValue::Unknown("systemd's control groups are not visible here".to_owned()))
    }
}

/// Whether a directory holds what a unit wants or requires.
pub(crate) fn is_wants(path: &str) -> bool {
    path.ends_with(".wants") || path.ends_with(".requires")
}

/// Whether a target wants the unit.
fn is_enabled(unit: &str, survey: &Survey<'_>) -> Result<bool, NoValue> {
    const OWN: &str = "/etc/systemd/system";
    let own = survey.names(OWN)?;
    // The display manager is enabled by a link of its own.
    if unit == "display-manager.service" && own.iter().any(|name| name == unit) {
        return Ok(true);
    }

    for directory in UNIT_DIRECTORIES {
        let entries = survey.names_if_there(directory)?.unwrap_or_default();
        for wants in entries.iter().filter(|entry| is_wants(entry)) {
            // The link's target may lie outside of a captured tree: its name is enough.
            let names = survey.names(&format!("{directory}/{wants}"))?;
            if names.iter().any(|name| name == unit) {
                return Ok(!is_masked(unit, survey));
            }
        }
    }

    Ok(false)
}

/// Whether a unit is masked, which leaves the links of targets to it: its file in /etc or /run is a
/// link to /dev/null, or empty.
fn is_masked(unit: &str, survey: &Survey<'_>) -> bool {
    let masks = |directory: &&str| match survey.host().read(&format!("{directory}/{unit}")) {
        Ok(text) => text.is_empty(),
        Err(error) => error.kind() == ErrorKind::InvalidInput,
    };
    UNIT_DIRECTORIES[..2].iter().any(masks)
}

fn is_installed(unit: &str, survey: &Survey<'_>) -> Result<bool, NoValue> {
    let lists = |directory: &str| {
        survey.host().names(directory).is_ok_and(|names| names.iter().any(|n| n == unit))
    };
    Ok(UNIT_DIRECTORIES.iter().any(|directory| lists(directory)))
}

impl Probe for UnitProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        match self.active(survey) {
            Ok(found) if found.is_empty() => {
                let stopped = Ok(ProbeValue::Text("stopped".to_owned()));
                vec![ProbeReading::new(self.names.join(", "), stopped)]
            }
            found => ProbeReading::of_all(&self.names.join(", "), found),
        }
    }
}
