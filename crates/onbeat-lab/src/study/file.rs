//! The file of a study, as TOML; every key has a default.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat::import::Format;
use onbeat::load::Load;
use onbeat::probe::ports::PortAddress;
use onbeat_tune::CpuList;
use onbeat_tune::catalogue::catalogue;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::setting::STAGES;
use crate::toml_file::{self, TomlFileError, wrong};
use crate::vm::ForeignProbe;

/// Runs of each measurement that a comparison needs.
pub const LEAST_RUNS: u32 = 3;

/// The clock of a study's guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StudyClock {
    /// Real where KVM works, else virtual.
    #[default]
    Auto,
    /// See [`Real`](crate::vm::Real).
    Real,
    /// See [`Virtual`](crate::vm::Virtual).
    Virtual,
    /// See [`Free`](crate::vm::Free).
    Free,
}

impl StudyClock {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Real, Self::Virtual, Self::Free];

    /// Returns the word in a file and on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Real => "real",
            Self::Virtual => "virtual",
            Self::Free => "free",
        }
    }
}

/// A load of a study: what runs besides, on the host and in the guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyLoad {
    /// Its name in tables.
    pub name: String,
    /// On the host, also while the guest is measured.
    #[serde(default)]
    pub host: Load,
    #[serde(default)]
    pub guest: Load,
}

/// A stage of a study, before its settings are looked for on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyStage {
    pub name: String,
    /// Ids of its settings.
    pub settings: Vec<String>,
}

/// What a study measures and how.
///
/// ```
/// use onbeat_lab::study::StudyFile;
///
/// let study = StudyFile::from_toml("runs = 5\nloads = [{ name = \"idle\" }]")?;
/// let stages: Vec<&str> = study.stages.iter().map(|stage| stage.name.as_str()).collect();
/// assert_eq!((study.runs, stages), (5, vec!["kernel", "host", "qemu"]));
/// # Ok::<(), onbeat_lab::TomlFileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StudyFile {
    /// The guest's kernel: a package, or the path of an image.
    pub kernel: String,
    /// Directory of the modules of an image.
    pub modules: Option<PathBuf>,
    /// Words on the guest's kernel command line.
    #[serde(deserialize_with = "words")]
    pub guest_arguments: Vec<String>,
    /// The clock of its guests.
    pub clock: StudyClock,
    /// Number of its CPUs; in virtual time 1.
    pub cpus: u32,
    /// Memory of the guest in MiB.
    pub memory_mib: u32,
    /// Host CPUs of the guest; chosen as `onbeat tune plan` does where it is absent.
    #[serde(deserialize_with = "host_cpus")]
    pub host_cpus: Option<CpuList>,
    /// Period of the measured loop.
    #[serde(rename = "period_us", deserialize_with = "microseconds")]
    pub period: Duration,
    /// Priority of the measured loop, 1 to 99.
    pub priority: u32,
    /// The program that measures in place of `onbeat measure latency`; period, priority and duration are
    /// its own then.
    #[serde(skip)]
    pub probe: Option<ForeignProbe>,
    /// Its line and the name of its format, until both have been read.
    #[serde(rename = "probe")]
    probe_line: Option<String>,
    probe_as: Option<String>,
    /// Time of each measurement.
    #[serde(rename = "duration_s", deserialize_with = "seconds")]
    pub duration: Duration,
    /// Runs of each measurement.
    pub runs: u32,
    /// Commands of the application test.
    pub commands: u32,
    /// Output of the guest for its edges, as `onbeat measure write --output` takes it; `None` is a
    /// virtual servo.
    pub servo: Option<String>,
    /// Whether each setting that takes no reboot is priced by itself, as stages are.
    pub price_settings: bool,
    pub loads: Vec<StudyLoad>,
    #[serde(rename = "stage")]
    pub stages: Vec<StudyStage>,
    /// Longest time of a guest beyond its measurement, by the host's clock.
    #[serde(rename = "limit_s", deserialize_with = "seconds")]
    pub limit: Duration,
}

fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(String::deserialize(from)?.split_whitespace().map(str::to_owned).collect())
}

fn host_cpus<'de, D: Deserializer<'de>>(from: D) -> Result<Option<CpuList>, D::Error> {
    let text = String::deserialize(from)?;
    let cpus = CpuList::parse_list(&text).ok().filter(|cpus| !cpus.is_empty());
    let not_cpus = || {
        D::Error::custom(format!(
            "`host_cpus` is \"{text}\", which is not a list of CPUs; write for example \"3\""
        ))
    };
    cpus.map(Some).ok_or_else(not_cpus)
}

fn microseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_micros)
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_secs)
}

impl Default for StudyFile {
    fn default() -> Self {
        let load = |name: &str, host: &str, guest: &str| StudyLoad {
            name: name.to_owned(),
            host: host.parse().unwrap_or_default(),
            guest: guest.parse().unwrap_or_default(),
        };
        let stage = |(name, ids): (&str, &str)| StudyStage {
            name: name.to_owned(),
            settings: ids.split_whitespace().map(str::to_owned).collect(),
        };

        Self {
            kernel: "linux-image-rt-amd64".to_owned(),
            modules: None,
            guest_arguments: Vec::new(),
            clock: StudyClock::Auto,
            cpus: 1,
            memory_mib: 512,
            host_cpus: None,
            period: Duration::from_micros(100),
            priority: 99,
            probe: None,
            probe_line: None,
            probe_as: None,
            duration: Duration::from_secs(600),
            runs: LEAST_RUNS,
            commands: 1000,
            servo: None,
            price_settings: true,
            loads: vec![load("idle", "idle", "idle"), load("busy", "cpu=80%", "cpu=50%")],
            stages: STAGES.map(stage).to_vec(),
            limit: Duration::from_secs(300),
        }
    }
}

impl StudyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or is not valid.
    pub fn read(path: &Path) -> Result<Self, TomlFileError> {
        Self::from_toml(&toml_file::read(path)?)
    }

    /// Reads the text of a file; an empty text is a study with all defaults.
    ///
    /// # Errors
    /// When it is not valid.
    pub fn from_toml(text: &str) -> Result<Self, TomlFileError> {
        let mut study: Self = toml_file::parse(text)?;
        study.check_numbers()?;
        check_names("loads", study.loads.iter().map(|load| load.name.as_str()))?;
        check_names("stage", study.stages.iter().map(|stage| stage.name.as_str()))?;
        check_ids(&study.stages)?;
        if study.loads.is_empty() {
            return wrong("`loads` is empty; list at least one, such as { name = \"idle\" }");
        }

        study.probe = foreign_probe(study.probe_line.take(), study.probe_as.take())?;
        let servo = study.servo.as_deref().map(str::parse::<PortAddress>);
        match servo.transpose() {
            Ok(_) => Ok(study),
            Err(reason) => wrong(format!("`servo`: {reason}")),
        }
    }

    fn check_numbers(&self) -> Result<(), TomlFileError> {
        let period_us = u64::try_from(self.period.as_micros()).unwrap_or(u64::MAX);
        let ranges = [
            ("cpus", u64::from(self.cpus), 1, 255),
            ("memory_mib", u64::from(self.memory_mib), 64, 1 << 20),
            ("period_us", period_us, 1, 1_000_000),
            ("priority", u64::from(self.priority), 1, 99),
            ("duration_s", self.duration.as_secs(), 1, 7 * 24 * 3600),
            ("runs", u64::from(self.runs), 1, 1000),
            ("commands", u64::from(self.commands), 1, 1_000_000),
            ("limit_s", self.limit.as_secs(), 1, 24 * 3600),
        ];
        match ranges.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
            Some((key, value, least, most)) => {
                wrong(format!("`{key}` is {value}; it must be {least} to {most}"))
            }
            None => Ok(()),
        }
    }

    /// The same study in minutes: one run of 2 s, and stages alone. The comparison
    /// stays inconclusive; it shows that everything works.
    #[must_use]
    pub fn quick(self) -> Self {
        Self {
            duration: self.duration.min(Duration::from_secs(2)),
            runs: 1,
            price_settings: false,
            ..self
        }
    }
}

/// Returns the probe of a line and the name of a format; both are given, or neither.
fn foreign_probe(
    line: Option<String>,
    format: Option<String>,
) -> Result<Option<ForeignProbe>, TomlFileError> {
    match (line, format) {
        (None, None) => Ok(None),
        (Some(line), Some(name)) => {
            match Format::ALL.into_iter().find(|format| format.word() == name) {
                Some(format) => Ok(Some(ForeignProbe::from_line(&line, format))),
                None => wrong(format!(
                    "`probe_as` is \"{name}\", which is not a format; `onbeat import --help` lists them"
                )),
            }
        }
        _ => {
            wrong("`probe` and `probe_as` belong together: a program, and the format of its output")
        }
    }
}

fn check_names<'n>(
    list: &'static str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<(), TomlFileError> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let is_free = |name: &str| name != "untuned" && name != "all";
    match names.clone().find(|name| !is_name(name) || !is_free(name)) {
        Some(name) => wrong(format!("\"{name}\" is not a name: use letters, digits and hyphens")),
        None => toml_file::check_distinct(list, names),
    }
}

fn check_ids(stages: &[StudyStage]) -> Result<(), TomlFileError> {
    let ids = stages.iter().flat_map(|stage| stage.settings.iter().map(move |id| (stage, id)));
    match ids.clone().find(|(_, id)| catalogue().get(id).is_none()) {
        Some((StudyStage { name, .. }, id)) => wrong(format!(
            "stage \"{name}\": \"{id}\" is not a tuning. `onbeat tune check --all` lists all of them"
        )),
        None => toml_file::check_distinct("settings", ids.map(|(_, id)| id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        StudyFile::from_toml(text).expect_err(text).to_string()
    }

    #[test]
    fn an_empty_file_is_the_published_study() {
        let study = StudyFile::from_toml("").expect("a study");
        assert_eq!((study.period.as_micros(), study.priority), (100, 99));
        assert_eq!((study.duration.as_secs(), study.runs, study.commands), (600, 3, 1000));
        let loads: Vec<&str> = study.loads.iter().map(|load| load.name.as_str()).collect();
        assert_eq!(loads, ["idle", "busy"]);
        let [host, guest] = [&study.loads[1].host, &study.loads[1].guest].map(Load::to_string);
        assert_eq!((host.as_str(), guest.as_str()), ("cpu=80%", "cpu=50%"));
        assert!(study.price_settings);

        let quick = study.quick();
        assert_eq!((quick.duration.as_secs(), quick.runs), (2, 1));
        assert!(!quick.price_settings);
    }

    #[test]
    fn stages_and_loads_of_the_file_replace_the_defaults() {
        let text = "probe = \"latency -p 100\"\nprobe_as = \"xenomai\"\nhost_cpus = \"2-3\"\nguest_arguments = \"threadirqs  quiet\"\n\
            [[stage]]\nname = \"mine\"\nsettings = [\"wq.unbound\", \"vmm.mem\"]\n";
        let study = StudyFile::from_toml(text).expect("a study");
        assert_eq!(study.guest_arguments, ["threadirqs", "quiet"]);
        assert_eq!(study.host_cpus.map(|cpus| cpus.to_string()).as_deref(), Some("2-3"));
        assert_eq!(study.stages.len(), 1);
        assert_eq!(study.probe, Some(ForeignProbe::from_line("latency -p 100", Format::Xenomai)));
    }

    #[test]
    fn what_a_file_gets_wrong_is_named_with_its_place() {
        assert!(refused("kernel = \"a\"\nrun = 3").starts_with("line 2, column 1: unknown field"));
        assert_eq!(refused("runs = 0"), "`runs` is 0; it must be 1 to 1000");
        assert_eq!(refused("priority = 100"), "`priority` is 100; it must be 1 to 99");
        assert_eq!(
            refused("[[stage]]\nname = \"a\"\nsettings = [\"no.such\"]"),
            "stage \"a\": \"no.such\" is not a tuning. `onbeat tune check --all` lists all of them"
        );
        let twice = "[[stage]]\nname = \"a\"\nsettings = [\"wq.unbound\"]\n[[stage]]\nname = \"b\"\nsettings = [\"wq.unbound\"]";
        assert!(refused(twice).starts_with("`settings` has \"wq.unbound\" twice"));
        assert!(refused("loads = []").starts_with("`loads` is empty"));
        assert!(refused("loads = [{ name = \"a b\" }]").starts_with("\"a b\" is not a name"));
        assert!(refused("loads = [{ name = \"a\", host = \"idel\" }]").contains("unknown load"));
        assert!(refused("host_cpus = \"x\"").contains("is not a list of CPUs"));
        assert!(refused("servo = \"pwm:x\"").starts_with("`servo`: "));
        assert!(refused("probe = \"latency\"").contains("belong together"));
        assert!(
            refused("probe = \"latency\"\nprobe_as = \"x\"").starts_with("`probe_as` is \"x\"")
        );
    }
}
