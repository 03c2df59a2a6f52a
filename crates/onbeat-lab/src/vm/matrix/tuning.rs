//! What a tuning changes in a guest: options of its measurement.

use onbeat::bench::CellTuning;

use super::MatrixError;

/// Real-time priority of P, as in a bench.
const PRIORITY: &str = "98";

/// A tuning that a measurement in a guest with one CPU can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabTuning {
    /// Options of `onbeat measure latency`.
    pub(super) options: Vec<String>,
}

impl LabTuning {
    /// Refuses what needs a second CPU or a bench.
    pub(super) fn new(word: &str, tuning: &CellTuning) -> Result<Self, MatrixError> {
        let wanted = tuning.options();
        let refused = |reason| MatrixError::NotInGuest { tuning: word.to_owned(), reason };
        if wanted.letters.shield {
            return Err(refused("C shields a CPU, and these guests have one"));
        }
        if wanted.timer_slack_ns.is_some() {
            return Err(refused("timer.slack is an option of `onbeat bench` only"));
        }

        if tuning.host_names().next().is_some() {
            return Err(refused(
                "`onbeat tune` applies settings of the host with two CPUs or more, and these guests have one",
            ));
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

        Ok(Self { options })
    }
}
