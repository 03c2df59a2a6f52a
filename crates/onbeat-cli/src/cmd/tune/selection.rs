//! From a plan file, tunings or a profile to a plan.

use std::path::Path;

use onbeat_host::foreign::{self, MOST_BYTES_BY_HAND};
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::{Plan, PlanRequest, Tunings, plan};
use onbeat_tune::{LiveHost, tasks};

use super::options::{CheckedLoopOptions, SelectionOptions, TaskWord, tuning_id};
use crate::cmd::failure::tune::TuneFailure;
use crate::cmd::findings::machine;
use crate::cmd::{Common, Failure};

/// What a command is to apply or to persist.
#[derive(Debug)]
pub(super) enum Selection {
    /// A plan from a file, as its reader finds it.
    File(Plan),
    Catalogue(Tunings),
}

/// Returns what was typed. `what` is the command's verb.
pub(super) fn selection(
    typed: &SelectionOptions,
    checked: &CheckedLoopOptions,
    what: &'static str,
) -> Result<Selection, Failure> {
    if let Some(profile) = typed.profile {
        return Ok(Selection::Catalogue(Tunings::Profile(profile)));
    }
    let Some(file) = typed.what.iter().find(|word| is_file(word)) else {
        if typed.what.is_empty() {
            return Err(TuneFailure::NothingNamed { what }.into());
        }
        let ids = typed.what.iter().map(|word| tuning_id(word)).collect::<Result<Vec<_>, _>>();
        return Ok(Selection::Catalogue(Tunings::Ids(ids.map_err(TuneFailure::NoTuning)?)));
    };

    let path = Path::new(file);
    if let Some(second) = typed.what.iter().find(|word| *word != file) {
        let first = path.to_owned();
        let second = second.clone();
        return Err(TuneFailure::PlanAndMore { first, second }.into());
    }
    if let Some(option) = checked.decided_by_plan() {
        return Err(TuneFailure::DecidedByPlan { path: path.to_owned(), option }.into());
    }
    read(path).map(Selection::File)
}

/// Ids of tunings hold neither a slash nor the ending of a plan file.
fn is_file(word: &str) -> bool {
    let has_ending = Path::new(word).extension().is_some_and(|ending| ending == "toml");
    word.contains('/') || has_ending || (tuning_id(word).is_err() && Path::new(word).is_file())
}

fn read(path: &Path) -> Result<Plan, Failure> {
    let text = foreign::text(path, MOST_BYTES_BY_HAND).map_err(Common::file("read", path))?;
    Plan::from_text(&text)
        .map_err(|source| TuneFailure::PlanFile { path: path.to_owned(), source }.into())
}

/// Returns a plan for the thread that was named with it, if one was.
pub(super) fn for_task(plan: Plan, checked: &CheckedLoopOptions) -> Plan {
    match checked.task.as_ref().and_then(TaskWord::tid) {
        Some(tid) => Plan {
            task: Some(tid),
            task_start_ticks: tasks::task(&LiveHost::new(), tid).map(|task| task.id.start_ticks),
            ..plan
        },
        None => plan,
    }
}

/// Plans tunings of the catalogue for a machine.
pub(super) fn planned(
    tree: &HostTree,
    tunings: Tunings,
    checked: &CheckedLoopOptions,
) -> Result<Plan, Failure> {
    let cpus = machine::choice(checked);
    let setup = machine::setup(checked);
    let request = PlanRequest { tunings, cpus, setup };
    Ok(plan(tree, &request)?)
}
