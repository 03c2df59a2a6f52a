//! What happens again and again is reported now and then: events of a nuisance must not push out those of everything else.

/// Number of cycles without a nuisance that end its row.
const ROW_ENDS_AFTER: u64 = 100;
/// Within a row, the first is reported and then each of these.
const REPORTED_EVERY: u32 = 1_000;
/// Rows whose first is reported, at most, before one is reported in [`ROOM_EVERY`] cycles.
const MOST_ROOM: u32 = 32;
const ROOM_EVERY: u64 = 1_000;

/// One kind of nuisance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nuisance {
    row: u32,
    seen_at: u64,
    room: u32,
    /// Up to which cycle room has been made.
    made_until: u64,
}

impl Default for Nuisance {
    fn default() -> Self {
        Self { row: 0, seen_at: 0, room: MOST_ROOM, made_until: 0 }
    }
}

impl Nuisance {
    /// It is seen in this cycle: how often in this row, when that is to be reported.
    pub(super) fn seen(&mut self, cycle: u64) -> Option<u32> {
        let is_first = self.row == 0 || cycle.saturating_sub(self.seen_at) > ROW_ENDS_AFTER;
        self.seen_at = cycle;
        self.row = if is_first { 1 } else { self.row.saturating_add(1) };
        let is_reported = if is_first { self.begins(cycle) } else { self.row.is_multiple_of(REPORTED_EVERY) };
        is_reported.then_some(self.row)
    }

    /// Something begins in this cycle that lasts until it is said to end: whether that is to be reported.
    pub(super) fn begins(&mut self, cycle: u64) -> bool {
        let made = cycle.saturating_sub(self.made_until) / ROOM_EVERY;
        self.made_until += made * ROOM_EVERY;
        self.room = self.room.saturating_add(u32::try_from(made).unwrap_or(u32::MAX)).min(MOST_ROOM);
        let has_room = self.room > 0;
        self.room = self.room.saturating_sub(1);
        has_room
    }

    /// Whether it was seen within the last `cycles`.
    pub(super) fn was_seen_within(&self, cycles: u64, now: u64) -> bool {
        self.row > 0 && now.saturating_sub(self.seen_at) <= cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_row_the_first_and_every_thousandth_are_reported() {
        let mut nuisance = Nuisance::default();
        let reported: Vec<u32> = (5..3_005).filter_map(|cycle| nuisance.seen(cycle)).collect();
        assert_eq!(reported, [1, 1_000, 2_000, 3_000]);
        assert_eq!(nuisance.seen(3_200), Some(1), "a new row");
        assert_eq!(nuisance.seen(3_290), None, "the same row");
    }

    #[test]
    fn rows_that_end_and_begin_leave_room_for_other_events() {
        let mut nuisance = Nuisance::default();
        let reported = (0..1_000_000).step_by(150).filter(|cycle| nuisance.seen(*cycle).is_some()).count();
        assert!((900..=1_040).contains(&reported), "{reported} of 6,667 rows in 1,000 s");
        let first = (2_000_000..2_000_040).step_by(1).filter(|cycle| nuisance.begins(*cycle)).count();
        assert_eq!(first, MOST_ROOM as usize);
    }
}
