//! Limits the rate of repeated events, so they do not displace other events.

/// Number of cycles without an occurrence that ends a series.
const ROW_ENDS_AFTER: u64 = 100;
/// In a series, the first occurrence is reported, then each multiple of this number.
const REPORTED_EVERY: u32 = 1_000;
/// Maximum burst of reported series; afterwards one per [`ROOM_EVERY`] cycles.
const MOST_ROOM: u32 = 32;
const ROOM_EVERY: u64 = 1_000;

/// Rate limit of one kind of event.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventRateLimit {
    row: u32,
    seen_at: u64,
    room: u32,
    /// Cycle up to which the allowance was refilled.
    made_until: u64,
}

impl Default for EventRateLimit {
    fn default() -> Self {
        Self { row: 0, seen_at: 0, room: MOST_ROOM, made_until: 0 }
    }
}

impl EventRateLimit {
    /// Records an occurrence in this cycle. Returns the count within the series if it is to be reported.
    pub(super) fn record(&mut self, cycle: u64) -> Option<u32> {
        let is_first = self.row == 0 || cycle.saturating_sub(self.seen_at) > ROW_ENDS_AFTER;
        self.seen_at = cycle;
        self.row = if is_first { 1 } else { self.row.saturating_add(1) };
        let is_reported = if is_first { self.allow(cycle) } else { self.row.is_multiple_of(REPORTED_EVERY) };
        is_reported.then_some(self.row)
    }

    /// Returns whether the begin of a condition in this cycle may be reported.
    pub(super) fn allow(&mut self, cycle: u64) -> bool {
        let made = cycle.saturating_sub(self.made_until) / ROOM_EVERY;
        self.made_until += made * ROOM_EVERY;
        self.room = self.room.saturating_add(u32::try_from(made).unwrap_or(u32::MAX)).min(MOST_ROOM);
        let has_room = self.room > 0;
        self.room = self.room.saturating_sub(1);
        has_room
    }

    /// Returns whether it occurred within the last `cycles`.
    pub(super) fn occurred_within(&self, cycles: u64, now: u64) -> bool {
        self.row > 0 && now.saturating_sub(self.seen_at) <= cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_row_the_first_and_every_thousandth_are_reported() {
        let mut limit = EventRateLimit::default();
        let reported: Vec<u32> = (5..3_005).filter_map(|cycle| limit.record(cycle)).collect();
        assert_eq!(reported, [1, 1_000, 2_000, 3_000]);
        assert_eq!(limit.record(3_200), Some(1), "a new row");
        assert_eq!(limit.record(3_290), None, "the same row");
    }

    #[test]
    fn rows_that_end_and_begin_leave_room_for_other_events() {
        let mut limit = EventRateLimit::default();
        let reported = (0..1_000_000).step_by(150).filter(|cycle| limit.record(*cycle).is_some()).count();
        assert!((900..=1_040).contains(&reported), "{reported} of 6,667 rows in 1,000 s");
        let first = (2_000_000..2_000_040).step_by(1).filter(|cycle| limit.allow(*cycle)).count();
        assert_eq!(first, MOST_ROOM as usize);
    }
}
