//! What a raised shield keeps off the CPUs, and what it cannot, with reasons.

use std::collections::BTreeSet;
use std::fmt;

use super::{CpusetPartition, Placement, Shield};
use crate::context::{TaskRole, all_tasks};
use crate::cpu_list::CpuList;
use crate::error::TuneError;
use crate::host_files::HostFiles;
use crate::irq::RefusedIrq;
use crate::tasks::{self, TaskId};

/// How tasks are kept off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A cpuset of the unified hierarchy, as a partition where the kernel accepts one.
    CpusetV2,
    /// A cpuset of a hierarchy of its own.
    CpusetV1,
    /// The affinity mask of every task, set again for new tasks at each raise.
    AffinityOnly,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::CpusetV2 => "cgroup v2 cpuset",
            Self::CpusetV1 => "cgroup v1 cpuset",
            Self::AffinityOnly => "affinity only",
        })
    }
}

/// A task that may still use a shielded CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmovedTask {
    /// Its identity.
    pub task: TaskId,
    /// Its name.
    pub comm: String,
    /// The CPUs it may use.
    pub cpus: CpuList,
    /// Why it could not be kept off.
    pub reason: String,
}

/// What a raised shield keeps off the CPUs, and what it cannot, with reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The shielded CPUs.
    pub rt: CpuList,
    /// The CPUs for everything else.
    pub hk: CpuList,
    /// How tasks are kept off.
    pub mechanism: Mechanism,
    /// The partition of the shielded CPUs.
    pub partition: CpusetPartition,
    /// Tasks moved to another cgroup, since the shield was prepared.
    pub tasks_moved: usize,
    /// Tasks pinned by their affinity mask now.
    pub tasks_held: usize,
    /// Names of kernel threads that may use shielded CPUs and cannot be moved.
    pub bound: Vec<String>,
    /// User tasks outside the scope that may use shielded CPUs.
    pub outside: usize,
    /// Tasks that should have been kept off and could not be; normally empty.
    pub left: Vec<UnmovedTask>,
    /// Number of interrupts moved.
    pub irqs_moved: usize,
    /// Interrupts that stay.
    pub irqs_refused: Vec<RefusedIrq>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl Shield {
    pub(super) fn report(
        &self,
        host: &dyn HostFiles,
        refused: &[(TaskId, String)],
        irqs_moved: usize,
    ) -> Result<Report, TuneError> {
        let mut report = Report {
            rt: self.base.cpus.rt.clone(),
            hk: self.base.cpus.hk.clone(),
            mechanism: self.mechanism(),
            partition: CpusetPartition::Unused,
            tasks_moved: 0,
            tasks_held: self.affinities.len(),
            bound: Vec::new(),
            outside: 0,
            left: Vec::new(),
            irqs_moved,
            irqs_refused: self.interrupts.refused(host, &self.base.cpus),
            notes: Vec::new(),
        };

        match &self.placement {
            Placement::V1(v1) => {
                report.tasks_moved = v1.moved;
                report.notes.extend(v1.notes.iter().cloned());
            }
            Placement::V2(v2) => {
                report.tasks_moved = v2.moved;
                report.partition.clone_from(&v2.partition_result);
                report.notes.extend(v2.notes.iter().cloned());
            }
            Placement::AffinityOnly { note } => report.notes.extend(note.clone()),
        }

        let masks = self.interrupts.refused_masks.iter();
        report.notes.extend(masks.map(|(path, why)| format!("{path} could not be written: {why}")));
        self.add_unmoved_tasks(host, refused, &mut report)?;
        Ok(report)
    }

    fn add_unmoved_tasks(
        &self,
        host: &dyn HostFiles,
        refused: &[(TaskId, String)],
        report: &mut Report,
    ) -> Result<(), TuneError> {
        let all = all_tasks(host)?;
        for task in all.values() {
            if task.comm == "irqbalance" {
                report.notes.push(
                    "irqbalance is running and may move interrupts back: stop it during the measurement".to_owned(),
                );
            }

            let role = self.base.selection.role(&all, task);
            let Ok(cpus) = tasks::affinity(host, task.id.tid) else { continue };
            if role == TaskRole::Loop || !cpus.meets(&self.base.cpus.rt) {
                continue;
            }

            match role {
                TaskRole::Bound => report.bound.push(task.comm.clone()),
                TaskRole::Outside => report.outside += 1,
                TaskRole::KeptOff | TaskRole::Loop => {
                    let reason = refused
                        .iter()
                        .find(|(id, _)| *id == task.id)
                        .map(|(_, reason)| reason.clone());
                    let reason = reason.unwrap_or_else(|| {
                        "it started or set its affinity during the raise".to_owned()
                    });
                    report.left.push(UnmovedTask {
                        task: task.id,
                        comm: task.comm.clone(),
                        cpus,
                        reason,
                    });
                }
            }
        }

        Ok(())
    }
}

impl Report {
    /// The report as sentences for the user.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![format!(
            "CPU {} is shielded by {}{}: {} tasks moved, {} pinned by their affinity mask, {} interrupts moved to CPU {}",
            self.rt,
            self.mechanism,
            match &self.partition {
                CpusetPartition::Unused => String::new(),
                partition => format!(" ({partition})"),
            },
            self.tasks_moved,
            self.tasks_held,
            self.irqs_moved,
            self.hk,
        )];
        if !self.bound.is_empty() {
            sentences.push(format!(
                "{} kernel threads not moved (bound to their CPU): {}",
                self.bound.len(),
                kinds(&self.bound)
            ));
        }

        for irq in &self.irqs_refused {
            sentences.push(format!(
                "IRQ {} ({}) not moved ({}); {} since boot, {} of them on CPU {}",
                irq.number,
                irq.actions.join(", "),
                irq.reason,
                irq.count,
                irq.count_on_rt,
                self.rt,
            ));
        }

        for left in &self.left {
            sentences.push(format!(
                "task {} ({}) may still use CPU {}: {}",
                left.task.tid, left.comm, left.cpus, left.reason
            ));
        }

        if self.outside > 0 {
            sentences.push(format!(
                "{} tasks outside the scope may still use CPU {}",
                self.outside, self.rt
            ));
        }

        sentences.extend(self.notes.iter().cloned());
        sentences
    }
}

/// Kinds of threads that a sentence names.
const KINDS_NAMED: usize = 4;

/// The kinds of kernel threads, without their CPUs: `cpuhp, kworker, migration, rcuc and 2 more`.
fn kinds(names: &[String]) -> String {
    let kinds: BTreeSet<&str> =
        names.iter().map(|name| name.split('/').next().unwrap_or(name)).collect();
    let named: Vec<&str> = kinds.iter().copied().take(KINDS_NAMED).collect();
    match kinds.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
