//! What the commands on a cable have in common: the wire, the device, and names of numbers.

use onbeat_ethercat::al;
use onbeat_ethercat::carrier::{Interface, Role, Trouble};
use onbeat_robot::bus::{BusError, InProcess, Packets, RunningBus, Wire};
use onbeat_robot::commission::Line;
use onbeat_rt::Instant;
use onbeat_rt::sys::Monotonic;
use onbeat_segment::{Link, Segment};

use super::options::CableDevice;
use crate::Failure;
use crate::failure::bus::BusFailure;

/// The word for the devices that need no interface.
pub(crate) const SIMULATED: &str = "simulated";

/// A network interface, or the simulated humanoid in this process.
pub(crate) struct LineWire(Box<dyn Wire>);

impl LineWire {
    /// Opens an interface on which no bus of onbeat runs.
    pub(crate) fn open(interface: &str) -> Result<Self, Failure> {
        if interface == SIMULATED {
            let link = Link::from_toml(Segment::HUMANOID)?;
            return Ok(Self(Box::new(InProcess::on_clock(link, Monotonic))));
        }

        let opened = Interface::open(interface)?;
        if let Some(user) = opened.user(Role::MainDevice) {
            let running = RunningBus::Onbeat(interface.to_owned(), user);
            return Err(BusError::RunningLine(running).into());
        }
        drop(opened);
        Ok(Self(Box::new(Packets::open(interface)?)))
    }
}

impl Wire for LineWire {
    fn send(&mut self, frame: &[u8]) {
        self.0.send(frame);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        self.0.receive(buffer, until)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn rest(&mut self) {
        self.0.rest();
    }

    fn trouble(&self) -> Option<Trouble> {
        self.0.trouble()
    }
}

/// Runs `work` on the devices of an interface.
pub(crate) fn on_line<T>(
    interface: &str,
    work: impl FnOnce(&mut Line<'_, LineWire>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut wire = LineWire::open(interface)?;
    let mut line = Line::open(&mut wire, interface)?;
    work(&mut line)
}

/// Returns the position of a device.
pub(crate) fn place_on(line: &mut Line<'_, LineWire>, device: CableDevice) -> Result<u16, Failure> {
    let (what, list, number) = match device {
        CableDevice::Place(place) => {
            line.check(place)?;
            return Ok(place);
        }
        CableDevice::Alias(alias) => ("alias", "", alias),
        CableDevice::DeviceId(id) => ("device ID", " --ids", id),
    };
    let interface = line.on().to_owned();
    let mut places = Vec::new();
    for place in 0..line.devices() {
        let found = match device {
            CableDevice::DeviceId(_) => line.device_id(place)?.unwrap_or(0),
            _ => line.registers(place)?.station.1,
        };
        if found == number && number != 0 {
            places.push(place);
        }
    }
    match places.as_slice() {
        [] => Err(BusFailure::NoNumber { interface, what, list, number }.into()),
        [place] => Ok(*place),
        several => {
            let words: Vec<String> = several.iter().map(u16::to_string).collect();
            let (devices, places) = (several.len(), words.join(", "));
            Err(BusFailure::DoubleNumber { interface, what, number, devices, places }.into())
        }
    }
}

/// Returns the positions that a command is about.
pub(crate) fn places_on(
    line: &mut Line<'_, LineWire>,
    device: Option<CableDevice>,
) -> Result<Vec<u16>, Failure> {
    match device {
        None => Ok((0..line.devices()).collect()),
        Some(device) => Ok(vec![place_on(line, device)?]),
    }
}

/// Returns an AL state in words, also BOOT.
pub(crate) fn state_word(state: u8) -> String {
    let known = al::state_name(state).map(str::to_owned);
    known.unwrap_or_else(|| format!("0x{:x}", state & al::STATE))
}

/// Returns the name of a data type (ETG.1020, table 98).
pub(crate) fn type_word(number: u16, bits: u16) -> String {
    let name = match number {
        0x0001 => "BOOL",
        0x0002 => "INT8",
        0x0003 => "INT16",
        0x0004 => "INT32",
        0x0005 => "UINT8",
        0x0006 => "UINT16",
        0x0007 => "UINT32",
        0x0008 => "FLOAT",
        0x0009 => "STRING",
        0x000a => "OCTETS",
        0x000b => "UNICODE",
        0x0011 => "DOUBLE",
        0x0010 | 0x0012..=0x0015 => "INT",
        0x0016 | 0x0018..=0x001b => "UINT",
        0x001e => "BYTE",
        0x001f => "WORD",
        0x0020 => "DWORD",
        0x002d..=0x003f => "BITS",
        _ => return format!("{number:#06x}:{bits}"),
    };
    match number {
        0x0009..=0x000b => format!("{name}({})", bits / 8),
        0x0010 | 0x0012..=0x001b => format!("{name}{bits}"),
        0x002d..=0x003f => format!("{name}({bits})"),
        _ => name.to_owned(),
    }
}

/// Returns a value as its data type says; hexadecimal for unknown types and wrong lengths.
pub(crate) fn value_word(number: u16, bytes: &[u8]) -> String {
    let unsigned = crate::byte_words::number(bytes);
    let signed = unsigned.map(|whole| {
        let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
        (whole << unused).cast_signed() >> unused
    });
    match (number, bytes.len(), unsigned, signed) {
        (0x0009, ..) => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            format!("{:?}", String::from_utf8_lossy(&bytes[..end]))
        }
        (0x0008, 4, Some(bits), _) => f32::from_bits(bits as u32).to_string(),
        (0x0011, 8, Some(bits), _) => f64::from_bits(bits).to_string(),
        (0x0002..=0x0004 | 0x0010 | 0x0012..=0x0015, 1.., _, Some(signed)) => signed.to_string(),
        (0x0001 | 0x0005..=0x0007 | 0x0016..=0x0020 | 0x002d..=0x003f, 1.., Some(unsigned), _) => {
            format!("{unsigned} (0x{unsigned:x})")
        }
        _ => crate::byte_words::hex_and_text(bytes, &crate::byte_words::hex_of(bytes)),
    }
}

/// Returns the mailbox protocols of an EEPROM.
pub(crate) fn protocol_words(protocols: u16) -> String {
    let names = ["AoE", "EoE", "CoE", "FoE", "SoE", "VoE"];
    let listed = (0..).zip(names).filter(|(bit, _)| protocols >> bit & 1 != 0);
    let listed: Vec<&str> = listed.map(|(_, name)| name).collect();
    if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_their_types_say() {
        assert_eq!(value_word(0x0003, &[0xfe, 0xff]), "-2");
        assert_eq!(value_word(0x0006, &[0x40, 0x06]), "1600 (0x640)");
        assert_eq!(value_word(0x0008, &1.5f32.to_le_bytes()), "1.5");
        assert_eq!(value_word(0x0009, b"SV-2\0\0"), "\"SV-2\"");
        assert_eq!(value_word(0x0013, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]), "-2", "INT48");
        assert_eq!(value_word(0x0018, b"hello"), "478560413032 (0x6f6c6c6568)", "UINT40, no text");
        assert_eq!(type_word(0x0009, 64), "STRING(8)");
        let words = [(0x0010, 24), (0x0014, 56), (0x001b, 64), (0x002e, 16)];
        let words = words.map(|(number, bits)| type_word(number, bits));
        assert_eq!(words, ["INT24", "INT56", "UINT64", "BITS(16)"]);
        assert_eq!(type_word(0x4711, 24), "0x4711:24");
    }
}
