//! Something a loop writes to.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use onbeat_rt::sys::Port;
use rustix::fs::OFlags;

use super::super::description::ProbeError;
use super::{Place, gpio, serial};

const OUTPUT: &str = "an output";

/// A prepared output.
#[derive(Debug)]
pub struct Output {
    port: Port,
    is_line: bool,
    _held: OwnedFd,
}

impl Output {
    /// Opens a place for writing; `None` for a pipe, of which who reads it is to be made as well.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(place: &Place) -> Result<Option<Self>, ProbeError> {
        let open = |source, hint| ProbeError::Open { place: place.to_string(), what: OUTPUT, source, hint };
        let held: OwnedFd = match place {
            Place::Pipe => return Ok(None),
            Place::Generator => {
                let why = "a generator makes edges and takes none; an output is one of pipe, gpio:CHIP/LINE, serial:DEVICE, \
                           file:PATH, udp:HOST:PORT";
                return Err(ProbeError::Unfit { place: place.to_string(), what: OUTPUT, why });
            }
            Place::File(path) => file(path).map_err(|why| open(why, "; a FIFO wants a reader first"))?.into(),
            Place::Serial(path) => serial::open(path).map_err(|why| open(why, serial::HINT))?,
            Place::Udp(address) => udp(*address).map_err(|why| open(why, ""))?.into(),
            Place::Gpio { chip, line } => gpio::output(chip, line, place)?.into(),
        };
        Ok(Some(Self::on(held, matches!(place, Place::Gpio { .. }))))
    }

    pub(super) fn on(held: OwnedFd, is_line: bool) -> Self {
        Self { port: Port::on(held.as_raw_fd()), is_line, _held: held }
    }

    /// Writes the edge of number `mark`: that byte, or its last bit on a line. Tells whether it went through.
    #[must_use]
    pub fn set(&self, mark: u8) -> bool {
        let done = if self.is_line { self.port.set_line(mark & 1 == 0) } else { self.port.write(&[mark]) };
        done.is_ok()
    }
}

/// Never waits: a loop must not stand still because nobody reads its output.
fn file(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)
}

fn udp(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
