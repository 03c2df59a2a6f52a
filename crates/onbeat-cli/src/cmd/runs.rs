//! Where runs are kept: one directory each, and `latest`.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use onbeat::bench::conduct::BENCH_FILE;
use onbeat::record::{RunFile, Series};
use onbeat::report::page::page;
use onbeat::report::verdict::Limit;
use onbeat::report::{Summary, imported};
use onbeat_ethercat::input;
use serde::Serialize;

use super::Failure;
use super::whole::{self, Name};
use crate::term::{Tone, advise};

const TEMPLATE: &str = include_str!("../../assets/viewer.html");
/// The ending of run files.
pub(crate) const RUN_FILE: &str = ".onbeat.hlog";
/// What holds a run file's header for certain.
const BEGINNING_BYTES: u64 = 64 * 1024;
/// What points at the run that began last.
const LATEST: &str = "latest";
/// The page of a run, beside its files.
const PAGE: &str = "report.html";
/// Names that are tried for a new `latest`, where others are taken.
const MOST_NAMES: u32 = 100;
/// Less free space than this would not hold a run.
const LEAST_FREE_BYTES: u64 = 16 * 1024 * 1024;

/// A run's directory that was made just now, and whether the run has begun in it.
///
/// Until it has, `latest` points at the run before, and a run that is refused leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    out: PathBuf,
    /// Directories that were made for it, the innermost last.
    made: Vec<PathBuf>,
    has_begun: Cell<bool>,
}

/// A new directory below `out`, named after the time.
pub(crate) fn create(out: &Path) -> Result<Place, Failure> {
    let missing = out.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && fs::symlink_metadata(dir).is_err());
    let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    made.reverse();
    let dir = make_directory(out);
    if dir.is_err() {
        remove(&made);
    }

    let dir = dir?;
    made.push(dir.clone());
    Ok(Place { dir, out: out.to_owned(), made, has_begun: Cell::new(false) })
}

fn make_directory(out: &Path) -> Result<PathBuf, Failure> {
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| Failure::File { what, path, source }
    };

    fs::create_dir_all(out).map_err(failed("create", out))?;
    check_space(out)?;
    let latest = out.join(LATEST);
    if fs::symlink_metadata(&latest).is_ok_and(|there| there.is_dir()) {
        return Err(failed("point at the new run from", &latest)(io::ErrorKind::IsADirectory.into()));
    }

    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(':', "-");
    let mut name = now.clone();
    loop {
        let dir = out.join(&name);
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                let next =
                    name.strip_prefix(&now).and_then(|n| n.trim_start_matches('.').parse().ok()).unwrap_or(1) + 1;
                name = format!("{now}.{next}");
            }
            Err(source) => return Err(failed("create", &dir)(source)),
        }
    }
}

impl Place {
    /// The run has begun: `latest` points at it from now on. Called again, it does nothing.
    pub(crate) fn begun(&self) {
        if !self.has_begun.replace(true)
            && let Err(why) = point_latest(&self.out, self.dir.file_name().unwrap_or_default())
        {
            // The run is as good, and says itself where it is.
            let latest = self.out.join(LATEST);
            advise(Tone::Careful, &format!("cannot point at the new run from {}: {why}", latest.display()));
        }
    }

    /// What came of the run. One that never began goes: run files without samples, and the directories that were made for it.
    pub(crate) fn kept_if_begun<T>(&self, ran: Result<T, Failure>) -> Result<T, Failure> {
        match ran {
            Ok(done) => {
                self.begun();
                Ok(done)
            }
            Err(why) => {
                if !self.has_begun.get() {
                    self.withdraw();
                }
                Err(why)
            }
        }
    }

    fn withdraw(&self) {
        // What holds samples stays, and its directory with it.
        for file in run_files(&self.dir).unwrap_or_default() {
            if RunFile::read(&file).is_ok_and(|run| run.entries.is_empty()) {
                let _ = fs::remove_file(&file);
            }
        }
        remove(&self.made);
    }
}

/// Removes directories that are empty, the last one first.
fn remove(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        let _ = fs::remove_dir(dir);
    }
}

/// The directory of a run that goes on; `latest` points at it.
pub(crate) fn take_up(out: &Path, file: &Path) -> Result<PathBuf, Failure> {
    check_space(out)?;
    let dir = file.parent().unwrap_or(out).to_owned();
    if let Some(name) = dir.file_name() {
        let failed = |source| Failure::File { what: "point at the run from", path: out.join(LATEST), source };
        point_latest(out, name).map_err(failed)?;
    }

    Ok(dir)
}

fn check_space(out: &Path) -> Result<(), Failure> {
    let Ok(space) = rustix::fs::statvfs(out) else { return Ok(()) };
    let free = space.f_bavail * space.f_frsize;
    if free >= LEAST_FREE_BYTES {
        return Ok(());
    }

    let why = format!(
        "only {} KiB are free, and a run needs {} KiB; choose another place with --out",
        free / 1024,
        LEAST_FREE_BYTES / 1024
    );
    Err(Failure::File { what: "record a run in", path: out.to_owned(), source: io::Error::other(why) })
}

/// Replaced by renaming, so that `latest` always points somewhere.
fn point_latest(out: &Path, name: &OsStr) -> io::Result<()> {
    for number in 0..MOST_NAMES {
        let new = out.join(format!(".latest-{}-{number}", std::process::id()));
        match symlink(name, &new) {
            Ok(()) => {
                let moved = fs::rename(&new, out.join(LATEST));
                if moved.is_err() {
                    let _ = fs::remove_file(&new);
                }
                return moved;
            }
            // A killed onbeat of this number may have left one.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(why),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// All that is known of a run, from its files alone.
pub(crate) struct Kept {
    pub(crate) dir: PathBuf,
    pub(crate) summary: Summary,
    files: Vec<(String, String)>,
}

/// A run's summary, and its files as they were read.
pub(crate) struct Opened {
    dir: PathBuf,
    pub(crate) summary: Summary,
    pub(crate) runs: Vec<RunFile>,
}

/// What a run is to be judged by; where nothing is asked for, by what it was given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The limit on a series.
    pub(crate) limit: Option<Limit>,
    /// How many alarms of bus and robot there may be.
    pub(crate) most_alarms: Option<u64>,
}

impl From<Option<Limit>> for Asked {
    fn from(limit: Option<Limit>) -> Self {
        Self { limit, most_alarms: None }
    }
}

/// Reads a run's directory, or one run file, and judges it by `asked`, or else by the limits it was given.
pub(crate) fn read(path: &Path, asked: impl Into<Asked>) -> Result<Kept, Failure> {
    read_for(path, asked, None)
}

/// The same, with the worst estimated for a mission of so many nanoseconds.
pub(crate) fn read_for(path: &Path, asked: impl Into<Asked>, mission_ns: Option<u64>) -> Result<Kept, Failure> {
    let Opened { dir, mut summary, runs } = open(path, asked)?;
    summary.conclude(&runs, mission_ns.map(|ns| ns as f64 / 1e9));
    Ok(Kept { dir, summary, files: texts(path)? })
}

fn names_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.is_dir() { run_files(path) } else { Ok(vec![path.to_owned()]) }
}

/// Looks that what is written to `to` takes no file of the run's place: a run cannot be measured again.
pub(crate) fn spare<'p>(run: &Path, to: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), Failure> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    // What is wrong with the run is reported when it is read.
    let own: Vec<_> = names_of(run).unwrap_or_default().iter().filter_map(|file| identity(file)).collect();
    match to.into_iter().find(|to| identity(to).is_some_and(|there| own.contains(&there))) {
        Some(path) => Err(Failure::OwnFile { path: path.clone(), run: run.to_owned() }),
        None => Ok(()),
    }
}

/// A run without the text of its files. A bench's own file is not among the runs.
pub(crate) fn open(path: &Path, asked: impl Into<Asked>) -> Result<Opened, Failure> {
    let Asked { limit, most_alarms } = asked.into();
    let names = names_of(path)?;
    let dir = if path.is_dir() { path.to_owned() } else { path.parent().unwrap_or(Path::new(".")).to_owned() };
    let mut runs = names.iter().map(|name| RunFile::read(name)).collect::<Result<Vec<_>, _>>()?;
    let bench = runs.iter().position(|run| run.bench.is_some() || run.path.ends_with(BENCH_FILE));
    let summary = match (bench, runs.len()) {
        (Some(place), _) => {
            let bench = runs.remove(place);
            let note = bench.bench.as_ref();
            let given = note.and_then(|bench| bench.limit);
            let most_alarms = most_alarms.or(note.and_then(|bench| bench.most_alarms));
            Summary::of_bench_against(&bench, &runs, limit.or(given)).with_most_alarms(most_alarms)
        }
        (None, _) if !runs.is_empty() && runs.iter().all(|run| run.import.is_some()) => {
            let summary = imported::summary(&runs, limit);
            summary.ok_or_else(|| Failure::NoRun { path: path.to_owned() })?
        }
        (None, 1) => {
            let header = &runs[0].header;
            let most_alarms = most_alarms.or(header.most_alarms);
            Summary::of_run(&runs[0], limit.or(header.limit)).with_most_alarms(most_alarms)
        }
        (None, _) => return Err(Failure::NoRun { path: path.to_owned() }),
    };

    Ok(Opened { dir, summary, runs })
}

/// The run files of a run as text, by name.
pub(crate) fn texts(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    names_of(path)?.iter().map(|name| text(name)).collect()
}

/// The page of a summary and the files it speaks of.
pub(crate) fn page_of(summary: &impl Serialize, files: &[(String, String)]) -> Result<String, Failure> {
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Ok(page(TEMPLATE, &files, &serde_json::to_string(summary)?)?)
}

/// The run files with samples of a run's directory, or the one that is named.
pub(crate) fn cells(path: &Path) -> Result<Vec<RunFile>, Failure> {
    let names = if path.is_dir() { run_files(path)? } else { vec![path.to_owned()] };
    let mut runs = names.iter().map(|name| RunFile::read(name)).collect::<Result<Vec<_>, _>>()?;
    runs.retain(|run| run.bench.is_none());
    Ok(runs)
}

/// The series that a run is about, from the beginning of its first file; wake-up latency where that does not tell.
pub(crate) fn main_series(path: &Path) -> Series {
    let first = names_of(path).ok().and_then(|names| names.into_iter().find(|name| !name.ends_with(BENCH_FILE)));
    let told = first.and_then(|name| {
        let mut beginning = Vec::new();
        input::open(&name).ok()?.take(BEGINNING_BYTES).read_to_end(&mut beginning).ok()?;
        RunFile::parse(&name, &beginning).ok()?.header.series.first().copied()
    });

    told.unwrap_or_default()
}

fn run_files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |source| Failure::File { what: "read", path: dir.to_owned(), source };
    let entries = fs::read_dir(dir).map_err(failed)?.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    let mut names: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    names.retain(|name| name.to_string_lossy().ends_with(RUN_FILE));
    names.sort();
    if names.is_empty() { Err(Failure::NoRun { path: dir.to_owned() }) } else { Ok(names) }
}

fn text(path: &Path) -> Result<(String, String), Failure> {
    let text = input::text(path, u64::MAX - 1).map_err(|source| Failure::File {
        what: "read",
        path: path.to_owned(),
        source,
    })?;
    Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text))
}

impl Kept {
    /// Writes the page, beside the run files unless told otherwise, and says where it is.
    pub(crate) fn write_page(&self, to: Option<&Path>) -> Result<PathBuf, Failure> {
        let html = page_of(&self.summary, &self.files)?;
        let (to, name) = match to {
            Some(to) => (to.to_owned(), Name::Typed),
            None => (self.dir.join(PAGE), Name::Chosen),
        };

        let written = whole::stream(&to, name, |to| to.write_all(html.as_bytes()));
        match written {
            Err(Failure::File { path, source, .. }) if name == Name::Chosen => Err(Failure::Page { path, source }),
            written => written.map(|()| to),
        }
    }
}

/// A duration as people say it: `2 min 1 s`.
pub(crate) fn spoken(seconds: f64) -> String {
    let whole = Duration::from_secs(seconds.round() as u64);
    let words = humantime::format_duration(whole).to_string();
    let spaced = words.split(' ').map(|word| {
        let (number, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
        format!("{number} {}", if unit == "m" { "min" } else { unit })
    });

    spaced.collect::<Vec<_>>().join(" ")
}
