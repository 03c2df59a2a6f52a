//! What [`crate::LiveHost`] does besides files: limits, units of systemd, held descriptors,
//! registers.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};
use rustix::thread::CapabilitySet;

use super::host_files::HostFiles;
use super::task_setting::TaskSetting;
use super::tasks::{self, TaskId};

/// Sets soft and hard limit of a process, from a text such as `95 unlimited`.
///
/// A hard limit is lowered only where it can be raised again.
pub(super) fn set_limit(
    host: &dyn HostFiles,
    pid: i32,
    (limit, value): (TaskSetting, &str),
) -> io::Result<()> {
    let resource = match limit {
        TaskSetting::PriorityLimit => Resource::Rtprio,
        TaskSetting::LockedMemoryLimit => Resource::Memlock,
        TaskSetting::RealTimeLimit => Resource::Rttime,
        TaskSetting::CoreLimit => Resource::Core,
        TaskSetting::Scheduling | TaskSetting::TimerSlack | TaskSetting::OomScore => {
            return Err(io::ErrorKind::InvalidInput.into());
        }
    };

    let number = |word: &str| match word {
        "unlimited" => Ok(None),
        _ => word.parse().map(Some).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput)),
    };
    let (soft, hard) = value.split_once(' ').ok_or(io::ErrorKind::InvalidInput)?;
    let limits = Rlimit { current: number(soft.trim())?, maximum: number(hard.trim())? };
    let before = limit.read(host, pid)?;
    let hard_before = number(before.split_once(' ').ok_or(io::ErrorKind::InvalidData)?.1)?;
    let is_lower = limits.maximum.unwrap_or(u64::MAX) < hard_before.unwrap_or(u64::MAX);
    if is_lower && !may_raise_limits() {
        let why = "lowering the hard limit could not be undone without CAP_SYS_RESOURCE";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }

    rustix::process::prlimit(Some(process(pid)?), resource, limits)?;
    Ok(())
}

fn may_raise_limits() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
}

fn process(pid: i32) -> io::Result<Pid> {
    Pid::from_raw(pid).ok_or_else(|| Errno::SRCH.into())
}

/// `active` or `inactive`; a unit that failed is inactive.
pub(super) fn unit_state(unit: &str) -> io::Result<String> {
    let output =
        Command::new("systemctl").args(["is-active", "--", unit]).stdin(Stdio::null()).output()?;
    let state = String::from_utf8_lossy(&output.stdout);
    let is_active = matches!(state.trim(), "active" | "activating" | "reloading");
    Ok(if is_active { "active" } else { "inactive" }.to_owned())
}

pub(super) fn set_unit_state(unit: &str, state: &str) -> io::Result<()> {
    let verb = match state {
        "active" => "start",
        "inactive" => "stop",
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let output =
        Command::new("systemctl").args([verb, "--", unit]).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }

    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("systemctl {verb} {unit}: {}", said.trim())))
}

/// Waits for a line, so that nothing is opened before it is on record; then opens the file, writes,
/// and answers.
const HOLDER: &str = r#"read -r go || exit 1; exec 9<>"$1" || exit 1; printf '%s' "$2" >&9 || exit 1; echo held; exec sleep infinity <&- >&-"#;

/// Starts a process that opens `path`, writes `text` into it and keeps it open. `record` is called
/// before the file is opened.
pub(super) fn hold_open(
    host: &dyn HostFiles,
    (path, text): (&str, &str),
    record: &mut dyn FnMut(TaskId) -> io::Result<()>,
) -> io::Result<()> {
    use std::os::unix::process::CommandExt;

    let mut command = Command::new("/bin/sh");
    command.args(["-c", HOLDER, "onbeat-holder", path, text]).current_dir("/").process_group(0);
    let mut holder =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;

    let held = (|| {
        let pid = i32::try_from(holder.id()).map_err(|_| Errno::SRCH)?;
        record(tasks::task(host, pid).ok_or(Errno::SRCH)?.id)?;
        holder.stdin.take().ok_or(Errno::PIPE)?.write_all(b"go\n")?;
        let mut answer = String::new();
        BufReader::new(holder.stdout.take().ok_or(Errno::PIPE)?).read_line(&mut answer)?;
        if answer.trim() == "held" {
            Ok(())
        } else {
            Err(io::Error::other(format!("{path} does not take \"{text}\"")))
        }
    })();

    if held.is_err() {
        let _ = holder.kill();
        let _ = holder.wait();
    }
    held
}

/// Ends one process, never a later one of the same number.
pub(super) fn end_process(host: &dyn HostFiles, id: TaskId) -> io::Result<()> {
    let handle = rustix::process::pidfd_open(process(id.tid)?, PidfdFlags::empty())?;
    // The handle keeps its process: what is compared now is what is ended.
    if !tasks::is_alive(host, id) {
        return Err(Errno::SRCH.into());
    }

    rustix::process::pidfd_send_signal(&handle, Signal::KILL)?;
    while tasks::is_alive(host, id) {
        host.pause();
    }
    Ok(())
}

fn registers(cpu: u32, options: &OpenOptions) -> io::Result<File> {
    options.open(format!("/dev/cpu/{cpu}/msr"))
}

pub(super) fn read_register(cpu: u32, register: u32) -> io::Result<u64> {
    let mut bytes = [0; 8];
    registers(cpu, OpenOptions::new().read(true))?.read_exact_at(&mut bytes, register.into())?;
    Ok(u64::from_ne_bytes(bytes))
}

pub(super) fn write_register(cpu: u32, register: u32, value: u64) -> io::Result<()> {
    registers(cpu, OpenOptions::new().write(true))?
        .write_all_at(&value.to_ne_bytes(), register.into())
}
