//! Inputs and outputs of loops: pins, serial lines, files, sockets, pipes, and the threads at their
//! other ends.
//!
//! Opening is cold work and done here; reading and writing in a cycle is
//! [`onbeat_rt::sys::Port`]'s. Everything but a GPIO line carries one byte per edge, the low bits
//! of its number, so that each edge is known again at the other end.
//!
//! Absent on purpose: time stamps that are taken when a byte is read and then called the instant of
//! the edge. The instant of an edge comes from the thread that made it, or from the kernel's
//! interrupt handler.

mod companion;
mod effects;
mod generator;
mod gpio;
mod host;
mod input;
mod output;
mod pwm;
mod serial;
mod stamped;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat_rt::Instant;
use serde::{Deserialize, Serialize};

use super::error::ProbeError;
use super::option::{OptionKind, ProbeOption};

pub use companion::{CommandMarks, PortCompanion};
pub use generator::{Commands, EdgeCount, Generator, Inbox};
pub use host::host_and_port;
pub use input::Input;
pub use output::Output;

/// The address of an input or output, as typed.
///
/// ```
/// use onbeat::probe::ports::PortAddress;
///
/// let line: PortAddress = "gpio:gpiochip0/17".parse()?;
/// assert_eq!(line.to_string(), "gpio:/dev/gpiochip0/17");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum PortAddress {
    /// `generator`: a thread of onbeat's own on another CPU.
    Generator,
    /// `pipe`: with a thread of onbeat's own at its other end.
    Pipe,
    /// `file:PATH`: a FIFO, a device, or a regular file to write to.
    File(PathBuf),
    /// `serial:DEVICE`.
    Serial(PathBuf),
    /// `udp:HOST:PORT`.
    Udp(SocketAddr),
    /// `pwm:CHIP/CHANNEL`: a channel's duty cycle.
    Pwm {
        /// The chip's directory.
        chip: PathBuf,
        /// The channel's number.
        channel: u32,
    },
    /// `gpio:CHIP/LINE`.
    Gpio {
        /// The chip's device.
        chip: PathBuf,
        /// The line's number or name.
        line: String,
    },
}

/// The output that a probe writes to.
pub const OUTPUT: ProbeOption = ProbeOption {
    name: "output",
    help: "Output to write to\n\
           pipe: read at once by a thread on another CPU; gpio:CHIP/LINE, serial:DEVICE, file:PATH, \
           udp:HOST:PORT; pwm:CHIP/CHANNEL: a quarter and three quarters of its period in turn.",
    default: Some("pipe"),
    kind: OptionKind::Place,
};

const FORMS: &str = "it is one of generator, pipe, gpio:CHIP/LINE, pwm:CHIP/CHANNEL, serial:DEVICE, file:PATH, udp:HOST:PORT";

impl PortAddress {
    /// Why it cannot be used so.
    fn unfit(&self, what: &'static str, why: &'static str) -> ProbeError {
        ProbeError::Unfit { place: self.to_string(), what, why }
    }

    /// Why it could not be opened.
    fn refused(&self, what: &'static str, source: io::Error, hint: &'static str) -> ProbeError {
        ProbeError::Open { place: self.to_string(), what, source, hint }
    }
}

/// The names in a directory that begin so, in order.
fn names_in(directory: &str, beginning: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> = names.filter(|name| name.starts_with(beginning)).collect();
    found.sort();
    found
}

impl From<PortAddress> for String {
    fn from(port: PortAddress) -> Self {
        port.to_string()
    }
}

impl TryFrom<String> for PortAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for PortAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("generator", "") => Ok(Self::Generator),
            ("pipe", "") => Ok(Self::Pipe),
            ("file", path) if !path.is_empty() => Ok(Self::File(path.into())),
            ("serial", path) if !path.is_empty() => Ok(Self::Serial(path.into())),
            ("udp", address) => {
                let wrong = |why| format!("`{address}` is not an address and port: {why}");
                host_and_port(address, None).map(Self::Udp).map_err(wrong)
            }
            ("pwm", at) => match at
                .rsplit_once('/')
                .and_then(|(chip, channel)| Some((chip, channel.parse().ok()?)))
            {
                Some((chip, channel)) if !chip.is_empty() => {
                    Ok(Self::Pwm { chip: pwm::directory(chip), channel })
                }
                _ => Err(format!(
                    "`{at}` is not a chip and the number of a channel, such as pwm:pwmchip0/1"
                )),
            },
            ("gpio", at) => match at.rsplit_once('/') {
                Some((chip, line)) if !chip.is_empty() && !line.is_empty() => {
                    let chip = if chip.starts_with('/') {
                        chip.into()
                    } else {
                        PathBuf::from("/dev").join(chip)
                    };
                    Ok(Self::Gpio { chip, line: line.to_owned() })
                }
                _ => Err(format!("`{at}` is not a chip and line, such as gpio:gpiochip0/17")),
            },
            _ => Err(FORMS.to_owned()),
        }
    }
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generator => f.write_str("generator"),
            Self::Pipe => f.write_str("pipe"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Serial(path) => write!(f, "serial:{}", path.display()),
            Self::Udp(address) => write!(f, "udp:{address}"),
            Self::Pwm { chip, channel } => write!(f, "pwm:{}/{channel}", chip.display()),
            Self::Gpio { chip, line } => write!(f, "gpio:{}/{line}", chip.display()),
        }
    }
}

/// The number of writes that failed, counted by the loop and read by other threads.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<AtomicU64>);

impl Failures {
    /// Counts a write.
    pub fn count(&self, went_through: bool) {
        if !went_through {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of failures.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of edges whose instants are kept.
const REMEMBERED: usize = 256;

/// The instants of the last edges, by number; written by the thread that makes them, read by the
/// one that sees them.
#[derive(Clone, Debug)]
pub struct Marks(Arc<[AtomicU64; REMEMBERED]>);

impl Default for Marks {
    fn default() -> Self {
        Self(Arc::new([const { AtomicU64::new(0) }; REMEMBERED]))
    }
}

impl Marks {
    /// Stores the instant of edge `index`; call it before the edge is made.
    pub fn set(&self, index: u64, at: Instant) {
        self.0[index as usize % REMEMBERED].store(at.as_ns(), Ordering::Release);
    }

    /// Returns the instant of edge `index`.
    #[must_use]
    pub fn get(&self, index: u64) -> Instant {
        Instant::from_ns(self.0[index as usize % REMEMBERED].load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written() {
        for text in [
            "generator",
            "pipe",
            "file:/tmp/fifo",
            "serial:/dev/ttyS0",
            "udp:127.0.0.1:7000",
            "udp:[::1]:7000",
            "udp:[fe80::1%1]:7000",
            "gpio:/dev/gpiochip0/17",
            "pwm:/sys/class/pwm/pwmchip0/1",
        ] {
            assert_eq!(
                text.parse::<PortAddress>().map(|place| place.to_string()).as_deref(),
                Ok(text)
            );
        }

        let short = "gpio:gpiochip1/LED".parse::<PortAddress>().map(|place| place.to_string());
        assert_eq!(short.as_deref(), Ok("gpio:/dev/gpiochip1/LED"));
    }

    #[test]
    fn an_address_that_is_not_valid_says_which_are() {
        for (text, part) in [
            ("wire", "gpio:CHIP/LINE"),
            ("gpio:17", "not a chip and line"),
            ("udp:nowhere", "`nowhere`"),
            ("udp:[fe80::1]:7471", "needs its interface"),
            ("file:", "file:PATH"),
            ("pwm:pwmchip0", "pwm:pwmchip0/1"),
            ("pwm:pwmchip0/led", "number of a channel"),
        ] {
            let why = text.parse::<PortAddress>().expect_err("not an address");
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn edges_are_sent_within_the_local_network() {
        for (text, is_sent) in [
            ("udp:127.0.0.1:9", true),
            ("udp:192.0.2.1:9", false),
            ("udp:[::ffff:192.0.2.1]:9", false),
            ("udp:[2001:db8::1]:9", false),
        ] {
            let place: PortAddress = text.parse().expect("an address");
            let refused = Output::open(&place).err().map(|why| why.to_string());
            let is_outside = refused.as_ref().is_some_and(|why| why.contains("outside the local"));
            assert_eq!((refused.is_none(), is_outside), (is_sent, !is_sent), "{text}: {refused:?}");
        }
    }
}
