//! The formats of `onbeat export` that hold a whole run.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use onbeat::record::{Cell, RunFile, Series};
use onbeat::report::export::{self, csv, hgrm, openmetrics, parquet};

use super::{Failure, runs};
use crate::cli_files::ExportFormats;
use crate::term::{Tone, advise};

/// Percentile text is in milliseconds, as HdrHistogram's own tools print it.
const HGRM_UNIT_NS: f64 = 1e6;

pub(crate) fn write(run: &Path, formats: &ExportFormats) -> Result<(), Failure> {
    let opened = runs::open(run, None)?;
    let files = &opened.runs;
    if let Some(to) = &formats.csv {
        into(to, |to| csv::write(files, to))?;
    }
    if let Some(to) = &formats.json {
        let json = serde_json::to_string(&opened.summary)?;
        into(to, |to| writeln!(to, "{json}"))?;
    }
    if let Some(to) = &formats.openmetrics {
        into(to, |to| openmetrics::write(files, to))?;
    }
    if let Some(to) = &formats.parquet {
        into(to, |to| parquet::write(files, to).map(|_| ()))?;
    }
    match &formats.hgrm {
        Some(dir) => percentiles(dir, files),
        None => Ok(()),
    }
}

/// A file per cell and series.
fn percentiles(dir: &Path, files: &[RunFile]) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(|source| Failure::File { what: "create", path: dir.to_owned(), source })?;
    for file in files {
        for series in Series::ALL {
            let distribution = file.distribution(series);
            if distribution.count() > 0 {
                let to = dir.join(name(&export::cell(file), series));
                into(&to, |to| hgrm::write(&distribution, &file.moments(series), HGRM_UNIT_NS, to))?;
            }
        }
    }
    Ok(())
}

fn name(cell: &Cell, series: Series) -> String {
    cell.file_name().replace(runs::RUN_FILE, &format!("-{}.hgrm", series.tag()))
}

/// Opens the file, writes it and says where it is; `-` is standard output.
fn into(to: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let failed = |source| Failure::File { what: "write", path: to.to_owned(), source };
    if to.as_os_str() == "-" {
        let mut out = BufWriter::new(io::stdout().lock());
        // A reader that has gone, as `head` does, is no error.
        return match write(&mut out).and_then(|()| out.flush()) {
            Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(failed(why)),
            _ => Ok(()),
        };
    }
    let mut file = BufWriter::with_capacity(1 << 18, File::create(to).map_err(failed)?);
    write(&mut file).and_then(|()| file.flush()).map_err(failed)?;
    advise(Tone::Faint, &format!("export   {}", to.display()));
    Ok(())
}
