//! A CiA 402 drive: power states, modes of operation, faults and their reactions.

use onbeat_ethercat::description::DriveTable;

use super::cia402::{
    HALT, LIMIT_ACTIVE, MODE_12, MODE_13, PowerState, REMOTE, TARGET_REACHED, VOLTAGE,
};
use super::drive_objects::DriveObjects;
use super::mode;
use super::motor::Motor;
use super::profile::{Homing, MotionProfile};
use super::{Emergency, ModelStep};
use crate::coe::Dictionary;

/// Error codes (object 0x603F, CiA 402) and the error register that goes with them.
const FOLLOWING_ERROR: Emergency = Emergency { code: 0x8611, register: 0x21 };
const FIELDBUS_LOST: Emergency = Emergency { code: 0x7500, register: 0x11 };

/// Longest step of the control loops; longer ones are divided.
const LONGEST_STEP_NS: u64 = 1_000_000;
/// Bandwidth of the velocity and of the position loop, in 1/s.
const VELOCITY_LOOP: f64 = 500.0;
const POSITION_LOOP: f64 = 120.0;
/// Integral gain of the velocity loop, in 1/s.
const VELOCITY_INTEGRAL: f64 = 40.0;

/// Set-point of the motor in one step, in SI units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Demand {
    Torque(f64),
    Velocity(f64),
    /// Position, with velocity feed-forward.
    Position {
        position: f64,
        velocity: f64,
    },
}

/// A drive with its motor.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    objects: DriveObjects,
    motor: Motor,
    power: PowerState,
    controlword: u16,
    profile: MotionProfile,
    homing: Homing,
    /// Zero of the displayed positions, in increments.
    home: i32,
    integral: f64,
    /// Velocity of a stop in progress, in rad/s.
    braking: Option<f64>,
    last_target: Option<i32>,
    beyond_window_ns: u64,
    limited: bool,
    emergency: Option<Emergency>,
}

impl Drive {
    pub(crate) fn new(objects: &mut Dictionary, settings: DriveTable) -> Self {
        Self {
            objects: DriveObjects::new(objects, &settings),
            profile: MotionProfile::default(),
            homing: Homing::default(),
            motor: Motor::new(settings),
            power: PowerState::SwitchOnDisabled,
            controlword: 0,
            home: 0,
            integral: 0.0,
            braking: None,
            last_target: None,
            beyond_window_ns: 0,
            limited: false,
            emergency: None,
        }
    }

    /// Resets everything but the position of the shaft.
    pub(crate) fn power_on(&mut self) {
        let position = self.motor.position;
        self.motor = Motor::new(self.motor.settings);
        self.motor.position = position;
        self.power = PowerState::SwitchOnDisabled;
        self.controlword = 0;
        self.homing = Homing::default();
        self.home = 0;
        self.reset_motion();
        self.emergency = None;
    }

    /// Handles the loss of process data: a powered drive goes to fault.
    pub(crate) fn outputs_lost(&mut self) {
        if self.power.is_powered() {
            self.fail(FIELDBUS_LOST);
        }
    }

    pub(crate) fn written(&mut self, index: u16) {
        if index == 0x6060 {
            self.last_target = None;
        }
    }

    fn fail(&mut self, why: Emergency) {
        self.power = PowerState::FaultReactionActive;
        self.emergency = Some(why);
    }

    fn reset_motion(&mut self) {
        self.profile = MotionProfile::default();
        self.integral = 0.0;
        self.last_target = None;
        self.beyond_window_ns = 0;
    }

    pub(crate) fn step(&mut self, objects: &mut Dictionary, step: ModelStep) -> Option<Emergency> {
        let controlword = if step.outputs_valid {
            objects.u16(self.objects.controlword)
        } else {
            self.controlword
        };
        let mode = self.mode(objects);
        self.apply_controlword(objects, mode, controlword);
        let mut left_ns = step.elapsed_ns;
        while left_ns > 0 {
            let part_ns = left_ns.min(LONGEST_STEP_NS);
            left_ns -= part_ns;
            self.move_for(objects, mode, part_ns);
        }

        let emergency = self.emergency.take();
        if let Some(emergency) = emergency {
            objects.put(self.objects.error_code, emergency.code.to_le_bytes());
            objects.put(self.objects.error_register, [emergency.register]);
        }

        self.update_inputs(objects, mode, step.outputs_valid);
        emergency
    }

    fn apply_controlword(&mut self, objects: &mut Dictionary, mode: i8, controlword: u16) {
        let before = self.power;
        self.power = self.power.after(controlword, self.controlword);
        if before == PowerState::Fault && self.power == PowerState::SwitchOnDisabled {
            objects.put(self.objects.error_code, [0, 0]);
            objects.put(self.objects.error_register, [0]);
        }

        if self.power == PowerState::OperationEnabled && before != PowerState::OperationEnabled {
            self.reset_motion();
            self.profile.start_at(self.position(), f64::from(self.motor.counts_per_s()));
        }

        let rising = controlword & !self.controlword;
        // The same bit is a new set-point in one mode, and the start of homing in another.
        let is_enabled = self.power == PowerState::OperationEnabled;
        match mode {
            mode::PP if is_enabled => {
                self.profile.command(objects, &self.objects, controlword, rising);
            }
            mode::HM if is_enabled => self.homing.command(rising),
            _ => {}
        }

        self.controlword = controlword;
        self.motor.brake = !self.power.is_powered();
    }

    /// Returns the mode of operation. A drive that changes it holds its position until it gets a
    /// target in the new one.
    fn mode(&mut self, objects: &mut Dictionary) -> i8 {
        let requested = objects.u8(self.objects.mode) as i8;
        let current = objects.u8(self.objects.mode_display) as i8;
        let mode = if mode::is_supported(requested) { requested } else { current };
        if mode != current {
            self.profile.start_at(self.position(), f64::from(self.motor.counts_per_s()));
            self.last_target = None;
        }
        objects.put(self.objects.mode_display, [mode as u8]);
        mode
    }

    /// Returns the displayed position, in increments from home.
    fn position(&self) -> i32 {
        self.motor.counts().wrapping_sub(self.home)
    }

    fn radians(&self, increments: f64) -> f64 {
        increments * self.motor.rad_per_increment()
    }

    /// Converts position and velocity in increments to a demand.
    fn position_demand(&self, increments: f64, per_s: f64) -> Demand {
        Demand::Position {
            position: self.radians(increments + f64::from(self.home)),
            velocity: self.radians(per_s),
        }
    }

    /// Runs one step of the control loops in the current power state and mode.
    fn move_for(&mut self, objects: &mut Dictionary, mode: i8, part_ns: u64) {
        let seconds = part_ns as f64 * 1e-9;
        let demand = match self.power {
            PowerState::OperationEnabled if self.controlword & HALT != 0 && mode != mode::CST => {
                self.slow_down(objects.u32(self.objects.deceleration), seconds)
            }
            PowerState::OperationEnabled => {
                self.braking = None;
                self.demand(objects, mode, part_ns)
            }
            PowerState::QuickStopActive => self.quick_stop(objects, seconds),
            PowerState::FaultReactionActive => self.fault_reaction(objects, seconds),
            _ => {
                self.integral = 0.0;
                self.braking = None;
                Demand::Torque(0.0)
            }
        };

        self.check_following_error(objects, demand, part_ns);
        let torque = self.torque_for(objects, demand, seconds);
        self.motor.step(torque, seconds);
    }

    /// Returns the demand of the mode of operation.
    fn demand(&mut self, objects: &mut Dictionary, mode: i8, part_ns: u64) -> Demand {
        let seconds = part_ns as f64 * 1e-9;
        let slots = self.objects;
        match mode {
            mode::CSP => {
                let target = self.within_travel(objects, objects.i32(slots.target_position));
                let before = self.last_target.replace(target).unwrap_or(target);
                let per_s = f64::from(target.wrapping_sub(before)) / seconds
                    + f64::from(objects.i32(slots.velocity_offset));
                let most = f64::from(objects.u32(slots.most_velocity));
                self.position_demand(f64::from(target), per_s.clamp(-most, most))
            }
            mode::CSV => {
                let target = objects
                    .i32(slots.target_velocity)
                    .saturating_add(objects.i32(slots.velocity_offset));
                Demand::Velocity(self.radians(f64::from(target)))
            }
            mode::CST => {
                let target = objects
                    .i16(slots.target_torque)
                    .saturating_add(objects.i16(slots.torque_offset));
                Demand::Torque(f64::from(target) / 1000.0 * self.motor.settings.rated_nm)
            }
            mode::PV => {
                let velocity = self.profile.velocity_towards(objects, &slots, seconds);
                Demand::Velocity(self.radians(velocity))
            }
            mode::PT => {
                let permille = self.profile.torque_towards(objects, &slots, seconds);
                Demand::Torque(permille / 1000.0 * self.motor.settings.rated_nm)
            }
            mode::HM => {
                let counts = self.motor.counts();
                let settings = &self.motor.settings;
                let (velocity, found) = self.homing.step(objects, &slots, counts, settings);
                if let Some(home) = found {
                    self.home = home;
                    self.profile.start_at(self.position(), 0.0);
                    self.last_target = None;
                }

                Demand::Velocity(self.radians(velocity))
            }
            _ => {
                let limits = self.travel_limits(objects);
                let (position, velocity) =
                    self.profile.position_towards(objects, &slots, limits, seconds);
                self.position_demand(position, velocity)
            }
        }
    }

    fn travel_limits(&self, objects: &Dictionary) -> Option<[i32; 2]> {
        let limits = self.objects.position_limits.map(|slot| objects.i32(slot));
        (limits[0] < limits[1]).then_some(limits)
    }

    fn within_travel(&mut self, objects: &Dictionary, target: i32) -> i32 {
        let Some([low, high]) = self.travel_limits(objects) else { return target };
        self.limited |= target < low || target > high;
        target.clamp(low, high)
    }

    /// Decelerates to standstill at this rate, in increments per s².
    fn slow_down(&mut self, rate: u32, seconds: f64) -> Demand {
        let step = self.radians(f64::from(rate)) * seconds;
        let from = self.braking.unwrap_or(self.motor.velocity);
        let velocity = if from.abs() <= step { 0.0 } else { from - step.copysign(from) };
        self.braking = Some(velocity);
        Demand::Velocity(velocity)
    }

    fn is_standing(&self) -> bool {
        self.motor.counts_per_s().unsigned_abs() < (self.motor.settings.increments / 100).max(1)
    }

    fn quick_stop(&mut self, objects: &Dictionary, seconds: f64) -> Demand {
        let option = objects.i16(self.objects.quick_stop_option);
        let rate = if matches!(option, 1 | 5) {
            self.objects.deceleration
        } else {
            self.objects.quick_stop_rate
        };
        if option == 0 || (option <= 4 && self.is_standing()) {
            self.power = PowerState::SwitchOnDisabled;
            self.motor.brake = true;
            return Demand::Torque(0.0);
        }

        self.slow_down(objects.u32(rate), seconds)
    }

    fn fault_reaction(&mut self, objects: &Dictionary, seconds: f64) -> Demand {
        let option = objects.i16(self.objects.fault_option);
        if option == 0 || self.is_standing() {
            self.power = PowerState::Fault;
            self.motor.brake = true;
            return Demand::Torque(0.0);
        }

        let rate =
            if option == 1 { self.objects.deceleration } else { self.objects.quick_stop_rate };
        self.slow_down(objects.u32(rate), seconds)
    }

    fn check_following_error(&mut self, objects: &mut Dictionary, demand: Demand, part_ns: u64) {
        let Demand::Position { position, .. } = demand else {
            self.beyond_window_ns = 0;
            return;
        };
        let error = (position - self.motor.position) * self.motor.increments_per_rad();
        objects.put(self.objects.following_error, (error as i32).to_le_bytes());
        let window = objects.u32(self.objects.following_window);

        if window == u32::MAX || error.abs() <= f64::from(window) {
            self.beyond_window_ns = 0;
            return;
        }

        self.beyond_window_ns += part_ns;
        if self.beyond_window_ns > u64::from(objects.u16(self.objects.following_time)) * 1_000_000 {
            self.fail(FOLLOWING_ERROR);
        }
    }

    /// Runs the cascade of position, velocity and torque loop, each with its limit. Returns the
    /// torque in N·m.
    fn torque_for(&mut self, objects: &Dictionary, demand: Demand, seconds: f64) -> f64 {
        let most_velocity = self.radians(f64::from(objects.u32(self.objects.most_velocity)));
        let motor = self.motor.settings;
        let of_rated = |slot| f64::from(objects.u16(slot)) / 1000.0 * motor.rated_nm;
        let most_torque = of_rated(self.objects.most_torque);
        let limits = self.objects.torque_limits.map(|slot| of_rated(slot).min(most_torque));
        let velocity = match demand {
            Demand::Torque(torque) => {
                let past_limit =
                    self.motor.velocity.abs() > most_velocity && torque * self.motor.velocity > 0.0;
                return self.limit_torque(if past_limit { 0.0 } else { torque }, limits);
            }
            Demand::Velocity(velocity) => velocity,
            Demand::Position { position, velocity } => {
                velocity + POSITION_LOOP * (position - self.motor.position)
            }
        };

        let error = self.limit(velocity, most_velocity) - self.motor.velocity;
        let offset = f64::from(objects.i16(self.objects.torque_offset)) / 1000.0 * motor.rated_nm;
        let without_integral =
            VELOCITY_LOOP * motor.inertia_kg_m2 * error + motor.viscous_nm_s * velocity + offset;
        // Anti-windup: the integrator stops while the torque is at its limit.
        if (without_integral + self.integral).abs() < most_torque {
            let gain = VELOCITY_INTEGRAL * VELOCITY_LOOP * motor.inertia_kg_m2;
            let grown = self.integral + gain * error * seconds;
            self.integral = grown.clamp(-most_torque, most_torque);
        }

        self.limit_torque(without_integral + self.integral, limits)
    }

    /// Limits a torque to the largest in its direction.
    fn limit_torque(&mut self, torque: f64, [positive, negative]: [f64; 2]) -> f64 {
        self.limited |= torque > positive || torque < -negative;
        torque.clamp(-negative, positive)
    }

    fn limit(&mut self, value: f64, most: f64) -> f64 {
        self.limited |= value.abs() > most;
        value.clamp(-most, most)
    }

    /// Updates statusword and actual values.
    fn update_inputs(&mut self, objects: &mut Dictionary, mode: i8, outputs_valid: bool) {
        let slots = self.objects;
        let mut status = self.power.statusword() | VOLTAGE;
        status |= if outputs_valid { REMOTE } else { 0 };
        status |= if std::mem::take(&mut self.limited) { LIMIT_ACTIVE } else { 0 };
        if self.power == PowerState::OperationEnabled {
            status |= match mode {
                mode::PP => self.profile.position_status(self.position()),
                mode::PV => {
                    self.profile.velocity_status(objects, &slots, self.motor.counts_per_s())
                }
                mode::PT => {
                    self.profile.torque_status(objects, &slots, self.motor.torque_permille())
                }
                mode::HM => self.homing.status(),
                _ => MODE_12,
            };

            status |= if self.beyond_window_ns > 0 { MODE_13 } else { 0 };
            if self.controlword & HALT != 0 {
                status =
                    status & !TARGET_REACHED | if self.is_standing() { TARGET_REACHED } else { 0 };
            }
        }

        objects.put(slots.statusword, status.to_le_bytes());
        objects.put(slots.position, self.position().to_le_bytes());
        objects.put(slots.velocity, self.motor.counts_per_s().to_le_bytes());
        objects.put(slots.torque, self.motor.torque_permille().to_le_bytes());
    }
}
