//! What recording costs: the loop's push, hot and cold, beside counting into a histogram in the
//! loop itself; and the recorder's share of a CPU.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use onbeat::record::{Recorder, RunWriter, Series, empty_counts};
use onbeat_report::units::percent;
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Consumer, Producer, Sample, Slot, split};

use crate::Length;
use crate::failure::{Failure, even};
use crate::latencies::{self, Latencies, PERIOD_NS};
use crate::table::{Finding, Part, format_time, format_times};
use crate::turns::{self, Contestant, Spread, in_turns};

/// As many as `onbeat measure timer` has at 1 kHz.
const RING: usize = 16_384;
/// Operations between two readings of the clock.
const BATCH: u64 = 512;
/// How often the recorder empties the ring of a run.
const DRAIN_EVERY: Duration = Duration::from_millis(5);
const RECORDED: u64 = 1_000_000;

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let rounds = length.pick(5, 1);
    let mut part = Part::new(
        format!(
            "Recording one sample, {}: onbeat pushes it into the ring; beside it, one series counted into a histogram",
            turns::describe(rounds)
        ),
        "histogram",
    );
    let batches = length.pick(400, 100);

    for (what, drained) in [
        ("hot, back to back", Drained::BetweenBatches),
        ("hot, ring emptied every 5 ms", Drained::ByAThread(DRAIN_EVERY)),
        ("hot, ring emptied all the time", Drained::ByAThread(Duration::ZERO)),
    ] {
        eprintln!("recording: {what}");
        let mut ours = |round| match drained {
            Drained::BetweenBatches => hot_alone(batches, round),
            Drained::ByAThread(pause) => hot_push(pause, batches, round),
        };
        let mut theirs = |round| Ok(hot_record(batches, round));
        let runs = in_turns(rounds, &mut [&mut ours as Contestant<'_, f64>, &mut theirs])?;
        let median = Spread::from_figures(runs[0].iter().copied());
        let finding = Finding::new(what, format_ns(median))
            .beside(format_ns(Spread::from_figures(runs[1].iter().copied())))
            .with_ratio(Spread::of_ratios(&runs[0], &runs[1]));
        let reached = median.is_some_and(|s| s.median <= 3.0);
        let with_goal = matches!(drained, Drained::BetweenBatches);
        part.add(if with_goal { finding.with_goal("≤ 3 ns", reached) } else { finding });
    }

    cold(&mut part, rounds, length.pick(600, 100))?;
    eprintln!("recording: the recorder");
    let mut recorder = |round| recorder_ns(round);
    let runs = in_turns(rounds, &mut [&mut recorder as Contestant<'_, f64>])?;
    let cost = Spread::from_figures(runs[0].iter().copied());
    part.add(Finding::new("recorder, per sample", format_times(cost)).that_begins_a_group());
    let share = cost.map_or(f64::NAN, |s| s.median / PERIOD_NS as f64);
    part.add(Finding::new("recorder's part of a CPU at 1 kHz", percent(share)));
    part.remark(format!(
        "Hot: medians of {BATCH} in a row, by one reading of the clock. Cold: one per ms, after reading {} KiB of other memory \
         ({}), the cost of the clock taken away. The recorder counts a sample into its series, keeps exact moments, and writes an interval each second.",
        other_memory().1 / 1024,
        other_memory().0,
    ));

    Ok(part)
}

/// Who empties the ring.
#[derive(Clone, Copy)]
enum Drained {
    /// The same thread, off the clock: what is written stays in its caches.
    BetweenBatches,
    /// Another thread, with this pause: the ring's memory goes to and fro between CPUs.
    ByAThread(Duration),
}

fn format_ns(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |s| format!("{:.2} ns", s.median))
}

fn drawn(seed: u32) -> Vec<u64> {
    let mut drawn = Latencies::around(25_000.0, u64::from(seed) + 1);
    (0..BATCH).map(|_| drawn.next_ns()).collect()
}

/// A sample made as the loop makes it: from figures in registers.
#[inline(always)]
fn sample(index: u64, wakeup_latency_ns: u64) -> Sample {
    let release = onbeat_rt::Instant::from_ns(index * PERIOD_NS);
    Sample {
        index,
        release,
        wakeup_latency_ns,
        execution_time_ns: black_box(7_000),
        ..Sample::default()
    }
}

/// Nanoseconds per push, the ring emptied between batches off the clock.
fn hot_alone(batches: u32, round: u32) -> Result<f64, Failure> {
    let mut slots: Vec<Slot<Sample>> = (0..RING).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).map_err(Failure::Ring)?;
    let (mut hot, mut cold) = split(&mut ring);
    let latencies = drawn(round);
    let mut popped = 0;
    let costs: Vec<f64> = (0..batches)
        .map(|_| {
            let before = Instant::now();
            for (index, latency_ns) in (0..).zip(&latencies) {
                hot.push(sample(index, *black_box(latency_ns)));
            }

            let cost = before.elapsed().as_nanos() as f64 / BATCH as f64;
            popped += std::iter::from_fn(|| cold.pop()).map(black_box).count() as u64;
            cost
        })
        .collect();
    even(
        "pushed samples, popped or counted as lost",
        u64::from(batches) * BATCH,
        popped + cold.lost(),
    )?;

    Ok(Spread::from_figures(costs).map_or(f64::NAN, |s| s.median))
}

/// Nanoseconds per push, while another thread empties the ring.
fn hot_push(pause: Duration, batches: u32, round: u32) -> Result<f64, Failure> {
    let mut slots: Vec<Slot<Sample>> = (0..RING).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).map_err(Failure::Ring)?;
    let (mut hot, cold) = split(&mut ring);
    let latencies = drawn(round);
    let ended = AtomicBool::new(false);
    let (per_push, taken) = scope(|threads| {
        let drain = threads.spawn(|| empty_until(cold, pause, &ended));
        let mut costs = Vec::with_capacity(batches as usize);
        for _ in 0..batches {
            // Ten batches are in the ring at most, whatever the other thread does: nothing is lost
            // by being too fast.
            sleep(DRAIN_EVERY / 10);
            let before = Instant::now();
            for (index, latency_ns) in (0..).zip(&latencies) {
                hot.push(sample(index, *black_box(latency_ns)));
            }

            costs.push(before.elapsed().as_nanos() as f64 / BATCH as f64);
        }

        ended.store(true, Ordering::Release);
        (Spread::from_figures(costs).map_or(f64::NAN, |s| s.median), drain.join().unwrap_or((0, 0)))
    });

    let (popped, lost) = taken;
    even("pushed samples, popped or counted as lost", u64::from(batches) * BATCH, popped + lost)?;
    Ok(per_push)
}

/// How many came, and how many were lost.
fn empty_until(mut cold: Consumer<'_, Sample>, pause: Duration, ended: &AtomicBool) -> (u64, u64) {
    let mut popped = 0;
    loop {
        let last = ended.load(Ordering::Acquire);
        while let Some(sample) = cold.pop() {
            black_box(sample);
            popped += 1;
        }

        if last {
            return (popped, cold.lost());
        }
        if !pause.is_zero() {
            sleep(pause);
        }
    }
}

/// Nanoseconds per value counted into a histogram of the same bounds: what a loop without a ring
/// would do, for one series.
fn hot_record(batches: u32, round: u32) -> f64 {
    let latencies = drawn(round);
    let mut counts = empty_counts(Series::WakeupLatency);
    let costs = (0..batches).map(|_| {
        sleep(DRAIN_EVERY / 10);
        let before = Instant::now();
        for latency_ns in &latencies {
            counts.saturating_record(*black_box(latency_ns));
        }
        before.elapsed().as_nanos() as f64 / BATCH as f64
    });

    Spread::from_figures(costs.collect::<Vec<_>>()).map_or(f64::NAN, |s| s.median)
}

/// One operation per millisecond, after other memory has been read.
fn cold(part: &mut Part, rounds: u32, each: u32) -> Result<(), Failure> {
    eprintln!("recording: cold");
    let mut other = vec![1_u8; other_memory().1];
    let mut slots: Vec<Slot<Sample>> = (0..RING).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).map_err(Failure::Ring)?;
    let (mut hot, mut reader) = split(&mut ring);
    let mut counts = empty_counts(Series::WakeupLatency);
    let mut pushes = Vec::new();
    let mut records = Vec::new();

    for round in 0..rounds {
        let samples: Vec<Sample> =
            (0..).zip(drawn(round)).map(|(index, latency_ns)| sample(index, latency_ns)).collect();
        let mut costs = [Vec::new(), Vec::new(), Vec::new()];
        for turn in 0..each {
            let sample = &samples[turn as usize % samples.len()];
            for (place, cost) in costs.iter_mut().enumerate() {
                other[turn as usize] =
                    other.iter().step_by(64).fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
                sleep(Duration::from_nanos(PERIOD_NS));
                cost.push(timed(|| match place {
                    0 => push(&mut hot, sample),
                    1 => counts.saturating_record(sample.wakeup_latency_ns),
                    _ => {}
                }));
            }

            while reader.pop().is_some() {}
        }

        let [pushed, recorded, empty] =
            costs.map(|cost| Spread::from_figures(cost).map_or(f64::NAN, |s| s.median));
        pushes.push((pushed - empty).max(0.0));
        records.push((recorded - empty).max(0.0));
    }

    let median = Spread::from_figures(pushes.iter().copied());
    part.add(
        Finding::new("cold, once per ms", format_times(median))
            .beside(format_time(
                Spread::from_figures(records.iter().copied()).map_or(f64::NAN, |s| s.median),
            ))
            .with_ratio(Spread::of_ratios(&pushes, &records))
            .with_goal("≤ 0.5 µs", median.is_some_and(|s| s.median <= 500.0)),
    );

    Ok(())
}

fn push(hot: &mut Producer<'_, Sample>, sample: &Sample) {
    hot.push(*black_box(sample));
}

/// Nanoseconds between two readings of the loop's clock, which has been read just before, as the
/// loop does.
#[inline(never)]
fn timed(mut operation: impl FnMut()) -> f64 {
    black_box(Monotonic.now());
    let before = Monotonic.now();
    operation();
    Monotonic.now().ns_since(before) as f64
}

/// Twice the second-level cache of this machine, so that nothing of the loop stays in it: which,
/// and how many bytes.
fn other_memory() -> (&'static str, usize) {
    let size =
        fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").unwrap_or_default();
    let kib = size.trim().strip_suffix('K').and_then(|kib| kib.parse::<usize>().ok());
    kib.map_or(("the cache size is unknown here", 2 << 20), |kib| {
        ("twice the second-level cache", kib * 2048)
    })
}

/// Nanoseconds per sample on the cold side, with the writing of intervals.
fn recorder_ns(round: u32) -> Result<f64, Failure> {
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let writer = RunWriter::create(&dir.path().join("cost.onbeat.hlog"), &latencies::header(None))?;
    let start = onbeat_rt::Instant::from_ns(0);
    let mut recorder = Recorder::new(writer, start, latencies::recording(0));
    recorder.begin_block(0, start, "idle", 0)?;
    let mut drawn = Latencies::around(25_000.0, u64::from(round) + 1);
    let latencies: Vec<u64> = (0..4096).map(|_| drawn.next_ns()).collect();
    let before = Instant::now();

    for index in 0..RECORDED {
        let sample = Sample {
            index,
            release: start.plus_ns(index * PERIOD_NS),
            wakeup_latency_ns: latencies[index as usize % latencies.len()],
            execution_time_ns: 7_000,
            ..Sample::default()
        };
        recorder.sample(&sample, None)?;
    }

    let cost = before.elapsed().as_nanos() as f64 / RECORDED as f64;
    even("recorded samples", RECORDED, recorder.progress().cycles)?;
    Ok(cost)
}
