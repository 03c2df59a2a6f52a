//! The cold side of a block: from the ring to the recorder.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use onbeat_rt::{Consumer, Instant, Sample};

use super::causes::Asking;
use super::error::RunError;
use super::interruptions::Interruptions;
use super::stall::StallWatch;
use super::surroundings::Surroundings;
use onbeat_record::{Recorder, Why};

/// How often the recorder empties the ring.
const DRAIN_EVERY: Duration = Duration::from_millis(20);
/// The same until the thread of the loop has reported its number: its wake-ups are recorded from
/// the first on.
const FIRST_LOOKS_EVERY: Duration = Duration::from_millis(1);

/// Takes samples from the ring and hands them to the recorder, with their stalls and causes.
pub(super) struct Drain<'d> {
    pub(super) cold: Consumer<'d, Sample>,
    /// A sample that ended after the last look at the surroundings, and waits for the next one.
    pub(super) held: Option<Sample>,
    pub(super) recorder: &'d mut Recorder,
    pub(super) surroundings: Surroundings<'d>,
    pub(super) stalls: StallWatch,
    pub(super) asking: Asking<'d>,
    pub(super) interruptions: &'d Interruptions,
}

impl Drain<'_> {
    /// Drains until the loop has `finished`; calls `watch` after each look. There is one at least,
    /// however soon the loop finishes.
    pub(super) fn until(
        &mut self,
        finished: impl Fn() -> bool,
        watch: &mut dyn FnMut(&mut Recorder),
    ) -> Result<(), RunError> {
        let mut has_looked = false;
        while !has_looked || !finished() {
            has_looked = true;
            thread::sleep(if self.asking.knows_the_loop() {
                DRAIN_EVERY
            } else {
                FIRST_LOOKS_EVERY
            });
            let settled = self.look_around();
            // A cycle waits until the kernel's stamps of its wake-up have been read.
            let split = self.asking.splits_up_to();
            self.up_to(settled.min(split))?;
            watch(self.recorder);
        }
        Ok(())
    }

    /// Drains what is left after the loop has ended.
    pub(super) fn all(&mut self) -> Result<(), RunError> {
        self.look_around();
        self.asking.await_stamps(FIRST_LOOKS_EVERY);
        self.up_to(Instant::from_ns(u64::MAX))
    }

    /// Excludes what a change of the surroundings affected. Returns the instant up to which samples
    /// are settled: cycles that ended after the last look have waited for this one.
    fn look_around(&mut self) -> Instant {
        let (settled, changes) = self.surroundings.look();
        changes.into_iter().for_each(|change| self.recorder.exclude(change));
        settled
    }

    /// Hands on the samples that ended by `settled`.
    fn up_to(&mut self, settled: Instant) -> Result<(), RunError> {
        self.asking.keep_watch();
        while let Some(sample) = self.held.take().or_else(|| self.cold.pop()) {
            if sample.release.plus_ns(sample.response_time_ns()) > settled {
                self.held = Some(sample);
                break;
            }

            let stops = self.interruptions.continued.load(Ordering::Relaxed);
            let stall = self.stalls.judge(&sample, stops);
            let explanation =
                if self.recorder.is_spike(&sample) { self.asking.explain(&sample) } else { None };
            let window = if explanation.is_some() && self.recorder.wants_window(&sample) {
                self.asking.window()
            } else {
                None
            };
            let split = self.asking.split(&sample);
            self.recorder.sample_with(&sample, Why { stall, explanation, window, split })?;
        }
        Ok(())
    }
}
