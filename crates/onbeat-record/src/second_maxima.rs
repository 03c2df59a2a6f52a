//! Largest values, second by second, of runs whose intervals are longer than a second.

use std::collections::BTreeMap;

use onbeat_rt::Instant;
use onbeat_rt::time::SECOND_NS;

use super::note::{Maxima, Note};
use super::recording::TimeOrigin;
use super::run_writer::{RunWriter, WriteError};
use super::series::Series;

/// A `maxima` note is written when it holds this many values: what kill -9 can lose of them.
const MAXIMA_PER_NOTE: usize = 10;
/// The series whose maxima are kept second by second in long runs.
pub(super) const MAXIMA_OF: [Series; 3] =
    [Series::ReleaseLatency, Series::ObservedPeriod, Series::ResponseTime];

/// Largest values, second by second.
pub(super) struct SecondMaxima {
    from: Instant,
    rows: Vec<[u64; MAXIMA_OF.len()]>,
}

impl SecondMaxima {
    pub(super) fn from(from: Instant) -> Self {
        Self { from, rows: Vec::with_capacity(MAXIMA_PER_NOTE) }
    }

    fn second_of(&self, release: Instant) -> usize {
        usize::try_from(release.ns_since(self.from) / SECOND_NS).unwrap_or(usize::MAX)
    }

    pub(super) fn is_full_before(&self, release: Instant) -> bool {
        self.second_of(release) >= MAXIMA_PER_NOTE
    }

    /// Restarts at the second of `from` that `release` lies in.
    pub(super) fn move_to(&mut self, release: Instant) {
        self.from = self.from.plus_ns(release.ns_since(self.from) / SECOND_NS * SECOND_NS);
    }

    pub(super) fn keep(&mut self, release: Instant, values_ns: [u64; MAXIMA_OF.len()]) {
        let second = self.second_of(release);
        self.rows.resize(self.rows.len().max(second + 1), [0; MAXIMA_OF.len()]);
        for (kept, value) in self.rows[second].iter_mut().zip(values_ns) {
            *kept = value.max(*kept);
        }
    }

    pub(super) fn write(
        &mut self,
        writer: &mut RunWriter,
        zero: TimeOrigin,
    ) -> Result<(), WriteError> {
        if self.rows.is_empty() {
            return Ok(());
        }

        let column = |i: usize| self.rows.iter().map(|row| row[i]).collect::<Vec<u64>>();
        let series: BTreeMap<Series, Vec<u64>> =
            MAXIMA_OF.iter().enumerate().map(|(i, &series)| (series, column(i))).collect();
        let t = zero.seconds(self.from);
        self.rows.clear();
        writer.note(&Note::Maxima(Maxima { t, every: 1.0, series }))
    }
}
