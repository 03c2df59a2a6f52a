//! The EEPROM of a device: read and written word by word (ETG.1000.4, 6.4).

use std::time::Duration;

use onbeat_ethercat::registers::{
    SII_BUSY, SII_CONTROL, SII_DATA, SII_OWNER, SII_READ, SII_READS_EIGHT, SII_REFUSED,
};
use onbeat_ethercat::sii::{Sii, checksum};
use onbeat_ethercat::wire::Wire;
use onbeat_rt::frame::word;

use super::error::CommissionError;
use super::line::Line;
use crate::bus::sii_request;

/// Command in the SII control: write, which needs its enable bit.
const WRITE: u16 = 0x0201;
/// Command: load the configuration area again.
const RELOAD: u16 = 0x0400;
/// Bits of the SII status that refuse an access: acknowledge or command, write enable.
const REFUSED: u16 = SII_REFUSED | 0x4000;
/// Largest chip, in bytes: word addresses have 16 bits.
const LARGEST: usize = 131_072;
/// Smallest image that is read.
const FIXED: usize = 0x80;
/// Word of the alias, and of the checksum in its lower byte.
const ALIAS: usize = 4;
/// Time for an access, and interval of the looks.
const BUSY_WITHIN_NS: u64 = 1_000_000_000;
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Returns the alias in an EEPROM image.
#[must_use]
pub fn alias_of(image: &[u8]) -> u16 {
    image.get(2 * ALIAS..2 * ALIAS + 2).map_or(0, |bytes| word(bytes, 0))
}

/// Returns the first eight words of an EEPROM with another alias, and the checksum that fits.
///
/// ```
/// use onbeat_ethercat::sii::checksum;
/// use onbeat_robot::commission::{alias_of, with_alias};
///
/// let area = with_alias(&[0; 16], 1001);
/// assert_eq!((alias_of(&area), area[14]), (1001, checksum(&area[..14])));
/// ```
#[must_use]
pub fn with_alias(image: &[u8], alias: u16) -> [u8; 16] {
    let mut area = [0; 16];
    let known = image.len().min(16);
    area[..known].copy_from_slice(&image[..known]);
    area[2 * ALIAS..2 * ALIAS + 2].copy_from_slice(&alias.to_le_bytes());
    area[14] = checksum(&area[..14]);
    area
}

impl<W: Wire> Line<'_, W> {
    /// Reads the whole EEPROM: as many bytes as its word 0x3E says.
    ///
    /// # Errors
    /// [`CommissionError::Eeprom`] when it stays busy or refuses.
    pub fn read_sii(&mut self, place: u16) -> Result<Vec<u8>, CommissionError> {
        self.with_eeprom(place, |line| {
            let mut image = Vec::new();
            let mut size = FIXED;
            while image.len() < size {
                let bytes = line.read_words(place, (image.len() / 2) as u16)?;
                image.extend_from_slice(&bytes);
                if image.len() >= FIXED && size == FIXED {
                    let kilobits = usize::from(word(&image, 0x7c));
                    let is_blank = image.iter().all(|byte| *byte == 0xff);
                    size =
                        if is_blank { FIXED } else { ((kilobits + 1) * 128).clamp(FIXED, LARGEST) };
                }
            }
            image.truncate(size);
            Ok(image)
        })
    }

    /// Reads the EEPROM and decodes it.
    ///
    /// # Errors
    /// As [`Line::read_sii`]; [`CommissionError::Sii`].
    pub fn sii(&mut self, place: u16) -> Result<Sii, CommissionError> {
        let image = self.read_sii(place)?;
        Sii::decode(&image).map_err(|why| CommissionError::Sii { place, why })
    }

    /// Writes words from an address on, only those that differ, and reads each of them back. Calls
    /// `progress` after each with its number. Returns the number of words that differed.
    ///
    /// # Errors
    /// [`CommissionError::Eeprom`], [`CommissionError::NotWritten`].
    pub fn write_sii(
        &mut self,
        place: u16,
        from: u16,
        bytes: &[u8],
        mut progress: impl FnMut(usize),
    ) -> Result<usize, CommissionError> {
        self.with_eeprom(place, |line| {
            let mut changed = 0;
            for (number, value) in bytes.chunks(2).enumerate() {
                let address = from.wrapping_add(number as u16);
                let is = line.read_words(place, address)?;
                let should = [value[0], value.get(1).copied().unwrap_or(is[1])];
                if is[..2] != should {
                    line.write(place, SII_DATA, &should)?;
                    line.command_eeprom(place, WRITE, address)?;
                    let is = line.read_words(place, address)?;
                    if is[..2] != should {
                        return Err(CommissionError::NotWritten {
                            place,
                            word: address,
                            is: word(&is, 0),
                            should: word(&should, 0),
                        });
                    }
                    changed += 1;
                }
                progress(number + 1);
            }
            Ok(changed)
        })
    }

    /// Makes the device load the configuration area of its EEPROM again: the alias is in effect.
    ///
    /// # Errors
    /// [`CommissionError::Eeprom`].
    pub fn reload_sii(&mut self, place: u16) -> Result<(), CommissionError> {
        self.with_eeprom(place, |line| {
            line.write(place, SII_CONTROL, &RELOAD.to_le_bytes())?;
            line.await_eeprom(place).map(|_| ())
        })
    }

    /// Takes the EEPROM from the device for `work`, and gives it back as it was.
    fn with_eeprom<T>(
        &mut self,
        place: u16,
        work: impl FnOnce(&mut Self) -> Result<T, CommissionError>,
    ) -> Result<T, CommissionError> {
        /// The device owns the EEPROM; the MainDevice takes it by force.
        const DEVICE: u8 = 0x01;
        const BY_FORCE: u8 = 0x02;
        let owner = self.read(place, SII_OWNER, 2)?;
        if owner[0] & DEVICE != 0 || owner[1] & 1 != 0 {
            self.write(place, SII_OWNER, &[BY_FORCE])?;
            self.write(place, SII_OWNER, &[0])?;
        }

        let result = work(self);
        if owner[0] & DEVICE != 0 {
            self.write(place, SII_OWNER, &[DEVICE])?;
        }
        result
    }

    /// Reads four or eight bytes at a word address.
    fn read_words(&mut self, place: u16, address: u16) -> Result<Vec<u8>, CommissionError> {
        self.await_eeprom(place)?;
        let status = self.command_eeprom(place, SII_READ, address)?;
        let length = if status & SII_READS_EIGHT != 0 { 8 } else { 4 };
        self.read(place, SII_DATA, length)
    }

    /// Gives a command and waits for its end; returns the status.
    fn command_eeprom(
        &mut self,
        place: u16,
        command: u16,
        address: u16,
    ) -> Result<u16, CommissionError> {
        self.write(place, SII_CONTROL, &sii_request(command, address))?;
        match self.await_eeprom(place)? {
            status if status & REFUSED != 0 => Err(CommissionError::Eeprom { place, status }),
            status => Ok(status),
        }
    }

    /// Waits until the EEPROM is not busy; returns its status.
    fn await_eeprom(&mut self, place: u16) -> Result<u16, CommissionError> {
        let until = self.exchange.wire.now().plus_ns(BUSY_WITHIN_NS);
        loop {
            // Before the look: this process may be stopped between both.
            let is_over = self.exchange.wire.now() >= until;
            let status = self.word(place, SII_CONTROL)?;
            if status & SII_BUSY == 0 {
                return Ok(status);
            }
            if is_over {
                return Err(CommissionError::Eeprom { place, status });
            }
            self.exchange.wait(LOOK_EVERY);
        }
    }
}
