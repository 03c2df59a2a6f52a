//! The part of a run that asks why: a flight recorder beside the loop, and an explanation for each spike.

use std::sync::atomic::{AtomicU32, Ordering};

use onbeat_rt::Sample;
use rustix::process::getpid;

use super::run::Setting;
use crate::cause::{Cost, Explainer, Explanation, KeptWindow, LoopThread, SpikeFacts};
use crate::thread::{Grant, Wanted};

/// Who is asked why a cycle was late: a flight recorder in this process, or one in another that many loops share.
pub trait Witness {
    /// Turns to a loop's thread, before its first cycle.
    fn follow(&mut self, thread: LoopThread);
    /// Called before each look into the ring.
    fn keep_watch(&mut self);
    /// Why a cycle was late; `None` when nobody can say any more.
    fn explain(&mut self, facts: &SpikeFacts) -> Option<Explanation>;
    /// What ran around the cycle asked about last, for the run file; `None` when there is no event of it.
    fn window(&mut self) -> Option<KeptWindow>;
    /// What this process has paid for it so far.
    fn cost(&self) -> Cost;
}

impl Witness for Explainer {
    fn follow(&mut self, thread: LoopThread) {
        // A filter that the kernel refuses leaves the wake-ups unrecorded, and the explanations say so.
        let _ = Self::follow(self, thread);
    }

    fn keep_watch(&mut self) {
        Self::keep_watch(self);
    }

    fn explain(&mut self, facts: &SpikeFacts) -> Option<Explanation> {
        Some(self.explain_facts(facts))
    }

    fn window(&mut self) -> Option<KeptWindow> {
        self.keep()
    }

    fn cost(&self) -> Cost {
        Self::cost(self)
    }
}

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
    witness: Option<&'a mut (dyn Witness + 'static)>,
    loop_tid: &'a LoopTid,
    thread: LoopThread,
    margin_ns: u64,
    work_ns: u64,
    followed: bool,
    left: u32,
}

impl<'a> Asking<'a> {
    /// Asks `witness` about the loop of `setting`; without one nothing is explained.
    pub(super) fn of(
        witness: Option<&'a mut (dyn Witness + 'static)>,
        loop_tid: &'a LoopTid,
        setting: &Setting,
    ) -> Self {
        let (margin_ns, work_ns) = (setting.wait.longest_spin_ns(), setting.work_ns);
        let thread = loop_thread(&setting.thread);
        Self { witness, loop_tid, thread, margin_ns, work_ns, followed: false, left: AT_MOST }
    }

    /// Called before each look into the ring.
    pub(super) fn keep_watch(&mut self) {
        self.left = AT_MOST;
        let Some(witness) = &mut self.witness else { return };
        if let (false, Some(tid)) = (self.followed, self.loop_tid.get()) {
            self.thread.tid = tid;
            self.followed = true;
            witness.follow(self.thread);
        }
        witness.keep_watch();
    }

    /// Whether the loop's thread is known, or nobody wants to know it.
    pub(super) fn knows_the_loop(&self) -> bool {
        self.followed || self.witness.is_none()
    }

    /// Why `sample` was late; `None` when nobody can say, or too many were late at once.
    pub(super) fn explain(&mut self, sample: &Sample) -> Option<Explanation> {
        let witness = self.witness.as_mut()?;
        self.left = self.left.checked_sub(1)?;
        let LoopThread { tid, cpu, .. } = self.thread;
        let facts = SpikeFacts::of(sample, self.margin_ns, self.work_ns);
        witness.explain(&SpikeFacts { tid, cpu, prio: self.thread.prio(), ..facts })
    }

    /// What ran around the spike explained last.
    pub(super) fn window(&mut self) -> Option<KeptWindow> {
        self.witness.as_mut()?.window()
    }

    /// What explaining has cost.
    pub(super) fn cost(&self) -> Cost {
        self.witness.as_ref().map_or_else(Cost::default, |witness| witness.cost())
    }
}

/// The loop that is wanted, as far as it is known before it has begun.
fn loop_thread(wanted: &Wanted) -> LoopThread {
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    LoopThread { tid: own, cpu: wanted.cpu, fifo: wanted.fifo }
}

/// Opens a flight recorder for a loop, with its rungs of the ladder. Takes some 100 ms.
pub(super) fn open(wanted: &Wanted) -> (Option<Explainer>, Vec<Grant>) {
    Explainer::open_or_say(loop_thread(wanted))
}
