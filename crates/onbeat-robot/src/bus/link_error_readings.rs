//! What the error counters of one device say, reading by reading.

use onbeat_ethercat::link_errors::{ERROR_BYTES, ErrorCount, ErrorCounter, LinkErrors};

/// Readings of the error counters of one device.
///
/// A changed reading counts when it is confirmed by another one, so a bit error in a reply makes no
/// errors. Counters that went down were cleared, by a power cycle or by another program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkErrorReadings {
    confirmed: Option<[u8; ERROR_BYTES]>,
    unconfirmed: Option<[u8; ERROR_BYTES]>,
    totals: LinkErrors,
}

impl LinkErrorReadings {
    /// Returns the errors since the first reading; `None` before it.
    pub(super) fn totals(&self) -> Option<LinkErrors> {
        self.confirmed.map(|_| self.totals)
    }

    /// Takes a reading, and reports each counter that shows where errors arose and went up, with its
    /// counts before and now. Returns whether another reading is needed soon to confirm this one.
    pub(super) fn take(
        &mut self,
        reply: &[u8],
        mut report: impl FnMut(ErrorCounter, ErrorCount, ErrorCount),
    ) -> bool {
        let Ok(read) = <[u8; ERROR_BYTES]>::try_from(reply) else { return false };
        if self.confirmed == Some(read) {
            self.unconfirmed = None;
            return false;
        }
        let Some(first) = self.unconfirmed.take() else {
            self.unconfirmed = Some(read);
            return true;
        };

        let Some(confirmed) = &mut self.confirmed else {
            self.confirmed = Some(std::array::from_fn(|at| first[at].min(read[at])));
            return false;
        };
        for counter in ErrorCounter::all() {
            let at = counter.offset();
            let before = confirmed[at];
            let now = confirmed_value(before, first[at], read[at]);
            confirmed[at] = now;
            let more = if now >= before { now - before } else { now };
            if more == 0 {
                continue;
            }

            let total_before = self.totals.of(counter);
            let total = total_before.plus(more, now == u8::MAX);
            self.totals.set(counter, total);
            if counter.is_origin() {
                report(counter, total_before, total);
            }
        }

        false
    }
}

/// Returns the value of a counter after two readings: what both confirm, since it may have counted
/// on in between.
fn confirmed_value(before: u8, first: u8, second: u8) -> u8 {
    if first == second || (first >= before && second >= before) {
        first.min(second)
    } else {
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVALID: ErrorCounter = ErrorCounter::InvalidFrames(1);

    fn reading(count: u8) -> [u8; ERROR_BYTES] {
        let mut bytes = [0; ERROR_BYTES];
        bytes[INVALID.offset()] = count;
        bytes
    }

    /// Returns what is reported for readings of one counter, each of them made twice.
    fn reported(counts: &[u8]) -> Vec<String> {
        let mut readings = LinkErrorReadings::default();
        let mut said = Vec::new();
        for count in counts.iter().flat_map(|count| [*count, *count]) {
            readings.take(&reading(count), |counter, before, now| {
                assert_eq!(counter, INVALID);
                said.push(format!("{before} to {now}"));
            });
        }
        said
    }

    #[test]
    fn errors_from_before_the_bus_came_up_are_not_counted() {
        assert_eq!(reported(&[200, 200, 203, 203, 204]), ["0 to 3", "3 to 4"]);
    }

    #[test]
    fn a_full_counter_is_reported_once_as_a_lower_bound() {
        assert_eq!(reported(&[250, 255, 255, 255]), ["0 to >= 5"]);
    }

    #[test]
    fn a_cleared_counter_goes_on_from_the_errors_before() {
        assert_eq!(reported(&[7, 9, 0, 3]), ["0 to 2", "2 to 5"]);
        assert_eq!(reported(&[0, 255, 0, 1]), ["0 to >= 255", ">= 255 to >= 256"]);
    }

    #[test]
    fn a_bit_error_in_one_reply_makes_no_errors() {
        for flipped in [128 | 5, 4, 0] {
            let mut readings = LinkErrorReadings::default();
            let mut no_error = |_, before, now| panic!("{flipped}: {before} to {now}");
            for count in [5, 5, 5, flipped, 5, 5, flipped, 5, 5] {
                readings.take(&reading(count), &mut no_error);
            }
            assert_eq!(readings.totals(), Some(LinkErrors::default()));
        }
    }

    #[test]
    fn a_counter_that_counts_on_between_two_readings_is_confirmed_by_the_smaller_one() {
        let mut readings = LinkErrorReadings::default();
        let mut last = ErrorCount::default();
        for count in [0, 0, 4, 6, 6, 6] {
            readings.take(&reading(count), |_, _, now| last = now);
        }
        assert_eq!(last, ErrorCount::exactly(6), "nothing is lost");
    }
}
