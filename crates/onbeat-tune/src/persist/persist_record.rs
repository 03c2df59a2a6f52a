//! What was persisted, on disk before the first file is written.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::boot_loader::{BootLoader, ParameterEdit};
use super::drop_ins::PlannedFile;
use super::etc_files::EtcFiles;
use super::settings::BootSettings;
use super::{FollowUp, PersistError};
use crate::catalogue::survey::name_of;
use crate::private;

const PATH: &str = "/var/lib/onbeat/persisted.json";
const SCHEMA: &str = "onbeat.persisted/1";
/// The same under its first name.
const FORMER_SCHEMA: &str = "onbeat-persisted-1";
/// Only its user may read and write the record, because removal writes its content to the machine.
const MODE: u32 = 0o600;

/// What was persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistRecord {
    /// Name and version of the format.
    pub schema: String,
    /// Version of onbeat.
    pub version: String,
    /// The boot in which it was written; empty for a tree of another machine.
    pub boot_id: String,
    /// Seconds since 1970.
    pub unix_seconds: u64,
    /// What is to hold.
    pub settings: BootSettings,
    /// What starts the kernel.
    pub loader: BootLoader,
    /// The files with their texts.
    pub files: Vec<PlannedFile>,
    /// Directories that were made for them, the outermost first.
    pub directories: Vec<String>,
    /// Directories that were made for this record, the outermost first.
    pub state_directories: Vec<String>,
    /// Kernel parameters of others under the names of onbeat's, which commands replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
    /// Commands that the files need.
    pub follow_ups: Vec<FollowUp>,
    /// Commands that their removal needs.
    pub removal: Vec<FollowUp>,
}

impl PersistRecord {
    pub(super) fn new(
        files: &EtcFiles,
        settings: BootSettings,
        planned: Vec<PlannedFile>,
        loader: &BootLoader,
        earlier: Option<&Self>,
    ) -> Self {
        let mut directories: Vec<String> =
            planned.iter().flat_map(|file| files.missing_directories(&file.path)).collect();
        directories.sort();
        directories.dedup();

        let parameters = &settings.kernel_parameters;
        let replaced = match loader.is_edited_by_commands() {
            true => parameters_of_others(files, parameters, loader, earlier),
            false => Vec::new(),
        };
        let mut follow_ups = loader.commands(parameters, &replaced, ParameterEdit::In);
        let mut removal = loader.commands(parameters, &replaced, ParameterEdit::Out);
        let manager = settings.service_cpus.is_some().then(|| {
            FollowUp::new(
                &["systemctl", "daemon-reexec"],
                "reads CPUAffinity; services that start afterwards have it",
            )
        });
        let units = settings.apply.is_some().then(|| {
            FollowUp::new(
                &["systemctl", "daemon-reload"],
                "reads the unit that applies the plan at boot",
            )
        });
        for command in [manager, units].into_iter().flatten() {
            follow_ups.push(command.clone());
            removal.push(command);
        }

        Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id(files),
            unix_seconds: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            settings,
            loader: loader.clone(),
            files: planned,
            directories,
            state_directories: files.missing_directories(PATH),
            replaced,
            follow_ups,
            removal,
        }
    }

    /// Returns the record of settings whose files are gone, and whose commands were not run.
    pub(super) fn with_commands_alone(&self) -> Self {
        let kernel_parameters = self.settings.kernel_parameters.clone();
        Self {
            settings: BootSettings { kernel_parameters, ..BootSettings::default() },
            files: Vec::new(),
            directories: Vec::new(),
            ..self.clone()
        }
    }

    /// Reads the record below a root directory; `None` where nothing was persisted.
    ///
    /// # Errors
    /// [`PersistError::BadRecord`], [`PersistError::Private`] where another user may have written
    /// it.
    pub fn read(root: &Path) -> Result<Option<Self>, PersistError> {
        let path = EtcFiles::open(root)?.place(PATH);
        if !path.exists() {
            return Ok(None);
        }

        let bytes = private::read(&path)?;
        let bad = |problem: String| PersistError::BadRecord { path: path.clone(), problem };
        let record: Self =
            serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        match record.schema.as_str() {
            SCHEMA | FORMER_SCHEMA => Ok(Some(record)),
            other => Err(bad(format!("its schema is {other}, not {SCHEMA}"))),
        }
    }

    pub(super) fn write(&self, files: &EtcFiles) -> Result<(), PersistError> {
        let bad = |error: serde_json::Error| PersistError::BadRecord {
            path: files.place(PATH),
            problem: error.to_string(),
        };
        let text = serde_json::to_string_pretty(self).map_err(bad)?;
        files.write_with_mode(PATH, &(text + "\n"), MODE)
    }

    pub(super) fn delete(
        files: &EtcFiles,
        made_directories: &[String],
    ) -> Result<(), PersistError> {
        files.remove_unfinished(PATH)?;
        files.remove(PATH)?;
        files.remove_directories(made_directories)
    }
}

/// Parameters under the names of onbeat's that the next boot has, in their order, and those that an
/// earlier call has replaced and nobody has set since; without that call's own.
fn parameters_of_others(
    files: &EtcFiles,
    parameters: &[String],
    loader: &BootLoader,
    earlier: Option<&PersistRecord>,
) -> Vec<String> {
    let own = earlier.map(|record| record.settings.kernel_parameters.as_slice());
    let own = own.unwrap_or_default();
    let is_in =
        |words: &[String], word: &String| words.iter().any(|other| name_of(other) == name_of(word));
    let mut found = loader.words(files);
    found.retain(|word| is_in(parameters, word) && !own.contains(word));
    let replaced = earlier.into_iter().flat_map(|record| &record.replaced);
    let replaced = replaced.filter(|word| is_in(parameters, word) && !is_in(&found, word));
    let replaced: Vec<String> = replaced.cloned().collect();
    found.extend(replaced);
    found
}

/// The boot that runs below a root directory; empty where no kernel runs there.
pub(super) fn boot_id(files: &EtcFiles) -> String {
    let text = files.read("/proc/sys/kernel/random/boot_id").ok().flatten().unwrap_or_default();
    text.trim().to_owned()
}
