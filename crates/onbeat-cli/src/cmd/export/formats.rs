//! The formats of `onbeat export` that hold a whole run.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use onbeat::record::run_dir::RUN_FILE_ENDING;
use onbeat::record::{Cell, RunFile, Series};
use onbeat_report::JudgedRun;
use onbeat_report::export::{self, csv, hgrm, openmetrics};

use crate::cmd::export::options::ExportFormats;
use crate::cmd::fleet::Buckets;
use crate::cmd::whole::Name;
use crate::cmd::{Common, Failure, runs, whole};
use crate::term::{Tone, advise};

/// Percentile text is in milliseconds, as HdrHistogram's own tools print it.
const HGRM_UNIT_NS: f64 = 1e6;

/// Why a series has no percentiles.
const FIGURES_ONLY: &str = "the source states extremes and mean only";

/// Percentile text is of samples. Tables and summaries of a run without any are empty and valid.
#[derive(Debug, thiserror::Error)]
#[error("{} has no samples, and so no percentiles to export", .run.display())]
struct NoSamples {
    run: PathBuf,
}

pub(crate) fn write(run: &Path, formats: &ExportFormats) -> Result<(), Failure> {
    let JudgedRun { summary, mut runs, other_cpus } = runs::judged(run, None)?;
    runs.extend(other_cpus);
    let files = &runs;
    if let Some(to) = &formats.csv {
        into(to, Name::Typed, |to| csv::write(files, to))?;
    }

    if let Some(to) = &formats.json {
        let json = serde_json::to_string(&summary)?;
        into(to, Name::Typed, |to| writeln!(to, "{json}"))?;
    }

    if let Some(to) = &formats.openmetrics {
        into(to, Name::Typed, |to| openmetrics::write(files, to))?;
    }
    if let Some(to) = &formats.parquet {
        let buckets = Buckets::new(run)?;
        into(to, Name::Typed, |to| buckets.write(to))?;
    }

    match &formats.hgrm {
        Some(dir) if files.iter().any(has_samples) => percentiles(dir, files),
        Some(_) => Err(NoSamples { run: run.to_owned() }.into()),
        None => Ok(()),
    }
}

fn has_samples(file: &RunFile) -> bool {
    file.entries.iter().any(|entry| entry.counts.count() > 0)
}

/// Writes a file per cell and series.
fn percentiles(dir: &Path, files: &[RunFile]) -> Result<(), Failure> {
    fs::create_dir_all(dir).map_err(Common::file("create", dir))?;
    for file in files {
        for series in Series::ALL {
            let distribution = file.distribution(series);
            let name = file_name(&export::cell(file), series);
            if file.is_figures_only(series) {
                advise(Tone::Faint, &format!("not exported: {name}: {FIGURES_ONLY}"));
            } else if distribution.count() > 0 {
                let to = dir.join(name);
                into(&to, Name::Chosen, |to| {
                    hgrm::write(&distribution, &file.moments(series), HGRM_UNIT_NS, to)
                })?;
            }
        }
    }

    Ok(())
}

fn file_name(cell: &Cell, series: Series) -> String {
    cell.file_name().replace(RUN_FILE_ENDING, &format!("-{}.hgrm", series.tag()))
}

/// Writes a file and says where it is; `-` is standard output.
fn into(
    to: &Path,
    name: Name,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    whole::stream(to, name, write)?;
    if name == Name::Chosen || !whole::is_standard_output(to) {
        advise(Tone::Faint, &format!("export   {}", to.display()));
    }
    Ok(())
}
