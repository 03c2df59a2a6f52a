//! The part of a run that asks why: a flight recorder beside the loop, and an explanation for each spike.

use std::sync::atomic::{AtomicU32, Ordering};

use onbeat_rt::Sample;

use crate::cause::{Cost, Explainer, Explanation, FlightSetting, LoopThread, refused};
use crate::thread::{Grant, Wanted};

/// Spikes explained per look into the ring, at most: in a storm of them the recorder must go on emptying the ring.
const AT_MOST: u32 = 20;

/// The loop's thread number, told by itself before it is armed; 0 until then.
#[derive(Debug, Default)]
pub(super) struct LoopTid(AtomicU32);

impl LoopTid {
    pub(super) fn tell(&self) {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        self.0.store(own.unsigned_abs(), Ordering::Release);
    }

    pub(super) fn get(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Acquire)).filter(|tid| *tid > 0)
    }
}

/// Explains the spikes of one block.
pub(super) struct Asking<'a> {
    explainer: Option<Explainer>,
    loop_tid: &'a LoopTid,
    thread: LoopThread,
    margin_ns: u64,
    work_ns: u64,
    followed: bool,
    left: u32,
}

impl<'a> Asking<'a> {
    /// Opens the flight recorder of a loop; without one (not wanted, not permitted) nothing is explained.
    pub(super) fn open(wanted: bool, loop_tid: &'a LoopTid, loops: &Wanted, margin_ns: u64, work_ns: u64) -> Self {
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let thread = LoopThread { tid: own, cpu: loops.cpu, fifo: loops.fifo };
        // Whether it is permitted is in the ladder already, from the trial when the run was opened.
        let explainer = wanted.then(|| Explainer::open(thread, &FlightSetting::default()).ok()).flatten();
        Self { explainer, loop_tid, thread, margin_ns, work_ns, followed: false, left: AT_MOST }
    }

    /// Called before each look into the ring.
    pub(super) fn keep_watch(&mut self) {
        self.left = AT_MOST;
        let Some(explainer) = &mut self.explainer else { return };
        if let (false, Some(tid)) = (self.followed, self.loop_tid.get()) {
            self.thread.tid = tid;
            // A filter that the kernel refuses leaves the wake-ups unrecorded, and the explanations say so.
            self.followed = explainer.follow(self.thread).is_ok();
        }
        explainer.keep_watch();
    }

    /// Why `sample` was late; `None` when nobody can say, or too many were late at once.
    pub(super) fn explain(&mut self, sample: &Sample) -> Option<Explanation> {
        let explainer = self.explainer.as_mut()?;
        self.left = self.left.checked_sub(1)?;
        Some(explainer.explain(sample, self.margin_ns, self.work_ns))
    }

    /// What explaining has cost.
    pub(super) fn close(self) -> Cost {
        let cost = self.explainer.as_ref().map_or_else(Cost::default, Explainer::cost);
        if let Some(explainer) = self.explainer {
            explainer.close();
        }
        cost
    }
}

/// Finds out what is permitted, for the ladder.
pub(super) fn trial(loops: &Wanted) -> Vec<Grant> {
    let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    let thread = LoopThread { tid: own, cpu: loops.cpu, fifo: loops.fifo };
    match Explainer::open(thread, &FlightSetting::default()) {
        Ok(explainer) => {
            let grants = explainer.grants();
            explainer.close();
            grants
        }
        Err(why) => vec![refused(&why)],
    }
}
