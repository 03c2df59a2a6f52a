//! Each fault on a live loop: the injections in the log took place, and delayed the loop.
//!
//! One test, because faults would interfere with each other. No absolute time is asserted: a loop
//! that was delayed until some time after its release cannot have started before, and the log is
//! compared with the kernel's counters and with the loop's samples of the same run.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::channel;

use onbeat::inject::{
    Detail, Error, Fault, InLoop, Injected, InjectionPlan, InjectionTarget, Injector, Log,
    ReleaseGrid, placebo,
};
use onbeat::thread::{ThreadRequest, Usage};
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Instant, OnOverrun, Sample, Slot, Task, Wait, cycle, split};

const MS: u64 = 1_000_000;
const PERIOD_NS: u64 = MS;
const PRIORITY: u32 = 60;

/// Samples, counters and injections of a loop.
struct LoopResult {
    samples: Vec<Sample>,
    usage: Usage,
    log: Log,
}

impl LoopResult {
    /// Returns the share of injections that delayed the loop: a cycle released near the begin of
    /// the disturbance ended no earlier than the disturbance, according to the log.
    fn share_delayed(&self) -> f64 {
        let felt = self.log.injected.iter().filter(|entry| {
            let (at, end) = (entry.at.as_ns(), entry.end().as_ns());
            // Tolerance of a twentieth: each side reads the clock once more, and CPU time excludes
            // steal time.
            let needed = Instant::from_ns(end - entry.ns / 20);
            // At most two periods after its begin: a cycle that was not delayed ends before the
            // disturbance then.
            let about = at.saturating_sub(PERIOD_NS)..end.min(at + 2 * PERIOD_NS);
            let mut hit =
                self.samples.iter().filter(|sample| about.contains(&sample.release.as_ns()));

            hit.any(|sample| sample.release.plus_ns(sample.response_time_ns()) >= needed)
        });
        felt.count() as f64 / self.log.injected.len().max(1) as f64
    }

    fn median_response_ns(&self) -> u64 {
        let mut all: Vec<u64> = self.samples.iter().map(Sample::response_time_ns).collect();
        all.sort_unstable();
        all[all.len() / 2]
    }

    /// Returns the median response time of the aimed cycles, divided by that of all cycles.
    fn aimed_over_all(&self) -> f64 {
        let aimed = |entry: &Injected| {
            let sample = self.samples.iter().find(|sample| sample.index >= entry.release)?;
            Some(sample.response_time_ns())
        };

        let mut aimed: Vec<u64> = self.log.injected.iter().filter_map(aimed).collect();
        aimed.sort_unstable();
        aimed
            .get(aimed.len() / 2)
            .map_or(0.0, |median| *median as f64 / self.median_response_ns().max(1) as f64)
    }
}

fn loop_cpu() -> u32 {
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    (0..1024).rev().find(|&cpu| cpus.is_set(cpu)).unwrap() as u32
}

/// Runs a loop of 1 kHz until the injector has finished.
fn run_loop<T: Task + Send>(
    releases: u64,
    task: &mut T,
    beside: impl FnOnce(ReleaseGrid, InjectionTarget) -> Result<Option<Injector>, Error>,
) -> Result<LoopResult, Error> {
    let mut slots: Vec<Slot<Sample>> = (0..8192).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let stop = AtomicBool::new(false);
    let (tid_sender, tid_receiver) = channel();
    let first_release = Instant::from_ns((Monotonic.now().as_ns() / MS + 20) * MS);
    let cpu = loop_cpu();
    std::thread::scope(|threads| {
        let body = threads.spawn(|| {
            let _ =
                ThreadRequest { fifo: Some(PRIORITY), cpu: Some(cpu), ..ThreadRequest::default() }
                    .prepare_thread();
            tid_sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let plan = cycle_plan(first_release, releases);
            let before = Usage::of_this_thread();
            cycle::run(&Monotonic, &plan, task, &mut hot, &stop);
            Usage::of_this_thread().since(before)
        });

        let tid = tid_receiver.recv().unwrap();
        let target =
            InjectionTarget { pid: std::process::id().cast_signed(), tid, cpu, priority: PRIORITY };
        let injector =
            beside(ReleaseGrid { first_release, period_ns: PERIOD_NS, spin_ns: 0 }, target);
        let log = injector.map(|injector| {
            injector.map_or_else(Log::default, |injector| {
                while !injector.is_finished() && !body.is_finished() {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                injector.stop()
            })
        });

        stop.store(
            !matches!(log, Ok(Log { ref injected, .. }) if injected.is_empty()),
            Ordering::Relaxed,
        );
        let usage = body.join().unwrap();
        let samples = std::iter::from_fn(|| cold.pop()).collect();
        log.map(|log| LoopResult { samples, usage, log })
    })
}

fn cycle_plan(first_release: Instant, releases: u64) -> cycle::Plan {
    cycle::Plan {
        period_ns: PERIOD_NS,
        first_release,
        deadline_ns: PERIOD_NS,
        releases,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    }
}

fn plan(fault: Fault, grid: ReleaseGrid, target: InjectionTarget) -> InjectionPlan {
    InjectionPlan {
        fault,
        every_ns: fault.least_every_ns().max(25 * MS),
        for_ns: MS / 2,
        count: 25,
        target,
        grid,
    }
}

fn nothing(_: &Cycle) -> Flow {
    Flow::Continue
}

/// Runs a loop with an injector of `fault`; `None`, with the reason printed, if that is not
/// possible.
fn beside(
    fault: Fault,
    releases: u64,
    change: impl FnOnce(InjectionPlan) -> InjectionPlan,
) -> Option<LoopResult> {
    let started = |grid, target| Injector::start(change(plan(fault, grid, target))).map(Some);
    match run_loop(releases, &mut nothing, started) {
        Ok(seen) => {
            println!(
                "{fault}: {} injected, {} missed, delayed {:.2}, aimed over all {:.1}",
                seen.log.injected.len(),
                seen.log.missed,
                seen.share_delayed(),
                seen.aimed_over_all()
            );
            Some(seen)
        }
        Err(why @ Error::NotPossible { .. }) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Asserts that there are injections and that most of them delayed the loop. On a busy machine some
/// come too late.
fn assert_delayed(seen: &LoopResult) {
    assert!(seen.log.injected.len() >= 5, "{:?}", seen.log);
    assert!(seen.share_delayed() >= 0.8, "{:.2} of {:?}", seen.share_delayed(), seen.log.injected);
    for pair in seen.log.injected.windows(2) {
        assert!(
            pair[1].at.ns_since(pair[0].end()) >= 10 * MS,
            "single spikes are separate: {pair:?}"
        );
    }
}

fn counter_of(file: &str, name: &str, cpu: u32) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().map(str::trim_start).find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_ascii_whitespace().nth(cpu as usize).unwrap().parse().unwrap()
}

#[test]
fn every_fault_takes_place_as_logged_and_delays_a_loop_live() {
    if std::env::var_os("ONBEAT_LIVE_INJECT").is_none() {
        println!(
            "skipped: lengths are calibrated on the spot, which needs a quiet machine; `make inject-live` runs it"
        );
        return;
    }

    let grants = ThreadRequest { fifo: Some(PRIORITY), ..ThreadRequest::default() };
    let granted =
        std::thread::spawn(move || grants.prepare_thread().iter().all(|grant| grant.granted))
            .join()
            .unwrap();
    if !granted {
        println!("skipped: no real-time priority here, and without one a loop is late by itself");
        return;
    }

    a_hog_is_busy_for_its_time();
    a_flood_is_received_on_the_loops_cpu();
    timers_expire_in_one_interrupt();
    a_storm_of_interrupts_arrives_at_the_loops_cpu();
    a_kernel_section_lasts();
    a_stop_holds_the_loop_until_it_is_continued();
    a_migration_takes_place_and_is_undone();
    page_faults_match_the_kernels_count();
    an_overrun_skips_releases();
    the_fair_server_serves_the_thread_that_starved();
    throttling_leaves_the_cpu_idle();
    a_deep_idle_state_is_one_that_the_kernel_counts();
    faults_from_outside_delay_the_loop();
    a_placebo_does_nothing();
}

fn faults_from_outside_delay_the_loop() {
    let of_threads = [Fault::HigherPriorityHog, Fault::DeadlineHog, Fault::SpinLockSection];
    let in_kernel =
        [Fault::InterruptsOff, Fault::TimerInterrupt, Fault::SlowSoftirq, Fault::SlowIpi];
    let of_the_thread = [Fault::CgroupFreezer, Fault::PtraceStop];
    for fault in of_threads.into_iter().chain(in_kernel).chain(of_the_thread) {
        // Taking thousands of file locks takes seconds.
        let Some(seen) = beside(fault, 12_000, |plan| plan) else { continue };
        assert_delayed(&seen);
    }
}

fn a_hog_is_busy_for_its_time() {
    let Some(seen) = beside(Fault::EqualPriorityHog, 3000, |plan| plan) else { return };
    assert_delayed(&seen);
    for entry in &seen.log.injected {
        let Detail::Busy { cpu_ns } = entry.detail else { panic!("{entry:?}") };
        assert!(entry.ns >= MS / 2, "from before the release to half a period after: {entry:?}");
        assert!(
            cpu_ns <= entry.ns + MS / 10,
            "a thread is not busy for longer than the time that passed: {entry:?}"
        );
    }

    let busy =
        seen.log.injected.iter().filter(
            |entry| matches!(entry.detail, Detail::Busy { cpu_ns } if cpu_ns * 2 > entry.ns),
        );

    assert!(
        busy.count() * 2 > seen.log.injected.len(),
        "by its CPU clock it kept the CPU: {:?}",
        seen.log.injected
    );
}

fn a_flood_is_received_on_the_loops_cpu() {
    let received = || counter_of("/proc/softirqs", "NET_RX:", loop_cpu());
    let before = received();
    let Some(seen) = beside(Fault::SoftirqFlood, 3000, |plan| plan) else { return };
    assert_delayed(&seen);
    assert!(
        received() - before >= seen.log.injected.len() as u64,
        "each packet is received in a softirq of this CPU"
    );
}

fn timers_expire_in_one_interrupt() {
    let Some(seen) = beside(Fault::InterruptLoad, 3000, |plan| plan) else { return };
    assert_delayed(&seen);
}

fn a_storm_of_interrupts_arrives_at_the_loops_cpu() {
    let arrived = || counter_of("/proc/interrupts", "CAL:", loop_cpu());
    let before = arrived();
    let Some(seen) = beside(Fault::IpiStorm, 3000, |plan| plan) else { return };
    let sent: u64 = seen
        .log
        .injected
        .iter()
        .map(|entry| {
            if let Detail::Interrupted { sent } = entry.detail { sent } else { panic!("{entry:?}") }
        })
        .sum();
    let arrived = arrived() - before;

    // While other processes have the CPU no interrupt is needed, so not all interrupts arrive.
    assert!(
        !seen.log.injected.is_empty() && arrived * 10 >= sent,
        "{sent} sent, {arrived} arrived"
    );
}

fn a_kernel_section_lasts() {
    let Some(seen) = beside(Fault::KernelSection, 3000, |plan| plan) else { return };
    assert_delayed(&seen);
    let long = seen.log.injected.iter().filter(|entry| entry.ns >= 300_000);
    assert!(
        long.count() * 2 > seen.log.injected.len(),
        "at least 300 us without a scheduling point: {:?}",
        seen.log
    );
}

fn a_stop_holds_the_loop_until_it_is_continued() {
    let Some(seen) =
        beside(Fault::StopSignal, 3000, |plan| InjectionPlan { for_ns: 3 * MS, ..plan })
    else {
        return;
    };
    assert_delayed(&seen);
    for entry in &seen.log.injected {
        assert!(entry.ns >= 3 * MS, "stopped for its time: {entry:?}");
        assert_eq!(entry.detail, Detail::Stopped { pid: u64::from(std::process::id()) });
    }
}

/// A task that records the CPU of each cycle.
struct CpuOfCycles<'w> {
    cpus: &'w [AtomicI32],
}

impl Task for CpuOfCycles<'_> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let cpu = i32::try_from(rustix::thread::sched_getcpu()).unwrap();
        if let Some(place) = self.cpus.get(usize::try_from(cycle.index).unwrap()) {
            place.store(cpu, Ordering::Relaxed);
        }
        Flow::Continue
    }
}

fn a_migration_takes_place_and_is_undone() {
    let cpus: Vec<AtomicI32> = (0..8000).map(|_| AtomicI32::new(-1)).collect();
    let home = loop_cpu().cast_signed();
    let started =
        |grid, target| Injector::start(plan(Fault::ForcedMigration, grid, target)).map(Some);
    let seen = match run_loop(8000, &mut CpuOfCycles { cpus: &cpus }, started) {
        Ok(seen) => seen,
        Err(why @ Error::NotPossible { .. }) => return println!("skipped: {why}"),
        Err(why) => panic!("{why}"),
    };

    println!(
        "{}: {} injected, aimed over all {:.1}",
        Fault::ForcedMigration,
        seen.log.injected.len(),
        seen.aimed_over_all()
    );
    let cpu_of = |index: u64| cpus[usize::try_from(index).unwrap()].load(Ordering::Relaxed);
    let moved = seen.log.injected.iter().filter(|entry| {
        let Detail::Moved { from, to } = entry.detail else { panic!("{entry:?}") };
        assert_eq!(from, u64::from(home.unsigned_abs()));
        cpu_of(entry.release) == i32::try_from(to).unwrap()
    });

    assert!(moved.count() * 10 >= seen.log.injected.len() * 8, "the cycle aimed at ran elsewhere");
    assert!(seen.log.injected.len() >= 5);
    let away = |entry: &Injected, sample: &Sample| {
        sample.release.plus_ns(sample.response_time_ns()) >= entry.at
            && sample.release <= entry.end()
    };
    for sample in &seen.samples {
        let aimed_at = seen.log.injected.iter().any(|entry| away(entry, sample));
        assert!(
            aimed_at || cpu_of(sample.index) == home,
            "cycle {} is at home again",
            sample.index
        );
    }
}

fn in_loop(fault: Fault) -> (LoopResult, Vec<Injected>) {
    let grid = ReleaseGrid { first_release: Instant::from_ns(0), period_ns: PERIOD_NS, spin_ns: 0 };
    let target = InjectionTarget { pid: 0, tid: 0, cpu: 0, priority: 0 };
    let mut task =
        InLoop::new(nothing, &InjectionPlan { count: 20, ..plan(fault, grid, target) }).unwrap();
    let log = task.log();
    let mut seen = run_loop(700, &mut task, |_, _| Ok(None)).unwrap();
    seen.log.injected = log.read();

    (seen, log.read())
}

fn page_faults_match_the_kernels_count() {
    let (seen, log) = in_loop(Fault::PageFaults);
    let touched: u64 =
        log.iter()
            .map(|entry| {
                if let Detail::Touched { pages } = entry.detail {
                    pages
                } else {
                    panic!("{entry:?}")
                }
            })
            .sum();
    println!(
        "page_faults: {} injected, {touched} pages, {} faults, delayed {:.2}",
        log.len(),
        seen.usage.page_faults,
        seen.share_delayed()
    );

    assert_delayed(&seen);
    assert!(
        touched >= log.len() as u64 && seen.usage.page_faults >= touched,
        "{touched} pages, {:?}",
        seen.usage
    );
}

fn an_overrun_skips_releases() {
    let (seen, log) = in_loop(Fault::OwnOverrun);
    println!("own_overrun: {} injected, delayed {:.2}", log.len(), seen.share_delayed());
    assert_delayed(&seen);
    for entry in &log {
        let Detail::Overran { releases } = entry.detail else { panic!("{entry:?}") };
        let next = seen.samples.iter().find(|sample| sample.index > entry.release).unwrap();
        assert!(releases >= 1 && next.skipped >= releases, "{entry:?} then {next:?}");
    }
}

fn the_fair_server_serves_the_thread_that_starved() {
    let change = |plan: InjectionPlan| InjectionPlan { for_ns: 10 * MS, count: 2, ..plan };
    let Some(seen) = beside(Fault::FairServer, 4000, change) else { return };
    if seen.log.injected.is_empty() {
        println!(
            "skipped: other ordinary threads wanted the CPU too, so the two rules cannot be distinguished"
        );
    }

    assert!(seen.share_delayed() >= 0.5 || seen.log.injected.is_empty(), "{:?}", seen.log);
    for entry in &seen.log.injected {
        let Detail::OffCpu { after_ns, evidence_ns } = entry.detail else { panic!("{entry:?}") };
        assert!(
            evidence_ns >= 10 * MS && evidence_ns <= entry.ns + MS,
            "the ordinary thread had its time: {entry:?}"
        );
        assert!(after_ns > 500 * MS, "after it was starved for most of a second: {entry:?}");
    }
}

fn throttling_leaves_the_cpu_idle() {
    let Some(seen) = beside(Fault::RtThrottling, 4800, |plan| InjectionPlan { count: 1, ..plan })
    else {
        return;
    };
    if seen.log.injected.is_empty() {
        println!(
            "skipped: other ordinary threads wanted the CPU too, so the fair server came first"
        );
    }

    assert!(seen.share_delayed() >= 0.5 || seen.log.injected.is_empty(), "{:?}", seen.log);
    for entry in &seen.log.injected {
        let Detail::OffCpu { evidence_ns, .. } = entry.detail else { panic!("{entry:?}") };
        assert!(evidence_ns * 2 >= entry.ns, "nobody ran although the loop wanted to: {entry:?}");
    }
}

fn a_deep_idle_state_is_one_that_the_kernel_counts() {
    let Some(seen) = beside(Fault::DeepIdle, 1000, |plan| plan) else { return };
    for entry in &seen.log.injected {
        let Detail::Woken { state, exit_ns } = entry.detail else { panic!("{entry:?}") };
        let dir = format!("/sys/devices/system/cpu/cpu{}/cpuidle/state{state}", loop_cpu());
        let latency_us: u64 = fs::read_to_string(dir + "/latency").unwrap().trim().parse().unwrap();
        assert_eq!((exit_ns, entry.ns), (latency_us * 1000, latency_us * 1000));
    }
}

fn a_placebo_does_nothing() {
    let started = |grid, target| {
        placebo(InjectionPlan { count: 10, ..plan(Fault::KernelSection, grid, target) }).map(Some)
    };
    let seen = match run_loop(4000, &mut nothing, started) {
        Ok(seen) => seen,
        Err(why) => return println!("skipped: {why}"),
    };

    assert_eq!(seen.log.injected.len(), 10, "the machinery ran");
    assert!(seen.log.injected.iter().all(|entry| entry.ns == 0 && entry.detail == Detail::Placebo));
    // The other tests delay by half a period; a placebo's release is rarely that late.
    let late = seen.log.injected.iter().filter_map(|entry| {
        seen.samples
            .iter()
            .find(|sample| sample.index == entry.release)
            .map(|sample| sample.wakeup_latency_ns)
    });

    assert!(
        late.filter(|late_ns| *late_ns >= MS / 2).count() * 2 <= 10,
        "a placebo disturbs nothing"
    );
}
