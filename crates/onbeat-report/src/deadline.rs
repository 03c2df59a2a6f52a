//! The verdict where no limit is given: the loop's own deadline.

use serde::{Deserialize, Serialize};

use super::file_facts::cell_of;
use super::units::{Letters, time_ns, under};
use super::verdict::{Judging, Limit, Outcome, Unseen, Verdict, judge, sizes_seen};
use onbeat_record::{RunFile, Series, Timing};

/// Verdict on the loop's own deadline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadlineVerdict {
    /// The deadline as a limit.
    pub limit: Limit,
    /// Worst outcome over all loads.
    pub outcome: Outcome,
    /// `99.9 % of releases end before the next one`.
    pub words: String,
    /// The reason, as a sentence.
    pub sentence: String,
    /// Evidence, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub basis: String,
}

/// The verdict on `runs`, those of one tuning, each with its load; `all` are those it was chosen
/// among, with theirs, so that all of them share the level. `None` where a run has no deadline.
#[must_use]
pub(super) fn judged(
    runs: &[(&RunFile, &str)],
    all: &[(&RunFile, &str)],
    looks: usize,
) -> Option<DeadlineVerdict> {
    let timing = runs.first()?.0.header.timing.as_ref()?;
    let has_grid = |(run, _): &(&RunFile, &str)| {
        let keeps = |timing: &Timing| !timing.wait_kind().is_relative();
        run.import.is_none()
            && run.header.timing.as_ref().is_some_and(keeps)
            && run.moments(Series::ResponseTime).n > 0
    };
    if !runs.iter().all(has_grid) {
        return None;
    }

    let limit = Limit::of_deadline(timing.deadline_ns);
    let of_run = |(run, load): &(&RunFile, &str)| {
        let (verdicts, unseen) = (all.len() * looks, unseen(all, load, limit));
        // All of `runs` are of one tuning.
        let passes = (all.len() / runs.len()).max(1) * looks;
        let judging = Judging { limit, verdicts, passes, unseen };
        (judge(run, judging), (*load).to_owned(), cell_of(run))
    };
    let worst =
        |a: &Verdict, b: &Verdict| a.outcome.cmp(&b.outcome).then(a.at_most.total_cmp(&b.at_most));
    let (Verdict { outcome, sentence, basis, .. }, load, cell) =
        runs.iter().map(of_run).max_by(|(a, ..), (b, ..)| worst(a, b))?;
    let sentence = match runs {
        [_] => sentence,
        // CPUs that were measured at once have one load.
        all if all.iter().all(|(_, other)| *other == load) => match cell.cpu {
            Some(cpu) => format!("worst on CPU {cpu}: {sentence}"),
            None => format!("{}: {sentence}", cell.tuning),
        },
        _ => match cell.cpu {
            Some(cpu) => format!("{}, worst on CPU {cpu}: {sentence}", under(&load)),
            None => format!("{}: {sentence}", under(&load)),
        },
    };
    Some(DeadlineVerdict { limit, outcome, words: in_words(timing), sentence, basis })
}

/// What outages under a load are like, by all runs under it; nothing by one run.
pub(super) fn unseen(all: &[(&RunFile, &str)], load: &str, limit: Limit) -> Unseen {
    let under: Vec<&RunFile> =
        all.iter().filter(|(_, other)| *other == load).map(|(run, _)| *run).collect();
    let seen = if under.len() > 1 { sizes_seen(&under, limit) } else { None };
    seen.map_or(Unseen::Assumed, Unseen::Seen)
}

fn in_words(timing: &Timing) -> String {
    let at = Limit::OF_DEADLINE_AT;
    if timing.deadline_ns == timing.period_ns {
        format!("{at} % of releases end before the next one")
    } else {
        let deadline = time_ns(timing.deadline_ns, Letters::Ascii);
        format!("{at} % of releases end within the deadline of {deadline}")
    }
}
