//! The counts of one interval: a histogram and exact moments per series, and the worst samples.

use std::collections::VecDeque;

use onbeat_rt::{Flags, Sample};

use super::histogram::{IntervalCounts, LONGEST_NS, empty_interval};
use super::moments::Moments;
use super::note::{CauseCount, CulpritCount, Interval, Note, SpikeNote};
use super::outages::{Watch, WatchTally};
use super::recording::SpikeLimit;
use super::run_writer::{RunWriter, WriteError};
use super::series::Series;
use super::vocabulary::Stall;
use super::window::{Keeping, WindowFate, WindowNote};
use onbeat_cause::{CauseKind, Explanation, KeptWindow, WakeUpParts, WakeUpSplit};

/// Spikes kept per interval.
const SPIKES_KEPT: usize = 10;
/// The latest spikes of the run that stay in memory, for views of a run in progress.
const LATEST_SPIKES: usize = 3;
/// The smallest spike limit that is chosen by itself, in nanoseconds.
const LEAST_SPIKE_NS: u64 = 50_000;

struct Counted {
    series: Series,
    counts: IntervalCounts,
    moments: Moments,
}

impl Counted {
    fn new(series: Series) -> Self {
        Self { series, counts: empty_interval(series), moments: Moments::default() }
    }
}

/// A sample among the worst of its interval.
struct Spike {
    lateness_ns: u64,
    note: SpikeNote,
    window: Option<KeptWindow>,
}

/// The interval that is being counted. Its memory is kept from interval to interval.
pub(super) struct IntervalTally {
    counted: Vec<Counted>,
    /// Of served releases; their histogram is that of all releases without the skipped ones.
    wakeup: Moments,
    worst: Vec<Spike>,
    /// The newest of those written, oldest first.
    latest: VecDeque<SpikeNote>,
    keeping: Keeping,
    spike_limit: SpikeLimit,
    work_ns: u64,
    /// The limit of the interval before.
    last_limit_ns: Option<u64>,
    /// Spike threshold of the first sample, by the fastest release that warmed up.
    first_limit_ns: Option<u64>,
    watches: Vec<WatchTally>,
    /// Place in the block of the release that is counted, and the tenth of its interval.
    now: (u64, usize),
    /// The tenth in which what is counted begins.
    first_tenth: Option<usize>,
    pub(super) interval: Interval,
}

/// The evidence for why a sample was late.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Why {
    /// A rule of the scheduler, or a signal.
    pub stall: Option<Stall>,
    /// What the events around it show.
    pub explanation: Option<Explanation>,
    /// The events themselves, when [`super::Recorder::wants_window`] asked for them and there are
    /// some.
    pub window: Option<KeptWindow>,
    /// The parts of its wake-up, in runs that split them.
    pub split: WakeUpSplit,
}

/// The series of the parts of a wake-up, in the order in which they pass.
pub const PARTS_OF_WAKE_UP: [Series; 3] =
    [Series::InterruptLatency, Series::DispatchLatency, Series::UserReturn];

/// The spike threshold of a usual wake-up latency, and of what cycles usually take beyond their work.
fn limit_by(wakeup_ns: u64, excess_ns: u64) -> u64 {
    // Ten times the median is far outside the body of any machine seen so far. The floor keeps a
    // quiet machine with a median of 2 µs from calling 20 µs a spike, thousands of times in an hour.
    wakeup_ns.saturating_mul(10).max(LEAST_SPIKE_NS).saturating_add(excess_ns)
}

impl IntervalTally {
    pub(super) fn new(spike_limit: SpikeLimit, work_ns: u64) -> Self {
        let mut tally = Self {
            counted: Series::CYCLE.map(Counted::new).into(),
            wakeup: Moments::default(),
            // One more than are kept: a spike is inserted at its place, and then the last one falls
            // off.
            worst: Vec::with_capacity(SPIKES_KEPT + 1),
            latest: VecDeque::with_capacity(LATEST_SPIKES),
            keeping: Keeping::default(),
            spike_limit,
            work_ns,
            last_limit_ns: None,
            first_limit_ns: None,
            watches: Vec::new(),
            now: (0, 0),
            first_tenth: None,
            interval: Interval::default(),
        };

        // Emptying writes to all of the memory, so that it is there from the beginning and does not
        // come page by page.
        tally.empty();
        tally
    }

    /// Takes into account which windows the file has been given before.
    pub(super) fn continue_keeping(&mut self, keeping: Keeping) {
        self.keeping = keeping;
    }

    /// Makes room for series that are counted besides those of every loop.
    pub(super) fn count_also(&mut self, series: &[Series]) {
        self.counted.extend(series.iter().copied().map(Counted::new));
        self.empty();
    }

    /// Joins late releases of these watches into outages from now on.
    pub(super) fn watch(&mut self, watches: &[Watch]) {
        self.watches = watches.iter().copied().map(WatchTally::new).collect();
    }

    /// What is counted next is of the release at `place` of its block, in this tenth of the interval.
    pub(super) const fn at(&mut self, place: u64, tenth: usize) {
        self.now = (place, tenth);
        if self.first_tenth.is_none() {
            self.first_tenth = Some(tenth);
        }
    }

    /// Outages end with their block.
    pub(super) fn part_outages(&mut self) {
        self.watches.iter_mut().for_each(WatchTally::part);
    }

    /// Counts a value. A value of a series that this run does not have is ignored.
    #[inline]
    pub(super) fn count(&mut self, series: Series, ns: u64) {
        let Some(counted) = self.counted.iter_mut().find(|counted| counted.series == series) else {
            return;
        };
        counted.counts.saturating_record(ns.clamp(1, LONGEST_NS));
        counted.moments.add(ns);
        for watch in &mut self.watches {
            watch.count(series, ns, self.now);
        }
    }

    /// Joins `releases` in a row whose samples were lost, the first of them at `place` of the block.
    pub(super) fn join_lost(&mut self, place: u64, releases: u64) {
        self.watches.iter_mut().for_each(|watch| watch.lost(place, releases));
    }

    /// Counts a release that was skipped: among all releases, and among the skipped ones.
    pub(super) fn skipped(&mut self, latency_ns: u64) {
        self.interval.skipped += 1;
        for watch in &mut self.watches {
            watch.skipped(self.now);
        }
        self.count(Series::ReleaseLatency, latency_ns);
        self.count(Series::SkippedLatency, latency_ns);
    }

    /// Counts what a sample says by itself: its own figures, its flags, and its place among the
    /// worst.
    pub(super) fn sample(&mut self, sample: &Sample, t: f64, why: Why) {
        // By the limit as it is before the sample. What was explained was a spike when it was asked
        // about: one number for both.
        let lateness_ns = self.lateness_of(sample);
        let is_spike = why.explanation.is_some()
            || self.may_be_spike(lateness_ns) && lateness_ns > self.limit_so_far_ns();
        self.interval.spikes += u64::from(is_spike);

        self.wakeup.add(sample.wakeup_latency_ns);
        self.count(Series::ReleaseLatency, sample.wakeup_latency_ns);
        self.count(Series::ExecutionTime, sample.execution_time_ns);
        self.count(Series::ResponseTime, sample.response_time_ns());
        // Without spinning the sleep's lateness is the wake-up latency, and a second histogram
        // would say the same.
        if sample.spun_ns > 0 || sample.sleep_latency_ns != sample.wakeup_latency_ns {
            self.count(Series::SleepLatency, sample.sleep_latency_ns);
        }

        // Counted for every cycle that is in the series, late or not: slots = cycles + skipped +
        // lost must hold of each interval.
        self.interval.cycles += 1;
        self.interval.overruns += u64::from(sample.flags.has(Flags::OVERRUN));
        self.interval.deadline_misses += u64::from(sample.flags.has(Flags::DEADLINE_MISS));
        let Why { stall, explanation, window, split } = why;
        self.count_parts(split);
        if let Some(explanation) = &explanation {
            self.count_cause(lateness_ns, explanation);
        }

        let note = || SpikeNote {
            t,
            index: sample.index,
            wakeup_latency_ns: sample.wakeup_latency_ns,
            execution_time_ns: sample.execution_time_ns,
            skipped: sample.skipped,
            stall,
            causes: explanation.map(|explanation| explanation.causes).unwrap_or_default(),
            ..SpikeNote::default()
        };

        // Cause counts above are of all spikes; notes are of the worst of the interval only, since
        // a storm has thousands and a file must stay small.
        if is_spike {
            self.keep_if_among_worst(lateness_ns, || Spike { lateness_ns, note: note(), window });
        }
    }

    fn count_parts(&mut self, split: WakeUpSplit) {
        match split {
            WakeUpSplit::NotAsked => {}
            WakeUpSplit::Missing => self.interval.unsplit += 1,
            WakeUpSplit::Parts(WakeUpParts { interrupt_ns, dispatch_ns, to_user_ns }) => {
                let parts = [interrupt_ns, dispatch_ns, to_user_ns];
                for (series, ns) in PARTS_OF_WAKE_UP.into_iter().zip(parts) {
                    self.count(series, ns);
                }
            }
        }
    }

    fn count_cause(&mut self, lateness_ns: u64, explanation: &Explanation) {
        let main = explanation.main();
        // By its main cause alone: a spike that counted under each of its causes would make the
        // sums larger than the number of spikes.
        let all = self
            .interval
            .causes
            .entry(main.map_or(CauseKind::Unexplained, |cause| cause.kind))
            .or_default();
        all.spikes += 1;
        all.worst_ns = all.worst_ns.max(lateness_ns);
        all.lateness_ns += explanation.lateness_ns;
        all.accounted_ns += explanation.accounted_ns;

        if let Some(culprit) = main.and_then(|cause| cause.culprit.as_ref()) {
            let one = CulpritCount { spikes: 1, worst_ns: lateness_ns };
            all.add_culprit(&culprit.words(), one, CauseCount::CULPRITS);
        }
    }

    /// Notes a release that warmed up and is in no series: the first sample has no other before it
    /// to be compared with.
    pub(super) fn warmed_up(&mut self, sample: &Sample) {
        let excess_ns = sample.execution_time_ns.saturating_sub(self.work_ns);
        let limit_ns = limit_by(sample.wakeup_latency_ns, excess_ns);
        self.first_limit_ns = Some(self.first_limit_ns.map_or(limit_ns, |ns| ns.min(limit_ns)));
    }

    /// Spike threshold: by the median of the interval before, in the first interval by its own so
    /// far.
    pub(super) fn limit_so_far_ns(&self) -> u64 {
        match (self.spike_limit, self.last_limit_ns) {
            // The limit of the interval before stands, so that it does not drift while the interval
            // fills: the first late cycle of an interval would be judged by a median of one sample,
            // which is itself.
            (SpikeLimit::Above(ns), _) | (SpikeLimit::TenTimesMedian, Some(ns)) => ns,
            (SpikeLimit::TenTimesMedian, None) if self.wakeup.n == 0 => {
                self.first_limit_ns.unwrap_or(LEAST_SPIKE_NS)
            }
            (SpikeLimit::TenTimesMedian, None) => self.spike_limit_ns(),
        }
    }

    /// The limit of the next interval, if this one ended now. An interval without a served release
    /// says nothing of the median.
    pub(super) fn limit_of_next_ns(&self) -> u64 {
        // An interval in which nothing was served has no median; the limit before it stays.
        if self.wakeup.n > 0 { self.spike_limit_ns() } else { self.limit_so_far_ns() }
    }

    /// Whether a cycle can be a spike at all. A median costs more than this to know, and most
    /// cycles are below every limit.
    pub(super) const fn may_be_spike(&self, lateness_ns: u64) -> bool {
        match self.spike_limit {
            SpikeLimit::Above(ns) => lateness_ns > ns,
            // A median takes a walk over the histogram. The least limit rules out nearly all
            // samples without one.
            SpikeLimit::TenTimesMedian => lateness_ns > LEAST_SPIKE_NS,
        }
    }

    pub(super) fn lateness_of(&self, sample: &Sample) -> u64 {
        self.lateness_ns(sample.wakeup_latency_ns, sample.execution_time_ns)
    }

    const fn lateness_ns(&self, wakeup_latency_ns: u64, execution_time_ns: u64) -> u64 {
        // A cycle may start on time and be late by what held it up in its work. Work that was
        // planned is no lateness.
        wakeup_latency_ns + execution_time_ns.saturating_sub(self.work_ns)
    }

    /// Whether a sample would be written as a spike with its window, if its interval ended now.
    pub(super) fn wants_window(&self, sample: &Sample) -> bool {
        let lateness_ns = self.lateness_of(sample);
        // Reading the buffers of all CPUs is the dear part of an explanation: it is asked before.
        self.is_among_worst(lateness_ns) && self.keeping.judge(lateness_ns) == WindowFate::Kept
    }

    fn is_among_worst(&self, lateness_ns: u64) -> bool {
        self.worst.len() < SPIKES_KEPT
            || self.worst.last().is_none_or(|least| least.lateness_ns < lateness_ns)
    }

    fn keep_if_among_worst(&mut self, lateness_ns: u64, spike: impl FnOnce() -> Spike) {
        if !self.is_among_worst(lateness_ns) {
            return;
        }
        // Of equal ones the earlier stays in front: a file does not depend on which of two alike
        // came last.
        let place = self.worst.partition_point(|kept| kept.lateness_ns >= lateness_ns);
        self.worst.insert(place, spike());
        self.worst.truncate(SPIKES_KEPT);
    }

    /// Writes the interval and empties the tally for the next one. Nothing is written when nothing
    /// was counted.
    pub(super) fn flush(
        &mut self,
        writer: &mut RunWriter,
        t: f64,
        length: f64,
    ) -> Result<u64, WriteError> {
        let counted_any = self.counted.iter().any(|counted| counted.moments.n > 0);
        let Interval { lost, excluded, warmup, .. } = self.interval;
        // An interval in which everything was lost or left out still has a note: an account without
        // it would not add up.
        if !counted_any && lost + excluded + warmup == 0 {
            return Ok(0);
        }

        // Skipped releases first: what is left of a file that is cut off behind them takes none of
        // them for a served one.
        let is_of_skipped = |counted: &&Counted| counted.series == Series::SkippedLatency;
        let others = self.counted.iter().filter(|counted| !is_of_skipped(counted));
        for counted in self.counted.iter().filter(is_of_skipped).chain(others) {
            writer.interval(counted.series, &counted.counts, t, length)?;
        }

        // Of the full interval, before it is emptied.
        self.last_limit_ns = Some(self.limit_of_next_ns());
        let spikes = self.interval.spikes;
        self.interval.t = t;
        self.interval.length = length;
        // Release latency is the union of served and skipped ones, and its moments are those of
        // both: written once, they cannot contradict each other.
        let exact = self.counted.iter().filter(|counted| counted.series != Series::ReleaseLatency);
        let exact = exact
            .map(|counted| (counted.series, counted.moments))
            .chain([(Series::WakeupLatency, self.wakeup)]);
        self.interval.series = exact.filter(|(_, moments)| moments.n > 0).collect();
        // Tenths before the first release of a part are not "without a late one": nothing was
        // measured in them.
        let first = self.first_tenth.take().unwrap_or(0);
        let last = self.now.1;
        self.interval.late = self.watches.iter_mut().map(|watch| watch.take(first, last)).collect();
        let block = self.interval.block;
        writer.note(&Note::Interval(Box::new(std::mem::take(&mut self.interval))))?;
        self.interval.block = block;
        self.write_spikes(writer)?;
        self.empty();

        Ok(spikes)
    }

    fn write_spikes(&mut self, writer: &mut RunWriter) -> Result<(), WriteError> {
        let block = self.interval.block;
        // The worst come first, so that it is theirs to be kept.
        for Spike { lateness_ns, note, window } in &mut self.worst {
            note.block = block;
            if !note.causes.is_empty() {
                note.window = Some(self.keeping.admit(*lateness_ns, window.as_ref()));
            }
        }

        // A file is in the order of time, whatever was the order of admission.
        self.worst.sort_by_key(|spike| spike.note.index);
        for Spike { note, window, .. } in self.worst.drain(..) {
            let index = note.index;
            let fate = note.window;
            // A ring of three: a view of a run of days reads them without growing.
            if self.latest.len() == LATEST_SPIKES {
                self.latest.pop_front();
            }
            self.latest.push_back(note.clone());
            writer.note(&Note::Spike(note))?;
            if let (Some(window), Some(WindowFate::Kept)) = (window, fate) {
                writer.note(&Note::Window(Box::new(WindowNote::new(block, index, window))))?;
            }
        }

        Ok(())
    }

    /// Returns the spikes written last, the newest first.
    pub(super) fn latest_spikes(&self) -> impl Iterator<Item = &SpikeNote> {
        self.latest.iter().rev()
    }

    fn spike_limit_ns(&self) -> u64 {
        match self.spike_limit {
            SpikeLimit::Above(ns) => ns,
            SpikeLimit::TenTimesMedian => {
                limit_by(self.median_wakeup_ns(), self.median_excess_ns())
            }
        }
    }

    /// The median of what cycles take beyond the planned work. A cycle that waits for answers, or
    /// whose controller is slow, has it in each release, which is not a spike.
    fn median_excess_ns(&self) -> u64 {
        self.counts_of(Series::ExecutionTime)
            .filter(|counts| !counts.is_empty())
            .map_or(0, |counts| counts.value_at_quantile(0.5).saturating_sub(self.work_ns))
    }

    fn counts_of(&self, series: Series) -> Option<&IntervalCounts> {
        self.counted.iter().find(|counted| counted.series == series).map(|found| &found.counts)
    }

    /// The median of served releases. Skipped ones are left out: an outage must not raise the limit
    /// that is applied to it.
    fn median_wakeup_ns(&self) -> u64 {
        let all = self.counts_of(Series::ReleaseLatency);
        let Some((all, skipped)) = all.zip(self.counts_of(Series::SkippedLatency)) else {
            return 0;
        };
        if skipped.is_empty() {
            return all.value_at_quantile(0.5);
        }

        // The histogram holds all releases. A stop of a second puts a thousand skipped ones into
        // it, and their median would hide the next spikes; they are taken out bucket by bucket.
        let mut left = self.wakeup.n.div_ceil(2);
        let served =
            |value: u64| u64::from(all.count_at(value).saturating_sub(skipped.count_at(value)));
        let median = all.iter_recorded().map(|step| step.value_iterated_to()).find(|&value| {
            left = left.saturating_sub(served(value));
            left == 0
        });

        median.unwrap_or(0)
    }

    fn empty(&mut self) {
        for counted in &mut self.counted {
            counted.counts.reset();
            counted.moments = Moments::default();
        }
        self.wakeup = Moments::default();
        self.worst.clear();
    }
}
