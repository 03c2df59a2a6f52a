//! Errors of commissioning.

use onbeat_control::RequestFailure;
use onbeat_ethercat::al_codes;
use onbeat_ethercat::sii::SiiError;

use crate::bus::BusError;

/// Why a device cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum CommissionError {
    /// The cable, or nobody on it.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// No device at this position.
    #[error("no device is at place {place}; the last one that answers is at place {}", devices.saturating_sub(1))]
    NoDevice {
        /// The position.
        place: u16,
        /// Number of devices.
        devices: u16,
    },
    /// A register is not there, or cannot be written.
    #[error(
        "the device at place {place} does not take the access to register {register:#06x} ({bytes} bytes)"
    )]
    Register {
        /// Its position.
        place: u16,
        /// First register.
        register: u16,
        /// Length of the access.
        bytes: usize,
    },
    /// More data than one frame holds; nothing was sent.
    #[error("an access of {bytes} bytes does not fit into a frame, which holds {most}")]
    TooLong {
        /// Length of the access.
        bytes: usize,
        /// Maximum length.
        most: usize,
    },
    /// The EEPROM does not answer.
    #[error(
        "the EEPROM of the device at place {place} {}, SII status {status:#06x}",
        if status & 0x8000 != 0 { "stays busy for more than 1 s" } else { "refuses the access" }
    )]
    Eeprom {
        /// Its position.
        place: u16,
        /// Register 0x0502.
        status: u16,
    },
    /// The EEPROM does not hold what was written.
    #[error(
        "word {word:#06x} of the EEPROM at place {place} is {is:#06x} after {should:#06x} was written: it may be write-protected"
    )]
    NotWritten {
        /// Its position.
        place: u16,
        /// Address of the word.
        word: u16,
        /// What it holds.
        is: u16,
        /// What was written.
        should: u16,
    },
    /// The contents of an EEPROM cannot be used.
    #[error("the EEPROM at place {place}: {why}")]
    Sii {
        /// Its position.
        place: u16,
        /// What is wrong.
        why: SiiError,
    },
    /// The device has no mailbox, or not this protocol.
    #[error("the device at place {place} has no {what}: its EEPROM does not list it")]
    Unsupported {
        /// Its position.
        place: u16,
        /// Mailbox or protocol.
        what: &'static str,
    },
    /// The mailbox is closed in this state.
    #[error(
        "the device at place {place} is in {state}; its mailbox works from PREOP on: onbeat bus state --interface {on} {place} PREOP"
    )]
    Closed {
        /// Its position.
        place: u16,
        /// Its AL state.
        state: &'static str,
        /// The interface.
        on: String,
    },
    /// No response to a mail.
    #[error("the mailbox of the device at place {place} does not answer within {ms} ms")]
    Mute {
        /// Its position.
        place: u16,
        /// Time waited.
        ms: u64,
    },
    /// A mailbox error reply.
    #[error("the device at place {place} refuses the mail, mailbox error {code:#06x} ({})", mailbox_words(*code))]
    Mailbox {
        /// Its position.
        place: u16,
        /// Detail of the error.
        code: u16,
    },
    /// An object was refused.
    #[error("object {index:#06x}:{entry:x} of the device at place {place}: {why}")]
    Object {
        /// Its position.
        place: u16,
        /// Index.
        index: u16,
        /// Subindex.
        entry: u8,
        /// Why.
        why: RequestFailure,
    },
    /// The name of a file does not fit into one mail; nothing was sent.
    #[error(
        "the name of the file has {bytes} bytes, and the mailbox of the device at place {place} room for {most}; give it a shorter name"
    )]
    LongName {
        /// Its position.
        place: u16,
        /// Length of the name.
        bytes: usize,
        /// Maximum length.
        most: usize,
    },
    /// A file was refused.
    #[error("the device at place {place} refuses the file: FoE error {code:#06x} ({}){}", foe_words(*code), if text.is_empty() { String::new() } else { format!(", \"{text}\"") })]
    File {
        /// Its position.
        place: u16,
        /// FoE error code.
        code: u32,
        /// Its text.
        text: String,
    },
    /// A reply that does not fit.
    #[error("the device at place {place} answers {what}; its firmware does not follow ETG.1000.6")]
    Reply {
        /// Its position.
        place: u16,
        /// What it answers.
        what: &'static str,
    },
    /// A state was refused.
    #[error(
        "the device at place {place} refuses {state} ({}): {}",
        al_codes::words(*code), al_codes::remedy(*code)
    )]
    Refused {
        /// Its position.
        place: u16,
        /// Requested state.
        state: &'static str,
        /// AL status code.
        code: u16,
    },
    /// A state was not reached.
    #[error(
        "the device at place {place} stays in {is} and does not reach {state} within {seconds} s"
    )]
    Late {
        /// Its position.
        place: u16,
        /// State it is in.
        is: &'static str,
        /// Requested state.
        state: &'static str,
        /// Time waited.
        seconds: u64,
    },
}

/// Names of mailbox errors (ETG.1000.6, table 29).
const fn mailbox_words(code: u16) -> &'static str {
    match code {
        1 => "syntax error",
        2 => "unsupported protocol",
        3 => "invalid channel",
        4 => "service not supported",
        5 => "invalid header",
        6 => "too short",
        7 => "no memory",
        8 => "invalid size",
        _ => "no name in ETG.1000.6",
    }
}

/// Names of FoE errors (ETG.1000.6, table 92).
const fn foe_words(code: u32) -> &'static str {
    match code {
        0x8000 => "not defined",
        0x8001 => "not found",
        0x8002 => "access denied",
        0x8003 => "disk full",
        0x8004 => "illegal",
        0x8005 => "packet number wrong",
        0x8006 => "already exists",
        0x8007 => "no user",
        0x8008 => "bootstrap only",
        0x8009 => "not in bootstrap",
        0x800a => "no rights",
        0x800b => "program error",
        0x800c => "checksum wrong",
        0x800d => "firmware does not fit the hardware",
        0x800f => "no file to read",
        0x8010 => "file header missing",
        0x8011 => "flash error",
        0x8012 => "file incompatible",
        _ => "no name in ETG.1000.6",
    }
}
