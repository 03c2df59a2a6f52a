//! The lock that gives way to releases ([`onbeat_rt::delayed_lock`]) for C, in memory of the caller.
#![allow(unsafe_code)] // C's pointers.

use std::ffi::c_int;

use onbeat_rt::Instant;
use onbeat_rt::delayed_lock::{DelayedLock, Refusal};
use onbeat_rt::sys::Monotonic;

/// `enum onbeat_delayed_lock_result`.
mod result {
    use std::ffi::c_int;

    pub(super) const ENTERED: c_int = 0;
    pub(super) const HELD: c_int = 1;
    pub(super) const TOO_NEAR: c_int = 2;
}

/// Makes a free lock without a release.
///
/// # Safety
/// `lock` is NULL or points to 16 bytes, aligned to 8, that nobody else uses yet.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_delayed_lock_init(lock: *mut DelayedLock) {
    if !lock.is_null() {
        // SAFETY: as the caller vouches; checked for NULL.
        unsafe { lock.write(DelayedLock::new()) };
    }
}

/// Publishes the loop's next release, of `CLOCK_MONOTONIC`.
///
/// # Safety
/// `lock` is NULL or points to an initialised lock.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_delayed_lock_publish(lock: *const DelayedLock, release_ns: u64) {
    // SAFETY: as the caller vouches.
    if let Some(lock) = unsafe { lock.as_ref() } {
        lock.publish(Instant::from_ns(release_ns));
    }
}

/// Withdraws the release: nobody has to give way.
///
/// # Safety
/// `lock` is NULL or points to an initialised lock.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_delayed_lock_withdraw(lock: *const DelayedLock) {
    // SAFETY: as the caller vouches.
    if let Some(lock) = unsafe { lock.as_ref() } {
        lock.withdraw();
    }
}

/// Enters from the loop without waiting; returns ENTERED or HELD.
///
/// # Safety
/// `lock` is NULL or points to an initialised lock.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_delayed_lock_enter_loop(lock: *const DelayedLock) -> c_int {
    // SAFETY: as the caller vouches.
    match unsafe { lock.as_ref() }.and_then(DelayedLock::enter_loop) {
        Some(inside) => {
            std::mem::forget(inside);
            result::ENTERED
        }
        None => result::HELD,
    }
}

/// Enters from an ordinary thread that stays for at most `section_ns`; returns ENTERED, HELD or
/// TOO_NEAR.
///
/// # Safety
/// `lock` is NULL or points to an initialised lock.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_delayed_lock_enter(
    lock: *const DelayedLock,
    section_ns: u64,
) -> c_int {
    // SAFETY: as the caller vouches.
    match unsafe { lock.as_ref() }.map(|lock| lock.enter(&Monotonic, section_ns)) {
        Some(Ok(inside)) => {
            std::mem::forget(inside);
            result::ENTERED
        }
        Some(Err(Refusal::TooNear { .. })) => result::TOO_NEAR,
        Some(Err(Refusal::Held)) | None => result::HELD,
    }
}

/// Leaves; the caller is inside.
///
/// # Safety
/// `lock` is NULL or points to an initialised lock.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_delayed_lock_leave(lock: *const DelayedLock) {
    // SAFETY: as the caller vouches.
    if let Some(lock) = unsafe { lock.as_ref() } {
        lock.leave();
    }
}
