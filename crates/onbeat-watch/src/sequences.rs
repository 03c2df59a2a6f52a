//! Sequences of events, as the kernel records them, and what becomes of them: in virtual time.

use crate::class::{Class, classify};
use crate::cycles::{CycleBuilder, CycleFact};
use crate::event::{ThreadEvent, TimerClock, TimerKind, Waker, What};
use crate::waits::{Source, Wait, WaitAssembler, WaitEnd};
use onbeat_rt::{Flags, Instant, Sample};
use proptest::prelude::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const TID: u32 = 7;

/// A thread in virtual time that records what the kernel would.
#[derive(Default)]
struct Thread {
    now: u64,
    events: Vec<ThreadEvent>,
}

impl Thread {
    fn event(&mut self, what: What) {
        let at = Instant::from_ns(self.now);
        self.events.push(ThreadEvent { at, cpu: 0, tid: TID, what });
    }

    fn arm(&mut self, kind: TimerKind, address: u64, due: u64, relative: bool) {
        let due = Instant::from_ns(due);
        let clock = TimerClock::Monotonic;
        self.event(What::Arm { kind, address, relative, due, slack_ns: 0, clock });
    }

    fn works(&mut self, ns: u64) {
        self.now += ns;
    }

    /// `clock_nanosleep` until `due`; runs `latency` after it.
    fn sleeps_until(&mut self, due: u64, latency: u64) {
        self.arm(TimerKind::Sleep, 0xffff_8000, due, false);
        if due > self.now {
            self.now += 300;
            self.event(What::Sleep);
            self.now = due + latency;
            self.event(What::Run);
        }
    }

    fn sleeps_for(&mut self, ns: u64, latency: u64) {
        let due = self.now + ns;
        self.arm(TimerKind::Sleep, 0xffff_8000, due, true);
        self.now += 300;
        self.event(What::Sleep);
        self.now = due + latency;
        self.event(What::Run);
    }

    /// Waits until another thread wakes it at `at`.
    fn is_woken(&mut self, at: u64, latency: u64) {
        self.event(What::Sleep);
        self.now = at;
        self.event(What::Woken(Waker::Task(9)));
        self.now = at + latency;
        self.event(What::Run);
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        let mut assembler = WaitAssembler::default();
        self.events.iter().for_each(|event| assembler.take(event, &mut waits));
        waits
    }

    fn releases(&self, source: Source) -> Vec<Instant> {
        let waits = self.waits();
        waits.iter().filter(|wait| wait.source == source).filter_map(|wait| wait.release).collect()
    }

    fn facts(&self, source: Source) -> (Class, Vec<CycleFact>) {
        let known = self.releases(source);
        let class = classify(&known).unwrap();
        let mut builder = CycleBuilder::new(source, &class, &known);
        let mut facts = Vec::new();
        self.waits().iter().for_each(|wait| builder.take(wait, &mut facts));
        (class, facts)
    }

    fn samples(&self, source: Source) -> Vec<Sample> {
        let facts = self.facts(source).1;
        let cycles = facts.into_iter().filter_map(|fact| match fact {
            CycleFact::Cycle(cycle) => Some(cycle.sample),
            _ => None,
        });
        cycles.collect()
    }
}

const ABSOLUTE: Source = Source::Sleep { relative: false, clock: TimerClock::Monotonic };
const RELATIVE: Source = Source::Sleep { relative: true, clock: TimerClock::Monotonic };

#[test]
fn an_absolute_loop_has_the_latency_and_execution_of_each_cycle() {
    let mut thread = Thread::default();
    for k in 1..=50 {
        thread.sleeps_until(k * MS, 12 * US + k);
        thread.works(200 * US);
    }

    let samples = thread.samples(ABSOLUTE);
    assert_eq!(samples.len(), 49, "the last one has not ended");
    for (k, sample) in (1..).zip(&samples) {
        assert_eq!(sample.release, Instant::from_ns(k * MS));
        assert_eq!(sample.wakeup_latency_ns, 12 * US + k);
        assert_eq!(sample.execution_time_ns, 200 * US);
        assert_eq!((sample.skipped, sample.index, sample.flags), (0, k - 1, Flags::default()));
    }
}

#[test]
fn a_cycle_that_overruns_leaves_releases_without_a_wait_which_are_counted() {
    let mut thread = Thread::default();
    for k in (1..=20).chain(24..=40) {
        thread.sleeps_until(k * MS, 10 * US);
        thread.works(if k == 20 { 3_500 * US } else { 100 * US });
    }

    let samples = thread.samples(ABSOLUTE);
    let late = &samples[19];
    assert!(late.flags.has(Flags::OVERRUN) && late.flags.has(Flags::DEADLINE_MISS));
    assert_eq!(late.response_time_ns(), 3_510 * US);
    let next = &samples[20];
    assert_eq!((next.release, next.skipped, next.index), (Instant::from_ns(24 * MS), 3, 23));
    let slots = samples.last().unwrap().index + 1;
    assert_eq!(slots, samples.len() as u64 + 3, "every release is accounted for");
}

#[test]
fn a_release_armed_in_the_past_is_late_and_not_skipped() {
    let mut thread = Thread::default();
    for k in 1..=20 {
        thread.sleeps_until(k * MS, 10 * US);
        thread.works(if k == 10 { 1_200 * US } else { 100 * US });
    }

    let samples = thread.samples(ABSOLUTE);
    let caught_up = &samples[10];
    assert_eq!((caught_up.release, caught_up.skipped), (Instant::from_ns(11 * MS), 0));
    assert_eq!(caught_up.wakeup_latency_ns, 210 * US);
    assert!(caught_up.flags.has(Flags::NO_SLEEP));
}

#[test]
fn a_timer_that_expires_before_the_thread_has_left_the_cpu_is_no_missing_wake_up() {
    let mut thread = Thread::default();
    for k in 1..=20 {
        thread.sleeps_until(k * MS, 10 * US);
        // It is done 2 us before the next release of one cycle.
        thread.works(if k == 10 { 988 * US } else { 100 * US });
        if k == 10 {
            thread.arm(TimerKind::Sleep, 0xffff_8000, 11 * MS, false);
            thread.now = 11 * MS + 3 * US;
            thread.event(What::Expired { address: 0xffff_8000 });
            thread.works(90 * US);
        }
    }
    // The loop above has set the eleventh release once more.
    let samples = thread.samples(ABSOLUTE);
    assert_eq!(samples[10].release, Instant::from_ns(11 * MS));
    assert_eq!(samples[10].wakeup_latency_ns, 3 * US);
    assert!(thread.waits().iter().all(|wait| wait.end != WaitEnd::NotSeen));
}

#[test]
fn a_wake_up_that_was_not_seen_is_a_cycle_of_unknown_latency() {
    let mut thread = Thread::default();
    for k in 1..=30 {
        thread.sleeps_until(k * MS, 10 * US);
        thread.works(100 * US);
    }
    // Its own switch to the CPU is missing.
    let switch = thread
        .events
        .iter()
        .position(|event| event.what == What::Run && event.at > Instant::from_ns(15 * MS));
    thread.events.remove(switch.unwrap());

    let waits = thread.waits();
    assert_eq!(waits.iter().filter(|wait| wait.end == WaitEnd::NotSeen).count(), 1);
    let samples = thread.samples(ABSOLUTE);
    assert_eq!(samples.len(), 28);
    assert!(
        samples.iter().all(|sample| sample.skipped == 0 && sample.wakeup_latency_ns == 10 * US)
    );
    assert_eq!(samples.last().unwrap().index, 28, "its slot has no sample");
}

#[test]
fn a_burst_of_missing_events_is_not_a_skip_when_the_kernel_counted_the_waits() {
    let mut thread = Thread::default();
    for k in 1..=30 {
        thread.sleeps_until(k * MS, 10 * US);
        thread.works(100 * US);
    }
    let burst = Instant::from_ns(15 * MS + 50 * US)..Instant::from_ns(20 * MS + 50 * US);
    thread.events.retain(|event| !burst.contains(&event.at));

    let known = thread.releases(ABSOLUTE);
    let class = classify(&known).unwrap();
    for (missing, skipped, not_seen) in [(0, 5, 0), (5, 0, 5), (9, 0, 5), (2, 3, 2)] {
        let mut builder = CycleBuilder::new(ABSOLUTE, &class, &known);
        builder.miss(missing);
        let mut facts = Vec::new();
        thread.waits().iter().for_each(|wait| builder.take(wait, &mut facts));
        let outcome = builder.finish(Instant::from_ns(thread.now), None, &mut facts);
        assert_eq!((outcome.skipped, builder.not_seen()), (skipped, not_seen), "{missing} missing");
        assert_eq!(outcome.slots, 29);
    }
}

#[test]
fn an_ordinary_thread_is_late_by_the_instant_asked_for_and_not_by_its_slack() {
    let mut thread = Thread::default();
    for k in 1..=20 {
        thread.sleeps_until(k * MS, 60 * US);
    }
    for event in &mut thread.events {
        if let What::Arm { slack_ns, .. } = &mut event.what {
            *slack_ns = 50 * US;
        }
    }
    assert!(thread.samples(ABSOLUTE).iter().all(|sample| sample.wakeup_latency_ns == 60 * US));
    assert!(thread.waits().iter().all(|wait| wait.slack_ns == 50 * US));
}

#[test]
fn a_sleep_that_is_due_already_lasts_for_its_slack() {
    let mut thread = Thread::default();
    for k in (1..=20).filter(|k| *k != 11) {
        thread.sleeps_until(k * MS, 60 * US);
        thread.works(if k == 10 { 950 * US } else { 100 * US });
        if k == 10 {
            // 10 us late, and the kernel wakes it 50 us after the instant asked for.
            thread.arm(TimerKind::Sleep, 0xffff_8000, 11 * MS, false);
            thread.works(300);
            thread.event(What::Sleep);
            thread.now = 11 * MS + 55 * US;
            thread.event(What::Run);
            thread.works(100 * US);
        }
    }
    for event in &mut thread.events {
        if let What::Arm { slack_ns, .. } = &mut event.what {
            *slack_ns = 50 * US;
        }
    }
    assert!(thread.waits().iter().all(|wait| wait.source == ABSOLUTE), "one wait, not two");
    let samples = thread.samples(ABSOLUTE);
    assert_eq!(samples[10].release, Instant::from_ns(11 * MS));
    assert_eq!((samples[10].wakeup_latency_ns, samples[10].execution_time_ns), (55 * US, 100 * US));
}

#[test]
fn a_relative_sleep_drifts_by_the_work_and_the_latency_of_each_cycle() {
    let mut thread = Thread::default();
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..300 {
        thread.sleeps_for(MS, 10 * US + random.u64(0..20_000));
        thread.works(50 * US);
    }
    let (class, facts) = thread.facts(RELATIVE);
    let (Class::Drifting { mean_ns } | Class::Mean { mean_ns }) = class else {
        panic!("{class:?}")
    };
    assert!(mean_ns.abs_diff(1_070 * US) < 10 * US);
    assert!(
        facts
            .iter()
            .all(|fact| matches!(fact, CycleFact::Cycle(cycle) if cycle.sample.skipped == 0))
    );
}

#[test]
fn a_relative_sleep_towards_a_grid_does_not_drift() {
    let mut thread = Thread::default();
    let mut random = fastrand::Rng::with_seed(1);
    for k in 1..=300_u64 {
        let now = thread.now;
        // The computed remainder loses the time between reading the clock and the call.
        thread.sleeps_for(k * MS - now + random.u64(0..700), 5 * US + random.u64(0..9_000));
        thread.works(100 * US);
    }
    let (class, _) = thread.facts(RELATIVE);
    assert!(
        matches!(class, Class::Locked { period_ns } if period_ns.abs_diff(MS) < 100),
        "{class:?}"
    );
}

#[test]
fn a_timer_that_expires_while_its_reader_works_is_late_and_the_jump_of_its_re_arming_skips() {
    let mut thread = Thread::default();
    thread.arm(TimerKind::TimerFd, 0x10, MS, false);
    for k in 1..=40_u64 {
        if k == 22 || k == 23 {
            continue;
        }
        let due = k * MS;
        if thread.now < due {
            thread.event(What::Sleep);
            thread.now = due + 15 * US;
            thread.event(What::Run);
        }
        // The read sets it to the next release that is ahead.
        let next = if k == 21 { 24 } else { k + 1 };
        thread.works(if k == 21 { 2_300 * US } else { 3 * US });
        thread.arm(TimerKind::TimerFd, 0x10, next * MS, false);
        thread.works(if k == 30 { 1_100 * US } else { 80 * US });
    }
    let source = Source::Timer { kind: TimerKind::TimerFd, address: 0x10 };
    let samples = thread.samples(source);
    let skipped: u64 = samples.iter().map(|sample| sample.skipped).sum();
    assert_eq!(skipped, 2);
    let late: Vec<_> = samples.iter().filter(|sample| sample.flags.has(Flags::NO_SLEEP)).collect();
    assert_eq!(late.len(), 1, "release 31 had passed when it was fetched");
    assert_eq!(late[0].release, Instant::from_ns(31 * MS));
}

#[test]
fn a_timers_wait_of_which_an_event_is_missing_makes_up_neither_work_nor_lateness() {
    let source = Source::Timer { kind: TimerKind::TimerFd, address: 0x10 };
    for (missing, unknown) in [(What::Sleep, 19), (What::Run, 20)] {
        let mut thread = Thread::default();
        thread.arm(TimerKind::TimerFd, 0x10, MS, false);
        for k in 1..=40 {
            thread.event(What::Sleep);
            thread.now = k * MS + 15 * US;
            thread.event(What::Run);
            thread.works(3 * US);
            thread.arm(TimerKind::TimerFd, 0x10, (k + 1) * MS, false);
            thread.works(80 * US);
        }
        // Of the wait for release 20.
        let is_it = |event: &ThreadEvent| {
            event.what == missing && event.at > Instant::from_ns(19 * MS + 50 * US)
        };
        let place = thread.events.iter().position(is_it);
        thread.events.remove(place.unwrap());

        let samples = thread.samples(source);
        let releases = samples.iter().map(|sample| sample.release.as_ns() / MS);
        assert!(releases.eq((1..40).filter(|k| *k != unknown)), "{missing:?}");
        for sample in samples {
            assert_eq!((sample.skipped, sample.flags), (0, Flags::default()));
            let took = (sample.wakeup_latency_ns, sample.execution_time_ns);
            assert_eq!(took, (15 * US, 83 * US), "{missing:?} {sample:?}");
        }
    }
}

#[test]
fn a_wait_that_began_before_the_run_and_has_no_end_is_none_of_its_own() {
    let mut thread = Thread::default();
    (1..=9).for_each(|k| thread.sleeps_until(k * MS, 10 * US));
    let end = thread.events.iter().position(|event| event.at > Instant::from_ns(3 * MS));
    thread.events.remove(end.unwrap());
    let waits = thread.waits();
    assert_eq!(waits[2].end, WaitEnd::NotSeen);
    let before = |at| waits.iter().filter(|wait| wait.was_over_before(at)).count();
    assert_eq!(before(Instant::from_ns(4 * MS)), 3);
}

#[test]
fn a_timeout_that_something_else_ends_is_no_release() {
    let mut thread = Thread::default();
    for k in 1..=30_u64 {
        // poll with a timeout of 100 ms, and data each millisecond.
        let due = thread.now + 100 * MS;
        thread.arm(TimerKind::Sleep, 0x1, due, false);
        thread.is_woken(k * MS, 20 * US);
        thread.works(50 * US);
    }
    let waits = thread.waits();
    assert!(waits.iter().all(|wait| wait.source == Source::Event));
    let samples = thread.samples(Source::Event);
    assert!(samples.iter().all(|sample| sample.wakeup_latency_ns == 20 * US));
    assert_eq!(samples.len(), 29);
}

#[test]
fn of_two_timers_in_one_loop_each_has_its_own_cycles() {
    let mut thread = Thread::default();
    thread.arm(TimerKind::TimerFd, 0xa, MS, false);
    thread.arm(TimerKind::TimerFd, 0xb, 7 * MS + 500 * US, false);
    let mut next = [(0xa, MS, MS), (0xb, 7 * MS + 500 * US, 7 * MS)];
    for _ in 0..120 {
        next.sort_by_key(|(_, due, _)| *due);
        let (address, due, period) = next[0];
        thread.event(What::Sleep);
        thread.now = due + 10 * US;
        thread.event(What::Run);
        next[0].1 = due + period;
        thread.arm(TimerKind::TimerFd, address, due + period, false);
        thread.works(40 * US);
    }
    for (address, period) in [(0xa, MS), (0xb, 7 * MS)] {
        let source = Source::Timer { kind: TimerKind::TimerFd, address };
        let (class, _) = thread.facts(source);
        assert_eq!(class, Class::Exact { period_ns: period, waits: 1 });
        for sample in thread.samples(source) {
            assert_eq!(sample.wakeup_latency_ns, 10 * US);
            assert_eq!(sample.execution_time_ns, 40 * US, "the other's work is not its own");
        }
    }
}

#[test]
fn two_sleeps_a_cycle_are_one_cycle_from_the_longer_one_on() {
    let mut thread = Thread::default();
    for k in 1..=40_u64 {
        thread.sleeps_until(k * MS, 10 * US);
        thread.works(20 * US);
        thread.sleeps_until(k * MS + 300 * US, 10 * US);
        thread.works(30 * US);
    }
    let (class, facts) = thread.facts(ABSOLUTE);
    assert_eq!(class, Class::Exact { period_ns: MS, waits: 2 });
    let waits_inside =
        |fact: &CycleFact| matches!(fact, CycleFact::Cycle(cycle) if !cycle.inner.is_empty());
    assert!(!facts.iter().any(waits_inside), "it waits for nothing but its timer");
    let samples = thread.samples(ABSOLUTE);
    assert!(samples.iter().all(|sample| sample.release.as_ns() % MS == 0 && sample.skipped == 0));
    assert!(samples.iter().all(|sample| sample.execution_time_ns == 330 * US));
}

#[test]
fn a_new_period_and_a_new_phase_are_new_grids() {
    let mut thread = Thread::default();
    let dues = (1..=30).map(|k| k * MS).chain((1..=30).map(|k| 30 * MS + k * 2 * MS));
    let dues: Vec<u64> = dues.chain((1..=30).map(|k| 90 * MS + 370 * US + k * 2 * MS)).collect();
    for due in &dues {
        thread.sleeps_until(*due, 10 * US);
        thread.works(50 * US);
    }
    // The period is that of the first look at the program.
    let mut facts = Vec::new();
    let mut builder = CycleBuilder::new(ABSOLUTE, &Class::Exact { period_ns: MS, waits: 1 }, &[]);
    thread.waits().iter().for_each(|wait| builder.take(wait, &mut facts));
    let outcome = builder.finish(Instant::from_ns(thread.now), None, &mut facts);
    let periods: Vec<_> =
        facts.iter().filter(|fact| matches!(fact, CycleFact::NewPeriod { .. })).collect();
    assert_eq!(periods, [&CycleFact::NewPeriod { at: Instant::from_ns(32 * MS), to_ns: 2 * MS }]);
    assert_eq!(facts.iter().filter(|fact| matches!(fact, CycleFact::NewPhase { .. })).count(), 1);
    assert_eq!((outcome.skipped, outcome.slots), (0, 89));
}

#[test]
fn a_sleep_inside_some_cycles_is_neither_a_release_nor_a_new_phase() {
    let mut thread = Thread::default();
    for k in 1..=60 {
        thread.sleeps_until(k * 2 * MS, 10 * US);
        thread.works(50 * US);
        // BPF does not record whether a sleep is relative.
        if k % 9 == 0 {
            // One is due after the next release, which is late.
            thread.works(if k == 27 { 2_500 * US } else { 0 });
            let due = thread.now + 300 * US + k * 77;
            thread.sleeps_until(due, 10 * US);
            thread.works(20 * US);
        }
    }
    let (class, facts) = thread.facts(ABSOLUTE);
    assert_eq!(class, Class::Exact { period_ns: 2 * MS, waits: 1 });
    assert!(facts.iter().all(|fact| matches!(fact, CycleFact::Cycle(_))), "{facts:?}");
    let samples = thread.samples(ABSOLUTE);
    assert_eq!(samples.len(), 59);
    for (k, sample) in (1..).zip(&samples) {
        assert_eq!((sample.release.as_ns(), sample.skipped), (k * 2 * MS, 0));
        let late = if k == 27 { 2_500 * US } else { 0 };
        let inside = if k % 9 == 0 { 330 * US + k * 77 + late } else { 0 };
        assert_eq!(sample.execution_time_ns, 50 * US + inside);
    }
}

#[test]
fn a_shorter_period_is_found_whether_or_not_it_is_a_part_of_the_one_before() {
    for shorter in [MS, 700 * US] {
        let mut thread = Thread::default();
        let dues = (1..=20).map(|k| k * 2 * MS);
        for due in dues.chain((1..=40).map(|k| 40 * MS + k * shorter)) {
            thread.sleeps_until(due, 10 * US);
            thread.works(50 * US);
        }
        let class = Class::Exact { period_ns: 2 * MS, waits: 1 };
        let mut builder = CycleBuilder::new(ABSOLUTE, &class, &[]);
        let mut facts = Vec::new();
        thread.waits().iter().for_each(|wait| builder.take(wait, &mut facts));
        let periods = facts.iter().filter_map(|fact| match fact {
            CycleFact::NewPeriod { to_ns, .. } => Some(*to_ns),
            _ => None,
        });
        assert_eq!(periods.collect::<Vec<_>>(), [shorter]);
    }
}

#[test]
fn a_lock_inside_a_cycle_is_part_of_it_and_named_by_who_woke_it() {
    let mut thread = Thread::default();
    for k in 1..=20_u64 {
        thread.sleeps_until(k * MS, 10 * US);
        thread.works(40 * US);
        let until = thread.now + 150 * US;
        thread.is_woken(until, 5 * US);
        thread.works(30 * US);
    }
    let (_, facts) = thread.facts(ABSOLUTE);
    for fact in &facts {
        let CycleFact::Cycle(cycle) = fact else { panic!("{fact:?}") };
        assert_eq!(cycle.sample.execution_time_ns, 225 * US);
        let [inner] = cycle.inner.as_slice() else { panic!("{cycle:?}") };
        assert_eq!(inner.to.ns_since(inner.from), 155 * US);
        assert_eq!(inner.waker, Some(Waker::Task(9)));
    }
}

#[test]
fn a_loop_that_hangs_at_the_end_has_let_releases_pass() {
    let mut thread = Thread::default();
    for k in 1..=20_u64 {
        thread.sleeps_until(k * MS, 10 * US);
        thread.works(50 * US);
    }
    let known = thread.releases(ABSOLUTE);
    let class = classify(&known).unwrap();
    let mut builder = CycleBuilder::new(ABSOLUTE, &class, &known);
    let mut facts = Vec::new();
    thread.waits().iter().for_each(|wait| builder.take(wait, &mut facts));
    let outcome = builder.finish(Instant::from_ns(25 * MS + 500 * US), None, &mut facts);
    assert_eq!((outcome.slots, outcome.skipped_at_end), (25, 5));
    let CycleFact::Cycle(last) = facts.last().unwrap() else { panic!() };
    assert_eq!(last.sample.response_time_ns(), 5_500 * US, "as far as it got");
}

proptest! {
    /// Any latency, any work, any missing events: releases are counted once each, and no latency
    /// is made up.
    #[test]
    fn slots_add_up_whatever_is_missing(
        cycles in prop::collection::vec((0_u64..400_000, 0_u64..2_500_000), 30..150),
        missing in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        counted in 0_u64..30,
    ) {
        let mut thread = Thread::default();
        let mut release = 0;
        let mut latencies = std::collections::BTreeMap::new();
        for (latency, work) in &cycles {
            // As onbeat's own loop: what has passed is skipped.
            release = (release + MS).max((thread.now / MS + 1) * MS);
            latencies.insert(release, *latency);
            thread.sleeps_until(release, *latency);
            thread.works(*work);
        }
        for index in &missing {
            let place = index.index(thread.events.len());
            thread.events.remove(place);
        }

        let class = Class::Exact { period_ns: MS, waits: 1 };
        let mut builder = CycleBuilder::new(ABSOLUTE, &class, &[]);
        builder.miss(counted);
        let mut facts = Vec::new();
        thread.waits().iter().for_each(|wait| builder.take(wait, &mut facts));
        let outcome = builder.finish(Instant::from_ns(thread.now), None, &mut facts);
        let mut next = 0;
        let mut seen = 0;
        let mut skipped = 0;
        for fact in &facts {
            let CycleFact::Cycle(cycle) = fact else { continue };
            let sample = &cycle.sample;
            prop_assert!(sample.index >= next + sample.skipped);
            next = sample.index + 1;
            seen += 1;
            skipped += sample.skipped;
            // A switch that was not seen may make a latency look longer, never shorter.
            let real = latencies.get(&sample.release.as_ns()).copied();
            prop_assert!(real.is_none_or(|real| sample.wakeup_latency_ns >= real), "{:?} {:?}", sample, real);
        }
        prop_assert_eq!(outcome.slots, seen + skipped + builder.not_seen() + outcome.skipped_at_end);
    }
}
