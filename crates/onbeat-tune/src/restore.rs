//! Undo of one change: compare, then restore.
//!
//! A setting with its old value needs nothing; one with onbeat's value is restored; any other value
//! was set by another program and is kept, unless [`UndoMode::Force`] is given.

use std::io;

use rustix::io::Errno;

use super::change::{CgroupVersion, ChangeOutcome, Intent, Key, Kind, UndoMode, list, online};
use super::cpu_list::CpuList;
use super::host_files::HostFiles;
use super::rights;
use super::tasks;

/// Number of passes, 2 ms apart, that empty a cgroup before its removal fails. Tasks fork while
/// they are moved, and dead tasks stay in their cgroup until their parent reaps them.
const EMPTYING_PASSES: usize = 2500;

impl Intent {
    /// Restores the old value after a comparison with the current one, within the rights of the
    /// user.
    pub fn undo(&self, host: &dyn HostFiles, mode: UndoMode) -> ChangeOutcome {
        rights::within(host, &self.key, || self.undo_within_rights(host, mode))
            .unwrap_or_else(|error| failed(&error))
    }

    fn undo_within_rights(&self, host: &dyn HostFiles, mode: UndoMode) -> ChangeOutcome {
        match &self.key {
            Key::Session { sid, start_ticks } => match host.kill_session(*sid, *start_ticks) {
                Ok(0) => ChangeOutcome::Gone,
                Ok(_) => ChangeOutcome::Restored,
                Err(error) => failed(&error),
            },
            Key::Born { since_ticks } => self.undo_born(host, *since_ticks),
            Key::Holder { process, .. } => match host.end_process(*process) {
                Ok(()) => ChangeOutcome::Restored,
                Err(error) if tasks::is_gone(&error) => ChangeOutcome::Gone,
                Err(error) => failed(&error),
            },
            _ => self.compare_then_restore(host, mode),
        }
    }

    fn compare_then_restore(&self, host: &dyn HostFiles, mode: UndoMode) -> ChangeOutcome {
        let online = online(host);
        let now = match self.key.current(host) {
            Ok(Some(now)) => now,
            Ok(None) => return ChangeOutcome::Gone,
            Err(error) => return failed(&error),
        };

        if self.same(&now, &self.old, &online) {
            return ChangeOutcome::Already;
        }

        if matches!(self.key, Key::Affinity { follows: true, .. })
            && !list(&now).is_ok_and(|now| online.is_within(&now))
        {
            return ChangeOutcome::Already;
        }

        if mode != UndoMode::Force && !self.is_ours(&now, &online) {
            return ChangeOutcome::Changed { now: now.trim().to_owned() };
        }

        match self.restore(host) {
            Ok(()) => ChangeOutcome::Restored,
            Err(error) if tasks::is_gone(&error) => ChangeOutcome::Gone,
            Err(error) if may_be_about_cpus(&error) => {
                self.restore_to_online(host, &online).unwrap_or_else(|| failed(&error))
            }
            Err(error) => failed(&error),
        }
    }

    /// Restores the online CPUs of the old value, or all online CPUs when none of them is, as the
    /// kernel does. `None` when the old value names no offline CPU, or the kernel refuses this
    /// value too.
    fn restore_to_online(&self, host: &dyn HostFiles, online: &CpuList) -> Option<ChangeOutcome> {
        let old = self.cpus(&self.old)?;
        let left = old.and(online);
        let offline = old.minus(online);
        if offline.is_empty() || online.is_empty() {
            return None;
        }

        let left = if left.is_empty() { online.clone() } else { left };
        let is_mask = matches!(self.key, Key::File { kind: Kind::Mask, .. });
        let given = if is_mask { left.to_mask() } else { left.to_string() };
        match self.key.set(host, &given) {
            Ok(()) => Some(ChangeOutcome::Narrowed { given, offline }),
            Err(error) if tasks::is_gone(&error) => Some(ChangeOutcome::Gone),
            Err(_) => None,
        }
    }

    /// Writes the old value, without comparing.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn restore(&self, host: &dyn HostFiles) -> io::Result<()> {
        match &self.key {
            Key::CgroupDir { path, home, version } => remove_cgroup(host, path, home, *version),
            Key::Irq { effective, .. } => {
                // An interrupt stays on its CPU while its mask allows that, so it is sent back
                // before the mask widens. EINVAL: that CPU is offline now.
                if !effective.trim().is_empty()
                    && let Err(error) = self.key.set(host, effective)
                    && Errno::from_io_error(&error) != Some(Errno::INVAL)
                {
                    return Err(error);
                }
                self.key.set(host, &self.old)
            }
            Key::CgroupTask { hierarchy, .. } => self.send_back(host, &hierarchy.mount),
            key => key.set(host, &self.old),
        }
    }

    /// Moves a task back to its cgroup, or to the nearest ancestor with a CPU: a cpuset whose last
    /// CPU went offline accepts no tasks, and the kernel has moved its tasks to that ancestor.
    fn send_back(&self, host: &dyn HostFiles, mount: &str) -> io::Result<()> {
        let mut home = self.old.as_str();
        loop {
            match (self.key.set(host, home), home.rsplit_once('/')) {
                (Err(error), Some((above, _)))
                    if Errno::from_io_error(&error) == Some(Errno::NOSPC)
                        && above.starts_with(mount) =>
                {
                    home = above;
                }
                (answer, _) => return answer,
            }
        }
    }

    fn undo_born(&self, host: &dyn HostFiles, since_ticks: u64) -> ChangeOutcome {
        let online = online(host);
        let (Ok(all), Ok(old)) = (tasks::all(host), CpuList::parse_list(&self.old)) else {
            return ChangeOutcome::Failed { reason: "the tasks cannot be listed".to_owned() };
        };
        let mut restored = false;
        for task in
            all.values().filter(|task| task.id.start_ticks >= since_ticks && !task.is_kernel())
        {
            let inherited = tasks::affinity(host, task.id.tid)
                .is_ok_and(|cpus| self.same(&cpus.to_string(), &self.new, &online));
            if inherited {
                match host.set_affinity(task.id.tid, &old) {
                    Ok(()) => restored = true,
                    Err(error) if tasks::is_gone(&error) => {}
                    Err(error) => return failed(&error),
                }
            }
        }

        if restored { ChangeOutcome::Restored } else { ChangeOutcome::Already }
    }
}

/// Moves the tasks of a cgroup to `home` until no new ones appear, then removes it.
fn remove_cgroup(
    host: &dyn HostFiles,
    path: &str,
    home: &str,
    version: CgroupVersion,
) -> io::Result<()> {
    let home = if host.directories(home).is_ok() {
        home
    } else {
        path.rsplit_once('/').map_or(home, |(up, _)| up)
    };
    let members = version.members();
    let cpus =
        host.read(&format!("{path}/cpuset.cpus")).and_then(|text| list(&text)).unwrap_or_default();
    let mut last = Errno::BUSY.into();
    for _ in 0..EMPTYING_PASSES {
        let inside = match host.read(&format!("{path}/{members}")) {
            Ok(inside) => inside,
            Err(error) if tasks::is_gone(&error) => return Ok(()),
            Err(error) => return Err(error),
        };

        for tid in inside.lines().filter_map(|line| line.trim().parse::<i32>().ok()) {
            if let Err(error) = send_home(host, tid, &format!("{home}/{members}"), &cpus)
                && !tasks::is_gone(&error)
            {
                last = error;
            }
        }

        match host.remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if tasks::is_gone(&error) => return Ok(()),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => host.pause(),
            Err(error) => return Err(error),
        }
    }

    Err(last)
}

/// Moves a task and keeps its affinity, which kernels before 6.2 forget when a task changes
/// cpusets.
fn send_home(
    host: &dyn HostFiles,
    tid: i32,
    members: &str,
    group_cpus: &CpuList,
) -> io::Result<()> {
    let before = tasks::affinity(host, tid);
    host.write(members, &tid.to_string())?;
    match before {
        Ok(pin) if !group_cpus.is_empty() && pin != *group_cpus && pin.is_within(group_cpus) => {
            let now = tasks::affinity(host, tid)?;
            // Since 6.2 the kernel restores the wider pin by itself, which must not be narrowed
            // again.
            let forgotten = online(host).is_within(&now);
            if forgotten { host.set_affinity(tid, &pin) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// Whether the kernel may have refused a value because of the CPUs in it. After any other refusal
/// the whole old value is still what has to be restored, offline CPUs included.
fn may_be_about_cpus(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::ACCESS | Errno::NOSPC | Errno::NODEV | Errno::NXIO)
    )
}

fn failed(error: &io::Error) -> ChangeOutcome {
    ChangeOutcome::Failed { reason: error.to_string() }
}
