//! The loop that is measured: of the thread that was named, or the most likely one.

use std::cmp::Reverse;

use onbeat_figures::Letters;

use crate::choose::{LEAST_RATE, SeenSeries, SeenThread, ThreadNature, choose, likelihood, rate};
use crate::class::Class;
use crate::measure::WatchedLoop;
use crate::pool::{Pool, pools};
use crate::process::{self, Policy};
use crate::survey::Survey;
use crate::words::several_periods;

/// A process has no such loop.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// No thread has the name.
    #[error("{process} has no thread {thread}; its threads are {threads}")]
    NoSuchThread {
        /// Name and number of the process.
        process: String,
        /// What was named.
        thread: String,
        /// The names that there are.
        threads: String,
    },
    /// Several threads have the name, and not exactly one of them is periodic.
    #[error("{process} has {count} threads named {thread}; name one by its number: {tids}")]
    AmbiguousThread {
        /// Name and number of the process.
        process: String,
        /// What was named.
        thread: String,
        /// How many have the name.
        count: usize,
        /// Their numbers.
        tids: String,
    },
    /// Nothing that waits as a loop does.
    #[error("{what}; {instead}")]
    NoLoop {
        /// What was seen.
        what: String,
        /// What can be done.
        instead: String,
    },
}

/// Names of threads in an error.
const MOST_NAMES: usize = 24;

/// Returns the loop of the thread with this name or number, or the most likely one.
///
/// # Errors
/// [`ChoiceError`].
pub fn chosen(
    survey: &Survey,
    process: &str,
    named: Option<&str>,
    letters: Letters,
) -> Result<WatchedLoop, ChoiceError> {
    let (thread, series) = match named {
        Some(name) => {
            let pools = pools(&survey.threads, survey.looked_ns);
            let stem = name.strip_suffix('*').unwrap_or(name);
            if let Some(pool) = pools.iter().find(|pool| pool.stem == stem).and_then(of_pool) {
                return Ok(pool);
            }
            let thread = by_name(survey, process, name)?;
            let series = thread.as_loop(survey.looked_ns).or_else(|| thread.most_frequent());
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
            best.ok_or_else(|| no_loop(survey, process, letters))?
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
    let of_pool = (pool.class.regularity(), Reverse(pool.releases.len() as u64));
    likelihood(worker.facts.policy, of_pool) > likelihood(thread.facts.policy, series.order())
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
///
/// # Errors
/// [`ChoiceError`], of the first name without a loop.
pub fn all_chosen(
    survey: &Survey,
    process: &str,
    named: &[String],
    letters: Letters,
) -> Result<Vec<WatchedLoop>, ChoiceError> {
    if named.is_empty() {
        return Ok(vec![chosen(survey, process, None, letters)?]);
    }
    let mut all: Vec<WatchedLoop> = Vec::new();
    for name in named {
        let one = chosen(survey, process, Some(name), letters)?;
        // A name and a number may mean the same thread.
        if all.iter().all(|known| known.thread.tid() != one.thread.tid()) {
            all.push(one);
        }
    }
    Ok(all)
}

fn by_name<'s>(
    survey: &'s Survey,
    process: &str,
    name: &str,
) -> Result<&'s SeenThread, ChoiceError> {
    let number = name.parse::<u32>().ok();
    let is_it =
        |thread: &&SeenThread| thread.facts.name == name || number == Some(thread.facts.tid());
    let found: Vec<&SeenThread> = survey.threads.iter().filter(is_it).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let mut names: Vec<String> =
                survey.threads.iter().map(|thread| thread.facts.name.clone()).collect();
            names.sort();
            names.dedup();
            names.truncate(MOST_NAMES);
            let (process, thread) = (process.to_owned(), name.to_owned());
            Err(ChoiceError::NoSuchThread { process, thread, threads: names.join(", ") })
        }
        several => {
            // Of threads of one name the periodic ones are meant.
            let periodic: Vec<&&SeenThread> = several
                .iter()
                .filter(|thread| thread.as_loop(survey.looked_ns).is_some())
                .collect();
            if let [one] = periodic.as_slice() {
                return Ok(one);
            }
            let tids: Vec<String> =
                several.iter().map(|thread| thread.facts.tid().to_string()).collect();
            Err(ChoiceError::AmbiguousThread {
                process: process.to_owned(),
                thread: name.to_owned(),
                count: several.len(),
                tids: tids.join(", "),
            })
        }
    }
}

fn no_series(survey: &Survey, thread: &SeenThread) -> ChoiceError {
    let name = format!("{} [{}]", thread.facts.name, thread.facts.tid());
    let seconds = survey.looked_ns as f64 / 1e9;
    let what = match thread.nature(survey.looked_ns) {
        ThreadNature::Spins => format!("{name} spins and never waits in the kernel"),
        ThreadNature::Floods => format!("{name} causes more events than can be recorded"),
        _ if !thread.series.iter().all(SeenSeries::has_ends) => {
            format!("{name} works on after its timer's signal: where a cycle ends is not seen")
        }
        _ => format!("{name} waited fewer than 6 times in {seconds:.1} s"),
    };
    let instead =
        "`onbeat watch PID --cycle SYMBOL` takes each call of a function as a cycle; or put four lines of onbeat.h into its loop"
            .to_owned();
    ChoiceError::NoLoop { what, instead }
}

fn no_loop(survey: &Survey, process: &str, letters: Letters) -> ChoiceError {
    let seconds = survey.looked_ns as f64 / 1e9;
    let spins =
        survey.threads.iter().any(|thread| thread.nature(survey.looked_ns) == ThreadNature::Spins);
    let stopped = survey.threads.iter().any(|thread| process::is_stopped(thread.facts.id.tid));
    let yields = survey.threads.iter().any(|thread| {
        let is_deadline = thread.facts.policy == Policy::Deadline;
        is_deadline && thread.nature(survey.looked_ns) == ThreadNature::NotPeriodic
    });
    let is_slow = survey.threads.iter().flat_map(|thread| &thread.series).any(|series| {
        let is_periodic = series.class.as_ref().is_some_and(Class::is_periodic);
        is_periodic && series.has_ends() && rate(series.waits, survey.looked_ns) < LEAST_RATE
    });
    let kernel = survey.threads.iter().any(|thread| thread.facts.is_kernel);
    let several = survey
        .threads
        .iter()
        .find_map(|thread| Some((thread, several_periods(thread, survey.looked_ns, letters)?)));
    let what = match &several {
        Some((thread, words)) => {
            let words = words.split_once(". ").map_or(words.as_str(), |(first, _)| first);
            format!("{} [{}] {words}", thread.facts.name, thread.facts.tid())
        }
        None if is_slow => format!(
            "{process} has no periodic thread with {LEAST_RATE} releases per second or more"
        ),
        None => format!("{process} has no periodic thread: none was seen in {seconds:.1} s"),
    };
    let instead = if several.is_some() {
        "`onbeat watch PID --cycle SYMBOL` measures the calls of the function that one of them has, --thread NAME all of its waits"
    } else if stopped {
        "it is stopped by a signal or a debugger; kill -CONT continues it"
    } else if is_slow {
        "--thread NAME measures a slower one"
    } else if spins {
        "a thread spins, whose cycles cannot be seen from outside; `onbeat watch PID --cycle SYMBOL` takes each call of a function as a cycle, or put four lines of onbeat.h into its loop"
    } else if yields {
        "a SCHED_DEADLINE thread that yields is released by the scheduler's own timer, which is not recorded; `onbeat watch PID --cycle SYMBOL` takes each call of a function as a cycle"
    } else if kernel {
        "a kernel thread waits for work; name the program that it works for"
    } else {
        "--thread NAME measures any thread that waits; a program that starts its loop later must run before the watch begins"
    };
    ChoiceError::NoLoop { what, instead: instead.to_owned() }
}

#[cfg(test)]
mod tests {
    use onbeat_rt::Instant;
    use onbeat_tune::tasks::TaskId;

    use super::*;
    use crate::class::classify;
    use crate::event::TimerClock;
    use crate::process::{ThreadCounters, ThreadFacts};
    use crate::waits::Source;

    #[test]
    fn a_slow_loop_is_not_chosen_and_not_called_unseen() {
        let releases: Vec<Instant> =
            (1..=12_u64).map(|k| Instant::from_ns(k * 500_000_000)).collect();
        let series = SeenSeries {
            class: classify(&releases),
            waits: releases.len() as u64,
            releases,
            ..SeenSeries::new(Source::Sleep { relative: false, clock: TimerClock::Monotonic })
        };
        let facts = ThreadFacts {
            id: TaskId { tid: 7, start_ticks: 1 },
            pid: 7,
            name: "slow".to_owned(),
            policy: Policy::Fifo(50),
            cpus: "0-1".to_owned(),
            is_kernel: false,
            counters: ThreadCounters::default(),
        };
        let counters = ThreadCounters { waits: 12, ..ThreadCounters::default() };
        let thread =
            SeenThread { facts, series: vec![series], waits_in: None, counters, flood: None };
        let survey = Survey { threads: vec![thread], looked_ns: 6_000_000_000, lost: 0 };
        let chosen = |name| chosen(&survey, "slow [7]", name, Letters::Ascii);
        let why = chosen(None).unwrap_err().to_string();
        let said = "slow [7] has no periodic thread with 5 releases per second or more; --thread NAME measures a slower one";
        assert_eq!(why, said);
        assert_eq!(chosen(Some("slow")).unwrap().class.period_ns(), 500_000_000);
    }
}
