//! What `onbeat export` and `onbeat bench` ask of the program `onbeat-fleet`.
//!
//! Parquet's library would make this program larger by two megabytes for those who have one machine.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Failure;
use super::failure::gateway::GatewayFailure;
use super::failure::spike::pasted;
use super::gateway::installed;

/// The program's name.
pub(crate) const PROGRAM: &str = "onbeat-fleet";

/// A data set that runs are added to, by the program.
pub(super) struct DataSet<'d> {
    program: PathBuf,
    dir: &'d Path,
}

impl<'d> DataSet<'d> {
    /// Finds the program, before anything is measured.
    ///
    /// # Errors
    /// It is not installed.
    pub(super) fn new(dir: &'d Path) -> Result<Self, Failure> {
        Ok(Self { program: installed(PROGRAM)?, dir })
    }

    /// Adds a run. One that is there already is not added again.
    ///
    /// # Errors
    /// The program's own; the run stays as it is.
    pub(super) fn add(self, run: &Path) -> Result<(), Failure> {
        let Self { program, dir } = self;
        let failed = |source| GatewayFailure::Start { program: program.clone(), source };
        let mut command = Command::new(&program);
        command.arg("add").arg(run).arg("--to").arg(dir).stdin(Stdio::null());
        // Standard output is the bench's own.
        let ended = command.stdout(Stdio::null()).status().map_err(failed)?;
        if ended.success() {
            return Ok(());
        }
        let how = format!("onbeat fleet add {} --to {}", pasted(run), pasted(dir));
        let words = format!("the run is not in the data set ({ended}); later: {how}");
        Err(GatewayFailure::Refused(words).into())
    }
}

/// A run as Parquet, which the program writes to a pipe.
pub(super) struct Buckets {
    writer: Command,
}

impl Buckets {
    /// Finds the program.
    ///
    /// # Errors
    /// It is not installed.
    pub(super) fn new(run: &Path) -> Result<Self, Failure> {
        let mut writer = Command::new(installed(PROGRAM)?);
        writer
            .arg("buckets")
            .arg(run)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(Self { writer })
    }

    /// Passes on what it writes; an error of its own is one of this writing.
    pub(super) fn write(mut self, to: &mut dyn Write) -> io::Result<()> {
        let mut child = self.writer.spawn()?;
        let passed = child.stdout.take().map_or(Ok(0), |mut bytes| io::copy(&mut bytes, to));
        let ended = child.wait_with_output()?;
        passed?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(io::Error::other(said.trim().trim_start_matches("error: ").to_owned()))
    }
}
