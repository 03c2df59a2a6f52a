//! Whether runs can be compared at all: what is not the same, and what the samples do not carry.

use std::collections::BTreeSet;

use super::compare::{Compared, Digest};
use super::statistics::Share;
use super::units::{Letters, count, listed, time_ns};

/// Sentences about what stands against comparing these runs; the last one always does.
#[must_use]
pub fn warnings(runs: &[Digest], cells: &[Compared]) -> Vec<String> {
    let mut warnings = Vec::new();
    if cells.is_empty() && runs.len() > 1 {
        warnings.push("The runs have no series in common: nothing can be compared".to_owned());
    }

    let mut differ = |what: &str, of: &dyn Fn(&Digest) -> Option<String>, why: &str| {
        let told: Vec<(String, String)> = runs.iter().filter_map(|run| Some((run.name.clone(), of(run)?))).collect();
        if told.iter().map(|(_, value)| value).collect::<BTreeSet<_>>().len() > 1 {
            let each: Vec<String> = told.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
            warnings.push(format!("{what}: {}; {why}", listed(&each)));
        }
    };

    let period = |run: &Digest| (run.summary.period_ns > 0).then(|| time_ns(run.summary.period_ns, Letters::Ascii));
    differ("The periods differ", &period, "a loop with another period sleeps differently, and has other deadlines");
    let probe = |run: &Digest| Some(run.probe.clone()).filter(|probe| !probe.is_empty());
    differ(
        "The runs were measured by different tools",
        &probe,
        "they do not begin and end their measurement at the same instants",
    );
    let loads = |run: &Digest| Some(run.summary.loads.join("+")).filter(|_| are_single(runs) && !run.is_of_load);
    differ("The loads differ", &loads, "so their effect cannot be separated from that of all else");

    for run in runs {
        for cell in &run.summary.cells {
            warnings.extend(too_few(run, cell));
        }
    }

    if cells.iter().any(|cell| cell.runs.iter().any(|figures| figures.ratios.iter().any(|ratio| ratio.low.is_none()))) {
        let why = "Ratios without an interval come from figures that fewer than ten samples, or fewer than four stretches of time, carry";
        warnings.push(why.to_owned());
    }

    if runs.iter().all(|run| run.is_of_load) {
        // Loads that took turns saw the same background.
        let in_turns = runs.iter().all(|run| run.summary.order == crate::record::RunOrder::Interleaved);
        let order = "The loads ran one after the other: what else the machine did meanwhile can look like a difference; \
                     `onbeat measure PROBE --loads` takes turns";
        warnings.extend((!in_turns && runs.len() > 1).then(|| order.to_owned()));
        return warnings;
    }

    let order = "The runs were measured one after the other: what else the machines did meanwhile can look like a difference; \
                 `onbeat bench` takes turns";
    warnings.push(order.to_owned());
    warnings
}

fn are_single(runs: &[Digest]) -> bool {
    runs.iter().all(|run| run.summary.cells.len() == 1)
}

fn too_few(run: &Digest, cell: &super::CellSummary) -> Option<String> {
    let of = cell.main()?.1.count;
    (!Share::P99.is_supported_by(of)).then(|| {
        let name =
            if run.summary.cells.len() > 1 { format!("{} in {}", cell.tuning, run.name) } else { run.name.clone() };
        format!("{name} has {} samples, too few for a p99", count(of))
    })
}
