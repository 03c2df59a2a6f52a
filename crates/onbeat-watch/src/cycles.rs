//! From waits to cycles: the samples that onbeat's own loop records, of a program that knows nothing
//! of it.
//!
//! ```text
//! wait    ── r_k ── s_k ........ work ........ wait ── r_(k+1) ──
//!                                              e_k
//! ```
//!
//! A cycle ends where the next wait of its series begins. Releases of the grid that had no wait of
//! their own were skipped or caught up: from outside the two look alike.

use onbeat_rt::{End, Flags, Instant, Outcome, Sample};

use crate::class::Class;
use crate::event::Waker;
use crate::grid::{Grid, Placement};
use crate::waits::{PendingWait, Source, Wait, WaitEnd};

/// A wait inside a cycle: for a lock, a device, another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerWait {
    /// Start.
    pub from: Instant,
    /// End.
    pub to: Instant,
    /// Who ended it, where that is known.
    pub waker: Option<Waker>,
}

/// A cycle of a watched loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Release, latency, execution: as of onbeat's own loop.
    pub sample: Sample,
    /// Waits inside it, at most [`MOST_INNER`]: without the second sleep of a loop that sleeps
    /// twice in each cycle.
    pub inner: Vec<InnerWait>,
    /// Who ended the wait before it.
    pub waker: Option<Waker>,
    /// The beginning of the wait before it, if it slept.
    pub entered_sleep: Option<Instant>,
    /// The CPU on which it began.
    pub cpu: u32,
}

/// Waits inside a cycle that are kept.
pub const MOST_INNER: usize = 16;

/// A thread that was woken by a timer runs within this part of the period.
const SOON: u64 = 10;

/// What becomes known of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CycleFact {
    /// A cycle is over.
    Cycle(Cycle),
    /// The program changed its period.
    NewPeriod {
        /// The first release by the new one.
        at: Instant,
        /// The new period, in nanoseconds.
        to_ns: u64,
    },
    /// The program moved its releases.
    NewPhase {
        /// The first release of the new grid.
        at: Instant,
    },
}

/// A cycle whose start is known.
#[derive(Clone, Debug)]
struct Open {
    tid: u32,
    release: Instant,
    /// `None`: not seen.
    start: Option<Instant>,
    /// Releases before it that had no wait.
    passed: u64,
    /// Releases before those, whose waits no event shows.
    unseen: u64,
    flags: Flags,
    waker: Option<Waker>,
    entered_sleep: Option<Instant>,
    cpu: u32,
    inner: Vec<InnerWait>,
    /// The first wait that may have been the end of its work.
    end: Option<Instant>,
}

/// A cycle whose number is not known yet: its grid is in doubt.
#[derive(Clone, Debug)]
struct Held {
    open: Open,
    end: Instant,
}

/// Builds the cycles of one series of one thread.
#[derive(Clone, Debug)]
pub struct CycleBuilder {
    source: Source,
    grid: Grid,
    deadline_ns: u64,
    open: Option<Open>,
    /// Whether cycles end by themselves: the next wait may be another thread's.
    ends_itself: bool,
    held: Vec<Held>,
    next_index: u64,
    skipped: u64,
    not_seen: u64,
    last_end: Instant,
    /// Waits that the kernel counted and no event showed.
    missing: u64,
    /// The first release of a grid that may be a new phase.
    new_phase: Option<Instant>,
    /// A sleep that may be inside the cycle under way, and the waits since: the next release shows
    /// which it is.
    aside: Vec<Wait>,
}

impl CycleBuilder {
    /// Returns a builder for the series `source` of this class, whose releases so far are `known`.
    /// A cycle that ends later than a period after its release misses its deadline.
    #[must_use]
    pub fn new(source: Source, class: &Class, known: &[Instant]) -> Self {
        Self {
            source,
            grid: Grid::new(class, known),
            deadline_ns: class.period_ns(),
            open: None,
            ends_itself: false,
            held: Vec::new(),
            next_index: 0,
            skipped: 0,
            not_seen: 0,
            last_end: Instant::from_ns(0),
            missing: 0,
            new_phase: None,
            aside: Vec::new(),
        }
    }

    /// Returns the period.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.grid.period_ns()
    }

    /// Takes the next wait of the thread.
    pub fn take(&mut self, wait: &Wait, into: &mut Vec<CycleFact>) {
        let release = wait.release.filter(|_| wait.source == self.source);
        let may_be_inside = self.open.is_some()
            && !self.ends_itself
            && matches!(self.source, Source::Sleep { .. })
            && release.map_or(!self.aside.is_empty(), |due| {
                self.grid.may_be_inside(due, self.aside.is_empty())
            });
        if may_be_inside && self.aside.len() < MOST_INNER {
            self.aside.push(*wait);
            return;
        }

        let of_sleeps = self.aside.iter().filter(|aside| aside.source == self.source);
        let mut asides = of_sleeps.filter_map(|aside| aside.release);
        let is_inside =
            release.is_some_and(|due| asides.all(|aside| self.grid.shows_inside(due, aside)));
        for aside in std::mem::take(&mut self.aside) {
            if is_inside { self.take_inner(&aside) } else { self.place(&aside, into) }
        }
        self.place(wait, into);
    }

    fn place(&mut self, wait: &Wait, into: &mut Vec<CycleFact>) {
        if wait.source != self.source {
            self.take_inner(wait);
            return;
        }

        let wait = &self.with_release(wait);
        let Some(release) = wait.release else {
            if self.source == Source::Call && self.open.is_none() {
                // The wait before the first call began before the measurement.
                return;
            }
            // A wake-up by somebody who was not seen: a cycle all the same.
            self.close(wait, into);
            self.open(wait, None, 0);
            return;
        };
        match self.grid.place(release) {
            // Neither is a wait for something else than its timer.
            Placement::Again | Placement::Inner => {}
            Placement::First => self.open(wait, Some(release), 0),
            Placement::Next { passed } => {
                let untimed = self.end_at_the_first_untimed(release, passed);
                self.close(wait, into);
                let unseen = passed.min(self.missing.max(untimed));
                self.missing -= unseen.min(self.missing);
                self.open(wait, Some(release), passed - unseen);
                if let Some(open) = &mut self.open {
                    open.unseen = unseen;
                }
            }
            Placement::NewPhase => {
                self.close(wait, into);
                self.open(wait, Some(release), 0);
                self.new_phase.get_or_insert(release);
            }
            Placement::NewPeriod { period_ns } => {
                self.hold(wait);
                self.new_phase = None;
                self.change_period(period_ns, into);
                self.open(wait, Some(release), 0);
            }
        }
    }

    /// Returns the thread of the cycle under way, and its start.
    #[must_use]
    pub fn started(&self) -> Option<(u32, Instant)> {
        let open = self.open.as_ref()?;
        Some((open.tid, open.start?))
    }

    /// Ends the work of the cycle under way at an instant; `None`: it goes on, and another thread
    /// serves the next release.
    pub fn end_by_itself(&mut self, at: Option<Instant>) {
        self.ends_itself = true;
        if let Some(open) = &mut self.open {
            open.end = at;
        }
    }

    /// Adds waits that the kernel counted and no event showed: releases without a wait are theirs,
    /// as many as there are.
    pub const fn miss(&mut self, waits: u64) {
        self.missing += waits;
    }

    /// Returns how many of the `passed` releases before `next` had a wait whose timer was not seen to be
    /// set: the thread slept across the release, and ran again soon after it. The work of the open
    /// cycle ended with the first of them.
    fn end_at_the_first_untimed(&mut self, next: Instant, passed: u64) -> u64 {
        let period_ns = self.grid.period_ns();
        let Some(open) = self.open.as_mut().filter(|_| self.source.is_timer()) else { return 0 };
        if passed == 0 || !self.grid.has_grid() {
            return 0;
        }

        let is_across = |inner: &InnerWait, release: Instant| {
            inner.from < release
                && inner.to >= release
                && inner.to.ns_since(release) <= period_ns / SOON
        };
        let releases =
            (1..=passed.min(MOST_INNER as u64)).map(|back| next.minus_ns(back * period_ns));
        let untimed: Vec<Instant> = releases
            .filter_map(|release| open.inner.iter().find(|inner| is_across(inner, release)))
            .map(|inner| inner.from)
            .collect();
        if let Some(end) = untimed.iter().min().copied() {
            open.end = Some(open.end.map_or(end, |known| known.min(end)));
            open.inner.retain(|inner| inner.from < end);
        }
        untimed.len() as u64
    }

    /// A call without a wait of its own serves the release after the one before: the program catches
    /// up.
    fn with_release(&self, wait: &Wait) -> Wait {
        let is_catching_up = wait.source == Source::Call && wait.release.is_none();
        let before = self.open.as_ref().filter(|_| is_catching_up && self.grid.has_grid());
        let release = before.map(|open| open.release.plus_ns(self.grid.period_ns()));
        Wait { release: wait.release.or(release), ..*wait }
    }

    fn take_inner(&mut self, wait: &Wait) {
        let Some(open) = &mut self.open else { return };
        if self.source == Source::Call {
            // Most of these are the wait between two calls; which are not is known at the next one.
            return;
        }
        let is_main = self.source.is_timer()
            && matches!((self.source, wait.source), (Source::Timer { .. }, Source::Timer { .. }));
        if is_main {
            // An event loop with several timers: its work for this one is over.
            open.end = open.end.or(wait.slept_at);
            return;
        }

        if let (Some(from), WaitEnd::Ran(to)) = (wait.slept_at, wait.end)
            && open.inner.len() < MOST_INNER
            && open.end.is_none()
        {
            open.inner.push(InnerWait { from, to, waker: wait.waker });
        }
    }

    fn open(&mut self, wait: &Wait, release: Option<Instant>, passed: u64) {
        let start = wait.went_on();
        let relative = matches!(self.source, Source::Sleep { relative: true, .. });
        let flags = Flags::default()
            .with_if(Flags::NO_SLEEP, matches!(wait.end, WaitEnd::Late(_)))
            .with_if(Flags::RELATIVE, relative);
        let known = release.or(start).or(wait.slept_at).unwrap_or_default();
        self.open = Some(Open {
            tid: wait.tid,
            release: known,
            start: start.filter(|_| release.is_some()),
            passed,
            unseen: 0,
            flags,
            waker: wait.waker,
            entered_sleep: wait.began(),
            cpu: wait.cpu,
            inner: Vec::new(),
            end: None,
        });
    }

    /// Ends the open cycle, where `next` begins to wait.
    fn close(&mut self, next: &Wait, into: &mut Vec<CycleFact>) {
        self.hold(next);
        if !self.grid.is_in_doubt() {
            // It was a new phase and not the beginning of a new period.
            into.extend(self.new_phase.take().map(|at| CycleFact::NewPhase { at }));
            self.release_held(into);
        } else if self.held.len() > crate::grid::NEW_PERIOD_AFTER {
            let held = self.held.remove(0);
            self.count(held, into);
        }
    }

    fn hold(&mut self, next: &Wait) {
        let Some(mut open) = self.open.take() else { return };
        let is_call = next.source == Source::Call && next.slept_at.is_none();
        // It slept, and no event shows since when.
        let is_unseen = next.began().is_none() && matches!(next.end, WaitEnd::Ran(_));
        if is_call || (self.ends_itself || is_unseen) && open.end.is_none() {
            // Its end was not seen: how long it took is not known.
            open.start = None;
        }
        let end = open.end.or_else(|| next.began()).or_else(|| next.went_on());
        let end = end.or(open.start).unwrap_or(open.release);
        self.held.push(Held { open, end });
    }

    fn release_held(&mut self, into: &mut Vec<CycleFact>) {
        for held in std::mem::take(&mut self.held) {
            self.count(held, into);
        }
    }

    fn change_period(&mut self, to_ns: u64, into: &mut Vec<CycleFact>) {
        // The intervals that made the new period were its own: nothing was passed over in them.
        let mut held = std::mem::take(&mut self.held);
        let own = held.len().min(crate::grid::NEW_PERIOD_AFTER - 1);
        let old = held.len() - own;
        let own = held.split_off(old);
        for held in held {
            self.count(held, into);
        }

        self.deadline_ns = to_ns;
        let at = own.first().map_or(self.last_end, |held| held.open.release);
        into.push(CycleFact::NewPeriod { at, to_ns });
        for mut held in own {
            held.open.passed = 0;
            self.count(held, into);
        }
    }

    fn count(&mut self, Held { open, end }: Held, into: &mut Vec<CycleFact>) {
        let Open {
            release, start, passed, unseen, flags, waker, entered_sleep, cpu, inner, ..
        } = open;
        self.not_seen += unseen;
        let index = self.next_index + unseen + passed;
        self.next_index = index + 1;
        let Some(start) = start else {
            // Whether what was passed over before it was waited for is not known either.
            self.not_seen += 1 + passed;
            return;
        };

        self.skipped += passed;
        let start = start.max(release);
        let end = end.max(start);
        self.last_end = end;
        let response_ns = end.ns_since(release);
        let wakeup_latency_ns = start.ns_since(release);
        let sample = Sample {
            index,
            release,
            wakeup_latency_ns,
            execution_time_ns: end.ns_since(start),
            sleep_latency_ns: wakeup_latency_ns,
            skipped: passed,
            flags: flags.with_if(Flags::DEADLINE_MISS, response_ns > self.deadline_ns).with_if(
                Flags::OVERRUN,
                self.grid.has_grid() && response_ns > self.grid.period_ns(),
            ),
            ..Sample::default()
        };
        into.push(CycleFact::Cycle(Cycle { sample, inner, waker, entered_sleep, cpu }));
    }

    /// Returns how many cycles have an unknown latency.
    #[must_use]
    pub const fn not_seen(&self) -> u64 {
        self.not_seen
    }

    /// Ends the watch at `at`: counts what is complete, and the releases that a loop that hangs has
    /// let pass since. `pending` is what the thread waits for.
    pub fn finish(
        &mut self,
        at: Instant,
        pending: Option<PendingWait>,
        into: &mut Vec<CycleFact>,
    ) -> Outcome {
        let period_ns = self.grid.period_ns();
        std::mem::take(&mut self.aside).iter().for_each(|wait| self.take_inner(wait));
        self.release_held(into);
        let open = self.open.take();
        let pending = pending
            .filter(|pending| open.as_ref().is_none_or(|open| pending.release > open.release));
        // Since when nothing has come of the loop: the release that it waits for, or is late with.
        let since = match (&open, pending) {
            (_, Some(pending)) => Some(pending.release),
            (Some(open), None) => Some(open.release),
            (None, None) => None,
        };
        let late_ns = since.map_or(0, |since| at.ns_since(since));
        let passed = if self.grid.has_grid() { late_ns / period_ns } else { 0 };
        if let Some(open) = open {
            let end = open.end.or(pending.map(|pending| pending.began));
            match end {
                Some(end) => self.count(Held { open, end }, into),
                None if passed > 0 => self.count(Held { open, end: at }, into),
                // It is under way, and its end belongs to nobody.
                None => {}
            }
        }

        self.skipped += passed;
        let slots = self.next_index + passed;
        let last_end = if passed > 0 { at } else { self.last_end };
        Outcome {
            end: End::Asked,
            slots,
            cycles: slots - self.skipped,
            skipped: self.skipped,
            skipped_at_end: passed,
            last_end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TimerClock;

    const MS: u64 = 1_000_000;

    fn at(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn wait(source: Source, release: Option<u64>, slept_us: u64, ran_us: u64) -> Wait {
        Wait {
            release: release.map(at),
            armed_at: release.map(|_| at(slept_us)),
            slept_at: Some(at(slept_us)),
            ..Wait::of((7, 0), source, WaitEnd::Ran(at(ran_us)))
        }
    }

    /// Cycles of a loop of 1 ms that works for 50 us, after release 3 of which it leaves its CPU for
    /// `inner`, and sleeps until release `next` then.
    fn cycles(inner: &[(u64, u64)], next: u64) -> (Vec<Cycle>, Outcome, u64) {
        let source = Source::Sleep { relative: false, clock: TimerClock::Monotonic };
        let class = Class::Exact { period_ns: MS, waits: 1 };
        let mut builder = CycleBuilder::new(source, &class, &[at(0), at(1_000)]);
        let mut facts = Vec::new();
        let mut slept_us = 1_050;
        for k in [2, 3] {
            builder.take(&wait(source, Some(k * 1_000), slept_us, k * 1_000 + 10), &mut facts);
            slept_us = k * 1_000 + 60;
        }
        for (from, to) in inner {
            builder.take(&wait(Source::Event, None, *from, *to), &mut facts);
            slept_us = to + 50;
        }
        for k in [next, next + 1] {
            builder.take(&wait(source, Some(k * 1_000), slept_us, k * 1_000 + 10), &mut facts);
            slept_us = k * 1_000 + 60;
        }
        let outcome = builder.finish(at((next + 1) * 1_000 + 20), None, &mut facts);
        let cycles = facts
            .into_iter()
            .filter_map(|fact| if let CycleFact::Cycle(cycle) = fact { Some(cycle) } else { None })
            .collect();
        (cycles, outcome, builder.not_seen())
    }

    #[test]
    fn sleeps_across_releases_whose_timer_was_not_seen_are_neither_work_nor_skips() {
        let (cycles, outcome, not_seen) = cycles(&[(3_060, 4_012), (4_070, 5_015)], 6);
        assert_eq!(cycles[1].sample.release, at(3_000));
        assert_eq!(cycles[1].sample.execution_time_ns, 50_000);
        assert_eq!(cycles[1].inner, []);
        assert_eq!((outcome.skipped, not_seen), (0, 2));
    }

    #[test]
    fn a_wait_in_the_work_that_ends_anywhere_is_in_its_cycle_and_skips_releases() {
        let (cycles, outcome, not_seen) = cycles(&[(3_030, 5_400)], 6);
        assert_eq!(cycles[1].sample.execution_time_ns, 2_440_000);
        assert_eq!(cycles[1].inner.len(), 1);
        assert_eq!((outcome.skipped, not_seen), (2, 0));
    }
}
