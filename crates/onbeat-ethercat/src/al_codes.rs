//! AL status codes: why a device refused an AL state, or left it (ETG.1020, table 11).

/// Code of an expired watchdog of the SyncManagers.
pub const WATCHDOG: u16 = 0x001b;

/// Name of an AL status code, and what removes its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlCode {
    /// The number in register 0x0134.
    pub code: u16,
    /// The standard's name, in lower case.
    pub name: &'static str,
    /// What to do; empty where the code alone does not say it.
    pub remedy: &'static str,
}

const fn known(code: u16, name: &'static str, remedy: &'static str) -> AlCode {
    AlCode { code, name, remedy }
}

const MAPPING: &str = "compare its process data with the file: onbeat bus pdos";
const VALUES: &str = "check its start-up values in the file";
const CLOCK: &str = "check its `sync0`, and the cables before it";
const PULSES: &str = "send its outputs in time: raise the priority of the loop, or its `shift_us`";
const MODULES: &str = "compare its plugged modules with the slots of the file";
const POWER: &str = "switch the device off and on; if that does not help, see the vendor's manual";
const SUPPLY: &str = "measure its supply voltage under load";
const TEMPERATURE: &str = "check its cooling and its ambient temperature";
const OUTPUTS: &str = "send its outputs within the watchdog time";

/// All codes with a name, in their order.
pub const AL_CODES: &[AlCode] = &[
    known(0x0001, "unspecified error", "see the vendor's manual, and its emergencies"),
    known(0x0002, "no memory", "map fewer objects"),
    known(0x0003, "invalid device setup", VALUES),
    known(0x0004, "invalid revision", "take the ESI file of its revision"),
    known(
        0x0006,
        "SII/EEPROM information does not match firmware",
        "write the vendor's image to its EEPROM: onbeat bus sii write",
    ),
    known(
        0x0007,
        "firmware update not successful",
        "load its firmware again: onbeat bus foe write",
    ),
    known(0x000e, "license error", "see the vendor's manual"),
    known(0x0011, "invalid requested state change", "request its states in their order"),
    known(0x0012, "unknown requested state", ""),
    known(0x0013, "bootstrap not supported", "its firmware cannot be loaded over EtherCAT"),
    known(0x0014, "no valid firmware", "load its firmware: onbeat bus foe write"),
    known(
        0x0015,
        "invalid mailbox configuration in BOOT",
        "compare its EEPROM with the vendor's image",
    ),
    known(
        0x0016,
        "invalid mailbox configuration in PREOP",
        "compare its EEPROM with the vendor's image",
    ),
    known(0x0017, "invalid SyncManager configuration", MAPPING),
    known(0x0018, "no valid inputs available", POWER),
    known(0x0019, "no valid outputs", OUTPUTS),
    known(0x001a, "synchronization error", CLOCK),
    known(0x001b, "sync manager watchdog", OUTPUTS),
    known(0x001c, "invalid SyncManager types", MAPPING),
    known(0x001d, "invalid output configuration", MAPPING),
    known(0x001e, "invalid input configuration", MAPPING),
    known(0x001f, "invalid watchdog configuration", "change `watchdog_ms` of the file"),
    known(0x0020, "device needs cold start", POWER),
    known(0x0021, "device needs INIT", "request INIT first"),
    known(0x0022, "device needs PREOP", "request PREOP first"),
    known(0x0023, "device needs SAFEOP", "request SAFEOP first"),
    known(0x0024, "invalid input mapping", MAPPING),
    known(0x0025, "invalid output mapping", MAPPING),
    known(0x0026, "inconsistent settings", VALUES),
    known(0x0027, "free run not supported", "give it a `sync0`, or a mode of its clock by `dc`"),
    known(0x0028, "synchronization not supported", "remove its `sync0` or `dc`"),
    known(0x0029, "free run needs 3-buffer mode", MAPPING),
    known(0x002a, "background watchdog", POWER),
    known(0x002b, "no valid inputs and outputs", OUTPUTS),
    known(0x002c, "fatal synchronization error: no SYNC0 or SYNC1 any more", CLOCK),
    known(0x002d, "no synchronization signal", CLOCK),
    known(
        0x002e,
        "invalid cycle time",
        "change the period of the bus, or `period_us` of its `sync0`",
    ),
    known(
        0x0030,
        "invalid DC SYNC configuration",
        "choose a mode of its clock by `dc`, and check its `sync0`",
    ),
    known(0x0031, "invalid DC latch configuration", CLOCK),
    known(0x0032, "PLL error", CLOCK),
    known(0x0033, "DC SYNC I/O error: several errors", PULSES),
    known(0x0034, "DC SYNC timeout: too many missed frames", PULSES),
    known(0x0035, "invalid DC SYNC cycle time", "change `period_us` of its `sync0`"),
    known(
        0x0036,
        "SYNC0 cycle time does not fit",
        "change `period_us` of its `sync0`, or its `dc`",
    ),
    known(0x0037, "SYNC1 cycle time does not fit", "change `sync1_us` of its `sync0`, or its `dc`"),
    known(0x0041, "AoE mailbox: communication parameters", VALUES),
    known(0x0042, "EoE mailbox: communication parameters", VALUES),
    known(0x0043, "CoE mailbox: communication parameters", VALUES),
    known(0x0044, "FoE mailbox: communication parameters", VALUES),
    known(0x0045, "SoE mailbox: communication parameters", VALUES),
    known(0x004f, "VoE mailbox: communication parameters", VALUES),
    known(
        0x0050,
        "EEPROM not assigned to the device (PDI)",
        "give its EEPROM back: write 1 to register 0x0500",
    ),
    known(0x0051, "EEPROM error", POWER),
    known(0x0052, "external hardware not ready", "check its supply and its wiring"),
    known(0x0060, "device restarted locally", "request its states again"),
    known(0x0061, "device identification value updated", "restart the bus"),
    known(0x0070, "detected modules do not match the configured ones", MODULES),
    known(0x0080, "supply voltage too low", SUPPLY),
    known(0x0081, "supply voltage too high", SUPPLY),
    known(0x0082, "temperature too low", TEMPERATURE),
    known(0x0083, "temperature too high", TEMPERATURE),
    known(0x00f0, "application controller available", "request its states again"),
];

/// Returns the entry of a code; `None` for codes of a vendor (0x8000 and above) and unassigned ones.
///
/// ```
/// use onbeat_ethercat::al_codes;
///
/// assert_eq!(al_codes::of(0x001b).unwrap().name, "sync manager watchdog");
/// assert_eq!(al_codes::of(0x8123), None);
/// ```
#[must_use]
pub fn of(code: u16) -> Option<&'static AlCode> {
    AL_CODES.iter().find(|known| known.code == code)
}

/// Returns a code with its name.
///
/// ```
/// use onbeat_ethercat::al_codes::words;
///
/// assert_eq!(words(0x001b), "0x001b, sync manager watchdog");
/// assert_eq!(words(0x8123), "0x8123, a code of its vendor");
/// assert_eq!(words(0), "without an AL status code");
/// ```
#[must_use]
pub fn words(code: u16) -> String {
    match (code, of(code)) {
        (0, _) => "without an AL status code".to_owned(),
        (_, Some(known)) => format!("{code:#06x}, {}", known.name),
        (0x8000.., None) => format!("{code:#06x}, a code of its vendor"),
        (_, None) => format!("{code:#06x}, not assigned in ETG.1020"),
    }
}

/// Returns what removes the cause of a code; for unknown codes, where to look.
#[must_use]
pub fn remedy(code: u16) -> &'static str {
    of(code)
        .map(|known| known.remedy)
        .filter(|remedy| !remedy.is_empty())
        .unwrap_or("see the vendor's manual, and its emergencies")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_have_names_of_their_own() {
        for pair in AL_CODES.windows(2) {
            assert!(pair[0].code < pair[1].code, "{:#06x}", pair[1].code);
        }
        for known in AL_CODES {
            let same = AL_CODES.iter().filter(|other| other.name == known.name).count();
            assert_eq!(same, 1, "{}", known.name);
            assert!(!known.name.ends_with('.') && !known.remedy.ends_with('.'));
        }
    }
}
