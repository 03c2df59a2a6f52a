//! The files of a run, read once each.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onbeat_host::foreign;

use super::{BENCH_FILE, LATEST, RUN_FILE_ENDING, RunDirError, USUAL_OUT, failed};
use crate::note::Header;
use crate::run_file::RunFile;
use crate::series::Series;
use crate::writer_lock::is_being_written;

/// What holds a run file's header for certain, in bytes.
const BEGINNING_BYTES: u64 = 64 * 1024;

/// Digits of a number in a name that are compared by value.
const MOST_DIGITS: usize = 20;

/// A run as its files hold it.
#[derive(Debug)]
pub struct StoredRun {
    /// Its directory.
    pub dir: PathBuf,
    /// Its files, by name; that of a bench is among them.
    pub files: Vec<RunFile>,
    /// The same files as text, where that was asked for.
    pub texts: Vec<RunText>,
}

/// A run file as text, as the page carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunText {
    /// The name of the file, without its directory.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// Reads the run files of a directory, or the one that is named.
///
/// # Errors
/// [`RunDirError`].
pub fn read(path: &Path) -> Result<StoredRun, RunDirError> {
    let files =
        run_files(path)?.iter().map(|file| RunFile::read(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(StoredRun { dir: dir_of(path), files, texts: Vec::new() })
}

/// Reads the run files of a directory, or the one that is named, and keeps their text: each file is
/// read once, so that figures and page agree whatever is written to it in the meantime.
///
/// # Errors
/// [`RunDirError`].
pub fn read_with_text(path: &Path) -> Result<StoredRun, RunDirError> {
    let mut stored = StoredRun { dir: dir_of(path), files: Vec::new(), texts: Vec::new() };
    for file in run_files(path)? {
        let (run, bytes) = RunFile::read_with_bytes(&file)?;
        let not_text = |why: std::string::FromUtf8Error| {
            io::Error::new(io::ErrorKind::InvalidData, why.utf8_error())
        };
        let text = String::from_utf8(bytes).map_err(not_text).map_err(failed("read", &file))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        stored.files.push(run);
        stored.texts.push(RunText { name, text });
    }

    Ok(stored)
}

/// Reads the run files with samples: all but the file of a bench.
///
/// # Errors
/// [`RunDirError`].
pub fn read_cells(path: &Path) -> Result<Vec<RunFile>, RunDirError> {
    let mut files = read(path)?.files;
    files.retain(|run| run.bench.is_none());
    Ok(files)
}

/// Lists the run files of a directory by name; a path that is not a directory is listed as it is.
///
/// # Errors
/// [`RunDirError::NoRun`] for a directory without one, [`RunDirError::NoneYet`] for the latest run
/// of the usual place where there is none.
pub fn run_files(path: &Path) -> Result<Vec<PathBuf>, RunDirError> {
    if !path.is_dir() {
        let is_usual = path.ends_with(Path::new(USUAL_OUT).join(LATEST));
        if is_usual && fs::symlink_metadata(path).is_err() {
            return Err(RunDirError::NoneYet { path: path.to_owned() });
        }
        return Ok(vec![path.to_owned()]);
    }

    let entries = fs::read_dir(path)
        .and_then(Iterator::collect::<io::Result<Vec<_>>>)
        .map_err(failed("read", path))?;
    let mut names: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    names.retain(|name| name.to_string_lossy().ends_with(RUN_FILE_ENDING));
    names.sort();
    names.sort_by_cached_key(|name| by_number(name));
    if names.is_empty() { Err(RunDirError::NoRun { path: path.to_owned() }) } else { Ok(names) }
}

/// The key of a name among others, where numbers count by their value: thread 2 is before thread 10.
fn by_number(name: &Path) -> Vec<u8> {
    let name = name.as_os_str().as_encoded_bytes();
    let mut key = Vec::with_capacity(name.len());
    for part in name.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        if part.first().is_some_and(u8::is_ascii_digit) {
            key.resize(key.len() + MOST_DIGITS.saturating_sub(part.len()), b'0');
        }
        key.extend_from_slice(part);
    }
    key
}

/// Returns whether a process writes to a file of the run now.
#[must_use]
pub fn goes_on(path: &Path) -> bool {
    run_files(path).is_ok_and(|files| files.iter().any(|file| is_being_written(file)))
}

/// Returns the primary series of a run, from the beginning of its first file; wake-up latency where
/// the file has none.
#[must_use]
pub fn main_series(path: &Path) -> Series {
    let first = run_files(path)
        .ok()
        .and_then(|files| files.into_iter().find(|file| !file.ends_with(BENCH_FILE)));
    let series = first.and_then(|file| header_of(&file)?.series.first().copied());
    series.unwrap_or_default()
}

/// Reads the header of a run file and nothing behind it; `None` for anything else.
pub(super) fn header_of(file: &Path) -> Option<Header> {
    let mut beginning = Vec::new();
    foreign::open(file).ok()?.take(BEGINNING_BYTES).read_to_end(&mut beginning).ok()?;
    Some(RunFile::parse(file, &beginning).ok()?.header)
}

/// Checks that none of the files `to` is a file of the run: a run cannot be measured again.
///
/// # Errors
/// [`RunDirError::OwnFile`].
pub fn check_not_own_file<'p>(
    run: &Path,
    to: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<(), RunDirError> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    // What is wrong with the run is reported when it is read.
    let own: Vec<_> =
        run_files(run).unwrap_or_default().iter().filter_map(|file| identity(file)).collect();
    match to.into_iter().find(|to| identity(to).is_some_and(|there| own.contains(&there))) {
        Some(path) => Err(RunDirError::OwnFile { path: path.clone(), run: run.to_owned() }),
        None => Ok(()),
    }
}

fn dir_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.to_owned() } else { path.parent().unwrap_or(Path::new(".")).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, RunWriter};

    #[test]
    fn the_text_for_the_page_is_what_the_figures_were_read_from() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("timer.onbeat.hlog");
        let header = Header::new(&["onbeat".to_owned()], "timer", &[Series::ReleaseLatency], 0.0);
        drop(RunWriter::create(&file, &header).unwrap());

        let stored = read_with_text(dir.path()).unwrap();
        fs::write(&file, "replaced").unwrap();
        let RunText { name, text } = &stored.texts[0];
        assert_eq!((name.as_str(), stored.files.len()), ("timer.onbeat.hlog", 1));
        assert_eq!(
            RunFile::parse(&file, text.as_bytes()).unwrap().header.probe,
            stored.files[0].header.probe
        );
    }

    #[test]
    fn files_are_in_the_order_of_the_numbers_in_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["ct_thread_0", "ct_thread_2", "ct_thread_10", "none-cpu=20_", "none-idle"];
        let paths = names.map(|name| dir.path().join(format!("{name}{RUN_FILE_ENDING}")));
        paths.iter().rev().for_each(|path| fs::write(path, "").unwrap());
        assert_eq!(run_files(dir.path()).unwrap(), paths);
    }

    #[test]
    fn a_file_of_the_run_is_not_a_place_for_results() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("timer.onbeat.hlog");
        fs::write(&file, "").unwrap();
        let link = dir.path().join("table.csv");
        fs::hard_link(&file, &link).unwrap();

        let refused = check_not_own_file(dir.path(), [&link]).unwrap_err().to_string();
        assert!(refused.contains("table.csv is a file of the run"), "{refused}");
        assert!(check_not_own_file(dir.path(), [&dir.path().join("other.csv")]).is_ok());
    }

    #[test]
    fn a_directory_without_run_files_is_reported_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let why = read(dir.path()).unwrap_err().to_string();
        assert!(
            why.contains("holds no run file") && why.contains(&*dir.path().to_string_lossy()),
            "{why}"
        );

        std::os::unix::fs::symlink("2026-11-29T20-00-00Z", dir.path().join("latest")).unwrap();
        fs::create_dir(dir.path().join("2026-11-29T20-00-00Z")).unwrap();
        let why = read(dir.path()).unwrap_err().to_string();
        assert!(why.ends_with("/latest is a run"), "{why}");
    }

    #[test]
    fn where_nothing_was_measured_yet_the_usual_run_is_said_to_be_missing() {
        let dir = tempfile::tempdir().unwrap();
        let why = read(&dir.path().join("onbeat-runs/latest")).unwrap_err().to_string();
        assert!(why.contains("onbeat-runs/latest yet; `onbeat bench` measures a run"), "{why}");
        let other = read(&dir.path().join("latest")).unwrap_err().to_string();
        assert!(other.contains("No such file"), "{other}");
    }
}
