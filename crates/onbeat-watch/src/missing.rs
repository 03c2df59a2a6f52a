//! Waits that were not seen: the kernel's count against the events.

use onbeat_rt::Instant;

use crate::process::ThreadCounters;
use crate::waits::WaitAssembler;

/// Waits that the kernel counted and no event shows. What it had counted at one look is compared at
/// the next one, when the events until then are complete.
#[derive(Debug)]
pub(crate) struct MissingWaits {
    tid: u32,
    /// Counted when the recording began.
    baseline: u64,
    counted: (u64, Instant),
    /// Seen before that: the programs that record causes begin earlier.
    seen_before: Option<u64>,
    found: u64,
}

impl MissingWaits {
    pub(crate) const fn new(tid: u32, baseline: u64, at: Instant) -> Self {
        Self { tid, baseline, counted: (baseline, at), seen_before: None, found: 0 }
    }

    pub(crate) fn of_all(tids: &[u32], at: Instant) -> Vec<Self> {
        let waits = |tid: u32| ThreadCounters::read(tid).unwrap_or_default().waits;
        tids.iter().map(|tid| Self::new(*tid, waits(*tid), at)).collect()
    }

    const fn count(&mut self, waits: u64, at: Instant) {
        self.counted = (waits, at);
    }

    /// Returns how many more of all threads are missing, and keeps what was counted of them since.
    pub(crate) fn found_of_all(
        all: &mut [Self],
        assembler: &WaitAssembler,
        (counted, at): (&[Option<ThreadCounters>], Instant),
    ) -> u64 {
        let found = all.iter_mut().zip(counted).map(|(missing, counted)| {
            let found = missing.found(assembler);
            if let Some(counted) = counted {
                missing.count(counted.waits, at);
            }
            found
        });
        found.sum()
    }

    /// Returns how many more are missing than at the look before.
    fn found(&mut self, assembler: &WaitAssembler) -> u64 {
        let (counted, at) = self.counted;
        let seen = assembler.waits_until(self.tid, at);
        // At the first look, what was counted last is the baseline.
        let seen = seen.saturating_sub(*self.seen_before.get_or_insert(seen));
        let missing = counted.saturating_sub(self.baseline).saturating_sub(seen);
        let more = missing.saturating_sub(self.found);
        self.found += more;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ThreadEvent, What};

    #[test]
    fn waits_that_the_kernel_counted_and_no_event_shows_are_found_once_at_the_next_look() {
        let at = |ms: u64| Instant::from_ns((ms + 100) * 1_000_000);
        let mut assembler = WaitAssembler::default();
        let mut sleep = |ms| {
            let event = ThreadEvent { at: at(ms), cpu: 0, tid: 7, what: What::Sleep };
            assembler.take(&event, &mut Vec::new());
        };
        // Two were seen before the run began. Of ten waits until 10 ms two have no event; five more came after the count.
        [0, 0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15].into_iter().for_each(&mut sleep);
        let mut missing = MissingWaits::new(7, 100, at(0));
        assert_eq!(missing.found(&assembler), 0);
        missing.count(110, at(10));
        assert_eq!(missing.found(&assembler), 2);
        assert_eq!(missing.found(&assembler), 0, "once");
    }
}
