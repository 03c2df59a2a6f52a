//! What a run file shows of a limit: late releases, joined into outages as far as it knows when they
//! were.

use super::Limit;
use super::outages::Outages;
use super::rule::UNSEEN;
use crate::statistics::Statistics;
use onbeat_record::{
    Distribution, Import, Interval, LateNote, OutageSums, PARTS, RunFile, Series, Watch, gap,
};

/// What samples that were lost are taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    LeftOut,
    Late,
}

/// How late releases were joined into outages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// When they were recorded, by their gaps.
    Recorded,
    /// All of an interval together: the file does not tell where in it they were.
    ByInterval,
    /// Not at all: the source does not tell when they were.
    Never,
}

/// Releases over a limit in one run.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) outages: Outages,
    /// The same with lost samples as late ones.
    with_lost: Outages,
    pub(super) joined: Joined,
    /// Samples that may be over the limit: in a bucket of the source that reaches beyond it, or
    /// below 0 by more than it.
    pub(super) unsure: u64,
    /// Those of them below 0.
    pub(super) negative: u64,
    /// Samples that were lost between loop and recorder, or never came to another tool.
    pub(super) lost: u64,
    /// Time from a sample to the next, in seconds: T, of pictures the measured time by their number; 0 where it is not known.
    pub(super) period_s: f64,
    /// Whether the loop had no releases: a relative wait serves every cycle, however late it is.
    pub(super) has_no_grid: bool,
    /// How long outages last that reach a part of the limit only.
    pub(super) below: Option<Below>,
    /// Of a source that states its extremes and no number of samples: whether even the smallest is
    /// over the limit. One sample stands for all then, and shows no rate.
    pub(super) uncounted: Option<bool>,
}

/// Outages over a part of the limit: each over the limit is within one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Below {
    /// The part of the limit, in nanoseconds.
    pub(super) limit_ns: u64,
    /// The largest of them.
    pub(super) largest: u64,
}

/// From fewer outages than this nothing is said of how long the next one is.
const LEAST_BELOW: u64 = 20;

impl Evidence {
    /// `limit` is on all releases ([`super::on_all_releases`]).
    pub(super) fn of(run: &RunFile, limit: Limit) -> Self {
        if run.import.is_some() {
            return Self::of_import(run, limit);
        }

        let notes = notes_of(run, limit);
        let (late, releases) = counts(run, limit);
        let lost = run.intervals.iter().map(|interval| interval.lost).sum();
        let (outages, with_lost, joined) = match notes {
            Some(notes) => {
                let of = |lost| recorded(run, limit, &notes, (late, releases), lost);
                (of(Lost::LeftOut), of(Lost::Late), Joined::Recorded)
            }
            None => {
                let outages = by_interval(run, limit, (late, releases));
                let mut with_lost = outages.clone();
                with_lost.releases += lost;
                if lost > 0 {
                    with_lost.sums.add(lost);
                }
                (outages, with_lost, Joined::ByInterval)
            }
        };

        let timing = run.header.timing.as_ref();
        let period_ns = timing.map_or(0, |timing| timing.period_ns);
        let has_no_grid = timing.is_some_and(|timing| timing.wait_kind().is_relative());
        let below = Below::of(run, limit);
        let period_s = if limit.on.is_of_pictures() {
            let measured_s: f64 = run.intervals.iter().map(|interval| interval.length).sum();
            measured_s / releases.max(1) as f64
        } else {
            period_ns as f64 / 1e9
        };
        Self {
            outages,
            with_lost,
            joined,
            unsure: 0,
            negative: 0,
            lost,
            period_s,
            has_no_grid,
            below,
            uncounted: None,
        }
    }

    /// The counts of a source with coarse buckets.
    fn of_import(run: &RunFile, limit: Limit) -> Self {
        let parts: Vec<_> = run.entries.iter().filter(|entry| entry.series == limit.on).collect();
        let over = |cells: &Distribution| {
            let wholly = cells.buckets().iter().filter(|bucket| bucket.low_ns > limit.limit_ns);
            wholly.map(|bucket| bucket.count).sum::<u64>()
        };
        let mut stretches: Vec<(u64, u64)> =
            parts.iter().map(|part| (part.counts.count(), over(&part.counts))).collect();
        let astride = parts.iter().map(|part| part.counts.count_astride(limit.limit_ns));
        let mut unsure: u64 = astride.sum();
        let import = run.import.as_ref();
        if unsure > 0 && import.is_some_and(|import| states_larger(import, limit)) {
            // Which of the intervals the largest sample was in is not known.
            if let Some(last) = stretches.last_mut() {
                *last = (last.0, last.1 + 1);
                unsure -= 1;
            }
        }
        let on_time: u64 = stretches.iter().map(|(all, over)| all.saturating_sub(*over)).sum();
        let negative = import.map_or(0, |import| import.beyond_below(limit.on, limit.limit_ns));
        let unsure = unsure.saturating_add(negative).min(on_time);
        let negative = negative.min(unsure);
        let period_ns = import.and_then(|import| import.period_ns).unwrap_or(0);

        // A source that counted into one histogram does not tell when; one with intervals does,
        // however few: a longer run must not lose the PASS of its beginning.
        let intervals = parts.iter().filter(|part| part.length > 0.0).count();
        let joined = if intervals < 2 { Joined::Never } else { Joined::ByInterval };
        let outages = match joined {
            Joined::Never => singly(&stretches),
            _ => of_stretches(&stretches),
        };
        let period_s = period_ns as f64 / 1e9;
        let lost: u64 = run.intervals.iter().map(|interval| interval.lost).sum();
        let all = Outages { releases: outages.releases + lost, ..outages.clone() };
        let with_lost = and_late(all, lost, joined);
        let uncounted = Statistics::new(&run.distribution(limit.on), &run.moments(limit.on))
            .filter(|of| !of.is_counted())
            .map(|of| of.min_ns > limit.limit_ns);
        Self {
            outages,
            with_lost,
            joined,
            unsure,
            negative,
            lost,
            period_s,
            has_no_grid: false,
            below: None,
            uncounted,
        }
    }

    /// How long outages last over a part of the limit, where that is less than is assumed otherwise.
    pub(super) fn shorter_below(&self) -> Option<Below> {
        self.below.filter(|below| (below.largest as f64) < UNSEEN)
    }

    /// Samples on an unknown side of the limit.
    pub(super) const fn open(&self) -> u64 {
        self.lost + self.unsure
    }

    /// Whether samples in a bucket that holds the limit make the difference, however long a run of
    /// the same source is.
    pub(super) fn hangs_on_buckets(&self, allowed: f64) -> bool {
        self.unsure > 0
            && rate(&self.with_open_on_time()) <= allowed
            && rate(&self.with_open_late()) > allowed
    }

    /// What decides, where a longer run does: FAIL is of what is late for certain, PASS of what may
    /// be. Where lost samples alone are too many, it is a run that loses none.
    pub(super) fn deciding(&self, allowed: f64) -> Outages {
        let (on_time, late) = (self.with_open_on_time(), self.with_open_late());
        if rate(&on_time) > allowed || rate(&late) > allowed { on_time } else { late }
    }

    /// With those samples on time.
    pub(super) fn with_open_on_time(&self) -> Outages {
        Outages { releases: self.outages.releases + self.lost, ..self.outages.clone() }
    }

    /// With those samples late: the lost ones where they were, the others in one outage.
    pub(super) fn with_open_late(&self) -> Outages {
        and_late(self.with_lost.clone(), self.unsure, self.joined)
    }
}

/// With further late ones of it: singly where all are, else in one outage.
fn and_late(mut outages: Outages, late: u64, joined: Joined) -> Outages {
    if late > 0 && joined == Joined::Never {
        let singly = OutageSums { outages: late, late, squares: late, largest: 1 };
        outages.sums = outages.sums.and(singly);
    } else if late > 0 {
        outages.sums.add(late);
    }
    outages
}

fn rate(outages: &Outages) -> f64 {
    outages.sums.late as f64 / outages.releases.max(1) as f64
}

/// Whether the limit is past the end of a source's histogram, and the source states a maximum that is
/// larger: one sample is over then, whatever the others are.
fn states_larger(import: &Import, limit: Limit) -> bool {
    let Some(resolution) = import.resolution.get(&limit.on) else { return false };
    let Some(beyond) = resolution.beyond else { return false };
    let stated_from_ns = beyond.to_ns.saturating_sub(resolution.step_ns.saturating_sub(1));
    (beyond.from_ns..stated_from_ns).contains(&limit.limit_ns)
}

impl Below {
    /// Of the largest part of the limit that enough outages reach.
    fn of(run: &RunFile, limit: Limit) -> Option<Self> {
        let of_limit = Watch::of_limit(limit.on, limit.limit_ns, limit.at);
        of_limit.parts().find_map(|part| {
            let notes = notes_of(run, Limit { limit_ns: part.limit_ns, ..limit })?;
            let sums = notes.iter().fold(OutageSums::default(), |sums, note| sums.and(note.ended));
            (sums.outages >= LEAST_BELOW)
                .then_some(Self { limit_ns: part.limit_ns, largest: sums.largest })
        })
    }
}

/// The notes of each interval on outages of this limit: of the narrowest gap that is wide enough.
/// `None` when an interval has none.
fn notes_of(run: &RunFile, limit: Limit) -> Option<Vec<&LateNote>> {
    let least = gap(super::allowed_rate(limit));
    let of_interval = |notes: &'_ [LateNote]| {
        let fits = notes.iter().enumerate().filter(|(_, note)| {
            let watch = note.watch;
            watch.on == limit.on && watch.limit_ns == limit.limit_ns && watch.gap >= least
        });
        fits.min_by_key(|(_, note)| note.watch.gap).map(|(place, _)| place)
    };
    let notes: Option<Vec<&LateNote>> = run
        .intervals
        .iter()
        .map(|interval| of_interval(&interval.late).map(|place| &interval.late[place]))
        .collect();
    notes.filter(|notes| !notes.is_empty())
}

/// Late releases, and all of them. The exact maximum decides what the bucket that holds the limit
/// cannot.
fn counts(run: &RunFile, limit: Limit) -> (u64, u64) {
    let distribution = run.distribution(limit.on);
    let moments = run.moments(limit.on);
    let by_buckets = distribution.count_above(limit.limit_ns);
    let is_exact = moments.n == distribution.count();
    let late = match moments.max_ns > limit.limit_ns {
        true => by_buckets.max(1),
        false if is_exact => 0,
        false => by_buckets,
    };

    let skipped = skipped(run, limit);
    (late + skipped, distribution.count() + skipped)
}

/// Skipped releases that are not in the series itself.
fn skipped(run: &RunFile, limit: Limit) -> u64 {
    if limit.on.is_late_when_skipped() {
        run.distribution(Series::SkippedLatency).count()
    } else {
        0
    }
}

fn recorded(
    run: &RunFile,
    limit: Limit,
    notes: &[&LateNote],
    (late, releases): (u64, u64),
    lost: Lost,
) -> Outages {
    let are_late = lost == Lost::Late;
    let ended = |note: &LateNote| note.ended_with_lost.filter(|_| are_late).unwrap_or(note.ended);
    let mut sums = notes.iter().fold(OutageSums::default(), |sums, note| sums.and(ended(note)));
    let lost_of = |interval: &Interval| if are_late { interval.lost } else { 0 };
    let lost: u64 = run.intervals.iter().map(lost_of).sum();
    let exact: u64 = notes.iter().flat_map(|note| &note.tenths).sum();
    // A file that was cut off has lines without a note behind them.
    let is_whole = run.moments(limit.on).n == run.distribution(limit.on).count();
    let late = if is_whole { exact } else { late.max(exact) } + lost;
    if late > sums.late {
        // What goes on, or went on when the file was cut off; all that was lost where the file does
        // not tell where.
        sums.add(late - sums.late);
    }

    let pieces = run.intervals.iter().zip(notes).flat_map(|(interval, note)| {
        let of_interval = interval.moments(limit.on).n
            + lost_of(interval)
            + if limit.on.is_late_when_skipped() { interval.skipped } else { 0 };
        let tenths = note.tenths.len().max(1) as u64;
        let (parts, each): (Vec<u64>, u64) = if note.tenths.is_empty() {
            (vec![0; PARTS], of_interval / PARTS as u64)
        } else {
            (note.tenths.clone(), of_interval / tenths)
        };
        let lost = lost_of(interval).div_ceil(parts.len() as u64);
        parts.into_iter().map(move |late| (each.max(late + lost), late + lost))
    });
    let pieces: Vec<(u64, u64)> = pieces.collect();
    Outages { releases: releases + lost, sums, batches: Outages::batches_of(&pieces) }
}

/// A file without notes on outages: all late releases of an interval are taken as one.
fn by_interval(run: &RunFile, limit: Limit, (late, releases): (u64, u64)) -> Outages {
    let mut stretches: Vec<(u64, u64, u64)> = Vec::new();
    let mut add = |t: f64, of: (u64, u64)| {
        let at = (t * 1e3).round() as u64;
        match stretches.iter_mut().rev().take(4).find(|(from, _, _)| *from == at) {
            Some(stretch) => (stretch.1, stretch.2) = (stretch.1 + of.0, stretch.2 + of.1),
            None => stretches.push((at, of.0, of.1)),
        }
    };
    for entry in &run.entries {
        let count = entry.counts.count();
        if entry.series == limit.on {
            add(entry.t, (count, entry.counts.count_above(limit.limit_ns)));
        } else if entry.series == Series::SkippedLatency && limit.on.is_late_when_skipped() {
            add(entry.t, (count, count));
        }
    }

    let stretches: Vec<(u64, u64)> =
        stretches.into_iter().map(|(_, all, late)| (all, late)).collect();
    let mut outages = of_stretches(&stretches);
    if outages.sums.late < late {
        outages.sums.add(late - outages.sums.late);
    } else if late == 0 {
        // In the bucket that holds the limit, and below it by the exact maximum.
        outages = Outages { releases, ..Outages::default() };
    }
    Outages { releases, ..outages }
}

fn of_stretches(stretches: &[(u64, u64)]) -> Outages {
    let mut sums = OutageSums::default();
    stretches.iter().filter(|(_, late)| *late > 0).for_each(|(_, late)| sums.add(*late));
    let releases = stretches.iter().map(|(releases, _)| releases).sum();
    Outages { releases, sums, batches: Outages::batches_of(stretches) }
}

/// Late releases that are taken to come singly, because nothing is known of when they came.
fn singly(stretches: &[(u64, u64)]) -> Outages {
    let late = stretches.iter().map(|(_, late)| late).sum();
    let releases = stretches.iter().map(|(releases, _)| releases).sum();
    let sums = OutageSums { outages: late, late, squares: late, largest: u64::from(late > 0) };
    Outages { releases, sums, batches: Vec::new() }
}
