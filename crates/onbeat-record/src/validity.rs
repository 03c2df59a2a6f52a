//! Whether a run file measured what it says: a broken measurement says nothing of its machine.

use super::note::LoadEvent;
use super::run_file::RunFile;
use super::vocabulary::Stall;
use super::words::LoadEventKind;

/// Releases of which one may be unknown. Above that, the missing ones could be all of the worst thousandth.
const LOST_ONE_OF: u64 = 1_000;

/// Why the figures of a run file say nothing of the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalidity {
    /// Nothing was counted.
    #[error("no samples")]
    NoSamples,
    /// Too much of it was lost between loop and recorder.
    #[error(
        "{lost} of {slots} releases lost between loop and recorder, more than 1 in {LOST_ONE_OF}"
    )]
    Lost {
        /// Releases whose samples were dropped.
        lost: u64,
        /// All releases.
        slots: u64,
    },
    /// Time was that of a guest's clock, not that of the machine.
    #[error("the clock of the guest was {clock}")]
    Clock {
        /// `virtual` or `free`.
        clock: String,
    },
    /// A signal stopped the loop's process.
    #[error("the process was stopped by a signal {times} times")]
    Stopped {
        /// How often, of the spikes that are kept.
        times: usize,
    },
    /// The load ended before the run.
    #[error("a part of the load {load} died")]
    LoadDied {
        /// The load as typed.
        load: String,
    },
}

impl RunFile {
    /// Returns why the figures of this file say nothing of the machine; `None` for a valid one. `of_bench` are the events of loads
    /// of its bench, when it is a cell. A run that was cut off is valid as far as it goes.
    #[must_use]
    pub fn invalidity(&self, of_bench: &[LoadEvent]) -> Option<Invalidity> {
        let account = self.account();
        let clock = self.header.host.fact("clock").filter(|clock| *clock != "real");
        let load = self.header.cell.as_ref().map(|cell| cell.load.as_str());
        let stopped =
            self.spikes.iter().filter(|spike| spike.stall == Some(Stall::Stopped)).count();
        let died = self
            .loads
            .iter()
            .chain(of_bench.iter().filter(|event| Some(event.load.as_str()) == load));
        let died = died.into_iter().find(|event| event.event == LoadEventKind::PartDied);

        if self.entries.iter().all(|entry| entry.counts.count() == 0) {
            Some(Invalidity::NoSamples)
        } else if self.import.is_none() && account.lost.saturating_mul(LOST_ONE_OF) > account.slots
        {
            Some(Invalidity::Lost { lost: account.lost, slots: account.slots })
        } else if let Some(clock) = clock {
            Some(Invalidity::Clock { clock: clock.to_owned() })
        } else if stopped > 0 {
            Some(Invalidity::Stopped { times: stopped })
        } else {
            died.map(|event| Invalidity::LoadDied { load: event.load.clone() })
        }
    }
}
