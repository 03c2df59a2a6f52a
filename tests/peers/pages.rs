//! The report: how long a bench of nine tunings under two loads takes to show, and how large the
//! page of an hour is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use onbeat::bench::conduct::BENCH_FILE;
use onbeat::record::{Account, Bench, Cell, Note, Recorder, RunWriter};
use onbeat_rt::{End, Outcome, Sample};

use crate::Length;
use crate::failure::Failure;
use crate::latencies::{self, Latencies, PERIOD_NS, header, recording};
use crate::running::Running;
use crate::table::{Finding, Part, format_times};
use crate::turns::{self, Contestant, Spread, in_turns};

const TUNINGS: [&str; 9] = ["none", "M", "C", "MC", "P", "PM", "PC", "PMC", "PMCS"];
const LOADS: [&str; 2] = ["idle", "paper"];
const BLOCKS: u32 = 12;
/// What a bench of two minutes gives each block.
const CYCLES_PER_BLOCK: u64 = 550;
const HOUR_CYCLES: u64 = 3_600_000;
const HOUR_FILE: &str = "timer.onbeat.hlog";

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let rounds = length.pick(5, 1);
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let [bench, plain, spun] = ["bench", "plain", "spun"].map(|name| dir.path().join(name));
    for dir in [&bench, &plain, &spun] {
        std::fs::create_dir(dir).map_err(Failure::system("make a directory"))?;
    }

    eprintln!("report: making files");
    make_bench(&bench)?;
    let plain_file = make_hour(&plain, Kind::Plain)?;
    let spun_file = make_hour(&spun, Kind::SpunWithWork)?;
    let mut of_bench = |round| timed_run(round, rounds, &bench);
    let mut of_plain = |round| timed_run(round, rounds, &plain_file);
    let mut of_spun = |round| timed_run(round, rounds, &spun_file);
    let contestants: &mut [Contestant<'_, f64>] = &mut [&mut of_bench, &mut of_plain, &mut of_spun];
    let runs = in_turns(rounds, contestants)?;
    let title = format!(
        "`onbeat report` from files, {}: the whole program, tables and page",
        turns::describe(rounds)
    );
    let mut part = Part::alone(title);
    let bench_ns = Spread::from_figures(runs[0].iter().copied());
    part.add(
        Finding::new("a bench of 9 tunings under 2 loads", format_times(bench_ns))
            .with_goal("< 1 s", bench_ns.is_some_and(|s| s.median < 1e9)),
    );
    part.add(Finding::new("its page", megabytes(latencies::size(&bench.join("report.html"))?)));
    let hours = [
        ("an hour at 1 kHz, sleep, no work, five series", &plain),
        ("an hour at 1 kHz, S and work, six series", &spun),
    ];

    for ((what, dir), runs) in hours.into_iter().zip(&runs[1..]) {
        let page = latencies::size(&dir.join("report.html"))?;
        part.add(
            Finding::new(what, format_times(Spread::from_figures(runs.iter().copied())))
                .that_begins_a_group(),
        );
        part.add(Finding::new("its run file", megabytes(latencies::size(&dir.join(HOUR_FILE))?)));
        part.add(Finding::new("its page", megabytes(page)).with_goal("< 3 MB", page < 3_000_000));
    }

    part.remark(
        "How long a browser takes to the first chart is measured by `npm run measure` in viewer/.",
    );
    Ok(part)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

fn timed_run(round: u32, rounds: u32, run: &Path) -> Result<f64, Failure> {
    eprintln!("report: {}, turn {} of {rounds}", run.display(), round + 1);
    report(run)
}

/// Nanoseconds from start to end of the program.
fn report(run: &Path) -> Result<f64, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.arg("report").arg(run);
    let before = Instant::now();
    Running::start(command)?.finish()?;
    Ok(before.elapsed().as_nanos() as f64)
}

fn make_bench(dir: &Path) -> Result<(), Failure> {
    let cells = TUNINGS.iter().flat_map(|tuning| LOADS.map(|load| (tuning, load)));
    for (place, (tuning, load)) in (0_u64..).zip(cells) {
        let cell = Cell::new(*tuning, load);
        let path = dir.join(cell.file_name());
        let writer = RunWriter::create(&path, &header(Some(cell)))?;
        let mut made = Made::new(writer, recording(0), 20_000.0 + 3_000.0 * place as f64, place);
        for block in 0..BLOCKS {
            // Cells take turns: eighteen blocks lie between two of the same cell.
            let at = Duration::from_millis(CYCLES_PER_BLOCK * (u64::from(block) * 18 + place));
            made.block(block, load, onbeat_rt::time::ns(at), CYCLES_PER_BLOCK)?;
        }

        made.recorder.close(&Account::default())?;
    }

    let header = onbeat::record::Header { timing: None, ..header(None) };
    let mut file = RunWriter::create(&dir.join(BENCH_FILE), &header)?;
    file.note(&Note::Bench(Box::new(Bench {
        tunings: TUNINGS.map(str::to_owned).into(),
        loads: LOADS.map(str::to_owned).into(),
        blocks: BLOCKS,
        block_s: CYCLES_PER_BLOCK as f64 * PERIOD_NS as f64 / 1e9,
        ..Bench::default()
    })))?;
    file.note(&Note::End(Account { t: 120.0, ..Account::default() }))?;

    Ok(())
}

fn make_hour(dir: &Path, kind: Kind) -> Result<PathBuf, Failure> {
    let path = dir.join(HOUR_FILE);
    let writer = RunWriter::create(&path, &header(None))?;
    let mut made = Made::new(writer, recording(HOUR_CYCLES * PERIOD_NS), 25_000.0, 1);
    made.kind = kind;
    made.block(0, "idle", 0, HOUR_CYCLES)?;
    made.recorder.close(&Account::default())?;

    Ok(path)
}

/// Which loop the samples are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Sleeps, and does nothing: what `onbeat measure timer` runs by default.
    Plain,
    /// Sleeps and spins, and works some 7 µs.
    SpunWithWork,
}

/// A run file in the making, from drawn samples.
struct Made {
    kind: Kind,
    recorder: Recorder,
    late: Latencies,
    work: Latencies,
}

impl Made {
    fn new(
        writer: RunWriter,
        recording: onbeat::record::Recording,
        median_ns: f64,
        seed: u64,
    ) -> Self {
        let recorder = Recorder::new(writer, onbeat_rt::Instant::from_ns(0), recording);
        let late = Latencies::around(median_ns, seed);
        let work = Latencies::around(7_000.0, seed + 100);
        Self { kind: Kind::SpunWithWork, recorder, late, work }
    }

    fn sample(&mut self) -> Sample {
        let sleep_latency_ns = self.late.next_ns();
        let spun = Sample {
            wakeup_latency_ns: 40 + sleep_latency_ns.saturating_sub(50_000),
            execution_time_ns: self.work.next_ns(),
            sleep_latency_ns,
            spun_ns: 20_000,
            ..Sample::default()
        };

        match self.kind {
            Kind::SpunWithWork => spun,
            // Two readings of the clock lie between the start and the end of no work.
            Kind::Plain => Sample {
                wakeup_latency_ns: sleep_latency_ns,
                execution_time_ns: 20 + sleep_latency_ns % 16,
                spun_ns: 0,
                ..spun
            },
        }
    }

    fn block(
        &mut self,
        index: u32,
        load: &str,
        first_release_ns: u64,
        slots: u64,
    ) -> Result<(), Failure> {
        let first_release = onbeat_rt::Instant::from_ns(first_release_ns);
        self.recorder.begin_block(index, first_release, load, 10)?;
        let mut next = 0;
        let mut skipped = 0;
        let mut cycles = 0;
        let mut last_end = first_release;
        while next < slots {
            let release = first_release.plus_ns(next * PERIOD_NS);
            let sample = Sample { index: next, release, skipped, ..self.sample() };
            self.recorder.sample(&sample, None)?;
            cycles += 1;
            last_end = sample.start().plus_ns(sample.execution_time_ns);
            skipped = (sample.response_time_ns() / PERIOD_NS).min(slots - next - 1);
            next += 1 + skipped;
        }

        let outcome = Outcome {
            end: End::Complete,
            slots,
            cycles,
            skipped: slots - cycles,
            skipped_at_end: skipped,
            last_end,
        };
        self.recorder.end_block(&outcome)?;
        Ok(())
    }
}
