//! Error counters of a SubDevice controller: what its ports, its processing unit and its process
//! data interface have counted (registers 0x0300 to 0x0313).
//!
//! A port counts the frames that arrive damaged, so an error names the cable before it: the one
//! between this port and the port at its far end. Each counter has 8 bits and stops at 255.
//!
//! Source: ETG.1000.4 and the Beckhoff SubDevice controller data sheet, section II.

use std::fmt;

use super::registers::{LOST_LINKS, RX_ERRORS};

/// Number of register bytes from the first to the last counter, 14 and 15 of which count nothing.
pub const ERROR_BYTES: usize = 20;

/// An error counter of a controller; ports are 0 to 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCounter {
    /// Frames that arrived damaged at a port: wrong checksum, or cut short.
    InvalidFrames(u8),
    /// Receive errors of a port's physical layer, within frames and between them.
    RxErrors(u8),
    /// Frames that arrived at a port and had been marked as damaged by a device before.
    ForwardedErrors(u8),
    /// Times that a port lost its link.
    LostLinks(u8),
    /// Errors of frames in the processing unit.
    ProcessingUnit,
    /// Errors of the interface to the device's own processor.
    ProcessDataInterface,
}

impl ErrorCounter {
    /// All counters, in the order of ports.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_port = |port| {
            [
                Self::InvalidFrames(port),
                Self::RxErrors(port),
                Self::ForwardedErrors(port),
                Self::LostLinks(port),
            ]
        };
        (0..4).flat_map(of_port).chain([Self::ProcessingUnit, Self::ProcessDataInterface])
    }

    /// Returns its register address.
    #[must_use]
    pub fn register(self) -> u16 {
        match self {
            Self::InvalidFrames(port) => RX_ERRORS + 2 * u16::from(port),
            Self::RxErrors(port) => RX_ERRORS + 2 * u16::from(port) + 1,
            Self::ForwardedErrors(port) => RX_ERRORS + 8 + u16::from(port),
            Self::ProcessingUnit => RX_ERRORS + 12,
            Self::ProcessDataInterface => RX_ERRORS + 13,
            Self::LostLinks(port) => LOST_LINKS + u16::from(port),
        }
    }

    /// Returns the counter with this register address; `None` for other registers.
    #[must_use]
    pub fn from_register(address: u32) -> Option<Self> {
        Self::all().find(|counter| u32::from(counter.register()) == address)
    }

    /// Returns its place in the bytes of the registers from 0x0300 on.
    #[must_use]
    pub fn offset(self) -> usize {
        usize::from(self.register() - RX_ERRORS)
    }

    /// Returns its port; `None` for those of the whole device.
    #[must_use]
    pub const fn port(self) -> Option<u8> {
        match self {
            Self::InvalidFrames(port)
            | Self::RxErrors(port)
            | Self::ForwardedErrors(port)
            | Self::LostLinks(port) => Some(port),
            Self::ProcessingUnit | Self::ProcessDataInterface => None,
        }
    }

    /// Returns its name in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::InvalidFrames(_) => "invalid_frames",
            Self::RxErrors(_) => "rx_errors",
            Self::ForwardedErrors(_) => "forwarded_errors",
            Self::LostLinks(_) => "lost_links",
            Self::ProcessingUnit => "processing_unit_errors",
            Self::ProcessDataInterface => "pdi_errors",
        }
    }

    /// Returns its name in sentences, for a count.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::InvalidFrames(_) => "invalid frames",
            Self::RxErrors(_) => "RX errors",
            Self::ForwardedErrors(_) => "forwarded errors",
            Self::LostLinks(_) => "lost links",
            Self::ProcessingUnit => "processing unit errors",
            Self::ProcessDataInterface => "PDI errors",
        }
    }

    /// Returns whether the counter shows where an error arose. A forwarded error arose at another
    /// device, whose own counter names the cable.
    #[must_use]
    pub const fn is_origin(self) -> bool {
        !matches!(self, Self::ForwardedErrors(_))
    }
}

/// A number of errors, or the least number of them, where a counter of 8 bits was full.
///
/// ```
/// use onbeat_ethercat::link_errors::ErrorCount;
///
/// assert_eq!(ErrorCount::exactly(17).to_string(), "17");
/// assert_eq!(ErrorCount::exactly(200).plus(55, true).to_string(), ">= 255");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCount(u16);

/// Bit of a count that is a lower bound.
const AT_LEAST: u16 = 0x8000;

impl ErrorCount {
    /// Returns a count that is exact; beyond 32,767 it is a lower bound.
    #[must_use]
    pub const fn exactly(count: u16) -> Self {
        if count < AT_LEAST { Self(count) } else { Self(u16::MAX) }
    }

    /// Returns the count with `more` errors; `is_full` if the counter cannot count further.
    #[must_use]
    pub const fn plus(self, more: u8, is_full: bool) -> Self {
        let Self(sum) = Self::exactly(self.count() + more as u16);
        let is_at_least = is_full || self.is_at_least();
        Self(if is_at_least { sum | AT_LEAST } else { sum })
    }

    /// Returns the number.
    #[must_use]
    pub const fn count(self) -> u16 {
        self.0 & !AT_LEAST
    }

    /// Returns whether there may have been more.
    #[must_use]
    pub const fn is_at_least(self) -> bool {
        self.0 & AT_LEAST != 0
    }

    /// Returns the count as a word: the number, and bit 15 for a lower bound.
    #[must_use]
    pub const fn to_word(self) -> u16 {
        self.0
    }

    /// Returns the count of a word.
    #[must_use]
    pub const fn from_word(word: u16) -> Self {
        Self(word)
    }
}

impl fmt::Display for ErrorCount {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}{}", if self.is_at_least() { ">= " } else { "" }, self.count())
    }
}

/// Errors that a device counted since the bus came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkErrors {
    /// By the offset of their registers.
    counts: [ErrorCount; ERROR_BYTES],
}

impl LinkErrors {
    /// Returns what a counter has counted.
    #[must_use]
    pub fn of(&self, counter: ErrorCounter) -> ErrorCount {
        self.counts[counter.offset()]
    }

    /// Sets what a counter has counted.
    pub fn set(&mut self, counter: ErrorCounter, count: ErrorCount) {
        self.counts[counter.offset()] = count;
    }

    /// Returns the counters that are not 0, in the order of ports.
    pub fn counted(&self) -> impl Iterator<Item = (ErrorCounter, ErrorCount)> {
        ErrorCounter::all()
            .map(|counter| (counter, self.of(counter)))
            .filter(|(_, count)| *count != ErrorCount::default())
    }

    /// Returns the counts as words, in the order of their registers.
    #[must_use]
    pub fn to_words(&self) -> [u16; ERROR_BYTES] {
        self.counts.map(ErrorCount::to_word)
    }

    /// Returns the counts of [`LinkErrors::to_words`].
    #[must_use]
    pub fn from_words(words: [u16; ERROR_BYTES]) -> Self {
        Self { counts: words.map(ErrorCount::from_word) }
    }
}

/// Counts that name where errors arose, port by port: `port 0: 17 invalid frames, 2 lost links`;
/// empty without errors.
impl fmt::Display for LinkErrors {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for (counter, count) in self.counted().filter(|(counter, _)| counter.is_origin()) {
            let separator = match before {
                None => "",
                Some(port) if port == counter.port() => ", ",
                Some(_) => "; ",
            };
            write!(to, "{separator}")?;
            if let Some(port) = counter.port().filter(|_| before != Some(counter.port())) {
                write!(to, "port {port}: ")?;
            }
            write!(to, "{count} {}", counter.words())?;
            before = Some(counter.port());
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_register_of_its_own_from_0300_to_0313() {
        let mut registers: Vec<u16> = ErrorCounter::all().map(ErrorCounter::register).collect();
        registers.sort_unstable();
        let expected: Vec<u16> = (0x0300..=0x030d).chain(0x0310..=0x0313).collect();
        assert_eq!(registers, expected);
        for counter in ErrorCounter::all() {
            assert_eq!(ErrorCounter::from_register(counter.register().into()), Some(counter));
        }
        assert_eq!(ErrorCounter::from_register(0x030e), None);
    }

    #[test]
    fn a_count_of_a_full_counter_stays_a_lower_bound() {
        let full = ErrorCount::exactly(3).plus(252, true);
        assert_eq!((full.count(), full.to_string().as_str()), (255, ">= 255"));
        assert_eq!(full.plus(1, false).to_string(), ">= 256", "after the device was restarted");
        assert_eq!(ErrorCount::from_word(full.to_word()), full);
        let most = ErrorCount::exactly(32_767).plus(255, false);
        assert_eq!(most.to_string(), ">= 32767", "no count wraps");
    }

    #[test]
    fn errors_are_named_port_by_port_and_forwarded_ones_left_to_their_origin() {
        let mut errors = LinkErrors::default();
        assert_eq!(errors.to_string(), "");
        errors.set(ErrorCounter::InvalidFrames(0), ErrorCount::exactly(17));
        errors.set(ErrorCounter::LostLinks(0), ErrorCount::exactly(2));
        errors.set(ErrorCounter::ForwardedErrors(1), ErrorCount::exactly(9));
        errors.set(ErrorCounter::RxErrors(2), ErrorCount::exactly(0).plus(255, true));
        errors.set(ErrorCounter::ProcessingUnit, ErrorCount::exactly(1));
        assert_eq!(
            errors.to_string(),
            "port 0: 17 invalid frames, 2 lost links; port 2: >= 255 RX errors; 1 processing unit errors"
        );
        assert_eq!(LinkErrors::from_words(errors.to_words()), errors);
    }
}
