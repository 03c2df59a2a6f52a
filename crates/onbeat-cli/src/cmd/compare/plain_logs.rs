//! Interval logs of other programs, which `onbeat compare` takes beside runs: each becomes the run
//! that `onbeat import` would make of it, in a directory that goes with the command.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, Format, SourceOptions};
use onbeat::record::Cell;
use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat_host::foreign;
use onbeat_report::imported::UNKNOWN;
use tempfile::TempDir;

use crate::cmd::failure::import::ImportFailure;
use crate::cmd::import::streams_of;
use crate::cmd::{Common, Failure, typed};
use crate::term::{Tone, advise};

/// A path as typed, with the run that stands for it.
pub(super) struct Opened {
    path: PathBuf,
    /// Holds the run of a plain log.
    _dir: Option<TempDir>,
}

impl Opened {
    /// Opens a run, or makes one of an interval log that is none.
    ///
    /// # Errors
    /// As `onbeat import`, with the line that cannot be read; a file of another format.
    pub(super) fn new(typed: &Path) -> Result<Self, Failure> {
        match format(typed)? {
            Some(Format::Hlog) => {}
            Some(other) => {
                let (path, format) = (typed.to_owned(), other.word());
                return Err(ImportFailure::NoRun { path, format }.into());
            }
            None => return Ok(Self { path: typed.to_owned(), _dir: None }),
        }

        let dir = tempfile::tempdir()
            .map_err(Common::file("create a directory in", &std::env::temp_dir()))?;
        import_into(dir.path(), typed)?;
        Ok(Self { path: dir.path().to_owned(), _dir: Some(dir) })
    }

    /// Where the run is.
    pub(super) fn run(&self) -> &Path {
        &self.path
    }
}

/// The format of a file of another tool. What cannot be opened has none: the reader of runs says why.
fn format(path: &Path) -> Result<Option<Format>, Failure> {
    let file = path.is_file().then(|| foreign::open(path).ok()).flatten();
    let Some(file) = file else { return Ok(None) };
    let found = import::format_of(&mut BufReader::with_capacity(1 << 16, file));
    Ok(found.map_err(|source| ImportFailure::Import { path: path.to_owned(), source })?)
}

fn import_into(dir: &Path, path: &Path) -> Result<(), Failure> {
    let asked = SourceOptions { format: Some(Format::Hlog), ..SourceOptions::default() };
    let streams = streams_of(path, &asked)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (stream, place) in streams.iter().zip(0..) {
        // Named by place: a tag may hold any letter.
        let name = if stream.label.is_empty() { file.clone() } else { stream.label.clone() };
        let labels =
            ImportLabels { command: typed(), file: file.clone(), cell: Cell::new(name, UNKNOWN) };
        import::write(stream, &labels, &dir.join(format!("{place:03}{RUN_FILE_ENDING}")))?;
    }

    let series = streams.iter().flat_map(|stream| &stream.parts).map(|part| part.series.words());
    let series = series.collect::<BTreeSet<_>>();
    advise(
        Tone::Faint,
        &format!(
            "{} is an interval log of another program: its values are taken as {} in nanoseconds; \
             `onbeat import --unit --as` makes a run of it where they are not",
            path.display(),
            series.into_iter().collect::<Vec<_>>().join(", ")
        ),
    );
    // Of the file: each of its streams has the same.
    for remark in streams.iter().flat_map(|stream| &stream.remarks).collect::<BTreeSet<_>>() {
        advise(Tone::Faint, &format!("{}: {remark}", path.display()));
    }
    Ok(())
}
