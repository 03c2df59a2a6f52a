//! Guests that outlive the process that started them, and the record by which the next start finds
//! them.
//!
//! QEMU gets SIGKILL when the thread that started it ends. A record in the guest's directory covers
//! the rest: it is locked as long as the starter lives, and removed when the guest has ended. A
//! record without a lock belongs to a guest that nobody supervises.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::VmError;

/// The file in a guest's directory that exists until the guest has ended.
const RECORD: &str = "running";
/// How long a killed process may take to end, in seconds.
const END_WITHIN_S: i64 = 10;

/// A guest that was ended because its starter no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedGuest {
    /// Its directory, with console and whatever results it had sent.
    pub directory: PathBuf,
    /// Process numbers of QEMU; empty when it had ended by itself.
    pub processes: Vec<i32>,
}

/// The record of a guest that runs, locked.
#[derive(Debug)]
pub(super) struct RunningRecord {
    path: PathBuf,
    _lock: File,
}

impl RunningRecord {
    /// Writes the record before the guest is started.
    pub(super) fn create(directory: &Path) -> Result<Self, VmError> {
        let path = directory.join(RECORD);
        let hidden = directory.join(".running");
        let lock = File::create(&hidden).map_err(VmError::writing(&hidden))?;
        lock.lock().map_err(VmError::writing(&hidden))?;
        // Under its name only once it is locked: an unlocked record is one of a dead starter.
        fs::rename(&hidden, &path).map_err(VmError::writing(&path))?;

        Ok(Self { path, _lock: lock })
    }

    /// Removes the record after the guest has ended.
    pub(super) fn close(self) -> Result<(), VmError> {
        fs::remove_file(&self.path).map_err(VmError::writing(&self.path))
    }
}

/// The argument of QEMU that names a guest by its directory.
pub(super) fn name_argument(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    format!("guest=onbeat-{name},debug-threads=on")
}

/// Ends the guests below `guests` whose starter no longer exists.
pub(super) fn end_guests(guests: &Path) -> Result<Vec<EndedGuest>, VmError> {
    let mut ended = Vec::new();
    for entry in fs::read_dir(guests).map_err(VmError::reading(guests))? {
        let directory = entry.map_err(VmError::reading(guests))?.path();
        let path = directory.join(RECORD);
        let record = match File::open(&path) {
            Ok(record) => record,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(VmError::reading(&path)(source)),
        };
        match record.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(source)) => return Err(VmError::reading(&path)(source)),
        }

        let processes = end_processes(&directory)?;
        fs::remove_file(&path).map_err(VmError::writing(&path))?;
        ended.push(EndedGuest { directory, processes });
    }

    Ok(ended)
}

/// Ends the processes of a guest: those that run in its directory and carry its name.
fn end_processes(directory: &Path) -> Result<Vec<i32>, VmError> {
    let mut ended = Vec::new();
    let processes = Path::new("/proc");
    for entry in fs::read_dir(processes).map_err(VmError::reading(processes))? {
        let name = entry.map_err(VmError::reading(processes))?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
        else {
            continue;
        };
        if !is_guest_of(pid, directory) {
            continue;
        }

        // From here on the number stands for this process, whatever becomes of it.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if is_guest_of(pid, directory) {
            let number = pid.as_raw_nonzero().get();
            kill(&process)
                .map_err(|source| VmError::Process { pid: number.cast_unsigned(), source })?;
            ended.push(number);
        }
    }

    Ok(ended)
}

fn is_guest_of(pid: Pid, directory: &Path) -> bool {
    let of_process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let runs_there = fs::read_link(of_process.join("cwd")).is_ok_and(|cwd| cwd == directory);
    let name = name_argument(directory);
    let arguments = fs::read(of_process.join("cmdline")).unwrap_or_default();
    runs_there && arguments.split(|byte| *byte == 0).any(|argument| argument == name.as_bytes())
}

fn kill(process: &OwnedFd) -> io::Result<()> {
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) => {}
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    }

    let limit = Timespec { tv_sec: END_WITHIN_S, tv_nsec: 0 };
    let mut ends = [PollFd::new(process, PollFlags::IN)];
    match poll(&mut ends, Some(&limit))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that looks like a guest: it runs in the directory, with the name among its
    /// arguments.
    fn stand_in(directory: &Path, name: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "read line", "sh", name]).current_dir(directory);
        command.stdin(Stdio::piped()).spawn().expect("sh")
    }

    fn guest_directory() -> (tempfile::TempDir, PathBuf) {
        let guests = tempfile::tempdir().expect("a directory");
        let directory = fs::canonicalize(guests.path()).expect("a path").join("1-0");
        fs::create_dir(&directory).expect("a directory");
        (guests, directory)
    }

    /// Until execve the process has its parent's arguments.
    fn wait_for_arguments(child: &Child, directory: &Path) {
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a number");
        while !is_guest_of(pid, directory) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_guest_without_a_starter_is_ended_and_its_record_removed() {
        let (guests, directory) = guest_directory();
        let mut child = stand_in(&directory, &name_argument(&directory));
        wait_for_arguments(&child, &directory);
        fs::write(directory.join(RECORD), b"").expect("an unlocked record");

        let ended = end_guests(guests.path()).expect("an end");
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].processes, [child.id().cast_signed()]);
        assert_eq!(child.wait().expect("its status").signal(), Some(9));
        assert!(!directory.join(RECORD).exists());
        assert_eq!(end_guests(guests.path()).expect("nothing left"), []);
    }

    #[test]
    fn a_guest_whose_starter_lives_is_left_alone() {
        let (guests, directory) = guest_directory();
        let record = RunningRecord::create(&directory).expect("a record");
        assert_eq!(end_guests(guests.path()).expect("nothing to end"), []);
        record.close().expect("the record's end");
        assert_eq!(end_guests(guests.path()).expect("nothing to end"), []);
    }

    #[test]
    fn another_process_in_the_directory_is_left_alone() {
        let (guests, directory) = guest_directory();
        let mut child = stand_in(&directory, "guest=something-else");
        fs::write(directory.join(RECORD), b"").expect("an unlocked record");
        let ended = end_guests(guests.path()).expect("an end");
        assert_eq!(ended[0].processes, [] as [i32; 0]);
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("its status").signal(), None);
    }
}
