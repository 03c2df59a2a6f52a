//! A chain through a bus, counted in cycles: predicted beside measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::statistics::{Percentile, Share, Statistics};
use super::units::{Letters, count, time_ns};
use onbeat_record::{RunFile, Series};

/// A chain from a sensor to an actor of a bus, in cycles of its loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainCycles {
    /// Device whose input changes.
    pub sensor: String,
    /// Device whose output follows.
    pub actor: String,
    /// When replies are read: `pipelined`, `same-cycle`.
    pub exchange: String,
    /// Period of the loop, in nanoseconds.
    pub period_ns: u64,
    /// Device delay of the prediction, in nanoseconds; `None` as for `predicted`.
    pub device_delay_ns: Option<u64>,
    /// Smallest and largest number of cycles on a bus without latency; `None` if SYNC0 or a vendor's
    /// file determines the cycles of the devices.
    pub predicted: Option<[f64; 2]>,
    /// Number of changes measured.
    pub count: u64,
    /// Smallest number of cycles.
    pub min: f64,
    /// Median number of cycles.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Whether enough changes support `p99`.
    pub p99_supported: bool,
    /// Largest number of cycles.
    pub max: f64,
}

impl ChainCycles {
    /// Returns the chain of a run; `None` without one, or before its first change.
    #[must_use]
    pub fn from_run(run: &RunFile, series: &BTreeMap<Series, Statistics>) -> Option<Self> {
        let note = run.chain.as_ref()?;
        let measured = series.get(&Series::Chain)?;
        let period_ns = run.header.timing.as_ref()?.period_ns;
        let cycles = |ns: u64| ns as f64 / period_ns.max(1) as f64;
        let percentile = |share| measured.percentile(share);
        let in_cycles = |of: Option<Percentile>| of.map_or(0.0, |of| cycles(of.value_ns));

        Some(Self {
            sensor: note.sensor.clone(),
            actor: note.actor.clone(),
            exchange: note.exchange.clone(),
            period_ns,
            device_delay_ns: note.predicted.map(|predicted| predicted.device_delay_ns),
            predicted: note.predicted.map(|it| [cycles(it.least_ns), cycles(it.most_ns)]),
            count: measured.count,
            min: cycles(measured.min_ns),
            p50: in_cycles(percentile(Share::P50)),
            p99: in_cycles(percentile(Share::P99)),
            p99_supported: percentile(Share::P99).is_some_and(|p99| p99.supported),
            max: cycles(measured.max_ns),
        })
    }

    /// Returns prediction and measurement as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { sensor, actor, exchange, min, p50, p99, max, .. } = self;
        let predicted = match (self.predicted, self.device_delay_ns) {
            (Some([least, most]), Some(delay_ns)) => {
                let delay = time_ns(delay_ns, Letters::Ascii);
                format!("predicted {least:.2} to {most:.2} cycles (device delay {delay})")
            }
            _ => "no prediction, because SYNC0 or a vendor's file determines the devices' cycles"
                .to_owned(),
        };
        format!(
            "Command to effect, {sensor} to {actor}, {exchange}: {predicted}; measured {min:.2} to {max:.2} of {}, \
             p50 {p50:.2}, p99 {}{p99:.2}",
            count(self.count),
            if self.p99_supported { "" } else { "~" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prediction_and_measurement_stand_in_one_sentence() {
        let chain = ChainCycles {
            sensor: "pelvis".to_owned(),
            actor: "left knee".to_owned(),
            exchange: "pipelined".to_owned(),
            period_ns: 1_000_000,
            device_delay_ns: Some(500_000),
            predicted: Some([3.0, 4.0]),
            count: 1_200,
            min: 3.01,
            p50: 3.5,
            p99: 4.02,
            p99_supported: true,
            max: 4.4,
        };
        assert_eq!(
            chain.sentence(),
            "Command to effect, pelvis to left knee, pipelined: predicted 3.00 to 4.00 cycles (device delay 500 us); \
             measured 3.01 to 4.40 of 1,200, p50 3.50, p99 4.02"
        );
        let without = ChainCycles { predicted: None, p99_supported: false, ..chain };
        assert!(
            without.sentence().contains("no prediction") && without.sentence().contains("~4.02")
        );
    }
}
