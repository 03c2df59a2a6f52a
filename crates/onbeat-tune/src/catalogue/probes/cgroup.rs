//! Control groups of the loop, and groups of resctrl.

use serde::Deserialize;

use super::file::ValueFormat;
use super::{NoValue, Probe, ProbeReading};
use crate::catalogue::survey::{CgroupMount, Survey};
use crate::catalogue::wanted::{ProbeValue, WantedValue};
use crate::cpu_list::CpuList;

/// A file in the loop's control group and in each group above it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CgroupProbe {
    /// The controller of the file.
    pub controller: String,
    /// The version of the hierarchy: 1 or 2.
    pub version: u8,
    pub file: String,
    /// How its text is read.
    pub format: ValueFormat,
    /// What it should hold in each group.
    pub want: WantedValue,
    /// What a change would write.
    #[serde(default)]
    pub set: Option<String>,
    /// Why no group has the file on some kernels.
    pub absent: String,
}

impl CgroupProbe {
    fn mount<'s>(&self, survey: &'s Survey<'_>) -> Result<&'s CgroupMount, NoValue> {
        let is_meant = |mount: &&CgroupMount| {
            mount.version == self.version
                && (self.version == 2 || mount.controllers.contains(&self.controller))
        };
        survey.cgroup_mounts()?.iter().find(is_meant).ok_or_else(|| {
            NoValue::NotApplicable(format!(
                "the controller {} is not on a v{} hierarchy",
                self.controller, self.version
            ))
        })
    }

    fn read_chain(&self, survey: &Survey<'_>) -> Result<Vec<ProbeReading>, NoValue> {
        let task = survey.loop_task()?;
        let mount = self.mount(survey)?;
        let groups = survey.text(&format!("/proc/{task}/cgroup"))?;
        let path = self.group_of(&groups, mount)?;

        let mut readings = Vec::new();
        let mut group = path.trim_end_matches('/');
        loop {
            let file = format!("{}{group}/{}", mount.path, self.file);
            // The root of a hierarchy has no limits.
            if let Some(text) = survey.text_if_there(&file).transpose() {
                let value = text.and_then(|text| self.format.parse(&text));
                readings.push(ProbeReading::new(&file, value));
            }

            match group.rsplit_once('/') {
                Some((above, _)) => group = above,
                None => break,
            }
        }

        if readings.is_empty() {
            return Err(NoValue::NotApplicable(self.absent.clone()));
        }
        Ok(readings)
    }

    /// The loop's group as a path below the mount.
    fn group_of(&self, groups: &str, mount: &CgroupMount) -> Result<String, NoValue> {
        let of_line = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?;
            let path = fields.next()?;
            let is_meant = match self.version {
                2 => controllers.is_empty(),
                _ => controllers.split(',').any(|name| name == self.controller),
            };
            is_meant.then(|| path.to_owned())
        };

        let path = groups.lines().find_map(of_line);
        let below =
            path.as_ref().and_then(|path| path.strip_prefix(mount.root.trim_end_matches('/')));
        below.map(str::to_owned).ok_or_else(|| {
            NoValue::Unknown("the loop's control group is not visible here".to_owned())
        })
    }
}

impl Probe for CgroupProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        ProbeReading::of_all(&self.file, self.read_chain(survey))
    }

    fn set(&self) -> Option<&str> {
        self.set.as_deref()
    }
}

/// A group of resctrl that has a resource for the loop's CPUs alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResctrlProbe {
    /// `L3`, `L2` or `MB`, as in a schemata.
    pub resource: String,
    /// `present`.
    pub want: WantedValue,
}

impl ResctrlProbe {
    fn value(&self, survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        const MOUNT: &str = "/sys/fs/resctrl";
        if !survey.exists(MOUNT)? {
            return Err(NoValue::NotApplicable("the kernel was built without resctrl".to_owned()));
        }

        let cpus = survey.loop_cpus()?;
        for group in survey.names(MOUNT)? {
            let directory = format!("{MOUNT}/{group}");
            let Ok(list) = survey.host().read(&format!("{directory}/cpus_list")) else { continue };
            if !CpuList::parse_list(&list).is_ok_and(|list| cpus.is_within(&list)) {
                continue;
            }

            let schemata = survey.text(&format!("{directory}/schemata"))?;
            let has_resource = schemata
                .lines()
                .any(|line| line.trim().starts_with(&format!("{}:", self.resource)));
            let mode = survey.text(&format!("{directory}/mode"))?;
            if has_resource && mode.trim() == "exclusive" {
                return Ok(ProbeValue::Text(format!("group {group}, exclusive")));
            }

            return Err(NoValue::Unknown(format!(
                "group {group} has these CPUs, but may share its part with others"
            )));
        }

        Ok(ProbeValue::Absent)
    }
}

impl Probe for ResctrlProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        vec![ProbeReading::new("/sys/fs/resctrl", self.value(survey))]
    }
}
