//! The figures of one run file, and its notes: a cell of a summary.

use std::collections::BTreeMap;

use super::cell::CellSummary;
use super::chain_cycles::ChainCycles;
use super::events::BusEvents;
use super::file_facts::last_second;
use super::probe_figures::{self, BySecond};
use super::statistics::{Share, Statistics};
use super::units::{Letters, count, listed, spoken, time_ns};
use super::verdict::{self, Judging};
use super::{
    answers, boards, cause_counts, exclusions, import_notes, load_events, motion, noise, packets,
    remedies,
};
use onbeat_record::{Account, Cell, Interval, Resume, RunFile, Series, SpikeNote};

/// Spikes that a summary lists of a cell: the worst. All that were kept stand in the run file.
const SPIKES_LISTED: usize = 100;

/// The summary of a cell's run file.
pub(super) fn of_file(cell: Cell, run: &RunFile, judging: Option<Judging>) -> CellSummary {
    let per_interval = |figure: fn(&Interval) -> u64| run.intervals.iter().map(figure).sum::<u64>();
    let account = slots_of(run);
    let mut series: BTreeMap<Series, Statistics> = Series::ALL
        .into_iter()
        .filter_map(|series| {
            Some((series, Statistics::new(&run.distribution(series), &run.moments(series))?))
        })
        .collect();
    if let Some(import) = &run.import {
        import_notes::mark_beyond(&mut series, import);
        // Count, extremes and mean are all that the source states: a percentile made of them, or a mean
        // of the lowest, would be an invention, as would be a spread: that of the means of several parts.
        for only in &import.figures_only {
            if let Some(of) = series.get_mut(only) {
                of.percentiles.clear();
                of.low.retain(|low| Share::ALL.is(low.q));
                of.low.iter_mut().for_each(|low| low.sd_ns = 0.0);
                (of.sd_ns, of.tail_ratio) = (0.0, None);
            }
        }
    }

    let notes = notes(run, &series);
    let chain = ChainCycles::from_run(run, &series);
    let counted = |number: u64| run.import.is_none().then_some(number);
    // The closing line of another tool's file says that it ended, and nothing of the kernel.
    let of_kernel = run.end.as_ref().filter(|_| run.import.is_none());
    let mut summary = CellSummary {
        tuning: cell.tuning,
        load: cell.load,
        cpu: cell.cpu,
        file: run.path.file_name().map(|name| name.to_string_lossy().into_owned()),
        permitted: true,
        complete: run.is_complete(),
        goes_on: run.goes_on,
        blocks: run.blocks.len() as u64,
        slots: account.slots,
        cycles: account.cycles,
        skipped: counted(account.skipped),
        overruns: counted(per_interval(|interval| interval.overruns)),
        deadline_misses: counted(per_interval(|interval| interval.deadline_misses)),
        lost: account.lost,
        excluded: account.excluded,
        spike_count: counted(per_interval(|interval| interval.spikes)),
        page_faults: of_kernel.map(|end| end.page_faults),
        involuntary_switches: of_kernel.map(|end| end.involuntary_switches),
        cpu_share: share_of_slots(run, |end| end.cpu_ns),
        verdict: judging.map(|judging| verdict::judge(run, judging)),
        events: BusEvents::from_run(run),
        spikes: worst_spikes(run),
        stalls: verdict::stalls(run),
        power: run.power.clone(),
        causes: cause_counts::of_run(run),
        situation: remedies::situation(&run.header),
        windows: run.windows.len() as u64,
        window_bytes: run.windows.iter().map(|window| window.packed.len() as u64).sum(),
        causes_cpu_share: share_of_slots(run, |end| end.causes_cpu_ns).filter(|_| looked(run)),
        causes_bytes: run.end.as_ref().map(|end| end.causes_bytes).filter(|_| looked(run)),
        import: run.import.clone(),
        about: run.header.series.clone(),
        by_second: BySecond::from_seconds(&run.seconds),
        derived: [
            packets::sentences(run, &series),
            run.packets.as_ref().map(answers::sentences).unwrap_or_default(),
            boards::sentences(run, &series),
            run.noise.as_ref().map(noise::sentences).unwrap_or_default(),
            probe_figures::derived(run, &series),
            // A measurement has the same as a remark.
            chain.iter().filter(|_| run.header.cell.is_some()).map(ChainCycles::sentence).collect(),
        ]
        .concat(),
        packets: run.packets.clone(),
        boards: run.boards.clone(),
        noise: run.noise.clone(),
        chain: chain.map(Box::new),
        motion: run.motion.clone().map(Box::new),
        series,
        notes,
        ..CellSummary::default()
    };

    summary.remedies = remedies::of_cell(&summary);
    summary
}

/// Slots, as the closing line reports them, or as far as the intervals go; of another tool's run
/// its samples.
fn slots_of(run: &RunFile) -> Account {
    if run.import.is_none() {
        return run.account();
    }

    let count = |series: Series| -> u64 {
        let entries = run.entries.iter().filter(|entry| entry.series == series);
        entries.map(|entry| entry.counts.count()).sum()
    };
    let samples = Series::ALL.into_iter().map(count).find(|n| *n > 0).unwrap_or(0);
    let lost: u64 = run.intervals.iter().map(|interval| interval.lost).sum();
    Account { slots: samples + lost, cycles: samples, lost, ..Account::default() }
}

fn share_of_slots(run: &RunFile, cpu_ns: fn(&Account) -> u64) -> Option<f64> {
    let end = run.end.as_ref()?;
    let timing = run.header.timing.as_ref()?;
    let slots_ns = end.slots.saturating_sub(end.untold) as f64 * timing.period_ns as f64;
    (slots_ns > 0.0).then(|| cpu_ns(end) as f64 / slots_ns)
}

/// Whether a flight recorder ran beside the loop.
fn looked(run: &RunFile) -> bool {
    run.end.as_ref().is_some_and(|end| end.causes_bytes > 0)
}

/// The worst by lateness: wake-up latency plus execution time beyond the planned work.
fn worst_spikes(run: &RunFile) -> Vec<SpikeNote> {
    let work_ns = run.header.timing.as_ref().map_or(0, |timing| timing.work_ns);
    let lateness_ns = |spike: &SpikeNote| {
        spike.wakeup_latency_ns + spike.execution_time_ns.saturating_sub(work_ns)
    };
    let mut spikes = run.spikes.clone();
    spikes.sort_by_key(|spike| std::cmp::Reverse(lateness_ns(spike)));
    spikes.truncate(SPIKES_LISTED);
    spikes
}

/// Whether the loop is that of another program, which events of the kernel show.
pub(super) fn is_of_program(run: &RunFile) -> bool {
    run.header.task.is_some() || run.header.grants.iter().any(|grant| grant.what == "program")
}

fn notes(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Vec<String> {
    let mut notes = run.import.as_ref().map(import_notes::notes).unwrap_or_default();
    notes.extend(run.resumes.iter().map(resumed));
    if run.goes_on {
        notes.push(format!("run in progress: figures from its first {}", spoken(last_second(run))));
    } else if !run.is_complete() {
        let line = if run.cut_line { ", in the middle of a line" } else { "" };
        notes.push(format!(
            "truncated{line}: figures from the recorded part; warm-up cycles are not counted"
        ));
    }

    let from_buckets: Vec<String> = series
        .iter()
        .filter(|(_, figures)| figures.from_buckets)
        .map(|(series, _)| series.words().to_owned())
        .collect();
    if !from_buckets.is_empty() {
        let which = listed(&from_buckets);
        notes.push(format!(
            "mean, SD and maximum of {which} are computed from histogram buckets and have their precision"
        ));
    }

    for grant in run.header.grants.iter().filter(|grant| !grant.granted) {
        let why = grant.why_not.as_deref().unwrap_or("no reason given");
        notes.push(format!("{} ({}) was not granted: {why}", grant.what, grant.wanted));
    }

    // Another tool's run has a remark on what it lost.
    if let lost @ 1.. = slots_of(run).lost
        && run.import.is_none()
    {
        let lost = count(lost);
        let why = if is_of_program(run) {
            "the kernel recorded no event of these wake-ups"
        } else {
            "ring between loop and recorder full"
        };
        notes.push(format!("{lost} samples were dropped ({why}) and are in no figure"));
    }

    notes.extend(warm_up(run, series));
    notes.extend(unsplit(run, series));
    notes.extend(verdict::stalls_in_words(&verdict::stalls(run)));
    notes.extend(exclusions::in_words(&run.exclusions));
    notes.extend(BusEvents::from_run(run).map_or(Vec::new(), |events| events.incidents));
    notes.extend(run.motion.as_ref().map(motion::sentence));
    notes.extend(run.remarks.iter().cloned());
    for load in loads_of(run) {
        notes.extend(load_events::notes(&run.loads, load));
    }

    notes
}

/// Of how many cycles the wake-up could not be split, in a run that splits them.
fn unsplit(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Option<String> {
    let unsplit: u64 = run.intervals.iter().map(|interval| interval.unsplit).sum();
    let split = series.get(&Series::DispatchLatency).map_or(0, |figures| figures.count);
    (unsplit > 0).then(|| {
        format!(
            "the wake-ups of {} of {} cycles are not split: the timer's, the interrupt's or the switch's stamp is missing",
            count(unsplit),
            count(split + unsplit)
        )
    })
}

/// What the warm-up left out, where that is worse than everything it kept.
fn warm_up(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Option<String> {
    let Account { warmup, warmup_worst_ns, .. } = run.account();
    let kept_ns = series.get(&Series::ReleaseLatency).map_or(0, |figures| figures.max_ns);
    let time = |ns: u64| time_ns(ns, Letters::Ascii);
    (warmup_worst_ns > kept_ns).then(|| {
        let worst = time(warmup_worst_ns);
        let cycles = count(warmup);
        format!(
            "{cycles} warm-up cycles are excluded; the worst wake-up latency among them is {worst}"
        )
    })
}

fn resumed(resume: &Resume) -> String {
    let how = if resume.after.is_some() { "ended early" } else { "was interrupted" };
    let unmeasured = spoken(resume.unmeasured_s);
    let t = spoken(resume.t);
    format!("the run {how} and was resumed at {t}; the {unmeasured} before that were not measured")
}

fn loads_of(run: &RunFile) -> Vec<&str> {
    let mut loads: Vec<&str> = run.loads.iter().map(|event| event.load.as_str()).collect();
    loads.sort_unstable();
    loads.dedup();
    loads
}
