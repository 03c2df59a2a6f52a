//! How long to measure before a share of releases on time can be shown.
//!
//! The rule is the verdict's own ([`super::verdict`]): how many releases with none over, or with so
//! many that came singly, show that at most `1 − at/100` of them are.

use serde::{Deserialize, Serialize};

use super::statistics::LEAST_ABOVE;
use super::units::{Letters, count, spoken, time};
use super::verdict::Rule;

/// How long to measure to support a percentage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Enough {
    /// Percentage of releases that meet the limit.
    pub at: f64,
    /// Period T, in nanoseconds; 0 where it is unknown.
    pub period_ns: u64,
    /// Number of releases that suffice if `over` of them are over the limit.
    pub releases: u64,
    /// Their duration, in seconds; 0 where the period is unknown.
    pub seconds: f64,
    /// Number of releases that may be over the limit.
    pub over: u64,
    /// Number of releases until ten samples are beyond the percentile `at`.
    pub for_percentile: u64,
    /// Their duration, in seconds.
    pub for_percentile_s: f64,
    /// The result as a sentence.
    pub sentence: String,
}

/// Returns the releases and the time needed to show that at least `at` percent of the releases are
/// on time, at a period of `period_ns`, when `over` of them will have been late. `None` when `at`
/// is not above 0 and below 100: that all are on time is shown by no number.
#[must_use]
pub fn enough(at: f64, period_ns: u64, over: u64) -> Option<Enough> {
    if !(at > 0.0 && at < 100.0) {
        return None;
    }

    let allowed = (100.0 - at) / 100.0;
    let releases = Rule::new(allowed).releases_with(over);
    let seconds = releases as f64 * period_ns as f64 / 1e9;
    // Ten above: the rank of the percentile leaves them out.
    let for_percentile = (LEAST_ABOVE as f64 / allowed - 1e-6).ceil() as u64;
    let for_percentile_s = for_percentile as f64 * period_ns as f64 / 1e9;
    let late = match over {
        0 => "none over the limit".to_owned(),
        over => format!("{} over the limit", count(over)),
    };

    let sentence =
        sentence(at, period_ns, (releases, seconds), (for_percentile, for_percentile_s), &late);
    Some(Enough {
        at,
        period_ns,
        releases,
        seconds,
        over,
        for_percentile,
        for_percentile_s,
        sentence,
    })
}

/// Numbers of releases, each with its seconds; without these where the period is not known.
fn sentence(
    at: f64,
    period_ns: u64,
    releases: (u64, f64),
    for_percentile: (u64, f64),
    late: &str,
) -> String {
    let n = count(releases.0);
    let above = count(for_percentile.0);
    if period_ns == 0 {
        return format!(
            "PASS at {at} % needs {n} samples with {late}. p{at} with 10 samples beyond it needs {above} samples."
        );
    }

    format!(
        "PASS at {at} % needs {n} releases with {late}: {} at a period of {}. p{at} with 10 samples beyond it needs \
         {above} releases: {}.",
        spoken(releases.1),
        time(period_ns as f64, Letters::Ascii),
        spoken(for_percentile.1)
    )
}

#[cfg(test)]
mod tests {
    use super::super::verdict::{Outages, Side};
    use super::*;
    use onbeat_record::OutageSums;

    #[test]
    fn five_nines_take_ten_hours_at_a_kilohertz() {
        let five_nines = enough(99.999, 1_000_000, 0).expect("below 100");
        assert_eq!((five_nines.releases, five_nines.for_percentile), (38_414_589, 1_000_000));
        assert_eq!(
            five_nines.sentence,
            "PASS at 99.999 % needs 38,414,589 releases with none over the limit: 10 h 40 min at a period of 1 ms. p99.999 with 10 \
             samples beyond it needs 1,000,000 releases: 16 min 40 s."
        );
    }

    #[test]
    fn without_a_period_no_time_is_given() {
        let sentence = enough(99.9, 0, 0).expect("below 100").sentence;
        assert!(sentence.ends_with("samples beyond it needs 10,000 samples."), "{sentence}");
        assert!(!sentence.contains("period") && !sentence.contains("ns"), "{sentence}");
    }

    #[test]
    fn late_ones_take_longer_and_no_number_shows_all() {
        let with_two = enough(99.99, 500_000, 2).expect("below 100");
        assert!(with_two.releases > 60_000);
        assert_eq!(enough(100.0, 1_000_000, 0), None);
    }

    #[test]
    fn what_is_enough_is_what_the_verdict_asks_for() {
        for at in [99.0, 99.9, 99.99] {
            let rule = Rule::new((100.0 - at) / 100.0);
            let needed = enough(at, 1, 30).expect("below 100").releases;
            let seen = |releases| {
                let sums = OutageSums { outages: 30, late: 30, squares: 30, largest: 1 };
                rule.side(&Outages { releases, sums, ..Outages::default() })
            };
            assert_eq!((seen(needed), seen(needed - 1)), (Side::Within, Side::Either));
        }
    }
}
