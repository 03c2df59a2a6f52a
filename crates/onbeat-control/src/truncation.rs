//! Survival of the truncation of a mapped ring.
//!
//! A ring's file can be truncated by its own user and by root. The kernel answers the next access
//! beyond its end with SIGBUS, which ends the process: a loop would stop because of a mistake in a
//! shell. A program that calls [`install`] lives on. The signal's handler replaces the ring's
//! memory by private pages of zeros, as compositors of Wayland do for the buffers of their clients,
//! and marks it as damaged; the access is repeated and succeeds. Writers and readers then report
//! [`RingError::Truncated`](super::RingError::Truncated); a damaged ring gives no records.
//!
//! A library installs no handlers: without [`install`] the signal does what the program decided.
//! Accesses to any other memory are passed to the action that was set before.
//!
//! Absent on purpose: protection of memory other than that of rings, repair of the file, a checksum
//! of records: the kernel clears the rest of the page in which the file now ends without a signal,
//! so the one record across the new end can be read with zeros until somebody looks at the file. If
//! the kernel refuses the new pages, for example beyond the limit of locked memory, the process
//! ends as without a handler.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of rings that are protected at a time. Further ones are not.
const MOST_RANGES: usize = 1024;

/// States of an entry of the table.
mod entry {
    pub(super) const FREE: usize = 0;
    pub(super) const CHANGING: usize = 1;
    pub(super) const WHOLE: usize = 2;
    pub(super) const DAMAGED: usize = 3;
}

/// An entry of the table, read by the handler.
struct Entry {
    state: AtomicUsize,
    base: AtomicUsize,
    bytes: AtomicUsize,
}

static TABLE: [Entry; MOST_RANGES] = [const {
    Entry {
        state: AtomicUsize::new(entry::FREE),
        base: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    }
}; MOST_RANGES];

/// The action before [`install`].
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// The mapped memory of a ring, as the handler knows it. Dropped before the memory is unmapped.
#[derive(Debug)]
pub(super) struct ProtectedRange {
    /// `None` if the table is full.
    place: Option<usize>,
}

impl ProtectedRange {
    pub(super) fn new(base: usize, bytes: usize) -> Self {
        let free = |it: &Entry| {
            let order = Ordering::AcqRel;
            it.state
                .compare_exchange(entry::FREE, entry::CHANGING, order, Ordering::Relaxed)
                .is_ok()
        };
        let place = TABLE.iter().position(free);
        if let Some(it) = place.and_then(|place| TABLE.get(place)) {
            it.base.store(base, Ordering::Relaxed);
            it.bytes.store(bytes, Ordering::Relaxed);
            it.state.store(entry::WHOLE, Ordering::Release);
        }
        Self { place }
    }

    /// Returns whether the memory was replaced because the file had been truncated.
    #[inline]
    pub(super) fn is_damaged(&self) -> bool {
        let of = self.place.and_then(|place| TABLE.get(place));
        of.is_some_and(|it| it.state.load(Ordering::Acquire) == entry::DAMAGED)
    }
}

impl Drop for ProtectedRange {
    fn drop(&mut self) {
        if let Some(it) = self.place.and_then(|place| TABLE.get(place)) {
            it.state.store(entry::FREE, Ordering::Release);
        }
    }
}

/// Lets this process live on when a ring that it has mapped is truncated. For the `main` of a
/// program; later calls have no effect.
///
/// # Errors
/// The system's.
pub fn install() -> io::Result<()> {
    let mut answer = Ok(());
    BEFORE.get_or_init(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: zeros are a valid action (the default one), and the call fills it.
        let mut before = unsafe {
            libc::sigaction(libc::SIGBUS, std::ptr::null(), before.as_mut_ptr());
            before.assume_init()
        };
        let mut own = before;
        own.sa_sigaction = on_bus_error as *const () as usize;
        own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: `own` is a complete action whose handler is async-signal-safe: it uses atomics,
        // one call of mmap, and the action before. `before` is filled by the kernel.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const own, &raw mut before) } != 0 {
            answer = Err(io::Error::last_os_error());
        }
        before
    });
    answer
}

/// The handler.
extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel gives a valid structure; the address is of a fault for
    // this code.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code == libc::BUS_ADRERR && replaced(address) {
        return;
    }
    pass_on(signal, info, context);
}

/// Replaces the range that holds an address by zeros; `false` if none does, or the kernel refuses.
fn replaced(address: usize) -> bool {
    for it in &TABLE {
        let seen = it.state.load(Ordering::Acquire);
        let (base, bytes) = (it.base.load(Ordering::Relaxed), it.bytes.load(Ordering::Relaxed));
        let is_here = address.checked_sub(base).is_some_and(|offset| offset < bytes);
        if !matches!(seen, entry::WHOLE | entry::DAMAGED) || !is_here {
            continue;
        }

        // Marked first: whoever reads the zeros sees the mark.
        it.state.store(entry::DAMAGED, Ordering::SeqCst);
        // SAFETY: the range is the mapping of a ring, of which the faulting access borrows a part,
        // so it is not unmapped meanwhile. All its readers and writers use atomic words, for which
        // zeros are valid. Two threads may do this at the same time: the second one gives zeros
        // again. The system-call filter of loops permits this call.
        let made = unsafe {
            libc::mmap(
                base as *mut libc::c_void,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        return made != libc::MAP_FAILED;
    }
    false
}

/// Does what would have been done without this module.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: with SA_SIGINFO the kernel gives a valid structure.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match before.sa_sigaction {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_IGN | libc::SIG_DFL => {
            let mut default = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: zeros are the default action without flags. The access is repeated after the
            // handler, and ends the process then; a signal sent by a process is sent again.
            unsafe {
                libc::sigaction(signal, default.as_mut_ptr(), null_mut());
                if was_sent {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: an action with SA_SIGINFO holds a function with these arguments.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: an action without SA_SIGINFO holds a function of the signal's number.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
