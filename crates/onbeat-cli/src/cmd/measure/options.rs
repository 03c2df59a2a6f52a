//! Options of `onbeat measure`: a subcommand per probe, with the probe's description, defaults and
//! own options.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use onbeat::bench::sweep::SweepSteps;
use onbeat::load::{Load, LoadError};
use onbeat::probe::{Description, Given, OptionKind, ProbeOption, SettingValue};
use onbeat_rt::Wait;

use super::cpus::PER_CPU;
use crate::cmd::cpu_choice::CpuChoice;
use crate::cmd::view::options::BesideOptions;
use crate::complete;
use crate::options::{LimitOptions, LoopArguments, OutputOptions, ScreenOptions, Until, wait};
use crate::probes;
use crate::units::time_ns;
use clap_complete::engine::ArgValueCandidates;

const SIGNALS: &str = "\x1b[1mSignals\x1b[0m
  SIGUSR1            print the summary so far on standard error and continue
  SIGINT (Ctrl-C), SIGTERM, SIGHUP
                     end the run with its report; a second signal ends it at once";

/// A probe with its options.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) probe: &'static Description,
    pub(crate) options: Box<MeasureOptions>,
    pub(crate) given: Given,
}

/// Options of all probes.
#[derive(Debug, Args)]
pub(crate) struct MeasureOptions {
    /// Measuring time; 0: until Ctrl-C, or until the probe ends
    #[arg(long = "for", default_value = "10s", value_parser = time_ns, value_name = "TIME")]
    pub(crate) duration: u64,
    /// When to end: once the verdict is PASS or FAIL, or after --for [default: end]
    ///
    /// The verdict is computed after 10, 14, 20, 28, 40 ... s. Its 5 % error probability is shared
    /// by these tests, so that ending early does not weaken it.
    #[arg(long, value_enum, requires = "limit", value_name = "WHEN", conflicts_with_all = ["loads", "load_sweep", "resume"])]
    pub(crate) until: Option<Until>,
    /// CPU for the loop [default: chosen by the scheduler]
    #[arg(long, value_name = "N")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpu: Option<u32>,
    /// A loop on each of these CPUs at once, such as 1-3 or all
    ///
    /// A run file per CPU, a verdict on the worst. `all`: every CPU that this process may use. Causes
    /// of spikes are not recorded.
    #[arg(long, value_name = "LIST", conflicts_with_all = ["cpu", "tuning", "until", "loads", "load_sweep", "resume", "log_to", "screen", "stacks"])]
    pub(crate) cpus: Option<CpuChoice>,
    /// Tuning for the run, such as PMC or PM+irq.affinity
    ///
    /// P sets --priority, M locks memory, C shields --cpu or the CPU that `tune plan` chooses, S
    /// sleeps, then spins; a letter that is left out is off. Further settings are
    /// ids of the catalogue or files of plans. What changes the host is undone at the end.
    #[arg(long, value_name = "TUNING", conflicts_with_all = ["wait", "no_lock_memory", "loads", "load_sweep"])]
    #[arg(add = ArgValueCandidates::new(complete::tunings))]
    pub(crate) tuning: Option<onbeat::bench::CellTuning>,
    /// Real-time priority, 1 to 99; 0: an ordinary thread
    ///
    /// 90 leaves priorities above it for threads that must preempt the loop.
    #[arg(long, default_value = "90", value_parser = clap::value_parser!(u32).range(0..=99), value_name = "N")]
    pub(crate) priority: u32,
    /// How to wait for a release
    ///
    /// `sleep` until the release; `spin[=50us]`: sleep, then poll the clock for the last part;
    /// `adaptive[=300us]`: as spin, with a margin that follows the machine, at most this long;
    /// `relative` and `relative-spin[=50us]`: sleep for the period after each cycle, without a
    /// grid, as in the papers of 2007 and 2009.
    #[arg(long, default_value = "sleep", value_parser = wait, value_name = "WAIT")]
    #[arg(add = ArgValueCandidates::new(complete::waits))]
    pub(crate) wait: Wait,
    /// Do not record the causes of spikes
    #[arg(long)]
    pub(crate) no_causes: bool,
    /// Copy the kernel's stack at late wake-ups
    ///
    /// Shows which code had switched interrupts off (`vprintk_emit` > `console_flush_all`). Makes
    /// each wake-up that is over 30 us late another 10 to 20 us later.
    #[arg(long, conflicts_with = "no_causes")]
    pub(crate) stacks: bool,
    /// Split each wake-up: interrupt, dispatch, return to user space
    ///
    /// By the flight recorder's stamps, as rtla timerlat does: a series for each part. It takes
    /// BPF, and no more time of the loop than the causes.
    #[arg(long, conflicts_with_all = ["no_causes", "loads", "load_sweep"])]
    pub(crate) split: bool,
    /// Leave memory unlocked
    #[arg(long)]
    pub(crate) no_lock_memory: bool,
    /// Background load; see `onbeat load --help`
    #[arg(long, default_value = "idle", value_name = "LOAD")]
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) load: Load,
    /// Directory for the load's disk part [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) load_dir: Option<PathBuf>,
    /// Several loads in turn, in equal shares of --for
    ///
    /// For example idle,paper; `none` means `idle`.
    #[arg(long, value_delimiter = ',', value_parser = one_load, conflicts_with_all = ["load", "load_sweep"], value_name = "LIST")]
    #[arg(add = ArgValueCandidates::new(complete::loads))]
    pub(crate) loads: Vec<Load>,
    /// Load that rises in steps; --for covers all steps
    ///
    /// `0..100/10` is percent of all CPUs, `sched:0..100/20` groups of tasks.
    #[arg(long, value_name = "[LOAD:]FROM..TO/STEP", conflicts_with = "load")]
    pub(crate) load_sweep: Option<SweepSteps>,
    /// Largest max - min of a sweep that passes; needs --load-sweep
    ///
    /// Sets the exit status. Without it the tables mark steps over 100us, or over 1ms across a
    /// network.
    #[arg(long, value_parser = time_ns, value_name = "TIME", requires = "load_sweep")]
    pub(crate) allowed_jitter: Option<u64>,
    /// Resume the latest unfinished run with the same options
    ///
    /// A run is unfinished when it was killed, the machine went down, or a signal ended it. It
    /// continues in the same file with the options of its plan.json. If --out has no unfinished
    /// run, a new one begins.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Send the run to `onbeat net log`: HOST[:PORT]
    ///
    /// Sent over UDP while it is recorded, by a thread separate from the measurement. The run is
    /// written to --out as well.
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["loads", "load_sweep"])]
    pub(crate) log_to: Option<String>,
    /// End when this process ends
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) beside: Option<i32>,
    #[command(flatten)]
    pub(crate) looping: LoopArguments,
    #[command(flatten)]
    pub(crate) limit: LimitOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(flatten)]
    pub(crate) beside_view: BesideOptions,
    #[command(flatten)]
    pub(crate) screen: ScreenOptions,
}

/// Parses a load; in a list of loads `none` is another word for `idle`.
fn one_load(text: &str) -> Result<Load, LoadError> {
    if text.trim() == "none" { Ok(Load::IDLE) } else { text.parse() }
}

impl Subcommand for Measure {
    fn augment_subcommands(command: Command) -> Command {
        probes::all().fold(command, |command, probe| command.subcommand(of_probe(probe)))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        probes::all().any(|probe| probe.name == name)
    }
}

impl Measure {
    /// Parses the words behind `measure`, for other commands that run a probe. The inner error is
    /// help that they ask for.
    ///
    /// # Errors
    /// The first sentence of what the command line would say.
    pub(crate) fn from_words(words: &[String]) -> Result<Result<Self, clap::Error>, String> {
        let command = Self::augment_subcommands(Command::new("measure").no_binary_name(true));
        // The user's options come last and override those of the other command.
        let command = command.mut_subcommands(|probe| probe.args_override_self(true));
        let parsed = command.try_get_matches_from(words);
        match parsed.and_then(|matches| Self::from_arg_matches(&matches)) {
            Err(why) if why.use_stderr() => {
                let why = why.to_string();
                let first = why.lines().next().unwrap_or_default();
                Err(first.strip_prefix("error: ").unwrap_or(first).to_owned())
            }
            measure_or_help => Ok(measure_or_help),
        }
    }
}

fn of_probe(probe: &'static Description) -> Command {
    let command = MeasureOptions::augment_args(Command::new(probe.name))
        .about(about(probe.sentence))
        .before_help(format!("\x1b[1mExamples\x1b[0m\n{}", probe.examples))
        .after_help(SIGNALS)
        .mut_arg("period", |arg| arg.default_value(probe.defaults.period))
        .mut_arg("priority", |arg| arg.default_value(probe.defaults.priority))
        .mut_arg("duration", |arg| arg.default_value(probe.defaults.duration))
        .mut_arg("cpus", |arg| arg.hide(!PER_CPU.contains(&probe.name)));
    probe.choices.iter().fold(command, |command, choice| command.arg(of_choice(choice)))
}

/// The summary of a probe's subcommand, from the words about what it measures: `From A to B` is a
/// time, everything else a quantity with a name.
fn about(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    let time = if sentence.starts_with("From ") { "the time " } else { "" };
    format!("Measure {time}{first}{}", letters.as_str())
}

fn of_choice(choice: &ProbeOption) -> Arg {
    let arg = Arg::new(choice.name).long(choice.name).help_heading("The probe");
    let arg = match choice.help.split_once('\n') {
        Some((short, details)) => arg.help(short).long_help(format!("{short}\n\n{details}")),
        None => arg.help(choice.help),
    };

    let arg = choice.default.into_iter().fold(arg, Arg::default_value);
    match choice.kind {
        OptionKind::Time => {
            arg.value_name("TIME").value_parser(|text: &str| time_ns(text).map(SettingValue::Time))
        }
        OptionKind::Count => arg.value_name("N").value_parser(count),
        OptionKind::Percent => arg.value_name("PERCENT").value_parser(share),
        OptionKind::Name => arg
            .value_name("NAME")
            .value_parser(|text: &str| Ok::<_, String>(SettingValue::Name(text.to_owned()))),
        OptionKind::Place => {
            arg.value_name("PLACE").value_parser(|text: &str| text.parse().map(SettingValue::Place))
        }
        OptionKind::Word(words) => arg
            .value_name("WORD")
            .value_parser(PossibleValuesParser::new(words).map(SettingValue::Word)),
        // Named, because clap's choice for an option without a value is set when it is absent.
        OptionKind::Switch => arg
            .action(ArgAction::Set)
            .num_args(0)
            .default_missing_value("")
            .value_parser(|_: &str| Ok::<_, String>(SettingValue::Switch)),
    }
}

fn count(text: &str) -> Result<SettingValue, String> {
    text.replace([',', '_'], "")
        .parse()
        .map(SettingValue::Count)
        .map_err(|_| format!("`{text}` is not a whole number"))
}

/// A share in percent, with or without its sign, to hundredths.
fn share(text: &str) -> Result<SettingValue, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim();
    let percent: f64 =
        number.parse().map_err(|_| format!("`{text}` is not a share such as 95%"))?;
    if (0.0..=100.0).contains(&percent) {
        Ok(SettingValue::Percent((percent * 100.0).round() as u64))
    } else {
        Err(format!("`{text}` is not between 0 and 100 %"))
    }
}

impl FromArgMatches for Measure {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let unknown = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(unknown)?;
        let probe = probes::all().find(|probe| probe.name == name).ok_or_else(unknown)?;
        let given = |choice: &ProbeOption| {
            Some((choice.name, matches.get_one::<SettingValue>(choice.name)?.clone()))
        };
        Ok(Self {
            probe,
            options: Box::new(MeasureOptions::from_arg_matches(matches)?),
            given: Given(probe.choices.iter().filter_map(given).collect()),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
