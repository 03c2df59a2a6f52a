//! Errors of the probes with a bus.

use onbeat::probe::ProbeError;
use onbeat_control::{ControlError, RingError};
use onbeat_ethercat::description::DescriptionError;

use crate::bus::BusError;
use crate::motion::RobotError;

/// Reasons why a probe with a bus, or with its image, cannot run.
#[derive(Debug, thiserror::Error)]
pub enum BusProbeError {
    /// The device delay is not shorter than the period.
    #[error(
        "a device delay of {delay_us} us does not end before the next frame, {period_us} us later; shorten \
         --device-delay or lengthen --period"
    )]
    DeviceDelay {
        /// Device delay, in µs.
        delay_us: f64,
        /// Period, in µs.
        period_us: f64,
    },
    /// The file does not describe a robot.
    #[error(transparent)]
    Robot(#[from] RobotError),
    /// The shared image cannot be created.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The ring of cycles cannot be created.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Too many readers.
    #[error("{readers} readers; at most {most} threads read the image")]
    TooManyReaders {
        /// Number of readers given.
        readers: u32,
        /// Maximum number of readers.
        most: u32,
    },
    /// The bus did not come up, or is not available.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The file does not describe a segment.
    #[error(transparent)]
    Segment(#[from] DescriptionError),
}

impl From<BusProbeError> for ProbeError {
    fn from(error: BusProbeError) -> Self {
        Self::Own(Box::new(error))
    }
}

impl From<BusError> for ProbeError {
    fn from(error: BusError) -> Self {
        BusProbeError::from(error).into()
    }
}

impl From<RobotError> for ProbeError {
    fn from(error: RobotError) -> Self {
        BusProbeError::from(error).into()
    }
}
