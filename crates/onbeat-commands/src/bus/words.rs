//! What `onbeat bus` and `onbeat bus scan` print alike.

use onbeat_ethercat::al;
use onbeat_ethercat::layout::DeviceLayout;

use crate::failure::bus::BusFailure;

pub(crate) fn al_words(state: u16) -> String {
    match (state, al::name(state)) {
        (0, _) => "-".to_owned(),
        (_, Some(name)) => name.to_owned(),
        (other, None) => format!("0x{other:x}"),
    }
}

/// Returns the positions of the devices that are named; without names, of all.
pub(crate) fn places_of(
    devices: &[DeviceLayout],
    wanted: &[String],
) -> Result<Vec<usize>, BusFailure> {
    if wanted.is_empty() {
        return Ok((0..devices.len()).collect());
    }
    wanted.iter().map(|device| place_of(devices, device)).collect()
}

/// Returns the position of a device that is named by its name or its position.
pub(crate) fn place_of(devices: &[DeviceLayout], wanted: &str) -> Result<usize, BusFailure> {
    let named = devices.iter().position(|device| device.name == wanted);
    let numbered = || wanted.parse().ok().filter(|place| *place < devices.len());
    named.or_else(numbered).ok_or_else(|| BusFailure::NoDevice { device: wanted.to_owned() })
}
