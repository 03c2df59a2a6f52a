//! One probe on several CPUs at once: the machine is as good as its worst CPU.

use super::best::{Overall, stalls};
use super::cell::CellSummary;
use super::ranking::{RankedTuning, Ranking, ranking};
use super::summary::Summary;
use super::units::{Letters, cell_name, count, listed, time_ns, under};
use super::verdict::{Limit, Outcome, limit_in_words, missed_in_words, stalls_in_words};
use super::worst_cpu;
use onbeat_record::{RunFile, RunOrder, Series};

/// CPUs that a sentence lists by number; of more it names how many.
const LISTED: usize = 8;

/// Whether the cells of a summary are CPUs that were measured at the same time.
#[must_use]
pub fn is_by_cpu(summary: &Summary) -> bool {
    summary.order == RunOrder::AtOnce
}

/// The answer from all CPUs: the limit holds where it holds on each of them. The one with the worst
/// outcome is named; of equal ones that with the most late releases, then that with the largest
/// value.
#[must_use]
pub(super) fn overall(
    cells: &[CellSummary],
    files: &[RunFile],
    (cpus, loads): (&[String], &[String]),
    limit: Option<Limit>,
) -> Overall {
    let Some(ranking) = ranking(cells, files, (cpus, loads), limit) else {
        return Overall {
            outcome: limit.map(|_| Outcome::Inconclusive),
            sentence: "INCONCLUSIVE: no CPU has samples".to_owned(),
            ..Overall::default()
        };
    };
    let worst = &ranking.candidates[ranking.worst()];
    // A CPU without samples has not shown that it holds the limit.
    let missing: Vec<&str> = cells
        .iter()
        .filter(|cell| cell.main().is_none())
        .map(|cell| cell.tuning.as_str())
        .collect();
    let outcome = match worst.outcome {
        Outcome::Pass if !missing.is_empty() => Outcome::Inconclusive,
        outcome => outcome,
    };

    let mut sentence = match limit {
        Some(limit) => judged(&ranking, (worst, outcome), limit),
        None => compared(&ranking, worst),
    };
    if !missing.is_empty() {
        sentence = format!("{sentence}. Without samples: {}", missing.join(", "));
    }
    if let Some(stalls) = stalls_in_words(&stalls(cells)) {
        sentence = format!("{sentence}. {stalls}");
    }
    Overall {
        outcome: limit.map(|_| outcome),
        worst: Some(worst.tail().1.cell()),
        sentence,
        ..Overall::default()
    }
}

fn judged(
    ranking: &Ranking<'_>,
    (worst, outcome): (&RankedTuning<'_>, Outcome),
    limit: Limit,
) -> String {
    let cell = worst.decisive.unwrap_or(worst.tail().1);
    let detail = cell.verdict.as_ref().map_or(String::new(), |verdict| verdict.sentence.clone());
    let (cpu, under) = (worst.tuning, under(&cell.load));
    let words = match outcome {
        Outcome::Pass | Outcome::Inconclusive => {
            let met = if outcome == Outcome::Pass { "met" } else { "may be met" };
            let limit = limit_in_words(limit);
            format!("limit {met} on every CPU: {limit} {under}; {cpu} (the worst): {detail}")
        }
        Outcome::Fail => {
            format!(
                "{} on {}; {cpu} (the worst), {under}: {detail}",
                missed_in_words(limit),
                failing(ranking)
            )
        }
    };
    format!("{}: {words}", outcome.words())
}

/// `CPU 1 and CPU 3`, `12 of 64 CPUs`.
fn failing(ranking: &Ranking<'_>) -> String {
    let fails = ranking.candidates.iter().filter(|cpu| cpu.outcome == Outcome::Fail);
    let names: Vec<String> = fails.map(|cpu| cpu.tuning.to_owned()).collect();
    match names.len() {
        ..=LISTED => listed(&names),
        fails => format!("{fails} of {} CPUs", ranking.candidates.len()),
    }
}

fn compared(ranking: &Ranking<'_>, worst: &RankedTuning<'_>) -> String {
    let (tail_ns, cell) = worst.tail();
    let series = cell.main().map_or(Series::ReleaseLatency, |(series, _)| series);
    let max_ns = cell.max_ns();
    let time = |ns: u64| time_ns(ns, Letters::Ascii);
    let releases = count(cell.main().map_or(cell.slots, |(_, figures)| figures.count));
    let figure = format!(
        "{} is worst: {} {} {} {}, at most {} in {releases} releases",
        worst.tuning,
        ranking.share.label(),
        series.words(),
        time(tail_ns),
        under(&cell.load),
        time(max_ns),
    );
    let late = match cell.late_or_skipped() {
        0 => String::new(),
        late => format!(", {} missed or skipped", count(late)),
    };
    let others = || ranking.candidates.iter().filter(|cpu| cpu.tuning != worst.tuning);
    let later = others().max_by_key(|cpu| cpu.max_ns()).filter(|cpu| cpu.max_ns() > max_ns);
    let other = match (later, others().min_by_key(|cpu| cpu.max_ns())) {
        (Some(later), _) => latest(later.tuning, later.max_ns()),
        (None, Some(least)) => {
            format!("; least late is {}: at most {}", least.tuning, time(least.max_ns()))
        }
        (None, None) => String::new(),
    };
    format!("{figure}{late}{other}")
}

/// The largest value, where it is of another CPU than the worst.
fn latest(cpu: &str, max_ns: u64) -> String {
    format!("; the latest was on {cpu}: {}", time_ns(max_ns, Letters::Ascii))
}

/// The figures of the worst CPU in a clause: `CPU 3: p99.9 34 us, max 1.2 ms`; of a bench that of its
/// best tuning, `CPU 3 (PMC under paper): p99.9 34 us, max 1.2 ms`. The largest value of all is named
/// where it is of another CPU.
#[must_use]
pub fn worst_in_words(summary: &Summary) -> Option<String> {
    let Overall { worst, best, .. } = &summary.verdict;
    let of_bench = || best.as_ref().filter(|best| best.cpu.is_some());
    let worst = worst.as_ref().or_else(of_bench)?;
    let cell = summary.cell(&worst.tuning, &worst.load)?;
    let (_, figures) = cell.main()?;
    let name = match worst.cpu {
        Some(cpu) => format!("CPU {cpu} ({})", cell_name(&worst.tuning, &worst.load)),
        None => worst.tuning.clone(),
    };
    let supported = figures.percentiles.iter().rev().find(|percentile| percentile.supported);
    let tail = supported.map_or_else(String::new, |percentile| {
        format!("p{} {}, ", percentile.p, time_ns(percentile.value_ns, Letters::Ascii))
    });
    let later = maxima(summary, cell)
        .max_by_key(|(_, max_ns)| *max_ns)
        .filter(|(_, max_ns)| *max_ns > figures.max_ns)
        .map_or_else(String::new, |(cpu, max_ns)| latest(&cpu, max_ns));
    Some(format!("{name}: {tail}max {}{later}", time_ns(figures.max_ns, Letters::Ascii)))
}

/// The largest value on each CPU under the load of a cell: its own loops, or the cells beside it.
fn maxima<'s>(
    summary: &'s Summary,
    of: &'s CellSummary,
) -> impl Iterator<Item = (String, u64)> + 's {
    let own = of
        .cpus
        .iter()
        .filter_map(|on| Some((format!("CPU {}", on.cpu), on.figures.as_ref()?.max_ns)));
    let is_beside = |cell: &&CellSummary| is_by_cpu(summary) && cell.load == of.load;
    let beside = summary.cells.iter().filter(is_beside);
    own.chain(beside.filter_map(|cell| Some((cell.tuning.clone(), cell.main()?.1.max_ns))))
}

/// Why there are no causes, and the command that records those of the worst CPU.
#[must_use]
pub(super) fn without_causes(summary: &Summary) -> Option<String> {
    if let Some(cpu) = summary.verdict.best.as_ref().and_then(|best| best.cpu) {
        return worst_cpu::without_causes(&summary.cells, cpu);
    }
    let worst = summary.verdict.worst.as_ref()?;
    let spikes: u64 = summary.cells.iter().filter_map(|cell| cell.spike_count).sum();
    let typed = summary.command.iter().skip_while(|word| *word != "measure").nth(1);
    let probe = typed.map(String::as_str).filter(|word| !word.starts_with('-')).unwrap_or("timer");
    let cpu = worst.tuning.strip_prefix("CPU ")?;
    (spikes > 0).then(|| {
        format!(
            "Causes of the {} spikes were not recorded, because the flight recorder follows one loop; those of {}: \
             `onbeat measure {probe} --cpu {cpu}`",
            count(spikes),
            worst.tuning
        )
    })
}
