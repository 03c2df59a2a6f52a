//! Metrics pushed to a collector are those of the run file, as OpenTelemetry's own library decodes them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use onbeat::record::{RunFile, Series};
use serde_json::Value;

use super::{Python, files, onbeat};

/// `otlp_receiver.py`; it ends with this.
struct Collector {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl Collector {
    fn start(python: &Python, refused: u32) -> Self {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/exports/otlp_receiver.py");
        let mut child = Command::new(&python.program)
            .arg(script)
            .arg(refused.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        Self { child, lines, url: format!("http://127.0.0.1:{port}") }
    }

    /// All requests up to the one that says that the run has ended.
    fn requests(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        for line in self.lines.by_ref() {
            let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
            all.push(request);
            let state = points(&metrics(all.last().unwrap())["onbeat.run_in_progress"])[0].clone();
            if state["asInt"] == "0" {
                break;
            }
        }
        all
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The metrics of a request by their names.
fn metrics(request: &Value) -> BTreeMap<String, Value> {
    let of = &request["request"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let all = of.as_array().unwrap_or_else(|| panic!("no metrics: {request}"));
    all.iter().map(|metric| (metric["name"].as_str().unwrap().to_owned(), metric.clone())).collect()
}

fn points(metric: &Value) -> Vec<Value> {
    let data =
        ["exponentialHistogram", "gauge", "sum"].into_iter().find_map(|kind| metric.get(kind));
    data.unwrap_or_else(|| panic!("no data: {metric}"))["dataPoints"].as_array().unwrap().clone()
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let listed = of["attributes"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    listed.iter().map(|pair| (text(&pair["key"]), text(&pair["value"]["stringValue"]))).collect()
}

/// A whole number, which JSON has as text.
fn whole(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.parse().unwrap())
}

pub(super) fn a_collector_gets_the_figures_of_the_run_file(python: &Python) {
    let dir = tempfile::tempdir().unwrap();
    // The first request is refused: nothing of the run may be missing in the end.
    let mut collector = Collector::start(python, 1);
    let words = "measure timer --for 4s --limit 150us --at 50 --priority 0 --spikes-over 100us --out runs --metrics";
    let output = onbeat(dir.path()).args(words.split(' ')).arg(&collector.url).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{said}");
    assert!(
        said.contains(&format!("metrics: to {}/v1/metrics every 10 s", collector.url)),
        "{said}"
    );
    assert!(said.contains("does not take the metrics: it answered 503"), "{said}");

    let requests = collector.requests();
    let last = requests.last().unwrap();
    assert_eq!(
        (last["path"].as_str(), last["is_known"].as_bool()),
        (Some("/v1/metrics"), Some(true))
    );
    assert_eq!(last["type"], "application/x-protobuf");
    let run = files(&dir.path().join("runs/latest")).remove(0);
    let resource = attributes(&last["request"]["resourceMetrics"][0]["resource"]);
    assert_eq!(resource["service.name"], "onbeat");
    assert_eq!(resource["service.instance.id"], run.header.id);
    same_as_the_run_file(&metrics(last), &run);

    // Sums never fall.
    let counts: Vec<u64> = requests
        .iter()
        .filter_map(|request| {
            Some(whole(&points(metrics(request).get("onbeat.release_latency")?)[0]["count"]))
        })
        .collect();
    assert!(counts.is_sorted() && !counts.is_empty(), "{counts:?}");
}

fn same_as_the_run_file(found: &BTreeMap<String, Value>, run: &RunFile) {
    for series in Series::ALL.into_iter().filter(|&series| run.distribution(series).count() > 0) {
        let metric = &found[&format!("onbeat.{}", series.tag())];
        assert_eq!(metric["unit"], "s");
        let of = &points(metric)[0];
        same_distribution(of, run, series);
        assert_eq!(
            metric["exponentialHistogram"]["aggregationTemporality"],
            "AGGREGATION_TEMPORALITY_CUMULATIVE"
        );
        assert_eq!(whole(&of["startTimeUnixNano"]), (run.header.started_unix_s * 1e9) as u64);
        assert!(whole(&of["timeUnixNano"]) > whole(&of["startTimeUnixNano"]));
    }
    let limit = &points(&found["onbeat.limit"])[0];
    assert_eq!(
        (limit["asDouble"].as_f64(), &*attributes(limit)["series"]),
        (Some(0.00015), "release_latency")
    );
    let spikes: u64 = run.intervals.iter().map(|interval| interval.spikes).sum();
    assert_eq!(whole(&points(&found["onbeat.spikes"])[0]["asInt"]), spikes);
    assert_eq!(found["onbeat.spikes"]["sum"]["isMonotonic"], true);
    if let Some(causes) = found.get("onbeat.explained_spikes") {
        let words: BTreeSet<&str> = run
            .spikes
            .iter()
            .filter_map(|spike| Some(spike.causes.first()?.kind.words()))
            .collect();
        let labels: BTreeSet<String> =
            points(causes).iter().map(|of| attributes(of)["cause"].clone()).collect();
        assert_eq!(labels, words.into_iter().map(str::to_owned).collect());
    }
    // Nothing that grows with a run is a label.
    let labels = found.values().flat_map(points).flat_map(|point| attributes(&point).into_keys());
    let known = ["load", "tuning", "series", "at", "cause"].map(str::to_owned);
    assert!(labels.collect::<BTreeSet<_>>().is_subset(&BTreeSet::from(known)));
}

fn same_distribution(of: &Value, run: &RunFile, series: Series) {
    let samples = run.distribution(series);
    assert_eq!(whole(&of["count"]), samples.count(), "{series:?}");
    let moments = run.moments(series);
    let close =
        |found: &Value, ns: f64| (found.as_f64().unwrap() * 1e9 - ns).abs() <= 1e-6 * ns + 1e-3;
    assert!(close(&of["sum"], moments.mean_ns * moments.n as f64), "{series:?}: {of}");
    assert!(
        close(&of["min"], moments.min_ns as f64) && close(&of["max"], moments.max_ns as f64),
        "{of}"
    );

    // Each percentile is in the bucket that holds it.
    let scale = of["scale"].as_i64().unwrap_or(0) as f64;
    let offset = of["positive"]["offset"].as_i64().unwrap_or(0);
    let counts: Vec<u64> =
        of["positive"]["bucketCounts"].as_array().unwrap().iter().map(whole).collect();
    let zeros = whole(&of["zeroCount"]);
    assert_eq!(zeros + counts.iter().sum::<u64>(), samples.count());
    assert!(counts.len() <= 160);
    for share in [0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let rank = ((samples.count() as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let exact = samples.buckets().iter().find(|bucket| {
            below += bucket.count;
            below >= rank
        });
        let exact_s = exact.unwrap().high_ns() as f64 / 1e9;
        if zeros >= rank {
            assert!(exact_s <= 1e-9, "{series:?} {share}");
            continue;
        }
        let mut below = zeros;
        let place = counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        let index = (offset + place.unwrap() as i64) as f64;
        let bound = |index: f64| (index * (-scale).exp2()).exp2();
        let (low, high) = (bound(index), bound(index + 1.0));
        assert!(
            low * (1.0 - 1e-9) < exact_s && exact_s <= high * (1.0 + 1e-9),
            "{series:?} {share}: {exact_s} not in {low} to {high}"
        );
    }
}

pub(super) fn a_collector_that_is_away_costs_the_run_nothing(_: &Python) {
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens at port 1.
    let words = "measure timer --for 2s --limit 10s --at 50 --priority 0 --no-causes --out runs --metrics http://127.0.0.1:1";
    // A file and not a pipe: the last figures are tried for some seconds after the run.
    let log = dir.path().join("log");
    let to = std::fs::File::create(&log).unwrap();
    let status = onbeat(dir.path())
        .args(words.split(' '))
        .stderr(to)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    let said = loop {
        let said = std::fs::read_to_string(&log).unwrap();
        if said.contains("does not take the metrics") {
            break said;
        }
        assert!(Instant::now() < until, "{said}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(files(&dir.path().join("runs/latest"))[0].end.is_some());
    assert_eq!(said.matches("does not take the metrics").count(), 1, "{said}");

    let mut pushing = onbeat(dir.path())
        .args(["metrics", "runs/latest", "--push", "http://127.0.0.1:1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(pushing.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("does not take the metrics")));
    // It tries for some seconds more, which Ctrl-C ends.
    Command::new("kill").arg(pushing.id().to_string()).status().unwrap();
    let said: String = lines.map(Result::unwrap).collect();
    assert_eq!(pushing.wait().unwrap().code(), Some(2), "{said}");
    assert!(said.contains("did not reach http://127.0.0.1:1/v1/metrics"), "{said}");

    for (url, why) in
        [("https://127.0.0.1:4318", "needs TLS"), ("ftp://x", "does not begin with http://")]
    {
        let words = ["measure", "timer", "--for", "1s", "--out", "none", "--metrics", url];
        let output = onbeat(dir.path()).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
        assert!(!dir.path().join("none").exists(), "nothing was measured");
    }
}
