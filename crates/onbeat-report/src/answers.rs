//! The answers of the cycles of a run: the first and the last of each, their order, the latest
//! cycles in detail, and all of it beside what a plan predicts.

use super::table::{Column, Row, Table};
use super::units::{Letters, count, fixed, time_ns};
use onbeat_record::{
    AnsweredCycle, CycleAnswers, DevicePackets, PacketAccount, PredictedAnswers, PredictedDevice,
};

/// Cycles of the table: the latest.
const CYCLES_SHOWN: usize = 8;

/// Returns when and in which order the answers of a cycle arrive; nothing for a single device.
#[must_use]
pub fn sentences(account: &PacketAccount) -> Vec<String> {
    let Some(cycles) = &account.cycles else { return Vec::new() };
    let of_cycles = arrival(cycles, account.devices.len());
    let predicted = account.predicted.as_ref().map(|plan| against(cycles, plan, account));
    [Some(of_cycles), order(&account.devices), predicted].into_iter().flatten().collect()
}

fn arrival(cycles: &CycleAnswers, devices: usize) -> String {
    let time = |ns| time_ns(ns, Letters::Ascii);
    let CycleAnswers { complete, first, last, .. } = cycles;
    format!(
        "in {} cycles all {devices} devices answered: the first after {} (median; {} to {}), the last after {} ({} to {})",
        count(*complete),
        time(first.p50_ns),
        time(first.min_ns),
        time(first.max_ns),
        time(last.p50_ns),
        time(last.min_ns),
        time(last.max_ns),
    )
}

/// The devices whose answers arrive first and last on average.
fn order(devices: &[DevicePackets]) -> Option<String> {
    let places = || devices.iter().enumerate().filter_map(|(n, of)| Some((n, mean_place(of)?)));
    let (first, its_place) = places().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (last, last_place) = places().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "mean place in the order of arrival: device {first} the earliest ({its_place:.1}), device {last} the latest ({last_place:.1})"
    ))
}

fn against(cycles: &CycleAnswers, plan: &PredictedAnswers, account: &PacketAccount) -> String {
    let time = |ns| time_ns(ns, Letters::Ascii);
    let first = plan.first.p50_ns;
    let last = plan.last.p50_ns;
    let rest = [(cycles.first.p50_ns, first), (cycles.last.p50_ns, last)];
    let rest = match rest.map(|(measured, predicted)| measured.checked_sub(predicted)) {
        [Some(of_first), Some(of_last)] => {
            format!("the rest, {} and {}, is not the wire", time(of_first), time(of_last))
        }
        _ => "answers arrive earlier, so these links are faster than the plan's".to_owned(),
    };

    let pairs = account.devices.iter().zip(&plan.devices);
    let places = match pairs.filter(|(device, plan)| !is_in_place(device, plan)).count() {
        0 => "every device has its predicted place".to_owned(),
        1 => "1 device has another place than predicted".to_owned(),
        others => format!("{others} devices have another place than predicted"),
    };
    let file = &plan.plan;
    let first = time(first);
    let last = time(last);
    format!(
        "{file} predicts the first answer after {first} and the last after {last}; {rest}; {places}"
    )
}

/// Whether a device answers in its predicted place, to half a place on average.
fn is_in_place(device: &DevicePackets, predicted: &PredictedDevice) -> bool {
    mean_place(device).is_some_and(|place| (place - predicted.place as f64).abs() <= 0.5)
}

fn mean_place(device: &DevicePackets) -> Option<f64> {
    (device.place_count > 0).then(|| device.place_sum as f64 / device.place_count as f64)
}

/// Returns the latest cycles in detail, and every device beside its prediction where there is one.
#[must_use]
pub fn tables(account: &PacketAccount, letters: Letters) -> Vec<Table> {
    let predicted = account.predicted.as_ref().map(|plan| beside(account, plan, letters));
    let cycles = account.cycles.as_ref().filter(|cycles| !cycles.latest.is_empty());
    let latest = cycles.map(|cycles| latest(cycles, letters));
    predicted.into_iter().chain(latest).collect()
}

fn beside(account: &PacketAccount, plan: &PredictedAnswers, letters: Letters) -> Table {
    let row = |(number, (device, predicted)): (usize, (&DevicePackets, &PredictedDevice))| {
        let measured_ns = device.response_p50_ns;
        let rest_us = (measured_ns as f64 - predicted.response_p50_ns as f64) / 1e3;
        // Nothing was answered, or the run is of a version that kept no response of a single device.
        let if_answered = |text: String| if measured_ns > 0 { text } else { "-".to_owned() };
        // Wider than the counts of a file, which may be anything up to 2^53.
        let lost_ppm = u128::from(device.lost) * 1_000_000;
        let lost_ppm = lost_ppm.checked_div(device.scheduled.into()).unwrap_or(0);
        Row::new([
            format!("{number} {}", predicted.name),
            us(predicted.response_p50_ns),
            if_answered(us(measured_ns)),
            if_answered(fixed(rest_us, 1)),
            predicted.place.to_string(),
            mean_place(device).map_or("-".to_owned(), |place| format!("{place:.1}")),
            count(predicted.lost_ppm),
            count(u64::try_from(lost_ppm).unwrap_or(u64::MAX)),
        ])
    };

    let heads = ["predicted", "measured", "rest", "place", "measured", "lost ppm", "measured"];
    Table {
        title: format!(
            "From release to answer, predicted and measured, {}",
            letters.microseconds()
        ),
        columns: [Column::words("device")].into_iter().chain(heads.map(Column::figures)).collect(),
        rows: account.devices.iter().zip(&plan.devices).enumerate().map(row).collect(),
        legend: vec![
            "medians; rest: not the wire, that is the operating systems at both ends; below 0 the \
             links are faster than the plan's"
                .to_owned(),
        ],
    }
}

fn latest(cycles: &CycleAnswers, letters: Letters) -> Table {
    let from = cycles.latest.len().saturating_sub(CYCLES_SHOWN);
    let heads = ["answered", "first", "median", "last"];
    let columns = [Column::figures("cycle")].into_iter().chain(heads.map(Column::figures));
    Table {
        title: format!("The latest cycles, from release to answer, {}", letters.microseconds()),
        columns: columns.chain([Column::words("order")]).collect(),
        rows: cycles.latest[from..].iter().map(cycle_row).collect(),
        legend: vec![
            "order: devices by arrival; the page and the run file have all answers of 40 cycles"
                .to_owned(),
        ],
    }
}

fn cycle_row(cycle: &AnsweredCycle) -> Row {
    let mut arrived: Vec<(u64, usize)> =
        cycle.response_ns.iter().enumerate().map(|(device, ns)| (*ns, device)).collect();
    arrived.retain(|(ns, _)| *ns > 0);
    arrived.sort_unstable();

    let at = |place: usize| arrived.get(place).map_or("-".to_owned(), |(ns, _)| us(*ns));
    Row::new([
        count(cycle.cycle),
        arrived.len().to_string(),
        at(0),
        at(arrived.len().saturating_sub(1) / 2),
        at(arrived.len().saturating_sub(1)),
        order_words(&arrived),
    ])
}

/// The first devices by arrival, and the last one.
fn order_words(arrived: &[(u64, usize)]) -> String {
    if arrived.len() > 1 && arrived.is_sorted_by_key(|(_, device)| *device) {
        return "as sent".to_owned();
    }
    let name = |(_, device): &(u64, usize)| device.to_string();
    match arrived {
        [first @ .., last] if first.len() > 4 => {
            let first: Vec<String> = first[..4].iter().map(name).collect();
            format!("{} .. {}", first.join(" "), name(last))
        }
        all => all.iter().map(name).collect::<Vec<_>>().join(" "),
    }
}

fn us(ns: u64) -> String {
    if ns == 0 { "-".to_owned() } else { fixed(ns as f64 / 1e3, 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_record::AnswerTimes;

    fn account() -> PacketAccount {
        let device = |place_sum| DevicePackets {
            scheduled: 2,
            answered: 2,
            response_p50_ns: 90_000 + 10_000 * place_sum,
            place_sum,
            place_count: 2,
            ..DevicePackets::default()
        };
        let times = |ns| AnswerTimes { min_ns: ns / 2, p50_ns: ns, p99_ns: ns * 2, max_ns: ns * 2 };
        let cycle = |cycle, response_ns: [u64; 2]| AnsweredCycle {
            cycle,
            response_ns: response_ns.to_vec(),
        };
        PacketAccount {
            devices: vec![device(2), device(4)],
            cycles: Some(CycleAnswers {
                complete: 2,
                first: times(100_000),
                last: times(130_000),
                latest: vec![cycle(7, [100_000, 130_000]), cycle(8, [0, 120_000])],
            }),
            ..PacketAccount::default()
        }
    }

    #[test]
    fn first_and_last_answers_and_their_order_are_sentences() {
        assert_eq!(
            sentences(&account()),
            [
                "in 2 cycles all 2 devices answered: the first after 100 us (median; 50 us to 200 us), the last after 130 us (65 us to 260 us)",
                "mean place in the order of arrival: device 0 the earliest (1.0), device 1 the latest (2.0)",
            ]
        );
        assert_eq!(sentences(&PacketAccount::default()), [] as [String; 0]);
    }

    #[test]
    fn a_prediction_stands_beside_what_was_measured() {
        let device = |place| PredictedDevice {
            name: format!("board-{place}"),
            response_p50_ns: 60_000 + 10_000 * place,
            on_wire_ns: None,
            place,
            lost_ppm: 0,
        };
        let times = |ns| AnswerTimes { min_ns: ns, p50_ns: ns, p99_ns: ns, max_ns: ns };
        let predicted = PredictedAnswers {
            plan: "two.toml".to_owned(),
            first: times(70_000),
            last: times(80_000),
            devices: vec![device(1), device(2)],
        };
        let account = PacketAccount { predicted: Some(predicted), ..account() };
        let last = sentences(&account).pop().expect("a sentence");
        assert!(last.contains("30 us and 50 us"), "{last}");
        assert!(last.ends_with("every device has its predicted place"), "{last}");
        let shown = tables(&account, Letters::Ascii);
        assert_eq!((shown.len(), shown[0].rows.len()), (2, 2));
        let text = shown[1].to_text(100);
        assert!(text.contains("as sent"), "{text}");

        let alone =
            PacketAccount { devices: account.devices[..1].to_vec(), cycles: None, ..account };
        assert_eq!(tables(&alone, Letters::Ascii).len(), 1, "a single device has its prediction");
    }

    #[test]
    fn a_share_of_lost_packets_is_known_of_counts_of_any_size() {
        let lost = DevicePackets { scheduled: 1 << 53, lost: 1 << 52, ..DevicePackets::default() };
        let predicted = PredictedAnswers {
            devices: vec![PredictedDevice::default()],
            ..PredictedAnswers::default()
        };
        let account =
            PacketAccount { devices: vec![lost], predicted: Some(predicted), ..account() };
        let shown = tables(&account, Letters::Ascii);
        assert_eq!(shown[0].rows[0].entries[7].text, "500,000");
    }
}
