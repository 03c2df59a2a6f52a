//! The loop of a round trip: send on the release, take the answers until all are there.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;

use onbeat_rt::sys::datagram::{Datagram, DatagramPort, SendAddress, wall_offset_ns};
use onbeat_rt::sys::{Monotonic, Port};
use onbeat_rt::{Clock, Cycle, Flow, Instant, Outcome, Plan, Producer, Sample, Task};

use super::channel::{FateSender, PacketFate, RoundTripParts, add};
use super::tracker::{Answer, SentPacket, Tracker};
use crate::knock::BEFORE_RUN;
use crate::packet::{self, PacketKind, WireHeader};
use onbeat::probe::description::Body;

/// Bytes of a received packet that are looked at: headers of the frame, and the largest payload.
const RECEIVED_BYTES: usize = 2048;
/// How long the end of a block waits for the recorder to take the last fates.
const LAST_FATES_NS: u64 = 1_000_000_000;
const PAUSE_NS: u64 = 1_000_000;
/// Packets that are taken before the clock is looked at again, so that a flood cannot hold the loop.
const MOST_TAKEN: usize = 1024;

/// How answers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receive {
    /// Asleep until one arrives.
    Block,
    /// Polling for at most this long after the sends, then asleep.
    Spin {
        /// In nanoseconds.
        at_most_ns: u64,
    },
}

/// What a run needs of its loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketSchedule {
    /// Answers after this time from the release are late.
    pub(super) deadline_ns: u64,
    /// A cycle waits no longer than this after its release.
    pub(super) wait_ns: u64,
    /// Age at which a packet is lost: a whole number of periods.
    pub(super) lost_after_ns: u64,
    pub(super) receive: Receive,
}

/// Sends a packet to each device per cycle, and takes what comes back.
pub(super) struct RoundTripTask {
    _socket: UdpSocket,
    port: DatagramPort,
    ready: Port,
    targets: Vec<(SocketAddr, SendAddress)>,
    message: Vec<u8>,
    received: Box<[u8; RECEIVED_BYTES]>,
    schedule: PacketSchedule,
    session: u32,
    tracker: Tracker,
    fates: FateSender,
    /// Sequence of the block's release 0.
    base: u64,
    /// The first sequence that is not scheduled yet.
    next: u64,
    /// Devices whose answer to the latest packet is missing.
    missing: usize,
    stamps: bool,
}

impl RoundTripTask {
    pub(super) fn new(
        socket: UdpSocket,
        targets: &[SocketAddr],
        schedule: PacketSchedule,
        packets: PacketForm,
        fates: FateSender,
    ) -> Self {
        let descriptor = socket.as_raw_fd();
        Self {
            port: DatagramPort::new(descriptor),
            ready: Port::new(descriptor),
            _socket: socket,
            targets: targets.iter().map(|to| (*to, SendAddress::new(*to))).collect(),
            message: vec![0; packets.bytes],
            received: Box::new([0; RECEIVED_BYTES]),
            tracker: Tracker::new(targets.len(), packets.window),
            session: packets.session,
            stamps: packets.stamps,
            schedule,
            fates,
            base: 0,
            next: 0,
            missing: 0,
        }
    }

    /// Counts the packets of releases that were passed over, the earliest first.
    fn pass_over(&mut self, until: u64, age_ns: impl Fn(u64) -> u64) {
        for sequence in self.next..until {
            for device in 0..self.targets.len() {
                self.give_up_before(device, sequence);
                let counters = &self.fates.counters.devices[device];
                add(&counters.scheduled, 1);
                add(&counters.unsent, 1);
            }
            let age_ns = age_ns(until - sequence);
            self.fates.put(PacketFate {
                device: None,
                answered_cycle: None,
                round_trip_ns: age_ns,
                since_release_ns: age_ns,
                parts: None,
            });
        }
        self.next = self.next.max(until);
    }

    fn give_up_before(&mut self, device: usize, sequence: u64) {
        if let Some(packet) = self.tracker.give_up_before(device, sequence) {
            self.lose(device, packet);
        }
    }

    /// Counts a packet that was not answered, with the age at which it is given up.
    fn lose(&mut self, device: usize, packet: SentPacket) {
        add(&self.fates.counters.devices[device].lost, 1);
        let lost_after_ns = self.schedule.lost_after_ns;
        self.fates.put(PacketFate {
            device: Some(device as u16),
            answered_cycle: None,
            round_trip_ns: lost_after_ns,
            since_release_ns: lost_after_ns + packet.sent_ns - packet.release_ns,
            parts: None,
        });
    }

    fn send_all(&mut self, sequence: u64, release: Instant) {
        for device in 0..self.targets.len() {
            self.give_up_before(device, sequence);
            let counters = &self.fates.counters.devices[device];
            add(&counters.scheduled, 1);
            let sent_ns = Monotonic.now().as_ns();
            let header = WireHeader {
                kind: PacketKind::EchoRequest,
                device: device as u16,
                sequence,
                sent_ns,
                received_ns: 0,
                answered_ns: 0,
                session: self.session,
                lifetime_us: 0,
            };
            header.write(&mut self.message);
            self.tracker.sends(device, sequence, release.as_ns(), sent_ns);

            if let Err(why) = self.port.send(&self.message, &self.targets[device].1) {
                let counters = &self.fates.counters;
                counters
                    .refusal
                    .store(why.0.unsigned_abs().into(), std::sync::atomic::Ordering::Relaxed);
                add(&counters.devices[device].unsent, 1);
                add(&counters.devices[device].refused, 1);
                self.tracker.takes_back(device, sequence);
                let age_ns = self.schedule.lost_after_ns;
                self.fates.put(PacketFate {
                    device: Some(device as u16),
                    answered_cycle: None,
                    round_trip_ns: age_ns,
                    since_release_ns: age_ns,
                    parts: None,
                });
            } else {
                self.missing += 1;
            }
        }
    }

    /// Takes the answers to this cycle's packets, and whatever else arrives meanwhile.
    fn await_answers(&mut self, release: Instant) {
        let until = release.plus_ns(self.schedule.wait_ns);
        let spin_until = match self.schedule.receive {
            Receive::Block => Instant::from_ns(0),
            Receive::Spin { at_most_ns } => Monotonic.now().plus_ns(at_most_ns),
        };
        loop {
            self.take_all();
            let now = Monotonic.now();
            if self.missing == 0 || now >= until {
                return;
            }
            if now >= spin_until {
                let _ = self.ready.is_ready_within(until.ns_since(now));
            }
        }
    }

    /// Takes the stamps of what was sent, then what has been received.
    fn take_all(&mut self) {
        if self.stamps {
            self.take_stamps();
        }
        for _ in 0..MOST_TAKEN {
            let Ok(Some(datagram)) = self.port.receive(&mut self.received[..]) else { return };
            self.take(datagram);
        }
    }

    fn take_stamps(&mut self) {
        for _ in 0..MOST_TAKEN {
            let Ok(Some(sent)) = self.port.sent(&mut self.received[..]) else { return };
            let bytes = self.message.len();
            // The frame as the driver took it ends in the message.
            let Some(start) = sent.length.checked_sub(bytes) else { continue };
            if let Some(Ok((header, _))) = self.received.get(start..sent.length).map(packet::decode)
                && header.session == self.session
            {
                let device = usize::from(header.device);
                self.tracker.stamp(device, header.sequence, sent.stamp_ns, sent.card_stamp_ns);
            }
        }
    }

    fn take(&mut self, datagram: Datagram) {
        let now = Monotonic.now();
        let Some(Ok((header, _))) = self.received.get(..datagram.length).map(packet::decode) else {
            return add(&self.fates.counters.foreign, 1);
        };
        let device = usize::from(header.device);
        // A plain echo returns the request itself.
        let is_unchanged = header.kind == PacketKind::EchoRequest;
        let is_of_device =
            self.targets.get(device).is_some_and(|(address, _)| Some(*address) == datagram.from);
        let is_echo = is_unchanged || header.kind == PacketKind::EchoAnswer;
        let is_ours = is_echo && is_of_device && header.session == self.session;
        if !is_ours {
            // A device that was slow to answer before the run still does.
            let is_earlier = is_of_device && header.session == BEFORE_RUN;
            return add(&self.fates.counters.foreign, u64::from(!is_earlier));
        }

        match self.tracker.answers(device, header.sequence) {
            Answer::First { packet, reordered } => {
                if header.sequence + 1 == self.next {
                    self.missing = self.missing.saturating_sub(1);
                }
                self.count_answer(device, packet, (now, reordered));
                add(&self.fates.counters.unchanged, u64::from(is_unchanged));
                let parts = self.parts(&header, packet, datagram, now);
                self.fates.put(PacketFate {
                    device: Some(header.device),
                    answered_cycle: Some(header.sequence),
                    round_trip_ns: now.as_ns() - packet.sent_ns,
                    since_release_ns: now.as_ns() - packet.release_ns,
                    parts,
                });
            }
            Answer::Duplicate => add(&self.fates.counters.devices[device].duplicates, 1),
            Answer::Stray => add(&self.fates.counters.devices[device].strays, 1),
        }
    }

    fn count_answer(&self, device: usize, packet: SentPacket, (now, reordered): (Instant, bool)) {
        let counters = &self.fates.counters.devices[device];
        let is_late = now.as_ns() - packet.release_ns > self.schedule.deadline_ns;
        add(if is_late { &counters.late } else { &counters.answered }, 1);
        add(&counters.reordered, u64::from(reordered));
    }

    /// Splits a round trip by the kernel's stamps; none where one is missing, or the wall clock was
    /// set in between.
    fn parts(
        &self,
        header: &WireHeader,
        packet: SentPacket,
        received: Datagram,
        now: Instant,
    ) -> Option<RoundTripParts> {
        // A plain echo states no time of its own, which would count as the network's.
        if !self.stamps || packet.stamp_ns == 0 || header.kind == PacketKind::EchoRequest {
            return None;
        }
        let offset_ns = wall_offset_ns();
        let on_loops_clock = |stamp_ns: u64| stamp_ns.checked_add_signed(-offset_ns);
        split(&Stamps {
            sent_ns: packet.sent_ns,
            left_ns: on_loops_clock(packet.stamp_ns)?,
            arrived_ns: on_loops_clock(received.stamp_ns?)?,
            taken_ns: now.as_ns(),
            device_ns: header.answered_ns.checked_sub(header.received_ns)?,
            card_ns: received.card_stamp_ns.map(|at| at.wrapping_sub(packet.card_stamp_ns)),
        })
    }

    /// Waits for the answers that are still on their way, and gives up the others.
    fn end_block(&mut self, outcome: &Outcome, period_ns: u64) {
        let begun = Monotonic.now();
        let until = begun.plus_ns(self.schedule.lost_after_ns);
        loop {
            self.take_all();
            let now = Monotonic.now();
            if self.tracker.outstanding() == 0 || now >= until {
                break;
            }
            let _ = self.ready.is_ready_within(until.ns_since(now));
        }

        let Self { tracker, .. } = self;
        let mut left = std::mem::replace(tracker, Tracker::new(0, 1));
        left.give_up_all(|device, packet| self.lose(device, packet));
        self.tracker = left;
        // Their next send never came; the end of the last cycle is the least they waited for.
        let end = self.base + outcome.slots;
        self.pass_over(end, |before| before * period_ns);
        self.base = self.next;

        while !self.fates.flush() && Monotonic.now().ns_since(until.max(begun)) < LAST_FATES_NS {
            let _ = Monotonic.sleep_for(PAUSE_NS);
        }
        self.fates.give_up();
    }
}

impl Task for RoundTripTask {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        // First what has come since the last cycle: after a stall it would overflow the socket.
        self.take_all();
        let sequence = self.base + cycle.index;
        let waited_ns = cycle.start.ns_since(cycle.release);
        let period_ns = cycle.period_ns;
        self.pass_over(sequence, |before| before * period_ns + waited_ns);

        self.missing = 0;
        self.next = sequence + 1;
        self.send_all(sequence, cycle.release);
        self.await_answers(cycle.release);
        self.fates.flush();
        Flow::Continue
    }
}

/// The packets of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketForm {
    /// Payload.
    pub(super) bytes: usize,
    /// Packets of each device that are remembered.
    pub(super) window: u64,
    pub(super) session: u32,
    /// Whether the kernel stamps them.
    pub(super) stamps: bool,
}

/// The instants of a round trip by one clock, the device's own time, and the time between the card's
/// stamps by its clock.
struct Stamps {
    sent_ns: u64,
    left_ns: u64,
    arrived_ns: u64,
    taken_ns: u64,
    device_ns: u64,
    card_ns: Option<u64>,
}

fn split(stamps: &Stamps) -> Option<RoundTripParts> {
    let Stamps { sent_ns, left_ns, arrived_ns, taken_ns, device_ns, card_ns } = *stamps;
    // Two clocks are read one after the other; a stamp may appear that much too early.
    let left_ns = left_ns.max(sent_ns);
    let arrived_ns = arrived_ns.min(taken_ns);
    // Also what a card's clock that was set in between, or a stamp that is missing, makes of it.
    let card_ns = card_ns.filter(|between_ns| *between_ns <= taken_ns - sent_ns);
    let wire_ns = card_ns.and_then(|between_ns| between_ns.checked_sub(device_ns));
    Some(RoundTripParts {
        send_ns: left_ns - sent_ns,
        network_ns: arrived_ns.checked_sub(left_ns)?.checked_sub(device_ns)?,
        device_ns,
        receive_ns: taken_ns - arrived_ns,
        wire_ns: wire_ns.and_then(NonZeroU64::new),
    })
}

/// The loop around the task: after its last cycle it waits for what is still on its way.
pub(super) struct RoundTripBody(pub(super) RoundTripTask);

impl Body for RoundTripBody {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        let outcome = onbeat_rt::cycle::run(&Monotonic, plan, &mut self.0, hot, stop);
        self.0.end_block(&outcome, plan.period_ns);
        outcome
    }

    fn has_ports(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Stamps = Stamps {
        sent_ns: 100,
        left_ns: 130,
        arrived_ns: 200,
        taken_ns: 260,
        device_ns: 50,
        card_ns: None,
    };

    #[test]
    fn the_parts_sum_to_the_round_trip() {
        let parts = split(&GOOD).expect("in order");
        assert_eq!(
            parts,
            RoundTripParts {
                send_ns: 30,
                network_ns: 20,
                device_ns: 50,
                receive_ns: 60,
                wire_ns: None
            }
        );
        let RoundTripParts { send_ns, network_ns, device_ns, receive_ns, .. } = parts;
        assert_eq!(send_ns + network_ns + device_ns + receive_ns, 160);
    }

    #[test]
    fn a_clock_that_was_set_or_a_device_that_claims_too_much_has_no_parts() {
        assert_eq!(split(&Stamps { device_ns: 71, ..GOOD }), None);
        assert_eq!(split(&Stamps { left_ns: 900, ..GOOD }), None);
        let early = split(&Stamps { left_ns: 90, ..GOOD }).expect("the clocks' readings");
        assert_eq!((early.send_ns, early.network_ns), (0, 50));
    }

    #[test]
    fn between_the_stamps_of_a_card_is_the_wire_without_the_device_and_never_more_than_there_was() {
        let wire_ns = |card_ns: u64| {
            let parts = split(&Stamps { card_ns: Some(card_ns), ..GOOD }).expect("in order");
            parts.wire_ns.map(NonZeroU64::get)
        };
        assert_eq!(wire_ns(64), Some(14));
        assert_eq!(wire_ns(49), None, "less than the device took");
        assert_eq!(wire_ns(161), None, "more than the round trip: the card's clock was set");
        assert_eq!(wire_ns(u64::MAX - 5), None);
    }
}
