//! Records of the BPF programs on this kernel.

use std::fs::File;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant as Wall};

use onbeat::cause::counters::{CounterReading, CounterSource, ReadingTrigger};
use onbeat::cause::event::{KernelEvent, LostEvents, ThreadState, TraceEvent, Vector};
use onbeat::cause::flight::all_idle_states_are_shallow;
use onbeat::cause::{Explainer, FlightRecorder, FlightSetting, LoopThread, PathSource, Window};
use onbeat::thread::ThreadRequest;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

const SMALL: FlightSetting = FlightSetting {
    buffer_kib: 256,
    kept_kib: 256,
    tid: None,
    syscalls: false,
    stacks: false,
    inside: false,
    kvm: false,
    path: PathSource::BpfIfAllowed,
};

/// States of a thread that has ended: dead, and not reaped yet.
const ENDED: u32 = 0x30;

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Opens an explainer with BPF programs, or returns the reason why that is not possible.
fn watching() -> Result<Explainer, String> {
    let nobody = LoopThread { tid: std::process::id(), cpu: None, fifo: None };
    let explainer = Explainer::open(nobody, &SMALL).map_err(|why| why.to_string())?;
    let refused = explainer
        .grants()
        .into_iter()
        .find(|grant| grant.what == "steal counter" && !grant.granted);
    refused.map_or(Ok(explainer), |grant| Err(grant.why_not.unwrap_or_default()))
}

/// Follows a thread that sleeps a hundred times for a millisecond on a CPU that `beside` keeps
/// busy. Returns the CPU and the readings at its wake-ups that interrupted the busy thread.
fn wakings_beside(beside: impl Fn() + Sync) -> Option<(u32, Vec<CounterReading>)> {
    let mut explainer = match watching() {
        Ok(explainer) => explainer,
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };

    let cpu = *onbeat::host::online_cpus().last().unwrap();
    let (busy, done) = (AtomicU32::new(0), AtomicBool::new(false));
    let readings = thread::scope(|threads| {
        threads.spawn(|| {
            let _ = ThreadRequest { cpu: Some(cpu), ..ThreadRequest::default() }.prepare_thread();
            busy.store(own_tid(), Ordering::Release);
            while !done.load(Ordering::Acquire) {
                beside();
            }
        });

        while busy.load(Ordering::Acquire) == 0 {
            thread::sleep(Duration::from_millis(1));
        }

        let explainer = &mut explainer;
        let readings = threads.spawn(move || {
            let _ = ThreadRequest { cpu: Some(cpu), ..ThreadRequest::default() }.prepare_thread();
            explainer.follow(LoopThread { tid: own_tid(), cpu: Some(cpu), fifo: None }).unwrap();
            let from = Monotonic.now();
            (0..100).for_each(|_| thread::sleep(Duration::from_millis(1)));
            let counters = explainer.counters(from, Monotonic.now());

            assert_eq!(counters.source, CounterSource::Bpf);
            counters.readings
        });

        let readings = readings.join().unwrap();
        done.store(true, Ordering::Release);
        readings
    });

    let busy = busy.load(Ordering::Acquire);
    let of_busy = readings
        .into_iter()
        .filter(|reading| reading.moment == ReadingTrigger::Waking && reading.prev == busy);
    Some((cpu, of_busy.collect()))
}

#[test]
fn a_wake_up_that_interrupts_user_code_says_so() {
    let Some((cpu, wakings)) = wakings_beside(std::hint::spin_loop) else { return };
    assert!(!wakings.is_empty(), "the timer interrupted the other thread at least once");
    for waking in wakings {
        assert_eq!(
            (waking.cpu, waking.prev_syscall, waking.prev_in_user),
            (cpu, None, true),
            "{waking:?}"
        );
        assert_eq!((waking.steal_ns, waking.by_fair_server), (None, None));
    }
}

#[test]
fn a_wake_up_that_interrupts_a_system_call_names_it() {
    let zero = File::open("/dev/zero").unwrap();
    // The pages are present before, because a fault is not a system call.
    let bytes = Mutex::new(vec![1; 4 << 20]);
    let read = || (&zero).read_exact(&mut bytes.lock().unwrap()).unwrap();
    let Some((_, wakings)) = wakings_beside(read) else { return };
    let named = wakings.iter().filter(|waking| waking.prev_syscall == Some(libc::SYS_read)).count();

    // Between two calls the thread is in user code.
    assert!(named * 2 > wakings.len(), "{named} of {}", wakings.len());
}

/// Opens both sources for this test's thread; `None` with a printed reason if one is not available.
fn both_sources() -> Option<[FlightRecorder; 2]> {
    let own = FlightSetting { tid: Some(own_tid()), ..FlightSetting::default() };
    let opened = FlightRecorder::open(&own).and_then(|bpf| {
        Ok([
            bpf,
            FlightRecorder::open(&FlightSetting { path: PathSource::Tracefs, ..own.clone() })?,
        ])
    });
    let why = match opened {
        Ok([bpf, tracefs]) => match bpf.no_path() {
            None => return Some([bpf, tracefs]),
            Some(why) => why.to_owned(),
        },
        Err(why) => why.to_string(),
    };

    println!("skipped: {why}");
    None
}

/// Returns the part of an event on which both sources must agree: everything except names, the end
/// of an idle state, the instant that an expiry was compared with, and functions of timers that
/// have not expired.
fn comparable(event: &TraceEvent) -> Option<(u32, KernelEvent)> {
    let nameless = |thread: onbeat::cause::event::Thread| onbeat::cause::event::Thread {
        name: "".into(),
        ..thread
    };
    let what = match event.what {
        KernelEvent::Switch { prev, prev_state, next } => {
            // An ended thread may be reaped between the two records.
            let prev_state =
                if prev_state.0 & ENDED != 0 { ThreadState(ENDED) } else { prev_state };
            KernelEvent::Switch { prev: nameless(prev), prev_state, next: nameless(next) }
        }
        KernelEvent::Waking { thread, target_cpu } => {
            KernelEvent::Waking { thread: nameless(thread), target_cpu }
        }
        KernelEvent::TimerStart { timer, expires, softexpires, .. } => {
            KernelEvent::TimerStart { timer, function: 0, expires, softexpires }
        }
        KernelEvent::TimerExpireEntry { timer, function, .. } => {
            KernelEvent::TimerExpireEntry { timer, function, now: onbeat_rt::Instant::default() }
        }
        // If all idle states are shallow, they are not recorded.
        KernelEvent::IdleEntry { .. } if !all_idle_states_are_shallow() => event.what,
        KernelEvent::VectorEntry(Vector::LocalTimer)
        | KernelEvent::VectorExit(Vector::LocalTimer) => event.what,
        _ => return None,
    };

    Some((event.tid, what))
}

/// Returns the threads of process 1. On some virtual machines it is the host's agent, and while it
/// runs trace points sometimes do not fire for one of the sources.
fn silent_threads() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/1/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

fn path_of(window: &Window, cpu: u32, silent: &[u32]) -> Vec<(u32, KernelEvent)> {
    let is_heard = |tid: &u32| !silent.contains(tid);
    let path = window.cpu(cpu).unwrap().events.iter().filter_map(comparable);
    path.filter(|(tid, what)| match what {
        KernelEvent::Switch { prev, next, .. } => is_heard(&prev.tid) && is_heard(&next.tid),
        _ => is_heard(tid),
    })
    .collect()
}

/// Returns the first event of `other` that is missing in `all`, which must have the same order and
/// may have more events.
fn missing_in(
    all: &[(u32, KernelEvent)],
    other: &[(u32, KernelEvent)],
) -> Option<(u32, KernelEvent)> {
    let mut all = all.iter();
    other.iter().copied().find(|wanted| !all.any(|event| event == wanted))
}

#[test]
fn bpf_records_everything_that_tracefs_does() {
    let Some([mut bpf, mut tracefs]) = both_sources() else { return };
    // For a time, not for a number of sleeps: on a busy machine each takes several milliseconds,
    // and the buffers hold few seconds.
    let (from, since) = (Monotonic.now(), Wall::now());
    while since.elapsed() < Duration::from_millis(500) {
        thread::sleep(Duration::from_millis(1));
    }
    let to = Monotonic.now();
    // The last events of the window are readable when a later event exists.
    thread::sleep(Duration::from_millis(10));
    let (ours, theirs) = (bpf.window(from, to).unwrap(), tracefs.window(from, to).unwrap());

    assert_eq!((ours.lost.len(), theirs.lost.len()), (0, 0));

    let silent = silent_threads();
    for cpu in onbeat::host::online_cpus() {
        let [ours, theirs] = [&ours, &theirs].map(|window| path_of(window, cpu, &silent));
        // An event at the edge of the window may be inside it for only one of the sources.
        let Some(inner) = theirs.get(1..theirs.len().saturating_sub(1)) else { continue };
        assert_eq!(
            missing_in(&ours, inner),
            None,
            "CPU {cpu}: {} and {} events",
            ours.len(),
            theirs.len()
        );
    }
}

#[test]
fn recorded_thread_numbers_get_names() {
    let Some([mut bpf, _]) = both_sources() else { return };
    let from = Monotonic.now();
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    // One thread has ended before its name is looked up, one is still running.
    named("early-ended").spawn(|| thread::sleep(Duration::from_millis(2))).unwrap().join().unwrap();
    let (done, woken) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|threads| {
        let sleeping = || {
            while !done.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
                woken.fetch_add(1, Ordering::AcqRel);
            }
        };

        named("still-there").spawn_scoped(threads, sleeping).unwrap();
        // On a busy machine it may take long until the thread runs at all.
        while woken.load(Ordering::Acquire) < 10 {
            thread::sleep(Duration::from_millis(1));
        }
        let window = bpf.window(from, Monotonic.now()).unwrap();
        done.store(true, Ordering::Release);
        for name in ["early-ended", "still-there"] {
            let is_named = |event: &&TraceEvent| matches!(event.what, KernelEvent::Switch { next, .. } if next.name.text() == name);
            assert!(window.in_order().into_iter().any(|event| is_named(&event)), "{name}");
        }
    });
}

#[test]
fn an_overwritten_ring_reports_a_gap() {
    let small = FlightSetting { tid: Some(own_tid()), ..SMALL };
    let mut recorder = match FlightRecorder::open(&FlightSetting { buffer_kib: 16, ..small }) {
        Ok(recorder) => recorder,
        Err(why) => return println!("skipped: {why}"),
    };

    if let Some(why) = recorder.no_path() {
        return println!("skipped: {why}");
    }

    // On one CPU, which has one ring.
    let cpu = onbeat::host::online_cpus().last().copied();
    let _ = ThreadRequest { cpu, ..ThreadRequest::default() }.prepare_thread();
    let from = Monotonic.now();
    // A ring of 8 KiB holds 256 records; each sleep writes about ten.
    (0..200).for_each(|_| thread::sleep(Duration::from_micros(500)));
    let window = recorder.window(from, Monotonic.now()).unwrap();
    // Small tracefs buffers may have lost events as well.
    let is_of_ring = |lost: &LostEvents| {
        let events = &window.cpu(lost.cpu).unwrap().events;
        let on_path = events.iter().find(|event| comparable(event).is_some());
        lost.from == from && on_path.is_none_or(|first| first.at >= lost.to)
    };

    assert!(window.lost.iter().any(is_of_ring), "{:?}", window.lost);
}
