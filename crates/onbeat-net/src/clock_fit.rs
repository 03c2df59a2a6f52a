//! The clock of another board, by this board's: an offset with a bound, from packets in both
//! directions.
//!
//! A packet cannot arrive before it was sent. So each exchange limits the other clock from both
//! sides: when it was sent, the other clock showed no more than at its receipt; when its answer
//! came back, no less than at its sending. Both clocks run evenly for the short time of a fit, so
//! the other clock is a line over this one, and the lines that violate no limit are all that is
//! possible. Their middle is the estimate, and half their distance the bound. Packets with the
//! least delay decide; no symmetry of the way is assumed, and no distribution of its delays
//! (Duda, Harrus, Haddad and Bernard, *Estimating Global Time in Distributed Systems*, 1987).
//!
//! Absent on purpose: a servo. Neither clock is set or slewed.

use super::offset_lines::{OffsetLimit, OffsetLines, OffsetRange};

/// Largest difference of the rates of two clocks, in ns per ns: that of two crystals of 100 ppm,
/// each slewed by up to 500 ppm (adjtimex(2)) in opposite directions.
const MOST_DRIFT: f64 = 1.2e-3;
/// Change of the difference of the rates within a fit that the bound allows for: that of crystals
/// without a jump of temperature, and of a slow servo.
const MOST_WANDER: f64 = 1e-6;
/// Rounding of instants to nanoseconds and of `f64`.
const ROUNDING_NS: f64 = 1.0;

/// A packet and its answer: four instants by two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The packet was sent no earlier than this, by this board's clock.
    pub sent_ns: u64,
    /// It had arrived by this instant of the other clock.
    pub received_ns: u64,
    /// Its answer was sent no earlier than this, by the other clock.
    pub answered_ns: u64,
    /// The answer had arrived by this instant of this board's clock.
    pub returned_ns: u64,
}

/// Why no offset is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockFitError {
    /// There is nothing to fit.
    #[error("no packet came back")]
    Empty,
    /// No line fits.
    #[error(
        "no even clock fits {exchanges} exchanges: a clock was set or its rate changed by more than 1 ppm within them"
    )]
    Uneven {
        /// Number of exchanges.
        exchanges: usize,
    },
    /// Two clocks that were said to be one differ.
    #[error(
        "{contradicted} of {exchanges} packets arrived before they were sent: the other board has a clock of its own"
    )]
    NotOneClock {
        /// Exchanges whose instants are not in order.
        contradicted: usize,
        /// Number of exchanges.
        exchanges: usize,
    },
}

/// The other clock by this board's, from the first to the last instant of some exchanges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockFit {
    from_ns: u64,
    to_ns: u64,
    /// Other minus own clock, rounded; limits are relative to it.
    base_ns: i64,
    at_from: OffsetRange,
    at_to: OffsetRange,
    /// Whether both clocks are one.
    is_exact: bool,
}

impl ClockFit {
    /// Fits the other clock to some exchanges, of at most some seconds.
    ///
    /// # Errors
    /// [`ClockFitError`].
    ///
    /// ```
    /// use onbeat_net::clock_fit::{ClockFit, Exchange};
    ///
    /// // The other clock is 1 ms ahead; the packet travels for 20 us, its answer for 40 us.
    /// let exchange =
    ///     Exchange { sent_ns: 0, received_ns: 1_020_000, answered_ns: 1_220_000, returned_ns: 260_000 };
    /// let fit = ClockFit::from_exchanges(&[exchange])?;
    /// assert!((fit.offset_ns(130_000) - 1_000_000).unsigned_abs() <= fit.bound_ns());
    /// assert!(fit.bound_ns() < 35_000);
    /// # Ok::<(), onbeat_net::clock_fit::ClockFitError>(())
    /// ```
    pub fn from_exchanges(exchanges: &[Exchange]) -> Result<Self, ClockFitError> {
        let first = exchanges.first().ok_or(ClockFitError::Empty)?;
        let from_ns = exchanges.iter().map(|one| one.sent_ns).min().unwrap_or(first.sent_ns);
        let to_ns = exchanges.iter().map(|one| one.returned_ns).max().unwrap_or(from_ns);
        let base_ns = difference_ns(first.received_ns, first.sent_ns);
        let limit = |own_ns: u64, other_ns: u64| OffsetLimit {
            at: own_ns.saturating_sub(from_ns) as f64,
            offset: difference_ns(other_ns, own_ns).wrapping_sub(base_ns) as f64,
        };
        let at_most = exchanges.iter().map(|one| limit(one.sent_ns, one.received_ns));
        let at_least = exchanges.iter().map(|one| limit(one.returned_ns, one.answered_ns));
        let span = (to_ns - from_ns) as f64;
        let lines = OffsetLines::between(at_most.collect(), at_least.collect(), span, MOST_DRIFT);
        let uneven = ClockFitError::Uneven { exchanges: exchanges.len() };
        let OffsetLines { at_from, at_to, .. } = lines.ok_or(uneven)?;
        Ok(Self { from_ns, to_ns, base_ns, at_from, at_to, is_exact: false })
    }

    /// Returns the fit of a clock that is this board's own: offset and bound are 0.
    ///
    /// # Errors
    /// [`ClockFitError::Empty`], and [`ClockFitError::NotOneClock`] when instants of an exchange are not
    /// in order.
    pub fn of_one_clock(exchanges: &[Exchange]) -> Result<Self, ClockFitError> {
        let first = exchanges.first().ok_or(ClockFitError::Empty)?;
        let is_in_order = |one: &&Exchange| {
            [one.sent_ns, one.received_ns, one.answered_ns, one.returned_ns].is_sorted()
        };
        let ordered = exchanges.iter().filter(is_in_order).count();
        if ordered < exchanges.len() {
            return Err(ClockFitError::NotOneClock {
                contradicted: exchanges.len() - ordered,
                exchanges: exchanges.len(),
            });
        }
        let to_ns = exchanges.iter().map(|one| one.returned_ns).max().unwrap_or(first.returned_ns);
        let none = OffsetRange { lowest: 0.0, highest: 0.0 };
        Ok(Self {
            from_ns: first.sent_ns,
            to_ns,
            base_ns: 0,
            at_from: none,
            at_to: none,
            is_exact: true,
        })
    }

    /// Returns how far the other clock is ahead of this board's, at an instant of this board's.
    #[must_use]
    pub fn offset_ns(&self, own_ns: u64) -> i64 {
        let along = difference_ns(own_ns, self.from_ns) as f64;
        let offset = self.at_from.middle() + self.drift() * along;
        self.base_ns.wrapping_add(offset.round() as i64)
    }

    /// Returns the largest error of the offset at any instant between the first and the last
    /// exchange, in ns: half of what is possible, and 1 ppm of the time for a rate that changes.
    #[must_use]
    pub fn bound_ns(&self) -> u64 {
        if self.is_exact {
            return 0;
        }
        let half = |range: OffsetRange| (range.highest - range.lowest) / 2.0;
        let wander = MOST_WANDER * (self.to_ns - self.from_ns) as f64;
        (half(self.at_from).max(half(self.at_to)) + wander + ROUNDING_NS).ceil() as u64
    }

    /// Returns how much faster the other clock runs, in ppm.
    #[must_use]
    pub fn drift_ppm(&self) -> f64 {
        self.drift() * 1e6
    }

    /// Returns an instant of the other clock by this board's.
    #[must_use]
    pub fn own_ns(&self, other_ns: u64) -> u64 {
        // Each round is better by the rates' difference, so that the third is exact to a nanosecond.
        (0..3).fold(other_ns.wrapping_sub(self.base_ns.cast_unsigned()), |own_ns, _| {
            other_ns.wrapping_sub(self.offset_ns(own_ns).cast_unsigned())
        })
    }

    fn drift(&self) -> f64 {
        let span = (self.to_ns - self.from_ns) as f64;
        if span > 0.0 { (self.at_to.middle() - self.at_from.middle()) / span } else { 0.0 }
    }
}

/// The difference of two instants of any clocks, as a signed number.
const fn difference_ns(one_ns: u64, other_ns: u64) -> i64 {
    one_ns.wrapping_sub(other_ns).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchanges of a board whose clock is ahead by `offset_ns` at 0 and runs faster by `drift`;
    /// each way takes between 10 us and `most_ns`.
    fn exchanges(offset_ns: i64, drift: f64, most_ns: u64, seed: u64) -> Vec<Exchange> {
        let mut random = fastrand::Rng::with_seed(seed);
        let start_ns = 5_000_000_000_u64;
        let other = |own_ns: u64| {
            own_ns
                .wrapping_add((offset_ns + (drift * own_ns as f64).round() as i64).cast_unsigned())
        };
        (0..500)
            .map(|number| {
                let sent_ns = start_ns + number * 2_000_000;
                let arrives = sent_ns + random.u64(10_000..=most_ns);
                let answered = arrives + 200_000;
                let returned_ns = answered + random.u64(10_000..=most_ns);
                let (received_ns, answered_ns) = (other(arrives), other(answered));
                Exchange { sent_ns, received_ns, answered_ns, returned_ns }
            })
            .collect()
    }

    #[test]
    fn the_bound_holds_the_true_offset_of_any_two_even_clocks() {
        let mut widest = 0;
        for (number, drift) in [0.0, 1e-6, -40e-6, 137e-6, -600e-6].into_iter().enumerate() {
            for offset_ns in [0, 1, -2_500_000, 9_000_000_000_000, -4_000_000_000] {
                let all = exchanges(offset_ns, drift, 400_000, 7 + number as u64);
                let fit = ClockFit::from_exchanges(&all).expect("even clocks");
                for exchange in &all {
                    for own_ns in [exchange.sent_ns, exchange.returned_ns] {
                        let truth_ns = offset_ns + (drift * own_ns as f64).round() as i64;
                        let error_ns = (fit.offset_ns(own_ns) - truth_ns).unsigned_abs();
                        assert!(
                            error_ns <= fit.bound_ns(),
                            "{drift} {offset_ns}: {error_ns} {fit:?}"
                        );
                    }
                }
                assert!((fit.drift_ppm() - drift * 1e6).abs() < 50.0, "{drift}: {fit:?}");
                widest = widest.max(fit.bound_ns());
            }
        }
        // The least delay of either way is 10 us, and 1 us is for a rate that wanders.
        assert!((11_000..30_000).contains(&widest), "{widest}");
    }

    #[test]
    fn an_instant_of_the_other_clock_is_found_on_this_one() {
        let all = exchanges(3_000_000_000, 200e-6, 50_000, 3);
        let fit = ClockFit::from_exchanges(&all).expect("even clocks");
        for exchange in &all {
            let own_ns = fit.own_ns(exchange.received_ns);
            assert_eq!(exchange.received_ns, own_ns.wrapping_add_signed(fit.offset_ns(own_ns)));
            assert!(own_ns + fit.bound_ns() >= exchange.sent_ns, "received after it was sent");
        }
    }

    #[test]
    fn a_clock_that_was_set_in_between_fits_no_line() {
        let mut all = exchanges(1_000, 10e-6, 100_000, 5);
        for exchange in &mut all[250..] {
            exchange.received_ns += 3_000_000;
            exchange.answered_ns += 3_000_000;
        }
        assert_eq!(ClockFit::from_exchanges(&all), Err(ClockFitError::Uneven { exchanges: 500 }));
        assert_eq!(ClockFit::from_exchanges(&[]), Err(ClockFitError::Empty));
    }

    #[test]
    fn a_clock_of_its_own_is_not_taken_for_one_clock() {
        let own = exchanges(0, 0.0, 400_000, 9);
        let fit = ClockFit::of_one_clock(&own).expect("one clock");
        assert_eq!((fit.bound_ns(), fit.offset_ns(own[7].sent_ns)), (0, 0));
        assert_eq!(fit.own_ns(own[7].received_ns), own[7].received_ns);

        let ahead = exchanges(500_000, 0.0, 400_000, 9);
        let refused = ClockFit::of_one_clock(&ahead).expect_err("another clock");
        assert!(matches!(refused, ClockFitError::NotOneClock { contradicted: 1.., .. }));
    }

    #[test]
    fn one_exchange_is_bounded_by_its_own_delay() {
        let all = exchanges(77_000, 0.0, 10_000, 1);
        let fit = ClockFit::from_exchanges(&all[..1]).expect("one");
        let error_ns = (fit.offset_ns(all[0].sent_ns) - 77_000).unsigned_abs();
        assert!(error_ns <= fit.bound_ns() && fit.bound_ns() <= 15_000, "{fit:?}");
    }
}
