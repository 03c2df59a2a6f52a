//! Motion profiles of a drive: ramps, positioning with limited velocity and acceleration, homing.

use onbeat_ethercat::description::DriveTable;

use super::cia402::{CHANGE_NOW, MODE_12, MODE_13, RELATIVE, START, TARGET_REACHED};
use super::drive_objects::DriveObjects;
use crate::coe::Dictionary;

/// State of a planned motion. Positions in increments, velocities in increments per second, torques
/// in thousandths of the rated torque.
#[derive(Clone, Debug, Default)]
pub(crate) struct MotionProfile {
    position: f64,
    velocity: f64,
    torque: f64,
    target: Option<i32>,
    next: Option<i32>,
    acknowledged: bool,
    arrived: bool,
    window: u32,
}

impl MotionProfile {
    /// Starts planning from the current motion.
    pub(crate) fn start_at(&mut self, position: i32, velocity: f64) {
        *self = Self { position: f64::from(position), velocity, arrived: true, ..Self::default() };
    }

    /// Accepts a new set-point at the rising edge of its bit, and clears the acknowledgement when
    /// the bit falls.
    pub(crate) fn command(
        &mut self,
        objects: &Dictionary,
        slots: &DriveObjects,
        controlword: u16,
        rising: u16,
    ) {
        if controlword & START == 0 {
            self.acknowledged = false;
        }
        if rising & START == 0 {
            return;
        }

        self.acknowledged = true;
        let requested = objects.i32(slots.target_position);
        let base = self.target.unwrap_or(self.position as i32);
        let target =
            if controlword & RELATIVE != 0 { base.wrapping_add(requested) } else { requested };
        if self.arrived || controlword & CHANGE_NOW != 0 {
            self.target = Some(target);
            self.next = None;
            self.arrived = false;
        } else {
            self.next = Some(target);
        }
    }

    /// Plans one step towards the set-point. Returns position and velocity to follow.
    pub(crate) fn position_towards(
        &mut self,
        objects: &Dictionary,
        slots: &DriveObjects,
        limits: Option<[i32; 2]>,
        seconds: f64,
    ) -> (f64, f64) {
        self.window = objects.u32(slots.position_window);
        let Some(target) = self.target else { return (self.position, 0.0) };
        let target = limits.map_or(target, |[low, high]| target.clamp(low, high));
        let most =
            f64::from(objects.u32(slots.profile_velocity).min(objects.u32(slots.most_velocity)));
        let rise = f64::from(objects.u32(slots.acceleration).max(1)) * seconds;
        let fall = f64::from(objects.u32(slots.deceleration).max(1));
        let distance = f64::from(target) - self.position;
        // Velocity from which whole deceleration steps end at the target.
        let half = fall * seconds / 2.0;
        let stopping = (half * half + 2.0 * fall * distance.abs()).sqrt() - half;
        let wanted = stopping.min(most).copysign(distance);
        let braking = wanted.abs() < self.velocity.abs() || wanted * self.velocity < 0.0;
        let change = if braking { fall * seconds } else { rise };
        // The tolerance keeps rounding from delaying a planned deceleration.
        self.velocity += (wanted - self.velocity).clamp(-change * 1.001, change * 1.001);
        let step = self.velocity * seconds;

        if distance.abs() < 0.5
            || (step.abs() >= distance.abs() && self.velocity.abs() <= 2.0 * fall * seconds)
        {
            self.position = f64::from(target);
            self.velocity = 0.0;
            self.arrived = true;
            if let Some(next) = self.next.take() {
                self.target = Some(next);
                self.arrived = false;
            }
        } else {
            self.position += step;
        }

        (self.position, self.velocity)
    }

    /// Returns the statusword bits of profile position.
    pub(crate) fn position_status(&self, actual: i32) -> u16 {
        let near = (self.position - f64::from(actual)).abs() <= f64::from(self.window);
        let reached = self.arrived && near;
        (if reached { TARGET_REACHED } else { 0 }) | if self.acknowledged { MODE_12 } else { 0 }
    }

    /// Returns the velocity after one step of the ramp.
    pub(crate) fn velocity_towards(
        &mut self,
        objects: &Dictionary,
        slots: &DriveObjects,
        seconds: f64,
    ) -> f64 {
        let most = f64::from(objects.u32(slots.most_velocity));
        let wanted = f64::from(objects.i32(slots.target_velocity)).clamp(-most, most);
        let slower = wanted.abs() < self.velocity.abs() || wanted * self.velocity < 0.0;
        let rate = objects.u32(if slower { slots.deceleration } else { slots.acceleration });
        let change = f64::from(rate) * seconds;
        self.velocity += (wanted - self.velocity).clamp(-change, change);

        self.velocity
    }

    /// Returns the statusword bits of profile velocity: within a hundredth of the target, and
    /// standstill.
    pub(crate) fn velocity_status(
        &self,
        objects: &Dictionary,
        slots: &DriveObjects,
        actual: i32,
    ) -> u16 {
        let wanted = objects.i32(slots.target_velocity);
        let near = i64::from(actual).abs_diff(i64::from(wanted))
            <= u64::from(wanted.unsigned_abs()) / 100 + 100;
        (if near { TARGET_REACHED } else { 0 }) | if actual == 0 { MODE_12 } else { 0 }
    }

    /// Returns the torque after one step of the ramp.
    pub(crate) fn torque_towards(
        &mut self,
        objects: &Dictionary,
        slots: &DriveObjects,
        seconds: f64,
    ) -> f64 {
        let wanted = f64::from(objects.i16(slots.target_torque));
        let change = f64::from(objects.u32(slots.torque_slope)) * seconds;
        self.torque += (wanted - self.torque).clamp(-change, change);
        self.torque
    }

    /// Returns the statusword bit of profile torque: within a hundredth of the rated torque.
    pub(crate) fn torque_status(
        &self,
        objects: &Dictionary,
        slots: &DriveObjects,
        actual: i16,
    ) -> u16 {
        let wanted = objects.i16(slots.target_torque);
        if actual.abs_diff(wanted) <= 10 { TARGET_REACHED } else { 0 }
    }
}

/// Progress of homing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HomingStage {
    #[default]
    Idle,
    Started,
    /// Moves until the index pulse, which is at the end of this turn of the shaft.
    ToIndex(i32),
    ToSwitch,
    Attained,
    Failed,
}

/// Homing: the search for the zero position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homing {
    stage: HomingStage,
}

impl Homing {
    pub(crate) fn command(&mut self, rising: u16) {
        if rising & START != 0 {
            self.stage = HomingStage::Started;
        }
    }

    /// Returns the statusword bits of homing.
    pub(crate) fn status(&self) -> u16 {
        match self.stage {
            HomingStage::Idle => TARGET_REACHED,
            HomingStage::Attained => TARGET_REACHED | MODE_12,
            HomingStage::Failed => TARGET_REACHED | MODE_13,
            _ => 0,
        }
    }

    /// Returns the velocity to move at, and the encoder count of the zero position once it is
    /// found.
    ///
    /// Methods: 17 and 18, lower and upper end of the travel; 33 and 34, next index pulse below or
    /// above; 35 and 37, current position.
    pub(crate) fn step(
        &mut self,
        objects: &Dictionary,
        slots: &DriveObjects,
        counts: i32,
        settings: &DriveTable,
    ) -> (f64, Option<i32>) {
        let method = objects.u8(slots.homing_method) as i8;
        let travel = settings.travel;
        let turn = settings.increments.max(1) as i32;
        if self.stage == HomingStage::Started {
            self.stage = match method {
                17 | 18 if travel[0] < travel[1] => HomingStage::ToSwitch,
                33 | 34 => HomingStage::ToIndex(counts.div_euclid(turn)),
                35 | 37 => HomingStage::Attained,
                _ => HomingStage::Failed,
            };
            if self.stage == HomingStage::Attained {
                return (0.0, Some(self.zero(objects, slots, counts)));
            }
        }

        let down = matches!(method, 17 | 33);
        let found = match self.stage {
            HomingStage::ToSwitch if down && counts <= travel[0] => Some(travel[0]),
            HomingStage::ToSwitch if !down && counts >= travel[1] => Some(travel[1]),
            HomingStage::ToIndex(turns) if counts.div_euclid(turn) < turns => Some(turns * turn),
            HomingStage::ToIndex(turns) if counts.div_euclid(turn) > turns => {
                Some((turns + 1) * turn)
            }
            _ => None,
        };

        if let Some(at) = found {
            self.stage = HomingStage::Attained;
            return (0.0, Some(self.zero(objects, slots, at)));
        }

        let speed = match self.stage {
            HomingStage::ToSwitch => f64::from(objects.u32(slots.homing_velocities[0])),
            HomingStage::ToIndex(_) => f64::from(objects.u32(slots.homing_velocities[1])),
            _ => 0.0,
        };

        (if down { -speed } else { speed }, None)
    }

    /// Returns the zero position: the home offset is the position of the point found.
    fn zero(&self, objects: &Dictionary, slots: &DriveObjects, at: i32) -> i32 {
        at.wrapping_sub(objects.i32(slots.home_offset))
    }
}
