//! What a tuning changes in a guest: options of its measurement, settings that `onbeat tune` applies
//! before it, and words on the kernel command line.

use onbeat::bench::CellTuning;
use onbeat_tune::catalogue::record::TakesEffect;
use onbeat_tune::catalogue::{TuningRecord, catalogue};
use onbeat_tune::plan::recipes::{Recipe, appliable, recipe};

/// Real-time priority of P, as in a bench.
const PRIORITY: &str = "98";
const SECOND_CPU: &str = "it names CPUs other than the loop's, and these guests have one";

/// A tuning that a measurement in a guest with one CPU can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LabTuning {
    /// Options of `onbeat measure`.
    pub(super) options: Vec<String>,
    /// Ids that the guest applies before the measurement.
    pub(super) applied: Vec<String>,
    /// Words on the kernel command line.
    pub(super) kernel_arguments: Vec<String>,
}

impl LabTuning {
    /// Refuses what needs a second CPU or a bench, with the reason.
    pub(super) fn new(tuning: &CellTuning) -> Result<Self, &'static str> {
        let wanted = tuning.options();
        let refusals = [
            (wanted.letters.shield, "C shields a CPU, and these guests have one"),
            (wanted.timer_slack_ns.is_some(), "timer.slack is an option of `onbeat bench` only"),
            (
                wanted.oom_score.is_some(),
                "mem.oom is an option of `onbeat bench` and `onbeat measure` only",
            ),
        ];
        if let Some((_, reason)) = refusals.into_iter().find(|(is_wanted, _)| *is_wanted) {
            return Err(reason);
        }

        let mut this = Self::default();
        for name in tuning.host_names() {
            this.add(name)?;
        }

        let mut options = vec!["--priority", if wanted.letters.priority { PRIORITY } else { "0" }];
        if !wanted.letters.memory {
            options.push("--no-lock-memory");
        }
        if wanted.letters.spin {
            options.extend(["--wait", "spin"]);
        }
        if wanted.bound {
            options.extend(["--cpu", "0"]);
        }

        Ok(Self { options: options.into_iter().map(str::to_owned).collect(), ..this })
    }

    /// Adds a setting of the catalogue, or of the several that an alias stands for.
    fn add(&mut self, name: &str) -> Result<(), &'static str> {
        let records = catalogue().resolve(name);
        if records.is_empty() {
            return Err("plans and the placebo are for `onbeat bench` only; name ids");
        }

        records.into_iter().try_for_each(|record| self.add_record(record))
    }

    /// A guest with one CPU gets a setting at run time where that is possible, else at its boot.
    fn add_record(&mut self, record: &TuningRecord) -> Result<(), &'static str> {
        if record.is_check_only() {
            return Err("it is only checked: there is nothing to change");
        }

        let is_about_cpus = names_cpus(record);
        let takes_now = record.takes_effect.contains(&TakesEffect::Now);
        if takes_now && !is_about_cpus && appliable().contains(&record.id.as_str()) {
            self.applied.push(record.id.clone());
            return Ok(());
        }

        let words = record.boot.as_deref().map(|words| words.replace("{loop_priority}", PRIORITY));
        match words {
            // `hugepages=N` stands for a number that a person chooses.
            Some(words) if !words.contains('{') && !words.contains("=N") => {
                self.kernel_arguments.extend(words.split_whitespace().map(str::to_owned));
                Ok(())
            }
            Some(_) => Err(SECOND_CPU),
            None if is_about_cpus => Err(SECOND_CPU),
            None => Err("neither a command nor a kernel parameter sets it"),
        }
    }
}

/// Whether a setting at run time needs CPUs beside the loop's.
fn names_cpus(record: &TuningRecord) -> bool {
    let moves_threads = matches!(recipe(&record.id), Some(Recipe::Shield | Recipe::Affinity(..)));
    let values = record.probe.iter().filter_map(|spec| spec.probe().set());
    moves_threads || values.into_iter().any(|value| value.contains("{housekeeping"))
}
