//! `spin_lock_section`: a system call that searches thousands of file locks under a spin lock.
//!
//! To test whether a byte of a file is locked, the kernel walks the list of locks with a spin lock
//! held (`fs/locks.c`, `posix_test_lock`), which takes a few nanoseconds for each lock. Except with
//! PREEMPT_RT, the kernel does not switch threads during this time.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::fs::{MemfdFlags, memfd_create};

use super::actor::{Disturb, DisturbanceTimer, busy_until, shortest_ns};
use super::error::Error;
use super::log::DisturbanceRecord;
use super::plan::{AimedRelease, InjectionPlan};

/// Time from the start of the call to the loop's wake-up, in nanoseconds.
const AHEAD_NS: u64 = 50_000;
/// Maximum number of locks, and number of locks added at a time. Adding a lock searches all
/// previous ones.
const MOST: usize = 40_000;
const STEP: usize = 1_000;
/// Memory that is written before a trial, and the size of a cache line, in bytes.
const OTHERS_BYTES: usize = 16 << 20;
const LINE: usize = 64;
/// Time limit for adding locks, in nanoseconds.
const PATIENCE_NS: u64 = 3_000_000_000;

/// The disturber.
#[derive(Default)]
pub(super) struct FileLocks {
    /// The file with the locks, and a second open file description of it, which is another lock
    /// owner.
    files: Option<(OwnedFd, OwnedFd)>,
    locks: usize,
    calibrated_ns: u64,
}

impl FileLocks {
    fn add(&mut self, locks: usize) -> io::Result<()> {
        let Some((file, _)) = &self.files else { return Ok(()) };
        for _ in 0..locks {
            // Every other byte: adjacent locks would be merged.
            lock(file, 2 * self.locks as i64)?;
            self.locks += 1;
        }

        Ok(())
    }

    /// Returns the time of a search after other memory was accessed, in nanoseconds.
    fn cold_search_ns(&self, others: &mut [u8]) -> u64 {
        others.iter_mut().step_by(LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        shortest_ns(1, || self.search())
    }

    /// Adds locks until a search of them takes `wanted_ns`, or there are too many.
    pub(super) fn for_search(plan: &InjectionPlan, wanted_ns: u64) -> Result<Self, Error> {
        let mut locks = Self::default();
        locks.fill(plan, wanted_ns)?;
        Ok(locks)
    }

    fn fill(&mut self, plan: &InjectionPlan, wanted_ns: u64) -> Result<(), Error> {
        let impossible =
            |why: io::Error| plan.impossible(format!("file locks (F_OFD_SETLK): {why}"));
        let file = memfd_create("onbeat-inject", MemfdFlags::CLOEXEC)
            .map_err(|why| impossible(why.into()))?;
        let again = std::fs::File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        self.files = Some((file, again.map_err(impossible)?.into()));

        let end = Monotonic.now().plus_ns(PATIENCE_NS);
        let mut others = vec![0; OTHERS_BYTES];
        // A list that has left the caches takes longer for each lock, so the length is found by
        // trial.
        while self.locks < MOST
            && Monotonic.now() < end
            && self.cold_search_ns(&mut others) < wanted_ns
        {
            self.add(STEP).map_err(impossible)?;
        }

        self.calibrated_ns = shortest_ns(5, || self.search());
        Ok(())
    }

    /// Searches all locks.
    pub(super) fn search(&self) {
        if let Some((_, other)) = &self.files {
            test_lock(other, 2 * MOST as i64 + 1);
        }
    }

    /// Asks for the first lock of the list, which takes no search.
    pub(super) fn ask(&self) {
        if let Some((_, other)) = &self.files {
            test_lock(other, 0);
        }
    }
}

impl Disturb for FileLocks {
    fn prepare(&mut self, plan: &InjectionPlan) -> Result<(), Error> {
        self.fill(plan, plan.for_ns + AHEAD_NS)
    }

    fn disturb(&mut self, _: &InjectionPlan, aim: &AimedRelease) -> Option<DisturbanceRecord> {
        if busy_until(aim.wake_up.minus_ns(AHEAD_NS)) >= aim.wake_up {
            return None;
        }

        let timer = DisturbanceTimer::begin();
        self.search();
        let (at, ns) = timer.end(self.calibrated_ns);
        Some(DisturbanceRecord { at, ns, figures: [self.locks as u64, 0] })
    }
}

fn byte(at: i64, kind: libc::c_int) -> libc::flock {
    // SAFETY: all-zero is a valid lock: the whole file, for reading.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = at;
    lock.l_len = 1;

    lock
}

/// Locks one byte for the open file.
fn lock(file: &OwnedFd, at: i64) -> io::Result<()> {
    let lock = byte(at, libc::F_WRLCK);
    // SAFETY: the descriptor is open and the lock is valid across the call.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Tests a byte: one that no owner has locked makes the kernel search the whole list.
fn test_lock(file: &OwnedFd, at: i64) {
    let mut lock = byte(at, libc::F_WRLCK);
    // SAFETY: as above; the kernel writes its answer to `lock`.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
}
