//! One cycle of the bus: frames out, replies in, and what they show.
//!
//! Nothing is allocated here, and nothing is waited for except the replies of the cycle.

use onbeat_rt::frame::LONGEST;
use onbeat_rt::time::Instant;

use super::Bus;
use crate::bus::clock_sync::LockChange;
use crate::bus::cyclic::{CycleReply, FrameClass};
use crate::bus::options::ExchangeMode;
use crate::bus::rate_limit::EventRateLimit;
use onbeat_ethercat::event::{EventKind, EventValues, NO_DEVICE};
use onbeat_ethercat::ring::RingState;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_ethercat::wire::Wire;

/// Number of cycles in which late replies to ethercrab's frames may arrive; they do not count as
/// frames of another MainDevice.
const LIBRARY_CYCLES: u64 = 100;
/// Number of cycles for which missing replies count as late after a late one.
const LATE_FOR: u64 = 10;

/// Rate limits of events that can occur in each cycle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventRateLimits {
    lost: EventRateLimit,
    late: EventRateLimit,
    unknown: EventRateLimit,
    duplicate: EventRateLimit,
    foreign: EventRateLimit,
    off: EventRateLimit,
}

impl<W: Wire> Bus<W> {
    /// Runs one cycle, at or after its release. `dt_ns` is the time since the previous release, a
    /// whole number of periods.
    pub fn cycle<C: Controller + ?Sized>(
        &mut self,
        release: Instant,
        dt_ns: u64,
        controller: &mut C,
    ) -> BusCycle {
        let cycle = match self.options.mode {
            ExchangeMode::Pipelined => {
                // Without waiting: the reply came while the loop slept. What is not there now is
                // lost for this cycle.
                self.collect(Instant::default());
                // Inputs are judged before the controller sees them, in either mode.
                let cycle = self.conclude(release, dt_ns);
                self.send(release);
                cycle
            }
            ExchangeMode::SameCycle { reply_within_ns } => {
                self.send(release);
                let until = self.wire.now().plus_ns(reply_within_ns);
                self.collect(until);
                self.conclude(release, dt_ns)
            }
        };

        // After the frame has left in pipelined mode: its outputs are sent with the next one. The
        // controller's time is then not part of the frame's.
        controller.step(&cycle, &self.inputs, &mut self.outputs);
        // What the wire has to do outside the exchange, such as refilling a ring of the kernel.
        self.wire.rest();
        cycle
    }

    /// Sends the frames of the cycle and the acyclic frame.
    fn send(&mut self, release: Instant) {
        self.release = release;
        self.counts.cycles += 1;
        let Self { exchange, wire, counts, outputs, .. } = self;
        let now = wire.now();
        if let Some(before) = self.sent_at.replace(now) {
            // From frame to frame, not from release to release: that is what a device's watchdog
            // measures.
            self.diagnostics.note_pause(now.ns_since(before), counts.cycles);
        }
        exchange.send(outputs, now, |frame| {
            counts.sent += 1;
            wire.send(frame);
        });

        // Answers that came meanwhile may decide what is asked next.
        self.take_acyclic_reply();
        // Recovery may have assigned another station address.
        if let Some(station) = self.diagnostics.reference_station() {
            self.exchange.set_clock(station);
        }
        if let Some(frame) = self.diagnostics.frame(self.counts.cycles) {
            self.counts.sent += 1;
            self.wire.send(frame);
        }
    }

    /// Takes the reply to the acyclic frame of the previous cycle, if it arrived after that cycle
    /// had its inputs: no reply is expected any more once the next acyclic frame is built.
    fn take_acyclic_reply(&mut self) {
        while self.diagnostics.awaits_reply() {
            let Some(length) = self.wire.receive(&mut self.buffer[..], Instant::default()) else {
                break;
            };
            self.take(length.min(LONGEST));
        }
    }

    /// Receives replies to the cycle's frames, waiting until `until` at most.
    fn collect(&mut self, until: Instant) {
        // Nothing was sent yet; waiting for a reply would cost the first cycle.
        if self.counts.cycles == 0 {
            return;
        }
        // Acyclic frames have a whole cycle's time: a pending reply is read if it is there, and not
        // waited for.
        while !self.exchange.is_complete() || self.diagnostics.awaits_reply() {
            // The process data are worth waiting for. A mailbox has a whole cycle more.
            let until = if self.exchange.is_complete() { Instant::default() } else { until };
            let Some(length) = self.wire.receive(&mut self.buffer[..], until) else { break };
            self.take(length.min(LONGEST));
        }
    }

    fn take(&mut self, length: usize) {
        let now = self.wire.now();
        let reply = &self.buffer[..length];
        // In pipelined mode, replies arrive while the loop sleeps, so the time of reception comes
        // from the wire.
        let is_pipelined = self.options.mode == ExchangeMode::Pipelined;
        let received_at = if is_pipelined { self.wire.received_at(now) } else { now };
        let mut events = self.events.writer(self.counts.cycles, now);

        let taken = match self.exchange.take(reply, &mut self.inputs, received_at) {
            FrameClass::Acyclic if self.diagnostics.take(reply, &mut events) => return,
            FrameClass::Acyclic => self.diagnostics.older(reply),
            FrameClass::Foreign if self.counts.cycles <= LIBRARY_CYCLES => FrameClass::Unknown,
            other => other,
        };
        let EventRateLimits { late, unknown, duplicate, foreign, .. } = &mut self.rate_limits;
        let (limit, count, kind) = match taken {
            FrameClass::Cyclic | FrameClass::OfScan => return,
            FrameClass::Late => (late, &mut self.counts.late, EventKind::FrameLate),
            FrameClass::Duplicate => {
                (duplicate, &mut self.counts.duplicate, EventKind::FrameDuplicate)
            }
            FrameClass::Foreign => (foreign, &mut self.counts.foreign, EventKind::ForeignFrames),
            FrameClass::Acyclic | FrameClass::Unknown => {
                (unknown, &mut self.counts.unknown, EventKind::FrameUnknown)
            }
        };
        *count += 1;
        if let Some(in_row) = limit.record(events.cycle) {
            let all = u32::try_from(*count).unwrap_or(u32::MAX);
            events.write(
                kind,
                None,
                EventValues::from_code(if kind == EventKind::ForeignFrames { all } else { in_row }),
            );
        }
    }

    /// Evaluates the replies of the cycle, after the last wait.
    fn conclude(&mut self, release: Instant, dt_ns: u64) -> BusCycle {
        let answer = self.exchange.answer();
        let expected = self.exchange.expected();
        // All frames, and each device once for reading and twice for writing (ETG.1000.4, working
        // counter of LRW).
        let right = answer.complete && answer.working_counter == expected;
        for (is_right, (counter, full)) in
            self.groups_right.iter_mut().zip(self.exchange.group_counters())
        {
            *is_right = answer.complete && counter == full;
        }
        if self.counts.cycles > 0 {
            self.diagnostics.observe(&answer, expected, self.exchange.group_counters());
            self.count_cycle(&answer, right);
            self.report_ring();
            self.follow(&answer);
        }

        if right {
            let Self { stale_inputs, layout, inputs, events, counts, diagnostics, .. } = self;
            let mut events = events.writer(counts.cycles, release);
            stale_inputs.update(layout, inputs, |place| {
                if layout.group_of(place).is_some_and(|group| !diagnostics.is_group_there(group)) {
                    return;
                }
                events.write(EventKind::Frozen, Some(place), EventValues::NONE);
            });
        }
        BusCycle {
            cycle: self.counts.cycles,
            release_ns: release.as_ns(),
            dt_ns,
            reference_ns: answer.reference_ns,
            round_trip_ns: u32::try_from(answer.round_trip_ns).unwrap_or(u32::MAX),
            working_counter: answer.working_counter,
            expected,
            fresh: right,
            in_op: self.in_op() as u16,
            devices: self.layout.always_there() as u16,
        }
    }

    /// Counts the cycle, and reports the begin and end of problems.
    fn count_cycle(&mut self, answer: &CycleReply, right: bool) {
        let expected = self.exchange.expected();
        let mut events = self.events.writer(self.counts.cycles, self.wire.now());

        if !answer.complete {
            self.counts.lost += 1;
            if let Some(in_row) = self.rate_limits.lost.record(events.cycle) {
                events.write(EventKind::FrameLost, None, EventValues::from_code(in_row));
            }
            // Late replies are replies: the cable is well and the cycle is too short. That is
            // another sentence than an open cable.
            let is_late = self.rate_limits.late.occurred_within(LATE_FOR, events.cycle);
            let trouble = self.wire.trouble();
            if let Some(code) = self.no_answer.on_missed_cycle(events.cycle, trouble, is_late) {
                events.write(EventKind::NoAnswer, None, EventValues::from_code(code));
            }
            return;
        }
        if let Some(ms) = self.no_answer.on_reply(self.wire.now()) {
            events.write(EventKind::AnswerBack, None, EventValues::from_code(ms));
        }
        self.counts.answered += 1;
        if right {
            if std::mem::take(&mut self.off_reported) {
                events.write(
                    EventKind::WorkingCounterBack,
                    None,
                    EventValues::from_change(expected, answer.working_counter).with_code(self.off),
                );
            }
            self.off = 0;
            return;
        }

        // Each such cycle is counted, one event reports all of them: a device that is off for a
        // minute would fill the ring.
        self.counts.counter_off += 1;
        self.off += 1;
        // During bring-up, devices that are not in OP do not count.
        if self.off == 1 && self.diagnostics.was_up() && self.rate_limits.off.allow(events.cycle) {
            self.off_reported = true;
            events.write(
                EventKind::WorkingCounterOff,
                None,
                EventValues::from_change(expected, answer.working_counter),
            );
        }
    }

    /// Reports a cut of the ring of cables, and its end.
    fn report_ring(&mut self) {
        let Some(state) = self.wire.ring().filter(|state| *state != self.ring.0) else { return };
        let now = self.wire.now();
        let (before, since) = std::mem::replace(&mut self.ring, (state, now));
        let mut events = self.events.writer(self.counts.cycles, now);
        match state {
            RingState::Cut(left) => {
                let left_of = left.checked_sub(1).unwrap_or(NO_DEVICE);
                let is_last = usize::from(left) >= self.layout.devices.len();
                let right_of = if is_last { NO_DEVICE } else { left };
                let values = EventValues::from_change(left_of, right_of);
                events.write(EventKind::RingCut, None, values);
            }
            RingState::Closed if matches!(before, RingState::Cut(_)) => {
                let ms = u32::try_from(now.ns_since(since) / 1_000_000).unwrap_or(u32::MAX);
                events.write(EventKind::RingClosed, None, EventValues::from_code(ms));
            }
            RingState::Closed | RingState::Unknown => {}
        }
    }

    /// Follows the reference clock.
    fn follow(&mut self, answer: &CycleReply) {
        // A cycle without the reference time does not steer: the last correction again would be an
        // error that adds up.
        self.steering_ns = 0;
        let Some(clock_sync) =
            self.clock_sync.as_mut().filter(|_| answer.complete && answer.reference_ns > 0)
        else {
            return;
        };
        // The time in the frame is of its passing the device, after the loop's own delay from
        // release to sending.
        let delay_ns = answer.sent_at.ns_since(self.release);
        let (steering_ns, step) =
            clock_sync.follow(answer.reference_ns, delay_ns, self.options.period_ns);
        self.steering_ns = steering_ns;
        let (kind, code) = match step {
            LockChange::Same => return,
            LockChange::Locked => (EventKind::ClockLocked, 0),
            LockChange::Unlocked(by_ns) => (EventKind::ClockUnlocked, by_ns.unsigned_abs()),
        };

        let mut events = self.events.writer(self.counts.cycles, self.release);
        events.write(kind, None, EventValues::from_code(u32::try_from(code).unwrap_or(u32::MAX)));
    }
}
