//! Outputs: a loop writes to them.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use onbeat_host::address::is_local;
use onbeat_rt::sys::Port;
use rustix::fs::OFlags;

use super::super::error::ProbeError;
use super::{PortAddress, gpio, pwm, serial};

const OUTPUT: &str = "an output";

/// An open output.
#[derive(Debug)]
pub struct Output {
    port: Port,
    form: OutputForm,
    _held: OwnedFd,
}

/// How an edge is written.
#[derive(Debug)]
enum OutputForm {
    Byte,
    /// As the level of a GPIO line.
    Level,
    /// As one of two texts.
    Text([Box<[u8]>; 2]),
}

impl Output {
    /// Opens a place for writing; `None` for a pipe, of which who reads it is to be made as well.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(place: &PortAddress) -> Result<Option<Self>, ProbeError> {
        let open = |source, hint| place.refused(OUTPUT, source, hint);
        let held: OwnedFd = match place {
            PortAddress::Pipe => return Ok(None),
            PortAddress::Generator => {
                let why = "a generator makes edges and takes none; an output is one of pipe, gpio:CHIP/LINE, \
                           pwm:CHIP/CHANNEL, serial:DEVICE, file:PATH, udp:HOST:PORT";
                return Err(place.unfit(OUTPUT, why));
            }
            PortAddress::File(path) => {
                file(path).map_err(|why| open(why, "; a FIFO wants a reader first"))?.into()
            }
            PortAddress::Serial(path) => {
                serial::open(path).map_err(|why| open(why, serial::HINT))?
            }
            PortAddress::Udp(address) if !is_local(address.ip()) => {
                let why = "it is outside the local network, where edges are not sent";
                return Err(place.unfit(OUTPUT, why));
            }
            PortAddress::Udp(address) => udp(*address).map_err(|why| open(why, ""))?.into(),
            PortAddress::Gpio { chip, line } => {
                return Ok(Some(Self::on(
                    gpio::output(chip, line, place)?.into(),
                    OutputForm::Level,
                )));
            }
            PortAddress::Pwm { chip, channel } => {
                let pwm::PwmChannel { duty_cycle, texts } = pwm::open(chip, *channel, place)?;
                return Ok(Some(Self::on(duty_cycle.into(), OutputForm::Text(texts))));
            }
        };

        Ok(Some(Self::on_bytes(held)))
    }

    pub(super) fn on_bytes(held: OwnedFd) -> Self {
        Self::on(held, OutputForm::Byte)
    }

    fn on(held: OwnedFd, form: OutputForm) -> Self {
        Self { port: Port::new(held.as_raw_fd()), form, _held: held }
    }

    /// Writes the edge of number `mark`: that byte, or by its last bit a level or a duty cycle.
    /// Returns whether the write succeeded.
    #[must_use]
    pub fn set(&self, mark: u8) -> bool {
        let is_even = mark & 1 == 0;
        let done = match &self.form {
            OutputForm::Byte => self.port.write(&[mark]),
            OutputForm::Level => self.port.set_line(is_even),
            OutputForm::Text(texts) => self.port.write(&texts[usize::from(is_even)]),
        };

        done.is_ok()
    }
}

/// Opens a file without waiting: a loop must not block because nothing reads its output.
fn file(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)
}

fn udp(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: SocketAddr =
        if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
