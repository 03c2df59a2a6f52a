//! `[robot]` and its tables: settings of the robot as a whole.

use serde::Deserialize;

use super::range::RangeCheck;
use super::{CsvSettings, GaitSettings, OnFault, RobotError, RobotSettings};
use crate::motion::ladder::Thresholds;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RobotTable {
    /// URDF file with limits of the joints.
    pub(super) urdf: Option<String>,
    trajectory: String,
    on_fault: OnFault,
    enable_at_once: usize,
    enable_every_ms: f64,
    enable_within_ms: f64,
    soft_start_ms: f64,
    following_ms: f64,
    ladder: Thresholds,
    gait: GaitSettings,
    goal: GoalTable,
    csv: CsvSettings,
}

impl Default for RobotTable {
    fn default() -> Self {
        Self {
            urdf: None,
            trajectory: "hold".to_owned(),
            on_fault: OnFault::default(),
            enable_at_once: 8,
            enable_every_ms: 20.0,
            enable_within_ms: 2_000.0,
            soft_start_ms: 2_000.0,
            following_ms: 50.0,
            ladder: Thresholds::default(),
            gait: GaitSettings::default(),
            goal: GoalTable::default(),
            csv: CsvSettings::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GoalTable {
    age_ms: f64,
    lost_ms: f64,
}

impl Default for GoalTable {
    fn default() -> Self {
        Self { age_ms: 100.0, lost_ms: 1_000.0 }
    }
}

impl RobotTable {
    /// Returns the settings, for a bus with this period.
    ///
    /// # Errors
    /// [`RobotError::Range`] for the first number that is out of range.
    pub(super) fn settings(self, period_ns: u64) -> Result<RobotSettings, RobotError> {
        self.check()?;
        self.goal.check()?;
        check_ladder(&self.ladder)?;
        check_gait(&self.gait)?;

        let ns = |ms: f64| (ms * 1e6) as u64;
        Ok(RobotSettings {
            trajectory: self.trajectory,
            period_ns: period_ns.max(1),
            on_fault: self.on_fault,
            enable_at_once: self.enable_at_once,
            enable_every_ns: ns(self.enable_every_ms),
            enable_within_ns: ns(self.enable_within_ms),
            soft_start_ns: ns(self.soft_start_ms),
            following_ns: ns(self.following_ms),
            goal_age_ns: ns(self.goal.age_ms),
            goal_lost_ns: (self.goal.lost_ms > 0.0).then(|| ns(self.goal.lost_ms)),
            thresholds: self.ladder,
            gait: self.gait,
            csv: self.csv,
        })
    }

    fn check(&self) -> Result<(), RobotError> {
        let check = RangeCheck { table: "[robot]" };
        check.time("enable_every_ms", self.enable_every_ms)?;
        check.time("enable_within_ms", self.enable_within_ms)?;
        check.time("soft_start_ms", self.soft_start_ms)?;
        check.time("following_ms", self.following_ms)?;

        let at_once = self.enable_at_once;
        check.require("enable_at_once", at_once as f64, at_once > 0, "1 or more")
    }
}

impl GoalTable {
    fn check(&self) -> Result<(), RobotError> {
        let check = RangeCheck { table: "[robot.goal]" };
        check.time("age_ms", self.age_ms)?;

        let is_in_order = self.lost_ms == 0.0 || (self.age_ms..=1e9).contains(&self.lost_ms);
        let must = "age_ms to 1000000000, or 0 for never";
        check.require("lost_ms", self.lost_ms, is_in_order, must)
    }
}

fn check_ladder(ladder: &Thresholds) -> Result<(), RobotError> {
    let check = RangeCheck { table: "[robot.ladder]" };
    let is_in_order = 0 < ladder.degrade_at && ladder.degrade_at <= ladder.stop_at;
    let must = "at least 1 and at most stop_at";
    check.require("degrade_at", f64::from(ladder.degrade_at), is_in_order, must)?;

    let forget = ladder.forget;
    check.require("forget_cycles", f64::from(forget), forget > 0, "1 or more")?;

    let speed = ladder.degraded_speed;
    check.require("degraded_speed", speed, (0.0..=1.0).contains(&speed), "0 to 1")
}

fn check_gait(gait: &GaitSettings) -> Result<(), RobotError> {
    let numbers =
        [gait.steps_hz, gait.hip_rad, gait.sway_rad, gait.knee_rad, gait.ankle_rad, gait.arm_rad];
    let odd = numbers.into_iter().find(|number| !number.is_finite());
    let is_valid = odd.is_none() && gait.steps_hz >= 0.0;
    let must = "finite, and steps_hz 0 or more";
    let check = RangeCheck { table: "[robot.gait]" };
    check.require("a number", odd.unwrap_or_default(), is_valid, must)
}
