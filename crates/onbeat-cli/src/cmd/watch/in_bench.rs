//! A program as the loop of a bench: tried once before it, then started anew for each block, tuned
//! from outside, and watched.

use std::ffi::OsString;
use std::io::{self, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onbeat::bench::cell::CellServer;
use onbeat::bench::cell_start::{CellStart, CellTask, ProgramCell};
use onbeat::bench::conduct::BenchPlan;
use onbeat::cause::LoopThread;
use onbeat::probe::{BlockPlan, Interruptions, Run, Setting};
use onbeat::thread::{Grant, Usage};
use onbeat_host::policy::Scheduling;
use onbeat_rt::Wait;
use onbeat_watch::collect::Collector;
use onbeat_watch::loops::chosen;
use onbeat_watch::measure::{Onto, Stretch, Watched, WatchedLoop, measure_stretch};
use onbeat_watch::process;
use onbeat_watch::survey::{LOOK_NS, survey_again};
use onbeat_watch::words::{choice_words, process_words};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::launch::{self, Launched, Printed};
use super::{WatchError, WatchFailure};
use crate::cmd::Failure;
use crate::cmd::bench::options::BenchOptions;
use crate::term::{Tone, advise, columns, counted, letters, wrapped};

/// How long a program may take to end, before it is killed.
const MOST_TO_END: Duration = Duration::from_secs(5);
/// How long the program is looked at before a block at least, in nanoseconds.
const LOOK_OF_BLOCK_NS: u64 = 700_000_000;
/// Part of the period by which that of a block may differ from that of the trial, for a loop on a
/// grid.
const SAME_PERIOD: f64 = 0.001;

/// Returns the program of a bench; `None` without `--command`.
pub(in crate::cmd) fn described(options: &BenchOptions) -> Result<Option<ProgramCell>, Failure> {
    let Some(typed) = &options.command else { return Ok(None) };
    let why = |why| WatchFailure::NotACommand { typed: typed.clone(), why };
    let command = shlex::split(typed).ok_or_else(|| why("a quote is not closed"))?;
    if command.is_empty() {
        return Err(why("no program is named").into());
    }

    Ok(Some(ProgramCell { command, thread: options.thread.clone() }))
}

/// Refuses tunings that only the program itself can make.
pub(in crate::cmd) fn admit(plan: &BenchPlan) -> Result<(), Failure> {
    for tuning in &plan.tunings {
        let letters = plan.options(tuning).letters;
        let (letter, instead) = match (letters.memory, letters.spin) {
            (true, _) => ('M', "it locks its memory by mlockall(MCL_CURRENT | MCL_FUTURE)"),
            (_, true) => ('S', "it sleeps until shortly before its release and polls the clock"),
            _ => continue,
        };
        let tuning = tuning.to_string();
        return Err(WatchFailure::NotFromOutside { tuning, letter, instead }.into());
    }
    Ok(())
}

/// Starts the program once, looks for its loop, and returns the plan with its period.
pub(in crate::cmd) fn tried(
    plan: BenchPlan,
    is_quiet: bool,
    interruptions: &Interruptions,
) -> Result<BenchPlan, Failure> {
    let CellTask::Program(program) = plan.task.clone() else { return Ok(plan) };
    let started = Started::begin(&program, Printed::Errors)?;
    let found = started.found(LOOK_NS, interruptions);
    let tried = started.end(found)?;
    if !is_quiet {
        let words = format!(
            "{} Each block restarts the program and discards its output. The tuning none leaves its own settings; P sets the \
             priority of this thread from outside, and C gives it a CPU to itself.",
            choice_words(&tried, letters()).replacen("Measuring", "The loop is", 1)
        );
        advise(Tone::Faint, &wrapped(&words, columns()));
    }

    let period_ns = tried.class.period_ns().max(1);
    let wait = if tried.class.has_grid() { Wait::Sleep } else { Wait::Relative { margin_ns: 0 } };
    let thread = program.thread.clone().or_else(|| Some(tried.thread.name.clone()));
    let task = CellTask::Program(ProgramCell { thread, ..program });
    let setting = Setting { period_ns, deadline_ns: period_ns, wait, ..plan.setting.clone() };
    Ok(BenchPlan { task, setting, ..plan })
}

/// Serves a cell whose loop is that of a program, and returns whether that succeeded to the end: the
/// bench knows already if not.
///
/// # Errors
/// What forbids to begin.
pub(in crate::cmd) fn serve(
    start: &CellStart,
    program: &ProgramCell,
    interruptions: Arc<Interruptions>,
) -> Result<bool, Failure> {
    let words = program.command.join(" ");
    let run = start.open_run(&super::SERIES, vec![Grant::given("program", words)])?;
    let server =
        CellServer { run, load: start.cell.load.clone(), interruptions, explain: start.explain };
    let cell = WatchedCell { program, setting: &start.setting };
    let served = server.serve_blocks(stdin(), stdout(), |run, block, interruptions| {
        cell.block(run, block, interruptions).map_err(|why| in_words(block.index, &why))
    });
    Ok(served.is_ok())
}

/// The sentence of a failure has the number of its block.
fn in_words(block: u32, why: &Failure) -> Failure {
    WatchFailure::Block { block, why: why.to_string() }.into()
}

/// A cell with the program's loop.
struct WatchedCell<'c> {
    program: &'c ProgramCell,
    setting: &'c Setting,
}

impl WatchedCell<'_> {
    /// Starts the program, finds its loop, tunes and measures it, and ends the program.
    fn block(
        &self,
        run: &mut Run,
        block: &BlockPlan<'_>,
        interruptions: &Interruptions,
    ) -> Result<(), Failure> {
        let started = Started::begin(self.program, Printed::Nowhere)?;
        let measured = self.measured(&started, run, block, interruptions);
        let measured = started.end(measured);
        if interruptions.stop.load(Ordering::Relaxed) {
            // The bench has ended meanwhile, and with it the block.
            run.mark_ended_early();
            return Ok(());
        }

        let watched = measured?;
        run.add_usage(Usage {
            page_faults: watched.counters.faults,
            involuntary_switches: watched.counters.preemptions,
            cpu_ns: watched.counters.cpu_ns,
            ..Usage::default()
        });
        if watched.inner.cycles == 0 {
            let thread = self.program.thread.clone().unwrap_or_default();
            let seconds = watched.watched_ns as f64 / 1e9;
            let why =
                if watched.has_ended { "it ended before" } else { "it did not wait as before" };
            return Err(WatchFailure::NoCycle { thread, seconds, why }.into());
        }
        if watched.not_seen > 0 {
            run.recorder().remark(format!(
                "block {}: the latency of {} is not known: the kernel recorded no event of the wake-up",
                block.index, counted(watched.not_seen as usize, "cycle")
            )).map_err(onbeat::probe::RunError::from)?;
        }
        if watched.has_ended {
            let (program, seconds) = (self.words(), watched.watched_ns as f64 / 1e9);
            return Err(WatchFailure::EndedInBlock { program, seconds }.into());
        }
        Ok(())
    }

    fn measured(
        &self,
        started: &Started,
        run: &mut Run,
        block: &BlockPlan<'_>,
        interruptions: &Interruptions,
    ) -> Result<Watched, Failure> {
        let mut found = started.found(LOOK_OF_BLOCK_NS, interruptions)?;
        self.check_period(&found)?;
        self.tune(&mut found)?;
        let (recorder, mut explainer) = run.recording();
        let thread = &found.thread;
        if let Some(explainer) = &mut explainer {
            let fifo =
                Some(thread.policy.priority()).filter(|priority| (1..100).contains(priority));
            explainer.follow(LoopThread { tid: thread.tid(), cpu: thread.bound_cpu(), fifo });
        }

        let stretch = Stretch {
            watched: &found,
            index: block.index,
            load: block.load,
            duration_ns: block.releases.saturating_mul(self.setting.period_ns),
        };
        let mut collector = Collector::open()?;
        let onto = Onto { recorder, explainer };
        Ok(measure_stretch(&mut collector, stretch, onto, interruptions, &mut |_, _| {})?)
    }

    fn words(&self) -> String {
        self.program.command.join(" ")
    }

    /// A loop without a grid has a mean period, which grows with its work.
    fn check_period(&self, found: &WatchedLoop) -> Result<(), Failure> {
        let (now, before) = (found.class.period_ns() as f64, self.setting.period_ns as f64);
        let has_grid = !matches!(self.setting.wait, Wait::Relative { .. });
        if !has_grid || (now / before - 1.0).abs() <= SAME_PERIOD {
            return Ok(());
        }
        let (program, now_us, before_us) = (self.words(), now / 1e3, before / 1e3);
        Err(WatchFailure::OtherPeriod { program, now_us, before_us }.into())
    }

    /// Sets priority and CPU of the loop's thread. Both end with the program, after the block.
    fn tune(&self, found: &mut WatchedLoop) -> Result<(), Failure> {
        let tid = found.thread.id.tid;
        let thread = format!("{} [{tid}]", found.thread.name);
        let not_set = |what| {
            let thread = thread.clone();
            move |source| WatchFailure::NotSet { thread, what, source }
        };
        if let Some(priority) = self.setting.thread.fifo {
            let fifo = format!("fifo {priority}").parse::<Scheduling>().map_err(io::Error::other);
            fifo.and_then(|fifo| fifo.set(tid)).map_err(not_set("the real-time priority"))?;
        }
        if let Some(cpu) = self.setting.thread.cpu {
            let mut only = CpuSet::new();
            only.set(cpu as usize);
            sched_setaffinity(Pid::from_raw(tid), &only)
                .map_err(|why| not_set("the CPU")(why.into()))?;
        }
        match process::thread(tid) {
            Some(tuned) => found.thread = tuned,
            None => return Err(WatchError::ThreadEnded { tid: tid.unsigned_abs() }.into()),
        }
        Ok(())
    }
}

/// The program while it runs.
struct Started {
    launched: Launched,
    thread: Option<String>,
}

impl Started {
    fn begin(program: &ProgramCell, printed: Printed) -> Result<Self, Failure> {
        let words: Vec<OsString> = program.command.iter().map(OsString::from).collect();
        let launched = launch::start(&words, printed)?.ok_or(WatchFailure::NotACommand {
            typed: String::new(),
            why: "no program is named",
        })?;
        Ok(Self { launched, thread: program.thread.clone() })
    }

    /// Looks for the loop.
    fn found(&self, least_ns: u64, interruptions: &Interruptions) -> Result<WatchedLoop, Failure> {
        let pid = self.launched.pid();
        let mut collector = Collector::open()?;
        if !collector.knows_timers() {
            return Err(WatchError::HiddenAddresses.into());
        }
        let seen = survey_again(&mut collector, pid, least_ns, &interruptions.stop)?;
        let process = process_words(pid);
        let of_name =
            |of: &WatchedLoop| self.thread.as_ref().is_none_or(|it| *it == of.thread.name);
        // Of several threads of one name the choice is that of the trial.
        match chosen(&seen, &process, None, letters()) {
            Ok(likely) if of_name(&likely) => Ok(likely),
            _ => Ok(chosen(&seen, &process, self.thread.as_deref(), letters())?),
        }
    }

    /// Ends the program, and says how it had ended where that is why it was not measured.
    fn end<T>(mut self, measured: Result<T, Failure>) -> Result<T, Failure> {
        let measured = measured.map_err(|why| launch::explained(why, Some(&mut self.launched)));
        let _ = self.launched.end(MOST_TO_END);
        measured
    }
}
