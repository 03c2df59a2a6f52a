//! Host and guest on one clock: `make test-vm-trace`.
//!
//! Delays are planted on either side: a hog on the CPU of the guest's virtual CPU, a stop of QEMU, and
//! in the guest a storm of port I/O, each access of which leaves the guest. The guest's spikes must
//! name them, on the right side. The guest runs by the free clock, so no time is asserted but the
//! width of the joined clock's interval, which does not depend on how fast the guest is.

use crate::test_lab;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::cause::Cause;
use onbeat::cause::event::KernelEvent;
use onbeat::inject::{Fault, Injected, InjectionPlan, InjectionTarget, Injector, ReleaseGrid};
use onbeat_lab::joined::{
    GuestTrace, JoinedCause, JoinedSpike, JoinedTrace, OffCpu, TraceStep, VcpuPin, VcpuThread,
    off_cpu,
};
use onbeat_lab::vm::Free;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use onbeat_tune::{HostFiles, LiveHost};

use test_lab::{STOCK, TestLab};

const RT: &str = "linux-image-6.12-rt-amd64";
const MS: u64 = 1_000_000;
/// The bursts of a plant on the host: 12 ms of every 120 ms, more than any guest takes until it has
/// measured.
const BURST_NS: u64 = 12 * MS;
const EVERY_NS: u64 = 120 * MS;
const BURSTS: usize = 2_000;
/// The most that the instants of the guest may be uncertain by.
const MOST_WIDTH_NS: u64 = 10_000;
/// Spikes that each plant makes at least: sixty in all.
const LEAST_SPIKES: usize = 20;

/// What delays the guest, and on which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    Host(Fault),
    /// Reads of 24,576 ports in one system call, which a stock kernel does not interrupt.
    PortStorm,
}

/// Ports from 0x6000 to 0xbfff, which no device of the guest has.
const STORM: &str =
    "run:while :; do dd if=/dev/port of=/dev/null bs=24576 skip=1 count=1; usleep 100000; done";
const STORMING: &str = "dd";

impl Plant {
    const ALL: [Self; 3] =
        [Self::Host(Fault::HigherPriorityHog), Self::Host(Fault::StopSignal), Self::PortStorm];

    fn injector(self, thread: VcpuThread, cpu: u32) -> Option<Injector> {
        let Self::Host(fault) = self else { return None };
        let plan = InjectionPlan {
            fault,
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
        Some(Injector::start(plan).expect("a plant"))
    }

    /// Whether a spike's cause is this plant, on its side.
    fn is_named_by(self, spike: &JoinedSpike) -> bool {
        let by = |cause: &Cause, name: &str| {
            cause.culprit.as_ref().is_some_and(|culprit| culprit.name == name)
        };
        match (self, spike.cause()) {
            (Self::Host(fault), JoinedCause::Host(cause)) => {
                cause.kind == fault.cause()
                    && (fault == Fault::StopSignal || by(&cause, "onbeat-inject"))
            }
            (Self::PortStorm, JoinedCause::Guest(Some(cause))) => by(&cause, STORMING),
            _ => false,
        }
    }
}

/// A guest's trace beside what was planted.
struct PlantedTrace {
    plant: Plant,
    joined: JoinedTrace<Free>,
    log: Vec<Injected>,
    off: Vec<OffCpu>,
}

/// Runs a guest on the last CPU beside a plant, traced.
fn traced(lab: &TestLab, plant: Plant) -> PlantedTrace {
    let cpu = onbeat::host::online_cpus().last().copied().expect("a CPU");
    let state = tempfile::tempdir().expect("a directory");
    let words = "measure latency --period 4ms --for 12s --spikes-over 5ms";
    let load = (plant == Plant::PortStorm).then_some(["--load", STORM]);
    let kernel = if plant == Plant::PortStorm { STOCK } else { RT };
    let mut guest = lab.guest(kernel, Free);
    guest.niceness = 0;
    // It polls when idle, so that its virtual CPU always wants to run: what a plant on the host has is
    // taken from it.
    guest.kernel_arguments = vec!["idle=poll".to_owned()];
    let trace = GuestTrace {
        guest: &guest,
        work: &lab.work,
        words: words.split(' ').chain(load.into_iter().flatten()).map(str::to_owned).collect(),
        exchanges: onbeat_lab::joined::EXCHANGES,
        pin: Some(VcpuPin {
            cpu,
            journals: state.path().to_owned(),
            command: "cargo test".to_owned(),
        }),
    };

    let mut injector = None;
    let mut log = Vec::new();
    let joined = trace.run(&AtomicBool::new(false), |step| match step {
        TraceStep::Booting => {}
        TraceStep::Measuring(thread) => injector = plant.injector(thread, cpu),
        TraceStep::Measured => {
            log = injector.take().map_or_else(Vec::new, |injector| injector.stop().injected);
        }
    });
    assert!(is_empty(state.path()), "an open journal is left");
    let joined = joined.expect("a joined trace");
    let off = off_cpu(&joined.host, joined.thread.tid);
    PlantedTrace { plant, joined, log, off }
}

fn is_empty(directory: &Path) -> bool {
    let left = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    // Journals of which everything has been undone are removed.
    left.filter(|entry| entry.path().extension().is_some_and(|end| end == "journal")).count() == 0
}

/// How much of a spike's wait a stretch has, in nanoseconds.
fn share(spike: &JoinedSpike, from: Instant, to: Instant) -> u64 {
    to.min(spike.facts.start).ns_since(from.max(spike.facts.expiry))
}

/// For how long the storm had the guest's CPU while the loop waited, by the guest's switches alone.
fn stormed_ns(spike: &JoinedSpike) -> u64 {
    let mut began = Some(spike.window.from);
    let mut ns = 0;
    for event in spike.window.in_order() {
        let KernelEvent::Switch { prev, next, .. } = event.what else { continue };
        began = began.filter(|_| prev.name.text() == STORMING);
        ns += began.take().map_or(0, |from| share(spike, from, event.at));
        began = (next.name.text() == STORMING).then_some(event.at);
    }
    ns + began.map_or(0, |from| share(spike, from, spike.facts.start))
}

impl PlantedTrace {
    /// Spikes of which the plant had at least half: by its own log, or by the guest's switches while
    /// the host left it alone.
    fn planted(&self) -> Vec<&JoinedSpike> {
        let is_planted = |spike: &&JoinedSpike| {
            let wait_ns = spike.facts.start.ns_since(spike.facts.expiry);
            let by_log: u64 = self.log.iter().map(|one| share(spike, one.at, one.end())).sum();
            let off_ns: u64 = self.off.iter().map(|gap| share(spike, gap.from, gap.to)).sum();
            match self.plant {
                Plant::Host(_) => by_log >= wait_ns / 2,
                Plant::PortStorm => stormed_ns(spike) >= wait_ns / 2 && off_ns < wait_ns / 4,
            }
        };
        self.joined.spikes.iter().filter(is_planted).collect()
    }

    fn check_clocks(&self) {
        let Self { joined, .. } = self;
        let relation = &joined.relation;
        println!(
            "{:?}: width {} ns, {} exchanges of at least {} ns, {} guest events, {} off the CPU",
            self.plant,
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
    }
}

#[test]
fn what_is_planted_in_host_and_guest_is_named_on_its_side_by_the_guests_spikes() {
    let Some(lab) = TestLab::open() else { return };
    if !LiveHost::new().is_root() || onbeat::host::online_cpus().len() < 2 {
        println!("skipped: recording the host takes root, and a plant beside it a second CPU");
        return;
    }

    let (mut all, mut right) = (0, 0);
    for plant in Plant::ALL {
        let trace = traced(&lab, plant);
        trace.check_clocks();
        let planted = trace.planted();
        let (named, others): (Vec<&JoinedSpike>, Vec<&JoinedSpike>) =
            planted.iter().copied().partition(|spike: &&JoinedSpike| plant.is_named_by(spike));
        println!(
            "{plant:?}: {} spikes, {} of {} planted named",
            trace.joined.spikes.len(),
            named.len(),
            planted.len()
        );
        for spike in others {
            println!("spike {}: {:?} {:?}", spike.number, spike.cause(), spike.host);
        }
        assert!(planted.len() >= LEAST_SPIKES, "{} spikes of {plant:?}", planted.len());
        all += planted.len();
        right += named.len();
    }
    println!("{right} of {all} named on their side");
    assert!(right * 20 >= all * 19, "{right} of {all}");
}
