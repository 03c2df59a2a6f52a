//! Finds the devices on a cable without changing them.
//!
//! Registers are read by position (APRD, BRD). The identity is in the EEPROM, read through
//! registers 0x0502 to 0x0507: only command and address of that read are written, and only if the
//! EEPROM is assigned to the MainDevice (0x0500, 0x0501). While a bus is running, nothing is
//! written. AL states, station addresses and process data are never changed.

use onbeat_rt::frame::{Command, LONGEST, position, register, word, working_counter};

use super::addresses::MOST_DEVICES;
use super::cyclic::SCAN;
use super::error::{BusError, RunningBus};
use super::frame_exchange::FrameExchange;
use super::register_query::sii_request;
use onbeat_ethercat::carrier::CarrierError;
use onbeat_ethercat::registers::{
    AL_STATUS, SII_BUSY, SII_CONTROL, SII_OWNER, SII_READ, SII_READS_EIGHT, SII_REFUSED, STATION,
};
use onbeat_ethercat::sii::Sii;
use onbeat_ethercat::wire::Wire;

/// Maximum number of polls of a busy EEPROM.
const MOST_LOOKS: u32 = 1_000;
/// Maximum number of EEPROM bytes to read; name and identity are at its beginning.
const MOST_EEPROM: usize = 4_096;

/// ESC features register; bit 2: distributed clocks.
const FEATURES: u16 = 0x0008;
/// Bytes of SII control, address and data.
const SII_BYTES: usize = 14;
/// Bytes of the fixed part, and types of categories.
const FIXED: usize = 0x80;
const STRINGS: u16 = 10;
const GENERAL: u16 = 30;
const END: u16 = 0xffff;

/// Identity of a device, from its EEPROM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// Order code, or the name where there is none.
    pub name: String,
    /// Vendor id.
    pub vendor: u32,
    /// Product code.
    pub product: u32,
    /// Revision.
    pub revision: u32,
    /// Serial number; `None` if it was not read.
    pub serial: Option<u32>,
}

/// A device found by a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScannedDevice {
    /// AL state with error bit.
    pub al_state: u8,
    /// Configured station address, 0 for none.
    pub station: u16,
    /// Configured station alias, 0 for none.
    pub alias: u16,
    /// Whether the device has a distributed clock.
    pub has_clock: bool,
    /// Identity, if the EEPROM was read and is not blank.
    pub identity: Option<DeviceIdentity>,
}

/// Scans for devices and reads their identities. `on` names the wire in messages.
///
/// With `beside_running` nothing is written to the devices, so their identities are not read.
///
/// ```
/// use onbeat_robot::bus::{InProcess, scan};
/// use onbeat_rt::time::{Instant, MockClock};
/// use onbeat_segment::{Link, Segment};
///
/// let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0).ns_per_reading(100);
/// let mut wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID)?, clock);
/// let devices = scan(&mut wire, "the simulated segment", false)?;
/// assert_eq!(devices.len(), 59);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`BusError::Running`] if frames of another MainDevice are received, without `beside_running`;
/// [`BusError::NoDevices`]; [`BusError::NoAnswer`].
pub fn scan<W: Wire>(
    wire: &mut W,
    on: &str,
    beside_running: bool,
) -> Result<Vec<ScannedDevice>, BusError> {
    let mut scan = Scan(FrameExchange::new(wire));
    if !beside_running {
        // A running MainDevice is seen before one frame is sent: a scan reads EEPROMs, which is
        // nothing to do beside somebody's moving robot.
        let frames = scan.0.listen(None);
        if frames > 0 {
            return Err(BusError::Running(RunningBus::Foreign(on.to_owned(), frames)));
        }
    }

    let devices = match scan.count() {
        Err(BusError::NoAnswer(_)) | Ok(0) => {
            return Err(scan.0.wire.trouble().map_or_else(
                || BusError::NoDevices(on.to_owned()),
                |trouble| CarrierError::Trouble { name: on.to_owned(), trouble }.into(),
            ));
        }
        counted => counted?,
    };

    // The count comes off the cable: anybody may answer a broadcast.
    if usize::from(devices) > MOST_DEVICES {
        return Err(BusError::TooMany(devices.into()));
    }

    let mut found = Vec::new();
    let mut may_read = Vec::new();
    scan.read_registers(devices, |place, device, is_ours| {
        found.push(device);
        may_read
            .extend((is_ours && !beside_running).then(|| SiiReader { place, bytes: Vec::new() }));
    })?;

    for eeprom in scan.read_eeproms(may_read)? {
        found[usize::from(eeprom.place)].identity = eeprom.identity();
    }

    Ok(found)
}

struct Scan<'w, W>(FrameExchange<'w, W>);

/// A datagram: command, address, data.
type ScanDatagram<'d> = (Command, u32, &'d [u8]);

impl<W: Wire> Scan<'_, W> {
    /// Sends the datagrams in one frame, with retries; returns the offset of each datagram's data
    /// in the reply.
    fn exchange(&mut self, datagrams: &[ScanDatagram<'_>]) -> Result<Vec<usize>, BusError> {
        self.0.ask(SCAN, |writer| {
            let placed = datagrams
                .iter()
                .filter_map(|(command, address, data)| writer.push_data(*command, *address, data));
            placed.collect()
        })
    }

    /// Returns the data of a datagram in the reply, if a device processed it.
    fn answer(&self, at: usize, length: usize) -> Option<&[u8]> {
        let reply = self.0.reply();
        (working_counter(reply, at, length) > 0).then(|| &reply[at..at + length])
    }

    fn count(&mut self) -> Result<u16, BusError> {
        let at = self.exchange(&[(Command::Brd, register(0, AL_STATUS), &[0; 2])])?;
        Ok(working_counter(self.0.reply(), at[0], 2))
    }

    /// Reads the registers of each device; calls `found` with its position and whether its EEPROM
    /// is assigned to the MainDevice.
    fn read_registers(
        &mut self,
        devices: u16,
        mut found: impl FnMut(u16, ScannedDevice, bool),
    ) -> Result<(), BusError> {
        const REGISTERS: [(u16, usize); 4] =
            [(FEATURES, 2), (STATION, 4), (AL_STATUS, 2), (SII_OWNER, 2)];
        for place in 0..devices {
            let queries = REGISTERS.map(|(at, length)| {
                (Command::Aprd, register(position(place), at), &[0u8; 4][..length])
            });
            let placed = self.exchange(&queries)?;
            let value = |number: usize, at: usize| {
                self.answer(placed[number], REGISTERS[number].1).map_or(0, |data| word(data, at))
            };
            let device = ScannedDevice {
                al_state: (value(2, 0) & 0x1f) as u8,
                station: value(1, 0),
                alias: value(1, 2),
                has_clock: value(0, 0) & 0x04 != 0,
                identity: None,
            };

            let answered = self.answer(placed[3], 2).is_some();
            // Register 0x0500: the EEPROM may be held by the device's own processor. It is not
            // taken away from it.
            let is_ours = answered && value(3, 0) & 0x0101 == 0;
            found(place, device, is_ours);
        }

        Ok(())
    }

    /// Reads the EEPROMs concurrently, up to name and identity. One that refuses or stays busy ends
    /// early.
    fn read_eeproms(&mut self, mut reading: Vec<SiiReader>) -> Result<Vec<SiiReader>, BusError> {
        let mut done = Vec::new();
        while !reading.is_empty() {
            // As many devices as fit into one frame that fetches their data.
            // In step: all devices read the same word at a time, and waiting is shared.
            for some in reading.chunks_mut((LONGEST - 16) / (12 + SII_BYTES)) {
                self.read_next(some)?;
            }

            let (more, over): (Vec<SiiReader>, Vec<SiiReader>) =
                reading.into_iter().partition(|eeprom| !eeprom.is_enough());
            done.extend(over);
            reading = more;
        }

        Ok(done)
    }

    /// Reads the next four or eight bytes of each EEPROM.
    fn read_next(&mut self, some: &mut [SiiReader]) -> Result<(), BusError> {
        let wanted = |eeprom: &SiiReader| sii_request(SII_READ, eeprom.bytes.len() as u16 / 2);
        let requests: Vec<[u8; 6]> = some.iter().map(wanted).collect();
        let address = |eeprom: &SiiReader| register(position(eeprom.place), SII_CONTROL);
        let writes: Vec<ScanDatagram<'_>> = some
            .iter()
            .zip(&requests)
            .map(|(eeprom, data)| (Command::Apwr, address(eeprom), &data[..]))
            .collect();
        self.exchange(&writes)?;
        let mut waiting: Vec<usize> = (0..some.len()).collect();
        for look in 0..MOST_LOOKS {
            let reads: Vec<ScanDatagram<'_>> = waiting
                .iter()
                .map(|&number| (Command::Aprd, address(&some[number]), &[0; SII_BYTES][..]))
                .collect();
            let placed = self.exchange(&reads)?;
            let mut busy = Vec::new();
            for (&number, at) in waiting.iter().zip(placed) {
                match self.answer(at, SII_BYTES).map(|data| (word(data, 0), &data[6..])) {
                    Some((status, _)) if status & SII_BUSY != 0 => busy.push(number),
                    Some((status, data)) if status & SII_REFUSED == 0 => {
                        let length = if status & SII_READS_EIGHT != 0 { 8 } else { 4 };
                        some[number].bytes.extend_from_slice(&data[..length]);
                    }
                    _ => some[number].give_up(),
                }
            }

            waiting = busy;
            if waiting.is_empty() {
                break;
            }
            if look + 1 == MOST_LOOKS {
                // Without an identity in the table, rather than no table.
                waiting.iter().for_each(|&number| some[number].give_up());
            }
        }

        Ok(())
    }
}

/// Bytes read so far from the beginning of an EEPROM.
struct SiiReader {
    place: u16,
    bytes: Vec<u8>,
}

impl SiiReader {
    /// Ends the read; missing bytes count as blank.
    fn give_up(&mut self) {
        self.bytes.resize(MOST_EEPROM, 0xff);
    }

    fn is_enough(&self) -> bool {
        self.bytes.len() >= MOST_EEPROM || self.known().is_some()
    }

    /// Returns the bytes up to the categories with the device's name; `None` if more must be read.
    fn known(&self) -> Option<&[u8]> {
        let mut at = FIXED;
        let mut has_strings = false;
        let mut has_general = false;
        loop {
            let head = self.bytes.get(at..at + 4)?;
            let kind = word(head, 0);
            let length = 2 * usize::from(word(head, 2));
            // Names are all that is wanted. Some EEPROMs have kilobytes behind them.
            if kind == END || (has_strings && has_general) {
                return Some(&self.bytes[..at]);
            }

            has_strings |= kind == STRINGS;
            has_general |= kind == GENERAL;
            at += 4 + length;
        }
    }

    /// Returns the identity; `None` if the EEPROM is blank.
    fn identity(&self) -> Option<DeviceIdentity> {
        let fixed =
            self.bytes.get(..FIXED).filter(|fixed| fixed.iter().any(|byte| *byte != 0xff))?;
        let long = |at: usize| u32::from(word(fixed, at)) | u32::from(word(fixed, at + 2)) << 16;
        // The identity is readable even if the checksum or the categories are invalid.
        let sii = self.known().and_then(|known| Sii::decode(known).ok());
        let name = sii
            .map(|sii| if sii.order.is_empty() { sii.name } else { sii.order })
            .unwrap_or_default();
        let serial = Some(long(28));

        Some(DeviceIdentity {
            name,
            vendor: long(16),
            product: long(20),
            revision: long(24),
            serial,
        })
    }
}
