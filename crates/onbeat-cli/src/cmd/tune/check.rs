//! `onbeat tune check`: this machine against the catalogue of tunings, without changes.

use std::path::Path;

use onbeat::bench::quietest_cpu;
use onbeat::host;
use onbeat::record::Timing;
use onbeat::report::JudgedRun;
use onbeat::report::causes::{self, Causes};
use onbeat_tune::catalogue::{HostTree, LoopSetup, catalogue};
use onbeat_tune::{CpuList, check};

use super::checked::{self, CheckedTuning, VerdictCounts};
use crate::cli_tune::{CheckedLoopOptions, TuneCheckOptions};
use crate::cmd::measure_tuning::add_remembered;
use crate::cmd::{Failure, Verdict, check_cpu, runs, show};
use crate::term::tune::{details, table};
use crate::term::{Tone, advise, columns, fold, say};

pub(crate) fn run(options: &TuneCheckOptions) -> Result<Verdict, Failure> {
    let run = options.run.as_deref().map(RecordedLoop::read).transpose()?;
    let setup = setup(&options.checked, run.as_ref(), options.from.is_none())?;
    let tree = match &options.from {
        Some(root) => HostTree::captured(root).map_err(|source| Failure::File {
            what: "read",
            path: root.clone(),
            source,
        })?,
        None => HostTree::live(),
    };

    let causes = run.as_ref().map(|run| &run.causes).filter(|causes| !causes.is_empty());
    let mut tunings = checked_tunings(&tree, &setup, causes);
    if options.from.is_none() {
        add_remembered(&mut tunings);
    }
    if !options.ids.is_empty() {
        let named: Vec<&str> = options
            .ids
            .iter()
            .flat_map(|id| catalogue().resolve(id))
            .map(|of| of.id.as_str())
            .collect();
        tunings.retain(|one| named.contains(&one.record.id.as_str()));
    }

    if options.json {
        say(Tone::Plain, &checked::json(&setup, &tunings)?);
    } else if options.ids.is_empty() {
        print_table(options, &setup, &tunings);
    } else {
        print_details(&tunings);
    }

    Ok(Verdict::Holds)
}

/// What a run says about its loop and about the causes of its spikes.
struct RecordedLoop {
    timing: Option<Timing>,
    causes: Causes,
}

impl RecordedLoop {
    /// Reads a run. Of a bench, the loop is that of the first cell bound to a CPU.
    fn read(path: &Path) -> Result<Self, Failure> {
        let JudgedRun { summary, runs } = runs::judged(path, None)?;
        let causes = causes::merged(summary.cells.iter().map(|cell| &cell.causes));
        if causes.is_empty() {
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
        Ok(Self { timing, causes })
    }
}

/// Returns the loop to check for: the typed options, else those of the run, else a usual loop.
fn setup(
    typed: &CheckedLoopOptions,
    run: Option<&RecordedLoop>,
    is_live: bool,
) -> Result<LoopSetup, Failure> {
    let timing = run.and_then(|run| run.timing.as_ref());
    let usual = LoopSetup::default();
    let cpus = match (&typed.cpus, timing.and_then(|timing| timing.cpu)) {
        (Some(cpus), _) => cpus.clone(),
        (None, Some(cpu)) => [cpu].into_iter().collect(),
        // With one CPU there is nowhere to move anything to.
        (None, None) if is_live && host::online_cpus().len() > 1 => {
            [quietest_cpu()].into_iter().collect()
        }
        (None, None) => CpuList::default(),
    };
    if is_live && typed.cpus.is_some() {
        cpus.iter().try_for_each(|cpu| check_cpu(Some(cpu)))?;
    }

    let period_ns = typed.period.or(timing.map(|timing| timing.period_ns));
    let priority =
        typed.priority.or(timing.map(|timing| timing.priority).filter(|priority| *priority > 0));
    Ok(LoopSetup {
        cpus,
        task: typed.task,
        interfaces: typed.interfaces.clone(),
        period_us: period_ns
            .map_or(usual.period_us, |ns| i64::try_from(ns / 1000).unwrap_or(i64::MAX)),
        loop_priority: priority.map_or(usual.loop_priority, i64::from),
        polls: typed.polls,
        runs_guests: typed.runs_guests,
        ..usual
    })
}

/// Checks all tunings, sorted for printing.
fn checked_tunings(
    tree: &HostTree,
    setup: &LoopSetup,
    causes: Option<&Causes>,
) -> Vec<CheckedTuning> {
    let findings = check(tree, setup);
    let records = catalogue().records.iter();
    let mut tunings: Vec<_> = records
        .zip(findings)
        .map(|(record, finding)| CheckedTuning::new(record, finding, causes))
        .collect();
    checked::sort(&mut tunings);
    tunings
}

fn print_table(options: &TuneCheckOptions, setup: &LoopSetup, tunings: &[CheckedTuning]) {
    let counts = VerdictCounts::of(tunings);
    let shown = if options.all { tunings } else { &tunings[..counts.bad] };
    if !shown.is_empty() {
        show::table(&table(setup, shown, show::letters()));
    }

    let VerdictCounts { bad, unknown, good, not_applicable } = counts;
    let more = if options.all { "" } else { "; --all lists them" };
    let summary =
        format!("{bad} bad, {unknown} unknown, {good} good, {not_applicable} not applicable{more}");
    say(Tone::Plain, &fold::lines(&summary, columns()));
    if let Some(first) = shown.first() {
        let line = format!("details  onbeat tune check {}", first.record.id);
        say(Tone::Plain, &fold::lines(&line, columns()));
    }
    if options.checked.cpus.is_none() && options.run.is_none() && !setup.cpus.is_empty() {
        let chosen =
            "loop     CPU with the fewest device interrupts; --cpus LIST checks for another";
        say(Tone::Faint, &fold::lines(chosen, columns()));
    }
}

fn print_details(tunings: &[CheckedTuning]) {
    for (place, tuning) in tunings.iter().enumerate() {
        if place > 0 {
            say(Tone::Plain, "");
        }

        let text = details(tuning);
        let (title, rest) = text.split_once('\n').unwrap_or((&text, ""));
        say(Tone::Head, &fold::lines(title, columns()));
        say(Tone::Plain, &fold::lines(rest, columns()));
    }
}
