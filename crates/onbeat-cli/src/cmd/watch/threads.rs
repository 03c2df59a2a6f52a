//! The threads of a process: the table, the choice, and what is said of those that cannot be
//! measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_report::table::{Column, Entry, Row, Table};
use onbeat_report::units::time_ns;
use onbeat_watch::choose::{SeenSeries, SeenThread, ThreadNature, choose, rate};
use onbeat_watch::class::Class;
use onbeat_watch::event::{TimerClock, TimerKind};
use onbeat_watch::measure::WatchedLoop;
use onbeat_watch::pool::{Pool, pools, two_periods};
use onbeat_watch::process::{self, ThreadCounters, ThreadFacts};
use onbeat_watch::survey::Survey;
use onbeat_watch::waits::Source;

use crate::cmd::Failure;
use crate::cmd::failure::watch::WatchFailure;
use crate::cmd::show;
use crate::term::{letters, print_json};

/// Rows of the table; threads that did nothing are summed up.
const MOST_ROWS: usize = 24;

/// `cyclictest [4711]`.
pub(in crate::cmd) fn process_words(pid: i32) -> String {
    let name = process::thread(pid).map_or_else(|| "process".to_owned(), |thread| thread.name);
    format!("{} [{pid}]", clean(&name))
}

/// A name may contain anything.
pub(in crate::cmd) fn clean(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Returns how a series waits, in a few words.
pub(in crate::cmd) fn source_words(source: Source) -> &'static str {
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

/// The row of a pool, before those of its threads.
fn pool_row(pool: &Pool<'_>, looked_ns: u64, sign: &str) -> Row {
    let cpu_ns: u64 = pool.threads.iter().map(|thread| thread.cpu_ns).sum();
    let period = time_ns(pool.class.period_ns(), letters());
    let facts = pool.threads.first().map(|thread| &thread.facts);
    let entries: [Entry; 7] = [
        format!("{sign}{}", pool_name(pool)).into(),
        facts.map_or_else(String::new, |facts| facts.policy.words()).into(),
        facts.map_or_else(String::new, |facts| facts.cpus.clone()).into(),
        "take turns".into(),
        format!("{period}, {}", class_words(&pool.class)).into(),
        format!("{:.1}", rate(pool.releases.len() as u64, looked_ns)).into(),
        format!("{:.1} %", cpu_ns as f64 * 100.0 / looked_ns.max(1) as f64).into(),
    ];
    Row { entries: Vec::from(entries), ..Row::default() }
}

/// `pool-1-thread-* [2 threads]`.
fn pool_name(pool: &Pool<'_>) -> String {
    format!("{}* [{} threads]", clean(pool.stem), pool.threads.len())
}

/// The table of threads; the chosen one has a sign.
pub(in crate::cmd) fn table(survey: &Survey, process: &str, chosen: Option<u32>) -> Table {
    let looked_ns = survey.looked_ns;
    let mut threads: Vec<&SeenThread> = survey.threads.iter().collect();
    let key = |thread: &&SeenThread| {
        let is_chosen = chosen == Some(thread.facts.tid());
        let policy = thread.facts.policy;
        let nature = match thread.nature(looked_ns) {
            ThreadNature::Periodic => 4,
            ThreadNature::Spins | ThreadNature::Floods => 3,
            ThreadNature::NotPeriodic => 2,
            ThreadNature::Sleeps => 0,
        };
        (is_chosen, policy.is_real_time(), nature, policy.priority(), thread.cpu_ns)
    };
    threads.sort_by_key(|thread| std::cmp::Reverse(key(thread)));
    let idle = |thread: &&SeenThread| thread.nature(looked_ns) == ThreadNature::Sleeps;
    let asleep = threads.iter().filter(|thread| idle(thread)).count();
    let (shown, hidden) = if threads.len() > MOST_ROWS {
        threads.retain(|thread| !idle(thread));
        let over = threads.len().saturating_sub(MOST_ROWS);
        threads.truncate(MOST_ROWS);
        (threads, over)
    } else {
        (threads, 0)
    };

    let pools = pools(&survey.threads, looked_ns);
    let leads = |pool: &Pool<'_>| {
        pool.threads.first().is_some_and(|thread| chosen == Some(thread.facts.tid()))
    };
    let by_thread = if pools.iter().any(leads) { None } else { chosen };
    let of_pools =
        pools.iter().map(|pool| pool_row(pool, looked_ns, if leads(pool) { "> " } else { "" }));
    let mut legend = Vec::new();
    if shown.len() + hidden < survey.threads.len() {
        legend.push(format!("{asleep} threads did not run and are not shown."));
    }
    if hidden > 0 {
        legend.push(format!("{hidden} more threads are not shown; --thread names any of them."));
    }
    if survey.lost > 0 {
        legend.push(format!("{} events were lost while looking.", survey.lost));
    }
    Table {
        title: format!("Threads of {process}, {:.1} s", looked_ns as f64 / 1e9),
        columns: vec![
            Column::words("thread"),
            Column::words("policy"),
            Column::words("CPUs"),
            Column::words("waits"),
            Column::words("period"),
            Column::figures("per s"),
            Column::figures("CPU"),
        ],
        rows: of_pools
            .chain(shown.iter().flat_map(|thread| rows(thread, looked_ns, by_thread)))
            .collect(),
        legend,
    }
}

/// Series with fewer than this part of the waits of a thread's most frequent one are not shown.
const LEAST_SHARE: u64 = 100;
/// Series of a thread that are shown.
const MOST_SERIES: usize = 3;

fn rows(thread: &SeenThread, looked_ns: u64, chosen: Option<u32>) -> Vec<Row> {
    let facts = &thread.facts;
    let sign = if chosen == Some(facts.tid()) { "> " } else { "" };
    let head = |first: bool| -> [Entry; 3] {
        if first {
            [
                format!("{sign}{} [{}]", clean(&facts.name), facts.tid()).into(),
                facts.policy.words().into(),
                facts.cpus.clone().into(),
            ]
        } else {
            ["".into(), "".into(), "".into()]
        }
    };
    let cpu = format!("{:.1} %", thread.cpu_ns as f64 * 100.0 / looked_ns.max(1) as f64);
    let most = thread.series.iter().map(|one| one.waits).max().unwrap_or(0);
    let counts = |one: &&SeenSeries| one.waits > 1 && one.waits * LEAST_SHARE >= most;
    let mut series: Vec<&SeenSeries> = thread.series.iter().filter(counts).collect();
    series.sort_by_key(|one| {
        let rank = one.class.as_ref().map_or(u8::MAX, Class::regularity);
        (rank, std::cmp::Reverse(one.waits))
    });
    series.truncate(MOST_SERIES);
    let nature = thread.nature(looked_ns);
    if series.is_empty() || matches!(nature, ThreadNature::Floods | ThreadNature::Spins) {
        let words = match nature {
            ThreadNature::Floods => "floods",
            ThreadNature::Spins => "spins",
            ThreadNature::Sleeps => "asleep",
            ThreadNature::Periodic | ThreadNature::NotPeriodic => "waits rarely",
        };
        let mut entries = Vec::from(head(true));
        entries.extend([words, "", ""].map(Entry::from));
        entries.push(cpu.into());
        return vec![Row { entries, ..Row::default() }];
    }

    let row = |(place, one): (usize, &&SeenSeries)| {
        let mut entries = Vec::from(head(place == 0));
        let period = one.class.as_ref().map_or_else(
            || "too few".to_owned(),
            |class| {
                let period = time_ns(class.period_ns(), letters());
                format!("{period}, {}", class_words(class))
            },
        );
        entries.push(match (one.source, &thread.waits_in) {
            (Source::Event, Some(call)) => format!("in {call}").into(),
            (source, _) => source_words(source).into(),
        });
        entries.push(period.into());
        entries.push(format!("{:.1}", rate(one.waits, looked_ns)).into());
        entries.push(if place == 0 { cpu.clone() } else { String::new() }.into());
        Row { entries, ..Row::default() }
    };
    series.iter().enumerate().map(row).collect()
}

pub(super) fn class_words(class: &Class) -> String {
    match class {
        Class::Exact { waits, .. } if *waits > 1 => format!("exact, {waits} a cycle"),
        _ => class.word().to_owned(),
    }
}

/// What is said of threads that cannot be measured from outside, or not as one loop.
pub(in crate::cmd) fn remarks(survey: &Survey) -> Vec<String> {
    let of = |thread: &SeenThread| {
        let name = format!("{} [{}]", clean(&thread.facts.name), thread.facts.tid());
        if let Some(words) = several_periods(thread, survey.looked_ns) {
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
fn several_periods(thread: &SeenThread, looked_ns: u64) -> Option<String> {
    let timers: Vec<&SeenSeries> = thread
        .series
        .iter()
        .filter(|one| one.source.is_timer() && rate(one.waits, looked_ns) >= LEAST_SHOWN_RATE)
        .collect();
    let periodic: Vec<String> = timers
        .iter()
        .filter_map(|one| one.class.as_ref().filter(|class| class.has_grid()))
        .map(|class| time_ns(class.period_ns(), letters()))
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
    let (one, two) = (time_ns(one, letters()), time_ns(two, letters()));
    Some(format!(
        "is an event loop with two periods in one wait, {one} and {two}: from outside its releases cannot be told apart. --cycle SYMBOL measures the calls of the function that one of them has."
    ))
}

/// Fewer releases of a timer in a second are not worth a word.
const LEAST_SHOWN_RATE: f64 = 1.0;

/// Returns the thread to measure.
pub(in crate::cmd) fn chosen(
    survey: &Survey,
    process: &str,
    named: Option<&str>,
) -> Result<WatchedLoop, Failure> {
    let (thread, series) = match named {
        Some(name) => {
            let pools = pools(&survey.threads, survey.looked_ns);
            let stem = name.strip_suffix('*').unwrap_or(name);
            if let Some(pool) = pools.iter().find(|pool| pool.stem == stem).and_then(of_pool) {
                return Ok(pool);
            }
            let thread = by_name(survey, process, name)?;
            let series = thread.best(survey.looked_ns).or_else(|| thread.most_frequent());
            (thread, series.ok_or_else(|| no_series(survey, thread))?)
        }
        None => {
            let pools = pools(&survey.threads, survey.looked_ns);
            let best = choose(&survey.threads, survey.looked_ns);
            let is_first = |pool: &&Pool<'_>| {
                best.is_none_or(|(thread, series)| is_before(pool, thread, series))
            };
            if let Some(pool) = pools.first().filter(is_first).and_then(of_pool) {
                return Ok(pool);
            }
            best.ok_or_else(|| no_loop(survey, process))?
        }
    };
    let class = series.class.clone().ok_or_else(|| no_series(survey, thread))?;
    Ok(WatchedLoop {
        thread: thread.facts.clone(),
        pool: Vec::new(),
        source: series.source,
        class,
        timer: series.timer,
        known: series.releases.clone(),
        worked_ns: series.worked_ns,
    })
}

/// Whether a pool is more likely the loop than a thread of the same process: as of two threads.
fn is_before(pool: &Pool<'_>, thread: &SeenThread, series: &SeenSeries) -> bool {
    let Some(worker) = pool.threads.first() else { return false };
    let key = |facts: &ThreadFacts, class: Option<&Class>, waits: u64| {
        let regularity = class.map_or(u8::MAX, Class::regularity);
        (facts.policy.is_real_time(), facts.policy.priority(), u8::MAX - regularity, waits)
    };
    key(&worker.facts, Some(&pool.class), pool.releases.len() as u64)
        > key(&thread.facts, series.class.as_ref(), series.waits)
}

fn of_pool(pool: &Pool<'_>) -> Option<WatchedLoop> {
    let (first, others) = pool.threads.split_first()?;
    Some(WatchedLoop {
        thread: first.facts.clone(),
        pool: others.iter().map(|thread| thread.facts.clone()).collect(),
        source: pool.source,
        class: pool.class.clone(),
        timer: 0,
        known: pool.releases.clone(),
        worked_ns: pool.worked_ns,
    })
}

/// Returns the loops of the threads with these names, or the most likely one.
pub(super) fn all_chosen(
    survey: &Survey,
    process: &str,
    named: &[String],
) -> Result<Vec<WatchedLoop>, Failure> {
    if named.is_empty() {
        return Ok(vec![chosen(survey, process, None)?]);
    }
    let mut all: Vec<WatchedLoop> = Vec::new();
    for name in named {
        let one = chosen(survey, process, Some(name))?;
        // A name and a number may mean the same thread.
        if all.iter().all(|known| known.thread.tid() != one.thread.tid()) {
            all.push(one);
        }
    }
    Ok(all)
}

fn by_name<'s>(survey: &'s Survey, process: &str, name: &str) -> Result<&'s SeenThread, Failure> {
    let number = name.parse::<u32>().ok();
    let is_it =
        |thread: &&SeenThread| thread.facts.name == name || number == Some(thread.facts.tid());
    let found: Vec<&SeenThread> = survey.threads.iter().filter(is_it).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let mut names: Vec<String> =
                survey.threads.iter().map(|thread| clean(&thread.facts.name)).collect();
            names.sort();
            names.dedup();
            names.truncate(MOST_ROWS);
            let (process, thread) = (process.to_owned(), name.to_owned());
            Err(WatchFailure::NoSuchThread { process, thread, threads: names.join(", ") }.into())
        }
        several => {
            // Of threads of one name the periodic ones are meant.
            let periodic: Vec<&&SeenThread> =
                several.iter().filter(|thread| thread.best(survey.looked_ns).is_some()).collect();
            if let [one] = periodic.as_slice() {
                return Ok(one);
            }
            let tids: Vec<String> =
                several.iter().map(|thread| thread.facts.tid().to_string()).collect();
            Err(WatchFailure::AmbiguousThread {
                process: process.to_owned(),
                thread: name.to_owned(),
                count: several.len(),
                tids: tids.join(", "),
            }
            .into())
        }
    }
}

fn no_series(survey: &Survey, thread: &SeenThread) -> Failure {
    let name = format!("{} [{}]", clean(&thread.facts.name), thread.facts.tid());
    let seconds = survey.looked_ns as f64 / 1e9;
    let what = match thread.nature(survey.looked_ns) {
        ThreadNature::Spins => format!("{name} spins and never waits in the kernel"),
        ThreadNature::Floods => format!("{name} causes more events than can be recorded"),
        _ => format!("{name} waited fewer than 6 times in {seconds:.1} s"),
    };
    let instead =
        "--cycle SYMBOL takes each call of a function as a cycle; or put four lines of onbeat.h into its loop"
            .to_owned();
    WatchFailure::NoLoop { what, instead }.into()
}

fn no_loop(survey: &Survey, process: &str) -> Failure {
    let seconds = survey.looked_ns as f64 / 1e9;
    let spins =
        survey.threads.iter().any(|thread| thread.nature(survey.looked_ns) == ThreadNature::Spins);
    let stopped = survey.threads.iter().any(|thread| process::is_stopped(thread.facts.id.tid));
    let kernel = survey.threads.iter().any(|thread| thread.facts.is_kernel);
    let several = survey
        .threads
        .iter()
        .find_map(|thread| Some((thread, several_periods(thread, survey.looked_ns)?)));
    let what = match &several {
        Some((thread, words)) => {
            let words = words.split_once(". ").map_or(words.as_str(), |(first, _)| first);
            format!("{} [{}] {words}", clean(&thread.facts.name), thread.facts.tid())
        }
        None => format!("{process} has no periodic thread: none was seen in {seconds:.1} s"),
    };
    let instead = if several.is_some() {
        "--cycle SYMBOL measures the calls of the function that one of them has, --thread NAME all of its waits"
    } else if stopped {
        "it is stopped by a signal or a debugger; kill -CONT continues it"
    } else if spins {
        "a thread spins, whose cycles cannot be seen from outside; --cycle SYMBOL takes each call of a function as a cycle, or put four lines of onbeat.h into its loop"
    } else if kernel {
        "a kernel thread waits for work; name the program that it works for"
    } else {
        "--thread NAME measures any thread that waits; a program that starts its loop later must run before the watch begins"
    };
    WatchFailure::NoLoop { what, instead: instead.to_owned() }.into()
}

/// What is measured, in a sentence.
pub(in crate::cmd) fn choice_words(watched: &WatchedLoop) -> String {
    let facts = &watched.thread;
    let period = time_ns(watched.class.period_ns(), letters());
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
        clean(&facts.name),
        facts.tid(),
        facts.policy.words()
    )
}

/// How long the scheduler's counters are compared where tracing is not permitted.
const COUNTED: Duration = Duration::from_secs(2);

/// Prints what the scheduler counts of each thread, which takes no rights.
pub(in crate::cmd) fn without_tracing(
    pid: i32,
    json: bool,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let before = process::threads_of(pid);
    if before.is_empty() {
        return Err(WatchFailure::NoSuchProcess { pid }.into());
    }
    for _ in 0..20 {
        if !stop.load(Ordering::Relaxed) {
            thread::sleep(COUNTED / 20);
        }
    }

    let seconds = COUNTED.as_secs_f64();
    let counted: Vec<(&ThreadFacts, ThreadCounters)> = before
        .iter()
        .filter_map(|facts| Some((facts, ThreadCounters::read(facts.tid())?.since(facts.counters))))
        .collect();
    if json {
        return Ok(print_json(&super::json::counters(pid, seconds, &counted))?);
    }
    let rows = counted.iter().map(|(facts, since)| {
        let entries: [Entry; 7] = [
            format!("{} [{}]", clean(&facts.name), facts.tid()).into(),
            facts.policy.words().into(),
            facts.cpus.clone().into(),
            format!("{:.1}", since.waits as f64 / seconds).into(),
            format!("{:.1}", since.preemptions as f64 / seconds).into(),
            format!("{:.1} %", since.cpu_ns as f64 / seconds / 1e7).into(),
            time_ns((since.delayed_ns as f64 / seconds) as u64, letters()).into(),
        ];
        Row { entries: Vec::from(entries), ..Row::default() }
    });
    let table = Table {
        title: format!("Threads of {}, by the scheduler's counters", process_words(pid)),
        columns: vec![
            Column::words("thread"),
            Column::words("policy"),
            Column::words("CPUs"),
            Column::figures("waits/s"),
            Column::figures("preempted/s"),
            Column::figures("CPU"),
            Column::figures("delayed/s"),
        ],
        rows: rows.collect(),
        legend: vec!["delayed: time for which a thread could run and waited for a CPU".to_owned()],
    };
    show::table(&table);
    Ok(())
}
