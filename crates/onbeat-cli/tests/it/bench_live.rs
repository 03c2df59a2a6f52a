//! The complete main job: nine tunings, two loads, every figure.

use std::process::Command;

use serde_json::Value;

const TUNINGS: [&str; 9] = ["none", "M", "C", "MC", "P", "PM", "PC", "PMC", "PMCS"];

fn bench(dir: &std::path::Path, more: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["bench", "--json", "--out"])
        .arg(dir.join("runs"))
        .args(more)
        .env("ONBEAT_STATE_DIR", dir.join("state"))
        .output()
        .unwrap();

    assert!(output.status.code() != Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is a number"))
}

fn check_series(name: &str, series: &Value) {
    for figure in ["count", "min_ns", "mean_ns", "sd_ns", "max_ns", "jitter_ns"] {
        assert!(series[figure].as_f64() >= Some(0.0), "{name} {figure}: {series}");
    }

    let low: Vec<f64> =
        series["low"].as_array().unwrap().iter().map(|row| number(&row["q"])).collect();
    assert_eq!(low, [99.0, 99.9, 99.99, 99.999, 100.0], "{name}");
    let points: Vec<f64> =
        series["percentiles"].as_array().unwrap().iter().map(|row| number(&row["p"])).collect();
    assert_eq!(points, [50.0, 90.0, 99.0, 99.9, 99.99, 99.999], "{name}");
    let count = number(&series["count"]);
    for row in series["low"].as_array().unwrap().iter().take(4) {
        let above = count - number(&row["count"]);
        assert_eq!(row["supported"].as_bool(), Some(above >= 10.0), "{name}: {row}");
    }
}

/// The series of a cell's loop: figures of each that has samples, and as many samples as the others
/// imply. A loop that gets no CPU time in its blocks skips releases, serves few cycles or none, and
/// then has releases alone.
fn check_loop(cell: &Value) {
    let name = |series: &str| format!("{} {} {series}", cell["tuning"], cell["load"]);
    let samples = |series: &str| match &cell["series"][series] {
        Value::Null => 0,
        of => {
            check_series(&name(series), of);
            of["count"].as_u64().unwrap()
        }
    };
    // A summary names what was excluded only where there is some.
    let of_cell = |count: &str| cell[count].as_u64().unwrap_or(0);

    let served = samples("execution_time");
    let periods = samples("observed_period");
    let releases = samples("release_latency");
    assert!(releases > 0, "{}: {cell}", name("release_latency"));
    assert_eq!(releases, served + samples("skipped_latency"), "{}", name("release_latency"));
    assert_eq!(samples("response_time"), served, "{}", name("response_time"));
    assert!(served <= of_cell("cycles"), "{}", name("execution_time"));

    // The first cycle of a block has none before it, nor has one behind a gap.
    let without_period = of_cell("blocks") + of_cell("lost") + of_cell("excluded");
    let is_complete = (served.saturating_sub(without_period)..=served).contains(&periods);
    assert!(is_complete, "{}: {periods} of {served} cycles", name("observed_period"));
}

/// One flight recorder answers for all cells: where it was granted, spikes have causes, and none
/// explains more than there was.
fn check_causes(summary: &Value) {
    let rung = summary["ladder"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rung| rung["what"] == "flight recorder")
        .unwrap();
    if rung["granted"] == false {
        println!("skipped: causes of spikes: {}", rung["why_not"]);
        return;
    }

    let mut spikes = 0;
    let mut looked_at = 0;
    for cell in summary["cells"].as_array().unwrap().iter().filter(|cell| cell["permitted"] == true)
    {
        spikes += cell["spike_count"].as_u64().unwrap();
        // A cell without a spike has no causes.
        for (kind, count) in cell["causes"].as_object().into_iter().flatten() {
            looked_at += count["spikes"].as_u64().unwrap();
            assert!(
                count["accounted_ns"].as_u64() <= count["lateness_ns"].as_u64(),
                "{kind}: {count}"
            );
        }
    }

    assert!(looked_at > 0 || spikes == 0, "{spikes} spikes, none of them looked at");
}

#[test]
fn eighteen_cells_with_every_figure_and_every_slot() {
    let dir = tempfile::tempdir().unwrap();
    let summary = bench(dir.path(), &["--for", "18s"]);
    assert_eq!(summary["schema"], "onbeat.bench/1");
    let cells = summary["cells"].as_array().unwrap();

    assert_eq!(cells.len(), 18);
    for (cell, at) in cells.iter().zip(0..) {
        assert_eq!(
            (&cell["load"], &cell["tuning"]),
            (&["idle", "paper"][at / 9].into(), &TUNINGS[at % 9].into())
        );
        if cell["permitted"] == false {
            println!(
                "not permitted here: {}/{}: {}",
                cell["tuning"], cell["load"], cell["why_not"]
            );
            assert!(cell["why_not"].as_str().is_some_and(|why| !why.is_empty()));
            continue;
        }

        check_loop(cell);

        for count in ["slots", "cycles", "skipped", "overruns", "deadline_misses", "lost"] {
            assert!(cell[count].is_u64(), "{count} of {}", cell["tuning"]);
        }

        let sum =
            |keys: [&str; 3]| keys.iter().map(|key| cell[*key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(
            cell["slots"].as_u64(),
            Some(sum(["cycles", "skipped", "lost"])),
            "every slot is in one place"
        );
    }

    check_causes(&summary);
    assert!(summary["verdict"]["sentence"].as_str().is_some_and(|words| !words.is_empty()));
    assert!(dir.path().join("runs/latest/report.html").exists());
}

#[test]
fn the_papers_order_runs_too() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--for", "6s", "--tunings", "none,S", "--loads", "idle", "--order", "sequential"];
    let summary = bench(dir.path(), &more);
    assert_eq!(
        (&summary["order"], summary["cells"].as_array().unwrap().len()),
        (&"sequential".into(), 2)
    );
}

#[test]
fn a_robot_on_its_bus_runs_in_every_cell() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--with", "bus", "--for", "6s", "--tunings", "none,PM", "--loads", "idle"];
    let summary = bench(dir.path(), &more);
    let cells = summary["cells"].as_array().unwrap();

    assert_eq!(cells.len(), 2);
    for cell in cells.iter().filter(|cell| cell["permitted"] == true) {
        check_series("with a bus", &cell["series"]["release_latency"]);
        let intervals = &cell["series"]["device_interval"];
        assert!(number(&intervals["count"]) > 0.0, "the devices' clock was read: {cell}");
        let notes = cell["notes"].as_array().unwrap();
        assert!(notes.iter().all(|note| note != "not all SubDevices reached OP"), "{notes:?}");
    }

    let ladder = summary["ladder"].as_array().unwrap();
    assert!(
        ladder.iter().any(|rung| rung["what"] == "bus" && rung["granted"] == true),
        "{ladder:?}"
    );
}

#[test]
fn round_trips_are_in_every_cell_and_no_packet_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--with", "rtt", "--devices", "3", "--period", "5ms", "--for", "4s"];
    let cells = ["--tunings", "none,S", "--loads", "idle", "--no-causes"];
    let summary = bench(dir.path(), &[&more[..], &cells].concat());
    let cells = summary["cells"].as_array().unwrap();

    assert_eq!(cells.len(), 2);
    for cell in cells.iter().filter(|cell| cell["permitted"] == true) {
        let devices = cell["packets"]["devices"].as_array().unwrap();
        assert_eq!(devices.len(), 3, "{cell}");
        let mut scheduled = 0.0;
        for device in devices {
            let fates = ["answered", "late", "lost", "unsent"].map(|fate| number(&device[fate]));
            assert_eq!(fates.iter().sum::<f64>(), number(&device["scheduled"]), "{device}");
            scheduled += number(&device["scheduled"]);
        }
        assert_eq!(scheduled, 3.0 * number(&cell["slots"]), "{cell}");
        assert_eq!(number(&cell["series"]["round_trip"]["count"]), scheduled, "{cell}");
        check_series("round trips", &cell["series"]["round_trip"]);
    }
}

#[test]
fn round_trips_take_no_options_of_a_bus() {
    let refused = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["bench", "--with", "rtt", "--trajectory", "sine"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("--trajectory") && said.contains("rtt"), "{said}");
}
