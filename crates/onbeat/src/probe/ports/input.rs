//! Inputs: a loop waits for their edges.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use onbeat_rt::sys::Port;
use onbeat_rt::{Arrival, Edge, EdgeSource, Instant};
use rustix::fs::{FileType, Mode, OFlags};

use super::super::error::ProbeError;
use super::{Marks, PortAddress, gpio, serial, stamped};

const INPUT: &str = "an input";
/// Longest wait for an edge before the stop request is checked, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;
/// Bytes of `struct gpio_v2_line_event` (`include/uapi/linux/gpio.h`): the time stamp first, the
/// line's own number of the event at byte 20.
const LINE_EVENT: usize = 48;
const LINE_NUMBER_AT: usize = 20;

/// An open input.
#[derive(Debug)]
pub struct Input {
    port: Port,
    kind: InputKind,
    next: u64,
    /// The kernel stamps what is received.
    is_stamped: bool,
    held: OwnedFd,
}

#[derive(Debug)]
enum InputKind {
    /// One byte per edge; its instant comes from the thread that makes it.
    Bytes(Marks),
    /// Events of a GPIO line.
    Line,
}

impl Input {
    /// Opens a place for reading. `marks` are the instants of its edges, for all but GPIO lines;
    /// `is_driven` says whether a generator drives the line, whose falling edges count too.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(place: &PortAddress, marks: &Marks, is_driven: bool) -> Result<Self, ProbeError> {
        let open = |source, hint| place.refused(INPUT, source, hint);
        let held: OwnedFd = match place {
            PortAddress::Pipe | PortAddress::Generator => {
                return Err(place.unfit(INPUT, "it has no other end here; leave the option out"));
            }
            PortAddress::Pwm { .. } => {
                let why = "a PWM channel is an output; its effect is seen where a wire leads it, such as gpio:CHIP/LINE";
                return Err(place.unfit(INPUT, why));
            }
            PortAddress::File(path) => file(path, place)?,
            PortAddress::Serial(path) => {
                serial::open(path).map_err(|why| open(why, serial::HINT))?
            }
            PortAddress::Udp(address) => {
                UdpSocket::bind(address).map_err(|why| open(why, ""))?.into()
            }
            PortAddress::Gpio { chip, line } => {
                let wanted =
                    if is_driven { gpio::LineEdges::Both } else { gpio::LineEdges::Rising };
                let line = gpio::input(chip, line, place, wanted)?;
                return Ok(Self::on(line.into(), InputKind::Line));
            }
        };

        Ok(Self::of_bytes(held, marks))
    }

    pub(super) fn of_bytes(held: OwnedFd, marks: &Marks) -> Self {
        Self::on(held, InputKind::Bytes(marks.clone()))
    }

    fn on(held: OwnedFd, kind: InputKind) -> Self {
        Self { port: Port::new(held.as_raw_fd()), kind, next: 0, is_stamped: false, held }
    }

    /// Opens a place for an observer, with the instants at which the kernel received its edges
    /// where the kernel stamps them.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub(super) fn observed(place: &PortAddress, marks: &Marks) -> Result<Self, ProbeError> {
        let input = Self::open(place, marks, true)?;
        let socket = if matches!(place, PortAddress::Udp(_)) {
            input.held.try_clone().ok().map(UdpSocket::from)
        } else {
            None
        };
        let is_stamped = socket.is_some_and(|socket| stamped::enable(&socket));
        Ok(Self { is_stamped, ..input })
    }

    /// Returns whether the kernel stamps the edges.
    pub(super) const fn is_stamped_by_kernel(&self) -> bool {
        self.is_stamped || self.is_line()
    }

    /// Waits for the next edge, as [`EdgeSource::next`], and returns the kernel's time stamp where
    /// there is one.
    pub(super) fn next_seen(&mut self) -> (Arrival, Option<Instant>) {
        if !self.is_stamped {
            let arrival = self.next();
            let at = if let Arrival::Edge(edge) = arrival {
                Some(edge.at).filter(|_| self.is_line())
            } else {
                None
            };
            return (arrival, at);
        }

        if !self.port.is_ready_within(LOOK_NS) {
            return (Arrival::Nothing, None);
        }

        let Some((byte, at)) = stamped::receive(self.held.as_fd()) else {
            return (Arrival::Nothing, None);
        };
        (self.numbered(byte).map_or(Arrival::Over, Arrival::Edge), at)
    }

    /// Returns whether it is a GPIO line, whose edges carry the kernel's time stamps.
    #[must_use]
    pub const fn is_line(&self) -> bool {
        matches!(self.kind, InputKind::Line)
    }

    fn byte(&mut self) -> Option<Edge> {
        let mut byte = [0];
        if self.port.read(&mut byte) != Ok(1) {
            return None;
        }
        self.numbered(byte[0])
    }

    /// Returns the edge with these low bits.
    fn numbered(&mut self, byte: u8) -> Option<Edge> {
        let InputKind::Bytes(marks) = &self.kind else { return None };
        // Fewer than 256 edges are under way at a time, so the low bits identify it.
        let index = self.next + u64::from(byte.wrapping_sub(self.next as u8));
        self.next = index + 1;
        Some(Edge { index, at: marks.get(index) })
    }

    fn event(&self) -> Option<Edge> {
        let mut event = [0; LINE_EVENT];
        (self.port.read(&mut event) == Ok(LINE_EVENT)).then(|| line_edge(&event)).flatten()
    }

    fn take(&mut self) -> Option<Edge> {
        let edge = if self.is_line() { self.event() } else { self.byte() };
        self.next = edge.map_or(self.next, |edge| edge.index + 1);
        edge
    }
}

/// Decodes an edge from the kernel's bytes, which number edges from 1.
fn line_edge(event: &[u8; LINE_EVENT]) -> Option<Edge> {
    let at = u64::from_ne_bytes(event.first_chunk().copied()?);
    let number = u32::from_ne_bytes(event[LINE_NUMBER_AT..].first_chunk().copied()?);
    Some(Edge { index: u64::from(number).saturating_sub(1), at: Instant::from_ns(at) })
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

/// Opens a FIFO or a device. A FIFO is opened for writing too: otherwise it would end before its
/// first writer opens it.
fn file(path: &Path, place: &PortAddress) -> Result<OwnedFd, ProbeError> {
    let hint = "; mkfifo makes a FIFO";
    let open = |source: rustix::io::Errno| place.refused(INPUT, source.into(), hint);
    let file =
        rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).map_err(open)?;
    let status = rustix::fs::fstat(&file).map_err(open)?;
    if FileType::from_raw_mode(status.st_mode) == FileType::RegularFile {
        return Err(place.unfit(INPUT, "a regular file has no edges; mkfifo makes a FIFO"));
    }

    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_byte_identifies_its_edge_across_missing_ones_and_the_wrap() {
        let (read, write) = std::io::pipe().expect("a pipe");
        let marks = Marks::default();
        let mut input = Input::of_bytes(read.into(), &marks);
        let mut write = write;
        for index in [0_u64, 1, 5, 250, 260] {
            marks.set(index, Instant::from_ns(1_000 + index));
            write.write_all(&[index as u8]).expect("room");
            assert_eq!(
                input.next(),
                Arrival::Edge(Edge { index, at: Instant::from_ns(1_000 + index) })
            );
        }

        drop(write);
        // A child that another test has just started holds a copy of it until its execve.
        let mut arrivals = std::iter::repeat_with(|| input.next()).take(300);
        assert_eq!(arrivals.find(|arrival| *arrival != Arrival::Nothing), Some(Arrival::Over));
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
        let words: Vec<u64> =
            event.chunks(8).map(|c| u64::from_ne_bytes(c.try_into().expect("eight"))).collect();
        let known = gpiocdev_uapi::v2::LineEdgeEvent::from_slice(&words).expect("whole");
        assert_eq!((known.timestamp_ns, known.line_seqno), (123_456_789, 4));
    }
}
