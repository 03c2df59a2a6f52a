//! `onbeat bus`, whose commands are in onbeat-commands, with the bus probe for `onbeat bus run`.

use super::failure::bus::BusFailure;
use super::measure::options::Measure;
use super::{ExitVerdict, Failure};
use crate::term::put;
use onbeat_commands::bus::options::Bus;

pub(crate) fn run(command: &Bus) -> Result<ExitVerdict, Failure> {
    onbeat_commands::bus::run(command, &measured)
}

fn measured(words: &[String]) -> Result<ExitVerdict, Failure> {
    match Measure::from_words(words).map_err(BusFailure::Words)? {
        Ok(measure) => super::measure::run(&measure),
        // Help was requested after the two dashes.
        Err(help) => {
            put(|out| write!(out, "{help}"));
            Ok(ExitVerdict::Pass)
        }
    }
}
