//! Which of the threads is the loop.

use std::cmp::Reverse;

use onbeat_rt::Instant;

use crate::class::{Class, classify, unless_slept_over};
use crate::event::TimerKind;
use crate::process::{Policy, ThreadCounters, ThreadFacts};
use crate::waits::{Source, Wait};

/// A series of waits that was seen while looking for the loop.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenSeries {
    /// What it waits for.
    pub source: Source,
    /// Releases, in order, at most [`MOST_RELEASES`].
    pub releases: Vec<Instant>,
    /// Waits, those whose release was not seen among them.
    pub waits: u64,
    /// Those in which it slept.
    pub slept: u64,
    /// `None` for too few.
    pub class: Option<Class>,
    /// Median of what the program asked for, in nanoseconds, where the time counts from the call.
    pub asked_ns: Option<u64>,
    /// How much later than asked the kernel was allowed to be, in nanoseconds.
    pub slack_ns: u64,
    /// The address of its latest timer; 0 without one.
    pub timer: u64,
    /// Median of the time from the end of a wait to the beginning of the next one, in nanoseconds:
    /// what its work usually takes.
    pub worked_ns: u64,
}

/// Releases of a series that are kept while looking for the loop.
pub const MOST_RELEASES: usize = 20_000;
/// A thread that runs, or waits for a CPU, for this share of the time and waits for nothing else
/// spins.
const SPINS_FROM: f64 = 0.7;
/// Releases per second from which a series may be a control loop.
pub const LEAST_RATE: f64 = 5.0;

impl SeenSeries {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            releases: Vec::new(),
            waits: 0,
            slept: 0,
            class: None,
            asked_ns: None,
            slack_ns: 0,
            timer: 0,
            worked_ns: 0,
        }
    }

    /// Whether its cycles have an end: the handler of a timer's signal returns, without an event,
    /// to a thread that works on.
    pub(crate) fn has_ends(&self) -> bool {
        let by_signal = matches!(
            self.source,
            Source::Timer { kind: TimerKind::Posix | TimerKind::Interval, .. }
        );
        !by_signal || self.slept * 2 >= self.waits
    }

    /// Orders series, the most regular first, then the most frequent.
    pub(crate) fn order(&self) -> (u8, Reverse<u64>) {
        (self.class.as_ref().map_or(u8::MAX, Class::regularity), Reverse(self.waits))
    }
}

/// A thread that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenThread {
    /// What `/proc` says of it.
    pub facts: ThreadFacts,
    /// Its waits by what they are for.
    pub series: Vec<SeenSeries>,
    /// The system call in which it was found waiting most often, plain sleeps left out.
    pub waits_in: Option<String>,
    /// What the kernel counted while it was looked at.
    pub counters: ThreadCounters,
    /// Events per second, where they were so many that it was not looked at to the end.
    pub flood: Option<u64>,
}

/// What a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadNature {
    /// It has a series of waits that is periodic.
    Periodic,
    /// It waits, but not periodically.
    NotPeriodic,
    /// It runs and never waits.
    Spins,
    /// It did not run.
    Sleeps,
    /// It caused more events than can be recorded.
    Floods,
}

impl SeenThread {
    /// Returns what it is, having been looked at for `looked_ns` nanoseconds.
    #[must_use]
    pub fn nature(&self, looked_ns: u64) -> ThreadNature {
        // On a busy machine a thread that always wants to run runs for a part of the time.
        let ThreadCounters { cpu_ns, delayed_ns, waits, .. } = self.counters;
        // A deadline thread is delayed also while its budget is used up, or given back.
        let wants_ns = match self.facts.policy {
            Policy::Deadline => cpu_ns,
            _ => cpu_ns + delayed_ns,
        };
        let busy = wants_ns as f64 / looked_ns.max(1) as f64;
        if self.flood.is_some() {
            ThreadNature::Floods
        } else if self.as_loop(looked_ns).is_some() {
            ThreadNature::Periodic
        } else if busy >= SPINS_FROM && waits <= 1 {
            ThreadNature::Spins
        } else if waits > 0 || cpu_ns > 0 {
            ThreadNature::NotPeriodic
        } else {
            ThreadNature::Sleeps
        }
    }

    /// Returns its most regular series that is a loop whose cycles have ends.
    #[must_use]
    pub fn as_loop(&self, looked_ns: u64) -> Option<&SeenSeries> {
        self.periodic(looked_ns).filter(|series| series.has_ends()).min_by_key(|one| one.order())
    }

    /// Returns its most regular series that may be a loop.
    #[must_use]
    pub fn best(&self, looked_ns: u64) -> Option<&SeenSeries> {
        self.periodic(looked_ns).min_by_key(|series| series.order())
    }

    fn periodic(&self, looked_ns: u64) -> impl Iterator<Item = &SeenSeries> {
        self.series.iter().filter(move |series| {
            series.class.as_ref().is_some_and(Class::is_periodic)
                && rate(series.waits, looked_ns) >= LEAST_RATE
        })
    }

    /// Returns its most frequent series with a class.
    #[must_use]
    pub fn most_frequent(&self) -> Option<&SeenSeries> {
        let is_known = |series: &&SeenSeries| series.class.is_some() && series.has_ends();
        self.series.iter().filter(is_known).max_by_key(|series| series.waits)
    }
}

/// Waits per second.
#[must_use]
pub fn rate(waits: u64, looked_ns: u64) -> f64 {
    waits as f64 * 1e9 / looked_ns.max(1) as f64
}

/// The waits of a thread that are collected while looking for the loop.
#[derive(Clone, Debug, Default)]
pub struct SeriesCollection {
    series: Vec<SeenSeries>,
    asked: Vec<Vec<u64>>,
    /// Of each series when its latest wait ended, and the times from such an end to the next wait.
    worked: Vec<(Option<Instant>, Vec<u64>)>,
}

/// Series of a thread that are told apart.
const MOST_SERIES: usize = 32;
/// Asked times of a series that are kept.
const MOST_ASKED: usize = 1_000;

impl SeriesCollection {
    pub fn add(&mut self, wait: &Wait) {
        let known = self.series.iter().position(|series| series.source == wait.source);
        let place = match known {
            Some(place) => place,
            None if self.series.len() < MOST_SERIES => {
                self.series.push(SeenSeries::new(wait.source));
                self.asked.push(Vec::new());
                self.worked.push((None, Vec::new()));
                self.series.len() - 1
            }
            None => return,
        };

        let series = &mut self.series[place];
        series.waits += 1;
        series.slept += u64::from(wait.slept_at.is_some());
        series.slack_ns = series.slack_ns.max(wait.slack_ns);
        series.timer = wait.timer;
        if let Some(release) = wait.release
            && series.releases.len() < MOST_RELEASES
        {
            series.releases.push(release);
        }
        let (went_on, worked) = &mut self.worked[place];
        if let (Some(from), Some(to)) = (*went_on, wait.began())
            && worked.len() < MOST_ASKED
            && to >= from
        {
            worked.push(to.ns_since(from));
        }
        *went_on = wait.went_on();
        let asked = &mut self.asked[place];
        if let (Source::Sleep { .. }, Some(armed_at), Some(release)) =
            (wait.source, wait.armed_at, wait.release)
            && asked.len() < MOST_ASKED
        {
            asked.push(release.ns_since(armed_at));
        }
    }

    /// Returns the series with their classes.
    #[must_use]
    pub fn classified(mut self) -> Vec<SeenSeries> {
        let kept = self.asked.iter_mut().zip(&mut self.worked);
        for (series, (asked, (_, worked))) in self.series.iter_mut().zip(kept) {
            worked.sort_unstable();
            series.worked_ns = worked.get(worked.len() / 2).copied().unwrap_or(0);
            // Waits are known in the order of their ends.
            series.releases.sort_unstable();
            series.class = classify(&series.releases)
                .map(|class| unless_slept_over(class, &series.releases, worked));
            asked.sort_unstable();
            series.asked_ns = asked.get(asked.len() / 2).copied();
        }
        self.series
    }
}

/// Orders loops by how likely each is the control loop: real-time before ordinary, then by
/// priority, by regularity, by rate.
pub(crate) fn likelihood(policy: Policy, order: (u8, Reverse<u64>)) -> impl Ord {
    (policy.is_real_time(), policy.priority(), Reverse(order))
}

/// Returns the thread and series that is most likely the control loop. Only series of at least
/// [`LEAST_RATE`] releases a second that are periodic.
#[must_use]
pub fn choose(threads: &[SeenThread], looked_ns: u64) -> Option<(&SeenThread, &SeenSeries)> {
    let candidates = threads.iter().filter(|thread| thread.flood.is_none());
    let candidates = candidates.filter_map(|thread| Some((thread, thread.as_loop(looked_ns)?)));
    // Of equal ones the first.
    candidates.rev().max_by_key(|(thread, series)| likelihood(thread.facts.policy, series.order()))
}

#[cfg(test)]
mod tests {
    use onbeat_tune::tasks::TaskId;

    use super::*;
    use crate::event::TimerClock;

    const SECOND: u64 = 1_000_000_000;

    fn thread(tid: i32, policy: Policy, period_ns: u64, error_ns: u64) -> SeenThread {
        let source = Source::Sleep { relative: false, clock: TimerClock::Monotonic };
        let mut now = 0;
        let releases: Vec<Instant> = (0..2 * SECOND / period_ns)
            .map(|k| {
                now += period_ns + if error_ns > 0 { k * 7_919 % error_ns } else { 0 };
                Instant::from_ns(now)
            })
            .collect();
        let class = classify(&releases);
        let waits = releases.len() as u64;
        let facts = ThreadFacts {
            id: TaskId { tid, start_ticks: 1 },
            pid: 1,
            name: format!("t{tid}"),
            policy,
            cpus: "0-1".to_owned(),
            is_kernel: false,
            counters: ThreadCounters::default(),
        };
        let series = vec![SeenSeries { releases, waits, class, ..SeenSeries::new(source) }];
        let counters = ThreadCounters { cpu_ns: 1_000_000, waits, ..ThreadCounters::default() };
        SeenThread { facts, series, waits_in: None, counters, flood: None }
    }

    fn chosen(threads: &[SeenThread]) -> Option<i32> {
        choose(threads, 2 * SECOND).map(|(thread, _)| thread.facts.id.tid)
    }

    #[test]
    fn a_real_time_thread_comes_first_then_priority_regularity_and_rate() {
        let other = |tid, period| thread(tid, Policy::Ordinary { nice: 0 }, period, 0);
        let fifo = |tid, priority, period| thread(tid, Policy::Fifo(priority), period, 0);
        let ms = 1_000_000;
        assert_eq!(chosen(&[other(1, ms), fifo(2, 10, 20 * ms)]), Some(2));
        assert_eq!(chosen(&[fifo(1, 10, ms), fifo(2, 80, 20 * ms)]), Some(2));
        assert_eq!(chosen(&[other(1, 2 * ms), other(2, ms)]), Some(2));
        let drifting = thread(1, Policy::Ordinary { nice: 0 }, ms, 90_000);
        assert_eq!(chosen(&[drifting, other(2, 10 * ms)]), Some(2));
        assert_eq!(chosen(&[other(1, ms), other(2, ms)]), Some(1), "of equal ones the first");
    }

    #[test]
    fn workers_that_take_turns_are_a_pool_and_loops_of_one_period_are_not() {
        let ms = 1_000_000;
        let mut random = fastrand::Rng::with_seed(5);
        let turns: Vec<u64> = (0..2_000).map(|_| random.u64(0..3)).collect();
        let errors: Vec<u64> = (0..2_000).map(|_| random.u64(0..1_000)).collect();
        let worker = |of: u64, jitter: u64| {
            let mut one = thread(of as i32 + 1, Policy::Ordinary { nice: 0 }, ms, 0);
            let all = turns.iter().zip(0_u64..).filter(|(turn, _)| **turn == of);
            let at = |(_, k): (&u64, u64)| Instant::from_ns(k * ms + errors[k as usize] * jitter);
            let series = &mut one.series[0];
            series.releases = all.map(at).collect();
            series.class = classify(&series.releases);
            series.waits = series.releases.len() as u64;
            one.facts.name = format!("worker-{of}");
            one
        };
        for jitter in [0, 20] {
            let workers: Vec<SeenThread> = (0..3).map(|of| worker(of, jitter)).collect();
            let found = crate::pool::pools(&workers, 2 * SECOND);
            assert_eq!(found.len(), 1, "{jitter}: {:?}", workers[0].series[0].class);
            assert_eq!((found[0].stem, found[0].threads.len()), ("worker-", 3));
            assert!(found[0].class.period_ns().abs_diff(ms) < 100, "{:?}", found[0].class);
            assert_eq!(found[0].releases.len(), 2_000);
        }

        // Both serve all of their releases.
        let alone = |tid| thread(tid, Policy::Fifo(80), ms, 0);
        assert_eq!(crate::pool::pools(&[alone(1), alone(2)], 2 * SECOND), []);
    }

    #[test]
    fn slow_and_flooding_threads_are_no_candidates() {
        let slow = thread(1, Policy::Fifo(90), SECOND / 4, 0);
        assert_eq!(chosen(&[slow]), None);
        let flooding =
            SeenThread { flood: Some(9_000_000), ..thread(1, Policy::Fifo(9), 1_000_000, 0) };
        assert_eq!(flooding.nature(2 * SECOND), ThreadNature::Floods);
        assert_eq!(chosen(&[flooding]), None);
    }

    #[test]
    fn a_thread_that_runs_without_waiting_spins() {
        let mut spinning = thread(1, Policy::Ordinary { nice: 0 }, 1_000_000, 0);
        spinning.series.clear();
        spinning.counters = ThreadCounters { cpu_ns: 2 * SECOND, ..ThreadCounters::default() };
        assert_eq!(spinning.nature(2 * SECOND), ThreadNature::Spins);
        let counters =
            ThreadCounters { cpu_ns: SECOND / 40, delayed_ns: 2 * SECOND, ..spinning.counters };
        let facts = ThreadFacts { policy: Policy::Deadline, ..spinning.facts.clone() };
        let yields = SeenThread { facts, counters, ..spinning.clone() };
        assert_eq!(yields.nature(2 * SECOND), ThreadNature::NotPeriodic);
        spinning.counters.cpu_ns = 0;
        assert_eq!(spinning.nature(2 * SECOND), ThreadNature::Sleeps);

        // A handler of SIGALRM, which interrupts a thread that works on or one that pauses.
        let mut handles = thread(1, Policy::Ordinary { nice: 0 }, 5_000_000, 0);
        handles.series[0].source = Source::Timer { kind: TimerKind::Interval, address: 1 };
        handles.counters = ThreadCounters { cpu_ns: 2 * SECOND, ..ThreadCounters::default() };
        assert_eq!(handles.nature(2 * SECOND), ThreadNature::Spins);
        assert_eq!(chosen(std::slice::from_ref(&handles)), None);
        handles.series[0].slept = handles.series[0].waits;
        assert_eq!(chosen(&[handles]), Some(1));
    }
}
