//! Beside the polling thread: takes its gaps and names what took the CPU.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Consumer, Flow, Instant};

use super::super::companion::Companion;
use super::super::error::ProbeError;
use super::polling::{PollRecord, Totals};
use super::shared::SharedRecorder;
use onbeat_cause::noise::{NoisePart, parts_of_gap};
use onbeat_cause::timeline::Timeline;
use onbeat_cause::{CpuCounters, CpuCounts, NoiseSource, Window};
use onbeat_record::{NoiseAccount, Note, Recorder, Series};

/// Events are complete this long after their time at the latest.
const COMPLETE_AFTER: Duration = Duration::from_millis(3);
/// Events before a gap that say what ran when it began, in nanoseconds.
const BEFORE_NS: u64 = 1_000_000;
/// Gaps that are looked at together: their events are read at once.
const AT_ONCE: usize = 4_096;

/// A gap whose events are not read yet.
#[derive(Clone, Copy, Debug)]
struct WaitingGap {
    from: Instant,
    to: Instant,
}

/// What comes from the polling thread.
pub(super) struct PollingEnds {
    /// Its gaps and windows, as far as the ring had room for them.
    pub(super) taken: Consumer<'static, PollRecord>,
    /// Its number, once it runs.
    pub(super) tid: Arc<AtomicU32>,
    /// All of its windows and gaps, once it has ended.
    pub(super) ended: Arc<Mutex<Totals>>,
}

/// Names the gaps of a polling thread.
pub(super) struct NoiseCompanion {
    account: NoiseAccount,
    polling: PollingEnds,
    followed: u32,
    flight: Option<SharedRecorder>,
    counters: CpuCounters,
    before: CpuCounts,
    /// Stolen time that no gap has been given yet, in nanoseconds, and the last reading.
    steal: (u64, Option<u64>),
    waiting: Vec<WaitingGap>,
    /// Gaps that have come through the ring.
    taken_gaps: u64,
    /// The threshold that was asked for, where the clock is too slow for it.
    raised_from_ns: Option<u64>,
}

impl NoiseCompanion {
    pub(super) fn new(
        account: NoiseAccount,
        polling: PollingEnds,
        raised_from_ns: Option<u64>,
    ) -> Self {
        let counters = CpuCounters::of(account.cpu);
        Self {
            account,
            polling,
            followed: 0,
            flight: None,
            counters,
            before: CpuCounts::default(),
            steal: (0, None),
            waiting: Vec::new(),
            taken_gaps: 0,
            raised_from_ns,
        }
    }

    fn follow(&mut self) {
        let tid = self.polling.tid.load(Ordering::Acquire);
        if tid == self.followed {
            return;
        }
        self.followed = tid;
        if let Some(flight) = &self.flight {
            flight.follow(tid);
        }
    }

    /// Takes what the polling thread has reported.
    fn take(&mut self, recorder: &mut Recorder) {
        while let Some(record) = self.polling.taken.pop() {
            match record {
                PollRecord::Gap { from, to } => {
                    recorder.count(Series::Gap, to.ns_since(from));
                    self.account.longest_ns = self.account.longest_ns.max(to.ns_since(from));
                    self.taken_gaps += 1;
                    self.waiting.push(WaitingGap { from, to });
                }
                PollRecord::Window(totals) => self.put(totals),
            }
        }
    }

    const fn put(&mut self, Totals { windows, ns, gaps, gaps_ns }: Totals) {
        self.account.windows = windows;
        self.account.window_ns = ns;
        self.account.polled_ns = ns - gaps_ns;
        self.account.gaps = gaps;
        self.account.gaps_ns = gaps_ns;
    }

    /// Names the gaps that ended before `until`, some at once.
    fn name(&mut self, until: Instant) {
        let ready = self.waiting.iter().take_while(|gap| gap.to <= until).count();
        let gaps: Vec<WaitingGap> = self.waiting.drain(..ready).collect();
        for some in gaps.chunks(AT_ONCE) {
            let window = self.window_of(some);
            let timeline = Timeline::new(&window);
            let of_thread = (self.account.cpu, self.followed);
            let parts = some
                .iter()
                .map(|gap| parts_of_gap((&window, &timeline), of_thread, (gap.from, gap.to)));
            let mut parts: Vec<NoisePart> = parts.flatten().collect();
            self.name_steal(&mut parts);
            parts.iter().for_each(|part| self.account.add_part(&part.source, part.ns));
        }
    }

    /// Returns the events around these gaps; none without a recorder.
    fn window_of(&self, gaps: &[WaitingGap]) -> Window {
        let (Some(first), Some(last), Some(flight)) = (gaps.first(), gaps.last(), &self.flight)
        else {
            return Window::default();
        };
        // What cannot be read leaves its gaps unexplained.
        let window = flight.window(self.account.cpu, first.from.minus_ns(BEFORE_NS), last.to);
        window.map_or_else(|_| Window::default(), |window| window.completed())
    }

    /// Gives stolen time to the longest parts without an event, as far as it goes: the counter says
    /// how much was stolen, and not when.
    fn name_steal(&mut self, parts: &mut Vec<NoisePart>) {
        let now = self.counters.steal_ns();
        let (left_ns, last) = &mut self.steal;
        if let Some((now, last)) = now.zip(*last) {
            *left_ns += now.saturating_sub(last);
        }
        *last = now;
        let mut silent: Vec<usize> = (0..parts.len())
            .filter(|place| parts[*place].source == NoiseSource::Hardware)
            .collect();
        silent.sort_by_key(|place| std::cmp::Reverse(parts[*place].ns));
        for place in silent {
            let ns = parts[place].ns.min(*left_ns);
            *left_ns -= ns;
            if ns > 0 {
                parts[place].ns -= ns;
                parts.push(NoisePart { source: NoiseSource::Steal, ns });
            }
        }
        parts.retain(|part| part.ns > 0);
    }

    /// Counts what the ring had no room for: its length is known from the window, its place is not.
    fn account_for_lost(&mut self) {
        let named: u64 = self.account.sources.iter().map(|count| count.ns).sum();
        let lost_ns = self.account.gaps_ns.saturating_sub(named);
        let lost = self.account.gaps.saturating_sub(self.taken_gaps);
        self.account.add_lost(lost, lost_ns);
        self.taken_gaps += lost;
    }
}

impl Companion for NoiseCompanion {
    fn start(&mut self) -> Result<(), ProbeError> {
        if self.steal.1.is_none() {
            self.before = self.counters.read();
            self.steal.1 = self.before.steal_ns;
        }
        if self.flight.is_none() && self.account.not_recorded.is_none() {
            match SharedRecorder::open() {
                Ok(flight) => self.flight = Some(flight),
                Err(why) => self.account.not_recorded = Some(why.to_string()),
            }
        }
        Ok(())
    }

    fn look(&mut self, recorder: &mut Recorder) -> Flow {
        self.follow();
        self.take(recorder);
        self.name(Monotonic.now().minus_ns(COMPLETE_AFTER.as_nanos() as u64));
        // Nothing may be overwritten while there is no gap to name.
        if let Some(flight) = &self.flight {
            flight.keep_watch();
        }
        Flow::Continue
    }

    fn after_block(&mut self, recorder: &mut Recorder) {
        thread::sleep(COMPLETE_AFTER);
        self.take(recorder);
        let ended = *self.polling.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that did not run to its end has left none.
        if ended.windows > self.account.windows {
            self.put(ended);
        }
        self.name(Monotonic.now());
        self.account_for_lost();
        self.account.sources.sort_by_key(|count| std::cmp::Reverse(count.ns));
        let now = self.counters.read();
        let since = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).map(|(now, before)| now.saturating_sub(before))
        };
        self.account.steal_ns = since(now.steal_ns, self.before.steal_ns);
        self.account.nmis = since(now.nmis, self.before.nmis);
        self.account.smis = since(now.smis, self.before.smis);
        let note = Note::Noise(Box::new(self.account.clone()));
        // A file that cannot be written ends the run where its samples are written.
        let _ = recorder.writer().note(&note);
    }

    fn end(&mut self) -> Vec<String> {
        let slow = self.raised_from_ns.map(|asked_ns| {
            format!(
                "gaps from {} ns on are counted, not from the {asked_ns} ns of --threshold: two clock readings are {} ns apart here",
                self.account.threshold_ns, self.account.step_ns
            )
        });
        slow.into_iter().collect()
    }
}
