//! The guest's clock on the host's: all straight lines that no exchange contradicts.
//!
//! Each exchange says that the line passes between two points: at the guest's stamp, between the
//! host's two readings. The lines that pass between all of them are the possible relations of the
//! two clocks; how far they lie apart is the error bound. Nothing is assumed about the ways there
//! and back. The lines themselves are found by [`onbeat_net::offset_lines`], as those of two boards are.

use onbeat_net::offset_lines::{OffsetLimit, OffsetLines, OffsetRange};
use onbeat_rt::Instant;

use super::exchange::PageExchange;

/// Largest difference of the two clocks' rates that is looked for: 2,000 ppm, more than the
/// kernel's own calibration of a time stamp counter is wrong by in an emulator.
const MOST_SLOPE: f64 = 2e-3;

/// No relation of the clocks fits the exchanges.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NotRelated {
    /// There are no exchanges.
    #[error("{exchanges} exchanges with the guest's clock arrived; at least 2 are needed")]
    TooFew {
        /// Their number.
        exchanges: usize,
    },
    /// Every straight line contradicts an exchange.
    #[error(
        "the guest's clock does not run evenly: every straight line contradicts one of {exchanges} exchanges. Choose another clock source in the guest (clocksource=hpet)"
    )]
    NotCausal {
        /// Number of exchanges.
        exchanges: usize,
    },
}

/// The instants of the host's clock that an instant of the guest's may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostInterval {
    /// Not before.
    pub earliest: Instant,
    /// Not after.
    pub latest: Instant,
}

/// The relation of a guest's clock to the host's.
#[derive(Clone, Copy, Debug)]
pub struct ClockRelation {
    origin: Instant,
    base_ns: i128,
    /// Of the host's clock from the guest's, from the first stamp to the last.
    lines: OffsetLines,
    /// Nanoseconds between these.
    span: f64,
    /// Number of exchanges.
    pub exchanges: usize,
    /// The shortest time from request to reply, in nanoseconds.
    pub least_delay_ns: u64,
}

fn difference(host: Instant, guest: Instant) -> i128 {
    i128::from(host.as_ns()) - i128::from(guest.as_ns())
}

impl ClockRelation {
    /// Returns the relation that all exchanges leave; they must be in order of time.
    ///
    /// # Errors
    /// [`NotRelated`].
    pub fn fit(exchanges: &[PageExchange]) -> Result<Self, NotRelated> {
        let [first, .., last] = exchanges else {
            return Err(NotRelated::TooFew { exchanges: exchanges.len() });
        };
        let base_ns = difference(first.sent, first.stamp);
        let limit = |host: Instant, stamp: Instant| OffsetLimit {
            at: stamp.ns_since(first.stamp) as f64,
            offset: (difference(host, stamp) - base_ns) as f64,
        };
        let least = exchanges.iter().map(|one| limit(one.sent, one.stamp)).collect();
        let most = exchanges.iter().map(|one| limit(one.received, one.stamp)).collect();

        let span = last.stamp.ns_since(first.stamp) as f64;
        let lines = OffsetLines::between(most, least, span, MOST_SLOPE);
        Ok(Self {
            origin: first.stamp,
            base_ns,
            lines: lines.ok_or(NotRelated::NotCausal { exchanges: exchanges.len() })?,
            span,
            exchanges: exchanges.len(),
            least_delay_ns: exchanges.iter().map(PageExchange::delay_ns).min().unwrap_or_default(),
        })
    }

    fn x(&self, guest: Instant) -> f64 {
        difference(guest, self.origin) as f64
    }

    fn on_host(&self, guest: Instant, offset: f64) -> Instant {
        let ns = i128::from(guest.as_ns()) + self.base_ns + offset.round() as i128;
        Instant::from_ns(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns an instant of the guest's clock on the host's, by a line that no exchange
    /// contradicts.
    #[must_use]
    pub fn to_host(&self, guest: Instant) -> Instant {
        let line = self.lines.amid;
        self.on_host(guest, line.offset + line.slope * self.x(guest))
    }

    /// Returns all instants of the host's clock that an instant of the guest's may be. Between the
    /// first and the last exchange, bounds of lines lie below the chord between theirs at the ends.
    #[must_use]
    pub fn interval(&self, guest: Instant) -> HostInterval {
        let x = self.x(guest);
        let OffsetLines { at_from, at_to, slopes, .. } = self.lines;
        let (lower, upper) = if x < 0.0 {
            (at_from.lowest + slopes.highest * x, at_from.highest + slopes.lowest * x)
        } else if x > self.span {
            let after = x - self.span;
            (at_to.lowest + slopes.lowest * after, at_to.highest + slopes.highest * after)
        } else {
            let share = if self.span > 0.0 { x / self.span } else { 0.0 };
            let between = |a: f64, b: f64| a + (b - a) * share;
            (between(at_from.lowest, at_to.lowest), between(at_from.highest, at_to.highest))
        };
        HostInterval {
            earliest: self.on_host(guest, lower.floor()),
            latest: self.on_host(guest, upper.ceil()),
        }
    }

    /// Returns the largest width of [`Self::interval`] between the first and the last exchange, in
    /// nanoseconds: the error bound of the relation.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        let width = |end: OffsetRange| (end.highest.ceil() - end.lowest.floor()).max(0.0) as u64;
        width(self.lines.at_from).max(width(self.lines.at_to))
    }

    /// Returns the offset at the first exchange, in nanoseconds: what is added to the guest's clock.
    #[must_use]
    pub const fn offset_ns(&self) -> i128 {
        self.base_ns + self.lines.amid.offset as i128
    }

    /// Returns how much faster the host's clock runs than the guest's, in parts per million.
    #[must_use]
    pub fn drift_ppm(&self) -> f64 {
        self.lines.amid.slope * 1e6
    }

    /// Returns the number of exchanges whose stamp, on the host's clock, is not between the host's
    /// two readings.
    #[must_use]
    pub fn violations(&self, exchanges: &[PageExchange]) -> usize {
        let is_outside = |one: &&PageExchange| {
            let at = self.to_host(one.stamp);
            at < one.sent || at > one.received
        };
        exchanges.iter().filter(is_outside).count()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Exchanges of two rows, ten seconds apart, with a guest whose clock began 100 s later than the
    /// host's and is slower by `ppm`.
    fn exchanges(ppm: f64, ways: &[(u64, u64)]) -> Vec<PageExchange> {
        let at = |number: usize| {
            let row = if number < ways.len() / 2 { 0 } else { 10 * SECOND };
            500 * SECOND + row + number as u64 * 20_000
        };
        let guest =
            |host: u64| 400 * SECOND + ((host - 500 * SECOND) as f64 * (1.0 - ppm / 1e6)) as u64;
        let one = |(number, (there, back)): (usize, &(u64, u64))| PageExchange {
            sent: Instant::from_ns(at(number)),
            stamp: Instant::from_ns(guest(at(number) + there)),
            received: Instant::from_ns(at(number) + there + back),
        };
        ways.iter().enumerate().map(one).collect()
    }

    proptest! {
        #[test]
        fn the_true_instant_is_in_the_interval_and_no_exchange_is_contradicted(
            ppm in -300.0..300.0_f64,
            ways in proptest::collection::vec((500_u64..50_000, 500_u64..50_000), 20..100),
            ns in 0..10 * SECOND,
        ) {
            let exchanges = exchanges(ppm, &ways);
            let relation = ClockRelation::fit(&exchanges).expect("a relation");
            prop_assert_eq!(relation.violations(&exchanges), 0);

            let truth = 500 * SECOND + ns;
            let guest = 400 * SECOND + (ns as f64 * (1.0 - ppm / 1e6)) as u64;
            let HostInterval { earliest, latest } = relation.interval(Instant::from_ns(guest));
            // Whole nanoseconds of the guest's clock leave one of the host's open.
            prop_assert!(earliest.as_ns() <= truth + 2 && truth <= latest.as_ns() + 2);
            let middle = relation.to_host(Instant::from_ns(guest));
            prop_assert!(earliest <= middle && middle <= latest);
        }
    }

    #[test]
    fn the_fastest_exchanges_of_both_rows_set_the_width() {
        let mut ways = vec![(40_000, 60_000); 200];
        ways[30] = (1_000, 2_000);
        ways[170] = (2_000, 1_000);
        let exchanges = exchanges(0.0, &ways);
        let relation = ClockRelation::fit(&exchanges).expect("a relation");
        assert_eq!(relation.least_delay_ns, 3_000);
        // Beyond the fastest exchange of a row the slope is uncertain by some nanoseconds.
        assert!((3_000..3_100).contains(&relation.width_ns()), "{}", relation.width_ns());
        assert!((relation.offset_ns() - 100 * i128::from(SECOND)).abs() < 3_000);
    }

    #[test]
    fn a_drift_is_found() {
        let relation = ClockRelation::fit(&exchanges(80.0, &[(1_000, 1_000); 100])).expect("one");
        assert!((relation.drift_ppm() - 80.0).abs() < 1.0, "{}", relation.drift_ppm());
    }

    #[test]
    fn a_clock_that_was_set_in_between_is_refused() {
        let mut stepped = exchanges(0.0, &[(1_000, 1_000); 60]);
        for one in &mut stepped[10..20] {
            one.stamp = one.stamp.plus_ns(7_000);
        }
        let refused = ClockRelation::fit(&stepped).expect_err("no line").to_string();
        assert!(refused.contains("of 60 exchanges"), "{refused}");
        assert!(matches!(
            ClockRelation::fit(&stepped[..1]),
            Err(NotRelated::TooFew { exchanges: 1 })
        ));
    }

    #[test]
    fn a_relation_of_other_exchanges_is_noticed() {
        let exchanges = exchanges(0.0, &[(1_000, 1_000); 60]);
        let relation = ClockRelation::fit(&exchanges).expect("a relation");
        let late = |one: &PageExchange| PageExchange { stamp: one.stamp.plus_ns(5_000), ..*one };
        let wrong: Vec<PageExchange> = exchanges.iter().map(late).collect();
        assert_eq!(relation.violations(&wrong), 60);
    }
}
