//! Whether what was persisted holds.

use std::path::Path;

use super::PersistError;
use super::etc_files::EtcFiles;
use super::persist_record::{PersistRecord, boot_id};
use crate::catalogue::probes::file::{ValueFormat, sysctl_path};
use crate::catalogue::probes::matches;
use crate::catalogue::survey::name_of;
use crate::cpu_list::CpuList;
use crate::lint::kernel_cpus::keeps_first;

/// Whether one setting holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmedState {
    /// It has the persisted value.
    Holds,
    /// It has another value, and the machine has not been rebooted since.
    AwaitsReboot,
    /// It has another value, though the machine was rebooted: another program or file sets it, or
    /// the boot entries are old.
    Differs,
    /// Its value cannot be read.
    Unknown,
}

/// One persisted setting, and its value now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedValue {
    /// The kernel parameter, sysctl or path.
    pub name: String,
    /// The persisted value.
    pub wanted: String,
    /// Its value now; `None` where it cannot be read or is not set.
    pub found: Option<String>,
    /// Whether it holds.
    pub state: ConfirmedState,
}

/// Compares what was persisted with the machine below a root directory; empty where nothing was.
///
/// Opens files for reading only.
///
/// # Errors
/// [`PersistError`] where the record cannot be read.
pub fn confirm(root: &Path) -> Result<Vec<PersistedValue>, PersistError> {
    let Some(record) = PersistRecord::read(root)? else { return Ok(Vec::new()) };
    let files = EtcFiles::open(root)?;
    // Without a boot's number, as below a mounted disk, no reboot is known of.
    let otherwise = if boot_id(&files) == record.boot_id {
        ConfirmedState::AwaitsReboot
    } else {
        ConfirmedState::Differs
    };

    let mut values = kernel_parameters(&files, &record, &otherwise);
    for (name, wanted) in &record.settings.sysctls {
        values.push(compare(&files, name, wanted, &[sysctl_path(name)], &otherwise));
    }
    for (path, wanted) in &record.settings.sysfs {
        values.push(compare(&files, path, wanted, &expand(&files, path), &otherwise));
    }
    values.extend(service_cpus(&files, &record, &otherwise));
    Ok(values)
}

/// systemd itself runs on the CPUs that it gives to services.
fn service_cpus(
    files: &EtcFiles,
    record: &PersistRecord,
    otherwise: &ConfirmedState,
) -> Option<PersistedValue> {
    let wanted = record.settings.service_cpus.as_ref()?;
    let status = files.read("/proc/1/status").ok().flatten().unwrap_or_default();
    let found = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(|list| list.trim().to_owned());
    let state = match found.as_deref().map(CpuList::parse_list) {
        Some(Ok(cpus)) if cpus == *wanted => ConfirmedState::Holds,
        Some(Ok(_)) => otherwise.clone(),
        _ => ConfirmedState::Unknown,
    };
    Some(PersistedValue {
        name: "CPUAffinity".to_owned(),
        wanted: wanted.to_string(),
        found,
        state,
    })
}

fn kernel_parameters(
    files: &EtcFiles,
    record: &PersistRecord,
    otherwise: &ConfirmedState,
) -> Vec<PersistedValue> {
    let line = files.read("/proc/cmdline").ok().flatten();
    let value = |wanted: &String| {
        let is_same = |piece: &&str| name_of(piece) == name_of(wanted);
        // What is behind `--` belongs to init.
        let pieces = line.as_deref().unwrap_or_default().split_whitespace();
        let mut same = pieces.take_while(|piece| *piece != "--").filter(is_same);
        let found = if keeps_first(&name_of(wanted)) { same.next() } else { same.last() };
        let state = match (&line, found) {
            (None, _) => ConfirmedState::Unknown,
            (_, Some(found)) if value_of(found) == value_of(wanted) => ConfirmedState::Holds,
            _ => otherwise.clone(),
        };
        PersistedValue {
            name: name_of(wanted),
            wanted: wanted.clone(),
            found: found.map(str::to_owned),
            state,
        }
    };
    record.settings.kernel_parameters.iter().map(value).collect()
}

fn value_of(parameter: &str) -> Option<&str> {
    parameter.split_once('=').map(|(_, value)| value)
}

/// All files must have the value; the first that has another one is named.
fn compare(
    files: &EtcFiles,
    name: &str,
    wanted: &str,
    paths: &[String],
    otherwise: &ConfirmedState,
) -> PersistedValue {
    let mut state = ConfirmedState::Unknown;
    let mut found = None;
    for path in paths {
        let Some(text) = files.read(path).ok().flatten() else { continue };
        let holds = is_same_value(text.trim(), wanted);
        found = Some(text.trim().to_owned());
        state = if holds { ConfirmedState::Holds } else { otherwise.clone() };
        if !holds {
            break;
        }
    }

    PersistedValue { name: name.to_owned(), wanted: wanted.to_owned(), found, state }
}

/// Whether a file that reads `found` was written as `wanted`: as text, or as a value of a format in
/// which the kernel writes.
fn is_same_value(found: &str, wanted: &str) -> bool {
    let same_as = |format: ValueFormat| match (format.parse(found), format.parse(wanted)) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => false,
    };
    let formats = [
        ValueFormat::Integer,
        ValueFormat::Boolean,
        ValueFormat::Bracket,
        ValueFormat::Paren,
        ValueFormat::List,
    ];
    // A mask has leading zeros or commas, and a number has not.
    let may_be_mask = found.contains(',') || found.starts_with('0');
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    words(found) == words(wanted)
        || formats.into_iter().any(same_as)
        || (may_be_mask && same_as(ValueFormat::Mask))
}

/// The files of a pattern of tmpfiles.d with `*` and `[23]`.
fn expand(files: &EtcFiles, pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for piece in pattern.trim_start_matches('/').split('/') {
        let alternatives = alternatives(piece);
        let below = |parent: &String| -> Vec<String> {
            if alternatives.len() == 1 && !piece.contains('*') {
                return vec![format!("{parent}/{piece}")];
            }
            let names = files.names(parent).into_iter();
            let fitting =
                names.filter(|name| alternatives.iter().any(|pattern| matches(pattern, name)));
            fitting.map(|name| format!("{parent}/{name}")).collect()
        };
        paths = paths.iter().flat_map(below).collect();
    }

    paths
}

/// `cpu[23]` as `cpu2` and `cpu3`.
fn alternatives(piece: &str) -> Vec<String> {
    let parts = piece.split_once('[').and_then(|(head, rest)| Some((head, rest.split_once(']')?)));
    match parts {
        Some((head, (set, tail))) => {
            set.chars().map(|letter| format!("{head}{letter}{tail}")).collect()
        }
        None => vec![piece.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_the_kernel_writes_them() {
        for (found, wanted) in [
            ("always madvise [never]", "never"),
            ("Y", "1"),
            ("00000000,00000003", "3"),
            ("0-1", "0,1"),
            ("4\t4 1", "4 4 1"),
        ] {
            assert!(is_same_value(found, wanted), "{found} {wanted}");
        }
        for (found, wanted) in
            [("[always] madvise never", "never"), ("N", "1"), ("60", "10"), ("10", "2")]
        {
            assert!(!is_same_value(found, wanted), "{found} {wanted}");
        }
    }

    #[test]
    fn patterns_of_tmpfiles_lead_to_files() {
        assert_eq!(alternatives("cpu[23]"), ["cpu2", "cpu3"]);
        assert_eq!(alternatives("cpu*"), ["cpu*"]);
    }
}
