//! Quantiles of chi-square, Student's t and the normal distribution.
//!
//! The chi-square quantile inverts the regularised incomplete gamma function (series and continued
//! fraction, DLMF 8.11.4 and 8.9.2) from Wilson and Hilferty's approximation (1931) by Halley's
//! method.

use std::f64::consts::PI;

use crate::bootstrap;

/// From this shape on Wilson and Hilferty's approximation is exact to seven digits.
const LARGE_SHAPE: f64 = 1e5;

/// The point that chi-square with `freedom` degrees (any positive number) is below with probability
/// `p`, strictly between 0 and 1.
pub(super) fn chi_square(p: f64, freedom: f64) -> f64 {
    2.0 * gamma(p, freedom / 2.0)
}

/// The quantile of the gamma distribution of a shape and scale 1.
fn gamma(p: f64, shape: f64) -> f64 {
    let approximate = wilson_hilferty(p, shape);
    if shape >= LARGE_SHAPE {
        return approximate;
    }

    let start = if shape > 1.0 { approximate.max(1e-3) } else { of_small_shape(p, shape) };
    let ln_of_shape = ln_gamma(shape);
    let mut x = start;
    for _ in 0..24 {
        if x <= f64::MIN_POSITIVE {
            return 0.0;
        }
        let density = ((shape - 1.0) * x.ln() - x - ln_of_shape).exp();
        let newton = (incomplete_gamma(shape, x, ln_of_shape) - p) / density;
        let bent = (newton * ((shape - 1.0) / x - 1.0)).min(1.0);
        let step = newton / (1.0 - 0.5 * bent);
        let next = x - step;
        // A step beyond 0 is halved towards it.
        x = if next > 0.0 { next } else { x / 2.0 };
        if !x.is_finite() {
            return approximate.max(0.0);
        }
        if step.abs() < 1e-12 * x {
            break;
        }
    }

    x
}

fn wilson_hilferty(p: f64, shape: f64) -> f64 {
    let ninth = 1.0 / (9.0 * shape);
    shape * (1.0 - ninth + normal(p) * ninth.sqrt()).max(0.0).powi(3)
}

/// A start for shapes of at most 1, from the two ends of the distribution.
fn of_small_shape(p: f64, shape: f64) -> f64 {
    let turn = 1.0 - shape * (0.253 + shape * 0.12);
    if p < turn { (p / turn).powf(1.0 / shape) } else { 1.0 - ((1.0 - p) / (1.0 - turn)).ln() }
}

/// `P(shape, x)`, the regularised lower incomplete gamma function.
fn incomplete_gamma(shape: f64, x: f64, ln_of_shape: f64) -> f64 {
    let leading = (shape * x.ln() - x - ln_of_shape).exp();
    if x < shape + 1.0 {
        let mut term = 1.0 / shape;
        let mut sum = term;
        let mut next = shape;
        while term > sum * 1e-16 {
            next += 1.0;
            term *= x / next;
            sum += term;
        }
        return leading * sum;
    }

    // The continued fraction from the front (Lentz, 1976).
    let mut b = x + 1.0 - shape;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut value = d;
    let mut i = 1.0;
    loop {
        let a = -i * (i - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        value *= d * c;
        if (d * c - 1.0).abs() < 1e-15 || i > 1e6 {
            return 1.0 - leading * value;
        }
        i += 1.0;
    }
}

/// `ln Γ(x)` for positive `x`, by Stirling's series from 16 on.
fn ln_gamma(x: f64) -> f64 {
    let mut below = 1.0_f64;
    let mut z = x;
    while z < 16.0 {
        below *= z;
        z += 1.0;
    }

    let square = z * z;
    let rest = (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
        / z;
    (z - 0.5) * z.ln() - z + (2.0 * PI).ln() / 2.0 + rest - below.ln()
}

/// The quantile of the normal distribution (Acklam's rational approximation, 1.2e-9 relative).
pub(super) fn normal(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let polynomial = |of: &[f64], x: f64| of.iter().fold(0.0, |sum, factor| sum * x + factor);

    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    if p < 0.02425 {
        tail(p)
    } else if p > 1.0 - 0.02425 {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        let square = q * q;
        polynomial(&A, square) * q / (polynomial(&B, square) * square + 1.0)
    }
}

/// The quantile of Student's t (Cornish and Fisher's expansion, Abramowitz and Stegun 26.7.5),
/// within 1 % from 9 degrees of freedom on.
pub(super) fn student(p: f64, freedom: f64) -> f64 {
    let z = normal(p);
    let fourth = (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5)
        - 1920.0 * z.powi(3)
        - 945.0 * z)
        / 92_160.0;
    bootstrap::student(z, freedom) + fourth / freedom.powi(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close(found: f64, known: f64, relative: f64) {
        assert!((found - known).abs() <= relative * known.abs(), "{found} instead of {known}");
    }

    #[test]
    fn chi_square_agrees_with_its_tables() {
        // scipy.stats.chi2.ppf
        for (p, freedom, known) in [
            (0.95, 1.0, 3.841_458_820_694_124),
            (0.95, 2.0, 5.991_464_547_107_979),
            (0.05, 2.0, 0.102_586_588_775_101_1),
            (0.95, 10.0, 18.307_038_053_275_143),
            (0.05, 10.0, 3.940_299_136_119_06),
            (0.995, 1.0, 7.879_438_576_622_417),
            (0.95, 200.0, 233.994_268_889_232_47),
            (0.05, 200.0, 168.278_554_436_628_4),
        ] {
            is_close(chi_square(p, freedom), known, 1e-9);
        }
    }

    #[test]
    fn chi_square_of_whole_pairs_is_a_sum_of_poisson_terms() {
        // P(chi2(2k) <= 2x) = P(Poisson(x) >= k)
        for k in [1_u32, 2, 7, 40, 300] {
            for p in [0.0005, 0.05, 0.5, 0.95, 0.9995] {
                let x = chi_square(p, 2.0 * f64::from(k)) / 2.0;
                let mut term = (-x).exp();
                let mut below = 0.0;
                for i in 0..k {
                    below += term;
                    term *= x / f64::from(i + 1);
                }
                is_close(1.0 - below, p, 1e-6);
            }
        }
    }

    #[test]
    fn few_degrees_of_freedom_and_very_many_have_their_quantiles() {
        assert!(chi_square(0.05, 0.02) < 1e-100);
        is_close(chi_square(0.05, 0.5), 8.437_150_840_5e-6, 1e-6);
        let many = 4e6;
        is_close(chi_square(0.95, many), 4_004_653.485_366_155, 1e-7);
        is_close(chi_square(0.95, 199_999.0), chi_square(0.95, 200_001.0) - 2.005_2, 1e-7);
    }

    #[test]
    fn normal_and_student_agree_with_their_tables() {
        is_close(normal(0.95), 1.644_853_626_951, 1e-8);
        is_close(normal(0.0005), -3.290_526_731, 1e-8);
        for (p, freedom, known) in [
            (0.95, 9.0, 1.833_113),
            (0.95, 39.0, 1.684_875),
            (0.995, 9.0, 3.249_836),
            (0.995, 19.0, 2.860_935),
        ] {
            is_close(student(p, freedom), known, 1e-3);
        }
    }
}
