//! A real loop on this kernel: injected stalls are named correctly.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant as Wall};

use onbeat::cause::event::{KernelEvent, TraceEvent};
use onbeat::cause::{
    Cause, CauseKind, Cost, Explainer, Explanation, FlightRecorder, FlightSetting, LoopThread,
};
use onbeat::inject::Fault;
use onbeat::probe::Setting;
use onbeat::probe::disturbed::{DisturbError, Disturbance, disturb};
use onbeat::thread::ThreadRequest;
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Instant, OnOverrun, Plan, Sample, Slot, Wait, split};
use rustix::fs::{Mode, OFlags};
use rustix::pty;

const MS: u64 = 1_000_000;
const FIFO: u32 = 60;

/// Keeps the tests apart: their loops have one priority on one CPU, where the plant of one would
/// delay the others.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the reason why this machine cannot run the test.
fn skipped() -> Option<String> {
    let probe = LoopThread { tid: std::process::id(), cpu: None, fifo: None };
    match Explainer::open(probe, &FlightSetting { buffer_kib: 64, ..FlightSetting::default() }) {
        Ok(explainer) => {
            explainer.close();
            let granted = thread::spawn(|| {
                ThreadRequest { fifo: Some(FIFO), ..ThreadRequest::default() }.prepare_thread()
            });
            let refused = granted.join().unwrap().into_iter().find(|grant| !grant.granted);
            refused.and_then(|grant| grant.why_not)
        }
        Err(why) => Some(why.to_string()),
    }
}

fn spin_until(until: Instant) {
    while Monotonic.now() < until {
        std::hint::spin_loop();
    }
}

struct Run {
    spikes: Vec<(Sample, Explanation)>,
    cost: Cost,
}

/// Runs the loop: `planned_ns` of work, then the injected stall.
fn cycles(
    releases: u64,
    planned_ns: u64,
    plant: &mut impl FnMut(&Cycle),
    hot: &mut onbeat_rt::Producer<'_, Sample>,
) {
    let plan = Plan {
        period_ns: 2 * MS,
        first_release: Monotonic.now().plus_ns(5 * MS),
        deadline_ns: 2 * MS,
        releases,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut task = |cycle: &Cycle| {
        spin_until(cycle.start.plus_ns(planned_ns));
        plant(cycle);
        Flow::Continue
    };

    onbeat_rt::cycle::run(&Monotonic, &plan, &mut task, hot, &AtomicBool::new(false));
}

/// Runs a FIFO loop of 2 ms on the last CPU; `plant(k)` runs as the work of cycle k. Samples later
/// than `over_ns` are explained.
fn run(
    releases: u64,
    over_ns: u64,
    planned_ns: u64,
    plant: impl FnMut(&Cycle) + Send,
    beside: impl FnOnce(&AtomicBool) + Send,
) -> Run {
    let cpu = *onbeat::host::online_cpus().last().unwrap();
    let mut slots: Vec<Slot<Sample>> = (0..4096).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let own = LoopThread { tid: std::process::id(), cpu: Some(cpu), fifo: Some(FIFO) };
    let mut explainer = Explainer::open(own, &FlightSetting::default()).unwrap();
    for grant in explainer.grants() {
        println!("{}: {}", grant.what, grant.why_not.unwrap_or(grant.wanted));
    }

    let (tid, go, done) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let mut plant = plant;
    let mut spikes = Vec::new();
    thread::scope(|threads| {
        let body = threads.spawn(|| {
            let wanted =
                ThreadRequest { fifo: Some(FIFO), cpu: Some(cpu), ..ThreadRequest::default() };
            let _ = wanted.prepare_thread();
            tid.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Release);
            while !go.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
            }

            cycles(releases, planned_ns, &mut plant, &mut hot);
        });

        threads.spawn(|| beside(&done));
        while tid.load(Ordering::Acquire) == 0 {
            thread::sleep(Duration::from_millis(1));
        }

        explainer.follow(LoopThread { tid: tid.load(Ordering::Acquire), ..own }).unwrap();
        go.store(true, Ordering::Release);
        loop {
            let finished = body.is_finished();
            thread::sleep(Duration::from_millis(5));
            explainer.keep_watch();
            while let Some(sample) = cold.pop() {
                if sample.wakeup_latency_ns.max(sample.execution_time_ns.saturating_sub(planned_ns))
                    > over_ns
                {
                    let before = Wall::now();
                    let explanation = explainer.explain(&sample, 0, planned_ns);
                    let causes: Vec<String> = explanation
                        .causes
                        .iter()
                        .map(|cause| format!("{}: {}", cause.words(), cause.evidence))
                        .collect();
                    println!(
                        "cycle {} late {} us, asked for {:?}\n    {}",
                        sample.index,
                        explanation.lateness_ns / 1000,
                        before.elapsed(),
                        causes.join("\n    ")
                    );
                    spikes.push((sample, explanation));
                }
            }

            if finished {
                break;
            }
        }

        done.store(true, Ordering::Release);
    });

    Run { spikes, cost: explainer.cost() }
}

/// Whether the recorder still had the events of a spike when it was explained. On a machine so busy
/// that the explaining thread, an ordinary one, waits for seconds, it has not, and says so.
fn has_events(explanation: &Explanation) -> bool {
    let is_lost = |cause: &Cause| cause.evidence.contains("earlier events were overwritten");
    !explanation.causes.iter().any(is_lost)
}

/// Returns how many of the planted cycles have `kind` as their main cause, and how many there are
/// whose events were still there.
fn named(run: &Run, planted: impl Fn(u64) -> bool, kind: CauseKind) -> (usize, usize) {
    let is_judged = |(sample, explanation): &&(Sample, Explanation)| {
        planted(sample.index) && has_events(explanation)
    };
    let of_plant: Vec<_> = run.spikes.iter().filter(is_judged).collect();
    let right = of_plant
        .iter()
        .filter(|(_, explanation)| explanation.main().is_some_and(|main| main.kind == kind));
    (right.count(), of_plant.len())
}

fn all_add_up(run: &Run) {
    for (sample, explanation) in &run.spikes {
        let sum: u64 = explanation.causes.iter().map(|cause| cause.ns).sum();
        assert_eq!(sum, explanation.lateness_ns);
        assert!(
            explanation.lateness_ns + 1000 >= sample.wakeup_latency_ns.min(explanation.lateness_ns)
        );
    }
}

// Other programs may cause spikes too, so a majority of the planted ones is required, not all.

#[test]
fn work_longer_than_planned_is_the_loops_own_overrun_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let planted = |k: u64| k % 20 == 10;
    let run = run(
        200,
        MS,
        100_000,
        |cycle| {
            if planted(cycle.index) {
                spin_until(cycle.start.plus_ns(3 * MS));
            }
        },
        |_| {},
    );
    let (right, all) = named(&run, planted, CauseKind::OwnOverrun);

    assert!(all > 0 && right * 2 > all, "{right} of {all}");
    all_add_up(&run);
    assert!(run.cost.explained > 0 && run.cost.cpu_ns > 0 && run.cost.bytes_held > 0);
}

#[test]
fn pages_touched_for_the_first_time_are_page_faults_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    // The injector maps memory of its own: what an allocator returns may have been touched before.
    let Some(mains) = mains_of(Fault::PageFaults, 500_000) else { return };
    let right = mains.iter().filter(|main| main.kind == CauseKind::PageFault).count();
    assert!(!mains.is_empty() && right * 2 > mains.len(), "{mains:#?}");
}

#[test]
fn a_thread_of_equal_priority_is_named_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let cpu = onbeat::host::online_cpus().last().copied();
    let ran: Mutex<Vec<(Instant, Instant)>> = Mutex::default();
    let hog = |done: &AtomicBool| {
        let hog = thread::scope(|threads| {
            let body = thread::Builder::new().name("planted-hog".to_owned());
            body.spawn_scoped(threads, || {
                let _ = ThreadRequest { fifo: Some(FIFO), cpu, ..ThreadRequest::default() }
                    .prepare_thread();
                while !done.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(29));
                    let began = Monotonic.now();
                    spin_until(began.plus_ns(HOG_NS));
                    ran.lock().unwrap().push((began, Monotonic.now()));
                }
            })
            .unwrap()
            .join()
        });
        hog.unwrap();
    };

    let run = run(500, 2 * MS, 0, |_| {}, hog);
    let ran = ran.into_inner().unwrap();
    let judged = run
        .spikes
        .iter()
        .filter(|(sample, explanation)| is_by_hog(&ran, sample) && has_events(explanation));
    let by_hog = judged.clone().filter(|(_, explanation)| {
        let main = explanation.main().unwrap();
        main.kind == CauseKind::Preempted
            && main.culprit.as_ref().is_some_and(|culprit| culprit.name == "planted-hog")
    });

    let (right, all) = (by_hog.count(), judged.count());
    assert!(all > 0 && right * 2 > all, "{right} of {all}");
    all_add_up(&run);
}

/// Time for which the planted hog is busy, in ns.
const HOG_NS: u64 = 5 * MS;

/// Whether the loop waited for its CPU mostly while the hog had it. A hog that was busy for longer
/// was stopped itself, by what stops the loop too.
fn is_by_hog(ran: &[(Instant, Instant)], sample: &Sample) -> bool {
    let woken = sample.release.plus_ns(sample.wakeup_latency_ns);
    let waited = ran
        .iter()
        .filter(|(began, ended)| ended.ns_since(*began) < HOG_NS + MS)
        .map(|(began, ended)| woken.min(*ended).ns_since(sample.release.max(*began)));
    waited.sum::<u64>() * 2 > sample.wakeup_latency_ns
}

/// Returns the address of a function of the kernel, if this process may see it.
fn kernel_function(name: &str) -> Option<u64> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").ok()?;
    let line = symbols.lines().find(|line| line.split(' ').nth(2) == Some(name))?;
    u64::from_str_radix(line.split(' ').next()?, 16).ok().filter(|address| *address != 0)
}

/// Returns both ends of a new pseudoterminal.
fn pseudoterminal() -> (OwnedFd, OwnedFd) {
    let controller = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&controller).unwrap();
    pty::unlockpt(&controller).unwrap();
    let name = pty::ptsname(&controller, Vec::new()).unwrap();
    let user = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (controller, user)
}

/// What is written to a pseudoterminal reaches its other end by a work item: when it can be read,
/// the item has begun.
#[test]
fn work_items_of_the_kernel_are_recorded_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let mut recorder = FlightRecorder::open(&FlightSetting::default()).unwrap();
    let missing = recorder.missing().to_vec();
    if missing.iter().any(|event| event.starts_with("workqueue:")) {
        println!("skipped: this kernel lacks {}", missing.join(", "));
        return;
    }

    let Some(function) = kernel_function("flush_to_ldisc") else {
        println!("skipped: /proc/kallsyms does not show where flush_to_ldisc is");
        return;
    };

    let (controller, user) = pseudoterminal();
    let before = Monotonic.now();
    rustix::io::write(&controller, b"x\n").unwrap();
    rustix::io::read(&user, &mut [0; 8]).unwrap();
    let window = recorder.window(before, Monotonic.now()).unwrap();

    let is_begin = |event: &&&TraceEvent| matches!(event.what, KernelEvent::WorkStart { function: of, .. } if of == function);
    let events = window.in_order();
    let begin = events.iter().find(is_begin).expect("the work item was executed");
    assert_ne!(begin.tid, 0, "a worker thread executes it");
}

/// The injector keeps interrupts off while it wakes a thread through an eventfd.
#[test]
fn the_code_that_a_late_interrupt_found_is_named_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let Some(mains) = mains_of(Fault::InterruptsOff, 500_000) else { return };
    let is_right = |main: &&Cause| {
        main.kind == CauseKind::InterruptsOff && main.evidence.contains("eventfd_write")
    };
    let right = mains.iter().filter(is_right).count();

    assert!(!mains.is_empty() && right * 2 > mains.len(), "{mains:#?}");
}

/// Injects a fault ten times, and returns the main causes of the cycles that it met; `None`, with
/// the reason printed, where this machine cannot inject it. An injector that gives up, too late too
/// often on a busy machine, is followed by another one, and so are explanations without events.
fn mains_of(fault: Fault, for_ns: u64) -> Option<Vec<Cause>> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let cpu = onbeat::host::online_cpus().last().copied();
    let thread = ThreadRequest { fifo: Some(FIFO), cpu, ..ThreadRequest::default() };
    let setting =
        Setting { thread, warmup: 0, causes: true, stacks: true, ..Setting::new(1_000_000) };
    let asked = Disturbance { fault, every_ns: 50 * MS, for_ns, count: 10, placebo: false };
    let began = Wall::now();
    loop {
        let disturbed = thread::scope(|threads| {
            let body = || disturb(&setting, &asked, &AtomicBool::new(false), &mut |_| {});
            threads.spawn(body).join().unwrap()
        });

        let disturbed = match disturbed {
            Ok(disturbed) => disturbed,
            Err(DisturbError::Inject(onbeat::inject::Error::NotPossible { reason, .. })) => {
                println!("skipped: {reason}");
                return None;
            }
            Err(why) => panic!("{why}"),
        };
        let felt = disturbed.felt.iter();
        let explanations = felt.filter_map(|one| one.met.as_ref()?.explanation.as_ref());
        let (judged, without): (Vec<_>, Vec<_>) =
            explanations.partition(|explanation| has_events(explanation));
        let mains: Vec<Cause> = judged.into_iter().filter_map(Explanation::main).cloned().collect();
        let is_disturbed = disturbed.missed > asked.count as u64 || !without.is_empty();
        if !mains.is_empty() || !is_disturbed || began.elapsed() > PATIENCE {
            return Some(mains);
        }
        println!("{} missed, {} without events: once more", disturbed.missed, without.len());
    }
}

#[test]
fn a_frozen_loop_is_named_by_what_the_kernel_says_of_its_thread_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let Some(mains) = mains_of(Fault::CgroupFreezer, 5 * MS) else { return };
    let is_right = |main: &&Cause| {
        println!("{}: {}", main.words(), main.evidence);
        main.kind == CauseKind::CgroupFreezer
    };
    let right = mains.iter().filter(is_right).count();
    assert!(!mains.is_empty() && right * 2 > mains.len(), "{mains:#?}");
}

/// The kernel's number of the thread of a loop, once it has run its first cycle.
static LOOP_TID: AtomicU32 = AtomicU32::new(0);

#[test]
fn a_loop_that_another_program_makes_an_ordinary_thread_is_told_so_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }
    if std::process::Command::new("chrt").arg("--version").output().is_err() {
        println!("skipped: there is no chrt");
        return;
    }

    LOOP_TID.store(0, Ordering::Release);
    let cpu = onbeat::host::online_cpus().last().copied();
    let beside = |done: &AtomicBool| {
        thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    let wanted = ThreadRequest { cpu, ..ThreadRequest::default() };
                    let _ = wanted.prepare_thread();
                    while !done.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                });
            }
            while LOOP_TID.load(Ordering::Acquire) == 0 && !done.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(50));
            let tid = LOOP_TID.load(Ordering::Acquire).to_string();
            let chrt = std::process::Command::new("chrt").args(["-o", "-p", "0", &tid]).status();
            assert!(chrt.unwrap().success());
        });
    };
    let plant = |_: &Cycle| {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        LOOP_TID.store(tid as u32, Ordering::Release);
    };

    let run = run(400, 2 * MS, 0, plant, beside);
    let judged = run.spikes.iter().filter(|(_, explanation)| has_events(explanation));
    let mains: Vec<&Cause> = judged.filter_map(|(_, explanation)| explanation.main()).collect();
    let right = mains.iter().filter(|main| main.kind == CauseKind::PolicyChange).count();
    if mains.is_empty() {
        println!("no cycle was late");
        return;
    }
    assert!(right * 2 > mains.len(), "{right} of {}: {mains:#?}", mains.len());
    assert!(mains.iter().all(|main| main.kind != CauseKind::FairServer), "{mains:#?}");
    all_add_up(&run);
}

#[test]
fn the_real_time_thread_that_used_up_the_runtime_is_named_live() {
    let _alone = alone();
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let cpu = onbeat::host::online_cpus().last().copied();
    let hog = |done: &AtomicBool| {
        thread::scope(|threads| {
            let body = thread::Builder::new().name("planted-hog".to_owned());
            let body = body.spawn_scoped(threads, || {
                let wanted = ThreadRequest { fifo: Some(10), cpu, ..ThreadRequest::default() };
                let _ = wanted.prepare_thread();
                while !done.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            });
            body.unwrap().join().unwrap();
        });
    };

    let run = run(1_200, 5 * MS, 0, |_| {}, hog);
    let judged = run.spikes.iter().filter(|(_, explanation)| has_events(explanation));
    let throttled: Vec<&Cause> = judged
        .filter_map(|(_, explanation)| explanation.main())
        .filter(|main| main.kind.is_of_the_runtime())
        .collect();
    if throttled.is_empty() {
        println!("no rule of this kernel stopped a real-time thread");
        return;
    }
    let by_hog = throttled
        .iter()
        .filter(|main| main.culprit.as_ref().is_some_and(|culprit| culprit.name == "planted-hog"));
    assert!(by_hog.count() * 2 > throttled.len(), "{throttled:#?}");
    all_add_up(&run);
}
