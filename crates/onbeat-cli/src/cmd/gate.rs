//! `onbeat gate`: a run passes or it does not, for machines.

use std::fs;

use onbeat::record::{LimitNote, Series};
use onbeat::report::compare::{Digest, SHARES};
use onbeat::report::gate::{Baseline, Check, Chosen, Gate, baseline_checks, limit_checks};
use onbeat::report::junit::junit;
use onbeat::report::statistics::Share;
use onbeat::report::{CellSummary, Outcome};

use super::compare::{digest, names};
use super::{Failure, Verdict};
use crate::cli_files::GateOptions;
use crate::term::{Tone, columns, say, wrapped};

pub(crate) fn run(options: &GateOptions) -> Result<Verdict, Failure> {
    let limit = options.limit.map(|limit_ns| LimitNote { limit_ns, at: options.at, on: options.series });
    let paths: Vec<_> = std::iter::once(options.run.clone()).chain(options.baseline.clone()).collect();
    let names = names(&paths);
    let share = Share::of_percent(options.at);
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
    checks.extend(cut_off(&run, &cells));
    let gate = Gate::of(&run.name, checks);
    if let Some(to) = &options.junit {
        let xml = junit(&gate, run.summary.elapsed_s);
        fs::write(to, xml).map_err(|source| Failure::File { what: "write", path: to.clone(), source })?;
    }
    if options.json {
        say(Tone::Plain, &serde_json::to_string(&gate)?);
    } else {
        tell(&gate, options.series);
    }
    Ok(super::verdict(Some(gate.outcome)))
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
