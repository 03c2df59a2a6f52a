//! Checks a machine against the catalogue: a finding for each record.
//!
//! Nothing is written, and no right is asked for. A wrong [`CheckVerdict::Good`] is the worst
//! error: what cannot be read, or not with certainty, is [`CheckVerdict::Unknown`] with the reason.

use std::collections::BTreeSet;

use super::host_tree::HostTree;
use super::known_facts;
use super::loop_setup::LoopSetup;
use super::probes::{NoValue, Probe, ProbeReading, ProbeSpec};
use super::record::{ProbeCombination, TuningLayer, TuningRecord};
use super::survey::Survey;
use super::wanted::ProbeValue;
use super::{Catalogue, catalogue};

/// What a check found out about one tuning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// As wanted.
    Good,
    /// Not as wanted.
    Bad,
    /// It does not exist or does not matter here, because.
    NotApplicable(String),
    /// It could not be found out, because.
    Unknown(String),
}

impl CheckVerdict {
    /// Returns why nothing was judged; `None` for good and bad.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Good | Self::Bad => None,
            Self::NotApplicable(reason) | Self::Unknown(reason) => Some(reason),
        }
    }
}

/// The state of one tuning on one machine.
///
/// ```
/// use onbeat_tune::catalogue::{CheckVerdict, HostTree, LoopSetup};
///
/// let findings = onbeat_tune::check(&HostTree::live(), &LoopSetup::default());
/// for finding in findings.iter().filter(|finding| finding.verdict == CheckVerdict::Bad) {
///     println!("{}: {} instead of {}", finding.id, finding.current, finding.wanted);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The record's id.
    pub id: String,
    /// The judgement.
    pub verdict: CheckVerdict,
    /// What was read, with its places; empty where nothing was.
    pub current: String,
    /// What it should be; empty where the record does not say.
    pub wanted: String,
    /// What would make it good; empty unless it is bad.
    pub fix: String,
}

impl Finding {
    /// Returns it as good by what the machine's other files hold.
    pub(super) fn made_good(self, current: String) -> Self {
        Self { verdict: CheckVerdict::Good, current, fix: String::new(), ..self }
    }

    /// Returns it as one that does not matter here, because.
    pub(super) fn made_needless(self, reason: String) -> Self {
        Self { verdict: CheckVerdict::NotApplicable(reason), fix: String::new(), ..self }
    }
}

/// Checks a machine against the built-in catalogue, in the order of the records.
///
/// Takes some tens of milliseconds on a machine with a few hundred threads. Opens files for reading
/// only.
///
/// ```
/// use onbeat_tune::catalogue::{HostTree, LoopSetup, catalogue};
///
/// let findings = onbeat_tune::check(&HostTree::live(), &LoopSetup::default());
/// assert_eq!(findings.len(), catalogue().records.len());
/// ```
#[must_use]
pub fn check(host: &HostTree, setup: &LoopSetup) -> Vec<Finding> {
    check_against(catalogue(), host, setup)
}

/// Checks a machine against any catalogue.
#[must_use]
pub fn check_against(catalogue: &Catalogue, host: &HostTree, setup: &LoopSetup) -> Vec<Finding> {
    let survey = Survey::new(host, setup);
    catalogue.records.iter().map(|record| finding(record, &survey)).collect()
}

pub(crate) fn finding(record: &TuningRecord, survey: &Survey<'_>) -> Finding {
    let finding = applies(record, survey).map_or_else(
        |why| {
            let (id, verdict, empty) = (record.id.clone(), why.into(), String::new);
            Finding { id, verdict, current: empty(), wanted: empty(), fix: empty() }
        },
        |()| probed(record, survey),
    );
    known_facts::reconsider(finding, survey)
}

/// What the record's own probes say.
fn probed(record: &TuningRecord, survey: &Survey<'_>) -> Finding {
    let probes: Vec<_> =
        record.probe.iter().map(|spec| (spec, judge(spec.probe(), survey))).collect();
    let verdicts = probes
        .iter()
        .map(|(_, readings)| all_good(readings.iter().map(|judged| judged.verdict.clone())));
    let verdict = match record.combine {
        ProbeCombination::All => all_good(verdicts),
        ProbeCombination::Any => any_good(verdicts),
    };

    // What is good already, or does not exist here, is not to be set.
    let decides = |judged: &JudgedReading| match verdict {
        CheckVerdict::Bad => judged.verdict == CheckVerdict::Bad,
        CheckVerdict::NotApplicable(_) => true,
        _ => !matches!(judged.verdict, CheckVerdict::NotApplicable(_)),
    };
    let deciding: Vec<&ProbeSpec> = probes
        .iter()
        .filter(|(_, readings)| readings.iter().any(decides))
        .map(|(spec, _)| *spec)
        .collect();
    let readings: Vec<JudgedReading> =
        probes.iter().flat_map(|(_, readings)| readings.iter().cloned()).collect();

    Finding {
        id: record.id.clone(),
        current: in_words(&readings, &verdict),
        wanted: wanted_in_words(&deciding, record.combine, survey),
        fix: if verdict == CheckVerdict::Bad {
            survey.fill(&record.ways_with(deciding).join("; "))
        } else {
            String::new()
        },
        verdict,
    }
}

/// Whether the record's layers and needs fit the machine and the loop.
fn applies(record: &TuningRecord, survey: &Survey<'_>) -> Result<(), NoValue> {
    let not = |reason: &str| Err(NoValue::NotApplicable(reason.to_owned()));
    let has = |layer| record.layers.contains(&layer);

    let is_anywhere = has(TuningLayer::Program)
        || has(TuningLayer::Vmm)
        || (has(TuningLayer::Bare) && has(TuningLayer::Guest));
    if !is_anywhere && (has(TuningLayer::Bare) || has(TuningLayer::Guest)) {
        match survey.is_guest()? {
            true if !has(TuningLayer::Guest) => return not("this is a guest: its host decides"),
            false if !has(TuningLayer::Bare) => return not("this is not a guest"),
            _ => {}
        }
    }
    if record.layers == [TuningLayer::Host] && !survey.setup().runs_guests {
        return not("this machine runs no real-time guests");
    }

    record.needs.iter().try_for_each(|need| need.holds(survey))
}

/// A reading with its judgement.
#[derive(Clone, Debug)]
struct JudgedReading {
    place: String,
    value: Option<ProbeValue>,
    verdict: CheckVerdict,
}

fn judge(probe: &dyn Probe, survey: &Survey<'_>) -> Vec<JudgedReading> {
    let judged = |reading: ProbeReading| {
        let ProbeReading { place, value } = reading;
        let verdict = match (&value, probe.wanted()) {
            (Err(why), _) => why.clone().into(),
            (Ok(_), None) => {
                CheckVerdict::NotApplicable("a fact that decides which tunings apply".to_owned())
            }
            (Ok(value), Some(wanted)) => match wanted.holds(value, survey) {
                Ok(true) => CheckVerdict::Good,
                Ok(false) => CheckVerdict::Bad,
                Err(why) => why.into(),
            },
        };
        JudgedReading { place, value: value.ok(), verdict }
    };
    let mut readings: Vec<_> = probe.read(survey).into_iter().map(judged).collect();
    if readings.is_empty() {
        let verdict = CheckVerdict::Unknown("nothing was read".to_owned());
        readings.push(JudgedReading { place: String::new(), value: None, verdict });
    }

    readings
}

impl From<NoValue> for CheckVerdict {
    fn from(why: NoValue) -> Self {
        match why {
            NoValue::NotApplicable(reason) => Self::NotApplicable(reason),
            NoValue::Unknown(reason) => Self::Unknown(reason),
        }
    }
}

/// Bad where one is; unknown where one is; good where one is and the rest does not apply.
fn all_good(verdicts: impl Iterator<Item = CheckVerdict>) -> CheckVerdict {
    let rank = |verdict: &CheckVerdict| match verdict {
        CheckVerdict::Bad => 0,
        CheckVerdict::Unknown(_) => 1,
        CheckVerdict::Good => 2,
        CheckVerdict::NotApplicable(_) => 3,
    };
    first_by(verdicts, rank)
}

/// Good where one is; unknown where one is; bad where one is and the rest does not apply.
fn any_good(verdicts: impl Iterator<Item = CheckVerdict>) -> CheckVerdict {
    let rank = |verdict: &CheckVerdict| match verdict {
        CheckVerdict::Good => 0,
        CheckVerdict::Unknown(_) => 1,
        CheckVerdict::Bad => 2,
        CheckVerdict::NotApplicable(_) => 3,
    };
    first_by(verdicts, rank)
}

fn first_by(
    verdicts: impl Iterator<Item = CheckVerdict>,
    rank: impl Fn(&CheckVerdict) -> u8,
) -> CheckVerdict {
    verdicts
        .min_by_key(rank)
        .unwrap_or_else(|| CheckVerdict::Unknown("nothing was read".to_owned()))
}

/// Places named in a finding, before the rest is only counted.
const MOST_PLACES: usize = 3;

/// The values that decided: the bad ones of a bad finding, otherwise all that were read.
fn in_words(readings: &[JudgedReading], verdict: &CheckVerdict) -> String {
    let decides = |judged: &&JudgedReading| {
        *verdict != CheckVerdict::Bad || judged.verdict == CheckVerdict::Bad
    };
    let read: Vec<_> = readings
        .iter()
        .filter(decides)
        .filter_map(|j| Some((&j.place, j.value.as_ref()?)))
        .collect();

    let words = |(place, value): &(&String, &ProbeValue)| match place.as_str() {
        "" => value.to_string(),
        place => format!("{place}: {value}"),
    };
    // Each value is named before one is named again, so that none hides among those that are only
    // counted.
    let mut seen = BTreeSet::new();
    let (read, again): (Vec<_>, Vec<_>) =
        read.into_iter().partition(|(_, value)| seen.insert(value.to_string()));
    let read = [read, again].concat();
    let named: Vec<_> = read.iter().take(MOST_PLACES).map(words).collect();
    match read.len().saturating_sub(MOST_PLACES) {
        0 => named.join("; "),
        more => format!("{}; and {more} more", named.join("; ")),
    }
}

fn wanted_in_words(
    probes: &[&ProbeSpec],
    combine: ProbeCombination,
    survey: &Survey<'_>,
) -> String {
    let mut wanted: Vec<String> = Vec::new();
    for want in probes.iter().filter_map(|spec| spec.probe().wanted()) {
        let words = want.in_words(survey);
        if !wanted.contains(&words) {
            wanted.push(words);
        }
    }

    if combine == ProbeCombination::Any {
        // `without CPU 3 or 0` would be read as two CPUs.
        wanted.sort_by_key(|words| words.starts_with("without "));
        return wanted.join(" or ");
    }
    wanted.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_applicable() -> CheckVerdict {
        CheckVerdict::NotApplicable("absent".to_owned())
    }

    fn unknown() -> CheckVerdict {
        CheckVerdict::Unknown("no right".to_owned())
    }

    #[test]
    fn all_values_must_be_good_and_none_unknown() {
        let all = |verdicts: &[CheckVerdict]| all_good(verdicts.iter().cloned());
        assert_eq!(all(&[CheckVerdict::Good, not_applicable()]), CheckVerdict::Good);
        assert_eq!(all(&[CheckVerdict::Good, unknown()]), unknown());
        assert_eq!(all(&[CheckVerdict::Good, unknown(), CheckVerdict::Bad]), CheckVerdict::Bad);
        assert_eq!(all(&[not_applicable()]), not_applicable());
    }

    #[test]
    fn one_good_value_is_enough_and_an_unknown_one_is_not_bad() {
        let any = |verdicts: &[CheckVerdict]| any_good(verdicts.iter().cloned());
        assert_eq!(any(&[CheckVerdict::Bad, CheckVerdict::Good]), CheckVerdict::Good);
        assert_eq!(any(&[CheckVerdict::Bad, unknown()]), unknown());
        assert_eq!(any(&[CheckVerdict::Bad, not_applicable()]), CheckVerdict::Bad);
    }
}
