//! The parts of a session that come from words: how the joints move, and what other processes see.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use onbeat_control::{BusSide, ControlError, Image, ImageSettings, RingError};
use onbeat_host::foreign;

use super::RobotFile;
use crate::cycle_messages::CycleMessages;
use crate::motion::{CommanderGoals, GoalSlot, Robot, Trajectory, TrajectoryError};

/// Why a robot cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// The trajectory of the robot file is not a known word.
    #[error("the robot file's trajectory: {0}")]
    Word(#[from] UnknownTrajectory),
    /// The file of a trajectory could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file of a trajectory is not valid for this robot.
    #[error("{path}: {source}")]
    Played {
        /// Which file.
        path: PathBuf,
        /// Line, column and reason.
        source: TrajectoryError,
    },
    /// A built-in trajectory does not fit the joints.
    #[error(transparent)]
    Trajectory(#[from] TrajectoryError),
    /// Goals come through the process image, and there is none.
    #[error("--trajectory commander follows goals through the image; add --name NAME")]
    NoImage,
    /// Goals come from the caller, who gave none.
    #[error("--trajectory goal follows goals from standard input, which is not read here")]
    NoGoals,
    /// The process image could not be created.
    #[error(transparent)]
    Image(#[from] ControlError),
    /// The ring of cycles could not be created.
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// A word that names no trajectory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of hold, sine, gait, goal, commander, csv:FILE")]
pub struct UnknownTrajectory(pub String);

/// How the joints move, as typed: `hold`, `sine`, `gait`, `goal`, `commander` or `csv:FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrajectoryWord {
    /// Joints stay where they are.
    Hold,
    /// A slow sine within half of each joint's range.
    Sine,
    /// Legs walk on the spot.
    Gait,
    /// Goals of the caller ([`GoalSlot`]).
    Goal,
    /// Goals of other processes, through the process image.
    Commander,
    /// A table of positions over time.
    Csv(PathBuf),
}

impl TrajectoryWord {
    /// Returns the trajectory that a robot file names.
    ///
    /// # Errors
    /// [`UnknownTrajectory`].
    pub fn of_robot(robot: &Robot) -> Result<Self, UnknownTrajectory> {
        robot.settings.trajectory.parse()
    }

    /// Returns the trajectory itself. `commander` takes its goals from the image, `goal` from the slot.
    ///
    /// # Errors
    /// [`AssemblyError`], also where image or slot is missing.
    pub fn start(
        self,
        robot: &Robot,
        image: Option<&BusSide>,
        goals: Option<GoalSlot>,
    ) -> Result<Trajectory, AssemblyError> {
        Ok(match self {
            Self::Hold => Trajectory::hold(),
            Self::Sine => Trajectory::sine(robot)?,
            Self::Gait => Trajectory::gait(robot)?,
            Self::Csv(path) => {
                let read = foreign::text(&path, foreign::MOST_BYTES_BY_HAND);
                let text =
                    read.map_err(|source| AssemblyError::Read { path: path.clone(), source })?;
                Trajectory::csv(&text, robot)
                    .map_err(|source| AssemblyError::Played { path, source })?
            }
            Self::Goal => Trajectory::goal(Box::new(goals.ok_or(AssemblyError::NoGoals)?), robot),
            Self::Commander => {
                let goals = image.and_then(BusSide::goals).ok_or(AssemblyError::NoImage)?;
                Trajectory::goal(Box::new(CommanderGoals::new(goals)), robot)
            }
        })
    }
}

impl fmt::Display for TrajectoryWord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hold => out.write_str("hold"),
            Self::Sine => out.write_str("sine"),
            Self::Gait => out.write_str("gait"),
            Self::Goal => out.write_str("goal"),
            Self::Commander => out.write_str("commander"),
            Self::Csv(file) => write!(out, "csv:{}", file.display()),
        }
    }
}

impl FromStr for TrajectoryWord {
    type Err = UnknownTrajectory;

    fn from_str(text: &str) -> Result<Self, UnknownTrajectory> {
        match text {
            "hold" => Ok(Self::Hold),
            "sine" => Ok(Self::Sine),
            "gait" => Ok(Self::Gait),
            "goal" => Ok(Self::Goal),
            "commander" => Ok(Self::Commander),
            _ => match text.strip_prefix("csv:").filter(|file| !file.is_empty()) {
                Some(file) => Ok(Self::Csv(file.into())),
                None => Err(UnknownTrajectory(text.to_owned())),
            },
        }
    }
}

/// What other processes see of a robot under its name.
#[derive(Debug, Default)]
pub struct SharedRobot {
    /// The process image, into which goals come where the trajectory is `commander`.
    pub image: Option<BusSide>,
    /// The ring of cycles.
    pub messages: Option<CycleMessages>,
}

impl SharedRobot {
    /// Creates both under a name; without a name nothing is shared. `group` is the id of the group
    /// whose members may command and read, `period_ns` that of the loop.
    ///
    /// The outputs are the robot's: nobody else writes them. Joints are in the image where they are
    /// commanded through it.
    ///
    /// # Errors
    /// [`AssemblyError::Image`], such as a name that is in use, and [`AssemblyError::Ring`].
    pub fn create(
        name: Option<&str>,
        file: &RobotFile,
        word: &TrajectoryWord,
        group: Option<u32>,
        period_ns: u64,
    ) -> Result<Self, AssemblyError> {
        let Some(name) = name else { return Ok(Self::default()) };
        let robot = &file.robot;
        let is_commanded = *word == TrajectoryWord::Commander;
        let settings = ImageSettings {
            joints: if is_commanded { robot.commanded() } else { Vec::new() },
            goal_age_ns: robot.settings.goal_age_ns,
            group,
            ..ImageSettings::default()
        };
        let mut image = Image::create(name, &file.layout, settings)?;
        image.keep_outputs()?;
        let joints = robot.commanded();
        let messages = CycleMessages::create(name, &file.layout, &joints, period_ns)?;
        Ok(Self { image: Some(image), messages: Some(messages) })
    }
}
