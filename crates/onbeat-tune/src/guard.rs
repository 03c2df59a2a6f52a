//! The guard: a small process that undoes a run's changes when the run dies.
//!
//! ```text
//! run ── begins a journal ──▶ guard    a session of its own, blocked in read(2)
//!     ── pipe, held by the run alone ▶ one byte: the run has undone its changes, or keeps them
//!                                      end of file: the run is dead, and the guard undoes them
//! ```
//!
//! It is the program itself, started with the words of [`WORD`] before it does anything else, so
//! that it stays small: a descriptor to read, and no thread, timer or wake-up. A session of its own
//! keeps Ctrl-C and the end of a terminal away from it, ordinary policy and all CPUs keep it from
//! looking like a part of the loop. The signals that ask a group of processes to end it ignores: it
//! is needed just then.
//!
//! A program that answers to the words has its journals guarded ([`answer`]). Others, such as tests,
//! have journals without a guard: the next repair undoes those.
//!
//! Absent on purpose: any decision of its own. What it undoes, and how, is [`mod@crate::repair`].
#![allow(unsafe_code)]

use std::ffi::{CStr, OsString, c_void};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onbeat_host::policy::Scheduling;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{Advice, madvise};
use rustix::process::{Pid, PidfdFlags};
use rustix::thread::CpuSet;

use crate::error::TuneError;
use crate::host_files::HostFiles;
use crate::journal::{self, DirectoryLock};
use crate::live_host::LiveHost;
use crate::tasks::{self, TaskId};

/// First word of a guard's command line; number and start of the run and the directory follow.
pub const WORD: &str = "guard";
/// Name of the process.
const NAME: &CStr = c"onbeat-guard";
/// The byte by which a run takes leave.
const FAREWELL: u8 = b'.';
/// The byte by which a guard is ready.
const READY: u8 = b'r';
/// How long a guard may take to start, on a machine that is starved of CPU time.
const START: Duration = Duration::from_secs(10);
/// How long a run waits for its guard to end.
const END: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Pauses while another onbeat holds the lock on the journals.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

static IS_ANSWERED: AtomicBool = AtomicBool::new(false);

/// Serves as a guard where the command line asks for one, and returns its exit status. Otherwise
/// the journals of this process are guarded from now on. Call it first in `main`.
///
/// `words` is the command line without the program's name. `undo` undoes what dead runs have left
/// in a directory of journals.
pub fn answer(words: impl Iterator<Item = OsString>, undo: impl Fn(&Path)) -> Option<ExitCode> {
    let Some((owner, directory)) = asked(words) else {
        IS_ANSWERED.store(true, Ordering::Relaxed);
        return None;
    };

    Some(match serve(owner, &directory, undo) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(2),
    })
}

fn asked(mut words: impl Iterator<Item = OsString>) -> Option<(TaskId, PathBuf)> {
    if words.next()? != WORD {
        return None;
    }

    let tid = words.next()?.to_str()?.parse().ok()?;
    let start_ticks = words.next()?.to_str()?.parse().ok()?;
    let directory = PathBuf::from(words.next()?);
    words.next().is_none().then_some((TaskId { tid, start_ticks }, directory))
}

/// The guard of an open journal. Dropping it without [`Guard::dismiss`] leaves the guard at its
/// post: it undoes the changes when this process ends.
#[derive(Debug)]
pub(crate) struct Guard {
    farewell: io::PipeWriter,
    process: Child,
}

impl Guard {
    /// Starts the guard of the journals that `owner` has in `directory`, and waits until it is
    /// ready; `None` where this program does not answer as a guard.
    pub(crate) fn start(owner: TaskId, directory: &Path) -> io::Result<Option<Self>> {
        if !IS_ANSWERED.load(Ordering::Relaxed) {
            return Ok(None);
        }

        let directory = std::path::absolute(directory)?;
        let (orders, farewell) = io::pipe()?;
        // Not by its path: the program may have been replaced since it was started.
        let mut process = Command::new("/proc/self/exe")
            .arg0("onbeat")
            .args([WORD, &owner.tid.to_string(), &owner.start_ticks.to_string()])
            .arg(directory)
            .stdin(orders)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;

        let ready = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        match wait_until_ready(ready) {
            Ok(()) => Ok(Some(Self { farewell, process })),
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(error)
            }
        }
    }

    /// Takes leave of the guard: nothing is left to undo, or what is left stays on purpose.
    pub(crate) fn dismiss(mut self) {
        // A guard that was killed needs no farewell.
        let _ = self.farewell.write_all(&[FAREWELL]);
        let until = Instant::now() + END;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// The guard of what a process makes for itself and has in no journal, such as its flight recorder:
/// what the program undoes ([`answer`]) finds it. Dropped, it ends without doing anything.
#[derive(Debug)]
pub struct ObjectGuard(Option<Guard>);

impl ObjectGuard {
    /// Starts the guard; `None` where this program does not answer as one, or where it cannot be
    /// started: then the next start finds what was left.
    #[must_use]
    pub fn start(directory: &Path) -> Option<Self> {
        let host = LiveHost::new();
        let owner = tasks::task(&host, host.own_pid())?.id;
        Guard::start(owner, directory).ok().flatten().map(|guard| Self(Some(guard)))
    }
}

impl Drop for ObjectGuard {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            guard.dismiss();
        }
    }
}

fn wait_until_ready(mut ready: impl Read + AsFd) -> io::Result<()> {
    let until = Instant::now() + START;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => break,
        }
    }

    let mut answer = [0];
    ready.read_exact(&mut answer)?;
    if answer == [READY] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The guard itself.
fn serve(owner: TaskId, directory: &Path, undo: impl Fn(&Path)) -> io::Result<()> {
    stand_apart()?;
    hold_orders_alone()?;
    give_pages_back();
    if takes_leave()? {
        return Ok(());
    }

    wait_for_end(owner);
    hurry();
    let host = LiveHost::new();
    let mut pause = FIRST_PAUSE;
    loop {
        undo(directory);
        // What the host refuses stays on record for the next start. While another onbeat has the
        // lock, nothing was tried.
        if !journal::is_left_by(directory, owner) || !is_locked(directory, &host) {
            return Ok(());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn is_locked(directory: &Path, host: &LiveHost) -> bool {
    let lock = DirectoryLock::take(directory, host, journal::UNDO);
    matches!(lock, Err(TuneError::Busy(_)))
}

/// Leaves the run's session, CPUs and policy.
fn stand_apart() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: no handler is installed; this process has one thread.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;

    // A mask or policy that may not be changed is no reason to leave a run without a guard.
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    let _ = rustix::thread::sched_setaffinity(None, &all);
    if let Ok(ordinary) = "other".parse::<Scheduling>() {
        let _ = ordinary.set(0);
    }
    let _ = rustix::thread::set_name(NAME);
    Ok(())
}

/// Reports that the guard is ready, and closes every descriptor but that of the pipe.
fn hold_orders_alone() -> io::Result<()> {
    rustix::io::write(io::stdout(), &[READY])?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: standard output is used no more, and nothing in this process owns a descriptor above
    // standard error but `nothing`, which is not used after the call.
    unsafe {
        libc::dup2(nothing.as_raw_fd(), 1);
        std::mem::forget(nothing);
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
    Ok(())
}

/// Takes the program's own pages out of memory that only its start needed. They are mapped from its
/// file, and come back from there when an undo needs them.
fn give_pages_back() {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    // All are found first: reading the list needs pages of the program again.
    for (from, to) in areas_as_in_their_files(&maps) {
        if let Some(start) = NonNull::new(std::ptr::with_exposed_provenance_mut::<c_void>(from)) {
            // SAFETY: the area is mapped from a file, cannot be written, and holds no page that
            // differs from the file: what is read there later is the same.
            let _ = unsafe { madvise(start.as_ptr(), to - from, Advice::LinuxDontNeed) };
        }
    }
}

/// The areas in `/proc/PID/smaps` that are mapped from a file, not to be written, without a page
/// that was changed.
fn areas_as_in_their_files(maps: &str) -> Vec<(usize, usize)> {
    let number = |text| usize::from_str_radix(text, 16).ok();
    let mut found = Vec::new();
    let mut area = None;
    for line in maps.lines() {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((from, to)) = name.split_once('-') {
            let is_of_file = value.contains('/') && value.as_bytes().get(1) == Some(&b'-');
            area = number(from).zip(number(to)).filter(|_| is_of_file);
        } else if name == "Anonymous:" && value.trim() == "0 kB" {
            found.extend(area.take());
        }
    }
    found
}

/// Waits for the run's last word; `false` when it died without one.
fn takes_leave() -> io::Result<bool> {
    let mut word = [0];
    loop {
        match rustix::io::read(io::stdin(), &mut word) {
            Ok(read) => return Ok(read == 1 && word == [FAREWELL]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until a process has ended. It may be alive without its end of the pipe, and one that was
/// killed is still ending when its descriptors are closed.
fn wait_for_end(owner: TaskId) {
    let handle = Pid::from_raw(owner.tid)
        .and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(handle) = handle else { return };
    // The handle keeps its process, so what is compared now is what is awaited.
    if tasks::is_alive(&LiveHost::new(), owner) {
        while poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR)
        {
        }
    }
}

/// Takes the ordinary policy's highest weight where permitted: the loads of the dead run may still
/// be ending. A real-time priority would not do better: below a busy real-time thread it gets
/// nothing, while the kernel keeps a share of the time for the ordinary policy.
fn hurry() {
    if let Ok(first) = "other nice -20 reset_on_fork".parse::<Scheduling>() {
        let _ = first.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split(' ').map(OsString::from).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn only_the_whole_command_line_makes_a_guard() {
        let owner = TaskId { tid: 12, start_ticks: 345 };
        assert_eq!(asked(words("guard 12 345 /state")), Some((owner, PathBuf::from("/state"))));
        for other in ["guard", "guard 12 345", "guard 12 345 /state more", "guard a b c", "bench"] {
            assert_eq!(asked(words(other)), None, "{other}");
        }
    }

    #[test]
    fn areas_that_were_changed_or_have_no_file_keep_their_pages() {
        let maps = "1000-2000 r-xp 00000000 fe:00 1 /bin/onbeat\nRss: 4 kB\nAnonymous:             0 kB\n\
                    2000-3000 r--p 00000000 fe:00 1 /bin/onbeat\nAnonymous:             4 kB\n\
                    3000-4000 rw-p 00000000 fe:00 1 /bin/onbeat\nAnonymous:             0 kB\n\
                    4000-5000 r--p 00000000 00:00 0\nAnonymous:             0 kB\n";
        assert_eq!(areas_as_in_their_files(maps), [(0x1000, 0x2000)]);
        let own = fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!areas_as_in_their_files(&own).is_empty());
    }

    #[test]
    fn a_program_that_does_not_answer_as_a_guard_has_none() {
        let owner = TaskId { tid: 1, start_ticks: 1 };
        assert!(Guard::start(owner, Path::new("/nowhere")).unwrap().is_none());
    }
}
