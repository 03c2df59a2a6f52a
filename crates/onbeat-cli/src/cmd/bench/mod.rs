//! `onbeat bench`: tunings × loads.

mod cpus;
pub(crate) mod options;
mod queue;
pub(super) mod resume;
pub(super) mod robot;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use onbeat::bench::cell_start::CellTask;
use onbeat::bench::conduct::{BenchConditions, BenchPlan, UnfinishedBench, conduct, scheduled};
use onbeat::bench::schedule::CellOrder;
use onbeat::bench::{BenchError, Conditions};
use onbeat::campaign::{CampaignEvent, PlanFile};
use onbeat::probe::Interruptions;
use onbeat::record::run_dir::{self, BENCH_FILE, NewRunDir};
use onbeat::record::{self, Cell, CellNotPermitted, Series};
use onbeat_report::closing::typed_time;
use onbeat_report::units::{count, counted, spoken, time_ns};
use onbeat_report::verdict::{Rule, looks};
use onbeat_rt::Wait;
use onbeat_tune::TuneError;
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;

use super::Common;
use super::carrier::carrier;
use super::looping::{WITHOUT_TUNING, check_cpu, limit, most_alarms, setting};
use super::repair::repair_first;
use super::screen::Screen;
use super::view::{BesideView, check_port};
use super::watch::in_bench;
use super::watched::Watched;
use super::{ExitVerdict, Failure, findings, host_settings, load, runs, show, typed};
use crate::cmd::bench::options::{BenchOptions, With};
use crate::cmd::fleet::DataSet;
use crate::options::Until;
use crate::signals;
use crate::signals::{EndOf, OnUsr1};
use crate::state::journal_directory;
use crate::term::{ProgressLine, Tone, advise, letters, wrapped};
use resume::{BENCH, BenchKind, FoundBench, PlannedBench};

pub(crate) fn run(options: &BenchOptions) -> Result<ExitVerdict, Failure> {
    let plan = admitted(options)?;
    check_port(&options.beside_view)?;
    let data_set = options.add_to.as_deref().map(DataSet::new).transpose()?;
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let is_quiet = options.quiet || options.output.json;
    if options.command.is_some() {
        repair_first()?;
    }
    let plan = in_bench::tried(plan, is_quiet, &interruptions)?;
    let dir = loop {
        if options.wait && !queue::until_free(&plan.journal, is_quiet, &interruptions) {
            return Ok(ExitVerdict::CouldNotRun);
        }
        match measured(&BENCH, options, &plan, &interruptions) {
            // Another bench began in between.
            Err(why) if options.wait && matches!(why.as_error(), Some(Common::Occupied(_))) => {
                if !queue::pause(&interruptions) {
                    return Ok(ExitVerdict::CouldNotRun);
                }
            }
            measured => break measured?,
        }
    };

    let shown = show::made(&dir, &options.output)?;
    data_set.map_or(Ok(()), |data_set| data_set.add(&dir))?;
    Ok(shown)
}

/// Validates the options and returns the plan before anything is changed.
pub(super) fn admitted(options: &BenchOptions) -> Result<BenchPlan, Failure> {
    check_cpu(options.cpu)?;
    if options.split {
        return Err(Common::NoSplit { command: split_of_one(options) }.into());
    }
    load::check_load_directory(&options.loads, options.load_dir.as_deref(), "--load-dir")?;
    if most_alarms(&options.limit).is_some() && options.with != Some(With::Bus) {
        return Err(Common::NoEvents { what: "bench".to_owned(), instead: "add --with bus" }.into());
    }

    let mut plan = plan(options);
    if let Some(choice) = &options.cpus {
        cpus::choose(&mut plan, choice)?;
    }
    if let Some(program) = in_bench::described(options)? {
        plan.task = CellTask::Program(program);
        in_bench::admit(&plan)?;
    }
    plan.robot_command = robot::admitted(options)?;
    let timing = (plan.setting.period_ns, plan.priority);
    let plan_file = options.plan.as_deref();
    plan.settings = host_settings::resolved(&plan.tunings, plan.shield(), timing, plan_file)?;
    // The busiest cell decides whether the loop leaves the kernel's threads their time.
    plan.tunings.iter().try_for_each(|tuning| plan.tuned(tuning).admit())?;
    scheduled(&plan)?;
    Ok(plan)
}

/// The command that splits the wake-ups of the last tuning under the last load.
fn split_of_one(options: &BenchOptions) -> String {
    let mut command = "onbeat measure timer --split".to_owned();
    if let Some(tuning) = options.tunings.last() {
        command.push_str(&format!(" --tuning {tuning}"));
    }
    if let Some(load) = options.loads.last().filter(|load| !load.is_idle()) {
        command.push_str(&format!(" --load {load}"));
    }
    command
}

/// Runs the bench, and returns the directory of the complete run.
pub(super) fn measured(
    kind: &BenchKind,
    options: &BenchOptions,
    plan: &BenchPlan,
    interruptions: &Interruptions,
) -> Result<PathBuf, Failure> {
    repair_first()?;
    if options.resume
        && let Some(found) = resume::find(kind, options, plan)?
    {
        return resumed(found, options, interruptions);
    }
    if !options.quiet && !options.output.json {
        say_which_cpu(options, plan);
    }

    let dir = NewRunDir::create(&options.output.out)?;
    let planned = resume::plan_file(kind, options, plan);
    let total_s = plan.duration.as_secs_f64();
    let job = BenchJob { options, planned: &planned.plan, dir: dir.path(), total_s };
    let begin = || runs::begin(&dir);
    let written = planned.write(dir.path()).map_err(Failure::from);
    let conducted = written.and_then(|()| conducted(&job, None, interruptions, begin));
    runs::keep_if_begun(&dir, conducted)?;
    Ok(dir.path().to_owned())
}

/// Says why a CPU is shielded, where nobody named it.
fn say_which_cpu(options: &BenchOptions, plan: &BenchPlan) {
    if !plan.cpus.is_empty() {
        return advise(Tone::Faint, &wrapped(&cpus::words(plan), 80));
    }
    let chosen = loop_cpu(&HostTree::live());
    let is_shielded = plan.tunings.iter().any(|tuning| plan.options(tuning).letters.shield);
    if is_shielded && options.cpu.is_none() && options.cpus.is_none() && chosen.cpu == plan.cpu {
        let words = format!("C shields CPU {}: {}", chosen.cpu, chosen.because);
        advise(Tone::Faint, &wrapped(&words, 80));
    }
}

/// Resumes a bench in its files by its plan, and returns its directory.
fn resumed(
    found: FoundBench,
    today: &BenchOptions,
    interruptions: &Interruptions,
) -> Result<PathBuf, Failure> {
    let FoundBench { dir, unfinished, plan: PlanFile { plan: mut planned, .. } } = found;
    planned.bench.journal = journal_directory();
    load::check_load_directory(&planned.bench.loads, planned.load_dir(), "--load-dir")?;
    unfinished.check(&planned.bench)?;
    let rest = unfinished.rest(&planned.bench)?;
    advise(Tone::Careful, &wrapped(&resume::words(&dir, &unfinished, &rest), 80));

    let take_up = || {
        if let Err(why) = run_dir::take_up(&today.output.out, &dir.join(BENCH_FILE)) {
            advise(Tone::Careful, &why.to_string());
        }
    };

    let total_s = rest.estimate_s;
    let job = BenchJob { options: today, planned: &planned, dir: &dir, total_s };
    conducted(&job, Some(unfinished), interruptions, take_up)?;
    Ok(dir)
}

/// A bench of this command.
struct BenchJob<'j> {
    /// Of this command; of a bench that is resumed they say how it is shown.
    options: &'j BenchOptions,
    planned: &'j PlannedBench,
    dir: &'j Path,
    /// Estimate of the time that this process measures, in seconds.
    total_s: f64,
}

/// Conducts a bench; `begin` is called once the bench can no longer be refused.
fn conducted(
    job: &BenchJob<'_>,
    unfinished: Option<UnfinishedBench>,
    interruptions: &Interruptions,
    begin: impl FnOnce(),
) -> Result<(), Failure> {
    let BenchJob { options, planned, dir, total_s } = *job;
    let plan = &planned.bench;
    let program = std::env::current_exe().map_err(Common::OwnProgram)?;
    let cell = || {
        let mut command = Command::new(&program);
        command.arg("cell");
        command
    };
    let carrier = carrier(planned.load_dir())?;
    let screen = Screen::begin(dir, options.screen.screen && !options.quiet);
    let mut view = BenchView::new(plan, total_s, options.quiet || options.output.json, screen);
    let mut browser = BesideView::new(&options.beside_view, Some(plan.cpu));
    let mut begin = Some(begin);
    let approaching = RefCell::new(String::new());
    let mut report = |happening: CampaignEvent<'_>| {
        if matches!(happening, CampaignEvent::Running { .. } | CampaignEvent::Block { .. })
            && let Some(begin) = begin.take()
        {
            begin();
            browser.begin(dir);
        }
        view.approaching.clone_from(&approaching.borrow());
        view.show(&happening);
    };

    let mut watched = Watched::new(dir, plan, unfinished.is_some());
    let mut look = |elapsed_s: f64| {
        let look = watched.look(elapsed_s);
        approaching.borrow_mut().clone_from(&watched.words);
        look
    };
    let common = Conditions { carrier: &carrier, interruptions, report: &mut report };
    let conditions = BenchConditions { dir, cell: &cell, common, look: &mut look };
    let prompt = EndOf::prompt("its loads, its cells or the shield");
    let conducted = conduct(plan, unfinished, conditions);
    drop(prompt);
    view.finish();
    browser.end();
    conducted.map_err(|why| match why {
        BenchError::Tune(why @ (TuneError::Busy(_) | TuneError::Shielded { .. })) => {
            Common::Occupied(why).into()
        }
        why => why.into(),
    })
}

fn plan(options: &BenchOptions) -> BenchPlan {
    let chosen = || host_settings::cpu_of_loop(&options.tunings, options.plan.as_deref());
    let cpu = options.cpu.unwrap_or_else(chosen);

    let is_watched = options.limit.limit.is_some()
        && options.order == CellOrder::Interleaved
        && options.until != Some(Until::End);

    BenchPlan {
        tunings: options.tunings.clone(),
        settings: Vec::new(),
        loads: options.loads.clone(),
        duration: Duration::from_nanos(options.duration),
        order: if is_watched { CellOrder::Watched } else { options.order },
        looks: if is_watched { looks(options.duration as f64 / 1e9).len() } else { 0 },
        seed: options.seed,
        limit: limit(&options.limit, Series::ReleaseLatency),
        most_alarms: most_alarms(&options.limit),
        findings: findings::findings(Some(cpu), options.looping.period),
        task: robot::task(options),
        robot_command: Vec::new(),
        // Blocks are short: each has an interval of its own.
        setting: setting(&options.looping, WITHOUT_TUNING, 0),
        cpu,
        cpus: Vec::new(),
        shielded: Vec::new(),
        priority: options.priority,
        spin: Wait::SleepThenSpin { margin_ns: options.spin },
        command: typed(),
        journal: journal_directory(),
        causes: !options.no_causes,
    }
}

/// The progress of a bench, in the terminal.
struct BenchView {
    progress: ProgressLine,
    screen: Screen,
    quiet: bool,
    period_ns: u64,
    /// CPUs that C shields, where each of several has a loop.
    shielded: Vec<u32>,
    /// The percentage of the limit, and how it is judged.
    rule: Option<(f64, Rule)>,
    elapsed_s: f64,
    per_cell: BTreeMap<Cell, record::Progress>,
    /// How far the verdict is, by the last look.
    approaching: String,
}

impl BenchView {
    fn new(plan: &BenchPlan, total_s: f64, quiet: bool, screen: Screen) -> Self {
        Self {
            progress: ProgressLine::new(total_s, quiet || screen.is_on()),
            screen,
            quiet,
            period_ns: plan.setting.period_ns,
            shielded: plan.shielded.clone(),
            rule: plan.limit.filter(|limit| limit.at < 100.0).map(|limit| {
                let verdicts = plan.tunings.len() * plan.looks.max(1);
                (limit.at, Rule::new((100.0 - limit.at) / 100.0).shared_by(verdicts))
            }),
            elapsed_s: 0.0,
            per_cell: BTreeMap::new(),
            approaching: String::new(),
        }
    }

    fn show(&mut self, happening: &CampaignEvent<'_>) {
        match happening {
            CampaignEvent::Planned { estimate_s, blocks_per_cell, block_s } => {
                self.planned(*estimate_s, *blocks_per_cell, *block_s);
            }
            CampaignEvent::Prepared { running, not_permitted } => {
                self.prepared(*running, not_permitted);
            }
            CampaignEvent::Said(words) | CampaignEvent::Warned(words) => self.say(words),
            CampaignEvent::Running { elapsed_s, cell, .. } => {
                self.elapsed_s = *elapsed_s;
                self.progress.show(self.elapsed_s, &self.words(cell));
            }
            CampaignEvent::Block { cell, progress } => {
                self.per_cell.insert((*cell).clone(), *progress);
                self.progress.show(self.elapsed_s, &self.words(cell));
            }
            _ => {}
        }
    }

    fn planned(&mut self, estimate_s: f64, blocks: u32, block_s: f64) {
        let estimate = spoken(estimate_s);
        self.say(&format!(
            "about {estimate}: each cell gets {blocks} blocks of {block_s:.2} s, in turns with the others"
        ));

        let releases = (f64::from(blocks) * block_s * 1e9 / self.period_ns as f64) as u64;
        let Some((at, rule)) = self.rule else { return };
        // Outages of the other cells may show that one is shorter than is assumed here.
        let needed = rule.releases_with_none_late();
        if needed > releases {
            let longer = typed_time(estimate_s * needed as f64 / releases.max(1) as f64 * 1.05);
            self.say(&format!(
                "each cell gets about {} releases, and PASS at {at} % needs {} with none over the limit where nothing shows how \
                 long an outage is: --for {longer} would be enough",
                count(releases),
                count(needed)
            ));
        }
    }

    fn prepared(&mut self, running: usize, not_permitted: &[CellNotPermitted]) {
        let verb = if running == 1 { "is" } else { "are" };
        let cells = format!("{} {verb} prepared", counted(running as u64, "cell"));

        // A tuning that has no loop on one of several CPUs is permitted on the others.
        let of_one = |refused: &&CellNotPermitted| {
            refused.cell.cpu.is_none_or(|cpu| self.shielded.contains(&cpu))
        };
        let mut names: Vec<&str> = not_permitted
            .iter()
            .filter(of_one)
            .map(|refused| refused.cell.tuning.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();

        if names.is_empty() {
            self.say(&cells);
        } else {
            self.say(&format!(
                "{cells}; not permitted: {}; reasons below the tables",
                names.join(", ")
            ));
        }
    }

    fn say(&mut self, words: &str) {
        let Self { progress, screen, quiet, .. } = self;
        if !*quiet {
            let words = wrapped(words, crate::term::columns());
            progress.above(|| screen.advise(Tone::Faint, &words));
        }
    }

    /// The cell that runs, and what was worst so far in all of them.
    fn words(&self, cell: &Cell) -> String {
        let all = self.per_cell.values();
        let misses: u64 = all.clone().map(|of| of.deadline_misses).sum();
        let worst = time_ns(all.map(|of| of.worst_ns).max().unwrap_or(0), letters());
        let so_far = format!("{:4} {:5}  worst {worst}  misses {misses}", cell.tuning, cell.load);
        if self.approaching.is_empty() { so_far } else { format!("{so_far}  {}", self.approaching) }
    }

    fn finish(&mut self) {
        self.progress.finish();
        self.screen.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_has_the_worst_of_all_cells_so_far() {
        let mut view = BenchView {
            progress: ProgressLine::new(60.0, true),
            screen: Screen::begin(Path::new("none"), false),
            quiet: true,
            period_ns: 1_000_000,
            shielded: Vec::new(),
            rule: None,
            elapsed_s: 0.0,
            per_cell: BTreeMap::new(),
            approaching: String::new(),
        };
        let cell = |tuning: &str| Cell::new(tuning, "idle");
        for (tuning, worst_ns, deadline_misses) in [("none", 412_000, 3), ("PMC", 18_000, 1)] {
            let progress =
                record::Progress { worst_ns, deadline_misses, ..record::Progress::default() };
            view.show(&CampaignEvent::Block { cell: &cell(tuning), progress });
        }

        let worst = time_ns(412_000, letters());
        assert_eq!(view.words(&cell("PMC")), format!("PMC  idle   worst {worst}  misses 4"));
    }
}
