//! A hundred million packets to forty devices through the account of packets and the recorder, on a
//! clock without a kernel: how long, how much memory, and every packet in one fate and in the series.
//!
//! Sockets and the queue between loop and recorder are left out: what they cost a packet is the
//! system's, and is measured by `measure rtt` itself.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::probe;
use onbeat::record::{
    Account, CycleTally, DevicePackets, Figures, Recorder, RoundTripTally, RunFile, RunWriter,
    Series, WriteError,
};
use onbeat_net::rtt::tracker::{Answer, Tracker};
use onbeat_report::units::count;
use onbeat_rt::ring::Ring;
use onbeat_rt::{
    Consumer, Cycle, Flow, Instant, MockClock, OnOverrun, Plan, Sample, Slot, Task, Wait, cycle,
    split,
};
use serde::{Deserialize, Serialize};

use crate::Length;
use crate::alone::{in_a_child, resident_kib};
use crate::failure::{Failure, even};
use crate::latencies::{self, Latencies, PERIOD_NS};
use crate::table::{Finding, Part};

/// The word that makes this program the child that counts the packets and does nothing else.
pub(crate) const ROLE: &str = "packets-and-nothing-else";

const DEVICES: u64 = 40;
/// Packets per device that are remembered, as many as `measure rtt` has with its defaults at 1 kHz.
const WINDOW: u64 = 1000;
/// One packet in this many is not answered.
const ONE_LOST_IN: u64 = 100_000;
/// Cycles between two looks at every device's percentiles: a second.
const LOOK_EVERY: u64 = 1000;
const RING: usize = 4096;
const SERIES: [Series; 2] = [Series::RoundTrip, Series::PacketResponse];

#[derive(Debug, Serialize, Deserialize)]
struct ChildReport {
    seconds: f64,
    first_minute_kib: u64,
    end_kib: u64,
    answered: u64,
    lost: u64,
    /// Times that all devices' percentiles were computed.
    looks: u64,
    worst_ns: u64,
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let cycles: u64 = length.pick(2_500_000, 100_000);
    let packets = cycles * DEVICES;
    eprintln!("packets: {} of virtual time", count(packets));
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let path = dir.path().join("packets.onbeat.hlog");
    let words = cycles.to_string();
    let report: ChildReport = in_a_child(ROLE, &[path.as_os_str(), words.as_ref()])?;
    audit(&RunFile::read(&path)?, &report, packets)?;

    let mib = |kib: u64| format!("{:.1} MiB", kib as f64 / 1024.0);
    let title = format!("{} packets to {DEVICES} devices, in virtual time", count(packets));
    let mut part = Part::alone(title);
    part.add(
        Finding::new("time", format!("{:.1} s", report.seconds))
            .with_goal("< 12 min", report.seconds < 720.0),
    );
    part.add(
        Finding::new("memory at the end", mib(report.end_kib))
            .with_goal("≤ 32 MiB", report.end_kib <= 32 * 1024),
    );
    let grown = report.end_kib.saturating_sub(report.first_minute_kib);
    part.add(Finding::new("memory grown after the first minute", format!("{grown} KiB")));
    part.remark(format!(
        "Every packet has one fate and is in the series: {} answered, {} lost. The percentiles of all devices were computed {} times.",
        count(report.answered),
        count(report.lost),
        count(report.looks)
    ));
    Ok(part)
}

/// Checks that schedule, fates and series agree.
fn audit(run: &RunFile, report: &ChildReport, packets: u64) -> Result<(), Failure> {
    even("packets by fate", packets, report.answered + report.lost)?;
    for series in SERIES {
        even("packets in histograms", packets, run.distribution(series).count())?;
        even("packets in exact moments", packets, run.moments(series).n)?;
    }
    even("the worst round trip", report.worst_ns, run.moments(Series::RoundTrip).max_ns)
}

/// Counts the packets and prints one line of JSON.
pub(crate) fn child(path: &Path, cycles: &str) -> Result<(), Failure> {
    let cycles = cycles.parse::<u64>().unwrap_or(1);
    let drawn = RefCell::new(Latencies::around(25_000.0, 1));
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| drawn.borrow_mut().next_ns());
    let first_release = Instant::from_ns(PERIOD_NS);
    let mut slots: Vec<Slot<Sample>> = (0..RING).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).map_err(Failure::Ring)?;
    let (mut hot, cold) = split(&mut ring);

    let header = probe::header(&["peers".to_owned()], "rtt", &SERIES, 1_763_712_000.0);
    let header = onbeat::record::Header { timing: latencies::header(None).timing, ..header };
    let writer = RunWriter::create(path, &header)?;
    let recording = latencies::recording(cycles * PERIOD_NS);
    let mut recorder = Recorder::new(writer, first_release, recording);
    recorder.count_also(Box::new(PacketSeries));
    recorder.begin_block(0, first_release, "idle", 0)?;
    let mut packets = Packets {
        cold,
        recorder,
        tracker: Tracker::new(DEVICES as usize, WINDOW),
        tally: RoundTripTally::new(DEVICES as usize),
        cycles: CycleTally::new(DEVICES as usize),
        round_trips: Latencies::around(120_000.0, 2),
        number: 0,
        report: ChildReport {
            seconds: 0.0,
            first_minute_kib: 0,
            end_kib: 0,
            answered: 0,
            lost: 0,
            looks: 0,
            worst_ns: 0,
        },
        failed: None,
    };
    let plan = Plan {
        period_ns: PERIOD_NS,
        first_release,
        deadline_ns: PERIOD_NS,
        releases: cycles,
        wait: Wait::Sleep,
        // The schedule is exactly that many packets: what is overrun is served late.
        on_overrun: OnOverrun::CatchUp { at_most: u32::MAX },
    };

    resident_kib();
    let started = std::time::Instant::now();
    let outcome = cycle::run(&clock, &plan, &mut packets, &mut hot, &AtomicBool::new(false));
    packets.end()?;
    packets.recorder.end_block(&outcome)?;
    packets.report.end_kib = resident_kib();
    packets.recorder.close(&Account::default())?;
    packets.report.seconds = started.elapsed().as_secs_f64();
    println!("{}", serde_json::json!(packets.report));
    Ok(())
}

/// The series of the packets, which the task counts.
#[derive(Debug)]
struct PacketSeries;

impl Figures for PacketSeries {
    fn series(&self) -> &'static [Series] {
        &SERIES
    }

    fn of(&mut self, _: &Sample, _: Option<&Sample>, _: &mut dyn FnMut(Series, u64)) {}
}

/// The loop's task with all that counts its packets: in virtual time nothing happens beside it.
struct Packets<'d> {
    cold: Consumer<'d, Sample>,
    recorder: Recorder,
    tracker: Tracker,
    tally: RoundTripTally,
    cycles: CycleTally,
    round_trips: Latencies,
    number: u64,
    report: ChildReport,
    failed: Option<WriteError>,
}

impl Task for Packets<'_> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let (release_ns, sent_ns) = (cycle.release.as_ns(), cycle.start.as_ns());
        for device in 0..DEVICES as usize {
            if let Some(lost) = self.tracker.give_up_before(device, cycle.index) {
                self.lose(device, lost.sent_ns - lost.release_ns);
            }
            self.tracker.sends(device, cycle.index, release_ns, sent_ns);
        }

        for device in 0..DEVICES as usize {
            self.number += 1;
            if self.number.is_multiple_of(ONE_LOST_IN) {
                continue;
            }
            let round_trip_ns = self.round_trips.next_ns();
            if let Answer::First { packet, .. } = self.tracker.answers(device, cycle.index) {
                let since_release_ns = packet.sent_ns - packet.release_ns + round_trip_ns;
                self.report.answered += 1;
                self.cycles.count(device, cycle.index, since_release_ns);
                self.count(device, round_trip_ns, since_release_ns);
            }
        }

        if cycle.index % LOOK_EVERY == LOOK_EVERY - 1 {
            self.failed = self.look(cycle.index).err();
        }
        if self.failed.is_some() { Flow::Stop } else { Flow::Continue }
    }
}

impl Packets<'_> {
    fn lose(&mut self, device: usize, sent_after_ns: u64) {
        let lost_after_ns = WINDOW * PERIOD_NS;
        self.report.lost += 1;
        self.count(device, lost_after_ns, lost_after_ns + sent_after_ns);
    }

    fn count(&mut self, device: usize, round_trip_ns: u64, since_release_ns: u64) {
        self.report.worst_ns = self.report.worst_ns.max(round_trip_ns);
        self.tally.count(device, round_trip_ns);
        self.recorder.count(Series::RoundTrip, round_trip_ns);
        self.recorder.count(Series::PacketResponse, since_release_ns);
    }

    /// Takes the loop's samples, and computes the percentiles of every device.
    fn look(&mut self, index: u64) -> Result<(), WriteError> {
        while let Some(sample) = self.cold.pop() {
            self.recorder.sample(&sample, None)?;
        }
        let mut packets = DevicePackets::default();
        for device in 0..DEVICES as usize {
            self.tally.fill(device, &mut packets);
            self.cycles.fill(device, &mut packets);
            std::hint::black_box(&packets);
        }
        self.report.looks += 1;

        if index + 1 == 60 * LOOK_EVERY {
            self.report.first_minute_kib = resident_kib();
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        if let Some(why) = self.failed.take() {
            return Err(why.into());
        }
        let mut left = Vec::new();
        self.tracker.give_up_all(|device, packet| {
            left.push((device, packet.sent_ns - packet.release_ns));
        });
        left.into_iter().for_each(|(device, sent_after_ns)| self.lose(device, sent_after_ns));
        while let Some(sample) = self.cold.pop() {
            self.recorder.sample(&sample, None)?;
        }
        self.cycles.end_cycle();
        Ok(())
    }
}
