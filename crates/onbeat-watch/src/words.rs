//! Threads, waits and loops in words.

use onbeat_figures::Letters;
use onbeat_figures::units::time_ns;

use crate::choose::{SeenSeries, SeenThread, ThreadNature, rate};
use crate::class::Class;
use crate::event::{TimerClock, TimerKind};
use crate::measure::WatchedLoop;
use crate::pool::{Pool, two_periods};
use crate::process;
use crate::survey::Survey;
use crate::waits::Source;

/// `cyclictest [4711]`.
#[must_use]
pub fn process_words(pid: i32) -> String {
    let name = process::thread(pid).map_or_else(|| "process".to_owned(), |thread| thread.name);
    format!("{name} [{pid}]")
}

/// Returns how a series waits, in a few words.
#[must_use]
pub fn source_words(source: Source) -> &'static str {
    match source {
        Source::Sleep { relative: true, .. } => "sleeps for",
        Source::Sleep { clock: TimerClock::Realtime | TimerClock::Tai, .. } => {
            "sleeps by the wall clock"
        }
        Source::Sleep { .. } => "sleeps until",
        Source::Timer { kind: TimerKind::TimerFd, .. } => "timerfd",
        Source::Timer { kind: TimerKind::Posix, .. } => "POSIX timer",
        Source::Timer { kind: TimerKind::Interval, .. } => "interval timer",
        Source::Timer { .. } => "timer",
        Source::Event => "is woken",
        Source::Call => "is called",
    }
}

/// `pool-1-thread-* [2 threads]`.
pub(crate) fn pool_name(pool: &Pool<'_>) -> String {
    format!("{}* [{} threads]", pool.stem, pool.threads.len())
}

/// Returns a class, with the waits of a cycle where it has several.
pub(crate) fn class_words(class: &Class) -> String {
    match class {
        Class::Exact { waits, .. } if *waits > 1 => format!("exact, {waits} a cycle"),
        _ => class.word().to_owned(),
    }
}

/// What is said of threads that cannot be measured from outside, or not as one loop.
#[must_use]
pub fn remarks(survey: &Survey, letters: Letters) -> Vec<String> {
    let of = |thread: &SeenThread| {
        let name = format!("{} [{}]", thread.facts.name, thread.facts.tid());
        if let Some(words) = several_periods(thread, survey.looked_ns, letters) {
            return Some(format!("{name} {words}"));
        }
        match thread.nature(survey.looked_ns) {
            ThreadNature::Spins => Some(format!(
                "{name} spins: it never waits in the kernel, so its cycles cannot be seen from outside. --cycle SYMBOL takes each call of a function as one, such as --cycle Controller::update; or put four lines of onbeat.h into its loop (docs/guide/own-loop.md)."
            )),
            ThreadNature::Floods => Some(format!(
                "{name} causes {} events per second, more than can be recorded, and was left out.",
                thread.flood.unwrap_or(0)
            )),
            _ => None,
        }
    };
    survey.threads.iter().filter_map(of).collect()
}

/// What is said of an event loop: several timers, or one wait for two of them.
pub(crate) fn several_periods(
    thread: &SeenThread,
    looked_ns: u64,
    letters: Letters,
) -> Option<String> {
    let timers: Vec<&SeenSeries> = thread
        .series
        .iter()
        .filter(|one| one.source.is_timer() && rate(one.waits, looked_ns) >= LEAST_SHOWN_RATE)
        .collect();
    let periodic: Vec<String> = timers
        .iter()
        .filter_map(|one| one.class.as_ref().filter(|class| class.has_grid()))
        .map(|class| time_ns(class.period_ns(), letters))
        .collect();
    let other = "--cycle SYMBOL measures the calls of the function that another one has";
    if periodic.len() > 1 {
        return Some(format!(
            "is an event loop with {} timers, of {}: the most regular one is measured; {other}.",
            periodic.len(),
            periodic.join(" and ")
        ));
    }

    let busiest = thread.most_frequent()?;
    let is_none = |class: &Class| matches!(class, Class::Irregular { .. } | Class::Mean { .. });
    let has_none = busiest.class.as_ref().is_some_and(is_none);
    let (one, two) = two_periods(&busiest.releases).filter(|_| has_none)?;
    let (one, two) = (time_ns(one, letters), time_ns(two, letters));
    Some(format!(
        "is an event loop with two periods in one wait, {one} and {two}: its releases cannot be distinguished from outside. --cycle SYMBOL measures the calls of the function that one of them has."
    ))
}

/// Fewer releases of a timer in a second are not worth a word.
const LEAST_SHOWN_RATE: f64 = 1.0;

/// What is measured, in a sentence.
#[must_use]
pub fn choice_words(watched: &WatchedLoop, letters: Letters) -> String {
    let facts = &watched.thread;
    let period = time_ns(watched.class.period_ns(), letters);
    let class = match watched.class {
        Class::Exact { waits: 1, .. } => format!("releases on an exact grid of {period}"),
        Class::Exact { waits, .. } => {
            format!(
                "{waits} waits in each cycle of exactly {period}; a cycle begins after the longest"
            )
        }
        Class::Locked { .. } => format!("releases follow a grid of {period}"),
        Class::Drifting { .. } => format!("it drifts: {period} in the mean"),
        Class::Mean { .. } => format!("{period} in the mean, without a grid"),
        Class::Irregular { .. } => format!("not periodic, {period} in the mean"),
    };
    let by = match watched.source {
        Source::Event => "the latency counts from the waking",
        Source::Call if watched.timer == 0 => "when a call was due is not known",
        Source::Call => "the latency counts from the timer's expiry to the call",
        _ => "the latency counts from the timer's expiry",
    };
    let others = match watched.pool.len() {
        0 => String::new(),
        more => format!(" and {more} more that take turns"),
    };
    format!(
        "Measuring {} [{}]{others}, {}: {class}; {by}.",
        facts.name,
        facts.tid(),
        facts.policy.words()
    )
}
