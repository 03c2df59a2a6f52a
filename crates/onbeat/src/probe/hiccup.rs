//! The hiccup probe: delays of the platform alone, seen by a program that only sleeps.
//!
//! A loop sleeps to its release every millisecond; a hiccup is its wake-up latency minus the
//! smallest one seen so far, as jHiccup counts it (G. Tene; its README calls the smallest time for
//! which a sleep took the baseline). Where jHiccup assumes what samples a long hiccup has
//! swallowed, here each skipped release is known: its own hiccup counts from the instant it was
//! due.

use onbeat_rt::Sample;

use super::description::{Alone, Defaults, Description, OnGrid, Parts};
use super::timer::Timer;
use onbeat_record::{Figures, Series};

/// The description of the probe.
pub const HICCUP: Description = Description {
    name: "hiccup",
    sentence: "From the smallest wake-up latency seen to this one: what the platform takes from a program that only sleeps",
    examples: "  onbeat measure hiccup --for 30s
      needs no rights; the run file opens in every reader of jHiccup's logs
  onbeat measure hiccup --for 0 --beside 4711
      until process 4711 ends
  sudo onbeat measure hiccup --priority 98 --cpu 1 --for 24h",
    series: &[Series::Hiccup],
    defaults: Defaults { period: "1ms", priority: "0", duration: "10s" },
    choices: &[],
    line_a_second: false,
    open: |setting, _| {
        Ok(Parts {
            body: Box::new(OnGrid { task: Timer { work_ns: setting.work_ns }, has_ports: false }),
            figures: Box::new(Hiccups::new(setting.period_ns)),
            companion: Box::new(Alone),
        })
    },
};

/// Wake-up latencies beyond the smallest one.
#[derive(Debug)]
pub struct Hiccups {
    smallest_ns: u64,
    period_ns: u64,
}

impl Hiccups {
    /// Returns figures without a sample, for a loop with this period in nanoseconds.
    #[must_use]
    pub const fn new(period_ns: u64) -> Self {
        Self { smallest_ns: u64::MAX, period_ns }
    }
}

impl Figures for Hiccups {
    fn series(&self) -> &'static [Series] {
        HICCUP.series
    }

    fn of(&mut self, sample: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        self.smallest_ns = self.smallest_ns.min(sample.wakeup_latency_ns);
        let hiccup_ns = sample.wakeup_latency_ns - self.smallest_ns;
        for passed in 0..=sample.skipped {
            count(Series::Hiccup, hiccup_ns + passed * self.period_ns);
        }
    }
}
