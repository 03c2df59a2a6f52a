//! The discrete Fourier transform of a power of two of points, in place (Cooley and Tukey, 1965).

use std::f64::consts::TAU;

/// Transforms `re + i·im`; both have the same length, a power of two. Twice gives the points times
/// their number, turned around.
pub(super) fn transform(re: &mut [f64], im: &mut [f64]) {
    let n = re.len();
    let bits = n.trailing_zeros();
    if bits == 0 {
        return;
    }

    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if j > i {
            re.swap(i, j);
            im.swap(i, j);
        }
    }

    let turns: Vec<(f64, f64)> = (0..n / 2)
        .map(|k| {
            let (sine, cosine) = (-TAU * k as f64 / n as f64).sin_cos();
            (cosine, sine)
        })
        .collect();
    let mut half = 1;
    while half < n {
        let stride = n / (2 * half);
        for start in (0..n).step_by(2 * half) {
            let (re_low, re_high) = re[start..start + 2 * half].split_at_mut(half);
            let (im_low, im_high) = im[start..start + 2 * half].split_at_mut(half);
            for k in 0..half {
                let (cosine, sine) = turns[k * stride];
                let turned_re = re_high[k] * cosine - im_high[k] * sine;
                let turned_im = re_high[k] * sine + im_high[k] * cosine;
                re_high[k] = re_low[k] - turned_re;
                im_high[k] = im_low[k] - turned_im;
                re_low[k] += turned_re;
                im_low[k] += turned_im;
            }
        }

        half *= 2;
    }
}

/// The powers of two real series that came through one transform, at a place of it: their spectra
/// are its even and odd parts.
pub(super) fn powers(re: &[f64], im: &[f64], k: usize) -> (f64, f64) {
    let mirror = (re.len() - k) % re.len();
    let (a, b, c, d) = (re[k], im[k], re[mirror], im[mirror]);
    (((a + c) * (a + c) + (b - d) * (b - d)) / 4.0, ((b + d) * (b + d) + (a - c) * (a - c)) / 4.0)
}

/// For a series and the marks of where it has points (1 or 0): per lag below `lags`, the sum of
/// products of points so far apart, and how many pairs there are.
pub(super) fn correlate(values: &[f64], present: &[f64], lags: usize) -> (Vec<f64>, Vec<f64>) {
    let n = (values.len() + lags).next_power_of_two();
    let mut re = vec![0.0; n];
    let mut im = vec![0.0; n];
    re[..values.len()].copy_from_slice(values);
    im[..present.len()].copy_from_slice(present);
    transform(&mut re, &mut im);
    let powers = (0..n).map(|k| powers(&re, &im, k));
    let (mut power, mut marks): (Vec<f64>, Vec<f64>) = powers.unzip();
    transform(&mut power, &mut marks);
    let scale = 1.0 / n as f64;
    let of = |sums: &[f64]| sums[..lags].iter().map(|sum| sum * scale).collect::<Vec<f64>>();
    (of(&power), of(&marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_the_sums_they_stand_for() {
        let values: Vec<f64> = (0..50).map(|i| f64::from((i * 37) % 11) - 5.0).collect();
        let present: Vec<f64> = (0..50).map(|i| f64::from(u8::from(i % 7 != 3))).collect();
        let values: Vec<f64> = values.iter().zip(&present).map(|(v, p)| v * p).collect();
        let (sums, pairs) = correlate(&values, &present, 40);
        for lag in 0..40 {
            let sum: f64 = (lag..50).map(|i| values[i] * values[i - lag]).sum();
            let pair: f64 = (lag..50).map(|i| present[i] * present[i - lag]).sum();
            assert!(
                (sums[lag] - sum).abs() < 1e-9 && (pairs[lag] - pair).abs() < 1e-9,
                "lag {lag}"
            );
        }
    }
}
