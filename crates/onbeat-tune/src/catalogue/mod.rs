//! The catalogue of tunings, and the check of a machine against it.
//!
//! | file | contents |
//! |---|---|
//! | `records/*.toml` | the records, a file per section; profiles, sources, and the parameters that four documents publish |
//! | [`record`] | a record: [`TuningRecord`] and its enums |
//! | [`wanted`] | wanted values as expressions over the loop's CPUs: [`WantedValue`] |
//! | [`precondition`] | when a record applies: [`Precondition`] |
//! | [`probes`] | how a value is read, a file per kind of target |
//! | [`load`] | the parser of the records and the rules that they obey |
//! | [`host_tree`] | the files of a machine, live or captured: [`HostTree`] |
//! | [`survey`] | facts of a machine that several probes need |
//! | [`mod@check`] | a [`Finding`] for each record |
//! | `known_facts` | what the machine's other files prove about a finding |
//! | `unit_in_effect` | what systemd's files say and is not in effect |
//! | `clue` | the counters that a record names |
//!
//! ```
//! use onbeat_tune::catalogue::catalogue;
//!
//! let record = catalogue().get("irq.affinity").expect("a record of the catalogue");
//! assert_eq!(record.title, "Interrupt affinity");
//! assert!(record.probe.iter().all(|probe| probe.kind() == "irqs"));
//! ```
//!
//! Absent on purpose: code in a record, and any change of the machine. A check opens files for
//! reading only.

pub mod check;
pub mod clue;
pub mod host_tree;
pub(crate) mod known_facts;
pub mod load;
pub mod loop_setup;
mod no_value;
pub mod precondition;
pub mod probes;
pub mod record;
pub mod survey;
mod unit_in_effect;
mod vocabulary;
pub mod wanted;

use std::collections::BTreeSet;
use std::sync::LazyLock;

pub use check::{CheckVerdict, Finding, check};
pub use host_tree::HostTree;
pub use load::CatalogueError;
pub use loop_setup::LoopSetup;
pub use precondition::Precondition;
pub use record::{PublishedParameter, TuningAlias, TuningProfile, TuningRecord, TuningSource};
pub use wanted::WantedValue;

/// All records, with what they refer to.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// The records, in the order of their sections.
    pub records: Vec<TuningRecord>,
    /// Other names for records.
    pub aliases: Vec<TuningAlias>,
    /// Sets of records.
    pub profiles: Vec<TuningProfile>,
    /// Where the facts come from.
    pub sources: Vec<TuningSource>,
    /// What four documents publish, and the records it corresponds to.
    pub published: Vec<PublishedParameter>,
}

impl Catalogue {
    /// Returns the record of this id; `None` for an alias or an unknown id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&TuningRecord> {
        self.records.iter().find(|record| record.id == id)
    }

    /// Returns the records that an id or alias stands for; none for an unknown id.
    #[must_use]
    pub fn resolve(&self, id: &str) -> Vec<&TuningRecord> {
        if let Some(record) = self.get(id) {
            return vec![record];
        }

        let alias = self.aliases.iter().find(|alias| alias.id == id);
        alias
            .into_iter()
            .flat_map(|alias| &alias.stands_for)
            .filter_map(|id| self.get(id))
            .collect()
    }

    /// Returns the records of a profile with those of the profiles it includes; none for an unknown
    /// profile.
    #[must_use]
    pub fn profile(&self, name: &str) -> Vec<&TuningRecord> {
        let mut names = BTreeSet::new();
        let mut open = vec![name];
        while let Some(next) = open.pop() {
            let profile = self.profiles.iter().find(|profile| profile.name == next);
            if names.insert(next) {
                open.extend(
                    profile
                        .into_iter()
                        .flat_map(|profile| profile.includes.iter().map(String::as_str)),
                );
            }
        }

        let is_in = |record: &&TuningRecord| {
            record.profiles.iter().any(|name| names.contains(name.as_str()))
        };
        self.records.iter().filter(is_in).collect()
    }

    /// Returns the records that remove a cause of latency, named as in a run file
    /// (`late_idle_exit`), largest effect first.
    #[must_use]
    pub fn against(&self, cause: &str) -> Vec<&TuningRecord> {
        let mut records: Vec<_> =
            self.records.iter().filter(|record| record.mends.iter().any(|c| c == cause)).collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.effect));
        records
    }
}

static BUILT_IN: LazyLock<Catalogue> = LazyLock::new(|| {
    // The texts are part of the program, and a test loads them: they cannot be wrong in one that
    // was tested.
    #[allow(clippy::expect_used)]
    load::built_in().expect("the records of the catalogue are valid")
});

/// Returns the catalogue that is built into onbeat.
#[must_use]
pub fn catalogue() -> &'static Catalogue {
    &BUILT_IN
}
