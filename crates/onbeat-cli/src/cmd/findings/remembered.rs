//! What tunings were worth on this machine when they were measured.

use crate::worth::{Machine, RememberedWorth, newest};
use onbeat::host::Host;

use super::checked::CheckedTuning;
use crate::state::state_directory;
use crate::term::{Tone, advise, columns, wrapped};

/// Adds what tunings were worth on this machine to the findings of a check.
pub(crate) fn add_remembered(tunings: &mut [CheckedTuning]) {
    match crate::worth::read(&state_directory()) {
        Ok(results) if results.is_empty() => {}
        Ok(results) => {
            let machine = Machine::from_host(&Host::read());
            for tuning in tunings {
                tuning.worth =
                    newest(&results, &tuning.record.id, &machine).map(RememberedWorth::in_words);
            }
        }
        Err(why) => advise(Tone::Careful, &wrapped(&why.to_string(), columns())),
    }
}
