//! The settings outside of kernel command lines that are judged, `settings.toml`.

use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::correction::{Draft, LintRemark};
use super::dictionary::{DictionaryEntry, nearest};
use super::finding::LintVerdict;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingNames {
    table: String,
    names: Vec<String>,
}

impl SettingNames {
    fn has(&self, table: &str, name: &str) -> bool {
        let is = |known: &String| {
            known == name
                || known.strip_suffix('*').is_some_and(|start| name.starts_with(start))
                || (known.ends_with(['.', '_']) && name.starts_with(known))
        };
        self.table == table && self.names.iter().any(is)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingDictionary {
    setting: Vec<DictionaryEntry>,
    plain: Vec<SettingNames>,
    known: Vec<SettingNames>,
    /// Options that take no argument.
    without_argument: Vec<SettingNames>,
}

static DICTIONARY: LazyLock<SettingDictionary> = LazyLock::new(|| {
    // The text is part of the program, and a test reads it: it cannot be wrong in one that was
    // tested.
    #[allow(clippy::expect_used)]
    toml::from_str(include_str!("settings.toml")).expect("the dictionary is valid")
});

/// One setting and where it stands.
#[derive(Clone, Debug)]
pub(super) struct PlacedSetting<'t> {
    /// As the dictionary names it.
    pub(super) name: String,
    pub(super) value: &'t str,
    /// The setting as written.
    pub(super) bytes: Range<usize>,
    pub(super) value_bytes: Range<usize>,
}

/// Whether a list of names without effect on latency has a setting.
pub(super) fn is_plain(table: &str, name: &str) -> bool {
    DICTIONARY.plain.iter().any(|names| names.has(table, name))
}

/// Whether an option takes no argument.
pub(super) fn is_flag(table: &str, name: &str) -> bool {
    DICTIONARY.without_argument.iter().any(|names| names.has(table, name))
}

/// Whether a list of names that are not judged has a setting.
pub(super) fn is_listed(table: &str, name: &str) -> bool {
    DICTIONARY.known.iter().any(|names| names.has(table, name))
}

/// Whether an entry has a setting.
pub(super) fn is_known(table: &str, name: &str) -> bool {
    entries(table, name).next().is_some()
}

/// The entries of a setting.
fn entries(table: &str, name: &str) -> impl Iterator<Item = &'static DictionaryEntry> {
    DICTIONARY.setting.iter().filter(move |entry| entry.table == table && entry.name == name)
}

fn entry(table: &str, name: &str, value: &str) -> Option<&'static DictionaryEntry> {
    entries(table, name).find(|entry| entry.is_about(value))
}

/// What is said of a setting.
pub(super) fn remark(table: &str, name: &str, value: &str) -> LintRemark {
    if let Some(entry) = entry(table, name, value) {
        return entry.remark(value);
    }
    if let Some(entry) = entries(table, name).next() {
        let message =
            format!("\"{value}\" is not a value that is known for {name}; it is not judged.");
        return LintRemark::new(&entry.id, LintVerdict::Unknown, message);
    }
    if is_plain(table, name) {
        return LintRemark::plain();
    }
    if is_listed(table, name) {
        let message = "A known setting. Its effect on latency is not judged.";
        return LintRemark::unjudged(LintVerdict::Known, message);
    }
    match similar(table, name) {
        Some(similar) => {
            let message = format!("No such setting is known; {similar} is.");
            LintRemark::new("kern.cmdline_known", LintVerdict::Misspelt, message)
        }
        None => LintRemark::unknown(),
    }
}

/// The name of a judged setting that differs by a letter or two.
fn similar(table: &str, name: &str) -> Option<&'static str> {
    let most = if name.len() < 6 { 1 } else { 2 };
    let names = DICTIONARY.setting.iter().filter(|entry| entry.table == table);
    nearest(names.map(|entry| entry.name.as_str()), name, most)
}

/// Judges a setting and replaces its value, or removes `line` with it.
pub(super) fn judge(
    draft: &mut Draft<'_>,
    table: &str,
    setting: &PlacedSetting<'_>,
    line: Option<Range<usize>>,
) {
    let PlacedSetting { name, value, bytes, value_bytes } = setting;
    let mut remark = remark(table, name, value);
    let replacement = entry(table, name, value).and_then(|entry| entry.instead.as_deref());
    match (replacement, line) {
        (Some(""), Some(line)) => draft.replace(line, ""),
        (Some(""), None) | (None, _) => {}
        (Some(instead), _) => draft.replace(value_bytes.clone(), instead),
    }
    let whole = &draft.text()[bytes.clone()];
    if let Some(instead) = remark.instead.take() {
        let start = value_bytes.start.saturating_sub(bytes.start);
        let end = value_bytes.end.saturating_sub(bytes.start);
        remark.instead = Some(match instead.as_str() {
            "" => instead,
            _ => format!("{}{instead}{}", &whole[..start], &whole[end..]),
        });
    }
    draft.remark(bytes.clone(), remark);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::catalogue;

    #[test]
    fn every_entry_belongs_to_a_record_and_a_correction_is_valid() {
        for entry in &DICTIONARY.setting {
            assert!(catalogue().get(&entry.id).is_some(), "{}: {}", entry.name, entry.id);
            assert!(entry.says.ends_with('.'), "{}", entry.name);
            let Some(instead) = entry.instead.as_ref().filter(|instead| !instead.is_empty()) else {
                continue;
            };
            let verdict = remark(&entry.table, &entry.name, instead).verdict;
            assert_eq!(verdict, LintVerdict::Valid, "{} = {instead}", entry.name);
        }
    }

    /// What stands in no table, or in one that nothing asks for, would never be found.
    #[test]
    fn every_entry_and_every_list_is_of_a_table_that_is_asked_for() {
        const TABLES: [&str; 9] = [
            "sysctl",
            "limits",
            "unit",
            "container",
            "udev",
            "tuned",
            "ros",
            "network",
            "modprobe",
        ];
        const OF_NAMES: [&str; 8] = [
            "quadlet",
            "docker",
            "compose",
            "libvirt",
            "qemu",
            "unit_section",
            "tuned_section",
            "build_variable",
        ];
        for entry in &DICTIONARY.setting {
            assert!(TABLES.contains(&entry.table.as_str()), "{}: {}", entry.name, entry.table);
        }
        let lists = DICTIONARY.plain.iter().chain(&DICTIONARY.known);
        for SettingNames { table, .. } in lists.chain(&DICTIONARY.without_argument) {
            let table = table.as_str();
            assert!(TABLES.contains(&table) || OF_NAMES.contains(&table), "{table}");
        }
    }
}
