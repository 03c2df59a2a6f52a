//! `--metrics`: the figures of a run in progress as Prometheus scrapes them, in both text formats and as protobuf.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat::record::{RunFile, Series};
use rustix::process::{Pid, Signal, kill_process};

const COUNT: &str = "onbeat_release_latency_seconds_count";

/// A measurement whose metrics are served; it is killed on drop.
struct Served {
    child: Child,
    address: String,
    directory: tempfile::TempDir,
}

impl Served {
    fn start(seconds: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let words = "measure timer --limit 150us --at 50 --priority 0 --out runs --metrics 0 --for";
        let mut child = Command::new(env!("CARGO_BIN_EXE_onbeat"))
            .args(words.split(' '))
            .arg(seconds)
            .env("ONBEAT_STATE_DIR", directory.path().join("state"))
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let address = lines.find_map(|line| {
            Some(line.strip_prefix("metrics: http://")?.strip_suffix("/metrics")?.to_owned())
        });
        // A pipe that is full would stop the command.
        std::thread::spawn(move || lines.count());
        Self { child, address: address.expect("its address"), directory }
    }

    fn scraped(&self, accept: &str) -> String {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(socket, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Waits until there are figures.
    fn first(&self) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let text = self.scraped("text/plain");
            if value(&text, COUNT).is_some_and(|count| count > 0.0) {
                return text;
            }
            assert!(Instant::now() < until, "no figures: {text}");
            sleep(Duration::from_millis(200));
        }
    }

    fn run_file(&self) -> PathBuf {
        let latest = self.directory.path().join("runs/latest");
        let files = fs::read_dir(latest).unwrap().map(|entry| entry.unwrap().path());
        files.into_iter().find(|path| path.to_string_lossy().ends_with(".onbeat.hlog")).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of the only line of this name.
fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn rules() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    root.join("packaging/prometheus/onbeat.rules.yml")
}

/// A program of Debian's package prometheus, installed or unpacked.
fn program(name: &str) -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/prometheus/usr/bin");
    let found = [PathBuf::from(name), unpacked.join(name)];
    let runs = |path: &PathBuf| Command::new(path).arg("--version").output().is_ok();
    let found = found.into_iter().find(runs);
    if found.is_none() {
        println!("skipped: {name} is neither installed nor unpacked (package prometheus)");
    }
    found
}

#[test]
fn the_last_scrape_has_the_figures_of_the_run_file() {
    // Not to its end: how soon the first figures are read is up to the machine.
    let mut served = Served::start("5m");
    let early = served.first();
    assert!(early.contains("onbeat_run_in_progress 1"), "{early}");
    assert!(early.contains("le=\"0.00015\"}"), "a bucket at the limit: {early}");
    kill_process(Pid::from_child(&served.child), Signal::INT).unwrap();
    served.child.wait().unwrap();

    let until = Instant::now() + Duration::from_secs(12);
    let last = loop {
        let text = served.scraped("application/openmetrics-text;version=1.0.0");
        if text.contains("onbeat_run_in_progress 0") {
            break text;
        }
        assert!(Instant::now() < until, "the end of the run is not served: {text}");
        sleep(Duration::from_millis(100));
    };
    assert!(last.ends_with("# EOF\n"), "{last}");
    let run = RunFile::read(&served.run_file()).unwrap();
    let counted = run.distribution(Series::ReleaseLatency).count();
    assert_eq!(value(&last, COUNT), Some(counted as f64));
    assert!(value(&early, COUNT) <= value(&last, COUNT));
}

#[test]
fn promtool_accepts_what_is_served() {
    let Some(promtool) = program("promtool") else { return };
    let served = Served::start("30s");
    let text = served.first();
    let mut checked = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    checked.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = checked.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

/// A Prometheus that scrapes a run every second; it is killed on drop.
struct Scraping {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Scraping {
    fn start(prometheus: &Path, served: &Served, features: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs: [{{job_name: onbeat, static_configs: [{{targets: ['{}']}}]}}]\n",
            rules().display(),
            served.address
        );
        fs::write(at("prometheus.yml"), config).unwrap();
        // Another program may take the port between this and Prometheus: it would say so and end.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(prometheus)
            .arg(format!("--config.file={}", at("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", at("data")))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(features)
            .stdout(Stdio::null())
            .stderr(fs::File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        Self { child, port, directory }
    }

    /// The first result of a query, as soon as it is above zero.
    fn value(&mut self, query: &str) -> f64 {
        let until = Instant::now() + Duration::from_secs(50);
        loop {
            if let Some(value) = self.asked(query).filter(|value| *value > 0.0) {
                return value;
            }
            let ended = self.child.try_wait().unwrap();
            if Instant::now() > until || ended.is_some() {
                let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
                panic!("no answer to {query}: {ended:?} {log}");
            }
            sleep(Duration::from_millis(300));
        }
    }

    fn asked(&self, query: &str) -> Option<f64> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        write!(socket, "GET /api/v1/query?query={query} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        let body: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
        body["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

impl Drop for Scraping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_scrapes_a_run() {
    let Some(prometheus) = program("prometheus") else { return };
    let served = Served::start("60s");
    served.first();
    let mut scraping = Scraping::start(&prometheus, &served, &[]);
    let count = scraping.value(COUNT);
    let at_limit = scraping.value("onbeat_release_latency_seconds_bucket{le=\"0.00015\"}");
    let late = scraping.value("1 + onbeat:release_latency_late:ratio") - 1.0;
    assert!((0.0..=1.0).contains(&late), "{late}");
    let served_now = value(&served.scraped("text/plain"), COUNT).unwrap();
    assert!(count <= served_now && at_limit <= served_now, "{count}, {at_limit} of {served_now}");
}

#[test]
fn a_real_prometheus_scrapes_native_histograms_of_what_was_measured() {
    let Some(prometheus) = program("prometheus") else { return };
    let served = Served::start("12s");
    served.first();
    let feature = "--enable-feature=native-histograms";
    let mut scraping = Scraping::start(&prometheus, &served, &[feature]);
    // After the run, its last figures are scraped for some seconds: those of the run file.
    scraping.value("onbeat_run_in_progress == bool 0");
    let name = "onbeat_release_latency_seconds";
    let found = [0.5, 0.9, 0.99]
        .map(|share| (share, scraping.value(&format!("histogram_quantile({share}, {name})"))));
    let count = scraping.value(&format!("histogram_count({name})"));
    let sum = scraping.value(&format!("histogram_sum({name})"));
    let limit = scraping.value("onbeat_limit_seconds");
    let late = scraping.value("1 + onbeat:release_latency_late:ratio") - 1.0;

    let run = RunFile::read(&served.run_file()).unwrap();
    let samples = run.distribution(Series::ReleaseLatency);
    assert_eq!(count, samples.count() as f64);
    assert_eq!(limit, 0.00015);
    assert!((0.0..=1.0).contains(&late), "{late}");
    let mean_s = run.moments(Series::ReleaseLatency).mean_ns / 1e9;
    assert!((sum / count / mean_s - 1.0).abs() < 0.01, "{sum} of {count}, mean {mean_s}");
    for (share, quantile) in found {
        // Prometheus reads a quantile between two samples: within a bucket of those beside it.
        let bounds = [share - 0.01, share + 0.009].map(|at| {
            let beyond = (at * count) as u64;
            let mut below = 0;
            let buckets = samples.buckets().iter();
            let mut reached = buckets.skip_while(|bucket| {
                below += bucket.count;
                below <= beyond
            });
            reached.next().map_or(0, |bucket| bucket.low_ns) as f64 / 1e9
        });
        let (low, high) = (bounds[0] / 1.1, bounds[1] * 1.1);
        assert!((low..=high).contains(&quantile), "{share}: {quantile} not in {low} to {high}");
    }
}

#[test]
fn an_address_that_is_taken_is_one_sentence_and_nothing_is_measured() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["measure", "timer", "--for", "1s", "--metrics", &address])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("cannot listen on {address} for the metrics")), "{said}");
    assert!(!directory.path().join("onbeat-runs").exists());
}

/// Names of metrics in a text, without the endings of a histogram's parts.
fn names(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_word(c)).filter(|word| word.starts_with("onbeat_"));
    let parts = ["_bucket", "_count", "_sum"];
    words
        .map(|word| parts.iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word))
        .collect()
}

#[test]
fn dashboard_and_rules_ask_for_metrics_that_are_served() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs/bench");
    let output = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .arg("export")
        .arg(golden)
        .args(["--openmetrics", "-"])
        .output()
        .unwrap();
    let served = String::from_utf8(output.stdout).unwrap();
    let served = names(&served);
    assert!(served.len() > 5, "{served:?}");
    let board = rules().with_file_name("../grafana/onbeat-fleet.json");
    let board: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(board).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() >= panels.len(), "a panel asks nothing: {queries:?}");
    let rules = fs::read_to_string(rules()).unwrap();
    let lines = rules.lines().filter(|line| !line.trim_start().starts_with('#'));
    for query in queries.into_iter().chain(lines.filter(|line| line.contains("onbeat_"))) {
        let asked = names(query);
        assert!(!asked.is_empty() && asked.is_subset(&served), "{query}: {served:?}");
    }
}
