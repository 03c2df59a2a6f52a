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
    /// Increments of the drive per rad; negative if they count against the joint.
    pub increments_per_rad: f64,
    /// Position of the joint where the drive has increment 0, in rad.
    pub zero_rad: f64,
}

impl Joint {
    /// Converts a position of the drive, such as object 0x6064, to the position of the joint in
    /// rad.
    #[must_use]
    pub fn position_rad(&self, increments: i64) -> f64 {
        increments as f64 / self.increments_per_rad + self.zero_rad
    }
}

/// Encodes the joints' records.
pub(super) fn table(joints: &[Joint]) -> Vec<u8> {
    let words = |joint: &Joint| {
        let figures = [
            joint.low_rad,
            joint.high_rad,
            joint.velocity_rad_s,
            joint.increments_per_rad,
            joint.zero_rad,
        ];
        std::iter::once(joint.device as u64).chain(figures.map(f64::to_bits))
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
            let figure = |place: usize| f64::from_bits(word(place));
            let device = word(0) as u32 as usize;
            let name = devices.get(device).map_or(String::new(), |device| device.name.clone());
            let joint = Joint {
                device,
                low_rad: figure(1),
                high_rad: figure(2),
                velocity_rad_s: figure(3),
                increments_per_rad: figure(4),
                zero_rad: figure(5),
            };
            (name, joint)
        })
        .collect()
}
