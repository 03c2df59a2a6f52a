//! Trajectories: target positions of the joints over time.

use super::csv::CsvTrajectory;
use super::file::Robot;
use super::goal::{GoalFollower, GoalOutcome, GoalSource};
use super::status::Status;
use super::waves::{self, Wave};

/// Reasons why a trajectory does not fit the robot.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrajectoryError {
    /// A joint would exceed a limit.
    #[error(
        "the {what} of \"{joint}\" needs {needs:.2} {unit}, its limit is {limit} {unit}; make it smaller or slower"
    )]
    TooFast {
        /// Name of the trajectory.
        what: &'static str,
        /// Name of the joint.
        joint: String,
        /// Required value.
        needs: f64,
        /// The limit.
        limit: f64,
        /// Unit of both values.
        unit: &'static str,
    },
    /// No joint for this part of the gait.
    #[error(
        "the gait finds no joint with \"{part}\" and \"left\" or \"right\" in its name; rename the devices, or use another trajectory"
    )]
    NoPart {
        /// Word searched for in the joints' names.
        part: &'static str,
    },
    /// The file has too few samples.
    #[error(
        "the CSV file has {lines} lines; it needs a header (time, names of joints) and two lines of numbers"
    )]
    NoSamples {
        /// Number of non-empty lines.
        lines: usize,
    },
    /// The first column is not `time`.
    #[error(
        "line {line}, column 1: the first column is \"{found}\", it must be \"time\", in seconds"
    )]
    NoTime {
        /// Line of the file, from 1.
        line: usize,
        /// Its name.
        found: String,
    },
    /// A column names an unknown joint, or one that has a column already.
    #[error(
        "line {line}, column {column}: \"{found}\" is not a joint of the robot, or has a column already; use the names of its devices"
    )]
    NoJoint {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Name of the column.
        found: String,
    },
    /// A line has another number of fields than the header.
    #[error("line {line}: {found} columns, the header has {wanted}")]
    Columns {
        /// Line of the file, from 1.
        line: usize,
        /// Fields in this line.
        found: usize,
        /// Fields in the header.
        wanted: usize,
    },
    /// A field is not a finite number.
    #[error("line {line}, column {column}: \"{found}\" is not a finite number")]
    NoNumber {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Content of the field.
        found: String,
    },
    /// The time does not increase.
    #[error(
        "line {line}, column 1: time {found} s is not later than {before} s in the line before"
    )]
    NotLater {
        /// Line of the file, from 1.
        line: usize,
        /// Time in this line, in s.
        found: f64,
        /// Time in the line before, in s.
        before: f64,
    },
    /// A position is outside the travel.
    #[error(
        "line {line}, column {column}: {found} rad of \"{joint}\" is outside its travel of {low} to {high} rad"
    )]
    Outside {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Name of the joint.
        joint: String,
        /// Position, in rad.
        found: f64,
        /// Lower end of the travel, in rad.
        low: f64,
        /// Upper end of the travel, in rad.
        high: f64,
    },
    /// A joint would exceed its velocity limit.
    #[error(
        "line {line}, column {column}: \"{joint}\" would move at {found:.2} rad/s from the line before, its limit is {limit} rad/s"
    )]
    Faster {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Name of the joint.
        joint: String,
        /// Required velocity, in rad/s.
        found: f64,
        /// Velocity limit, in rad/s.
        limit: f64,
    },
    /// A loop does not end where it begins.
    #[error(
        "line {line}, column {column}: a loop must end where it begins; \"{joint}\" begins at {begins} rad and ends at {ends} rad"
    )]
    Open {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Name of the joint.
        joint: String,
        /// First position, in rad.
        begins: f64,
        /// Last position, in rad.
        ends: f64,
    },
}

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
    ) -> Option<GoalOutcome> {
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
