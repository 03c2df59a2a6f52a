//! The load that runs beside one run, and what happens to it.

use std::process::Command;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use super::load_notes;
use crate::load::{Load, LoadNotice, RunningError, RunningLoad};
use onbeat_record::{Note, Recorder};

/// A load could not be started.
#[derive(Debug, thiserror::Error)]
#[error("load {load}: {source}")]
pub struct BackgroundLoadError {
    /// Which load.
    pub load: Load,
    /// Why.
    pub source: RunningError,
}

/// The load beside a run; its events are noted in the run file.
pub struct BackgroundLoad {
    load: Load,
    /// `None` for the load `idle`.
    running: Option<RunningLoad>,
}

impl BackgroundLoad {
    /// Starts a load in the process of `carrier` ([`crate::load::serve`]); the load `idle` needs
    /// none.
    ///
    /// # Errors
    /// [`BackgroundLoadError`].
    pub fn start(load: &Load, carrier: Option<Command>) -> Result<Self, BackgroundLoadError> {
        let failed = |source| BackgroundLoadError { load: load.clone(), source };
        let running = carrier
            .filter(|_| !load.is_idle())
            .map(RunningLoad::start)
            .transpose()
            .map_err(failed)?;
        Ok(Self { load: load.clone(), running })
    }

    /// Returns the load.
    #[must_use]
    pub const fn load(&self) -> &Load {
        &self.load
    }

    /// Notes what happened to the load, and reports what the reader of a run must know. A file that
    /// cannot be written ends the run by itself.
    pub fn note_events(&mut self, recorder: &mut Recorder, report: &mut dyn FnMut(String)) {
        let Some(running) = &mut self.running else { return };
        note(&running.events(), recorder, report);
    }

    /// Ends the load, and notes what it has done.
    pub fn stop(&mut self, recorder: &mut Recorder, report: &mut dyn FnMut(String)) {
        self.note_events(recorder, report);
        let Some(running) = self.running.take() else { return };
        match running.stop() {
            Ok((done, events)) => {
                note(&events, recorder, report);
                let t = recorder.seconds(Monotonic.now());
                let _ = recorder.writer().note(&load_notes::of_report(&self.load, &done, t));
            }
            Err(why) => report(format!("load {}: {why}", self.load)),
        }
    }
}

fn note(events: &[LoadNotice], recorder: &mut Recorder, report: &mut dyn FnMut(String)) {
    for event in events {
        let t = recorder.seconds(Monotonic.now());
        let note = load_notes::of_event(event, t);
        if event.matters() {
            report(note.detail.clone());
        }

        let _ = recorder.writer().note(&Note::Load(note));
    }
}
