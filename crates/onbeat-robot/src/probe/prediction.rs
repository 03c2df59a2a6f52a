//! Number of cycles of a reaction through a bus: predicted from the exchange mode and the devices,
//! and measured.

use onbeat::record::PredictedChain;
use onbeat_ethercat::description::{Description, DeviceCycle};

/// Tolerance of the prediction, in cycles: releases are late by a fraction of a cycle too.
const TOLERANCE: f64 = 0.1;

/// Prediction of the time from a change at a sensor's input to the cycle of the actor that applies
/// the result, on a bus without latency.
///
/// Frames pass the devices at releases. A sensor without a processor reports its pins when a frame
/// passes: the change waits 0 to 1 cycle. With a processor it reports what it read in its own
/// cycle, one device delay after the previous frame: 1 cycle minus the delay more. A pipelined loop
/// reads that frame one release later and sends the computed outputs with the next release: 2
/// cycles. A loop that waits for the reply sends them with the next release: 1 cycle. The actor
/// applies them one device delay after that frame. With a device delay of half a cycle this gives
/// the 1.5 to 2.5 cycles in and 1.5 out of Yoon, Song and Lee (2009), section 2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prediction {
    /// Minimum in ns: of a change just before its sampling. The maximum is one period more.
    least_ns: u64,
    period_ns: u64,
    is_same_cycle: bool,
    delay_ns: u64,
}

impl Prediction {
    /// Predicts for a sensor and an actor of the segment; `None` if SYNC0 or a vendor's file
    /// determines the cycles of the devices.
    pub(super) fn new(
        description: &Description,
        (sensor, actor): (&str, &str),
        is_same_cycle: bool,
        period_ns: u64,
    ) -> Option<Self> {
        Some(Self::between(
            description.cycle_of(sensor)?,
            description.cycle_of(actor)?,
            is_same_cycle,
            period_ns,
        ))
    }

    fn between(
        sensor: DeviceCycle,
        actor: DeviceCycle,
        is_same_cycle: bool,
        period_ns: u64,
    ) -> Self {
        let through_the_loop = if is_same_cycle { 1 } else { 2 };
        let cycles = through_the_loop + u64::from(sensor.has_processor);
        let least_ns = (cycles * period_ns + actor.delay_ns).saturating_sub(sensor.delay_ns);
        Self { least_ns, period_ns, is_same_cycle, delay_ns: sensor.delay_ns }
    }

    /// Returns it for a run file.
    pub(super) fn note(&self) -> PredictedChain {
        PredictedChain {
            device_delay_ns: self.delay_ns,
            least_ns: self.least_ns,
            most_ns: self.least_ns + self.period_ns,
        }
    }

    /// Returns minimum and maximum, in cycles.
    fn cycles(&self) -> (f64, f64) {
        let least = self.least_ns as f64 / self.period_ns as f64;
        (least, least + 1.0)
    }
}

/// Measured reaction times.
#[derive(Clone, Debug)]
pub(super) struct ReactionTimes {
    prediction: Option<Prediction>,
    period_ns: u64,
    count: u64,
    sum_ns: u64,
    least_ns: u64,
    most_ns: u64,
    within: u64,
    /// Changes without a reaction.
    pub(super) given_up: u64,
}

impl ReactionTimes {
    pub(super) const fn new(period_ns: u64, prediction: Option<Prediction>) -> Self {
        Self {
            prediction,
            period_ns,
            count: 0,
            sum_ns: 0,
            least_ns: u64::MAX,
            most_ns: 0,
            within: 0,
            given_up: 0,
        }
    }

    pub(super) fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += ns;
        (self.least_ns, self.most_ns) = (self.least_ns.min(ns), self.most_ns.max(ns));
        let cycles = ns as f64 / self.period_ns as f64;
        let predicted = self.prediction.map(|it| it.cycles());
        let is_within =
            |(least, most): (f64, f64)| (least - TOLERANCE..=most + TOLERANCE).contains(&cycles);
        self.within += u64::from(predicted.is_some_and(is_within));
    }

    /// Returns sentences that compare both, and report missing reactions.
    pub(super) fn words(&self) -> Vec<String> {
        let cycles = |ns: f64| ns / self.period_ns as f64;
        let mut sentences = Vec::new();
        let measured = match self.count {
            0 => "measured: no reaction".to_owned(),
            n => format!(
                "measured: {:.2} to {:.2}, {:.2} on average of {n}",
                cycles(self.least_ns as f64),
                cycles(self.most_ns as f64),
                cycles(self.sum_ns as f64 / n as f64)
            ),
        };

        sentences.push(match &self.prediction {
            Some(prediction) => {
                let (least, most) = prediction.cycles();
                let exchange = if prediction.is_same_cycle { "same-cycle" } else { "pipelined" };
                let within = 100.0 * self.within as f64 / self.count.max(1) as f64;
                format!(
                    "predicted for a {exchange} exchange and a device delay of {} us: {least:.2} to {most:.2} cycles, {:.2} on average; \
                     {measured}, and {within:.1} % within a tenth of a cycle of the prediction",
                    prediction.delay_ns as f64 / 1e3,
                    (least + most) / 2.0
                )
            }
            None => format!("no prediction, because SYNC0 or a vendor's file determines the cycles of the devices; {measured}, in cycles"),
        });

        if self.given_up > 0 {
            let all = self.count + self.given_up;
            sentences.push(format!(
                "no reaction to {} of {all} changes ({:.3} %); each counts with the time until it was given up, so a limit includes it",
                self.given_up,
                100.0 * self.given_up as f64 / all as f64
            ));
        }

        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_000_000;
    const PINS: DeviceCycle = DeviceCycle { delay_ns: 0, has_processor: false };
    const HALF: DeviceCycle = DeviceCycle { delay_ns: T / 2, has_processor: true };
    const DRIVE: DeviceCycle = DeviceCycle { delay_ns: 0, has_processor: true };

    fn cycles(sensor: DeviceCycle, actor: DeviceCycle, is_same_cycle: bool) -> (f64, f64) {
        Prediction::between(sensor, actor, is_same_cycle, T).cycles()
    }

    #[test]
    fn devices_of_half_a_cycle_make_the_papers_three_to_four() {
        assert_eq!(cycles(HALF, HALF, false), (3.0, 4.0));
        assert_eq!(cycles(HALF, HALF, true), (2.0, 3.0));
    }

    #[test]
    fn without_processors_only_frame_and_loop_add_cycles() {
        assert_eq!(
            (cycles(PINS, PINS, false), cycles(PINS, DRIVE, false)),
            ((2.0, 3.0), (2.0, 3.0))
        );
        assert_eq!(cycles(PINS, DRIVE, true), (1.0, 2.0));
    }

    #[test]
    fn a_delay_on_one_side_is_added_or_subtracted() {
        let quarter = DeviceCycle { delay_ns: T / 4, has_processor: true };
        assert_eq!(cycles(PINS, quarter, false), (2.25, 3.25), "the actor is slow");
        assert_eq!(
            cycles(quarter, PINS, false),
            (2.75, 3.75),
            "the sensor sees the pins a quarter behind the frame before"
        );
    }

    #[test]
    fn prediction_and_measurement_are_reported_together() {
        let mut measured = ReactionTimes::new(T, Some(Prediction::between(HALF, HALF, false, T)));
        [3_050_000, 3_550_000, 4_060_000, 5_100_000].into_iter().for_each(|ns| measured.add(ns));
        measured.given_up = 1;
        let words = measured.words();

        assert!(words[0].contains("500 us: 3.00 to 4.00 cycles, 3.50 on average"), "{words:?}");
        assert!(
            words[0].contains("measured: 3.05 to 5.10, 3.94 on average of 4, and 75.0 % within"),
            "{words:?}"
        );
        assert!(words[1].starts_with("no reaction to 1 of 5 changes (20.000 %)"), "{words:?}");
    }

    #[test]
    fn reactions_without_a_prediction_are_measured_too() {
        let mut measured = ReactionTimes::new(T, None);
        measured.add(2_000_000);
        assert!(
            measured.words()[0].starts_with("no prediction")
                && measured.words()[0].contains("2.00 to 2.00")
        );
        assert!(ReactionTimes::new(T, None).words()[0].contains("measured: no reaction"));
    }
}
