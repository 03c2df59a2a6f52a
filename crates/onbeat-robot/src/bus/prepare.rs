//! Tells devices in PREOP what the file wants of them: the watchdog, values of objects, when their pulses come. All devices at once, in
//! frames of their own, a millisecond apart; in the same steps in which a device that comes back is told it again (`recovery`).

use onbeat_rt::frame::{self, Command, LONGEST, Writer, register, working_counter};

use super::Wire;
use super::device::{Device, Stage};
use super::error::BusError;
use super::exchange::ASIDE;
use super::memory::{Line, SYSTEM_TIME};
use super::pulses::Pulses;
use super::pump::emergency_of_mail;
use super::questions::{About, Asked, MOST_QUESTIONS, Page};
use super::recovery::{Known, Progress, Recovery};
use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::registers::{WATCHDOG_DIVIDER, WATCHDOG_TIME};

/// From one frame to the next.
const EVERY_NS: u64 = 1_000_000;
/// Frames in a row that may get lost.
const MOST_LOST: u32 = 100;
/// The divider's value after power-on: units of (2498 + 2) · 40 ns.
const DIVIDER: u16 = 2_498;
const UNIT_NS: u64 = 100_000;

/// What is told before the mapping is read: watchdog and values of objects of the device at this place.
pub(super) fn before_mapping(layout: &Layout, place: usize) -> Vec<Line> {
    let Some(device) = layout.devices.get(place) else { return Vec::new() };
    let time = |ns: u64| u16::try_from(ns.div_ceil(UNIT_NS)).unwrap_or(u16::MAX).max(1);
    let has_outputs = !device.outputs.is_empty();
    let watchdog = layout
        .watchdog_ns
        .filter(|_| has_outputs)
        .map(|ns| [Line::register(WATCHDOG_DIVIDER, DIVIDER), Line::register(WATCHDOG_TIME, time(ns))]);
    let objects = device.setup.startup.iter().map(|value| Line::object(place, value));

    watchdog.into_iter().flatten().chain(objects).collect()
}

/// What is told behind it: when the pulses of the device at this place come.
pub(super) fn before_safeop(layout: &Layout, place: usize, period_ns: u64) -> Option<Line> {
    let wanted = layout.devices.get(place)?.setup.sync0?;
    Some(Line::Pulses(Pulses::of(wanted, period_ns)))
}

/// Devices that are being told.
pub(super) struct Preparation<'w, W> {
    wire: &'w mut W,
    devices: Vec<Device>,
    asked: Vec<Asked>,
    mails_from: usize,
    cycle: u64,
    lost: u32,
    pub(super) frames: u64,
    pub(super) events: Vec<Event>,
}

impl<'w, W: Wire> Preparation<'w, W> {
    /// Each device is told the lines of its script from the one on that is given with it.
    pub(super) fn new(wire: &'w mut W, known: Vec<(Known, usize)>) -> Self {
        let devices = known.into_iter().map(|(mut known, line)| {
            let way = Recovery::from_line(&mut known, line, 0);
            Device { stage: Stage::OnItsWay(way), ..Device::of(known) }
        });
        let (devices, asked) = (devices.collect(), Vec::with_capacity(MOST_QUESTIONS));
        Self { wire, devices, asked, mails_from: 0, cycle: 0, lost: 0, frames: 0, events: Vec::new() }
    }

    /// Gives the devices back.
    pub(super) fn into_known(self) -> impl Iterator<Item = Known> {
        self.devices.into_iter().map(|device| device.known)
    }

    /// Tells all of them. `reference` is the station of the reference clock, which the others hear with each frame.
    pub(super) fn run(&mut self, layout: &Layout, reference: Option<u16>) -> Result<(), BusError> {
        let (mut sent, mut reply) = ([0; LONGEST], [0; LONGEST + 1]);
        while self.devices.iter().any(|device| !has_arrived(device)) {
            self.cycle += 1;
            let next = self.wire.now().plus_ns(EVERY_NS);
            let length = self.write(&mut sent, reference);
            self.wire.send(&sent[..length]);
            self.frames += 1;
            self.lost += 1;

            while let Some(received) = self.wire.receive(&mut reply, next) {
                let reply = &reply[..received.min(LONGEST)];
                if frame::purpose_of(reply) == Some(ASIDE) && frame::is_reply_to(reply, &sent[..length]) {
                    self.take(reply, layout)?;
                    self.asked.clear();
                    self.lost = 0;
                }
            }

            self.wire.rest();
            if self.lost > MOST_LOST {
                return Err(BusError::NoAnswer(self.lost));
            }
        }

        Ok(())
    }

    fn write(&mut self, sent: &mut [u8; LONGEST], reference: Option<u16>) -> usize {
        self.asked.clear();
        let mut writer = Writer::new(&mut sent[..], ASIDE);
        if let Some(station) = reference {
            writer.push(Command::Frmw, register(station, SYSTEM_TIME), 8);
        }

        let mut page = Page { writer: &mut writer, asked: &mut self.asked };
        for device in &mut self.devices {
            // The library begins with 1 behind this, and two mails of one counter running are one to a device.
            device.mail_counter = if matches!(device.mail_counter, 0 | 7) { 1 } else { device.mail_counter };
        }

        page.ask_for_own_transfers(&mut self.devices, &mut self.mails_from, self.cycle);
        for (place, device) in self.devices.iter().enumerate() {
            page.ask_on_its_way(place, device, reference);
        }

        let length = writer.finish();
        frame::number(&mut sent[..length], self.cycle as u16);
        length
    }

    fn take(&mut self, reply: &[u8], layout: &Layout) -> Result<(), BusError> {
        for number in 0..self.asked.len() {
            let Asked { about, at, length } = self.asked[number];
            let (data, counter) = (&reply[at..at + length], working_counter(reply, at, length));
            match about {
                About::Way(place) => {
                    let second = self.asked.get(number + 1).filter(|asked| asked.about == About::Second);
                    let second = second.map(|second| &reply[second.at..second.at + second.length]);
                    self.take_way(place, (data, counter), second, layout)?;
                }
                About::Told(place) if counter > 0 => {
                    if let Some(transfer) = self.devices[place].own_transfer() {
                        transfer.was_sent();
                    }
                }
                About::Mail(place) if counter > 0 => self.take_mail(place, data),
                _ => {}
            }
        }
        Ok(())
    }

    fn take_way(
        &mut self,
        place: usize,
        answer: (&[u8], u16),
        second: Option<&[u8]>,
        layout: &Layout,
    ) -> Result<(), BusError> {
        let device = &mut self.devices[place];
        let Stage::OnItsWay(way) = &mut device.stage else { return Ok(()) };
        let name = || layout.devices.get(place).map_or_else(String::new, |device| device.name.clone());
        let is_at_pulses = way.is_at_pulses();
        match way.answer(&mut device.known, answer, second, self.cycle) {
            Progress::Going => Ok(()),
            Progress::Arrived => {
                device.stage = Stage::InOp;
                Ok(())
            }
            Progress::Untold(line, why) => {
                let (index, entry) = device.known.object(line);
                Err(BusError::StartupRefused { name: name(), index, entry, why })
            }
            Progress::Refused(..) if is_at_pulses => Err(BusError::NotInStep(name())),
            Progress::Refused(_, code) => Err(BusError::FellInPreop { name: name(), code }),
            Progress::Silent | Progress::Known | Progress::Dismissed(_) => Err(BusError::NoAnswer(self.lost)),
        }
    }

    fn take_mail(&mut self, place: usize, mail: &[u8]) {
        if let Some((code, register)) = emergency_of_mail(mail) {
            self.events.push(Event {
                at_ns: self.wire.now().as_ns(),
                cycle: 0,
                kind: EventKind::Emergency,
                device: place as u16,
                old: 0,
                new: register,
                code: u32::from(code),
            });
        }
        if let Some(transfer) = self.devices[place].own_transfer() {
            transfer.answer(mail, self.cycle);
        }
    }
}

/// A way without lines has ended where it begins.
fn has_arrived(device: &Device) -> bool {
    match &device.stage {
        Stage::OnItsWay(way) => way.is_done(),
        _ => true,
    }
}
