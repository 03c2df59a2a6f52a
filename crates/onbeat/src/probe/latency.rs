//! The latency probe: the test of Xenomai's `latency`, on any Linux.
//!
//! A loop of 100 µs at the highest priority; a line a second with the smallest, mean and largest
//! wake-up latency and the overruns, then how these are spread over the run, as in the appendix of
//! the thesis that tuned a virtual machine with it (a line each for the minima, all samples and the
//! maxima).

use super::description::{Defaults, Description};
use super::timer::parts;
use onbeat_record::{NoFigures, Series};

/// The description of the probe.
pub const LATENCY: Description = Description {
    name: "latency",
    sentence: "From a release every 100 us, at priority 99, to the first instruction of its cycle, second by second",
    examples: "  sudo onbeat measure latency --for 10m
      what Xenomai's latency does by default, for ten minutes
  sudo onbeat measure latency --period 1ms --cpu 1 --load paper",
    series: &[Series::ReleaseLatency],
    defaults: Defaults { period: "100us", priority: "99", duration: "10s" },
    choices: &[],
    line_a_second: true,
    open: |setting, _| Ok(parts(setting.work_ns, Box::new(NoFigures))),
};
