//! Options of `onbeat tune`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use onbeat_tune::catalogue::{HostTree, LoopSetup, catalogue};
use onbeat_tune::lint::LintSubject;
use onbeat_tune::plan::{CpuChoice, PlanProfile};
use onbeat_tune::{CpuList, explain};

use super::measure_options::{MEASURE_EXAMPLES, MEASURE_STATUSES, TuneMeasureOptions};
use super::undo::TuneUndoOptions;
use crate::complete;
use crate::options::one_of;
use crate::units::{other_period_ns, time_ns};

#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// Check this machine against the catalogue of tunings, without changes
    ///
    /// Needs no rights: what cannot be read is reported as unknown, with the reason. The exit
    /// status is 0 whatever is found.
    #[command(before_help = CHECK_EXAMPLES)]
    Check(Box<TuneCheckOptions>),
    /// Show what tunings are, their state here, how to set them
    Explain(Box<TuneExplainOptions>),
    /// Write a plan: what would be changed for a loop, without changes
    ///
    /// A plan is a text file in TOML. Steps can be edited, reordered and removed; `onbeat tune
    /// apply` takes the edited file.
    #[command(before_help = PLAN_EXAMPLES)]
    Plan(Box<TunePlanOptions>),
    /// Apply a plan or tunings until undone or the next boot
    ///
    /// Prints the changes with their risk and asks before making them. Each change is recorded on
    /// disk before it is made and read back after it. A change that fails undoes all others of the
    /// same command.
    #[command(before_help = APPLY_EXAMPLES, after_help = APPLY_STATUSES)]
    Apply(Box<TuneApplyOptions>),
    /// Show applied and persisted changes, and their values now
    Status(TuneStatusOptions),
    /// Undo all changes on record, newest first
    ///
    /// Works from any process, also after a crash. A value that another program has changed since
    /// is not restored, and is reported.
    #[command(after_help = UNDO_STATUSES)]
    Undo(TuneUndoOptions),
    /// Write settings into files so that they hold after each boot
    ///
    /// Without a plan or tunings, prints what is persisted and whether it holds. Nothing takes
    /// effect at once, and no other program is started: the commands that remain are printed.
    #[command(before_help = PERSIST_EXAMPLES)]
    Persist(Box<TunePersistOptions>),
    /// Judge what configures a machine: boot lines, units, sysctl, containers, guests
    ///
    /// Judges the text alone and prints a corrected version.
    #[command(before_help = LINT_EXAMPLES, after_help = LINT_STATUSES)]
    Lint(TuneLintOptions),
    /// Write what check and plan read on this machine into an archive
    ///
    /// `onbeat tune check --from` and `onbeat tune plan --from` read it on another machine, packed
    /// by gzip or not. It holds no names of hosts, people or programs. As root it holds more.
    Capture(TuneCaptureOptions),
    /// Measure what a tuning is worth on this machine
    ///
    /// Blocks with and without it take turns in one run. The host is changed before each block with
    /// it and put back after; after a kill, the next start of onbeat undoes the changes.
    #[command(before_help = MEASURE_EXAMPLES, after_help = MEASURE_STATUSES)]
    Measure(Box<TuneMeasureOptions>),
}

const CHECK_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat tune check
      what is not as wanted for a 1 kHz loop, largest expected effect first
  onbeat tune check irq.affinity idle.pm_qos
      what, why, how to set it, and what that may break
  onbeat tune check --run onbeat-runs/latest
      for the loop of a run, by the causes of its spikes
  onbeat tune check --evidence 10s
      with the interrupts, steal and wake-ups of 10 s, which move findings up";

const PLAN_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat tune plan --cpus auto --out plan.toml
      for a 1 kHz loop, on CPUs that onbeat chooses
  onbeat tune plan irq.affinity mem.swappiness
      these tunings alone
  onbeat tune plan --from capture.tar
      for another machine";

const APPLY_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat tune apply plan.toml
      a plan of `onbeat tune plan --out plan.toml`
  sudo onbeat tune apply mem.swappiness --yes
      one tuning, without a question";

const APPLY_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  applied, or nothing to change
  2  not applied, or undone after a failure";

const UNDO_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  nothing is left on record
  2  could not run, or changes are left on record";

const PERSIST_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  sudo onbeat tune persist plan.toml
      files of onbeat's own name for kernel parameters, sysctl, systemd
  sudo onbeat tune persist
      whether it holds
  sudo onbeat tune persist --remove
      without a trace";

const LINT_EXAMPLES: &str = "\x1b[1mExamples\x1b[0m
  onbeat tune lint /proc/cmdline
      the command line of this kernel
  onbeat tune lint /etc/default/grub
  onbeat tune lint robot.service
  onbeat tune lint --corrected guest.sh >guest-corrected.sh
      a script that starts QEMU";

const LINT_STATUSES: &str = "\x1b[1mExit status\x1b[0m
  0  everything was judged and no problem found
  1  problems found
  2  could not run
  3  no problem found, but not everything was judged";

#[derive(Debug, Args)]
pub(crate) struct TuneCheckOptions {
    /// Tunings to explain in full [default: a table of all]
    #[arg(value_parser = tuning_id, value_name = "ID")]
    #[arg(add = ArgValueCandidates::new(complete::tuning_ids))]
    pub(crate) ids: Vec<String>,
    /// List good, unknown and inapplicable tunings too
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
    /// Run whose loop is checked for; sorts by its causes
    ///
    /// CPU, period and priority are those of the run's loop.
    #[arg(long, value_name = "RUN")]
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub(crate) run: Option<PathBuf>,
    /// Time to watch counters and wake-ups: 1s to 1h
    ///
    /// Reads interrupts, softirqs, steal, page faults, context switches and frequency changes twice,
    /// and runs a wake-up probe on the loop's CPU during this time. Findings whose counters moved come
    /// first. Counters that cannot be read are listed.
    #[arg(long, value_parser = evidence_ns, value_name = "TIME", conflicts_with = "from")]
    pub(crate) evidence: Option<u64>,
    #[command(flatten)]
    pub(crate) query: QueryOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TuneExplainOptions {
    /// Tunings to explain
    #[arg(value_parser = tuning_id, value_name = "ID", required = true)]
    #[arg(add = ArgValueCandidates::new(complete::tuning_ids))]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) query: QueryOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TunePlanOptions {
    /// Tunings to plan [default: those of --profile]
    #[arg(value_parser = tuning_id, value_name = "ID", conflicts_with = "profile")]
    #[arg(add = ArgValueCandidates::new(complete::tuning_ids))]
    pub(crate) ids: Vec<String>,
    /// Tunings for a kind of machine and loop [default: robot-1k]
    #[arg(long, value_parser = profile(), value_name = "PROFILE")]
    pub(crate) profile: Option<PlanProfile>,
    /// Write the plan to a file, for `onbeat tune apply`
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// List all steps, and the tunings left out with their reasons
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) query: QueryOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TuneApplyOptions {
    #[command(flatten)]
    pub(crate) selected: SelectionOptions,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Leave out what the kernel refuses instead of undoing everything
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Apply although another program may overwrite the changes
    ///
    /// Such as TuneD or irqbalance.
    #[arg(long)]
    pub(crate) ignore_owners: bool,
    /// List all steps before asking
    #[arg(long)]
    pub(crate) full: bool,
    /// Print one JSON object and nothing else
    #[arg(long, requires = "yes")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) checked: CheckedLoopOptions,
}

/// A plan file, tunings or a profile.
#[derive(Debug, Args)]
pub(crate) struct SelectionOptions {
    /// Plan file, or tunings
    #[arg(value_name = "PLAN|ID", conflicts_with = "profile")]
    #[arg(add = ArgValueCompleter::new(complete::plans_and_tuning_ids))]
    pub(crate) what: Vec<String>,
    /// Tunings for a kind of machine and loop
    #[arg(long, value_parser = profile(), value_name = "PROFILE")]
    pub(crate) profile: Option<PlanProfile>,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct TuneStatusOptions {
    /// List all changes
    #[arg(long)]
    pub(crate) full: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TunePersistOptions {
    #[command(flatten)]
    pub(crate) selected: SelectionOptions,
    /// Remove what was persisted
    #[arg(long, conflicts_with_all = ["what", "profile"])]
    pub(crate) remove: bool,
    /// Remove also files that others have changed since
    #[arg(long, requires = "remove")]
    pub(crate) force: bool,
    /// Root directory of the machine
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) checked: CheckedLoopOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TuneLintOptions {
    /// File to check; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What the file is [default: judged by its text]
    #[arg(long = "as", value_parser = one_of(&LintSubject::ALL, |one| (one.word(), "")), value_name = "SUBJECT")]
    pub(crate) subject: Option<LintSubject>,
    /// Print the corrected version alone
    #[arg(long, conflicts_with = "json")]
    pub(crate) corrected: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TuneCaptureOptions {
    /// Archive to write; `-` writes to standard output
    #[arg(value_name = "FILE", default_value = "capture.tar")]
    pub(crate) file: PathBuf,
    /// Description of the machine, one line
    #[arg(long, value_name = "TEXT", default_value = "not described")]
    pub(crate) about: String,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which machine is read, for which loop, and how the answer is printed.
#[derive(Debug, Args)]
pub(crate) struct QueryOptions {
    /// Capture of another machine: an archive or a directory
    ///
    /// An archive of `onbeat tune capture`, packed by gzip or not, or a directory with proc, sys
    /// and etc.
    #[arg(long, value_name = "CAPTURE")]
    pub(crate) from: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) checked: CheckedLoopOptions,
}

/// What `--task` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskWord {
    /// A thread or a process, by its number.
    Thread(i32),
    /// A process by its name, or the path of a run.
    Name(String),
}

impl TaskWord {
    /// Returns the number; `None` for a name that was not looked up.
    pub(crate) const fn tid(&self) -> Option<i32> {
        match self {
            Self::Thread(tid) => Some(*tid),
            Self::Name(_) => None,
        }
    }
}

fn task_word(text: &str) -> Result<TaskWord, String> {
    let is_number = !text.is_empty()
        && text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<i32>() {
        Ok(tid @ 1..) => Ok(TaskWord::Thread(tid)),
        _ if is_number => Err(format!("{text} is not the number of a thread")),
        _ if text.trim().is_empty() => Err("a number, a name or a run is required".to_owned()),
        _ => Ok(TaskWord::Name(text.to_owned())),
    }
}

/// The loop that the machine is checked for.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The loop")]
pub(crate) struct CheckedLoopOptions {
    /// CPUs of the loop, or auto [default: auto]
    ///
    /// auto takes one core, not that of CPU 0 if there are others: preferably isolated or fast,
    /// near the interface, with few interrupts.
    #[arg(long, value_parser = cpu_choice, value_name = "LIST")]
    #[arg(add = ArgValueCandidates::new(complete::cpus))]
    pub(crate) cpus: Option<CpuChoice>,
    /// Loop period [default: 1ms]
    #[arg(long, value_parser = other_period_ns, value_name = "TIME")]
    pub(crate) period: Option<u64>,
    /// SCHED_FIFO priority of the loop [default: 80]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=99), value_name = "N")]
    pub(crate) priority: Option<u32>,
    /// Running loop, for its own settings: number or name of its process or thread, or a run of watch
    ///
    /// Observes the process for two seconds, as `onbeat watch` does, to find the thread of its
    /// loop; period, priority, CPUs and interfaces come from it unless they are given. check and
    /// plan do not change it.
    #[arg(long, value_parser = task_word, value_name = "PID|NAME|RUN")]
    pub(crate) task: Option<TaskWord>,
    /// Network interface of the loop's fieldbus; can be repeated
    #[arg(long = "interface", value_name = "NAME")]
    #[arg(add = ArgValueCandidates::new(complete::interfaces))]
    pub(crate) interfaces: Vec<String>,
    /// The loop polls without sleeping
    #[arg(long)]
    pub(crate) polls: bool,
    /// This machine runs real-time virtual machines
    #[arg(long)]
    pub(crate) runs_guests: bool,
}

/// Parses the time to watch a machine, in nanoseconds.
fn evidence_ns(text: &str) -> Result<u64, String> {
    use onbeat_rt::time::SECOND_NS;
    match time_ns(text).map_err(|error| error.to_string())? {
        ns @ SECOND_NS..=3_600_000_000_000 => Ok(ns),
        _ => Err(format!("{text} is not in the range 1s to 1h, such as 10s")),
    }
}

impl CheckedLoopOptions {
    /// Returns the first option that a plan file decides itself.
    pub(crate) fn decided_by_plan(&self) -> Option<&'static str> {
        let options = [
            ("--cpus", self.cpus.is_some()),
            ("--period", self.period.is_some()),
            ("--priority", self.priority.is_some()),
            ("--interface", !self.interfaces.is_empty()),
            ("--polls", self.polls),
            ("--runs-guests", self.runs_guests),
        ];
        options.into_iter().find(|(_, is_typed)| *is_typed).map(|(name, _)| name)
    }
}

fn cpu_choice(text: &str) -> Result<CpuChoice, onbeat_tune::TuneError> {
    match text {
        "auto" => Ok(CpuChoice::Auto),
        list => Ok(CpuChoice::List(CpuList::parse_list(list)?)),
    }
}

fn profile() -> impl TypedValueParser<Value = PlanProfile> {
    let names = PlanProfile::ALL.map(|(_, name)| name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<PlanProfile>())
}

/// Parses the id of a tuning, or another name of one.
pub(crate) fn tuning_id(text: &str) -> Result<String, String> {
    let all = catalogue();
    if !all.resolve(text).is_empty() {
        return Ok(text.to_owned());
    }

    let section = text.split('.').next().unwrap_or_default();
    let of_section = |id: &&str| id.split('.').next() == Some(section);
    let ids = || all.records.iter().map(|record| record.id.as_str());
    let of_section: Vec<&str> = ids().filter(of_section).collect();
    let similar = similar_ids(text);
    match (similar.as_slice(), of_section.as_slice()) {
        ([], []) => {
            let sections: BTreeSet<&str> = ids().filter_map(|id| id.split('.').next()).collect();
            let sections: Vec<&str> = sections.into_iter().collect();
            let sections = sections.join(", ");
            Err(format!("`{text}` is not a tuning; ids begin with one of {sections}"))
        }
        ([], ids) => Err(format!("`{text}` is not a tuning; `{section}` has {}", ids.join(", "))),
        (similar, _) => {
            Err(format!("`{text}` is not a tuning; similar ids are {}", similar.join(", ")))
        }
    }
}

/// Ids that resemble a text that is not one.
fn similar_ids(text: &str) -> Vec<String> {
    match explain(text, &HostTree::live(), &LoopSetup::default()) {
        Ok(_) => Vec::new(),
        Err(onbeat_tune::explain::ExplainError::UnknownId { nearest, .. }) => nearest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_watched_for_a_second_to_an_hour() {
        assert_eq!(evidence_ns("10s"), Ok(10_000_000_000));
        assert!(evidence_ns("10ms").unwrap_err().contains("1s to 1h"));
        assert!(evidence_ns("2h").is_err());
    }

    #[test]
    fn an_unknown_id_is_refused_with_similar_ones_or_with_the_sections() {
        assert_eq!(tuning_id("irq.affinity").as_deref(), Ok("irq.affinity"));
        assert_eq!(tuning_id("guest.idle").as_deref(), Ok("guest.idle"), "an alias");
        assert!(tuning_id("irq.afinity").unwrap_err().contains("similar ids are irq.affinity"));
        assert!(tuning_id("vm.swappiness").unwrap_err().contains("mem.swappiness"));
        assert!(tuning_id("qqqqq").unwrap_err().contains("begin with one of clock, dbg, env"));
    }

    #[test]
    fn cpus_are_a_list_or_chosen() {
        assert_eq!(cpu_choice("auto").unwrap(), CpuChoice::Auto);
        assert_eq!(cpu_choice("2-3").unwrap(), CpuChoice::List("2-3".parse().unwrap()));
        assert!(cpu_choice("one").unwrap_err().to_string().contains("is not a list of CPUs"));
    }
}
