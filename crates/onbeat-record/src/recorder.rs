//! Takes samples from the loop, counts them into intervals, and hands each finished interval to the
//! run file.
//!
//! Runs on the cold thread. Memory is fixed when it is made; the length of a run changes nothing.
//!
//! Samples name served releases alone. What was skipped is counted when the next served one comes,
//! and before it: an interval must not be written while a release that belongs to it is unknown.
//! With T = 1 ms and intervals of 1 s, a cycle that skips three releases at the end of an interval:
//!
//! ```text
//!  grid     r_997     r_998     r_999   |  r_1000    r_1001
//!  loop     |-cycle 997 ---------------------------------|-cycle 1001
//!                                       |                s = r_1001 + 0.05 ms
//!
//!  the sample of 1001 arrives: skipped = 3, wake-up latency 0.05 ms
//!    count_skipped     r_998   3.05 ms   into interval 0
//!                      r_999   2.05 ms   into interval 0
//!                      end_interval_before(r_1000): interval 0 is written
//!                      r_1000  1.05 ms   into interval 1
//!    tally.sample      r_1001  0.05 ms   into interval 1
//!
//!  slots 0..=1001 = 1,002 = 999 cycles + 3 skipped: each release is in exactly one histogram
//! ```

use onbeat_rt::time::SECOND_NS;
use onbeat_rt::{Flags, Instant, Outcome, Sample};

use super::events::EventTally;
use super::exclusion::{Exclusion, ExclusionNote, OpenExclusions};
use super::figures::{Figures, NoFigures};
use super::note::{Account, Block, Note, Remark, SpikeNote};
use super::outages::{PARTS, Watch};
use super::past::Past;
use super::recording::{Progress, Recording, TimeOrigin};
use super::run_writer::{RunWriter, WriteError};
use super::second_maxima::{MAXIMA_OF, SecondMaxima};
use super::seconds::{Second, SecondTally};
use super::series::Series;
use super::tally::{IntervalTally, PARTS_OF_WAKE_UP, Why};
use super::trend::TrendTally;
use super::vocabulary::Stall;
use onbeat_ethercat::event::Event;

/// Receives the samples of a run and writes its run file.
pub struct Recorder {
    writer: RunWriter,
    zero: TimeOrigin,
    recording: Recording,
    tally: IntervalTally,
    interval_start: Instant,
    /// What of the interval is not written yet begins here.
    part_start: Instant,
    /// The sample before, in this block.
    before: Option<Sample>,
    /// Whether that one is in no series, so that no period begins with it.
    before_is_excluded: bool,
    excluded: OpenExclusions,
    next_index: u64,
    /// How many releases of the block may warm up.
    warmup: u64,
    /// Where the block's grid begins.
    first_release: Instant,
    /// The planned length of the next block, in releases.
    planned_releases: Option<u64>,
    maxima: Option<SecondMaxima>,
    trend: TrendTally,
    figures: Box<dyn Figures>,
    seconds: Option<SecondTally>,
    events: EventTally,
    progress: Progress,
    account: Account,
    /// What parts of the run have come to that were over before.
    earlier: Account,
}

impl Recorder {
    /// A recorder for a run that starts at `origin`, the instant that stands as 0 in the file.
    #[must_use]
    pub fn new(writer: RunWriter, origin: Instant, recording: Recording) -> Self {
        let long = recording.interval_ns > SECOND_NS;
        Self {
            writer,
            zero: TimeOrigin { at: origin, t_ns: 0 },
            recording,
            tally: IntervalTally::new(recording.spike_limit, recording.work_ns),
            interval_start: origin,
            part_start: origin,
            before: None,
            before_is_excluded: false,
            excluded: OpenExclusions::default(),
            next_index: 0,
            warmup: 0,
            first_release: origin,
            planned_releases: None,
            maxima: long.then(|| SecondMaxima::from(origin)),
            trend: TrendTally::new(recording.interval_ns, recording.period_ns, origin),
            figures: Box::new(NoFigures),
            seconds: None,
            events: EventTally::default(),
            progress: Progress::default(),
            account: Account::default(),
            earlier: Account::default(),
        }
    }

    /// Creates a recorder that resumes the file of a run that was cut off or ended early. `origin`
    /// stands for `from_ns` nanoseconds after the file's start.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn go_on(
        mut past: Past,
        (origin, from_ns): (Instant, u64),
        recording: Recording,
    ) -> Result<Self, WriteError> {
        let before = past.account.clone();
        let keeping = std::mem::take(&mut past.keeping);
        let mut recorder = Self::new(RunWriter::go_on(past)?, origin, recording);
        recorder.zero.t_ns = from_ns;
        recorder.tally.continue_keeping(keeping);
        recorder.earlier = before;
        Ok(recorder)
    }

    /// Writes the samples counted so far; later samples of the same interval get their own lines.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write_out(&mut self) -> Result<(), WriteError> {
        // Nothing has been served in this block; a part without a release would have no length.
        let Some(before) = self.before else { return Ok(()) };
        let until = before.release.plus_ns(self.recording.period_ns);
        self.flush_part(until)?;
        self.part_start = until;
        Ok(())
    }

    /// Joins late releases of these watches into outages from now on.
    pub fn watch(&mut self, watches: &[Watch]) {
        self.tally.watch(watches);
    }

    /// Counts figures of a probe's own from now on.
    pub fn count_also(&mut self, figures: Box<dyn Figures>) {
        self.tally.count_also(figures.series());
        self.figures = figures;
    }

    /// Counts the parts of wake-ups from now on.
    pub fn split_wake_ups(&mut self) {
        self.tally.count_also(&PARTS_OF_WAKE_UP);
    }

    /// Keeps exact figures of wake-up latency second by second from now on.
    pub fn keep_seconds(&mut self) {
        self.seconds = Some(SecondTally::new());
    }

    /// Seconds that have ended since this was asked last; the first sixty of them when it was not
    /// asked for longer.
    pub fn seconds_done(&mut self) -> impl Iterator<Item = Second> {
        self.seconds.iter_mut().flat_map(SecondTally::fresh)
    }

    /// Counts a figure that is in no sample, in the interval that is being counted; none while a
    /// stretch is left out.
    pub fn count(&mut self, series: Series, ns: u64) {
        if self.excluded.is_empty() {
            self.tally.count(series, ns);
        }
    }

    /// Leaves out what was under way in a stretch: cycles whose samples come after this, in no
    /// series from here on, and releases skipped before them. They are counted in `excluded`.
    pub fn exclude(&mut self, exclusion: Exclusion) {
        self.excluded.add(exclusion);
    }

    /// Writes a remark on the run.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn remark(&mut self, sentence: String) -> Result<(), WriteError> {
        self.writer.note(&Note::Remark(Remark { sentence }))
    }

    /// The loop has another period from here on: a program that is watched may change it.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn change_period(&mut self, at: Instant, period_ns: u64) -> Result<(), WriteError> {
        let from_ns = std::mem::replace(&mut self.recording.period_ns, period_ns.max(1));
        let t = self.seconds(at);
        self.remark(format!(
            "{t:.1} s after the start the program changed its period from {:.3} to {:.3} ms",
            from_ns as f64 / 1e6,
            period_ns as f64 / 1e6
        ))
    }

    /// Writes an event of a bus or of the robot on it, `device` being the name of its device; only
    /// counts it when its kind has had [`MOST_OF_A_KIND`](super::MOST_OF_A_KIND) notes.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn event(&mut self, event: &Event, device: &str) -> Result<(), WriteError> {
        let t = self.seconds(Instant::from_ns(event.at_ns));
        let note = self.events.note(t, event, device);
        note.map_or(Ok(()), |note| self.writer.note(&Note::Event(note)))
    }

    /// Counts events that were lost on their way here.
    pub const fn lose_events(&mut self, events: u64) {
        self.events.lose(events);
    }

    /// Returns the counts of the run so far.
    #[must_use]
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// Returns the last spikes of finished intervals, the newest first, three at most: a view of a
    /// run in progress need not read the file, which grows with the run.
    pub fn latest_spikes(&self) -> impl Iterator<Item = &SpikeNote> {
        self.tally.latest_spikes()
    }

    /// The run file being written, for notes of others.
    pub const fn writer(&mut self) -> &mut RunWriter {
        &mut self.writer
    }

    /// Seconds from the file's start to `instant`.
    #[must_use]
    pub const fn seconds(&self, instant: Instant) -> f64 {
        self.zero.seconds(instant)
    }

    /// Begins an uninterrupted stretch of the loop whose first release is `first_release`. Cycles
    /// of its first `warmup` releases run with cold caches and are counted in no series, as long as
    /// they are on time: a cycle that misses its deadline or the next release, and a release that
    /// is skipped, are counted from the very first one on.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn begin_block(
        &mut self,
        block: u32,
        first_release: Instant,
        load: &str,
        warmup: u64,
    ) -> Result<(), WriteError> {
        let t = self.seconds(first_release);
        self.interval_start = first_release;
        self.part_start = first_release;
        self.tally.interval.block = block;
        self.before = None;
        self.before_is_excluded = false;
        self.next_index = 0;
        self.warmup = warmup;
        self.first_release = first_release;

        if let Some(maxima) = &mut self.maxima {
            maxima.move_to(first_release);
        }

        self.trend.begin(first_release, self.served());
        if let Some(seconds) = &mut self.seconds {
            seconds.begin(first_release, block);
        }

        let releases = self.planned_releases.take();
        self.writer.note(&Note::Block(Block {
            index: block,
            t,
            load: load.to_owned(),
            warmup,
            releases,
        }))
    }

    /// Sets the planned length of the next block, in releases; `u64::MAX` stands for no end.
    pub fn plan_block(&mut self, releases: u64) {
        self.planned_releases = (releases < u64::MAX).then_some(releases);
    }

    /// Counts one sample; `stall` names what stopped the loop when it was no latency of the
    /// machine.
    ///
    /// # Errors
    /// [`WriteError`], when the sample ends an interval that cannot be written.
    pub fn sample(&mut self, sample: &Sample, stall: Option<Stall>) -> Result<(), WriteError> {
        self.sample_with(sample, Why { stall, ..Why::default() })
    }

    /// Whether a sample is a spike, as far as is known before its interval ends, and worth an
    /// explanation.
    #[must_use]
    pub fn is_spike(&self, sample: &Sample) -> bool {
        let lateness_ns = self.tally.lateness_of(sample);
        let is_counted = !self.warms_up(sample) && !self.excluded.touches_cycle(sample);
        if !is_counted || !self.tally.may_be_spike(lateness_ns) {
            return false;
        }

        // The first sample of an interval is counted by the limit of that interval, which is not
        // yet in force.
        let begins_interval =
            sample.release.ns_since(self.interval_start) >= self.recording.interval_ns;
        let limit_ns = if begins_interval {
            self.tally.limit_of_next_ns()
        } else {
            self.tally.limit_so_far_ns()
        };
        lateness_ns > limit_ns
    }

    /// Whether the file would keep what the CPUs did around a spike, as far as is known before its
    /// interval ends.
    #[must_use]
    pub fn wants_window(&self, sample: &Sample) -> bool {
        self.tally.wants_window(sample)
    }

    /// Counts one sample, with what is known of its causes.
    ///
    /// # Errors
    /// As [`Recorder::sample`].
    pub fn sample_with(&mut self, sample: &Sample, why: Why) -> Result<(), WriteError> {
        // A full ring drops samples, and a served release that was dropped looks from here like a
        // skipped one. The loop's own count of skipped releases tells the two apart: what the gap
        // has beyond it was lost.
        let gap = sample.index - self.next_index;
        let lost = gap.saturating_sub(sample.skipped);
        let first_lost = std::mem::replace(&mut self.next_index, sample.index + 1);
        self.write_exclusions_before(
            sample.release.minus_ns(sample.skipped * self.recording.period_ns),
        )?;
        let is_excluded = self.excluded.touches_cycle(sample);
        // A period across a hole would be a multiple of T, and one that begins in a stretch that is
        // left out would carry it into the series.
        let begins_no_period =
            std::mem::replace(&mut self.before_is_excluded, is_excluded) || lost > 0;
        let before = self.before.replace(*sample).filter(|_| !begins_no_period);
        self.account.cycles += 1;
        self.account.skipped += sample.skipped;

        self.excluded.count(sample, self.recording.period_ns);
        self.tally.join_lost(first_lost, lost);
        // Before the sample itself: they are due earlier, and may belong to the interval before.
        self.count_skipped(sample)?;
        self.end_interval_before(sample.release)?;
        self.tally.at(sample.index, self.tenth_of(sample.release));
        self.tally.interval.lost += lost;
        // After the interval's end was looked for: an excluded cycle moves time on like any other.
        if is_excluded {
            self.tally.interval.excluded += 1;
            return Ok(());
        }

        // Counted apart, with the worst of them: what the caches cost is no latency of the machine,
        // and is not to vanish either.
        if self.warms_up(sample) {
            self.tally.interval.warmup += 1;
            self.tally.warmed_up(sample);
            self.account.warmup_worst_ns =
                self.account.warmup_worst_ns.max(sample.wakeup_latency_ns);
            return Ok(());
        }

        self.tally.sample(sample, self.origin_seconds(sample), why);
        self.trend.count(sample.release, sample.wakeup_latency_ns);
        if let Some(before) = before {
            self.tally.count(Series::ObservedPeriod, sample.start().ns_since(before.start()));
        }

        self.figures.of(sample, before.as_ref(), &mut |series, ns| self.tally.count(series, ns));

        let period_ns = before.map_or(0, |before| sample.start().ns_since(before.start()));
        self.keep_maxima(
            sample.release,
            [sample.wakeup_latency_ns, period_ns, sample.response_time_ns()],
        )?;
        self.keep_second(sample.release, sample.wakeup_latency_ns, 0)?;
        self.add_progress(sample);
        Ok(())
    }

    /// Whether a sample is left out because the caches were cold. Whatever shows an outage is not:
    /// the releases that it took are part of the account wherever it began.
    fn warms_up(&self, sample: &Sample) -> bool {
        let is_late = sample.flags.has(Flags::OVERRUN) || sample.flags.has(Flags::DEADLINE_MISS);
        sample.index < self.warmup && sample.skipped == 0 && !is_late
    }

    /// Releases skipped before a cycle have the latency until its start; the earliest comes first,
    /// each in its own interval.
    fn count_skipped(&mut self, sample: &Sample) -> Result<(), WriteError> {
        // From the oldest on, since each may end an interval and the intervals of a file are in
        // order.
        for passed in (1..=sample.skipped).rev() {
            let before_ns = passed * self.recording.period_ns;
            let due = sample.release.minus_ns(before_ns);
            self.count_skipped_one(due, sample.start(), sample.wakeup_latency_ns + before_ns)?;
        }
        Ok(())
    }

    /// One that waited from `due` to `until`: in its series, or left out.
    fn count_skipped_one(
        &mut self,
        due: Instant,
        until: Instant,
        latency_ns: u64,
    ) -> Result<(), WriteError> {
        self.end_interval_before(due)?;
        if self.excluded.touches(due, until) {
            let interval = &mut self.tally.interval;
            interval.excluded += 1;
            interval.excluded_skipped += 1;
            return Ok(());
        }

        // The place on the grid, not a count of samples: outages are joined by the distance of
        // releases, and lost samples leave no gap on it.
        let place = due.ns_since(self.first_release) / self.recording.period_ns.max(1);
        self.tally.at(place, self.tenth_of(due));
        self.tally.skipped(latency_ns);
        self.trend.count(due, latency_ns);
        self.keep_maxima(due, [latency_ns, 0, 0])?;
        self.keep_second(due, latency_ns, 1)?;
        self.progress.skipped += 1;
        self.progress.worst_ns = self.progress.worst_ns.max(latency_ns);

        Ok(())
    }

    fn write_exclusions_before(&mut self, due: Instant) -> Result<(), WriteError> {
        for (exclusion, samples) in self.excluded.over_before(due) {
            self.write_exclusion(exclusion, samples)?;
        }

        Ok(())
    }

    fn write_exclusion(&mut self, exclusion: Exclusion, samples: u64) -> Result<(), WriteError> {
        let Exclusion { from, to, what, sentence } = exclusion;
        let t = self.seconds(from);
        let length = to.ns_since(from) as f64 / 1e9;
        self.writer.note(&Note::Exclusion(ExclusionNote { t, length, what, sentence, samples }))
    }

    const fn origin_seconds(&self, sample: &Sample) -> f64 {
        self.seconds(sample.release)
    }

    fn add_progress(&mut self, sample: &Sample) {
        self.progress.cycles += 1;
        self.progress.deadline_misses += u64::from(sample.flags.has(Flags::DEADLINE_MISS));
        self.progress.worst_ns = self.progress.worst_ns.max(sample.wakeup_latency_ns);
    }

    /// Ends the block with the loop's own account of it: releases passed over after the last cycle,
    /// and samples lost at the end, are counted here because no sample carries them.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn end_block(&mut self, outcome: &Outcome) -> Result<(), WriteError> {
        // The loop's account is the truth here. Samples that the ring dropped after the last one
        // that arrived have no successor that would show the gap.
        let lost_at_end = (outcome.slots - outcome.skipped_at_end).saturating_sub(self.next_index);
        self.tally.join_lost(self.next_index, lost_at_end);
        self.tally.interval.lost += lost_at_end;
        // Before the outages are parted: the last outage of a block may consist of them alone.
        self.count_skipped_at_end(outcome)?;
        // The distance to the next block is no distance on one grid.
        self.tally.part_outages();
        self.account.slots += outcome.slots;
        // Those that were skipped before a lost sample are among the lost ones.
        self.account.skipped += outcome.skipped_at_end;
        self.flush(outcome.last_end)?;

        for (exclusion, samples) in self.excluded.all() {
            self.write_exclusion(exclusion, samples)?;
        }

        if let Some(maxima) = &mut self.maxima {
            maxima.write(&mut self.writer, self.zero)?;
        }
        if let Some(seconds) = self.seconds.as_mut().and_then(SecondTally::end) {
            self.writer.note(&Note::Seconds(Box::new(seconds)))?;
        }

        Ok(())
    }

    /// Their next start never came; the end of the last cycle is the least they waited for.
    fn count_skipped_at_end(&mut self, outcome: &Outcome) -> Result<(), WriteError> {
        let (known, index) =
            self.before.map_or((self.first_release, 0), |before| (before.release, before.index));
        let base_index = outcome.slots - outcome.skipped_at_end;
        for passed in 0..outcome.skipped_at_end {
            let due = known.plus_ns((base_index + passed - index) * self.recording.period_ns);
            self.excluded.count_one(due, outcome.last_end);
            self.count_skipped_one(due, outcome.last_end, outcome.last_end.ns_since(due))?;
        }

        Ok(())
    }

    /// Writes the closing line; `closing` brings what only the caller knows, the counts are the
    /// recorder's own.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn close(mut self, closing: &Account) -> Result<Account, WriteError> {
        let Account { slots, cycles, skipped, lost, warmup, warmup_worst_ns, excluded, .. } =
            self.account;
        let counted = Account {
            slots,
            cycles,
            skipped,
            lost,
            warmup,
            warmup_worst_ns,
            excluded,
            ..closing.clone()
        };
        // Of a resumed run the closing line stands for all its parts: a reader needs no earlier
        // one.
        let account = self.earlier.and(&counted);
        if let Some(left_out) = self.events.left_out() {
            self.writer.note(&Note::EventsLeftOut(left_out))?;
        }

        self.writer.note(&Note::End(account.clone()))?;
        // The closing line says that the file is whole. It must not reach the disk before what it
        // vouches for.
        self.writer.sync()?;
        Ok(account)
    }

    fn end_interval_before(&mut self, release: Instant) -> Result<(), WriteError> {
        // Saturates for releases before the interval, which a block that begins earlier than its
        // predecessor ended may have.
        let into_ns = release.ns_since(self.interval_start);
        if into_ns < self.recording.interval_ns {
            return Ok(());
        }

        // Whole intervals that had no release at all, as in a stop of minutes, get no empty lines:
        // readers take the time from each line, not from their number.
        let next = self
            .interval_start
            .plus_ns(into_ns / self.recording.interval_ns * self.recording.interval_ns);
        // To the nominal end, not to the last release: the lines of a series tile time without
        // holes.
        self.flush(self.interval_start.plus_ns(self.recording.interval_ns))?;
        self.interval_start = next;
        self.part_start = next;
        // The sample that ends the interval is counted already, and belongs to the next one.
        self.trend.begin(next, self.served() - 1);
        Ok(())
    }

    fn flush(&mut self, until: Instant) -> Result<(), WriteError> {
        self.flush_part(until)?;
        let t = self.seconds(self.interval_start);
        if let Some(trend) = self.trend.end(t) {
            self.writer.trend(trend)?;
        }

        self.trend.empty();
        Ok(())
    }

    fn flush_part(&mut self, until: Instant) -> Result<(), WriteError> {
        let t = self.seconds(self.part_start);
        let length = until.ns_since(self.part_start) as f64 / 1e9;
        self.account.lost += self.tally.interval.lost;
        self.account.excluded += self.tally.interval.excluded;
        self.account.warmup += self.tally.interval.warmup;
        self.progress.spikes += self.tally.flush(&mut self.writer, t, length)?;

        Ok(())
    }

    /// The tenth of the interval that a release is in.
    const fn tenth_of(&self, release: Instant) -> usize {
        let into_ns = release.ns_since(self.interval_start);
        (into_ns.saturating_mul(PARTS as u64) / self.recording.interval_ns) as usize
    }

    /// Cycles served so far, as far as is known: those that were lost on the way here may have been
    /// skipped as well.
    const fn served(&self) -> u64 {
        self.earlier.cycles + self.earlier.lost + self.account.cycles + self.account.lost
    }

    fn keep_maxima(
        &mut self,
        release: Instant,
        values_ns: [u64; MAXIMA_OF.len()],
    ) -> Result<(), WriteError> {
        let Some(maxima) = &mut self.maxima else { return Ok(()) };
        // Written when full and not with the interval: maxima are kept second by second, and an
        // interval may have a minute of them.
        if maxima.is_full_before(release) {
            maxima.write(&mut self.writer, self.zero)?;
            maxima.move_to(release);
        }

        maxima.keep(release, values_ns);
        Ok(())
    }

    fn keep_second(
        &mut self,
        release: Instant,
        latency_ns: u64,
        skipped: u64,
    ) -> Result<(), WriteError> {
        let full =
            self.seconds.as_mut().and_then(|seconds| seconds.count(release, latency_ns, skipped));
        full.map_or(Ok(()), |seconds| self.writer.note(&Note::Seconds(Box::new(seconds))))
    }
}
