//! Whether a limit held, as far as the samples can show.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod evidence;
mod looks;
mod outages;
mod quantile;
mod rule;
mod sentence;
mod vocabulary;

pub use looks::looks;
pub use outages::{BATCHES, Outages};
pub use rule::{Bounds, LEVEL, MOST_TIMES_LONGER, Rule, Side, UNSEEN};

use evidence::{Below, Evidence, Joined};
use sentence::Judged;

use super::cell::is_zero;
use super::units::{Letters, count, time_ns};
use onbeat_record::{OutageSums, RunFile, Series, Stall};

/// A limit to hold: at least `at` percent of `on` at or below `limit_ns`.
pub type Limit = onbeat_record::LimitNote;

pub use vocabulary::Outcome;

/// Verdict on a limit in one run (docs/verdict.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// Number of releases over the limit.
    pub over: u64,
    /// Number of outages that they form.
    #[serde(default)]
    pub outages: u64,
    /// Number of samples that may be over it, in a cell of an imported run's source that reaches
    /// beyond the limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsure: u64,
    /// Number of releases judged, skipped ones included for release latency and response time.
    pub releases: u64,
    /// Number of releases, none of them over, that suffice for PASS; 1 if all releases must meet
    /// the limit, which no number proves.
    pub needed: u64,
    /// Lower end of the interval of the rate over the limit, 0 to 1.
    #[serde(default)]
    pub at_least: f64,
    /// Upper end of that interval.
    #[serde(default = "one")]
    pub at_most: f64,
    /// A run this many times as long would decide at the present rate; absent if decided and beyond
    /// 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times_longer: Option<f64>,
    /// The result as a sentence.
    pub sentence: String,
    /// Evidence, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub basis: String,
}

const fn one() -> f64 {
    1.0
}

/// By what a run is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judging {
    pub limit: Limit,
    /// Verdicts that share the level, so that with 95 % none of them is a wrong FAIL: the cells of a
    /// bench, times the looks at a run that ends when it is decided.
    pub verdicts: usize,
    /// Those that share it so that with 95 % none is a wrong PASS: the tunings of a bench, times the
    /// looks. A tuning passes only where all of its cells do, so that one of them that should not is
    /// enough to stop it (Berger, 1982): loads share nothing.
    pub passes: usize,
    /// What is known of outages that were not seen.
    pub unseen: Unseen,
}

/// The mean size of an outage that was not seen yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unseen {
    /// Nothing is known of it: [`UNSEEN`].
    Assumed,
    /// That of outages under the same load, in releases.
    Seen(f64),
}

impl From<Limit> for Judging {
    fn from(limit: Limit) -> Self {
        Self { limit, verdicts: 1, passes: 1, unseen: Unseen::Assumed }
    }
}

impl Judging {
    /// How PASS is judged; FAIL by the same with its own share of the level.
    fn rule(&self, evidence: &Evidence) -> Rule {
        let rule = Rule::new(allowed_rate(self.limit)).shared_by(self.passes);
        match (evidence.joined, evidence.shorter_below(), self.unseen) {
            (Joined::Never, ..) => rule.with_unseen(1.0),
            (_, Some(Below { largest, .. }), _) => {
                rule.with_unseen((largest as f64).max(LEAST_UNSEEN))
            }
            (_, None, Unseen::Seen(size)) => rule.with_unseen(size.min(UNSEEN)),
            (_, None, Unseen::Assumed) => rule,
        }
    }
}

/// Judges a run by a limit.
///
/// A release that was skipped counts with the latency it had when the next cycle started, and is
/// always over a limit on the response time. Samples that were lost between loop and recorder might
/// have been over and might not: they count against either outcome. So do samples of an imported
/// run in a cell that reaches beyond the limit.
#[must_use]
pub fn judge(run: &RunFile, by: impl Into<Judging>) -> Verdict {
    let by: Judging = by.into();
    let judging = Judging { limit: on_all_releases(run, by.limit), ..by };
    let evidence = Evidence::of(run, judging.limit);
    let allowed = allowed_rate(judging.limit);
    let rule = judging.rule(&evidence);
    let of_fail = Rule { level: LEVEL, ..rule }.shared_by(judging.verdicts);
    let late = evidence.with_open_late();
    let bounds = match evidence.uncounted {
        None => Bounds {
            lower: of_fail.bounds(&evidence.with_open_on_time()).lower,
            upper: rule.bounds(&late).upper,
        },
        Some(true) => Bounds { lower: 1.0, upper: 1.0 },
        Some(false) => Bounds { lower: 0.0, upper: 1.0 },
    };

    let sums = evidence.outages.sums;
    let outcome = if evidence.outages.releases == 0 {
        Outcome::Inconclusive
    } else if allowed == 0.0 {
        match (sums.late, evidence.open()) {
            (0, 0) => Outcome::Pass,
            (0, _) => Outcome::Inconclusive,
            _ => Outcome::Fail,
        }
    } else if bounds.lower > allowed {
        Outcome::Fail
    } else if bounds.upper <= allowed {
        Outcome::Pass
    } else {
        Outcome::Inconclusive
    };

    let is_open = outcome == Outcome::Inconclusive
        && allowed > 0.0
        && evidence.uncounted.is_none()
        && !evidence.hangs_on_buckets(allowed);
    let deciding = evidence.deciding(allowed);
    let times_longer = if is_open { rule.times_longer(&deciding) } else { None };
    let judged =
        Judged { evidence: &evidence, judging: &judging, rule, outcome, bounds, times_longer };
    Verdict {
        outcome,
        over: sums.late,
        outages: sums.outages,
        unsure: evidence.unsure,
        releases: evidence.outages.releases,
        needed: if allowed > 0.0 { rule.releases_with_none_late() } else { 1 },
        at_least: bounds.lower,
        at_most: bounds.upper,
        times_longer,
        sentence: judged.sentence(),
        basis: judged.basis(),
    }
}

/// The sizes of outages over a limit in several runs, all together: what one that was not seen yet
/// is like. `None` where none was seen.
#[must_use]
pub fn sizes_seen(runs: &[&RunFile], limit: Limit) -> Option<f64> {
    let sums = runs
        .iter()
        .map(|run| Evidence::of(run, on_all_releases(run, limit)).outages.sums)
        .fold(OutageSums::default(), OutageSums::and);
    (sums.outages > 0).then(|| (sums.late as f64 / sums.outages as f64).max(LEAST_UNSEEN))
}

/// An outage that was not seen yet is never taken to be shorter than this, in releases.
const LEAST_UNSEEN: f64 = 10.0;

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
