//! Why a probe with a bus cannot run as asked.

use onbeat::probe::ProbeError;
use onbeat_control::ControlError;
use onbeat_ethercat::description::DescriptionError;

use crate::bus::BusError;
use crate::motion::RobotError;

/// A probe with a bus, or with the image of one, cannot run as asked.
#[derive(Debug, thiserror::Error)]
pub enum BusProbeError {
    /// SimulatedDevices that are not through with one cycle when the next begins.
    #[error(
        "devices that take {delay_us} us for their own cycle are not through before the next frame, {period_us} us later; shorten \
         --device-delay or lengthen --period"
    )]
    DeviceDelay {
        /// The device delay, in microseconds.
        delay_us: f64,
        /// T, in microseconds.
        period_us: f64,
    },
    /// A file does not describe a robot.
    #[error(transparent)]
    Robot(#[from] RobotError),
    /// The image that is to be shared cannot be made.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// More readers than make sense.
    #[error("{readers} readers; at most {most} threads read the image")]
    TooManyReaders {
        /// Asked for.
        readers: u32,
        /// The most there may be.
        most: u32,
    },
    /// The bus did not come up, or is not available.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// A file does not describe a segment.
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
