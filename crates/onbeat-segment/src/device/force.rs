//! A six-axis force-torque sensor.

use onbeat_ethercat::description::ForceTable;

use super::imu::normal;
use crate::coe::{DataType, Dictionary, ValueSlot, access};

/// Measures a constant load with noise, and counts its samples.
#[derive(Clone, Debug)]
pub(crate) struct ForceTorque {
    first: ValueSlot,
    counter: ValueSlot,
    random: fastrand::Rng,
    settings: ForceTable,
    samples: u32,
}

impl ForceTorque {
    pub(crate) const VALUES: u16 = 0x6000;

    pub(crate) fn new(objects: &mut Dictionary, settings: ForceTable, seed: u64) -> Self {
        objects.object(Self::VALUES, "Force and torque");
        objects.entry("Entries", DataType::U8, access::READ, &[7]);
        let right = access::READ | access::INPUT;
        let first = objects.entry("Force x", DataType::F32, right, &[]);
        for name in ["Force y", "Force z", "Torque x", "Torque y", "Torque z"] {
            objects.entry(name, DataType::F32, right, &[]);
        }

        let counter = objects.entry("Samples", DataType::U32, right, &[]);
        Self { first, counter, random: fastrand::Rng::with_seed(seed), settings, samples: 0 }
    }

    pub(crate) fn step(&mut self, objects: &mut Dictionary) {
        let ForceTable { load_n_nm, noise_n } = self.settings;
        for (axis, load) in load_n_nm.into_iter().enumerate() {
            let deviation = if axis < 3 { noise_n } else { noise_n / 100.0 };
            let value = load + deviation * normal(&mut self.random);
            objects.put(self.first.plus(4 * axis), value.to_le_bytes());
        }

        self.samples = self.samples.wrapping_add(1);
        objects.put(self.counter, self.samples.to_le_bytes());
    }
}
