//! The timer probe: how late a periodic loop starts when it does nothing else.
//!
//! From the release `r_k` that the loop's timer was set to, to the first instant `s_k` at which its
//! code ran. With planned work, the cycle polls the clock for that long, as a controller of that
//! length would.

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Instant, Task};

use super::description::{Alone, Defaults, Description, OnGrid, Parts};
use onbeat_record::{Figures, NoFigures, Series};

/// The description of the probe.
pub const TIMER: Description = Description {
    name: "timer",
    sentence: "Wake-up latency: from timer expiry to the first instruction of the cycle, as cyclictest does",
    examples: "  onbeat measure timer --for 30s
  onbeat measure timer --period 500us --work 200us --wait spin=50us --cpu 1
  onbeat measure timer --for 5m --load paper --limit 100us --at 99.99 --json",
    series: &[Series::ReleaseLatency],
    defaults: Defaults::LOOP,
    choices: &[],
    line_a_second: false,
    open: |setting, _| Ok(parts(setting.work_ns, Box::new(NoFigures))),
};

/// Returns the parts of a loop that works for `work_ns` in each cycle, and whose figures these are.
#[must_use]
pub fn parts(work_ns: u64, figures: Box<dyn Figures>) -> Parts {
    let body = Box::new(OnGrid { task: Timer { work_ns }, has_ports: false });
    Parts { body, figures, companion: Box::new(Alone) }
}

/// Polls the clock until `work_ns` have passed since `start`, as a controller would compute for
/// that time.
pub fn work(start: Instant, work_ns: u64) {
    let until = start.plus_ns(work_ns);
    while work_ns > 0 && Monotonic.now() < until {
        core::hint::spin_loop();
    }
}

/// A cycle that works for a set time.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Planned work per cycle, in nanoseconds; 0 for none.
    pub work_ns: u64,
}

impl Task for Timer {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        work(cycle.start, self.work_ns);
        Flow::Continue
    }
}
