//! The first look at a process: every thread, for some seconds.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use crate::choose::{SeenThread, SeriesCollection, choose};
use crate::class::Class;
use crate::collect::Collector;
use crate::error::WatchError;
use crate::process::{self, ThreadCounters, ThreadFacts};

/// How long a process is looked at at least, in nanoseconds.
pub const LOOK_NS: u64 = 2_000_000_000;
/// A process without a loop is looked at for longer, in nanoseconds: loops may be slow.
pub const LONGEST_LOOK_NS: u64 = 6_000_000_000;
/// Between two judgements of what was seen, in nanoseconds.
const JUDGE_EVERY_NS: u64 = 500_000_000;
/// Between two reads of the buffers.
const READ_EVERY: Duration = Duration::from_millis(20);
/// A thread with this many events in a second is left out.
const MOST_EVENTS_PER_S: u64 = 400_000;

/// The threads of a process, as they were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The threads, by number.
    pub threads: Vec<SeenThread>,
    /// How long they were looked at, in nanoseconds.
    pub looked_ns: u64,
    /// Events lost in the kernel's buffers.
    pub lost: u64,
}

#[derive(Default)]
struct Looking {
    collections: HashMap<u32, SeriesCollection>,
    known: BTreeMap<u32, ThreadFacts>,
    floods: HashMap<u32, u64>,
    /// In which calls each thread was found waiting, and how often.
    calls: HashMap<u32, BTreeMap<String, u32>>,
    looks: u32,
    lost: u64,
}

/// Every so many looks the waiting calls are looked up: an odd number, so that no period of
/// milliseconds meets it always at the same point.
const CALLS_EVERY: u32 = 7;
/// Threads whose calls are looked up.
const MOST_CALLS: usize = 64;
/// Calls that nothing but a timer ends: a thread that others wake is in none of them.
const SLEEPS: [&str; 2] = ["clock_nanosleep", "nanosleep"];

/// Looks at the threads of process `pid` and of its descendants.
///
/// # Errors
/// [`WatchError`].
pub fn survey(
    collector: &mut Collector,
    pid: i32,
    stop: &AtomicBool,
) -> Result<Survey, WatchError> {
    survey_again(collector, pid, LOOK_NS, stop)
}

/// Looks at the threads of a program of which is known already what its loop is, for `least_ns` at
/// least, in nanoseconds.
///
/// # Errors
/// [`WatchError`].
pub fn survey_again(
    collector: &mut Collector,
    pid: i32,
    least_ns: u64,
    stop: &AtomicBool,
) -> Result<Survey, WatchError> {
    let mut looking = Looking::default();
    let from = Monotonic.now();
    looking.meet(pid);
    if looking.known.is_empty() {
        return Err(WatchError::Ended { pid });
    }

    looking.follow(collector)?;
    let mut judged_next_ns = least_ns;
    loop {
        thread::sleep(READ_EVERY);
        looking.look(collector, from)?;
        let looked_ns = Monotonic.now().ns_since(from);
        let is_due = looked_ns >= judged_next_ns;
        if is_due {
            judged_next_ns += JUDGE_EVERY_NS;
            looking.meet(pid);
        }
        let is_enough = is_due && looking.has_a_loop(looked_ns);
        if is_enough || looked_ns >= LONGEST_LOOK_NS || stop.load(Ordering::Relaxed) {
            break;
        }
    }

    looking.meet(pid);
    let looked_ns = Monotonic.now().ns_since(from);
    Ok(looking.finish(looked_ns))
}

impl Looking {
    /// Takes in the threads that there are. A program that has just been started sets names and
    /// policies while it is looked at; what it used counts from the first look.
    fn meet(&mut self, pid: i32) {
        for thread in process::threads_of(pid) {
            let known = self.known.get(&thread.tid()).filter(|known| known.id == thread.id);
            let first = known.map_or(thread.counters, |known| known.counters);
            self.known.insert(thread.tid(), ThreadFacts { counters: first, ..thread });
        }
    }

    fn follow(&self, collector: &Collector) -> Result<(), WatchError> {
        let tids: Vec<u32> =
            self.known.keys().filter(|tid| !self.floods.contains_key(tid)).copied().collect();
        Ok(collector.follow(&tids)?)
    }

    fn look(&mut self, collector: &mut Collector, from: Instant) -> Result<(), WatchError> {
        let collections = &mut self.collections;
        let look =
            collector.look(&mut |wait, _| collections.entry(wait.tid).or_default().add(wait))?;
        self.lost += look.lost;
        self.looks += 1;
        if self.looks % CALLS_EVERY == 1 {
            self.look_up_calls();
        }
        let busiest = look.events.iter().max_by_key(|(_, events)| **events);
        let elapsed_ns = Monotonic.now().ns_since(from).max(1);
        let most = MOST_EVENTS_PER_S * READ_EVERY.as_millis() as u64 / 1_000;
        if let Some((tid, events)) =
            busiest.filter(|(_, events)| look.is_flooded || **events > most * 4)
        {
            // What it does between two looks, not since the beginning.
            let per_s = *events * 1_000 / READ_EVERY.as_millis() as u64;
            self.floods
                .insert(*tid, per_s.min(*events * 1_000_000_000 / elapsed_ns.min(20_000_000)));
            self.follow(collector)?;
        }
        Ok(())
    }

    fn look_up_calls(&mut self) {
        for tid in self.known.keys().take(MOST_CALLS) {
            if let Some(waiting) = process::waiting(*tid) {
                *self.calls.entry(*tid).or_default().entry(waiting.words).or_default() += 1;
            }
        }
    }

    fn has_a_loop(&self, looked_ns: u64) -> bool {
        choose(&self.seen(), looked_ns).is_some_and(|(_, series)| {
            series.waits >= 20 && series.class.as_ref().is_some_and(Class::has_grid)
        })
    }

    fn seen(&self) -> Vec<SeenThread> {
        let of = |facts: &ThreadFacts| SeenThread {
            facts: facts.clone(),
            series: self
                .collections
                .get(&facts.tid())
                .map(|collection| collection.clone().classified())
                .unwrap_or_default(),
            waits_in: self.calls.get(&facts.tid()).and_then(|calls| {
                let others = calls.iter().filter(|(call, _)| !SLEEPS.contains(&call.as_str()));
                others.max_by_key(|(_, found)| **found).map(|(call, _)| call.clone())
            }),
            counters: ThreadCounters::default(),
            flood: self.floods.get(&facts.tid()).copied(),
        };
        self.known.values().map(of).collect()
    }

    fn finish(self, looked_ns: u64) -> Survey {
        let mut threads = self.seen();
        // One that has ended is no loop any more; where all have, they are what the program was.
        let has_ended = |one: &SeenThread| ThreadCounters::read(one.facts.tid()).is_none();
        if !threads.iter().all(has_ended) {
            threads.retain(|one| !has_ended(one));
        }
        for thread in &mut threads {
            let now = ThreadCounters::read(thread.facts.tid());
            let first = thread.facts.counters;
            thread.counters = now.unwrap_or(first).since(first);
        }
        Survey { threads, looked_ns, lost: self.lost }
    }
}
