//! The way of one device back to OP, one question and answer per cycle.
//!
//! ```text
//! lost ──▶ is at a place without its station ──▶ who is it? (visit) ──▶ INIT ──▶ what it was told once ──▶ clock ──▶ OP
//! fell back, or answers at its station ──▶ is its FMMU as configured? ──▶ acknowledge ──────────────────────────▶ OP
//! ```
//!
//! Stations are given once (`numbers`), so a device that answers at its station is the one that was identified when it got it.
//!
//! What it was told once is its script: registers, values of objects, its pulses, states. Part of the way up itself is a script that is
//! gone through for the first time, see `prepare`.

use onbeat_rt::frame::{Command, register, word};

use super::memory::{AL_CONTROL, AL_STATUS, Line, Mark, SPEED_START, SYSTEM_TIME, TIME_OFFSET, Written};
use super::pulses::{Setting, long};
use super::sdo::Transfer;
use super::visit::{Met, Visit, Why};
use onbeat_control::SdoFailure;
pub(super) use onbeat_ethercat::al::{ERROR, INIT, OP, PREOP, SAFEOP};

/// Cycles within which a change of state must come about.
const PATIENCE: u64 = 5_000;

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
    /// It is the device it should be, and has its station from now on.
    Known,
    /// It is not, or that cannot be proven; it stands in INIT without a station.
    Dismissed(Why),
    /// It refuses a state, or does not get there: the state and its AL status code.
    Refused(u8, u16),
    /// It does not take the value of an object: the line of its script, and why.
    Untold(usize, SdoFailure),
    /// It does not answer.
    Silent,
}

/// What follows when a device's FMMU is as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It is asked for this.
    Request(u8),
    /// It is in OP.
    Done,
}

/// One step of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Who is it?
    Visit(Visit),
    /// Compares its FMMU with the configuration; then this step.
    Mark(Then),
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
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) station: u16,
    /// Vendor, product, revision, serial number.
    pub(super) identity: [u32; 4],
    /// Second station address, 0 for none.
    pub(super) alias: u16,
    /// Others of the bus have the same identity and alias.
    pub(super) has_equals: bool,
    pub(super) script: Box<[Line]>,
    /// The content of its FMMU after its script.
    pub(super) mark: Option<Mark>,
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
#[derive(Clone, Debug)]
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
    /// From nothing: at this place on the cable something is that has no station of ours.
    pub(super) fn at_place(place: u16, is_credulous: bool, cycle: u64) -> Self {
        Self::from(Step::Visit(Visit::of(place, is_credulous, cycle)), cycle)
    }

    /// It answers at its station, in this AL state, with or without an error.
    pub(super) fn in_state(known: &Known, al_status: u8, cycle: u64) -> Self {
        let state = al_status & 0x0f;
        let then = match (state, al_status & ERROR) {
            (SAFEOP | OP, ERROR) => Then::Request(state | ERROR),
            (SAFEOP, _) => Then::Request(OP),
            (OP, _) => Then::Done,
            _ => return Self::from(Step::Request(INIT | ERROR), cycle),
        };

        let step = match (known.mark, then) {
            (Some(_), _) => Step::Mark(then),
            (None, Then::Request(control)) => Step::Request(control),
            (None, Then::Done) => Step::Request(OP),
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

    /// The visit that it begins with.
    pub(super) fn visit(&mut self) -> Option<&mut Visit> {
        if let Step::Visit(visit) = &mut self.step { Some(visit) } else { None }
    }

    /// The station by which it is asked who it is.
    pub(super) fn visiting(&self) -> Option<u16> {
        if let Step::Visit(visit) = &self.step { Some(visit.station) } else { None }
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
            Step::Visit(visit) => Some(visit.question(known)),
            Step::Mark(_) => known.mark.map(|mark| (mark.question(station), None)),
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
            Step::Visit(mut visit) => {
                let met = visit.answer(known, (data, counter), cycle);
                return self.met(known, visit, met, cycle);
            }
            // Whoever has changed it may have changed more.
            Step::Mark(_) if !known.mark.is_some_and(|mark| mark.stands_in(data)) => Step::Request(INIT | ERROR),
            Step::Mark(Then::Request(control)) => Step::Request(control),
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
            Step::Mark(Then::Done) | Step::Done => Step::Done,
        };

        if next == Step::Done {
            return Progress::Arrived;
        }
        if next == self.step {
            return if cycle - self.since > PATIENCE { self.gave_up() } else { Progress::Going };
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

    /// What a visit has come to.
    fn met(&mut self, known: &mut Known, visit: Visit, met: Met, cycle: u64) -> Progress {
        match met {
            Met::NotYet => {
                self.step = Step::Visit(visit);
                Progress::Going
            }
            Met::Known => {
                known.station = visit.station;
                self.enter(Step::Request(INIT | ERROR), known, cycle);
                Progress::Known
            }
            Met::Dismissed(why) => Progress::Dismissed(why),
            Met::Unread => Progress::Refused(0, 0),
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
