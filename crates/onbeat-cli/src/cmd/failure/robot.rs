//! Why a robot cannot run.

use std::path::PathBuf;

/// Why a robot cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RobotFailure {
    #[error("the robot file's trajectory: {0}")]
    Trajectory(String),
    #[error("{path}: {source}")]
    Played { path: PathBuf, source: onbeat_robot::motion::TrajectoryError },
    #[error("--trajectory commander follows goals through the image; add --name NAME")]
    NoImageName,
    #[error("a period of {period_s} s is too long to stop a robot in time; use at most 1s")]
    LongPeriod { period_s: f64 },
    #[error(transparent)]
    View(#[from] onbeat_robot::live_view::LiveViewError),
}
