//! CPUs reserved for the loop: the tuning C of the bench.
//!
//! [`Shield::prepare`] builds what is needed without any effect on where things run;
//! [`Shield::raise`] and [`Shield::lower`] then switch it any number of times, in less than 0.1 s
//! each; [`Shield::dismantle`] undoes everything. The shield moves away user tasks, kernel threads
//! that are not bound to the CPUs, movable interrupts, the kernel's unbound work, and tasks that
//! start while it is up.
//!
//! Figures behind it: keeping load off the loop's CPU lowered the 99th percentile of its wake-up
//! latency from 170 to 73 µs on a two-CPU guest; Yoon et al., 2009, section 3.1, say why.
//!
//! Absent on purpose: choosing the CPUs, priorities, and undoing anything because a process ended.

mod report;

pub use super::context::{Free, Scope};
pub use super::owned::{refuse_existing, refuse_second};
pub use super::shield_v2::CpusetPartition;
pub use report::{Mechanism, Report, UnmovedTask};

use rustix::io::Errno;

use super::affinity::{Affinities, PinOutcome};
use super::catalogue::survey::CgroupMount;
use super::change::{CgroupVersion, Hierarchy, UndoMode};
use super::context::{CpuSplit, SWEEPS, ShieldBase, ShieldContext, TaskRole, TaskRoles, all_tasks};
use super::cpu_list::CpuList;
use super::error::TuneError;
use super::host_files::HostFiles;
use super::irq::MovedInterrupts;
use super::journal::{Journal, Undone};
use super::owned::{self, ShieldLock};
use super::shield_v1::ShieldV1;
use super::shield_v2::ShieldV2;
use super::tasks::{self, TaskId};

/// The CPUs to shield, and for which tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShieldRequest {
    /// The CPUs to shield.
    pub rt: CpuList,
    /// The tasks that may use them.
    pub free: Vec<Free>,
    /// Which user tasks the shield may move.
    pub scope: Scope,
}

#[derive(Debug)]
enum Placement {
    V1(ShieldV1),
    V2(ShieldV2),
    AffinityOnly { note: Option<String> },
}

/// A prepared shield, up or down. Dropping it undoes nothing: its journal still records all
/// changes.
///
/// ```no_run
/// use std::path::Path;
/// use onbeat_tune::{Free, Journal, LiveHost, Purpose, Shield};
///
/// let host = LiveHost::new();
/// let purpose = Purpose::new("my loop", "my-robot --cpu 3");
/// let mut journal = Journal::begin(Path::new("/var/lib/onbeat/journal"), &host, &purpose)?;
/// let this_thread = rustix::thread::gettid().as_raw_nonzero().get();
/// let free = [Free::Thread(this_thread)];
/// let mut shield = Shield::prepare(&host, &mut journal, &"3".parse()?, &free)?;
///
/// println!("{} threads pinned elsewhere", shield.raise(&host, &mut journal)?.tasks_held);
/// // The loop runs on CPU 3 here.
/// shield.dismantle(&host, &mut journal)?;
/// journal.close()?;
/// # Ok::<(), onbeat_tune::TuneError>(())
/// ```
#[derive(Debug)]
pub struct Shield {
    base: ShieldBase,
    placement: Placement,
    affinities: Affinities,
    interrupts: MovedInterrupts,
    is_up: bool,
    _lock: Option<ShieldLock>,
}

impl Shield {
    /// Prepares a shield of the whole machine. Nothing moves to other CPUs yet.
    ///
    /// # Errors
    /// As [`Shield::prepare_as`].
    pub fn prepare(
        host: &dyn HostFiles,
        journal: &mut Journal,
        rt: &CpuList,
        free: &[Free],
    ) -> Result<Self, TuneError> {
        Self::prepare_as(
            host,
            journal,
            &ShieldRequest { rt: rt.clone(), free: free.to_vec(), scope: Scope::Machine },
        )
    }

    /// Prepares a shield. Nothing moves to other CPUs yet. On an error, its changes are undone.
    ///
    /// # Errors
    /// When the CPUs cannot be divided ([`TuneError::NoHousekeeping`], [`TuneError::NotOnline`],
    /// [`TuneError::NoRtCpu`]), the user is not root, a task in `free` has ended, or the host
    /// refuses a change.
    pub fn prepare_as(
        host: &dyn HostFiles,
        journal: &mut Journal,
        request: &ShieldRequest,
    ) -> Result<Self, TuneError> {
        let hierarchy = cpuset_hierarchy(host);
        let cpus = CpuSplit::divide(host, &request.rt, hierarchy.as_ref())?;
        if !host.is_root() {
            return Err(TuneError::NeedsRoot {
                rt: cpus.rt,
                command: journal.command().to_owned(),
            });
        }

        admit(host, &cpus, hierarchy.as_ref())?;
        let selection = TaskRoles::new(host, &request.free, request.scope)?;
        let lock = owned::lock(host, journal.command())?;
        let mut shield = Self {
            base: ShieldBase { cpus, selection, steps: Vec::new() },
            placement: Placement::AffinityOnly { note: None },
            affinities: Affinities::default(),
            interrupts: MovedInterrupts::default(),
            is_up: false,
            _lock: lock,
        };

        match shield.place(host, journal, hierarchy.as_ref()) {
            Ok(()) => Ok(shield),
            Err(error) => {
                journal.undo(host, &shield.base.steps, UndoMode::Careful)?;
                if !is_closed_to_us(&error) {
                    return Err(error);
                }

                let note = Some(format!("cpusets cannot be used here: {error}"));
                shield.placement = Placement::AffinityOnly { note };
                shield.affinities = Affinities::default();
                Ok(shield)
            }
        }
    }

    fn place(
        &mut self,
        host: &dyn HostFiles,
        journal: &mut Journal,
        hierarchy: Option<&Hierarchy>,
    ) -> Result<(), TuneError> {
        let mut context = self.base.context(host, journal);
        match hierarchy {
            Some(v1) if v1.version == CgroupVersion::V1 => {
                self.placement =
                    Placement::V1(ShieldV1::prepare(&mut context, &mut self.affinities, v1)?);
            }
            // A v2 group is narrowed with all its tasks, so a scope smaller than the machine cannot
            // use it.
            Some(v2) if context.selection.covers_machine() => {
                self.placement =
                    Placement::V2(ShieldV2::prepare(&mut context, &mut self.affinities, v2)?);
            }
            _ => {}
        }

        Ok(())
    }

    /// Moves everything off the CPUs, and reports what could not be moved. Raising again covers
    /// tasks started since.
    ///
    /// # Errors
    /// When the journal or the host refuses a change; then the shield is lowered again as far as
    /// possible.
    pub fn raise(
        &mut self,
        host: &dyn HostFiles,
        journal: &mut Journal,
    ) -> Result<Report, TuneError> {
        match self.try_raise(host, journal) {
            Ok(report) => Ok(report),
            Err(error) => {
                // The first error names the cause; settings that cannot be lowered stay on record.
                let _ = self.lower(host, journal);
                Err(error)
            }
        }
    }

    fn try_raise(
        &mut self,
        host: &dyn HostFiles,
        journal: &mut Journal,
    ) -> Result<Report, TuneError> {
        let was_up = std::mem::replace(&mut self.is_up, true);
        let mut context = self.base.context(host, journal);
        self.affinities.forget_changed(host, context.cpus);
        match &mut self.placement {
            Placement::V1(v1) => v1.raise(&mut context, &mut self.affinities)?,
            Placement::V2(v2) => {
                let ordinary = if was_up { &context.cpus.hk } else { &context.cpus.online };
                v2.raise(&mut context, &mut self.affinities, ordinary)?;
            }
            Placement::AffinityOnly { .. } => {}
        }

        let refused = keep_off(&mut context, &mut self.affinities)?;
        let irqs_moved = self.interrupts.raise(&mut context)?;
        self.report(host, &refused, irqs_moved)
    }

    /// Opens the CPUs to all tasks again. The shield can be raised again.
    ///
    /// # Errors
    /// When the host refuses a change; it stays on record.
    pub fn lower(&mut self, host: &dyn HostFiles, journal: &mut Journal) -> Result<(), TuneError> {
        let mut context = self.base.context(host, journal);
        let interrupts = self.interrupts.lower(&context);
        let placement = match &mut self.placement {
            Placement::V1(v1) => v1.lower(&mut context, &mut self.affinities),
            Placement::V2(v2) => v2.lower(&mut context, &mut self.affinities),
            Placement::AffinityOnly { .. } => Ok(()),
        };

        self.affinities.widen(host, context.cpus);
        self.is_up = false;
        interrupts.and(placement)
    }

    /// Lets another task use the shielded CPUs: a loop's thread that was started after the shield
    /// was prepared. Call it before that thread is pinned.
    ///
    /// # Errors
    /// [`TuneError::NoSuchTask`] when it is gone, else when the journal or the host refuses.
    pub fn admit(
        &mut self,
        host: &dyn HostFiles,
        journal: &mut Journal,
        free: Free,
    ) -> Result<(), TuneError> {
        self.base.selection.admit(host, free)?;
        let tasks = match free {
            Free::Process(pid) => tasks::threads(host, pid),
            Free::Thread(tid) => tasks::task(host, tid).into_iter().collect(),
        };

        let mut context = self.base.context(host, journal);
        for task in tasks {
            match &mut self.placement {
                Placement::V1(v1) => v1.admit(&mut context, &task)?,
                Placement::V2(v2) => v2.admit(&mut context, &task)?,
                Placement::AffinityOnly { .. } => {}
            }
            self.affinities.set_free(&mut context, &task)?;
        }

        if self.is_up {
            // The other threads of its process, which moved with it, must be kept off.
            keep_off(&mut context, &mut self.affinities)?;
        }

        Ok(())
    }

    /// Lowers the shield and undoes all its changes. Returns the outcome of each.
    ///
    /// # Errors
    /// [`TuneError::Journal`] when the result could not be recorded. A setting that could not be
    /// restored is in the result and stays on record.
    pub fn dismantle(
        mut self,
        host: &dyn HostFiles,
        journal: &mut Journal,
    ) -> Result<Vec<Undone>, TuneError> {
        // Undo alone would suffice for recorded settings; lowering also restores affinities that
        // were inherited.
        let _ = self.lower(host, journal);
        journal.undo(host, &self.base.steps, UndoMode::Careful)
    }

    /// How tasks are kept off.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        match self.placement {
            Placement::V1(_) => Mechanism::CpusetV1,
            Placement::V2(_) => Mechanism::CpusetV2,
            Placement::AffinityOnly { .. } => Mechanism::AffinityOnly,
        }
    }
}

/// Refuses, before anything is touched, where neither a cpuset nor a task can be changed.
fn admit(
    host: &dyn HostFiles,
    cpus: &CpuSplit,
    hierarchy: Option<&Hierarchy>,
) -> Result<(), TuneError> {
    let closed = match hierarchy {
        Some(open) if host.may_write(&open.mount) => return Ok(()),
        Some(closed) => format!("{} cannot be written", closed.mount),
        None => "there is no cpuset".to_owned(),
    };
    match host.may_move_tasks() {
        (true, _) => Ok(()),
        (false, is_in_bounding_set) => {
            Err(TuneError::ShieldNotPermitted { rt: cpus.rt.clone(), closed, is_in_bounding_set })
        }
    }
}

/// The cpuset hierarchy of this host: v1 where it is mounted, else v2 where its root offers the
/// controller.
#[must_use]
pub fn cpuset_hierarchy(host: &dyn HostFiles) -> Option<Hierarchy> {
    let mounts = CgroupMount::parse_all(&host.read("/proc/self/mountinfo").ok()?);
    let has_cpuset = |mount: &CgroupMount| {
        let read = |file: &str| host.read(&format!("{}/{file}", mount.path));
        if mount.version == 2 {
            let controllers = read("cgroup.controllers").unwrap_or_default();
            return controllers.split_whitespace().any(|name| name == "cpuset");
        }
        mount.controllers.iter().any(|name| name == "cpuset") && read("cpuset.cpus").is_ok()
    };
    let found = |number, version| {
        let mount = mounts.iter().find(|mount| mount.version == number && has_cpuset(mount))?;
        Some(Hierarchy { mount: mount.path.clone(), root: mount.root.clone(), version })
    };
    found(1, CgroupVersion::V1).or_else(|| found(2, CgroupVersion::V2))
}

/// Pins tasks that no cpuset keeps off, until a pass finds no more. Returns those that refused,
/// with the reason.
fn keep_off(
    context: &mut ShieldContext<'_>,
    affinities: &mut Affinities,
) -> Result<Vec<(TaskId, String)>, TuneError> {
    let mut refused: Vec<(TaskId, String)> = Vec::new();
    take_refused(&mut refused, affinities.narrow(context.host, context.cpus));
    for _ in 0..SWEEPS {
        let mut new = left_on_rt(context)?;
        new.retain(|(task, _)| !affinities.holds(task.id));
        if new.is_empty() {
            break;
        }

        affinities.note(context, &new, true)?;
        take_refused(&mut refused, affinities.narrow(context.host, context.cpus));
    }

    Ok(refused)
}

fn left_on_rt(context: &ShieldContext<'_>) -> Result<Vec<(tasks::Task, CpuList)>, TuneError> {
    let all = all_tasks(context.host)?;
    let kept_off =
        all.values().filter(|task| context.selection.role(&all, task) == TaskRole::KeptOff);
    let with_list = kept_off
        .filter_map(|task| Some((task.clone(), tasks::affinity(context.host, task.id.tid).ok()?)));
    Ok(with_list.filter(|(_, list)| list.meets(&context.cpus.rt)).collect())
}

fn take_refused(refused: &mut Vec<(TaskId, String)>, kept: Vec<(TaskId, PinOutcome)>) {
    for (task, kept) in kept {
        if let PinOutcome::Refused(reason) = kept {
            refused.retain(|(known, _)| *known != task);
            refused.push((task, reason));
        }
    }
}

/// Whether the error means that this cgroup tree cannot be changed, as in containers: `EBUSY` where
/// the mounted root has tasks of its own, `EOPNOTSUPP` where it is threaded.
fn is_closed_to_us(error: &TuneError) -> bool {
    let TuneError::Write { source, .. } = error else { return false };
    matches!(
        Errno::from_io_error(source),
        Some(Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::BUSY | Errno::OPNOTSUPP)
    )
}
