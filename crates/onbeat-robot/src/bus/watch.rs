//! Sees which device is not as it should be, and brings it back, in frames beside those of the cycle.
//!
//! As long as all is well nothing is asked. When a cycle's frames say that something is wrong (a device less, another AL state, a working
//! counter), each device is asked for its AL state; those that do not answer at their stations are looked for by their place on the
//! cable; and each that is not in OP goes its way back there while the others exchange process data as before.

use onbeat_rt::frame::{self, Command, LONGEST, Writer, register, word, working_counter};

use super::device::{Device, Stage};
use super::exchange::{ASIDE, Answer, MAILBOX_FULL, Taken};
use super::memory::TIME_DIFFERENCE;
use super::notes::Notes;
use super::numbers::Numbers;
use super::pump::emergency_of_mail;
use super::questions::{About, Asked, MOST_QUESTIONS, Page};
use super::recovery::{Known, OP, Progress, Recovery};
use super::roll::{NO_ANSWER, Roll, Stranger, equals};
use super::sdo::{Transfer, Turn};
use onbeat_control::SdoFailure;
use onbeat_ethercat::event::EventKind;

/// Cycles for which devices are asked after the last sign that something is wrong.
const LOOK_FOR: u32 = 4;
/// A device that refused, or was the wrong one, is left alone for so many cycles.
const LEFT_ALONE: u64 = 500;
/// Bits of the AL status: state and error. The one above says that the device has an id of its own.
const STATE_AND_ERROR: u8 = 0x1f;
/// Cycles with a wrong working counter, while all devices say that they are in OP, after which their FMMUs are looked at.
const DOUBT_AFTER: u32 = 200;
/// Frames beside the cycle that are older than so many are not known any more.
const MOST_AGE: u16 = 1_000;
/// Clocks further apart than this are not in step.
const APART_NS: u32 = 20_000;

/// Watches all devices.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    devices: Vec<Device>,
    reference: Option<usize>,
    buffer: Box<[u8; LONGEST]>,
    length: usize,
    asked: Vec<Asked>,
    number: u16,
    look: u32,
    look_at_clocks: bool,
    /// Devices that passed the last cycle's frame on.
    counted: u16,
    /// Who is where, when devices have to be looked for.
    roll: Roll,
    numbers: Numbers,
    /// Whoever is at a place is taken for the file's device: in a twin that tests must catch.
    is_credulous: bool,
    /// A device that the file does not have was reported.
    knows_surplus: bool,
    /// Cycles with a wrong working counter that no AL state explains.
    unexplained: u32,
    /// Answers since the first device was asked for its state, and whether the frame that is out asks the last one.
    answering: usize,
    asks_last: bool,
    /// Where the next questions about states begin.
    first: usize,
    was_up: bool,
    /// Some mailbox is full; whose is to be asked.
    look_at_mailboxes: bool,
    transfer: Option<Box<Transfer>>,
    /// Whose mails come first in the next frame, of devices on their way.
    mails_from: usize,
}

impl Watch {
    /// All devices stand in SAFEOP and are to be brought to OP. `reference` is the device with the reference clock.
    pub(super) fn new(devices: Vec<Known>, reference: Option<usize>, numbers: Numbers) -> Self {
        let count = devices.len();
        let mut devices: Vec<Device> = devices.into_iter().map(Device::of).collect();
        for place in 0..count {
            let has_equals = equals(&devices, place).next().is_some();
            devices[place].known.has_equals = has_equals;
        }

        Self {
            devices,
            reference,
            buffer: Box::new([0; LONGEST]),
            length: 0,
            asked: Vec::with_capacity(MOST_QUESTIONS),
            number: 0,
            look: LOOK_FOR,
            look_at_clocks: false,
            counted: count as u16,
            roll: Roll::new(),
            numbers,
            is_credulous: false,
            knows_surplus: false,
            unexplained: 0,
            answering: 0,
            asks_last: false,
            first: 0,
            was_up: false,
            look_at_mailboxes: false,
            transfer: None,
            mails_from: 0,
        }
    }

    /// From now on, whoever is at a place is taken for the file's device.
    pub(super) fn believe_everything(&mut self) {
        self.is_credulous = true;
    }

    /// Station of the device with the reference clock.
    pub(super) fn reference_station(&self) -> Option<u16> {
        self.reference.map(|device| self.devices[device].known.station)
    }

    /// Devices in OP.
    pub(super) fn in_op(&self) -> usize {
        self.devices.iter().filter(|device| matches!(device.stage, Stage::InOp)).count()
    }

    /// Whether all devices have been in OP once.
    pub(super) fn was_up(&self) -> bool {
        self.was_up
    }

    /// AL status and its code, as last seen; `None` for a device that does not answer.
    pub(super) fn status(&self, device: usize) -> Option<(u8, u16)> {
        let device = self.devices.get(device)?;
        (!matches!(device.stage, Stage::Silent)).then_some((device.al_status, device.al_code))
    }

    /// Looks at what a cycle brought.
    pub(super) fn observe(&mut self, answer: &Answer, expected: u16) {
        if !answer.complete {
            return;
        }

        self.counted = answer.counted;
        let all = usize::from(answer.counted) == self.devices.len();
        if !all || answer.state & STATE_AND_ERROR != OP || answer.working_counter != expected {
            self.look = LOOK_FOR;
        }

        let is_unexplained =
            all && self.was_up && answer.working_counter != expected && self.in_op() == self.devices.len();
        self.unexplained = if is_unexplained { self.unexplained + 1 } else { 0 };
        self.look_at_clocks = answer.apart_ns > APART_NS && self.was_up;
        self.look_at_mailboxes = answer.has_mail;
    }

    /// Whether there is anything to ask beside the cycle.
    fn has_questions(&self) -> bool {
        self.look > 0
            || self.look_at_clocks
            || self.look_at_mailboxes
            || self.transfer.is_some()
            || self.devices.iter().any(|device| !matches!(device.stage, Stage::InOp))
    }

    /// The frame beside the cycle, when there is something to ask.
    pub(super) fn frame(&mut self, cycle: u64) -> Option<&[u8]> {
        self.asked.clear();
        if !self.has_questions() {
            return None;
        }

        self.number = self.number.wrapping_add(1);
        let mut writer = Writer::new(&mut self.buffer[..], ASIDE);
        let mut page = Page { writer: &mut writer, asked: &mut self.asked };
        let reference = self.reference.map(|device| self.devices[device].known.station);
        if self.unexplained >= DOUBT_AFTER {
            self.unexplained = 0;
            for device in &mut self.devices {
                device.stage = Stage::OnItsWay(Recovery::in_state(&device.known, OP, cycle));
            }
        }

        page.ask_for_own_transfers(&mut self.devices, &mut self.mails_from, cycle);
        for (place, device) in self.devices.iter_mut().enumerate() {
            device.come_back(cycle);
            if let Some(visit) = device.visit() {
                if visit.wants_station() {
                    visit.station = self.numbers.station();
                }
                if visit.wants_proof() {
                    self.roll.want();
                }
            }

            page.ask_on_its_way(place, device, reference);
        }

        self.roll.ask(&mut page, self.counted);
        if let Some(transfer) = &mut self.transfer {
            page.ask_for_transfer(transfer, &mut self.devices, cycle);
        }

        if self.look_at_mailboxes {
            for (place, device) in self.devices.iter_mut().enumerate() {
                page.ask_for_mail(place, device);
            }
        }

        let states = self.look > 0 || self.devices.iter().any(|device| !matches!(device.stage, Stage::InOp));
        if states {
            let rest = self.devices.iter().enumerate().skip(self.first);
            let unasked = rest.into_iter().find(|(place, device)| !page.ask_state(*place, device));
            self.asks_last = unasked.is_none();
            self.first = unasked.map_or(0, |(place, _)| place);
        }

        self.look = self.look.saturating_sub(1);
        if self.look_at_clocks {
            for (place, device) in self.devices.iter().enumerate().filter(|(_, device)| device.known.has_clock) {
                page.ask(About::Apart(place), Command::Fprd, register(device.known.station, TIME_DIFFERENCE), 4);
            }
        }

        if writer.is_empty() {
            return None;
        }

        self.length = writer.finish();
        frame::number(&mut self.buffer[..self.length], self.number);
        Some(&self.buffer[..self.length])
    }

    /// Begins a transfer when none is under way; hands it back otherwise.
    pub(super) fn begin(&mut self, transfer: Box<Transfer>) -> Result<(), Box<Transfer>> {
        if self.transfer.is_some() {
            return Err(transfer);
        }
        self.transfer = Some(transfer);
        Ok(())
    }

    /// The transfer that has ended.
    pub(super) fn ended(&mut self) -> Option<Box<Transfer>> {
        self.transfer.take_if(|transfer| transfer.turn() == Turn::Done)
    }

    /// Whether a frame beside the cycle is out.
    pub(super) fn awaits_reply(&self) -> bool {
        !self.asked.is_empty()
    }

    /// What a frame beside the cycle is that is not the reply to the one that is out.
    pub(super) fn older(&self, reply: &[u8]) -> Taken {
        let age = self.number.wrapping_sub(frame::number_of(reply));
        let is_the_last = self.length > 0 && frame::is_reply_to(reply, &self.buffer[..self.length]);
        match age {
            0 if is_the_last => Taken::Duplicate,
            1..=MOST_AGE => Taken::Late,
            _ => Taken::Unknown,
        }
    }

    /// Takes what came back of the last such frame; `false` when it is not its reply.
    pub(super) fn take(&mut self, reply: &[u8], notes: &mut Notes<'_>) -> bool {
        if self.asked.is_empty() || !frame::is_reply_to(reply, &self.buffer[..self.length]) {
            return false;
        }

        let asked = std::mem::take(&mut self.asked);
        for (number, Asked { about, at, length }) in asked.iter().copied().enumerate() {
            let data = &reply[at..at + length];
            let counter = working_counter(reply, at, length);
            match about {
                About::State(place) => {
                    self.answering += usize::from(counter > 0);
                    self.take_state(place, (data, counter), notes);
                }
                About::Station(place) => {
                    self.roll.take(place, if counter > 0 { word(data, 0) } else { NO_ANSWER });
                }
                About::Way(place) => {
                    let second = asked.get(number + 1).filter(|asked| asked.about == About::Second);
                    let second = second.map(|second| &reply[second.at..second.at + second.length]);
                    self.take_way(place, (data, counter), second, notes);
                }
                About::Second => {}
                About::Apart(place) => self.take_apart(place, (data, counter), notes),
                About::Mailbox(place) => {
                    self.devices[place].has_mail = counter > 0 && data[0] & MAILBOX_FULL != 0;
                }
                About::Sent => {
                    if let Some(transfer) = self.transfer.as_mut().filter(|_| counter > 0) {
                        transfer.was_sent();
                    }
                }
                About::Told(place) => {
                    if let Some(transfer) = self.devices[place].own_transfer().filter(|_| counter > 0) {
                        transfer.was_sent();
                    }
                }
                About::Mail(place) => self.take_mail(place, (data, counter), notes),
            }
        }

        if self.roll.is_certain(&self.devices) {
            self.prove_places();
            self.find_silent(notes);
        }

        self.compare_with_counted();
        self.asked = asked;
        self.asked.clear();
        self.tell_when_all_are_up(notes);
        true
    }

    /// Once all states have been asked for: when more devices are counted than answer at their stations, some have lost theirs.
    fn compare_with_counted(&mut self) {
        if !std::mem::take(&mut self.asks_last) {
            return;
        }

        let not_asked = self.devices.iter().filter(|device| device.has_its_way()).count();
        let strangers = usize::from(self.counted) > self.answering + not_asked;
        let is_silent = |device: &Device| matches!(device.stage, Stage::Silent);
        if strangers && (!self.knows_surplus || self.devices.iter().any(is_silent)) {
            self.roll.want();
        }

        self.answering = 0;
    }

    fn tell_when_all_are_up(&mut self, notes: &mut Notes<'_>) {
        if !self.was_up && self.in_op() == self.devices.len() {
            self.was_up = true;
            notes.note(EventKind::BusUp, None, (0, 0), self.devices.len() as u32);
        }
    }

    fn take_state(&mut self, place: usize, (data, counter): (&[u8], u16), notes: &mut Notes<'_>) {
        let device = &mut self.devices[place];
        if counter == 0 {
            device.unanswered = device.unanswered.saturating_add(1);
            if device.unanswered >= 2 && !matches!(device.stage, Stage::Silent) {
                device.lose(place, notes);
            }
            return;
        }

        device.unanswered = 0;
        let before = device.al_status;
        let status = data[0] & STATE_AND_ERROR;
        // A device is taken at its word when it says the same again: a bit that was turned around on the way brings none out of OP.
        if status != before && device.said != status {
            device.said = status;
            self.look = LOOK_FOR;
            return;
        }

        device.said = status;
        (device.al_status, device.al_code) = (status, word(data, 4));
        match device.stage {
            Stage::Silent => {
                device.find(place, notes);
                device.stage = Stage::OnItsWay(Recovery::in_state(&device.known, status, notes.cycle));
            }
            Stage::InOp if status != OP => {
                let states = (u16::from(before), u16::from(status));
                notes.note(EventKind::StateChanged, Some(place), states, u32::from(device.al_code));
                device.fell = Some(status & 0x0f);
                device.stage = Stage::OnItsWay(Recovery::in_state(&device.known, status, notes.cycle));
            }
            _ => {}
        }
    }

    fn take_way(&mut self, place: usize, answer: (&[u8], u16), second: Option<&[u8]>, notes: &mut Notes<'_>) {
        let device = &mut self.devices[place];
        let Stage::OnItsWay(way) = &mut device.stage else { return };
        match way.answer(&mut device.known, answer, second, notes.cycle) {
            Progress::Going => {}
            Progress::Arrived => {
                (device.stage, device.al_status, device.al_code) = (Stage::InOp, OP, 0);
                device.arrive(place, notes);
            }
            Progress::Known => device.find(place, notes),
            Progress::Dismissed(why) => {
                let is_missing = |other: &usize| !matches!(self.devices[*other].stage, Stage::InOp);
                let missing = 1 + equals(&self.devices, place).filter(is_missing).count();
                let device = &mut self.devices[place];
                device.dismiss(place, why, missing, notes);
                device.stage = Stage::LeftAlone(notes.cycle + LEFT_ALONE);
            }
            Progress::Refused(state, code) => {
                notes.note(EventKind::StateRefused, Some(place), (0, u16::from(state)), u32::from(code));
                device.stage = Stage::LeftAlone(notes.cycle + LEFT_ALONE);
            }
            Progress::Untold(line, failure) => {
                let (index, entry) = device.known.object(line);
                let code = if let SdoFailure::Abort(code) = failure { code } else { 0 };
                notes.note(EventKind::SdoRefused, Some(place), (index, u16::from(entry)), code);
                device.stage = Stage::LeftAlone(notes.cycle + LEFT_ALONE);
            }
            Progress::Silent => device.lose(place, notes),
        }
    }

    fn take_apart(&mut self, place: usize, (data, counter): (&[u8], u16), notes: &mut Notes<'_>) {
        let device = &mut self.devices[place];
        let apart = u32::from_le_bytes([data[0], data[1], data[2], data[3] & 0x7f]);
        let is_apart = counter > 0 && apart > APART_NS;
        if is_apart && !device.was_apart && self.was_up {
            notes.note(EventKind::ClockUnlocked, Some(place), (0, 0), apart);
        }

        device.was_apart = is_apart;
    }

    fn take_mail(&mut self, place: usize, (mail, counter): (&[u8], u16), notes: &mut Notes<'_>) {
        let emergency = if counter > 0 { emergency_of_mail(mail) } else { None };
        if let Some((code, register)) = emergency {
            notes.note(EventKind::Emergency, Some(place), (0, register), u32::from(code));
        }
        if counter == 0 {
            return;
        }

        if let Some(transfer) = self.devices[place].own_transfer() {
            transfer.answer(mail, notes.cycle);
        } else if let Some(transfer) = self.transfer.as_mut().filter(|transfer| transfer.device() == place) {
            transfer.answer(mail, notes.cycle);
        }
    }

    /// Devices that can be none but those of their places.
    fn prove_places(&mut self) {
        for place in 0..self.devices.len() {
            let wants_proof = self.devices[place].visit().is_some_and(|visit| visit.wants_proof());
            let is_proven = wants_proof && self.roll.proves(place, &self.devices);
            if let Some(visit) = self.devices[place].visit().filter(|_| is_proven) {
                visit.prove();
            }
        }
    }

    /// Strangers in the places of devices that are missing are asked who they are; others are reported once.
    fn find_silent(&mut self, notes: &mut Notes<'_>) {
        let mut surplus = None;
        for &(position, stranger) in self.roll.strangers() {
            match stranger {
                Stranger::Surplus => surplus = surplus.or(Some(position)),
                Stranger::InPlaceOf(place) if matches!(self.devices[place].stage, Stage::Silent) => {
                    let way = Recovery::at_place(position, self.is_credulous, notes.cycle);
                    self.devices[place].stage = Stage::OnItsWay(way);
                }
                Stranger::InPlaceOf(_) => {}
            }
        }

        if let Some(position) = surplus.filter(|_| !self.knows_surplus) {
            notes.note(EventKind::SurplusDevice, None, (0, position), u32::from(self.counted));
        }

        self.knows_surplus = surplus.is_some();
    }
}
