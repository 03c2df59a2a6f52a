//! When the error counters of the devices are read: once a second, a few devices in a frame.

use onbeat_ethercat::event::{EventKind, EventValues};
use onbeat_ethercat::link_errors::ERROR_BYTES;
use onbeat_ethercat::registers::RX_ERRORS;
use onbeat_rt::frame::{Command, register};

use super::acyclic::{AcyclicFrame, QueryPurpose};
use super::device::{BusDevice, DeviceStage};
use super::event_queue::EventWriter;
use super::register_query::QueryReply;

/// Interval of the rounds, in ns.
const EVERY_NS: u64 = 1_000_000_000;
/// Devices that are read in one frame, so that none is much longer than a cyclic frame of few
/// devices.
const DEVICES_PER_FRAME: usize = 8;

/// Rounds over all devices.
#[derive(Clone, Debug)]
pub(super) struct LinkErrorReads {
    every_cycles: u64,
    /// Cycle of the next round.
    due: u64,
    /// Next device of this round; `None` between rounds.
    next: Option<usize>,
    /// Some reading is to be confirmed.
    confirms: bool,
}

impl LinkErrorReads {
    pub(super) fn new(period_ns: u64) -> Self {
        Self {
            every_cycles: (EVERY_NS / period_ns.max(1)).max(1),
            due: 0,
            next: None,
            confirms: false,
        }
    }

    /// Returns whether something is to be read.
    pub(super) fn is_due(&self, cycle: u64) -> bool {
        self.confirms || self.next.is_some() || cycle >= self.due
    }

    /// Takes the counters of a device at this position, and reports those that went up.
    pub(super) fn take(
        &mut self,
        (place, device): (usize, &mut BusDevice),
        QueryReply { data, counter }: QueryReply<'_>,
        events: &mut EventWriter<'_>,
    ) {
        // Two devices at one station address would answer with the bits of both.
        if counter != 1 {
            return;
        }

        device.confirms_errors = device.link_errors.take(data, |error_counter, before, now| {
            let code = u32::from(error_counter.register());
            let values = EventValues { old: before.to_word(), new: now.to_word(), code };
            events.write(EventKind::LinkErrors, Some(place), values);
        });
        self.confirms |= device.confirms_errors;
    }

    /// Appends the next reads. Devices that are not in OP are left out: another one may have their
    /// station addresses.
    pub(super) fn push(
        &mut self,
        frame_writer: &mut AcyclicFrame<'_, '_>,
        devices: &mut [BusDevice],
        cycle: u64,
    ) {
        if cycle >= self.due && self.next.is_none() {
            self.next = Some(0);
            self.due = cycle + self.every_cycles;
        }

        let mut room = DEVICES_PER_FRAME;
        if self.confirms {
            let confirms = |(_, device): &(usize, &mut BusDevice)| device.confirms_errors;
            for (place, device) in devices.iter_mut().enumerate().filter(confirms).take(room) {
                device.confirms_errors = false;
                push_read(frame_writer, place, device);
                room -= 1;
            }
            self.confirms = room == 0 && devices.iter().any(|device| device.confirms_errors);
        }

        let Some(from) = self.next else { return };
        let in_op = |(_, device): &(usize, &BusDevice)| matches!(device.stage, DeviceStage::InOp);
        let mut rest = devices.iter().enumerate().skip(from).filter(in_op);
        self.next = rest.find_map(|(place, device)| {
            let is_pushed = room > 0 && push_read(frame_writer, place, device);
            room = room.saturating_sub(1);
            (!is_pushed).then_some(place)
        });
    }
}

/// Appends the read of a device; returns `false` if it did not fit.
fn push_read(frame_writer: &mut AcyclicFrame<'_, '_>, place: usize, device: &BusDevice) -> bool {
    frame_writer.push(
        QueryPurpose::LinkErrors(place),
        Command::Fprd,
        register(device.known.station, RX_ERRORS),
        ERROR_BYTES,
    )
}
