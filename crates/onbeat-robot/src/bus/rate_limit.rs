//! Limits the rate of repeated events, so they do not displace other events.

/// Number of cycles without an occurrence that ends a series.
const SERIES_ENDS_AFTER: u64 = 100;
/// In a series, the first occurrence is reported, then each multiple of this number.
const REPORTED_EVERY: u32 = 1_000;
/// Maximum burst of reported series; afterwards one per [`REFILL_EVERY`] cycles.
const MAX_BURST: u32 = 32;
const REFILL_EVERY: u64 = 1_000;

/// Rate limit of one kind of event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventRateLimit {
    in_series: u32,
    last_cycle: u64,
    allowance: u32,
    /// Cycle up to which the allowance was refilled.
    refilled_until: u64,
}

impl Default for EventRateLimit {
    fn default() -> Self {
        Self { in_series: 0, last_cycle: 0, allowance: MAX_BURST, refilled_until: 0 }
    }
}

impl EventRateLimit {
    /// Records an occurrence in this cycle. Returns the count within the series if it is to be
    /// reported.
    pub(crate) fn record(&mut self, cycle: u64) -> Option<u32> {
        let is_first =
            self.in_series == 0 || cycle.saturating_sub(self.last_cycle) > SERIES_ENDS_AFTER;
        self.last_cycle = cycle;
        self.in_series = if is_first { 1 } else { self.in_series.saturating_add(1) };
        let is_reported = if is_first {
            self.allow(cycle)
        } else {
            self.in_series.is_multiple_of(REPORTED_EVERY)
        };
        is_reported.then_some(self.in_series)
    }

    /// Ends the series: the next occurrence is the first of another one.
    pub(super) fn end_series(&mut self) {
        self.in_series = 0;
    }

    /// Returns whether the begin of a condition in this cycle may be reported.
    pub(super) fn allow(&mut self, cycle: u64) -> bool {
        let refill = cycle.saturating_sub(self.refilled_until) / REFILL_EVERY;
        self.refilled_until += refill * REFILL_EVERY;
        self.allowance =
            self.allowance.saturating_add(u32::try_from(refill).unwrap_or(u32::MAX)).min(MAX_BURST);
        let has_room = self.allowance > 0;
        self.allowance = self.allowance.saturating_sub(1);
        has_room
    }

    /// Returns whether it occurred within the last `cycles`.
    pub(super) fn occurred_within(&self, cycles: u64, now: u64) -> bool {
        self.in_series > 0 && now.saturating_sub(self.last_cycle) <= cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_every_thousandth_occurrence_of_a_series_are_reported() {
        let mut limit = EventRateLimit::default();
        let reported: Vec<u32> = (5..3_005).filter_map(|cycle| limit.record(cycle)).collect();
        assert_eq!(reported, [1, 1_000, 2_000, 3_000]);
        assert_eq!(limit.record(3_200), Some(1), "a new series");
        assert_eq!(limit.record(3_290), None, "the same series");
    }

    #[test]
    fn repeated_series_leave_room_for_other_events() {
        let mut limit = EventRateLimit::default();
        let reported =
            (0..1_000_000).step_by(150).filter(|cycle| limit.record(*cycle).is_some()).count();
        assert!((900..=1_040).contains(&reported), "{reported} of 6,667 series in 1,000 s");
        let first = (2_000_000..2_000_040).step_by(1).filter(|cycle| limit.allow(*cycle)).count();
        assert_eq!(first, MAX_BURST as usize);
    }
}
