//! Recovery of one device to OP, one query and reply per cycle.
//!
//! ```text
//! lost ──▶ found by position ──▶ identification ──▶ INIT ──▶ script ──▶ clock ──▶ OP
//! fell back, or answers at its station address ──▶ FMMU as configured? ──▶ acknowledge ──▶ OP
//! ```
//!
//! No two devices have one station address ([`super::addresses`]), so a device that answers at its
//! station address is the one that was identified when it received it.
//!
//! The script is the device's recorded configuration: registers, start-up values, SYNC0, AL states.
//! During bring-up, [`super::preop_setup`] runs the same steps for the first time.

use onbeat_rt::frame::word;

use super::config_record::{ConfigStep, RegisterWrite};
use super::identification::{Identification, IdentificationResult, RejectReason};
use super::known_device::KnownDevice;
use super::register_query::{QueryReply, RegisterQuery};
use super::sdo::SdoTransfer;
use super::sync0::{Sync0Setup, long};
use onbeat_control::RequestFailure;
use onbeat_ethercat::al::{ERROR, INIT, OP, PREOP, SAFEOP};
use onbeat_ethercat::registers::{AL_CONTROL, AL_STATUS, SPEED_START, SYSTEM_TIME, TIME_OFFSET};

/// Maximum number of cycles for a change of state.
// In cycles, since frames are what the device sees: seconds at 1 kHz, and as many chances at any
// other rate.
const TIMEOUT_CYCLES: u64 = 5_000;

/// Maximum number of attempts to write a start-up value.
const MOST_TRIES: u8 = 4;
/// Value of the speed counter that restarts a clock's control loop (the value after power-on).
const SPEED: u16 = 0x1000;

/// Number of cycles a device has to process an acknowledgement.
const GRACE: u64 = 3;

/// Result of processing a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecoveryProgress {
    InProgress,
    /// In progress: a device at a position got a new station address, the second, in place of the
    /// first.
    Assigned(u16, u16),
    /// The device is in OP, or has completed its script.
    Done,
    /// The device is the expected one, and has its station address now.
    Identified,
    /// The device is another one, or its identity cannot be proven; it is in INIT without a station
    /// address.
    Rejected(RejectReason),
    /// The device refuses or does not reach a state: the state and its AL status code.
    StateRefused(u8, u16),
    /// The device refuses a start-up value: the step of the script and the reason.
    SdoRefused(usize, RequestFailure),
    /// The device does not answer.
    NoAnswer,
}

/// Next action when a device's FMMU is as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterFmmuCheck {
    /// Request this state.
    Request(u8),
    /// None: the device is in OP.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecoveryStep {
    /// Checks the identity.
    Identify(Identification),
    /// Compares an FMMU with the configuration, then continues with this.
    CheckFmmu(AfterFmmuCheck),
    /// Writes AL control, then waits for the state.
    Request(u8),
    Await(u8),
    /// Steps of the script.
    WriteRegister(usize),
    Object(usize),
    Sync0(usize),
    /// Steps that set the clock, before this step of the script.
    ReadClock(usize),
    SetClock(usize),
    ResetClockLoop(usize),
    Done,
}

/// Recovery of a device.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    step: RecoveryStep,
    since: u64,
    silent: u8,
    clock_offset: u64,
    /// The device went through INIT; its clock must be set again.
    clock_is_lost: bool,
    sync0: Sync0Setup,
    /// Attempts to write the current start-up value.
    tries: u8,
    /// The step of the script to stop before.
    until: Option<usize>,
}

impl Recovery {
    /// Starts for a device at this position that has no station address of this bus.
    pub(super) fn at_place(place: u16, skips_identity_check: bool, cycle: u64) -> Self {
        Self::from(
            RecoveryStep::Identify(Identification::new(place, skips_identity_check, cycle)),
            cycle,
        )
    }

    /// Starts for a device that answers at its station address with this AL status.
    pub(super) fn in_state(known: &KnownDevice, al_status: u8, cycle: u64) -> Self {
        let state = al_status & 0x0f;
        let then = match (state, al_status & ERROR) {
            // Acknowledging an error keeps the state; the device then says where it really is.
            (SAFEOP | OP, ERROR) => AfterFmmuCheck::Request(state | ERROR),
            (SAFEOP, _) => AfterFmmuCheck::Request(OP),
            (OP, _) => AfterFmmuCheck::Done,
            _ => return Self::from(RecoveryStep::Request(INIT | ERROR), cycle),
        };

        // A device in SAFEOP or OP may have been set up by somebody else meanwhile. The mark is the
        // FMMU that only this run has written.
        let step = match (known.mark, then) {
            (Some(_), _) => RecoveryStep::CheckFmmu(then),
            (None, AfterFmmuCheck::Request(control)) => RecoveryStep::Request(control),
            (None, AfterFmmuCheck::Done) => RecoveryStep::Request(OP),
        };

        Self::from(step, cycle)
    }

    /// Starts in SAFEOP, for devices that were just configured.
    pub(super) fn in_safeop(cycle: u64) -> Self {
        Self::from(RecoveryStep::Request(OP), cycle)
    }

    /// Runs the script from this step to its present end, without requesting OP afterwards.
    pub(super) fn from_line(known: &mut KnownDevice, line: usize, cycle: u64) -> Self {
        let mut recovery =
            Self { until: Some(known.script.len()), ..Self::from(RecoveryStep::Done, cycle) };
        let first = recovery.at_line(known, line);
        recovery.enter(first, known, cycle);
        recovery
    }

    fn from(step: RecoveryStep, cycle: u64) -> Self {
        Self {
            step,
            since: cycle,
            silent: 0,
            clock_offset: 0,
            clock_is_lost: false,
            sync0: Sync0Setup::begin(),
            tries: 0,
            until: None,
        }
    }

    /// Returns the start-up transfer of the current step.
    pub(super) fn transfer<'k>(&self, known: &'k mut KnownDevice) -> Option<&'k mut SdoTransfer> {
        let RecoveryStep::Object(line) = self.step else { return None };
        match known.script.get_mut(line) {
            Some(ConfigStep::Object(transfer)) => Some(transfer),
            _ => None,
        }
    }

    /// Returns the identification of the current step.
    pub(super) fn identification(&mut self) -> Option<&mut Identification> {
        if let RecoveryStep::Identify(identification) = &mut self.step {
            Some(identification)
        } else {
            None
        }
    }

    /// Returns the station address used for the identification.
    pub(super) fn identifying_station(&self) -> Option<u16> {
        if let RecoveryStep::Identify(identification) = &self.step {
            Some(identification.station)
        } else {
            None
        }
    }

    /// Returns whether all steps are done.
    pub(super) fn is_done(&self) -> bool {
        self.step == RecoveryStep::Done
    }

    /// Returns whether the current step configures SYNC0.
    pub(super) fn is_at_sync0(&self) -> bool {
        matches!(self.step, RecoveryStep::Sync0(_))
    }

    /// Returns the next query, and a second one for the same frame. `reference` is the station
    /// address of the reference clock.
    pub(super) fn query(
        &self,
        known: &KnownDevice,
        reference: Option<u16>,
    ) -> Option<(RegisterQuery, Option<RegisterQuery>)> {
        let station = known.station;
        let one = |question| Some((question, None));
        match self.step {
            RecoveryStep::Identify(identification) => Some(identification.query(known)),
            RecoveryStep::CheckFmmu(_) => known.mark.map(|mark| (mark.query(station), None)),
            RecoveryStep::Request(control) => {
                one(RegisterQuery::write(station, AL_CONTROL, &[control, 0]))
            }

            // Mails do not show whether a device is gone or left PREOP, so its AL status is read
            // beside them.
            RecoveryStep::Await(_) | RecoveryStep::Object(_) => {
                one(RegisterQuery::read(station, AL_STATUS, 6))
            }
            RecoveryStep::WriteRegister(line) => {
                let written = known.script[line].written()?;
                one(RegisterQuery::write(station, written.register, &written.bytes))
            }

            RecoveryStep::Sync0(line) => {
                let ConfigStep::Sync0(wanted) = known.script[line] else { return None };
                Some(self.sync0.query(station, wanted))
            }

            RecoveryStep::ReadClock(_) => reference.map(|reference| {
                (
                    RegisterQuery::read(station, SYSTEM_TIME, 24),
                    Some(RegisterQuery::read(reference, SYSTEM_TIME, 8)),
                )
            }),
            RecoveryStep::SetClock(_) => {
                one(RegisterQuery::write(station, TIME_OFFSET, &self.clock_offset.to_le_bytes()))
            }
            RecoveryStep::ResetClockLoop(_) => {
                one(RegisterQuery::write(station, SPEED_START, &SPEED.to_le_bytes()))
            }
            RecoveryStep::Done => None,
        }
    }

    /// Processes the reply to the first query, and the data of the second.
    pub(super) fn answer(
        &mut self,
        known: &mut KnownDevice,
        reply: QueryReply<'_>,
        second: Option<&[u8]>,
        cycle: u64,
    ) -> RecoveryProgress {
        let QueryReply { data, counter } = reply;
        // Nobody took the datagram. Three times in a row, because one lost frame is no lost device.
        if counter == 0 {
            self.silent += 1;
            return if self.silent >= 3 {
                RecoveryProgress::NoAnswer
            } else {
                RecoveryProgress::InProgress
            };
        }

        self.silent = 0;
        if let RecoveryStep::Identify(mut identification) = self.step {
            let result = identification.answer(known, reply, cycle);
            return self.take_identification(known, identification, result, cycle);
        }

        match self.next_step(known, data, second, cycle) {
            Err(progress) => progress,
            Ok(RecoveryStep::Done) => RecoveryProgress::Done,
            Ok(same) if same == self.step && cycle - self.since > TIMEOUT_CYCLES => self.time_out(),
            Ok(same) if same == self.step => RecoveryProgress::InProgress,
            Ok(next) => {
                self.enter(next, known, cycle);
                RecoveryProgress::InProgress
            }
        }
    }

    /// Returns the step after the reply; the same one while the device is not ready.
    ///
    /// # Errors
    /// How the recovery ends, if the device refuses.
    fn next_step(
        &mut self,
        known: &mut KnownDevice,
        data: &[u8],
        second: Option<&[u8]>,
        cycle: u64,
    ) -> Result<RecoveryStep, RecoveryProgress> {
        Ok(match self.step {
            RecoveryStep::Identify(_) => self.step,
            // Another MainDevice may have changed more than the FMMU.
            RecoveryStep::CheckFmmu(_) if !known.mark.is_some_and(|mark| mark.matches(data)) => {
                RecoveryStep::Request(INIT | ERROR)
            }
            RecoveryStep::CheckFmmu(AfterFmmuCheck::Request(control)) => {
                RecoveryStep::Request(control)
            }

            RecoveryStep::Request(control) => {
                // A device that went through INIT may have been without power: its clock starts
                // anew and has to be set.
                self.clock_is_lost |= control & 0x0f == INIT;
                RecoveryStep::Await(control & 0x0f)
            }
            RecoveryStep::Await(state) => match self.arrived(data, state, cycle) {
                Ok(true) => self.after(known, state),
                Ok(false) => RecoveryStep::Await(state),
                Err(code) => return Err(RecoveryProgress::StateRefused(state, code)),
            },

            RecoveryStep::WriteRegister(line) => self.at_line(known, line + 1),
            RecoveryStep::Object(line) => {
                if self.startup_written(known, line, data, cycle)? {
                    self.at_line(known, line + 1)
                } else {
                    self.step
                }
            }

            RecoveryStep::Sync0(line) => {
                let ConfigStep::Sync0(wanted) = known.script[line] else {
                    return Err(self.time_out());
                };
                if self.sync0.answer(wanted, data, second) {
                    self.at_line(known, line + 1)
                } else {
                    self.step
                }
            }

            RecoveryStep::ReadClock(line) => {
                self.read_clock(data, second);
                RecoveryStep::SetClock(line)
            }
            RecoveryStep::SetClock(line) => RecoveryStep::ResetClockLoop(line),
            // After setting the offset the control loop still remembers the old difference and
            // would pull for seconds (register 0x0930).
            RecoveryStep::ResetClockLoop(line) => {
                self.clock_is_lost = false;
                self.at_line(known, line)
            }
            RecoveryStep::CheckFmmu(AfterFmmuCheck::Done) | RecoveryStep::Done => {
                RecoveryStep::Done
            }
        })
    }

    fn enter(&mut self, step: RecoveryStep, known: &mut KnownDevice, cycle: u64) {
        (self.step, self.since, self.tries, self.sync0) = (step, cycle, 1, Sync0Setup::begin());
        if let Some(transfer) = self.transfer(known) {
            transfer.restart();
        }
    }

    /// Processes the result of an identification.
    fn take_identification(
        &mut self,
        known: &mut KnownDevice,
        identification: Identification,
        result: IdentificationResult,
        cycle: u64,
    ) -> RecoveryProgress {
        match result {
            IdentificationResult::InProgress => {
                self.step = RecoveryStep::Identify(identification);
                RecoveryProgress::InProgress
            }
            IdentificationResult::Assigned(before) => {
                self.step = RecoveryStep::Identify(identification);
                RecoveryProgress::Assigned(before, identification.station)
            }
            IdentificationResult::Identified => {
                // Only now: until its identity is proven, the address belongs to no device, and no
                // set-point can reach it.
                known.station = identification.station;
                // From the beginning: what a device holds that was away is not known.
                self.enter(RecoveryStep::Request(INIT | ERROR), known, cycle);
                RecoveryProgress::Identified
            }
            IdentificationResult::Rejected(why) => RecoveryProgress::Rejected(why),
            IdentificationResult::Unreadable => RecoveryProgress::StateRefused(0, 0),
        }
    }

    fn time_out(&self) -> RecoveryProgress {
        let state = match self.step {
            RecoveryStep::Await(state) => state,
            RecoveryStep::Sync0(_) => SAFEOP,
            _ => 0,
        };
        RecoveryProgress::StateRefused(state, 0)
    }

    /// Returns whether the start-up value of this step was written; retries without a response.
    fn startup_written(
        &mut self,
        known: &mut KnownDevice,
        line: usize,
        data: &[u8],
        cycle: u64,
    ) -> Result<bool, RecoveryProgress> {
        let state = data[0] & 0x0f;
        if data[0] & ERROR != 0 || state < PREOP {
            return Err(RecoveryProgress::StateRefused(PREOP, word(data, 4)));
        }

        let Some(transfer) = self.transfer(known) else { return Ok(true) };
        match transfer.written() {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            // A mailbox may have dropped a mail at the moment of the fault. A refusal with a code
            // is final.
            Some(Err(RequestFailure::NoReply)) if self.tries < MOST_TRIES => {
                transfer.restart();
                (self.tries, self.since) = (self.tries + 1, cycle);
                Ok(false)
            }
            Some(Err(failure)) => Err(RecoveryProgress::SdoRefused(line, failure)),
        }
    }

    /// Returns whether the state is reached, or the AL status code of a refusal.
    fn arrived(&self, data: &[u8], state: u8, cycle: u64) -> Result<bool, u16> {
        let status = data[0] & 0x1f;
        match status & ERROR {
            0 => Ok(status & 0x0f == state),
            // The previous error stays set until the device has processed the acknowledgement.
            // Some cycles for the acknowledgement to be processed, or each recovery would end at
            // the error it is there to clear.
            _ if cycle - self.since < GRACE => Ok(false),
            _ => Err(word(data, 4)),
        }
    }

    /// Computes the offset that sets the device's system time to the reference. Both were read in
    /// one frame.
    fn read_clock(&mut self, data: &[u8], second: Option<&[u8]>) {
        let system = long(data);
        let offset = long(&data[usize::from(TIME_OFFSET - SYSTEM_TIME)..]);
        let reference = second.map_or(system, long);
        // Modulo 2^64, as the registers count.
        self.clock_offset = offset.wrapping_add(reference.wrapping_sub(system));
    }

    /// Returns the step after reaching `state`.
    fn after(&self, known: &KnownDevice, state: u8) -> RecoveryStep {
        match state {
            OP => RecoveryStep::Done,
            INIT => self.at_line(known, 0),
            // The script requested this state itself: continue after that step.
            state => match known.script.iter().position(|line| is_request(line, state)) {
                Some(line) => self.at_line(known, line + 1),
                None => self.at_line(known, known.script.len()),
            },
        }
    }

    /// Returns the recovery step for a step of the script, or for its end.
    fn at_line(&self, known: &KnownDevice, line: usize) -> RecoveryStep {
        // A recovery of a part of the script ends where the part ends.
        if self.until == Some(line) {
            return RecoveryStep::Done;
        }
        match known.script.get(line) {
            Some(ConfigStep::Register(RegisterWrite { register: AL_CONTROL, bytes })) => {
                RecoveryStep::Request(bytes.first().copied().unwrap_or(INIT))
            }
            Some(ConfigStep::Register(_)) => RecoveryStep::WriteRegister(line),
            Some(ConfigStep::Object(_)) => RecoveryStep::Object(line),
            // SYNC0 needs a synchronised clock; other devices' clocks are set at the end.
            Some(ConfigStep::Sync0(_)) | None if self.clock_is_lost && known.has_clock => {
                RecoveryStep::ReadClock(line)
            }
            Some(ConfigStep::Sync0(_)) => RecoveryStep::Sync0(line),
            None => RecoveryStep::Request(OP),
        }
    }
}

fn is_request(line: &ConfigStep, state: u8) -> bool {
    let Some(written) = line.written() else { return false };
    written.register == AL_CONTROL
        && written.bytes.first().is_some_and(|control| control & 0x0f == state)
}
