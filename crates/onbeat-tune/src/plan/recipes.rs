//! Steps of records that name no value to write: attributes of threads, units, registers, values
//! that depend on another file.
//!
//! The records stay data without code, and so do these: each names an id and a kind of step.

use super::target::ThreadGroup;
use crate::catalogue::probes::file::ValueFormat;
use crate::task_setting::TaskSetting;

/// How a record without a value to write is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Policy or another attribute of threads, with the value; variables in braces.
    Threads(ThreadGroup, TaskSetting, &'static str),
    /// CPUs of threads: those that they have now without the loop's, or the loop's.
    Affinity(ThreadGroup, &'static str),
    /// A file, with the value to write and how its text is read.
    File(&'static str, &'static str, ValueFormat),
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

/// Kernel threads: which of them is found by their names, where the record's probe reads them.
const KERNEL: ThreadGroup = ThreadGroup::Kernel(Vec::new());

/// The recipes by id. A test holds that each id is a record with something to change and without a
/// value to write.
pub static RECIPES: [(&str, Recipe); 28] = [
    ("shield.cpuset_v1", Recipe::Shield),
    ("shield.cpuset_v2", Recipe::Shield),
    ("shield.threads", Recipe::Affinity(ThreadGroup::User, "{housekeeping}")),
    ("shield.kthreads", Recipe::Affinity(ThreadGroup::UnboundKernel, "{housekeeping}")),
    ("proc.affinity", Recipe::Affinity(ThreadGroup::Loop, "{loop}")),
    ("host.vcpu_pin", Recipe::Affinity(ThreadGroup::Vcpus, "{loop}")),
    ("host.emulator_pin", Recipe::Affinity(ThreadGroup::Emulator, "{housekeeping}")),
    (
        "proc.policy",
        Recipe::Threads(ThreadGroup::Loop, TaskSetting::Scheduling, "fifo {loop_priority}"),
    ),
    ("host.vcpu_prio", Recipe::Threads(ThreadGroup::Vcpus, TaskSetting::Scheduling, "fifo 1")),
    ("irq.thread_prio", Recipe::Threads(KERNEL, TaskSetting::Scheduling, "fifo 50")),
    ("kthread.prio", Recipe::Threads(KERNEL, TaskSetting::Scheduling, "fifo 2")),
    ("timer.slack", Recipe::Threads(ThreadGroup::Loop, TaskSetting::TimerSlack, "1")),
    ("proc.limits", Recipe::Threads(ThreadGroup::Loop, TaskSetting::PriorityLimit, "95 95")),
    ("proc.rttime", Recipe::Threads(ThreadGroup::Loop, TaskSetting::RealTimeLimit, "500000")),
    ("io.core_dump", Recipe::Threads(ThreadGroup::Loop, TaskSetting::CoreLimit, "0")),
    (
        "kern.preempt_mode",
        Recipe::File("/sys/kernel/debug/sched/preempt", "full", ValueFormat::Bracket),
    ),
    ("dbg.trace", Recipe::File("/sys/kernel/tracing/current_tracer", "nop", ValueFormat::Text)),
    ("mem.min_free", Recipe::File("/proc/sys/vm/min_free_kbytes", "16384", ValueFormat::Text)),
    ("mem.overcommit", Recipe::File("/proc/sys/vm/overcommit_memory", "0", ValueFormat::Text)),
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
pub fn recipe(id: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|(known, _)| *known == id).map(|(_, recipe)| recipe)
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
