//! The explanations of a run: a flight recorder beside the loop, and an explanation for each spike.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant, Sample};
use rustix::process::getpid;

use super::setting::Setting;
use onbeat_cause::{
    Cost, Explainer, Explanation, FlightSetting, KeptWindow, LoopThread, PathStream, SpikeFacts,
    SplitRecorder, WakeUpSplit, WakeUpSplitter,
};
use onbeat_host::thread::{AheadOfLoad, Grant, ThreadRequest};

/// Explains why cycles were late: a flight recorder in this process, or one in another process that
/// several loops share.
pub trait SpikeExplainer {
    /// Follows the thread of a loop, before its first cycle.
    fn follow(&mut self, thread: LoopThread);
    /// Keeps the recorded events fresh, where this process records them; called before each look
    /// into the ring.
    fn keep_watch(&mut self) {}
    /// Explains why a cycle was late; `None` when no explanation is available any more.
    fn explain(&mut self, facts: &SpikeFacts) -> Option<Explanation>;
    /// Returns the events around the cycle that was explained last, for the run file; `None` when
    /// there are none.
    fn window(&mut self) -> Option<KeptWindow> {
        None
    }
    /// Returns what explaining has cost this process so far; nothing where another process records
    /// and explains, in whose file it stands.
    fn cost(&self) -> Cost {
        Cost::default()
    }
    /// Returns the events of the loop as they are recorded, so that nothing is recorded twice;
    /// `None` where they are not in the memory of this process.
    fn stream(&self) -> Option<PathStream> {
        None
    }
    /// Returns what splits the wake-ups of the loop that is followed.
    ///
    /// # Errors
    /// Why there is none, in a sentence.
    fn splitter(&self) -> Result<WakeUpSplitter, String> {
        Err("its recorder is in another process".to_owned())
    }
}

impl SpikeExplainer for Explainer {
    fn follow(&mut self, thread: LoopThread) {
        // A filter that the kernel refuses leaves the wake-ups unrecorded, and the explanations say
        // so.
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

    fn stream(&self) -> Option<PathStream> {
        Self::stream(self)
    }

    fn splitter(&self) -> Result<WakeUpSplitter, String> {
        Self::splitter(self)
    }
}

/// Splits the wake-ups of one of several loops, which share a recorder, and explains nothing.
pub(crate) struct OneOfSeveral {
    recorder: Result<SplitRecorder, String>,
    tid: u32,
}

impl OneOfSeveral {
    pub(crate) fn new(recorder: &Result<SplitRecorder, String>) -> Self {
        Self { recorder: recorder.clone(), tid: 0 }
    }
}

impl SpikeExplainer for OneOfSeveral {
    fn follow(&mut self, thread: LoopThread) {
        self.tid = thread.tid;
        if let Ok(recorder) = &self.recorder {
            // A thread that cannot be recorded has no stamps, and its cycles are counted as unsplit.
            let _ = recorder.follow(thread.tid);
        }
    }

    fn explain(&mut self, _: &SpikeFacts) -> Option<Explanation> {
        None
    }

    fn splitter(&self) -> Result<WakeUpSplitter, String> {
        self.recorder.as_ref().map(|recorder| recorder.splitter(self.tid)).map_err(Clone::clone)
    }
}

/// Most spikes that are explained per look into the ring: in a storm of spikes the recorder must
/// continue to empty the ring. Further ones are counted as unexplained, with this reason.
const AT_MOST: u32 = 20;
const TOO_MANY: &str = "too many spikes at once";

/// The number of the loop's thread, which the thread itself publishes before its first cycle; 0
/// until then.
#[derive(Debug, Default)]
pub(super) struct LoopTid(AtomicU32);

impl LoopTid {
    pub(super) fn publish(&self) {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        self.0.store(own.unsigned_abs(), Ordering::Release);
    }

    pub(super) fn get(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Acquire)).filter(|tid| *tid > 0)
    }
}

/// Explains the spikes of one block.
pub(super) struct Asking<'a> {
    witness: Option<&'a mut (dyn SpikeExplainer + 'static)>,
    loop_tid: &'a LoopTid,
    thread: LoopThread,
    margin_ns: u64,
    work_ns: u64,
    followed: bool,
    split: Splitting,
    left: u32,
    /// Whether the last spike was analysed.
    is_analysed: bool,
}

impl<'a> Asking<'a> {
    /// Explains the loop of `setting` by `witness`; without one nothing is explained.
    pub(super) fn new(
        witness: Option<&'a mut (dyn SpikeExplainer + 'static)>,
        loop_tid: &'a LoopTid,
        setting: &Setting,
    ) -> Self {
        let margin_ns = setting.wait.longest_spin_ns();
        let work_ns = setting.work_ns;
        let thread = loop_thread(&setting.thread);
        Self {
            witness,
            loop_tid,
            thread,
            margin_ns,
            work_ns,
            followed: false,
            split: if setting.split { Splitting::Begins } else { Splitting::Off },
            left: AT_MOST,
            is_analysed: false,
        }
    }

    /// Prepares a look into the ring, and follows the loop's thread once its number is known.
    pub(super) fn keep_watch(&mut self) {
        self.left = AT_MOST;
        let Some(witness) = &mut self.witness else { return };
        if let (false, Some(tid)) = (self.followed, self.loop_tid.get()) {
            self.thread.tid = tid;
            self.followed = true;
            witness.follow(self.thread);
            self.split.begin(|| witness.splitter());
        }

        witness.keep_watch();
    }

    /// Returns the instant up to which cycles that started can be split; without an end where
    /// nothing is split.
    pub(super) fn splits_up_to(&mut self) -> Instant {
        match &mut self.split {
            Splitting::On(splitter) => splitter.read(),
            // The loop's thread is unknown: so are its stamps.
            Splitting::Begins if self.witness.is_some() && !self.followed => Instant::from_ns(0),
            Splitting::Begins | Splitting::Off => Instant::from_ns(u64::MAX),
        }
    }

    /// Waits until the stamps of the cycles so far have been read, looking `every` so often.
    pub(super) fn await_stamps(&mut self, every: Duration) {
        let ended = Monotonic.now();
        while matches!(self.split, Splitting::On(_)) && self.splits_up_to() < ended {
            thread::sleep(every);
        }
    }

    /// Splits the wake-up of the next cycle.
    pub(super) fn split(&mut self, sample: &Sample) -> WakeUpSplit {
        match &mut self.split {
            Splitting::On(splitter) => splitter.split(sample),
            Splitting::Begins => WakeUpSplit::Missing,
            Splitting::Off => WakeUpSplit::NotAsked,
        }
    }

    /// Returns whether the loop's thread is known, or nothing needs to know it.
    pub(super) fn knows_the_loop(&self) -> bool {
        self.followed || self.witness.is_none()
    }

    /// Explains why `sample` was late; `None` without a witness. Of too many spikes at once, the
    /// rest is unexplained with that reason.
    pub(super) fn explain(&mut self, sample: &Sample) -> Option<Explanation> {
        let witness = self.witness.as_mut()?;
        let LoopThread { tid, cpu, .. } = self.thread;
        let facts = SpikeFacts::from_sample(sample, self.margin_ns, self.work_ns);
        self.is_analysed = self.left > 0;
        if !self.is_analysed {
            return Some(facts.not_analysed(TOO_MANY));
        }

        self.left -= 1;
        witness.explain(&SpikeFacts { tid, cpu, prio: self.thread.prio(), ..facts })
    }

    /// Returns the events around the spike that was explained last.
    pub(super) fn window(&mut self) -> Option<KeptWindow> {
        self.witness.as_mut().filter(|_| self.is_analysed)?.window()
    }

    /// Returns what explaining has cost.
    pub(super) fn cost(&self) -> Cost {
        self.witness.as_ref().map_or_else(Cost::default, |witness| witness.cost())
    }
}

/// Whether wake-ups are split.
enum Splitting {
    /// Not asked for, or impossible.
    Off,
    /// As soon as the loop's thread is known.
    Begins,
    On(WakeUpSplitter),
}

impl Splitting {
    fn begin(&mut self, splitter: impl FnOnce() -> Result<WakeUpSplitter, String>) {
        if matches!(self, Self::Begins) {
            // `refusal` has said why, before the run.
            *self = splitter().map_or(Self::Off, Self::On);
        }
    }
}

/// Returns why the wake-ups of `setting`, which asks for it, are not split.
pub(super) fn refusal_of_split(
    setting: &Setting,
    witness: Option<&(dyn SpikeExplainer + 'static)>,
) -> Option<String> {
    if !setting.split {
        return None;
    }
    let refused = witness.map_or_else(
        || Some("there is none in this run".to_owned()),
        |witness| witness.splitter().err(),
    );
    refused.map(|why| {
        format!("wake-ups are not split into interrupt, dispatch and return to user space, which takes the flight recorder with BPF: {why}")
    })
}

/// Returns what is known of a loop's thread before it starts.
fn loop_thread(wanted: &ThreadRequest) -> LoopThread {
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    LoopThread { tid: own, cpu: wanted.cpu, fifo: wanted.fifo }
}

/// Opens the flight recorder that `setting` asks for, and returns what was granted for it. Takes
/// about 100 ms.
pub(crate) fn open(setting: &Setting) -> (Option<Explainer>, Vec<Grant>) {
    if !setting.causes {
        return (None, Vec::new());
    }

    let flight = FlightSetting { stacks: setting.stacks, ..FlightSetting::default() };
    let thread = loop_thread(&setting.thread);
    let (explainer, mut grants) = Explainer::open_with_grants(thread, &flight);
    if explainer.is_some() {
        grants.push(AheadOfLoad::take(&setting.thread).1);
    }

    (explainer, grants)
}

#[cfg(test)]
mod tests {
    use onbeat_rt::cycle::Phase;

    use super::*;
    use onbeat_cause::CauseKind;

    /// Explains everything, and counts how often.
    struct ExplainsAll(u32);

    impl SpikeExplainer for ExplainsAll {
        fn follow(&mut self, _: LoopThread) {}

        fn explain(&mut self, facts: &SpikeFacts) -> Option<Explanation> {
            self.0 += 1;
            Some(facts.not_analysed("a test"))
        }

        fn window(&mut self) -> Option<KeptWindow> {
            Some(KeptWindow::default())
        }
    }

    fn setting() -> Setting {
        Setting { phase: Phase::At(0), warmup: 0, causes: true, ..Setting::new(1_000_000) }
    }

    #[test]
    fn spikes_beyond_the_ceiling_are_unexplained_with_that_reason() {
        let mut explainer = ExplainsAll(0);
        let loop_tid = LoopTid::default();
        let setting = setting();
        let mut asking = Asking::new(Some(&mut explainer), &loop_tid, &setting);
        let late =
            Sample { wakeup_latency_ns: 70_000, sleep_latency_ns: 70_000, ..Sample::default() };
        asking.keep_watch();
        let of_ceiling = |explanation: &Explanation| {
            let [cause] = explanation.causes.as_slice() else { return false };
            cause.kind == CauseKind::Unexplained
                && cause.evidence == format!("not analysed: {TOO_MANY}")
        };

        let explained: Vec<Explanation> =
            (0..AT_MOST + 5).map(|_| asking.explain(&late).unwrap()).collect();
        assert_eq!(explained.iter().filter(|one| of_ceiling(one)).count(), 5);
        assert!(explained.iter().all(|one| one.lateness_ns == 70_000 && one.accounted_ns == 0));
        assert!(asking.window().is_none(), "the window there is belongs to another spike");
        asking.keep_watch();

        assert!(!of_ceiling(&asking.explain(&late).unwrap()));
        assert!(asking.window().is_some());
        assert_eq!(explainer.0, AT_MOST + 1);
    }
}
