//! Where the joints are to be at a time.

use super::csv::CsvTrajectory;
use super::file::Robot;
use super::goal::{GoalFollower, GoalOutcome, GoalSource};
use super::status::Status;
use super::waves::{self, Wave};

/// Why there is no such trajectory for this robot.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrajectoryError {
    /// Faster than a joint may move.
    #[error(
        "the {what} of \"{joint}\" needs {needs:.2} {unit}, its limit is {limit} {unit}; make it smaller or slower"
    )]
    TooFast {
        /// Trajectory.
        what: &'static str,
        /// Name of the joint.
        joint: String,
        /// What it takes.
        needs: f64,
        /// The limit.
        limit: f64,
        /// Of both.
        unit: &'static str,
    },
    /// Nothing to walk with.
    #[error(
        "the gait finds no joint with \"{part}\" and \"left\" or \"right\" in its name; joints are told by their names"
    )]
    NoPart {
        /// Word looked for.
        part: &'static str,
    },
    /// A file that has no samples.
    #[error("the CSV file has {lines} lines; it needs a header (time, names of joints) and two lines of numbers")]
    NoSamples {
        /// Lines with something in them.
        lines: usize,
    },
    /// The first column is another one.
    #[error("line {line}, column 1: the first column is \"{found}\", it must be \"time\", in seconds")]
    NoTime {
        /// Line of the file, from 1.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// A column of a joint that is not there, or there twice.
    #[error(
        "line {line}, column {column}: the robot has no joint \"{found}\" that is still free; names are those of its devices"
    )]
    NoJoint {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What stands there.
        found: String,
    },
    /// A line with more or fewer fields than the header.
    #[error("line {line}: {found} columns, the header has {wanted}")]
    Columns {
        /// Line of the file, from 1.
        line: usize,
        /// Columns there.
        found: usize,
        /// Columns of the header.
        wanted: usize,
    },
    /// Not a finite number.
    #[error("line {line}, column {column}: \"{found}\" is not a finite number")]
    NoNumber {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What stands there.
        found: String,
    },
    /// Time stands or runs backwards.
    #[error("line {line}, column 1: time {found} s is not later than {before} s in the line before")]
    NotLater {
        /// Line of the file, from 1.
        line: usize,
        /// Time there, in s.
        found: f64,
        /// Time before, in s.
        before: f64,
    },
    /// Outside the travel.
    #[error("line {line}, column {column}: {found} rad of \"{joint}\" is outside its travel of {low} to {high} rad")]
    Outside {
        /// Line of the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Name of the joint.
        joint: String,
        /// Position, in rad.
        found: f64,
        /// Limit, in rad.
        low: f64,
        /// Limit, in rad.
        high: f64,
    },
    /// Too far from the line before.
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
        /// In rad/s.
        found: f64,
        /// In rad/s.
        limit: f64,
    },
    /// A loop whose ends do not meet.
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
        /// In rad.
        begins: f64,
        /// In rad.
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
    /// Joints stay where they are when they are enabled.
    #[must_use]
    pub fn hold() -> Self {
        Self(TrajectoryKind::Hold)
    }

    /// Each joint swings round the position it starts at, with amplitude, frequency and phase from the file.
    ///
    /// # Errors
    /// [`TrajectoryError::TooFast`] for a joint whose limits do not allow it.
    pub fn sine(robot: &Robot) -> Result<Self, TrajectoryError> {
        waves::sines(robot).map(|waves| Self(TrajectoryKind::Waves(waves)))
    }

    /// Walking, in the air: hips and arms of one side in opposite phase, left against right; joints are found by their names.
    ///
    /// # Errors
    /// [`TrajectoryError::NoPart`] without hips or knees, [`TrajectoryError::TooFast`].
    pub fn gait(robot: &Robot) -> Result<Self, TrajectoryError> {
        waves::gait(robot).map(|waves| Self(TrajectoryKind::Waves(waves)))
    }

    /// Samples of a CSV file: a header `time,NAME,NAME...`, then lines of seconds and rad. Joints without a column hold.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    pub fn csv(text: &str, robot: &Robot) -> Result<Self, TrajectoryError> {
        CsvTrajectory::parse(text, robot).map(|table| Self(TrajectoryKind::Csv(table)))
    }

    /// The latest goal of a source, while it is not older than the file allows.
    #[must_use]
    pub fn goal(source: Box<dyn GoalSource>, robot: &Robot) -> Self {
        Self(TrajectoryKind::Goal(Box::new(GoalFollower::new(source, robot))))
    }

    /// A law of one's own: from how everything is (as of the last cycle, with new positions) to where each joint is to be, in rad. It
    /// is called in each cycle that was not missed, and must not allocate, block, or ask the kernel for anything. Joints that it does
    /// not write stay where they were wanted, and what is no number is passed over.
    #[must_use]
    pub fn law(law: impl FnMut(&Status, &mut [f64]) + Send + 'static) -> Self {
        Self(TrajectoryKind::Law(Box::new(law)))
    }

    /// Whether it can be made smaller until nothing of it is left.
    pub(crate) fn fades(&self) -> bool {
        matches!(self.0, TrajectoryKind::Waves(_))
    }

    /// Whether it has no time of its own that could be slowed down.
    pub(crate) fn is_timeless(&self) -> bool {
        matches!(self.0, TrajectoryKind::Goal(_) | TrajectoryKind::Law(_))
    }

    /// A cycle in which it is not played.
    pub(crate) fn skip_cycle(&mut self, status: &Status) {
        if let TrajectoryKind::Goal(goal) = &mut self.0 {
            goal.skip_cycle(status.release_ns);
        }
    }

    /// Writes where the joints are to be; what stands in `wanted` stays for joints that it is not about.
    pub(crate) fn at(&mut self, status: &Status, homes: &[f64], wanted: &mut [f64]) -> Option<GoalOutcome> {
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
