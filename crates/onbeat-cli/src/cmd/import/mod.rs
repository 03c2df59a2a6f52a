//! `onbeat import`: converts files of other tools into a run.

pub(crate) mod options;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufReader, Cursor, Read, stdin};
use std::path::{Path, PathBuf};

use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, SourceOptions, Stream};
use onbeat::record::run_dir::{BENCH_FILE, NewRunDir, RUN_FILE_ENDING};
use onbeat::record::{Cell, plain_name};
use onbeat_host::foreign::{self, MOST_BYTES_BY_HAND};
use onbeat_report::imported::UNKNOWN;

use super::failure::import::ImportFailure;
use super::{Common, ExitVerdict, Failure, runs, show, typed};
use crate::cmd::import::options::{ImportOptions, Unit};

/// Characters of a name that its file begins with: file systems allow 255 bytes, and a tag may be a
/// URL.
const LONGEST_NAME: usize = 200;

pub(crate) fn run(options: &ImportOptions) -> Result<ExitVerdict, Failure> {
    let mut sources = Vec::new();
    for path in &options.files {
        let name = if is_standard_input(path) { Path::new("stdin") } else { path.as_path() };
        sources.push((name, streams_of(path, &asked(options))?));
    }

    let (dir, new) = match &options.to {
        Some(to) => (new_directory(to)?, None),
        None => {
            let new = NewRunDir::create(&options.out)?;
            (new.path().to_owned(), Some(new))
        }
    };

    let written = write_all(&sources, options, &dir);
    match &new {
        Some(new) => runs::keep_if_begun(new, written)?,
        None => written?,
    }

    let kept = runs::reported(&dir, None, None)?;
    show::summary(
        &kept,
        show::SummaryExtent { json: options.json, ..show::SummaryExtent::default() },
        None,
    )?;
    Ok(ExitVerdict::Pass)
}

/// Writes each stream of the files as a run file.
fn write_all(
    sources: &[(&Path, Vec<Stream>)],
    options: &ImportOptions,
    dir: &Path,
) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    for (path, streams) in sources {
        for stream in streams {
            write(stream, path, options, dir, &mut names)?;
        }
    }

    Ok(())
}

fn asked(options: &ImportOptions) -> SourceOptions {
    SourceOptions {
        format: options.from,
        unit_ns: options.unit.map(Unit::ns),
        series: options.series,
        period_ns: options.period,
        column: options.column.clone(),
        skip_damaged: options.skip_damaged,
    }
}

/// Reads a file of another tool.
pub(super) fn streams_of(path: &Path, asked: &SourceOptions) -> Result<Vec<Stream>, Failure> {
    let failed = |source| ImportFailure::Import { path: path.to_owned(), source };
    if is_standard_input(path) {
        let piped = piped().map_err(Common::file("read", path))?;
        return Ok(import::read(&mut Cursor::new(piped), asked).map_err(failed)?);
    }
    let file = foreign::open(path).map_err(Common::file("read", path))?;
    let streams = import::read(&mut BufReader::with_capacity(1 << 18, file), asked);
    Ok(streams.map_err(failed)?)
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// All of standard input, which readers go over twice.
fn piped() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stdin().lock().take(MOST_BYTES_BY_HAND + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES_BY_HAND {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Creates a directory, or accepts an empty one.
fn new_directory(to: &Path) -> Result<PathBuf, Failure> {
    let failed = Common::file("create", to);
    fs::create_dir_all(to).map_err(failed)?;
    if fs::read_dir(to).map_err(failed)?.next().is_some() {
        return Err(ImportFailure::Taken { path: to.to_owned() }.into());
    }
    Ok(to.to_owned())
}

/// The run file of a stream. Of a source named `bench` it is not the file of a bench, which holds no samples.
fn run_file_name(name: &str) -> String {
    match format!("{}{RUN_FILE_ENDING}", plain_name(name)) {
        file if file == BENCH_FILE => format!("bench-{UNKNOWN}{RUN_FILE_ENDING}"),
        file => file,
    }
}

/// Writes a stream as a run file in `dir`, where files have these names already.
fn write(
    stream: &Stream,
    source: &Path,
    options: &ImportOptions,
    dir: &Path,
    names: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    let file = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = if stream.label.is_empty() { stem } else { format!("{stem} {}", stream.label) };
    let short: String = name.chars().take(LONGEST_NAME).collect();
    let numbered = |name: &str, n: u32| match n {
        1 => name.to_owned(),
        n => format!("{name} {n}"),
    };
    // Names of different letters may have the same file: `ct 1` and `ct_1`.
    let free = (1..).map(|n| (run_file_name(&numbered(&short, n)), numbered(&name, n)));
    let found = free.into_iter().find(|(file, _)| names.insert(file.clone()));
    let (bare, name) = found.unwrap_or_else(|| (run_file_name(&short), name.clone()));
    let load = options.load.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let cell = Cell::new(name, load);
    let path = dir.join(bare);
    // The final name is for a complete file only.
    let part = path.with_extension("part");
    let written = import::write(stream, &ImportLabels { command: typed(), file, cell }, &part)
        .map_err(Failure::from);
    let moved =
        written.and_then(|_| Ok(fs::rename(&part, &path).map_err(Common::file("create", &path))?));

    if moved.is_err() {
        let _ = fs::remove_file(&part);
    }

    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stream_is_taken_for_the_file_of_a_bench() {
        assert_eq!(run_file_name("bench"), "bench-unknown.onbeat.hlog");
        assert_eq!(run_file_name("bench 2"), "bench_2.onbeat.hlog");
        assert_eq!(run_file_name("ct thread 0 (CPU 0)"), "ct_thread_0__CPU_0_.onbeat.hlog");
    }
}
