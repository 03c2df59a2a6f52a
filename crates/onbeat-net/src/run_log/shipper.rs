//! The sender's side: follows a run file and sends its lines, at a bounded rate, in a thread that
//! has no part in the measurement.

use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{self, LOG_PORT, LogMessage, LogPart, LogReceipt};
use crate::address::is_local;
use crate::background::BackgroundThread;
use crate::udp::any_address;
use onbeat::probe::ports::host_and_port;
use onbeat_host::thread::stay_off_cpu;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Parts that are sent at once, before a pause of [`PACE`]: at most 3,200 a second.
const BURST: u64 = 32;
const PACE: Duration = Duration::from_millis(10);
/// How often a part is sent until its receipt comes, and how long each time waits.
const TRIES: u32 = 10;
const RECEIPT_WITHIN: Duration = Duration::from_millis(200);
/// Parts that begin in one of these lines are confirmed: without them nothing of a run can be read.
const HEADER_LINES: u64 = 5;
const READ_BYTES: usize = 64 * 1024;

/// Why a run cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum LogShipError {
    /// A name cannot be resolved.
    #[error("--log-to {name}: {why}; write HOST, HOST:PORT or [IPV6]:PORT")]
    Name {
        /// As typed.
        name: String,
        /// Why not.
        why: String,
    },
    /// The address is not in a local network.
    #[error("--log-to {address} is outside the local network, where runs are not sent")]
    Outside { address: SocketAddr },
    /// The name of the run cannot be sent.
    #[error(
        "the run {path} cannot be sent: its names must have letters, digits, `.`, `-` and `_` alone"
    )]
    Run {
        /// The run file.
        path: PathBuf,
    },
    /// The system refuses a call.
    #[error("cannot use a UDP socket: {0}")]
    Socket(io::Error),
    /// Nothing answers.
    #[error(
        "no logging server answers at {to}; run `onbeat net log --bind ADDRESS --allow RANGE` there, and check the \
         firewall"
    )]
    NoAnswer {
        /// The address.
        to: SocketAddr,
    },
}

/// What was sent of a run, and what the server says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogShipment {
    /// Datagrams sent, repeated ones among them.
    pub sent: u64,
    /// Datagrams that this machine refused to send.
    pub unsent: u64,
    /// Lines of the run file.
    pub lines: u64,
    /// The server's last receipt; `None` when the end was not confirmed.
    pub receipt: Option<LogReceipt>,
}

impl LogShipment {
    /// Returns how many datagrams did not reach the server's file: lost on the way or in its
    /// socket, or without room there; `None` when the end was not confirmed.
    #[must_use]
    pub fn lost(&self) -> Option<u64> {
        let of = |receipt: LogReceipt| {
            (self.sent + receipt.without_room).saturating_sub(receipt.received)
        };
        self.receipt.map(of)
    }
}

/// A run file that is being sent, until [`LogShipper::finish`].
#[derive(Debug)]
pub struct LogShipper(BackgroundThread<LogShipment>);

impl LogShipper {
    /// Asks the server for an answer, then follows the run file, which need not exist yet, off the
    /// loop's CPU.
    ///
    /// # Errors
    /// [`LogShipError`].
    pub fn start(to: &str, path: &Path, loop_cpu: Option<u32>) -> Result<Self, LogShipError> {
        let to = resolved(to)?;
        let name = name_of(path)?;
        let mut sending = Sending::open(to, name).map_err(LogShipError::Socket)?;
        // Nothing of the file yet: the name alone.
        if sending.confirmed(&[], true, false).is_none() {
            return Err(LogShipError::NoAnswer { to });
        }

        let path = path.to_owned();
        let thread = BackgroundThread::start("onbeat-ship", move |stop| {
            loop_cpu.into_iter().for_each(stay_off_cpu);
            sending.follow(&path, stop)
        });
        thread.map(Self).map_err(LogShipError::Socket)
    }

    /// Sends the rest of the file, and returns what became of it.
    #[must_use]
    pub fn finish(self) -> LogShipment {
        self.0.finish().unwrap_or_default()
    }
}

fn resolved(name: &str) -> Result<SocketAddr, LogShipError> {
    let unknown = |why| LogShipError::Name { name: name.to_owned(), why };
    let address = host_and_port(name, Some(LOG_PORT)).map_err(unknown)?;
    if is_local(address.ip()) { Ok(address) } else { Err(LogShipError::Outside { address }) }
}

/// The last two parts of a path: the directory of the run, and its file.
fn name_of(path: &Path) -> Result<String, LogShipError> {
    let of =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str().map(str::to_owned));
    let run = of(path.parent().and_then(Path::file_name)).unwrap_or_default();
    let name = format!("{run}/{}", of(path.file_name()).unwrap_or_default());
    if wire::is_name(&name) { Ok(name) } else { Err(LogShipError::Run { path: path.to_owned() }) }
}

/// What is on its way.
struct Sending {
    socket: UdpSocket,
    session: u32,
    name: String,
    /// Number of the next part, and of the line in which it begins.
    number: u64,
    line: u64,
    message: Vec<u8>,
    shipment: LogShipment,
}

impl Sending {
    fn open(to: SocketAddr, name: String) -> io::Result<Self> {
        let socket = UdpSocket::bind(any_address(to.is_ipv4()))?;
        socket.connect(to)?;
        let session = fastrand::u32(1..);
        let shipment = LogShipment::default();
        Ok(Self { socket, session, name, number: 0, line: 0, message: Vec::new(), shipment })
    }

    /// Sends what the file has, again and again, and its end when `stop` is set.
    fn follow(&mut self, path: &Path, stop: &AtomicBool) -> LogShipment {
        let mut file = None;
        let mut unsent: Vec<u8> = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            // Looked at before the last bytes are read.
            let is_over = stop.load(Ordering::Relaxed);
            file = file.or_else(|| File::open(path).ok());
            let read = file.as_mut().map_or(0, |file| file.read(&mut buffer).unwrap_or(0));
            unsent.extend_from_slice(&buffer[..read]);
            if let Some(end) = unsent.iter().rposition(|byte| *byte == b'\n') {
                let lines: Vec<u8> = unsent.drain(..=end).collect();
                self.send_lines(&lines);
            }
            if read == 0 {
                if is_over {
                    break;
                }
                thread::sleep(LOOK_EVERY);
            }
        }

        self.shipment.lines = self.line;
        self.shipment.receipt = self.confirmed(&[], true, true);
        self.shipment.clone()
    }

    /// Sends whole lines: as many as fit a part, or pieces of a longer one.
    fn send_lines(&mut self, mut rest: &[u8]) {
        let room = LogPart::room(&self.name);
        let ends = |byte: &u8| *byte == b'\n';
        let mut begins_line = true;
        while !rest.is_empty() {
            let fits = &rest[..rest.len().min(room)];
            // The last piece of a long line has no other line behind it.
            let end =
                if begins_line { fits.iter().rposition(ends) } else { fits.iter().position(ends) };
            let (part, others) = rest.split_at(end.map_or(fits.len(), |end| end + 1));
            self.send_part(part, begins_line);
            self.line += part.iter().filter(|byte| **byte == b'\n').count() as u64;
            begins_line = end.is_some();
            rest = others;
        }
    }

    fn send_part(&mut self, bytes: &[u8], begins_line: bool) {
        if self.line < HEADER_LINES {
            self.confirmed(bytes, begins_line, false);
            return;
        }
        self.write(bytes, begins_line, false, false);
        self.send();
        self.number += 1;
        if self.number.is_multiple_of(BURST) {
            thread::sleep(PACE);
        }
    }

    /// Sends a part until its receipt comes, and counts it as sent; `None` without a receipt.
    fn confirmed(&mut self, bytes: &[u8], begins_line: bool, is_last: bool) -> Option<LogReceipt> {
        self.write(bytes, begins_line, is_last, true);
        let mut receipt = None;
        let mut copies = 0;
        while receipt.is_none() && copies < TRIES {
            self.send();
            copies += 1;
            receipt = self.receipt_within(RECEIPT_WITHIN);
        }
        if is_last {
            receipt = receipt.map(|first| self.latest_receipt(first, copies));
        }
        self.number += 1;
        receipt
    }

    /// Returns the receipt that counts most copies of a part: a slow server answers each of them,
    /// and when the first answer comes the others are on their way, not lost.
    fn latest_receipt(&self, first: LogReceipt, copies: u32) -> LogReceipt {
        let mut latest = first;
        for _ in 1..copies {
            let Some(next) = self.receipt_within(RECEIPT_WITHIN * TRIES) else { break };
            if next.received > latest.received {
                latest = next;
            }
        }
        latest
    }

    fn receipt_within(&self, within: Duration) -> Option<LogReceipt> {
        let until = Instant::now() + within;
        let mut answer = [0; wire::MOST_LOG_BYTES];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }

            self.socket.set_read_timeout(Some(left)).ok()?;
            match self.socket.recv(&mut answer) {
                Ok(length) => match wire::decode(&answer[..length]) {
                    Ok(LogMessage::Receipt(receipt))
                        if (receipt.session, receipt.number) == (self.session, self.number) =>
                    {
                        return Some(receipt);
                    }
                    _ => {}
                },
                // A closed port answers at once; the server may be on its way.
                Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
                    thread::sleep(left.min(LOOK_EVERY));
                }
                Err(_) => {}
            }
        }
    }

    fn write(&mut self, bytes: &[u8], begins_line: bool, is_last: bool, wants_receipt: bool) {
        self.message.clear();
        let part = LogPart {
            session: self.session,
            number: self.number,
            line: self.line,
            begins_line,
            is_last,
            wants_receipt,
            name: &self.name,
            bytes,
        };
        part.write(&mut self.message);
    }

    fn send(&mut self) {
        match self.socket.send(&self.message) {
            Ok(_) => self.shipment.sent += 1,
            Err(_) => self.shipment.unsent += 1,
        }
    }
}
