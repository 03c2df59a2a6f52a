//! AL states of one device, with the mailboxes that its EEPROM describes.

use std::time::Duration;

use onbeat_ethercat::al::{BOOT, DEVICE_ID, ERROR, INIT, OP, PREOP, SAFEOP, STATE, state_name};
use onbeat_ethercat::registers::{AL_CONTROL, AL_STATUS, SII_OWNER, SYNC_MANAGER};
use onbeat_ethercat::sii::SiiMailbox;
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::word;

use super::error::CommissionError;
use super::line::Line;

/// Time for a change of state, in s, and interval of the looks.
const WITHIN_S: u64 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Number of looks for a device ID, a millisecond apart.
const MOST_ID_LOOKS: usize = 100;
const ID_LOOK_EVERY: Duration = Duration::from_millis(1);
/// Offset of the bootstrap mailboxes in an EEPROM, in bytes.
const BOOTSTRAP: usize = 0x28;

/// Returns the name of a state, also of BOOT and of unknown ones.
pub(super) fn name(state: u8) -> &'static str {
    state_name(state).unwrap_or("an unknown AL state")
}

impl<W: Wire> Line<'_, W> {
    /// Takes a device to INIT, PREOP or BOOT from any state; to SAFEOP only from OP. Its mailboxes
    /// are configured from its EEPROM on the way.
    ///
    /// # Errors
    /// [`CommissionError::Refused`], [`CommissionError::Late`]; those of its EEPROM.
    pub fn request_state(&mut self, place: u16, state: u8) -> Result<(), CommissionError> {
        let (is, _) = self.state(place)?;
        match (is & STATE, state) {
            (OP | SAFEOP, SAFEOP) => self.change(place, SAFEOP),
            (PREOP | SAFEOP | OP, PREOP) => self.change(place, PREOP),
            (BOOT, BOOT) if is & ERROR == 0 => Ok(()),
            (_, PREOP | BOOT) => {
                self.change(place, INIT)?;
                self.set_up_mailboxes(place, state)?;
                self.change(place, state)
            }
            (_, state) => self.change(place, state),
        }
    }

    /// Requests the explicit device ID, as set by a switch of the device, which stays in its AL state
    /// (ETG.1020, explicit device identification). Returns `None` for a device that reports none
    /// within 0.1 s, and for one with an error that was not acknowledged.
    ///
    /// # Errors
    /// As [`Line::state`].
    pub fn device_id(&mut self, place: u16) -> Result<Option<u16>, CommissionError> {
        let (is, _) = self.state(place)?;
        if is & ERROR != 0 {
            return Ok(None);
        }

        self.write(place, AL_CONTROL, &[is | DEVICE_ID, 0])?;
        let mut id = None;
        for _ in 0..MOST_ID_LOOKS {
            let status = self.read(place, AL_STATUS, 6)?;
            if status[0] & DEVICE_ID != 0 {
                id = Some(word(&status, 4));
                break;
            }
            self.exchange.wait(ID_LOOK_EVERY);
        }
        self.write(place, AL_CONTROL, &[is, 0])?;
        Ok(id)
    }

    /// Requests a state and waits for it; acknowledges an earlier error.
    fn change(&mut self, place: u16, state: u8) -> Result<(), CommissionError> {
        let (is, _) = self.state(place)?;
        let acknowledge = if is & ERROR != 0 { ERROR } else { 0 };
        if acknowledge != 0 && state > is & STATE {
            self.write(place, AL_CONTROL, &[is & STATE | ERROR, 0])?;
            self.exchange.wait(LOOK_EVERY);
        }
        self.write(place, AL_CONTROL, &[state | acknowledge, 0])?;
        let until = self.exchange.wire.now().plus_ns(WITHIN_S * 1_000_000_000);
        loop {
            let (is, code) = self.state(place)?;
            if is == state {
                return Ok(());
            }
            if is & ERROR != 0 {
                return Err(CommissionError::Refused { place, state: name(state), code });
            }
            if self.exchange.wire.now() >= until {
                return Err(CommissionError::Late {
                    place,
                    is: name(is),
                    state: name(state),
                    seconds: WITHIN_S,
                });
            }
            self.exchange.wait(LOOK_EVERY);
        }
    }

    /// Configures SyncManagers 0 and 1 in INIT, for PREOP or BOOT, and gives the EEPROM to the
    /// device.
    fn set_up_mailboxes(&mut self, place: u16, state: u8) -> Result<(), CommissionError> {
        let image = self.read_sii(place)?;
        let mailbox =
            |at: usize| SiiMailbox { start: word(&image, at), length: word(&image, at + 2) };
        let (at, what) = if state == BOOT {
            (BOOTSTRAP, "bootstrap mailbox")
        } else {
            (BOOTSTRAP + 8, "mailbox")
        };
        let boxes = [mailbox(at), mailbox(at + 4)];
        let is_blank = image.iter().take(0x80).all(|byte| *byte == 0xff);
        let has_mailbox = !is_blank && boxes.iter().all(|one| one.length > 0);
        if !has_mailbox && state == BOOT {
            return Err(CommissionError::Unsupported { place, what });
        }

        if has_mailbox {
            /// Control of a mailbox written by the MainDevice, and by the device.
            const CONTROL: [u8; 2] = [0x26, 0x22];
            for (number, (one, control)) in (0..).zip(boxes.into_iter().zip(CONTROL)) {
                let [start, more] = one.start.to_le_bytes();
                let [length, longer] = one.length.to_le_bytes();
                let channel = [start, more, length, longer, control, 0, 1, 0];
                self.write(place, SYNC_MANAGER + 8 * number, &channel)?;
            }
        }
        // The device starts counting mails anew.
        self.counters.insert(place, 0);
        // Devices that need their EEPROM refuse PREOP without it (0x0050).
        self.write(place, SII_OWNER, &[1])
    }
}
