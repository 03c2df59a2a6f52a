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
    /// When they returned.
    pub ends: Vec<Instant>,
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
    let from = Monotonic.now();
    loop {
        thread::sleep(READ_EVERY);
        for call in stream.read().calls {
            let of = threads.entry(call.tid).or_default();
            match call.what {
                Inside::FunctionBegins => of.begins.push(call.at),
                Inside::FunctionEnds => of.ends.push(call.at),
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
    let mut worked: Vec<u64> =
        calls.begins.iter().zip(&calls.ends).map(|(from, to)| to.ns_since(*from)).collect();
    worked.sort_unstable();
    let of_calls = WatchedLoop {
        thread: thread.facts.clone(),
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
    fn an_interval_takes_three_calls() {
        let at = [Instant::from_ns(5), Instant::from_ns(25), Instant::from_ns(65)];
        assert_eq!(mean_interval_ns(&at), Some(30));
        assert_eq!(mean_interval_ns(&at[..2]), None);
        assert_eq!(mean_interval_ns(&[]), None);
    }
}
