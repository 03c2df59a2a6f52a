//! What became of each packet: a window of packets per device, without a clock and without a heap
//! once it is made.
//!
//! A packet is in the window from its sending until the one that takes its place is due, a whole
//! number of periods later. An answer within that time is the packet's; without one it is lost.

/// A packet of the window.
#[derive(Clone, Copy, Debug)]
struct PacketSlot {
    sequence: u64,
    release_ns: u64,
    sent_ns: u64,
    /// The kernel's stamp of its sending, by the wall clock; 0 for none.
    stamp_ns: u64,
    /// The card's stamp of its sending, by its own clock; 0 for none.
    card_stamp_ns: u64,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Empty,
    Outstanding,
    Answered,
}

impl PacketSlot {
    const EMPTY: Self = Self {
        sequence: u64::MAX,
        release_ns: 0,
        sent_ns: 0,
        stamp_ns: 0,
        card_stamp_ns: 0,
        fate: Fate::Empty,
    };

    const fn sent(&self) -> SentPacket {
        SentPacket {
            release_ns: self.release_ns,
            sent_ns: self.sent_ns,
            stamp_ns: self.stamp_ns,
            card_stamp_ns: self.card_stamp_ns,
        }
    }
}

/// A packet as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// The release that it belongs to, by the loop's clock, in nanoseconds.
    pub release_ns: u64,
    /// When it was sent, by the same clock.
    pub sent_ns: u64,
    /// The kernel's stamp of its sending, by the wall clock; 0 for none.
    pub stamp_ns: u64,
    /// The network card's stamp of its sending, by the card's clock; 0 for none.
    pub card_stamp_ns: u64,
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The first one to a packet of the window.
    First {
        packet: SentPacket,
        /// A later packet of this device was answered before.
        reordered: bool,
    },
    /// A further one.
    Duplicate,
    /// Its packet was given up or never sent.
    Stray,
}

/// The packets of all devices.
#[derive(Debug)]
pub struct Tracker {
    /// Packets per device.
    window: u64,
    slots: Vec<PacketSlot>,
    /// The first sequence after the latest that was answered, by device.
    next: Vec<u64>,
    outstanding: u64,
}

impl Tracker {
    /// Makes room for `window` packets, at least one, of each device.
    #[must_use]
    pub fn new(devices: usize, window: u64) -> Self {
        let window = window.max(1);
        Self {
            window,
            slots: vec![PacketSlot::EMPTY; devices * window as usize],
            next: vec![0; devices],
            outstanding: 0,
        }
    }

    /// Returns the number of packets without an answer that are not given up.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Gives up the packet whose place one with this sequence takes; returns it when it is lost.
    pub fn give_up_before(&mut self, device: usize, sequence: u64) -> Option<SentPacket> {
        let place = self.place(device, sequence);
        let old = std::mem::replace(&mut self.slots[place], PacketSlot::EMPTY);
        if old.fate != Fate::Outstanding {
            return None;
        }
        self.outstanding -= 1;
        Some(old.sent())
    }

    /// Enters a packet just before it is sent. What had its place must have been given up.
    pub fn sends(&mut self, device: usize, sequence: u64, release_ns: u64, sent_ns: u64) {
        let place = self.place(device, sequence);
        self.slots[place] = PacketSlot {
            sequence,
            release_ns,
            sent_ns,
            fate: Fate::Outstanding,
            ..PacketSlot::EMPTY
        };
        self.outstanding += 1;
    }

    /// Takes a packet back that the system refused to send.
    pub fn takes_back(&mut self, device: usize, sequence: u64) {
        let place = self.place(device, sequence);
        if self.slots[place].fate == Fate::Outstanding {
            self.outstanding -= 1;
        }
        self.slots[place] = PacketSlot::EMPTY;
    }

    /// Enters a stamp of a packet's sending: the kernel's, the card's, or both.
    pub fn stamp(
        &mut self,
        device: usize,
        sequence: u64,
        kernel_ns: Option<u64>,
        card_ns: Option<u64>,
    ) {
        if device < self.next.len() {
            let place = self.place(device, sequence);
            let slot = &mut self.slots[place];
            if slot.sequence == sequence {
                slot.stamp_ns = kernel_ns.unwrap_or(slot.stamp_ns);
                slot.card_stamp_ns = card_ns.unwrap_or(slot.card_stamp_ns);
            }
        }
    }

    /// Enters an answer of a device.
    pub fn answers(&mut self, device: usize, sequence: u64) -> Answer {
        let place = self.place(device, sequence);
        let slot = &mut self.slots[place];
        match slot.fate {
            Fate::Answered if slot.sequence == sequence => Answer::Duplicate,
            Fate::Outstanding if slot.sequence == sequence => {
                slot.fate = Fate::Answered;
                let packet = slot.sent();
                self.outstanding -= 1;
                let next = &mut self.next[device];
                let reordered = sequence < *next;
                *next = (*next).max(sequence + 1);
                Answer::First { packet, reordered }
            }
            _ => Answer::Stray,
        }
    }

    /// Gives up every packet that is outstanding, in no particular order.
    pub fn give_up_all(&mut self, mut lost: impl FnMut(usize, SentPacket)) {
        for (place, slot) in self.slots.iter_mut().enumerate() {
            if slot.fate == Fate::Outstanding {
                lost(place / self.window as usize, slot.sent());
                *slot = PacketSlot::EMPTY;
            }
        }
        self.outstanding = 0;
    }

    const fn place(&self, device: usize, sequence: u64) -> usize {
        device * self.window as usize + (sequence % self.window) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(tracker: &mut Tracker, sequence: u64) -> Option<SentPacket> {
        let lost = tracker.give_up_before(0, sequence);
        tracker.sends(0, sequence, sequence * 1000, sequence * 1000 + 7);
        lost
    }

    #[test]
    fn a_packet_is_answered_once_and_every_further_answer_is_counted_apart() {
        let mut tracker = Tracker::new(1, 4);
        (0..3).for_each(|sequence| assert_eq!(send(&mut tracker, sequence), None));
        let packet = SentPacket { release_ns: 1000, sent_ns: 1007, stamp_ns: 0, card_stamp_ns: 0 };
        assert_eq!(tracker.answers(0, 1), Answer::First { packet, reordered: false });
        assert_eq!(tracker.answers(0, 1), Answer::Duplicate);
        assert!(matches!(tracker.answers(0, 0), Answer::First { reordered: true, .. }));
        assert!(matches!(tracker.answers(0, 2), Answer::First { reordered: false, .. }));
        assert_eq!(tracker.answers(0, 3), Answer::Stray, "never sent");
        assert_eq!(tracker.outstanding(), 0);
    }

    #[test]
    fn a_packet_without_an_answer_is_lost_one_window_later_and_its_answer_is_a_stray() {
        let mut tracker = Tracker::new(1, 4);
        (0..4).for_each(|sequence| assert_eq!(send(&mut tracker, sequence), None));
        assert_eq!(tracker.outstanding(), 4);
        let lost = send(&mut tracker, 4).expect("packet 0 had no answer");
        assert_eq!((lost.release_ns, tracker.outstanding()), (0, 4));
        assert_eq!(tracker.answers(0, 0), Answer::Stray);

        let mut left = Vec::new();
        tracker.give_up_all(|device, packet| left.push((device, packet.release_ns)));
        left.sort_unstable();
        assert_eq!(left, [(0, 1000), (0, 2000), (0, 3000), (0, 4000)]);
        assert_eq!(tracker.outstanding(), 0);
    }

    #[test]
    fn a_packet_that_was_not_sent_is_not_outstanding() {
        let mut tracker = Tracker::new(2, 4);
        tracker.sends(1, 9, 0, 0);
        tracker.takes_back(1, 9);
        assert_eq!((tracker.outstanding(), tracker.answers(1, 9)), (0, Answer::Stray));
        tracker.stamp(7, 0, Some(1), None);
    }

    #[test]
    fn the_two_stamps_of_a_packet_come_in_any_order() {
        let mut tracker = Tracker::new(1, 4);
        tracker.sends(0, 2, 0, 7);
        tracker.stamp(0, 2, None, Some(50));
        tracker.stamp(0, 2, Some(9), None);
        tracker.stamp(0, 1, Some(1), Some(1));
        let packet = SentPacket { release_ns: 0, sent_ns: 7, stamp_ns: 9, card_stamp_ns: 50 };
        assert_eq!(tracker.answers(0, 2), Answer::First { packet, reordered: false });
        // The next packet at this place begins without stamps.
        tracker.sends(0, 6, 1, 8);
        let packet = SentPacket { release_ns: 1, sent_ns: 8, stamp_ns: 0, card_stamp_ns: 0 };
        assert_eq!(tracker.answers(0, 6), Answer::First { packet, reordered: false });
    }
}
