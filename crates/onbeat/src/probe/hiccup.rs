//! The hiccup probe: delays of the platform alone, seen by a program that only sleeps.
//!
//! A loop sleeps to its release every millisecond; a hiccup is its wake-up latency minus the
//! smallest one seen so far, as jHiccup counts it (G. Tene; its README calls the smallest time for
//! which a sleep took the baseline). Where jHiccup assumes what samples a long hiccup has
//! swallowed, here each skipped release is known: its own hiccup counts from the instant it was
//! due.
//!
//! With `--like-jhiccup` the rule is jHiccup's own, so that the figures stand beside those of a Java
//! virtual machine, which has no sleep to an instant: a relative sleep, again and again; a hiccup is
//! how much longer the time from one wake-up to the next is than the shortest so far; and one longer
//! than the sleep is counted once more for each sleep that it took the place of (HdrHistogram's
//! `recordValueWithExpectedInterval`). `java -jar onbeat.jar hiccup` measures by the same rule.

use onbeat_rt::{Sample, Wait};

use super::description::{Defaults, Description};
use super::error::ProbeError;
use super::option::{OptionKind, ProbeOption};
use super::timer::parts;
use onbeat_record::{Figures, Series};

/// The description of the probe.
pub const HICCUP: Description = Description {
    name: "hiccup",
    sentence: "Platform stalls seen by a sleeping thread, as jHiccup does",
    examples: "  onbeat measure hiccup --for 30s
      needs no rights; the run file opens in every reader of jHiccup's logs
  onbeat measure hiccup --for 0 --beside 4711
      until process 4711 ends
  sudo onbeat measure hiccup --priority 98 --cpu 1 --for 24h
  onbeat measure hiccup --like-jhiccup --for 24h
      beside `java -jar onbeat.jar hiccup --for 24h` on Windows or macOS",
    series: &[Series::Hiccup],
    defaults: Defaults { period: "1ms", priority: "0", duration: "10s" },
    choices: &[ProbeOption {
        name: LIKE_JHICCUP,
        help: "Count as jHiccup: relative sleeps, long ones counted for each that they replace\n\
               For comparisons with `java -jar onbeat.jar hiccup` and with jHiccup itself: the rule is the same.",
        default: None,
        kind: OptionKind::Switch,
    }],
    line_a_second: false,
    open: |setting, given| {
        let figures: Box<dyn Figures> = if given.is_set(LIKE_JHICCUP) {
            if !matches!(setting.wait, Wait::Sleep | Wait::Relative { margin_ns: 0 }) {
                return Err(ProbeError::NoMeaning {
                    option: "--wait",
                    why: "--like-jhiccup sleeps for the period after each wake-up, as jHiccup does",
                });
            }
            setting.wait = Wait::Relative { margin_ns: 0 };
            Box::new(LikeJhiccup::new(setting.period_ns))
        } else {
            Box::new(Hiccups::new(setting.period_ns))
        };

        Ok(parts(setting.work_ns, figures))
    },
};

/// The option that makes [`HICCUP`] count by jHiccup's rule.
pub const LIKE_JHICCUP: &str = "like-jhiccup";

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

/// What a sleep takes beyond the shortest one, by jHiccup's rule.
#[derive(Debug)]
pub struct LikeJhiccup {
    shortest_ns: u64,
    sleep_ns: u64,
}

impl LikeJhiccup {
    /// Returns figures without a sample, for sleeps of this length in nanoseconds.
    #[must_use]
    pub const fn new(sleep_ns: u64) -> Self {
        Self { shortest_ns: u64::MAX, sleep_ns }
    }
}

impl Figures for LikeJhiccup {
    fn series(&self) -> &'static [Series] {
        HICCUP.series
    }

    fn of(&mut self, sample: &Sample, before: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        let woke = |sample: &Sample| sample.release.plus_ns(sample.wakeup_latency_ns);
        let Some(before) = before else { return };
        let took_ns = woke(sample).ns_since(woke(before));
        self.shortest_ns = self.shortest_ns.min(took_ns);
        let mut hiccup_ns = took_ns - self.shortest_ns;
        count(Series::Hiccup, hiccup_ns);
        while hiccup_ns >= self.sleep_ns.saturating_mul(2).max(1) {
            hiccup_ns -= self.sleep_ns;
            count(Series::Hiccup, hiccup_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use onbeat_rt::Instant;

    use super::*;

    fn counted(wakes_ns: &[u64]) -> Vec<u64> {
        let mut figures = LikeJhiccup::new(1_000);
        let samples = wakes_ns.iter().map(|&ns| Sample {
            release: Instant::from_ns(ns - 7),
            wakeup_latency_ns: 7,
            ..Sample::default()
        });
        let samples: Vec<Sample> = samples.collect();
        let mut all = Vec::new();
        for (place, sample) in samples.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| &samples[before]);
            figures.of(sample, before, &mut |_, ns| all.push(ns));
        }
        all
    }

    #[test]
    fn a_hiccup_is_what_a_sleep_takes_beyond_the_shortest_so_far() {
        assert!(counted(&[10_000]).is_empty(), "the first wake-up ends no sleep");
        assert_eq!(counted(&[10_000, 11_100, 12_150, 13_300]), [0, 0, 100]);
    }

    /// `Histogram.recordValueWithExpectedInterval` of HdrHistogram: the value, and then less the
    /// interval again and again while at least an interval is left.
    #[test]
    fn a_long_one_counts_for_each_sleep_that_it_replaced_as_hdrhistogram_corrects() {
        assert_eq!(counted(&[10_000, 11_000, 16_500]), [0, 4_500, 3_500, 2_500, 1_500]);
        assert_eq!(counted(&[10_000, 11_000, 13_999]), [0, 1_999], "999 are left: none");
        assert_eq!(counted(&[10_000, 11_000, 14_000]), [0, 2_000, 1_000]);
    }
}
