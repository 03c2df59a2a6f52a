//! The account of packets: what became of each packet of a schedule, device by device.

use serde::{Deserialize, Serialize};

use super::histogram::{IntervalCounts, LONGEST_NS, empty_interval};
use super::series::Series;

/// The packets of a run so far; a later note of the same process replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketAccount {
    /// Bytes of a packet's payload.
    pub payload: u64,
    /// Age at which a packet without an answer counts as lost, in nanoseconds.
    pub lost_after_ns: u64,
    /// Packets that were received and belong to no device of this run.
    #[serde(default)]
    pub foreign: u64,
    /// Packets whose fate is counted and in no series, because the queue to the recorder was full.
    #[serde(default)]
    pub unrecorded: u64,
    /// The devices, in the order of their numbers.
    pub devices: Vec<DevicePackets>,
}

/// The packets of one device: scheduled = answered + late + lost + unsent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePackets {
    /// Its address and port.
    pub address: String,
    /// Packets of the schedule.
    pub scheduled: u64,
    /// Answered by the deadline.
    pub answered: u64,
    /// Answered after it.
    pub late: u64,
    /// Not answered before they were given up.
    pub lost: u64,
    /// Not sent: the loop skipped the release, or the system refused.
    pub unsent: u64,
    /// Of these, refused by the system.
    pub refused: u64,
    /// Further answers to a packet.
    pub duplicates: u64,
    /// Answers that came after that of a later packet.
    pub reordered: u64,
    /// Answers to packets that were given up, or never sent.
    pub strays: u64,
    /// Smallest value of its packets in the series of round trips, in nanoseconds.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest value.
    pub max_ns: u64,
}

impl DevicePackets {
    /// Returns whether every packet of the schedule has its fate.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
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
        let Some(of_device) = self.0.get(device).filter(|counts| !counts.is_empty()) else {
            return;
        };
        packets.min_ns = of_device.min();
        packets.p50_ns = of_device.value_at_quantile(0.5);
        packets.p99_ns = of_device.value_at_quantile(0.99);
        packets.max_ns = of_device.max();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
