//! Directories of guests, and what is left in them by processes that were killed.
//!
//! QEMU gets SIGKILL when the thread that started it ends. The lock on a guest's directory covers
//! the rest: it is held as long as its process needs guest or result. A directory without a lock
//! belongs to nobody; the next start ends what runs there and removes it. A directory without the name
//! of a guest is the user's, who may keep disks below a work directory of their own.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onbeat::campaign::new_directory;
use onbeat_host::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::VmError;

/// What the name of a guest's directory begins with; the number of its starter follows.
const PREFIX: &str = "onbeat-";
/// How long a killed process may take to end.
const END_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait before the arguments of a process that has none are read again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long a lock may outlive its process: a child that was not yet QEMU shares it until it ends.
const LOCK_OUTLIVES: Duration = Duration::from_secs(1);

/// What was left by a process that was killed while it ran a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedGuest {
    /// The guest's directory, which has been removed.
    pub directory: PathBuf,
    /// Process numbers of QEMU that were still there and have been ended.
    pub processes: Vec<i32>,
}

/// The directory of a guest, locked.
#[derive(Debug)]
pub(super) struct GuestDirectory {
    pub(super) path: PathBuf,
    _lock: File,
}

impl GuestDirectory {
    /// Creates a directory below `guests`.
    pub(super) fn create(guests: &Path) -> Result<Self, VmError> {
        // Nobody looks for left directories before this one has its lock.
        let _all = lock(guests)?;
        let path = new_directory(guests, PREFIX)?;
        let own = lock(&path)?;
        Ok(Self { path, _lock: own })
    }

    /// Removes it with all that is in it.
    pub(super) fn remove(&self) -> Result<(), VmError> {
        fs::remove_dir_all(&self.path).map_err(VmError::writing(&self.path))
    }
}

/// Locks a directory until the file is dropped.
fn lock(directory: &Path) -> Result<File, VmError> {
    let opened = File::open(directory).map_err(VmError::reading(directory))?;
    opened.lock().map_err(VmError::reading(directory))?;
    Ok(opened)
}

/// The argument of QEMU that names a guest by its directory.
pub(super) fn name_argument(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    format!("guest={PREFIX}{},debug-threads=on", name.strip_prefix(PREFIX).unwrap_or(&name))
}

/// Ends guests below `guests` whose process no longer exists, and removes their directories.
pub(super) fn end_guests(guests: &Path) -> Result<Vec<EndedGuest>, VmError> {
    let _all = lock(guests)?;
    let mut ended = Vec::new();
    for entry in fs::read_dir(guests).map_err(VmError::reading(guests))? {
        let directory = entry.map_err(VmError::reading(guests))?.path();
        if starter(&directory).is_none() {
            continue;
        }
        let Some(_own) = lock_of_the_dead(&directory)? else { continue };

        let processes = end_processes(&directory)?;
        fs::remove_dir_all(&directory).map_err(VmError::writing(&directory))?;
        ended.push(EndedGuest { directory, processes });
    }

    Ok(ended)
}

/// Locks a directory unless a process that exists has locked it.
fn lock_of_the_dead(directory: &Path) -> Result<Option<File>, VmError> {
    let opened = match File::open(directory) {
        Ok(opened) => opened,
        // Its process has just removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(VmError::reading(directory)(source)),
    };

    let since = Instant::now();
    loop {
        match opened.try_lock() {
            Ok(()) => return Ok(directory.is_dir().then_some(opened)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => return Err(VmError::reading(directory)(source)),
        }
        if owner_exists(directory) || since.elapsed() > LOCK_OUTLIVES {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of the process that has created a guest's directory; none in another name.
fn starter(directory: &Path) -> Option<&str> {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let numbers = directory.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-');
    numbers.filter(|(pid, nth)| is_number(pid) && is_number(nth)).map(|(pid, _)| pid)
}

/// Whether a process has the number that a guest's directory is named after.
fn owner_exists(directory: &Path) -> bool {
    starter(directory).is_some_and(|pid| Path::new("/proc").join(pid).exists())
}

/// Ends the processes of a guest: those that run in its directory and carry its name.
fn end_processes(directory: &Path) -> Result<Vec<i32>, VmError> {
    let mut ended = Vec::new();
    for found in process::all().map_err(VmError::reading(Path::new("/proc")))? {
        let Some(pid) = Pid::from_raw(found.pid) else { continue };
        let failed = |source| VmError::Process { pid: found.pid.unsigned_abs(), source };
        if end_process(pid, directory).map_err(failed)? {
            ended.push(found.pid);
        }
    }

    Ok(ended)
}

/// Ends a process of a guest; returns whether it was one, and was not about to end by itself.
fn end_process(pid: Pid, directory: &Path) -> io::Result<bool> {
    if !runs_in(pid, directory) {
        return Ok(false);
    }
    // From here on the number stands for this process, whatever becomes of it.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(false) };
    let Some(arguments) = arguments_in(&process, || arguments(pid))? else { return Ok(false) };
    if !runs_in(pid, directory) || !names_guest(&arguments, directory) {
        return Ok(false);
    }

    kill(&process).map(|()| true)
}

/// The arguments of a process, or `None` when it has ended. While there are none, it either ends,
/// having given up its memory and not yet its directory, or is within execve.
fn arguments_in(
    process: &OwnedFd,
    mut read: impl FnMut() -> Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    let since = Instant::now();
    loop {
        let arguments = read();
        if !arguments.is_empty() {
            return Ok(Some(arguments));
        }
        if ends_within(process, LOOK_AGAIN)? {
            return Ok(None);
        }
        if since.elapsed() > END_WITHIN {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn runs_in(pid: Pid, directory: &Path) -> bool {
    let link = format!("/proc/{}/cwd", pid.as_raw_nonzero());
    fs::read_link(link).is_ok_and(|cwd| cwd == directory)
}

fn arguments(pid: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default()
}

fn names_guest(arguments: &[u8], directory: &Path) -> bool {
    let name = name_argument(directory);
    arguments.split(|byte| *byte == 0).any(|argument| argument == name.as_bytes())
}

fn kill(process: &OwnedFd) -> io::Result<()> {
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) => {}
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    }

    let has_ended = ends_within(process, END_WITHIN)?;
    if has_ended { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

/// Waits for the end of a process; returns whether it has ended.
fn ends_within(process: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut ends = [PollFd::new(process, PollFlags::IN)];
    Ok(poll(&mut ends, Some(&limit))? > 0)
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
        let directory = fs::canonicalize(guests.path()).expect("a path").join("onbeat-1-0");
        fs::create_dir(&directory).expect("a directory");
        (guests, directory)
    }

    /// Until execve the process has its parent's arguments.
    fn wait_for_arguments(child: &Child, directory: &Path) {
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a number");
        while !names_guest(&arguments(pid), directory) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_guest_without_a_starter_is_ended_and_its_directory_removed() {
        let (guests, directory) = guest_directory();
        let mut child = stand_in(&directory, &name_argument(&directory));
        wait_for_arguments(&child, &directory);
        fs::write(directory.join("console.log"), b"lines").expect("a file");

        let ended = end_guests(guests.path()).expect("an end");
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].processes, [child.id().cast_signed()]);
        assert_eq!(child.wait().expect("its status").signal(), Some(9));
        assert!(!directory.exists());
        assert_eq!(end_guests(guests.path()).expect("nothing left"), []);
    }

    #[test]
    fn directories_of_the_user_are_left_alone() {
        let guests = tempfile::tempdir().expect("a directory");
        for name in ["debian", "2024-12", "onbeat-demo", "onbeat-2024-x"] {
            let directory = guests.path().join(name);
            fs::create_dir(&directory).expect("a directory");
            fs::write(directory.join("disk.qcow2"), b"disk").expect("a file");
        }
        assert_eq!(end_guests(guests.path()).expect("nothing to end"), []);
        assert_eq!(fs::read_dir(guests.path()).expect("a directory").count(), 4);
    }

    #[test]
    fn a_directory_that_is_in_use_is_left_alone() {
        let guests = tempfile::tempdir().expect("a directory");
        let directory = GuestDirectory::create(guests.path()).expect("a directory");
        assert_eq!(end_guests(guests.path()).expect("nothing to end"), []);
        assert!(directory.path.exists());

        let path = directory.path.clone();
        drop(directory);
        // A child that another test has just started holds a copy of the lock until the kernel
        // closes its files in execve, which is after the start has returned here.
        let since = Instant::now();
        let mut ended = Vec::new();
        while ended.is_empty() && since.elapsed() < END_WITHIN {
            ended = end_guests(guests.path()).expect("an end");
        }
        assert_eq!(ended, [EndedGuest { directory: path.clone(), processes: Vec::new() }]);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_within_execve_is_judged_by_its_next_arguments() {
        let (_guests, directory) = guest_directory();
        let mut child = stand_in(&directory, "guest=something-else");
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a number");
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("a descriptor");
        let mut reads = [vec![], vec![], b"sh\0".to_vec()].into_iter();

        let found = arguments_in(&process, || reads.next().expect("no further read"));
        assert_eq!(found.expect("arguments"), Some(b"sh\0".to_vec()));
        drop(child.stdin.take());
        child.wait().expect("its status");
        assert_eq!(arguments_in(&process, Vec::new).expect("an end"), None);
    }

    #[test]
    fn another_process_in_the_directory_is_left_alone() {
        let (guests, directory) = guest_directory();
        let mut child = stand_in(&directory, "guest=something-else");
        let ended = end_guests(guests.path()).expect("an end");
        assert_eq!(ended[0].processes, [] as [i32; 0]);
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("its status").signal(), None);
    }
}
