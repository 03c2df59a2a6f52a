//! Causes of latency, counted: how many by their main cause, how much of their lateness is
//! accounted for, and what would remove the causes.

use super::cell::CellSummary;
use super::remedies::{remedy, tunings};
use super::units::{
    Letters, capital, count, counted, listed, percent, three_digits, time_ns, under,
};
use onbeat_cause::{CauseKind, advice};
use onbeat_record::{CauseCount, RunFile};

pub use super::cause_counts::{Causes, merged, of_run, share_of};

/// Causes named in a sentence; the others are counted together.
const NAMED: usize = 4;

/// The sentences on causes: one per load, and the advice for its most frequent cause. Nothing
/// without an analysis, or nothing was late.
#[must_use]
pub fn sentences(cells: &[CellSummary], loads: &[String]) -> Vec<String> {
    let mut sentences = Vec::new();
    for load in loads {
        let of_load: Vec<&CellSummary> = cells.iter().filter(|cell| cell.load == *load).collect();
        let causes = merged(of_load.iter().map(|cell| &cell.causes));
        let spikes: u64 = of_load.iter().filter_map(|cell| cell.spike_count).sum();
        sentences.extend(
            in_words(&causes, spikes).map(|words| format!("{}, {words}", capital(&under(load)))),
        );
        // What helps under one load is said once.
        let new = against(&causes, &of_load)
            .into_iter()
            .filter(|advice| !sentences.contains(advice))
            .collect::<Vec<_>>();
        sentences.extend(new);
    }

    sentences.extend(cost(cells));
    sentences
}

/// The cost of one flight recorder for all cells of a bench, from the bench's own closing line;
/// nothing where there was none.
#[must_use]
pub fn cost_of_bench(bench: &RunFile) -> Option<String> {
    let end = bench.end.as_ref().filter(|end| end.causes_bytes > 0 && end.t > 0.0)?;
    let percent = (end.causes_cpu_ns as f64 / (end.t * 1e9) * 1e4).round() / 100.0;
    let percent = three_digits(percent);
    let mib = three_digits(end.causes_bytes as f64 / 1_048_576.0);
    Some(format!(
        "Cause analysis took {percent} % of a core, outside the loops, and {mib} MiB of buffers"
    ))
}

/// The cost of the analysis of causes beside the loops; nothing without an analysis.
fn cost(cells: &[CellSummary]) -> Option<String> {
    let shares: Vec<f64> = cells.iter().filter_map(|cell| cell.causes_cpu_share).collect();
    let most = shares.iter().copied().reduce(f64::max)?;
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let bytes = cells.iter().filter_map(|cell| cell.causes_bytes).max().unwrap_or(0);
    let mib = three_digits(bytes as f64 / 1_048_576.0);
    let share = |share: f64| format!("{} %", three_digits((share * 1e4).round() / 100.0));
    let most = if shares.len() > 1 { format!(" (at most {})", share(most)) } else { String::new() };

    Some(format!(
        "Cause analysis took {} of a core{most}, outside the loop, and {mib} MiB of buffers",
        share(mean)
    ))
}

/// `17 spikes: 9 steal (worst 3.7 ms), 5 kernel section in dd/write (worst 1.2 ms); causes account
/// for 98.2 % of their lateness`.
#[must_use]
pub fn in_words(causes: &Causes, spikes: u64) -> Option<String> {
    let analysed: u64 = causes.values().map(|count| count.spikes).sum();
    if analysed == 0 {
        return None;
    }

    let mut by_number: Vec<(CauseKind, &CauseCount)> =
        causes.iter().map(|(kind, count)| (*kind, count)).collect();
    by_number.sort_by_key(|(_, count)| std::cmp::Reverse(count.spikes));
    let parts = by_number.iter().take(NAMED).map(|(kind, of_kind)| one_in_words(*kind, of_kind));
    let mut parts: Vec<String> = parts.collect();
    let others = by_number.iter().skip(NAMED).map(|(_, count)| count);
    let spikes_of_others: u64 = others.clone().map(|of| of.spikes).sum();
    if let Some(worst_ns) = others.map(|of| of.worst_ns).max() {
        let worst = time_ns(worst_ns, Letters::Ascii);
        parts.push(format!("{} with other causes (worst {worst})", count(spikes_of_others)));
    }

    if spikes > analysed {
        parts.push(format!("{} not analysed", count(spikes - analysed)));
    }

    Some(format!(
        "{}: {}; causes account for {} of their lateness",
        counted(spikes.max(analysed), "spike"),
        listed(&parts),
        share(causes)
    ))
}

fn share(causes: &Causes) -> String {
    let all = causes.values().fold(CauseCount::default(), CauseCount::merged);
    // Rounded down, as on the page: 100 % means all of it.
    let of = u128::from(all.lateness_ns.max(1));
    percent((u128::from(all.accounted_ns) * 1_000 / of).min(1_000) as f64 / 1e3)
}

/// `9 softirq NET_RX (worst 3.7 ms)`, or `9 softirq (7 NET_RX; worst 3.7 ms)` where others made
/// some of them late.
/// `9 steal (worst 3.7 ms)`.
pub(super) fn one_in_words(kind: CauseKind, of_kind: &CauseCount) -> String {
    let number = count(of_kind.spikes);
    let worst = time_ns(of_kind.worst_ns, Letters::Ascii);
    match of_kind.most_frequent() {
        // Here "who" is the reason why nothing was looked for.
        Some((reason, most)) if kind == CauseKind::Unexplained => {
            let found_nothing = of_kind.spikes - most.spikes;
            let rest = match found_nothing {
                0 => String::new(),
                n => format!("{} unexplained and ", count(n)),
            };
            format!("{rest}{} not analysed ({reason}; worst {worst})", count(most.spikes))
        }
        None => format!("{number} {} (worst {worst})", kind.words()),
        Some((who, most)) if most.spikes == of_kind.spikes => {
            format!("{number} {}{} {who} (worst {worst})", kind.words(), kind.link())
        }
        Some((who, most)) => {
            let link = kind.link().trim_start();
            let space = if link.is_empty() { "" } else { " " };
            format!(
                "{number} {} ({} {link}{space}{who}; worst {worst})",
                kind.words(),
                count(most.spikes)
            )
        }
    }
}

/// The remedies for the most frequent known cause, and for that of the worst spike if it is
/// another, each with the command that shows its tunings.
fn against(causes: &Causes, cells: &[&CellSummary]) -> Vec<String> {
    let named = || causes.iter().filter(|(kind, _)| **kind != CauseKind::Unexplained);
    let most = named().max_by_key(|(_, count)| count.spikes);
    let worst = named().max_by_key(|(_, count)| count.worst_ns);
    let of = |(kind, _): (&CauseKind, &CauseCount), which: &str| {
        let advices = remedy(*kind, cells);
        let words = advice::in_words(&advices).unwrap_or_else(|| NO_REMEDY.to_owned());
        // Sentences of their own: a command that is broken into lines cannot be pasted.
        let ids = tunings(*kind, &advices, cells);
        let check = advice::tuning_command(&ids).map(|command| format!("Tunings: {command}"));
        let worth = advice::measure_command(&ids).map(|command| format!("Worth here: {command}"));
        [format!("To reduce {}{which}: {words}", kind.words())]
            .into_iter()
            .chain(check)
            .chain(worth)
            .collect::<Vec<_>>()
    };

    match (most, worst) {
        (Some(most), Some(worst)) if most.0 != worst.0 => {
            [of(most, " (the most frequent)"), of(worst, " (the worst)")].concat()
        }
        (Some(most), _) => of(most, ""),
        (None, _) => Vec::new(),
    }
}

/// The text where no advice applies that is not in effect already.
pub(super) const NO_REMEDY: &str = "no further remedy is known for this run's settings";

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_cause::{Advice, Cause, Culprit, Fact, Situation};
    use onbeat_record::{CulpritCount, SpikeNote};

    fn counted(spikes: u64, worst_ns: u64) -> CauseCount {
        let lateness_ns = spikes * worst_ns;
        CauseCount {
            spikes,
            worst_ns,
            lateness_ns,
            accounted_ns: lateness_ns * 98 / 100,
            ..CauseCount::default()
        }
    }

    fn by(mut count: CauseCount, culprits: &[(&str, u64)]) -> CauseCount {
        for (name, spikes) in culprits {
            count.culprits.insert(
                (*name).to_owned(),
                CulpritCount { spikes: *spikes, worst_ns: count.worst_ns },
            );
        }
        count
    }

    #[test]
    fn a_culprit_is_credited_with_its_own_spikes_only() {
        let all = Causes::from([(CauseKind::Softirq, by(counted(9, 3_700_000), &[("NET_RX", 9)]))]);
        assert!(
            in_words(&all, 9).unwrap().starts_with("9 spikes: 9 softirq NET_RX (worst 3.7 ms);")
        );

        let most = by(counted(9, 3_700_000), &[("hackbench", 7), ("kdamond", 1)]);
        let causes = Causes::from([(CauseKind::Preempted, most)]);
        assert!(
            in_words(&causes, 9)
                .unwrap()
                .starts_with("9 spikes: 9 preempted (7 by hackbench; worst 3.7 ms);")
        );
    }

    /// A cell whose spikes have these causes; those of the culprits were kept.
    fn cell(causes: Causes, kept: &[&str], situation: Situation) -> CellSummary {
        let softirq = |name: &&str| Cause {
            kind: CauseKind::Softirq,
            ns: 1_000,
            evidence: String::new(),
            culprit: Some(Culprit { name: (*name).to_owned(), ..Culprit::default() }),
        };

        let spike = |name: &&str| SpikeNote { causes: vec![softirq(name)], ..SpikeNote::default() };
        CellSummary {
            causes,
            spikes: kept.iter().map(spike).collect(),
            situation,
            ..CellSummary::default()
        }
    }

    #[test]
    fn the_remedy_is_that_of_the_culprit_of_most_spikes() {
        let of = |culprits: &[(&str, u64)]| {
            let causes = Causes::from([(CauseKind::Softirq, by(counted(9, 1_000), culprits))]);
            remedy(CauseKind::Softirq, &[&cell(causes, &["NET_RX", "TIMER"], Situation::default())])
        };
        assert_eq!(of(&[("TIMER", 8), ("NET_RX", 1)]), [Advice::SoftirqTimers]);
        assert_eq!(
            of(&[("NET_RX", 8), ("TIMER", 1)]),
            [Advice::MoveSoftirq, Advice::ThreadedSoftirqs]
        );
    }

    #[test]
    fn the_remedy_is_for_the_cell_with_most_of_the_spikes_and_says_where_there_is_none() {
        let spikes = |spikes| Causes::from([(CauseKind::Migration, counted(spikes, 1_000))]);
        let bound = Situation { facts: [Fact::Bound].into(), ..Situation::default() };
        let free = cell(spikes(2), &[], Situation::default());
        let bound = cell(spikes(9), &[], bound);
        assert_eq!(remedy(CauseKind::Migration, &[&free, &bound]), [Advice::WhoMoves]);
        assert_eq!(remedy(CauseKind::Migration, &[&free]), [Advice::Bind]);

        let spinning = Situation { facts: [Fact::Spins].into(), ..Situation::default() };
        let causes = Causes::from([(CauseKind::WakeUpPath, counted(3, 1_000))]);
        let said = against(&causes, &[&cell(causes.clone(), &[], spinning)]);
        assert_eq!(
            said,
            ["To reduce wake-up itself: no further remedy is known for this run's settings"]
        );
    }

    #[test]
    fn a_remedy_names_the_tunings_that_exist_on_the_machine_of_the_run() {
        let causes = Causes::from([(CauseKind::KernelSection, counted(3, 1_000))]);
        let said = |fact| {
            let situation =
                Situation { facts: [fact, Fact::PreemptRt].into(), ..Situation::default() };
            against(&causes, &[&cell(causes.clone(), &[], situation)])
        };
        assert_eq!(said(Fact::CpusetV1)[1], "Tunings: onbeat tune check shield.cpuset_v1");
        assert_eq!(said(Fact::CpusetV1)[2], "Worth here: onbeat tune measure shield.cpuset_v1");
        assert_eq!(said(Fact::CpusetV2)[1], "Tunings: onbeat tune check shield.cpuset_v2");
        assert_eq!(said(Fact::Bound).len(), 1, "neither");
    }

    #[test]
    fn a_share_is_that_of_the_lateness_and_not_of_the_number() {
        let causes = Causes::from([
            (CauseKind::PageFault, counted(1, 9_000)),
            (CauseKind::Smi, counted(9, 111_000)),
        ]);
        assert!(
            (share_of(&causes, &[CauseKind::PageFault, CauseKind::Migration]) - 0.008_928_571)
                .abs()
                < 1e-6
        );
        assert_eq!(share_of(&Causes::new(), &[CauseKind::Smi]).to_bits(), 0);
    }

    #[test]
    fn causes_are_listed_most_frequent_first() {
        let causes = Causes::from([
            (CauseKind::HypervisorSteal, counted(9, 3_700_000)),
            (CauseKind::KernelSection, counted(5, 1_200_000)),
            (CauseKind::Unexplained, counted(1, 300_000)),
        ]);

        assert_eq!(
            in_words(&causes, 17).as_deref(),
            Some(
                "17 spikes: 9 steal (worst 3.7 ms), 5 kernel section (worst 1.2 ms), 1 unexplained (worst 300 us) and 2 \
                 not analysed; causes account for 98 % of their lateness"
            )
        );
        let said = against(&causes, &[&cell(causes.clone(), &[], Situation::default())]);

        assert!(matches!(&said[..], [one] if one.starts_with("To reduce steal: ")));
    }

    #[test]
    fn the_worst_cause_gets_its_advice_too_when_it_is_not_the_most_frequent() {
        let causes = Causes::from([
            (CauseKind::HypervisorSteal, counted(9, 300_000)),
            (CauseKind::RtThrottling, counted(1, 50_000_000)),
        ]);
        let said = against(&causes, &[&cell(causes.clone(), &[], Situation::default())]);

        assert!(said[0].starts_with("To reduce steal (the most frequent): "), "{said:?}");
        assert!(said[1].starts_with("To reduce RT throttling (the worst): "), "{said:?}");
    }

    #[test]
    fn the_cost_of_the_analysis_is_reported_once_for_all_cells() {
        let cell = |share: f64, bytes| CellSummary {
            causes_cpu_share: Some(share),
            causes_bytes: Some(bytes),
            ..CellSummary::default()
        };

        let cells = [cell(0.01, 8 << 20), cell(0.02, 10 << 20), CellSummary::default()];
        assert_eq!(
            cost(&cells).as_deref(),
            Some(
                "Cause analysis took 1.5 % of a core (at most 2 %), outside the loop, and 10 MiB of buffers"
            )
        );
        assert_eq!(cost(&[CellSummary::default()]), None);
    }

    #[test]
    fn without_an_analysis_nothing_is_reported() {
        assert_eq!(in_words(&Causes::new(), 17), None);
    }
}
