//! A mapped value, found by its name or object, and its bits in an image.

use onbeat_ethercat::layout::{DeviceLayout, Layout, MappedValue};
use onbeat_ethercat::setup;

use super::error::ControlError;

/// Number of values listed in a message.
const LISTED: usize = 8;
/// First index of an object that has a value (ETG.1000.6).
const FIRST_OBJECT: u16 = 0x1000;

/// Position of a value in the inputs or outputs of an image.
///
/// ```
/// use onbeat_control::ValuePlace;
/// use onbeat_ethercat::description::Description;
/// use onbeat_ethercat::layout::Layout;
///
/// let layout = Layout::from_toml(Description::HUMANOID)?;
/// let device = layout.devices[7].name.as_str();
/// let target = ValuePlace::find(&layout, "my robot", device, "Target position")?;
/// assert_eq!(target, ValuePlace::find(&layout, "my robot", device, "607a")?);
///
/// let mut outputs = vec![0; layout.output_bytes];
/// target.write(&mut outputs, -1000);
/// assert_eq!((target.is_output, target.signed(&outputs)), (true, -1000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePlace {
    /// Position of the device on the cable.
    pub device: usize,
    /// In the outputs; otherwise in the inputs.
    pub is_output: bool,
    /// First byte.
    pub byte: usize,
    /// First bit in that byte, 0 to 7.
    pub bit: u32,
    /// Length in bits.
    pub bits: u16,
}

impl ValuePlace {
    /// Finds a value of a device: by its name, whatever its case, or by its object, `6064` or
    /// `1a00:3` in hexadecimal. Outputs are searched first. `bus` names the bus in messages.
    ///
    /// # Errors
    /// [`ControlError::NoDeviceNamed`], [`ControlError::NoValue`] with the values there are.
    pub fn find(
        layout: &Layout,
        bus: &str,
        device: &str,
        value: &str,
    ) -> Result<Self, ControlError> {
        let place = layout.find(device).ok_or_else(|| ControlError::NoDeviceNamed {
            name: bus.to_owned(),
            device: device.to_owned(),
        })?;
        let of = &layout.devices[place];
        // Below it are data types that fill gaps: such a number is the name of a channel.
        let object = setup::object(value).filter(|(index, _)| *index >= FIRST_OBJECT);
        let is_it = |mapped: &&MappedValue| {
            mapped.name.eq_ignore_ascii_case(value) || object == Some((mapped.index, mapped.entry))
        };

        let output = of.output_values.iter().find(is_it).map(|found| (found, of.outputs.start));
        let found = output
            .or_else(|| of.input_values.iter().find(is_it).map(|found| (found, of.inputs.start)));
        let (found, start) = found.ok_or_else(|| no_value(of, value))?;
        Ok(Self {
            device: place,
            is_output: output.is_some(),
            byte: start + found.bit_at / 8,
            bit: (found.bit_at % 8) as u32,
            bits: found.bits,
        })
    }

    /// Returns the value as an unsigned number, of at most 64 bits; 0 beyond the end of the image.
    #[must_use]
    pub fn unsigned(&self, image: &[u8]) -> u64 {
        let bytes = image.get(self.byte..).unwrap_or_default();
        let whole = bytes.iter().take(self.bytes()).enumerate();
        let whole = whole.fold(0, |whole, (at, byte)| whole | u128::from(*byte) << (8 * at));
        (whole >> self.bit & self.mask()) as u64
    }

    /// Returns the value as a signed number in two's complement.
    #[must_use]
    pub fn signed(&self, image: &[u8]) -> i64 {
        let unused = 64 - self.length();
        if unused == 64 { 0 } else { (self.unsigned(image) << unused).cast_signed() >> unused }
    }

    /// Writes the lowest bits of a number, and leaves all other bits as they are.
    pub fn write(&self, image: &mut [u8], value: i64) {
        let mask = self.mask() << self.bit;
        let value = u128::from(value.cast_unsigned()) << self.bit & mask;
        let bytes = image.get_mut(self.byte..).unwrap_or_default();
        for (at, byte) in bytes.iter_mut().take(self.bytes()).enumerate() {
            let shift = 8 * at;
            *byte = *byte & !(mask >> shift) as u8 | (value >> shift) as u8;
        }
    }

    fn length(&self) -> u32 {
        u32::from(self.bits).min(64)
    }

    fn mask(&self) -> u128 {
        (1 << self.length()) - 1
    }

    /// Number of bytes that its bits touch, at most 9.
    fn bytes(&self) -> usize {
        (self.bit + self.length()).div_ceil(8) as usize
    }
}

fn no_value(device: &DeviceLayout, value: &str) -> ControlError {
    let all = device.output_values.iter().chain(&device.input_values);
    let mut mapped: Vec<&str> = all.map(|value| value.name.as_str()).collect();
    let left = mapped.len().saturating_sub(LISTED);
    mapped.truncate(LISTED);
    let mut mapped = mapped.join(", ");
    if left > 0 {
        mapped.push_str(&format!(" and {left} more"));
    }
    if mapped.is_empty() {
        "none".clone_into(&mut mapped);
    }

    ControlError::NoValue { device: device.name.clone(), value: value.to_owned(), mapped }
}

#[cfg(test)]
mod tests {
    use onbeat_ethercat::description::Description;

    use super::*;

    #[test]
    fn a_short_number_is_a_name_and_not_a_data_type() {
        let mut layout = Layout::from_toml(Description::HUMANOID).unwrap();
        let device = &mut layout.devices[7];
        (device.output_values[0].index, device.output_values[0].entry) = (5, 0);
        device.input_values[0].name = "5".to_owned();
        let name = device.name.clone();
        let found = |value| ValuePlace::find(&layout, "bus", &name, value);
        assert!(!found("5").unwrap().is_output);
        assert!(found("0005").is_err());
        assert_eq!(found("0x607a:0x0").unwrap(), found("Target position").unwrap());
    }
}
