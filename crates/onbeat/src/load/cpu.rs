//! `cpu`: keeps each CPU busy for a share of every 10 ms.
//!
//! Slices begin at absolute instants, so that the share does not drift with the cost of a slice.
//! The reached share is measured with the threads' CPU clocks, because a preempted thread is not
//! busy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onbeat_host::thread::thread_cpu_ns;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::Clock;

use super::builtin::{BuiltIn, WorkerContext};
use super::event::PartWork;
use super::ordinary::{allowed_cpus, pin};

const SLICE_NS: u64 = 10_000_000;
/// Rounds of arithmetic between two clock readings: about a microsecond.
const ROUNDS: u64 = 500;

/// The part `cpu`, with one thread on each CPU.
pub(super) struct CpuLoad {
    percent: u8,
    cpus: Vec<usize>,
    busy_ns: Vec<AtomicU64>,
}

impl CpuLoad {
    /// Makes the part for the CPUs that the calling thread may run on.
    pub(super) fn new(percent: u8) -> Self {
        let cpus = allowed_cpus();
        let busy_ns = cpus.iter().map(|_| AtomicU64::new(0)).collect();
        Self { percent, cpus, busy_ns }
    }
}

impl BuiltIn for CpuLoad {
    fn plan(&self) -> String {
        format!("cpu: {} CPUs busy for {} % of each 10 ms", self.cpus.len(), self.percent)
    }

    fn threads(&self) -> usize {
        self.cpus.len()
    }

    fn work(&self, thread: usize, context: &WorkerContext) -> Result<(), std::io::Error> {
        pin(self.cpus[thread])?;
        let busy_ns = SLICE_NS / 100 * u64::from(self.percent);
        let clock = Monotonic;
        let mut slice = clock.now();
        let mut number = thread as u64;
        while !context.is_over() {
            let pause = slice.plus_ns(busy_ns);
            while clock.now() < pause {
                number = arithmetic(number);
            }

            self.busy_ns[thread].store(thread_cpu_ns(), Ordering::Relaxed);
            slice = slice.plus_ns(SLICE_NS);
            let now = clock.now();
            if now.as_ns() > slice.as_ns() + SLICE_NS {
                // The machine had no time for whole slices. Lost time is not made up for, and shows
                // in the reached share.
                slice = now;
            } else if now < slice {
                // A signal may end the sleep early; then one slice begins early.
                let _ = clock.sleep_until(slice);
            }
        }

        std::hint::black_box(number);
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn did(&self, elapsed: Duration) -> PartWork {
        let busy: u64 = self.busy_ns.iter().map(|ns| ns.load(Ordering::Relaxed)).sum();
        let whole = elapsed.as_nanos() as f64 * self.cpus.len() as f64;
        PartWork::Cpu {
            cpus: u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            wanted_share: f64::from(self.percent) / 100.0,
            reached_share: if whole > 0.0 { (busy as f64 / whole).min(1.0) } else { 0.0 },
        }
    }
}

/// Does integer work without memory accesses: steps of xorshift (Marsaglia, 2003).
fn arithmetic(mut number: u64) -> u64 {
    number |= 1;
    for _ in 0..ROUNDS {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
    }

    std::hint::black_box(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::builtin::try_out;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    const LEAST_TIME: Duration = Duration::from_millis(200);

    fn on_one_cpu(percent: u8) -> Arc<CpuLoad> {
        let mut cpu = CpuLoad::new(percent);
        cpu.cpus.truncate(1);
        Arc::new(cpu)
    }

    fn share(cpu: &CpuLoad, elapsed: Duration) -> f64 {
        match cpu.did(elapsed) {
            PartWork::Cpu { cpus: 1, reached_share, wanted_share } => {
                assert!((wanted_share - f64::from(cpu.percent) / 100.0).abs() < 1e-9);
                reached_share
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_larger_share_keeps_the_cpu_busier() {
        // At the same time, so that both compete with the same other work, and until the machine
        // had time for both.
        let [little, much] = [15, 80].map(on_one_cpu);
        let is_over = AtomicBool::new(false);
        let started = Instant::now();
        let mut shares = (0.0, 0.0);
        std::thread::scope(|threads| {
            threads.spawn(|| try_out(little.clone(), |_| is_over.load(Ordering::Relaxed)));
            try_out(much.clone(), |_| {
                let elapsed = started.elapsed();
                shares = (share(&little, elapsed), share(&much, elapsed));
                elapsed >= LEAST_TIME && 0.0 < shares.0 && shares.0 < shares.1
            });
            is_over.store(true, Ordering::Relaxed);
        });

        assert!(0.0 < shares.0 && shares.0 < shares.1, "{shares:?}");
    }
}
