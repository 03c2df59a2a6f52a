//! `onbeat tune check`: this machine against the catalogue of tunings, without changes.

use std::path::Path;

use onbeat::record::Timing;
use onbeat::report::JudgedRun;
use onbeat::report::causes::{self, Causes};
use onbeat_tune::catalogue::{HostTree, LoopSetup, catalogue};
use onbeat_tune::check;
use onbeat_tune::plan::CpuChoice;

use super::checked::{self, CheckedTuning, VerdictCounts};
use super::machine;
use crate::cli_tune::{CheckedLoopOptions, TuneCheckOptions};
use crate::cmd::{Failure, Verdict, check_cpu, runs, show};
use crate::term::tune::{details, table};
use crate::term::{Tone, advise, columns, fold, say};

pub(super) fn run(options: &TuneCheckOptions) -> Result<Verdict, Failure> {
    let run = options.run.as_deref().map(RecordedLoop::read).transpose()?;
    let tree = machine::tree(options.machine.from.as_deref())?;
    let (setup, because) = setup(&tree, &options.checked, run.as_ref())?;

    let causes = run.as_ref().map(|run| &run.causes).filter(|causes| !causes.is_empty());
    let mut tunings = checked_tunings(&tree, &setup, causes);
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
        if let Some(because) = because {
            let chosen =
                format!("loop     CPU {}: {because}; --cpus LIST checks for another", setup.cpus);
            say(Tone::Faint, &fold::lines(&chosen, columns()));
        }
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
            if tree.is_live() {
                cpus.iter().try_for_each(|cpu| check_cpu(Some(cpu)))?;
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
