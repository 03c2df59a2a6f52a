//! Faults in words: as the file of a segment, the command line and the fault log tell them.

use onbeat_ethercat::description::FaultWords;
use onbeat_rt::time::Instant;

use super::fault::Fault;
use super::link::Link;
use super::segment::Segment;

/// Faults that can be there or planned at once, when they are ordered one by one.
const MOST: usize = 64;

/// Why words mean no fault of a segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such kind.
    #[error("there is no fault \"{0}\"; `onbeat segment fault --list` lists those there are")]
    Unknown(String),
    /// It is one of devices, and none was named.
    #[error("fault \"{0}\" is one of a device; say which by --device")]
    WantsDevice(String),
    /// Two devices, and one was named.
    #[error("fault \"{0}\" is one of two devices; name the other by --with")]
    WantsOther(String),
    /// No such device.
    #[error("the segment has no device \"{0}\"; `onbeat segment status` lists those it has")]
    UnknownDevice(String),
    /// Enough is wrong already.
    #[error("{0} faults are there or planned already, no more have room; `onbeat segment heal` ends them")]
    TooMany(usize),
}

/// Kinds of faults: the word, what it is of, and the values it looks at.
pub const FAULT_KINDS: [(&str, &str, &str); 25] = [
    ("lose", "frames", "share"),
    ("late", "frames", "by (ns), share"),
    ("duplicate", "frames", "share"),
    ("reorder", "frames", "share"),
    ("truncate", "frames", "share"),
    ("flip", "frames", "share"),
    ("counter-off", "a device, or all", "by"),
    ("cut", "the cable to a device", ""),
    ("swap", "a device and another", "with"),
    ("unplug", "a device", ""),
    ("power-off", "a device", ""),
    ("al-error", "a device", "code"),
    ("refuse-state", "a device", "state, code"),
    ("slow-state", "a device", "by (ns)"),
    ("sii-busy", "a device's EEPROM", ""),
    ("sii-checksum", "a device's EEPROM", ""),
    ("sii-blank", "a device's EEPROM", ""),
    ("mail-mute", "a device's mailbox", ""),
    ("mail-lost", "a device's replies", "mails"),
    ("mail-counter", "a device's replies", "mails"),
    ("mail-abort", "a device's next SDO request", "code"),
    ("emergency", "a device", "code"),
    ("clock-step", "a device's clock", "by (ns)"),
    ("clock-drift", "a device's quartz", "by (parts per billion)"),
    ("freeze", "a device's inputs", ""),
];

/// The fault that the words mean, for the device at this place and the one it changes places with; `None` when there is none of this
/// kind, or it wants a device.
pub(crate) fn fault_of(words: &FaultWords, device: Option<usize>, with: Option<usize>) -> Option<Fault> {
    let by_ns = |usual: i64| words.by.unwrap_or(usual);
    let time_ns = |usual: i64| u64::try_from(by_ns(usual)).unwrap_or_default();
    let mails = words.mails.unwrap_or(1);
    let code = |usual: u16| words.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(usual);
    let of_frames = match words.kind.as_str() {
        "lose" => Some(Fault::Lose),
        "late" => Some(Fault::Late { by_ns: time_ns(2_000_000) }),
        "duplicate" => Some(Fault::Duplicate),
        "reorder" => Some(Fault::Reorder),
        "truncate" => Some(Fault::Truncate),
        "flip" => Some(Fault::Flip),
        "counter-off" => Some(Fault::CounterOff { device, by: by_ns(1).clamp(-1_000, 1_000) as i16 }),
        _ => None,
    };

    let of_device = |device: usize| {
        Some(match words.kind.as_str() {
            "cut" => Fault::Cut { device },
            "swap" => Fault::Swap { device, with: with? },
            "unplug" => Fault::Unplug { device },
            "power-off" => Fault::PowerOff { device },
            "al-error" => Fault::AlError { device, code: code(0x0001) },
            "refuse-state" => Fault::RefuseState { device, state: words.state.unwrap_or(8), code: code(0x0001) },
            "slow-state" => Fault::SlowState { device, by_ns: time_ns(100_000_000) },
            "sii-busy" => Fault::SiiBusy { device },
            "sii-checksum" => Fault::SiiChecksum { device },
            "sii-blank" => Fault::SiiBlank { device },
            "mail-mute" => Fault::MailMute { device },
            "mail-lost" => Fault::MailLost { device, mails },
            "mail-counter" => Fault::MailCounter { device, mails },
            "mail-abort" => Fault::MailAbort { device, code: words.code.unwrap_or(0x0800_0000) },
            "emergency" => Fault::Emergency { device, code: code(0x5000) },
            "clock-step" => Fault::ClockStep { device, by_ns: by_ns(100_000) },
            "clock-drift" => Fault::ClockDrift { device, by_ppb: by_ns(100_000) },
            "freeze" => Fault::Freeze { device },
            _ => return None,
        })
    };

    of_frames.or_else(|| device.and_then(of_device))
}

/// A fault in words; `name` gives the names of devices.
pub(crate) fn words_of<'n>(fault: &Fault, name: impl Fn(usize) -> Option<&'n str>) -> FaultWords {
    let device = fault.device().and_then(&name).map(str::to_owned);
    let mut words = FaultWords { kind: fault.word().to_owned(), device, share: 1.0, ..FaultWords::default() };
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    match *fault {
        Fault::Swap { with, .. } => words.with = name(with).map(str::to_owned),
        Fault::Late { by_ns } | Fault::SlowState { by_ns, .. } => words.by = Some(signed(by_ns)),
        Fault::CounterOff { by, .. } => words.by = Some(i64::from(by)),
        Fault::ClockStep { by_ns, .. } => words.by = Some(by_ns),
        Fault::ClockDrift { by_ppb, .. } => words.by = Some(by_ppb),
        Fault::AlError { code, .. } | Fault::Emergency { code, .. } => words.code = Some(u32::from(code)),
        Fault::MailAbort { code, .. } => words.code = Some(code),
        Fault::RefuseState { state, code, .. } => {
            (words.state, words.code) = (Some(state), Some(u32::from(code)));
        }
        Fault::MailLost { mails, .. } | Fault::MailCounter { mails, .. } => words.mails = Some(mails),
        _ => (),
    }

    words
}
impl Segment {
    /// A fault in words, with the name of its device.
    #[must_use]
    pub fn told(&self, fault: &Fault) -> FaultWords {
        words_of(fault, |device| self.devices.get(device).map(|device| &*device.name))
    }
}

impl Link {
    /// Has a fault begin at `now`, or `at_ms` later.
    ///
    /// # Errors
    /// [`FaultError`] when the words mean no fault of this segment. Whether a device can have it shows when it begins.
    pub fn order(&mut self, words: &FaultWords, now: Instant) -> Result<(), FaultError> {
        let find = |name: &String| self.segment().find(name).ok_or_else(|| FaultError::UnknownDevice(name.clone()));
        let device = words.device.as_ref().map(find).transpose()?;
        let with = words.with.as_ref().map(find).transpose()?;
        let Some(fault) = fault_of(words, device, with) else {
            let known = FAULT_KINDS.iter().any(|(kind, ..)| *kind == words.kind);
            let kind = words.kind.clone();
            return Err(match (known, device) {
                (true, Some(_)) => FaultError::WantsOther(kind),
                (true, None) => FaultError::WantsDevice(kind),
                (false, _) => FaultError::Unknown(kind),
            });
        };
        let there = self.faults().count();

        if there >= MOST {
            return Err(FaultError::TooMany(there));
        }

        let ns = |ms: f64| (ms.max(0.0) * 1e6) as u64;
        self.inject_in(fault, now, (ns(words.at_ms), words.for_ms.map(ns)), words.share.clamp(0.0, 1.0));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_a_fault_and_is_told_by_its_word() {
        for (kind, of, _) in FAULT_KINDS {
            let words = FaultWords { kind: kind.to_owned(), share: 1.0, ..FaultWords::default() };
            let fault = fault_of(&words, Some(0), Some(1)).unwrap();
            assert_eq!(fault.word(), kind);
            assert_eq!(fault_of(&words, Some(0), None).is_none(), kind == "swap", "{kind}");
            assert_eq!(
                fault_of(&words, None, None).is_none(),
                of.contains("device") && kind != "counter-off",
                "{kind}"
            );
            let told = words_of(&fault, |_| Some("a"));

            assert_eq!(
                fault_of(&told, Some(0), Some(1)),
                Some(fault),
                "{kind}: words mean the fault they were made of"
            );
        }
    }
}
