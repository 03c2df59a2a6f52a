//! Busy waiting for a reply, where it helps.
//!
//! A sleeping thread gets a frame 30 to 50 µs after its arrival; a polling thread gets it at once.
//! When the interrupt of the network card is handled by a thread of lower priority on the same CPU
//! (PREEMPT_RT), the reply cannot arrive while the loop polls, and each wait would take longer by
//! the polling time. `BusyWait` detects this and stops polling.

/// Consecutive waits without a reply while polling after which polling stops.
const MISSES_ALLOWED: u32 = 16;
/// While polling is stopped, one wait in this number polls, to check whether it helps again.
const RETRY_EVERY: u32 = 64;

/// How long to poll for the next reply before the thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BusyWait {
    at_most_ns: u64,
    misses: u32,
}

impl BusyWait {
    pub(super) const fn new(at_most_ns: u64) -> Self {
        Self { at_most_ns, misses: 0 }
    }

    /// Returns how long to poll before sleeping, in ns.
    pub(super) fn poll_ns(self) -> u64 {
        let polls = self.misses < MISSES_ALLOWED || self.misses.is_multiple_of(RETRY_EVERY);
        if polls { self.at_most_ns } else { 0 }
    }

    /// Records whether the reply arrived before the thread slept.
    pub(super) fn record(&mut self, arrived_while_polling: bool) {
        self.misses = if arrived_while_polling { 0 } else { self.misses.wrapping_add(1).max(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_continues_while_replies_arrive_during_it() {
        let mut busy_wait = BusyWait::new(100_000);
        for arrived in [true, false, false, true].into_iter().cycle().take(1_000) {
            assert_eq!(busy_wait.poll_ns(), 100_000);
            busy_wait.record(arrived);
        }
    }

    #[test]
    fn when_replies_never_arrive_while_polling_one_wait_in_64_polls() {
        let mut busy_wait = BusyWait::new(100_000);
        let polled: Vec<u32> = (0..1_000)
            .filter(|_| {
                let polled = busy_wait.poll_ns() > 0;
                busy_wait.record(false);
                polled
            })
            .collect();

        assert_eq!(polled[..MISSES_ALLOWED as usize], (0..MISSES_ALLOWED).collect::<Vec<_>>());
        assert!(
            polled[MISSES_ALLOWED as usize..].iter().all(|wait| wait % RETRY_EVERY == 0),
            "{polled:?}"
        );
        assert_eq!(polled.len(), MISSES_ALLOWED as usize + 15);
        busy_wait.record(true);
        assert_eq!(busy_wait.poll_ns(), 100_000, "one reply is enough to resume polling");
    }

    #[test]
    fn a_limit_of_zero_disables_polling() {
        assert_eq!(BusyWait::new(0).poll_ns(), 0);
    }
}
