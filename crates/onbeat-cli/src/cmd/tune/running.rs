//! `--task`: the loop of a program that runs, or of a run that watched one.

use std::path::Path;

use onbeat::record::TaskNote;
use onbeat_host::foreign::{self, printable};
use onbeat_report::JudgedRun;
use onbeat_tune::CpuList;
use onbeat_tune::plan::CpuChoice;
use onbeat_watch::WatchError;
use onbeat_watch::collect::Collector;
use onbeat_watch::loops::chosen;
use onbeat_watch::measure::WatchedLoop;
use onbeat_watch::process::{self, ThreadFacts};
use onbeat_watch::sockets::bound_interfaces;
use onbeat_watch::survey::{LOOK_NS, Survey, survey_again};
use onbeat_watch::target::{TargetError, resolve};
use onbeat_watch::words::{choice_words, process_words};

use super::options::{CheckedLoopOptions, TaskWord};
use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::{Failure, runs};
use crate::signals::{self, OnUsr1};
use crate::term::{ProgressLine, Tone, letters, say_wrapped};

/// What a command looks at, and what it prints.
#[derive(Clone, Copy)]
pub(super) struct Looked<'q> {
    /// A capture of another machine.
    pub(super) from: Option<&'q Path>,
    /// Whether the command prints one JSON object alone.
    pub(super) json: bool,
}

/// Returns the typed loop with what is known of the program that `--task` names: its thread, and,
/// where they were not typed, period, priority, CPUs and interfaces.
pub(super) fn resolved(
    typed: &CheckedLoopOptions,
    looked: Looked<'_>,
) -> Result<CheckedLoopOptions, Failure> {
    let word = match (&typed.task, looked.from) {
        (None, _) | (Some(TaskWord::Thread(_)), Some(_)) => return Ok(typed.clone()),
        (Some(TaskWord::Name(name)), Some(_)) => {
            return Err(TuneFailure::NameInCapture { name: name.clone() }.into());
        }
        (Some(word), None) => word,
    };

    let found = match word {
        TaskWord::Thread(tid) => of_number(*tid, typed, looked)?,
        TaskWord::Name(path) if is_run(path) => of_run(Path::new(path))?,
        TaskWord::Name(name) => Found::look(resolve(name)?, None, looked)?,
    };
    if !looked.json {
        say_wrapped(Tone::Plain, &found.words());
    }
    Ok(found.completed(typed))
}

/// A name never has a slash; a directory here may have the name of a program.
fn is_run(word: &str) -> bool {
    word.contains('/') || (Path::new(word).is_dir() && process::named(word).is_empty())
}

const fn no_process(pid: i32) -> TargetError {
    TargetError::NoSuchProcess { pid }
}

fn of_number(tid: i32, typed: &CheckedLoopOptions, looked: Looked<'_>) -> Result<Found, Failure> {
    let thread = process::thread(tid).ok_or(no_process(tid))?;
    let is_one = tid != thread.pid || process::threads_of(tid).len() == 1;
    if is_one && typed.period.is_some() || thread.is_kernel {
        return Ok(Found { thread, known: Known::Nothing });
    }
    Found::look(thread.pid, is_one.then_some(tid), looked)
}

/// The thread of a run of `onbeat watch`, if it is still the same.
fn of_run(path: &Path) -> Result<Found, Failure> {
    let JudgedRun { runs, .. } = runs::judged(path, None)?;
    let of =
        runs.iter().find_map(|run| Some((run.header.task.clone()?, run.header.timing.clone())));
    let Some((task, timing)) = of else {
        return Err(TuneFailure::RunWithoutTask { run: path.to_owned() }.into());
    };
    let Some(thread) = still_runs(&task) else {
        let (tid, name, run) = (task.tid, printable(&task.name), path.to_owned());
        return Err(TuneFailure::TaskOfRunEnded { tid, name, run }.into());
    };
    let known = timing.map_or(Known::Nothing, |timing| Known::Period(timing.period_ns));
    Ok(Found { thread, known })
}

/// The thread of a run, unless its number is that of another one by now.
pub(super) fn still_runs(task: &TaskNote) -> Option<ThreadFacts> {
    process::thread(task.tid)
        .filter(|thread| thread.id.start_ticks == task.start_ticks && boot_id() == task.boot_id)
}

/// The boot, by which a thread of a run is known to be the same.
pub(in crate::cmd) fn boot_id() -> String {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    foreign::text(Path::new(FILE), 64).unwrap_or_default().trim().to_owned()
}

/// The thread that is checked for.
struct Found {
    thread: ThreadFacts,
    known: Known,
}

/// What is known of its loop.
enum Known {
    Nothing,
    /// By a run.
    Period(u64),
    Loop(Box<WatchedLoop>),
    /// No loop was found, and why this thread was taken.
    NoLoop(String),
}

impl Found {
    /// Looks for the loop of a process, or for that of one of its threads.
    fn look(pid: i32, only: Option<i32>, looked: Looked<'_>) -> Result<Self, Failure> {
        let seen = match survey(pid, looked) {
            Ok(seen) => seen,
            Err(WatchError::Ended { pid }) => return Err(no_process(pid).into()),
            Err(why) => return Self::by_proc(pid, only, &why.to_string()),
        };
        let process = process_words(pid);
        match chosen(&seen, &process, only.map(|tid| tid.to_string()).as_deref(), letters()) {
            Ok(watched) => {
                let thread = watched.thread.clone();
                Ok(Self { thread, known: Known::Loop(Box::new(watched)) })
            }
            Err(why) => {
                let why = why.to_string();
                Self::by_proc(pid, only, why.split(';').next().unwrap_or(&why))
            }
        }
    }

    /// Takes the thread of the highest priority, the first one of the process among equals.
    fn by_proc(pid: i32, only: Option<i32>, why: &str) -> Result<Self, Failure> {
        let all = process::threads_of(pid);
        let of = |thread: &&ThreadFacts| only.is_none_or(|tid| thread.id.tid == tid);
        let taken = all.iter().filter(of).max_by_key(|thread| {
            (thread.policy.priority(), thread.id.tid == pid, std::cmp::Reverse(thread.id.tid))
        });
        let thread = taken.cloned().ok_or(no_process(pid))?;
        let is_chosen = only.is_none() && all.len() > 1;
        let because = match (is_chosen, thread.policy.is_real_time()) {
            (false, _) => String::new(),
            (true, true) => ", the thread of the highest priority".to_owned(),
            (true, false) => {
                format!(", the first of {} threads, none of them real-time", all.len())
            }
        };
        Ok(Self { thread, known: Known::NoLoop(format!("{because}: {why}")) })
    }

    /// What is checked for, in a sentence or two.
    fn words(&self) -> String {
        let thread = &self.thread;
        let name = format!(
            "{} [{}], {}, CPUs {}",
            thread.name,
            thread.tid(),
            thread.policy.words(),
            thread.cpus
        );
        match &self.known {
            Known::Nothing => format!("For {name}."),
            Known::Period(period_ns) => {
                let period = onbeat_report::units::time_ns(*period_ns, letters());
                format!("For {name}, with the period of the run, {period}.")
            }
            Known::Loop(watched) => {
                let words = choice_words(watched, letters()).replacen("Measuring", "For", 1);
                // From where its latency counts matters to a measurement alone.
                words.split("; the latency").next().map_or(words.clone(), |of| format!("{of}."))
            }
            Known::NoLoop(why) => {
                format!("For {name}{why}. Its period is not known; --period TIME gives it.")
            }
        }
    }

    fn completed(&self, typed: &CheckedLoopOptions) -> CheckedLoopOptions {
        let thread = &self.thread;
        let period_ns = match &self.known {
            Known::Loop(watched) => Some(watched.class.period_ns()),
            Known::Period(period_ns) => Some(*period_ns),
            Known::Nothing | Known::NoLoop(_) => None,
        };
        let priority = Some(thread.policy.priority()).filter(|it| (1..=99).contains(it));
        let interfaces = if typed.interfaces.is_empty() {
            bound_interfaces(thread.pid)
        } else {
            typed.interfaces.clone()
        };
        CheckedLoopOptions {
            task: Some(TaskWord::Thread(thread.id.tid)),
            period: typed.period.or(period_ns.filter(|ns| *ns > 0)),
            priority: typed.priority.or(priority),
            cpus: typed.cpus.clone().or_else(|| bound_to(&thread.cpus)),
            interfaces,
            ..typed.clone()
        }
    }
}

/// The CPUs that a program has chosen for its loop: fewer than there are.
fn bound_to(cpus: &str) -> Option<CpuChoice> {
    let allowed = CpuList::parse_list(cpus).ok()?;
    let online = foreign::text(Path::new("/sys/devices/system/cpu/online"), 4_096).ok()?;
    let online = CpuList::parse_list(&online).ok()?;
    let bound = allowed.and(&online);
    (!bound.is_empty() && !online.is_within(&bound)).then_some(CpuChoice::List(bound))
}

fn survey(pid: i32, looked: Looked<'_>) -> Result<Survey, WatchError> {
    let mut collector = Collector::open()?;
    if !collector.knows_timers() {
        return Err(WatchError::HiddenAddresses);
    }
    // Ctrl-C ends the look, and the kernel's buffers are given back.
    let interruptions = signals::watch(OnUsr1::Refuse).unwrap_or_default();
    let progress = ProgressLine::new(0.0, looked.json);
    progress.show(0.0, "looking for the loop");
    let seen = survey_again(&mut collector, pid, LOOK_NS, &interruptions.stop);
    progress.finish();
    seen
}
