//! `onbeat tune check`: this machine against the catalogue of tunings, without changes.

use std::path::Path;

use onbeat::record::Timing;
use onbeat::report::JudgedRun;
use onbeat_tune::catalogue::{Finding, HostTree, LoopSetup, catalogue};
use onbeat_tune::check;
use onbeat_tune::plan::CpuChoice;

use super::check_words as tune;
use crate::cli_tune::{CheckedLoopOptions, TuneCheckOptions};
use crate::cmd::findings::checked::{self, CheckedTuning, VerdictCounts};
use crate::cmd::findings::evidence::{self, WatchedMachine};
use crate::cmd::findings::spike_causes::SpikeCauses;
use crate::cmd::findings::{add_remembered, machine};
use crate::cmd::{ExitVerdict, Failure, check_cpu, runs, show};
use crate::term::{Tone, advise, columns, fold, say};

pub(super) fn run(options: &TuneCheckOptions) -> Result<ExitVerdict, Failure> {
    let run = options.run.as_deref().map(RecordedLoop::read).transpose()?;
    let tree = machine::tree(options.query.from.as_deref())?;
    let (setup, because) = setup(&tree, &options.query.checked, run.as_ref())?;

    let findings = check(&tree, &setup);
    let watched = options
        .evidence
        .map(|duration_ns| evidence::watch(&setup, duration_ns, options.query.json))
        .transpose()?;
    let of_run = run.as_ref().and_then(|run| run.causes.as_ref());
    let causes = of_run.or(watched.as_ref().and_then(|watched| watched.causes.as_ref()));
    let mut tunings = checked_tunings(findings, &setup, causes, watched.as_ref());
    if options.query.from.is_none() {
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

    if options.query.json {
        say(Tone::Plain, &checked::json(&setup, options.query.from.is_none(), watched.as_ref(), &tunings)?);
    } else if options.ids.is_empty() {
        print_check(options, because.as_deref(), &setup, watched.as_ref(), &tunings);
    } else {
        print_details(&tunings);
    }

    Ok(ExitVerdict::Holds)
}

/// What a run says about its loop and about the causes of its spikes.
struct RecordedLoop {
    timing: Option<Timing>,
    causes: Option<SpikeCauses>,
}

impl RecordedLoop {
    /// Reads a run. Of a bench, the loop is that of the first cell bound to a CPU.
    fn read(path: &Path) -> Result<Self, Failure> {
        let JudgedRun { summary, runs } = runs::judged(path, None)?;
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
    let letters = show::letters();
    say(Tone::Head, &fold::lines(&tune::verdict(setup, tunings, letters), columns()));
    let VerdictCounts { bad, unknown, good, not_applicable } = counts;
    let more = if options.all { "" } else { "; --all lists them" };
    let summary =
        format!("{bad} bad, {unknown} unknown, {good} good, {not_applicable} not applicable{more}");
    say(Tone::Plain, &fold::lines(&summary, columns()));
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
        say(Tone::Faint, &fold::lines(&chosen, columns()));
    }
    if options.evidence.is_none() && options.query.from.is_none() {
        let watch = "watch    onbeat tune check --evidence 10s: what happens there meanwhile";
        say(Tone::Faint, &fold::lines(watch, columns()));
    }
}

fn print_lines(lines: &[String]) {
    lines.iter().for_each(|line| say(Tone::Plain, &fold::lines(line, columns())));
}

/// Prints a title and the lines below it.
fn print_block(text: &str) {
    let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
    say(Tone::Head, &fold::lines(title, columns()));
    say(Tone::Plain, &fold::lines(rest, columns()));
}

fn print_details(tunings: &[CheckedTuning]) {
    for (place, tuning) in tunings.iter().enumerate() {
        if place > 0 {
            say(Tone::Plain, "");
        }

        print_block(&tune::details(tuning));
    }
}
