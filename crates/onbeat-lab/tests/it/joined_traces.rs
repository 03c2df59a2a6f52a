//! Host and guest on one clock: `make test-vm-trace`.
//!
//! A hog is planted on the CPU of the guest's virtual CPU, and the guest's spikes must name it. The
//! guest runs by the free clock, so no time is asserted but the width of the joined clock's interval,
//! which does not depend on how fast the guest is.

use crate::test_lab;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::inject::{Fault, Injected, InjectionPlan, InjectionTarget, Injector, Log, ReleaseGrid};
use onbeat_lab::joined::{
    GuestTrace, JoinedCause, JoinedSpike, JoinedTrace, TraceStep, VcpuPin, VcpuThread,
};
use onbeat_lab::vm::Free;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use onbeat_tune::{HostFiles, LiveHost};

use test_lab::TestLab;

const RT: &str = "linux-image-6.12-rt-amd64";
const MS: u64 = 1_000_000;
/// The bursts of the hog: 12 ms of every 120 ms, more than any guest takes until it has measured.
const BURST_NS: u64 = 12 * MS;
const EVERY_NS: u64 = 120 * MS;
const BURSTS: usize = 2_000;
/// The most that the instants of the guest may be uncertain by.
const MOST_WIDTH_NS: u64 = 10_000;

/// A hog that has the virtual CPU's host CPU in bursts.
fn hog(thread: VcpuThread, cpu: u32) -> Injector {
    let plan = InjectionPlan {
        fault: Fault::HigherPriorityHog,
        every_ns: EVERY_NS,
        for_ns: BURST_NS,
        count: BURSTS,
        target: InjectionTarget {
            pid: thread.pid,
            tid: thread.tid.cast_signed(),
            cpu,
            priority: 0,
        },
        grid: ReleaseGrid { first_release: Monotonic.now(), period_ns: MS, spin_ns: 0 },
    };
    Injector::start(plan).expect("a hog")
}

/// Runs a guest on the last CPU beside the hog, traced.
fn traced(lab: &TestLab) -> (JoinedTrace<Free>, Log) {
    let cpu = onbeat::host::online_cpus().last().copied().expect("a CPU");
    let state = tempfile::tempdir().expect("a directory");
    let words = "measure latency --period 4ms --for 12s --spikes-over 5ms";
    let mut guest = lab.guest(RT, Free);
    guest.niceness = 0;
    // It polls when idle, so that its virtual CPU always wants to run: what the hog has is taken
    // from it.
    guest.kernel_arguments = vec!["idle=poll".to_owned()];
    let trace = GuestTrace {
        guest: &guest,
        work: &lab.work,
        words: words.split(' ').map(str::to_owned).collect(),
        exchanges: onbeat_lab::joined::EXCHANGES,
        pin: Some(VcpuPin {
            cpu,
            journals: state.path().to_owned(),
            command: "cargo test".to_owned(),
        }),
    };

    let mut injector = None;
    let mut log = None;
    let joined = trace.run(&AtomicBool::new(false), |step| match step {
        TraceStep::Booting => {}
        TraceStep::Measuring(thread) => injector = Some(hog(thread, cpu)),
        TraceStep::Measured => log = injector.take().map(Injector::stop),
    });
    assert!(is_empty(state.path()), "an open journal is left");
    (joined.expect("a joined trace"), log.expect("a log"))
}

fn is_empty(directory: &Path) -> bool {
    let left = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    // Journals of which everything has been undone are removed.
    left.filter(|entry| entry.path().extension().is_some_and(|end| end == "journal")).count() == 0
}

/// Spikes of which the hog had at least half, by its own log.
fn planted<'s>(spikes: &'s [JoinedSpike], log: &[Injected]) -> Vec<&'s JoinedSpike> {
    let overlap = |spike: &JoinedSpike, one: &Injected| {
        one.end().min(spike.facts.start).ns_since(one.at.max(spike.facts.expiry))
    };
    let is_planted = |spike: &&JoinedSpike| {
        let by_hog: u64 = log.iter().map(|one| overlap(spike, one)).sum();
        by_hog >= spike.facts.start.ns_since(spike.facts.expiry) / 2
    };
    spikes.iter().filter(is_planted).collect()
}

/// Name of the injector's thread.
const HOG: &str = "onbeat-inject";

/// Whether a spike's cause is that the hog had the virtual CPU's CPU.
fn names_the_hog(spike: &JoinedSpike) -> bool {
    let JoinedCause::Host(cause) = spike.cause() else { return false };
    cause.kind == Fault::HigherPriorityHog.cause()
        && cause.culprit.is_some_and(|culprit| culprit.name == HOG)
}

#[test]
fn a_hog_on_the_host_is_named_by_the_guests_spikes_on_one_clock() {
    let Some(lab) = TestLab::open() else { return };
    if !LiveHost::new().is_root() || onbeat::host::online_cpus().len() < 2 {
        println!("skipped: recording the host takes root, and a hog beside it a second CPU");
        return;
    }

    let (joined, log) = traced(&lab);
    let relation = &joined.relation;
    println!(
        "width {} ns, {} exchanges of at least {} ns, {} guest events, {} off the CPU",
        relation.width_ns(),
        relation.exchanges,
        relation.least_delay_ns,
        joined.check.events,
        joined.check.violations
    );
    assert_eq!(joined.violated_exchanges, 0);
    assert!(relation.width_ns() <= MOST_WIDTH_NS, "{} ns", relation.width_ns());
    assert!(joined.check.events > 100, "{:?}", joined.check);
    assert_eq!(joined.check.violations, 0, "{:?}", joined.check);

    let planted = planted(&joined.spikes, &log.injected);
    let named = planted.iter().filter(|spike| names_the_hog(spike)).count();
    println!(
        "{} bursts, {} spikes, {named} of {} planted named",
        log.injected.len(),
        joined.spikes.len(),
        planted.len()
    );
    for spike in planted.iter().filter(|spike| !names_the_hog(spike)) {
        println!("spike {}: {:?} {:?}", spike.number, spike.cause(), spike.host);
    }
    assert!(planted.len() >= 20, "{} spikes of the hog", planted.len());
    assert!(named * 20 >= planted.len() * 19, "{named} of {}", planted.len());
}
