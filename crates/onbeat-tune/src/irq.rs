//! Interrupts moved off shielded CPUs, and back to the CPU they came from.
//!
//! The kernel refuses to move interrupts that it manages itself (queues of many disks and network
//! cards) with EPERM or, before Linux 6, EIO. They cannot be recognised beforehand, so each is
//! tried once and reported with its count.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::catalogue::probes::irq::is_bound;
use super::change::{Intent, Key, Kind};
use super::context::{CpuSplit, ShieldContext, ToggledSettings};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::evidence::tables::rows;
use super::host_files::HostFiles;
use super::irq_handlers::actions;
use super::tasks;

const DEFAULT: &str = "/proc/irq/default_smp_affinity";
const UNBOUND_WORK: &str = "/sys/devices/virtual/workqueue/cpumask";
const UNBOUND_WORK_REQUESTED: &str = "/sys/devices/virtual/workqueue/cpumask_requested";

/// An interrupt that stays on shielded CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedIrq {
    pub number: u32,
    /// Its handlers.
    pub actions: Vec<String>,
    /// Why it stays.
    pub reason: String,
    /// Number of interrupts since boot, on all CPUs.
    pub count: u64,
    /// Number on the shielded CPUs.
    pub count_on_rt: u64,
}

/// The interrupts of the machine and the kernel's unbound work, moved off the shielded CPUs and
/// back.
#[derive(Debug, Default)]
pub(super) struct MovedInterrupts {
    switches: ToggledSettings,
    refused: BTreeMap<u32, (Vec<String>, String)>,
    /// Masks that could not be written, with the reason.
    pub(super) refused_masks: BTreeMap<String, String>,
}

impl MovedInterrupts {
    /// Moves interrupts and unbound work off the shielded CPUs. Returns the number of moved
    /// interrupts.
    pub(super) fn raise(&mut self, context: &mut ShieldContext<'_>) -> Result<usize, TuneError> {
        let wanted = self.wanted(context.host, context.cpus)?;
        self.switches.record(context, &wanted)?;
        let mut moved = 0;
        for intent in wanted {
            match (self.switches.throw(context.host, &intent), &intent.key) {
                (Ok(()), Key::Irq { .. }) => moved += 1,
                (Ok(()), _) => {}
                (Err(error), _) if tasks::is_gone(&error) => {}
                (Err(error), Key::Irq { number, actions, .. }) => {
                    self.refused.insert(*number, (actions.clone(), why(&error)));
                }
                (Err(error), key) => {
                    self.refused_masks.insert(key.name(), error.to_string());
                }
            }
        }

        Ok(moved)
    }

    /// Restores what still has the value set by [`MovedInterrupts::raise`].
    pub(super) fn lower(&mut self, context: &ShieldContext<'_>) -> Result<(), TuneError> {
        self.switches.back(context)
    }

    /// The interrupts that stay on shielded CPUs, most frequent first.
    pub(super) fn refused(&self, host: &dyn HostFiles, cpus: &CpuSplit) -> Vec<RefusedIrq> {
        let table = rows(&host.read("/proc/interrupts").unwrap_or_default());
        let refused = self.refused.iter().map(|(number, (actions, reason))| {
            let row = table.iter().find(|row| row.name == number.to_string());
            let counts = row.map(|row| row.counts.as_slice()).unwrap_or_default();
            let on_rt = counts.iter().filter(|(cpu, _)| cpus.rt.contains(*cpu));
            RefusedIrq {
                number: *number,
                actions: actions.clone(),
                reason: reason.clone(),
                count: counts.iter().map(|(_, count)| count).sum(),
                count_on_rt: on_rt.map(|(_, count)| count).sum(),
            }
        });
        let mut refused: Vec<RefusedIrq> = refused.collect();
        refused.sort_by_key(|irq| (std::cmp::Reverse((irq.count_on_rt, irq.count)), irq.number));

        refused
    }

    fn wanted(&self, host: &dyn HostFiles, cpus: &CpuSplit) -> Result<Vec<Intent>, TuneError> {
        let numbers = tasks::numbers(host, "/proc/irq")
            .map_err(|source| TuneError::Read { path: "/proc/irq".to_owned(), source })?;
        let numbers = numbers.into_iter().filter_map(|number| u32::try_from(number).ok());
        let mut wanted: Vec<Intent> =
            numbers.filter_map(|number| self.interrupt(host, cpus, number)).collect();
        wanted.extend(mask(host, cpus, ("irq.default", DEFAULT, None)));
        // The requested mask is restored; the effective one may be narrower.
        let shown = host.read(UNBOUND_WORK_REQUESTED).is_ok().then_some(UNBOUND_WORK_REQUESTED);
        wanted.extend(mask(host, cpus, ("wq.unbound", UNBOUND_WORK, shown)));

        Ok(wanted)
    }

    fn interrupt(&self, host: &dyn HostFiles, cpus: &CpuSplit, number: u32) -> Option<Intent> {
        let read = |file: &str| {
            host.read(&format!("/proc/irq/{number}/{file}")).map(|text| text.trim().to_owned())
        };
        let old = read("smp_affinity_list").ok()?;
        let now = CpuList::parse_list(&old).ok()?;
        let actions = actions(host, number);
        let refused = self.refused.get(&number).is_some_and(|(known, _)| *known == actions);
        let stays = refused || actions.iter().any(|handler| is_bound(handler));
        if actions.is_empty() || stays || !now.meets(&cpus.rt) {
            return None;
        }

        let effective = read("effective_affinity_list").unwrap_or_default();
        let new = CpuList::kept_off(&now, &cpus.rt, &cpus.hk).to_string();
        let key = Key::Irq { number, actions, effective: effective.clone() };
        // A restore first sends it to the CPU it came from: after an interruption there, the value
        // is still ours.
        Some(
            Intent::new("irq.affinity", key, old, new)
                .also((!effective.is_empty()).then_some(effective)),
        )
    }
}

fn mask(
    host: &dyn HostFiles,
    cpus: &CpuSplit,
    (id, path, shown_in): (&str, &str, Option<&str>),
) -> Option<Intent> {
    let old = host.read(shown_in.unwrap_or(path)).ok()?;
    let now = CpuList::parse_mask(&old).ok()?;
    if !now.meets(&cpus.rt) {
        return None;
    }

    let key = Key::File {
        path: path.to_owned(),
        kind: Kind::Mask,
        shown_in: shown_in.map(str::to_owned),
    };
    Some(Intent::new(id, key, old.trim(), CpuList::kept_off(&now, &cpus.rt, &cpus.hk).to_mask()))
}

fn why(error: &std::io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::IO) => "kernel-managed".to_owned(),
        Some(Errno::NOSPC) => "no interrupt vector is free on the other CPUs".to_owned(),
        _ => error.to_string(),
    }
}
