//! The packets of a run of round trips: what became of them, the parts of a round trip, a table of
//! the devices.

use std::collections::BTreeMap;

use super::statistics::Statistics;
use super::table::{Column, Row, Table};
use super::units::{Letters, count, fixed, time, time_ns};
use onbeat_record::{DevicePackets, InterfaceDrops, PacketAccount, RunFile, Series};

/// Devices of a table; the others are summed up in its last row.
const MOST_ROWS: usize = 40;
/// The columns of a device's figures: times, fates, and further answers with their order.
const HEADS: [&str; 10] =
    ["min", "p50", "p99", "max", "answered", "late", "lost", "not sent", "twice", "reordered"];
/// Those of times and fates.
const FATES: usize = 8;
/// The parts of a round trip, in the order of time.
const PARTS: [Series; 4] =
    [Series::SendPath, Series::NetworkTime, Series::DeviceTime, Series::ReceivePath];

/// Returns what became of the packets of a run, and what a round trip consists of; nothing for a
/// run without packets.
#[must_use]
pub fn sentences(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Vec<String> {
    let Some(account) = &run.packets else { return Vec::new() };
    let all = [Some(fates(account)), places(account), parts(series), sender(series)];
    all.into_iter().flatten().collect()
}

/// Where lost packets were dropped, as far as the kernel of this machine counts it.
fn places(account: &PacketAccount) -> Option<String> {
    let lost = sum(&account.devices).lost;
    let drops = account.drops.as_ref()?;
    if lost == 0 {
        return None;
    }

    let of_sockets = [
        (drops.socket, "in the receive buffer of the run's socket".to_owned()),
        (drops.other_sockets, "in receive buffers of other sockets".to_owned()),
        (drops.closed_ports, "at ports that no program had open".to_owned()),
        (drops.backlog, "in the backlog of a CPU".to_owned()),
    ];
    let of_interface = |at: &InterfaceDrops| {
        [
            (at.queue, format!("in the queue discipline of {}", at.name)),
            (at.transmit, format!("on the way out of {}", at.name)),
            (at.receive, format!("on the way in at {}", at.name)),
        ]
    };
    let found: Vec<(u64, String)> = of_sockets
        .into_iter()
        .chain(drops.interfaces.iter().flat_map(of_interface))
        .filter(|(n, _)| *n > 0)
        .collect();

    let here: u64 = found.iter().map(|(n, _)| n).sum();
    if here == 0 {
        return Some(format!(
            "none of the {} lost packets was dropped by this machine's kernel: look at the link, the switches and the devices",
            count(lost)
        ));
    }
    let words: Vec<String> =
        found.into_iter().map(|(n, place)| format!("{} {place}", count(n))).collect();
    let rest = match lost.checked_sub(here) {
        None => "; these counters include other traffic".to_owned(),
        Some(0) => String::new(),
        Some(rest) => {
            format!("; the other {} on the link, at a switch or at a device", count(rest))
        }
    };
    Some(format!(
        "where {} packets were lost: this machine's kernel dropped {}{rest}",
        count(lost),
        words.join(", ")
    ))
}

fn fates(account: &PacketAccount) -> String {
    let all = sum(&account.devices);
    let devices = match account.devices.len() {
        1 => "1 device".to_owned(),
        n => format!("{n} devices"),
    };

    let others = [
        (all.duplicates, "duplicates"),
        (all.reordered, "answered out of order"),
        (all.strays, "answers to packets that were given up"),
        (account.foreign, "foreign packets"),
    ];
    let others: Vec<String> = others
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{} {what}", count(*n)))
        .collect();
    let others = if others.is_empty() {
        "no duplicates, all in order".to_owned()
    } else {
        others.join(", ")
    };

    format!(
        "{} packets of {} bytes to {devices}: {} answered in time, {} late, {} lost, {} not sent; {others}",
        count(all.scheduled),
        account.payload,
        count(all.answered),
        count(all.late),
        count(all.lost),
        count(all.unsent),
    )
}

/// The mean parts of the round trips that the kernel stamped at both ends.
fn parts(series: &BTreeMap<Series, Statistics>) -> Option<String> {
    let of = PARTS.map(|part| series.get(&part));
    let means = of.into_iter().collect::<Option<Vec<&Statistics>>>()?;
    let whole_ns: f64 = means.iter().map(|part| part.mean_ns).sum();
    let words: Vec<String> = PARTS
        .iter()
        .zip(&means)
        .map(|(part, figures)| {
            format!("{} {}", part.words(), time(figures.mean_ns, Letters::Ascii))
        })
        .collect();
    let wire = series.get(&Series::WireTime).map_or_else(String::new, |wire| {
        format!(
            "; between the card's stamps of {}, without the device: {}",
            count(wire.count),
            time(wire.mean_ns, Letters::Ascii)
        )
    });

    Some(format!(
        "mean round trip {} of {} with the kernel's stamps: {}{wire}",
        time(whole_ns, Letters::Ascii),
        count(means[0].count),
        words.join(", ")
    ))
}

fn sender(series: &BTreeMap<Series, Statistics>) -> Option<String> {
    let of = series.get(&Series::ReleaseLatency)?;
    Some(format!(
        "sender jitter {}: releases were served {} to {} late, which is not part of a round trip",
        time_ns(of.jitter_ns, Letters::Ascii),
        time_ns(of.min_ns, Letters::Ascii),
        time_ns(of.max_ns, Letters::Ascii)
    ))
}

/// Returns a row per device, and the sum of all; `None` for a single device without losses, of
/// which the sentence says everything.
#[must_use]
pub fn table(account: &PacketAccount, letters: Letters) -> Option<Table> {
    let all = sum(&account.devices);
    let is_plain = all.answered == all.scheduled && all.duplicates + all.reordered == 0;
    if account.devices.len() < 2 && is_plain {
        return None;
    }

    // The sentence says that there are none.
    let is_in_order = all.duplicates + all.reordered == 0;
    let columns = if is_in_order { FATES } else { HEADS.len() };
    let (shown, others) = account.devices.split_at(account.devices.len().min(MOST_ROWS));
    let named = |(number, device): (usize, &DevicePackets)| {
        row(&format!("{number} {}", device.address), device, columns)
    };
    let mut rows: Vec<Row> = shown.iter().enumerate().map(named).collect();
    if !others.is_empty() {
        rows.push(row(&format!("{} others", others.len()), &sum(others), columns));
    }
    rows.push(Row { begins_group: true, ..row("all", &all, columns) });

    let order = "twice: further answers to a packet; reordered: answered after a later packet";
    let heads = HEADS.into_iter().take(columns).map(Column::figures);
    Some(Table {
        title: format!("Round trips by device, {}", letters.microseconds()),
        columns: [Column::words("device")].into_iter().chain(heads).collect(),
        rows,
        legend: if is_in_order { Vec::new() } else { vec![order.to_owned()] },
    })
}

fn row(name: &str, of: &DevicePackets, columns: usize) -> Row {
    let us = |ns: u64| if ns == 0 { "-".to_owned() } else { fixed(ns as f64 / 1e3, 1) };
    let times = [of.min_ns, of.p50_ns, of.p99_ns, of.max_ns].map(us);
    let counts = [of.answered, of.late, of.lost, of.unsent, of.duplicates, of.reordered].map(count);
    let figures = times.into_iter().chain(counts).take(columns);
    let entries = [name.to_owned()].into_iter().chain(figures);
    Row::new(entries)
}

/// All devices together; percentiles do not add up and are 0.
fn sum(devices: &[DevicePackets]) -> DevicePackets {
    let mut all = DevicePackets::default();
    for of in devices {
        all.scheduled += of.scheduled;
        all.answered += of.answered;
        all.late += of.late;
        all.lost += of.lost;
        all.unsent += of.unsent;
        all.refused += of.refused;
        all.duplicates += of.duplicates;
        all.reordered += of.reordered;
        all.strays += of.strays;
        all.max_ns = all.max_ns.max(of.max_ns);
        let is_first = all.min_ns == 0;
        all.min_ns = if is_first { of.min_ns } else { all.min_ns.min(of.min_ns) };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_record::KernelDrops;

    fn account(devices: usize) -> PacketAccount {
        let device = |number: usize| DevicePackets {
            address: format!("10.0.0.{number}:7470"),
            scheduled: 1000,
            answered: 996,
            late: 1,
            lost: 2,
            unsent: 1,
            duplicates: 3,
            min_ns: 50_000,
            p50_ns: 60_000,
            p99_ns: 90_000,
            max_ns: 1_000_000_000,
            ..DevicePackets::default()
        };
        PacketAccount {
            payload: 200,
            devices: (0..devices).map(device).collect(),
            ..PacketAccount::default()
        }
    }

    #[test]
    fn the_sentence_has_every_fate() {
        assert_eq!(
            fates(&account(2)),
            "2,000 packets of 200 bytes to 2 devices: 1,992 answered in time, 2 late, 4 lost, 2 not sent; 6 duplicates"
        );
    }

    #[test]
    fn lost_packets_are_located_as_far_as_the_kernel_counts_them() {
        let with = |socket, queue| {
            let eth0 = InterfaceDrops { name: "eth0".to_owned(), queue, ..Default::default() };
            let drops = KernelDrops { socket, interfaces: vec![eth0], ..KernelDrops::default() };
            places(&PacketAccount { drops: Some(drops), ..account(2) }).expect("4 are lost")
        };
        assert_eq!(
            with(0, 0),
            "none of the 4 lost packets was dropped by this machine's kernel: look at the link, the switches and the devices"
        );
        assert_eq!(
            with(2, 1),
            "where 4 packets were lost: this machine's kernel dropped 2 in the receive buffer of the run's socket, 1 in the queue discipline of eth0; the other 1 on the link, at a switch or at a device"
        );
        assert!(with(4, 0).ends_with("socket"), "{}", with(4, 0));
        assert!(with(0, 9).ends_with("; these counters include other traffic"));
        assert_eq!(places(&account(2)), None, "the kernel does not say");
    }

    #[test]
    fn every_device_has_a_row_and_those_beyond_forty_have_one_together() {
        let of = |devices| table(&account(devices), Letters::Ascii).expect("a table");
        assert_eq!(of(2).rows.len(), 3);
        assert_eq!(of(50).rows.len(), 42);
        let text = of(50).to_text(120);
        assert!(text.contains("39 10.0.0.39:7470") && text.contains("10 others"), "{text}");
        let well = PacketAccount {
            devices: vec![DevicePackets { scheduled: 5, answered: 5, ..DevicePackets::default() }],
            ..PacketAccount::default()
        };
        assert_eq!(table(&well, Letters::Ascii), None);
    }
}
