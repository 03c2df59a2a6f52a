//! The EEPROM with the SubDevice information (SII), and its register interface.

use super::registers::{SII_ADDRESS, SII_CONTROL, SII_DATA, long, word};
use onbeat_ethercat::registers::{SII_BUSY, SII_CHECKSUM_ERROR, SII_READS_EIGHT, SII_REFUSED};
use onbeat_ethercat::sii::checksum;

/// Bits of the control and status word.
const WRITE_ENABLE: u16 = 0x0001;
const TWO_ADDRESS_BYTES: u16 = 0x0080;
/// Chips of up to 16 kbit have one-byte addresses (ETG.1000.4, register 0x0502).
const LARGEST_ONE_BYTE_ADDRESSED: usize = 2_048;
const COMMAND: u16 = 0x0700;
const NOT_LOADED: u16 = 0x1000;
const WRITE_ENABLE_ERROR: u16 = 0x4000;

/// What the device must do after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEffect {
    Nothing,
    /// Reload configuration area and alias.
    Reload,
}

/// EEPROM and its register interface.
#[derive(Clone, Debug)]
pub(crate) struct SiiEeprom {
    bytes: Vec<u8>,
    /// Duration of each access, in ns.
    pub(crate) access_ns: u64,
    /// Fault: always busy.
    pub(crate) stuck: bool,
    /// Fault: reads as a chip that was never written.
    pub(crate) blank: bool,
    busy_until_ns: u64,
    errors: u16,
}

impl SiiEeprom {
    pub(crate) fn new(bytes: Vec<u8>, access_ns: u64) -> Self {
        Self { bytes, access_ns, stuck: false, blank: false, busy_until_ns: 0, errors: 0 }
    }

    /// Returns eight bytes from a word address on; all ones beyond the end and from a blank chip.
    fn eight_at(&self, word_address: u32) -> [u8; 8] {
        let at = usize::try_from(word_address).unwrap_or(usize::MAX).saturating_mul(2);
        std::array::from_fn(|byte| match self.bytes.get(at.saturating_add(byte)) {
            Some(&value) if !self.blank => value,
            _ => 0xff,
        })
    }

    /// Loads the configuration area; `None` when its checksum is wrong.
    pub(crate) fn load(&mut self) -> Option<[u8; 16]> {
        let low = self.eight_at(0);
        let high = self.eight_at(4);
        let mut area = [0; 16];
        area[..8].copy_from_slice(&low);
        area[8..].copy_from_slice(&high);
        let is_valid = checksum(&area[..14]) == area[14];
        self.errors =
            if is_valid { 0 } else { SII_CHECKSUM_ERROR | if self.blank { NOT_LOADED } else { 0 } };

        is_valid.then_some(area)
    }

    /// Makes the checksum of the configuration area wrong, or correct again.
    pub(crate) fn toggle_checksum_error(&mut self) {
        if let Some(byte) = self.bytes.get_mut(14) {
            *byte ^= 0x5a;
        }
        self.load();
    }

    /// Returns the control and status word at `now_ns`.
    pub(crate) fn status(&self, now_ns: u64) -> u16 {
        let busy = if self.stuck || now_ns < self.busy_until_ns { SII_BUSY } else { 0 };
        let address =
            if self.bytes.len() > LARGEST_ONE_BYTE_ADDRESSED { TWO_ADDRESS_BYTES } else { 0 };
        SII_READS_EIGHT | address | self.errors | busy
    }

    /// Executes the command that was written to `registers` at `now_ns`.
    pub(crate) fn command(&mut self, registers: &mut [u8], now_ns: u64) -> CommandEffect {
        let control = word(registers, SII_CONTROL);
        if self.status(now_ns) & SII_BUSY != 0 || control & COMMAND == 0 {
            self.errors &=
                if control & COMMAND == 0 { SII_CHECKSUM_ERROR | NOT_LOADED } else { 0xffff };
            return CommandEffect::Nothing;
        }

        self.errors &= SII_CHECKSUM_ERROR | NOT_LOADED;
        self.busy_until_ns = now_ns.saturating_add(self.access_ns);
        let address = long(registers, SII_ADDRESS);
        match (control & COMMAND) >> 8 {
            1 => registers[SII_DATA..SII_DATA + 8].copy_from_slice(&self.eight_at(address)),
            2 if control & WRITE_ENABLE == 0 => self.errors |= WRITE_ENABLE_ERROR,
            2 => self.write(address, [registers[SII_DATA], registers[SII_DATA + 1]]),
            4 => return CommandEffect::Reload,
            _ => self.errors |= SII_REFUSED,
        }

        CommandEffect::Nothing
    }

    fn write(&mut self, word_address: u32, value: [u8; 2]) {
        let at = usize::try_from(word_address).unwrap_or(usize::MAX).saturating_mul(2);
        match self.bytes.get_mut(at..at.saturating_add(2)) {
            Some(word) => word.copy_from_slice(&value),
            None => self.errors |= SII_REFUSED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_command(
        eeprom: &mut SiiEeprom,
        control: u16,
        address: u32,
        data: u16,
        now_ns: u64,
    ) -> (CommandEffect, Vec<u8>) {
        let mut registers = vec![0; 0x0510];
        registers[SII_CONTROL..SII_CONTROL + 2].copy_from_slice(&control.to_le_bytes());
        registers[SII_ADDRESS..SII_ADDRESS + 4].copy_from_slice(&address.to_le_bytes());
        registers[SII_DATA..SII_DATA + 2].copy_from_slice(&data.to_le_bytes());
        let after = eeprom.command(&mut registers, now_ns);
        (after, registers[SII_DATA..].to_vec())
    }

    fn image() -> SiiEeprom {
        let mut bytes: Vec<u8> = (0..64).collect();
        bytes[14] = checksum(&bytes[..14]);
        SiiEeprom::new(bytes, 500)
    }

    #[test]
    fn a_read_gives_eight_bytes_and_is_busy_for_its_time() {
        let mut eeprom = image();
        let (_, data) = run_command(&mut eeprom, 0x0100, 8, 0, 1_000);
        assert_eq!(data, [16, 17, 18, 19, 20, 21, 22, 23]);
        assert_ne!(eeprom.status(1_499) & SII_BUSY, 0);
        assert_eq!(eeprom.status(1_500) & SII_BUSY, 0);
    }

    #[test]
    fn a_command_while_busy_is_ignored() {
        let mut eeprom = image();
        run_command(&mut eeprom, 0x0100, 8, 0, 1_000);
        let (_, data) = run_command(&mut eeprom, 0x0100, 8, 0xabcd, 1_400);
        assert_eq!(&data[..2], [0xcd, 0xab]);
    }

    #[test]
    fn a_write_needs_the_enable_bit() {
        let mut eeprom = image();
        run_command(&mut eeprom, 0x0200, 20, 0xbeef, 0);
        assert_eq!(eeprom.status(9_000) & WRITE_ENABLE_ERROR, WRITE_ENABLE_ERROR);
        run_command(&mut eeprom, 0x0201, 20, 0xbeef, 9_000);

        assert_eq!(eeprom.status(18_000) & WRITE_ENABLE_ERROR, 0);
        let (_, data) = run_command(&mut eeprom, 0x0100, 20, 0, 18_000);
        assert_eq!(&data[..2], [0xef, 0xbe]);
    }

    #[test]
    fn a_configuration_with_a_wrong_checksum_is_not_loaded() {
        let mut eeprom = image();
        assert!(eeprom.load().is_some());
        eeprom.toggle_checksum_error();
        assert_eq!(
            (eeprom.load(), eeprom.status(0) & SII_CHECKSUM_ERROR),
            (None, SII_CHECKSUM_ERROR)
        );
        eeprom.toggle_checksum_error();

        assert!(eeprom.load().is_some());
        assert_eq!(eeprom.status(0) & SII_CHECKSUM_ERROR, 0);
    }

    #[test]
    fn a_blank_chip_reads_as_ones() {
        let mut eeprom = image();
        eeprom.blank = true;
        let (_, data) = run_command(&mut eeprom, 0x0100, 8, 0, 0);
        assert_eq!(data, [0xff; 8]);
        assert_eq!(eeprom.load(), None);
    }

    #[test]
    fn addresses_beyond_the_end_read_as_ones() {
        let (_, data) = run_command(&mut image(), 0x0100, 0xffff_ffff, 0, 0);
        assert_eq!(data, [0xff; 8]);
    }

    #[test]
    fn the_status_has_the_number_of_address_bytes() {
        let of = |bytes: usize| SiiEeprom::new(vec![0; bytes], 0).status(0) & TWO_ADDRESS_BYTES;
        assert_eq!([of(128), of(2_048), of(4_096)], [0, 0, TWO_ADDRESS_BYTES]);
    }
}
