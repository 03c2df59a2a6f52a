//! Exports open in libraries that know nothing of onbeat: pyarrow, prometheus_client, jsonschema, opentelemetry-proto, and
//! Python's own readers of XML and CSV.
//!
//! The Python side is `opens.py`; its packages are installed below `target/` on the first run,
//! which needs the network then. Where Python is missing, or it cannot be equipped, every test here
//! is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used)]

#[path = "otlp.rs"]
mod otlp;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use libtest_mimic::{Completion, Trial};
use onbeat::record::{Interval, RunFile, Series};
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "exports_open_elsewhere::pyarrow_reads_every_bucket_of_a_run_from_parquet",
            parquet_holds_every_bucket,
        ),
        trial(
            "exports_open_elsewhere::pyarrow_reads_several_row_groups",
            parquet_of_several_groups,
        ),
        trial(
            "exports_open_elsewhere::prometheus_reads_the_histograms_and_counters",
            openmetrics_is_read,
        ),
        trial(
            "exports_open_elsewhere::a_csv_reader_finds_every_sample_and_strange_names_whole",
            csv_is_read,
        ),
        trial(
            "exports_open_elsewhere::junit_xml_has_the_shape_that_its_readers_expect",
            junit_is_read,
        ),
        trial(
            "exports_open_elsewhere::json_schemas_hold_for_what_bench_and_measure_print",
            schemas_hold,
        ),
        trial(
            "exports_open_elsewhere::a_collector_gets_the_figures_of_the_run_file",
            otlp::a_collector_gets_the_figures_of_the_run_file,
        ),
        trial(
            "exports_open_elsewhere::a_collector_that_is_away_costs_the_run_nothing",
            otlp::a_collector_that_is_away_costs_the_run_nothing,
        ),
    ];
    Vec::from(tests)
}

fn trial(name: &str, body: fn(&Python)) -> Trial {
    Trial::ignorable_test(name, move || match python() {
        Err(reason) => Ok(Completion::ignored_with(reason.clone())),
        Ok(python) => {
            body(python);
            Ok(Completion::Completed)
        }
    })
}

/// A run of two streams, one of them with a name that CSV must quote.
fn run(dir: &Path) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onbeat/tests/import_files");
    let strange = dir.join("a, \"b\".csv");
    std::fs::copy(sources.join("time-and-latency.csv"), &strange).unwrap();
    let to = dir.join("run");
    done(
        onbeat(dir)
            .arg("import")
            .arg(sources.join("tagged.hlog"))
            .arg(&strange)
            .args(["--load", "paper"])
            .arg("-o")
            .arg(&to),
    );

    to
}

fn samples(run: &Path) -> u64 {
    files(run)
        .iter()
        .flat_map(|file| Series::ALL.map(|series| file.distribution(series).count()))
        .sum()
}

fn files(run: &Path) -> Vec<RunFile> {
    let names = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    names
        .filter(|name| name.extension().is_some_and(|ending| ending == "hlog"))
        .map(|name| RunFile::read(&name).unwrap())
        .collect()
}

fn parquet_holds_every_bucket(python: &Python) {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let to = dir.path().join("run.parquet");
    done(onbeat(dir.path()).arg("export").arg(&run).arg("--parquet").arg(&to));
    let found = python.open("parquet", &to);
    let buckets: usize = files(&run)
        .iter()
        .flat_map(|file| &file.entries)
        .map(|entry| entry.counts.buckets().len())
        .sum();

    assert_eq!(found["rows"], buckets);
    assert_eq!(found["samples"], samples(&run));
    assert_eq!(found["series"], serde_json::json!(["recorded", "wakeup_latency"]));
    assert_eq!(found["loads"], serde_json::json!(["paper"]));
    assert_eq!(
        ["low_ns", "tuning", "cpu"].map(|name| found["types"][name].as_str()),
        [Some("int64"), Some("string"), Some("int64")]
    );
    let highest = found["highest"].as_u64().unwrap();

    assert!(
        (480_900..480_900 + 256).contains(&highest),
        "{highest} is the end of the bucket of 480.9 us"
    );
}

fn parquet_of_several_groups(python: &Python) {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let file = files(&run)
        .into_iter()
        .find(|file| file.distribution(Series::WakeupLatency).count() > 0)
        .unwrap();
    let rows_once: usize = file.entries.iter().map(|entry| entry.counts.buckets().len()).sum();
    // More than a row group of 500,000, as the cells of one directory.
    let times = 500_000 / rows_once + 2;
    let many = dir.path().join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..times {
        std::fs::hard_link(&file.path, many.join(format!("{number}.onbeat.hlog"))).unwrap();
    }
    let to = dir.path().join("long.parquet");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_onbeat")).with_file_name("onbeat-fleet");
    let mut writer = std::process::Command::new(program);
    done(writer.arg("buckets").arg(&many).stdout(std::fs::File::create(&to).unwrap()));
    let found = python.open("parquet", &to);

    assert_eq!(found["rows"].as_u64(), Some((rows_once * times) as u64));
    assert!(found["groups"].as_u64() > Some(1), "{found}");
    assert_eq!(found["samples"], samples(&run).saturating_sub(6) * times as u64);
}

fn openmetrics_is_read(python: &Python) {
    let dir = tempfile::tempdir().unwrap();
    done(
        onbeat(dir.path())
            .args(["measure", "timer", "--for", "500ms", "--out"])
            .arg(dir.path().join("runs")),
    );
    let to = dir.path().join("metrics.txt");
    done(
        onbeat(dir.path())
            .arg("export")
            .arg(dir.path().join("runs/latest"))
            .arg("--openmetrics")
            .arg(&to),
    );
    let found = python.open("openmetrics", &to);
    let run = files(&dir.path().join("runs/latest")).remove(0);

    for series in Series::ALL.into_iter().filter(|&series| run.distribution(series).count() > 0) {
        let metric = &found[&format!("onbeat_{}_seconds", series.tag())];
        assert_eq!(
            (metric["type"].as_str(), metric["unit"].as_str()),
            (Some("histogram"), Some("seconds")),
            "{series:?}"
        );
        let moments = run.moments(series);

        assert_eq!(metric["count"].as_f64(), Some(moments.n as f64), "{series:?}");
        let (sum_s, exported_s) =
            (moments.mean_ns * moments.n as f64 / 1e9, metric["sum"].as_f64().unwrap());
        assert!(
            (sum_s - exported_s).abs() <= 1e-9 * sum_s,
            "{series:?}: {exported_s} s, {sum_s} s in the run"
        );
    }

    // How many releases a busy machine serves is not claimed.
    assert!(run.distribution(Series::WakeupLatency).count() > 0);
    let account = run.end.clone().unwrap_or_default();
    let of_intervals = |count: fn(&Interval) -> u64| run.intervals.iter().map(count).sum::<u64>();
    let counters = [
        ("deadline_misses", of_intervals(|interval| interval.deadline_misses)),
        ("skipped_releases", account.skipped),
        ("lost_samples", account.lost),
        ("spikes", of_intervals(|interval| interval.spikes)),
    ];

    for (name, counted) in counters {
        let metric = &found[&format!("onbeat_{name}")];
        assert_eq!(
            (metric["type"].as_str(), metric["count"].as_f64()),
            (Some("counter"), Some(counted as f64)),
            "{name}"
        );
    }
}

fn csv_is_read(python: &Python) {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let to = dir.path().join("run.csv");
    done(onbeat(dir.path()).arg("export").arg(&run).arg("--csv").arg(&to));
    let found = python.open("csv", &to);

    assert_eq!(found["samples"], samples(&run));
    let tunings: BTreeSet<&str> =
        found["tunings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(tunings.contains("a, \"b\""), "{tunings:?}");
}

fn junit_is_read(python: &Python) {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path());
    let to = dir.path().join("gate.xml");
    let gate = |limit: &str, at: &str| {
        let mut command = onbeat(dir.path());
        command.arg("gate").arg(&run).args(["--limit", limit, "--at", at]).arg("--junit").arg(&to);
        (command.output().unwrap().status.code(), python.open("junit", &to)["cases"].to_string())
    };

    // One of the two streams has no wake-up latency, and so cannot be judged.
    assert_eq!(gate("1s", "50"), (Some(3), "[\"error\",\"passed\"]".to_owned()));
    assert_eq!(gate("1ns", "99"), (Some(1), "[\"error\",\"failure\"]".to_owned()));
}

fn schemas_hold(python: &Python) {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs");
    let mut printed: Vec<(String, Output)> = Vec::new();
    for name in ["bench", "sweep", "latency", "before", "after"] {
        let mut command = onbeat(dir.path());
        command.arg("report").arg(golden.join(name)).arg("--json").args(["--html", "page.html"]);
        printed.push((name.to_owned(), command.output().unwrap()));
    }
    let live = ["measure", "timer", "--for", "500ms", "--limit", "1s", "--json", "--out", "runs"];
    printed.push(("live".to_owned(), onbeat(dir.path()).args(live).output().unwrap()));

    let mut schemas = BTreeSet::new();
    for (name, output) in printed {
        let to = dir.path().join(format!("{name}.json"));
        std::fs::write(&to, &output.stdout).unwrap();
        let found = python.open("summary", &to);
        assert_eq!(found["errors"], serde_json::json!([]), "{name}: fields as the schema has them");
        assert!(found["faults"].as_u64().unwrap() > 30, "{name}: {found}");
        assert_eq!(found["missed"], 0, "{name}: every fault is found");
        assert_eq!(found["is_of_other"], false, "{name}: the schemas tell bench and run apart");
        assert_eq!(found["differ"], serde_json::json!(["description", "title"]));
        schemas.insert(found["schema"].as_str().unwrap().to_owned());
    }
    assert_eq!(schemas.len(), 2, "{schemas:?}");
}

fn onbeat(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.current_dir(dir).env("ONBEAT_STATE_DIR", dir.join("state"));
    command
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

struct Python {
    program: PathBuf,
}

impl Python {
    fn open(&self, kind: &str, path: &Path) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/exports/opens.py");
        let output = done(Command::new(&self.program).arg(script).arg(kind).arg(path));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Python with its packages, put in place once.
fn python() -> Result<&'static Python, &'static String> {
    static PYTHON: OnceLock<Result<Python, String>> = OnceLock::new();
    PYTHON.get_or_init(equip).as_ref()
}

fn equip() -> Result<Python, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = root.join("target/exports-venv");
    let program = place.join("bin/python");
    let works = |program: &Path| {
        let imports = Command::new(program)
            .args(["-c", "import pyarrow.parquet, prometheus_client, jsonschema, opentelemetry.proto.metrics"])
            .output();
        imports.is_ok_and(|output| output.status.success())
    };

    if !works(&program) {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err("python3 with venv is not installed (package python3-venv)".to_owned());
        }

        let packages = root.join("tests/exports/requirements.txt");
        let pip = Command::new(&program)
            .args(["-m", "pip", "install", "-q", "-r"])
            .arg(packages)
            .output();
        if !pip.as_ref().is_ok_and(|output| output.status.success()) || !works(&program) {
            return Err(
                "pyarrow, prometheus_client, jsonschema and opentelemetry-proto cannot be installed: no network, or no packages for this Python"
                    .to_owned(),
            );
        }
    }

    Ok(Python { program })
}
