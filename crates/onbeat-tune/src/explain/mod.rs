//! What one tuning is, what it is on this machine, and how to set it by hand.
//!
//! | file | contents |
//! |---|---|
//! | this one | [`explain`] and [`TuningExplanation`], which is also the JSON |
//! | `by_hand` | shell lines that set a tuning and that put it back |
//! | `text` | the explanation as text of 80 columns |
//!
//! ```
//! use onbeat_tune::catalogue::{HostTree, LoopSetup};
//!
//! let explained = onbeat_tune::explain("vm.swappiness", &HostTree::live(), &LoopSetup::default());
//! assert!(explained.unwrap_err().to_string().contains("mem.swappiness"));
//! ```
//!
//! Absent on purpose: changing anything, and advice that is not in the record.

mod by_hand;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::catalogue::check::finding;
use crate::catalogue::survey::Survey;
use crate::catalogue::{Catalogue, CheckVerdict, HostTree, LoopSetup, TuningRecord, catalogue};

/// Why a tuning cannot be explained.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExplainError {
    /// No record or alias has this id.
    #[error("no tuning has the id \"{id}\"{}. `onbeat tune check --all` lists all {known}", nearest_words(.nearest))]
    UnknownId {
        /// The id as given.
        id: String,
        /// Ids that resemble it, the nearest first.
        nearest: Vec<String>,
        /// The number of ids.
        known: usize,
    },
}

fn nearest_words(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        nearest => format!("; similar ids are {}", nearest.join(", ")),
    }
}

/// A document that a record stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedSource {
    /// As records name it; for a public issue `OWNER/REPOSITORY#NUMBER`.
    pub tag: String,
    /// Author and title; empty for an issue.
    pub title: String,
}

/// A way to set a tuning, or to put it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub enum ManualStep {
    /// A line for a root shell.
    Shell(String),
    /// Parameters for the kernel command line.
    KernelParameters(String),
    /// A sentence.
    Instruction(String),
}

/// One tuning on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TuningExplanation {
    /// Name and version of this structure in JSON: `onbeat.explanation/1`.
    pub schema: &'static str,
    /// The record's id.
    pub id: String,
    /// What it is, in a few words.
    pub title: String,
    /// What it does.
    pub what: String,
    /// Why it matters to a periodic loop.
    pub why: String,
    /// Expected effect on the tail of a 1 kHz loop, 0 to 3.
    pub effect: u8,
    /// `good`, `bad`, `not applicable` or `unknown` on this machine.
    pub verdict: &'static str,
    /// Why it is not judged.
    pub reason: Option<String>,
    /// What was read; empty where nothing was.
    pub current: String,
    /// What it should be here; empty where the record does not say.
    pub wanted: String,
    /// How to set it by hand.
    pub set: Vec<ManualStep>,
    /// How to put it back.
    pub undo: Vec<ManualStep>,
    /// What a change takes before it has an effect.
    pub takes_effect: Vec<String>,
    /// `none` to `high`; `None` for a record that is only checked.
    pub risk: Option<String>,
    /// What the change may break.
    pub risk_text: Option<String>,
    /// What must be so for the record to apply.
    pub needs: Vec<String>,
    /// Ids that are changed before this one.
    pub after: Vec<String>,
    /// Ids that are changed after this one.
    pub before: Vec<String>,
    /// Ids that cannot be in effect together with this one.
    pub conflicts: Vec<String>,
    /// Profiles that contain it.
    pub profiles: Vec<String>,
    /// Causes of latency that it removes or reduces.
    pub mends: Vec<String>,
    /// Where the facts come from.
    pub sources: Vec<ExplainedSource>,
}

/// Explains a tuning on a machine, or each record that an alias stands for.
///
/// Opens files for reading only, without root; what cannot be read is `unknown` with the reason.
///
/// # Errors
/// [`ExplainError::UnknownId`] with similar ids.
///
/// ```
/// use onbeat_tune::catalogue::{HostTree, LoopSetup};
///
/// let host = HostTree::live();
/// let explained = onbeat_tune::explain("mem.swappiness", &host, &LoopSetup::default())?;
/// assert!(explained[0].to_string().contains("vm.swappiness"));
/// # Ok::<(), onbeat_tune::explain::ExplainError>(())
/// ```
pub fn explain(
    id: &str,
    host: &HostTree,
    setup: &LoopSetup,
) -> Result<Vec<TuningExplanation>, ExplainError> {
    let catalogue = catalogue();
    let records = catalogue.resolve(id);
    if records.is_empty() {
        let known = catalogue.records.len() + catalogue.aliases.len();
        return Err(ExplainError::UnknownId {
            id: id.to_owned(),
            nearest: nearest(catalogue, id),
            known,
        });
    }

    let survey = Survey::new(host, setup);
    Ok(records.into_iter().map(|record| explain_record(catalogue, record, &survey)).collect())
}

/// Similarity from which an id is offered, of at most 1.
const LEAST_SIMILARITY: f64 = 0.8;
const MOST_OFFERED: usize = 4;

/// Ids with the same item or section, or that resemble the given one.
fn nearest(catalogue: &Catalogue, id: &str) -> Vec<String> {
    let item = id.rsplit('.').next().unwrap_or(id);
    let similarity = |known: &str| {
        let known_item = known.rsplit('.').next().unwrap_or(known);
        let by_item = strsim::jaro_winkler(item, known_item);
        strsim::jaro_winkler(id, known).max(by_item)
    };
    let aliases = catalogue.aliases.iter().map(|alias| &alias.id);
    let ids = catalogue.records.iter().map(|record| &record.id).chain(aliases);
    let mut ranked: Vec<_> = ids.map(|known| (similarity(known), known)).collect();
    ranked.retain(|(similarity, _)| *similarity >= LEAST_SIMILARITY);
    ranked.sort_by(|(first, _), (second, _)| second.total_cmp(first));
    ranked.into_iter().take(MOST_OFFERED).map(|(_, known)| known.clone()).collect()
}

fn explain_record(
    catalogue: &Catalogue,
    record: &TuningRecord,
    survey: &Survey<'_>,
) -> TuningExplanation {
    let finding = finding(record, survey);
    let source = |tag: &String| {
        let source = catalogue.sources.iter().find(|source| source.tag == *tag);
        let title = source.map(|source| source.title.clone()).unwrap_or_default();
        ExplainedSource { tag: tag.clone(), title }
    };
    let in_profile =
        |name: &&String| catalogue.profile(name).iter().any(|known| known.id == record.id);
    let profiles = catalogue.profiles.iter().map(|profile| &profile.name);

    TuningExplanation {
        schema: "onbeat.explanation/1",
        id: record.id.clone(),
        title: record.title.clone(),
        what: record.what.clone(),
        why: record.why.clone(),
        effect: record.effect,
        verdict: verdict_words(&finding.verdict),
        reason: finding.verdict.reason().map(str::to_owned),
        current: finding.current,
        wanted: finding.wanted,
        set: by_hand::set(record, survey),
        undo: by_hand::undo(record, survey),
        takes_effect: record.takes_effect.iter().map(ToString::to_string).collect(),
        risk: record.risk.as_ref().map(|risk| risk.level.to_string()),
        risk_text: record.risk.as_ref().map(|risk| risk.text.clone()),
        needs: record.needs.iter().map(ToString::to_string).collect(),
        after: joined(catalogue, record, &record.after, |other| &other.before),
        before: record.before.clone(),
        conflicts: joined(catalogue, record, &record.conflicts, |other| &other.conflicts),
        profiles: profiles.filter(in_profile).cloned().collect(),
        mends: record.mends.clone(),
        sources: record.sources.iter().map(source).collect(),
    }
}

const fn verdict_words(verdict: &CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Good => "good",
        CheckVerdict::Bad => "bad",
        CheckVerdict::NotApplicable(_) => "not applicable",
        CheckVerdict::Unknown(_) => "unknown",
    }
}

/// The ids that a record names, with those of the records that name it: an edge stands at either of
/// its ends.
fn joined(
    catalogue: &Catalogue,
    record: &TuningRecord,
    named: &[String],
    named_there: impl Fn(&TuningRecord) -> &[String],
) -> Vec<String> {
    let others = catalogue.records.iter().filter(|other| named_there(other).contains(&record.id));
    let ids: BTreeSet<&String> = named.iter().chain(others.map(|other| &other.id)).collect();
    ids.into_iter().cloned().collect()
}
