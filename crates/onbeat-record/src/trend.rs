//! The trend of release latency: a few figures per step of time, packed into a note per interval.
//!
//! Interval histograms of a day are minutes apart. What comes and goes in between (fifteen seconds
//! every five minutes, one late cycle every five seconds) shows only in a finer series. A step is a
//! second in long runs and a tenth of an interval in short ones; its figures take twelve characters
//! of the file, whatever the rate of the loop.

use onbeat_rt::Instant;
use onbeat_rt::time::SECOND_NS;
use serde::{Deserialize, Serialize};

use super::histogram::LONGEST_NS;
use super::series::Series;

/// Steps of an interval, where the period allows that many.
const STEPS_OF_SHORT_INTERVALS: u64 = 10;
/// A step has at least this many cycles, so that its median is meaningful.
const LEAST_CYCLES: u64 = 10;
/// Binary digits behind the leading one in a figure of two characters: within 0.8 %.
// Codes are like floating-point numbers of m bits: below 2^m a value is itself, above it the m bits
// below its highest one are kept.
//
//     ns       binary            s = ilog2 - m   code = ((s + 1) << m) + low m bits
//     37       100101  (m = 6)   -               37
//     1,000    1111101000        3               (4 << 6) + 0b111101 = 317   -> 1,000 to 1,007 ns
//
// A code of 6 bits is off by less than 1.6 %, one of 12 by less than 0.03 %: extremes are drawn as
// points, where 1 % is a pixel; medians are drawn as lines whose steps would show.
const COARSE: u32 = 6;
/// The same for three characters: within 0.013 %.
const FINE: u32 = 12;
/// The same for the counts that medians are taken from.
const COUNTED: u32 = 8;
/// The instant of a step's largest value is kept as one of this many parts of the step: two
/// characters.
// Two digits of base 64: a step of a second is placed to a quarter of a millisecond.
const PLACES: u64 = 4096;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Figures per step of time ([`Trend::steps`] unpacks them), of release latency after each
/// interval; of imported runs behind all intervals, up to 600 steps at a time. A step is a tenth of
/// an interval, at most a second, at least ten cycles, and a whole part of the interval. 1.07 MB a
/// day.
///
/// A figure is two or three base64 digits (RFC 4648), the most significant first, that form a code
/// `c`; 0 is a step without a sample. With m = 6 for two digits and 12 for three, codes below 2^m
/// are nanoseconds; others stand for the 2^s values from `((c mod 2^m) + 2^m) · 2^s` ns on, with `s
/// = floor(c / 2^m) − 1`: within 0.8 % and 0.013 %. A value of 0 counts as 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Start, in seconds since the file's start.
    pub t: f64,
    /// Seconds per step.
    pub every: f64,
    /// Cycles that the run had served when the note begins, lost ones included.
    pub cycles: u64,
    /// The series.
    pub series: Series,
    /// Smallest value, two digits per step.
    pub min: String,
    /// Median, three digits per step, interpolated from counts of 0.4 % width.
    pub p50: String,
    /// 90th percentile, three digits per step, as `p50`.
    pub p90: String,
    /// Largest value, two digits per step.
    pub max: String,
    /// Release of the largest value, in 1/4,096 of the step from its start, two digits per step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub worst_at: String,
}

/// One unpacked step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrendStep {
    /// Start, in seconds since the file's start.
    pub t: f64,
    /// Smallest value, in nanoseconds.
    pub min_ns: f64,
    /// Median, in nanoseconds.
    pub p50_ns: f64,
    /// The value that nine tenths do not exceed, in nanoseconds.
    pub p90_ns: f64,
    /// Largest value, in nanoseconds.
    pub max_ns: f64,
    /// When the release of the largest value was, in seconds since the file's start; the middle of
    /// the step where that is not known.
    pub worst_t: f64,
}

/// Figures of one step that were counted elsewhere, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFigures {
    /// Smallest.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// The value that nine tenths do not exceed.
    pub p90_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// When the largest was, as a share of the step from its start, 0 to 1; `None` where that is
    /// not known.
    pub worst_at: Option<f64>,
}

impl Trend {
    /// A note of steps from `t` on, each `every` seconds long; `None` is a step without a sample.
    /// When largest values were is kept where it is known of all of them.
    #[must_use]
    pub fn from_steps(series: Series, t: f64, every: f64, steps: &[Option<StepFigures>]) -> Self {
        let mut note = Self { t, every, series, ..Self::default() };
        // All or none: a column of places with holes would be read as the step's beginning.
        let is_placed = steps.iter().flatten().all(|step| step.worst_at.is_some());
        for step in steps {
            let StepFigures { min_ns, p50_ns, p90_ns, max_ns, worst_at } = step.unwrap_or_default();
            let code =
                // Code 0 is "no sample". No latency has it: 0 ns is written as 1.
                |ns: u64, m: u32| if step.is_some() { code_of(ns.min(LONGEST_NS), m) } else { 0 };
            let (min, max) = (code(min_ns, COARSE), code(max_ns, COARSE));
            note.push(min, [code(p50_ns, FINE), code(p90_ns, FINE)], max);
            if is_placed {
                let place = (worst_at.unwrap_or(0.0).clamp(0.0, 1.0) * PLACES as f64) as u64;
                pack(&mut note.worst_at, place.min(PLACES - 1), 2);
            }
        }

        note
    }

    /// Adds the codes of a step: smallest value, median and 90th percentile, largest value.
    fn push(&mut self, min: u64, [p50, p90]: [u64; 2], max: u64) {
        pack(&mut self.min, min, 2);
        pack(&mut self.p50, p50, 3);
        pack(&mut self.p90, p90, 3);
        pack(&mut self.max, max, 2);
    }

    /// Whether it says when in its step a largest value was.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        !self.worst_at.is_empty()
    }

    /// The steps with samples, in order. An invalid figure ends the list.
    #[must_use]
    pub fn steps(&self) -> Vec<TrendStep> {
        let columns =
            [(&self.min, COARSE), (&self.p50, FINE), (&self.p90, FINE), (&self.max, COARSE)];
        let mut steps = Vec::with_capacity(self.max.len() / 2);
        for i in 0..self.max.len() / 2 {
            let code = |text: &str, m: u32| unpacked(text, i, digits_for(m));
            let figure = |(text, m): (&String, u32)| code(text, m).map(|code| value_of(code, m));
            let [Some(min_ns), Some(p50_ns), Some(p90_ns), Some(max_ns)] = columns.map(figure)
            else {
                break;
            };
            let placed =
                || code(&self.worst_at, COARSE).map(|place| (place as f64 + 0.5) / PLACES as f64);
            // Text of a damaged file may end anywhere: what is whole before it is shown.
            let Some(worst_at) = (if self.is_placed() { placed() } else { Some(0.5) }) else {
                break;
            };
            let t = self.t + i as f64 * self.every;

            if max_ns > 0.0 {
                let worst_t = t + worst_at * self.every;
                steps.push(TrendStep { t, min_ns, p50_ns, p90_ns, max_ns, worst_t });
            }
        }

        steps
    }
}

const fn digits_for(m: u32) -> usize {
    if m == FINE { 3 } else { 2 }
}

/// The code of a value, see [`Trend`].
const fn code_of(ns: u64, m: u32) -> u64 {
    let ns = if ns == 0 { 1 } else { ns };
    if ns < 1 << m {
        return ns;
    }
    let s = ns.ilog2() - m;
    ((s as u64 + 1) << m) + ((ns >> s) - (1 << m))
}

/// The middle of the values that a code stands for, in nanoseconds; 0 for none.
fn value_of(code: u64, m: u32) -> f64 {
    if code < 1 << m {
        return code as f64;
    }

    let s = (code >> m) - 1;
    let low = ((code & ((1 << m) - 1)) + (1 << m)) as f64;
    let width = 2.0_f64.powi(s as i32);
    // The middle of what the code stands for; its low end would shift all medians by half a width.
    low * width + (width - 1.0) / 2.0
}

fn pack(text: &mut String, code: u64, digits: usize) {
    for place in (0..digits).rev() {
        text.push(char::from(DIGITS[(code >> (6 * place)) as usize & 63]));
    }
}

fn unpacked(text: &str, i: usize, digits: usize) -> Option<u64> {
    let bytes = text.as_bytes().get(i * digits..(i + 1) * digits)?;
    bytes.iter().try_fold(0, |code, byte| {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        Some(code << 6 | u64::from(digit))
    })
}

/// The length of steps for intervals of `interval_ns` and a period, in nanoseconds: whole parts of
/// an interval, a tenth of it and at most a second, but no less than ten cycles.
fn step_ns_for(interval_ns: u64, period_ns: u64) -> u64 {
    let wanted = (interval_ns / STEPS_OF_SHORT_INTERVALS).min(SECOND_NS);
    // A step of fewer cycles has no p90 that means anything.
    let wanted = wanted.max(LEAST_CYCLES * period_ns);
    // An interval that is shorter than ten cycles is one step.
    match interval_ns.checked_div(wanted) {
        Some(parts @ 1..) => interval_ns / parts,
        _ => interval_ns,
    }
}

/// The trend of the interval that is being counted. Its memory is kept from interval to interval.
pub(super) struct TrendTally {
    step_ns: u64,
    from: Instant,
    step: u64,
    counts: Vec<u32>,
    n: u64,
    min_ns: u64,
    max_ns: u64,
    worst_at: Instant,
    note: Trend,
}

impl TrendTally {
    pub(super) fn new(interval_ns: u64, period_ns: u64, from: Instant) -> Self {
        let step_ns = step_ns_for(interval_ns, period_ns);
        let most = (interval_ns / step_ns + 1) as usize;
        let text = |digits: usize| String::with_capacity(most * digits);
        let note = Trend {
            every: step_ns as f64 / 1e9,
            series: Series::ReleaseLatency,
            min: text(2),
            p50: text(3),
            p90: text(3),
            max: text(2),
            worst_at: text(2),
            ..Trend::default()
        };

        let counts = vec![0; code_of(LONGEST_NS, COUNTED) as usize + 1];
        let mut tally = Self {
            step_ns,
            from,
            step: 0,
            counts,
            n: 0,
            min_ns: 0,
            max_ns: 0,
            worst_at: from,
            note,
        };
        // Writing to all of it now, so that it is there from the beginning and does not come page
        // by page.
        tally.counts.fill(1);
        tally.counts.fill(0);
        tally
    }

    /// Begins an interval at `from`, after `cycles` cycles of the run.
    pub(super) fn begin(&mut self, from: Instant, cycles: u64) {
        self.from = from;
        self.step = 0;
        self.note.cycles = cycles;
    }

    #[inline]
    pub(super) fn count(&mut self, release: Instant, latency_ns: u64) {
        let step = release.ns_since(self.from) / self.step_ns;
        // Releases come in order within a block, skipped ones before the cycle that passed them
        // over.
        if step > self.step {
            self.close_steps_before(step);
        }

        let ns = latency_ns.clamp(1, LONGEST_NS);
        self.counts[code_of(ns, COUNTED) as usize] += 1;
        if self.n == 0 || ns < self.min_ns {
            self.min_ns = ns;
        }

        if self.n == 0 || ns > self.max_ns {
            self.max_ns = ns;
            // The first of several equal ones: a plateau is entered where it begins.
            self.worst_at = release;
        }

        self.n += 1;
    }

    fn close_steps_before(&mut self, step: u64) {
        while self.step < step {
            let shares = [0.5, 0.9].map(|share| self.quantile(share));
            // Within its step, so that the page can put the point where it happened and not in the
            // middle of a second.
            let place = self.worst_at.ns_since(self.from.plus_ns(self.step * self.step_ns))
                * PLACES
                / self.step_ns;
            let place = if self.n == 0 { 0 } else { place.min(PLACES - 1) };
            let coarse = |ns: u64| if self.n == 0 { 0 } else { code_of(ns, COARSE) };
            self.note.push(coarse(self.min_ns), shares, coarse(self.max_ns));
            pack(&mut self.note.worst_at, place, 2);

            if self.n > 0 {
                // Only what was counted in this step is cleared: the whole table has thousands of
                // places, and a step may have ten cycles.
                let low = code_of(self.min_ns, COUNTED) as usize;
                let high = code_of(self.max_ns, COUNTED) as usize;
                self.counts[low..=high].fill(0);
            }

            self.n = 0;
            self.step += 1;
        }
    }

    /// The fine code of a quantile, its place within a bucket taken in proportion; 0 without a
    /// sample.
    fn quantile(&self, share: f64) -> u64 {
        if self.n == 0 {
            return 0;
        }

        let rank = share * self.n as f64;
        let first = code_of(self.min_ns, COUNTED);
        let last = code_of(self.max_ns, COUNTED);
        let mut below = 0.0;
        for code in first..=last {
            let here = f64::from(self.counts[code as usize]);
            if below + here >= rank && here > 0.0 {
                let (low, high) = bounds_of(code);
                let low = low.max(self.min_ns as f64);
                let high = high.min(self.max_ns as f64);
                // Interpolated in its bucket: with 8 bits a bucket is 0.4 % wide, and a steady
                // median would jump between two values.
                let ns = low + (high - low).max(0.0) * (rank - below) / here;
                return code_of(ns.round() as u64, FINE);
            }

            below += here;
        }

        code_of(self.max_ns, FINE)
    }

    /// The interval's note, `seconds` being the time of its start; `None` when no step of it has a
    /// sample. What follows must be begun.
    pub(super) fn end(&mut self, seconds: f64) -> Option<&Trend> {
        if self.n > 0 {
            self.close_steps_before(self.step + 1);
        }
        self.note.t = seconds;
        (!self.note.max.is_empty()).then_some(&self.note)
    }

    /// Makes room for the next interval.
    pub(super) fn empty(&mut self) {
        let note = &mut self.note;
        for text in [&mut note.min, &mut note.p50, &mut note.p90, &mut note.max, &mut note.worst_at]
        {
            text.clear();
        }
    }
}

/// Where the values of a counted bucket begin, and where those of the next one do.
fn bounds_of(code: u64) -> (f64, f64) {
    let width = if code < 1 << COUNTED { 1.0 } else { 2.0_f64.powi((code >> COUNTED) as i32 - 1) };
    let low = value_of(code, COUNTED) - (width - 1.0) / 2.0;
    (low, low + width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steps_are_whole_parts_of_an_interval_with_ten_cycles_at_least() {
        let steps = [
            (SECOND_NS, 1_000_000, SECOND_NS / 10),
            (288 * SECOND_NS, 1_000_000, SECOND_NS),
            (SECOND_NS, 30_000_000, SECOND_NS / 3),
            (SECOND_NS, SECOND_NS, SECOND_NS),
        ];
        for (interval_ns, period_ns, step_ns) in steps {
            assert_eq!(step_ns_for(interval_ns, period_ns), step_ns, "{interval_ns} {period_ns}");
        }
    }

    #[test]
    fn an_empty_step_is_left_out_and_moves_no_other() {
        let mut tally = TrendTally::new(SECOND_NS, 1_000_000, Instant::from_ns(0));
        tally.begin(Instant::from_ns(0), 7);
        for ms in [10, 20, 350] {
            tally.count(Instant::from_ns(ms * 1_000_000), 1_000 * ms);
        }

        let note = tally.end(12.0).expect("three samples").clone();
        assert_eq!((note.cycles, note.max.len(), note.p50.len()), (7, 8, 12));
        let steps = note.steps();
        assert_eq!(steps.len(), 2);
        assert!((steps[0].t - 12.0).abs() < 1e-9 && (steps[1].t - 12.3).abs() < 1e-9);
        assert!((steps[0].worst_t - 12.02).abs() < 1e-4, "{}", steps[0].worst_t);
        assert!((steps[1].max_ns / 350e3 - 1.0).abs() < 0.008);
    }

    proptest! {
        #[test]
        fn a_packed_value_is_near_the_value(ns in 1_u64..=LONGEST_NS) {
            for (m, within) in [(COARSE, 0.008), (FINE, 0.000_13)] {
                let code = code_of(ns, m);
                let mut text = String::new();
                pack(&mut text, 1, digits_for(m));
                pack(&mut text, code, digits_for(m));
                prop_assert_eq!(unpacked(&text, 1, digits_for(m)), Some(code));
                prop_assert!((value_of(code, m) / ns as f64 - 1.0).abs() <= within, "{} {}", ns, value_of(code, m));
            }
        }

        #[test]
        fn the_median_of_a_step_is_the_samples_median(values in prop::collection::vec(1_u64..10_000_000, 1..400)) {
            let mut tally = TrendTally::new(SECOND_NS, 1_000_000, Instant::from_ns(0));
            values.iter().for_each(|&ns| tally.count(Instant::from_ns(5), ns));
            let step = tally.end(0.0).expect("samples").steps()[0];
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let low = sorted[(sorted.len() - 1) / 2] as f64;
            let high = sorted[sorted.len() / 2] as f64;

            prop_assert!(step.p50_ns >= low * 0.996 - 1.0 && step.p50_ns <= high * 1.004 + 1.0, "{:?} {} {}", step, low, high);
            prop_assert!((step.max_ns / sorted[sorted.len() - 1] as f64 - 1.0).abs() < 0.008);
        }
    }

    #[test]
    fn steps_counted_elsewhere_come_back_with_their_places_or_without() {
        let step = StepFigures {
            min_ns: 10,
            p50_ns: 20_000,
            p90_ns: 30_000,
            max_ns: 2_000_000,
            worst_at: Some(0.25),
        };
        let note = Trend::from_steps(Series::Hiccup, 5.0, 2.0, &[Some(step), None, Some(step)]);
        let steps = note.steps();
        assert_eq!((steps.len(), note.is_placed()), (2, true));
        assert!(
            (steps[1].t - 9.0).abs() < 1e-9 && (steps[1].worst_t - 9.5).abs() < 1e-3,
            "{:?}",
            steps[1]
        );
        assert!(
            (steps[0].p50_ns / 20_000.0 - 1.0).abs() < 0.001
                && (steps[0].max_ns / 2e6 - 1.0).abs() < 0.01
        );
        let unplaced = Trend::from_steps(
            Series::Hiccup,
            5.0,
            2.0,
            &[Some(StepFigures { worst_at: None, ..step })],
        );

        assert_eq!((unplaced.worst_at.as_str(), unplaced.steps()[0].worst_t), ("", 6.0));
    }

    #[test]
    fn an_invalid_figure_ends_the_list() {
        let whole = Trend {
            every: 1.0,
            min: "BA".into(),
            p50: "BAA".into(),
            p90: "BAA".into(),
            max: "BABA".into(),
            worst_at: "AA".into(),
            ..Trend::default()
        };

        assert_eq!(whole.steps().len(), 1);
        let damaged = Trend { p50: "B!A".into(), ..whole };
        assert_eq!(damaged.steps().len(), 0);
    }
}
