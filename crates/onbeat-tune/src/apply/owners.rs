//! Other programs that would overwrite a change, found by their processes.

use std::fmt;

use crate::context::all_tasks;
use crate::error::TuneError;
use crate::host_files::HostFiles;
use crate::plan::{Plan, PlanStep, StepTarget};

/// Whether another program may own what is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnerRule {
    /// Nothing is changed while such a program runs, unless the plan stops it.
    #[default]
    Refuse,
    /// The user knows about it.
    Allow,
}

/// A program that overwrites settings.
struct SettingOwner {
    /// Its process, as the kernel cuts the name.
    process: &'static str,
    unit: &'static str,
    /// Whether it would overwrite a step.
    overwrites: fn(&PlanStep) -> bool,
    /// How it is made to leave the plan's settings alone.
    together: &'static str,
}

const OWNERS: [SettingOwner; 6] = [
    SettingOwner {
        process: "irqbalance",
        unit: "irqbalance.service",
        overwrites: |step| {
            matches!(step.target, StepTarget::Interrupt { .. } | StepTarget::Shield {})
        },
        together: "set IRQBALANCE_BANNED_CPULIST to the loop's CPUs in its environment file and restart it",
    },
    SettingOwner {
        process: "tuned",
        unit: "tuned.service",
        overwrites: |step| {
            matches!(step.target, StepTarget::File { .. } | StepTarget::Interrupt { .. })
        },
        together: "run `tuned-adm off`, or add the same settings to a profile of TuneD",
    },
    SettingOwner {
        process: "power-profiles-",
        unit: "power-profiles-daemon.service",
        overwrites: is_about_power,
        together: "select its profile performance and leave freq.* out of the plan",
    },
    SettingOwner {
        process: "thermald",
        unit: "thermald.service",
        overwrites: is_about_power,
        together: "leave freq.* out of the plan, or stop it where the cooling suffices",
    },
    SettingOwner {
        process: "auto-cpufreq",
        unit: "auto-cpufreq.service",
        overwrites: is_about_power,
        together: "leave freq.* out of the plan",
    },
    SettingOwner {
        process: "rt-conf",
        unit: "snap.rt-conf.rt-conf.service",
        overwrites: |step| {
            matches!(step.target, StepTarget::Interrupt { .. }) || is_about_power(step)
        },
        together: "leave irq.* and freq.* to one of the two",
    },
];

fn is_about_power(step: &PlanStep) -> bool {
    step.id.starts_with("freq.")
}

/// A running program that would overwrite steps of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherOwner {
    pub process: String,
    /// Its number.
    pub pid: i32,
    /// The tunings that it would overwrite.
    pub ids: Vec<String>,
    /// How the two live together.
    pub together: &'static str,
    pub unit: &'static str,
}

impl fmt::Display for OtherOwner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, pid, ids, together, unit } = self;
        write!(
            out,
            "{process} (pid {pid}) is running and would overwrite {}. Stop it (systemctl stop {unit}), or {together}",
            ids.join(", ")
        )
    }
}

/// Returns the first running program that would overwrite a step and that the plan itself does not
/// stop before.
///
/// # Errors
/// [`TuneError::Read`] where the tasks cannot be listed.
pub fn find(host: &dyn HostFiles, plan: &Plan) -> Result<Option<OtherOwner>, TuneError> {
    let all = all_tasks(host)?;
    let found = all.values().filter(|task| !task.is_kernel()).find_map(|task| {
        let owner = OWNERS.iter().find(|owner| owner.process == task.comm)?;
        let is_stop = |step: &&PlanStep| matches!(&step.target, StepTarget::Unit { name } if name == owner.unit);
        let until = plan.steps.iter().position(|step| is_stop(&step)).unwrap_or(plan.steps.len());

        let mut ids: Vec<String> =
            plan.steps[..until].iter().filter(|step| (owner.overwrites)(step)).map(|step| step.id.clone()).collect();
        ids.dedup();
        let process = task.comm.clone();
        let pid = task.pid;
        (!ids.is_empty()).then_some(OtherOwner { process, pid, ids, together: owner.together, unit: owner.unit })
    });

    Ok(found)
}
