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

/// A value that a fault cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fault \"{fault}\" has {key} = {value}, which must be {must}")]
pub struct FaultValueError {
    /// Kind of the fault.
    pub fault: String,
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// Valid values, in words.
    pub must: &'static str,
}

impl FaultTable {
    /// Checks that the fault can have its values; none is changed to fit.
    ///
    /// # Errors
    /// [`FaultValueError`] with the first value that it cannot have.
    pub fn check(&self) -> Result<(), FaultValueError> {
        let require = |key, value: String, is_valid: bool, must| {
            let fault = self.kind.clone();
            if is_valid { Ok(()) } else { Err(FaultValueError { fault, key, value, must }) }
        };
        let share = "0 to 1, such as 0.05 for 5 %";
        require("share", self.share.to_string(), (0.0..=1.0).contains(&self.share), share)?;
        let time = "0 or more, in ms";
        require("at_ms", self.at_ms.to_string(), self.at_ms >= 0.0, time)?;
        let for_ms = self.for_ms.unwrap_or(0.0);
        require("for_ms", for_ms.to_string(), for_ms >= 0.0, time)?;

        let kind = self.kind.as_str();
        let code = self.code.unwrap_or(0);
        let is_valid = kind == "mail-abort" || u16::try_from(code).is_ok();
        require("code", format!("{code:#x}"), is_valid, "0 to 0xffff")?;
        let state = self.state.unwrap_or(8);
        let states = "1 (INIT), 2 (PREOP), 4 (SAFEOP) or 8 (OP)";
        require("state", state.to_string(), matches!(state, 1 | 2 | 4 | 8), states)?;

        let by = self.by.unwrap_or(0);
        let (is_valid, must) = match kind {
            "late" | "slow-state" | "mail-slow" => (by >= 0, "0 or more, in ns"),
            "counter-off" => ((-1_000..=1_000).contains(&by), "-1000 to 1000"),
            "module-missing" => ((0..=253).contains(&by), "the number of a slot, 0 to 253"),
            _ => (true, ""),
        };
        require("by", by.to_string(), is_valid, must)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_fit_is_an_error_and_not_another_value() {
        let fault =
            |kind: &str| FaultTable { kind: kind.to_owned(), share: 1.0, ..FaultTable::default() };
        assert_eq!(fault("emergency").check(), Ok(()));
        let abort = FaultTable { code: Some(0x0609_0030), ..fault("mail-abort") };
        assert_eq!(abort.check(), Ok(()), "abort codes have 32 bits");

        let wrong = [
            (FaultTable { code: Some(0x1_8611), ..fault("emergency") }, "code = 0x18611"),
            (FaultTable { code: Some(0x0609_0030), ..fault("al-error") }, "code = 0x6090030"),
            (FaultTable { state: Some(5), ..fault("refuse-state") }, "state = 5"),
            (FaultTable { by: Some(-1), ..fault("late") }, "by = -1"),
            (FaultTable { by: Some(70_000), ..fault("counter-off") }, "by = 70000"),
            (FaultTable { by: Some(254), ..fault("module-missing") }, "by = 254"),
            (FaultTable { for_ms: Some(-5.0), ..fault("cut") }, "for_ms = -5"),
            (FaultTable { at_ms: f64::NAN, ..fault("cut") }, "at_ms = NaN"),
            (FaultTable { share: 5.0, ..fault("lose") }, "share = 5"),
        ];
        for (table, said) in wrong {
            let why = table.check().unwrap_err().to_string();
            assert!(why.contains(&format!("has {said}, which must be ")), "{why}");
        }
    }
}
