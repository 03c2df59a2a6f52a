//! Faults as the file of a segment, the command line and the fault log name them.

use serde::{Deserialize, Serialize};

/// A fault in words. What is `None` has its usual value; `docs/segment.md` lists kinds and values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultWords {
    /// What goes wrong, such as `lose` or `power-off`.
    pub kind: String,
    /// Name of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Name of the other device, of those that change places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// When, in ms from the first frame; ordered live, from now on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub at_ms: f64,
    /// How long, in ms. `None`: the fault stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<f64>,
    /// Part of the frames that it befalls, 0 to 1.
    #[serde(default = "every", skip_serializing_if = "is_every")]
    pub share: f64,
    /// AL status code, abort code or error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// AL state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<u8>,
    /// How much: ns, parts per billion, or what is added to a working counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<i64>,
    /// How many mails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mails: Option<u32>,
}

fn every() -> f64 {
    1.0
}

fn is_every(share: &f64) -> bool {
    *share >= 1.0
}

fn is_zero(at_ms: &f64) -> bool {
    *at_ms == 0.0
}
