//! Host and guest on one clock: `make test-vm-trace`.
//!
//! Delays are planted on the host (a hog on the CPU of the guest's virtual CPU, a stop of QEMU) and in
//! the guest (a hog, a stop of the measuring process, a storm of port I/O). The guest's spikes must
//! name them, on their side. An emulator handles port I/O in the thread of the virtual CPU, without an
//! exit: here the storm is the guest's, under KVM its exits are the host's.
//!
//! The guest runs by the free clock, so no time is asserted but the width of the joined clock's
//! interval, which does not depend on how fast the guest is.

use crate::test_lab;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::cause::CauseKind;
use onbeat::inject::{Fault, Injected, InjectionPlan, InjectionTarget, Injector, ReleaseGrid};
use onbeat_lab::joined::{
    ClockRelation, GuestTrace, JoinedCause, JoinedSpike, JoinedTrace, TraceStep, VcpuPin,
    VcpuThread, off_cpu,
};
use onbeat_lab::vm::{Free, Guest, Initramfs, Job, port_storm};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use onbeat_tune::{HostFiles, LiveHost};

use test_lab::{BUSYBOX, TestLab};

const RT: &str = "linux-image-6.12-rt-amd64";
const MS: u64 = 1_000_000;
/// The bursts of a plant on the host: 12 ms of every 120 ms, more than any guest takes until it has
/// measured.
const BURST_NS: u64 = 12 * MS;
const EVERY_NS: u64 = 120 * MS;
const BURSTS: usize = 2_000;
/// The most that the instants of the guest may be uncertain by.
const MOST_WIDTH_NS: u64 = 10_000;
/// Spikes of each side at least.
const LEAST_SPIKES: usize = 60;
/// The log of a plant in the guest: where it is written, and its name among the results.
const WRITTEN: &str = "/tmp/runs/planted";
const PLANTED: &str = "runs/planted";

/// What delays the guest, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    Host(Fault),
    Guest(Fault),
    /// `port_storm` in the guest.
    PortStorm,
}

impl Plant {
    const ON_HOST: [Self; 2] =
        [Self::Host(Fault::HigherPriorityHog), Self::Host(Fault::StopSignal)];
    const IN_GUEST: [Self; 3] =
        [Self::Guest(Fault::HigherPriorityHog), Self::Guest(Fault::StopSignal), Self::PortStorm];

    /// The load of the measurement that plants in the guest. `onbeat inject` prints its log when it
    /// has ended, so it ends before the measurement does; a load that ends is reported, so it sleeps.
    /// It reads the loop's priority once, a second after the loop's start.
    fn load(self) -> Option<String> {
        match self {
            Self::Host(_) => None,
            Self::Guest(fault) => {
                let cause = fault.word().replace('_', "-");
                Some(format!(
                    "run:mkdir -p /tmp/runs; \
                     until f=$(grep -ls onbeat-loop /proc/[0-9]*/task/*/comm); do usleep 50000; done; sleep 1; \
                     p=${{f#/proc/}}; onbeat inject {cause} --pid ${{p%%/*}} --for 12ms --every 120ms \
                     --count 60 --json > {WRITTEN}; sleep 600"
                ))
            }
            Self::PortStorm => Some(format!("run:mkdir -p /tmp/runs; exec storm > {WRITTEN}")),
        }
    }

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
        let (cause, kind, culprit) = match (self, spike.cause()) {
            (Self::Host(fault), JoinedCause::Host(cause))
            | (Self::Guest(fault), JoinedCause::Guest(Some(cause))) => {
                (cause, fault.cause(), "onbeat-inject")
            }
            (Self::PortStorm, JoinedCause::Guest(Some(cause))) => {
                (cause, CauseKind::Preempted, "storm")
            }
            _ => return false,
        };
        let by = cause.culprit.as_ref().map(|culprit| culprit.name.as_str());
        cause.kind == kind && (kind == CauseKind::Stopped || by == Some(culprit))
    }

    /// When the plant was at work in the guest, on the host's clock, by its own log.
    fn log_in_guest(self, log: &[u8], relation: &ClockRelation) -> Vec<Burst> {
        let on_host = |(from, to)| Burst { from: relation.to_host(from), to: relation.to_host(to) };
        let bursts: Vec<(Instant, Instant)> = match self {
            Self::Host(_) => Vec::new(),
            Self::Guest(_) => {
                let log: serde_json::Value =
                    serde_json::from_slice(log).expect("the log of a plant that has ended");
                let injected: Vec<Injected> =
                    serde_json::from_value(log["injected"].clone()).expect("injections");
                injected.iter().map(|one| (one.at, one.end())).collect()
            }
            Self::PortStorm => log.chunks_exact(32).map(burst).collect(),
        };
        bursts.into_iter().map(on_host).collect()
    }
}

/// A stretch in which a plant was at work, on the host's clock.
#[derive(Clone, Copy, Debug)]
struct Burst {
    from: Instant,
    to: Instant,
}

/// Two `timespec` of the guest.
fn burst(record: &[u8]) -> (Instant, Instant) {
    let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
    let instant = |at| Instant::from_ns(word(at) * 1_000 * MS + word(at + 8));
    (instant(0), instant(16))
}

/// A guest's trace beside what was planted.
struct PlantedTrace {
    plant: Plant,
    joined: JoinedTrace<Free>,
    log: Vec<Burst>,
}

/// A guest that polls when idle, so that its virtual CPU always wants to run: what a plant on the host
/// has is taken from it. The storm is among its programs.
fn guest(lab: &TestLab) -> Guest<Free> {
    let kernel = lab.kernel(RT);
    let mut initramfs = Initramfs::new(&kernel, Path::new(BUSYBOX)).expect("an initramfs");
    initramfs.program("bin/onbeat", &lab.onbeat).expect("a static onbeat");
    let directory = tempfile::tempdir().expect("a directory");
    let storm = directory.path().join("storm");
    std::fs::write(&storm, port_storm()).expect("a program");
    initramfs.program("bin/storm", &storm).expect("a static program");

    let mut guest = Guest::new(initramfs.build(&lab.work).expect("an archive"), Free);
    guest.limit = std::time::Duration::from_secs(280);
    guest.kernel_arguments = vec!["idle=poll".to_owned()];
    guest
}

/// Runs a guest on the last CPU beside a plant, traced.
fn traced(lab: &TestLab, plant: Plant) -> PlantedTrace {
    let cpu = onbeat::host::online_cpus().last().copied().expect("a CPU");
    let state = tempfile::tempdir().expect("a directory");
    let words = "measure latency --priority 90 --period 4ms --for 12s --spikes-over 5ms";
    let load = plant.load().map(|load| ["--load".to_owned(), load]);
    let guest = guest(lab);
    let trace = GuestTrace {
        guest: &guest,
        work: &lab.work,
        job: Job::recorded(words.split(' ').map(str::to_owned).chain(load.into_iter().flatten())),
        exchanges: onbeat_lab::joined::EXCHANGES,
        all_events: plant == Plant::PortStorm,
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
    let mut bursts: Vec<Burst> =
        log.iter().map(|one| Burst { from: one.at, to: one.end() }).collect();
    let in_guest = joined.result.file(PLANTED).unwrap_or_default();
    bursts.extend(plant.log_in_guest(in_guest, &joined.relation));
    PlantedTrace { plant, joined, log: bursts }
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
    /// Spikes of which the plant had at least half, by its own log. Of a plant in the guest, those in
    /// which the host left the virtual CPU alone for three quarters, by the host's switches.
    fn planted(&self) -> Vec<&JoinedSpike> {
        let off = off_cpu(&self.joined.host, self.joined.thread.tid);
        let is_planted = |spike: &&JoinedSpike| {
            let wait_ns = spike.facts.start.ns_since(spike.facts.expiry);
            let by_log: u64 = self.log.iter().map(|one| share(spike, one.from, one.to)).sum();
            let off_ns: u64 = off.iter().map(|gap| share(spike, gap.from, gap.to)).sum();
            let is_on_host = matches!(self.plant, Plant::Host(_));
            by_log >= wait_ns / 2 && (is_on_host || off_ns < wait_ns / 4)
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

/// Runs these plants, and has at least 95 % of their spikes named, 60 or more.
fn check_named(plants: &[Plant]) {
    let Some(lab) = TestLab::open() else { return };
    if !LiveHost::new().is_root() || onbeat::host::online_cpus().len() < 2 {
        println!("skipped: recording the host takes root, and a plant beside it a second CPU");
        return;
    }

    let (mut all, mut right) = (0, 0);
    for &plant in plants {
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
        assert!(!planted.is_empty(), "no spikes of {plant:?} among {} bursts", trace.log.len());
        all += planted.len();
        right += named.len();
    }
    println!("{right} of {all} named on their side");
    assert!(all >= LEAST_SPIKES, "{all} spikes");
    assert!(right * 20 >= all * 19, "{right} of {all}");
}

#[test]
fn what_is_planted_on_the_host_is_named_on_its_side_by_the_guests_spikes() {
    check_named(&Plant::ON_HOST);
}

#[test]
fn what_is_planted_in_the_guest_is_named_on_its_side_by_the_guests_spikes() {
    check_named(&Plant::IN_GUEST);
}
