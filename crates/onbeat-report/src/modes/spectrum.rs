//! Periods up to two steps: where the spectrum of late instants is high.
//!
//! Each step has one instant, the others of its kind are hidden by it. Instants that are whole
//! periods apart add up at the period's frequency all the same, whichever of them was the largest.
//! Stretches of some steps are transformed, and their powers are added (Bartlett, 1950): what
//! wanders in the course of a run adds up too.

use std::f64::consts::TAU;

use super::events::MeasuredSteps;
use super::fft::{powers, transform};

/// Steps of a stretch.
const STEPS: usize = 64;
const MOST_STRETCHES: usize = 24;
/// The longest period looked for here, in steps.
const LONGEST: f64 = 2.2;
/// The lowest frequency that has this part of the largest power is examined as well: a mode of
/// single cycles has as much power at all multiples of its frequency.
const AS_HIGH: f64 = 0.5;
/// Pairs of instants that refine the period, at most.
const MOST_PAIRS: usize = 8192;

/// Periods worth a closer look, in seconds.
pub(super) fn periods(times: &[f64], measured: &MeasuredSteps) -> Vec<f64> {
    let bin_s = measured.shortest_s / 2.0;
    let span_s = measured.span_s();
    let stretch_s = (STEPS as f64 * measured.step_s).min(span_s);
    let n = ((2.0 * stretch_s / bin_s) as usize).next_power_of_two();
    let power = power(times, bin_s, (stretch_s, span_s), n);
    let lowest = ((n as f64 * bin_s) / (LONGEST * measured.step_s)).ceil() as usize;
    let is_peak =
        |j: &usize| power[*j] >= power[j - 1] && (*j == n / 2 || power[*j] >= power[j + 1]);
    let peaks: Vec<usize> = (lowest.max(1)..=n / 2).filter(is_peak).collect();
    let Some(&highest) = peaks.iter().max_by(|a, b| power[**a].total_cmp(&power[**b])) else {
        return Vec::new();
    };
    let first = peaks.iter().copied().find(|j| power[*j] >= AS_HIGH * power[highest]);
    let mut chosen = vec![highest];
    chosen.extend(first.filter(|first| *first != highest));

    chosen.into_iter().map(|j| n as f64 * bin_s / j as f64).collect()
}

/// Power by frequency, up to half of one over `bin_s`, added up over stretches.
fn power(times: &[f64], bin_s: f64, (stretch_s, span_s): (f64, f64), n: usize) -> Vec<f64> {
    let stretches = ((span_s / stretch_s) as usize).max(1);
    let taken = stretches.min(MOST_STRETCHES);
    let starts: Vec<f64> = (0..taken).map(|i| (i * stretches / taken) as f64 * stretch_s).collect();
    let mut sums = vec![0.0; n / 2 + 1];
    // Two real series go through one transform.
    for pair in starts.chunks(2) {
        let mut parts = [vec![0.0; n], vec![0.0; n]];
        let mut counts = [0.0, 0.0];
        for (i, &from_s) in pair.iter().enumerate() {
            let first = times.partition_point(|t| *t < from_s);
            for t in times[first..].iter().take_while(|t| **t < from_s + stretch_s) {
                parts[i][((t - from_s) / bin_s).round() as usize % n] += 1.0;
                counts[i] += 1.0;
            }
        }

        let [re, im] = &mut parts;
        transform(re, im);
        for (j, sum) in sums.iter_mut().enumerate() {
            let (first, second) = powers(re, im, j);
            *sum += first / f64::max(counts[0], 1.0) + second / f64::max(counts[1], 1.0);
        }
    }

    sums
}

/// The same period as exactly as pairs of instants further and further apart allow, while these
/// still agree.
pub(super) fn refined(times: &[f64], period_s: f64, measured: &MeasuredSteps) -> f64 {
    let mut frequency = 1.0 / period_s;
    let mut apart_s = 2.0 * measured.step_s;
    let mut first = None;
    while apart_s < 0.9 * measured.span_s() {
        let every = (times.len() / MOST_PAIRS).max(1);
        let mut sine = 0.0;
        let mut cosine = 0.0;
        let mut distance_s = 0.0;
        let mut n = 0.0;
        let mut j = 0;
        for &t in times.iter().step_by(every) {
            while j < times.len() && times[j] < t + apart_s {
                j += 1;
            }
            let Some(other) = times.get(j).filter(|other| **other < t + 2.0 * apart_s) else {
                continue;
            };
            let (s, c) = (TAU * (frequency * (other - t)).fract()).sin_cos();
            (sine, cosine, distance_s, n) = (sine + s, cosine + c, distance_s + other - t, n + 1.0);
        }

        let agreement = f64::hypot(sine, cosine) / f64::max(n, 1.0);
        // How well instants agree on a frequency (Rayleigh, 1880); three standard deviations of
        // chance are too little.
        if n < 8.0
            || agreement < 0.5 * *first.get_or_insert(agreement)
            || agreement < 3.0 / n.sqrt()
        {
            break;
        }

        frequency -= f64::atan2(sine, cosine) / TAU / (distance_s / n);
        apart_s *= 2.0;
    }

    1.0 / frequency
}

/// Instants with the phase that each stretch of `chunk` of them has taken off: for what wanders in
/// the course of a run.
pub(super) fn brought_together(times: &[f64], period_s: f64, chunk: usize) -> Vec<f64> {
    let of_chunk = |chunk: &[f64]| -> Vec<f64> {
        let (sine, cosine) = chunk.iter().fold((0.0, 0.0), |(sine, cosine), t| {
            let (s, c) = (TAU * (t / period_s).fract()).sin_cos();
            (sine + s, cosine + c)
        });
        let offset_s = f64::atan2(sine, cosine) / TAU * period_s;
        chunk.iter().map(|t| t - offset_s).collect()
    };
    times.chunks(chunk).flat_map(of_chunk).collect()
}
