//! Error codes and error registers of emergencies (ETG.1000.6; CiA 301; CiA 402, also in object
//! 0x603F).

/// Error codes with a name, in their order. A code that is not among them is one of its class.
pub const ERROR_CODES: &[(u16, &str)] = &[
    (0x1000, "generic error"),
    (0x2000, "current"),
    (0x2100, "current on the input side"),
    (0x2110, "short circuit or earth leakage on the input side"),
    (0x2120, "earth leakage on the input side"),
    (0x2130, "short circuit on the input side"),
    (0x2200, "current inside the device"),
    (0x2213, "overcurrent in the ramp function"),
    (0x2214, "overcurrent in the sequence"),
    (0x2220, "continuous overcurrent inside the device"),
    (0x2230, "short circuit or earth leakage inside the device"),
    (0x2240, "earth leakage inside the device"),
    (0x2250, "short circuit inside the device"),
    (0x2300, "current on the motor side"),
    (0x2310, "continuous overcurrent on the motor side"),
    (0x2320, "short circuit or earth leakage on the motor side"),
    (0x2330, "earth leakage on the motor side"),
    (0x2340, "short circuit on the motor side"),
    (0x2350, "load level: I²t, thermal state"),
    (0x2351, "load level warning: I²t, thermal state"),
    (0x3000, "voltage"),
    (0x3100, "mains voltage"),
    (0x3110, "mains overvoltage"),
    (0x3120, "mains undervoltage"),
    (0x3130, "mains phase failure"),
    (0x3134, "mains phase sequence"),
    (0x3140, "mains frequency"),
    (0x3200, "DC link voltage"),
    (0x3210, "DC link overvoltage"),
    (0x3220, "DC link undervoltage"),
    (0x3230, "load error"),
    (0x3300, "output voltage"),
    (0x3310, "output overvoltage"),
    (0x3320, "armature circuit"),
    (0x3330, "field circuit"),
    (0x4000, "temperature"),
    (0x4100, "ambient temperature"),
    (0x4110, "ambient temperature too high"),
    (0x4120, "ambient temperature too low"),
    (0x4200, "temperature of the device"),
    (0x4210, "device too hot"),
    (0x4220, "device too cold"),
    (0x4300, "temperature of the drive"),
    (0x4310, "drive too hot"),
    (0x4320, "drive too cold"),
    (0x4400, "temperature of the supply"),
    (0x5000, "device hardware"),
    (0x5100, "supply"),
    (0x5110, "low supply voltage"),
    (0x5200, "control hardware"),
    (0x5210, "measurement circuit"),
    (0x5220, "computing circuit"),
    (0x5300, "operating unit"),
    (0x5400, "power section"),
    (0x5410, "output stages"),
    (0x5420, "chopper"),
    (0x5430, "input stages"),
    (0x5440, "contacts"),
    (0x5450, "fuses"),
    (0x5500, "hardware memory"),
    (0x5510, "RAM"),
    (0x5520, "ROM"),
    (0x5530, "EEPROM"),
    (0x6000, "device software"),
    (0x6010, "software reset by its watchdog"),
    (0x6100, "internal software"),
    (0x6200, "user software"),
    (0x6300, "data record"),
    (0x6310, "loss of parameters"),
    (0x6320, "parameter error"),
    (0x7000, "additional modules"),
    (0x7100, "power of additional modules"),
    (0x7110, "brake chopper"),
    (0x7111, "brake chopper failure"),
    (0x7112, "brake chopper overcurrent"),
    (0x7113, "brake chopper protection"),
    (0x7120, "motor"),
    (0x7121, "motor blocked"),
    (0x7122, "motor error or commutation malfunction"),
    (0x7123, "motor tilted"),
    (0x7200, "measurement circuit of additional modules"),
    (0x7300, "sensor"),
    (0x7301, "tacho fault"),
    (0x7302, "tacho with wrong polarity"),
    (0x7303, "resolver 1 fault"),
    (0x7304, "resolver 2 fault"),
    (0x7305, "incremental sensor 1 fault"),
    (0x7306, "incremental sensor 2 fault"),
    (0x7307, "incremental sensor 3 fault"),
    (0x7310, "speed"),
    (0x7320, "position"),
    (0x7400, "computing circuit of additional modules"),
    (0x7500, "communication of additional modules"),
    (0x7510, "serial interface 1"),
    (0x7520, "serial interface 2"),
    (0x7600, "data storage"),
    (0x8000, "monitoring"),
    (0x8100, "communication monitoring"),
    (0x8200, "protocol error"),
    (0x8210, "process data not processed: wrong length"),
    (0x8220, "process data too long"),
    (0x8300, "torque control"),
    (0x8311, "excess torque"),
    (0x8312, "difficult start-up"),
    (0x8313, "standstill torque"),
    (0x8321, "insufficient torque"),
    (0x8331, "torque fault"),
    (0x8400, "velocity controller"),
    (0x8500, "position controller"),
    (0x8600, "positioning controller"),
    (0x8611, "following error"),
    (0x8612, "reference limit"),
    (0x8700, "synchronization controller"),
    (0x8800, "winding controller"),
    (0x8900, "process data monitoring"),
    (0x8a00, "control monitoring"),
    (0x9000, "external error"),
    (0xa000, "transition from PREOP to SAFEOP failed"),
    (0xa001, "transition from SAFEOP to OP failed"),
    (0xf000, "additional functions"),
    (0xf001, "deceleration"),
    (0xf002, "subsynchronous run"),
    (0xf003, "stroke operation"),
    (0xf004, "control of additional functions"),
];

/// Bits of an error register (object 0x1001), from bit 0.
const REGISTER: [&str; 8] = [
    "generic",
    "current",
    "voltage",
    "temperature",
    "communication",
    "device profile",
    "reserved bit",
    "of its vendor",
];

/// Returns whether an error code reports that an error is over (CiA 301: 0x00xx).
#[must_use]
pub const fn is_end(code: u32) -> bool {
    code <= 0xff
}

/// Returns the name of an error code, or that of its class; `None` for codes without either.
fn name(code: u16) -> Option<(bool, &'static str)> {
    let of = |wanted: u16| ERROR_CODES.iter().find(|(known, _)| *known == wanted);
    let class = || [0xfff0, 0xff00, 0xf000].into_iter().find_map(|mask| of(code & mask));
    match code {
        0xff00.. => Some((true, "a code of its vendor")),
        // Only the two codes of the class are assigned.
        0xa002..0xb000 => None,
        _ => of(code)
            .map(|(_, name)| (true, *name))
            .or_else(|| class().map(|(_, name)| (false, *name))),
    }
}

/// Returns an error code with its name; one without a name, with that of its class.
///
/// ```
/// use onbeat_ethercat::emergency_codes::words;
///
/// assert_eq!(words(0x8611), "0x8611, following error");
/// assert_eq!(words(0x3211), "0x3211, of class DC link overvoltage");
/// assert_eq!(words(0xff01), "0xff01, a code of its vendor");
/// assert_eq!(words(0xb000), "0xb000, not assigned in CiA 402");
/// ```
#[must_use]
pub fn words(code: u16) -> String {
    match name(code) {
        Some((true, name)) => format!("{code:#06x}, {name}"),
        Some((false, name)) => format!("{code:#06x}, of class {name}"),
        None => format!("{code:#06x}, not assigned in CiA 402"),
    }
}

/// Returns an error register with the names of its bits.
///
/// ```
/// use onbeat_ethercat::emergency_codes::register_words;
///
/// assert_eq!(register_words(0x21), "0x21 (generic, device profile)");
/// assert_eq!(register_words(0), "0x00");
/// ```
#[must_use]
pub fn register_words(register: u8) -> String {
    let set = (0_u32..).zip(REGISTER).filter(|&(bit, _)| register & (1 << bit) != 0);
    let names: Vec<&str> = set.map(|(_, name)| name).collect();
    if names.is_empty() {
        return format!("{register:#04x}");
    }
    format!("{register:#04x} ({})", names.join(", "))
}

/// Returns what a device said by an emergency, as the end of a sentence about it.
///
/// ```
/// use onbeat_ethercat::emergency_codes::said;
///
/// assert_eq!(
///     said(0x7305, 0x21),
///     "sent emergency 0x7305, incremental sensor 1 fault; error register 0x21 (generic, device profile)"
/// );
/// assert_eq!(said(0, 0), "reports the end of its error (emergency 0x0000)");
/// ```
#[must_use]
pub fn said(code: u32, register: u16) -> String {
    let register = register as u8;
    match (u16::try_from(code), register) {
        (Ok(code), 0) if is_end(code.into()) => {
            format!("reports the end of its error (emergency {code:#06x})")
        }
        (Ok(code), _) if is_end(code.into()) => {
            let left = register_words(register);
            format!("reports the end of one error (emergency {code:#06x}); error register {left}")
        }
        (Ok(code), _) => {
            format!("sent emergency {}; error register {}", words(code), register_words(register))
        }
        (Err(_), _) => {
            format!("sent emergency {code:#x}; error register {}", register_words(register))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_have_names_of_their_own() {
        for pair in ERROR_CODES.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{:#06x}", pair[1].0);
        }
        for (code, name) in ERROR_CODES {
            let same = ERROR_CODES.iter().filter(|(_, other)| other == name).count();
            assert_eq!(same, 1, "{code:#06x} {name}");
        }
    }

    #[test]
    fn a_code_without_a_name_has_that_of_its_class() {
        for (code, said) in [
            (0x7306, "incremental sensor 2 fault"),
            (0x7380, "of class sensor"),
            (0x2221, "of class continuous overcurrent inside the device"),
            (0x8ab0, "of class control monitoring"),
            (0x9180, "of class external error"),
            (0xa001, "transition from SAFEOP to OP failed"),
            (0xa010, "not assigned in CiA 402"),
            (0xfffe, "a code of its vendor"),
        ] {
            assert_eq!(words(code), format!("{code:#06x}, {said}"));
        }
    }

    #[test]
    fn the_end_of_an_error_is_told_from_an_error() {
        assert!(is_end(0) && is_end(0x00ff) && !is_end(0x1000));
        assert_eq!(
            said(0, 0x01),
            "reports the end of one error (emergency 0x0000); error register 0x01 (generic)"
        );
    }
}
