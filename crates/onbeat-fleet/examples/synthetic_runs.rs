//! Run files of benches that never ran, to try a data set of many machines with: `synthetic_runs DIR RUNS [HOSTS] [FIRST]`,
//! or `synthetic_runs DIR --plan FILE RUNS FIRST` for runs whose facts and tails are those of the lines of a plan (`tests/fleet/planted.py plan`).
//!
//! A run is a bench of 18 cells (9 tunings, 2 loads) of 60,000 releases, in one interval a cell: real ones have one a second. Series are those of
//! a loop. Run `k` is night `k / HOSTS` of host `k % HOSTS`; a tenth of the hosts has a kernel under which all latencies are doubled.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use onbeat_host::machine::Host;
use onbeat_record::{
    Account, Bench, Block, Cell, FindingNote, Header, Interval, LimitNote, Moments, Note,
    RunWriter, Series, empty_counts,
};
use serde::Deserialize;

const TUNINGS: [&str; 9] = ["none", "P", "M", "C", "PM", "PC", "MC", "PMC", "PMCS"];
const LOADS: [&str; 2] = ["idle", "paper"];
const RELEASES: u64 = 60_000;
const STARTED_S: f64 = 1_793_491_200.0;
const DAY_S: f64 = 86_400.0;
/// One draw of so many is of the tail.
const EVERY_TAIL: u64 = 500;
type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: synthetic_runs DIR RUNS [HOSTS] [FIRST], or DIR --plan FILE RUNS FIRST";
    if let [dir, plan, file, runs, first] = &words[..]
        && plan == "--plan"
    {
        let text = fs::read_to_string(file)?;
        let lines = text.lines().enumerate().skip(first.parse()?).take(runs.parse()?);
        for (run, line) in lines {
            write_run(Path::new(dir), run as u64, &serde_json::from_str(line)?)?;
        }
        return Ok(());
    }
    let number = |place: usize, usual: u64| words.get(place).map_or(Ok(usual), |word| word.parse());
    let dir = words.first().ok_or(usage)?;
    let (runs, hosts, first) = (number(1, 100)?, number(2, 400)?, number(3, 0)?);
    for run in first..first + runs {
        write_run(Path::new(dir), run, &Planned::usual(run, hosts.max(1)))?;
    }
    Ok(())
}

/// What a run is to be.
#[derive(Deserialize)]
struct Planned {
    host: u64,
    started_s: f64,
    /// Factor of all latencies.
    scale: f64,
    facts: BTreeMap<String, String>,
}

impl Planned {
    fn usual(run: u64, hosts: u64) -> Self {
        let mut random = Rng::with_seed(run);
        let (host, night) = (run % hosts, run / hosts);
        let is_bad = host.is_multiple_of(10);
        // A host differs from others, and a night of it from others of its own.
        let host_scale = (Rng::with_seed(1_000_000 + host).f64() - 0.5).exp();
        let facts = [
            ("kernel", if is_bad { "6.6.1-bad" } else { "6.1.9-rt" }),
            ("distribution", "Debian GNU/Linux 12 (bookworm)"),
            ("board", if host.is_multiple_of(3) { "B-200" } else { "A-100" }),
            ("BIOS", "1.42"),
            ("processor", "Synthetic CPU"),
            ("memory", "8.0 GiB"),
        ];
        Self {
            host,
            started_s: STARTED_S + night as f64 * DAY_S + random.f64() * 3600.0,
            scale: host_scale * if is_bad { 2.0 } else { 1.0 } * (0.2 * (random.f64() - 0.5)).exp(),
            facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }
}

fn write_run(dir: &Path, run: u64, planned: &Planned) -> Result<(), Failure> {
    let mut random = Rng::with_seed(run);
    let folder = dir.join(format!("run-{run:06}"));
    fs::create_dir_all(&folder)?;
    let header = header(run, planned);
    let bench = Header { probe: "bench".to_owned(), series: Vec::new(), ..header.clone() };
    let mut file = RunWriter::create(&folder.join("bench.onbeat.hlog"), &bench)?;
    file.note(&Note::Bench(Box::new(bench_note())))?;
    file.note(&Note::End(Account { t: 60.0, ..Account::default() }))?;
    for (number, tuning) in TUNINGS.iter().enumerate() {
        for load in LOADS {
            let cell = Cell::new(*tuning, load);
            let factor = (9 - number) as f64 / 2.0 * if load == "paper" { 3.0 } else { 1.0 };
            write_cell(&folder, &header, cell, planned.scale * factor, &mut random)?;
        }
    }
    Ok(())
}

fn header(run: u64, planned: &Planned) -> Header {
    let host = planned.host;
    let facts = planned.facts.iter().map(|(name, value)| (name.as_str(), Some(value.clone())));
    let new = Header::new(
        &["onbeat".to_owned(), "bench".to_owned()],
        "timer",
        &[Series::ReleaseLatency],
        planned.started_s,
    );
    let id = u128::from(run + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Header {
        id: format!("{id:032x}"),
        machine: format!("{:032x}", u128::from(host + 1) << 88),
        host: Host::from_facts(facts),
        findings: vec![FindingNote {
            id: "cpu.governor".to_owned(),
            title: "frequency governor".to_owned(),
            effect: 2,
            current: if host.is_multiple_of(4) { "powersave" } else { "schedutil" }.to_owned(),
            wanted: "performance".to_owned(),
            takes: "now".to_owned(),
            mends: Vec::new(),
        }],
        ..new
    }
}

fn bench_note() -> Bench {
    Bench {
        tunings: TUNINGS.map(str::to_owned).to_vec(),
        loads: LOADS.map(str::to_owned).to_vec(),
        blocks: 1,
        block_s: 60.0,
        limit: Some(LimitNote { limit_ns: 100_000, at: 99.9, on: Series::ReleaseLatency }),
        ..Bench::default()
    }
}

fn write_cell(
    folder: &Path,
    header: &Header,
    cell: Cell,
    scale: f64,
    random: &mut Rng,
) -> Result<(), Failure> {
    let path = folder.join(cell.file_name());
    let block =
        Block { index: 0, t: 0.0, load: cell.load.clone(), warmup: 0, releases: Some(RELEASES) };
    let header = Header { cell: Some(cell), findings: Vec::new(), ..header.clone() };
    let mut file = RunWriter::create(&path, &header)?;
    file.note(&Note::Block(block))?;
    drop(file);

    // What a recorder would have appended: a line per series.
    let mut interval = Interval { length: 60.0, cycles: RELEASES, ..Interval::default() };
    let mut lines = String::new();
    for (series, center) in [
        (Series::ReleaseLatency, 6_000.0 * scale),
        (Series::ObservedPeriod, 1_000_000.0),
        (Series::ExecutionTime, 9_000.0),
        (Series::ResponseTime, 6_000.0 * scale + 9_000.0),
        (Series::SleepLatency, 6_000.0 * scale),
    ] {
        let width = if series == Series::ObservedPeriod { 0.004 } else { 0.45 };
        let moments = write_line(series, center, width, random, &mut lines)?;
        let series = if series == Series::ReleaseLatency { Series::WakeupLatency } else { series };
        interval.series.insert(series, moments);
    }
    let end = Account { t: 60.0, slots: RELEASES, cycles: RELEASES, ..Account::default() };
    for note in [Note::Interval(Box::new(interval)), Note::End(end)] {
        lines += &format!("#[onbeat: {}]\n", serde_json::to_string(&note)?);
    }
    let mut text = fs::read_to_string(&path)?;
    text += &lines;
    Ok(fs::write(&path, text)?)
}

/// A line of log-normal samples. Every draw counts for several releases in the middle, and the largest for one each, so that a histogram has as
/// many filled buckets as one of real releases.
fn write_line(
    series: Series,
    center: f64,
    width: f64,
    random: &mut Rng,
    lines: &mut String,
) -> Result<Moments, Failure> {
    let mut counts = empty_counts(series);
    let mut moments = Moments::default();
    let draws = RELEASES / 12;
    let tails = draws / EVERY_TAIL;
    for draw in 0..draws {
        // The tail is spread evenly, so that p99.9 differs little between runs alike.
        let (normal, tail) = if draw % EVERY_TAIL == 0 {
            (0.0, 4.0 * ((draw / EVERY_TAIL) as f64 + random.f64()) / tails as f64)
        } else {
            ((0..6).map(|_| random.f64()).sum::<f64>() - 3.0, 0.0)
        };
        let ns = (center * (width * (normal * 1.4 + tail)).exp()) as u64;
        counts.record_n(ns.max(1), 12)?;
        let ns = ns.max(1);
        moments =
            moments.merged(Moments { n: 12, min_ns: ns, max_ns: ns, mean_ns: ns as f64, m2: 0.0 });
    }
    let mut encoded = Vec::new();
    V2DeflateSerializer::new().serialize(&counts, &mut encoded)?;
    let tag = if series == Series::ReleaseLatency {
        String::new()
    } else {
        format!("Tag={},", series.tag())
    };
    let most_ms = counts.max() as f64 / 1e6;
    lines.push_str(&format!("{tag}0.000,60.000,{most_ms:.3},{}\n", STANDARD.encode(encoded)));
    Ok(moments)
}
