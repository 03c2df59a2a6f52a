//! Files that people posted, read and brought through a run file.
#![allow(dead_code, clippy::missing_panics_doc, clippy::missing_errors_doc)]

use std::io::Cursor;
use std::path::Path;

use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, Error, SourceOptions, Stream};
use onbeat::record::{Cell, RunFile, Series};
use onbeat_report::{CellSummary, imported};

pub(crate) fn bytes_of(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_files/posted");
    std::fs::read(dir.join(name)).unwrap()
}

pub(crate) fn read(bytes: &[u8], asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    import::read(&mut Cursor::new(bytes), asked)
}

pub(crate) fn streams(text: impl AsRef<[u8]>) -> Vec<Stream> {
    read(text.as_ref(), &SourceOptions::default()).unwrap()
}

pub(crate) fn refused(text: impl AsRef<[u8]>) -> String {
    read(text.as_ref(), &SourceOptions::default()).unwrap_err().to_string()
}

pub(crate) fn skipping() -> SourceOptions {
    SourceOptions { skip_damaged: true, ..SourceOptions::default() }
}

/// Through a run file and back.
pub(crate) fn run_of(stream: &Stream) -> RunFile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let cell = Cell::new("a run", "unknown");
    let labels =
        ImportLabels { command: vec!["onbeat".to_owned()], file: "source".to_owned(), cell };
    import::write(stream, &labels, &path).unwrap();
    RunFile::read(&path).unwrap()
}

pub(crate) fn cell(stream: &Stream) -> CellSummary {
    imported::summary(std::slice::from_ref(&run_of(stream)), None).unwrap().cells.remove(0)
}

/// Count, minimum, maximum and mean of a series, in nanoseconds.
pub(crate) fn figures(stream: &Stream, series: Series) -> (u64, u64, u64, f64) {
    let cell = cell(stream);
    let of = &cell.series[&series];
    (of.count, of.min_ns, of.max_ns, (of.mean_ns * 100.0).round() / 100.0)
}
