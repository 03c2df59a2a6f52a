//! Samples one by one, as formats without histograms hold them, counted into a stream: cells,
//! intervals where times are known, and steps of a trend where they are in order.
//!
//! Two passes over a file: the first finds how far its samples reach ([`Extent`]), the second counts
//! them. Memory does not grow with their number.

use std::collections::BTreeMap;
use std::io::{BufRead, Seek, SeekFrom};

use super::error::Error;
use super::lines::{Line, each_line};
use super::stream::{Stream, StreamPart, TrendSteps};
use crate::{Early, Moments, Resolution, Series, StepFigures, interval_ns_for};

/// Steps of an interval, a step's length at most, and the samples it has at least, as in onbeat's
/// own runs.
const STEPS_PER_INTERVAL: f64 = 10.0;
const LONGEST_STEP_S: f64 = 1.0;
const LEAST_PER_STEP: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Below 0 for a wake-up before its release.
    pub(super) ns: i64,
    /// In seconds, from whatever instant.
    pub(super) t_s: Option<f64>,
}

/// How many samples there are and how far they reach.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Extent {
    pub(super) samples: u64,
    pub(super) first_s: Option<f64>,
    pub(super) last_s: f64,
}

impl Extent {
    pub(super) fn take_in(&mut self, sample: &Sample) {
        self.samples += 1;
        if let Some(t) = sample.t_s {
            let is_first = self.first_s.is_none();
            self.first_s = Some(self.first_s.map_or(t, |first| first.min(t)));
            self.last_s = if is_first { t } else { self.last_s.max(t) };
        }
    }
}

/// Samples step by step, for sources whose samples are in order of time.
struct InSteps {
    steps: TrendSteps,
    place: usize,
    /// Values of the step in the making, with their times since the stream's start.
    samples: Vec<(u64, f64)>,
}

impl InSteps {
    /// Whether the sample was in order.
    fn count(&mut self, ns: u64, t: f64) -> bool {
        let place = self.steps.place(t);
        if place != self.place {
            self.close();
        }

        let is_in_order = place >= self.place;
        self.place = place;
        self.samples.push((ns, t));
        is_in_order
    }

    fn close(&mut self) {
        let start = self.place as f64 * self.steps.every_s;
        let largest = self.samples.iter().map(|(ns, _)| *ns).max().unwrap_or(0);
        // Coarse values have many largest ones; any of them stands for all, and always the first
        // would be a pattern.
        let all: Vec<f64> =
            self.samples.iter().filter(|(ns, _)| *ns == largest).map(|(_, t)| *t).collect();
        let drawn = (self.place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let worst_t = all.get(drawn as usize % all.len().max(1)).copied();
        self.samples.sort_unstable_by_key(|(ns, _)| *ns);
        let n = self.samples.len();
        let value = |share: f64| {
            self.samples.get(((share * n as f64).ceil() as usize).clamp(1, n.max(1)) - 1)
        };

        if let (Some(min), Some(p50), Some(p90), Some(worst_t)) =
            (value(0.0), value(0.5), value(0.9), worst_t)
        {
            let worst_at = Some((worst_t - start) / self.steps.every_s);
            let figures = StepFigures {
                min_ns: min.0,
                p50_ns: p50.0,
                p90_ns: p90.0,
                max_ns: largest,
                worst_at,
            };
            self.steps.put(self.place, figures);
        }

        self.samples.clear();
    }
}

/// The second pass: samples into intervals.
pub(super) struct SampleCounter {
    series: Series,
    resolution: Resolution,
    interval_s: f64,
    period_s: Option<f64>,
    taken: u64,
    extent: Extent,
    parts: BTreeMap<u64, (BTreeMap<u64, u64>, Moments)>,
    trend: Option<InSteps>,
    early: Early,
}

impl SampleCounter {
    /// `period_ns` places samples without times.
    pub(super) fn new(
        series: Series,
        resolution: Resolution,
        extent: Extent,
        period_ns: Option<u64>,
    ) -> Self {
        let period_s = period_ns.map(|ns| ns as f64 / 1e9);
        let length_s = match (extent.first_s, period_s) {
            (Some(first), _) => extent.last_s - first,
            (None, Some(period_s)) => period_s * extent.samples as f64,
            (None, None) => 0.0,
        };

        let interval_s = interval_ns_for((length_s.clamp(0.0, 1e9) * 1e9) as u64) as f64 / 1e9;
        let apart_s = length_s / extent.samples.max(2) as f64;
        let step_s =
            (interval_s / STEPS_PER_INTERVAL).min(LONGEST_STEP_S).max(LEAST_PER_STEP * apart_s);
        let steps = TrendSteps::new(series, step_s, length_s).filter(|_| length_s > 0.0);
        Self {
            series,
            resolution,
            interval_s,
            period_s,
            taken: 0,
            extent,
            parts: BTreeMap::new(),
            trend: steps.map(|steps| InSteps { steps, place: 0, samples: Vec::new() }),
            early: Early { count: Some(0), earliest_ns: 0 },
        }
    }

    /// The stream of the samples that `sample` finds in the lines of a file.
    pub(super) fn count_all(
        mut self,
        file: &mut (impl BufRead + Seek),
        mut sample: impl FnMut(&Line<'_>) -> Option<Sample>,
    ) -> Result<Stream, Error> {
        file.seek(SeekFrom::Start(0))?;
        each_line(file, |line| {
            if let Some(sample) = sample(line) {
                self.count(sample);
            }
            Ok(())
        })?;

        Ok(self.finish())
    }

    fn count(&mut self, sample: Sample) {
        let by_period = self.period_s.map(|period_s| period_s * self.taken as f64);
        let origin_s = self.extent.first_s.unwrap_or(0.0);
        let t = sample.t_s.map(|t| t - origin_s).or(by_period).unwrap_or(0.0);
        self.taken += 1;
        if sample.ns < 0 {
            self.early.count = self.early.count.map(|n| n + 1);
            self.early.earliest_ns = self.early.earliest_ns.max(sample.ns.unsigned_abs());
        }

        let ns = u64::try_from(sample.ns).unwrap_or(0);
        let (cells, moments) = self.parts.entry((t / self.interval_s).max(0.0) as u64).or_default();
        *cells.entry(rounded(self.resolution.representative_ns(ns))).or_insert(0) += 1;
        moments.add_floored(ns, sample.ns as f64);

        if self.trend.as_mut().is_some_and(|trend| !trend.count(ns, t)) {
            self.trend = None;
        }
    }

    /// The stream, with what its samples do not say.
    fn finish(mut self) -> Stream {
        let is_timed = self.extent.first_s.is_some() || self.period_s.is_some();
        let mut missing = Vec::new();
        if !is_timed {
            missing.push(
                "times of the samples: no figures over time and no intervals (--period gives their distance)"
                    .to_owned(),
            );
        }

        if let Some(trend) = &mut self.trend {
            trend.close();
        } else if is_timed && self.taken > 1 {
            missing.push(
                "the order of the samples: time stamps do not ascend, so periodic interference cannot be searched"
                    .to_owned(),
            );
        }

        let step_ns = self.resolution.step_ns;
        if step_ns > 1 {
            missing.push(format!("values finer than {step_ns} ns: the file has no more digits"));
        }

        let (series, length) = (self.series, if is_timed { self.interval_s } else { 0.0 });
        let parts = self.parts.into_iter().map(|(index, (cells, moments))| StreamPart {
            series,
            t: index as f64 * length,
            length,
            cells,
            moments: Some(moments),
            maxima: None,
        });

        // Seconds since 1970 are distinguished from seconds since a start by their size.
        let started = self.extent.first_s.filter(|first| (1e8..1e11).contains(first));
        let mut stream = Stream {
            started_unix_s: started.unwrap_or(0.0),
            resolution: [(series, self.resolution)].into(),
            parts: parts.collect(),
            missing,
            steps: self.trend.map(|trend| trend.steps),
            ..Stream::default()
        };
        if self.early.count != Some(0) {
            stream.early.insert(series, self.early);
        }

        stream
    }
}

/// The streams of the samples that `sample` finds in the lines of a file, each for the counter of
/// its key.
pub(super) fn count_each<K: Ord>(
    file: &mut (impl BufRead + Seek),
    mut counters: BTreeMap<K, SampleCounter>,
    mut sample: impl FnMut(&Line<'_>) -> Option<(K, Sample)>,
) -> Result<BTreeMap<K, Stream>, Error> {
    file.seek(SeekFrom::Start(0))?;
    each_line(file, |line| {
        if let Some((key, sample)) = sample(line)
            && let Some(counter) = counters.get_mut(&key)
        {
            counter.count(sample);
        }
        Ok(())
    })?;

    Ok(counters.into_iter().map(|(key, counter)| (key, counter.finish())).collect())
}

/// Five digits, so that memory does not grow with the number of samples; the run file keeps three
/// or four.
const fn rounded(ns: u64) -> u64 {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(17);
    (ns >> shift << shift) | if shift > 0 { 1 << (shift - 1) } else { 0 }
}
