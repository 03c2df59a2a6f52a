//! Joints that follow goals, as records of the image.

use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_ethercat::layout::DeviceLayout;

use super::abi::JOINT_BYTES;

/// A joint that follows goals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joint {
    /// Index of its drive in the layout; the joint has the device's name.
    pub device: usize,
    /// Lower end of the travel, in rad.
    pub low_rad: f64,
    /// Upper end of the travel, in rad.
    pub high_rad: f64,
    /// Maximum velocity, in rad/s. The distance to a goal is unlimited.
    pub velocity_rad_s: f64,
}

/// Encodes the joints' records.
pub(super) fn table(joints: &[Joint]) -> Vec<u8> {
    let words = |joint: &Joint| {
        let rads = [joint.low_rad, joint.high_rad, joint.velocity_rad_s].map(f64::to_bits);
        [joint.device as u64, rads[0], rads[1], rads[2]]
    };
    joints.iter().flat_map(words).flat_map(u64::to_ne_bytes).collect()
}

/// Decodes the joints' records; `devices` has their names.
pub(super) fn from_records(
    records: &[AtomicU64],
    devices: &[DeviceLayout],
) -> Vec<(String, Joint)> {
    let records = records.chunks_exact(JOINT_BYTES / 8);
    records
        .map(|record| {
            let word = |place: usize| record[place].load(Ordering::Relaxed);
            let rad = |place: usize| f64::from_bits(word(place));
            let device = word(0) as u32 as usize;
            let name = devices.get(device).map_or(String::new(), |device| device.name.clone());
            (name, Joint { device, low_rad: rad(1), high_rad: rad(2), velocity_rad_s: rad(3) })
        })
        .collect()
}
