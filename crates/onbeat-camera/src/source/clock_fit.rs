//! The clock of a source on the clock of this machine.

/// How much faster or slower another clock may run: the fit forgets its earliest arrival at this rate.
const DRIFT: f64 = 200e-6;
/// A longer step back is of a clock that was set: pictures that come in another order than they are shown step back by less.
const MOST_BACK_NS: u64 = 2_000_000_000;

/// Fits the times of a source to their arrivals: the arrival with the least delay is taken as without
/// delay, so a fitted time is never later than the arrival, and its error is that least delay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClockFit {
    /// Arrival minus source time of the least delayed one, in ns, and its arrival.
    least: Option<(i64, u64)>,
    /// The latest source time, and that of the call before.
    latest_ns: u64,
    before_ns: Option<u64>,
}

impl ClockFit {
    /// Returns when something stamped `source_ns` happened that arrived at `arrival_ns`: its arrival if it has the stamp of the one
    /// before, as all pictures of some cameras.
    pub(super) fn at(&mut self, source_ns: u64, arrival_ns: u64) -> u64 {
        if source_ns.saturating_add(MOST_BACK_NS) < self.latest_ns {
            *self = Self::default();
        }
        self.latest_ns = self.latest_ns.max(source_ns);
        if self.before_ns.replace(source_ns) == Some(source_ns) {
            return arrival_ns;
        }
        // A camera can state any rate and any stamp: what overflows is far from every arrival.
        let offset = arrival_ns.wrapping_sub(source_ns).cast_signed();
        let drift_since = |at: u64| (arrival_ns.saturating_sub(at) as f64 * DRIFT) as i64;
        let allowed = self.least.map(|(least, at)| least.saturating_add(drift_since(at)));
        let is_least = allowed.is_none_or(|allowed| offset <= allowed);
        if is_least {
            self.least = Some((offset, arrival_ns));
        }
        let used = allowed.filter(|_| !is_least).unwrap_or(offset);
        source_ns.checked_add_signed(used).unwrap_or(arrival_ns).min(arrival_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn delays_are_seen_against_the_least_one() {
        let mut fit = ClockFit::default();
        let mut delay_of = |k: u64, delay: u64| {
            let arrival = 5_000 * MS + k * 33 * MS + delay;
            arrival - fit.at(77 * MS + k * 33 * MS, arrival)
        };
        assert_eq!(delay_of(0, 3 * MS), 0, "the first one is all that is known");
        assert_eq!(delay_of(1, MS), 0, "less delay");
        let seen = delay_of(2, 9 * MS);
        assert!((7 * MS..=8 * MS).contains(&seen), "{seen}");
    }

    #[test]
    fn a_clock_that_stands_still_gives_no_delay() {
        let mut fit = ClockFit::default();
        for k in 0..100_u64 {
            let arrival = 90_000 * MS + k * 33 * MS;
            assert_eq!(fit.at(0, arrival), arrival, "{k}");
        }
    }

    #[test]
    fn no_stamp_is_too_far_away() {
        let arrival = 90_000 * MS;
        for source in [1_u64 << 63, (1_u64 << 63) + arrival + 1, u64::MAX - 1] {
            let mut fit = ClockFit::default();
            for k in 0..2_u64 {
                let arrival = arrival + k * 33 * MS;
                assert!(fit.at(source + k, arrival) <= arrival, "{source} {k}");
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_back_is_fitted_again() {
        let mut fit = ClockFit::default();
        for k in 0..100_u64 {
            let arrival = 90_000 * MS + k * 33 * MS;
            // Every other picture is shown before the one that comes before it; after 50, an hour less.
            let shown = (k ^ 1) * 33 * MS;
            let source = if k < 50 { 3_600_000 * MS + shown } else { shown };
            let delay = arrival - fit.at(source, arrival);
            assert!(delay <= 67 * MS, "{k}: {delay} ns");
        }
    }

    #[test]
    fn a_clock_that_runs_slower_is_followed() {
        let mut fit = ClockFit::default();
        for k in 0..10_000_u64 {
            let arrival = k * 33 * MS;
            // 100 ppm slower: 33 ms after 10,000 pictures.
            let source = (arrival as f64 * (1.0 - 100e-6)) as u64;
            let at = fit.at(source, arrival);
            assert!(arrival - at < MS, "{k}: {} ns", arrival - at);
        }
    }
}
