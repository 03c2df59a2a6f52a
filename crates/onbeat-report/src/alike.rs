//! How many neighbouring stretches of a recording share their disturbances.
//!
//! The length of blocks for a bootstrap is that of Politis and White (2004, with the correction of
//! Patton, Politis and White, 2009): from the autocorrelations of the series, as far as they stand
//! out from noise. What does not stand out is there all the same, and widens the interval by the factor
//! of an autoregressive series of first order. Where the level wanders for longer than an eighth of the
//! recording no length helps, and that is told instead.

/// From fewer stretches than this nothing is known of their neighbours.
const LEAST: usize = 20;
/// Parts of a recording that must not be alike.
const PARTS: usize = 8;
/// Neighbouring parts are alike from this correlation on,
const ALIKE: f64 = 0.2;
/// if they differ by more than the stretches explain, as a ratio of variances.
const MORE_THAN_STRETCHES: f64 = 2.5;

/// How a series of stretches hangs together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Likeness {
    /// Stretches that are drawn together.
    pub(super) together: usize,
    /// Whether the level wanders too slowly for the length of the series.
    pub(super) wanders: bool,
    /// By how much the standard deviation of their mean is larger than that of independent stretches,
    /// where they are drawn singly; 1 where they are drawn together.
    pub(super) widening: f64,
}

/// A correlation of neighbours above this is taken to be this: such a level wanders.
const MOST_CORRELATED: f64 = 0.9;

impl Likeness {
    /// Of one figure per stretch, in the order of time.
    pub(super) fn of(series: &[f64]) -> Self {
        let n = series.len();
        if n < LEAST {
            return Self { together: 1, wanders: false, widening: 1.0 };
        }

        let mean = series.iter().sum::<f64>() / n as f64;
        let centred: Vec<f64> = series.iter().map(|value| value - mean).collect();
        let length = block_length(&centred);
        let together = (length.ceil() as usize).clamp(1, n);
        let wanders = together * PARTS > n || parts_are_alike(&centred);
        let correlated = of_neighbours(&centred).clamp(0.0, MOST_CORRELATED);
        let widening =
            if together == 1 { ((1.0 + correlated) / (1.0 - correlated)).sqrt() } else { 1.0 };
        Self { together, wanders, widening }
    }

    /// The stronger of both: far out in the tail noise hides what the middle shows.
    pub(super) fn or(self, other: Self) -> Self {
        let together = self.together.max(other.together);
        let widening = if together == 1 { self.widening.max(other.widening) } else { 1.0 };
        Self { together, wanders: self.wanders || other.wanders, widening }
    }
}

/// The correlation of each stretch with the next one.
fn of_neighbours(centred: &[f64]) -> f64 {
    let variance: f64 = centred.iter().map(|value| value * value).sum();
    let shared: f64 = centred.windows(2).map(|two| two[0] * two[1]).sum();
    if variance > 0.0 { shared / variance } else { 0.0 }
}

/// The length of a circular block, in stretches.
fn block_length(centred: &[f64]) -> f64 {
    let n = centred.len();
    let of_n = n as f64;
    // The names of the paper: K_N lags in a row below the band, up to m_max.
    let in_a_row = (of_n.log10().sqrt().ceil() as usize).max(5);
    let most = of_n.sqrt().ceil() as usize + in_a_row;
    let lags = (most + in_a_row).min(n - 1);
    let covariance = |lag: usize| -> f64 {
        centred[..n - lag].iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>() / of_n
    };
    let covariances: Vec<f64> = (0..=lags).map(covariance).collect();
    let variance = covariances[0];
    if variance <= 0.0 {
        return 1.0;
    }

    let band = 2.0 * (of_n.log10() / of_n).sqrt() * variance;
    let is_noise = |lag: usize| covariances.get(lag).is_none_or(|value| value.abs() < band);
    let last = (0..=most)
        .find(|m| (m + 1..=m + in_a_row).all(is_noise))
        .unwrap_or_else(|| (1..=lags).rfind(|lag| !is_noise(*lag)).unwrap_or(0));
    let window = (2 * last).min(most);
    if window == 0 {
        return 1.0;
    }

    let (mut spread, mut level) = (0.0, variance);
    for (lag, covariance) in covariances.iter().enumerate().take(window.min(lags) + 1).skip(1) {
        let share = lag as f64 / window as f64;
        let flat_top = if share <= 0.5 { 1.0 } else { 2.0 * (1.0 - share) };
        spread += 2.0 * flat_top * lag as f64 * covariance;
        level += 2.0 * flat_top * covariance;
    }
    if level <= 0.0 {
        return 1.0;
    }

    let of_circular_blocks = 4.0 / 3.0 * level * level;
    let length = (2.0 * spread * spread / of_circular_blocks * of_n).cbrt();
    length.clamp(1.0, (3.0 * of_n.sqrt()).min(of_n / 3.0).ceil())
}

/// Whether the eighths of a series differ by more than its stretches explain, each from the next
/// one little.
fn parts_are_alike(centred: &[f64]) -> bool {
    let n = centred.len();
    let part = |i: usize| &centred[i * n / PARTS..(i + 1) * n / PARTS];
    let means: Vec<f64> =
        (0..PARTS).map(|i| part(i).iter().sum::<f64>() / part(i).len() as f64).collect();
    let mean = means.iter().sum::<f64>() / PARTS as f64;
    let square: f64 = means.iter().map(|of| (of - mean).powi(2)).sum();
    let neighbours: f64 = means.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    let of_stretches: f64 = centred.iter().map(|value| value * value).sum::<f64>() / n as f64;
    let explained = of_stretches * PARTS as f64 / n as f64 * (PARTS - 1) as f64;
    square > MORE_THAN_STRETCHES * explained && neighbours > ALIKE * square
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wandering(n: usize, stays: f64, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut noise = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut level = noise();
        let step = (1.0 - stays * stays).sqrt();
        (0..n)
            .map(|_| {
                level = stays * level + step * noise();
                level
            })
            .collect()
    }

    #[test]
    fn independent_stretches_are_drawn_singly_and_alike_ones_together() {
        let of = |stays| {
            let lengths =
                (0..40).map(|seed| Likeness::of(&wandering(300, stays, seed)).together as f64);
            lengths.sum::<f64>() / 40.0
        };
        assert!(of(0.0) < 2.0, "{}", of(0.0));
        assert!((3.0..9.0).contains(&of(0.37)), "correlated over a stretch: {}", of(0.37));
        assert!((12.0..30.0).contains(&of(0.82)), "over five: {}", of(0.82));
    }

    #[test]
    fn a_likeness_too_weak_to_be_drawn_together_widens() {
        let of = |stays| {
            let all = (0..200).map(|seed| Likeness::of(&wandering(60, stays, seed)));
            let single: Vec<f64> =
                all.filter(|of| of.together == 1).map(|of| of.widening).collect();
            single.iter().sum::<f64>() / single.len() as f64
        };
        assert!(of(0.0) < 1.12, "{}", of(0.0));
        // sqrt((1 + 0.25) / (1 - 0.25)) is 1.29; what stands out of it is drawn together.
        assert!((1.12..1.32).contains(&of(0.25)), "{}", of(0.25));
    }

    #[test]
    fn a_trend_and_a_level_that_wanders_through_the_recording_are_told() {
        let trend: Vec<f64> = wandering(120, 0.0, 1)
            .into_iter()
            .enumerate()
            .map(|(i, noise)| noise + i as f64 / 20.0)
            .collect();
        assert!(Likeness::of(&trend).wanders);
        let told = (0..40).filter(|&seed| Likeness::of(&wandering(60, 0.95, seed)).wanders).count();
        assert!(told >= 35, "{told} of 40");
        let told = (0..40).filter(|&seed| Likeness::of(&wandering(60, 0.0, seed)).wanders).count();
        assert!(told <= 3, "{told} of 40 of noise");
    }

    #[test]
    fn of_few_or_equal_stretches_nothing_is_known() {
        let one = Likeness { together: 1, wanders: false, widening: 1.0 };
        assert_eq!(Likeness::of(&[1.0, 2.0, 3.0]), one);
        assert_eq!(Likeness::of(&[7.0; 100]), one);
    }
}
