//! A connection of a computer that may command a robot.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use onbeat_host::foreign;

use super::remote_frames::{
    Frame, FrameReader, FrameWriter, HELLO, MAGIC, NONCE, NotValid, SessionKeys, hello,
};
use super::remote_limits::RateLimit;
use super::zmq_socket::{arrived, written};

/// Bytes read at a time.
const READ: usize = 4096;
/// Bytes beside the greeting that may wait for a peer.
const MOST_WAITING: usize = 64 << 10;
/// Longest table of sockets that is read to find the user of a connection of this machine.
const MOST_SOCKETS: u64 = 4 << 20;

/// By which right a peer may command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandRight {
    /// None: it reads.
    None,
    /// It has the key.
    Key,
    /// It is a process of this user on this machine.
    Loopback,
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PeerEnd {
    #[error(transparent)]
    NotValid(#[from] NotValid),
    #[error("its connection has ended ({0})")]
    Gone(ErrorKind),
    #[error("it does not read what it is sent")]
    DoesNotRead,
}

/// The keys and nonces of an open connection.
#[derive(Debug)]
struct OpenSession {
    reader: FrameReader,
    writer: FrameWriter,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) number: u64,
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) accepted: Instant,
    pub(super) right: CommandRight,
    /// Has sent a valid frame, by which it has shown the key.
    pub(super) is_proven: bool,
    /// Was told that it commands no more; a new connection is needed.
    pub(super) is_ended: bool,
    pub(super) rate: RateLimit,
    greeting: Vec<u8>,
    session: Option<OpenSession>,
    waiting: Vec<u8>,
    most_waiting: usize,
}

impl Peer {
    pub(super) fn new(
        number: u64,
        stream: TcpStream,
        address: SocketAddr,
        rate: RateLimit,
    ) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A computer without power says nothing: its connection ends after 10 s.
        rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
        rustix::net::sockopt::set_tcp_keepidle(&stream, Duration::from_secs(5))?;
        rustix::net::sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(1))?;
        rustix::net::sockopt::set_tcp_keepcnt(&stream, 5)?;
        Ok(Self {
            number,
            stream,
            address,
            accepted: Instant::now(),
            right: CommandRight::None,
            is_proven: false,
            is_ended: false,
            rate,
            greeting: Vec::new(),
            session: None,
            waiting: Vec::new(),
            most_waiting: MOST_WAITING,
        })
    }

    pub(super) fn host(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }

    pub(super) const fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// Reads what has arrived, a piece at a time; returns its frames. `welcome` is the payload of the
    /// first frame to it, given its right.
    pub(super) fn read(
        &mut self,
        key: Option<&[u8]>,
        welcome: &dyn Fn(CommandRight) -> (u8, Vec<u8>),
    ) -> Result<Vec<Frame>, PeerEnd> {
        let mut bytes = [0; READ];
        let read = arrived(&self.stream, &mut bytes).map_err(|why| PeerEnd::Gone(why.kind()))?;
        if read == 0 {
            return Ok(Vec::new());
        }
        let read = &bytes[..read];

        let rest = if self.session.is_some() { read } else { self.greet(read, key, welcome)? };
        let Some(session) = &mut self.session else { return Ok(Vec::new()) };
        session.reader.put(rest);
        let mut frames = Vec::new();
        while let Some(frame) = session.reader.next()? {
            frames.push(frame);
        }
        self.is_proven |= !frames.is_empty() && self.right != CommandRight::None;
        Ok(frames)
    }

    /// Takes the peer's greeting, and answers with that of the robot; returns the bytes behind it.
    fn greet<'b>(
        &mut self,
        read: &'b [u8],
        key: Option<&[u8]>,
        welcome: &dyn Fn(CommandRight) -> (u8, Vec<u8>),
    ) -> Result<&'b [u8], PeerEnd> {
        let wanted = (HELLO - self.greeting.len()).min(read.len());
        self.greeting.extend(&read[..wanted]);
        let begins = self.greeting.len().min(MAGIC.len());
        if self.greeting[..begins] != MAGIC[..begins] {
            return Err(NotValid::Greeting.into());
        }
        let Some(whole) = self.greeting.first_chunk::<HELLO>() else { return Ok(&[]) };
        let (of_peer, has_key) = hello(whole)?;

        let mut of_robot = [0; NONCE];
        let drawn = rustix::rand::getrandom(&mut of_robot, rustix::rand::GetRandomFlags::empty());
        if drawn != Ok(NONCE) {
            return Err(PeerEnd::Gone(ErrorKind::Other));
        }
        let key = key.filter(|_| has_key);
        self.right = match key {
            Some(_) => CommandRight::Key,
            None if is_of_own_user(&self.stream, self.address) => CommandRight::Loopback,
            None => CommandRight::None,
        };
        let keys = SessionKeys::derive(key.unwrap_or(&[]), &of_peer, &of_robot);
        self.waiting.extend(MAGIC);
        self.waiting.extend(of_robot);
        self.session = Some(OpenSession {
            reader: FrameReader::to_robot(&keys),
            writer: FrameWriter::from_robot(&keys),
        });
        let (kind, payload) = welcome(self.right);
        self.most_waiting = payload.len() + MOST_WAITING;
        self.send(kind, &payload)?;
        Ok(&read[wanted..])
    }

    /// Queues a frame, and sends what the kernel takes.
    pub(super) fn send(&mut self, kind: u8, payload: &[u8]) -> Result<(), PeerEnd> {
        let Some(session) = &mut self.session else { return Ok(()) };
        session.writer.put(&mut self.waiting, kind, payload);
        self.flush()
    }

    pub(super) fn flush(&mut self) -> Result<(), PeerEnd> {
        let sent = written(&self.stream, &self.waiting);
        self.waiting.drain(..sent.map_err(|why| PeerEnd::Gone(why.kind()))?);
        if self.waiting.len() > self.most_waiting { Err(PeerEnd::DoesNotRead) } else { Ok(()) }
    }
}

/// Returns whether the other end of a connection is a process on this machine, of this user or root. Other
/// users of this machine have no more rights than those of another one.
fn is_of_own_user(stream: &TcpStream, peer: SocketAddr) -> bool {
    let Ok(own) = stream.local_addr() else { return false };
    if !peer.ip().to_canonical().is_loopback() {
        return false;
    }
    let user = rustix::process::geteuid().as_raw();
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .map(|path| foreign::text(Path::new(path), MOST_SOCKETS).unwrap_or_default());
    let users = tables.iter().filter_map(|table| user_of(table, peer, own));
    users.take(1).any(|of| of == user || of == 0)
}

/// Returns the user of the socket with these ends in a table of the kernel.
fn user_of(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let ends = [local, remote].map(in_table);
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = (0..2)
            .all(|end| words.get(1 + end).is_some_and(|it| ends[end].contains(&(*it).to_owned())));
        is_it.then(|| words.get(7)?.parse().ok()).flatten()
    })
}

/// The ways in which an address is written there.
fn in_table(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let words = |bytes: &[u8]| -> String {
        let words = bytes.chunks_exact(4);
        words
            .map(|word| format!("{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]])))
            .collect()
    };
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => vec![
            format!("{}:{port:04X}", words(&ip.octets())),
            format!("{}:{port:04X}", words(&ip.to_ipv6_mapped().octets())),
        ],
        IpAddr::V6(ip) => vec![format!("{}:{port:04X}", words(&ip.octets()))],
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_of_this_user_on_this_machine_is_known_by_the_kernels_table() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("{address} cannot be listened on here");
                continue;
            };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, peer) = listener.accept().unwrap();
            assert!(is_of_own_user(&stream, peer), "{address}");
        }
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
             0: 0100007F:0050 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 1\n";
        let ends = |local: &str, remote: &str| {
            user_of(table, local.parse().unwrap(), remote.parse().unwrap())
        };
        assert_eq!(ends("127.0.0.1:80", "127.0.0.1:8080"), Some(1000));
        assert_eq!(ends("127.0.0.1:8080", "127.0.0.1:80"), None, "the robot's own end");
        assert_eq!(ends("127.0.0.2:80", "127.0.0.1:8080"), None);
    }
}
