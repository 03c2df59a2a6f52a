//! What the programs in the kernel note of a loop, on this kernel.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::cause::counters::{CounterSource, Moment, Reading};
use onbeat::cause::{Explainer, FlightSetting, LoopThread};
use onbeat::thread::Wanted;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

const SMALL: FlightSetting = FlightSetting { buffer_kib: 256, kept_kib: 256, tid: None, syscalls: false };

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// A recorder with its BPF programs, or the reason why this machine has none.
fn watching() -> Result<Explainer, String> {
    let nobody = LoopThread { tid: std::process::id(), cpu: None, fifo: None };
    let explainer = Explainer::open(nobody, &SMALL).map_err(|why| why.to_string())?;
    let refused = explainer.grants().into_iter().find(|grant| grant.what == "steal counter" && !grant.granted);
    refused.map_or(Ok(explainer), |grant| Err(grant.why_not.unwrap_or_default()))
}

/// Follows a thread that sleeps a hundred times a millisecond on the CPU that `beside` keeps busy; what interrupted whom.
fn wakings_beside(beside: impl Fn() + Sync) -> Option<(u32, Vec<Reading>)> {
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
            let _ = Wanted { cpu: Some(cpu), ..Wanted::default() }.prepare_thread();
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
            let _ = Wanted { cpu: Some(cpu), ..Wanted::default() }.prepare_thread();
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
    let of_busy = readings.into_iter().filter(|reading| reading.moment == Moment::Waking && reading.prev == busy);
    Some((cpu, of_busy.collect()))
}

#[test]
fn a_wake_up_that_interrupts_user_code_says_so() {
    let Some((cpu, wakings)) = wakings_beside(std::hint::spin_loop) else { return };
    assert!(!wakings.is_empty(), "the timer interrupted the other thread at least once");
    for waking in wakings {
        assert_eq!((waking.cpu, waking.prev_syscall, waking.prev_in_user), (cpu, None, true), "{waking:?}");
        assert_eq!((waking.rt_throttled, waking.by_fair_server), (None, None));
    }
}

#[test]
fn a_wake_up_that_interrupts_a_system_call_names_it() {
    let zero = File::open("/dev/zero").unwrap();
    let read = || {
        let mut bytes = vec![0; 4 << 20];
        (&zero).read_exact(&mut bytes).unwrap();
    };
    let Some((_, wakings)) = wakings_beside(read) else { return };
    let named = wakings.iter().filter(|waking| waking.prev_syscall == Some(libc::SYS_read)).count();
    // Getting and giving back the memory takes its part.
    assert!(named * 2 > wakings.len(), "{named} of {}", wakings.len());
}
