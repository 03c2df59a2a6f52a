//! The oscillation of one joint.

use std::f64::consts::TAU;

/// Oscillation of a joint: offset(t) = `swing`·sin(φ + `phase`) + `lift`·(1 − cos(φ + `phase`))/2
/// with φ = 2π·`hertz`·t, in rad.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Wave {
    pub(crate) hertz: f64,
    pub(crate) phase: f64,
    /// Amplitude in both directions.
    pub(crate) swing: f64,
    /// Amplitude in one direction.
    pub(crate) lift: f64,
}

impl Wave {
    pub(crate) fn offset(&self, time_s: f64) -> f64 {
        if self.swing == 0.0 && self.lift == 0.0 {
            return 0.0;
        }
        let (sine, cosine) = (TAU * self.hertz * time_s + self.phase).sin_cos();
        self.swing * sine + 0.5 * self.lift * (1.0 - cosine)
    }

    /// Returns the amplitude of the movement; the maximum velocity is this times 2π·f, the maximum
    /// acceleration that times 2π·f.
    pub(crate) fn amplitude(&self) -> f64 {
        self.swing.hypot(0.5 * self.lift)
    }
}
