//! `onbeat tune`: what of this machine is in a loop's way.

mod check;
pub(crate) mod checked;
pub(crate) mod evidence;

use super::{Failure, Verdict};
use crate::cli_tune::Tune;

pub(crate) fn run(command: &Tune) -> Result<Verdict, Failure> {
    match command {
        Tune::Check(options) => check::run(options),
    }
}
