//! Files of other tools: how long a day of an HdrHistogram log takes to import, ten such days to
//! compare, and one to be written as Parquet.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use onbeat::record::{RunWriter, Series, empty_counts};

use crate::Length;
use crate::failure::Failure;
use crate::latencies::{Latencies, header, size};
use crate::running::Running;
use crate::table::{Finding, Part, format_times};
use crate::turns::{self, Contestant, Spread, in_turns};

const SAMPLES_PER_SECOND: u64 = 1000;
const DAYS: usize = 10;

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let rounds = length.pick(5, 1);
    let seconds = length.pick(86_400, 3_600);
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let [log, run, table] = ["day.hlog", "run", "day.parquet"].map(|name| dir.path().join(name));
    eprintln!("import: making a log of {seconds} s");
    make_log(&log, seconds)?;
    let mut import = |round: u32| {
        eprintln!("import: turn {} of {rounds}", round + 1);
        let _ = fs::remove_dir_all(&run);
        timed_run("import", &[&log, "-o".as_ref(), &run])
    };

    import(0)?;
    let mut compare = |_: u32| timed_run("compare", &[run.as_path(); DAYS]);
    let mut export = |_: u32| timed_run("export", &[&run, "--parquet".as_ref(), &table]);
    let imports = in_turns(rounds, &mut [&mut import as Contestant<'_, f64>])?.remove(0);
    let runs = in_turns(rounds, &mut [&mut compare as Contestant<'_, f64>, &mut export])?;
    let title = format!(
        "an HdrHistogram log of {seconds} intervals, {}: the whole program",
        turns::describe(rounds)
    );
    let mut part = Part::alone(title);
    let mut add = |what: String, times: &[f64], goal_s: f64| {
        let spread = Spread::from_figures(times.iter().copied());
        let reached = spread.is_some_and(|s| s.median < goal_s * 1e9);
        part.add(
            Finding::new(what, format_times(spread)).with_goal(format!("< {goal_s} s"), reached),
        );
    };

    add(
        format!("import of {:.1} MB, with tables and page", size(&log)? as f64 / 1e6),
        &imports,
        2.0,
    );
    add(format!("compare of {DAYS} such runs"), &runs[0], 5.0);
    add(
        format!("Parquet of {:.1} million samples", (seconds * SAMPLES_PER_SECOND) as f64 / 1e6),
        &runs[1],
        5.0,
    );
    Ok(part)
}

/// A log as other writers of HdrHistogram's format leave it: one histogram of three digits per
/// second, and no notes.
fn make_log(path: &Path, seconds: u64) -> Result<(), Failure> {
    let noted = path.with_extension("noted");
    let mut writer = RunWriter::create(&noted, &header(None))?;
    let mut late = Latencies::around(25_000.0, 1);
    let mut counts = empty_counts(Series::WakeupLatency);
    for second in 0..seconds {
        counts.clear();
        (0..SAMPLES_PER_SECOND).for_each(|_| counts.saturating_record(late.next_ns()));
        writer.interval(Series::WakeupLatency, &counts, second as f64, 1.0)?;
    }

    let mut log = BufWriter::new(File::create(path).map_err(Failure::system("write a log"))?);
    for line in BufReader::new(File::open(&noted).map_err(Failure::system("write a log"))?).lines()
    {
        let line = line.map_err(Failure::system("write a log"))?;
        if !line.starts_with("#[onbeat: ") {
            writeln!(log, "{line}").map_err(Failure::system("write a log"))?;
        }
    }

    log.flush().map_err(Failure::system("write a log"))
}

/// Nanoseconds from start to end of the program.
fn timed_run(verb: &str, words: &[&Path]) -> Result<f64, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.arg(verb).args(words);
    let before = Instant::now();
    Running::start(command)?.finish()?;
    Ok(before.elapsed().as_nanos() as f64)
}
