//! Policy, priority and CPUs of tasks, and whether the loop's memory is locked.

use serde::Deserialize;

use super::{NoValue, Probe, ProbeReading, matches};
use crate::catalogue::survey::Survey;
use crate::catalogue::wanted::{ProbeValue, WantedValue};
use crate::tasks::Task;

/// Which tasks are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskSelection {
    /// The loop's thread.
    Loop,
    /// The first process.
    Init,
    /// All threads of programs except the loop's thread and this process.
    User,
    /// Kernel threads that may run anywhere.
    UnboundKernel,
    /// Both.
    Movable,
    /// Threads of interrupts.
    IrqThreads,
    /// Tasks whose name fits one of the patterns.
    Named,
    /// Threads of virtual CPUs.
    Vcpus,
    /// The other threads of processes with virtual CPUs.
    Emulator,
}

/// What is read of each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskAttribute {
    /// `other`, `fifo`, `rr` or `deadline`.
    Policy,
    /// 0 for an ordinary task, 1 to 99, 100 for a deadline task.
    Priority,
    /// The CPUs it may use.
    Affinity,
    /// That it exists.
    Existence,
}

/// An attribute of some tasks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskProbe {
    pub which: TaskSelection,
    /// Patterns of names, for [`TaskSelection::Named`].
    #[serde(default)]
    pub names: Vec<String>,
    /// What is read.
    pub attribute: TaskAttribute,
    /// What it should be.
    pub want: WantedValue,
}

impl TaskProbe {
    fn selected(&self, survey: &Survey<'_>) -> Result<Vec<Task>, NoValue> {
        match self.which {
            TaskSelection::Init => return Ok(vec![survey.task(1)?]),
            TaskSelection::Loop => return Ok(vec![survey.task(survey.loop_task()?)?]),
            _ => {}
        }

        let tasks = survey.tasks()?;
        let own = survey.host().is_live().then(|| std::process::id().cast_signed());
        let is_meant = |task: &&Task| {
            let is_user = !task.is_kernel()
                && Some(task.id.tid) != survey.setup().task
                && Some(task.pid) != own;
            match self.which {
                TaskSelection::User => is_user,
                TaskSelection::UnboundKernel => task.is_unbound_kernel(),
                TaskSelection::Movable => is_user || task.is_unbound_kernel(),
                TaskSelection::IrqThreads => task.follows_interrupt(),
                TaskSelection::Named => self.names.iter().any(|name| matches(name, &task.comm)),
                TaskSelection::Vcpus => task.is_vcpu(),
                TaskSelection::Emulator => task.is_beside_vcpu(tasks),
                TaskSelection::Loop | TaskSelection::Init => false,
            }
        };
        Ok(tasks.iter().filter(is_meant).cloned().collect())
    }

    /// `None` for a task that has ended since it was listed.
    fn reading(&self, task: &Task, survey: &Survey<'_>) -> Option<ProbeReading> {
        let value = match self.attribute {
            TaskAttribute::Policy => Ok(ProbeValue::Text(task.policy.to_string())),
            TaskAttribute::Priority => Ok(ProbeValue::Number(task.priority)),
            TaskAttribute::Existence => Ok(ProbeValue::Text("runs".to_owned())),
            TaskAttribute::Affinity => match survey.affinity(task.id.tid) {
                Ok(None) => return None,
                Ok(Some(cpus)) => survey.online().map(|online| ProbeValue::Cpus(cpus.and(&online))),
                Err(why) => Err(why),
            },
        };
        Some(ProbeReading::new(format!("{} ({})", task.comm, task.id.tid), value))
    }
}

impl Probe for TaskProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        let tasks = match self.selected(survey) {
            Ok(tasks) => tasks,
            Err(why) => return vec![ProbeReading::new("tasks", Err(why))],
        };

        let readings: Vec<_> = tasks.iter().filter_map(|task| self.reading(task, survey)).collect();
        if !readings.is_empty() {
            return readings;
        }

        let value = match self.attribute {
            TaskAttribute::Existence => Ok(ProbeValue::Absent),
            _ => Err(NoValue::NotApplicable("no such thread runs".to_owned())),
        };
        vec![ProbeReading::new("tasks", value)]
    }
}

/// Whether all of the memory that the loop's program uses is locked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedMemoryProbe {
    /// `present`.
    pub want: WantedValue,
}

impl LockedMemoryProbe {
    fn value(survey: &Survey<'_>) -> Result<ProbeValue, NoValue> {
        let locked = locked_kib(survey.loop_task()?, survey)?;
        Ok(locked.map_or(ProbeValue::Absent, |kib| ProbeValue::Text(format!("{kib} KiB locked"))))
    }
}

/// The memory of a task, in KiB, where all of it is locked.
pub(crate) fn locked_kib(task: i32, survey: &Survey<'_>) -> Result<Option<u64>, NoValue> {
    let path = format!("/proc/{task}/status");
    let status = survey.text(&path)?;
    let kibibytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.ok_or_else(|| NoValue::Unknown(format!("{path} has no line {name}")))
    };

    // Locked memory counts addresses, resident memory counts pages: all is locked where the first
    // is not smaller.
    let locked = kibibytes("VmLck:")?;
    let resident = kibibytes("VmRSS:")?;
    Ok((locked >= resident && resident > 0).then_some(locked))
}

impl Probe for LockedMemoryProbe {
    fn wanted(&self) -> Option<&WantedValue> {
        Some(&self.want)
    }

    fn read(&self, survey: &Survey<'_>) -> Vec<ProbeReading> {
        vec![ProbeReading::new("locked memory", Self::value(survey))]
    }
}
