//! A loop that touches memory for the first time in each cycle, as one does that allocates: what
//! locked memory is worth is the page faults that it avoids.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Cycle, Flow, Outcome, Plan, Producer, Sample, Task};

use crate::probe::ProbeError;
use crate::probe::description::{Body, Companion, Parts};
use crate::probe::timer::work;
use onbeat_record::{NoFigures, Recorder};

const PAGE_BYTES: usize = 4096;
/// Memory of a block, in pages of 4 KiB. A longer block touches the same pages again.
const BLOCK_PAGES: usize = 32_768;

/// Returns the parts of a loop that works for `work_ns` and touches `pages` fresh pages in each
/// cycle.
#[must_use]
pub fn parts(work_ns: u64, pages: u32) -> Parts {
    let supply = FreshSupply::default();
    Parts {
        body: Box::new(FreshLoop {
            supply: supply.clone(),
            memory: Vec::new(),
            at: 0,
            work_ns,
            pages,
        }),
        figures: Box::new(NoFigures),
        companion: Box::new(supply),
    }
}

/// The memory of the next block. It is made between blocks, since with locked memory that takes
/// longer than a cycle.
#[derive(Clone, Debug, Default)]
struct FreshSupply(Arc<Mutex<Vec<u8>>>);

impl FreshSupply {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the memory by pages that nobody has touched; the allocator takes as much from the
    /// kernel, zeroed.
    fn renew(&self) {
        drop(self.take());
        let fresh = vec![0; BLOCK_PAGES * PAGE_BYTES];
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
    }
}

impl Companion for FreshSupply {
    fn start(&mut self) -> Result<(), ProbeError> {
        self.renew();
        Ok(())
    }

    fn after_block(&mut self, _: &mut Recorder) {
        self.renew();
    }
}

/// A loop whose cycles write to the next pages.
struct FreshLoop {
    supply: FreshSupply,
    /// The memory of the block that runs.
    memory: Vec<u8>,
    at: usize,
    work_ns: u64,
    pages: u32,
}

impl Body for FreshLoop {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        (self.memory, self.at) = (self.supply.take(), 0);
        let outcome = onbeat_rt::cycle::run(&Monotonic, plan, self, hot, stop);
        // Unmapping 128 MiB is not the loop's work.
        let used = std::mem::take(&mut self.memory);
        *self.supply.0.lock().unwrap_or_else(PoisonError::into_inner) = used;
        outcome
    }
}

impl FreshLoop {
    fn touch(&mut self) {
        for _ in 0..self.pages {
            if let Some(byte) = self.memory.get_mut(self.at) {
                *black_box(byte) = 1;
            }
            self.at += PAGE_BYTES;
            if self.at >= self.memory.len() {
                self.at = 0;
            }
        }
    }
}

impl Task for FreshLoop {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        self.touch();
        work(cycle.start, self.work_ns);
        Flow::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cycle_touches_the_next_pages_and_a_long_block_begins_again() {
        let memory = vec![0; 5 * PAGE_BYTES];
        let supply = FreshSupply::default();
        let mut task = FreshLoop { supply, memory, at: 0, work_ns: 0, pages: 2 };
        let touched = |task: &FreshLoop| task.memory.iter().filter(|byte| **byte == 1).count();

        task.touch();
        assert_eq!((touched(&task), task.at), (2, 2 * PAGE_BYTES));
        task.touch();
        task.touch();
        assert_eq!((touched(&task), task.at), (5, PAGE_BYTES));
    }

    #[test]
    fn the_memory_of_each_block_is_new() {
        let mut supply = FreshSupply::default();
        supply.start().unwrap();
        let mut first = supply.take();
        assert_eq!(first.len(), BLOCK_PAGES * PAGE_BYTES);
        first[0] = 1;
        *supply.0.lock().unwrap() = first;
        supply.renew();
        assert_eq!(supply.take()[0], 0);
    }
}
