//! Findings beside their records: in the order in which they are printed, and as JSON.

use std::path::Path;

use onbeat::cause::CauseKind;
use onbeat_host::power;
use onbeat_report::causes;
use onbeat_tune::catalogue::record::TakesEffect;
use onbeat_tune::catalogue::{CheckVerdict, Finding, LoopSetup, TuningRecord};
use onbeat_tune::evidence::{Evidence, RecordEvidence};
use serde::Serialize;

use super::evidence::{WakeUpProbe, WatchedMachine};
use super::spike_causes::SpikeCauses;

/// Names the fields of what `tune check --json` prints.
const CHECK_SCHEMA: &str = "onbeat.tune-check/1";

/// The spikes of a run that a tuning concerns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct ExplainedSpikes {
    /// Spikes whose main cause the tuning removes or reduces.
    pub(crate) spikes: u64,
    /// All spikes with a cause.
    pub(crate) of: u64,
    /// The share of all lateness that they have, 0 to 1.
    pub(crate) lateness_share: f64,
    /// Whether the run's report advises the tuning.
    pub(crate) advised: bool,
}

impl ExplainedSpikes {
    fn new(record: &TuningRecord, run: &SpikeCauses) -> Self {
        let kinds = mended(record);
        let counts = run.causes.iter();
        let spikes = counts.clone().filter(|(kind, _)| kinds.contains(kind));
        Self {
            spikes: spikes.map(|(_, count)| count.spikes).sum(),
            of: counts.map(|(_, count)| count.spikes).sum(),
            lateness_share: causes::share_of(&run.causes, &kinds),
            advised: run.advised.contains(&record.id),
        }
    }
}

/// What the effect of a tuning is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EffectEvidence {
    /// It was measured on this machine, explains spikes of the run, or its counters moved.
    MeasuredHere,
    /// Its sources saw it on other machines; nothing was measured here.
    Known,
    /// No effect on latency is expected.
    Hygiene,
}

impl EffectEvidence {
    /// In the words of tables.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::MeasuredHere => "here",
            Self::Known => "known",
            Self::Hygiene => "hygiene",
        }
    }

    /// In a sentence behind the expected effect.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::MeasuredHere => "measured here",
            Self::Known => "known from the sources below, not measured here",
            Self::Hygiene => "hygiene",
        }
    }
}

/// One tuning with its finding.
#[derive(Debug)]
pub(crate) struct CheckedTuning {
    pub(crate) record: &'static TuningRecord,
    pub(crate) finding: Finding,
    /// The spikes that it concerns; `None` without a run.
    pub(crate) explained: Option<ExplainedSpikes>,
    /// What its counters say; `None` where none was watched.
    pub(crate) evidence: Option<RecordEvidence>,
    /// What it was worth here when it was measured, in words.
    pub(crate) worth: Option<String>,
}

/// How much more a tuning counts whose counters moved, or that the run's report advises: one step
/// of the expected effect.
const ONE_STEP: f64 = 10.0;

impl CheckedTuning {
    pub(crate) fn new(
        record: &'static TuningRecord,
        finding: Finding,
        run: Option<&SpikeCauses>,
    ) -> Self {
        let explained = run.map(|run| ExplainedSpikes::new(record, run));
        Self { record, finding, explained, evidence: None, worth: None }
    }

    /// Adds what the counters say, by which a finding that needs two readings is judged.
    pub(crate) fn watched(self, evidence: &Evidence, setup: &LoopSetup) -> Self {
        let about = evidence.about(self.record, &setup.cpus);
        let finding = evidence.judged(self.record, self.finding, &setup.cpus);
        Self { finding, evidence: about, ..self }
    }

    /// What its effect is known from.
    pub(crate) fn effect_evidence(&self) -> EffectEvidence {
        let moved = matches!(self.evidence, Some(RecordEvidence::Moved(_)));
        let explains = self.explained.is_some_and(|explained| explained.spikes > 0);
        match self.record.effect {
            _ if moved || explains || self.worth.is_some() => EffectEvidence::MeasuredHere,
            0 => EffectEvidence::Hygiene,
            _ => EffectEvidence::Known,
        }
    }

    /// How much it matters: the expected effect, whose steps are powers of ten, times the share of
    /// the run's lateness. Counters that moved count as a step more, those that stood still as a
    /// step less.
    fn weight(&self) -> f64 {
        let share = self.explained.map_or(1.0, |explained| explained.lateness_share);
        let advised = self.explained.is_some_and(|explained| explained.advised);
        let seen = match &self.evidence {
            Some(RecordEvidence::Moved(_)) => ONE_STEP,
            Some(RecordEvidence::Still) => 1.0 / ONE_STEP,
            Some(RecordEvidence::Unread(_)) | None => 1.0,
        };
        let steps = 10_f64.powi(i32::from(self.record.effect));
        share * steps * seen * if advised { ONE_STEP } else { 1.0 }
    }

    /// What is changed at once comes before what takes a reboot; what is only checked comes last.
    fn effort(&self) -> TakesEffect {
        let takes = self.record.takes_effect.iter().copied();
        takes.filter(|takes| *takes != TakesEffect::Check).min().unwrap_or(TakesEffect::Host)
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

/// Sorts by verdict, then by weight, then by what a change takes; equal ones stay in the
/// catalogue's order.
pub(crate) fn sort(tunings: &mut [CheckedTuning]) {
    tunings.sort_by(|one, other| {
        let by_weight = other.weight().total_cmp(&one.weight());
        one.rank().cmp(&other.rank()).then(by_weight).then(one.effort().cmp(&other.effort()))
    });
}

/// Findings counted by verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VerdictCounts {
    pub(crate) bad: usize,
    pub(crate) unknown: usize,
    pub(crate) good: usize,
    pub(crate) not_applicable: usize,
}

impl VerdictCounts {
    pub(crate) fn from_tunings(tunings: &[CheckedTuning]) -> Self {
        let of = |rank| tunings.iter().filter(|tuning| tuning.rank() == rank).count();
        Self { bad: of(0), unknown: of(1), good: of(2), not_applicable: of(3) }
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
pub(crate) const fn verdict_word(verdict: &CheckVerdict) -> &'static str {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'c Evidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_up_probe: Option<&'c WakeUpProbe>,
    #[serde(skip_serializing_if = "Option::is_none")]
    power: Option<PrintedPower>,
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
    effect_evidence: EffectEvidence,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explained: Option<ExplainedSpikes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<PrintedEvidence<'c>>,
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

/// What keeps this machine awake, and what lets it sleep.
#[derive(Serialize)]
struct PrintedPower {
    /// `null` where the kernel has no such limit or this user may not read it.
    idle_exit_latency: Option<PrintedLatencyLimit>,
    /// Network interfaces and graphics cards that the kernel may suspend while the machine runs.
    suspendable: Vec<PrintedDevice>,
}

#[derive(Serialize)]
struct PrintedLatencyLimit {
    /// In microseconds; `null`: no limit.
    limit_us: Option<i32>,
    /// Who holds `/dev/cpu_dma_latency` open, as far as this user may see.
    holders: Vec<PrintedHolder>,
}

#[derive(Serialize)]
struct PrintedHolder {
    name: String,
    pid: u32,
}

#[derive(Serialize)]
struct PrintedDevice {
    name: String,
    is_suspended: bool,
}

impl PrintedPower {
    fn read() -> Self {
        let holder = |(name, pid)| PrintedHolder { name, pid };
        let limit = power::latency_limit().map(|limit| PrintedLatencyLimit {
            limit_us: limit.us,
            holders: limit.holders.into_iter().map(holder).collect(),
        });
        let device =
            |of: power::Suspendable| PrintedDevice { name: of.name, is_suspended: of.is_suspended };
        let suspendable = power::suspendable(Path::new("/")).into_iter().map(device).collect();
        Self { idle_exit_latency: limit, suspendable }
    }
}

#[derive(Serialize)]
struct PrintedRisk<'c> {
    level: String,
    text: &'c str,
}

/// What the counters say of a finding.
#[derive(Serialize)]
struct PrintedEvidence<'c> {
    state: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    sentences: &'c [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'c str>,
}

impl<'c> PrintedEvidence<'c> {
    fn new(evidence: &'c RecordEvidence) -> Self {
        match evidence {
            RecordEvidence::Moved(sentences) => Self { state: "moved", sentences, reason: None },
            RecordEvidence::Still => Self { state: "still", sentences: &[], reason: None },
            RecordEvidence::Unread(reason) => {
                Self { state: "unread", sentences: &[], reason: Some(reason) }
            }
        }
    }
}

impl<'c> PrintedFinding<'c> {
    fn new(tuning: &'c CheckedTuning) -> Self {
        let CheckedTuning { record, finding, explained, evidence, worth } = tuning;
        Self {
            id: &record.id,
            title: &record.title,
            verdict: verdict_word(&finding.verdict),
            reason: finding.verdict.reason(),
            effect: record.effect,
            effect_evidence: tuning.effect_evidence(),
            share: explained.map(|explained| explained.lateness_share),
            explained: *explained,
            evidence: evidence.as_ref().map(PrintedEvidence::new),
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

/// Returns a check as one JSON object; `is_live` for this machine, whose power management it then
/// has too.
pub(crate) fn json(
    setup: &LoopSetup,
    is_live: bool,
    watched: Option<&WatchedMachine>,
    tunings: &[CheckedTuning],
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&PrintedCheck {
        schema: CHECK_SCHEMA,
        cpus: setup.cpus.to_string(),
        period_us: setup.period_us,
        priority: setup.loop_priority,
        counts: VerdictCounts::from_tunings(tunings),
        evidence: watched.map(|watched| &watched.evidence),
        wake_up_probe: watched.map(|watched| &watched.probe),
        power: is_live.then(PrintedPower::read),
        findings: tunings.iter().map(PrintedFinding::new).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use onbeat::record::CauseCount;
    use onbeat_report::causes::Causes;
    use onbeat_tune::catalogue::catalogue;

    use super::*;

    fn checked(id: &str, verdict: CheckVerdict, run: Option<&SpikeCauses>) -> CheckedTuning {
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
    fn an_effect_is_measured_here_known_from_elsewhere_or_hygiene() {
        let bad = |id| checked(id, CheckVerdict::Bad, None);
        assert_eq!(bad("irq.affinity").effect_evidence(), EffectEvidence::Known);
        assert_eq!(bad("dbg.hung_task").effect_evidence(), EffectEvidence::Hygiene);

        let moved = RecordEvidence::Moved(vec!["interrupt 24 (eth0) fired once".to_owned()]);
        let with = |evidence| CheckedTuning { evidence: Some(evidence), ..bad("irq.affinity") };
        assert_eq!(with(moved).effect_evidence(), EffectEvidence::MeasuredHere);
        assert_eq!(with(RecordEvidence::Still).effect_evidence(), EffectEvidence::Known);
        let worth = CheckedTuning { worth: Some("x 0.6".to_owned()), ..bad("timer.slack") };
        assert_eq!(worth.effect_evidence(), EffectEvidence::MeasuredHere);
    }

    #[test]
    fn the_power_management_of_this_machine_is_part_of_its_check_alone() {
        let printed = |is_live| json(&LoopSetup::default(), is_live, None, &[]).unwrap();
        let here: serde_json::Value = serde_json::from_str(&printed(true)).unwrap();
        assert!(here["power"]["suspendable"].is_array(), "{here}");
        assert!(here["power"].as_object().unwrap().contains_key("idle_exit_latency"), "{here}");
        assert!(!printed(false).contains("power"));
    }

    #[test]
    fn with_a_run_a_tuning_counts_by_its_share_and_its_expected_effect() {
        let late = |lateness_ns| CauseCount { spikes: 1, lateness_ns, ..CauseCount::default() };
        let causes =
            Causes::from([(CauseKind::PageFault, late(980)), (CauseKind::HardIrq, late(20))]);
        let run = SpikeCauses { causes, advised: BTreeSet::new() };
        let bad = |id| checked(id, CheckVerdict::Bad, Some(&run));

        let explained = bad("mem.swappiness").explained.unwrap();
        assert!((explained.lateness_share - 0.98).abs() < 1e-9);
        assert_eq!((explained.spikes, explained.of, explained.advised), (1, 2, false));
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
    fn of_equal_causes_the_tuning_that_the_report_advises_comes_first() {
        let count = CauseCount { spikes: 3, lateness_ns: 900, ..CauseCount::default() };
        let causes = Causes::from([(CauseKind::Preempted, count)]);
        let advised = [String::from("shield.threads")].into();
        let run = SpikeCauses { causes, advised };
        let bad = |id| checked(id, CheckVerdict::Bad, Some(&run));
        assert_eq!(sorted(vec![bad("svc.noise"), bad("shield.threads")])[0], "shield.threads");
    }

    #[test]
    fn a_finding_whose_counters_moved_goes_up_and_one_whose_counters_stood_still_down() {
        let with = |id, evidence| CheckedTuning {
            evidence: Some(evidence),
            ..checked(id, CheckVerdict::Bad, None)
        };
        let moved = RecordEvidence::Moved(vec!["interrupt 24 (eth0) fired once".to_owned()]);
        assert_eq!(
            sorted(vec![
                with("shield.isolcpus", RecordEvidence::Still),
                checked("freq.governor", CheckVerdict::Bad, None),
                with("mem.thp", moved),
            ]),
            ["freq.governor", "mem.thp", "shield.isolcpus"],
            "at equal weight, what takes no reboot comes first"
        );
    }

    #[test]
    fn every_cause_that_a_record_mends_is_one_of_the_library() {
        for record in &catalogue().records {
            assert_eq!(mended(record).len(), record.mends.len(), "{}", record.id);
        }
    }
}
