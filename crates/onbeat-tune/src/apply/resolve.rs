//! From a step of a plan to the changes of this machine, with the values that are found now.

use crate::catalogue::probes::matches;
use crate::change::{Intent, Key, Kind, online};
use crate::context::all_tasks;
use crate::cpu_list::CpuList;
use crate::error::TuneError;
use crate::host_files::HostFiles;
use crate::plan::{Plan, PlanError, PlanStep, StepTarget, ThreadGroup};
use crate::shield::Scope;
use crate::task_setting::TaskSetting;
use crate::tasks::{self, Task};

/// Files that the kernel sets to 0 when the other one is written; each limits the same by another
/// unit.
const COUPLED: [(&str, &str); 2] = [
    ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes"),
    ("/proc/sys/vm/dirty_background_ratio", "/proc/sys/vm/dirty_background_bytes"),
];
/// The timer slack that the kernel gives to a thread that leaves real time, in nanoseconds.
const DEFAULT_SLACK_NS: &str = "50000";

/// The changes of one step.
#[derive(Debug, Default)]
pub struct Changes {
    /// To be made.
    pub intents: Vec<Intent>,
    /// Settings that the kernel changes along with them: recorded before, never written.
    pub followers: Vec<Intent>,
}

/// What a step is resolved against.
pub struct Resolver<'a> {
    /// The machine.
    pub host: &'a dyn HostFiles,
    pub plan: &'a Plan,
    pub loop_cpus: CpuList,
    pub online: CpuList,
    /// Which threads of programs may be moved.
    pub scope: Scope,
}

impl<'a> Resolver<'a> {
    /// Reads what every step is resolved against.
    ///
    /// # Errors
    /// [`PlanError::Cpus`] where the plan names no valid CPUs.
    pub fn new(host: &'a dyn HostFiles, plan: &'a Plan, scope: Scope) -> Result<Self, PlanError> {
        Ok(Self { host, plan, loop_cpus: plan.loop_cpus()?, online: online(host), scope })
    }

    /// Returns the changes of a step; none where everything is as wanted, or no longer exists.
    ///
    /// # Errors
    /// [`TuneError::Read`] where a value cannot be read, [`TuneError::NoSuchTask`] without the
    /// loop's thread.
    pub fn changes(&self, step: &PlanStep) -> Result<Changes, TuneError> {
        match &step.target {
            StepTarget::File { path, compare } => self.file(step, path, *compare),
            StepTarget::Interrupt { number, handlers } => {
                Ok(self.interrupt(step, *number, handlers))
            }
            StepTarget::Affinity { threads } => self.affinity(step, threads),
            StepTarget::Threads { threads, setting } => self.threads(step, threads, *setting),
            StepTarget::Unit { name } => self.one(step, Key::Unit { name: name.clone() }),
            StepTarget::Register { cpu, register, high, low } => self.one(
                step,
                Key::Register { cpu: *cpu, register: *register, high: *high, low: *low },
            ),
            StepTarget::Shield {} | StepTarget::Held { .. } | StepTarget::Boot {} => {
                Ok(Changes::default())
            }
        }
    }

    fn current(&self, key: &Key) -> Result<Option<String>, TuneError> {
        key.current(self.host).map_err(|source| TuneError::Read { path: key.name(), source })
    }

    /// A change of one setting.
    fn one(&self, step: &PlanStep, key: Key) -> Result<Changes, TuneError> {
        let Some(old) = self.current(&key)? else {
            return Err(TuneError::Read {
                path: key.name(),
                source: std::io::ErrorKind::NotFound.into(),
            });
        };

        let intent = Intent::new(&step.id, key, old.trim(), step.new.clone());
        let is_new = intent.same(&old, &step.new, &self.online);
        Ok(Changes {
            intents: if is_new { Vec::new() } else { vec![intent] },
            followers: Vec::new(),
        })
    }

    fn file(&self, step: &PlanStep, path: &str, kind: Kind) -> Result<Changes, TuneError> {
        let requested = format!("{path}_requested");
        // The requested mask is restored; the effective one may be narrower.
        let shown_in =
            (path.ends_with("/cpumask") && self.host.read(&requested).is_ok()).then_some(requested);
        let mut changes = self.one(step, Key::File { path: path.to_owned(), kind, shown_in })?;
        for intent in &mut changes.intents {
            intent.old = kind.value_in(&intent.old);
        }

        let coupled = COUPLED
            .iter()
            .find(|(ratio, _)| *ratio == path)
            .filter(|_| !changes.intents.is_empty());
        if let Some((_, bytes)) = coupled {
            let key = Key::File { path: (*bytes).to_owned(), kind: Kind::Text, shown_in: None };
            let old = self.current(&key)?.unwrap_or_default();
            if old.trim() != "0" && !old.trim().is_empty() {
                changes.followers.push(Intent::new(&step.id, key, old.trim(), "0"));
            }
        }
        Ok(changes)
    }

    fn interrupt(&self, step: &PlanStep, number: u32, handlers: &[String]) -> Changes {
        let actions = crate::irq_handlers::actions(self.host, number);
        let read = |file: &str| {
            self.host.read(&format!("/proc/irq/{number}/{file}")).map(|text| text.trim().to_owned())
        };
        let Ok(old) = read("smp_affinity_list") else { return Changes::default() };
        // With other handlers it is another interrupt.
        if actions != handlers || Kind::List.same(&old, &step.new) {
            return Changes::default();
        }

        let effective = read("effective_affinity_list").unwrap_or_default();
        let key = Key::Irq { number, actions, effective: effective.clone() };
        let intent = Intent::new(&step.id, key, old, step.new.clone());
        Changes {
            intents: vec![intent.also((!effective.is_empty()).then_some(effective))],
            followers: Vec::new(),
        }
    }

    fn affinity(&self, step: &PlanStep, group: &ThreadGroup) -> Result<Changes, TuneError> {
        let new = CpuList::parse_list(&step.new)?;
        let mut changes = Changes::default();
        for task in self.selected(group)? {
            let Ok(old) = tasks::affinity(self.host, task.id.tid) else { continue };
            let wanted = match group {
                // Threads that a program has bound keep as much of their choice as possible.
                ThreadGroup::User
                | ThreadGroup::UnboundKernel
                | ThreadGroup::Emulator
                | ThreadGroup::Kernel(_) => {
                    CpuList::kept_off(&old.and(&self.online), &self.loop_cpus, &new)
                }
                ThreadGroup::Loop | ThreadGroup::Vcpus => new.clone(),
            };
            if old.and(&self.online) == wanted.and(&self.online) {
                continue;
            }
            if matches!(group, ThreadGroup::User) && changes.intents.is_empty() {
                // Their later children inherit the new list.
                let key = Key::Born { since_ticks: tasks::now_ticks(self.host) };
                changes.intents.push(Intent::new(
                    &step.id,
                    key,
                    self.online.to_string(),
                    new.to_string(),
                ));
            }
            let key = Key::Affinity { task: task.id, follows: false };
            changes.intents.push(Intent::new(&step.id, key, old.to_string(), wanted.to_string()));
        }

        Ok(changes)
    }

    fn threads(
        &self,
        step: &PlanStep,
        group: &ThreadGroup,
        setting: TaskSetting,
    ) -> Result<Changes, TuneError> {
        let mut changes = Changes::default();
        for task in self.selected(group)? {
            let key = Key::Task { task: task.id, setting };
            let Some(old) = self.current(&key)? else { continue };
            let new = setting.in_full(&step.new, &old);
            if setting.same(&old, &new) {
                continue;
            }

            if setting == TaskSetting::Scheduling {
                changes.followers.extend(self.slack_of(step, &task));
            }
            changes.intents.push(Intent::new(&step.id, key, old.trim(), new));
        }

        Ok(changes)
    }

    /// The kernel takes the timer slack away from real-time threads, and gives them its default
    /// when they return.
    fn slack_of(&self, step: &PlanStep, task: &Task) -> Option<Intent> {
        let key = Key::Task { task: task.id, setting: TaskSetting::TimerSlack };
        let old = key.current(self.host).ok()??;
        let old = old.trim();
        (old != "0" && old != DEFAULT_SLACK_NS)
            .then(|| Intent::new(&step.id, key, old, "0").also([DEFAULT_SLACK_NS.to_owned()]))
    }

    fn selected(&self, group: &ThreadGroup) -> Result<Vec<Task>, TuneError> {
        let all = all_tasks(self.host)?;
        if *group == ThreadGroup::Loop {
            let tid = self.plan.task.ok_or(TuneError::NoSuchTask { tid: 0 })?;
            return Ok(vec![all.get(&tid).cloned().ok_or(TuneError::NoSuchTask { tid })?]);
        }

        let own = self.host.own_pid();
        let loop_pid = self.plan.task.and_then(|tid| all.get(&tid)).map(|task| task.pid);
        let in_scope = |task: &Task| match self.scope {
            Scope::Machine => true,
            Scope::Under(ancestor) => tasks::descends(&all, task.pid, ancestor),
        };
        let is_meant = |task: &&Task| match group {
            ThreadGroup::Loop => false,
            ThreadGroup::User => {
                !task.is_kernel() && task.pid != own && Some(task.pid) != loop_pid && in_scope(task)
            }
            ThreadGroup::UnboundKernel => task.is_unbound_kernel(),
            ThreadGroup::Kernel(names) => {
                task.is_kernel() && names.iter().any(|name| matches(name, &task.comm))
            }
            ThreadGroup::Vcpus => task.is_vcpu() && in_scope(task),
            ThreadGroup::Emulator => task.is_beside_vcpu(all.values()) && in_scope(task),
        };
        Ok(all.values().filter(is_meant).cloned().collect())
    }
}
