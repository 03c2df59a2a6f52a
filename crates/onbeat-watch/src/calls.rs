//! A loop whose cycles are calls of a function: which thread calls it, how often, how regularly.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::cause::PathStream;
use onbeat::cause::inside::Inside;
use onbeat::cause::stream::FunctionPlace;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use crate::choose::{SeenSeries, SeenThread};
use crate::class::Class;
use crate::collect::{Collector, PATH_KIB};
use crate::event::KnownTimer;
use crate::measure::WatchedLoop;
use crate::waits::Source;

/// How long calls are looked at, in nanoseconds; longer where there are few.
const LOOK_NS: u64 = 1_000_000_000;
const LONGEST_LOOK_NS: u64 = 6_000_000_000;
/// Calls by which a period is known.
const ENOUGH: usize = 20;
const READ_EVERY: Duration = Duration::from_millis(20);

/// The calls of a function by one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallsOfThread {
    /// When they began.
    pub begins: Vec<Instant>,
    /// How long those took whose return was seen, in nanoseconds.
    pub worked_ns: Vec<u64>,
}

/// Which returns of a function belong to which of its calls, of one thread: by the stack, since a
/// function may call itself, and the kernel may miss returns (exceptions, `longjmp`, too many at
/// once) and begin to look in the middle of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallPairing {
    /// Where the stacks of the calls under way began, the outermost first.
    under_way: Vec<u64>,
}

/// Calls in calls that are remembered.
const MOST_NESTED: usize = 256;

impl CallPairing {
    /// Takes the beginning of a call; returns whether it is in no other one.
    pub(crate) fn begin(&mut self, stack: u64) -> bool {
        // Stacks grow downwards: a call that began lower is over, or there is no stack to tell by.
        self.under_way.retain(|outer| *outer > stack);
        if self.under_way.len() < MOST_NESTED {
            self.under_way.push(stack);
        }
        self.under_way.len() == 1
    }

    /// Takes a return; returns whether the outermost call under way ended by it.
    pub(crate) fn end(&mut self, stack: u64) -> bool {
        let was_under_way = !self.under_way.is_empty();
        if stack == 0 {
            self.under_way.pop();
        } else {
            self.under_way.retain(|call| *call >= stack);
        }
        was_under_way && self.under_way.is_empty()
    }
}

/// Returns the calls of a function by thread.
///
/// # Errors
/// Why they cannot be recorded, in a sentence.
pub fn look_at_calls(
    function: &FunctionPlace,
    stop: &AtomicBool,
) -> Result<BTreeMap<u32, CallsOfThread>, String> {
    let mut stream = PathStream::open_with(&[], PATH_KIB, Some(function))?;
    let mut threads: BTreeMap<u32, CallsOfThread> = BTreeMap::new();
    let mut pairings: BTreeMap<u32, CallPairing> = BTreeMap::new();
    let from = Monotonic.now();
    loop {
        thread::sleep(READ_EVERY);
        for call in stream.read().calls {
            let of = threads.entry(call.tid).or_default();
            let pairing = pairings.entry(call.tid).or_default();
            match call.what {
                Inside::FunctionBegins { stack } if pairing.begin(stack) => {
                    of.begins.push(call.at);
                }
                Inside::FunctionEnds { stack } if pairing.end(stack) => {
                    let took_ns = of.begins.last().map(|began| call.at.ns_since(*began));
                    of.worked_ns.extend(took_ns);
                }
                _ => {}
            }
        }
        let looked_ns = Monotonic.now().ns_since(from);
        let most = threads.values().map(|of| of.begins.len()).max().unwrap_or(0);
        let is_enough = looked_ns >= LOOK_NS && most >= ENOUGH;
        if is_enough || looked_ns >= LONGEST_LOOK_NS || stop.load(Ordering::Relaxed) {
            return Ok(threads);
        }
    }
}

/// Returns the loop whose cycles are a thread's calls, and its timer: its releases are those of the
/// timer for which the thread waits once a call, or are not known where it waits for none. `None` if
/// it called too rarely.
#[must_use]
pub fn loop_of_calls(
    thread: &SeenThread,
    looked_ns: u64,
    calls: &CallsOfThread,
) -> Option<(WatchedLoop, Option<KnownTimer>)> {
    let mean_ns = mean_interval_ns(&calls.begins)?;
    let is_once_a_call = |series: &&SeenSeries| {
        let period_ns = series.class.as_ref().map_or(0, Class::period_ns);
        series.source.is_timer() && period_ns.abs_diff(mean_ns) <= mean_ns / 10
    };
    let timed = thread.best(looked_ns).filter(is_once_a_call);
    let mut worked = calls.worked_ns.clone();
    worked.sort_unstable();
    let of_calls = WatchedLoop {
        thread: thread.facts.clone(),
        pool: Vec::new(),
        source: Source::Call,
        // When a call was due is nobody's promise without a timer, however regular the calls are.
        class: timed.and_then(|series| series.class.clone()).unwrap_or(Class::Mean { mean_ns }),
        timer: timed.map_or(0, |series| series.timer),
        known: timed.map_or_else(|| calls.begins.clone(), |series| series.releases.clone()),
        worked_ns: worked.get(worked.len() / 2).copied().unwrap_or(0),
    };
    let timer = timed
        .and_then(|series| WatchedLoop { source: series.source, ..of_calls.clone() }.known_timer());
    Some((of_calls, timer))
}

/// Returns the mean interval of at least three instants.
fn mean_interval_ns(at: &[Instant]) -> Option<u64> {
    let (first, last) = (at.first()?, at.last()?);
    let intervals = at.len() as u64 - 1;
    (intervals >= 2).then(|| last.ns_since(*first) / intervals)
}

/// Starts recording a loop whose cycles are calls of a function.
///
/// # Errors
/// Why BPF cannot record, in a sentence.
pub fn collector_of_calls(
    watched: &WatchedLoop,
    timer: Option<KnownTimer>,
    function: &FunctionPlace,
) -> Result<Collector, String> {
    let path = PathStream::open_with(&[watched.thread.tid()], PATH_KIB, Some(function))?;
    Ok(Collector::of(path, timer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_belong_to_the_calls_whose_stack_they_leave() {
        let mut pairing = CallPairing::default();
        assert!(!pairing.end(0x1008), "it was called before anybody looked");
        assert!(pairing.begin(0x1000));
        assert!(!pairing.begin(0x0f00), "it calls itself");
        assert!(!pairing.end(0x0f08), "the inner call");
        assert!(pairing.end(0x1008));
        assert!(!pairing.end(0x1008), "once");

        assert!(pairing.begin(0x1000));
        assert!(pairing.begin(0x1000), "the return before was not seen");
        assert!(!pairing.begin(0x0f00));
        assert!(pairing.begin(0x1010), "an exception left both");
        assert!(pairing.end(0x1018));
    }

    #[test]
    fn without_stacks_each_call_is_one_and_ends_with_the_next_return() {
        let mut pairing = CallPairing::default();
        assert!(pairing.begin(0) && pairing.end(0));
        assert!(pairing.begin(0) && pairing.begin(0) && pairing.end(0));
        assert!(!pairing.end(0));
    }

    #[test]
    fn an_interval_takes_three_calls() {
        let at = [Instant::from_ns(5), Instant::from_ns(25), Instant::from_ns(65)];
        assert_eq!(mean_interval_ns(&at), Some(30));
        assert_eq!(mean_interval_ns(&at[..2]), None);
        assert_eq!(mean_interval_ns(&[]), None);
    }
}
