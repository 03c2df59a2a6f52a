//! `onbeat gate`: a run passes or it does not, for machines.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use onbeat::record::{LimitNote, Series};
use onbeat::report::compare::{Digest, SHARES};
use onbeat::report::gate::{Baseline, Check, Chosen, Gate, alarm_checks, baseline_checks, limit_checks};
use onbeat::report::junit::junit;
use onbeat::report::statistics::Share;
use onbeat::report::{CellSummary, Outcome};
use onbeat_ethercat::input;

use super::compare::{digest, names};
use super::{Failure, Verdict, runs, whole};
use crate::cli_files::GateOptions;
use crate::term::{Tone, columns, say, wrapped};

pub(crate) fn run(options: &GateOptions) -> Result<Verdict, Failure> {
    std::iter::once(&options.run).chain(&options.baseline).try_for_each(|run| runs::spare(run, &options.junit))?;
    let junit = Results::begin(options.junit.as_deref())?;
    match judged(options) {
        Ok((gate, elapsed_s)) => {
            junit.end(&gate, elapsed_s)?;
            if options.json {
                say(Tone::Plain, &serde_json::to_string(&gate)?);
            } else if !junit.is_on_standard_output() {
                tell(&gate, options.series);
            }

            Ok(super::verdict(Some(gate.outcome)))
        }
        Err(why) => {
            junit.end(&cannot_run(&why.to_string()), 0.0)?;
            Err(why)
        }
    }
}

/// Where the result is to go as JUnit XML.
///
/// A later reader of the file must not take the one of an earlier gate for this one's. So it says from the beginning that
/// the gate has not come to its end, and goes on saying so if it never does.
struct Results<'o> {
    to: Option<&'o Path>,
}

impl<'o> Results<'o> {
    fn begin(to: Option<&'o Path>) -> Result<Self, Failure> {
        // Into a pipe only one result can go.
        if let Some(to) = to.filter(|to| whole::is_plain_file(to)) {
            let unfinished = cannot_run("the gate did not come to its end; it was ended from outside, or failed");
            whole::write(to, junit(&unfinished, 0.0).as_bytes())?;
        }
        Ok(Self { to })
    }

    fn end(&self, gate: &Gate, elapsed_s: f64) -> Result<(), Failure> {
        self.to.map_or(Ok(()), |to| whole::write(to, junit(gate, elapsed_s).as_bytes()))
    }

    fn is_on_standard_output(&self) -> bool {
        self.to.is_some_and(whole::is_standard_output)
    }
}

/// A gate that could not look at its run: one check that decides nothing.
fn cannot_run(why: &str) -> Gate {
    let check = Check {
        name: "the gate can be run".to_owned(),
        of: "onbeat gate".to_owned(),
        outcome: Outcome::Inconclusive,
        sentence: why.to_owned(),
    };
    Gate::new("onbeat gate", vec![check])
}

/// Words that make no command leave no result either: the file that they name as `--junit` says so.
pub(crate) fn not_understood(why: &str) {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if !words.iter().any(|word| word == "gate") {
        return;
    }

    let behind = words.iter().skip_while(|word| *word != JUNIT).nth(1).cloned();
    let joined = words.iter().find_map(|word| {
        Some(OsStr::from_bytes(word.as_bytes().strip_prefix(JUNIT.as_bytes())?.strip_prefix(b"=")?).to_owned())
    });
    // Words that make no command may name anything there; only what looks like a result is replaced.
    let may_replace = |to: &PathBuf| match input::read(to, input::MOST_BYTES_BY_HAND) {
        Ok(bytes) => !whole::is_standard_output(to) && (bytes.is_empty() || bytes.starts_with(b"<?xml")),
        Err(why) => why.kind() == ErrorKind::NotFound,
    };

    let Some(to) = behind.or(joined).map(PathBuf::from).filter(may_replace) else { return };
    let first = why.lines().next().unwrap_or_default();
    // The command has failed already, and says so.
    let _ = whole::write(&to, junit(&cannot_run(first), 0.0).as_bytes());
}

const JUNIT: &str = "--junit";

/// The gate, and how long its run took, in seconds.
fn judged(options: &GateOptions) -> Result<(Gate, f64), Failure> {
    let limit = options.limit.map(|limit_ns| LimitNote { limit_ns, at: options.at, on: options.series });
    let paths: Vec<_> = std::iter::once(options.run.clone()).chain(options.baseline.clone()).collect();
    let names = names(&paths);
    let share = Share::from_percent(options.at);
    let more = Some(share).filter(|share| !SHARES.contains(share));
    let shares: Vec<Share> = SHARES.into_iter().chain(more).collect();
    let digest_of = |n: usize, limit| digest(&paths[n], &names[n], n as u64, limit, &shares);
    let run = digest_of(0, limit)?;
    let chosen = Chosen { tuning: options.tuning.clone(), load: options.load.clone() };
    let cells = chosen.cells(&run.summary);

    if cells.is_empty() {
        return Err(Failure::NoCell { run: run.name.clone(), cells: cells_of(&run) });
    }

    let mut checks = limit.map(|limit| limit_checks(&run.name, &cells, limit)).unwrap_or_default();
    if options.baseline.is_some() {
        let base = digest_of(1, None)?;
        let (series, no_worse_than) = (options.series, options.no_worse_than);
        checks.extend(baseline_checks(&run, &cells, &Baseline { run: &base, series, share, no_worse_than }));
    }

    checks.extend(options.limit_on.iter().flat_map(|most| alarm_checks(&run.name, &cells, *most)));
    checks.extend(cut_off(&run, &cells));
    Ok((Gate::new(&run.name, checks), run.summary.elapsed_s))
}

/// A run that was cut off has not shown what it was to show.
fn cut_off(run: &Digest, cells: &[&CellSummary]) -> Vec<Check> {
    let cut = cells.iter().filter(|cell| cell.permitted && cell.file.is_some() && !cell.complete);
    let check = |cell: &&CellSummary| Check {
        name: "the run went to its end".to_owned(),
        of: format!("{}, {} under {}", run.name, cell.tuning, cell.load),
        outcome: Outcome::Inconclusive,
        sentence: "the run file was cut off before its closing line".to_owned(),
    };

    cut.map(check).collect()
}

fn cells_of(run: &Digest) -> String {
    let names = run.summary.cells.iter().map(|cell| format!("{} under {}", cell.tuning, cell.load));
    names.collect::<Vec<_>>().join(", ")
}

fn tell(gate: &Gate, series: Series) {
    for check in &gate.checks {
        let tone = match check.outcome {
            Outcome::Pass => Tone::Good,
            Outcome::Fail => Tone::Bad,
            Outcome::Inconclusive => Tone::Careful,
        };

        say(tone, &wrapped(&format!("{}: {}: {}", check.outcome.words(), check.of, check.name), columns()));
        say(Tone::Plain, &wrapped(&check.sentence, columns()));
    }
    if gate.outcome == Outcome::Inconclusive {
        say(
            Tone::Faint,
            &wrapped(&format!("the samples of {} do not decide it: exit status 2", series.words()), columns()),
        );
    }
}
