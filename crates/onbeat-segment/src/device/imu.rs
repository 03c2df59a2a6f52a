//! A six-axis inertial measurement unit.

use onbeat_ethercat::description::ImuTable;

use crate::coe::{DataType, Dictionary, ValueSlot, access};

/// Standard gravity, in m/s² (CGPM 1901).
const GRAVITY: f32 = 9.806_65;
/// Acceleration and rates of a unit at rest.
const TRUTH: [f32; 6] = [0.0, 0.0, GRAVITY, 0.0, 0.0, 0.0];

/// Measures gravity with noise.
#[derive(Clone, Debug)]
pub(crate) struct Imu {
    noise: ImuTable,
    random: fastrand::Rng,
    seed: u64,
    first: ValueSlot,
}

impl Imu {
    pub(crate) const VALUES: u16 = 0x6000;

    pub(crate) fn new(objects: &mut Dictionary, noise: ImuTable, seed: u64) -> Self {
        objects.object(Self::VALUES, "Inertial values");
        objects.entry("Entries", DataType::U8, access::READ, &[6]);
        let axis = |objects: &mut Dictionary, name| {
            objects.entry(name, DataType::F32, access::READ | access::INPUT, &[])
        };
        let first = axis(objects, "Acceleration x");
        for name in ["Acceleration y", "Acceleration z", "Rate x", "Rate y", "Rate z"] {
            axis(objects, name);
        }

        Self { noise, random: fastrand::Rng::with_seed(seed), seed, first }
    }

    pub(crate) fn power_on(&mut self) {
        self.random = fastrand::Rng::with_seed(self.seed);
    }

    pub(crate) fn step(&mut self, objects: &mut Dictionary) {
        for (axis, truth) in TRUTH.into_iter().enumerate() {
            let (deviation, bias) = match axis {
                0..3 => (self.noise.acceleration_noise_m_s2, 0.0),
                _ => (self.noise.rate_noise_rad_s, self.noise.rate_bias_rad_s),
            };
            let value = truth + bias + deviation * normal(&mut self.random);
            objects.put(self.first.plus(4 * axis), value.to_le_bytes());
        }
    }
}

/// Returns a random number with mean 0 and standard deviation 1: the sum of four uniform 16-bit
/// numbers, which approximates a normal distribution within ±3.4 and gives the same bits on every
/// machine.
pub(crate) fn normal(random: &mut fastrand::Rng) -> f32 {
    /// The variance of the sum is 4/12.
    const SCALE: f32 = 1.732_050_8 / 65_536.0;
    let bits = random.u64(..);
    let sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    (sum as f32 - 2.0 * 65_535.0) * SCALE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resting_unit_measures_gravity_with_its_noise() {
        let mut objects = Dictionary::default();
        let noise = ImuTable { rate_bias_rad_s: 0.003, ..ImuTable::default() };
        let mut imu = Imu::new(&mut objects, noise, 7);
        let mut up = 0.0;
        let mut rate = 0.0;
        for _ in 0..1_000 {
            imu.step(&mut objects);
            up += objects.f32(objects.slot(Imu::VALUES, 3).unwrap());
            rate += objects.f32(objects.slot(Imu::VALUES, 4).unwrap());
        }

        assert!((up / 1_000.0 - GRAVITY).abs() < 0.005, "{up}");
        assert!((rate / 1_000.0 - 0.003).abs() < 0.000_3, "{rate}");
    }

    #[test]
    fn the_noise_has_standard_deviation_one() {
        let mut random = fastrand::Rng::with_seed(3);
        let squares: f32 = (0..10_000).map(|_| normal(&mut random).powi(2)).sum();
        assert!((squares / 10_000.0 - 1.0).abs() < 0.05, "{squares}");
    }
}
