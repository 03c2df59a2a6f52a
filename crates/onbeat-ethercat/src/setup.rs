//! Configuration of a device on the way to OP, in addition to its process data: start-up values of
//! objects and SYNC0.

/// Start-up value of an object, written in PREOP before the mapping is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectValue {
    /// Index of the object, such as 0x6060.
    pub index: u16,
    /// Subindex.
    pub entry: u8,
    /// Complete access: all entries in one transfer.
    pub complete: bool,
    /// Value, little endian, 1 to 1024 bytes.
    pub bytes: Vec<u8>,
    /// Whether it is adapted to the period of the bus, by
    /// [`Layout::at_period`](crate::layout::Layout::at_period).
    pub of_period: bool,
}

/// SYNC0 pulses of a device, and SYNC1 if they are activated (ETG.1000.4, distributed clocks).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync0 {
    /// Cycle time of SYNC0, in ns; `None`: the period of the bus, by `factor`.
    pub period_ns: Option<u32>,
    /// Cycle of SYNC0 as a multiple of the bus's period, if `period_ns` is `None`: negative for a
    /// part of it; 0 as 1.
    pub factor: i32,
    /// Value of registers 0x0980 and 0x0981 (AssignActivate of an ESI file): 0x0300 for SYNC0,
    /// 0x0700 for both.
    pub activation: u16,
    /// SYNC1, for an activation with bit 10.
    pub sync1: Sync1,
    /// Shift of the pulses from the multiples of the period in reference time, in ns, less than a
    /// period in either direction. `None`: half a period, as far from the frames as possible.
    pub shift_ns: Option<i64>,
    /// Multiple of the bus's period that is added to `shift_ns`: negative for a part of it.
    pub shift_factor: i32,
}

/// SYNC1 pulses of a device, in relation to SYNC0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sync1 {
    /// Cycle time, in ns; 0: by `factor`.
    pub period_ns: u32,
    /// Cycle as a multiple of that of SYNC0; negative for a multiple of the bus's period; 0: the cycle
    /// of SYNC0.
    pub factor: i32,
    /// Shift after SYNC0, in ns.
    pub shift_ns: i64,
    /// Multiple of the bus's period that is added to `shift_ns`: negative for a part of it.
    pub shift_factor: i32,
}

impl Default for Sync0 {
    fn default() -> Self {
        Self {
            period_ns: None,
            factor: 0,
            activation: Self::ONLY_SYNC0,
            sync1: Sync1::default(),
            shift_ns: None,
            shift_factor: 0,
        }
    }
}

impl Sync0 {
    /// Activation of SYNC0 alone, with the unit assigned to the MainDevice.
    pub const ONLY_SYNC0: u16 = 0x0300;
    /// Bit of an activation for SYNC1 pulses.
    pub const WITH_SYNC1: u16 = 0x0400;

    /// Returns the cycle time of SYNC0 on a bus with this period, in ns.
    #[must_use]
    pub fn period_on_bus_ns(&self, bus_ns: u64) -> u32 {
        let of_bus = if self.factor == 0 { bus_ns } else { of_bus(bus_ns, self.factor) };
        self.period_ns.unwrap_or(u32::try_from(of_bus).unwrap_or(u32::MAX)).max(1)
    }

    /// Returns the shift of the pulses on a bus with this period, in ns; `None`: half a period.
    #[must_use]
    pub fn shift_on_bus_ns(&self, bus_ns: u64) -> Option<i64> {
        self.shift_ns.map(|ns| ns.saturating_add_unsigned(of_bus(bus_ns, self.shift_factor)))
    }

    /// Returns the value of register 0x09A4 on a bus with this period: the time from a SYNC0 pulse
    /// to the SYNC1 pulse, which is repeated at the first SYNC0 pulse after it.
    #[must_use]
    pub fn sync1_delay_ns(&self, bus_ns: u64) -> u32 {
        if self.activation & Self::WITH_SYNC1 == 0 {
            return 0;
        }
        self.sync1.delay_ns(self.period_on_bus_ns(bus_ns), bus_ns)
    }
}

impl Sync1 {
    /// Returns the time from a SYNC0 pulse to the SYNC1 pulse, for a cycle time of SYNC0 and a period
    /// of the bus, in ns.
    #[must_use]
    pub fn delay_ns(&self, sync0_ns: u32, bus_ns: u64) -> u32 {
        let sync0 = i64::from(sync0_ns);
        let cycle = match (self.period_ns, self.factor) {
            (0, 0) => sync0,
            (0, times @ 1..) => sync0.saturating_mul(i64::from(times)),
            (0, of_bus) => {
                let cycle = bus_ns.saturating_mul(of_bus.unsigned_abs().into());
                i64::try_from(cycle).unwrap_or(i64::MAX)
            }
            (period, _) => i64::from(period),
        };
        let shift = self.shift_ns.saturating_add_unsigned(of_bus(bus_ns, self.shift_factor));
        u32::try_from((cycle - sync0).saturating_add(shift).max(0)).unwrap_or(u32::MAX)
    }
}

/// Returns a multiple of the bus's period; a part of it for a negative factor.
fn of_bus(bus_ns: u64, factor: i32) -> u64 {
    let size = u64::from(factor.unsigned_abs());
    if factor < 0 { bus_ns / size } else { bus_ns.saturating_mul(size) }
}

/// Configuration of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSetup {
    /// Start-up values, in order.
    pub startup: Vec<ObjectValue>,
    /// SYNC0, if the device uses it.
    pub sync0: Option<Sync0>,
    /// Explicit device ID, as set by a switch of the device; 0 for none.
    pub device_id: u16,
    /// Idents of the modules in its slots, 0 for an empty one; no slots if they are not chosen.
    pub modules: Vec<u32>,
    /// What is otherwise read from the device while the bus comes up, for a device of an optional
    /// group.
    pub memory: Option<DeviceMemory>,
}

impl DeviceSetup {
    /// Adapts the start-up values that follow the period of the bus, in ns: cycle times (0x1C32:2,
    /// 0x1C33:2), and the interpolation time of a drive (0x60C2:1) where its unit allows it.
    pub(crate) fn adapt(&mut self, period_ns: u64) {
        let power = self.interpolation_power();
        for value in self.startup.iter_mut().filter(|value| value.of_period && !value.complete) {
            let adapted = match (value.index, value.entry, value.bytes.len()) {
                (0x1c32 | 0x1c33, 2, 4) => u32::try_from(period_ns).ok().map(u32::to_le_bytes),
                (0x60c2, 1, 1) => steps_of(period_ns, power).map(|steps| [steps, 0, 0, 0]),
                _ => None,
            };
            if let Some(adapted) = adapted {
                let length = value.bytes.len();
                value.bytes.copy_from_slice(&adapted[..length]);
            }
        }
    }

    /// Returns the power of ten of the interpolation time in s (0x60C2:2); −3 after power-on.
    pub(crate) fn interpolation_power(&self) -> i8 {
        let byte = self.startup_byte(0x60c2, 2);
        byte.map_or(-3, u8::cast_signed)
    }

    /// Returns the first byte of an object's start-up value; the last one counts.
    #[must_use]
    pub fn startup_byte(&self, index: u16, entry: u8) -> Option<u8> {
        let wanted = (index, entry, false);
        let mut startup = self.startup.iter().rev();
        let found = startup.find(|one| (one.index, one.entry, one.complete) == wanted)?;
        found.bytes.first().copied()
    }
}

/// Returns a period in units of a power of ten of seconds; `None` if it is not 1 to 255 of them.
fn steps_of(period_ns: u64, power: i8) -> Option<u8> {
    let unit_ns = 10_u64.checked_pow(u32::try_from(9 + i16::from(power)).ok()?)?;
    let steps = u8::try_from(period_ns / unit_ns).ok()?;
    (period_ns.is_multiple_of(unit_ns) && steps > 0).then_some(steps)
}

/// SyncManagers and clock of a device that may come while the bus runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// SyncManagers of mailboxes and process data, by number.
    pub channels: Vec<DeviceChannel>,
    /// Whether it has a distributed clock.
    pub has_clock: bool,
}

/// A SyncManager of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceChannel {
    pub number: u8,
    /// Start address in the memory of the device.
    pub start: u16,
    /// Length, in bytes.
    pub bytes: u16,
    /// Control register.
    pub control: u8,
    /// What it is for.
    pub usage: ChannelUsage,
}

/// What a SyncManager is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelUsage {
    /// Mailbox, either direction.
    Mailbox,
    /// Process data to the device.
    Outputs,
    /// Process data from the device.
    Inputs,
}

/// Why a text is not a valid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Neither a number with a type nor bytes.
    #[error(
        "`{0}` is not a valid value; write a number with its type, such as 6u8 or -100i32, or hex:01ff"
    )]
    NoValue(String),
    /// A number outside the range of its type.
    #[error("{number} is not a valid {kind}: the range is {least} to {most}")]
    TooLarge {
        number: i128,
        /// Its type.
        kind: &'static str,
        /// Smallest number of the type.
        least: i128,
        /// Largest number of the type.
        most: i128,
    },
}

const TYPES: [(&str, usize, bool); 8] = [
    ("u8", 1, false),
    ("u16", 2, false),
    ("u32", 4, false),
    ("u64", 8, false),
    ("i8", 1, true),
    ("i16", 2, true),
    ("i32", 4, true),
    ("i64", 8, true),
];

/// Parses index and subindex of an object in hexadecimal: `6041`, `0x1018:1`.
///
/// ```
/// assert_eq!(onbeat_ethercat::setup::object("1018:1"), Some((0x1018, 1)));
/// ```
#[must_use]
pub fn object(text: &str) -> Option<(u16, u8)> {
    let (index, entry) = text.split_once(':').unwrap_or((text, "0"));
    let [index, entry] = [index, entry].map(|digits| digits.trim_start_matches("0x"));
    Some((u16::from_str_radix(index, 16).ok()?, u8::from_str_radix(entry, 16).ok()?))
}

/// Parses a value to its little-endian bytes: a number with its type (`6u8`, `-100i32`, `0x0Fu16`,
/// `1.5f32`, `1.5f64`), or bytes (`hex:01ff`).
///
/// ```
/// assert_eq!(onbeat_ethercat::setup::value("-2i16").unwrap(), [0xfe, 0xff]);
/// ```
///
/// # Errors
/// [`ValueError`].
pub fn value(text: &str) -> Result<Vec<u8>, ValueError> {
    let wrong = || ValueError::NoValue(text.to_owned());
    if let Some(digits) = text.strip_prefix("hex:") {
        let pairs =
            digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
        let bytes: Result<Vec<u8>, _> = pairs.map(|pair| u8::from_str_radix(pair, 16)).collect();
        let is_whole = !digits.is_empty() && digits.len().is_multiple_of(2);
        return bytes.ok().filter(|_| is_whole).ok_or_else(wrong);
    }

    if let Some(number) = text.strip_suffix("f32") {
        let number = number.parse().ok().filter(|number: &f32| number.is_finite());
        return number.map(|number| number.to_le_bytes().to_vec()).ok_or_else(wrong);
    }

    if let Some(number) = text.strip_suffix("f64") {
        let number = number.parse().ok().filter(|number: &f64| number.is_finite());
        return number.map(|number| number.to_le_bytes().to_vec()).ok_or_else(wrong);
    }

    for (kind, bytes, is_signed) in TYPES {
        let Some(number) = text.strip_suffix(kind) else { continue };
        let number = match number.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => number.parse(),
        };

        let number = number.map_err(|_| wrong())?;
        let bits = 8 * bytes as u32;
        let (least, most) = if is_signed {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            (0, (1_i128 << bits) - 1)
        };
        if number < least || number > most {
            return Err(ValueError::TooLarge { number, kind, least, most });
        }

        return Ok(number.to_le_bytes()[..bytes].to_vec());
    }

    Err(wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync1_follows_sync0_by_its_shift_or_leaves_cycles_out() {
        let sync1 =
            |period_ns, factor, shift_ns| Sync1 { period_ns, factor, shift_ns, shift_factor: 0 };
        let delay = |sync1: Sync1| sync1.delay_ns(250_000, 1_000_000);
        assert_eq!(delay(sync1(0, 0, 0)), 0, "together with SYNC0");
        assert_eq!(delay(sync1(0, 1, 30_000)), 30_000);
        assert_eq!(delay(sync1(0, 4, 30_000)), 780_000, "with every fourth SYNC0");
        assert_eq!(delay(sync1(0, -1, 30_000)), 780_000, "once in the bus's period");
        assert_eq!(delay(sync1(0, -2, 0)), 1_750_000, "once in two of them");
        let half = Sync1 { shift_factor: -2, ..sync1(0, 1, -10_000) };
        assert_eq!(delay(half), 490_000, "half of the bus's period after SYNC0, and earlier");
        assert_eq!(delay(sync1(1_000_000, 0, 0)), 750_000);
        assert_eq!(delay(sync1(0, 0, -1)), 0, "never before SYNC0");
        let both = Sync0 { activation: 0x0700, sync1: sync1(0, 2, 0), ..Sync0::default() };
        assert_eq!(both.sync1_delay_ns(1_000_000), 1_000_000);
        let one = Sync0 { activation: 0x0300, ..both };
        assert_eq!(one.sync1_delay_ns(1_000_000), 0, "not activated");
    }

    #[test]
    fn the_period_of_sync0_is_that_of_the_bus_by_its_factor() {
        let factor = |factor| Sync0 { factor, ..Sync0::default() }.period_on_bus_ns(1_000_000);
        assert_eq!([0, 1, 3, -4].map(factor), [1_000_000, 1_000_000, 3_000_000, 250_000]);
        let fixed = Sync0 { period_ns: Some(62_500), factor: 3, ..Sync0::default() };
        assert_eq!(fixed.period_on_bus_ns(1_000_000), 62_500);
        let shift = |shift_ns, shift_factor| {
            Sync0 { shift_ns, shift_factor, ..Sync0::default() }.shift_on_bus_ns(1_000_000)
        };
        assert_eq!(shift(Some(-10_000), -4), Some(240_000));
        assert_eq!([shift(Some(7), 0), shift(None, 0)], [Some(7), None]);
    }

    #[test]
    fn values_that_follow_the_period_are_adapted_to_it() {
        let value = |index, entry, bytes: &[u8], of_period| ObjectValue {
            index,
            entry,
            complete: false,
            bytes: bytes.to_vec(),
            of_period,
        };
        let adapted = |period_ns, power: i8| {
            let mut setup = DeviceSetup {
                startup: vec![
                    value(0x1c32, 2, &[1, 2, 3, 4], true),
                    value(0x60c2, 1, &[2], true),
                    value(0x60c2, 2, &[power.cast_unsigned()], false),
                    value(0x6060, 0, &[8], true),
                ],
                ..DeviceSetup::default()
            };
            setup.adapt(period_ns);
            setup.startup.into_iter().map(|value| value.bytes).collect::<Vec<_>>()
        };
        let ms = 1_000_000_u32.to_le_bytes().to_vec();
        assert_eq!(adapted(1_000_000, -3), [ms, vec![1], vec![0xfd], vec![8]]);
        assert_eq!(adapted(1_000_000, -4)[1], [10]);
        assert_eq!(adapted(250_000, -3)[1], [2], "no whole number of milliseconds");
        assert_eq!(adapted(1_000_000, -6)[1], [2], "more than a byte");
        let mut fixed = DeviceSetup {
            startup: vec![value(0x1c32, 2, &[1, 2, 3, 4], false)],
            ..DeviceSetup::default()
        };
        fixed.adapt(1_000_000);
        assert_eq!(fixed.startup[0].bytes, [1, 2, 3, 4]);
    }

    #[test]
    fn objects_are_parsed_as_hexadecimal() {
        assert_eq!(object("6041"), Some((0x6041, 0)));
        assert_eq!(object("0x1018:1"), Some((0x1018, 1)));
        assert_eq!(object("1600:1a"), Some((0x1600, 0x1A)));
        assert!(object("knee").is_none() && object("16041").is_none() && object("6041:").is_none());
    }

    #[test]
    fn values_are_parsed_with_their_type() {
        let written = [
            ("6u8", vec![6]),
            ("0x0Fu16", vec![15, 0]),
            ("-100i32", vec![0x9C, 255, 255, 255]),
            ("1f32", vec![0, 0, 0x80, 0x3F]),
            ("-1f64", vec![0, 0, 0, 0, 0, 0, 0xF0, 0xBF]),
            ("hex:01ff", vec![1, 255]),
        ];

        for (text, bytes) in written {
            assert_eq!(value(text), Ok(bytes), "{text}");
        }

        for wrong in ["6", "256u8", "-1u8", "hex:0", "hex:", "onei32", "1e40f32", "nanf32"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }
}
