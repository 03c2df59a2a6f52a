//! Run files with known contents, written and read by the record room itself.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use onbeat::host::Host;
use onbeat::record::{
    Account, Bench, Block, Cell, Distribution, Entry, Header, LimitNote, Moments, Note, Recorder,
    Recording, RunFile, RunWriter, Series, SpikeLimit, Stall, Timing, Watch,
};
use onbeat_rt::{End, Flags, Instant, Outcome, Sample};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const PERIOD_NS: u64 = MS;
pub const WORK_NS: u64 = 10 * US;

/// The limit that most tests judge by, and the deadline.
const WATCHED: [Watch; 4] = [
    Watch { on: Series::ReleaseLatency, limit_ns: 100 * US, gap: 10 },
    Watch { on: Series::ReleaseLatency, limit_ns: 100 * US, gap: 100 },
    Watch { on: Series::ReleaseLatency, limit_ns: 100 * US, gap: 1_000 },
    Watch { on: Series::ResponseTime, limit_ns: PERIOD_NS, gap: 100 },
];

/// One cycle to be recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycle {
    pub late_ns: u64,
    pub skipped: u64,
    /// Releases before it whose samples did not reach the recorder.
    pub lost: u64,
    pub stall: Option<Stall>,
}

/// A cycle that woke up so late.
pub fn late(late_ns: u64) -> Cycle {
    Cycle { late_ns, ..Cycle::default() }
}

pub fn cell(tuning: &str, load: &str) -> Cell {
    Cell::new(tuning, load)
}

pub fn header(cell: Option<Cell>) -> Header {
    Header {
        schema: Header::SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        id: String::new(),
        machine: String::new(),
        command: vec!["onbeat".to_owned(), "bench".to_owned()],
        probe: "timer".to_owned(),
        series: Vec::new(),
        started_unix_s: 1_763_712_000.5,
        host: Host::default(),
        cell,
        timing: Some(Timing {
            period_ns: PERIOD_NS,
            phase_ns: 0,
            avoids_tick: false,
            deadline_ns: PERIOD_NS,
            work_ns: WORK_NS,
            wait: "sleep".to_owned(),
            on_overrun: "skip".to_owned(),
            cpu: Some(1),
            priority: 0,
            delay_ns: 0,
        }),
        grants: Vec::new(),
        limit: None,
        looks: 0,
        most_alarms: None,
        findings: Vec::new(),
        task: None,
    }
}

/// The bytes of a cell's run file with these blocks of cycles, closed as a run that was complete.
pub fn run_text(cell: &Cell, blocks: &[Vec<Cycle>]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(cell.file_name());
    let writer = RunWriter::create(&path, &header(Some(cell.clone()))).unwrap();
    let recording = Recording {
        period_ns: PERIOD_NS,
        work_ns: WORK_NS,
        interval_ns: 1_000 * MS,
        spike_limit: SpikeLimit::Above(500 * US),
    };

    let mut recorder = Recorder::new(writer, Instant::from_ns(0), recording);
    recorder.watch(&WATCHED);
    let mut first_release = Instant::from_ns(0);
    for (index, cycles) in (0..).zip(blocks) {
        let outcome = record_block(&mut recorder, index, first_release, &cell.load, cycles);
        first_release = outcome.last_end.plus_ns(10 * MS);
    }

    let slots: u64 = blocks.iter().flatten().map(|cycle| 1 + cycle.skipped).sum();
    let closing = Account {
        cpu_ns: slots * PERIOD_NS / 50,
        page_faults: 3,
        involuntary_switches: 2,
        ..Account::default()
    };
    recorder.close(&closing).unwrap();
    std::fs::read_to_string(&path).unwrap()
}

fn record_block(
    recorder: &mut Recorder,
    index: u32,
    first: Instant,
    load: &str,
    cycles: &[Cycle],
) -> Outcome {
    recorder.begin_block(index, first, load, 0).unwrap();
    let mut slot = 0;
    let mut last_end = first;
    for cycle in cycles {
        slot += cycle.skipped + cycle.lost;
        let sample = Sample {
            index: slot,
            release: first.plus_ns(slot * PERIOD_NS),
            wakeup_latency_ns: cycle.late_ns,
            execution_time_ns: WORK_NS,
            sleep_latency_ns: cycle.late_ns,
            skipped: cycle.skipped,
            flags: Flags::default()
                .with_if(Flags::DEADLINE_MISS, cycle.late_ns + WORK_NS > PERIOD_NS),
            ..Sample::default()
        };

        recorder.sample(&sample, cycle.stall).unwrap();
        last_end = sample.start().plus_ns(WORK_NS);
        slot += 1;
    }

    let skipped: u64 = cycles.iter().map(|cycle| cycle.skipped).sum();
    let outcome = Outcome {
        end: End::Complete,
        slots: slot,
        cycles: cycles.len() as u64,
        skipped,
        skipped_at_end: 0,
        last_end,
    };
    recorder.end_block(&outcome).unwrap();
    outcome
}

pub fn read(cell: &Cell, text: &str) -> RunFile {
    RunFile::parse(Path::new(&cell.file_name()), text.as_bytes()).unwrap()
}

/// A cell's run file, written and read back.
pub fn run(tuning: &str, load: &str, blocks: &[Vec<Cycle>]) -> RunFile {
    let cell = cell(tuning, load);
    read(&cell, &run_text(&cell, blocks))
}

/// A run of `n` cycles of which the first `over` are 2 ms late and the others 20 µs.
pub fn run_with_over(tuning: &str, load: &str, n: usize, over: usize) -> RunFile {
    let cycles = (0..n).map(|i| late(if i < over { 2 * MS } else { 20 * US })).collect();
    run(tuning, load, &[cycles])
}

/// The same with every `every`-th of them over.
pub fn run_with_late(tuning: &str, load: &str, n: usize, every: usize) -> RunFile {
    let over = |i: usize| i % every == every - 1;
    run(tuning, load, &[(0..n).map(|i| late(if over(i) { 2 * MS } else { 20 * US })).collect()])
}

/// What a bench was asked for.
pub fn bench_note(tunings: &[&str], loads: &[&str], limit: Option<LimitNote>) -> Bench {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    Bench {
        tunings: words(tunings),
        loads: words(loads),
        blocks: 12,
        block_s: 1.0,
        limit,
        ..Bench::default()
    }
}

/// Writes a bench's own file into a directory.
pub fn write_bench(dir: &Path, bench: Bench) -> PathBuf {
    let path = dir.join("bench.onbeat.hlog");
    let mut writer = RunWriter::create(&path, &header(None)).unwrap();
    writer.note(&Note::Bench(Box::new(bench))).unwrap();
    writer.note(&Note::End(Account { t: 120.2, ..Account::default() })).unwrap();
    path
}

/// A bench's own file.
pub fn bench_file(tunings: &[&str], loads: &[&str], limit: Option<LimitNote>) -> RunFile {
    bench_file_of(bench_note(tunings, loads, limit))
}

/// The same of what was asked for.
pub fn bench_file_of(bench: Bench) -> RunFile {
    let dir = tempfile::tempdir().unwrap();
    RunFile::read(&write_bench(dir.path(), bench)).unwrap()
}

/// A run whose releases are 20 µs late, and `over` of them, in groups of three all over the run, 2 ms.
pub fn with_outages(n: usize, over: usize) -> Vec<Cycle> {
    let groups = over / 3;
    let is_over = |i: usize| i * groups % n < 3 * groups;
    (0..n).map(|i| late(if is_over(i) { 2 * MS } else { 20 * US + i as u64 % 97 })).collect()
}

/// A run whose wake-up latencies are given block by block, without the detour through bytes.
pub fn run_in_memory(tuning: &str, load: &str, blocks: &[Vec<u64>]) -> RunFile {
    let cell = cell(tuning, load);
    let mut run = read(&cell, &run_text(&cell, &[]));
    run.blocks.clear();
    let cycles = blocks.iter().map(Vec::len).sum::<usize>() as u64;
    run.end = Some(Account { slots: cycles, cycles, ..Account::default() });
    for (index, latencies) in (0..).zip(blocks) {
        let t = f64::from(index);
        run.blocks.push(Block { index, t, load: load.to_owned(), warmup: 0, releases: None });
        let counts = Distribution::from_values(latencies.iter().copied());
        for series in [Series::ReleaseLatency, Series::WakeupLatency] {
            run.entries.push(Entry {
                series,
                t,
                length: 1.0,
                block: Some(index),
                counts: counts.clone(),
            });
        }

        let mut moments = Moments::default();
        latencies.iter().for_each(|&ns| moments.add(ns));
        run.intervals.push(onbeat::record::Interval {
            t,
            length: 1.0,
            block: index,
            cycles: latencies.len() as u64,
            series: BTreeMap::from([(Series::WakeupLatency, moments)]),
            ..Default::default()
        });
    }

    run
}
