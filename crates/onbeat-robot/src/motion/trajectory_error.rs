//! Why a trajectory cannot be followed.

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
    /// The file has fewer than two samples.
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
