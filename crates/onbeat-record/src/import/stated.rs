//! Figures that a source states without a histogram: count, extremes, mean; and percentiles, which
//! part the samples where their number is stated too.

use super::format::FARTHEST_NS;
use super::stream::{SourceFigures, Stream, StreamPart};
use crate::{Beyond, Early, Moments, Resolution, Series};

/// Count, extremes and mean of one series, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stated {
    /// `None` where the source does not count.
    pub(super) n: Option<u64>,
    pub(super) min_ns: i64,
    pub(super) max_ns: i64,
    pub(super) mean_ns: f64,
}

impl Stated {
    /// Figures in units, as a tool prints them; `None` when they contradict each other or are
    /// beyond 2,500 hours.
    pub(super) fn in_units(n: Option<u64>, figures: [f64; 3], unit_ns: f64) -> Option<Self> {
        let [min, mean, max] = figures;
        let farthest = FARTHEST_NS as f64 / unit_ns;
        (figures.iter().all(|figure| figure.abs() <= farthest) && min <= max).then(|| Self {
            n,
            min_ns: (min * unit_ns).round() as i64,
            max_ns: (max * unit_ns).round() as i64,
            mean_ns: mean * unit_ns,
        })
    }

    /// Its extremes, 0 where they are below.
    pub(super) fn floor_ns(&self) -> (u64, u64) {
        (self.min_ns.max(0).unsigned_abs(), self.max_ns.max(0).unsigned_abs())
    }

    /// A minimum below 0: how many samples are is not stated.
    pub(super) fn put_early(&self, stream: &mut Stream, series: Series) {
        if self.min_ns < 0 {
            let earliest_ns = self.min_ns.unsigned_abs();
            stream.early.insert(series, Early { count: None, earliest_ns });
        }
    }

    /// Puts these figures into a stream. `step_ns` is how finely the source states them.
    pub(super) fn put_into(self, stream: &mut Stream, series: Series, step_ns: u64) {
        let (min_ns, max_ns) = self.floor_ns();
        // What is not counted is at least the maximum itself.
        let n = self.n.unwrap_or(1).max(1);
        let finest = step_ns.max(1) - 1;
        let to_ns = max_ns.saturating_add(finest);
        let beyond = Beyond { from_ns: min_ns, to_ns, count: n };
        let resolution = Resolution { beyond: Some(beyond), ..Resolution::even(step_ns) };
        let mut part = StreamPart::of_cells(series, &resolution, []);
        part.moments = Some(Moments { n, min_ns, max_ns, mean_ns: self.mean_ns, m2: 0.0 });

        self.put_early(stream, series);
        stream.figures_only.insert(series);
        stream.put(part, resolution);
        stream.lacks("the distribution: the source states minimum, mean and maximum only");
        if self.n.is_none() {
            stream.lacks(
                "the number of samples: the source does not state it; 1 represents all of them",
            );
        }
    }
}

/// Whether count, minimum, average and maximum cannot be later ones of the same run: count and
/// maximum never fall, and the minimum never rises.
pub(super) fn are_of_another_run(now: (u64, [f64; 3]), before: (u64, [f64; 3])) -> bool {
    let ((n, [min, _, max]), (n_before, [min_before, _, max_before])) = (now, before);
    n < n_before || min > min_before || max < max_before
}

/// Cells into which percentiles divide `all` samples: their upper ends and how many each has. `None` where
/// they contradict each other. `percentiles` rise: shares in percent and the sample at that share of the
/// sorted ones.
pub(super) fn parted(all: u64, percentiles: &[(f64, u64)], max_ns: u64) -> Option<Vec<(u64, u64)>> {
    let mut cells: Vec<(u64, u64)> = Vec::new();
    let mut counted = 0;
    let rank = |share: f64, ns: u64| {
        // What is below the maximum is not the last sample.
        let last = if ns < max_ns { all.saturating_sub(1) } else { all };
        ((all as f64 * share / 100.0) as u64).saturating_add(1).min(last)
    };
    let ranks = percentiles.iter().map(|&(share, ns)| (rank(share, ns), ns));
    for (rank, ns) in ranks.chain([(all, max_ns)]) {
        let more = rank.checked_sub(counted)?;
        counted = rank;
        match cells.last_mut() {
            Some((end, _)) if *end > ns => return None,
            Some((end, n)) if *end == ns => *n += more,
            _ if more > 0 => cells.push((ns, more)),
            _ => {}
        }
    }

    Some(cells)
}

/// A part without times, of cells with these upper ends and so many samples each.
pub(super) fn uneven(series: Series, cells: &[(u64, u64)]) -> (Resolution, StreamPart) {
    let upper_ends_ns = cells.iter().map(|(end, _)| *end).collect();
    let resolution = Resolution { upper_ends_ns, ..Resolution::exact() };
    let part = StreamPart::of_cells(series, &resolution, cells.iter().copied());
    (resolution, part)
}

/// Moments that a source states beside its histogram, where it may go below 0.
pub(super) fn moments(part: &StreamPart, resolution: &Resolution, stated: Stated) -> Moments {
    let (min_ns, max_ns) = stated.floor_ns();
    part.moments_around(resolution, SourceFigures { min_ns, max_ns, mean_ns: stated.mean_ns })
}

#[cfg(test)]
mod tests {
    use super::parted;

    #[test]
    fn percentiles_part_the_samples_and_the_largest_is_the_maximum() {
        assert_eq!(
            parted(10, &[(50.0, 20), (99.0, 70), (99.9, 70)], 80),
            Some(vec![(20, 6), (70, 3), (80, 1)])
        );
        assert_eq!(parted(4, &[(50.0, 20)], 20), Some(vec![(20, 4)]));
        assert_eq!(parted(1, &[(50.0, 20), (99.0, 20)], 30), Some(vec![(30, 1)]));
        assert_eq!(parted(10, &[(50.0, 90)], 80), None, "beyond the maximum");
        assert_eq!(parted(10, &[(50.0, 20), (90.0, 10)], 80), None);
    }
}
