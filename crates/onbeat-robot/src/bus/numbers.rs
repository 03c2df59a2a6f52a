//! Numbers that nobody else on the cable uses: stations that are given once, and where the logical addresses of this bus begin.
//!
//! A set-point reaches the device that maps its logical address, and a write the device that has its station. Every other MainDevice counts both from a
//! round number on (0x1001 and 0, for most). Those of a bus begin at a number made of the time of its start instead, and a station that was
//! given is never given again while the bus is up: a device that answers at one is the device it was given to, and has had power since.

use onbeat_ethercat::registers;
use onbeat_rt::frame::{Command, position, register, word};

use super::memory::STATION;

/// The library's stations are these and those behind it, as many as it can have devices.
const LIBRARY: u16 = 0x1000;
const LIBRARY_COUNT: u16 = super::MOST_DEVICES as u16;
/// Range of the stations: beyond what other MainDevices and aliases count up to.
const FIRST: u16 = 0x4000;
const LAST: u16 = 0xff00;
/// FMMUs, 16 bytes each.
pub(super) const FMMU: std::ops::RangeInclusive<u16> = registers::FMMU..=registers::FMMU + 0xff;
pub(super) const FMMU_BYTES: usize = 16;
/// The library's logical addresses are below this.
const LIBRARY_LOGICAL: u32 = 0x0001_0000;
/// Beyond where other MainDevices begin.
const FIRST_LOGICAL: u32 = 0x0400;
const LOGICAL_COUNT: u64 = 0xfb00;

/// Numbers of one bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// In the place of the library's first station.
    first: u16,
    next: u16,
    logical: u32,
}

impl Numbers {
    /// Those of a bus that is brought up at this instant.
    pub(super) fn of(now_ns: u64) -> Self {
        // splitmix64: instants close to each other give numbers far apart.
        let mixed = (now_ns ^ now_ns >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let first = FIRST + (mixed >> 32) as u16 % (LAST - FIRST - LIBRARY_COUNT);
        let logical = (FIRST_LOGICAL + (mixed % LOGICAL_COUNT) as u32) << 16;
        Self { first, next: first + LIBRARY_COUNT, logical }
    }

    /// Where logical addresses begin.
    pub(super) fn logical(&self) -> u32 {
        self.logical
    }

    /// A station that was not given before.
    pub(super) fn station(&mut self) -> u16 {
        let station = self.next;
        self.next = if station + 1 < LAST { station + 1 } else { FIRST };
        station
    }

    /// What is used in the place of a station of the library's.
    pub(super) fn instead_of(&self, station: u16) -> u16 {
        let place = station.wrapping_sub(LIBRARY);
        if place < LIBRARY_COUNT { self.first + place } else { station }
    }

    /// The place of a device, by the station that it got on the way up.
    pub(super) fn place_of(&self, station: u16) -> Option<u16> {
        station.checked_sub(self.first).filter(|place| *place < LIBRARY_COUNT)
    }

    /// Puts these numbers in the place of the library's, in a frame of the library's that is to leave.
    pub(super) fn put_into(&self, frame: &mut [u8]) {
        const STATIONED: [u8; 3] = [Command::Fprd as u8, Command::Fpwr as u8, Command::Frmw as u8];
        let (mut at, mut more) = (16, true);
        while more && at + 12 <= frame.len() {
            let (command, register) = (frame[at], word(frame, at + 4));
            let length = usize::from(word(frame, at + 6) & 0x07ff);
            more = word(frame, at + 6) & 0x8000 != 0;
            let data = at + 10;
            if data + length > frame.len() {
                return;
            }

            if STATIONED.contains(&command) {
                self.put_station(&mut frame[at + 2..at + 4]);
            }
            if command == Command::Apwr as u8 && register == STATION && length == 2 {
                self.put_station(&mut frame[data..data + 2]);
            }
            if command == Command::Fpwr as u8 && FMMU.contains(&register) && length == FMMU_BYTES {
                self.put_logical(&mut frame[data..data + length]);
            }

            at = data + length + 2;
        }
    }

    fn put_station(&self, bytes: &mut [u8]) {
        let station = self.instead_of(word(bytes, 0));
        bytes.copy_from_slice(&station.to_le_bytes());
    }

    /// An FMMU that the library extends was read before, and has its address already.
    fn put_logical(&self, fmmu: &mut [u8]) {
        let logical = u32::from_le_bytes([fmmu[0], fmmu[1], fmmu[2], fmmu[3]]);
        if word(fmmu, 4) > 0 && logical < LIBRARY_LOGICAL {
            fmmu[..4].copy_from_slice(&(logical + self.logical).to_le_bytes());
        }
    }
}

/// A question after the station of the device at this place.
pub(super) fn station_of(place: u16) -> (Command, u32) {
    (Command::Aprd, register(position(place), STATION))
}

#[cfg(test)]
mod tests {
    use onbeat_rt::frame::{LONGEST, Writer};

    use super::*;

    #[test]
    fn stations_are_given_once_and_never_those_of_others() {
        for now_ns in [0, 1, 1_000_000_000, u64::MAX] {
            let mut numbers = Numbers::of(now_ns);
            let mut seen: Vec<u16> = (0..LIBRARY_COUNT).map(|place| numbers.instead_of(LIBRARY + place)).collect();
            seen.extend((0..10_000).map(|_| numbers.station()));
            assert!(seen.iter().all(|station| (FIRST..LAST).contains(station)), "{now_ns}");
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();

            assert_eq!(seen.len(), count, "{now_ns}");
            assert!(numbers.logical() >= 0x0400_0000 && numbers.logical() <= 0xff00_0000);
        }

        assert_ne!(Numbers::of(1_000).first, Numbers::of(1_001).first);
        assert_ne!(Numbers::of(1_000).logical, Numbers::of(1_001).logical);
    }

    #[test]
    fn a_frame_of_the_library_gets_stations_and_logical_addresses_of_the_bus() {
        let numbers = Numbers::of(7);
        let mut buffer = [0; LONGEST];
        let mut writer = Writer::new(&mut buffer, 1);
        let mut fmmu = [0; FMMU_BYTES];
        (fmmu[0], fmmu[4]) = (0x20, 8);
        let given = writer.push_data(Command::Apwr, register(position(3), STATION), &0x1003u16.to_le_bytes()).unwrap();
        let mapped = writer.push_data(Command::Fpwr, register(0x1003, 0x0610), &fmmu).unwrap();
        let blanked = writer.push_data(Command::Fpwr, register(0x1004, 0x0610), &[0; FMMU_BYTES]).unwrap();
        let all = writer.push(Command::Brd, register(0x1003, 0x0130), 2).unwrap();
        let length = writer.finish();
        let frame = &mut buffer[..length];
        numbers.put_into(frame);
        numbers.put_into(frame);
        let third = numbers.instead_of(0x1003);

        assert_eq!((word(frame, given), numbers.place_of(third)), (third, Some(3)));
        assert_eq!(word(frame, mapped - 8), third);
        assert_eq!(frame[mapped..mapped + 4], (numbers.logical() + 0x20).to_le_bytes());
        assert_eq!(frame[blanked..blanked + FMMU_BYTES], [0; FMMU_BYTES]);
        assert_eq!(word(frame, all - 8), 0x1003, "what is for all devices is left alone");
    }
}
