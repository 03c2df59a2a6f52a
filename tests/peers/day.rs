//! A day of a 1 kHz loop through the real loop and the real recorder, on a clock without a kernel:
//! how long, how much memory, how large a file, and every account even at the end.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::record::{Account, Recorder, RunFile, RunWriter, Series, WriteError};
use onbeat_report::units::count;
use onbeat_rt::ring::Ring;
use onbeat_rt::{
    Consumer, Cycle, Flow, Instant, MockClock, OnOverrun, Plan, Sample, Slot, Task, Wait, cycle,
    split,
};
use serde::{Deserialize, Serialize};

use crate::Length;
use crate::alone::{in_a_child, resident_kib};
use crate::failure::{Failure, even};
use crate::latencies::{self, Latencies, PERIOD_NS};
use crate::table::{Finding, Part};

/// The word that makes this program the child that runs the day and does nothing else, so that its
/// memory is the day's.
pub(crate) const ROLE: &str = "one-day-and-nothing-else";

const HOUR_NS: u64 = 3_600_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;
/// Slots of the ring, and cycles between two visits of the recorder.
const RING: usize = 4096;
const DRAIN_EVERY: u64 = 2048;

/// What the child reports.
#[derive(Debug, Serialize, Deserialize)]
struct ChildReport {
    seconds: f64,
    first_minute_kib: u64,
    second_minute_kib: u64,
    end_kib: u64,
    slots: u64,
    cycles: u64,
    skipped: u64,
    worst_ns: u64,
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let hours: u64 = length.pick(24, 1);
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let path = dir.path().join("day.onbeat.hlog");
    eprintln!("day: {hours} hours of virtual time");
    let words = hours.to_string();
    let report: ChildReport = in_a_child(ROLE, &[path.as_os_str(), words.as_ref()])?;
    audit(&RunFile::read(&path)?, &report, hours)?;
    let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / 1024.0 / 1024.0);
    let grown = report.end_kib.saturating_sub(report.first_minute_kib);
    let grown_later = report.end_kib.saturating_sub(report.second_minute_kib);
    let bytes = latencies::size(&path)?;
    let title = format!(
        "{} slots at 1 kHz ({hours} h) through loop, ring and recorder, in virtual time",
        count(report.slots)
    );
    let mut part = Part::alone(title);
    part.add(
        Finding::new("time", format!("{:.1} s", report.seconds))
            .with_goal("< 60 s", report.seconds < 60.0),
    );
    part.add(
        Finding::new("memory at the end", mib(report.end_kib * 1024))
            .with_goal("≤ 12 MiB", report.end_kib <= 12 * 1024),
    );
    part.add(
        Finding::new("memory grown after the first minute", format!("{grown} KiB"))
            .with_goal("< 64 KiB", grown < 64),
    );
    part.add(Finding::new("memory grown after the second minute", format!("{grown_later} KiB")));
    part.add(
        Finding::new("run file", format!("{:.2} MB", bytes as f64 / 1e6))
            .with_goal("< 10 MB", bytes < 10_000_000),
    );
    part.remark(composition(&path)?);
    part.remark(format!(
        "Every account is even: {} cycles, {} skipped, none lost; the worst wake-up latency is the one that was drawn.",
        count(report.cycles),
        count(report.skipped)
    ));

    Ok(part)
}

/// What the bytes of a run file are.
fn composition(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::system("read the run file"))?;
    let megabytes = |is: &dyn Fn(&str) -> bool| {
        let bytes: usize = text.lines().filter(|line| is(line)).map(|line| line.len() + 1).sum();
        bytes as f64 / 1e6
    };

    let is_histogram = |line: &str| {
        line.starts_with("Tag=") || line.starts_with(|first: char| first.is_ascii_digit())
    };
    let kinds = ["interval", "maxima", "spike"].map(|kind| {
        let note = format!("#[onbeat: {{\"{kind}\"");
        megabytes(&|line| line.starts_with(&note))
    });

    Ok(format!(
        "The run file is {:.2} MB of histograms, {:.2} MB of intervals' moments, {:.2} MB of maxima, {:.2} MB of spikes.",
        megabytes(&is_histogram),
        kinds[0],
        kinds[1],
        kinds[2]
    ))
}

/// Checks that the order to the child, its report and the run file agree.
fn audit(run: &RunFile, report: &ChildReport, hours: u64) -> Result<(), Failure> {
    let slots = hours * HOUR_NS / PERIOD_NS;
    let account = run.end.clone().unwrap_or_default();
    even("slots of the day", slots, account.slots)?;
    even("slots by the loop's own account", account.slots, report.slots)?;
    even("cycles and skipped releases together", slots, report.cycles + report.skipped)?;
    even("lost samples", 0, account.lost)?;
    even("samples in histograms", report.cycles, run.distribution(Series::WakeupLatency).count())?;
    even("samples in exact moments", report.cycles, run.moments(Series::WakeupLatency).n)?;
    even(
        "skipped releases in histograms",
        report.skipped,
        run.distribution(Series::SkippedLatency).count(),
    )?;
    even("periods", report.cycles - 1, run.distribution(Series::ObservedPeriod).count())?;
    even("the worst wake-up latency", report.worst_ns, run.moments(Series::WakeupLatency).max_ns)?;
    let seconds: usize = run
        .maxima
        .iter()
        .filter_map(|note| note.series.get(&Series::ReleaseLatency))
        .map(Vec::len)
        .sum();

    even("seconds with a maximum", slots * PERIOD_NS / 1_000_000_000, seconds as u64)
}

/// Runs the day and prints one line of JSON.
pub(crate) fn child(path: &Path, hours: &str) -> Result<(), Failure> {
    let duration_ns = hours.parse::<u64>().unwrap_or(1) * HOUR_NS;
    let drawn = RefCell::new(Latencies::around(25_000.0, 1));
    let worst_ns = Cell::new(0);
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| {
        let late_ns = drawn.borrow_mut().next_ns();
        worst_ns.set(late_ns.max(worst_ns.get()));
        late_ns
    });

    let first_release = Instant::from_ns(PERIOD_NS);
    let mut slots: Vec<Slot<Sample>> = (0..RING).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).map_err(Failure::Ring)?;
    let (mut hot, cold) = split(&mut ring);
    let writer = RunWriter::create(path, &latencies::header(None))?;
    let mut recorder = Recorder::new(writer, first_release, latencies::recording(duration_ns));
    recorder.begin_block(0, first_release, "idle", 0)?;
    let work = Latencies::around(7_000.0, 2);
    let mut day = Day {
        clock: &clock,
        work,
        cold,
        recorder,
        cycles: 0,
        minutes_kib: Vec::with_capacity(2),
        failed: None,
    };
    let plan = Plan {
        period_ns: PERIOD_NS,
        first_release,
        deadline_ns: PERIOD_NS,
        releases: duration_ns / PERIOD_NS,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    resident_kib();
    let started = std::time::Instant::now();
    let outcome = cycle::run(&clock, &plan, &mut day, &mut hot, &AtomicBool::new(false));
    day.drain()?;
    day.failed.map_or(Ok(()), Err)?;
    day.recorder.end_block(&outcome)?;
    let end_kib = resident_kib();
    day.recorder.close(&Account::default())?;
    let report = ChildReport {
        seconds: started.elapsed().as_secs_f64(),
        first_minute_kib: day.minutes_kib.first().copied().unwrap_or(0),
        second_minute_kib: day.minutes_kib.get(1).copied().unwrap_or(0),
        end_kib,
        slots: outcome.slots,
        cycles: outcome.cycles,
        skipped: outcome.skipped,
        worst_ns: worst_ns.get(),
    };

    println!("{}", serde_json::json!(report));
    Ok(())
}

/// The loop's task, which is its recorder too: in virtual time nothing happens beside anything
/// else.
struct Day<'d, L> {
    clock: &'d MockClock<L>,
    work: Latencies,
    cold: Consumer<'d, Sample>,
    recorder: Recorder,
    cycles: u64,
    /// After each of the first two minutes.
    minutes_kib: Vec<u64>,
    failed: Option<WriteError>,
}

impl<L: Fn(Instant) -> u64> Task for Day<'_, L> {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        self.clock.spend(self.work.next_ns());
        self.cycles += 1;
        if !self.cycles.is_multiple_of(DRAIN_EVERY) {
            return Flow::Continue;
        }

        self.failed = self.drain().err();
        // A minute is in the file when a release after it has come to the recorder.
        let written_ns = (self.minutes_kib.len() as u64 + 1) * MINUTE_NS;
        if self.minutes_kib.len() < 2
            && cycle.release.as_ns() > written_ns + DRAIN_EVERY * PERIOD_NS
        {
            self.minutes_kib.push(resident_kib());
        }

        if self.failed.is_some() { Flow::Stop } else { Flow::Continue }
    }
}

impl<L> Day<'_, L> {
    fn drain(&mut self) -> Result<(), WriteError> {
        while let Some(sample) = self.cold.pop() {
            self.recorder.sample(&sample, None)?;
        }
        Ok(())
    }
}
