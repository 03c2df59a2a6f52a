//! Round trips of several runs side by side, as Mossige, Sampath and Rao (2007) compare operating
//! systems, cards and switches: the 90th percentile, and what of it is not on the wire.
//!
//! The wire time is that of the run's plan (`--plan`): bits of command and answer over every link
//! between controller and device. Without a plan nothing is known of the wire.

use super::cell::CellSummary;
use super::digest::Digest;
use super::statistics::Share;
use super::table::{Column, NO_FIGURE, Row, Table};
use super::units::{Letters, count, fixed};
use onbeat_record::{PacketAccount, Series};

/// The percentile that the paper compares.
const COMPARED: Share = Share::P90;

/// Returns a row per cell with an account of packets; `None` when fewer than two have one.
#[must_use]
pub fn table(runs: &[Digest], letters: Letters) -> Option<Table> {
    let cells: Vec<(&str, &CellSummary)> = runs
        .iter()
        .flat_map(|run| run.summary.cells.iter().map(move |cell| (run.name.as_str(), cell)))
        .filter(|(_, cell)| cell.packets.is_some())
        .collect();
    let labels: [Label; 2] = [|cell| &cell.tuning, |cell| &cell.load];
    let labels: Vec<(&str, Label)> = ["tuning", "load"]
        .into_iter()
        .zip(labels)
        .filter(|(_, label)| cells.iter().any(|(_, cell)| label(cell) != label(cells[0].1)))
        .collect();
    let rows: Vec<Row> = cells.iter().filter_map(|(run, cell)| row(run, cell, &labels)).collect();
    if rows.len() < 2 {
        return None;
    }

    let words = ["run"].into_iter().chain(labels.iter().map(|(head, _)| *head));
    let heads = ["packets", "lost", "p50", "p90", "p99", "max", "wire", "p90 - wire"];
    Some(Table {
        title: format!("Round trips, {}", letters.microseconds()),
        columns: words.map(Column::words).chain(heads.map(Column::figures)).collect(),
        rows,
        legend: vec![
            "a lost packet counts with the age at which it was given up".to_owned(),
            "wire: command and answer on every link, by the run's --plan, mean of the devices"
                .to_owned(),
        ],
    })
}

/// What distinguishes the cells of a run.
type Label = fn(&CellSummary) -> &String;

fn row(run: &str, cell: &CellSummary, labels: &[(&str, Label)]) -> Option<Row> {
    let account = cell.packets.as_ref()?;
    let series = cell.series.get(&Series::RoundTrip)?;
    let percentile = |share: Share| series.percentile(share).map(|one| one.value_ns as f64);
    let on_wire = on_wire_ns(account);
    let off_wire = percentile(COMPARED).zip(on_wire).map(|(ns, wire)| ns - wire);
    let us = |ns: Option<f64>| ns.map_or(NO_FIGURE.to_owned(), |ns| fixed(ns / 1e3, 1));
    let times = [Share::P50, COMPARED, Share::P99].map(|share| us(percentile(share)));
    let lost: u64 = account.devices.iter().map(|device| device.lost).sum();

    let mut entries = vec![run.to_owned()];
    entries.extend(labels.iter().map(|(_, label)| label(cell).clone()));
    entries.extend([count(series.count), count(lost)]);
    entries.extend(times);
    entries.extend([us(Some(series.max_ns as f64)), us(on_wire), us(off_wire)]);
    Some(Row::new(entries))
}

/// The mean of the devices' wire times; `None` without a plan.
fn on_wire_ns(account: &PacketAccount) -> Option<f64> {
    let devices = &account.predicted.as_ref()?.devices;
    let times: Vec<u64> = devices.iter().filter_map(|device| device.on_wire_ns).collect();
    (!times.is_empty()).then(|| times.iter().sum::<u64>() as f64 / times.len() as f64)
}
