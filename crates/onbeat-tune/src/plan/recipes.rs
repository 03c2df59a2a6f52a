//! Steps of records that name no value to write: attributes of threads, units, registers, values
//! that depend on another file.
//!
//! The records stay data without code, and so do these: each names an id and a kind of step.

use super::target::ThreadGroup;
use crate::task_setting::TaskSetting;

/// How a record without a value to write is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Policy or another attribute of threads, with the value; variables in braces.
    Threads(Who, TaskSetting, &'static str),
    /// CPUs of threads: those that they have now without the loop's, or the loop's.
    Affinity(Who, &'static str),
    /// A file, with the value to write and how values are compared.
    File(&'static str, &'static str, RecipeKind),
    /// The first file of each pair of the record's probe gets the second's value.
    EqualFiles,
    /// The record's units are stopped.
    StopUnits,
    /// The record's register bits get this value.
    Register(u64),
    /// The record's file is kept open with the loop's limit of idle exit latency.
    HeldIdleLimit,
    /// A shield of the loop's CPUs.
    Shield,
}

/// How a recipe's file compares its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeKind {
    Text,
    /// By the marked word.
    Marked,
}

/// Threads of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The loop's thread.
    Loop,
    /// Threads of programs.
    User,
    /// Unbound kernel threads.
    UnboundKernel,
    /// Threads of interrupts.
    IrqThreads,
    /// Threads that serve softirqs, timers and RCU.
    KernelWork,
    /// Threads of virtual CPUs.
    Vcpus,
    /// Other threads of virtual machines.
    Emulator,
}

impl Who {
    /// Returns the group as a plan names it.
    #[must_use]
    pub fn group(self) -> ThreadGroup {
        let named = |names: &[&str]| {
            ThreadGroup::Kernel(names.iter().map(|name| (*name).to_owned()).collect())
        };
        match self {
            Self::Loop => ThreadGroup::Loop,
            Self::User => ThreadGroup::User,
            Self::UnboundKernel => ThreadGroup::UnboundKernel,
            Self::IrqThreads => named(&["irq/*"]),
            Self::KernelWork => named(&["ksoftirqd/*", "ktimers/*", "rcuc/*", "rcub/*"]),
            Self::Vcpus => ThreadGroup::Vcpus,
            Self::Emulator => ThreadGroup::Emulator,
        }
    }
}

/// The recipes by id. A test holds that each id is a record with something to change and without a
/// value to write.
pub const RECIPES: [(&str, Recipe); 28] = [
    ("shield.cpuset_v1", Recipe::Shield),
    ("shield.cpuset_v2", Recipe::Shield),
    ("shield.threads", Recipe::Affinity(Who::User, "{housekeeping}")),
    ("shield.kthreads", Recipe::Affinity(Who::UnboundKernel, "{housekeeping}")),
    ("proc.affinity", Recipe::Affinity(Who::Loop, "{loop}")),
    ("host.vcpu_pin", Recipe::Affinity(Who::Vcpus, "{loop}")),
    ("host.emulator_pin", Recipe::Affinity(Who::Emulator, "{housekeeping}")),
    ("proc.policy", Recipe::Threads(Who::Loop, TaskSetting::Scheduling, "fifo {loop_priority}")),
    ("host.vcpu_prio", Recipe::Threads(Who::Vcpus, TaskSetting::Scheduling, "fifo 1")),
    ("irq.thread_prio", Recipe::Threads(Who::IrqThreads, TaskSetting::Scheduling, "fifo 50")),
    ("kthread.prio", Recipe::Threads(Who::KernelWork, TaskSetting::Scheduling, "fifo 2")),
    ("timer.slack", Recipe::Threads(Who::Loop, TaskSetting::TimerSlack, "1")),
    ("proc.limits", Recipe::Threads(Who::Loop, TaskSetting::PriorityLimit, "95 95")),
    ("proc.rttime", Recipe::Threads(Who::Loop, TaskSetting::RealTimeLimit, "500000")),
    ("io.core_dump", Recipe::Threads(Who::Loop, TaskSetting::CoreLimit, "0")),
    (
        "kern.preempt_mode",
        Recipe::File("/sys/kernel/debug/sched/preempt", "full", RecipeKind::Marked),
    ),
    ("dbg.trace", Recipe::File("/sys/kernel/tracing/current_tracer", "nop", RecipeKind::Text)),
    ("mem.min_free", Recipe::File("/proc/sys/vm/min_free_kbytes", "16384", RecipeKind::Text)),
    ("mem.overcommit", Recipe::File("/proc/sys/vm/overcommit_memory", "0", RecipeKind::Text)),
    ("freq.fixed", Recipe::EqualFiles),
    ("freq.uncore", Recipe::EqualFiles),
    ("irq.irqbalance", Recipe::StopUnits),
    ("svc.stalld", Recipe::StopUnits),
    ("svc.power", Recipe::StopUnits),
    ("svc.noise", Recipe::StopUnits),
    ("svc.text_target", Recipe::StopUnits),
    ("hw.prefetch", Recipe::Register(3)),
    ("idle.dma_latency", Recipe::HeldIdleLimit),
];

/// Returns the recipe of a record.
#[must_use]
pub fn recipe(id: &str) -> Option<Recipe> {
    RECIPES.iter().find(|(known, _)| *known == id).map(|(_, recipe)| *recipe)
}

/// Returns the ids of records that can be applied and undone, in the order of the catalogue.
#[must_use]
pub fn appliable() -> Vec<&'static str> {
    let records = crate::catalogue::catalogue().records.iter();
    let has_value = |record: &&crate::catalogue::TuningRecord| {
        !record.is_check_only()
            && (recipe(&record.id).is_some()
                || record.probe.iter().any(|spec| spec.probe().set().is_some()))
    };
    records.filter(has_value).map(|record| record.id.as_str()).collect()
}
