//! Identification of the device at a position, before it is recovered.
//!
//! ```text
//! new station address, by position ──▶ vendor, product, revision, serial number ──▶ alias ──▶ position proven? ──▶ identified
//!                                                  │ differs                     │ differs      │ not provable
//!                                                  └──────▶ INIT, no station address ◀──────────┘
//! ```
//!
//! Only the first query addresses the device by position. All others use the new station address,
//! which no other device has or will have. Whatever happens to cables and other station addresses,
//! one device answers and is configured afterwards.
//!
//! Devices of one type without serial number and alias report the same identity. For these, either
//! the FMMU content must still be the configured one, or all other devices of the type must be at
//! their positions; [`super::position_scan`] checks the latter.

use onbeat_ethercat::al::{DEVICE_ID, ERROR, INIT};
use onbeat_ethercat::registers::{
    AL_CONTROL, AL_STATUS, ALIAS, SII_BUSY, SII_CONTROL, SII_DATA, SII_OWNER, SII_READ, STATION,
};
use onbeat_rt::frame::{Command, position, register, word};

use super::known_device::KnownDevice;
use super::register_query::{QueryReply, RegisterQuery, sii_request};

/// EEPROM words of vendor, product, revision and serial number.
const IDENTITY: [u16; 4] = [0x0008, 0x000a, 0x000c, 0x000e];
/// Maximum number of cycles for an EEPROM read.
// In cycles of a running bus: the EEPROM is read beside process data that must not wait.
const EEPROM_TIMEOUT_CYCLES: u64 = 50;
/// Maximum number of cycles for the proof of its position, enough for devices recovered
/// concurrently.
const PROOF_TIMEOUT_CYCLES: u64 = 100;
/// Maximum number of cycles until a device reports its device ID.
const ID_TIMEOUT_CYCLES: u64 = 100;
/// Maximum number of attempts, each with a new station address.
const MAX_ATTEMPTS: u8 = 20;

/// Reason why a device is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectReason {
    /// Another device: what differs (1 vendor, 2 product, 3 revision, 4 serial number, 5 alias,
    /// 6 device ID), and its value.
    Other(u16, u32),
    /// Possibly another device of the same type.
    InDoubt,
}

/// Result of processing a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdentificationResult {
    /// More queries follow.
    InProgress,
    /// The device at the position has the new station address; this was its address before.
    Assigned(u16),
    /// The device is the expected one.
    Identified,
    /// The device is another one, and was reset to INIT.
    Rejected(RejectReason),
    /// The identity could not be read.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdentificationStep {
    SetStation,
    TakeSii,
    RequestSii(usize),
    AwaitSii(usize),
    ReadSii(usize),
    Alias,
    RequestId,
    AwaitId,
    CheckFmmu,
    AwaitProof,
    Proven,
    Reject(RejectReason),
}

/// State of an identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identification {
    place: u16,
    pub(super) station: u16,
    step: IdentificationStep,
    since: u64,
    /// A value differed once; a single difference may be a bit error.
    differs: bool,
    attempts: u8,
    /// Accepts any device; for tests that must detect the difference.
    skips_identity_check: bool,
}

impl Identification {
    pub(super) fn new(place: u16, skips_identity_check: bool, cycle: u64) -> Self {
        let step = IdentificationStep::SetStation;
        Self {
            place,
            station: 0,
            step,
            since: cycle,
            differs: false,
            attempts: 1,
            skips_identity_check,
        }
    }

    /// Returns whether the next frame assigns a station address. Each attempt needs a new one: an
    /// earlier frame may have reached a device that has moved since.
    pub(super) fn needs_station(&self) -> bool {
        self.step == IdentificationStep::SetStation
    }

    /// Returns whether only the position can prove the identity.
    pub(super) fn needs_proof(&self) -> bool {
        self.step == IdentificationStep::AwaitProof
    }

    /// Records that the device and all others of its type are at their positions.
    pub(super) fn prove(&mut self) {
        if self.step == IdentificationStep::AwaitProof {
            self.step = IdentificationStep::Proven;
        }
    }

    pub(super) fn query(&self, known: &KnownDevice) -> (RegisterQuery, Option<RegisterQuery>) {
        let station = self.station;
        let first = match self.step {
            IdentificationStep::SetStation => {
                // By position, the one command that may reach another device if the cable changes in
                // this very cycle. What follows goes by the address alone.
                // Both in one frame, so the address before is that of the device that is written,
                // also when another one is at the position by now.
                let address = register(position(self.place), STATION);
                let mut before = RegisterQuery::read(0, STATION, 2);
                (before.command, before.address) = (Command::Aprd, address);
                let mut write = RegisterQuery::write(0, STATION, &station.to_le_bytes());
                (write.command, write.address) = (Command::Apwr, address);
                return (before, Some(write));
            }
            IdentificationStep::TakeSii => RegisterQuery::write(station, SII_OWNER, &[0, 0]),
            IdentificationStep::RequestSii(number) => {
                let request = sii_request(SII_READ, IDENTITY[number]);
                RegisterQuery::write(station, SII_CONTROL, &request)
            }
            IdentificationStep::AwaitSii(_) => RegisterQuery::read(station, SII_CONTROL, 2),
            IdentificationStep::ReadSii(_) => RegisterQuery::read(station, SII_DATA, 4),
            IdentificationStep::Alias => RegisterQuery::read(station, ALIAS, 2),
            // By its own address, which identifies the device that answers.
            IdentificationStep::RequestId => {
                RegisterQuery::write(station, AL_CONTROL, &[INIT | ERROR | DEVICE_ID, 0])
            }
            IdentificationStep::AwaitId => RegisterQuery::read(station, AL_STATUS, 6),
            IdentificationStep::CheckFmmu => known
                .mark
                .map_or(RegisterQuery::read(station, AL_STATUS, 6), |mark| mark.query(station)),
            IdentificationStep::AwaitProof | IdentificationStep::Proven => {
                RegisterQuery::read(station, AL_STATUS, 6)
            }
            IdentificationStep::Reject(_) => {
                // INIT, and its address taken away: the device must not answer to anything that is
                // meant for another.
                let stop = RegisterQuery::write(station, AL_CONTROL, &[INIT | ERROR, 0]);
                return (stop, Some(RegisterQuery::write(station, STATION, &[0, 0])));
            }
        };

        (first, None)
    }

    /// Processes the reply to the query.
    pub(super) fn answer(
        &mut self,
        known: &KnownDevice,
        QueryReply { data, counter }: QueryReply<'_>,
        cycle: u64,
    ) -> IdentificationResult {
        if counter != 1 && !self.skips_identity_check {
            // The station address is unique, so another count is an error. The address is not used
            // again.
            self.attempts += 1;
            self.enter(IdentificationStep::SetStation, cycle);
            return if self.attempts > MAX_ATTEMPTS {
                IdentificationResult::Unreadable
            } else {
                IdentificationResult::InProgress
            };
        }

        let next = match self.next(known, data) {
            Ok(IdentificationStep::Proven) => return IdentificationResult::Identified,
            Ok(next) => next,
            Err(result) => return result,
        };

        if self.step == IdentificationStep::SetStation {
            self.enter(next, cycle);
            return IdentificationResult::Assigned(word(data, 0));
        }

        let passed = cycle.saturating_sub(self.since);
        match self.step {
            _ if next != self.step => self.enter(next, cycle),
            IdentificationStep::AwaitProof if passed > PROOF_TIMEOUT_CYCLES => {
                self.enter(IdentificationStep::Reject(RejectReason::InDoubt), cycle);
            }
            IdentificationStep::AwaitSii(_) if passed > EEPROM_TIMEOUT_CYCLES => {
                return IdentificationResult::Unreadable;
            }
            IdentificationStep::AwaitId if passed > ID_TIMEOUT_CYCLES => {
                let next = self.other(IdentificationStep::RequestId, 6, 0);
                self.enter(next, cycle);
            }
            _ => {}
        }

        IdentificationResult::InProgress
    }

    /// Returns the next step, or the result.
    fn next(
        &mut self,
        known: &KnownDevice,
        data: &[u8],
    ) -> Result<IdentificationStep, IdentificationResult> {
        Ok(match self.step {
            IdentificationStep::SetStation if self.skips_identity_check => {
                return Err(IdentificationResult::Identified);
            }
            IdentificationStep::SetStation => IdentificationStep::TakeSii,
            IdentificationStep::TakeSii => IdentificationStep::RequestSii(0),
            IdentificationStep::RequestSii(number) => IdentificationStep::AwaitSii(number),
            IdentificationStep::AwaitSii(number) if word(data, 0) & SII_BUSY != 0 => {
                IdentificationStep::AwaitSii(number)
            }
            IdentificationStep::AwaitSii(number) => IdentificationStep::ReadSii(number),
            IdentificationStep::ReadSii(number) => self.read(known, number, data),

            IdentificationStep::Alias if word(data, 0) != known.alias => {
                self.other(IdentificationStep::Alias, 5, u32::from(word(data, 0)))
            }
            IdentificationStep::Alias => IdentificationStep::after_alias(known),
            IdentificationStep::RequestId => IdentificationStep::AwaitId,
            IdentificationStep::AwaitId if data[0] & DEVICE_ID == 0 => IdentificationStep::AwaitId,
            IdentificationStep::AwaitId if word(data, 4) != known.device_id => {
                self.other(IdentificationStep::RequestId, 6, u32::from(word(data, 4)))
            }
            IdentificationStep::AwaitId => IdentificationStep::after_id(known),

            // It still has the mapping that only this run has written: it is the device that was
            // there before.
            IdentificationStep::CheckFmmu if known.mark.is_some_and(|mark| mark.matches(data)) => {
                IdentificationStep::Proven
            }
            IdentificationStep::CheckFmmu | IdentificationStep::AwaitProof => {
                IdentificationStep::AwaitProof
            }

            IdentificationStep::Proven => IdentificationStep::Proven,
            IdentificationStep::Reject(why) => return Err(IdentificationResult::Rejected(why)),
        })
    }

    fn enter(&mut self, step: IdentificationStep, cycle: u64) {
        (self.step, self.since) = (step, cycle);
    }

    fn read(&mut self, known: &KnownDevice, number: usize, data: &[u8]) -> IdentificationStep {
        let value = u32::from_le_bytes([data[0], data[1], data[2], data[3]]);
        if !known.accepts(number, value) {
            return self.other(IdentificationStep::RequestSii(number), number as u16 + 1, value);
        }

        match () {
            () if number + 1 < IDENTITY.len() => IdentificationStep::RequestSii(number + 1),
            () if known.alias != 0 => IdentificationStep::Alias,
            () => IdentificationStep::after_alias(known),
        }
    }

    /// Handles a value that differs: reads again once, then rejects the device.
    fn other(&mut self, again: IdentificationStep, what: u16, value: u32) -> IdentificationStep {
        // Read once more before it is rejected: one flipped bit of an EEPROM's answer would put a
        // good device into INIT.
        if std::mem::replace(&mut self.differs, true) {
            IdentificationStep::Reject(RejectReason::Other(what, value))
        } else {
            again
        }
    }
}

impl IdentificationStep {
    fn after_alias(known: &KnownDevice) -> Self {
        if known.device_id != 0 { Self::RequestId } else { Self::after_id(known) }
    }

    fn after_id(known: &KnownDevice) -> Self {
        // Identity is proof only where no other device on this bus has the same.
        if known.has_identical { Self::CheckFmmu } else { Self::Proven }
    }
}
