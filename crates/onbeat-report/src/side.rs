//! Several runs as one side of a comparison: before three times, after three times.
//!
//! Runs of one side that measured the same cell are taken together. From three on each is a block, drawn
//! as a whole: what differs between them (a reboot, an hour, a neighbour) is in the interval then, and
//! nothing is assumed of the samples within. That is also how plain histograms get an interval that
//! does not take their samples to come independently.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::bootstrap::LEAST_RUNS;
use super::cell::CellSummary;
use super::cell_figures;
use super::file_facts::{cell_of, last_second};
use super::once::once;
use super::summary::Summary;
use super::units::{count, listed};
use onbeat_record::{Account, Cell, DevicePackets, Entry, Import, Interval, RunFile};

/// Files of one side that measured the same.
pub(super) struct Group<'f> {
    pub(super) files: Vec<&'f RunFile>,
    key: Cell,
}

impl Group<'_> {
    /// Whether each of its files is a block.
    pub(super) const fn are_blocks(&self) -> bool {
        self.files.len() >= LEAST_RUNS
    }
}

/// The files of a side by what they measured, in their order.
pub(super) fn groups(files: &[RunFile]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for file in files {
        let key = key(cell_of(file), file.import.as_ref());
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.files.push(file),
            None => groups.push(Group { files: vec![file], key }),
        }
    }

    groups
}

/// The name of an imported cell begins with that of its file, which the runs of a side do not share.
fn key(cell: Cell, import: Option<&Import>) -> Cell {
    match import {
        Some(import) => Cell::new(import.stream.clone(), cell.load),
        // The worst CPU may be another one in each run.
        None => Cell { cpu: None, ..cell },
    }
}

/// The runs of a side in one summary: of each group one cell, with the figures of all its files.
pub(super) fn summary(
    runs: Vec<Summary>,
    groups: &[(Group<'_>, Cow<'_, RunFile>)],
) -> Option<Summary> {
    let mut runs = runs.into_iter();
    let mut all = runs.next()?;
    for run in runs {
        all.elapsed_s += run.elapsed_s;
        all.cells.extend(run.cells);
        all.loads.extend(run.loads);
    }

    for (group, joined) in groups.iter().filter(|(group, _)| group.files.len() > 1) {
        let is_of_group = |cell: &CellSummary| {
            cell.file.is_some() && key(cell.cell(), cell.import.as_ref()) == group.key
        };
        let at = all.cells.iter().position(is_of_group).unwrap_or(all.cells.len());
        all.cells.retain(|cell| !is_of_group(cell));
        let cell = cell_figures::of_file(cell_of(joined), joined, None);
        all.cells.insert(at.min(all.cells.len()), cell);
    }

    all.tunings = once(all.cells.iter().map(|cell| cell.tuning.clone()));
    all.loads = once(all.loads);
    Some(all)
}

/// The files of a group as one, one after the other.
pub(super) fn joined<'f>(files: &[&'f RunFile]) -> Option<Cow<'f, RunFile>> {
    let (first, others) = files.split_first()?;
    if others.is_empty() {
        return Some(Cow::Borrowed(first));
    }

    let mut all = (*first).clone();
    for next in others {
        append(&mut all, next);
    }

    // Accounts that do not add up are those of each run alone.
    (all.packets, all.boards, all.motion, all.devices) = (None, None, None, None);
    all.noise = None;
    all.seconds.clear();
    if let (Some(import), Some(cell)) = (&all.import, &mut all.header.cell) {
        let names: BTreeSet<String> = files.iter().map(|file| cell_of(file).tuning).collect();
        if names.len() > 1 {
            cell.tuning = match import.stream.as_str() {
                "" => format!("{} files", files.len()),
                stream => stream.to_owned(),
            };
        }
    }
    Some(Cow::Owned(all))
}

/// What of runs that are taken together stands in each of them alone, with the counts that do add up.
pub(super) fn apart(files: &[&RunFile]) -> Option<String> {
    let devices =
        || files.iter().filter_map(|file| file.packets.as_ref()).flat_map(|of| &of.devices);
    let sum = |fate: fn(&DevicePackets) -> u64| count(devices().map(fate).sum());
    let packets = devices().next().map(|_| {
        format!(
            "its packets device by device ({} scheduled, {} late, {} lost, {} unsent in all)",
            sum(|of| of.scheduled),
            sum(|of| of.late),
            sum(|of| of.lost),
            sum(|of| of.unsent)
        )
    });
    let has = |is: fn(&RunFile) -> bool, what: &str| {
        files.iter().any(|file| is(file)).then(|| what.to_owned())
    };
    let what: Vec<String> = packets
        .into_iter()
        .chain(has(|file| file.boards.is_some(), "the edges between its boards"))
        .chain(has(|file| file.noise.is_some(), "what took its CPU"))
        .chain(has(|file| file.motion.is_some(), "what its robot did"))
        .chain(has(|file| file.devices.is_some(), "the devices of its bus"))
        .collect();
    (!what.is_empty())
        .then(|| format!("{} are only in the reports of the single runs", listed(&what)))
}

fn append(all: &mut RunFile, next: &RunFile) {
    let from_s = last_second(all);
    let last_block = all.blocks.iter().map(|block| block.index).max();
    let from_block = last_block.map_or(0, |last| last.saturating_add(1));
    let moved = |block: u32| block.saturating_add(from_block);
    all.blocks.extend(next.blocks.iter().map(|block| {
        let mut block = block.clone();
        (block.index, block.t) = (moved(block.index), block.t + from_s);
        block
    }));
    all.entries.extend(next.entries.iter().map(|entry| Entry {
        t: entry.t + from_s,
        block: entry.block.map(moved),
        ..entry.clone()
    }));
    all.intervals.extend(next.intervals.iter().map(|interval| Interval {
        t: interval.t + from_s,
        block: moved(interval.block),
        ..interval.clone()
    }));
    all.spikes.extend(next.spikes.iter().map(|spike| {
        let mut spike = spike.clone();
        (spike.block, spike.t) = (moved(spike.block), spike.t + from_s);
        spike
    }));

    all.windows.clear();
    all.remarks.extend(next.remarks.iter().cloned());
    all.exclusions.extend(next.exclusions.iter().cloned());
    all.resumes.extend(next.resumes.iter().cloned());
    all.loads.extend(next.loads.iter().cloned());
    all.goes_on |= next.goes_on;
    all.cut_line |= next.cut_line;
    all.end = all
        .end
        .as_ref()
        .zip(next.end.as_ref())
        .map(|(before, after)| Account { t: from_s + after.t, ..before.and(after) });
    if let (Some(all), Some(next)) = (&mut all.import, &next.import) {
        append_import(all, next);
    }
}

fn append_import(all: &mut Import, next: &Import) {
    for (series, resolution) in &next.resolution {
        let Some(known) = all.resolution.get_mut(series) else {
            all.resolution.insert(*series, resolution.clone());
            continue;
        };
        let (mine, other) = (known.beyond, resolution.beyond);
        if resolution.step_ns > known.step_ns {
            *known = resolution.clone();
        }
        known.beyond = match (mine, other) {
            (Some(mut mine), Some(other)) => {
                mine.from_ns = mine.from_ns.min(other.from_ns);
                mine.to_ns = mine.to_ns.max(other.to_ns);
                mine.count += other.count;
                Some(mine)
            }
            (mine, other) => mine.or(other),
        };
    }
    for (series, early) in &next.early {
        let Some(known) = all.early.get_mut(series) else {
            all.early.insert(*series, *early);
            continue;
        };
        known.count = known.count.zip(early.count).map(|(mine, other)| mine + other);
        known.earliest_ns = known.earliest_ns.max(early.earliest_ns);
    }
    all.figures_only.extend(next.figures_only.iter().copied());
    for missing in &next.missing {
        if !all.missing.contains(missing) {
            all.missing.push(missing.clone());
        }
    }
}
