//! Estimates and refusals in sentences.

use super::{Estimate, NoEstimate};
use crate::units::{Letters, count, spoken, three_digits, time};
use onbeat_record::Series;

fn formatted(ns: f64) -> String {
    time(ns, Letters::Ascii)
}

pub(super) fn of(estimate: &Estimate, series: Series, largest_ns: f64) -> String {
    format!(
        "Estimated worst {} in {}: {} (95 % interval {} to {}), from {} peaks over {} in {}; the largest observed is {}. \
         The fit passes (Anderson-Darling {}, at most {} allowed; shape {}). It extrapolates the recorded tail and \
         guarantees nothing: causes that did not occur in the run are not included.",
        series.words(),
        spoken(estimate.mission_s),
        formatted(estimate.worst_ns),
        formatted(estimate.low_ns),
        formatted(estimate.high_ns),
        count(estimate.peaks),
        formatted(estimate.threshold_ns),
        spoken(estimate.stretches as f64 * estimate.stretch_s),
        formatted(largest_ns),
        three_digits(estimate.anderson_darling),
        three_digits(estimate.critical),
        three_digits((estimate.shape * 100.0).round() / 100.0)
    )
}

pub(super) fn refused(refusal: &NoEstimate, mission_s: f64) -> String {
    let what = match refusal {
        NoEstimate::TooFew { .. } => "Too little data to extrapolate".to_owned(),
        _ => format!("No estimate of the worst case in {}", spoken(mission_s)),
    };
    format!("{what}: {}.", reason(refusal))
}

/// Why an estimate was refused where the times of the largest values are not known.
pub(super) fn without_times(format: Option<&str>, series: Series) -> String {
    let why = match format {
        Some(format) => format!("its source ({format}) gives no times of its samples"),
        None => format!("this file has no maxima of the {} over time", series.words()),
    };
    format!("No estimate of the worst case: {why}.")
}

fn reason(refusal: &NoEstimate) -> String {
    match refusal {
        NoEstimate::TooFew { stretches, needed, length_s } => format!(
            "{} of the {} intervals of {} that are needed; measure for {} or longer",
            count(*stretches as u64),
            count(*needed as u64),
            spoken(*length_s),
            spoken(*needed as f64 * length_s)
        ),
        NoEstimate::MissionTooLong { longest_s, .. } => {
            format!(
                "it is more than 100 times the run, which supports at most {}",
                spoken(*longest_s)
            )
        }
        NoEstimate::MissionTooShort { largest_ns, .. } => {
            format!("the run is longer; use its largest value, {}", formatted(*largest_ns))
        }
        NoEstimate::Changed { first, second, threshold_ns } => format!(
            "the run is not stationary: {first} peaks over {} in its first half, {second} in its second; measure under \
             constant conditions",
            formatted(*threshold_ns)
        ),
        NoEstimate::DoesNotFit { times, tried } => format!(
            "no extreme value distribution fits at any of {tried} thresholds (best Anderson-Darling statistic {} times \
             the critical value): the maxima have several causes",
            three_digits(*times)
        ),
        NoEstimate::StandApart { peaks, from_ns, below_ns } => format!(
            "{} above {} {} separate from all others, which end at {}: another cause, too rare to extrapolate; check the \
             causes of the worst spikes, or measure longer",
            if *peaks == 1 { "one value".to_owned() } else { format!("{peaks} values") },
            formatted(*from_ns),
            if *peaks == 1 { "is" } else { "are" },
            formatted(*below_ns)
        ),
        NoEstimate::Wall { largest_ns } => format!(
            "the largest values accumulate below an upper bound; use the largest observed, {}",
            formatted(*largest_ns)
        ),
        NoEstimate::Unstable { shape, upper } => format!(
            "the shape of the tail changes with the threshold (shape {} over the threshold, {} over the median peak): it has several \
             causes",
            three_digits((shape * 100.0).round() / 100.0),
            three_digits((upper * 100.0).round() / 100.0)
        ),
        NoEstimate::TooWide { worst_ns, largest_ns } => format!(
            "the interval around {} exceeds 20 times the largest observed value ({}); measure longer",
            formatted(*worst_ns),
            formatted(*largest_ns)
        ),
    }
}
