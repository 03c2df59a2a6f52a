//! `onbeat camera`: the program `onbeat-camera` in the place of this one.
//!
//! Its decoders and clients of the network would make this program larger for those who have no camera.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::failure::gateway::GatewayFailure;
use super::gateway::installed;
use super::{ExitVerdict, Failure};
use crate::cli::CameraWords;

const PROGRAM: &str = "onbeat-camera";

/// Becomes the program; returns only if that is not possible.
pub(crate) fn run(words: &CameraWords) -> Result<ExitVerdict, Failure> {
    let program = installed(PROGRAM)?;
    let source = Command::new(&program).args(&words.words).exec();
    Err(GatewayFailure::Start { program, source }.into())
}
