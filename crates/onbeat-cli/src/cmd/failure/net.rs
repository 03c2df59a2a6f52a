//! Why a command of `onbeat net` could not run.

use onbeat::net::boards::output_board::BoardError;
use onbeat::net::boards::ptp::PtpError;
use onbeat::net::device::DeviceError;
use onbeat::net::kernel_device::KernelDeviceError;
use onbeat::net::plan::NetPlanError;
use onbeat::net::run_log::{LogServerError, LogShipError};
use onbeat_lab::net::NetworkLabError;
use onbeat_lab::vm::MatrixError;

use super::Failure;

/// Why a command of `onbeat net` could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetFailure {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    KernelDevice(KernelDeviceError),
    #[error(transparent)]
    Plan(#[from] NetPlanError),
    #[error(transparent)]
    Board(#[from] BoardError),
    #[error(transparent)]
    Ptp(#[from] PtpError),
    #[error(transparent)]
    LogServer(#[from] LogServerError),
    #[error(transparent)]
    LogShip(#[from] LogShipError),
    #[error(transparent)]
    Lab(#[from] NetworkLabError),
    #[error("--kernels or --loads: {0}")]
    Matrix(Box<MatrixError>),
    #[error("behind the two dashes stand options of `onbeat measure rtt`: {0}")]
    Words(String),
}

impl From<NetworkLabError> for Failure {
    fn from(why: NetworkLabError) -> Self {
        Self::Net(why.into())
    }
}

impl From<BoardError> for Failure {
    fn from(why: BoardError) -> Self {
        Self::Net(why.into())
    }
}

impl From<DeviceError> for Failure {
    fn from(why: DeviceError) -> Self {
        Self::Net(why.into())
    }
}

impl From<NetPlanError> for Failure {
    fn from(why: NetPlanError) -> Self {
        Self::Net(why.into())
    }
}
