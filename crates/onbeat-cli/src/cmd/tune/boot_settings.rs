//! What of a plan or of tunings is persisted, and in which way.
//!
//! Of a plan, kernel parameters and sysctls become drop-ins with the plan's values; its other steps
//! become a plan that a unit of systemd applies at boot. What needs the loop's thread is left out:
//! its number is known only while it runs.

use std::path::Path;

use onbeat_tune::CpuList;
use onbeat_tune::catalogue::survey::Survey;
use onbeat_tune::catalogue::{HostTree, LoopSetup, TuningRecord, catalogue};
use onbeat_tune::persist::{ApplyAtBoot, BootSettings, NotPersisted};
use onbeat_tune::plan::{Plan, PlanStep, StepTarget, ThreadGroup, Tunings};

use super::options::CheckedLoopOptions;
use super::selection;
use crate::cmd::findings::machine;
use crate::cmd::{Common, Failure};

/// Where packages install onbeat, for a tree of another machine.
const INSTALLED: &str = "/usr/bin/onbeat";
/// A kernel parameter that a drop-in of systemd replaces, without the boot loader.
const SERVICE_CPUS: &str = "systemd.cpu_affinity=";

/// Settings, and what is not among them.
#[derive(Debug, Default)]
pub(super) struct PersistPlan {
    pub(super) settings: BootSettings,
    /// The steps that are applied at boot, for people.
    pub(super) at_boot: Vec<PlanStep>,
    pub(super) not_persisted: Vec<NotPersisted>,
}

/// Returns the settings of a plan file.
pub(super) fn of_plan(plan: &Plan, root: &Path) -> Result<PersistPlan, Failure> {
    let mut made = PersistPlan::default();
    let mut rest = Vec::new();
    for step in &plan.steps {
        match (&step.target, sysctl(&step.target)) {
            (StepTarget::Boot {}, _) => made.add_parameters(&step.new),
            (_, Some(name)) => {
                made.settings.sysctls.insert(name, step.new.clone());
            }
            _ => rest.push(step.clone()),
        }
    }

    made.apply_at_boot(plan, rest, root)?;
    Ok(made)
}

/// Returns the settings of tunings of the catalogue, whatever their values are now.
pub(super) fn of_tunings(
    tree: &HostTree,
    tunings: &Tunings,
    checked: &CheckedLoopOptions,
    root: &Path,
) -> Result<PersistPlan, Failure> {
    let records = records(tunings);
    let setup = machine::setup(checked);
    let cpus = machine::chosen(tree, &setup, &machine::choice(checked))?.cpus;
    let setup = LoopSetup { cpus, ..setup };
    let (settings, others) = BootSettings::from_records(&records, &Survey::new(tree, &setup));
    let mut made = PersistPlan { settings, ..PersistPlan::default() };
    if others.is_empty() {
        return Ok(made);
    }

    let ids = others.iter().map(|other| other.id.clone()).collect();
    let plan = selection::planned(tree, Tunings::Ids(ids), checked)?;
    let steps: Vec<PlanStep> =
        plan.steps.iter().filter(|step| step.target != (StepTarget::Boot {})).cloned().collect();
    made.not_persisted =
        others.into_iter().filter(|other| !steps.iter().any(|step| step.id == other.id)).collect();
    made.apply_at_boot(&plan, steps, root)?;
    Ok(made)
}

fn records(tunings: &Tunings) -> Vec<&'static TuningRecord> {
    match tunings {
        Tunings::Profile(profile) => catalogue().profile(profile.name()),
        Tunings::Ids(ids) => ids.iter().flat_map(|id| catalogue().resolve(id)).collect(),
    }
}

/// The name of a sysctl, unless it holds a dot, which separates the parts of a name.
fn sysctl(target: &StepTarget) -> Option<String> {
    let StepTarget::File { path, .. } = target else { return None };
    let name = path.strip_prefix("/proc/sys/")?;
    (!name.contains('.')).then(|| name.replace('/', "."))
}

/// Whether a step is about the loop's thread, which does not run at boot.
fn needs_loop(step: &PlanStep) -> bool {
    match &step.target {
        StepTarget::Shield {} => true,
        StepTarget::Affinity { threads } | StepTarget::Threads { threads, .. } => {
            *threads == ThreadGroup::Loop
        }
        _ => false,
    }
}

impl PersistPlan {
    fn add_parameters(&mut self, line: &str) {
        for parameter in line.split_whitespace() {
            match parameter.strip_prefix(SERVICE_CPUS).map(CpuList::parse_list) {
                Some(Ok(cpus)) => self.settings.service_cpus = Some(cpus),
                _ => self.settings.add_parameter(parameter),
            }
        }
    }

    /// Has a unit apply these steps at boot.
    fn apply_at_boot(
        &mut self,
        plan: &Plan,
        steps: Vec<PlanStep>,
        root: &Path,
    ) -> Result<(), Failure> {
        let (of_loop, steps): (Vec<_>, Vec<_>) = steps.into_iter().partition(needs_loop);
        let why = "needs the loop's thread, which does not run at boot";
        self.not_persisted.extend(
            of_loop.into_iter().map(|step| NotPersisted { id: step.id, why: why.to_owned() }),
        );
        if steps.is_empty() {
            return Ok(());
        }

        let at_boot = Plan {
            task: None,
            task_start_ticks: None,
            steps,
            left_out: Vec::new(),
            ..plan.clone()
        };
        let program = if root == Path::new("/") {
            let own = std::env::current_exe().map_err(Common::OwnProgram)?;
            own.to_string_lossy().into_owned()
        } else {
            INSTALLED.to_owned()
        };
        self.settings.apply = Some(ApplyAtBoot { program, plan: at_boot.to_text() });
        self.at_boot = at_boot.steps;
        Ok(())
    }
}
