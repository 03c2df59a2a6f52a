//! What a tuning changes in a guest: options of its measurement, and settings of its kernel.

use onbeat::bench::CellTuning;

use super::MatrixError;

/// Real-time priority of P, as in a bench.
const PRIORITY: &str = "98";
/// Applies the ids that are its arguments; its output goes into a result of its own, because the
/// job's output is the summary.
const APPLY: &str = "onbeat tune apply --yes \"$@\" > /out/tuning";

/// A tuning that a measurement in a guest with one CPU can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabTuning {
    /// Options of `onbeat measure latency`.
    pub(super) options: Vec<String>,
    /// Ids of the catalogue that are settings of the kernel.
    ids: Vec<String>,
}

impl LabTuning {
    /// Refuses what needs a second CPU, a plan's file, or a bench.
    pub(super) fn new(word: &str, tuning: &CellTuning) -> Result<Self, MatrixError> {
        let wanted = tuning.options();
        let refused = |reason| MatrixError::NotInGuest { tuning: word.to_owned(), reason };
        if wanted.letters.shield {
            return Err(refused("C shields a CPU, and these guests have one"));
        }
        if wanted.timer_slack_ns.is_some() {
            return Err(refused("timer.slack is an option of `onbeat bench` only"));
        }

        let ids: Vec<String> = tuning.host_names().map(str::to_owned).collect();
        let is_file = |id: &&String| id.contains('/') || id.ends_with(".toml");
        if ids.iter().any(|id| is_file(&id) || ["plan", "placebo"].contains(&id.as_str())) {
            return Err(refused("plans and the placebo belong to `onbeat bench`; list ids"));
        }

        let mut options = Vec::new();
        let mut add = |words: &[&str]| options.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["--priority", if wanted.letters.priority { PRIORITY } else { "0" }]);
        if !wanted.letters.memory {
            add(&["--no-lock-memory"]);
        }
        if wanted.letters.spin {
            add(&["--wait", "spin"]);
        }
        if wanted.bound {
            add(&["--cpu", "0"]);
        }

        Ok(Self { options, ids })
    }

    /// The command that applies its settings in a guest; none when it has none.
    pub(super) fn command(&self) -> Option<Vec<String>> {
        if self.ids.is_empty() {
            return None;
        }

        let words = ["sh", "-c", APPLY, "sh"].map(str::to_owned);
        Some(words.into_iter().chain(self.ids.iter().cloned()).collect())
    }
}
