//! Conversion between [`Fault`] and the notation of segment files, the command line and the fault
//! log.

use onbeat_ethercat::description::{Description, DescriptionError, FaultTable, FaultValueError};
use onbeat_rt::time::Instant;

use super::fault::Fault;
use super::link::Link;
use super::segment::Segment;

/// Most active and planned faults that can be injected one by one.
const MOST: usize = 64;

/// Why a fault cannot be injected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Unknown kind.
    #[error("fault \"{0}\" does not exist; `onbeat segment fault --list` lists all faults")]
    Unknown(String),
    /// The fault affects a device, and none was named.
    #[error("fault \"{0}\" affects a device; name it with --device")]
    NeedsDevice(String),
    /// The fault affects two devices, and one was named.
    #[error("fault \"{0}\" affects two devices; name the other one with --with")]
    NeedsOther(String),
    #[error("the segment has no device \"{0}\"; `onbeat segment status` lists its devices")]
    UnknownDevice(String),
    /// A value that the fault cannot have.
    #[error(transparent)]
    Value(#[from] FaultValueError),
    /// Too many active and planned faults.
    #[error(
        "{0} faults are active or planned, no more are possible; `onbeat segment heal` ends them"
    )]
    TooMany(usize),
}

/// Kinds of faults: name, what is affected, and the values it uses.
pub const FAULT_KINDS: [(&str, &str, &str); 29] = [
    ("lose", "frames", "share"),
    ("late", "frames", "by (ns), share"),
    ("duplicate", "frames", "share"),
    ("reorder", "frames", "share"),
    ("truncate", "frames", "share"),
    ("flip", "frames", "share"),
    ("noise", "frames on the cable to a device", "share"),
    ("counter-off", "a device, or all", "by"),
    ("cut", "the cable to a device", ""),
    ("swap", "a device and another", "with"),
    ("unplug", "a device, or an optional group", ""),
    ("power-off", "a device", ""),
    ("al-error", "a device", "code"),
    ("refuse-state", "a device", "state, code"),
    ("slow-state", "a device", "by (ns)"),
    ("sii-busy", "a device's EEPROM", ""),
    ("sii-checksum", "a device's EEPROM", ""),
    ("sii-blank", "a device's EEPROM", ""),
    ("mail-mute", "a device's mailbox", ""),
    ("mail-slow", "a device's replies", "by (ns)"),
    ("mail-lost", "a device's replies", "mails"),
    ("mail-counter", "a device's replies", "mails"),
    ("mail-repeat", "a device's replies", "mails"),
    ("module-missing", "a device's slot", "by (slot, from 0)"),
    ("mail-abort", "a device's next SDO request", "code"),
    ("emergency", "a device", "code"),
    ("clock-step", "a device's clock", "by (ns)"),
    ("clock-drift", "a device's quartz", "by (parts per billion)"),
    ("freeze", "a device's inputs", ""),
];

/// Converts a table to a fault of the device at position `device`, swapped with the one at `with`;
/// `None` when the kind is unknown or a device is missing.
pub(crate) fn to_fault(
    table: &FaultTable,
    device: Option<usize>,
    with: Option<usize>,
) -> Option<Fault> {
    let by_ns = |usual: i64| table.by.unwrap_or(usual);
    let time_ns = |usual: i64| u64::try_from(by_ns(usual)).unwrap_or_default();
    let mails = table.mails.unwrap_or(1);
    let code = |usual: u16| table.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(usual);
    let of_frames = match table.kind.as_str() {
        "lose" => Some(Fault::Lose),
        "late" => Some(Fault::Late { by_ns: time_ns(2_000_000) }),
        "duplicate" => Some(Fault::Duplicate),
        "reorder" => Some(Fault::Reorder),
        "truncate" => Some(Fault::Truncate),
        "flip" => Some(Fault::Flip),
        "counter-off" => {
            Some(Fault::CounterOff { device, by: by_ns(1).clamp(-1_000, 1_000) as i16 })
        }
        _ => None,
    };

    let of_device = |device: usize| {
        Some(match table.kind.as_str() {
            "noise" => Fault::Noise { device },
            "cut" => Fault::Cut { device },
            "swap" => Fault::Swap { device, with: with? },
            "unplug" => Fault::Unplug { device },
            "power-off" => Fault::PowerOff { device },
            "al-error" => Fault::AlError { device, code: code(0x0001) },
            "refuse-state" => {
                Fault::RefuseState { device, state: table.state.unwrap_or(8), code: code(0x0001) }
            }
            "slow-state" => Fault::SlowState { device, by_ns: time_ns(100_000_000) },
            "sii-busy" => Fault::SiiBusy { device },
            "sii-checksum" => Fault::SiiChecksum { device },
            "sii-blank" => Fault::SiiBlank { device },
            "mail-mute" => Fault::MailMute { device },
            "mail-slow" => Fault::MailSlow { device, by_ns: time_ns(100_000_000) },
            "mail-lost" => Fault::MailLost { device, mails },
            "mail-counter" => Fault::MailCounter { device, mails },
            "mail-repeat" => Fault::MailRepeat { device, mails },
            "module-missing" => Fault::ModuleMissing { device, slot: by_ns(0).clamp(0, 253) as u8 },
            "mail-abort" => Fault::MailAbort { device, code: table.code.unwrap_or(0x0800_0000) },
            "emergency" => Fault::Emergency { device, code: code(0x5000) },
            "clock-step" => Fault::ClockStep { device, by_ns: by_ns(100_000) },
            "clock-drift" => Fault::ClockDrift { device, by_ppb: by_ns(100_000) },
            "freeze" => Fault::Freeze { device },
            _ => return None,
        })
    };

    of_frames.or_else(|| device.and_then(of_device))
}

/// Converts a fault to a table; `name` returns the names of devices.
pub(crate) fn to_table<'n>(fault: &Fault, name: impl Fn(usize) -> Option<&'n str>) -> FaultTable {
    let device = fault.device().and_then(&name).map(str::to_owned);
    let mut table =
        FaultTable { kind: fault.word().to_owned(), device, share: 1.0, ..FaultTable::default() };
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    match *fault {
        Fault::Swap { with, .. } => table.with = name(with).map(str::to_owned),
        Fault::Late { by_ns } | Fault::SlowState { by_ns, .. } | Fault::MailSlow { by_ns, .. } => {
            table.by = Some(signed(by_ns));
        }
        Fault::CounterOff { by, .. } => table.by = Some(i64::from(by)),
        Fault::ClockStep { by_ns, .. } => table.by = Some(by_ns),
        Fault::ClockDrift { by_ppb, .. } => table.by = Some(by_ppb),
        Fault::AlError { code, .. } | Fault::Emergency { code, .. } => {
            table.code = Some(u32::from(code));
        }
        Fault::MailAbort { code, .. } => table.code = Some(code),
        Fault::RefuseState { state, code, .. } => {
            table.state = Some(state);
            table.code = Some(u32::from(code));
        }
        Fault::ModuleMissing { slot, .. } => table.by = Some(slot.into()),
        Fault::MailLost { mails, .. }
        | Fault::MailCounter { mails, .. }
        | Fault::MailRepeat { mails, .. } => {
            table.mails = Some(mails);
        }
        _ => (),
    }

    table
}

impl Segment {
    /// Returns a fault as a table with the names of its devices.
    #[must_use]
    pub fn fault_table(&self, fault: &Fault) -> FaultTable {
        to_table(fault, |device| self.devices.get(device).map(|device| &*device.name))
    }
}

impl Link {
    /// Builds segment and faults from the text of a segment file. Times of faults count from the
    /// first frame.
    ///
    /// # Errors
    /// [`DescriptionError`] when the text does not describe a segment, or a fault is not valid.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        Self::from_description(&Description::from_toml(text)?)
    }

    /// Builds segment and faults from a description.
    ///
    /// # Errors
    /// [`DescriptionError`] as for [`Link::from_toml`].
    pub fn from_description(description: &Description) -> Result<Self, DescriptionError> {
        let mut link = Self::new(Segment::from_description(description)?);
        for table in &description.faults {
            let unknown = |name: &str| DescriptionError::UnknownFaultDevice {
                fault: table.kind.clone(),
                device: name.to_owned(),
            };
            let [device, with] = link.devices_of(table, unknown)?;
            let fault = to_fault(table, device, with)
                .ok_or_else(|| DescriptionError::UnknownFault(table.kind.clone()))?;
            link.plan_since_start(fault, table.into(), table.share);
        }

        Ok(link)
    }

    /// Checks the values of a fault; returns the positions of the devices that it names.
    fn devices_of<E: From<FaultValueError>>(
        &self,
        table: &FaultTable,
        unknown: impl Fn(&str) -> E,
    ) -> Result<[Option<usize>; 2], E> {
        table.check()?;
        let find =
            |name: &String| self.segment().find_device_or_group(name).ok_or_else(|| unknown(name));
        let with = table.with.as_ref().map(find);
        Ok([table.device.as_ref().map(find).transpose()?, with.transpose()?])
    }

    /// Begins a fault at `now`, or `at_ms` later.
    ///
    /// # Errors
    /// [`FaultError`] when the table is not a fault of this segment. Whether the device can have
    /// the fault is known when it begins.
    pub fn inject_table(&mut self, table: &FaultTable, now: Instant) -> Result<(), FaultError> {
        let unknown = |name: &str| FaultError::UnknownDevice(name.to_owned());
        let [device, with] = self.devices_of(table, unknown)?;
        let Some(fault) = to_fault(table, device, with) else {
            let known = FAULT_KINDS.iter().any(|(kind, ..)| *kind == table.kind);
            let kind = table.kind.clone();
            return Err(match (known, device) {
                (true, Some(_)) => FaultError::NeedsOther(kind),
                (true, None) => FaultError::NeedsDevice(kind),
                (false, _) => FaultError::Unknown(kind),
            });
        };
        let count = self.faults().count();
        if count >= MOST {
            return Err(FaultError::TooMany(count));
        }

        self.plan_fault(fault, now, table.into(), table.share);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_fraction() {
        let with = |share: &str| {
            Link::from_toml(&format!(
                "[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nname = \"a\"\n\
                 [[faults]]\nkind = \"lose\"\nshare = {share}\n"
            ))
            .map(|_| ())
        };
        assert_eq!(with("0.05"), Ok(()));
        for percent in ["5", "-0.1", "nan"] {
            let said = with(percent).unwrap_err().to_string();
            assert!(said.contains("must be 0 to 1, such as 0.05 for 5 %"), "{said}");
        }
    }

    #[test]
    fn a_code_of_more_than_16_bits_is_refused_and_not_replaced() {
        let with = |code: &str| {
            Link::from_toml(&format!(
                "[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nname = \"a\"\n\
                 [[faults]]\nkind = \"emergency\"\ndevice = \"a\"\ncode = {code}\n"
            ))
            .map(|_| ())
        };
        assert_eq!(with("0x8611"), Ok(()));
        let said = with("0x18611").unwrap_err().to_string();
        assert_eq!(said, "the fault \"emergency\" has code = 0x18611, which must be 0 to 0xffff");
    }

    #[test]
    fn each_kind_converts_to_a_fault_and_back() {
        for (kind, affected, _) in FAULT_KINDS {
            let table = FaultTable { kind: kind.to_owned(), share: 1.0, ..FaultTable::default() };
            let fault = to_fault(&table, Some(0), Some(1)).unwrap();
            assert_eq!(fault.word(), kind);
            assert_eq!(to_fault(&table, Some(0), None).is_none(), kind == "swap", "{kind}");
            assert_eq!(
                to_fault(&table, None, None).is_none(),
                affected.contains("device") && kind != "counter-off",
                "{kind}"
            );
            let converted = to_table(&fault, |_| Some("a"));

            assert_eq!(
                to_fault(&converted, Some(0), Some(1)),
                Some(fault),
                "{kind}: converts back to the same fault"
            );
        }
    }
}
