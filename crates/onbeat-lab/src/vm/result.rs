//! Results of a guest: exit status, files, and figures where its clock has any.

use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat::record::{RunFile, RunFileError};
use onbeat_figures::Statistics;

use super::VmError;
use super::clock::{Measures, VmClock};
use super::error::reason_line;
use super::figures::GuestFigures;
use super::foreign::{ForeignProbe, main_series};
use super::frame::{GuestFile, Shipment};
use super::guest::{CONSOLE, JOB};
use super::leftover::GuestDirectory;
use super::printed::PrintedRun;
use super::qemu::COMMAND;
use super::work_directory::hex_digest;

/// Result of a job in a guest that ran by clock `C`.
#[derive(Clone, Debug)]
pub struct GuestResult<C: VmClock> {
    /// Release of the guest's kernel, as the guest reports it.
    pub release: String,
    /// Exit status of the job: that of its first command that failed, or 0.
    pub status: i32,
    /// Files in the order of their paths; `output` and `errors` are among them.
    pub files: Vec<GuestFile>,
    /// The guest's directory on the host, with its console and QEMU's command.
    pub directory: PathBuf,
    /// From the start of QEMU to its end, in the host's time.
    pub elapsed: Duration,
    /// As long as it is held, no other process removes the directory.
    _lock: Option<Arc<GuestDirectory>>,
    clock: PhantomData<C>,
}

impl<C: VmClock> GuestResult<C> {
    pub(super) fn new(shipment: Shipment, directory: PathBuf, elapsed: Duration) -> Self {
        let Shipment { release, files, status } = shipment;
        Self { release, status, files, directory, elapsed, _lock: None, clock: PhantomData }
    }

    pub(super) fn holding(self, lock: Arc<GuestDirectory>) -> Self {
        Self { _lock: Some(lock), ..self }
    }

    /// The content of a file by its path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.iter().find(|file| file.path == path).map(|file| file.content.as_slice())
    }

    /// Run files (`*.onbeat.hlog`) by path, readable by `onbeat report` once they are written.
    pub fn run_files(&self) -> impl Iterator<Item = &GuestFile> {
        self.files.iter().filter(|file| file.path.ends_with(RUN_FILE_ENDING))
    }

    /// Writes all files below a directory, which is created.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_to(&self, directory: &Path) -> Result<(), VmError> {
        for file in &self.files {
            let path = directory.join(&file.path);
            let parent = path.parent().unwrap_or(directory);
            fs::create_dir_all(parent).map_err(VmError::writing(parent))?;
            fs::write(&path, &file.content).map_err(VmError::writing(&path))?;
        }

        Ok(())
    }

    /// Copies the guest's console, its job and QEMU's command into a directory, to run the same
    /// guest by hand.
    ///
    /// # Errors
    /// When a file cannot be copied.
    pub fn copy_log_to(&self, directory: &Path) -> Result<(), VmError> {
        for name in [CONSOLE, COMMAND, JOB] {
            let from = self.directory.join(name);
            // A guest that gets its job on the kernel command line has no file of it.
            if from.exists() {
                fs::copy(&from, directory.join(name)).map_err(VmError::reading(&from))?;
            }
        }

        Ok(())
    }

    /// Removes the guest's directory on the host.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_directory(&self) -> Result<(), VmError> {
        fs::remove_dir_all(&self.directory).map_err(VmError::writing(&self.directory))
    }

    /// SHA-256 over status, paths and contents: equal exactly when the guests have sent the same
    /// bytes.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut all = format!("{} {}\n", self.release, self.status).into_bytes();
        for file in &self.files {
            all.extend(format!("{} {}\n", file.content.len(), file.path).bytes());
            all.extend_from_slice(&file.content);
        }

        hex_digest(&all)
    }

    /// Fails when the job has failed: with its exit status and the line of its standard error that
    /// says why.
    ///
    /// # Errors
    /// [`VmError::JobFailed`].
    pub fn succeeded(&self) -> Result<(), VmError> {
        match self.status {
            0 => Ok(()),
            status => Err(VmError::JobFailed {
                status,
                message: reason_line(self.file("errors").unwrap_or_default()),
            }),
        }
    }

    /// The run as `onbeat` has printed it with `--json`.
    ///
    /// # Errors
    /// When the job has failed or printed something else.
    pub fn printed(&self) -> Result<PrintedRun, VmError> {
        self.succeeded()?;
        let unusable = |reason: String| VmError::Result { name: "output".to_owned(), reason };
        let output =
            self.file("output").ok_or_else(|| unusable("the guest did not send it".to_owned()))?;
        serde_json::from_slice(output).map_err(|error| unusable(error.to_string()))
    }

    /// Adds the run files that the output of a job with this probe makes.
    ///
    /// # Errors
    /// When the job has failed, or its output is not of the format.
    pub fn import(&mut self, probe: &ForeignProbe) -> Result<(), VmError> {
        self.succeeded()?;
        let output = self.file("output").unwrap_or_default();
        let files = probe.run_files(output, &self.directory)?;
        self.files.extend(files);
        Ok(())
    }
}

impl<C: Measures> GuestResult<C> {
    /// The figures of the main series of each run file with samples, named by its cell.
    ///
    /// # Errors
    /// When a run file cannot be read.
    pub fn figures_of_run_files(&self) -> Result<Vec<(String, GuestFigures<C>)>, VmError> {
        let mut all = Vec::new();
        for file in self.run_files() {
            let unusable = |error: RunFileError| VmError::Result {
                name: file.path.clone(),
                reason: error.to_string(),
            };
            let run = RunFile::parse(Path::new(&file.path), &file.content).map_err(unusable)?;
            let series = main_series(&run);
            let found = Statistics::new(&run.distribution(series), &run.moments(series));
            let name = run.header.cell.map_or_else(|| file.path.clone(), |cell| cell.tuning);
            all.extend(found.map(|found| (name, GuestFigures::from_statistics(&found))));
        }
        Ok(all)
    }

    /// The figures of the main series of the run, or of the first cell of a bench.
    ///
    /// # Errors
    /// When the job has failed, or measured nothing.
    pub fn figures(&self) -> Result<GuestFigures<C>, VmError> {
        let nothing =
            || VmError::Result { name: "output".to_owned(), reason: "no samples".to_owned() };
        self.cells()?.into_iter().next().map(|(_, figures)| figures).ok_or_else(nothing)
    }

    /// The figures of each cell with samples, named `TUNING/LOAD`; a measurement is one cell.
    ///
    /// # Errors
    /// When the job has failed, or printed something else than a summary.
    pub fn cells(&self) -> Result<Vec<(String, GuestFigures<C>)>, VmError> {
        Ok(GuestFigures::from_printed(&self.printed()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::Free;
    use super::*;

    fn result(files: &[(&str, &str)], status: i32) -> GuestResult<Free> {
        let file = |(path, content): &(&str, &str)| GuestFile {
            path: (*path).to_owned(),
            content: content.as_bytes().to_vec(),
        };
        let files = files.iter().map(file).collect();
        let shipment = Shipment { release: "6.1".to_owned(), files, status };
        GuestResult::new(shipment, PathBuf::new(), Duration::ZERO)
    }

    #[test]
    fn a_digest_differs_with_any_byte_and_with_its_place() {
        let all = [
            result(&[("a", "bc")], 0),
            result(&[("ab", "c")], 0),
            result(&[("a", "bc")], 1),
            result(&[("a", "bd")], 0),
            result(&[("a", "b"), ("c", "")], 0),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other.digest() != one.digest()));
            assert_eq!(one.digest(), one.clone().digest());
        }
    }

    #[test]
    fn a_job_that_failed_says_why() {
        let failed = result(&[("errors", "warning\nerror: no such load\n\nTry --help\n")], 2);
        let error = failed.printed().expect_err("failed").to_string();
        assert_eq!(error, "the job ended with exit status 2: error: no such load");
        let silent = result(&[], 0).printed().expect_err("no output").to_string();
        assert_eq!(silent, "the job's result output cannot be used: the guest did not send it");
    }

    #[test]
    fn files_are_written_below_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let result = result(&[("output", "x"), ("runs/1/a.onbeat.hlog", "y")], 0);
        result.write_to(directory.path()).expect("files");
        assert_eq!(fs::read(directory.path().join("runs/1/a.onbeat.hlog")).expect("a file"), b"y");
        assert_eq!(result.run_files().count(), 1);
    }
}
