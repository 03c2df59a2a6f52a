//! From the loop to the recorder: what became of each packet, and the counters of each device.
//!
//! Counters are exact also when the queue is full.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hand_over::{HandOverReceiver, HandOverSender, hand_over};

/// Room of each side in fates, which are 88 bytes; beyond it packets are in no series, and counted.
const LEAST_ROOM: usize = 2_048;
const MOST_ROOM: usize = 65_536;
/// How long the recorder may be busy without a packet being left out, where the most allows it.
const ROOM_SECONDS: u64 = 2;

/// One packet, or as many with the same fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketFate {
    /// Whose it was; `None`: one packet of each device.
    pub(super) device: Option<u16>,
    /// The cycle whose packet was answered; `None` without an answer.
    pub(super) answered_cycle: Option<u64>,
    /// From sending to answer, or the age at which it was given up.
    pub(super) round_trip_ns: u64,
    /// From the release to the answer, or to giving up.
    pub(super) since_release_ns: u64,
    /// The round trip by its parts, where the kernel stamped both packets.
    pub(super) parts: Option<RoundTripParts>,
}

/// Parts of a round trip; the first four sum to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundTripParts {
    /// From the program's call to the kernel's stamp of the sending.
    pub(super) send_ns: u64,
    /// Between both stamps, without the device's own time.
    pub(super) network_ns: u64,
    /// From receipt to answer, by the device's clock.
    pub(super) device_ns: u64,
    /// From the kernel's stamp of the receipt to the program.
    pub(super) receive_ns: u64,
    /// Of `network_ns`, between the card's stamps; none without both.
    pub(super) wire_ns: Option<NonZeroU64>,
}

/// Counters of a device: written by the loop, read by the recorder.
#[derive(Debug, Default)]
pub(super) struct DeviceCounters {
    pub(super) scheduled: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) unsent: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) duplicates: AtomicU64,
    pub(super) reordered: AtomicU64,
    pub(super) strays: AtomicU64,
}

/// Counters of a run.
#[derive(Debug, Default)]
pub(super) struct SocketCounters {
    pub(super) devices: Vec<DeviceCounters>,
    pub(super) foreign: AtomicU64,
    pub(super) unrecorded: AtomicU64,
    /// Requests that came back unchanged, from a plain echo.
    pub(super) unchanged: AtomicU64,
    /// Error number of the latest refused send; 0 for none.
    pub(super) refusal: AtomicU64,
}

impl SocketCounters {
    fn leave_out(&self, fate: &PacketFate) {
        let packets = fate.device.map_or(self.devices.len(), |_| 1);
        add(&self.unrecorded, packets as u64);
    }
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// The loop's side.
#[derive(Debug)]
pub(super) struct FateSender {
    queue: HandOverSender<PacketFate>,
    pub(super) counters: Arc<SocketCounters>,
}

/// The recorder's side.
#[derive(Debug)]
pub(super) struct FateReceiver {
    pub(super) queue: HandOverReceiver<PacketFate>,
    pub(super) counters: Arc<SocketCounters>,
}

/// Makes a channel whose room follows the rate: memory is locked, so that room is resident.
pub(super) fn fate_channel(devices: usize, per_second: u64) -> (FateSender, FateReceiver) {
    let room = usize::try_from(per_second.saturating_mul(ROOM_SECONDS)).unwrap_or(MOST_ROOM);
    let room = room.clamp(LEAST_ROOM, MOST_ROOM);
    let devices = (0..devices).map(|_| DeviceCounters::default()).collect();
    let counters = Arc::new(SocketCounters { devices, ..SocketCounters::default() });
    let (sender, receiver) = hand_over(room);
    (
        FateSender { queue: sender, counters: counters.clone() },
        FateReceiver { queue: receiver, counters },
    )
}

impl FateSender {
    pub(super) fn put(&mut self, fate: PacketFate) {
        if let Err(fate) = self.queue.put(fate) {
            self.counters.leave_out(&fate);
        }
    }

    /// Passes on what is waiting. Returns whether nothing waits any more.
    pub(super) fn flush(&mut self) -> bool {
        self.queue.flush()
    }

    /// Counts what the recorder has not taken in time as not recorded.
    pub(super) fn give_up(&mut self) {
        for fate in self.queue.give_up() {
            self.counters.leave_out(&fate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FATE: PacketFate = PacketFate {
        device: Some(0),
        answered_cycle: Some(0),
        round_trip_ns: 1,
        since_release_ns: 2,
        parts: None,
    };

    #[test]
    fn packets_beyond_the_room_are_counted() {
        for (per_second, room) in [(0, 2_048), (30_000, 60_000), (u64::MAX, 65_536)] {
            let (mut sender, mut receiver) = fate_channel(3, per_second);
            (0..room + 2).for_each(|_| sender.put(FATE));
            sender.put(PacketFate { device: None, ..FATE });
            assert_eq!(sender.counters.unrecorded.load(Ordering::Relaxed), 2 + 3);
            assert!(sender.flush());
            assert_eq!(receiver.queue.take().len(), room);
        }
    }
}
