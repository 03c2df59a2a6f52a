//! The only file with system calls: clock, sleep, and prepared ports.
//!
//! The table of allowed calls is on the crate's front page.
#![allow(unsafe_code)]
#![allow(clippy::disallowed_methods)]

use crate::time::{Clock, Instant, Interrupted};

pub mod datagram;

/// `CLOCK_MONOTONIC`, read through the vDSO. Sleeps are absolute, or relative for
/// [`Wait::Relative`](crate::Wait).
///
/// ```
/// use onbeat_rt::Clock;
/// use onbeat_rt::sys::Monotonic;
///
/// let wake_up = Monotonic.now().plus_ns(1_000_000);
/// while Monotonic.sleep_until(wake_up).is_err() {}
/// assert!(Monotonic.now() >= wake_up);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now(&self) -> Instant {
        read(libc::CLOCK_MONOTONIC)
    }

    #[inline]
    fn sleep_until(&self, wake_up: Instant) -> Result<(), Interrupted> {
        nanosleep(wake_up.as_ns(), libc::TIMER_ABSTIME)
    }

    #[inline]
    fn sleep_for(&self, ns: u64) -> Result<(), Interrupted> {
        nanosleep(ns, 0)
    }
}

#[inline]
fn nanosleep(ns: u64, flags: libc::c_int) -> Result<(), Interrupted> {
    let time = timespec(ns);
    // SAFETY: `time` is a valid timespec that lives across the call; the remainder is not
    // requested.
    let error = unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flags, &raw const time, core::ptr::null_mut())
    };
    // clock_nanosleep returns the error number itself, never -1 (POSIX.1-2017).
    if error == 0 { Ok(()) } else { Err(Interrupted) }
}

/// A prepared file descriptor that a loop reads or writes. Its owner keeps it open as long as the
/// loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(libc::c_int);

/// Error number of a failed read or write (`errno`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// `struct gpio_v2_line_values` (`include/uapi/linux/gpio.h`).
#[repr(C)]
struct LineValues {
    bits: u64,
    mask: u64,
}

/// `GPIO_V2_LINE_SET_VALUES_IOCTL` (`include/uapi/linux/gpio.h`).
const SET_LINE_VALUES: libc::Ioctl = libc::_IOWR::<LineValues>(0xB4, 0x0F);

impl Port {
    /// Creates a port on an open file descriptor.
    #[must_use]
    pub const fn new(descriptor: i32) -> Self {
        Self(descriptor)
    }

    /// Waits until data can be read or the other end has closed, for at most `at_most_ns`. Returns
    /// whether that is the case. A signal ends the wait early.
    #[must_use]
    pub fn is_ready_within(self, at_most_ns: u64) -> bool {
        let mut pollfd = libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 };
        let at_most = timespec(at_most_ns);
        // SAFETY: one pollfd and one timespec that live across the call; no signal mask is given.
        unsafe { libc::ppoll(&raw mut pollfd, 1, &raw const at_most, core::ptr::null()) > 0 }
    }

    /// Reads the available bytes, up to the length of `into`. Returns their number; 0 when the
    /// other end has closed.
    ///
    /// # Errors
    /// [`Errno`].
    pub fn read(self, into: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: `into` is valid for writes of its length.
        let read = unsafe { libc::read(self.0, into.as_mut_ptr().cast(), into.len()) };
        usize::try_from(read).map_err(|_| errno())
    }

    /// Writes all of `bytes` with one call.
    ///
    /// # Errors
    /// [`Errno`]; [`libc::EIO`] when the kernel accepted only some of the bytes.
    pub fn write(self, bytes: &[u8]) -> Result<(), Errno> {
        // SAFETY: `bytes` is valid for reads of its length.
        let written = unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(Errno(libc::EIO)),
            Err(_) => Err(errno()),
        }
    }

    /// Sets the only line of a GPIO request.
    ///
    /// # Errors
    /// [`Errno`].
    pub fn set_line(self, on: bool) -> Result<(), Errno> {
        let mut values = LineValues { bits: u64::from(on), mask: 1 };
        // SAFETY: the request takes a pointer to line values, which live across the call.
        let result = unsafe { libc::ioctl(self.0, SET_LINE_VALUES, &raw mut values) };
        if result == 0 { Ok(()) } else { Err(errno()) }
    }
}

fn errno() -> Errno {
    // SAFETY: the address is this thread's own and always valid.
    Errno(unsafe { *libc::__errno_location() })
}

/// The kernel's periodic tick on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Tick period, in nanoseconds: 1 s / `CONFIG_HZ`.
    pub every_ns: u64,
    /// Instant of one tick modulo `every_ns`; includes the latency of that tick's interrupt.
    pub offset_ns: u64,
}

/// Reads period and last instant of the tick from `CLOCK_MONOTONIC_COARSE`, which the kernel sets
/// at each tick (`kernel/time/timekeeping.c`, `update_wall_time`).
///
/// Each reading includes the latency of one interrupt: take several and keep the smallest offset.
#[must_use]
pub fn tick() -> Tick {
    let mut resolution = timespec(0);
    // SAFETY: `resolution` is a valid timespec to write to. The coarse clock exists since Linux
    // 2.6.32.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    let every_ns = as_ns(&resolution).max(1);
    Tick { every_ns, offset_ns: read(libc::CLOCK_MONOTONIC_COARSE).as_ns() % every_ns }
}

#[inline]
fn read(clock: libc::clockid_t) -> Instant {
    let mut now = timespec(0);
    // SAFETY: `now` is a valid timespec to write to, and both clocks used exist on every supported
    // kernel, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Instant::from_ns(as_ns(&now))
}

// `time_t` and `c_long` are 32 bits wide on some targets; monotonic seconds and nanoseconds fit
// there too.
#[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)]
const fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)]
const fn as_ns(t: &libc::timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
