//! `onbeat tune check`: this machine against the catalogue of tunings, without changes.

use std::path::Path;

use onbeat::record::{Series, TaskNote, Timing};
use onbeat_report::{CellSummary, JudgedRun, Statistics};
use onbeat_tune::catalogue::{CheckVerdict, Finding, HostTree, LoopSetup, catalogue};
use onbeat_tune::check;
use onbeat_tune::plan::{CpuChoice, PlanError};

use super::check_words as tune;
use super::options::{CheckedLoopOptions, QueryOptions, TaskWord, TuneCheckOptions};
use super::running::{self, Looked};
use crate::cmd::findings::checked::{self, CheckedTuning, VerdictCounts};
use crate::cmd::findings::evidence::{self, WatchedMachine};
use crate::cmd::findings::spike_causes::SpikeCauses;
use crate::cmd::findings::{add_remembered, machine};
use crate::cmd::looping::check_cpu;
use crate::cmd::{ExitVerdict, Failure, runs, show};
use crate::term::{Tone, advise, letters, say, say_folded};

pub(super) fn run(options: &TuneCheckOptions) -> Result<ExitVerdict, Failure> {
    let run = options.run.as_deref().map(RecordedLoop::read).transpose()?;
    let tree = machine::tree(options.query.from.as_deref())?;
    let checked = checked_loop(options, run.as_ref())?;
    let (setup, because) = setup(&tree, &checked, run.as_ref())?;

    let mut findings = check(&tree, &setup);
    if let Some(load) = run.as_ref().and_then(|run| run.load.as_ref()) {
        findings.iter_mut().filter(|of| of.id == "proc.load").for_each(|of| load.judge(of));
    }
    let watch = |duration_ns| evidence::watch(&setup, duration_ns, options.query.json);
    let watched = options.evidence.map(watch).transpose()?;
    let of_run = run.as_ref().and_then(|run| run.causes.as_ref());
    let causes = of_run.or(watched.as_ref().and_then(|watched| watched.causes.as_ref()));
    let mut tunings = checked_tunings(findings, &setup, causes, watched.as_ref());
    let is_here = options.query.from.is_none();
    if is_here {
        add_remembered(&mut tunings);
    }
    if !options.ids.is_empty() {
        let named = options.ids.iter().flat_map(|id| catalogue().resolve(id));
        let named: Vec<&str> = named.map(|of| of.id.as_str()).collect();
        tunings.retain(|one| named.contains(&one.record.id.as_str()));
    }

    if options.query.json {
        say(Tone::Plain, &checked::json(&setup, is_here, watched.as_ref(), &tunings)?);
    } else if options.ids.is_empty() {
        print_check(options, because.as_deref(), &setup, watched.as_ref(), &tunings);
    } else {
        print_details(&tunings);
    }

    Ok(ExitVerdict::Pass)
}

/// The typed loop; where none is named, that of the program which the run watched and which still
/// runs.
fn checked_loop(
    options: &TuneCheckOptions,
    run: Option<&RecordedLoop>,
) -> Result<CheckedLoopOptions, Failure> {
    let QueryOptions { from, json, checked } = &options.query;
    let (from, json) = (from.as_deref(), *json);
    if checked.task.is_none()
        && from.is_none()
        && let Some(task) = run.and_then(|run| run.task.as_ref())
    {
        let Some(thread) = running::still_runs(task) else {
            let words = format!(
                "{} [{}] of the run has ended; its own settings are not judged",
                task.name, task.tid
            );
            advise(Tone::Careful, &words);
            return Ok(checked.clone());
        };
        let task = Some(TaskWord::Thread(thread.id.tid));
        return Ok(CheckedLoopOptions { task, ..checked.clone() });
    }
    running::resolved(checked, Looked { from, json })
}

/// What a run says about its loop and about the causes of its spikes.
struct RecordedLoop {
    task: Option<TaskNote>,
    timing: Option<Timing>,
    causes: Option<SpikeCauses>,
    load: Option<ExecutionShare>,
}

/// Execution times of a run as shares of its period.
struct ExecutionShare {
    mean: f64,
    worst: f64,
}

/// The shares that leave slack: one late cycle then delays no other.
const MOST_MEAN_SHARE: f64 = 0.5;
const MOST_WORST_SHARE: f64 = 0.7;

impl ExecutionShare {
    /// Of the cell that has the largest; `None` where none recorded execution times.
    fn new(cells: &[CellSummary], period_ns: u64) -> Option<Self> {
        if period_ns == 0 {
            return None;
        }
        let times = || cells.iter().filter_map(|cell| cell.series.get(&Series::ExecutionTime));
        let largest = |of: fn(&Statistics) -> f64| times().map(of).reduce(f64::max);
        let period_ns = period_ns as f64;
        Some(Self {
            mean: largest(|of| of.mean_ns)? / period_ns,
            worst: largest(|of| of.max_ns as f64)? / period_ns,
        })
    }

    /// Judges what a check alone does not know.
    fn judge(&self, finding: &mut Finding) {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let is_good = self.mean <= MOST_MEAN_SHARE && self.worst <= MOST_WORST_SHARE;
        finding.verdict = if is_good { CheckVerdict::Good } else { CheckVerdict::Bad };
        finding.current = format!(
            "execution time of the run: mean {}, worst {} of the period",
            percent(self.mean),
            percent(self.worst)
        );
        finding.wanted = format!(
            "mean at most {}, worst at most {} of the period",
            percent(MOST_MEAN_SHARE),
            percent(MOST_WORST_SHARE)
        );
        if !is_good {
            "Do less in a cycle, give the CPU its full frequency (freq.governor), or take a longer period."
                .clone_into(&mut finding.fix);
        }
    }
}

impl RecordedLoop {
    /// Reads a run. Of a bench, the loop is that of the first cell bound to a CPU.
    fn read(path: &Path) -> Result<Self, Failure> {
        let JudgedRun { summary, runs, .. } = runs::judged(path, None)?;
        let causes = SpikeCauses::from_cells(&summary.cells);
        if causes.is_none() {
            let path = path.display();
            advise(
                Tone::Careful,
                &format!(
                    "{path} has no causes of spikes; the tunings are sorted by their expected effect"
                ),
            );
        }

        let timings = || runs.iter().filter_map(|run| run.header.timing.as_ref());
        let timing =
            timings().find(|timing| timing.cpu.is_some()).or_else(|| timings().next()).cloned();
        let load = timing.as_ref().and_then(|of| ExecutionShare::new(&summary.cells, of.period_ns));
        let task = runs.iter().find_map(|run| run.header.task.clone());
        Ok(Self { task, timing, causes, load })
    }
}

/// Returns the loop to check for: the typed options, else those of the run, else a usual loop. With
/// a sentence where its CPUs were chosen.
fn setup(
    tree: &HostTree,
    typed: &CheckedLoopOptions,
    run: Option<&RecordedLoop>,
) -> Result<(LoopSetup, Option<String>), Failure> {
    let timing = run.and_then(|run| run.timing.as_ref());
    let mut setup = machine::setup(typed);
    if let (None, Some(timing)) = (typed.period, timing) {
        setup.period_us = machine::whole_us(timing.period_ns);
    }
    if let (None, Some(timing)) = (typed.priority, timing.filter(|timing| timing.priority > 0)) {
        setup.loop_priority = i64::from(timing.priority);
    }

    let because = match (&typed.cpus, timing.and_then(|timing| timing.cpu)) {
        (Some(CpuChoice::List(cpus)), _) => {
            let listed = CpuChoice::List(cpus.clone());
            if tree.is_live() {
                cpus.iter().try_for_each(|cpu| check_cpu(Some(cpu)))?;
            } else if let Err(why @ PlanError::NotOnline { .. }) =
                machine::chosen(tree, &setup, &listed)
            {
                return Err(why.into());
            }
            setup.cpus = cpus.clone();
            None
        }
        (None, Some(cpu)) => {
            setup.cpus = [cpu].into_iter().collect();
            None
        }
        // With one CPU there is nowhere to move anything to, and an empty tree has none.
        (None | Some(CpuChoice::Auto), _) => {
            let chosen = machine::chosen(tree, &setup, &CpuChoice::Auto).ok();
            chosen.map(|chosen| {
                setup.cpus = chosen.cpus;
                chosen.because
            })
        }
    };
    Ok((setup, because))
}

/// Returns the findings beside their records, sorted for printing.
fn checked_tunings(
    findings: Vec<Finding>,
    setup: &LoopSetup,
    causes: Option<&SpikeCauses>,
    watched: Option<&WatchedMachine>,
) -> Vec<CheckedTuning> {
    let records = catalogue().records.iter();
    let checked =
        records.zip(findings).map(|(record, finding)| CheckedTuning::new(record, finding, causes));
    let mut tunings: Vec<_> = match watched {
        Some(watched) => checked.map(|one| one.watched(&watched.evidence, setup)).collect(),
        None => checked.collect(),
    };
    checked::sort(&mut tunings);
    tunings
}

/// Bad findings that are printed in full; the rest is a table.
const IN_FULL: usize = 3;

/// Prints the verdict, the worst findings in full, and a table of the rest.
fn print_check(
    options: &TuneCheckOptions,
    because: Option<&str>,
    setup: &LoopSetup,
    watched: Option<&WatchedMachine>,
    tunings: &[CheckedTuning],
) {
    let counts = VerdictCounts::from_tunings(tunings);
    let letters = letters();
    say_folded(Tone::Head, &tune::verdict(setup, tunings, letters));
    let VerdictCounts { bad, unknown, good, not_applicable } = counts;
    let more = if options.all { "" } else { "; --all lists them" };
    let summary =
        format!("{bad} bad, {unknown} unknown, {good} good, {not_applicable} not applicable{more}");
    say_folded(Tone::Plain, &summary);
    if let Some(watched) = watched {
        print_lines(&tune::watched(watched, letters));
    }
    let held = options.query.from.is_none().then(tune::kept_awake).unwrap_or_default();
    for sentence in tune::surroundings(tunings).into_iter().chain(held) {
        print_lines(&[format!("machine  {sentence}")]);
    }

    let (worst, others) = tunings[..bad].split_at(bad.min(IN_FULL));
    for (place, tuning) in worst.iter().enumerate() {
        say(Tone::Plain, "");
        print_block(&tune::in_short(place + 1, tuning, letters));
    }

    let rest = if options.all { &tunings[worst.len()..] } else { others };
    if !rest.is_empty() {
        say(Tone::Plain, "");
        show::table(&tune::table(setup, rest, letters));
    }
    print_hints(options, because, setup, worst.first());
}

fn print_hints(
    options: &TuneCheckOptions,
    because: Option<&str>,
    setup: &LoopSetup,
    first: Option<&CheckedTuning>,
) {
    say(Tone::Plain, "");
    if let Some(first) = first {
        print_lines(&[format!("details  onbeat tune check {}", first.record.id)]);
    }
    if let Some(because) = because {
        let chosen =
            format!("loop     CPU {}: {because}; --cpus LIST checks for another", setup.cpus);
        say_folded(Tone::Faint, &chosen);
    }
    if options.evidence.is_none() && options.query.from.is_none() {
        let watch = "watch    onbeat tune check --evidence 10s: records what runs on that CPU";
        say_folded(Tone::Faint, watch);
    }
}

fn print_lines(lines: &[String]) {
    lines.iter().for_each(|line| say_folded(Tone::Plain, line));
}

/// Prints a title and the lines below it.
fn print_block(text: &str) {
    let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
    say_folded(Tone::Head, title);
    say_folded(Tone::Plain, rest);
}

fn print_details(tunings: &[CheckedTuning]) {
    for (place, tuning) in tunings.iter().enumerate() {
        if place > 0 {
            say(Tone::Plain, "");
        }

        print_block(&tune::details(tuning));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(mean: f64, worst: f64) -> Finding {
        let [id, current, wanted, fix] = ["proc.load", "", "", ""].map(str::to_owned);
        let verdict = CheckVerdict::Unknown("needs two readings".to_owned());
        let mut finding = Finding { id, verdict, current, wanted, fix };
        ExecutionShare { mean, worst }.judge(&mut finding);
        finding
    }

    #[test]
    fn the_load_of_a_loop_is_judged_from_a_run_by_mean_and_worst() {
        assert_eq!(judged(0.1, 0.7).verdict, CheckVerdict::Good);
        let worst = judged(0.1, 0.93);
        assert_eq!(worst.verdict, CheckVerdict::Bad);
        assert!(worst.current.contains("worst 93.0 % of the period"), "{}", worst.current);
        assert!(!worst.fix.is_empty());
        assert_eq!(judged(0.51, 0.6).verdict, CheckVerdict::Bad);
        assert!(ExecutionShare::new(&[], 1_000_000).is_none(), "nothing was recorded");
    }
}
