//! Findings beside their records: in the order in which they are printed, and as JSON.

use onbeat::cause::CauseKind;
use onbeat::report::causes::{self, Causes};
use onbeat_tune::catalogue::record::TakesEffect;
use onbeat_tune::catalogue::{CheckVerdict, Finding, LoopSetup, TuningRecord};
use serde::Serialize;

/// Names the fields of what `tune check --json` prints.
const CHECK_SCHEMA: &str = "onbeat.tune-check/1";

/// One tuning with its finding.
#[derive(Debug)]
pub(crate) struct CheckedTuning {
    pub(crate) record: &'static TuningRecord,
    pub(crate) finding: Finding,
    /// The share of a run's lateness that has a cause which the tuning removes or reduces, 0 to 1;
    /// `None` without a run.
    pub(crate) share: Option<f64>,
    /// What it was worth here when it was measured, in words.
    pub(crate) worth: Option<String>,
}

impl CheckedTuning {
    pub(crate) fn new(
        record: &'static TuningRecord,
        finding: Finding,
        run: Option<&Causes>,
    ) -> Self {
        let share = run.map(|causes| causes::share_of(causes, &mended(record)));
        Self { record, finding, share, worth: None }
    }

    /// How much it matters: the expected effect, whose steps are powers of ten, times the share of
    /// the run's lateness.
    fn weight(&self) -> f64 {
        self.share.unwrap_or(1.0) * 10_f64.powi(i32::from(self.record.effect))
    }

    /// Bad findings first, those without a meaning here last.
    const fn rank(&self) -> u8 {
        match self.finding.verdict {
            CheckVerdict::Bad => 0,
            CheckVerdict::Unknown(_) => 1,
            CheckVerdict::Good => 2,
            CheckVerdict::NotApplicable(_) => 3,
        }
    }
}

/// Returns the causes that a tuning removes or reduces.
pub(crate) fn mended(record: &TuningRecord) -> Vec<CauseKind> {
    let kind = |name: &String| serde_json::from_value(serde_json::Value::String(name.clone())).ok();
    record.mends.iter().filter_map(kind).collect()
}

/// Sorts by verdict, then by weight; equal ones stay in the catalogue's order.
pub(crate) fn sort(tunings: &mut [CheckedTuning]) {
    tunings.sort_by(|one, other| {
        one.rank().cmp(&other.rank()).then(other.weight().total_cmp(&one.weight()))
    });
}

/// Findings counted by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct VerdictCounts {
    pub(crate) bad: usize,
    pub(crate) unknown: usize,
    pub(crate) good: usize,
    pub(crate) not_applicable: usize,
}

impl VerdictCounts {
    pub(crate) fn of(tunings: &[CheckedTuning]) -> Self {
        let mut counts = Self::default();
        for tuning in tunings {
            *match tuning.finding.verdict {
                CheckVerdict::Bad => &mut counts.bad,
                CheckVerdict::Unknown(_) => &mut counts.unknown,
                CheckVerdict::Good => &mut counts.good,
                CheckVerdict::NotApplicable(_) => &mut counts.not_applicable,
            } += 1;
        }
        counts
    }
}

/// What a change takes, in one word, in tables and JSON.
pub(crate) const fn takes_word(takes: TakesEffect) -> &'static str {
    match takes {
        TakesEffect::Check => "check",
        TakesEffect::Now => "now",
        TakesEffect::Service => "service",
        TakesEffect::Program => "program",
        TakesEffect::Vm => "vm",
        TakesEffect::Reboot => "reboot",
        TakesEffect::Firmware => "firmware",
        TakesEffect::Rebuild => "rebuild",
        TakesEffect::Host => "host",
    }
}

/// The verdict as JSON has it.
const fn verdict_word(verdict: &CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Bad => "bad",
        CheckVerdict::Unknown(_) => "unknown",
        CheckVerdict::Good => "good",
        CheckVerdict::NotApplicable(_) => "not_applicable",
    }
}

/// A check as `--json` prints it.
#[derive(Serialize)]
struct PrintedCheck<'c> {
    schema: &'static str,
    cpus: String,
    period_us: i64,
    priority: i64,
    counts: VerdictCounts,
    findings: Vec<PrintedFinding<'c>>,
}

#[derive(Serialize)]
struct PrintedFinding<'c> {
    id: &'c str,
    title: &'c str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'c str>,
    effect: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worth_here: Option<&'c str>,
    current: &'c str,
    wanted: &'c str,
    fix: &'c str,
    takes_effect: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    risk: Option<PrintedRisk<'c>>,
    mends: &'c [String],
}

#[derive(Serialize)]
struct PrintedRisk<'c> {
    level: String,
    text: &'c str,
}

impl<'c> PrintedFinding<'c> {
    fn of(CheckedTuning { record, finding, share, worth }: &'c CheckedTuning) -> Self {
        Self {
            id: &record.id,
            title: &record.title,
            verdict: verdict_word(&finding.verdict),
            reason: finding.verdict.reason(),
            effect: record.effect,
            share: *share,
            worth_here: worth.as_deref(),
            current: &finding.current,
            wanted: &finding.wanted,
            fix: &finding.fix,
            takes_effect: record.takes_effect.iter().map(|takes| takes_word(*takes)).collect(),
            risk: record
                .risk
                .as_ref()
                .map(|risk| PrintedRisk { level: risk.level.to_string(), text: &risk.text }),
            mends: &record.mends,
        }
    }
}

/// Returns a check as one JSON object.
pub(crate) fn json(
    setup: &LoopSetup,
    tunings: &[CheckedTuning],
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&PrintedCheck {
        schema: CHECK_SCHEMA,
        cpus: setup.cpus.to_string(),
        period_us: setup.period_us,
        priority: setup.loop_priority,
        counts: VerdictCounts::of(tunings),
        findings: tunings.iter().map(PrintedFinding::of).collect(),
    })
}

#[cfg(test)]
mod tests {
    use onbeat::record::CauseCount;
    use onbeat_tune::catalogue::catalogue;

    use super::*;

    fn checked(id: &str, verdict: CheckVerdict, run: Option<&Causes>) -> CheckedTuning {
        let empty = String::new;
        let finding =
            Finding { id: id.to_owned(), verdict, current: empty(), wanted: empty(), fix: empty() };
        CheckedTuning::new(catalogue().get(id).unwrap(), finding, run)
    }

    fn sorted(mut tunings: Vec<CheckedTuning>) -> Vec<&'static str> {
        sort(&mut tunings);
        tunings.iter().map(|one| one.record.id.as_str()).collect()
    }

    #[test]
    fn bad_findings_come_first_and_the_largest_effect_among_them() {
        let unknown = CheckVerdict::Unknown("no right".to_owned());
        let tunings = vec![
            checked("clock.source", CheckVerdict::Good, None),
            checked("rcu.normal", CheckVerdict::Bad, None),
            checked("irq.noise", unknown, None),
            checked("irq.affinity", CheckVerdict::Bad, None),
        ];
        assert_eq!(sorted(tunings), ["irq.affinity", "rcu.normal", "irq.noise", "clock.source"]);
    }

    #[test]
    fn with_a_run_a_tuning_counts_by_its_share_and_its_expected_effect() {
        let late = |lateness_ns| CauseCount { spikes: 1, lateness_ns, ..CauseCount::default() };
        let causes =
            Causes::from([(CauseKind::PageFault, late(980)), (CauseKind::HardIrq, late(20))]);
        let bad = |id| checked(id, CheckVerdict::Bad, Some(&causes));

        assert!((bad("mem.swappiness").share.unwrap() - 0.98).abs() < 1e-9);
        assert_eq!(
            sorted(vec![
                bad("clock.source"),
                bad("mem.swappiness"),
                bad("irq.affinity"),
                bad("mem.thp")
            ]),
            ["mem.thp", "irq.affinity", "mem.swappiness", "clock.source"],
            "98 % of 100 us, 2 % of milliseconds, 98 % of microseconds, nothing"
        );
    }

    #[test]
    fn every_cause_that_a_record_mends_is_one_of_the_library() {
        for record in &catalogue().records {
            assert_eq!(mended(record).len(), record.mends.len(), "{}", record.id);
        }
    }
}
