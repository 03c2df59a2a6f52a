//! The only file that asks the kernel for anything.
//!
//! The table of allowed calls is on the crate's front page.
#![allow(unsafe_code)]
#![allow(clippy::disallowed_methods)]

use crate::time::{Clock, Instant, Interrupted};

/// `CLOCK_MONOTONIC`, read through the vDSO and slept on by absolute time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Instant {
        read(libc::CLOCK_MONOTONIC)
    }

    #[inline]
    fn sleep_until(&self, wake_up: Instant) -> Result<(), Interrupted> {
        let until = timespec(wake_up.as_ns());
        // SAFETY: `until` is a valid timespec that lives across the call; an absolute sleep takes no remainder.
        let answer = unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, core::ptr::null_mut())
        };
        // clock_nanosleep returns the error number itself, never -1 (POSIX.1-2017).
        if answer == 0 { Ok(()) } else { Err(Interrupted) }
    }
}

/// Where the kernel's periodic tick lies on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Distance of two ticks, in nanoseconds: 1 s / `CONFIG_HZ`.
    pub every_ns: u64,
    /// Instant of one tick modulo `every_ns`, late by as much as that tick's interrupt was.
    pub offset_ns: u64,
}

/// Reads the tick's distance and its last instant from `CLOCK_MONOTONIC_COARSE`, which the kernel sets at each tick
/// (`kernel/time/timekeeping.c`, `update_wall_time`).
///
/// One reading is late by that interrupt's own latency: take several and keep the smallest offset.
#[must_use]
pub fn tick() -> Tick {
    let mut resolution = timespec(0);
    // SAFETY: `resolution` is a valid timespec to write to. The coarse clock exists since Linux 2.6.32.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    let every_ns = as_ns(&resolution).max(1);
    Tick { every_ns, offset_ns: read(libc::CLOCK_MONOTONIC_COARSE).as_ns() % every_ns }
}

#[inline]
fn read(clock: libc::clockid_t) -> Instant {
    let mut now = timespec(0);
    // SAFETY: `now` is a valid timespec to write to, and both clocks used exist on every supported kernel, so the
    // call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Instant::from_ns(as_ns(&now))
}

// `time_t` and `c_long` are 32 bits wide on some targets; monotonic seconds and nanoseconds fit there too.
#[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)]
const fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
const fn as_ns(t: &libc::timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
