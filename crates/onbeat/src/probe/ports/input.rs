//! Something whose edges a loop takes up.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use onbeat_rt::sys::Port;
use onbeat_rt::{Arrival, Edge, EdgeSource, Instant};
use rustix::fs::{FileType, Mode, OFlags};

use super::super::description::ProbeError;
use super::{Marks, Place, gpio, serial, stamped};

const INPUT: &str = "an input";
/// How long a look for an edge may take before whoever looks may stop, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;
/// Bytes of `struct gpio_v2_line_event` (`include/uapi/linux/gpio.h`): the time stamp first, the line's own number of the
/// event at byte 20.
const LINE_EVENT: usize = 48;
const LINE_NUMBER_AT: usize = 20;

/// A prepared input.
#[derive(Debug)]
pub struct Input {
    port: Port,
    kind: Kind,
    next: u64,
    /// The kernel stamps what is received.
    is_stamped: bool,
    held: OwnedFd,
}

#[derive(Debug)]
enum Kind {
    /// One byte per edge; the instants are told by who makes them.
    Bytes(Marks),
    /// Events of a GPIO line.
    Line,
}

impl Input {
    /// Opens a place for reading. `marks` are the instants of its edges, for all but GPIO lines; `is_driven` says whether a
    /// generator drives the line, whose falling edges count too.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(place: &Place, marks: &Marks, is_driven: bool) -> Result<Self, ProbeError> {
        let open = |source, hint| ProbeError::Open { place: place.to_string(), what: INPUT, source, hint };
        let held: OwnedFd = match place {
            Place::Pipe | Place::Generator => {
                let why = "it has no other end here; leave the option out";
                return Err(ProbeError::Unfit { place: place.to_string(), what: INPUT, why });
            }
            Place::Pwm { .. } => {
                let why =
                    "a PWM channel is an output; its effect is seen where a wire leads it, such as gpio:CHIP/LINE";
                return Err(ProbeError::Unfit { place: place.to_string(), what: INPUT, why });
            }
            Place::File(path) => file(path, place)?,
            Place::Serial(path) => serial::open(path).map_err(|why| open(why, serial::HINT))?,
            Place::Udp(address) => UdpSocket::bind(address).map_err(|why| open(why, ""))?.into(),
            Place::Gpio { chip, line } => {
                let wanted = if is_driven { gpio::Wanted::Both } else { gpio::Wanted::Rising };
                let line = gpio::input(chip, line, place, wanted)?;
                let port = Port::new(line.as_raw_fd());
                return Ok(Self { port, kind: Kind::Line, next: 0, is_stamped: false, held: line.into() });
            }
        };

        Ok(Self::of_bytes(held, marks))
    }

    pub(super) fn of_bytes(held: OwnedFd, marks: &Marks) -> Self {
        let (port, kind) = (Port::new(held.as_raw_fd()), Kind::Bytes(marks.clone()));
        Self { port, kind, next: 0, is_stamped: false, held }
    }

    /// The same place for an observer, who wants to know when the kernel received what he sees.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub(super) fn observed(place: &Place, marks: &Marks) -> Result<Self, ProbeError> {
        let input = Self::open(place, marks, true)?;
        let socket =
            if matches!(place, Place::Udp(_)) { input.held.try_clone().ok().map(UdpSocket::from) } else { None };
        let is_stamped = socket.is_some_and(|socket| stamped::enable(&socket));
        Ok(Self { is_stamped, ..input })
    }

    /// Whether the kernel tells when what is seen came.
    pub(super) const fn tells_when(&self) -> bool {
        self.is_stamped || self.is_line()
    }

    /// Waits for the next edge, as [`EdgeSource::next`]; with the instant at which the kernel saw it, where it tells.
    pub(super) fn next_seen(&mut self) -> (Arrival, Option<Instant>) {
        if !self.is_stamped {
            let arrival = self.next();
            let at = if let Arrival::Edge(edge) = arrival { Some(edge.at).filter(|_| self.is_line()) } else { None };
            return (arrival, at);
        }

        if !self.port.is_ready_within(LOOK_NS) {
            return (Arrival::Nothing, None);
        }

        let Some((byte, at)) = stamped::receive(self.held.as_fd()) else { return (Arrival::Nothing, None) };
        (self.numbered(byte).map_or(Arrival::Over, Arrival::Edge), at)
    }

    /// Whether its edges carry the kernel's time stamps.
    #[must_use]
    pub const fn is_line(&self) -> bool {
        matches!(self.kind, Kind::Line)
    }

    fn byte(&mut self) -> Option<Edge> {
        let mut byte = [0];
        if self.port.read(&mut byte) != Ok(1) {
            return None;
        }
        self.numbered(byte[0])
    }

    /// The edge whose low bits came.
    fn numbered(&mut self, byte: u8) -> Option<Edge> {
        let Kind::Bytes(marks) = &self.kind else { return None };
        // Fewer than 256 edges are under way at a time, so the low bits tell which one it is.
        let index = self.next + u64::from(byte.wrapping_sub(self.next as u8));
        self.next = index + 1;
        Some(Edge { index, at: marks.get(index) })
    }

    fn event(&self) -> Option<Edge> {
        let mut event = [0; LINE_EVENT];
        (self.port.read(&mut event) == Ok(LINE_EVENT)).then(|| line_edge(&event)).flatten()
    }
}

/// An edge from the kernel's bytes. Its number counts from 1 there.
fn line_edge(event: &[u8; LINE_EVENT]) -> Option<Edge> {
    let at = u64::from_ne_bytes(event.first_chunk().copied()?);
    let number = u32::from_ne_bytes(event[LINE_NUMBER_AT..].first_chunk().copied()?);
    Some(Edge { index: u64::from(number).saturating_sub(1), at: Instant::from_ns(at) })
}

impl Input {
    fn take(&mut self) -> Option<Edge> {
        let edge = if self.is_line() { self.event() } else { self.byte() };
        self.next = edge.map_or(self.next, |edge| edge.index + 1);
        edge
    }
}

impl EdgeSource for Input {
    fn next(&mut self) -> Arrival {
        if !self.port.is_ready_within(LOOK_NS) {
            return Arrival::Nothing;
        }
        self.take().map_or(Arrival::Over, Arrival::Edge)
    }

    fn waiting(&mut self) -> Option<Edge> {
        if self.port.is_ready_within(0) { self.take() } else { None }
    }
}

/// A FIFO or a device. A FIFO is opened for writing too: else it would be over before its first writer came.
fn file(path: &Path, place: &Place) -> Result<OwnedFd, ProbeError> {
    let open = |source: rustix::io::Errno| ProbeError::Open {
        place: place.to_string(),
        what: INPUT,
        source: source.into(),
        hint: "; mkfifo makes a FIFO",
    };

    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).map_err(open)?;
    let status = rustix::fs::fstat(&file).map_err(open)?;
    if FileType::from_raw_mode(status.st_mode) == FileType::RegularFile {
        let why = "a regular file has no edges; mkfifo makes a FIFO";
        return Err(ProbeError::Unfit { place: place.to_string(), what: INPUT, why });
    }

    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_byte_tells_which_edge_it_is_across_missing_ones_and_the_wrap() {
        let (read, write) = std::io::pipe().expect("a pipe");
        let marks = Marks::default();
        let mut input = Input::of_bytes(read.into(), &marks);
        let mut write = write;
        for index in [0_u64, 1, 5, 250, 260] {
            marks.set(index, Instant::from_ns(1_000 + index));
            write.write_all(&[index as u8]).expect("room");
            assert_eq!(input.next(), Arrival::Edge(Edge { index, at: Instant::from_ns(1_000 + index) }));
        }

        drop(write);
        assert_eq!(input.next(), Arrival::Over);
    }

    #[test]
    fn an_event_of_a_line_is_read_as_the_kernel_lays_it_out() {
        let mut event = [0; LINE_EVENT];
        event[..8].copy_from_slice(&123_456_789_u64.to_ne_bytes());
        event[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        event[12..16].copy_from_slice(&17_u32.to_ne_bytes());
        event[16..20].copy_from_slice(&9_u32.to_ne_bytes());
        event[20..24].copy_from_slice(&4_u32.to_ne_bytes());

        assert_eq!(line_edge(&event), Some(Edge { index: 3, at: Instant::from_ns(123_456_789) }));
        assert_eq!(size_of::<gpiocdev_uapi::v2::LineEdgeEvent>(), LINE_EVENT);
        let words: Vec<u64> = event.chunks(8).map(|c| u64::from_ne_bytes(c.try_into().expect("eight"))).collect();
        let known = gpiocdev_uapi::v2::LineEdgeEvent::from_slice(&words).expect("whole");
        assert_eq!((known.timestamp_ns, known.line_seqno), (123_456_789, 4));
    }
}
