//! A motor on a stiff shaft: torque with lag, inertia, friction, an encoder.

use std::f64::consts::TAU;

use onbeat_ethercat::description::DriveTable;

/// Factors that depend on the length of a step.
#[derive(Clone, Copy, Debug, Default)]
struct StepFactors {
    /// Length of the step, in s.
    seconds: f64,
    /// Fraction of a torque change that takes effect in the step.
    lag: f64,
    /// Inverse of inertia plus viscous friction over the step.
    mobility: f64,
}

/// State of a motor.
#[derive(Clone, Debug)]
pub(crate) struct Motor {
    pub(crate) settings: DriveTable,
    /// Position, in rad.
    pub(crate) position: f64,
    /// Velocity, in rad/s.
    pub(crate) velocity: f64,
    /// Torque, in N·m.
    pub(crate) torque: f64,
    /// Whether the brake holds the shaft.
    pub(crate) brake: bool,
    rad_per_increment: f64,
    increments_per_rad: f64,
    permille_per_nm: f64,
    factors: StepFactors,
}

impl Motor {
    pub(crate) fn new(settings: DriveTable) -> Self {
        let rad_per_increment = TAU / f64::from(settings.increments);
        Self {
            settings,
            position: 0.0,
            velocity: 0.0,
            torque: 0.0,
            brake: true,
            rad_per_increment,
            increments_per_rad: rad_per_increment.recip(),
            permille_per_nm: 1000.0 / settings.rated_nm,
            factors: StepFactors::default(),
        }
    }

    pub(crate) fn rad_per_increment(&self) -> f64 {
        self.rad_per_increment
    }

    pub(crate) fn increments_per_rad(&self) -> f64 {
        self.increments_per_rad
    }

    /// Returns the encoder count, a wrapping 32-bit counter.
    pub(crate) fn counts(&self) -> i32 {
        (self.position * self.increments_per_rad).floor() as i64 as i32
    }

    /// Returns the velocity in increments per second.
    pub(crate) fn counts_per_s(&self) -> i32 {
        (self.velocity * self.increments_per_rad) as i32
    }

    /// Returns the torque in thousandths of the rated torque.
    pub(crate) fn torque_permille(&self) -> i16 {
        (self.torque * self.permille_per_nm) as i16
    }

    /// Simulates `seconds` with this torque set-point, in N·m. Backward Euler, so that any step is
    /// stable.
    pub(crate) fn step(&mut self, set_point: f64, seconds: f64) {
        let motor = &self.settings;
        // Nearly all steps have the same length, and divisions are the expensive part.
        if self.factors.seconds != seconds {
            let damped = motor.inertia_kg_m2 + motor.viscous_nm_s * seconds;
            self.factors = StepFactors {
                seconds,
                lag: seconds / (seconds + motor.torque_lag_us * 1e-6),
                mobility: damped.recip(),
            };
        }

        let StepFactors { lag, mobility, .. } = self.factors;
        self.torque += (set_point - self.torque) * lag;
        if self.brake {
            self.velocity = 0.0;
            return;
        }

        let impulse = motor.inertia_kg_m2 * self.velocity + (self.torque + motor.load_nm) * seconds;
        // Dry friction slows the motion down but never reverses it.
        let braked = impulse.abs() - motor.dry_nm * seconds;
        self.velocity = if braked <= 0.0 { 0.0 } else { braked.copysign(impulse) * mobility };
        self.position += self.velocity * seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> DriveTable {
        DriveTable { inertia_kg_m2: 0.001, dry_nm: 0.05, rated_nm: 1.0, ..DriveTable::default() }
    }

    fn run(motor: &mut Motor, torque: f64, milliseconds: usize) {
        for _ in 0..milliseconds {
            motor.step(torque, 0.001);
        }
    }

    #[test]
    fn a_constant_torque_leads_to_the_speed_at_which_friction_balances_it() {
        let mut motor = Motor::new(settings());
        motor.brake = false;
        run(&mut motor, 0.25, 2_000);
        assert!((motor.velocity - 20.0).abs() < 1e-6, "{}", motor.velocity);
    }

    #[test]
    fn a_torque_below_dry_friction_moves_nothing() {
        let mut motor = Motor::new(settings());
        motor.brake = false;
        run(&mut motor, 0.049, 1_000);
        assert_eq!((motor.velocity, motor.counts()), (0.0, 0));
    }

    #[test]
    fn the_brake_holds_against_the_load() {
        let mut motor = Motor::new(DriveTable { load_nm: -3.0, ..settings() });
        run(&mut motor, 0.0, 100);
        assert_eq!(motor.counts(), 0);
        motor.brake = false;
        run(&mut motor, 0.0, 100);
        assert!(motor.counts() < -1_000);
    }

    #[test]
    fn one_turn_is_the_configured_number_of_increments() {
        let mut motor = Motor::new(settings());
        motor.position = TAU * 1.000_001;
        assert_eq!(motor.counts(), 65_536);
    }
}
