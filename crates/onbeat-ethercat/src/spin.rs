//! Waiting for a reply awake, where that pays.
//!
//! A thread that sleeps is told of a frame some 30 to 50 µs after it came; one that looks again and again sees it at once. Where the
//! network card's interrupt is handled by a thread of lower priority on the same CPU (PREEMPT_RT), the reply cannot come while the loop is
//! awake: then every wait would last longer by what is spent looking, and this is noticed.

/// Waits without a reply while awake, in a row, after which it does not pay.
const ENOUGH: u32 = 16;
/// From then on each of so many waits begins awake, to see whether it pays again.
const TRIED_EVERY: u32 = 64;

/// How long the next reply is waited for before the thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spin {
    at_most_ns: u64,
    in_vain: u32,
}

impl Spin {
    pub(super) const fn at_most(at_most_ns: u64) -> Self {
        Self { at_most_ns, in_vain: 0 }
    }

    /// Time to look for a reply before sleeping, in ns.
    pub(super) fn awake_ns(self) -> u64 {
        let pays = self.in_vain < ENOUGH || self.in_vain.is_multiple_of(TRIED_EVERY);
        if pays { self.at_most_ns } else { 0 }
    }

    /// How a wait ended: whether the reply came before the thread slept.
    pub(super) fn ended(&mut self, came_while_awake: bool) {
        self.in_vain = if came_while_awake { 0 } else { self.in_vain.wrapping_add(1).max(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_waited_for_awake_as_long_as_it_comes_in_that_time() {
        let mut spin = Spin::at_most(100_000);
        for came in [true, false, false, true].into_iter().cycle().take(1_000) {
            assert_eq!(spin.awake_ns(), 100_000);
            spin.ended(came);
        }
    }

    #[test]
    fn where_replies_never_come_while_awake_one_wait_in_64_begins_so() {
        let mut spin = Spin::at_most(100_000);
        let awake: Vec<u32> = (0..1_000)
            .filter(|_| {
                let awake = spin.awake_ns() > 0;
                spin.ended(false);
                awake
            })
            .collect();

        assert_eq!(awake[..ENOUGH as usize], (0..ENOUGH).collect::<Vec<_>>());
        assert!(awake[ENOUGH as usize..].iter().all(|wait| wait % TRIED_EVERY == 0), "{awake:?}");
        assert_eq!(awake.len(), ENOUGH as usize + 15);
        spin.ended(true);
        assert_eq!(spin.awake_ns(), 100_000, "one that comes is enough to go back to it");
    }

    #[test]
    fn nothing_is_waited_for_awake_when_that_is_not_wanted() {
        assert_eq!(Spin::at_most(0).awake_ns(), 0);
    }
}
