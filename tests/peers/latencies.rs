//! Latencies as a loop has them, drawn the same way each time: most around a median, some far away.

use std::path::Path;

use onbeat::host::Host;
use onbeat::probe;
use onbeat::record::{Cell, Header, Recording, Series, SpikeLimit, Timing, interval_ns_for};

pub(crate) const PERIOD_NS: u64 = 1_000_000;
const STEPS: usize = 4096;
/// One sample in this many is a spike of a fifth to four milliseconds, as a kernel section or a
/// host's pause makes it.
const ONE_SPIKE_IN: u64 = 10_000;
/// One spike in this many is of tens of milliseconds.
const ONE_LONG_IN: u64 = 400;
/// How wide the bulk is: half of the samples are within 17 % of the median.
const SPREAD: f64 = 0.14;

/// A stream of latencies. The same seed gives the same stream.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    state: u64,
    bulk_ns: Vec<u32>,
}

impl Latencies {
    pub(crate) fn around(median_ns: f64, seed: u64) -> Self {
        // Quantiles of a log-logistic distribution: lognormal to the eye, with a heavier tail.
        let quantile = |step: usize| {
            let share = (step as f64 + 0.5) / STEPS as f64;
            (median_ns * (share / (1.0 - share)).powf(SPREAD)) as u32
        };
        Self { state: seed, bulk_ns: (0..STEPS).map(quantile).collect() }
    }

    /// The next one, in nanoseconds.
    #[inline]
    pub(crate) fn next_ns(&mut self) -> u64 {
        let drawn = self.draw();
        let bulk_ns = u64::from(self.bulk_ns[drawn as usize % STEPS]) + (drawn >> 12) % 128;
        if !(drawn >> 20).is_multiple_of(ONE_SPIKE_IN) {
            return bulk_ns;
        }

        let drawn = self.draw();
        if drawn.is_multiple_of(ONE_LONG_IN) {
            5_000_000 + (drawn >> 16) % 45_000_000
        } else {
            200_000 + (drawn >> 16) % 3_800_000
        }
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    #[inline]
    const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A run file's header for made samples.
pub(crate) fn header(cell: Option<Cell>) -> Header {
    let timing = Timing {
        period_ns: PERIOD_NS,
        phase_ns: 0,
        avoids_tick: false,
        deadline_ns: PERIOD_NS,
        work_ns: 0,
        wait: "sleep".to_owned(),
        on_overrun: "skip".to_owned(),
        cpu: None,
        priority: 0,
        delay_ns: 0,
    };

    let header =
        probe::header(&["peers".to_owned()], "timer", &[Series::ReleaseLatency], 1_763_712_000.0);
    Header { host: Host::default(), cell, timing: Some(timing), ..header }
}

/// How `onbeat measure timer` records a run of this length.
pub(crate) fn recording(duration_ns: u64) -> Recording {
    Recording {
        period_ns: PERIOD_NS,
        work_ns: 0,
        interval_ns: interval_ns_for(duration_ns),
        spike_limit: SpikeLimit::TenTimesMedian,
    }
}

/// Bytes of a file.
pub(crate) fn size(path: &Path) -> Result<u64, crate::failure::Failure> {
    Ok(std::fs::metadata(path).map_err(crate::failure::Failure::system("look at a file"))?.len())
}
