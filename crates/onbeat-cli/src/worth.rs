//! What tunings were worth on this machine, remembered between runs.
//!
//! One JSON file in the state directory of the user holds the latest result of each tuning on each
//! machine. A machine is another one after a change of kernel, processor, number of CPUs or
//! hypervisor: what a setting is worth does not outlive them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use onbeat_host::machine::Host;
use onbeat_report::units::under;
use onbeat_report::worth::Worth;

/// The schema of the file.
pub(crate) const WORTH_SCHEMA: &str = "onbeat.tune-worth/1";
/// The name of the file in the state directory.
pub(crate) const WORTH_FILE: &str = "worth.json";

/// What makes a machine the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Release and build of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Number of online CPUs.
    pub cpus: String,
    /// The hypervisor; `None` for a machine that is not a guest.
    pub guest_of: Option<String>,
}

impl Machine {
    /// Returns the identity of a host by its facts; unknown ones are empty.
    #[must_use]
    pub(crate) fn from_host(host: &Host) -> Self {
        let fact = |name: &str| host.fact(name).unwrap_or_default().to_owned();
        Self {
            kernel: format!("{} {}", fact("kernel"), fact("kernel build")).trim().to_owned(),
            processor: fact("processor"),
            cpus: fact("CPUs online"),
            guest_of: host.fact("hypervisor").map(str::to_owned),
        }
    }
}

/// A result on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RememberedWorth {
    /// The tuning: an id of the catalogue, or the path of a plan.
    pub id: String,
    pub machine: Machine,
    /// The load that ran.
    pub load: String,
    /// The tuning of the blocks without it.
    pub without: String,
    /// Period of the loop, in nanoseconds.
    pub period_ns: u64,
    /// Wall clock at the end: seconds since 1970.
    pub measured_unix_s: u64,
    /// What it was worth.
    #[serde(flatten)]
    pub worth: Worth,
}

impl RememberedWorth {
    /// Returns the result with its load and day: `p99 3.10 [2.20, 4.00] times lower under cpu,
    /// measured 2026-11-20`.
    #[must_use]
    pub(crate) fn in_words(&self) -> String {
        let day = day(self.measured_unix_s);
        format!("{} {}, measured {day}", self.worth.in_short(), under(&self.load))
    }

    /// Whether both answer the same question.
    fn replaces(&self, other: &Self) -> bool {
        let asked = |one: &Self| {
            let Worth { series, percentile, .. } = &one.worth;
            (one.id.clone(), one.load.clone(), one.without.clone(), *series, percentile.clone())
        };
        self.machine == other.machine
            && self.period_ns == other.period_ns
            && asked(self) == asked(other)
    }
}

/// Returns a day in UTC, as `2026-11-20`.
fn day(unix_s: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_secs(unix_s);
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
struct WorthFile {
    schema: String,
    results: Vec<RememberedWorth>,
}

/// The file of results cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorthFileError {
    /// It cannot be read or written.
    #[error("cannot {what} {path}, which holds what tunings were worth: {source}")]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// It is damaged, or of another version.
    #[error(
        "{path} is not a file of {WORTH_SCHEMA} ({why}); remove it to forget what tunings were worth"
    )]
    NotValid {
        /// Which.
        path: PathBuf,
        why: String,
    },
}

/// Reads all results; none without a file.
///
/// # Errors
/// [`WorthFileError`].
pub(crate) fn read(state: &Path) -> Result<Vec<RememberedWorth>, WorthFileError> {
    let path = state.join(WORTH_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(WorthFileError::File { what: "read", path, source }),
    };

    match serde_json::from_str::<WorthFile>(&text) {
        Ok(file) if file.schema == WORTH_SCHEMA => Ok(file.results),
        Ok(file) => {
            Err(WorthFileError::NotValid { path, why: format!("its schema is {}", file.schema) })
        }
        Err(why) => Err(WorthFileError::NotValid { path, why: why.to_string() }),
    }
}

/// Returns the newest result of a tuning on a machine.
#[must_use]
pub(crate) fn newest<'r>(
    results: &'r [RememberedWorth],
    id: &str,
    machine: &Machine,
) -> Option<&'r RememberedWorth> {
    let of_both = results.iter().filter(|one| one.id == id && one.machine == *machine);
    of_both.max_by_key(|one| one.measured_unix_s)
}

/// Adds a result; an earlier one of the same question is replaced. The file is replaced as a whole,
/// so that a crash leaves the old one.
///
/// # Errors
/// [`WorthFileError`].
pub(crate) fn remember(state: &Path, result: RememberedWorth) -> Result<(), WorthFileError> {
    let mut results = read(state)?;
    results.retain(|earlier| !result.replaces(earlier));
    results.push(result);

    let path = state.join(WORTH_FILE);
    let failed = |source| WorthFileError::File { what: "write", path: path.clone(), source };
    let file = WorthFile { schema: WORTH_SCHEMA.to_owned(), results };
    let text = serde_json::to_string_pretty(&file).map_err(|why| failed(why.into()))?;
    let new = path.with_extension("json.new");
    fs::create_dir_all(state).map_err(failed)?;
    fs::write(&new, text + "\n").and_then(|()| fs::rename(&new, &path)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use onbeat::record::Series;

    use super::*;

    fn result(id: &str, kernel: &str, at: u64) -> RememberedWorth {
        let host = Host::from_facts([
            ("kernel", Some(kernel.to_owned())),
            ("processor", Some("model".to_owned())),
        ]);
        RememberedWorth {
            id: id.to_owned(),
            machine: Machine::from_host(&host),
            load: "cpu".to_owned(),
            without: "none".to_owned(),
            period_ns: 1_000_000,
            measured_unix_s: at,
            worth: Worth {
                percentile: "p99".to_owned(),
                series: Series::ReleaseLatency,
                ratio: 1.0 / 3.0,
                low: 0.25,
                high: 0.5,
                without_ns: 3e5,
                with_ns: 1e5,
                pairs: 12,
            },
        }
    }

    #[test]
    fn results_are_remembered_per_machine_and_the_newest_one_replaces_its_like() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert!(read(&state).unwrap().is_empty(), "no file yet");

        for one in [result("a", "6.1", 10), result("a", "6.1", 20), result("a", "6.2", 30)] {
            remember(&state, one).unwrap();
        }
        let results = read(&state).unwrap();
        assert_eq!(results.len(), 2, "one per machine");

        let here = result("a", "6.1", 0).machine;
        assert_eq!(newest(&results, "a", &here).unwrap().measured_unix_s, 20);
        assert_eq!(newest(&results, "b", &here), None);
        assert_eq!(newest(&results, "a", &Machine { cpus: "64".to_owned(), ..here }), None);
    }

    #[test]
    fn a_result_is_a_few_words_with_its_day() {
        assert_eq!(
            result("a", "6.1", 1_795_000_000).in_words(),
            "p99 3.00 [2.00, 4.00] times lower under cpu, measured 2026-11-18"
        );
    }

    #[test]
    fn a_damaged_file_is_refused_and_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(WORTH_FILE);
        for text in ["{", "{\"schema\":\"onbeat.tune-worth/9\",\"results\":[]}"] {
            fs::write(&path, text).unwrap();
            let why = remember(dir.path(), result("a", "6.1", 1)).unwrap_err().to_string();
            assert!(why.contains("is not a file of onbeat.tune-worth/1"), "{why}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
