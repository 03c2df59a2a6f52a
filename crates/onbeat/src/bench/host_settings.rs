//! Settings of the host that a bench makes before a cell's block and undoes after it.
//!
//! [`resolve`] turns the name of a tuning into the steps of this machine, or refuses it with the
//! reason of the check; `make` and `undo` change the host through the journal of the bench.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use onbeat_tune::apply::{AppliedStep, FailedStep, OnRefusal, Resolver, StepMaker, owners};
use onbeat_tune::catalogue::{CheckVerdict, Finding, HostTree, LoopSetup, catalogue, check};
use onbeat_tune::change::Kind;
use onbeat_tune::journal::ChangeId;
use onbeat_tune::plan::{
    CpuChoice, PLAN_SCHEMA, Plan, PlanError, PlanRequest, PlanStep, StepTarget, ThreadGroup, plan,
};
use onbeat_tune::shield::Scope;
use onbeat_tune::task_setting::TaskSetting;
use onbeat_tune::{HostFiles, Intent, Journal, Key, TuneError, UndoMode};

use serde::{Deserialize, Serialize};

use super::cell_tuning::{AFFINITY, LoopOptions, PLACEBO, PLAN, TIMER_SLACK, is_path};

/// The setting that a placebo writes back as it is.
const PLACEBO_FILE: &str = "/proc/sys/vm/swappiness";

/// A setting of the host, or a plan of several, under the name that a tuning has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSetting {
    /// The name in the tuning.
    pub name: String,
    /// The steps that are made before a block.
    pub plan: Plan,
    /// What it changes of the loop itself.
    pub implies: LoopOptions,
    /// Steps of a plan that are not made, with the reason.
    pub left_out: Vec<String>,
}

/// On which machine and for which loop a setting is resolved.
pub struct SettingRequest<'r> {
    /// What the checks of the catalogue read.
    pub tree: &'r HostTree,
    /// The same machine, as changes read and write it.
    pub host: &'r dyn HostFiles,
    /// The loop; its CPUs are those of the bench.
    pub setup: LoopSetup,
    /// The file that `plan` stands for.
    pub plan_file: Option<&'r Path>,
}

/// Why a setting cannot be measured here.
#[derive(Debug, thiserror::Error)]
pub enum SettingRefusal {
    /// The tuning names a plan, and none was given.
    #[error("the tuning `plan` needs --plan FILE; `onbeat tune plan --out FILE` writes one")]
    NoPlan,
    /// The file of a plan cannot be read.
    #[error("cannot read the plan {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not a plan, or no CPU is left for the loop.
    #[error("{name}: {source}")]
    Plan {
        /// The name in the tuning.
        name: String,
        /// Why.
        source: PlanError,
    },
    /// It takes a reboot.
    #[error(
        "{0} takes a reboot and cannot take turns: run `onbeat bench`, then `onbeat tune persist {0}`, \
         restart the machine, run `onbeat bench` again, and compare the two with `onbeat compare`"
    )]
    Reboot(String),
    /// It does not apply, its value is unknown or as wanted, nothing of it can be changed by a
    /// program, or another program would overwrite it silently.
    #[error("{name} {why}")]
    Refused {
        /// The name in the tuning.
        name: String,
        /// The rest of the sentence.
        why: String,
    },
    /// The tasks could not be listed.
    #[error(transparent)]
    Tune(#[from] TuneError),
}

/// Resolves the name of a setting on this machine. Changes nothing.
///
/// # Errors
/// [`SettingRefusal`].
pub fn resolve(name: &str, request: &SettingRequest<'_>) -> Result<HostSetting, SettingRefusal> {
    let setting = if name == PLACEBO {
        placebo(request)
    } else if name == PLAN || is_path(name) {
        of_file(name, request)?
    } else {
        of_id(name, request)?
    };

    match owners::find(request.host, &setting.plan)? {
        Some(owner) => {
            let why = format!("cannot be measured: {owner}");
            Err(SettingRefusal::Refused { name: setting.name, why })
        }
        None => Ok(setting),
    }
}

/// Writes a value back as it is; without root it does nothing at all.
fn placebo(request: &SettingRequest<'_>) -> HostSetting {
    let value = request.host.read(PLACEBO_FILE).ok().filter(|_| request.host.is_root());
    let step = |value: String| PlanStep {
        id: PLACEBO.to_owned(),
        target: StepTarget::File { path: PLACEBO_FILE.to_owned(), compare: Kind::Text },
        old: value.trim().to_owned(),
        new: value.trim().to_owned(),
        shell: String::new(),
        takes: "now".to_owned(),
        risk: String::new(),
    };

    let plan = Plan {
        schema: PLAN_SCHEMA.to_owned(),
        cpus: request.setup.cpus.to_string(),
        steps: value.map(step).into_iter().collect(),
        ..Plan::default()
    };

    HostSetting::of_plan(PLACEBO, plan)
}

/// A plan from a file.
fn of_file(name: &str, request: &SettingRequest<'_>) -> Result<HostSetting, SettingRefusal> {
    let path = if name == PLAN { request.plan_file } else { Some(Path::new(name)) };
    let path = path.ok_or(SettingRefusal::NoPlan)?;
    let text = fs::read_to_string(path)
        .map_err(|source| SettingRefusal::Read { path: path.to_owned(), source })?;
    let refused = |source| SettingRefusal::Plan { name: name.to_owned(), source };
    let plan = Plan::from_text(&text).map_err(refused)?;
    plan.loop_cpus().map_err(refused)?;

    let of_loop = loop_options(&plan);
    let setting = HostSetting::of_plan(name, plan);
    let implies = setting.implies.and(of_loop);
    if setting.plan.steps.is_empty() && implies == LoopOptions::default() {
        return Err(setting.nothing_to_make());
    }

    Ok(HostSetting { implies: LoopOptions { bound: true, ..implies }, ..setting })
}

/// What a plan says of the loop itself: by its profile, and by the ids that it names.
fn loop_options(plan: &Plan) -> LoopOptions {
    let of_profile = plan.profile.iter().flat_map(|name| catalogue().profile(name));
    let ids = of_profile.map(|record| record.id.as_str());
    let named = plan.left_out.iter().map(|left| left.id.as_str());
    let all = ids.chain(named).filter_map(LoopOptions::of_id);
    let mut options = all.fold(LoopOptions::default(), LoopOptions::and);
    // The shield belongs to the letter C: a plan has affinities for it.
    options.letters.shield = false;
    options
}

/// An id of the catalogue, or an alias.
fn of_id(name: &str, request: &SettingRequest<'_>) -> Result<HostSetting, SettingRefusal> {
    let SettingRequest { tree, setup, .. } = request;
    let refused = |source| SettingRefusal::Plan { name: name.to_owned(), source };
    let made = planned(tree, &[name], setup).map_err(refused)?;
    let setting = HostSetting::of_plan(name, made);
    if setting.plan.steps.is_empty() && setting.implies == LoopOptions::default() {
        return Err(match why_nothing(name, tree, setup) {
            Some(finding) => refusal(name.to_owned(), finding),
            None => setting.nothing_to_make(),
        });
    }

    Ok(setting)
}

/// Returns the plan of these ids for a loop on the CPUs of `setup`.
///
/// # Errors
/// [`PlanError`], for an unknown id, and where no CPU is left for the loop.
pub fn planned(tree: &HostTree, ids: &[&str], setup: &LoopSetup) -> Result<Plan, PlanError> {
    let mut request = PlanRequest::ids(ids.iter().copied())?;
    request.cpus = CpuChoice::List(setup.cpus.clone());
    request.setup = setup.clone();
    plan(tree, &request)
}

/// Returns the finding that says why there is nothing to make of an id or an alias; `None` where
/// the check finds it bad.
#[must_use]
pub fn why_nothing(name: &str, tree: &HostTree, setup: &LoopSetup) -> Option<Finding> {
    let records = catalogue().resolve(name);
    let mut findings = check(tree, setup);
    findings.retain(|finding| records.iter().any(|record| record.id == finding.id));
    let is_bad = findings.iter().any(|finding| finding.verdict == CheckVerdict::Bad);
    findings.into_iter().next().filter(|_| !is_bad)
}

fn refusal(name: String, finding: Finding) -> SettingRefusal {
    let why = match finding.verdict {
        CheckVerdict::NotApplicable(reason) => {
            format!("cannot be measured here, since it does not apply: {reason}")
        }
        CheckVerdict::Unknown(reason) => {
            format!("cannot be measured here, since its value is unknown: {reason}")
        }
        _ => format!(
            "is as wanted already ({}): there is nothing to measure; undo it first to see what it is worth",
            finding.current
        ),
    };
    SettingRefusal::Refused { name, why }
}

impl HostSetting {
    /// Keeps the steps that can be made and undone between blocks.
    fn of_plan(name: &str, plan: Plan) -> Self {
        let mut setting = Self {
            name: name.to_owned(),
            plan: Plan { steps: Vec::new(), task: None, task_start_ticks: None, ..plan },
            implies: LoopOptions::default(),
            left_out: Vec::new(),
        };
        for step in plan.steps {
            let id = &step.id;
            match of_loop(&step) {
                _ if matches!(step.target, StepTarget::Boot {}) => {
                    setting.left_out.push(format!("{id} takes a reboot"));
                }
                Some(Some(options)) => setting.implies = setting.implies.and(options),
                Some(None) => {
                    setting.left_out.push(format!("{id} belongs to the program of the loop"));
                }
                None => setting.plan.steps.push(step),
            }
        }

        setting
    }

    fn nothing_to_make(&self) -> SettingRefusal {
        let name = self.name.clone();
        let because: &str = match (self.left_out.first(), self.plan.left_out.first()) {
            (Some(because), _) if because.ends_with("takes a reboot") => {
                return SettingRefusal::Reboot(name);
            }
            (Some(because), _) => because,
            (None, Some(left)) => &left.because,
            (None, None) => "it has no step on this machine",
        };
        SettingRefusal::Refused { name, why: format!("cannot be measured in turns: {because}") }
    }

    /// Returns each change in words, as `old -> new`.
    pub fn changes_in_words(&self) -> impl Iterator<Item = String> {
        let words =
            |step: &PlanStep| format!("{}: {} {} -> {}", step.id, step.target, step.old, step.new);
        self.plan.steps.iter().map(words)
    }
}

/// The options of the loop that a step is about; `Some(None)` for one that a cell does not have.
fn of_loop(step: &PlanStep) -> Option<Option<LoopOptions>> {
    let id = match &step.target {
        StepTarget::Shield {} => "shield.cpuset_v2",
        StepTarget::Affinity { threads: ThreadGroup::Loop } => AFFINITY,
        StepTarget::Threads { threads: ThreadGroup::Loop, setting } => match setting {
            TaskSetting::Scheduling => "proc.policy",
            TaskSetting::TimerSlack => TIMER_SLACK,
            _ => return Some(None),
        },
        _ => return None,
    };
    Some(LoopOptions::of_id(id))
}

/// A change of the host before or after a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// The kernel refused a change; what was made of the setting is undone.
    #[error("{0}, before a measurement; its changes were undone")]
    Make(#[from] FailedStep),
    /// The plan names no valid CPUs.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Changes could not be undone after a measurement; they stay on record.
    #[error(
        "{left} changes of the host could not be undone after a measurement ({first}); they stay on record: run `onbeat repair`"
    )]
    Left {
        /// How many.
        left: usize,
        /// The first, in words.
        first: String,
    },
    /// The journal failed.
    #[error(transparent)]
    Tune(#[from] TuneError),
}

/// Makes a setting, journal first, and appends its changes to `made`.
///
/// # Errors
/// [`SettingError`]; what was made before is in `made` and on record.
pub fn make(
    host: &dyn HostFiles,
    journal: &mut Journal,
    setting: &HostSetting,
    made: &mut Vec<ChangeId>,
) -> Result<(), SettingError> {
    if setting.name == PLACEBO {
        return write_back(host, journal, &setting.plan, made);
    }

    make_plan(host, journal, (&setting.plan, OnRefusal::RollBack), made).map(drop)
}

/// Makes the steps of a plan, journal first, and appends their changes to `made`.
///
/// # Errors
/// [`SettingError`]; what was made before is in `made` and on record.
pub fn make_plan(
    host: &dyn HostFiles,
    journal: &mut Journal,
    (plan, on_refusal): (&Plan, OnRefusal),
    made: &mut Vec<ChangeId>,
) -> Result<Vec<AppliedStep>, SettingError> {
    let resolver = Resolver::new(host, plan, Scope::Machine)?;
    let mut maker = StepMaker::new(journal, resolver, on_refusal);
    let outcome = maker.make_all();
    made.extend(maker.into_recorded());
    Ok(outcome?)
}

/// Writes the same value again: what a placebo costs is what every setting costs.
fn write_back(
    host: &dyn HostFiles,
    journal: &mut Journal,
    plan: &Plan,
    made: &mut Vec<ChangeId>,
) -> Result<(), SettingError> {
    for step in &plan.steps {
        let key = Key::File { path: PLACEBO_FILE.to_owned(), kind: Kind::Text, shown_in: None };
        let intent = Intent::new(&step.id, key, step.old.clone(), step.new.clone());
        made.push(journal.change(host, &intent)?);
    }

    Ok(())
}

/// Undoes changes that [`make`] made, newest first.
///
/// # Errors
/// [`SettingError::Left`] for those that another program has changed since, or that the kernel
/// refuses.
pub fn undo(
    host: &dyn HostFiles,
    journal: &mut Journal,
    made: &[ChangeId],
) -> Result<(), SettingError> {
    let undone = journal.undo(host, made, UndoMode::Careful)?;
    let left: Vec<_> = undone.iter().filter(|one| !one.outcome.is_settled()).collect();
    let Some(first) = left.first() else { return Ok(()) };
    Err(SettingError::Left { left: left.len(), first: first.intent.key.name() })
}
