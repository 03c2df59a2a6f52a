//! Why a command of `onbeat net` could not run.

use onbeat_lab::TomlFileError;
use onbeat_lab::net::lockstep::LockstepError;
use onbeat_net::boards::output_board::BoardError;
use onbeat_net::boards::ptp::PtpError;
use onbeat_net::kernel_device::KernelDeviceError;
use onbeat_net::run_log::{LogServerError, LogShipError};

/// Why a command of `onbeat net` could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetFailure {
    #[error(transparent)]
    KernelDevice(KernelDeviceError),
    #[error(transparent)]
    Board(#[from] BoardError),
    #[error(transparent)]
    Ptp(#[from] PtpError),
    #[error(transparent)]
    LogServer(#[from] LogServerError),
    #[error(transparent)]
    LogShip(#[from] LogShipError),
    #[error(transparent)]
    Lockstep(#[from] LockstepError),
    #[error("--for 0 runs until Ctrl-C, and virtual time needs an end; write --for 10s")]
    NoEnd,
    #[error("--for, --kernels or --loads: {0}")]
    Matrix(Box<TomlFileError>),
    #[error("after `--`, only options of `onbeat measure rtt` are accepted: {0}")]
    Words(String),
}
