//! Locks and touches memory before the loop needs it.
#![allow(unsafe_code)]

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};

use super::{Grant, Refusal};

/// Size of the stack that is touched before the loop starts, in bytes.
const STACK_BYTES: usize = 256 * 1024;
/// Size of the heap that is touched and kept by the allocator, in bytes.
const HEAP_BYTES: usize = 1024 * 1024;
const PAGE_BYTES: usize = 4096;

/// Locks all current and future memory of the process, or returns why not. On success the allocator
/// is configured to keep freed memory, because memory that is returned to the kernel must be
/// faulted in again.
pub(super) fn lock() -> Grant {
    let wanted = "all memory of the process (mlockall)";
    if let Err(why) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE) {
        let limit = getrlimit(Resource::Memlock)
            .current
            .map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
        let refusal = Refusal {
            why_not: format!("{why}; the limit of locked memory (RLIMIT_MEMLOCK) is {limit}"),
            costs: "a page fault in a cycle takes 1 to 100 us, and milliseconds when the page is on disk",
            remedy: super::privilege::to_grant(),
        };

        return Grant::refused("locked memory", wanted, refusal);
    }

    keep_freed_memory();
    touch_heap();
    Grant::given("locked memory", wanted)
}

#[cfg(target_env = "gnu")]
fn keep_freed_memory() {
    // SAFETY: mallopt only changes the allocator's own parameters (mallopt(3)).
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
    }
}

#[cfg(not(target_env = "gnu"))]
fn keep_freed_memory() {}

/// Returns freed memory to the kernel. Not for a process with a loop, which would fault it in again.
#[cfg(target_env = "gnu")]
pub fn give_back_freed_memory() {
    // SAFETY: malloc_trim only unmaps and advises memory that no allocation has (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Other allocators return large blocks when they are freed.
#[cfg(not(target_env = "gnu"))]
pub fn give_back_freed_memory() {}

fn touch_heap() {
    let mut heap = vec![0_u8; HEAP_BYTES];
    for page in heap.iter_mut().step_by(PAGE_BYTES) {
        *page = 1;
    }
    std::hint::black_box(&heap);
}

/// Touches the stack that the loop may use.
#[inline(never)]
pub(super) fn touch_stack() {
    let mut stack = [0_u8; STACK_BYTES];
    for page in stack.iter_mut().step_by(PAGE_BYTES) {
        *page = 1;
    }
    std::hint::black_box(&stack);
}
