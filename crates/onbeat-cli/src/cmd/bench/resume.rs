//! `--resume` of a bench, and of the measurement of a tuning: by the plan in the directory of its
//! run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};
use onbeat::bench::cell_start::path_as_json;
use onbeat::bench::conduct::{BenchPlan, UnfinishedBench};
use onbeat::bench::schedule::Schedule;
use onbeat::campaign::{FoundRun, PlanFile, PlannedOption, find_unfinished};
use onbeat::record::run_dir::BENCH_FILE;
use onbeat_report::units::{cell_name, spoken};
use serde::{Deserialize, Serialize};

use crate::cli::Cli;
use crate::cmd::Common;
use crate::cmd::Failure;
use crate::cmd::bench::options::BenchOptions;
use crate::term::{Tone, advise};

/// Options that have no part in what is measured, and may differ.
const FREE: [&str; 14] = [
    "out", "json", "verbose", "view", "metrics", "screen", "config", "add_to", "resume", "wait",
    "quiet", "color", "help", "split",
];

/// A command that conducts a bench.
pub(crate) struct BenchKind {
    /// Its words behind `onbeat`.
    words: &'static [&'static str],
    /// What it is called.
    noun: &'static str,
    /// Whether an option that is not typed again has its usual value, rather than that of the run
    /// that is resumed.
    is_literal: bool,
}

pub(crate) const BENCH: BenchKind =
    BenchKind { words: &["bench"], noun: "bench", is_literal: false };
pub(crate) const TUNE_MEASURE: BenchKind = BenchKind {
    words: &["tune", "measure"],
    noun: "measurement of this tuning with these options",
    is_literal: true,
};

/// What the plan of a bench holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PlannedBench {
    pub(crate) bench: BenchPlan,
    /// The directory of `--load-dir`; empty without one.
    #[serde(with = "path_as_json")]
    pub(crate) load_dir: PathBuf,
}

impl PlannedBench {
    pub(crate) fn load_dir(&self) -> Option<&Path> {
        Some(&*self.load_dir).filter(|dir| !dir.as_os_str().is_empty())
    }
}

/// A bench that is resumed.
pub(crate) type FoundBench = FoundRun<PlannedBench, UnfinishedBench>;

/// The plan as it is kept for a later `--resume`.
pub(crate) fn plan_file(
    kind: &BenchKind,
    options: &BenchOptions,
    plan: &BenchPlan,
) -> PlanFile<PlannedBench> {
    let load_dir = options.load_dir.clone().unwrap_or_default();
    PlanFile::new(
        &kind.words.join(" "),
        values(kind, options, plan, &matches_of(kind, std::env::args_os())),
        PlannedBench { bench: plan.clone(), load_dir },
    )
}

/// Finds the latest unfinished bench; an option that is typed today must be the one that it began
/// with.
pub(crate) fn find(
    kind: &BenchKind,
    today: &BenchOptions,
    plan: &BenchPlan,
) -> Result<Option<FoundBench>, Failure> {
    let out = &today.output.out;
    let typed = matches_of(kind, std::env::args_os());
    let now = values(kind, today, plan, &typed);
    let changed = |then: &Options| difference(kind, then, (&now, &typed));
    let is_same =
        |found: &PlanFile<PlannedBench>| !kind.is_literal || changed(&found.options).is_none();
    let open = |path: &Path| Ok::<_, Failure>(UnfinishedBench::open(path.parent().unwrap_or(out))?);
    let found = find_unfinished((out, BENCH_FILE), &kind.words.join(" "), is_same, open)?;
    let Some(found) = found else {
        let (noun, out) = (kind.noun, out.display());
        advise(Tone::Careful, &format!("no unfinished {noun} in {out}: a new one begins"));
        return Ok(None);
    };
    match changed(&found.plan.options) {
        Some(ChangedOption { option, then, now }) => {
            Err(Common::ResumedOption { dir: found.dir, option, then, now }.into())
        }
        None => Ok(Some(found)),
    }
}

/// Describes the bench that is resumed.
pub(crate) fn words(dir: &Path, unfinished: &UnfinishedBench, rest: &Schedule) -> String {
    let how = if unfinished.is_cut_off() { "was cut off" } else { "was ended early" };
    let dir = dir.display();
    let all = rest.blocks_per_cell as usize * unfinished.permitted();
    let left = rest.blocks();
    if left == 0 {
        return format!(
            "resuming {dir}, which {how}; nothing left to measure, only the closing lines are missing"
        );
    }

    let estimate = spoken(rest.estimate_s);
    // Loops of several CPUs are measured again together.
    let mut dropped: Vec<String> =
        unfinished.dropped().map(|cell| cell_name(&cell.tuning, &cell.load)).collect();
    dropped.dedup();
    let again = if dropped.is_empty() {
        String::new()
    } else {
        format!("; the block of {} was not complete and is measured again", dropped.join(", "))
    };
    format!("resuming {dir}, which {how}; left: {left} of {all} blocks, about {estimate}{again}")
}

/// Returns what a command line says about a bench.
fn matches_of(kind: &BenchKind, words: impl IntoIterator<Item = OsString>) -> ArgMatches {
    // The command line of this process has been parsed once before.
    let mut matches = Cli::command().try_get_matches_from(words).unwrap_or_default();
    for word in kind.words {
        matches = match matches.remove_subcommand() {
            Some((name, of_it)) if name == *word => of_it,
            _ => return ArgMatches::default(),
        };
    }
    matches
}

/// An option with another value than at the start of the bench.
#[derive(Debug, PartialEq, Eq)]
struct ChangedOption {
    option: String,
    then: String,
    now: String,
}

/// Options by their ids.
type Options = BTreeMap<String, PlannedOption>;

/// Returns the options of a command, with their values.
fn values(
    kind: &BenchKind,
    options: &BenchOptions,
    plan: &BenchPlan,
    matches: &ArgMatches,
) -> Options {
    let of = |argument: &Arg| {
        let id = argument.get_id().as_str();
        let typed = as_typed(argument, matches);
        Some((id.to_owned(), PlannedOption { value: value(options, plan, id)?, typed }))
    };
    arguments(kind).iter().filter_map(of).collect()
}

/// Returns the first option that is typed now and had another value then.
fn difference(
    kind: &BenchKind,
    then: &Options,
    (now, typed): (&Options, &ArgMatches),
) -> Option<ChangedOption> {
    let all = arguments(kind);
    let is_typed = |id: &str| {
        let source = typed.try_contains_id(id).ok().and_then(|_| typed.value_source(id));
        kind.is_literal || source == Some(ValueSource::CommandLine)
    };
    let value = |options: &Options, id: &str| options.get(id).map(|option| option.value.clone());
    let argument = all.iter().find(|argument| {
        let id = argument.get_id().as_str();
        is_typed(id) && value(then, id) != value(now, id)
    })?;

    let id = argument.get_id().as_str();
    let words = |options: &Options| options.get(id).and_then(|option| option.typed.clone());
    let option = name_of(argument);
    let before =
        words(then).map_or_else(|| format!("without {option}"), |words| format!("with {words}"));
    let now = words(now).unwrap_or_else(|| option.clone());
    Some(ChangedOption { then: before, now, option })
}

/// Returns the options that decide what is measured.
fn arguments(kind: &BenchKind) -> Vec<Arg> {
    let root = Cli::command();
    let command = kind.words.iter().try_fold(&root, |command, word| command.find_subcommand(word));
    let all = command.into_iter().flat_map(clap::Command::get_arguments);
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
    if !matches.try_contains_id(id).unwrap_or(false) {
        return None;
    }
    if !argument.get_action().takes_values() {
        return matches.get_flag(id).then_some(option);
    }

    let values: Vec<String> =
        matches.get_raw(id)?.map(|value| value.to_string_lossy().into_owned()).collect();
    Some(format!("{option} {}", values.join(",")))
}

/// Returns the value of an option, so that `2m` and `120s` are the same.
fn value(options: &BenchOptions, plan: &BenchPlan, id: &str) -> Option<String> {
    // The fields of these structs, whose options have their names.
    macro_rules! field {
        ($($of:expr => $($name:ident)*;)*) => {
            match id {
                $($(stringify!($name) => Some(format!("{:?}", $of.$name)),)*)*
                _ => None,
            }
        };
    }

    match id {
        "what" | "tuning" => Some(format!("{:?}", options.tunings)),
        "load" => Some(format!("{:?}", options.loads)),
        "touch" => Some(format!("{:?}", plan.task)),
        // The series that is compared is in the files whichever it is.
        "on" => Some(String::new()),
        _ => field! {
            options => command thread duration tunings plan loads load_dir order cpu cpus priority
                with file interface wire exchange trajectory device_delay to devices spin no_causes
                seed until;
            options.looping => period work deadline on_overrun phase spikes_over dma_latency
                lockdown;
            options.limit => limit at limit_on;
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    fn read(line: &str) -> (Options, ArgMatches) {
        let matches = matches_of(&BENCH, line.split(' ').map(OsString::from));
        let options = BenchOptions::from_arg_matches(&matches).unwrap();
        (values(&BENCH, &options, &crate::cmd::bench::plan(&options), &matches), matches)
    }

    fn compared(then: &str, now: &str) -> Option<ChangedOption> {
        let (now, typed) = read(now);
        difference(&BENCH, &read(then).0, (&now, &typed))
    }

    #[test]
    fn every_option_of_a_bench_and_of_a_measurement_is_compared_or_free() {
        let matches = matches_of(&BENCH, ["onbeat".into(), "bench".into()]);
        let options = BenchOptions::from_arg_matches(&matches).unwrap();
        let plan = crate::cmd::bench::plan(&options);
        for kind in [BENCH, TUNE_MEASURE] {
            assert!(arguments(&kind).len() > 10, "{:?}", kind.words);
            for argument in arguments(&kind) {
                let id = argument.get_id().as_str();
                let is_compared = value(&options, &plan, id).is_some();
                assert!(is_compared, "{:?}: {id} is neither compared nor free", kind.words);
            }
        }
    }

    #[test]
    fn values_are_kept_as_in_the_plans_of_runs_that_can_be_resumed() {
        let (options, _) = read("onbeat bench --with bus --exchange same-cycle --order sequential");
        let kept = ["with", "exchange", "order", "phase"].map(|id| &*options[id].value);
        assert_eq!(kept, ["Some(Bus)", "SameCycle", "Sequential", "AvoidTick"]);
    }

    #[test]
    fn a_plan_is_the_same_after_it_was_written() {
        let matches = matches_of(&BENCH, ["onbeat".into(), "bench".into()]);
        let options = BenchOptions::from_arg_matches(&matches).unwrap();
        let plan = crate::cmd::bench::plan(&options);
        let dir = tempfile::tempdir().unwrap();
        let file = plan_file(&BENCH, &options, &plan);
        file.write(dir.path()).unwrap();
        let read = PlanFile::<PlannedBench>::read(dir.path(), "bench").unwrap().unwrap();
        let stored = |bench: &BenchPlan| {
            let journal = PathBuf::new();
            format!("{:?}", BenchPlan { journal, ..bench.clone() })
        };
        assert_eq!(stored(&read.plan.bench), stored(&plan));
        assert_eq!(read.options, file.options);
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
