//! The EEPROM with the SubDevice information (SII), and the registers through which it is read and written.

use super::registers::{SII_ADDRESS, SII_CONTROL, SII_DATA, long, word};
use onbeat_ethercat::sii::checksum;

/// Bits of the control and status word.
const WRITE_ENABLE: u16 = 0x0001;
const READS_EIGHT: u16 = 0x0040;
const TWO_ADDRESS_BYTES: u16 = 0x0080;
/// Chips of up to 16 kbit have addresses of one byte (ETG.1000.4, register 0x0502).
const LARGEST_WITH_ONE: usize = 2_048;
const COMMAND: u16 = 0x0700;
pub(crate) const CHECKSUM_ERROR: u16 = 0x0800;
pub(crate) const NOT_LOADED: u16 = 0x1000;
const COMMAND_ERROR: u16 = 0x2000;
const WRITE_ENABLE_ERROR: u16 = 0x4000;
pub(crate) const BUSY: u16 = 0x8000;

/// What an access left for the device to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Nothing,
    /// Configuration area and alias are to be loaded again.
    Reload,
}

/// EEPROM and its interface.
#[derive(Clone, Debug)]
pub(crate) struct Eeprom {
    bytes: Vec<u8>,
    /// How long each access takes, in ns.
    pub(crate) access_ns: u64,
    /// Busy for ever, whatever is asked: a fault.
    pub(crate) stuck: bool,
    /// Reads as a chip that was never written: a fault.
    pub(crate) blank: bool,
    busy_until_ns: u64,
    errors: u16,
}

impl Eeprom {
    pub(crate) fn new(bytes: Vec<u8>, access_ns: u64) -> Self {
        Self { bytes, access_ns, stuck: false, blank: false, busy_until_ns: 0, errors: 0 }
    }

    /// Eight bytes from a word address on; all ones beyond the chip's end and from a blank chip.
    fn eight_at(&self, word_address: u32) -> [u8; 8] {
        let at = usize::try_from(word_address).unwrap_or(usize::MAX).saturating_mul(2);
        std::array::from_fn(|byte| match self.bytes.get(at.saturating_add(byte)) {
            Some(&value) if !self.blank => value,
            _ => 0xff,
        })
    }

    /// Alias and words of the configuration area for the registers, when its checksum holds.
    pub(crate) fn load(&mut self) -> Option<[u8; 16]> {
        let low = self.eight_at(0);
        let high = self.eight_at(4);
        let mut area = [0; 16];
        area[..8].copy_from_slice(&low);
        area[8..].copy_from_slice(&high);
        let holds = checksum(&area[..14]) == area[14];
        self.errors = if holds { 0 } else { CHECKSUM_ERROR | if self.blank { NOT_LOADED } else { 0 } };

        holds.then_some(area)
    }

    /// Makes the checksum of the configuration area wrong, or right again.
    pub(crate) fn spoil_checksum(&mut self) {
        if let Some(byte) = self.bytes.get_mut(14) {
            *byte ^= 0x5a;
        }
        self.load();
    }

    /// The control and status word at `now_ns`.
    pub(crate) fn status(&self, now_ns: u64) -> u16 {
        let busy = if self.stuck || now_ns < self.busy_until_ns { BUSY } else { 0 };
        let address = if self.bytes.len() > LARGEST_WITH_ONE { TWO_ADDRESS_BYTES } else { 0 };
        READS_EIGHT | address | self.errors | busy
    }

    /// Carries out the command in `registers`, which were just written at `now_ns`.
    pub(crate) fn command(&mut self, registers: &mut [u8], now_ns: u64) -> After {
        let control = word(registers, SII_CONTROL);
        if self.status(now_ns) & BUSY != 0 || control & COMMAND == 0 {
            self.errors &= if control & COMMAND == 0 { CHECKSUM_ERROR | NOT_LOADED } else { 0xffff };
            return After::Nothing;
        }

        self.errors &= CHECKSUM_ERROR | NOT_LOADED;
        self.busy_until_ns = now_ns.saturating_add(self.access_ns);
        let address = long(registers, SII_ADDRESS);
        match (control & COMMAND) >> 8 {
            1 => registers[SII_DATA..SII_DATA + 8].copy_from_slice(&self.eight_at(address)),
            2 if control & WRITE_ENABLE == 0 => self.errors |= WRITE_ENABLE_ERROR,
            2 => self.write(address, [registers[SII_DATA], registers[SII_DATA + 1]]),
            4 => return After::Reload,
            _ => self.errors |= COMMAND_ERROR,
        }

        After::Nothing
    }

    fn write(&mut self, word_address: u32, value: [u8; 2]) {
        let at = usize::try_from(word_address).unwrap_or(usize::MAX).saturating_mul(2);
        match self.bytes.get_mut(at..at.saturating_add(2)) {
            Some(place) => place.copy_from_slice(&value),
            None => self.errors |= COMMAND_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(eeprom: &mut Eeprom, control: u16, address: u32, data: u16, now_ns: u64) -> (After, Vec<u8>) {
        let mut registers = vec![0; 0x0510];
        registers[SII_CONTROL..SII_CONTROL + 2].copy_from_slice(&control.to_le_bytes());
        registers[SII_ADDRESS..SII_ADDRESS + 4].copy_from_slice(&address.to_le_bytes());
        registers[SII_DATA..SII_DATA + 2].copy_from_slice(&data.to_le_bytes());
        let after = eeprom.command(&mut registers, now_ns);
        (after, registers[SII_DATA..].to_vec())
    }

    fn image() -> Eeprom {
        let mut bytes: Vec<u8> = (0..64).collect();
        bytes[14] = checksum(&bytes[..14]);
        Eeprom::new(bytes, 500)
    }

    #[test]
    fn a_read_gives_eight_bytes_and_is_busy_for_its_time() {
        let mut eeprom = image();
        let (_, data) = asked(&mut eeprom, 0x0100, 8, 0, 1_000);
        assert_eq!(data, [16, 17, 18, 19, 20, 21, 22, 23]);
        assert_ne!(eeprom.status(1_499) & BUSY, 0);
        assert_eq!(eeprom.status(1_500) & BUSY, 0);
    }

    #[test]
    fn a_command_while_busy_is_passed_over() {
        let mut eeprom = image();
        asked(&mut eeprom, 0x0100, 8, 0, 1_000);
        let (_, data) = asked(&mut eeprom, 0x0100, 8, 0xabcd, 1_400);
        assert_eq!(&data[..2], [0xcd, 0xab]);
    }

    #[test]
    fn a_write_wants_its_enable_bit() {
        let mut eeprom = image();
        asked(&mut eeprom, 0x0200, 20, 0xbeef, 0);
        assert_eq!(eeprom.status(9_000) & WRITE_ENABLE_ERROR, WRITE_ENABLE_ERROR);
        asked(&mut eeprom, 0x0201, 20, 0xbeef, 9_000);

        assert_eq!(eeprom.status(18_000) & WRITE_ENABLE_ERROR, 0);
        let (_, data) = asked(&mut eeprom, 0x0100, 20, 0, 18_000);
        assert_eq!(&data[..2], [0xef, 0xbe]);
    }

    #[test]
    fn a_wrong_checksum_keeps_the_configuration_from_being_loaded() {
        let mut eeprom = image();
        assert!(eeprom.load().is_some());
        eeprom.spoil_checksum();
        assert_eq!((eeprom.load(), eeprom.status(0) & CHECKSUM_ERROR), (None, CHECKSUM_ERROR));
        eeprom.spoil_checksum();

        assert!(eeprom.load().is_some());
        assert_eq!(eeprom.status(0) & CHECKSUM_ERROR, 0);
    }

    #[test]
    fn a_blank_chip_reads_as_ones() {
        let mut eeprom = image();
        eeprom.blank = true;
        let (_, data) = asked(&mut eeprom, 0x0100, 8, 0, 0);
        assert_eq!(data, [0xff; 8]);
        assert_eq!(eeprom.load(), None);
    }

    #[test]
    fn beyond_its_end_a_chip_reads_as_ones() {
        let (_, data) = asked(&mut image(), 0x0100, 0xffff_ffff, 0, 0);
        assert_eq!(data, [0xff; 8]);
    }

    #[test]
    fn a_chip_says_how_many_bytes_its_addresses_have() {
        let of = |bytes: usize| Eeprom::new(vec![0; bytes], 0).status(0) & TWO_ADDRESS_BYTES;
        assert_eq!([of(128), of(2_048), of(4_096)], [0, 0, TWO_ADDRESS_BYTES]);
    }
}
