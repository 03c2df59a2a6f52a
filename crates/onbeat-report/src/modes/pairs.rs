//! Periods from one step on: distances that pairs of late instants have more often than others.

use super::events::{LEAST_EVENTS, MeasuredSteps};

/// Most pairs that are compared.
const MOST_PAIRS: f64 = 300_000.0;
/// The first widths, in units, and by how much they grow.
const WIDTHS: [f64; 3] = [0.6, 1.2, 2.4];
const WIDER: f64 = 4.0;
/// A period is at least this many widths.
const LEAST_WIDTHS: f64 = 4.0;
/// How far to both sides is looked for what is usual, in widths.
const BESIDE: f64 = 8.0;
const PER_WIDTH: usize = 4;
const MOST: usize = 12;
/// The shortest period, in steps, and in parts of the mean distance of neighbours.
const SHORTEST_STEPS: f64 = 0.9;
const SHORTEST_GAPS: f64 = 0.4;
/// A period is refined while this share of the first pairs agrees.
const STILL: f64 = 0.3;

/// A period worth a closer look, and how far pairs are off it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeriodCandidate {
    pub(super) period_s: f64,
    pub(super) within_s: f64,
    clearness: f64,
}

/// Periods worth a closer look.
pub(super) fn periods(times: &[f64], measured: &MeasuredSteps) -> Vec<PeriodCandidate> {
    let n = times.len() as f64;
    let span_s = measured.span_s();
    let shortest_s =
        (SHORTEST_STEPS * measured.step_s).max(SHORTEST_GAPS * span_s / n).max(measured.shortest_s);
    // A run holds four of the longest only when it begins and ends with one.
    let longest_s = (measured.longest_s * 1.1).min(MOST_PAIRS * span_s / (n * n));
    let mut distances: Vec<f64> = Vec::new();
    for (i, t) in times.iter().enumerate() {
        let later = times[i + 1..].iter().map(|later| later - t);
        distances.extend(later.skip_while(|d| *d < shortest_s).take_while(|d| *d <= longest_s));
    }

    distances.sort_unstable_by(f64::total_cmp);
    let mut found: Vec<PeriodCandidate> = Vec::new();
    let widths = WIDTHS
        .into_iter()
        .chain(std::iter::successors(Some(WIDTHS[2] * WIDER), |w| Some(w * WIDER)));
    for width_s in
        widths.map(|width| width * measured.unit_s).take_while(|w| *w * LEAST_WIDTHS <= longest_s)
    {
        let mut of_width = clusters(&distances, width_s);
        of_width.sort_unstable_by(|a, b| b.clearness.total_cmp(&a.clearness));
        let mut taken = 0;
        for one in of_width {
            let is_new = found
                .iter()
                .all(|other| (one.period_s - other.period_s).abs() > width_s.max(other.within_s));
            if is_new && taken < PER_WIDTH {
                found.push(one);
                taken += 1;
            }
        }
    }

    found.sort_unstable_by(|a, b| b.clearness.total_cmp(&a.clearness));
    found.truncate(MOST);
    found
}

/// Stretches of a width in which there are more distances than beside it; those that no neighbour
/// exceeds.
fn clusters(distances: &[f64], width_s: f64) -> Vec<PeriodCandidate> {
    let mut found: Vec<PeriodCandidate> = Vec::new();
    let mut end = 0;
    let mut low = 0;
    let mut high = 0;
    for (i, &from) in distances.iter().enumerate() {
        let reach = |bound: f64, place: &mut usize| {
            while *place < distances.len() && distances[*place] < bound {
                *place += 1;
            }
            *place
        };

        let here = reach(from + width_s, &mut end) - i;
        let around = reach(from + (BESIDE + 1.0) * width_s, &mut high)
            - reach(from - BESIDE * width_s, &mut low);
        if here < LEAST_EVENTS - 2 || from < LEAST_WIDTHS * width_s {
            continue;
        }

        let usual = (around - here) as f64 / (2.0 * BESIDE);
        let clearness = (here as f64 - usual) / (usual + 1.0).sqrt();
        let middle = distances[i + here / 2];
        let one = PeriodCandidate { period_s: middle, within_s: width_s, clearness };
        match found.last_mut() {
            Some(last) if middle - last.period_s < width_s => {
                if clearness > last.clearness {
                    *last = one;
                }
            }
            _ => found.push(one),
        }
    }

    found
}

/// The same period as exactly as pairs more and more periods apart allow, while there are such
/// pairs.
pub(super) fn refined(times: &[f64], candidate: PeriodCandidate, measured: &MeasuredSteps) -> f64 {
    let span_s = measured.span_s();
    let mut period_s = candidate.period_s;
    let mut k = 1.0;
    let mut first = None;
    while k * period_s < span_s {
        let apart_s = k * period_s;
        let mut off: Vec<f64> = Vec::new();
        let mut j = 0;
        for t in times {
            while j < times.len() && times[j] < t + apart_s - candidate.within_s {
                j += 1;
            }
            let within = times[j..]
                .iter()
                .map(|other| other - t - apart_s)
                .take_while(|off| *off <= candidate.within_s);
            off.extend(within.min_by(|a, b| a.abs().total_cmp(&b.abs())));
        }

        let room = 1.0 - apart_s / span_s;
        if off.is_empty()
            || (off.len() as f64) < STILL * room * *first.get_or_insert(off.len() as f64)
        {
            break;
        }

        period_s += super::series::median(&mut off) / k;
        k *= 2.0;
    }

    period_s
}
