//! Exact bounds of a rate from how often a thing happened (Clopper and Pearson, 1934).
//!
//! All through one function, the binomial's lower tail, as a regularised incomplete beta function:
//! its leading term by Loader's saddle-point expansion (2000), which keeps full precision for a
//! billion trials where differences of logarithms of factorials would not, and the rest by the
//! continued fraction (DLMF 8.17.22) after Lentz.

use std::f64::consts::PI;

/// Significance level of the bounds: 5 %.
pub const SIGNIFICANCE: f64 = 0.05;

/// The largest rate that is still compatible with `over` in `n` trials, at one-sided 95 %
/// confidence; 1 for no trials.
///
/// ```
/// use onbeat_report::binomial::upper_bound;
///
/// assert!(upper_bound(0, 29_956) <= 0.000_1, "three over the rate");
/// ```
///
/// `over` above `n` counts as `n`.
#[must_use]
pub fn upper_bound(over: u64, n: u64) -> f64 {
    if over >= n {
        return 1.0;
    }
    if over == 0 {
        return -(SIGNIFICANCE.ln() / n as f64).exp_m1();
    }

    let start = over as f64 / n as f64;
    let mut high = start;
    while high < 1.0 && lower_tail(over, n, high) > SIGNIFICANCE {
        high = (high * 2.0).min(1.0);
    }

    bisect(start, high, |rate| lower_tail(over, n, rate) > SIGNIFICANCE)
}

/// The smallest rate that is still compatible with `over` in `n` trials, at one-sided 95 %
/// confidence; 0 for no trials.
///
/// `over` above `n` counts as `n`.
#[must_use]
pub fn lower_bound(over: u64, n: u64) -> f64 {
    if over == 0 || n == 0 {
        return 0.0;
    }
    if over >= n {
        return (SIGNIFICANCE.ln() / n as f64).exp();
    }

    let upper_tail = |rate: f64| incomplete_beta(rate, over as f64, (n - over + 1) as f64);
    let mut low = over as f64 / n as f64;
    let start = low;
    while upper_tail(low) > SIGNIFICANCE {
        low /= 2.0;
    }

    bisect(low, start, |rate| upper_tail(rate) < SIGNIFICANCE)
}

/// `P(X <= over)` of `n` trials that happen at `rate` each (0 to 1).
#[must_use]
pub fn lower_tail(over: u64, n: u64, rate: f64) -> f64 {
    if over >= n || rate <= 0.0 {
        return 1.0;
    }
    if rate >= 1.0 {
        return 0.0;
    }

    1.0 - incomplete_beta(rate, (over + 1) as f64, (n - over) as f64)
}

/// The boundary between where `is_below` holds and where it does not, to twelve digits.
fn bisect(mut low: f64, mut high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    while high - low > 1e-12 * high {
        let middle = low + (high - low) / 2.0;
        if is_below(middle) { low = middle } else { high = middle }
    }
    low + (high - low) / 2.0
}

/// `I_x(a, b)` for whole `a` and `b` of at least 1 and `x` strictly between 0 and 1.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    let leading = binomial_term(a, a + b, x);
    if x < (a + 1.0) / (a + b + 2.0) {
        leading * b / (a + b) * continued_fraction(x, a, b)
    } else {
        1.0 - leading * a / (a + b) * continued_fraction(1.0 - x, b, a)
    }
}

/// The continued fraction of DLMF 8.17.22, evaluated from the front (Lentz, 1976). It settles
/// within a small multiple of `sqrt(max(a, b))` steps.
fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let kept = |value: f64| if value.abs() < TINY { TINY } else { value };
    let most_steps = 200.0 + 20.0 * a.max(b).sqrt();
    let mut c = 1.0;
    let mut d = 1.0 / kept(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    let mut m = 1.0;
    while m < most_steps {
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / kept(1.0 + even * d);
        c = kept(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / kept(1.0 + odd * d);
        c = kept(1.0 + odd / c);
        value *= d * c;

        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }

        m += 1.0;
    }

    value
}

/// `C(n, k) · p^k · (1 − p)^(n − k)` for `0 < k < n`.
fn binomial_term(k: f64, n: f64, p: f64) -> f64 {
    let exponent = stirling_rest(n)
        - stirling_rest(k)
        - stirling_rest(n - k)
        - deviance(k, n * p)
        - deviance(n - k, n * (1.0 - p));
    (n / (2.0 * PI * k * (n - k))).sqrt() * exponent.exp()
}

/// `ln n! − ((n + 1/2) ln n − n + ln(2π)/2)` for whole `n` of at least 1.
fn stirling_rest(n: f64) -> f64 {
    if n < 16.0 {
        let factorial: f64 = (1..=n as u32).map(f64::from).product();
        return factorial.ln() - ((n + 0.5) * n.ln() - n + (2.0 * PI).ln() / 2.0);
    }
    let square = n * n;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / n
}

/// `x ln(x / expected) + expected − x`, without cancellation where the two are close.
fn deviance(x: f64, expected: f64) -> f64 {
    if (x - expected).abs() >= 0.1 * (x + expected) {
        return x * (x / expected).ln() + expected - x;
    }

    let v = (x - expected) / (x + expected);
    let mut sum = (x - expected) * v;
    let mut power = 2.0 * x * v;
    let mut j = 1.0;
    loop {
        power *= v * v;
        let next = sum + power / (2.0 * j + 1.0);
        if next == sum {
            return sum;
        }

        sum = next;
        j += 1.0;
    }
}
