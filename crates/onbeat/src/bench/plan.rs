//! The plan of a bench: tunings, loads, time, and the schedule that follows from them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use onbeat_rt::Wait;
use serde::{Deserialize, Serialize};

use super::cell_start::CellTask;
use super::cell_tuning::{CellTuning, LoopOptions};
use super::error::BenchError;
use super::host_settings::HostSetting;
use super::schedule::{self, CellOrder, Pace, Schedule};
use crate::load::Load;
use crate::probe::Setting;
use crate::probe::setting::WaitAsJson;
use onbeat_record::{Cell, FindingNote, LimitNote};
use onbeat_tune::CpuList;

/// What a bench measures, under what, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchPlan {
    /// Tunings in the order of the command line.
    pub tunings: Vec<CellTuning>,
    /// Settings of the host that tunings name, resolved for [`BenchPlan::cpu`].
    pub settings: Vec<HostSetting>,
    /// Loads in the order of the command line.
    pub loads: Vec<Load>,
    /// Total time.
    pub duration: Duration,
    /// Order of the cells.
    pub order: CellOrder,
    /// Seed for the order of the turns.
    pub seed: u64,
    /// The limit to judge by.
    pub limit: Option<LimitNote>,
    /// Looks at the bench that share the level of its verdict, when it ends as soon as that is
    /// decided; 0 for a bench of the whole time.
    pub looks: usize,
    /// Alarms of bus and robot that a cell may have.
    pub most_alarms: Option<u64>,
    /// Tunings of this machine that are not as wanted.
    pub findings: Vec<FindingNote>,
    /// What the loop does in each cycle.
    pub task: CellTask,
    /// How the loop runs without tuning; a tuning sets its wait, priority, CPU and memory.
    pub setting: Setting,
    /// The CPU that C shields, and that a loop is bound to without a shield.
    pub cpu: u32,
    /// CPUs with a loop each, at the same time, in every cell; empty for one loop.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// Those of them that C shields: without one that is left to all other programs.
    #[serde(default)]
    pub shielded: Vec<u32>,
    /// The priority that P gives.
    pub priority: u32,
    /// How S waits.
    #[serde(with = "WaitAsJson")]
    pub spin: Wait,
    /// The command that runs the robot in the loop, without tuning and load; empty without one.
    pub robot_command: Vec<String>,
    /// The command as typed.
    pub command: Vec<String>,
    /// Directory of the journal of changes to the host; no part of a stored plan.
    #[serde(skip)]
    pub journal: PathBuf,
    /// Whether spikes are explained, with one flight recorder for all cells.
    pub causes: bool,
}

impl BenchPlan {
    /// Returns what a tuning changes of the loop, plans included.
    #[must_use]
    pub fn options(&self, tuning: &CellTuning) -> LoopOptions {
        let implied = self.settings_of(tuning).map(|setting| setting.implies);
        implied.fold(tuning.options(), LoopOptions::and)
    }

    /// Returns the settings of the host that a tuning makes, in its order.
    pub fn settings_of(&self, tuning: &CellTuning) -> impl Iterator<Item = &HostSetting> {
        let named = move |name: &str| self.settings.iter().find(|setting| setting.name == name);
        tuning.host_names().filter_map(named)
    }

    /// Returns the setting of a cell with this tuning.
    #[must_use]
    pub fn tuned(&self, tuning: &CellTuning) -> Setting {
        self.tuned_on(None, tuning)
    }

    /// The same of the loop that is bound to `cpu`, where each of several has one.
    pub(super) fn tuned_on(&self, cpu: Option<u32>, tuning: &CellTuning) -> Setting {
        // The bench has the flight recorder.
        let setting = Setting { causes: false, ..self.setting.clone() };
        let options = self.options(tuning);
        let mut tuned =
            options.applied(&setting, cpu.unwrap_or(self.cpu), self.priority, self.spin);
        // Without it the loops of several CPUs would meet on one.
        tuned.thread.cpu = cpu.or(tuned.thread.cpu);
        // A program that sleeps by a length goes on doing so.
        let is_its_own = setting.wait.is_relative() && !options.letters.spin;
        Setting { wait: if is_its_own { setting.wait } else { tuned.wait }, ..tuned }
    }

    /// Returns the cells of a tuning under the load of this index, which run at the same time: one
    /// for each CPU.
    pub(super) fn cells(&self, load: usize, tuning: &CellTuning) -> Vec<Cell> {
        Cell::new(tuning.to_string(), self.loads[load].to_string()).on_each(&self.cpus)
    }

    /// Returns the places of these cells in a list of all, load by load and tuning by tuning.
    pub(super) fn places(&self, load: usize, tuning: usize) -> Range<usize> {
        let at_once = self.cpus.len().max(1);
        let first = (load * self.tunings.len() + tuning) * at_once;
        first..first + at_once
    }

    /// Returns the CPUs that C shields.
    #[must_use]
    pub fn shield(&self) -> CpuList {
        if self.cpus.is_empty() {
            [self.cpu].into_iter().collect()
        } else {
            self.shielded.iter().copied().collect()
        }
    }

    /// Returns why a tuning has no loop on the CPU of this cell; `None` where it has one.
    pub(super) fn why_no_loop(&self, cell: &Cell, tuning: &CellTuning) -> Option<String> {
        let cpu = cell.cpu.filter(|cpu| !self.shielded.contains(cpu))?;
        self.options(tuning).letters.shield.then(|| {
            format!(
                "the shield takes CPU {} and leaves CPU {cpu} to all other programs",
                self.shield()
            )
        })
    }
}

/// Returns the schedule of a plan, and starts nothing.
///
/// # Errors
/// [`BenchError::Twice`] when a name is listed twice, [`BenchError::TooShort`] when the time does
/// not hold all cells.
pub fn scheduled(plan: &BenchPlan) -> Result<Schedule, BenchError> {
    check_names("tuning", plan.tunings.iter().map(CellTuning::to_string))?;
    check_names("load", plan.loads.iter().map(Load::to_string))?;
    let (tunings, seed) = (plan.tunings.len(), plan.seed);
    Ok(schedule::plan(tunings, &pace(plan), plan.duration, plan.order, seed)?)
}

/// Refuses names of tunings or loads of which one is listed twice.
///
/// # Errors
/// [`BenchError::Twice`].
pub fn check_names(
    what: &'static str,
    mut names: impl Iterator<Item = String>,
) -> Result<(), BenchError> {
    let mut seen = BTreeSet::new();
    match names.find_map(|name| seen.replace(name)) {
        Some(name) => Err(BenchError::Twice { what, name }),
        None => Ok(()),
    }
}

/// Returns the pace before anything was measured: loads that are not `idle` need time to start and
/// to end, and so does a program in each block.
pub(super) fn pace(plan: &BenchPlan) -> Pace {
    let loads: Vec<bool> = plan.loads.iter().map(|load| !load.is_idle()).collect();
    match plan.task {
        CellTask::Program(_) => Pace::of_program(&loads),
        _ => Pace::new(&loads),
    }
}
