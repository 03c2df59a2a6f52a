//! What is to hold after each boot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::PersistError;
use crate::catalogue::TuningRecord;
use crate::catalogue::probes::ProbeSpec;
use crate::catalogue::survey::{Survey, name_of};
use crate::cpu_list::CpuList;

/// A plan that a unit of systemd applies at boot and undoes at shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyAtBoot {
    /// The absolute path of onbeat.
    pub program: String,
    /// The plan file's text; it is copied.
    pub plan: String,
}

/// Settings that hold after each boot.
///
/// ```
/// use onbeat_tune::UndoMode;
/// use onbeat_tune::persist::{BootSettings, persist, remove};
///
/// let mut settings = BootSettings::default();
/// settings.sysctls.insert("vm.swappiness".into(), "10".into());
///
/// // `/` on a machine; any other directory to look at the files first.
/// let root = tempfile::tempdir()?;
/// let persisted = persist(root.path(), &settings)?;
/// assert!(persisted.files.iter().any(|file| file.starts_with("/etc/sysctl.d/")));
/// remove(root.path(), UndoMode::Careful)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootSettings {
    /// Parameters of the kernel command line, each as `name` or `name=value`; unique by name.
    pub kernel_parameters: Vec<String>,
    /// Values below `/proc/sys`, by their names with dots.
    pub sysctls: BTreeMap<String, String>,
    /// Values below `/sys`, by path; a path may hold `*`.
    pub sysfs: BTreeMap<String, String>,
    /// The CPUs on which systemd starts services.
    #[serde(with = "cpus_as_text")]
    pub service_cpus: Option<CpuList>,
    /// A plan for what needs more than a value in a file.
    pub apply: Option<ApplyAtBoot>,
}

/// A record that these settings do not cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPersisted {
    pub id: String,
    /// Why not.
    pub why: String,
}

/// Directories below `/sys` that are not there when values are written at boot, or not values.
const NOT_BY_TMPFILES: [&str; 4] =
    ["/sys/kernel/debug", "/sys/kernel/tracing", "/sys/fs/cgroup", "/sys/fs/resctrl"];

impl BootSettings {
    /// Returns what makes these records hold after each boot, and the records for which an applied
    /// plan is needed.
    ///
    /// A value in a file is preferred to a kernel parameter: it also holds without a reboot, and
    /// can be undone at run time.
    #[must_use]
    pub fn from_records(
        records: &[&TuningRecord],
        survey: &Survey<'_>,
    ) -> (Self, Vec<NotPersisted>) {
        let mut settings = Self::default();
        let mut rest = Vec::new();
        for record in records {
            if let Err(why) = settings.add_record(record, survey) {
                rest.push(NotPersisted { id: record.id.clone(), why });
            }
        }

        (settings, rest)
    }

    fn add_record(&mut self, record: &TuningRecord, survey: &Survey<'_>) -> Result<(), String> {
        if record.is_check_only() {
            return Err("is only checked".to_owned());
        }

        let values: Vec<_> =
            record.probe.iter().filter_map(|spec| BootValue::from_probe(spec, survey)).collect();
        if let Some(open) = values.iter().find(|value| value.text().contains(['{', '}'])) {
            return Err(format!("{} has no value here", open.text()));
        }
        for value in &values {
            match value {
                BootValue::Sysctl(name, value) => self.sysctls.insert(name.clone(), value.clone()),
                BootValue::Sysfs(path, value) => self.sysfs.insert(path.clone(), value.clone()),
            };
        }

        match &record.boot {
            _ if !values.is_empty() => Ok(()),
            Some(line) => self.add_parameters(&survey.fill(line)),
            None => Err("needs a plan that is applied at boot".to_owned()),
        }
    }

    fn add_parameters(&mut self, line: &str) -> Result<(), String> {
        // `hugepages=N` stands for a number that the record does not know.
        if line.contains(['{', '}']) || line.contains("hugepages=N") {
            return Err(format!("{line} has no value here"));
        }

        for parameter in line.split_whitespace() {
            match parameter.strip_prefix("systemd.cpu_affinity=") {
                // The drop-in has the same effect and does not depend on the boot loader.
                Some(list) => self.service_cpus = CpuList::parse_list(list).ok(),
                None => self.add_parameter(parameter),
            }
        }
        Ok(())
    }

    /// Adds a kernel parameter; it replaces one of the same name.
    pub fn add_parameter(&mut self, parameter: &str) {
        let name = name_of(parameter);
        self.kernel_parameters.retain(|known| name_of(known) != name);
        self.kernel_parameters.push(parameter.to_owned());
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that each text can stand in its file without another meaning.
    ///
    /// # Errors
    /// [`PersistError::Nothing`], [`PersistError::BadText`].
    pub fn validate(&self) -> Result<(), PersistError> {
        if self.is_empty() {
            return Err(PersistError::Nothing);
        }

        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,=:+/@%-".contains(c);
        check_all(self.kernel_parameters.iter(), "the kernel command line", |text| match name_of(
            text,
        )
        .as_str()
        {
            "" => Some("it has no name"),
            _ if !text.chars().all(is_plain) => {
                Some("only letters, digits and _.,=:+/@%- are allowed")
            }
            _ => None,
        })?;
        check_all(self.sysctls.keys(), "sysctl.d", |name| {
            let fits = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c));
            (!fits).then_some("it is not the name of a sysctl")
        })?;
        check_all(self.sysfs.keys(), "tmpfiles.d", |path| {
            let leads_out =
                path.split('/').any(|piece| piece == "..") || path.contains(char::is_whitespace);
            (!path.starts_with("/sys/") || leads_out).then_some("it is not a path below /sys")
        })?;
        check_all(self.sysctls.values().chain(self.sysfs.values()), "a drop-in", |value| {
            value.contains(char::is_control).then_some("a value has one line")
        })?;
        check_all(self.apply.iter().map(|apply| &apply.program), "a unit", |program| {
            let is_read_as_it_is = |c: char| is_plain(c) || c.is_alphanumeric() || " ~".contains(c);
            let fits = program.starts_with('/') && program.chars().all(is_read_as_it_is);
            (!fits)
                .then_some("it is not an absolute path of letters, digits, blanks and _.,=:+/@%-~")
        })
    }
}

fn check_all<'t>(
    texts: impl Iterator<Item = &'t String>,
    place: &'static str,
    wrong: impl Fn(&str) -> Option<&'static str>,
) -> Result<(), PersistError> {
    for text in texts {
        if let Some(why) = wrong(text) {
            return Err(PersistError::BadText { text: text.clone(), place, why });
        }
    }
    Ok(())
}

enum BootValue {
    Sysctl(String, String),
    Sysfs(String, String),
}

impl BootValue {
    fn from_probe(spec: &ProbeSpec, survey: &Survey<'_>) -> Option<Self> {
        let value = survey.fill(spec.probe().set()?);
        match spec {
            ProbeSpec::Sysctl(probe) => Some(Self::Sysctl(probe.name_here(survey), value)),
            ProbeSpec::File(probe) => {
                let is_value = probe.path.starts_with("/sys/")
                    && !NOT_BY_TMPFILES.iter().any(|other| probe.path.starts_with(other));
                let path = survey.fill(&loop_pattern(&probe.path, survey));
                is_value.then_some(Self::Sysfs(path, value))
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Sysctl(name, value) | Self::Sysfs(name, value) => format!("{name} = {value}"),
        }
    }
}

/// `cpu{loop_cpu}` as a pattern that tmpfiles.d understands: `cpu[23]`, or braces where a number
/// has two digits.
fn loop_pattern(path: &str, survey: &Survey<'_>) -> String {
    let Ok(cpus) = survey.loop_cpus() else { return path.to_owned() };
    let numbers: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    match numbers.as_slice() {
        [one] => path.replace("{loop_cpu}", one),
        many if many.iter().all(|number| number.len() == 1) => {
            path.replace("{loop_cpu}", &format!("[{}]", many.concat()))
        }
        // glob(3) has no alternatives: the variable stays, and the record needs a plan.
        _ => path.to_owned(),
    }
}

/// A set of CPUs in a record, as the kernel writes it.
mod cpus_as_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::cpu_list::CpuList;

    pub(super) fn serialize<S: Serializer>(
        cpus: &Option<CpuList>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        cpus.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Option<CpuList>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| CpuList::parse_list(&text).map_err(D::Error::custom)).transpose()
    }
}
