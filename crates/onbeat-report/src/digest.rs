//! What a comparison needs of one run: its summary, percentiles of its resampled stretches, and
//! their ratios to those of another.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::bootstrap::{Drawn, Stretches, Z_97_5, interval, student};
use super::cell::CellSummary;
use super::facts;
use super::file_facts::cell_of;
use super::judged_run::JudgedRun;
use super::order_statistics::Ranked;
use super::side::{self, Group};
use super::statistics::{Percentile, Share};
use super::summary::Summary;
use super::table::NO_FIGURE;
use super::units::{Letters, count, ratio, time_ns};
use onbeat_cause::CauseKind;
use onbeat_record::{Cell, RunFile, Series, Timing};

/// Percentiles that are compared, and that stand in numbers.
pub const SHARES: [Share; 4] = [Share::P50, Share::P99, Share::P99_9, Share::P99_99];

/// Number of resamples.
const RESAMPLES: u32 = 1000;

/// Points that half of 2.5 % over 1, 2, 3 and 4 lie above. Half, because an interval from few
/// stretches of time holds less often than it should: with 2.5 % itself, 13 of 200 pairs of equal
/// runs were said to differ.
const Z_OF: [f64; 4] = [2.241_403, 2.497_705, 2.638_257, 2.734_369];

/// Where the draws start; runs draw apart from each other, so that a run beside its own copy is not
/// called certain.
const SEED: u64 = 2009;

/// What a comparison needs of one run.
#[derive(Default)]
pub struct Digest {
    /// How the run is called here.
    pub name: String,
    /// What was measured: `timer`, `cyclictest`.
    pub probe: String,
    pub summary: Summary,
    /// What the loop's thread was given and how it waited, by name.
    pub(super) settings: BTreeMap<String, String>,
    pub(super) drawn: BTreeMap<(Cell, Series), BTreeMap<Share, Drawn>>,
    /// Percentiles of plain histograms, which have no stretches to draw.
    pub(super) ranked: BTreeMap<(Cell, Series), BTreeMap<Share, Ranked>>,
    /// Cells of which several files were taken together, and how many.
    pub(super) taken_together: BTreeMap<Cell, usize>,
    /// What of such files stands in each of them alone, in sentences.
    pub(super) apart: Vec<String>,
    /// Facts that are not the same in all runs of the side.
    pub(super) unlike: Vec<String>,
    /// Whether it is the part of a run that was measured under one of its loads.
    pub(super) is_of_load: bool,
}

impl Digest {
    /// Of a run's summary and the files it was made from. `place` distinguishes runs that are
    /// compared with each other; percentiles in `shares` get intervals.
    #[must_use]
    pub fn new(
        name: &str,
        place: u64,
        summary: Summary,
        files: &[RunFile],
        shares: &[Share],
    ) -> Self {
        Self::of_files(name, vec![summary], files, (place, shares))
    }

    fn of_files(
        name: &str,
        summaries: Vec<Summary>,
        files: &[RunFile],
        draws: (u64, &[Share]),
    ) -> Self {
        let (probe, settings) = (probe_of(files), settings(files));
        let mut digest = Self { name: name.to_owned(), probe, settings, ..Self::default() };
        digest.take_together(summaries, files, draws);
        digest
    }

    /// Of the runs of one side, which measured the same again and again: files of the same cell are
    /// taken together, from three on each as a block. `None` of no run.
    #[must_use]
    pub fn of_side(name: &str, place: u64, runs: Vec<JudgedRun>, shares: &[Share]) -> Option<Self> {
        let mut files = Vec::new();
        let mut facts = Vec::new();
        let mut summaries = Vec::new();
        for JudgedRun { summary, runs, .. } in runs {
            facts.push(facts::of(&summary, &probe_of(&runs), settings(&runs), false));
            summaries.push(summary);
            files.extend(runs);
        }

        if summaries.is_empty() {
            return None;
        }
        let unlike = facts::differing(&facts).into_iter().cloned().collect();
        Some(Self { unlike, ..Self::of_files(name, summaries, &files, (place, shares)) })
    }

    fn take_together(
        &mut self,
        summaries: Vec<Summary>,
        files: &[RunFile],
        (place, shares): (u64, &[Share]),
    ) {
        let mut random = fastrand::Rng::with_seed(SEED + place);
        let groups = side::groups(files).into_iter();
        let groups: Vec<(Group<'_>, Cow<'_, RunFile>)> =
            groups.filter_map(|group| side::joined(&group.files).map(|all| (group, all))).collect();
        for (group, joined) in &groups {
            let cell = cell_of(joined);
            if group.files.len() > 1 {
                self.taken_together.insert(cell.clone(), group.files.len());
                self.apart.extend(side::apart(&group.files));
            }
            for series in Series::ALL {
                let stretches = match group.are_blocks() {
                    true => Stretches::from_runs(&group.files, series),
                    false => Stretches::from_file(joined, series),
                };
                // Beside a single plain histogram ranks are all that both have.
                if stretches.is_none() || group.files.iter().all(|file| is_plain(file, series)) {
                    self.ranked.insert((cell.clone(), series), ranks(joined, series, shares));
                }
                let Some(stretches) = stretches else { continue };
                let supported =
                    shares.iter().filter(|share| share.is_supported_by(stretches.samples));
                let of_share = supported
                    .map(|share| (*share, Drawn::new(&stretches, *share, RESAMPLES, &mut random)));
                self.drawn.insert((cell.clone(), series), of_share.collect());
            }
        }

        self.summary = side::summary(summaries, &groups).unwrap_or_default();
    }

    /// The ratio of a percentile to that of another run's cell, with its interval where there are
    /// enough stretches.
    #[must_use]
    pub fn ratio_to(
        &self,
        base: &Self,
        cells: (&CellSummary, &CellSummary),
        on: (Series, Share),
    ) -> Option<Ratio> {
        let (series, share) = on;
        let figure = |cell: &CellSummary| cell.series.get(&series)?.percentile(share);
        let [mine, other] = [cells.0, cells.1].map(figure);
        let mine = mine?;
        let other = other?;
        let drawn = self.drawn_of(cells.0, on).zip(base.drawn_of(cells.1, on));
        let wanders = drawn.is_some_and(|(mine, other)| mine.wanders || other.wanders);
        let (mine_ns, of_mine) = in_bucket(cells.0, series, mine.value_ns);
        let (other_ns, of_other) = in_bucket(cells.1, series, other.value_ns);
        // Draws are ends of buckets.
        let [down, up] = [of_mine, of_other].map(|[down, up]| down + up);
        let ratio = mine_ns as f64 / other_ns as f64;
        let supported = mine.supported && other.supported;
        let ranked = self.ranked_of(cells.0, on).zip(base.ranked_of(cells.1, on));
        let bounds = drawn
            .map(|(mine, other)| interval(mine.ln - other.ln, &[(other, mine)]))
            .map(|(low, high)| (low - down, high + up))
            .or(ranked.map(|(mine, other)| mine.over(other)))
            .map(|(low, high)| (touching(low), touching(high)))
            .filter(|_| supported);

        let bounds = bounds.filter(|(low, high)| low.is_finite() && high.is_finite());
        Some(Ratio {
            metric: share.label(),
            ratio,
            low: bounds.map(|(low, _)| low.exp()),
            high: bounds.map(|(_, high)| high.exp()),
            supported,
            differs: false,
            wanders,
            independently: drawn.is_none() && bounds.is_some(),
        })
    }

    /// The ratios of all percentiles to those of another run's cell. Which of them differ is judged
    /// for all of them together: with intervals widened for their number, so that all of them hold
    /// in 95 of 100 comparisons (Bonferroni).
    #[must_use]
    pub fn ratios_to(
        &self,
        base: &Self,
        cells: (&CellSummary, &CellSummary),
        series: Series,
    ) -> Vec<Ratio> {
        let of_share = |share| self.ratio_to(base, cells, (series, share));
        let mut ratios: Vec<Ratio> = SHARES.into_iter().filter_map(of_share).collect();
        let looked_at = ratios.iter().filter(|ratio| ratio.low.is_some()).count();
        let independent = |run: &Self, cell: &CellSummary| {
            let drawn = SHARES.iter().filter_map(|share| run.drawn_of(cell, (series, *share)));
            drawn.map(|drawn| drawn.independent as usize).min().unwrap_or(0)
        };
        // Ranks of samples have no degrees of freedom to lose.
        let by_ranks = ratios.iter().any(|ratio| ratio.independently);
        let fewest = match by_ranks {
            true => usize::MAX,
            false => independent(self, cells.0).min(independent(base, cells.1)),
        };
        let wider = wider_for(looked_at, fewest);

        for ratio in &mut ratios {
            let leaves_out =
                |bound: f64| (bound.ln() - ratio.ratio.ln()) * wider + ratio.ratio.ln();
            ratio.differs = ratio.low.is_some_and(|low| leaves_out(low) > ROUNDING)
                || ratio.high.is_some_and(|high| leaves_out(high) < -ROUNDING);
        }

        ratios
    }

    fn drawn_of(&self, cell: &CellSummary, (series, share): (Series, Share)) -> Option<&Drawn> {
        self.drawn.get(&(cell.cell(), series))?.get(&share)
    }

    fn ranked_of(&self, cell: &CellSummary, (series, share): (Series, Share)) -> Option<&Ranked> {
        self.ranked.get(&(cell.cell(), series))?.get(&share)
    }
}

fn probe_of(files: &[RunFile]) -> String {
    let of_run = files.iter().find(|file| file.bench.is_none());
    of_run.map_or_else(String::new, |file| file.header.probe.clone())
}

/// A percentile as it is compared, in nanoseconds, and by how much it may be smaller and larger, as
/// logarithms. Those of other tools are given as the upper end of their bucket: of two runs with
/// buckets of 1 us, 1.9 us and 2.1 us are given as 2 us and 3 us. Neighbouring buckets touch: each
/// reaches down to the end of the one before. In the bucket of a maximum that the source rounded
/// down, a percentile is given as that maximum, and may be larger.
pub(super) fn in_bucket(cell: &CellSummary, series: Series, value_ns: u64) -> (u64, [f64; 2]) {
    let resolution = cell.import.as_ref().and_then(|import| import.resolution.get(&series));
    let Some(resolution) = resolution else { return (value_ns.max(1), [0.0; 2]) };
    let end_ns = resolution.most_ns(value_ns).max(1);
    // Where the maximum is 0, stretches and ranks have the end of the first bucket.
    let value_ns = if value_ns == 0 { end_ns } else { value_ns };
    let least_ns = resolution.cell(value_ns).low_ns.saturating_sub(1).max(1);
    let over = |above_ns: u64, below_ns: u64| (above_ns as f64 / below_ns as f64).ln();
    (value_ns, [over(value_ns, least_ns), over(end_ns, value_ns)])
}

/// A bound between neighbouring buckets, as a logarithm, without the rounding of its parts: a gate
/// that allows x 1 holds it against 1 itself.
fn touching(ln: f64) -> f64 {
    if ln.abs() <= ROUNDING { 0.0 } else { ln }
}

/// Whether a source counted a series into one histogram.
fn is_plain(file: &RunFile, series: Series) -> bool {
    file.import.is_some() && Stretches::from_file(file, series).is_none()
}

/// Of a source that counted into one histogram. Of one that states extremes and mean alone nothing is
/// known between them.
fn ranks(file: &RunFile, series: Series, shares: &[Share]) -> BTreeMap<Share, Ranked> {
    let counts = file.distribution(series);
    if file.import.is_none() || counts.count() == 0 || file.is_figures_only(series) {
        return BTreeMap::new();
    }

    let most_ns = file.most_ns(series);
    let of_share = |share: &Share| Some((*share, Ranked::new(&counts, *share, most_ns)?));
    shares.iter().filter_map(of_share).collect()
}

/// How much wider than a 95 % interval each of `intervals` must be to hold together with the
/// others, from `stretches` stretches of time: Student's t with the fewest degrees of freedom that
/// there can be.
fn wider_for(intervals: usize, stretches: usize) -> f64 {
    let freedom = stretches.saturating_sub(1).max(3) as f64;
    let z = Z_OF[intervals.clamp(1, Z_OF.len()) - 1];
    student(z, freedom) / student(Z_97_5, freedom)
}

/// Why there is no interval, and what to do.
pub(super) const WANDERS: &str = "the level drifts within one of the runs, so that chance cannot be told from drift: let both take \
     turns (onbeat bench, onbeat tune measure), or measure several times longer";

/// One percentile over that of the first run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// `p99`.
    pub metric: String,
    /// The ratio; above 1 this run has the larger latency.
    pub ratio: f64,
    /// Lower end of its 95 % interval; `None` if fewer than four stretches or unsupported figures
    /// allow none.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Whether at least ten samples are above both figures.
    pub supported: bool,
    /// Whether it differs from 1, judged together with the other percentiles of the series.
    pub differs: bool,
    /// Whether there is no interval because the level drifts within one of the runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wanders: bool,
    /// Whether the interval assumes independent samples, because both runs are plain histograms.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub independently: bool,
}

/// Bounds between neighbouring buckets are 0 up to this, as logarithms.
pub(super) const ROUNDING: f64 = 1e-12;
/// An interval whose ends are further apart than this decides nothing.
const WIDEST: f64 = 100.0;

impl Ratio {
    /// Whether it differs from 1 by more than the two decimals of [`words`](Self::words) hide:
    /// in long runs medians that are nanoseconds apart differ.
    #[must_use]
    pub fn is_visible(&self) -> bool {
        let hidden = 0.995..1.005;
        let ends = self.low.zip(self.high);
        self.differs
            && !ends.is_some_and(|(low, high)| hidden.contains(&low) && hidden.contains(&high))
    }

    /// Whether the interval is so wide that the ratio in it means nothing.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.low.zip(self.high).is_some_and(|(low, high)| high / low > WIDEST)
    }

    /// `x 1.23 (1.1 to 1.4)`, or `undecided`.
    #[must_use]
    pub fn words(&self) -> String {
        if self.is_undecided() {
            return "undecided".to_owned();
        }

        let bounds = self
            .low
            .zip(self.high)
            .map(|(low, high)| format!(" ({} to {})", ratio(low), ratio(high)));
        let sign = if self.supported { "" } else { "~" };
        format!("{sign}x {}{}", ratio(self.ratio), bounds.unwrap_or_default())
    }
}

/// Figures of one series in one cell of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFigures {
    /// Place of the run in `runs`, from 0.
    pub run: usize,
    /// Tuning of the cell.
    pub tuning: String,
    /// Load of the cell.
    pub load: String,
    /// Number of samples.
    pub count: u64,
    /// Whether the source counted them; otherwise one stands for all.
    #[serde(skip)]
    pub is_counted: bool,
    /// Smallest, in nanoseconds.
    pub min_ns: u64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation (divided by n), in nanoseconds; `None` where the source states figures
    /// without it.
    pub sd_ns: Option<f64>,
    /// Percentiles.
    pub percentiles: Vec<Percentile>,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
    /// `max_ns - min_ns`.
    pub jitter_ns: u64,
    /// `(max − mean) / SD`; `None` if all samples are equal.
    pub tail_ratio: Option<f64>,
    /// Whether extremes, mean and standard deviation are those of histogram buckets.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_buckets: bool,
    /// Cycles that ended after the next release; `None` where not counted.
    pub overruns: Option<u64>,
    /// Cycles that ended after their deadline; `None` where not counted.
    pub deadline_misses: Option<u64>,
    /// Skipped releases; `None` where not counted.
    pub skipped: Option<u64>,
    /// Samples beyond the spike limit; `None` where not counted.
    pub spikes: Option<u64>,
    /// Number of spikes by main cause.
    pub causes: BTreeMap<CauseKind, u64>,
    /// Of the unexplained ones, those for which no cause was looked for.
    #[serde(skip)]
    pub not_analysed: u64,
    /// Percentiles over those of the first run that has this cell; empty for that run itself.
    pub ratios: Vec<Ratio>,
}

/// One series in one cell, run by run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// `PMCS with no added load`; empty where each run has one cell.
    pub cell: String,
    /// The series.
    pub series: Series,
    /// Runs that have it, in order.
    pub runs: Vec<RunFigures>,
}

impl RunFigures {
    /// Of one cell; `None` where it has no sample of the series.
    pub(super) fn new(run: usize, cell: &CellSummary, series: Series) -> Option<Self> {
        let of = cell.series.get(&series)?;
        Some(Self {
            run,
            tuning: cell.tuning.clone(),
            load: cell.load.clone(),
            count: of.count,
            is_counted: of.is_counted(),
            min_ns: of.min_ns,
            mean_ns: of.mean_ns,
            sd_ns: (of.sd_ns > 0.0 || of.max_ns == of.min_ns).then_some(of.sd_ns),
            percentiles: SHARES.into_iter().filter_map(|share| of.percentile(share)).collect(),
            max_ns: of.max_ns,
            jitter_ns: of.jitter_ns,
            tail_ratio: of.tail_ratio,
            from_buckets: of.from_buckets,
            overruns: cell.overruns,
            deadline_misses: cell.deadline_misses,
            skipped: cell.skipped,
            spikes: cell.spike_count,
            causes: cell.causes.iter().map(|(kind, count)| (*kind, count.spikes)).collect(),
            not_analysed: cell
                .causes
                .get(&CauseKind::Unexplained)
                .map_or(0, |of| of.culprits.values().map(|why| why.spikes).sum()),
            ratios: Vec::new(),
        })
    }

    /// The number of spikes that this kind made late; unexplained are those that were analysed.
    pub(super) fn spikes_by(&self, kind: CauseKind) -> u64 {
        let spikes = self.causes.get(&kind).copied().unwrap_or(0);
        match kind {
            CauseKind::Unexplained => spikes.saturating_sub(self.not_analysed),
            _ => spikes,
        }
    }

    /// The number of samples, in a table.
    pub(super) fn samples(&self) -> String {
        if self.is_counted { count(self.count) } else { NO_FIGURE.to_owned() }
    }
}

/// The phase as typed. One that avoids the tick is the same setting wherever the tick is.
fn phase_words(timing: &Timing) -> String {
    if timing.avoids_tick {
        "avoid-tick".to_owned()
    } else {
        time_ns(timing.phase_ns, Letters::Ascii)
    }
}

/// Settings of the loop; cells of a bench differ in some of them by intention.
fn settings(files: &[RunFile]) -> BTreeMap<String, String> {
    type Words = fn(&Timing) -> String;
    let of_each: [(&str, Words); 7] = [
        ("deadline", |timing| time_ns(timing.deadline_ns, Letters::Ascii)),
        ("work", |timing| time_ns(timing.work_ns, Letters::Ascii)),
        ("overrun policy", |timing| timing.on_overrun.clone()),
        ("phase", phase_words),
        ("wait", |timing| timing.wait.clone()),
        ("priority", |timing| timing.priority.to_string()),
        ("CPU of the loop", |timing| {
            timing.cpu.map_or_else(|| "any".into(), |cpu| cpu.to_string())
        }),
    ];
    let timings = || files.iter().filter_map(|file| file.header.timing.as_ref());
    let found = of_each.into_iter().filter_map(|(name, of)| {
        let first = timings().next().map(of)?;
        let is_one = timings().all(|timing| of(timing) == first);
        Some((name.to_owned(), if is_one { first } else { "by cell".to_owned() }))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(phase_ns: u64, avoids_tick: bool) -> String {
        phase_words(&Timing {
            period_ns: 1_000_000,
            phase_ns,
            avoids_tick,
            deadline_ns: 1_000_000,
            work_ns: 0,
            wait: "sleep".to_owned(),
            on_overrun: "skip".to_owned(),
            cpu: None,
            priority: 90,
            delay_ns: 0,
        })
    }

    #[test]
    fn a_phase_that_avoids_the_tick_is_one_setting_wherever_the_tick_is() {
        assert_eq!(words_of(333_471, true), words_of(82_740, true));
        assert_ne!(words_of(333_471, false), words_of(82_740, false));
        assert_ne!(words_of(333_471, true), words_of(333_471, false));
    }

    #[test]
    fn a_difference_that_the_decimals_hide_is_not_visible() {
        let ratio = |low: f64, high: f64, differs: bool| Ratio {
            metric: "p50".to_owned(),
            ratio: f64::midpoint(low, high),
            low: Some(low),
            high: Some(high),
            supported: true,
            differs,
            wanders: false,
            independently: false,
        };

        assert!(!ratio(1.0002, 1.0008, true).is_visible());
        assert!(!ratio(0.9951, 0.9999, true).is_visible());
        assert!(ratio(1.0002, 1.0051, true).is_visible(), "its upper end is printed as 1.01");
        assert!(!ratio(1.04, 1.06, false).is_visible(), "what does not differ never is");
        assert_eq!(ratio(0.000_000_24, 4.61, false).words(), "undecided");
        assert_eq!(ratio(0.5, 49.0, false).words(), "x 25 (0.50 to 49)");
    }
}
