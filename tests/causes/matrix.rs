//! Injected faults against named causes, as Markdown tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use onbeat::cause::CauseKind;
use onbeat::inject::Fault;
use onbeat::probe::disturbed::{Felt, Late};
use onbeat_report::units::{Letters, time_ns};

use crate::condition::Condition;
use crate::planted::{
    Judgement, Planted, Row, explanation, is_injector, is_interrupt_thread, is_made_by, is_named,
    judged, main_beyond, main_of,
};
use crate::tally::{Tally, percent, percent_with_interval};

impl Row {
    pub(crate) fn tally(&self) -> Tally {
        Tally::new(self.felt().iter().map(|felt| judged(felt, &self.ordinary)))
    }
}

/// Returns the table, its sums, and the faults that were not injected.
pub(crate) fn of_planted(rows: &[Row]) -> String {
    let mut text = String::from(
        "## Planted and named\n\n| planted | loop, load | dose | judged | first | right | wrong | unexplained | named wrongly \
         | swamped | missed | median lateness |\n|---|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|\n",
    );
    let (mut sum, mut by_condition) = (Tally::default(), BTreeMap::<Condition, Tally>::new());
    for row in rows {
        let Some(done) = row.done() else { continue };
        let tally = row.tally();
        let (dose, late) = (time_ns(row.dose_ns, Letters::Unicode), median_late(row.felt()));
        let what = format!("`{}` | {} | {dose}", row.fault, row.condition.words());
        let _ = writeln!(text, "| {what} | {} | {} | {late} |", shares(&tally), done.missed);
        by_condition.entry(row.condition).or_default().join(&tally);
        sum.join(&tally);
    }

    for (condition, tally) in &by_condition {
        let _ = writeln!(text, "| **all** | {} | | {} | | |", condition.words(), shares(tally));
    }

    let _ = writeln!(text, "| **all** | | | {} | | |\n", shares(&sum));
    text.push_str(&of_sum(&sum));
    text.push_str(&not_planted(rows));
    text
}

fn shares(tally: &Tally) -> String {
    let all = tally.all();
    let (right, wrong) = (tally.first + tally.right, tally.wrong_ones());
    format!(
        "{all} | {} | {} | {} | {} | {} | {}",
        percent(tally.first, all),
        percent(right, all),
        percent(wrong, all),
        tally.unexplained + tally.nothing,
        tally.wrong_words(),
        tally.swamped
    )
}

/// Returns the rates with their 95 % intervals, as a sentence.
pub(crate) fn of_sum(sum: &Tally) -> String {
    let all = sum.all();
    format!(
        "Of {all} judged: named first {}, right {}, named wrongly {}, unexplained {}. {} more were swamped.\n",
        percent_with_interval(sum.first, all),
        percent_with_interval(sum.first + sum.right, all),
        percent_with_interval(sum.wrong_ones(), all),
        percent_with_interval(sum.unexplained + sum.nothing, all),
        sum.swamped
    )
}

fn not_planted(rows: &[Row]) -> String {
    let mut reasons = BTreeMap::<(&str, &str), Vec<String>>::new();
    for row in rows {
        if let Planted::Not(reason) = &row.planted {
            reasons.entry((row.fault.word(), reason)).or_default().push(row.condition.words());
        }
    }

    let mut text = String::new();
    for ((fault, reason), conditions) in reasons {
        let _ =
            write!(text, "\n`{fault}` was not planted ({}): {reason}.\n", conditions.join("; "));
    }

    text
}

fn median_late(felt: &[Felt]) -> String {
    let mut all: Vec<u64> =
        felt.iter().filter_map(explanation).map(|one| one.lateness_ns).collect();
    all.sort_unstable();
    all.get(all.len() / 2).map_or("–".to_owned(), |ns| time_ns(*ns, Letters::Unicode))
}

/// Returns the table of placebos, and the explanation of each that was named.
pub(crate) fn of_placebos(rows: &[Row]) -> String {
    let mut text = String::from(
        "\n## Placebo\n\n| planted nothing as | loop, load | runs of it | named the cause | second name \
         | named, with the number |\n|---|---|--:|--:|--:|---|\n",
    );
    let (mut runs, mut taken_in, mut seconds) = (0, 0, 0);
    let mut each = String::new();
    for row in rows.iter().filter(|row| row.done().is_some()) {
        let (mut planted, mut second) = (0, 0);
        for felt in row.felt() {
            let Some(taken) = taken_for(felt, row) else { continue };
            match taken {
                TakenFor::Planted => planted += 1,
                TakenFor::SecondName => second += 1,
            }
            let _ = write!(each, "\n{}", detail(felt, taken.words()));
        }

        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {planted} | {second} | {} |",
            row.fault,
            row.condition.words(),
            row.felt().len(),
            names(row.felt().iter().map(|felt| main_of(explanation(felt))))
        );
        runs += row.felt().len();
        (taken_in, seconds) = (taken_in + planted, seconds + second);
    }

    let _ = writeln!(text, "| **all** | | {runs} | {taken_in} | {seconds} | |");
    text + &each
}

/// What the explanation of a placebo's cycle says of the fault that was not injected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakenFor {
    /// The fault's cause.
    Planted,
    /// A second name of the fault, which needs no thread of the injector's.
    SecondName,
}

impl TakenFor {
    const fn words(self) -> &'static str {
        match self {
            Self::Planted => "placebo, named",
            Self::SecondName => "placebo, second name",
        }
    }
}

/// A placebo's cycle that is later than usual by less than this, in nanoseconds, is not a spike: a
/// third of the smallest length in the blind variant.
const LATER_THAN_USUAL_NS: u64 = 50_000;

/// Returns how a placebo's cycle was explained by the fault that was not injected; `None` if it was
/// not late, or if its main cause is none of the fault's names, or another thread, softirq or
/// interrupt than the fault's.
///
/// A second name is true without the fault: a host delivers timers late, which is how an
/// `ipi_storm` may show as well.
fn taken_for(felt: &Felt, row: &Row) -> Option<TakenFor> {
    let (fault, explanation) = (felt.injected.fault, explanation(felt)?);
    let usual_ns: u64 = row.ordinary.values().sum();
    if explanation.lateness_ns < usual_ns + LATER_THAN_USUAL_NS {
        return None;
    }

    let cause = main_beyond(explanation, explanation.lateness_ns, &row.ordinary)?;
    let thread = cause.culprit.as_ref().filter(|who| who.tid.is_some());
    let is_of_the_fault =
        |who| is_injector(who) || fault == Fault::ThreadedInterrupt && is_interrupt_thread(who);
    let is_its_own = thread.is_none_or(is_of_the_fault) && is_made_by(fault, cause);
    if !is_named(fault, cause.kind) || !is_its_own {
        return None;
    }

    let is_second = cause.kind != fault.cause() && thread.is_none();
    Some(if is_second { TakenFor::SecondName } else { TakenFor::Planted })
}

/// Returns the number of a row's placebos whose cycle is explained by the fault itself.
pub(crate) fn named_as_planted(row: &Row) -> usize {
    let taken = row.felt().iter().filter_map(|felt| taken_for(felt, row));
    taken.filter(|taken| *taken == TakenFor::Planted).count()
}

/// Returns the list of spikes without an injection.
pub(crate) fn of_others<'r>(rows: impl Iterator<Item = &'r Row>) -> String {
    let mut by_condition = BTreeMap::<Condition, Vec<&Late>>::new();
    for row in rows {
        by_condition
            .entry(row.condition)
            .or_default()
            .extend(row.done().iter().flat_map(|done| &done.others));
    }

    let mut text = String::from("\n## Spikes that were not planted\n\n");
    for (condition, others) in by_condition {
        let named = names(others.iter().map(|late| main_of(late.explanation.as_ref())));
        let _ = writeln!(text, "- {}: {} in all: {named}.", condition.words(), others.len());
    }

    text
}

fn names<'c>(named: impl Iterator<Item = Option<&'c onbeat::cause::Cause>>) -> String {
    let mut counts = BTreeMap::<Option<CauseKind>, usize>::new();
    named.for_each(|cause| *counts.entry(cause.map(|cause| cause.kind)).or_default() += 1);
    let words = counts
        .iter()
        .map(|(kind, count)| format!("{count} {}", kind.map_or("nothing", CauseKind::words)));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns every injection that was named differently, with all its causes.
pub(crate) fn details(rows: &[Row]) -> String {
    let mut text = String::from("\n## Named otherwise\n\n");
    for row in rows {
        let is_otherwise = |felt: &&Felt| {
            !matches!(judged(felt, &row.ordinary), Judgement::First | Judgement::Right)
        };
        for felt in row.felt().iter().filter(is_otherwise) {
            let what = format!("{}: {:?}", row.condition.words(), judged(felt, &row.ordinary));
            text.push_str(&detail(felt, &what));
        }
    }

    text
}

/// Returns one injection with all its causes, as a list.
pub(crate) fn detail(felt: &Felt, what: &str) -> String {
    let one = &felt.injected;
    let mut text =
        format!("- `{}` {} ({what}): {} ns, {}\n", one.fault, one.index, one.ns, one.detail);
    if let Some(met) = &felt.met {
        let sample = &met.sample;
        let from_release = one.at.as_ns().cast_signed() - sample.release.as_ns().cast_signed();
        let _ = writeln!(
            text,
            "    - began {from_release} ns after release {}, started {} ns late, worked {} ns",
            sample.index, sample.wakeup_latency_ns, sample.execution_time_ns
        );
    }

    for cause in explanation(felt).map_or(&[][..], |explanation| &explanation.causes) {
        let _ = writeln!(text, "    - {} ns {}: {}", cause.ns, cause.words(), cause.evidence);
    }

    text
}
