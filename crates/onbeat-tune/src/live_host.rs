//! The machine that this process runs on.

use std::fs;
use std::io::{self, Write};

use onbeat_host::policy::Scheduling;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, CpuSet};

use super::cpu_list::CpuList;
use super::host_files::HostFiles;
use super::interfaces::MadeInterface;
use super::live_extras;
use super::task_id::TaskId;
use super::task_setting::TaskSetting;

/// The machine this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveHost;

impl LiveHost {
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl HostFiles for LiveHost {
    fn read(&self, path: &str) -> io::Result<String> {
        // A task's name need not be UTF-8.
        fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        let written = file.write(text.as_bytes())?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // The type of an entry is unknown when its task ends while it is listed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }

        Ok(names)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn set_affinity(&self, tid: i32, cpus: &CpuList) -> io::Result<()> {
        let mut set = CpuSet::new();
        for cpu in cpus.iter().filter(|cpu| (*cpu as usize) < CpuSet::MAX_CPU) {
            set.set(cpu as usize);
        }

        let task = rustix::process::Pid::from_raw(tid).ok_or(Errno::SRCH)?;
        // For callers without a journal; see `rights`.
        if self.is_foreign(tid) {
            return Err(Errno::PERM.into());
        }

        Ok(rustix::thread::sched_setaffinity(Some(task), &set)?)
    }

    fn kill_session(&self, sid: i32, start_ticks: u64) -> io::Result<usize> {
        onbeat_host::process::kill_session(sid, start_ticks)
    }

    fn scheduling(&self, tid: i32) -> io::Result<String> {
        Ok(Scheduling::of_thread(tid)?.to_string())
    }

    fn set_scheduling(&self, tid: i32, text: &str) -> io::Result<()> {
        let policy: Scheduling =
            text.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        if self.is_foreign(tid) {
            return Err(Errno::PERM.into());
        }
        policy.set(tid)
    }

    fn set_limit(&self, pid: i32, limit: TaskSetting, value: &str) -> io::Result<()> {
        live_extras::set_limit(self, pid, (limit, value))
    }

    fn unit_state(&self, unit: &str) -> io::Result<String> {
        live_extras::unit_state(unit)
    }

    fn set_unit_state(&self, unit: &str, state: &str) -> io::Result<()> {
        live_extras::set_unit_state(unit, state)
    }

    fn hold_open(
        &self,
        path: &str,
        text: &str,
        record: &mut dyn FnMut(TaskId) -> io::Result<()>,
    ) -> io::Result<()> {
        live_extras::hold_open(self, (path, text), record)
    }

    fn end_process(&self, process: TaskId) -> io::Result<()> {
        live_extras::end_process(self, process)
    }

    fn read_register(&self, cpu: u32, register: u32) -> io::Result<u64> {
        live_extras::read_register(cpu, register)
    }

    fn write_register(&self, cpu: u32, register: u32, value: u64) -> io::Result<()> {
        live_extras::write_register(cpu, register, value)
    }

    fn has_interface(&self, interface: &MadeInterface) -> io::Result<bool> {
        interface.exists()
    }

    fn remove_interface(&self, interface: &MadeInterface) -> io::Result<()> {
        interface.remove()
    }

    fn is_foreign(&self, tid: i32) -> bool {
        onbeat_host::user::foreign(tid).is_some()
    }

    fn without_capabilities(&self, act: &mut dyn FnMut()) -> io::Result<()> {
        if rustix::process::getuid().is_root() {
            act();
            return Ok(());
        }

        let before = rustix::thread::capabilities(None)?;
        let none = CapabilitySets { effective: CapabilitySet::empty(), ..before };
        rustix::thread::set_capabilities(None, none)?;
        act();
        Ok(rustix::thread::set_capabilities(None, before)?)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn may_write(&self, path: &str) -> bool {
        rustix::fs::access(path, Access::WRITE_OK).is_ok()
    }

    fn may_move_tasks(&self) -> (bool, bool) {
        let nice = CapabilitySet::SYS_NICE;
        let now =
            rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(nice));
        let ever = rustix::thread::capability_is_in_bounding_set(nice).unwrap_or(true);
        (now, ever)
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn own_pid(&self) -> i32 {
        std::process::id().cast_signed()
    }

    fn unix_seconds(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }

    fn pause(&self) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn tasks_that_end_while_they_are_listed_cause_no_error() {
        let host = LiveHost::new();
        let is_over = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    thread::scope(|brief| (0..16).for_each(|_| drop(brief.spawn(|| ()))));
                }
            });

            let failed = (0..100_000).find_map(|_| host.directories("/proc/self/task").err());
            is_over.store(true, Ordering::Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }
}
