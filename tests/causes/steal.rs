//! Steal time in explanations, compared with the kernel's counter.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant as Wall};

use onbeat::cause::counters::CounterSource;
use onbeat::cause::{CauseKind, Explainer, FlightSetting, LoopThread};
use onbeat::thread::ThreadRequest;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

use crate::planted::{Row, explanation};

/// `USER_HZ` is 100 on every architecture Linux runs on today.
const TICK_NS: u64 = 10_000_000;

/// Steal time of a CPU, from `/proc/stat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StealCounter {
    cpu: u32,
    ticks: u64,
}

impl StealCounter {
    pub(crate) fn now(cpu: u32) -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
        let ticks = line.and_then(|line| line.split_ascii_whitespace().nth(7)?.parse().ok());
        Self { cpu, ticks: ticks.unwrap_or(0) }
    }

    pub(crate) fn since(self, earlier: &Self) -> Self {
        Self { ticks: self.ticks - earlier.ticks, ..self }
    }

    /// Returns the sentence. Steal time while the loop was not late is not in any explanation, so
    /// explanations can only name less.
    pub(crate) fn beside<'r>(self, rows: impl Iterator<Item = &'r Row>) -> String {
        let explanations = rows.filter_map(Row::done).flat_map(|done| {
            let others = done.others.iter().filter_map(|late| late.explanation.as_ref());
            done.felt.iter().filter_map(explanation).chain(others)
        });

        let causes = explanations.flat_map(|explanation| &explanation.causes);
        let named: u64 = causes
            .filter(|cause| cause.kind == CauseKind::HypervisorSteal)
            .map(|cause| cause.ns)
            .sum();
        format!(
            "\n## Steal\n\nExplanations name {:.1} ms of steal; /proc/stat counts {:.0} ms on CPU {} over all runs, late cycles \
             or not, in ticks of 10 ms.\n",
            named as f64 / 1e6,
            (self.ticks * TICK_NS) as f64 / 1e6,
            self.cpu
        )
    }
}

/// Compares the readings that explanations use, summed over `whole`, with the kernel's counter for
/// the same time.
pub(crate) fn side_by_side(cpu: u32, whole: Duration) -> Result<String, String> {
    let (tid, over) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|threads| {
        threads.spawn(|| {
            let wanted = ThreadRequest {
                fifo: Some(90),
                cpu: Some(cpu),
                lock_memory: false,
                dma_latency_us: None,
            };
            let _ = wanted.prepare_thread();
            tid.store(
                rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs(),
                Ordering::Release,
            );
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });

        while tid.load(Ordering::Acquire) == 0 {
            thread::sleep(Duration::from_millis(1));
        }

        let thread =
            LoopThread { tid: tid.load(Ordering::Acquire), cpu: Some(cpu), fifo: Some(90) };
        let result = watched(thread, cpu, whole);
        over.store(true, Ordering::Relaxed);
        result
    })
}

fn watched(thread: LoopThread, cpu: u32, whole: Duration) -> Result<String, String> {
    let (explainer, grants) = Explainer::open_with_grants(thread, &FlightSetting::default());
    let mut explainer = explainer
        .ok_or_else(|| grants.iter().find_map(|grant| grant.why_not.clone()).unwrap_or_default())?;
    thread::sleep(Duration::from_millis(20));
    let begun = Wall::now();
    let before = (reading(&mut explainer, cpu)?, StealCounter::now(cpu));
    thread::sleep(whole);
    let after = (reading(&mut explainer, cpu)?, StealCounter::now(cpu));
    let counted_ns = after.0 - before.0;
    let accounted_ns = after.1.since(&before.1).ticks * TICK_NS;
    let apart_ns = counted_ns.abs_diff(accounted_ns);
    let agree = apart_ns <= TICK_NS || apart_ns as f64 <= 0.05 * accounted_ns as f64;
    Ok(format!(
        "Steal on CPU {cpu} over {:.0} s: the readings add up to {:.1} ms, /proc/stat to {} ms in ticks of 10 ms; they are \
         {:.1} ms apart: {}",
        begun.elapsed().as_secs_f64(),
        counted_ns as f64 / 1e6,
        accounted_ns / 1_000_000,
        apart_ns as f64 / 1e6,
        if agree {
            "they agree within 5 % or one tick"
        } else {
            "THEY DO NOT AGREE within 5 % or one tick"
        },
    ))
}

/// Returns the newest reading of the steal counter.
fn reading(explainer: &mut Explainer, cpu: u32) -> Result<u64, String> {
    let counters = explainer.counters(Instant::from_ns(0), Monotonic.now());
    if counters.source != CounterSource::Bpf {
        return Err("the BPF programs do not load".to_owned());
    }

    let newest = counters
        .readings
        .iter()
        .rev()
        .filter(|reading| reading.cpu == cpu)
        .find_map(|reading| reading.steal_ns);
    newest.ok_or_else(|| "no reading of the loop's CPU".to_owned())
}
