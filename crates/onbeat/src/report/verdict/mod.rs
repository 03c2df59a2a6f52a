//! Whether a limit held, as far as the samples can show.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod looks;
mod outages;
mod quantile;
mod rule;

pub use looks::looks;
pub use outages::{BATCHES, Outages};
pub use rule::{Bounds, LEVEL, MOST_TIMES_LONGER, Rule, Side, UNSEEN, gap};

use super::binomial::{lower_bound, needed_with, needed_with_none_over, upper_bound};
use super::units::{Letters, count, one_in, percent, time_ns};
use crate::record::{Distribution, RunFile, Series, Stall};

/// A limit to hold: at least `at` percent of `on` at or below `limit_ns`.
pub type Limit = crate::record::LimitNote;

/// The outcome of a limit. In the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// The rate over the limit is as low as asked, at 95 % confidence.
    #[serde(alias = "holds")]
    Pass,
    /// The samples fit both.
    #[serde(alias = "not_enough_samples")]
    Inconclusive,
    /// The rate over the limit is higher than asked, at 95 % confidence.
    #[serde(alias = "broken")]
    Fail,
}

impl Outcome {
    /// The exit status of a command with a limit: 0 for PASS, 1 for FAIL, 2 for INCONCLUSIVE.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Inconclusive => 2,
        }
    }

    /// The one word that terminal, page, JUnit and JSON use.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Inconclusive => "INCONCLUSIVE",
            Self::Fail => "FAIL",
        }
    }
}

/// The verdict on a limit in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// Number of releases over the limit.
    pub over: u64,
    /// Number of samples that may be over it: they are in a bucket of the source that reaches
    /// beyond the limit. Only in imported runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsure: u64,
    /// Out of how many: release latency and response time count every release, skipped ones among
    /// them.
    pub releases: u64,
    /// How many releases with none over suffice for [`Outcome::Pass`]; 1 when the limit is for all
    /// of them, because then no number proves it.
    pub needed: u64,
    /// The result as a sentence.
    pub sentence: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The signature that serde calls.
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Verdict {
    /// The largest rate over the limit that fits the samples, at one-sided 95 % confidence.
    #[must_use]
    pub fn rate_at_most(&self) -> f64 {
        upper_bound(self.over + self.unsure, self.releases)
    }

    /// The smallest.
    #[must_use]
    pub fn rate_at_least(&self) -> f64 {
        lower_bound(self.over, self.releases)
    }
}

/// Judges a run by a limit.
///
/// A release that was skipped counts with the latency it had when the next cycle started, and is
/// always over a limit on the response time. Samples that were lost between loop and recorder might
/// have been over and might not: they count against either outcome. So do samples of an imported
/// run in a cell that reaches beyond the limit.
#[must_use]
pub fn judge(run: &RunFile, limit: Limit) -> Verdict {
    let limit = on_all_releases(run, limit);
    let tally = OverCount::from_run(run, limit);
    let allowed = allowed_rate(limit);
    let outcome = tally.outcome(allowed);
    Verdict {
        outcome,
        over: tally.over,
        unsure: tally.unsure,
        releases: tally.releases,
        needed: if allowed > 0.0 { needed_with_none_over(allowed) } else { 1 },
        sentence: tally.sentence(outcome, limit),
    }
}

/// A limit on wake-up latency is one on all releases: those that were never served are not left out
/// of it.
pub(super) fn on_all_releases(run: &RunFile, limit: Limit) -> Limit {
    let is_known = run.import.is_none();
    match limit.on {
        Series::WakeupLatency if is_known => Limit { on: Series::ReleaseLatency, ..limit },
        // Another tool's run reports served releases only; its report says so beside the figure.
        Series::ReleaseLatency if !is_known => Limit { on: Series::WakeupLatency, ..limit },
        _ => limit,
    }
}

/// Whether a skipped release is over any limit on this series: what was never served, or never
/// answered, was late for certain.
pub(super) const fn is_over_when_skipped(on: Series) -> bool {
    matches!(on, Series::ResponseTime | Series::ReadWrite)
}

/// The rate over the limit that is still allowed.
pub(super) fn allowed_rate(limit: Limit) -> f64 {
    ((100.0 - limit.at) / 100.0).clamp(0.0, 1.0 - f64::EPSILON)
}

/// `99.99 % of releases within 100 us`, `99.9 % of response time within 1 ms`.
#[must_use]
pub fn limit_in_words(limit: Limit) -> String {
    let share = if limit.at >= 100.0 { "all".to_owned() } else { format!("{} %", limit.at) };
    let within = time_ns(limit.limit_ns, Letters::Ascii);
    match limit.on {
        Series::ReleaseLatency if limit.at >= 100.0 => format!("all releases within {within}"),
        Series::ReleaseLatency => format!("{share} of releases within {within}"),
        series => format!("{share} of {} within {within}", series.words()),
    }
}

/// `fewer than 99.99 % of releases within 100 us`: what a limit that was not met came to.
#[must_use]
pub fn missed_in_words(limit: Limit) -> String {
    let comparison = if limit.at >= 100.0 { "not" } else { "fewer than" };
    format!("{comparison} {}", limit_in_words(limit))
}

/// Counts over a limit, and all counts.
#[derive(Clone, Copy, Debug)]
struct OverCount {
    over: u64,
    unsure: u64,
    releases: u64,
    lost: u64,
}

impl OverCount {
    fn from_run(run: &RunFile, limit: Limit) -> Self {
        if run.import.is_some() {
            return Self::of_cells(&run.distribution(limit.on), limit.limit_ns);
        }

        let (mut over, mut releases) = count_over(run, limit.on, limit.limit_ns);
        if is_over_when_skipped(limit.on) {
            let skipped = run.distribution(Series::SkippedLatency).count();
            over += skipped;
            releases += skipped;
        }

        let lost = run.intervals.iter().map(|interval| interval.lost).sum();
        Self { over, unsure: 0, releases, lost }
    }

    /// The counts of a source with coarse buckets.
    fn of_cells(cells: &Distribution, limit_ns: u64) -> Self {
        let wholly_over = cells.buckets().iter().filter(|bucket| bucket.low_ns > limit_ns);
        let over = wholly_over.map(|bucket| bucket.count).sum();
        Self { over, unsure: cells.count_astride(limit_ns), releases: cells.count(), lost: 0 }
    }

    /// Samples on an unknown side of the limit.
    const fn open(&self) -> u64 {
        self.lost + self.unsure
    }

    fn outcome(&self, allowed: f64) -> Outcome {
        let all = self.releases + self.lost;
        if self.releases == 0 {
            Outcome::Inconclusive
        } else if allowed == 0.0 {
            match (self.over, self.open()) {
                (0, 0) => Outcome::Pass,
                (0, _) => Outcome::Inconclusive,
                _ => Outcome::Fail,
            }
        } else if lower_bound(self.over, all) > allowed {
            Outcome::Fail
        } else if upper_bound(self.over + self.open(), all) <= allowed {
            Outcome::Pass
        } else {
            Outcome::Inconclusive
        }
    }

    fn sentence(&self, outcome: Outcome, limit: Limit) -> String {
        let found = self.found(limit);
        let allowed = allowed_rate(limit);
        let at_most = upper_bound(self.over + self.open(), self.releases + self.lost);
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("; {} lost samples count against either outcome", count(lost)),
        };

        let judged = match outcome {
            _ if self.releases == 0 => "no samples".to_owned(),
            Outcome::Pass if allowed == 0.0 => {
                format!("{found}; with 95 % confidence fewer than {} exceed it", one_in(at_most))
            }
            Outcome::Pass => {
                format!(
                    "{found}; with 95 % confidence at most {} exceed it ({} allowed)",
                    percent(at_most),
                    percent(allowed)
                )
            }
            Outcome::Fail if allowed == 0.0 => format!("{found} (none allowed)"),
            Outcome::Fail => {
                let rate = self.over as f64 / self.releases as f64;
                format!("{found} ({}; {} allowed)", percent(rate), percent(allowed))
            }
            Outcome::Inconclusive if allowed == 0.0 => {
                format!("{found} among the recorded samples")
            }
            Outcome::Inconclusive => format!("{found}; {}", self.needs(allowed)),
        };

        let unsure = match self.unsure {
            0 => String::new(),
            unsure => format!(
                "; {} more may exceed it (the limit is inside a bucket of the source)",
                count(unsure)
            ),
        };

        judged + &lost + &unsure
    }

    /// `none of 60,000 releases is over 100 us`.
    fn found(&self, limit: Limit) -> String {
        let (one, many) = match limit.on {
            Series::ObservedPeriod => ("period", "periods"),
            Series::ExecutionTime | Series::SleepLatency => ("cycle", "cycles"),
            _ => ("release", "releases"),
        };

        let noun = if self.releases == 1 { one } else { many };
        let (over, is) = match self.over {
            0 => ("none".to_owned(), "is"),
            1 => ("1".to_owned(), "is"),
            over => (count(over), "are"),
        };

        format!(
            "{over} of {} {noun} {is} over {}",
            count(self.releases),
            time_ns(limit.limit_ns, Letters::Ascii)
        )
    }

    fn needs(&self, allowed: f64) -> String {
        let needed = count(needed_with(self.over + self.open(), allowed));
        match self.over {
            0 => format!("PASS needs {needed} with none over"),
            _ => format!("PASS needs {needed} with no more over"),
        }
    }
}

/// Number of samples of a series over a limit, and of all its samples. The exact maximum decides
/// what the bucket that holds the limit cannot.
fn count_over(run: &RunFile, series: Series, limit_ns: u64) -> (u64, u64) {
    let distribution = run.distribution(series);
    let moments = run.moments(series);
    let by_buckets = distribution.count_above(limit_ns);
    let is_exact = moments.n == distribution.count();
    let over = match moments.max_ns > limit_ns {
        true => by_buckets.max(1),
        false if is_exact => 0,
        false => by_buckets,
    };

    (over, distribution.count())
}

/// Kept spikes of a run by stall.
#[must_use]
pub fn stalls(run: &RunFile) -> BTreeMap<Stall, u64> {
    let mut counted = BTreeMap::new();
    for stall in run.spikes.iter().filter_map(|spike| spike.stall) {
        *counted.entry(stall).or_insert(0) += 1;
    }
    counted
}

/// Describes the stalls; `None` without any.
#[must_use]
pub fn stalls_in_words(stalls: &BTreeMap<Stall, u64>) -> Option<String> {
    let total: u64 = stalls.values().sum();
    if total == 0 {
        return None;
    }

    let kinds: Vec<String> = match stalls.len() {
        1 => stalls.keys().map(|&stall| stall_in_words(stall).to_owned()).collect(),
        _ => stalls
            .iter()
            .map(|(&stall, n)| format!("{} {}", count(*n), stall_in_words(stall)))
            .collect(),
    };

    let spikes = if total == 1 { "spike caused" } else { "spikes caused" };
    let whose = match (stalls.contains_key(&Stall::Stopped), stalls.len()) {
        (true, 1) => "an external signal",
        (true, _) => "scheduler policy or an external signal",
        (false, _) => "scheduler policy",
    };

    Some(format!(
        "{} {spikes} {}: {whose}, not machine latency",
        count(total),
        super::units::listed(&kinds)
    ))
}

const fn stall_in_words(stall: Stall) -> &'static str {
    match stall {
        Stall::RtThrottling => "by real-time throttling",
        Stall::FairServer => "by the fair server",
        Stall::RtThrottlingOrFairServer => "by real-time throttling or the fair server",
        Stall::Stopped => "by a signal that stopped the process",
    }
}
