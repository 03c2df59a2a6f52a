//! The way of one device back to OP, one question and answer per cycle.
//!
//! ```text
//! lost ──▶ answers at a place without station ──▶ address, identity ──▶ INIT ──▶ what it was told once ──▶ clock ──▶ OP
//! fell back, or answers at its station in SAFEOP ─────────────────────────────▶ acknowledge ────────────────────▶ OP
//! ```
//!
//! What it was told once is its script: registers, values of objects, its pulses, states. Part of the way up itself is a script that is
//! gone through for the first time, see `prepare`.

use onbeat_rt::frame::{Command, position, register, word};

use super::memory::{AL_CONTROL, AL_STATUS, Line, SII_OWNER, SPEED_START, STATION, SYSTEM_TIME, TIME_OFFSET, Written};
use super::pulses::{Setting, long};
use super::sdo::Transfer;
use crate::ethercat::control::SdoFailure;

/// AL states.
pub(super) const INIT: u8 = 1;
pub(super) const PREOP: u8 = 2;
pub(super) const SAFEOP: u8 = 4;
pub(super) const OP: u8 = 8;
/// "Error" in AL status, "acknowledge" in AL control.
pub(super) const ERROR: u8 = 0x10;

/// Words of the EEPROM that hold vendor, product and revision.
const IDENTITY: [u16; 3] = [0x0008, 0x000a, 0x000c];
/// Command and state of the EEPROM's interface, and what was read.
const SII_CONTROL: u16 = 0x0502;
const SII_DATA: u16 = 0x0508;
const SII_READ: u16 = 0x0100;
const SII_BUSY: u16 = 0x8000;
/// Cycles within which a change of state or an access to the EEPROM must come about.
const PATIENCE: u64 = 5_000;
/// And within which an EEPROM must answer.
const EEPROM_PATIENCE: u64 = 50;

/// A value of an object that was not answered for is written again, so often in all.
const MOST_TRIES: u8 = 4;
/// What a clock's speed counter starts with when its control loop is to begin anew (the register's value after power-on).
const SPEED: u16 = 0x1000;

/// Cycles that a device has to take an acknowledgement in.
const GRACE: u64 = 3;

/// Longest data of a question, in bytes.
pub(super) const MOST_ASKED: usize = 64;

/// What is asked of a device in a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) command: Command,
    pub(super) address: u32,
    pub(super) bytes: [u8; MOST_ASKED],
    pub(super) length: usize,
}

impl Question {
    pub(super) fn read(station: u16, at: u16, length: usize) -> Self {
        Self { command: Command::Fprd, address: register(station, at), bytes: [0; MOST_ASKED], length }
    }

    pub(super) fn write(station: u16, at: u16, data: &[u8]) -> Self {
        let mut bytes = [0; MOST_ASKED];
        let length = data.len().min(MOST_ASKED);
        bytes[..length].copy_from_slice(&data[..length]);
        Self { command: Command::Fpwr, address: register(station, at), bytes, length }
    }
}

/// What an answer means for the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Further, or the same again.
    Going,
    /// The device is in OP.
    Arrived,
    /// It is not the device it should be: its product code.
    Wrong(u32),
    /// It refuses a state, or does not get there: the state and its AL status code.
    Refused(u8, u16),
    /// It does not take the value of an object: the line of its script, and why.
    Untold(usize, SdoFailure),
    /// It does not answer.
    Silent,
}

/// One step of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Address(u16),
    Owner,
    Ask(usize),
    Busy(usize),
    Read(usize),
    /// AL control to write, and the state to wait for.
    Request(u8),
    Await(u8),
    /// Lines of the script.
    Tell(usize),
    Object(usize),
    Pulses(usize),
    /// Before this line.
    ReadClock(usize),
    SetClock(usize),
    SettleClock(usize),
    Done,
}

/// What a device should be and was told.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) station: u16,
    pub(super) identity: [u32; 3],
    pub(super) script: Box<[Line]>,
    pub(super) has_clock: bool,
    /// Counter of the last mail it got.
    pub(super) last_mail: u8,
}

impl Known {
    /// Object and entry that a line of the script is about.
    pub(super) fn object(&self, line: usize) -> (u16, u8) {
        if let Some(Line::Object(transfer)) = self.script.get(line) { transfer.object() } else { (0, 0) }
    }
}

/// A device on its way.
#[derive(Debug)]
pub(super) struct Recovery {
    step: Step,
    since: u64,
    silent: u8,
    clock_offset: u64,
    /// It went through INIT, and its clock is to be set anew.
    clock_is_lost: bool,
    setting: Setting,
    /// Times that the value of an object was written.
    tries: u8,
    /// The line that it ends before.
    until: Option<usize>,
}

impl Recovery {
    /// From nothing: at this place on the cable something answers that has no station.
    pub(super) fn at_place(place: u16, cycle: u64) -> Self {
        Self::from(Step::Address(place), cycle)
    }

    /// It answers at its station, in this AL state, with or without an error.
    pub(super) fn in_state(al_status: u8, cycle: u64) -> Self {
        let state = al_status & 0x0f;
        let step = match (state, al_status & ERROR) {
            (SAFEOP | OP, ERROR) => Step::Request(state | ERROR),
            (SAFEOP, _) => Step::Request(OP),
            _ => Step::Request(INIT | ERROR),
        };
        Self::from(step, cycle)
    }

    /// From SAFEOP, as the devices are when they have just been configured.
    pub(super) fn in_safeop(cycle: u64) -> Self {
        Self::from(Step::Request(OP), cycle)
    }

    /// Through the script from this line on, and not to OP but to where the script ends now.
    pub(super) fn from_line(known: &mut Known, line: usize, cycle: u64) -> Self {
        let mut way = Self { until: Some(known.script.len()), ..Self::from(Step::Done, cycle) };
        let first = way.at_line(known, line);
        way.enter(first, known, cycle);
        way
    }

    fn from(step: Step, cycle: u64) -> Self {
        Self {
            step,
            since: cycle,
            silent: 0,
            clock_offset: 0,
            clock_is_lost: false,
            setting: Setting::begin(),
            tries: 0,
            until: None,
        }
    }

    /// The transfer that is its turn, if one is.
    pub(super) fn transfer<'k>(&self, known: &'k mut Known) -> Option<&'k mut Transfer> {
        let Step::Object(line) = self.step else { return None };
        match known.script.get_mut(line) {
            Some(Line::Object(transfer)) => Some(transfer),
            _ => None,
        }
    }

    /// Whether nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Whether its pulses are its turn.
    pub(super) fn is_at_pulses(&self) -> bool {
        matches!(self.step, Step::Pulses(_))
    }

    /// What to ask now. `reference` is the station of the reference clock, which is asked in the same frame when the second is there.
    pub(super) fn question(&self, known: &Known, reference: Option<u16>) -> Option<(Question, Option<Question>)> {
        let station = known.station;
        let one = |question| Some((question, None));
        match self.step {
            Step::Address(place) => {
                let mut question = Question::write(position(place), STATION, &station.to_le_bytes());
                question.command = Command::Apwr;
                one(question)
            }
            Step::Owner => one(Question::write(station, SII_OWNER, &[0, 0])),
            Step::Ask(number) => {
                let mut request = [0; 6];
                request[..2].copy_from_slice(&SII_READ.to_le_bytes());
                request[2..4].copy_from_slice(&IDENTITY[number].to_le_bytes());
                one(Question::write(station, SII_CONTROL, &request))
            }
            Step::Busy(_) => one(Question::read(station, SII_CONTROL, 2)),
            Step::Read(_) => one(Question::read(station, SII_DATA, 4)),
            Step::Request(control) => one(Question::write(station, AL_CONTROL, &[control, 0])),
            // Beside the mails of an object, which say nothing of a device that is gone, or fell.
            Step::Await(_) | Step::Object(_) => one(Question::read(station, AL_STATUS, 6)),
            Step::Tell(line) => {
                let written = known.script[line].written()?;
                one(Question::write(station, written.register, &written.bytes))
            }
            Step::Pulses(line) => {
                let Line::Pulses(wanted) = known.script[line] else { return None };
                Some(self.setting.question(station, wanted))
            }
            Step::ReadClock(_) => reference.map(|reference| {
                (Question::read(station, SYSTEM_TIME, 24), Some(Question::read(reference, SYSTEM_TIME, 8)))
            }),
            Step::SetClock(_) => one(Question::write(station, TIME_OFFSET, &self.clock_offset.to_le_bytes())),
            Step::SettleClock(_) => one(Question::write(station, SPEED_START, &SPEED.to_le_bytes())),
            Step::Done => None,
        }
    }

    /// Takes the answer: data and working counter, and those of the second question.
    pub(super) fn answer(
        &mut self,
        known: &mut Known,
        (data, counter): (&[u8], u16),
        second: Option<&[u8]>,
        cycle: u64,
    ) -> Progress {
        if counter == 0 {
            self.silent += 1;
            return if self.silent >= 3 { Progress::Silent } else { Progress::Going };
        }
        self.silent = 0;
        let next = match self.step {
            Step::Address(_) => Step::Owner,
            Step::Owner => Step::Ask(0),
            Step::Ask(number) => Step::Busy(number),
            Step::Busy(number) if word(data, 0) & SII_BUSY != 0 => Step::Busy(number),
            Step::Busy(number) => Step::Read(number),
            Step::Read(number) => {
                let value = u32::from_le_bytes([data[0], data[1], data[2], data[3]]);
                if value != known.identity[number] {
                    return Progress::Wrong(if number == 1 { value } else { 0 });
                }
                if number + 1 < IDENTITY.len() { Step::Ask(number + 1) } else { Step::Request(INIT | ERROR) }
            }
            Step::Request(control) => {
                self.clock_is_lost |= control & 0x0f == INIT;
                Step::Await(control & 0x0f)
            }
            Step::Await(state) => match self.arrived(data, state, cycle) {
                Ok(true) => self.after(known, state),
                Ok(false) => Step::Await(state),
                Err(code) => return Progress::Refused(state, code),
            },
            Step::Tell(line) => self.at_line(known, line + 1),
            Step::Object(line) => match self.told(known, line, data, cycle) {
                Ok(true) => self.at_line(known, line + 1),
                Ok(false) => Step::Object(line),
                Err(progress) => return progress,
            },
            Step::Pulses(line) => {
                let Line::Pulses(wanted) = known.script[line] else { return self.gave_up() };
                if self.setting.answer(wanted, data, second) { self.at_line(known, line + 1) } else { self.step }
            }
            Step::ReadClock(line) => {
                self.read_clock(data, second);
                Step::SetClock(line)
            }
            Step::SetClock(line) => Step::SettleClock(line),
            Step::SettleClock(line) => {
                self.clock_is_lost = false;
                self.at_line(known, line)
            }
            Step::Done => Step::Done,
        };
        if next == Step::Done {
            return Progress::Arrived;
        }
        if next == self.step {
            let patience = if matches!(self.step, Step::Busy(_)) { EEPROM_PATIENCE } else { PATIENCE };
            return if cycle - self.since > patience { self.gave_up() } else { Progress::Going };
        }
        self.enter(next, known, cycle);
        Progress::Going
    }

    fn enter(&mut self, step: Step, known: &mut Known, cycle: u64) {
        (self.step, self.since, self.tries, self.setting) = (step, cycle, 1, Setting::begin());
        if let Some(transfer) = self.transfer(known) {
            transfer.restart();
        }
    }

    fn gave_up(&self) -> Progress {
        let state = match self.step {
            Step::Await(state) => state,
            Step::Pulses(_) => SAFEOP,
            _ => 0,
        };
        Progress::Refused(state, 0)
    }

    /// Whether the object of this line has its value. One that is not answered for gets it again.
    fn told(&mut self, known: &mut Known, line: usize, data: &[u8], cycle: u64) -> Result<bool, Progress> {
        let state = data[0] & 0x0f;
        if data[0] & ERROR != 0 || state < PREOP {
            return Err(Progress::Refused(PREOP, word(data, 4)));
        }
        let Some(transfer) = self.transfer(known) else { return Ok(true) };
        match transfer.written() {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(SdoFailure::NoReply)) if self.tries < MOST_TRIES => {
                transfer.restart();
                (self.tries, self.since) = (self.tries + 1, cycle);
                Ok(false)
            }
            Some(Err(failure)) => Err(Progress::Untold(line, failure)),
        }
    }

    /// Whether the state is reached, or the AL status code of the refusal.
    fn arrived(&self, data: &[u8], state: u8, cycle: u64) -> Result<bool, u16> {
        let status = data[0] & 0x1f;
        match status & ERROR {
            0 => Ok(status & 0x0f == state),
            // The error of before stands until the device has seen the acknowledgement.
            _ if cycle - self.since < GRACE => Ok(false),
            _ => Err(word(data, 4)),
        }
    }

    /// The offset that makes the device's system time that of the reference. Both were read within one frame.
    fn read_clock(&mut self, data: &[u8], second: Option<&[u8]>) {
        let (system, offset) = (long(data), long(&data[usize::from(TIME_OFFSET - SYSTEM_TIME)..]));
        let reference = second.map_or(system, long);
        self.clock_offset = offset.wrapping_add(reference.wrapping_sub(system));
    }

    /// The step behind a state that was reached.
    fn after(&self, known: &Known, state: u8) -> Step {
        match state {
            OP => Step::Done,
            INIT => self.at_line(known, 0),
            // A script's own request of a state: on with the line behind it.
            state => match known.script.iter().position(|line| is_request(line, state)) {
                Some(line) => self.at_line(known, line + 1),
                None => self.at_line(known, known.script.len()),
            },
        }
    }

    /// The step of a line of the script, or behind its end.
    fn at_line(&self, known: &Known, line: usize) -> Step {
        if self.until == Some(line) {
            return Step::Done;
        }
        match known.script.get(line) {
            Some(Line::Register(Written { register: AL_CONTROL, bytes })) => {
                Step::Request(bytes.first().copied().unwrap_or(INIT))
            }
            Some(Line::Register(_)) => Step::Tell(line),
            Some(Line::Object(_)) => Step::Object(line),
            // Pulses come by a clock that is set; everybody else's is set at the end.
            Some(Line::Pulses(_)) | None if self.clock_is_lost && known.has_clock => Step::ReadClock(line),
            Some(Line::Pulses(_)) => Step::Pulses(line),
            None => Step::Request(OP),
        }
    }
}

fn is_request(line: &Line, state: u8) -> bool {
    let Some(written) = line.written() else { return false };
    written.register == AL_CONTROL && written.bytes.first().is_some_and(|control| control & 0x0f == state)
}
