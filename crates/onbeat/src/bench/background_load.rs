//! The load that runs beside a run or a bench, and what happens to it.

use std::process::Command;
use std::thread;
use std::time::Duration;

use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;

use crate::load::{Load, LoadNotice, RunningError, RunningLoad};
use onbeat_record::{LoadEvent, LoadEventKind, Note, Recorder};

/// A load could not be started, or not be ended.
#[derive(Debug, thiserror::Error)]
#[error("load {load}: {source}")]
pub struct BackgroundLoadError {
    /// Which load.
    pub load: Load,
    /// Why.
    pub source: RunningError,
}

/// The load beside a run; its events are noted in a run file.
pub struct BackgroundLoad {
    /// Which load.
    pub load: Load,
    /// `None` for the load `idle`.
    running: Option<RunningLoad>,
}

impl BackgroundLoad {
    /// Starts a load in a process by `carrier` ([`crate::load::serve`]); the load `idle` needs none.
    ///
    /// # Errors
    /// [`BackgroundLoadError`].
    pub fn start(
        load: &Load,
        carrier: impl FnOnce(&Load) -> Command,
    ) -> Result<Self, BackgroundLoadError> {
        let failed = |source| BackgroundLoadError { load: load.clone(), source };
        let running = (!load.is_idle()).then(|| RunningLoad::start(carrier(load)));
        Ok(Self { load: load.clone(), running: running.transpose().map_err(failed)? })
    }

    /// Waits until the load has its full weight; `idle` has it at once.
    pub(super) fn settle(&self, time: Duration) {
        if self.running.is_some() {
            thread::sleep(time);
        }
    }

    /// Returns the session of its processes, by its number and its start in ticks of the kernel.
    pub(super) fn identity(&self) -> Option<(i32, u64)> {
        self.running.as_ref().and_then(RunningLoad::identity)
    }

    /// Returns what happened to the load since the last call, `t` seconds after the file's start.
    pub(super) fn events(&mut self, t: f64) -> Vec<LoadEvent> {
        let events = self.running.as_mut().map(RunningLoad::events).unwrap_or_default();
        of_notices(&events, t)
    }

    /// Ends the load; returns what happened since the last call, and what it has done. `t` is asked
    /// for the time of the file when it has ended.
    pub(super) fn end(
        &mut self,
        t: impl FnOnce() -> f64,
    ) -> Result<Vec<LoadEvent>, BackgroundLoadError> {
        let Some(running) = self.running.take() else { return Ok(Vec::new()) };
        let failed = |source| BackgroundLoadError { load: self.load.clone(), source };
        let (done, events) = running.stop().map_err(failed)?;
        let t = t();
        let mut noted = of_notices(&events, t);
        let parts: Vec<String> = done.parts.iter().map(ToString::to_string).collect();
        let (load, detail) = (self.load.to_string(), parts.join("; "));
        noted.push(LoadEvent { t, load, event: LoadEventKind::Report, detail });
        Ok(noted)
    }

    /// Notes what happened to the load, and reports what the reader of a run must know. A file that
    /// cannot be written ends the run by itself.
    pub fn note_events(&mut self, recorder: &mut Recorder, report: &mut dyn FnMut(String)) {
        note(self.events(recorder.seconds(Monotonic.now())), recorder, report);
    }

    /// Ends the load, and notes what it has done.
    pub fn stop(&mut self, recorder: &mut Recorder, report: &mut dyn FnMut(String)) {
        self.note_events(recorder, report);
        match self.end(|| recorder.seconds(Monotonic.now())) {
            Ok(events) => note(events, recorder, report),
            Err(why) => report(why.to_string()),
        }
    }
}

fn of_notices(events: &[LoadNotice], t: f64) -> Vec<LoadEvent> {
    let of_notice = |notice: &LoadNotice| LoadEvent {
        t,
        load: notice.load.clone(),
        event: notice.kind(),
        detail: notice.to_string(),
    };
    events.iter().map(of_notice).collect()
}

fn note(events: Vec<LoadEvent>, recorder: &mut Recorder, report: &mut dyn FnMut(String)) {
    for event in events {
        if event.event.matters() {
            report(event.detail.clone());
        }
        let _ = recorder.writer().note(&Note::Load(event));
    }
}
