//! Faults in the notation of segment files, the command line and the fault log.

use serde::{Deserialize, Serialize};

/// A fault of a segment file. `None` stands for the default; `docs/segment.md` lists kinds and
/// values.
///
/// ```
/// use onbeat_ethercat::description::FaultTable;
///
/// let fault = FaultTable { kind: "power-off".to_owned(), device: Some("left knee".to_owned()), ..FaultTable::default() };
/// assert_eq!(fault.for_ms, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultTable {
    /// Kind of the fault, such as `lose` or `power-off`.
    pub kind: String,
    /// Name of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Name of the other device, for two devices that are swapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// Start time in ms from the first frame; from now on when injected into a running segment.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub at_ms: f64,
    /// Duration in ms; `None`: until healed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<f64>,
    /// Fraction of frames affected, 0 to 1.
    #[serde(default = "every", skip_serializing_if = "is_every")]
    pub share: f64,
    /// AL status code, abort code or error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// AL state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<u8>,
    /// Amount: ns, parts per billion, or an offset of the working counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<i64>,
    /// Number of mails.
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
