//! What a chain through a bus is made of, and how long it is predicted to take.

use serde::{Deserialize, Serialize};

/// The chain from a change at a sensor's input to the cycle of the actor that applies the result;
/// once, before the first change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainNote {
    /// Device whose input changes.
    pub sensor: String,
    /// Device whose output follows.
    pub actor: String,
    /// When replies are read: `pipelined`, `same-cycle`.
    pub exchange: String,
    /// Prediction on a bus without latency; `None` if SYNC0 or a vendor's file determines the
    /// cycles of the devices.
    pub predicted: Option<PredictedChain>,
}

/// How long a chain is predicted to take on a bus without latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedChain {
    /// From the passage of a frame to the cycle of the sensor, in nanoseconds.
    pub device_delay_ns: u64,
    /// From a change at the sensor just before it samples to the cycle of the actor, in
    /// nanoseconds.
    pub least_ns: u64,
    /// The same from a change just after it samples, in nanoseconds.
    pub most_ns: u64,
}
