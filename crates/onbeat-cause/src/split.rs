//! Splits each wake-up of a loop by the kernel's own stamps: interrupt, dispatch, return to user
//! space.
//!
//! ```text
//!   due        handler            on a CPU         first clock reading
//!    |-interrupt--|-----dispatch-----|----to user-----|
//!    |<-------------- sleep latency ---------------->|
//! ```
//!
//! The stamps are those that the flight recorder takes anyway: `hrtimer_start` has the instant that
//! a timer is due, `hrtimer_expire_entry` the begin of its handler, `sched_switch` the switch to the
//! loop's thread. The parts follow the kernel's timerlat tracer
//! (Documentation/trace/timerlat-tracer.rst), which adds them up from the due instant on.
//!
//! Absent on purpose: a guess. A wake-up of which one stamp is missing has no parts.

use std::collections::VecDeque;
use std::sync::Arc;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Flags, Instant, Sample};

use super::event::{KernelEvent, LostEvents, TraceEvent};
use super::path::{PathMemory, PathRecorder, PathSetting};
use super::path_record::PathScope;
use super::stream::COMPLETE_AFTER_NS;
use onbeat_host::machine;

/// The parts of one wake-up, in nanoseconds. Their sum is the sleep latency, which is the release
/// latency where the wait does not spin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeUpParts {
    /// From the instant that the timer was due to its handler.
    pub interrupt_ns: u64,
    /// From the handler to the switch of a CPU to the loop's thread.
    pub dispatch_ns: u64,
    /// From the switch to the loop's first clock reading.
    pub to_user_ns: u64,
}

impl WakeUpParts {
    /// Returns the sum of the parts.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.interrupt_ns + self.dispatch_ns + self.to_user_ns
    }
}

/// What is known of the parts of a wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeUpSplit {
    /// This run splits no wake-ups.
    #[default]
    NotAsked,
    /// A stamp is missing: it was overwritten before it was read, or the loop did not sleep.
    Missing,
    /// All stamps were found.
    Parts(WakeUpParts),
}

/// The stamps of one timer of the loop.
#[derive(Clone, Copy, Debug)]
struct Stamps {
    timer: u64,
    set: Instant,
    due: Instant,
    handled: Option<Instant>,
    running: Option<Instant>,
}

/// Ring of each CPU: more than a second of a busy one, read every 20 ms.
const RING_KIB: u32 = 1_024;
/// Most timers that wait for their cycle: a cycle of a loop sets one.
const MOST_WAITING: usize = 1 << 16;
/// Most gaps that are remembered: each is needed until the cycles in it are split.
const MOST_GAPS: usize = 1 << 10;

/// The stamps of the loop's timers, in the order in which they were set.
#[derive(Clone, Debug)]
pub struct WakeUpStamps {
    tid: u32,
    timers: VecDeque<Stamps>,
    gaps: VecDeque<LostEvents>,
}

impl WakeUpStamps {
    /// Returns the stamps of thread `tid`, none so far.
    #[must_use]
    pub const fn new(tid: u32) -> Self {
        Self { tid, timers: VecDeque::new(), gaps: VecDeque::new() }
    }

    /// Takes the next event, in order of time.
    pub fn take(&mut self, event: &TraceEvent) {
        match event.what {
            KernelEvent::TimerStart { timer, softexpires, .. } if event.tid == self.tid => {
                let stamps =
                    Stamps { timer, set: event.at, due: softexpires, handled: None, running: None };
                self.timers.push_back(stamps);
                if self.timers.len() > MOST_WAITING {
                    self.timers.pop_front();
                }
            }
            KernelEvent::TimerExpireEntry { timer, .. } => {
                // The timer of a sleep lies on the stack of its thread, so that the same address
                // is used again and again: the one that was set last counts.
                let last = self.timers.back_mut();
                if let Some(last) = last.filter(|last| last.timer == timer) {
                    last.handled.get_or_insert(event.at);
                }
            }
            KernelEvent::Switch { next, .. } if next.tid == self.tid => {
                let last = self.timers.back_mut().filter(|last| last.handled.is_some());
                if let Some(last) = last {
                    last.running.get_or_insert(event.at);
                }
            }
            _ => {}
        }
    }

    /// Remembers that events are missing in `gap`.
    pub fn lose(&mut self, gap: LostEvents) {
        self.gaps.push_back(gap);
        if self.gaps.len() > MOST_GAPS {
            self.gaps.pop_front();
        }
    }

    /// Splits the wake-up of the next cycle, by the stamps up to its start, which have been taken.
    pub fn split(&mut self, sample: &Sample) -> WakeUpSplit {
        let woke = sample.start().minus_ns(sample.spun_ns.into());
        let target = woke.minus_ns(sample.sleep_latency_ns);
        // The kernel counts a relative sleep from the system call, the loop from before it.
        let is_relative = sample.flags.has(Flags::RELATIVE);
        let is_its = |due: Instant| due == target || is_relative && target <= due && due <= woke;
        let mut found = None;
        while let Some(stamps) = self.timers.front().copied().filter(|next| next.set <= woke) {
            // After a signal the sleep is set to the same instant again.
            found = Some(stamps).filter(|stamps| is_its(stamps.due)).or(found);
            self.timers.pop_front();
        }

        let is_known = !sample.flags.has(Flags::NO_SLEEP);
        let parts = found
            .filter(|stamps| is_known && !self.has_gap(stamps.set, woke))
            .and_then(|stamps| stamps.parts(target, woke));
        self.gaps.retain(|gap| gap.to > woke);
        parts.map_or(WakeUpSplit::Missing, WakeUpSplit::Parts)
    }

    fn has_gap(&self, from: Instant, to: Instant) -> bool {
        self.gaps.iter().any(|gap| gap.from < to && gap.to > from)
    }
}

impl Stamps {
    /// Returns the parts, if all stamps are there and in order.
    fn parts(&self, target: Instant, woke: Instant) -> Option<WakeUpParts> {
        let (handled, running) = self.handled.zip(self.running)?;
        let is_in_order = target <= handled && handled <= running && running <= woke;
        is_in_order.then(|| WakeUpParts {
            interrupt_ns: handled.ns_since(target),
            dispatch_ns: running.ns_since(handled),
            to_user_ns: woke.ns_since(running),
        })
    }
}

/// Splits the wake-ups of one thread, by what the flight recorder's BPF programs record.
#[derive(Clone, Debug)]
pub struct WakeUpSplitter {
    path: Arc<PathMemory>,
    cpus: Vec<u32>,
    stamps: WakeUpStamps,
    /// Everything before this was read.
    from: Instant,
}

impl WakeUpSplitter {
    /// Splits the wake-ups of thread `tid`, which the recorder of `path` follows, from now on.
    pub(super) fn new(path: Arc<PathMemory>, tid: u32) -> Self {
        let stamps = WakeUpStamps::new(tid);
        Self { path, cpus: machine::online_cpus(), stamps, from: Monotonic.now() }
    }

    /// Reads what was recorded. Returns the instant up to which cycles that started can be split.
    pub fn read(&mut self) -> Instant {
        let to = Monotonic.now().minus_ns(COMPLETE_AFTER_NS);
        if to <= self.from {
            return self.from.minus_ns(1);
        }

        let mut events = Vec::new();
        for cpu in &self.cpus {
            let of_cpu = self.path.wake_ups_of(self.stamps.tid, *cpu, self.from, to);
            events.extend(of_cpu.events);
            of_cpu.lost.into_iter().for_each(|gap| self.stamps.lose(gap));
        }
        // Stable: within one instant the order of each CPU's own ring stands.
        events.sort_by_key(|event| event.at);
        events.iter().for_each(|event| self.stamps.take(event));
        self.from = to.plus_ns(1);
        to
    }

    /// Splits the wake-up of the next cycle; it started before what [`Self::read`] returned.
    pub fn split(&mut self, sample: &Sample) -> WakeUpSplit {
        self.stamps.split(sample)
    }
}

/// The stamps of several loops at once, recorded by BPF: each pays for its own, and for the expiries
/// of timers on its CPU.
#[derive(Clone, Debug)]
pub struct SplitRecorder {
    path: Arc<PathMemory>,
}

impl SplitRecorder {
    /// Records no loop so far.
    ///
    /// # Errors
    /// Why BPF cannot record, in a sentence.
    pub fn open() -> Result<Self, String> {
        let setting =
            PathSetting { kib: RING_KIB, scope: PathScope::Split, ..PathSetting::default() };
        let path = PathRecorder::open(&setting).map_err(|why| why.to_string())?;
        Ok(Self { path: path.memory() })
    }

    /// Records thread `tid` as well, from now on.
    ///
    /// # Errors
    /// Why BPF cannot, in a sentence.
    pub fn follow(&self, tid: u32) -> Result<(), String> {
        self.path.measure(tid).map_err(|why| why.to_string())
    }

    /// Returns what splits the wake-ups of thread `tid`, which is followed.
    #[must_use]
    pub fn splitter(&self, tid: u32) -> WakeUpSplitter {
        WakeUpSplitter::new(Arc::clone(&self.path), tid)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Thread, ThreadState};
    use super::*;

    const LOOP: u32 = 7;
    const TIMER: u64 = 0xffff_9000;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn event(ns: u64, tid: u32, what: KernelEvent) -> TraceEvent {
        TraceEvent { at: at(ns), cpu: 1, tid, what }
    }

    fn set(ns: u64, due: u64) -> TraceEvent {
        let (expires, softexpires) = (at(due), at(due));
        event(ns, LOOP, KernelEvent::TimerStart { timer: TIMER, function: 0, expires, softexpires })
    }

    fn expired(ns: u64, timer: u64) -> TraceEvent {
        event(ns, 0, KernelEvent::TimerExpireEntry { timer, function: 0, now: at(ns) })
    }

    fn switched(ns: u64, tid: u32) -> TraceEvent {
        let next = Thread { tid, ..Thread::default() };
        let prev = Thread::default();
        event(ns, 0, KernelEvent::Switch { prev, prev_state: ThreadState(0), next })
    }

    fn served(release: u64, latency_ns: u64) -> Sample {
        Sample {
            release: at(release),
            wakeup_latency_ns: latency_ns,
            sleep_latency_ns: latency_ns,
            ..Sample::default()
        }
    }

    fn split_of(events: &[TraceEvent], sample: &Sample) -> WakeUpSplit {
        let mut stamps = WakeUpStamps::new(LOOP);
        events.iter().for_each(|event| stamps.take(event));
        stamps.split(sample)
    }

    const PARTS: WakeUpParts =
        WakeUpParts { interrupt_ns: 2_000, dispatch_ns: 5_000, to_user_ns: 1_500 };

    #[test]
    fn parts_are_between_due_handler_switch_and_first_reading() {
        let events = [
            set(500, 10_000),
            expired(11_000, 0xdead), // another thread's timer
            expired(12_000, TIMER),
            switched(13_000, 99),
            switched(17_000, LOOP),
        ];
        assert_eq!(split_of(&events, &served(10_000, 8_500)), WakeUpSplit::Parts(PARTS));
    }

    #[test]
    fn a_cycle_of_which_a_stamp_is_missing_has_no_parts() {
        let all = [set(500, 10_000), expired(12_000, TIMER), switched(17_000, LOOP)];
        for left_out in 0..all.len() {
            let rest: Vec<TraceEvent> =
                (0..all.len()).filter(|one| *one != left_out).map(|one| all[one]).collect();
            assert_eq!(
                split_of(&rest, &served(10_000, 8_500)),
                WakeUpSplit::Missing,
                "without {:?}",
                all[left_out].what
            );
        }

        let other_instant = [set(500, 10_001), all[1], all[2]];
        assert_eq!(split_of(&other_instant, &served(10_000, 8_500)), WakeUpSplit::Missing);
        let no_sleep = Sample { flags: Flags::NO_SLEEP, ..served(10_000, 8_500) };
        assert_eq!(split_of(&all, &no_sleep), WakeUpSplit::Missing);
        let early = [set(500, 10_000), expired(9_999, TIMER), all[2]];
        assert_eq!(split_of(&early, &served(10_000, 8_500)), WakeUpSplit::Missing);
    }

    #[test]
    fn a_gap_around_a_wake_up_leaves_it_whole_and_the_next_one_is_split() {
        let mut stamps = WakeUpStamps::new(LOOP);
        let first = [set(500, 10_000), expired(12_000, TIMER), switched(17_000, LOOP)];
        let second = [set(20_000, 30_000), expired(32_000, TIMER), switched(37_000, LOOP)];
        first.iter().chain(&second).for_each(|event| stamps.take(event));
        stamps.lose(LostEvents { cpu: 0, from: at(15_000), to: at(16_000), count: None });

        assert_eq!(stamps.split(&served(10_000, 8_500)), WakeUpSplit::Missing);
        assert_eq!(stamps.split(&served(30_000, 8_500)), WakeUpSplit::Parts(PARTS));
        assert_eq!(stamps.split(&served(30_000, 8_500)), WakeUpSplit::Missing, "each only once");
    }

    #[test]
    fn a_thread_that_is_preempted_on_its_way_out_ran_at_its_first_switch() {
        let events = [
            set(500, 10_000),
            expired(12_000, TIMER),
            switched(17_000, LOOP),
            switched(17_200, 99),
            switched(18_000, LOOP),
        ];
        assert_eq!(split_of(&events, &served(10_000, 8_500)), WakeUpSplit::Parts(PARTS));
    }

    #[test]
    fn a_wait_that_spins_is_split_up_to_the_end_of_its_sleep() {
        let events = [set(500, 10_000), expired(12_000, TIMER), switched(17_000, LOOP)];
        // Slept until 10,000 with a margin of 50,000, woke at 18,500, spun until 60,010.
        let sample = Sample { sleep_latency_ns: 8_500, spun_ns: 41_510, ..served(60_000, 10) };
        assert_eq!(split_of(&events, &sample), WakeUpSplit::Parts(PARTS));
    }

    #[test]
    fn a_relative_sleep_is_due_when_the_kernel_says_and_the_sum_stays() {
        let events = [set(500, 10_300), expired(12_000, TIMER), switched(17_000, LOOP)];
        let sample = Sample { flags: Flags::RELATIVE, ..served(10_000, 8_500) };
        assert_eq!(split_of(&events, &sample), WakeUpSplit::Parts(PARTS));
    }

    /// Marsaglia's xorshift64, for orders that nobody chose.
    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn parts_of_any_wake_up_sum_to_its_sleep_latency_exactly() {
        let mut state = 0x0123_4567_89ab_cdef;
        let (mut split, mut whole) = (0, 0);
        let mut stamps = WakeUpStamps::new(LOOP);
        for cycle in 1..20_000 {
            let release = cycle * 1_000_000;
            let mut random = |most: u64| next(&mut state) % most;
            let handled = release + random(300_000);
            let running = handled + random(300_000);
            let woke = running + random(300_000);
            let keeps = random(8);
            let events =
                [set(release - 40_000, release), expired(handled, TIMER), switched(running, LOOP)];
            // In one of eight cycles one stamp is lost.
            let kept = events.iter().enumerate().filter(|(place, _)| *place as u64 != keeps);
            kept.for_each(|(_, event)| stamps.take(event));

            match stamps.split(&served(release, woke - release)) {
                WakeUpSplit::Parts(parts) => {
                    assert_eq!(parts.sum_ns(), woke - release);
                    assert!(keeps >= 3, "a stamp was missing");
                    split += 1;
                }
                WakeUpSplit::Missing => {
                    assert!(keeps < 3, "all stamps were there");
                    whole += 1;
                }
                WakeUpSplit::NotAsked => panic!("it was asked"),
            }
        }
        assert!(split > 10_000 && whole > 5_000, "{split} split, {whole} whole");
    }
}
