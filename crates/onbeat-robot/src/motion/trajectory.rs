//! Trajectories: target positions of the joints over time.

use super::csv::CsvTrajectory;
use super::file::Robot;
use super::goal::{GoalFollower, GoalReport, GoalSource};
use super::status::Status;
use super::trajectory_error::TrajectoryError;
use super::wave::Wave;
use super::waves;

/// A trajectory of all joints of a robot.
pub struct Trajectory(TrajectoryKind);

type Law = dyn FnMut(&Status, &mut [f64]) + Send;

enum TrajectoryKind {
    Hold,
    Waves(Vec<Wave>),
    Csv(CsvTrajectory),
    Goal(Box<GoalFollower>),
    Law(Box<Law>),
}

impl Trajectory {
    /// Joints hold the positions at which they were enabled.
    #[must_use]
    pub fn hold() -> Self {
        Self(TrajectoryKind::Hold)
    }

    /// Each joint oscillates around its start position, with amplitude, frequency and phase from
    /// the file.
    ///
    /// # Errors
    /// [`TrajectoryError::TooFast`] if a joint would exceed a limit.
    pub fn sine(robot: &Robot) -> Result<Self, TrajectoryError> {
        waves::sines(robot).map(|waves| Self(TrajectoryKind::Waves(waves)))
    }

    /// Walking in the air: hips and arms of one side in opposite phase, left against right. Joints
    /// are found by their names.
    ///
    /// # Errors
    /// [`TrajectoryError::NoPart`] without hips or knees; [`TrajectoryError::TooFast`].
    pub fn gait(robot: &Robot) -> Result<Self, TrajectoryError> {
        waves::gait(robot).map(|waves| Self(TrajectoryKind::Waves(waves)))
    }

    /// Samples from a CSV file: a header `time,NAME,NAME...`, then lines in s and rad. Joints
    /// without a column hold.
    ///
    /// # Errors
    /// [`TrajectoryError`] with line and column.
    pub fn csv(text: &str, robot: &Robot) -> Result<Self, TrajectoryError> {
        CsvTrajectory::parse(text, robot).map(|table| Self(TrajectoryKind::Csv(table)))
    }

    /// The latest goal of a source, up to the maximum age in the file.
    #[must_use]
    pub fn goal(source: Box<dyn GoalSource>, robot: &Robot) -> Self {
        Self(TrajectoryKind::Goal(Box::new(GoalFollower::new(source, robot))))
    }

    /// A user-defined control law. It receives the status (of the last cycle, with new positions)
    /// and writes the target of each joint, in rad. It is called in each cycle that was not missed,
    /// and must not allocate, block, or make system calls. Joints that it does not write keep their
    /// last target; values that are not finite are ignored.
    ///
    /// ```
    /// # use onbeat_ethercat::layout::Layout;
    /// # use onbeat_robot::motion::{MotionController, Robot, Trajectory};
    /// # use onbeat_segment::Segment;
    /// # let layout = Layout::from_toml(Segment::HUMANOID)?;
    /// # let robot = Robot::from_toml(Segment::HUMANOID, &layout, 1_000_000)?;
    /// let knees = [robot.find("left knee"), robot.find("right knee")];
    /// let squat = Trajectory::law(move |status, wanted| {
    ///     let depth_rad = 0.25 * (1.0 - (status.time_ns as f64 * 1e-9).cos());
    ///     for knee in knees.into_iter().flatten() {
    ///         wanted[knee] = depth_rad;
    ///     }
    /// });
    /// let controller = MotionController::new(&robot, squat);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn law(law: impl FnMut(&Status, &mut [f64]) + Send + 'static) -> Self {
        Self(TrajectoryKind::Law(Box::new(law)))
    }

    /// Returns whether the trajectory can fade out.
    pub(crate) fn fades(&self) -> bool {
        matches!(self.0, TrajectoryKind::Waves(_))
    }

    /// Returns whether the trajectory has no time of its own that could be slowed down.
    pub(crate) fn is_timeless(&self) -> bool {
        matches!(self.0, TrajectoryKind::Goal(_) | TrajectoryKind::Law(_))
    }

    /// Begins anew, at the time 0.
    pub(crate) fn restart(&mut self) {
        if let TrajectoryKind::Goal(goal) = &mut self.0 {
            goal.forget();
        }
    }

    /// Records a cycle in which the trajectory is not evaluated.
    pub(crate) fn skip_cycle(&mut self, status: &Status) {
        if let TrajectoryKind::Goal(goal) = &mut self.0 {
            goal.skip_cycle(status.release_ns);
        }
    }

    /// Writes the targets at this cycle to `wanted`; joints without a target stay unchanged.
    pub(crate) fn at(
        &mut self,
        status: &Status,
        homes: &[f64],
        wanted: &mut [f64],
    ) -> Option<GoalReport> {
        let time_s = status.time_ns as f64 * 1e-9;
        match &mut self.0 {
            TrajectoryKind::Hold => None,
            TrajectoryKind::Waves(waves) => {
                for ((wanted, home), wave) in wanted.iter_mut().zip(homes).zip(waves) {
                    *wanted = home + wave.offset(time_s);
                }
                None
            }
            TrajectoryKind::Csv(table) => {
                table.at(time_s, wanted);
                None
            }
            TrajectoryKind::Goal(goal) => Some(goal.at(status.release_ns, wanted)),
            TrajectoryKind::Law(law) => {
                law(status, wanted);
                None
            }
        }
    }
}
