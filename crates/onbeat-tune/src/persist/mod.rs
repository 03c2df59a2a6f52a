//! Settings that hold after each boot, in files of onbeat's own name, and their removal without a
//! trace.
//!
//! | file | contents |
//! |---|---|
//! | [`settings`] | what is to hold: [`BootSettings`], from records of the catalogue |
//! | [`boot_loader`] | where kernel parameters go on this machine: [`BootLoader`] |
//! | `kernel_line` | files with one kernel command line, merged by key between markers |
//! | `drop_ins` | the texts of the files |
//! | `etc_files` | writing and removing files below a root directory |
//! | [`persist_record`] | what was written, on disk before the first file |
//! | [`confirm`](mod@confirm) | whether it holds after a reboot |
//!
//! Nothing takes effect at once, and no program is started: commands that the change needs are
//! returned as [`FollowUp`]. A record of all files is on disk before the first of them, so that
//! [`remove`] also undoes a [`persist()`] that was interrupted.
//!
//! ```
//! use onbeat_tune::persist::{BootSettings, PersistRecord};
//!
//! let mut settings = BootSettings::default();
//! settings.add_parameter("nohz_full=3");
//! settings.validate()?;
//!
//! let root = tempfile::tempdir()?;
//! assert!(PersistRecord::read(root.path())?.is_none(), "nothing was written below this root");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Absent on purpose: changing a file that another program or a person owns, except where no
//! directory for drop-ins exists (`cmdline.txt`, `/etc/kernel/cmdline`); there the original text is
//! kept in the record.

pub mod boot_loader;
pub mod confirm;
mod drop_ins;
mod etc_files;
mod kernel_line;
pub mod persist_record;
pub mod settings;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use onbeat_host::thread::shell_line;
use serde::{Deserialize, Serialize};

pub use boot_loader::BootLoader;
pub use confirm::{ConfirmedState, PersistedValue, confirm};
pub use persist_record::PersistRecord;
pub use settings::{ApplyAtBoot, BootSettings, NotPersisted};

use crate::change::UndoMode;
use drop_ins::PlannedFile;
use etc_files::EtcFiles;

/// Why settings could not be persisted or removed.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// There is nothing to persist.
    #[error("there is nothing to persist: no kernel parameter, value, service or plan was given")]
    Nothing,
    /// A text that cannot be written into the file of another program.
    #[error("\"{text}\" cannot be written into {place}: {why}")]
    BadText {
        text: String,
        /// What it was meant for.
        place: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file of onbeat's name exists, and no record has it.
    #[error("{} exists and was not written by this onbeat. Inspect it, then delete it", path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// A file that an earlier call wrote was changed by others.
    #[error(
        "{} was changed since onbeat wrote it, and is left as it is. Inspect it; `onbeat tune persist --remove --force` removes it",
        path.display()
    )]
    ChangedSince {
        /// The file.
        path: PathBuf,
    },
    /// A path leads out of the root directory.
    #[error("{} leads out of {}", path.display(), root.display())]
    OutsideRoot {
        path: PathBuf,
        /// The root directory.
        root: PathBuf,
    },
    /// A file with a kernel command line has none.
    #[error("{} holds no kernel command line. Boot needs one there: write it, then try again", path.display())]
    NoKernelLine {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or changed.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// The operation: read, write, remove.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The record is damaged.
    #[error("the record {} is not valid: {problem}. Its files begin with 90-onbeat: inspect and delete them by hand", path.display())]
    BadRecord {
        /// The record.
        path: PathBuf,
        /// The parser's sentence.
        problem: String,
    },
    /// The record may have been written by another user.
    #[error(transparent)]
    Private(#[from] crate::error::TuneError),
}

/// A command that a change of files needs before it has an effect. Nothing runs it unasked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowUp {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What it does.
    pub why: String,
}

impl FollowUp {
    fn new(command: &[&str], why: &str) -> Self {
        Self {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            why: why.to_owned(),
        }
    }

    /// Returns the command as a person types it.
    #[must_use]
    pub fn line(&self) -> String {
        shell_line(&self.command)
    }

    /// Runs the command and waits for its end. Its output goes where this process's goes.
    ///
    /// # Errors
    /// The kernel's, where the program cannot be started.
    pub fn run(&self) -> io::Result<ExitStatus> {
        let (program, arguments) = self.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        Command::new(program).args(arguments).status()
    }
}

/// What [`persist()`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persisted {
    /// The files that were written or changed, as paths of the machine.
    pub files: Vec<String>,
    /// Commands that it needs.
    pub follow_ups: Vec<FollowUp>,
    /// Kernel parameters that must be added or deleted by hand, because onbeat does not edit the
    /// boot loader's file; with the sentence that says how.
    pub by_hand: Option<String>,
    /// How to boot without the kernel parameters, should the machine not start with them.
    pub fallback: Option<&'static str>,
    /// Files of others that set the same values later in the boot.
    pub overridden: Vec<String>,
}

/// Writes settings so that they hold after each boot.
///
/// `root` is the machine's root directory: `/`, or a tree that is prepared for another machine.
/// Settings that an earlier call persisted are removed first.
///
/// # Errors
/// [`PersistError`]; then nothing of this call remains.
pub fn persist(root: &Path, settings: &BootSettings) -> Result<Persisted, PersistError> {
    settings.validate()?;
    let files = EtcFiles::open(root)?;
    let earlier = PersistRecord::read(root)?;
    let removed = remove(root, UndoMode::Careful)?;
    if let Some((path, _)) =
        removed.files.iter().find(|(_, outcome)| *outcome == RemovalOutcome::ChangedSince)
    {
        return Err(PersistError::ChangedSince { path: files.place(path) });
    }

    let loader = BootLoader::detect(&files);
    let written = write_settings(&files, settings, &loader, earlier.as_ref());
    let record = written.inspect_err(|_| {
        // The first error counts; what cannot be removed stays on record, and otherwise the
        // commands that the earlier settings need to go.
        let _ = remove(root, UndoMode::Careful);
        let waits = earlier.as_ref().filter(|record| !record.removal.is_empty());
        if let (Ok(None), Some(earlier)) = (PersistRecord::read(root), waits) {
            let _ = earlier.with_commands_alone().write(&files);
        }
    })?;

    // What the earlier settings need to go, and these do not need to come.
    let mut follow_ups = removed.follow_ups;
    follow_ups.retain(|command| !record.follow_ups.contains(command));
    follow_ups.extend(record.follow_ups.iter().cloned());
    let added = &settings.kernel_parameters;
    let out = earlier.and_then(|earlier| {
        let left = earlier.settings.kernel_parameters.iter().filter(|word| !added.contains(word));
        earlier.loader.by_hand_out(&left.map(String::as_str).collect::<Vec<_>>())
    });
    let by_hand: Vec<String> = out.into_iter().chain(loader.by_hand(added)).collect();
    Ok(Persisted {
        files: record.files.iter().map(|file| file.path.clone()).collect(),
        follow_ups,
        by_hand: (!by_hand.is_empty()).then(|| by_hand.join(". ")),
        fallback: loader.fallback().filter(|_| !settings.kernel_parameters.is_empty()),
        overridden: drop_ins::overridden(&files, settings),
    })
}

/// Writes the record, and then the files.
fn write_settings(
    files: &EtcFiles,
    settings: &BootSettings,
    loader: &BootLoader,
    earlier: Option<&PersistRecord>,
) -> Result<PersistRecord, PersistError> {
    let planned = drop_ins::plan(files, settings, loader)?;
    for file in planned.iter().filter(|file| file.before.is_none()) {
        files.refuse_existing(&file.path)?;
    }

    let record = PersistRecord::new(files, settings.clone(), planned, loader, earlier);
    record.write(files)?;
    write_files(files, &record.files)?;
    Ok(record)
}

fn write_files(files: &EtcFiles, planned: &[PlannedFile]) -> Result<(), PersistError> {
    planned.iter().try_for_each(|file| match &file.link_to {
        Some(target) => files.link(&file.path, target),
        None => files.write(&file.path, &file.text),
    })
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalOutcome {
    /// It was onbeat's own and is gone.
    Removed,
    /// It has its original bytes.
    Restored,
    /// Others have changed it since; only what stood between onbeat's markers was taken out.
    PartRemoved,
    /// Nothing of onbeat's was there.
    Absent,
    /// Others have changed it since, and it is left as it is.
    ChangedSince,
}

/// What [`remove`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Each file with what became of it, in the reverse order of their writing.
    pub files: Vec<(String, RemovalOutcome)>,
    /// Commands that the removal needs.
    pub follow_ups: Vec<FollowUp>,
    /// Kernel parameters that must be deleted by hand, in a sentence.
    pub by_hand: Option<String>,
}

/// Removes what [`persist()`] wrote; nothing where nothing is on record.
///
/// A file that others have changed since is left as it is, unless `mode` is [`UndoMode::Force`],
/// and stays on record.
///
/// # Errors
/// [`PersistError`]; what is not removed stays on record.
pub fn remove(root: &Path, mode: UndoMode) -> Result<Removed, PersistError> {
    let files = EtcFiles::open(root)?;
    let Some(mut record) = PersistRecord::read(root)? else { return Ok(Removed::default()) };

    let parameters: Vec<&str> =
        record.settings.kernel_parameters.iter().map(String::as_str).collect();
    let by_hand = record.loader.by_hand_out(&parameters);
    let mut removed = Removed { files: Vec::new(), follow_ups: record.removal.clone(), by_hand };
    let mut left = Vec::new();
    for file in std::mem::take(&mut record.files).into_iter().rev() {
        let outcome = remove_file(&files, &file, mode)?;
        removed.files.push((file.path.clone(), outcome));
        if outcome == RemovalOutcome::ChangedSince && mode == UndoMode::Careful {
            left.push(file);
        }
    }

    if left.is_empty() {
        files.remove_directories(&record.directories)?;
        PersistRecord::delete(&files, &record.state_directories)?;
    } else {
        left.reverse();
        record.files = left;
        record.write(&files)?;
    }
    Ok(removed)
}

fn remove_file(
    files: &EtcFiles,
    file: &PlannedFile,
    mode: UndoMode,
) -> Result<RemovalOutcome, PersistError> {
    files.remove_unfinished(&file.path)?;
    let current = match &file.link_to {
        Some(_) => files.read_link(&file.path),
        None => files.read(&file.path)?,
    };
    let Some(current) = current else { return Ok(RemovalOutcome::Absent) };

    let is_ours = current == *file.link_to.as_ref().unwrap_or(&file.text);
    match &file.before {
        Some(before) if current == *before => Ok(RemovalOutcome::Absent),
        Some(before) if is_ours || mode == UndoMode::Force => {
            files.write(&file.path, before)?;
            Ok(RemovalOutcome::Restored)
        }
        Some(_) => match kernel_line::without_ours(&current, &file.displaced) {
            Some(rest) => {
                files.write(&file.path, &rest)?;
                Ok(RemovalOutcome::PartRemoved)
            }
            None => Ok(RemovalOutcome::ChangedSince),
        },
        None if is_ours || mode == UndoMode::Force => {
            files.remove(&file.path)?;
            Ok(RemovalOutcome::Removed)
        }
        None => Ok(RemovalOutcome::ChangedSince),
    }
}
