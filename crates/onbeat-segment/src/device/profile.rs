//! Motion that a drive plans by itself: ramps, positions with limited velocity and acceleration, homing.

use super::cia402::{CHANGE_NOW, MODE_12, MODE_13, RELATIVE, START, TARGET_REACHED};
use super::drive_objects::Objects;
use crate::coe::Dictionary;

/// Where a planned motion is. Positions in increments, velocities in increments per second, torques in thousandths of rated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    position: f64,
    velocity: f64,
    torque: f64,
    target: Option<i32>,
    next: Option<i32>,
    acknowledged: bool,
    arrived: bool,
    window: u32,
}

impl Profile {
    /// Plans on from what the motor does.
    pub(crate) fn start_at(&mut self, position: i32, velocity: f64) {
        *self = Self { position: f64::from(position), velocity, arrived: true, ..Self::default() };
    }

    /// Takes a new set-point at the rising edge of its bit, and gives the acknowledgement back when the bit falls.
    pub(crate) fn command(&mut self, objects: &Dictionary, names: &Objects, controlword: u16, rising: u16) {
        if controlword & START == 0 {
            self.acknowledged = false;
        }
        if rising & START == 0 {
            return;
        }

        self.acknowledged = true;
        let asked = objects.i32(names.target_position);
        let base = self.target.unwrap_or(self.position as i32);
        let target = if controlword & RELATIVE != 0 { base.wrapping_add(asked) } else { asked };
        if self.arrived || controlword & CHANGE_NOW != 0 {
            (self.target, self.next, self.arrived) = (Some(target), None, false);
        } else {
            self.next = Some(target);
        }
    }

    /// A step towards the set-point: position and velocity to follow.
    pub(crate) fn position_towards(
        &mut self,
        objects: &Dictionary,
        names: &Objects,
        limits: Option<[i32; 2]>,
        seconds: f64,
    ) -> (f64, f64) {
        self.window = objects.u32(names.position_window);
        let Some(target) = self.target else { return (self.position, 0.0) };
        let target = limits.map_or(target, |[low, high]| target.clamp(low, high));
        let most = f64::from(objects.u32(names.profile_velocity).min(objects.u32(names.most_velocity)));
        let rise = f64::from(objects.u32(names.acceleration).max(1)) * seconds;
        let fall = f64::from(objects.u32(names.deceleration).max(1));
        let distance = f64::from(target) - self.position;
        // The velocity from which whole steps of deceleration end at the target.
        let half = fall * seconds / 2.0;
        let stopping = (half * half + 2.0 * fall * distance.abs()).sqrt() - half;
        let wanted = stopping.min(most).copysign(distance);
        let braking = wanted.abs() < self.velocity.abs() || wanted * self.velocity < 0.0;
        let change = if braking { fall * seconds } else { rise };
        // Braking from a velocity that was planned may not lag behind the plan by rounding.
        self.velocity += (wanted - self.velocity).clamp(-change * 1.001, change * 1.001);
        let step = self.velocity * seconds;

        if distance.abs() < 0.5 || (step.abs() >= distance.abs() && self.velocity.abs() <= 2.0 * fall * seconds) {
            (self.position, self.velocity) = (f64::from(target), 0.0);
            self.arrived = true;
            if let Some(next) = self.next.take() {
                (self.target, self.arrived) = (Some(next), false);
            }
        } else {
            self.position += step;
        }

        (self.position, self.velocity)
    }

    /// Statusword bits of profile position.
    pub(crate) fn position_status(&self, actual: i32) -> u16 {
        let near = (self.position - f64::from(actual)).abs() <= f64::from(self.window);
        let reached = self.arrived && near;
        (if reached { TARGET_REACHED } else { 0 }) | if self.acknowledged { MODE_12 } else { 0 }
    }

    /// A step of the velocity ramp.
    pub(crate) fn velocity_towards(&mut self, objects: &Dictionary, names: &Objects, seconds: f64) -> f64 {
        let most = f64::from(objects.u32(names.most_velocity));
        let wanted = f64::from(objects.i32(names.target_velocity)).clamp(-most, most);
        let slower = wanted.abs() < self.velocity.abs() || wanted * self.velocity < 0.0;
        let rate = objects.u32(if slower { names.deceleration } else { names.acceleration });
        let change = f64::from(rate) * seconds;
        self.velocity += (wanted - self.velocity).clamp(-change, change);

        self.velocity
    }

    /// Statusword bits of profile velocity: within a hundredth of the target, and standing still.
    pub(crate) fn velocity_status(&self, objects: &Dictionary, names: &Objects, actual: i32) -> u16 {
        let wanted = objects.i32(names.target_velocity);
        let near = i64::from(actual).abs_diff(i64::from(wanted)) <= u64::from(wanted.unsigned_abs()) / 100 + 100;
        (if near { TARGET_REACHED } else { 0 }) | if actual == 0 { MODE_12 } else { 0 }
    }

    /// A step of the torque ramp.
    pub(crate) fn torque_towards(&mut self, objects: &Dictionary, names: &Objects, seconds: f64) -> f64 {
        let wanted = f64::from(objects.i16(names.target_torque));
        let change = f64::from(objects.u32(names.torque_slope)) * seconds;
        self.torque += (wanted - self.torque).clamp(-change, change);
        self.torque
    }
}

/// How far homing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Begun,
    /// Runs until the index, which is passed when this turn of the shaft is left.
    ToIndex(i32),
    ToSwitch,
    Attained,
    Failed,
}

/// Search for the zero of all positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homing {
    stage: Stage,
}

impl Homing {
    pub(crate) fn command(&mut self, rising: u16) {
        if rising & START != 0 {
            self.stage = Stage::Begun;
        }
    }

    /// Statusword bits of homing.
    pub(crate) fn status(&self) -> u16 {
        match self.stage {
            Stage::Idle => TARGET_REACHED,
            Stage::Attained => TARGET_REACHED | MODE_12,
            Stage::Failed => TARGET_REACHED | MODE_13,
            _ => 0,
        }
    }

    /// Velocity to run at, and the encoder's count that is the zero, once found.
    ///
    /// Methods: 17 and 18, the lower and upper end of the travel; 33 and 34, the next index below or above; 35 and 37, right here.
    pub(crate) fn step(
        &mut self,
        objects: &Dictionary,
        names: &Objects,
        (counts, travel): (i32, [i32; 2]),
        turn: u32,
    ) -> (f64, Option<i32>) {
        let method = objects.u8(names.homing_method) as i8;
        let turn = turn.max(1) as i32;
        if self.stage == Stage::Begun {
            self.stage = match method {
                17 | 18 if travel[0] < travel[1] => Stage::ToSwitch,
                33 | 34 => Stage::ToIndex(counts.div_euclid(turn)),
                35 | 37 => Stage::Attained,
                _ => Stage::Failed,
            };
            if self.stage == Stage::Attained {
                return (0.0, Some(self.zero(objects, names, counts)));
            }
        }

        let down = matches!(method, 17 | 33);
        let found = match self.stage {
            Stage::ToSwitch if down && counts <= travel[0] => Some(travel[0]),
            Stage::ToSwitch if !down && counts >= travel[1] => Some(travel[1]),
            Stage::ToIndex(turns) if counts.div_euclid(turn) < turns => Some(turns * turn),
            Stage::ToIndex(turns) if counts.div_euclid(turn) > turns => Some((turns + 1) * turn),
            _ => None,
        };

        if let Some(at) = found {
            self.stage = Stage::Attained;
            return (0.0, Some(self.zero(objects, names, at)));
        }

        let speed = match self.stage {
            Stage::ToSwitch => f64::from(objects.u32(names.homing_velocities[0])),
            Stage::ToIndex(_) => f64::from(objects.u32(names.homing_velocities[1])),
            _ => 0.0,
        };

        (if down { -speed } else { speed }, None)
    }

    /// The home offset is the position that the place found is to have.
    fn zero(&self, objects: &Dictionary, names: &Objects, at: i32) -> i32 {
        at.wrapping_sub(objects.i32(names.home_offset))
    }
}
