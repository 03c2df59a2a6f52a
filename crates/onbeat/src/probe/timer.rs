//! The timer probe: how late does a periodic loop start, when it does nothing else?
//!
//! From the release `r_k` that the loop's timer was set to, to the first instant `s_k` at which its code ran. With
//! planned work, the cycle polls the clock for that long, as a controller of that length would.

use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow, Task};

/// A cycle that works for a set time.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Planned work per cycle, in nanoseconds; 0 for none.
    pub work_ns: u64,
}

impl Task for Timer {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let until = cycle.start.plus_ns(self.work_ns);
        while self.work_ns > 0 && Monotonic.now() < until {
            core::hint::spin_loop();
        }
        Flow::Continue
    }
}
