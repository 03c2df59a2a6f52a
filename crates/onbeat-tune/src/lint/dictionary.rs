//! The kernel parameters that are judged, `kernel_parameters.toml`, and the names of all others,
//! `kernel_parameter_names.txt`; what an entry is, here and in `settings.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::correction::LintRemark;
use super::finding::LintVerdict;

/// What is known of a parameter or a setting, perhaps with certain values only.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DictionaryEntry {
    /// Of a setting, the kind of file that has it.
    #[serde(default)]
    pub(super) table: String,
    pub(super) name: String,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    below: Option<i64>,
    #[serde(default)]
    above: Option<i64>,
    #[serde(default = "valid")]
    pub(super) verdict: LintVerdict,
    pub(super) id: String,
    pub(super) says: String,
    /// Is written into the corrected line.
    #[serde(default)]
    pub(super) instead: Option<String>,
    /// Is only printed.
    #[serde(default)]
    better: Option<String>,
}

const fn valid() -> LintVerdict {
    LintVerdict::Valid
}

impl DictionaryEntry {
    /// Whether it is about this value.
    pub(super) fn is_about(&self, value: &str) -> bool {
        // A capability has a prefix or none, in any case.
        let capital = value.to_ascii_uppercase();
        let value = match self.name.as_str() {
            "cap_add" => capital.trim_start_matches("CAP_"),
            _ => value,
        };
        // Of `soft:hard` the soft limit counts.
        let first = value.split(':').next().unwrap_or(value);
        let is_limit = self.name.starts_with("Limit") || self.name.starts_with("ulimit.");
        let counted = if is_limit { first } else { value };
        let number = || counted.parse::<i64>().ok();
        (fits(&self.values, value) || is_limit && fits(&self.values, first))
            && self.below.is_none_or(|limit| number().is_some_and(|number| number < limit))
            && self.above.is_none_or(|limit| number().is_some_and(|number| number > limit))
    }

    /// The judgement of this parameter with a value.
    pub(super) fn remark(&self, value: &str) -> LintRemark {
        let fill = |text: &String| text.replace("{value}", value);
        let instead = self.instead.as_ref().or(self.better.as_ref()).map(fill);
        LintRemark {
            id: Some(self.id.clone()),
            verdict: self.verdict,
            message: self.says.clone(),
            instead,
        }
    }
}

/// How the CPUs of two parameters relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CpuRelation {
    /// All are among the other's.
    Covered,
    /// They are not the same.
    Differ,
    /// One is in both.
    Overlap,
}

/// What follows from two parameters, or from one without another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParameterRelation {
    pub(super) when: String,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    pub(super) beside: Option<String>,
    #[serde(default)]
    with: Vec<String>,
    #[serde(default)]
    pub(super) without: Vec<String>,
    #[serde(default)]
    pub(super) cpus: Option<CpuRelation>,
    pub(super) verdict: LintVerdict,
    pub(super) says: String,
    #[serde(default)]
    pub(super) instead: Option<String>,
    /// What is appended to the line.
    #[serde(default)]
    pub(super) add: Option<String>,
}

impl ParameterRelation {
    /// Whether the relation is about this value of its parameter.
    pub(super) fn is_about(&self, value: &str) -> bool {
        fits(&self.values, value)
    }

    /// Whether the relation is about this value of the other parameter.
    pub(super) fn is_with(&self, value: &str) -> bool {
        fits(&self.with, value)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownNames {
    names: Vec<String>,
}

/// A name that people write, and the one that is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeantName {
    written: Vec<String>,
    meant: String,
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LintDictionary {
    parameter: Vec<DictionaryEntry>,
    known: Vec<KnownNames>,
    plain: Vec<KnownNames>,
    repeatable: Vec<KnownNames>,
    meant: Vec<MeantName>,
    pub(super) relation: Vec<ParameterRelation>,
}

static DICTIONARY: LazyLock<LintDictionary> = LazyLock::new(|| {
    // The text is part of the program, and a test reads it: it cannot be wrong in one that was
    // tested.
    #[allow(clippy::expect_used)]
    toml::from_str(include_str!("kernel_parameters.toml")).expect("the dictionary is valid")
});

/// Returns the dictionary that is built into onbeat.
pub(super) fn dictionary() -> &'static LintDictionary {
    &DICTIONARY
}

impl LintDictionary {
    /// Returns what is known of a parameter with this value; a parameter without value has an empty
    /// one.
    pub(super) fn entry(&self, name: &str, value: &str) -> Option<&DictionaryEntry> {
        self.parameter.iter().find(|entry| is_name(&entry.name, name) && entry.is_about(value))
    }

    /// Whether a parameter exists, though nothing is said of it.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known_names().any(|known| is_name(known, name))
    }

    /// Whether a parameter is known to have no effect on latency.
    pub(super) fn is_plain(&self, name: &str) -> bool {
        self.plain.iter().flat_map(|plain| &plain.names).any(|plain| is_name(plain, name))
    }

    /// Whether a parameter may be given several times.
    pub(super) fn is_repeatable(&self, name: &str) -> bool {
        self.repeatable.iter().flat_map(|known| &known.names).any(|known| is_name(known, name))
    }

    /// Returns the parameter that is meant by a name that does not exist.
    pub(super) fn meant_by(&self, name: &str) -> Option<&str> {
        let is_written = |meant: &&MeantName| meant.written.iter().any(|written| written == name);
        self.meant.iter().find(is_written).map(|meant| meant.meant.as_str())
    }

    fn known_names(&self) -> impl Iterator<Item = &str> {
        let judged = self.parameter.iter().map(|entry| entry.name.as_str());
        let elsewhere =
            self.known.iter().chain(&self.plain).flat_map(|known| &known.names).map(String::as_str);
        judged.chain(elsewhere).chain(documented_names())
    }

    /// Returns the name that differs from an unknown one by a letter or two.
    pub(super) fn similar(&self, name: &str) -> Option<&str> {
        // In a short name two letters are a different word, in a shorter one each letter.
        let most = match name.len() {
            0..4 => 0,
            4..6 => 1,
            _ => 2,
        };
        nearest(self.known_names().filter(|known| !known.ends_with('.')), name, most)
    }
}

/// The name that is nearest to another one, where they differ by that many letters at most.
pub(super) fn nearest<'n>(
    names: impl Iterator<Item = &'n str>,
    name: &str,
    most: usize,
) -> Option<&'n str> {
    let distance = |known: &str| strsim::damerau_levenshtein(known, name);
    let nearest = names.min_by_key(|known| distance(known))?;
    (distance(nearest) <= most).then_some(nearest)
}

/// The names that the kernel's documentation has.
fn documented_names<'d>() -> impl Iterator<Item = &'d str> {
    let lines =
        include_str!("kernel_parameter_names.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace)
}

fn is_name(known: &str, name: &str) -> bool {
    known == name || (known.ends_with('.') && name.starts_with(known))
}

/// Whether a value is one of a list; every value is in an empty one.
fn fits(values: &[String], value: &str) -> bool {
    let is = |known: &String| match known.strip_suffix('*') {
        Some(start) => value.starts_with(start),
        None => known == value,
    };
    values.is_empty() || values.iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::catalogue;

    #[test]
    fn every_entry_belongs_to_a_record_and_every_relation_to_an_entry() {
        let dictionary = dictionary();
        for entry in &dictionary.parameter {
            assert!(catalogue().get(&entry.id).is_some(), "{}: {}", entry.name, entry.id);
            assert!(entry.says.ends_with('.'), "{}", entry.name);
            assert!(!entry.name.contains('-'), "{}", entry.name);
            assert!(entry.table.is_empty(), "{}: tables are of settings", entry.name);
        }
        for relation in &dictionary.relation {
            assert!(
                dictionary.parameter.iter().any(|entry| entry.name == relation.when),
                "{}",
                relation.when
            );
            assert_ne!(
                relation.beside.is_some(),
                !relation.without.is_empty(),
                "{}",
                relation.when
            );
        }
    }

    /// What the catalogue recommends at boot must not be unknown here, nor a problem.
    #[test]
    fn kernel_parameters_of_the_records_are_valid() {
        for record in &catalogue().records {
            for parameter in record.boot.iter().flat_map(|line| line.split_whitespace()) {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                // `hugepages=N` stands for a number that the record does not know.
                let value = if value == "N" { "1" } else { value };
                let entry = dictionary().entry(name, value);
                let entry = entry
                    .unwrap_or_else(|| panic!("{}: {name} is not in the dictionary", record.id));
                assert_eq!(entry.verdict, LintVerdict::Valid, "{}: {parameter}", record.id);
            }
        }
    }

    #[test]
    fn a_name_with_a_wrong_letter_is_recognised_and_another_word_is_not() {
        assert_eq!(dictionary().similar("isolcpu"), Some("isolcpus"));
        assert_eq!(dictionary().similar("rcu_nocb"), Some("rcu_nocbs"));
        assert_eq!(dictionary().similar("page_reporting_order"), None);
        assert_eq!(dictionary().similar("hz"), None);
        assert!(dictionary().is_known("rdinit") && dictionary().is_known("systemd.unit"));
    }
}
