//! Addresses that no other MainDevice on the cable uses: station addresses that no two devices
//! have, and the start of this bus's logical addresses.
//!
//! A set-point reaches the device that maps its logical address, and a write the device with its
//! station address. Most MainDevices count both from fixed numbers (0x1001 and 0). This bus derives
//! its first addresses from the start time. It assigns a station address again only after all
//! others of its range, and never one that a device of this bus has. A device that answers at a
//! station address is therefore the one that received it, and has had power since.

use onbeat_ethercat::registers::{self, STATION};
use onbeat_rt::frame::{Command, position, register, word};

/// Maximum number of devices on one bus: the size of ethercrab's tables.
pub const MOST_DEVICES: usize = 256;
/// ethercrab's first station address, and the number of devices it can address.
const LIBRARY: u16 = 0x1000;
const LIBRARY_COUNT: u16 = MOST_DEVICES as u16;
/// Range of station addresses, above those that other MainDevices and aliases commonly use.
const FIRST: u16 = 0x4000;
const LAST: u16 = 0xff00;
/// FMMU registers, 16 bytes each.
pub(super) const FMMU: std::ops::RangeInclusive<u16> = registers::FMMU..=registers::FMMU + 0xff;
pub(super) const FMMU_BYTES: usize = 16;
/// ethercrab's logical addresses are below this value.
const LIBRARY_LOGICAL: u32 = 0x0001_0000;
/// Upper 16 bits of the first logical address: above those of other MainDevices.
const FIRST_LOGICAL: u32 = 0x0400;
const LOGICAL_COUNT: u64 = 0xfb00;

/// Station and logical addresses of one bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusAddresses {
    /// Station address that replaces ethercrab's first.
    first: u16,
    next: u16,
    logical: u32,
}

impl BusAddresses {
    /// Derives the addresses from the time of the bring-up, in ns.
    pub(super) fn from_time_ns(now_ns: u64) -> Self {
        // splitmix64: times close to each other give addresses far apart.
        let mixed = (now_ns ^ now_ns >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let first = FIRST + (mixed >> 32) as u16 % (LAST - FIRST - LIBRARY_COUNT);
        let logical = (FIRST_LOGICAL + (mixed % LOGICAL_COUNT) as u32) << 16;
        Self { first, next: first + LIBRARY_COUNT, logical }
    }

    /// Returns the first logical address.
    pub(super) fn logical_start(&self) -> u32 {
        self.logical
    }

    /// Returns the station address that was not assigned for the longest time, of those that no
    /// device has.
    pub(super) fn next_station(&mut self, is_taken: impl Fn(u16) -> bool) -> u16 {
        // A wrong device that stays on the cable gets an address at each check: at 1 kHz the range
        // is used up within hours. There are many more addresses than devices, so this ends.
        loop {
            let station = self.next;
            self.next = if station + 1 < LAST { station + 1 } else { FIRST };
            if !is_taken(station) {
                return station;
            }
        }
    }

    /// Returns the station address that replaces one of ethercrab's.
    pub(super) fn translate_station(&self, station: u16) -> u16 {
        let place = station.wrapping_sub(LIBRARY);
        if place < LIBRARY_COUNT { self.first + place } else { station }
    }

    /// Returns the position of a device from the station address assigned during bring-up.
    pub(super) fn place_of(&self, station: u16) -> Option<u16> {
        station.checked_sub(self.first).filter(|place| *place < LIBRARY_COUNT)
    }

    /// Replaces ethercrab's addresses by those of this bus in a frame about to be sent.
    pub(super) fn rewrite_frame(&self, frame: &mut [u8]) {
        const STATIONED: [u8; 3] = [Command::Fprd as u8, Command::Fpwr as u8, Command::Frmw as u8];
        // Behind the Ethernet header (14 bytes) and the EtherCAT header (2).
        let mut at = 16;
        let mut more = true;
        while more && at + 12 <= frame.len() {
            let command = frame[at];
            let register = word(frame, at + 4);
            let length = usize::from(word(frame, at + 6) & 0x07ff);
            // Bit 15 of the length: another datagram follows.
            more = word(frame, at + 6) & 0x8000 != 0;
            let data = at + 10;
            if data + length > frame.len() {
                return;
            }

            if STATIONED.contains(&command) {
                self.rewrite_station(&mut frame[at + 2..at + 4]);
            }
            if command == Command::Apwr as u8 && register == STATION && length == 2 {
                self.rewrite_station(&mut frame[data..data + 2]);
            }
            if command == Command::Fpwr as u8 && FMMU.contains(&register) && length == FMMU_BYTES {
                self.rewrite_logical(&mut frame[data..data + length]);
            }

            at = data + length + 2;
        }
    }

    fn rewrite_station(&self, bytes: &mut [u8]) {
        let station = self.translate_station(word(bytes, 0));
        bytes.copy_from_slice(&station.to_le_bytes());
    }

    /// ethercrab reads an FMMU before extending it, so the address may be translated already.
    fn rewrite_logical(&self, fmmu: &mut [u8]) {
        let logical = u32::from_le_bytes([fmmu[0], fmmu[1], fmmu[2], fmmu[3]]);
        if word(fmmu, 4) > 0 && logical < LIBRARY_LOGICAL {
            fmmu[..4].copy_from_slice(&(logical + self.logical).to_le_bytes());
        }
    }
}

/// Returns command and address of a read of the station address at this position.
pub(super) fn station_query(place: u16) -> (Command, u32) {
    (Command::Aprd, register(position(place), STATION))
}

#[cfg(test)]
mod tests {
    use onbeat_rt::frame::{LONGEST, Writer};

    use super::*;

    #[test]
    fn station_addresses_are_never_reused_and_never_those_of_other_main_devices() {
        for now_ns in [0, 1, 1_000_000_000, u64::MAX] {
            let mut addresses = BusAddresses::from_time_ns(now_ns);
            let mut seen: Vec<u16> = (0..LIBRARY_COUNT)
                .map(|place| addresses.translate_station(LIBRARY + place))
                .collect();
            seen.extend((0..10_000).map(|_| addresses.next_station(|_| false)));
            assert!(seen.iter().all(|station| (FIRST..LAST).contains(station)), "{now_ns}");
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();

            assert_eq!(seen.len(), count, "{now_ns}");
            // Once all were assigned, those that devices have are passed over.
            let living = addresses.first..addresses.first + 59;
            let mut again =
                (0..50_000).map(|_| addresses.next_station(|station| living.contains(&station)));
            assert!(again.all(|station| !living.contains(&station)), "{now_ns}");
            assert!(
                addresses.logical_start() >= 0x0400_0000
                    && addresses.logical_start() <= 0xff00_0000
            );
        }

        assert_ne!(
            BusAddresses::from_time_ns(1_000).first,
            BusAddresses::from_time_ns(1_001).first
        );
        assert_ne!(
            BusAddresses::from_time_ns(1_000).logical,
            BusAddresses::from_time_ns(1_001).logical
        );
    }

    #[test]
    fn a_frame_of_ethercrab_gets_station_and_logical_addresses_of_the_bus() {
        let addresses = BusAddresses::from_time_ns(7);
        let mut buffer = [0; LONGEST];
        let mut writer = Writer::new(&mut buffer, 1);
        let mut fmmu = [0; FMMU_BYTES];
        (fmmu[0], fmmu[4]) = (0x20, 8);
        let given = writer
            .push_data(Command::Apwr, register(position(3), STATION), &0x1003u16.to_le_bytes())
            .unwrap();
        let mapped = writer.push_data(Command::Fpwr, register(0x1003, 0x0610), &fmmu).unwrap();
        let blanked =
            writer.push_data(Command::Fpwr, register(0x1004, 0x0610), &[0; FMMU_BYTES]).unwrap();
        let all = writer.push(Command::Brd, register(0x1003, 0x0130), 2).unwrap();
        let length = writer.finish();
        let frame = &mut buffer[..length];
        addresses.rewrite_frame(frame);
        addresses.rewrite_frame(frame);
        let third = addresses.translate_station(0x1003);

        assert_eq!((word(frame, given), addresses.place_of(third)), (third, Some(3)));
        assert_eq!(word(frame, mapped - 8), third);
        assert_eq!(frame[mapped..mapped + 4], (addresses.logical_start() + 0x20).to_le_bytes());
        assert_eq!(frame[blanked..blanked + FMMU_BYTES], [0; FMMU_BYTES]);
        assert_eq!(word(frame, all - 8), 0x1003, "broadcasts are unchanged");
    }
}
