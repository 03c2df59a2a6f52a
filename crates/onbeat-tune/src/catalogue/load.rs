//! Reads the records and holds them to their rules.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Catalogue;
use super::probes::ProbeSpec;
use super::record::{PublishedParameter, TuningAlias, TuningProfile, TuningRecord, TuningSource};

/// The sections, in the order of the catalogue, with the texts of their files.
pub const SECTIONS: [(&str, &str); 20] = [
    ("facts", include_str!("records/facts.toml")),
    ("firmware", include_str!("records/firmware.toml")),
    ("kernel", include_str!("records/kernel.toml")),
    ("scheduler", include_str!("records/scheduler.toml")),
    ("shield", include_str!("records/shield.toml")),
    ("interrupts", include_str!("records/interrupts.toml")),
    ("time", include_str!("records/time.toml")),
    ("power", include_str!("records/power.toml")),
    ("memory", include_str!("records/memory.toml")),
    ("cache", include_str!("records/cache.toml")),
    ("storage", include_str!("records/storage.toml")),
    ("network", include_str!("records/network.toml")),
    ("diagnostics", include_str!("records/diagnostics.toml")),
    ("services", include_str!("records/services.toml")),
    ("program", include_str!("records/program.toml")),
    ("vm_host", include_str!("records/vm_host.toml")),
    ("vmm", include_str!("records/vmm.toml")),
    ("guest", include_str!("records/guest.toml")),
    ("aliases", include_str!("records/aliases.toml")),
    (
        "references",
        concat!(
            include_str!("records/profiles.toml"),
            include_str!("records/sources.toml"),
            include_str!("records/published.toml"),
        ),
    ),
];

pub use super::vocabulary::CAUSES;

/// Variables that values to write, kernel parameters and instructions may hold in braces.
const VARIABLES: [&str; 11] = [
    "loop",
    "loop_cpu",
    "housekeeping",
    "housekeeping_mask",
    "interface",
    "task",
    "cgroup2",
    "period_us",
    "idle_exit_us",
    "loop_priority",
    "node",
];

/// What is wrong with the records.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CatalogueError {
    /// A file is not valid TOML, or a field is unknown, missing or of the wrong kind.
    #[error("records/{section}.toml is not valid: {problem}")]
    Syntax {
        /// The file's name without extension.
        section: &'static str,
        /// The parser's sentence, with line and column.
        problem: String,
    },
    /// Two records or aliases have the same id.
    #[error("the id {id} occurs twice. Ids are unique")]
    Duplicate { id: String },
    /// A record names something that does not exist.
    #[error("{id} names \"{name}\" in {field}, which does not exist")]
    UnknownName {
        /// The record.
        id: String,
        field: &'static str,
        /// What it names.
        name: String,
    },
    /// A record breaks a rule.
    #[error("{id}: {problem}")]
    Rule {
        /// The record.
        id: String,
        /// The rule in words.
        problem: String,
    },
    /// The edges `before` and `after` have no order that fits all of them.
    #[error("these ids come before and after each other: {}", .ids.join(", "))]
    Circle {
        /// The ids that remain when everything with an order is taken away.
        ids: Vec<String>,
    },
}

/// What a file of records may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RecordFile {
    tuning: Vec<TuningRecord>,
    alias: Vec<TuningAlias>,
    profile: Vec<TuningProfile>,
    source: Vec<TuningSource>,
    parameter: Vec<PublishedParameter>,
}

/// Reads the records that are built into onbeat.
///
/// # Errors
/// As [`from_texts`].
pub fn built_in() -> Result<Catalogue, CatalogueError> {
    from_texts(&SECTIONS)
}

/// Reads sections, each with its name and the text of its file.
///
/// # Errors
/// [`CatalogueError`] with the first rule that is broken.
pub fn from_texts(sections: &[(&'static str, &str)]) -> Result<Catalogue, CatalogueError> {
    let mut catalogue = Catalogue::default();
    for (section, text) in sections {
        let syntax =
            |error: toml::de::Error| CatalogueError::Syntax { section, problem: error.to_string() };
        let file: RecordFile = toml::from_str(text).map_err(syntax)?;
        catalogue
            .records
            .extend(file.tuning.into_iter().map(|record| TuningRecord { section, ..record }));
        catalogue.aliases.extend(file.alias);
        catalogue.profiles.extend(file.profile);
        catalogue.sources.extend(file.source);
        catalogue.published.extend(file.parameter);
    }

    validate(&catalogue)?;
    Ok(catalogue)
}

fn validate(catalogue: &Catalogue) -> Result<(), CatalogueError> {
    let ids = unique_ids(catalogue)?;
    for record in &catalogue.records {
        check_names(record, catalogue, &ids)?;
        check_rules(record)?;
    }

    let is_id = |name: &str| ids.contains(name);
    for alias in &catalogue.aliases {
        all_known(&alias.id, "stands_for", &alias.stands_for, is_id)?;
    }
    for parameter in &catalogue.published {
        all_known(&parameter.text, "ids", &parameter.ids, is_id)?;
        if parameter.ids.is_empty() && parameter.remark.is_none() {
            return Err(rule(&parameter.text, "a published parameter needs ids or a remark"));
        }
    }

    order(catalogue).map(drop)
}

fn rule(id: &str, problem: impl Into<String>) -> CatalogueError {
    CatalogueError::Rule { id: id.to_owned(), problem: problem.into() }
}

fn unique_ids(catalogue: &Catalogue) -> Result<BTreeSet<&str>, CatalogueError> {
    let records = catalogue.records.iter().map(|record| record.id.as_str());
    let aliases = catalogue.aliases.iter().map(|alias| alias.id.as_str());
    let mut ids = BTreeSet::new();
    for id in records.chain(aliases) {
        if !ids.insert(id) {
            return Err(CatalogueError::Duplicate { id: id.to_owned() });
        }
    }

    Ok(ids)
}

fn check_names(
    record: &TuningRecord,
    catalogue: &Catalogue,
    ids: &BTreeSet<&str>,
) -> Result<(), CatalogueError> {
    let is_id = |name: &str| ids.contains(name) && name != record.id;
    let is_profile = |name: &str| catalogue.profiles.iter().any(|profile| profile.name == name);
    let is_source = |name: &str| {
        catalogue.sources.iter().any(|source| source.tag == name) || is_public_issue(name)
    };
    let is_cause = |name: &str| CAUSES.contains(&name);

    let id = &record.id;
    all_known(id, "before", &record.before, is_id)?;
    all_known(id, "after", &record.after, is_id)?;
    all_known(id, "conflicts", &record.conflicts, is_id)?;
    all_known(id, "profiles", &record.profiles, is_profile)?;
    all_known(id, "sources", &record.sources, is_source)?;
    all_known(id, "mends", &record.mends, is_cause)
}

fn all_known(
    id: &str,
    field: &'static str,
    names: &[String],
    is_known: impl Fn(&str) -> bool,
) -> Result<(), CatalogueError> {
    match names.iter().find(|name| !is_known(name)) {
        Some(name) => {
            Err(CatalogueError::UnknownName { id: id.to_owned(), field, name: name.clone() })
        }
        None => Ok(()),
    }
}

/// Whether a text names an issue as `OWNER/REPOSITORY#NUMBER`.
fn is_public_issue(text: &str) -> bool {
    let Some((repository, number)) = text.split_once('#') else { return false };
    let parts: Vec<_> = repository.split('/').collect();
    parts.len() == 2 && parts.iter().all(|part| !part.is_empty()) && number.parse::<u32>().is_ok()
}

fn check_rules(record: &TuningRecord) -> Result<(), CatalogueError> {
    let broken = |problem: &str| Err(rule(&record.id, problem));
    let is_name = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    if !record.id.split_once('.').is_some_and(|(section, item)| is_name(section) && is_name(item)) {
        return broken(
            "an id is a section and an item of lower case letters, such as irq.affinity",
        );
    }
    if record.effect > 3 {
        return broken("the effect is 0 to 3");
    }
    if record.sources.is_empty()
        || record.probe.is_empty()
        || record.layers.is_empty()
        || record.takes_effect.is_empty()
    {
        return broken("sources, probe, layers and takes_effect hold at least one entry each");
    }
    let sentences = [&record.what, &record.why];
    if sentences.iter().any(|text| !text.ends_with('.')) {
        return broken("what and why are sentences that end with a full stop");
    }

    let has_value = record.probe.iter().any(|spec| spec.probe().set().is_some());
    if !record.is_check_only()
        && (record.risk.is_none() || (!has_value && record.boot.is_none() && record.fix.is_none()))
    {
        return broken(
            "a record with something to change has a risk, and a value to set, a kernel parameter or a fix",
        );
    }

    record.probe.iter().try_for_each(|spec| check_probe(record, spec))?;
    let texts = record.boot.iter().chain(&record.fix).map(String::as_str);
    texts
        .chain(record.probe.iter().filter_map(|spec| spec.probe().set()))
        .try_for_each(|text| check_variables(record, text))
}

/// The longest name of a task, in bytes: the kernel cuts the rest.
const MOST_COMM_BYTES: usize = 15;

fn check_probe(record: &TuningRecord, spec: &ProbeSpec) -> Result<(), CatalogueError> {
    if let Some(path) = spec.probe().path() {
        check_variables(record, &path)?;
        if !path.starts_with('/') && !path.starts_with("{cgroup2}/") {
            return Err(rule(&record.id, format!("the path {path} is not absolute")));
        }
        let is_needed =
            |need: &str| record.needs.iter().any(|known| Ok(known) == need.parse().as_ref());
        for need in ["interface", "task"] {
            if path.contains(&format!("{{{need}}}")) && !is_needed(need) {
                return Err(rule(&record.id, format!("a path with {{{need}}} needs \"{need}\"")));
            }
        }
    }

    match spec {
        ProbeSpec::Msr(msr) if msr.bit_range().is_none() => {
            Err(rule(&record.id, format!("bits \"{}\"", msr.bits)))
        }
        ProbeSpec::Units(units) => {
            match units.processes.iter().find(|name| name.len() > MOST_COMM_BYTES) {
                Some(name) => Err(rule(
                    &record.id,
                    format!("the process name {name} is longer than 15 bytes"),
                )),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn check_variables(record: &TuningRecord, text: &str) -> Result<(), CatalogueError> {
    let pieces = text.split('{').skip(1);
    let names = pieces.map(|piece| piece.split('}').next().unwrap_or(piece).to_owned());
    let names: Vec<_> = names.collect();
    all_known(&record.id, "a variable", &names, |name| VARIABLES.contains(&name))
}

/// Returns all ids in an order that fits the edges `before` and `after`; where the edges leave a
/// choice, in the order of the records.
///
/// # Errors
/// [`CatalogueError::Circle`] where no order fits.
pub fn order(catalogue: &Catalogue) -> Result<Vec<&str>, CatalogueError> {
    let mut waits_for: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in &catalogue.records {
        waits_for.entry(&record.id).or_default().extend(record.after.iter().map(String::as_str));
        for later in &record.before {
            waits_for.entry(later).or_default().insert(&record.id);
        }
    }

    let mut ordered = Vec::new();
    let mut open: Vec<&str> = catalogue.records.iter().map(|record| record.id.as_str()).collect();
    while !open.is_empty() {
        let is_free = |id: &&str| {
            !waits_for.get(*id).is_some_and(|ids| ids.iter().any(|earlier| open.contains(earlier)))
        };
        let Some(next) = open.iter().position(is_free) else {
            return Err(CatalogueError::Circle {
                ids: open.into_iter().map(str::to_owned).collect(),
            });
        };
        ordered.push(open.remove(next));
    }

    Ok(ordered)
}
