//! From the loop to the recorder: what became of each packet, and the counters of each device.
//!
//! Both sides only try the lock, so that neither waits for the other; what cannot be passed in one
//! cycle is passed in a later one. Counters are exact also when the queue is full.

use std::mem::swap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Room of each side; beyond it packets are in no series, and counted.
const ROOM: usize = 65_536;

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

/// Parts of a round trip, which sum to it.
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

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// The loop's side.
#[derive(Debug)]
pub(super) struct FateSender {
    between: Arc<Mutex<Vec<PacketFate>>>,
    waiting: Vec<PacketFate>,
    pub(super) counters: Arc<SocketCounters>,
}

/// The recorder's side.
#[derive(Debug)]
pub(super) struct FateReceiver {
    between: Arc<Mutex<Vec<PacketFate>>>,
    taken: Vec<PacketFate>,
    pub(super) counters: Arc<SocketCounters>,
}

pub(super) fn fate_channel(devices: usize) -> (FateSender, FateReceiver) {
    let room = || Vec::with_capacity(ROOM);
    let between = Arc::new(Mutex::new(room()));
    let devices = (0..devices).map(|_| DeviceCounters::default()).collect();
    let counters = Arc::new(SocketCounters { devices, ..SocketCounters::default() });
    (
        FateSender { between: Arc::clone(&between), waiting: room(), counters: counters.clone() },
        FateReceiver { between, taken: room(), counters },
    )
}

impl FateSender {
    pub(super) fn put(&mut self, fate: PacketFate) {
        if self.waiting.len() == ROOM {
            let packets = fate.device.map_or(self.counters.devices.len(), |_| 1);
            add(&self.counters.unrecorded, packets as u64);
        } else {
            self.waiting.push(fate);
        }
    }

    /// Passes on what is waiting. Returns whether nothing waits any more.
    pub(super) fn flush(&mut self) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let Ok(mut between) = self.between.try_lock() else { return false };
        if between.is_empty() {
            swap(&mut *between, &mut self.waiting);
        }
        self.waiting.is_empty()
    }
}

impl FateReceiver {
    /// Returns what has been passed on since the last call.
    pub(super) fn take(&mut self) -> &[PacketFate] {
        self.taken.clear();
        if let Ok(mut between) = self.between.try_lock() {
            swap(&mut *between, &mut self.taken);
        }
        &self.taken
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
    fn fates_pass_in_order_even_if_the_lock_is_held() {
        let (mut sender, mut receiver) = fate_channel(1);
        sender.put(FATE);
        {
            let between = Arc::clone(&sender.between);
            let _held = between.lock().unwrap();
            assert!(!sender.flush(), "the loop does not wait");
        }

        assert!(sender.flush());
        sender.put(PacketFate { round_trip_ns: 9, ..FATE });
        assert!(!sender.flush(), "what has not been taken is not overtaken");
        assert_eq!(receiver.take(), [FATE]);
        assert!(sender.flush());
        assert_eq!(receiver.take()[0].round_trip_ns, 9);
        assert_eq!(receiver.take(), []);
    }

    #[test]
    fn packets_beyond_the_room_are_counted() {
        let (mut sender, _receiver) = fate_channel(3);
        (0..ROOM + 2).for_each(|_| sender.put(FATE));
        sender.put(PacketFate { device: None, ..FATE });
        assert_eq!(sender.waiting.len(), ROOM);
        assert_eq!(sender.counters.unrecorded.load(Ordering::Relaxed), 2 + 3);
    }
}
