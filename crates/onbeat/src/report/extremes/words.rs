//! Estimates and refusals in sentences.

use super::{Estimate, Refusal};
use crate::record::Series;
use crate::report::units::{Letters, count, spoken, three_digits, time};

fn told(ns: f64) -> String {
    time(ns, Letters::Ascii)
}

pub(super) fn of(estimate: &Estimate, series: Series, largest_ns: f64) -> String {
    format!(
        "In {} the worst {} is estimated at {} (95 % interval {} to {}), from {} peaks over {} in {}, of \
         which the largest is {}. The fit holds (Anderson-Darling {}, up to {} passes; shape {}). It carries on what the \
         run has seen and guarantees nothing: a cause that did not strike in the run is not in it.",
        spoken(estimate.mission_s),
        series.words(),
        told(estimate.worst_ns),
        told(estimate.low_ns),
        told(estimate.high_ns),
        count(estimate.peaks),
        told(estimate.threshold_ns),
        spoken(estimate.stretches as f64 * estimate.stretch_s),
        told(largest_ns),
        three_digits(estimate.anderson_darling),
        three_digits(estimate.critical),
        three_digits((estimate.shape * 100.0).round() / 100.0)
    )
}

pub(super) fn refused(refusal: &Refusal, mission_s: f64) -> String {
    format!("No estimate of the worst in {}: {}.", spoken(mission_s), reason(refusal))
}

/// Why there is no estimate where nothing says when the largest values were.
pub(super) fn without_times(format: Option<&str>, series: Series) -> String {
    let why = match format {
        Some(format) => format!("its source ({format}) gives no times of its samples"),
        None => format!("this file holds no largest values of the {} over time", series.words()),
    };
    format!("No estimate of the worst case: {why}.")
}

fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::TooFew { stretches, needed, length_s } => format!(
            "the run has {} stretches of {}, and {} are needed; measure for {} or longer",
            count(*stretches as u64),
            spoken(*length_s),
            count(*needed as u64),
            spoken(*needed as f64 * length_s)
        ),
        Refusal::MissionTooLong { longest_s, .. } => {
            format!("it is more than a hundred times the run, which supports {} at most", spoken(*longest_s))
        }
        Refusal::MissionTooShort { largest_ns, .. } => {
            format!("the run is longer; the largest value it has seen, {}, is the better answer", told(*largest_ns))
        }
        Refusal::Changed { first, second, threshold_ns } => format!(
            "the run changed while it was measured, with {first} peaks over {} in its first half and {second} in its \
             second; measure under conditions that stay the same",
            told(*threshold_ns)
        ),
        Refusal::DoesNotFit { times, tried } => format!(
            "no distribution of extremes fits the largest values, whichever of {tried} thresholds is taken (misfit at \
             best {} times what is tolerated): they have several causes",
            three_digits(*times)
        ),
        Refusal::StandApart { peaks, from_ns, below_ns } => format!(
            "{} from {} on {} apart, all others end at {}: a cause of {} own, seen too rarely to tell how far it goes; \
             look at the causes of the worst spikes, or measure longer",
            if *peaks == 1 { "one value".to_owned() } else { format!("{peaks} values") },
            told(*from_ns),
            if *peaks == 1 { "stands" } else { "stand" },
            told(*below_ns),
            if *peaks == 1 { "its" } else { "their" }
        ),
        Refusal::Wall { largest_ns } => format!(
            "the largest values pile up below an end, as if something bounds them there; the largest seen, {}, is the \
             better answer",
            told(*largest_ns)
        ),
        Refusal::Unstable { shape, upper } => format!(
            "the tail changes its form further out (shape {} over the threshold, {} over the median peak): it has several \
             causes",
            three_digits((shape * 100.0).round() / 100.0),
            three_digits((upper * 100.0).round() / 100.0)
        ),
        Refusal::TooWide { worst_ns, largest_ns } => format!(
            "the interval around {} reaches beyond twenty times the largest value seen ({}); measure longer",
            told(*worst_ns),
            told(*largest_ns)
        ),
    }
}
