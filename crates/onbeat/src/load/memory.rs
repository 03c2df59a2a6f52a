//! `memory`: streams through more memory than the last-level cache holds, and maps, writes and
//! unmaps pages.
//!
//! Streaming takes memory bandwidth from a loop. Mapping and unmapping contends for the page
//! allocator's locks and interrupts other CPUs to flush their TLBs.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::bounds;
use super::builtin::{BuiltIn, WorkerContext};
use super::event::PartWork;
use super::ordinary::allowed_cpus;

/// The share of a thread's memory that is mapped again in each round (one eighth); the rest is
/// streamed through.
const CHURN_SHARE: usize = 8;
/// Bytes streamed between two checks for the end.
const STRETCH: usize = 1 << 20;

/// The part `memory`, with one thread for each CPU.
pub(super) struct MemoryLoad {
    threads: usize,
    each_bytes: usize,
    cache_bytes: u64,
    moved: AtomicU64,
    pages: AtomicU64,
}

impl MemoryLoad {
    /// Makes the part, limited by the available memory.
    pub(super) fn new() -> Self {
        let cache_bytes = bounds::last_level_cache();
        let all = bounds::buffer_bytes(bounds::available_memory(), cache_bytes);
        Self::bounded(usize::try_from(all).unwrap_or(usize::MAX), cache_bytes)
    }

    fn bounded(all_bytes: usize, cache_bytes: u64) -> Self {
        let threads = allowed_cpus().len().max(1);
        let each_bytes = (all_bytes / threads).max(16 * page_size()) / page_size() * page_size();
        Self {
            threads,
            each_bytes,
            cache_bytes,
            moved: AtomicU64::new(0),
            pages: AtomicU64::new(0),
        }
    }

    fn stream(&self, words: &mut [u64], context: &WorkerContext) {
        let half = words.len() / 2;
        let (from, to) = words.split_at_mut(half);
        for (from, to) in from.chunks(STRETCH / 8).zip(to.chunks_mut(STRETCH / 8)) {
            if context.is_over() {
                return;
            }

            for (from, to) in from.iter().zip(to.iter_mut()) {
                *to = from.wrapping_add(1);
            }

            self.moved.fetch_add(2 * size_of_val(from) as u64, Ordering::Relaxed);
        }

        std::hint::black_box(to);
    }
}

/// Maps `bytes` (a multiple of the page size), writes to each page, and unmaps all. Returns the
/// number of pages.
fn map_touch_unmap(bytes: usize) -> Result<u64, std::io::Error> {
    // SAFETY: the kernel chooses a range that nothing else uses, since the address given is null.
    let start = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }?;
    for page in (0..bytes).step_by(page_size()) {
        // SAFETY: `page` is below `bytes`, so the byte is in the range mapped above, which only
        // this function knows.
        unsafe { start.cast::<u8>().add(page).write_volatile(1) };
    }

    // SAFETY: the whole range mapped above, to which no reference was made.
    unsafe { munmap(start, bytes) }?;
    Ok((bytes / page_size()) as u64)
}

impl BuiltIn for MemoryLoad {
    fn plan(&self) -> String {
        let all = (self.threads * self.each_bytes) as u64;
        let smaller = if all <= self.cache_bytes { ", which it does not exceed" } else { "" };
        format!(
            "memory: {} threads over {} MiB (last-level cache {} MiB{smaller})",
            self.threads,
            all >> 20,
            self.cache_bytes >> 20
        )
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn work(&self, _: usize, context: &WorkerContext) -> Result<(), std::io::Error> {
        let churn_bytes =
            (self.each_bytes / CHURN_SHARE).max(page_size()) / page_size() * page_size();
        let mut words = vec![1_u64; (self.each_bytes - churn_bytes) / 8];
        while !context.is_over() {
            self.stream(&mut words, context);
            self.pages.fetch_add(map_touch_unmap(churn_bytes)?, Ordering::Relaxed);
        }

        Ok(())
    }

    fn did(&self, _: Duration) -> PartWork {
        PartWork::Memory {
            buffer_bytes: (self.threads * self.each_bytes) as u64,
            bytes_moved: self.moved.load(Ordering::Relaxed),
            pages_mapped: self.pages.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::builtin::try_out;
    use std::sync::Arc;

    #[test]
    fn memory_is_streamed_through_and_pages_are_mapped() {
        let is_enough = |did: &PartWork| {
            matches!(did, PartWork::Memory { buffer_bytes, bytes_moved, pages_mapped: 1.. }
                if bytes_moved > buffer_bytes)
        };
        let (did, words) = try_out(Arc::new(MemoryLoad::bounded(8 << 20, 0)), is_enough);
        let PartWork::Memory { buffer_bytes, bytes_moved, pages_mapped } = did else {
            panic!("{did:?}")
        };
        assert!(
            buffer_bytes <= 8 << 20 && bytes_moved > buffer_bytes && pages_mapped > 0,
            "{did:?}"
        );
        assert!(words.is_empty(), "{words:?}");
    }
}
