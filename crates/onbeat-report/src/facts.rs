//! Facts of hosts, settings and grants, and which of them are not the same in several runs.

use std::collections::{BTreeMap, BTreeSet};

use super::power;
use super::summary::Summary;
use super::units::{Letters, time_ns};

/// The facts of one run by name.
pub(super) type Facts = BTreeMap<String, String>;

/// Of a run's summary, what measured it, and the settings of its loop; loads are left out where they
/// are what is compared.
pub(super) fn of(summary: &Summary, probe: &str, settings: Facts, is_of_load: bool) -> Facts {
    let mut facts: Facts =
        summary.host.facts().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    facts.extend(settings);
    let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
    add("measured by", probe.to_owned());

    if !is_of_load {
        add("loads", summary.loads.join(", "));
    }
    if summary.period_ns > 0 {
        add("period", time_ns(summary.period_ns, Letters::Ascii));
    }
    if summary.cells.iter().all(|cell| cell.import.is_none()) {
        add("tunings", summary.tunings.join(", "));
    }

    for (name, value) in power::facts(summary) {
        add(name, value);
    }
    for grant in &summary.ladder {
        let granted = if grant.granted { "" } else { ", not granted" };
        add(&grant.what, format!("{}{granted}", grant.wanted));
    }

    facts
}

/// The names of facts that are not the same in all runs.
pub(super) fn differing(runs: &[Facts]) -> Vec<&String> {
    let names: BTreeSet<&String> = runs.iter().flat_map(BTreeMap::keys).collect();
    let differs = |name: &&String| {
        let distinct: BTreeSet<Option<&String>> =
            runs.iter().map(|facts| facts.get(*name)).collect();
        distinct.len() > 1
    };
    names.into_iter().filter(differs).collect()
}
