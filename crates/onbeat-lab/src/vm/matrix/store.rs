//! Results of experiments on disk: a directory each, written whole, found again by a key.

use std::path::{Path, PathBuf};

use onbeat::campaign::ResultStore;
use onbeat::record::{BoardAccount, Distribution, Moments, RunFile, Series};
use serde::{Deserialize, Serialize};

use super::{Experiment, LabCell};
use crate::vm::clock::VmClock;
use crate::vm::{GuestResult, VmError, merged};

/// The file that describes an experiment, in its directory.
pub(super) const RECORD: &str = "experiment.json";
/// Directory of the files that the guest has sent.
const SENT: &str = "sent";
/// Letters of a directory's name before the key.
const LONGEST_NAME: usize = 80;

/// An experiment whose results are on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredExperiment {
    pub cell: LabCell,
    pub seed: u32,
    /// Name of the clock: `real`, `virtual` or `free`.
    pub clock: String,
    /// Release of the kernel, as the guest reports it.
    pub release: String,
    /// SHA-256 over all that the guest has sent.
    pub digest: String,
    /// Time of the guest from its start to its end, by the host's clock, in seconds.
    pub elapsed_s: f64,
    /// Run files, below the directory.
    run_files: Vec<PathBuf>,
    /// The directory with run files, console, job and QEMU's command.
    #[serde(skip)]
    pub directory: PathBuf,
}

impl StoredExperiment {
    /// Returns what an earlier run has stored under this key.
    pub(super) fn find(
        store: &ResultStore,
        experiment: &Experiment,
        key: &str,
    ) -> Result<Option<Self>, VmError> {
        let place = place(experiment, key);
        let stored: Option<Self> = store.find(&place)?;
        let directory = store.path().join(place);
        Ok(stored.map(|stored| Self { directory, ..stored }))
    }

    /// Stores what a guest has sent, with its console, its job and QEMU's command.
    pub(super) fn keep<C: VmClock>(
        store: &ResultStore,
        experiment: &Experiment,
        key: &str,
        result: &GuestResult<C>,
    ) -> Result<Self, VmError> {
        let place = place(experiment, key);
        let sent = Path::new(SENT);
        let stored = Self {
            cell: experiment.cell.clone(),
            seed: experiment.seed,
            clock: C::NAME.to_owned(),
            release: result.release.clone(),
            digest: result.digest(),
            elapsed_s: result.elapsed.as_secs_f64(),
            run_files: result.run_files().map(|file| sent.join(&file.path)).collect(),
            directory: store.path().join(&place),
        };

        store.keep(&place, &stored, |into| {
            result.write_to(&into.join(SENT))?;
            result.copy_log_to(into)
        })?;
        Ok(stored)
    }

    /// The account of the edges that its measurement sent to a second board, if there was one.
    ///
    /// # Errors
    /// When a stored run file cannot be read.
    pub fn boards(&self) -> Result<Option<BoardAccount>, VmError> {
        Ok(self.runs().next().transpose()?.and_then(|run| run.boards))
    }

    fn runs(&self) -> impl Iterator<Item = Result<RunFile, VmError>> {
        self.run_files.iter().map(|path| {
            let path = self.directory.join(path);
            RunFile::read(&path).map_err(|error| VmError::Result {
                name: path.display().to_string(),
                reason: error.to_string(),
            })
        })
    }

    /// The series that its measurement is about, the main one first.
    pub(super) fn series(&self) -> Result<Vec<Series>, VmError> {
        let first = self.runs().next().transpose()?;
        let series = first.map(|run| run.header.series).unwrap_or_default();
        Ok(if series.is_empty() { vec![Series::ReleaseLatency] } else { series })
    }

    /// The samples of a series of all its run files.
    pub(super) fn samples(&self, series: Series) -> Result<(Distribution, Moments), VmError> {
        let of_run = |run: RunFile| (run.distribution(series), run.moments(series));
        let runs = self.runs().map(|run| run.map(of_run)).collect::<Result<Vec<_>, _>>()?;
        Ok(merged(&runs))
    }
}

/// The directory of an experiment in a store.
fn place(experiment: &Experiment, key: &str) -> PathBuf {
    let LabCell { kernel, command_line, tuning, load } = &experiment.cell;
    let name = [kernel, command_line, tuning, load].map(|part| plain(part)).join("-");
    let name: String = name.chars().take(LONGEST_NAME).collect();
    format!("{name}-{}-{key}", experiment.seed).into()
}

/// A name as a part of a path: letters, digits, dots and underscores; a hyphen for anything else.
fn plain(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
    name.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::vm::clock::Virtual;
    use crate::vm::frame::{GuestFile, Shipment};
    use crate::vm::guest::CONSOLE;
    use crate::vm::matrix::Matrix;

    fn result(directory: &Path, content: &str) -> GuestResult<Virtual> {
        let file =
            |path: &str| GuestFile { path: path.to_owned(), content: content.as_bytes().to_vec() };
        let files = vec![file("output"), file("runs/1/latency.onbeat.hlog")];
        let shipment = Shipment { release: "6.1-rt".to_owned(), files, status: 0 };
        GuestResult::new(shipment, directory.to_owned(), Duration::from_millis(1500))
    }

    #[test]
    fn a_stored_experiment_is_found_again_by_its_key_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let guest = directory.path().join("guest");
        fs::create_dir(&guest).expect("a directory");
        fs::write(guest.join(CONSOLE), b"lines").expect("a console");
        let text = "kernels = [\"a b/c\"]";
        let matrix = Matrix::from_toml(text, Path::new(".")).expect("a file");
        let experiment = &matrix.experiments()[0];

        let store = ResultStore::open(&directory.path().join("out"), RECORD).expect("a store");
        let find = |key| StoredExperiment::find(&store, experiment, key).expect("no error");
        assert_eq!(find("k1"), None);
        let sent = result(&guest, "x");
        let kept = StoredExperiment::keep(&store, experiment, "k1", &sent).expect("a directory");
        assert_eq!((find("k1"), find("k2")), (Some(kept.clone()), None));
        assert!(kept.directory.ends_with("a-b-c-default-PM-idle-1-k1"), "{:?}", kept.directory);
        assert!(kept.directory.join("sent/runs/1/latency.onbeat.hlog").exists());
        assert_eq!(fs::read(kept.directory.join(CONSOLE)).expect("a console"), b"lines");
    }
}
