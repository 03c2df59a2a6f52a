//! `bench --resume`: finds the bench that is resumed, with the options that it began with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};
use onbeat::bench::conduct::UnfinishedBench;
use onbeat::bench::schedule::Schedule;
use onbeat::record::run_dir::{BENCH_FILE, runs_of_command};
use onbeat_report::units::cell_name;

use crate::cli::Cli;
use crate::cmd::Common;
use crate::cmd::bench::options::BenchOptions;
use crate::cmd::{Failure, runs};
use crate::term::{Tone, advise};

const COMMAND: &str = "bench";
/// Options that have no part in what is measured, and may differ.
const FREE: [&str; 8] = ["out", "json", "verbose", "resume", "wait", "quiet", "color", "help"];

/// A bench that is resumed.
pub(crate) struct FoundBench {
    pub(crate) dir: PathBuf,
    pub(crate) unfinished: UnfinishedBench,
    /// The options that it began with; those of the output are today's.
    pub(crate) options: BenchOptions,
}

/// Finds the latest unfinished bench; an option that is typed today must be the one that it began
/// with.
pub(crate) fn find(today: &BenchOptions) -> Result<Option<FoundBench>, Failure> {
    let out = &today.output.out;
    for path in runs_of_command(out, BENCH_FILE, &is_bench) {
        let dir = path.parent().unwrap_or(out).to_owned();
        if let Some(unfinished) = UnfinishedBench::open(&dir)? {
            let options = options_of(&dir, unfinished.command(), today)?;
            return Ok(Some(FoundBench { dir, unfinished, options }));
        }
    }

    advise(Tone::Careful, &format!("no unfinished bench in {}: a new one begins", out.display()));
    Ok(None)
}

/// Whether a command line is a bench, of this version or another. A measurement of a tuning is a
/// bench in its files alone, and is not resumed.
fn is_bench(command: &[String]) -> bool {
    let read = Cli::command().ignore_errors(true).try_get_matches_from(command);
    read.is_ok_and(|matches| matches.subcommand_name() == Some(COMMAND))
}

/// Describes the bench that is resumed.
pub(crate) fn words(found: &FoundBench, rest: &Schedule) -> String {
    let how = if found.unfinished.is_cut_off() { "was cut off" } else { "was ended early" };
    let dir = found.dir.display();
    let all = rest.blocks_per_cell as usize * found.unfinished.permitted();
    let left = rest.blocks();
    if left == 0 {
        return format!("resuming {dir}, which {how}; left: nothing but the closing lines");
    }

    let estimate = runs::spoken(rest.estimate_s);
    let dropped: Vec<String> = found
        .unfinished
        .dropped()
        .map(|cell| cell_name(&cell.tuning.to_string(), &cell.load.to_string()))
        .collect();
    let again = if dropped.is_empty() {
        String::new()
    } else {
        format!("; the block of {} was not complete and is measured again", dropped.join(", "))
    };
    format!("resuming {dir}, which {how}; left: {left} of {all} blocks, about {estimate}{again}")
}

/// Returns the options of the command that began a bench, with those of today's output.
fn options_of(
    dir: &Path,
    command: &[String],
    today: &BenchOptions,
) -> Result<BenchOptions, Failure> {
    let not_read = || Common::ResumedCommand { dir: dir.to_owned(), command: command.join(" ") };
    let then = matches_of(command.iter().map(OsString::from)).ok_or_else(not_read)?;
    let began_with = BenchOptions::from_arg_matches(&then).map_err(|_| not_read())?;
    // The command line of this process has been parsed once before.
    let now = matches_of(std::env::args_os()).unwrap_or_default();
    if let Some(ChangedOption { option, then, now }) =
        difference(&(&then, &began_with), &(&now, today))
    {
        return Err(Common::ResumedOption { dir: dir.to_owned(), option, then, now }.into());
    }

    Ok(BenchOptions {
        output: today.output.clone(),
        quiet: today.quiet,
        wait: today.wait,
        ..began_with
    })
}

/// Returns what a command line says about a bench; `None` for another command.
fn matches_of(words: impl IntoIterator<Item = OsString>) -> Option<ArgMatches> {
    let mut matches = Cli::command().try_get_matches_from(words).ok()?;
    matches.remove_subcommand().filter(|(name, _)| name == COMMAND).map(|(_, matches)| matches)
}

/// An option with another value than at the start of the bench.
#[derive(Debug, PartialEq, Eq)]
struct ChangedOption {
    option: String,
    then: String,
    now: String,
}

/// A command line, as clap has read it.
type Typed<'t> = (&'t ArgMatches, &'t BenchOptions);

/// Returns the first option that is typed now and had another value then.
fn difference(then: &Typed<'_>, now: &Typed<'_>) -> Option<ChangedOption> {
    let arguments = arguments();
    let is_typed = |id: &str| now.0.value_source(id) == Some(ValueSource::CommandLine);
    let differs = |id: &str| value(then.1, id) != value(now.1, id);
    let argument = arguments.iter().find(|argument| {
        let id = argument.get_id().as_str();
        is_typed(id) && differs(id)
    })?;

    let words = |matches: &ArgMatches| as_typed(argument, matches);
    let option = name_of(argument);
    let before =
        words(then.0).map_or_else(|| format!("without {option}"), |words| format!("with {words}"));
    Some(ChangedOption {
        then: before,
        now: words(now.0).unwrap_or_else(|| option.clone()),
        option,
    })
}

/// Returns the options that decide what a bench measures.
fn arguments() -> Vec<Arg> {
    let command = Cli::command();
    let bench = command.find_subcommand(COMMAND);
    let all = bench.into_iter().flat_map(clap::Command::get_arguments);
    all.filter(|argument| !FREE.contains(&argument.get_id().as_str())).cloned().collect()
}

/// Returns the name of an option, or of the file, as the help shows it.
fn name_of(argument: &Arg) -> String {
    argument.get_long().map_or_else(|| "FILE".to_owned(), |long| format!("--{long}"))
}

/// Returns an option as it is typed; `None` when it has no value.
fn as_typed(argument: &Arg, matches: &ArgMatches) -> Option<String> {
    let id = argument.get_id().as_str();
    let option = name_of(argument);
    if !argument.get_action().takes_values() {
        return matches.get_flag(id).then_some(option);
    }

    let values: Vec<String> =
        matches.get_raw(id)?.map(|value| value.to_string_lossy().into_owned()).collect();
    Some(format!("{option} {}", values.join(",")))
}

/// Returns the value of an option, so that `2m` and `120s` are the same.
fn value(options: &BenchOptions, id: &str) -> Option<String> {
    let BenchOptions { looping, limit, .. } = options;

    Some(match id {
        "duration" => format!("{:?}", options.duration),
        "tunings" => format!("{:?}", options.tunings),
        "plan" => format!("{:?}", options.plan),
        "loads" => format!("{:?}", options.loads),
        "load_dir" => format!("{:?}", options.load_dir),
        "order" => format!("{:?}", options.order),
        "cpu" => format!("{:?}", options.cpu),
        "priority" => format!("{:?}", options.priority),
        "with" => format!("{:?}", options.with),
        "file" => format!("{:?}", options.file),
        "interface" => format!("{:?}", options.interface),
        "wire" => format!("{:?}", options.wire),
        "exchange" => format!("{:?}", options.exchange),
        "trajectory" => format!("{:?}", options.trajectory),
        "device_delay" => format!("{:?}", options.device_delay),
        "to" => format!("{:?}", options.to),
        "devices" => format!("{:?}", options.devices),
        "spin" => format!("{:?}", options.spin),
        "no_causes" => format!("{:?}", options.no_causes),
        "seed" => format!("{:?}", options.seed),
        "period" => format!("{:?}", looping.period),
        "work" => format!("{:?}", looping.work),
        "deadline" => format!("{:?}", looping.deadline),
        "on_overrun" => format!("{:?}", looping.on_overrun),
        "phase" => format!("{:?}", looping.phase),
        "spikes_over" => format!("{:?}", looping.spikes_over),
        "dma_latency" => format!("{:?}", looping.dma_latency),
        "lockdown" => format!("{:?}", looping.lockdown),
        "limit" => format!("{:?}", limit.limit),
        "at" => format!("{:?}", limit.at),
        "limit_on" => format!("{:?}", limit.limit_on),
        "until" => format!("{:?}", options.until),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(then: &str, now: &str) -> Option<ChangedOption> {
        let read = |line: &str| {
            let matches = matches_of(line.split(' ').map(OsString::from)).unwrap();
            let options = BenchOptions::from_arg_matches(&matches).unwrap();
            (matches, options)
        };
        let then = read(then);
        let now = read(now);
        difference(&(&then.0, &then.1), &(&now.0, &now.1))
    }

    #[test]
    fn every_option_of_a_bench_is_compared_or_free() {
        let options =
            BenchOptions::from_arg_matches(&matches_of(["onbeat".into(), COMMAND.into()]).unwrap())
                .unwrap();
        for argument in arguments() {
            let id = argument.get_id().as_str();
            assert!(value(&options, id).is_some(), "{id} is neither compared nor free");
        }
    }

    #[test]
    fn a_bench_is_known_by_its_command_and_not_by_a_word_of_another() {
        let is_bench =
            |line: &str| is_bench(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(is_bench("onbeat bench --for 2m") && is_bench("onbeat --color never bench"));
        assert!(is_bench("onbeat bench --of-another-version 7"), "which is refused with a reason");
        assert!(!is_bench("onbeat tune measure mem.swappiness --out bench"));
        assert!(!is_bench("onbeat tune measure bench") && !is_bench("onbeat measure timer"));
    }

    #[test]
    fn options_that_are_not_typed_again_are_those_of_the_bench() {
        let begun = "onbeat bench --for 2m --loads idle --no-causes --limit 1ms";
        assert_eq!(compared(begun, "onbeat bench --resume"), None);
        assert_eq!(
            compared(begun, "onbeat bench --resume --for 120s --loads idle --json --out elsewhere"),
            None
        );
        assert_eq!(
            compared("onbeat bench", "onbeat --color never bench --resume --for 120s --seed 1"),
            None
        );
    }

    #[test]
    fn the_first_option_that_differs_is_named_with_both_values() {
        let text =
            |then, now| compared(then, now).map(|found| (found.option, found.then, found.now));
        let of = |option: &str, then: &str, now: &str| {
            Some((option.to_owned(), then.to_owned(), now.to_owned()))
        };

        assert_eq!(
            text("onbeat bench", "onbeat bench --resume --for 4m"),
            of("--for", "with --for 2m", "--for 4m")
        );
        assert_eq!(
            text("onbeat bench --loads idle,paper", "onbeat bench --loads idle,cpu=50%"),
            of("--loads", "with --loads idle,paper", "--loads idle,cpu=50%")
        );
        assert_eq!(
            text("onbeat bench", "onbeat bench --no-causes"),
            of("--no-causes", "without --no-causes", "--no-causes")
        );
        assert_eq!(
            text("onbeat bench", "onbeat bench --limit 1ms"),
            of("--limit", "without --limit", "--limit 1ms")
        );
    }
}
