//! The closing lines of a terminal: one line a subject, the verdict first.
//!
//! Each line has a label and a text that fits beside it into 80 columns. Everything else stands
//! above, or in the page.

use super::best::Overall;
use super::bootstrap::LEAST_STRETCHES;
use super::by_cpu;
use super::causes::{self, Causes};
use super::cell::CellSummary;
use super::deadline::DeadlineVerdict;
use super::events::alarms_in_words;
use super::focus::{decisive, listed_tunings, named, with};
use super::motion;
use super::remedies::{remedy, tunings};
use super::statistics::Share;
use super::summary::Summary;
use super::sweep::Sweep;
use super::units::{Letters, count, counted, percent, spoken, three_digits, time_ns};
use super::verdict::{Outcome, Verdict, limit_in_words, missed_in_words};
use onbeat_cause::{Advice, CauseKind, advice};
use onbeat_record::CauseCount;

/// What a text has room for behind its label in a terminal of 80 columns.
const WIDTH: usize = 70;
/// Room for the verdict of a limit, with its counts.
const TWO_LINES: usize = 2 * WIDTH;
/// Longer benches than this are not proposed, in seconds.
const LONGEST_S: f64 = 86_400.0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosingLine {
    /// What it is: `verdict`, `events`, `robot`, `worst`, `best`, `effect`, `cause`, `remedy`, `tunings`,
    /// `gain`, `power`.
    pub label: &'static str,
    /// What it says.
    pub text: String,
    /// How the run came out, on the line that says so.
    pub outcome: Option<Outcome>,
}

fn line(label: &'static str, text: String) -> ClosingLine {
    ClosingLine { label, text, outcome: None }
}

/// The closing lines of a summary, without the one that names the page.
#[must_use]
pub fn of(summary: &Summary) -> Vec<ClosingLine> {
    let is_bench = summary.tunings.len() > 1;
    let mut lines = vec![deciding(summary)];
    lines.extend(events(summary));
    lines.extend(motion::closing(&summary.cells).map(|text| line("robot", text)));
    lines.extend(by_cpu::worst_in_words(summary).map(|text| line("worst", text)));
    lines.extend(Some(summary).filter(|_| is_bench).and_then(best));
    lines.extend(Some(summary).filter(|_| is_bench).and_then(effect));
    lines.extend(cause(summary));
    lines.extend(summary.power.clone().map(|text| line("power", text)));

    lines
}

/// The verdict in a clause: the first closing line; of imports, which have none, the first clause of
/// their sentence.
#[must_use]
pub fn verdict_of(summary: &Summary) -> String {
    if summary.cells.iter().any(|cell| cell.import.is_some()) {
        let sentence = &summary.verdict.sentence;
        return sentence.split("; ").next().unwrap_or(sentence).to_owned();
    }
    deciding(summary).text
}

/// The verdict; of a sweep with a limit, the one of the two that decides.
fn deciding(summary: &Summary) -> ClosingLine {
    let of_limit = verdict(summary);
    match &summary.sweep {
        Some(sweep) if of_limit.outcome != summary.outcome() => verdict_of_sweep(sweep),
        _ => of_limit,
    }
}

/// What was wrong on the bus and with the robot, of the cell with most alarms.
fn events(summary: &Summary) -> Option<ClosingLine> {
    let with_alarms = summary.cells.iter().filter_map(|cell| Some((cell, cell.events.as_ref()?)));
    let (cell, events) = with_alarms.max_by_key(|(_, events)| events.alarm_count())?;
    let first = events.incidents.first()?;
    let alarms = counted(events.alarm_count(), "alarm");
    let of = if summary.cells.len() > 1 {
        format!(" in cell {}/{}", cell.tuning, cell.load)
    } else {
        String::new()
    };
    let texts = [format!("{alarms}{of}: {first}"), first.clone(), format!("{alarms}{of}")];
    texts.into_iter().find(|text| text.chars().count() <= WIDTH).map(|text| line("events", text))
}

fn verdict(summary: &Summary) -> ClosingLine {
    let Overall { outcome, best, worst, .. } = &summary.verdict;
    if let Some(((_, alarms), outcome)) = summary.most_alarming().zip(*outcome)
        && (summary.limit.is_none() || alarms.outcome == outcome && outcome != Outcome::Pass)
    {
        let found = alarms_in_words(alarms.alarms);
        let most = count(alarms.most);
        let text = format!("{}: {found}, {most} allowed", outcome.words());
        return ClosingLine { outcome: Some(outcome), ..line("verdict", text) };
    }

    let Some((limit, outcome)) = summary.limit.zip(*outcome) else {
        return summary.sweep.as_ref().map_or_else(|| by_default(summary), verdict_of_sweep);
    };
    let decides = best.as_ref().or(worst.as_ref()).filter(|_| limit.limit_ns > 0);
    let decisive = decides.and_then(|of| decisive(&summary.cells, &of.tuning));
    let figures = decisive.map_or(String::new(), |(cell, verdict)| {
        let Verdict { over, releases, .. } = *verdict;
        let share = percent(over as f64 / releases.max(1) as f64);
        let whose = match (worst, summary.loads.len()) {
            (Some(_), _) => format!("{}, ", cell.tuning),
            (None, 1) => cell.on_cpu().map_or(String::new(), |on| format!("{on}, ")),
            (None, _) => {
                let cpu = cell.cpu.map_or(String::new(), |cpu| format!("on CPU {cpu}, "));
                format!("worst load `{}`, {cpu}", cell.load)
            }
        };
        format!("; {whose}{} of {} late ({share})", count(over), count(releases))
    });
    let who = if let Some(worst) = worst {
        match outcome {
            Outcome::Fail => format!(" on {}", worst.tuning),
            Outcome::Pass | Outcome::Inconclusive => " on every CPU".to_owned(),
        }
    } else if summary.tunings.len() > 1 {
        match outcome {
            Outcome::Pass => {
                best.as_ref().map_or(String::new(), |best| format!(" {}", with(&best.tuning)))
            }
            Outcome::Inconclusive => String::new(),
            Outcome::Fail if summary.cells.iter().all(|cell| cell.permitted) => {
                " with any tuning".to_owned()
            }
            Outcome::Fail => " with any permitted tuning".to_owned(),
        }
    } else {
        String::new()
    };

    let words = match outcome {
        Outcome::Fail => missed_in_words(limit),
        Outcome::Pass | Outcome::Inconclusive => limit_in_words(limit),
    };
    let verdict = outcome.words();
    let answer = format!("{verdict}: {words}");

    // The counts matter more than the tuning, which has a line of its own.
    let candidates =
        [format!("{verdict}{who}: {words}{figures}"), format!("{answer}{figures}"), answer];
    let [longest, ..] = &candidates;
    let fits = |text: &&String| text.chars().count() <= TWO_LINES;
    let text = candidates.iter().find(fits).unwrap_or(longest).clone();

    ClosingLine { outcome: Some(outcome), ..line("verdict", text) }
}

/// Where no limit is given, the best tuning by the loop's own deadline.
fn by_default(summary: &Summary) -> ClosingLine {
    let Overall { best, worst, deadline, .. } = &summary.verdict;
    let Some(DeadlineVerdict { outcome, words, .. }) = deadline else {
        if summary.cells.iter().all(|cell| cell.series.is_empty()) {
            return line("verdict", summary.verdict.sentence.clone());
        }
        let text = "no limit given; --limit 200us --at 99.9 decides PASS or FAIL";
        return line("verdict", text.to_owned());
    };

    let fewer = if *outcome == Outcome::Fail { "fewer than " } else { "" };
    let who = match best {
        Some(best) if summary.tunings.len() > 1 => format!(" {}", with(&best.tuning)),
        None if worst.is_some() && *outcome == Outcome::Pass => " on every CPU".to_owned(),
        _ => String::new(),
    };
    let answer = format!("{}: {fewer}{words}", outcome.words());
    let whose = format!("{}{who}: {fewer}{words}", outcome.words());
    let candidates = [
        format!("{whose} (no --limit given)"),
        format!("{whose} (default)"),
        format!("{answer} (default)"),
        answer,
    ];
    let [.., shortest] = &candidates;
    let text =
        candidates.iter().find(|text| text.chars().count() <= WIDTH).unwrap_or(shortest).clone();
    ClosingLine { outcome: Some(*outcome), ..line("verdict", text) }
}

/// Whether the jitter is allowed at every load.
fn verdict_of_sweep(sweep: &Sweep) -> ClosingLine {
    let (allowed, loads) = sweep.passed();
    let outcome = sweep.outcome();
    let jitter = time_ns(sweep.allowed_jitter_ns, Letters::Ascii);
    let default = if sweep.is_default { " (default)" } else { "" };
    let text = format!(
        "{}: jitter within {jitter} at {allowed} of {loads} loads{default}",
        outcome.words()
    );

    ClosingLine { outcome: Some(outcome), ..line("verdict", text) }
}

fn best(summary: &Summary) -> Option<ClosingLine> {
    let Overall { best, ties, times_longer, .. } = &summary.verdict;
    let best = best.as_ref()?;
    let all_tie = ties.len() + 1
        == summary
            .cells
            .iter()
            .filter(|cell| cell.load == best.load && cell.main().is_some())
            .count();
    let decide = times_longer
        .map(|times| times * summary.elapsed_s)
        .filter(|needed_s| *needed_s <= LONGEST_S);
    let decide = |does: &str| {
        decide.map_or(String::new(), |needed_s| {
            format!(" (a {} run would {does})", rounded_time(needed_s))
        })
    };
    let text = match ties.as_slice() {
        [] => {
            format!("{} (by late releases and tail latency over all loads)", named(&best.tuning))
        }
        _ if all_tie => {
            format!("no tuning is distinguishable{}", decide("show one"))
        }
        ties => {
            let names = match ties.len() {
                1..=4 => listed_tunings(ties),
                many => format!("{many} others"),
            };
            format!(
                "{}, statistically tied with {names}{}",
                named(&best.tuning),
                decide(if ties.len() > 1 { "separate them" } else { "separate the two" })
            )
        }
    };

    Some(line("best", text))
}

/// A duration before a noun: `13-minute`, `2-hour`.
fn rounded_time(seconds: f64) -> String {
    match seconds {
        s if s < 5400.0 => format!("{:.0}-minute", (s / 60.0).ceil().max(1.0)),
        s => format!("{:.0}-hour", (s / 3600.0).ceil()),
    }
}

/// The same as an option takes it: `13m`, `2h`.
#[must_use]
pub fn typed_time(seconds: f64) -> String {
    rounded_time(seconds).replace("-minute", "m").replace("-hour", "h")
}

/// What the best tuning changes against none, under the load that is looked at first; nothing where
/// the two cannot be distinguished.
fn effect(summary: &Summary) -> Option<ClosingLine> {
    let Overall { ties, .. } = &summary.verdict;
    let focus = summary.focus.as_ref()?;
    let [first, best] = focus.tunings.as_slice() else { return None };
    if first != "none" || ties.iter().any(|tie| tie == first) {
        return None;
    }
    let without = summary.cell(first, &focus.load)?;
    let with = summary.cell(best, &focus.load)?;
    let ((_, with_figures), (_, figures)) = (with.main()?, without.main()?);
    let supported = |share: Share| {
        let (one, other) = (figures.percentile(share)?, with_figures.percentile(share)?);
        (one.supported && other.supported).then_some((share.label(), one.value_ns, other.value_ns))
    };

    let shares = [Share::P99_99, Share::P99_9, Share::P99, Share::P90, Share::P50];
    let (share, from_ns, to_ns) = shares.into_iter().find_map(supported)?;
    let time = |ns: u64| time_ns(ns, Letters::Ascii);
    let late =
        |cell: &CellSummary| percent(cell.late_or_skipped() as f64 / cell.slots.max(1) as f64);
    Some(line(
        "effect",
        format!(
            "{}: {share} {} -> {}; missed or skipped {} -> {}",
            without.load,
            time(from_ns),
            time(to_ns),
            late(without),
            late(with)
        ),
    ))
}

/// The cause of most spikes of the best tuning, or of all where it has none, and what removes it.
fn cause(summary: &Summary) -> Vec<ClosingLine> {
    let best = summary.verdict.best.as_ref().map(|best| best.tuning.as_str());
    let of_best: Vec<&CellSummary> =
        summary.cells.iter().filter(|cell| Some(cell.tuning.as_str()) == best).collect();
    let all: Vec<&CellSummary> = summary.cells.iter().collect();
    let named = [("", of_best), (" in all cells", all)].into_iter().find_map(|(whose, cells)| {
        let causes = causes::merged(cells.iter().map(|cell| &cell.causes));
        top(&causes, &cells, whose)
    });

    named.map_or_else(Vec::new, TopCause::into_lines)
}

/// The most frequent cause in words, what removes it, and the command that shows the tunings for
/// it.
struct TopCause {
    words: String,
    remedy: Option<Advice>,
    check: Option<String>,
    measure: Option<String>,
}

impl TopCause {
    /// The whole remedy: in some, what to do stands behind the first comma.
    fn into_lines(self) -> Vec<ClosingLine> {
        let Self { words, remedy, check, measure } = self;
        let remedy = remedy.map_or(causes::NO_REMEDY, Advice::text);
        let mut lines = vec![line("cause", words), line("remedy", remedy.to_owned())];
        lines.extend(check.map(|command| line("tunings", command)));
        lines.extend(measure.map(|command| line("gain", command)));
        lines
    }
}

/// The cause of most spikes, of equal ones the named and the worst: by who did it where one culprit
/// made more than half of them late, with its own spikes only. Where the worst spike of all is not
/// among them, it follows with its own cause.
fn top(causes: &Causes, cells: &[&CellSummary], whose: &str) -> Option<TopCause> {
    let rank = |(kind, count): &(&CauseKind, &CauseCount)| {
        (count.spikes, **kind != CauseKind::Unexplained, count.worst_ns)
    };
    let (kind, of_kind) = causes.iter().max_by_key(rank)?;
    let all = count(causes.values().map(|count| count.spikes).sum());
    let time = |ns| time_ns(ns, Letters::Ascii);
    let (who, spikes, worst_ns) =
        match of_kind.most_frequent().filter(|(_, of)| of.spikes * 2 > of_kind.spikes) {
            Some((who, of)) => (kind.words_with(who), of.spikes, of.worst_ns),
            None => (kind.words().to_owned(), of_kind.spikes, of_kind.worst_ns),
        };
    let mut words =
        format!("{who}: {} of {all} spikes{whose}, worst {}", count(spikes), time(worst_ns));
    let of_all = causes.iter().max_by_key(|(_, of)| of.worst_ns);
    if let Some((kind, of)) = of_all.filter(|(_, of)| of.worst_ns > worst_ns) {
        let by = of.culprits.iter().find(|(_, culprit)| culprit.worst_ns == of.worst_ns);
        let by = by.map_or_else(|| kind.words().to_owned(), |(who, _)| kind.words_with(who));
        words.push_str(&format!("; worst of all {}: {by}", time(of.worst_ns)));
    }

    let remedy = remedy(*kind, cells).first().copied();
    let ids = tunings(*kind, remedy.as_slice(), cells);
    let check = advice::tuning_command(&ids);
    let measure = advice::measure_command(&ids);
    Some(TopCause { words, remedy, check, measure })
}

/// What would distinguish the best tuning from its ties, in a sentence; nothing without ties.
#[must_use]
pub fn to_decide(summary: &Summary) -> Option<String> {
    let Overall { best, ties, times_longer, .. } = &summary.verdict;
    let best = best.as_ref().filter(|_| !ties.is_empty())?;
    let (tuning, names) = (named(&best.tuning), listed_tunings(ties));
    let needed_s = times_longer.map(|times| times * summary.elapsed_s);

    Some(match needed_s {
        Some(needed_s) if needed_s <= LONGEST_S => format!(
            "To distinguish {tuning} from {names}, measure for {}: onbeat bench --for {}",
            spoken(needed_s),
            typed_time(needed_s)
        ),
        Some(needed_s) => format!(
            "So little separates {tuning} and {names} that {} days would be needed to distinguish them: choose the one with the lower cost",
            three_digits(needed_s / 86_400.0)
        ),
        None => {
            format!(
                "INCONCLUSIVE which of {tuning} and {names} is better: equal tails, or fewer than {LEAST_STRETCHES} blocks or intervals; measure longer"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use onbeat_record::{CulpritCount, Series};

    use super::super::sweep::SweepStep;
    use super::super::verdict::Limit;
    use super::*;

    #[test]
    fn a_time_that_is_proposed_is_one_that_for_takes() {
        let proposed = [20.0, 61.0, 5_399.0, 5_400.0].map(typed_time);
        assert_eq!(proposed, ["1m", "2m", "90m", "2h"]);
        assert_eq!(rounded_time(61.0), "2-minute");
    }

    #[test]
    fn what_was_not_analysed_is_named_with_the_reason() {
        let most = CulpritCount { spikes: 54, worst_ns: 8_840_000 };
        let culprits = BTreeMap::from([("too many spikes at once".to_owned(), most)]);
        let count = CauseCount { spikes: 54, culprits, ..CauseCount::default() };
        let top = top(&Causes::from([(CauseKind::Unexplained, count)]), &[], "").unwrap();
        let said = "not analysed (too many spikes at once): 54 of 54 spikes, worst 8.84 ms";
        assert_eq!(top.words, said);

        let of = |worst_ns| CauseCount { spikes: 1, worst_ns, ..CauseCount::default() };
        let each = [
            (CauseKind::HypervisorSteal, of(700_000)),
            (CauseKind::KernelSection, of(500_000)),
            (CauseKind::Unexplained, of(900_000)),
        ];
        let top = super::top(&Causes::from(each), &[], "").unwrap();
        let said = "steal: 1 of 3 spikes, worst 700 us; worst of all 900 us: unexplained";
        assert_eq!(top.words, said, "a name, and the worst");

        let of = |spikes, worst_ns| CulpritCount { spikes, worst_ns };
        let culprits =
            BTreeMap::from([("a".to_owned(), of(3, 40_000)), ("b".to_owned(), of(1, 2_000_000))]);
        let count =
            CauseCount { spikes: 4, worst_ns: 2_000_000, culprits, ..CauseCount::default() };
        let top = super::top(&Causes::from([(CauseKind::Preempted, count)]), &[], " in all cells");
        let said = "preempted by a: 3 of 4 spikes in all cells, worst 40 us; \
                    worst of all 2 ms: preempted by b";
        assert_eq!(top.unwrap().words, said);
    }

    #[test]
    fn of_a_sweep_with_a_limit_the_first_line_is_the_one_that_decides() {
        let first = |is_default| {
            let sweep = Sweep {
                series: Series::ReleaseLatency,
                allowed_jitter_ns: 100_000,
                is_default,
                steps: vec![SweepStep::default()],
                missing: Vec::new(),
                sentence: String::new(),
            };
            let limit = Limit { limit_ns: 1_000_000, at: 99.0, on: Series::ReleaseLatency };
            let verdict = Overall { outcome: Some(Outcome::Pass), ..Overall::default() };
            let summary =
                Summary { limit: Some(limit), sweep: Some(sweep), verdict, ..Summary::default() };
            of(&summary).swap_remove(0).text
        };
        assert_eq!(first(false), "FAIL: jitter within 100 us at 0 of 1 loads");
        assert!(first(true).starts_with("PASS: 99 % of "), "nobody asked for a jitter");
    }

    #[test]
    fn a_remedy_is_never_cut() {
        for remedy in [Advice::PinVcpu, Advice::OwnInterrupts, Advice::StopTick] {
            let words = "steal: 1 of 1 spikes, worst 1 ms".to_owned();
            let top = TopCause { words, remedy: Some(remedy), check: None, measure: None };
            let lines = top.into_lines();
            assert_eq!(lines[1].label, "remedy");
            assert_eq!(lines[1].text, remedy.text());
        }
    }
}
