//! What a chain through a bus is made of, and how long it is predicted to take.

use serde::{Deserialize, Serialize};

/// A chain from a change at a sensor's input to the cycle of the actor that applies the result,
/// written before the first change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainNote {
    /// Device whose input changes.
    pub sensor: String,
    /// Device that follows.
    pub actor: String,
    /// When replies are read: `pipelined`, `same-cycle`.
    pub exchange: String,
    /// The prediction; `None` if SYNC0 or a vendor's file determines the cycles of the devices.
    pub predicted: Option<PredictedChain>,
}

/// How long a chain is predicted to take on a bus without latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedChain {
    /// From the passing of a frame to the cycle of the sensor, in ns.
    pub device_delay_ns: u64,
    /// Of a change just before its sampling, in ns.
    pub least_ns: u64,
    /// Of a change just after its sampling, in ns.
    pub most_ns: u64,
}
