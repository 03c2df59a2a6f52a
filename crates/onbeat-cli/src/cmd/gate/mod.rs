//! `onbeat gate`: decides whether a run passes, for continuous integration.

pub(crate) mod options;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use onbeat::record::LimitNote;
use onbeat::record::run_dir::check_not_own_file;
use onbeat_host::foreign;
use onbeat_report::compare::{Digest, SHARES};
use onbeat_report::gate::{
    Baseline, Check, Chosen, Gate, alarm_checks, baseline_checks, limit_checks,
};
use onbeat_report::junit::junit;
use onbeat_report::statistics::Share;
use onbeat_report::units::cell_name;
use onbeat_report::{CellSummary, JudgedRun, Outcome, Summary};

use super::compare::{given_twice, side_names};
use super::show::tone_of;
use super::trend::percentile;
use super::{Common, ExitVerdict, Failure, runs, whole};
use crate::cmd::gate::options::GateOptions;
use crate::term::{Tone, say, say_wrapped};

pub(crate) fn run(options: &GateOptions) -> Result<ExitVerdict, Failure> {
    let mut runs = options.runs.iter().chain(&options.baseline);
    runs.try_for_each(|run| check_not_own_file(run, &options.junit))?;
    let junit = Results::begin(options.junit.as_deref())?;
    if options.json && junit.is_on_standard_output() {
        return Err(Common::TwoDocuments.into());
    }
    match judged(options) {
        Ok((gate, elapsed_s)) => {
            junit.end(&gate, elapsed_s)?;
            if options.json {
                say(Tone::Plain, &serde_json::to_string(&gate)?);
            } else if !junit.is_on_standard_output() {
                print(&gate);
            }

            Ok(super::looping::verdict(Some(gate.outcome)))
        }
        Err(why) => {
            junit.end(&cannot_run(&why.to_string()), 0.0)?;
            Err(why)
        }
    }
}

/// The JUnit file of a gate.
///
/// A reader must not take the file of an earlier gate for the result of this one. So the file says
/// from the start that the gate did not finish, until it has.
struct Results<'o> {
    to: Option<&'o Path>,
}

impl<'o> Results<'o> {
    fn begin(to: Option<&'o Path>) -> Result<Self, Failure> {
        // A pipe takes one result only.
        if let Some(to) = to.filter(|to| whole::is_plain_file(to)) {
            let unfinished =
                cannot_run("the gate did not finish; it was ended from outside, or failed");
            whole::write(to, junit(&unfinished, 0.0).as_bytes())?;
        }
        Ok(Self { to })
    }

    fn end(&self, gate: &Gate, elapsed_s: f64) -> Result<(), Failure> {
        Ok(self.to.map_or(Ok(()), |to| whole::write(to, junit(gate, elapsed_s).as_bytes()))?)
    }

    fn is_on_standard_output(&self) -> bool {
        self.to.is_some_and(whole::is_standard_output)
    }
}

/// Returns the result of a gate that could not read its run: one inconclusive check.
fn cannot_run(why: &str) -> Gate {
    let check = Check {
        name: "the gate can be run".to_owned(),
        of: "onbeat gate".to_owned(),
        outcome: Outcome::Inconclusive,
        sentence: why.to_owned(),
        basis: String::new(),
    };
    Gate::new("onbeat gate", vec![check])
}

/// Writes the error of an invalid command line to the file that it names as `--junit`.
pub(crate) fn not_understood(why: &str) {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if !words.iter().any(|word| word == "gate") {
        return;
    }

    let behind = words.iter().skip_while(|word| *word != "--junit").nth(1).cloned();
    let joined = words.iter().find_map(|word| word.as_bytes().strip_prefix(b"--junit="));
    let joined = joined.map(|to| OsStr::from_bytes(to).to_owned());
    // An invalid command line may name any file there; only what looks like a result is replaced.
    let may_replace = |to: &PathBuf| match foreign::read(to, foreign::MOST_BYTES_BY_HAND) {
        Ok(bytes) => {
            !whole::is_standard_output(to) && (bytes.is_empty() || bytes.starts_with(b"<?xml"))
        }
        Err(why) => why.kind() == ErrorKind::NotFound,
    };

    let Some(to) = behind.or(joined).map(PathBuf::from).filter(may_replace) else { return };
    let first = why.lines().next().unwrap_or_default();
    // The command has failed already and reports that.
    let _ = whole::write(&to, junit(&cannot_run(first), 0.0).as_bytes());
}

/// Returns the gate, and the length of its run in seconds.
fn judged(options: &GateOptions) -> Result<(Gate, f64), Failure> {
    let limit = limit(options);
    let [path, more @ ..] = options.runs.as_slice() else { return Err(Common::NoRunNamed.into()) };
    if !more.is_empty()
        && (limit.is_some() || options.limit_on.is_some() || options.baseline.is_empty())
    {
        return Err(Common::LimitOfSide { runs: options.runs.len() }.into());
    }
    if options.watch {
        return watch::watched(options, path, limit);
    }

    let sides = [options.runs.as_slice(), &options.baseline].into_iter();
    let sides: Vec<&[PathBuf]> = sides.filter(|side| !side.is_empty()).collect();
    let names = side_names(&sides);
    let runs = options.runs.iter().map(|path| runs::judged(path, limit));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let (mut elapsed_s, mut checks, mut rest) = (0.0, Vec::new(), Vec::new());
    for (path, JudgedRun { summary, runs, .. }) in options.runs.iter().zip(&runs) {
        if options.limit_on.is_some() {
            runs::check_bus(path, runs)?;
        }
        elapsed_s += summary.elapsed_s;
        let cells = chosen(options, &names[0], summary)?;
        let most = options.limit_on.iter();
        checks.extend(limit.iter().flat_map(|limit| limit_checks(&names[0], &cells, *limit)));
        rest.extend(most.flat_map(|most| alarm_checks(&names[0], &cells, *most)));
        rest.extend(cut_off(&names[0], &cells));
    }

    if let [_, base] = sides.as_slice() {
        checks.extend(against(options, &names, runs, base)?);
    }
    checks.extend(rest);
    Ok((Gate::new(&names[0], checks), elapsed_s))
}

pub(super) fn limit(options: &GateOptions) -> Option<LimitNote> {
    options.limit.map(|limit_ns| LimitNote { limit_ns, at: options.at, on: options.series })
}

/// The cells of a run that are checked.
pub(super) fn chosen<'s>(
    options: &GateOptions,
    name: &str,
    summary: &'s Summary,
) -> Result<Vec<&'s CellSummary>, Failure> {
    let chosen = Chosen { tuning: options.tuning.clone(), load: options.load.clone() };
    let cells = chosen.cells(summary);
    if cells.is_empty() {
        let asked = [("--tuning", &options.tuning), ("--load", &options.load)];
        let typed = |(option, word): (&str, &Option<String>)| {
            word.as_ref().map(|word| format!("{option} {word}"))
        };
        let asked = asked.into_iter().filter_map(typed).collect::<Vec<_>>().join(" ");
        return Err(Common::NoCell { run: name.to_owned(), asked, cells: cells_of(summary) }.into());
    }

    Ok(cells)
}

/// Refuses a run that is named twice: on both sides it passes against itself.
fn check_named_once(runs: &[PathBuf], base: &[PathBuf]) -> Result<(), Common> {
    for side in [runs, base] {
        let paths: Vec<&PathBuf> = side.iter().collect();
        if let Some((first, again)) = given_twice(&paths) {
            return Err(Common::RunTwice { first: first.clone(), again: again.clone() });
        }
    }

    let paths: Vec<&PathBuf> = runs.iter().chain(base).collect();
    given_twice(&paths).map_or(Ok(()), |(run, baseline)| {
        Err(Common::OwnBaseline { run: run.clone(), baseline: baseline.clone() })
    })
}

/// Checks the runs of a side against those of the baseline.
fn against(
    options: &GateOptions,
    names: &[String],
    runs: Vec<JudgedRun>,
    base: &[PathBuf],
) -> Result<Vec<Check>, Failure> {
    let share = percentile(options.at)?;
    check_named_once(&options.runs, base)?;
    let more = Some(share).filter(|share| !SHARES.contains(share));
    let shares: Vec<Share> = SHARES.into_iter().chain(more).collect();
    let base_runs = base.iter().map(|path| runs::judged(path, None));
    let base_runs = base_runs.collect::<Result<Vec<_>, _>>()?;
    // Resampled as `onbeat compare BASELINE RUN` does, so that both print one interval.
    let base = Digest::of_side(&names[1], 0, base_runs, &shares);
    let run = Digest::of_side(&names[0], 1, runs, &shares);
    let (Some(base), Some(run)) = (base, run) else { return Err(Common::NoRunNamed.into()) };

    let cells = chosen(options, &run.name, &run.summary)?;
    let series = options.series;
    let no_worse_than = options.no_worse_than;
    Ok(baseline_checks(&run, &cells, &Baseline { run: &base, series, share, no_worse_than }))
}

/// Returns an inconclusive check for a run that was cut off.
pub(super) fn cut_off(run: &str, cells: &[&CellSummary]) -> Vec<Check> {
    let cut = cells.iter().filter(|cell| cell.permitted && cell.file.is_some() && !cell.complete);
    let check = |cell: &&CellSummary| Check {
        name: "the run went to its end".to_owned(),
        of: format!("{run}, {}", cell_name(&cell.tuning, &cell.load)),
        outcome: Outcome::Inconclusive,
        sentence: match cell.goes_on {
            true => "the run is in progress; --watch follows it until its limit is decided",
            false => "the run file was cut off before its closing line",
        }
        .to_owned(),
        basis: String::new(),
    };

    cut.map(check).collect()
}

/// In the words of the options.
fn cells_of(summary: &Summary) -> String {
    let names = summary.cells.iter().map(|cell| format!("{}/{}", cell.tuning, cell.load));
    let mut names: Vec<String> = names.collect();
    // Those of several CPUs follow one another.
    names.dedup();
    names.join(", ")
}

fn print(gate: &Gate) {
    for check in &gate.checks {
        let words = format!("{}: {}: {}", check.outcome.words(), check.of, check.name);
        say_wrapped(tone_of(check.outcome), &words);
        say_wrapped(Tone::Plain, &check.sentence);
    }
    let mut bases: Vec<&str> = gate.checks.iter().map(|check| check.basis.as_str()).collect();
    bases.sort_unstable();
    bases.dedup();
    for basis in bases.into_iter().filter(|basis| !basis.is_empty()) {
        say_wrapped(Tone::Faint, basis);
    }
    if gate.outcome == Outcome::Inconclusive {
        say_wrapped(Tone::Faint, "the samples do not decide it: exit status 3");
    }
}
