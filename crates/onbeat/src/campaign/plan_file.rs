//! The plan of a bench in the directory of its run: what it is resumed by.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use onbeat_host::foreign::{Opening, TrustedOwner};
pub use onbeat_record::run_dir::PLAN_FILE;
use onbeat_record::run_dir::runs_named;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::store::{StoreError, write_whole};

const SCHEMA: &str = "onbeat.plan/1";
/// A larger file is no plan.
const MOST_BYTES: u64 = 16 << 20;

/// The plan of an experiment, as it began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile<P> {
    schema: String,
    /// The kind of experiment, such as `bench`.
    pub kind: String,
    /// Options by their ids, each as a value and as it is typed: what a later command may repeat,
    /// and not change.
    pub options: BTreeMap<String, PlannedOption>,
    /// What is measured, resolved for this machine.
    pub plan: P,
}

/// An option of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedOption {
    /// Its value: equal where it means the same, however it is typed.
    pub value: String,
    /// As it is typed; absent where it has no value.
    pub typed: Option<String>,
}

/// A plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// The file could not be read or written.
    #[error(transparent)]
    System(#[from] StoreError),
    /// No plan is beside the run files: it was lost, or a version that kept none began the run.
    #[error(
        "{} cannot be resumed: it has no plan.json beside its run files, so it was lost or a version of onbeat that kept none began it; \
         start a new one without --resume",
        .0.display()
    )]
    Older(PathBuf),
    /// The plan is damaged, or of a version that plans otherwise.
    #[error(
        "{} cannot be resumed: its {PLAN_FILE} is not a plan of this version of onbeat ({reason}); \
         start a new one without --resume",
        dir.display()
    )]
    NotValid {
        /// The directory of the run.
        dir: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Deserialize)]
struct SchemaOfPlan {
    schema: String,
    kind: String,
}

impl<P: Serialize + DeserializeOwned> PlanFile<P> {
    /// Returns the plan of an experiment of this kind.
    #[must_use]
    pub fn new(kind: &str, options: BTreeMap<String, PlannedOption>, plan: P) -> Self {
        Self { schema: SCHEMA.to_owned(), kind: kind.to_owned(), options, plan }
    }

    /// Writes the plan into the directory of a run, whole and synced to disk: nothing is measured
    /// that could not be resumed.
    ///
    /// # Errors
    /// [`PlanFileError::System`].
    pub fn write(&self, dir: &Path) -> Result<(), PlanFileError> {
        let path = dir.join(PLAN_FILE);
        let text = serde_json::to_string_pretty(self).map_err(io::Error::from);
        Ok(write_whole(&path, &text.map_err(StoreError::writing(&path))?)?)
    }

    /// Reads the plan of a run that `kind` began; `None` for one of another kind.
    ///
    /// # Errors
    /// [`PlanFileError::Older`] without a plan, [`PlanFileError::NotValid`].
    pub fn read(dir: &Path, kind: &str) -> Result<Option<Self>, PlanFileError> {
        let path = dir.join(PLAN_FILE);
        // Its settings are made on this machine: by nobody else's word.
        let opening = Opening::found(TrustedOwner::OwnOrRoot).at_most(MOST_BYTES);
        let text = match opening.text(&path) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Err(PlanFileError::Older(dir.to_owned()));
            }
            Err(why) => return Err(StoreError::reading(&path)(why).into()),
        };

        let not_valid = |reason: String| PlanFileError::NotValid { dir: dir.to_owned(), reason };
        let head: SchemaOfPlan =
            serde_json::from_str(&text).map_err(|why| not_valid(why.to_string()))?;
        if head.kind != kind {
            return Ok(None);
        }
        if head.schema != SCHEMA {
            return Err(not_valid(format!("{} instead of {SCHEMA}", head.schema)));
        }
        serde_json::from_str(&text).map(Some).map_err(|why| not_valid(why.to_string()))
    }
}

/// Finds the latest run below `out` that `kind` began, whose plan `is_same`, and whose file `name`
/// `open` finds unfinished. Runs of other kinds and plans may be in progress, and are not opened.
///
/// # Errors
/// Those of `open`, and [`PlanFileError`] for an unfinished run whose plan is lost: nothing says
/// what is left of it.
pub fn find_unfinished<P: Serialize + DeserializeOwned, T, E: From<PlanFileError>>(
    (out, name): (&Path, &str),
    kind: &str,
    is_same: impl Fn(&PlanFile<P>) -> bool,
    open: impl Fn(&Path) -> Result<Option<T>, E>,
) -> Result<Option<FoundRun<P, T>>, E> {
    for path in runs_named(out, name) {
        let dir = path.parent().unwrap_or(out).to_owned();
        let plan = match PlanFile::read(&dir, kind) {
            Ok(Some(plan)) if is_same(&plan) => plan,
            Ok(_) => continue,
            Err(why) => match open(&path) {
                Ok(Some(_)) => return Err(why.into()),
                _ => continue,
            },
        };
        if let Some(unfinished) = open(&path)? {
            return Ok(Some(FoundRun { dir, plan, unfinished }));
        }
    }
    Ok(None)
}

/// An unfinished run that [`find_unfinished`] has found.
#[derive(Debug)]
pub struct FoundRun<P, T> {
    /// Its directory.
    pub dir: PathBuf,
    /// What it was planned to be.
    pub plan: PlanFile<P>,
    /// What was opened.
    pub unfinished: T,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written_and_by_its_own_kind_alone() {
        let dir = tempfile::tempdir().unwrap();
        let options = BTreeMap::from([(
            "duration".to_owned(),
            PlannedOption { value: "120".to_owned(), typed: Some("--for 2m".to_owned()) },
        )]);
        let plan = PlanFile::new("bench", options, vec![0.1, 99.99]);
        plan.write(dir.path()).unwrap();
        assert_eq!(PlanFile::read(dir.path(), "bench").unwrap(), Some(plan));
        assert_eq!(PlanFile::<u8>::read(dir.path(), "tune measure").unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_without_a_plan_or_with_a_damaged_one_is_refused_in_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let refused = || PlanFile::<Vec<f64>>::read(dir.path(), "bench").unwrap_err().to_string();
        assert!(refused().contains("no plan.json beside"), "{}", refused());
        PlanFile::new("bench", BTreeMap::new(), vec![0.5]).write(dir.path()).unwrap();
        let path = dir.path().join(PLAN_FILE);
        let whole = fs::read_to_string(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let why = refused();
            assert!(why.contains("is not a plan of this version of onbeat ("), "{why}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(refused().contains("others than its owner can write it"), "{}", refused());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&path, whole.replace(SCHEMA, "onbeat.plan/9")).unwrap();
        assert!(refused().contains("onbeat.plan/9 instead of onbeat.plan/1"), "{}", refused());
    }
}
