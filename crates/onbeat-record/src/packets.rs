//! The account of packets: what became of each packet of a schedule, device by device.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::histogram::{IntervalCounts, LONGEST_NS, empty_interval};
use super::series::Series;

/// What became of packets, after each block of round trips; a later note of the same process
/// replaces it. See docs/net.md#the-account-of-packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketAccount {
    /// Payload of a packet, in bytes.
    pub payload: u64,
    /// Age at which a packet without an answer counts as lost, in nanoseconds.
    pub lost_after_ns: u64,
    /// Datagrams that belong to no device of this run.
    #[serde(default)]
    pub foreign: u64,
    /// Packets that are counted here but in no series, because the queue to the recorder was full.
    #[serde(default)]
    pub unrecorded: u64,
    /// The devices, in the order of their numbers; `scheduled = answered + late + lost + unsent`.
    pub devices: Vec<DevicePackets>,
    /// Answers cycle by cycle; absent with a single device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<CycleAnswers>,
    /// Packets dropped by this kernel during the run; absent where it does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<KernelDrops>,
    /// Prediction of the plan; with `--plan` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<PredictedAnswers>,
}

/// Packets that a kernel dropped, by place. Those at the own socket are of this run alone; the other
/// counters are of all traffic of the network namespace, and the backlog's of the whole machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelDrops {
    /// At the run's own socket: receive buffer full.
    pub socket: u64,
    /// At other UDP sockets of the network namespace: receive buffer full.
    #[serde(default)]
    pub other_sockets: u64,
    /// In the network namespace: no program had opened the UDP port.
    #[serde(default)]
    pub closed_ports: u64,
    /// On the whole machine: backlog of a CPU full (`net.core.netdev_max_backlog`).
    #[serde(default)]
    pub backlog: u64,
    /// At interfaces of the network namespace.
    #[serde(default)]
    pub interfaces: Vec<InterfaceDrops>,
}

/// Packets dropped at an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceDrops {
    /// Name of the interface.
    pub name: String,
    /// By its queue discipline.
    #[serde(default)]
    pub queue: u64,
    /// Drops and errors in its driver on transmission.
    #[serde(default)]
    pub transmit: u64,
    /// Drops and errors on reception.
    #[serde(default)]
    pub receive: u64,
}

impl KernelDrops {
    /// Returns what was dropped since an earlier reading. An interface that was not there before
    /// counts from 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let interface = |now: &InterfaceDrops| {
            let then = before.interfaces.iter().find(|one| one.name == now.name);
            let then = then.cloned().unwrap_or_default();
            InterfaceDrops {
                name: now.name.clone(),
                queue: now.queue.saturating_sub(then.queue),
                transmit: now.transmit.saturating_sub(then.transmit),
                receive: now.receive.saturating_sub(then.receive),
            }
        };
        Self {
            // Counters of the kernel start anew when an interface is made anew; a difference below
            // zero is none.
            socket: self.socket.saturating_sub(before.socket),
            other_sockets: self.other_sockets.saturating_sub(before.other_sockets),
            closed_ports: self.closed_ports.saturating_sub(before.closed_ports),
            backlog: self.backlog.saturating_sub(before.backlog),
            interfaces: self.interfaces.iter().map(interface).collect(),
        }
    }
}

/// The packets of one device: `scheduled = answered + late + lost + unsent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePackets {
    /// Address and port.
    pub address: String,
    /// Packets due.
    pub scheduled: u64,
    /// Answered by the deadline.
    pub answered: u64,
    /// Answered after it.
    pub late: u64,
    /// Not answered before they were given up.
    pub lost: u64,
    /// Not sent: the loop skipped the release, or the system refused.
    pub unsent: u64,
    /// Of `unsent`: refused by the system.
    pub refused: u64,
    /// Further answers to a packet.
    pub duplicates: u64,
    /// Answers that came after that of a later packet.
    pub reordered: u64,
    /// Answers to packets that were given up, or never sent.
    pub strays: u64,
    /// Smallest `round_trip`, in nanoseconds.
    pub min_ns: u64,
    /// Median `round_trip`, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile of `round_trip`, in nanoseconds.
    pub p99_ns: u64,
    /// Largest `round_trip`, in nanoseconds.
    pub max_ns: u64,
    /// Median from release to answer, in nanoseconds; 0 with a single device and no plan.
    #[serde(default)]
    pub response_p50_ns: u64,
    /// Sum of the places of its answers in the order of arrival within a cycle, from 1.
    #[serde(default)]
    pub place_sum: u64,
    /// Number of answers in `place_sum`.
    #[serde(default)]
    pub place_count: u64,
}

/// Distribution of a time over many cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerTimes {
    /// Smallest, in nanoseconds.
    pub min_ns: u64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
}

impl AnswerTimes {
    fn from_counts(counts: &IntervalCounts) -> Self {
        if counts.is_empty() {
            return Self::default();
        }
        Self {
            min_ns: counts.min(),
            p50_ns: counts.value_at_quantile(0.5),
            p99_ns: counts.value_at_quantile(0.99),
            max_ns: counts.max(),
        }
    }
}

/// The answers of a run, cycle by cycle, counted from the release of each cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleAnswers {
    /// Complete cycles: every device answered before an answer to a later cycle.
    pub complete: u64,
    /// First answer of complete cycles, after the release.
    pub first: AnswerTimes,
    /// Last answer of complete cycles, after the release.
    pub last: AnswerTimes,
    /// The 40 latest cycles.
    pub latest: Vec<AnsweredCycle>,
}

/// One cycle in detail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweredCycle {
    /// Cycle number.
    pub cycle: u64,
    /// From release to answer by device, in nanoseconds; 0 without an answer in time.
    pub response_ns: Vec<u64>,
}

/// What a plan predicts for a run, in nanoseconds from the release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedAnswers {
    /// File of the plan.
    pub plan: String,
    /// First answer of a cycle, after the release.
    pub first: AnswerTimes,
    /// Last answer of a cycle, after the release.
    pub last: AnswerTimes,
    /// The devices, in the order of their numbers.
    pub devices: Vec<PredictedDevice>,
}

/// What a plan predicts for one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedDevice {
    /// Name in the plan.
    pub name: String,
    /// Median from release to answer, in nanoseconds.
    pub response_p50_ns: u64,
    /// Command and answer on every link between controller and device, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_wire_ns: Option<u64>,
    /// Place of its answer within a cycle, from 1; equal for answers at the same time.
    pub place: u64,
    /// Predicted losses in full buffers, per million packets.
    pub lost_ppm: u64,
}

impl DevicePackets {
    /// Returns whether every packet of the schedule has its fate.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        // Each packet that was due has one fate. An identity, so that a report can say where a
        // packet is missing from the account itself.
        self.scheduled == self.answered + self.late + self.lost + self.unsent
    }
}

/// Round trips by device, in memory of fixed size.
#[derive(Debug)]
pub struct RoundTripTally(Vec<IntervalCounts>);

impl RoundTripTally {
    /// Makes room for a number of devices: about 100 KiB each.
    #[must_use]
    pub fn new(devices: usize) -> Self {
        Self((0..devices).map(|_| empty_interval(Series::RoundTrip)).collect())
    }

    /// Counts a round trip.
    pub fn count(&mut self, device: usize, ns: u64) {
        if let Some(of_device) = self.0.get_mut(device) {
            of_device.saturating_record(ns.clamp(1, LONGEST_NS));
        }
    }

    /// Sets the figures of a device.
    pub fn fill(&self, device: usize, packets: &mut DevicePackets) {
        let Some(of_device) = self.0.get(device) else { return };
        let times = AnswerTimes::from_counts(of_device);
        (packets.min_ns, packets.p50_ns) = (times.min_ns, times.p50_ns);
        (packets.p99_ns, packets.max_ns) = (times.p99_ns, times.max_ns);
    }
}

/// Cycles that are kept in detail: the latest.
const CYCLES_KEPT: usize = 40;

/// The answers cycle by cycle, in memory of fixed size.
#[derive(Debug)]
pub struct CycleTally {
    current: AnsweredCycle,
    answered: u64,
    complete: u64,
    first: IntervalCounts,
    last: IntervalCounts,
    latest: VecDeque<AnsweredCycle>,
    responses: RoundTripTally,
    /// Sum of places and number of answers, by device.
    places: Vec<(u64, u64)>,
}

impl CycleTally {
    /// Makes room for a number of devices: about 100 KiB each.
    #[must_use]
    pub fn new(devices: usize) -> Self {
        Self {
            current: AnsweredCycle { cycle: 0, response_ns: vec![0; devices] },
            answered: 0,
            complete: 0,
            first: empty_interval(Series::PacketResponse),
            last: empty_interval(Series::PacketResponse),
            latest: VecDeque::with_capacity(CYCLES_KEPT + 1),
            responses: RoundTripTally::new(devices),
            places: vec![(0, 0); devices],
        }
    }

    /// Counts an answer, in the order of arrival. One of an earlier cycle than the latest has no
    /// place.
    pub fn count(&mut self, device: usize, cycle: u64, response_ns: u64) {
        self.responses.count(device, response_ns);
        // Answers of an older cycle may come after those of a newer one. A cycle is closed by the
        // first answer to a later one, and what comes for it after that is late by its own count.
        if cycle > self.current.cycle {
            self.end_cycle();
            self.current.cycle = cycle;
        }
        let Some(slot) = self.current.response_ns.get_mut(device) else { return };
        // Its response was counted above; its place among the answers of its cycle is no longer
        // known.
        if cycle < self.current.cycle {
            return;
        }

        *slot = response_ns;
        self.answered += 1;
        let (sum, count) = &mut self.places[device];
        *sum += self.answered;
        *count += 1;
    }

    /// Ends the cycle under way: no later answer belongs to it.
    pub fn end_cycle(&mut self) {
        if self.answered == 0 {
            return;
        }

        let times = &self.current.response_ns;
        // First and last answer of a cycle mean something only where all devices answered: the last
        // of nine of ten is not when the cycle was done.
        if self.answered == times.len() as u64 {
            let ends = [times.iter().min(), times.iter().max()].map(|ns| ns.copied().unwrap_or(0));
            self.complete += 1;
            self.first.saturating_record(ends[0].clamp(1, LONGEST_NS));
            self.last.saturating_record(ends[1].clamp(1, LONGEST_NS));
        }
        self.latest.push_back(self.current.clone());
        if self.latest.len() > CYCLES_KEPT {
            self.latest.pop_front();
        }

        self.answered = 0;
        self.current.response_ns.fill(0);
    }

    /// Returns the cycles so far.
    #[must_use]
    pub fn cycles(&self) -> CycleAnswers {
        CycleAnswers {
            complete: self.complete,
            first: AnswerTimes::from_counts(&self.first),
            last: AnswerTimes::from_counts(&self.last),
            latest: self.latest.iter().cloned().collect(),
        }
    }

    /// Sets the figures of a device.
    pub fn fill(&self, device: usize, packets: &mut DevicePackets) {
        let Some((sum, count)) = self.places.get(device) else { return };
        (packets.place_sum, packets.place_count) = (*sum, *count);
        packets.response_p50_ns = AnswerTimes::from_counts(&self.responses.0[device]).p50_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_complete_when_every_device_has_answered_and_places_follow_the_arrivals() {
        let mut tally = CycleTally::new(2);
        tally.count(1, 1, 100_000);
        tally.count(0, 1, 300_000);
        tally.count(1, 2, 100_000);
        tally.count(0, 1, 900_000);
        tally.count(1, 3, 200_000);
        tally.count(0, 3, 100_000);
        tally.end_cycle();

        let cycles = tally.cycles();
        assert_eq!(cycles.complete, 2, "in cycle 2 device 0 was silent");
        let kept: Vec<(u64, &[u64])> =
            cycles.latest.iter().map(|one| (one.cycle, &one.response_ns[..])).collect();
        assert_eq!(
            kept,
            [(1, &[300_000, 100_000][..]), (2, &[0, 100_000]), (3, &[100_000, 200_000])]
        );
        let near = |found: u64, ns: u64| found.abs_diff(ns) * 1000 <= ns;
        assert!(near(cycles.first.max_ns, 100_000) && near(cycles.last.max_ns, 300_000));

        let mut packets = [DevicePackets::default(), DevicePackets::default()];
        (0..2).for_each(|device| tally.fill(device, &mut packets[device]));
        assert_eq!((packets[0].place_sum, packets[0].place_count), (2 + 2, 2));
        assert_eq!((packets[1].place_sum, packets[1].place_count), (1 + 1 + 1, 3));
    }

    #[test]
    fn the_latest_cycles_are_kept_and_no_more() {
        let mut tally = CycleTally::new(2);
        for cycle in 1..=100 {
            tally.count(0, cycle, 1000);
            tally.count(1, cycle, 2000);
        }
        tally.end_cycle();
        let cycles = tally.cycles();
        assert_eq!((cycles.complete, cycles.latest.len()), (100, CYCLES_KEPT));
        assert_eq!(cycles.latest[0].cycle, 61);
    }

    #[test]
    fn the_figures_of_a_device_are_those_of_its_packets() {
        let mut tally = RoundTripTally::new(2);
        (1..=100).for_each(|us| tally.count(1, us * 1000));
        let mut packets = DevicePackets::default();
        tally.fill(0, &mut packets);
        assert_eq!(packets, DevicePackets::default(), "none");
        tally.fill(1, &mut packets);
        let near = |found: u64, ns: u64| found.abs_diff(ns) * 1000 <= ns;
        assert!(near(packets.min_ns, 1_000) && near(packets.p50_ns, 50_000), "{packets:?}");
        assert!(near(packets.p99_ns, 99_000) && near(packets.max_ns, 100_000), "{packets:?}");
    }
}
