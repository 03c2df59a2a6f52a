//! What an imported run does not carry: the width of its source's buckets, samples beyond them, and
//! what the source does not record.

use std::collections::BTreeMap;

use super::statistics::Statistics;
use super::units::{Letters, count, time_ns};
use onbeat_record::{Import, Series};

/// The notes of an imported run, as sentences.
#[must_use]
pub fn notes(import: &Import) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let has_histogram = |series: &Series| !import.figures_only.contains(series);
    for (series, resolution) in import.resolution.iter().filter(|(of, _)| has_histogram(of)) {
        notes.extend(coarseness(*series, import));
        if let Some(beyond) = resolution.beyond.filter(|beyond| beyond.count > 0) {
            let from = time_ns(beyond.from_ns, Letters::Ascii);
            let to = time_ns(beyond.to_ns, Letters::Ascii);
            let (samples, exceed) =
                if beyond.count == 1 { ("sample", "exceeds") } else { ("samples", "exceed") };
            notes.push(format!(
                "{} {samples} of {} {exceed} the range of the source's histogram: between {from} and {to}",
                count(beyond.count),
                series.words()
            ));
        }
    }

    notes.extend(
        import.missing.iter().map(|what| format!("not in the file ({}): {what}", import.format)),
    );
    notes
}

/// `wake-up latency: bucket width 1 us`.
fn coarseness(series: Series, import: &Import) -> Option<String> {
    let resolution = import.resolution.get(&series)?;
    let words = series.words();
    if !resolution.upper_ends_ns.is_empty() {
        return Some(format!(
            "{words}: {} buckets of uneven width",
            resolution.upper_ends_ns.len()
        ));
    }

    let step = time_ns(resolution.step_ns, Letters::Ascii);
    match resolution.doubles_from {
        // An HdrHistogram with three digits from 1 ns is as fine as onbeat's own.
        Some(sub_buckets) if resolution.step_ns > 1 || sub_buckets < 2048 => {
            let up_to = time_ns(resolution.step_ns.saturating_mul(sub_buckets), Letters::Ascii);
            Some(format!("{words}: bucket width {step}, wider beyond {up_to}"))
        }
        None if resolution.step_ns > 1 => Some(format!("{words}: bucket width {step}")),
        _ => None,
    }
}

/// Marks figures that fall beyond the source's histogram: they are upper ends, and no sample stands
/// above them for certain.
pub(super) fn mark_beyond(series: &mut BTreeMap<Series, Statistics>, import: &Import) {
    for (series, figures) in series {
        let Some(beyond) = import.beyond(*series) else { continue };
        for percentile in figures
            .percentiles
            .iter_mut()
            .filter(|percentile| percentile.value_ns >= beyond.from_ns)
        {
            percentile.supported = false;
        }

        for low in
            figures.low.iter_mut().filter(|low| low.max_ns >= beyond.from_ns && low.q < 100.0)
        {
            low.supported = false;
        }
    }
}
