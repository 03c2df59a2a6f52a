//! Host and guest on one clock: `make test-vm-trace`.
//!
//! Delays are planted on the host: a hog on the CPU of the guest's virtual CPU, and a stop of QEMU. The
//! guest's spikes must name them, on the host's side. The guest runs by the free clock, so no time is asserted but the
//! width of the joined clock's interval, which does not depend on how fast the guest is.

use crate::test_lab;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::inject::{Fault, Injected, InjectionPlan, InjectionTarget, Injector, ReleaseGrid};
use onbeat_lab::joined::{
    GuestTrace, JoinedCause, JoinedSpike, JoinedTrace, TraceStep, VcpuPin, VcpuThread,
};
use onbeat_lab::vm::Free;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use onbeat_tune::{HostFiles, LiveHost};

use test_lab::TestLab;

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
const LEAST_SPIKES: usize = 30;

/// What delays the guest from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plant(Fault);

impl Plant {
    const ALL: [Self; 2] = [Self(Fault::HigherPriorityHog), Self(Fault::StopSignal)];

    fn injector(self, thread: VcpuThread, cpu: u32) -> Injector {
        let Self(fault) = self;
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
        Injector::start(plan).expect("a plant")
    }

    /// Whether a spike's cause is this plant, on the host's side.
    fn is_named_by(self, spike: &JoinedSpike) -> bool {
        let JoinedCause::Host(cause) = spike.cause() else { return false };
        let by = cause.culprit.as_ref().map(|culprit| culprit.name.as_str());
        let Self(fault) = self;
        cause.kind == fault.cause() && (fault == Fault::StopSignal || by == Some("onbeat-inject"))
    }
}

/// A guest's trace beside what was planted.
struct PlantedTrace {
    plant: Plant,
    joined: JoinedTrace<Free>,
    log: Vec<Injected>,
}

/// Runs a guest on the last CPU beside a plant, traced.
fn traced(lab: &TestLab, plant: Plant) -> PlantedTrace {
    let cpu = onbeat::host::online_cpus().last().copied().expect("a CPU");
    let state = tempfile::tempdir().expect("a directory");
    let words = "measure latency --period 4ms --for 12s --spikes-over 5ms";
    let mut guest = lab.guest(RT, Free);
    guest.niceness = 0;
    // It polls when idle, so that its virtual CPU always wants to run: what a plant on the host has is
    // taken from it.
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
    let mut log = Vec::new();
    let joined = trace.run(&AtomicBool::new(false), |step| match step {
        TraceStep::Booting => {}
        TraceStep::Measuring(thread) => injector = Some(plant.injector(thread, cpu)),
        TraceStep::Measured => {
            log = injector.take().map_or_else(Vec::new, |injector| injector.stop().injected);
        }
    });
    assert!(is_empty(state.path()), "an open journal is left");
    let joined = joined.expect("a joined trace");
    PlantedTrace { plant, joined, log }
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

impl PlantedTrace {
    /// Spikes of which the plant had at least half, by its own log.
    fn planted(&self) -> Vec<&JoinedSpike> {
        let is_planted = |spike: &&JoinedSpike| {
            let by_log: u64 = self.log.iter().map(|one| share(spike, one.at, one.end())).sum();
            by_log >= spike.facts.start.ns_since(spike.facts.expiry) / 2
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
fn what_is_planted_on_the_host_is_named_on_its_side_by_the_guests_spikes() {
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
