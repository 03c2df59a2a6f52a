//! `onbeat tune`: what of this machine is in a loop's way.

mod check;
pub(crate) mod checked;

use super::{Failure, Verdict};
use crate::cli_tune::Tune;

pub(crate) fn run(command: &Tune) -> Result<Verdict, Failure> {
    match command {
        Tune::Check(options) => check::run(options),
        Tune::Measure(options) => super::measure_tuning::run(options),
    }
}
