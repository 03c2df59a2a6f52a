//! A publisher and a subscriber of ZeroMQ over TCP, polled, without threads.
//!
//! A message has three frames: the name of the channel, the payload, and number and time of the
//! record, two 64-bit numbers, little-endian. A peer may leave the third one out.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::error::GatewayError;
use super::lcm_packets::LcmAccount;
use super::transport_message::NetworkMessage;
use super::zmtp::{SocketRole, ZmtpDecoder, opening, put_message, subscription};

/// Bytes that may wait for a subscriber; what does not fit is counted as dropped for it.
const MOST_WAITING: usize = 8 << 20;
/// Bytes read at a time, and how often before it is somebody else's turn.
const READ: usize = 1 << 16;
const READS_IN_A_TURN: usize = 64;
/// Longest message of a publisher, in bytes, and of a subscriber, which sends the beginnings of names.
const MOST_MESSAGE: usize = 1 << 24;
const MOST_REQUEST: usize = 1 << 12;
/// Subscribers of all hosts, of one host, and beginnings of names of each.
const MOST_SUBSCRIBERS: usize = 256;
const MOST_OF_A_HOST: usize = 64;
const MOST_PREFIXES: usize = 256;
/// Time within which a peer sends its greeting.
const GREETED_WITHIN: Duration = Duration::from_secs(10);
/// Names of a publisher whose numbers are followed.
const MOST_NAMES: usize = 4096;
/// Interval between two attempts to connect, and the time limit of one.
const CONNECT_EVERY: Duration = Duration::from_millis(100);
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Returns the address of an endpoint of ZeroMQ, `tcp://HOST:PORT`. Of a name's addresses the first of IPv4 is taken, as libzmq
/// does.
pub(super) fn endpoint(url: &str) -> Result<SocketAddr, GatewayError> {
    let place = url.strip_prefix("tcp://").unwrap_or_default();
    let found: Vec<SocketAddr> = place.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let address = found.iter().find(|address| address.is_ipv4()).or(found.first());
    address.copied().ok_or_else(|| GatewayError::Endpoint { url: url.to_owned() })
}

/// Listens on an address; nothing waits for a connection.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, GatewayError> {
    let bound = TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    bound.map_err(|source| GatewayError::Tcp { what: "listen on", address, source })
}

/// Writes what the kernel takes of these bytes now; returns how many those are.
pub(super) fn written(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(more) => sent += more,
            Err(why) if why.kind() == ErrorKind::WouldBlock => break,
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(sent)
}

/// Reads what has arrived; returns how many bytes, 0 for none now.
pub(super) fn arrived(mut stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    match stream.read(bytes) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        read => read,
    }
}

/// A connection: what is to be sent, and what has arrived.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    waiting: Vec<u8>,
    /// Bytes of `waiting` that were sent.
    sent: usize,
    decoder: ZmtpDecoder,
}

impl Connection {
    fn new(stream: TcpStream, role: SocketRole, most_message: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let decoder = ZmtpDecoder::new(most_message);
        Ok(Self { stream, waiting: opening(role), sent: 0, decoder })
    }

    const fn waiting_bytes(&self) -> usize {
        self.waiting.len() - self.sent
    }

    /// Sends what waits, as far as the kernel takes it.
    fn flush(&mut self) -> io::Result<()> {
        self.sent += written(&self.stream, &self.waiting[self.sent..])?;
        // Not for every few bytes that a slow peer reads.
        if self.sent * 2 >= self.waiting.len() {
            self.waiting.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Reads what has arrived, up to 64 KiB; returns whether there was any.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; READ];
        let read = arrived(&self.stream, &mut bytes)?;
        self.decoder.put(&bytes[..read]);
        Ok(read > 0)
    }
}

/// A subscriber, and the beginnings of names that it asked for.
#[derive(Debug)]
struct Subscriber {
    connection: Connection,
    host: IpAddr,
    accepted: Instant,
    prefixes: Vec<Vec<u8>>,
}

/// A socket of the type PUB.
#[derive(Debug)]
pub(super) struct ZmqPublisher {
    listener: TcpListener,
    subscribers: Vec<Subscriber>,
    /// Bytes that may wait for all subscribers together.
    most_memory: usize,
    dropped: u64,
    refused_peers: u64,
}

impl ZmqPublisher {
    pub(super) fn bind(url: &str, most_memory: usize) -> Result<Self, GatewayError> {
        // ZeroMQ's word for all addresses of a machine.
        let address = endpoint(&url.replacen("tcp://*:", "tcp://0.0.0.0:", 1))?;
        let listener = listen(address)?;
        Ok(Self { listener, subscribers: Vec::new(), most_memory, dropped: 0, refused_peers: 0 })
    }

    /// Accepts subscribers, reads their subscriptions, and sends what waits for them.
    pub(super) fn poll(&mut self) {
        for _ in 0..MOST_OF_A_HOST {
            let Ok((stream, from)) = self.listener.accept() else { break };
            self.admit(stream, from.ip());
        }
        // A subscriber that is gone, or speaks another protocol, is forgotten.
        self.subscribers.retain_mut(|of| of.read_subscriptions().is_some());
        self.subscribers.retain_mut(|of| of.connection.flush().is_ok());
        let before = self.subscribers.len();
        self.subscribers.retain(|of| {
            of.connection.decoder.is_ready() || of.accepted.elapsed() < GREETED_WITHIN
        });
        self.refused_peers += (before - self.subscribers.len()) as u64;
    }

    fn admit(&mut self, stream: TcpStream, host: IpAddr) {
        let of_host = self.subscribers.iter().filter(|of| of.host == host).count();
        if of_host >= MOST_OF_A_HOST || self.subscribers.len() >= MOST_SUBSCRIBERS {
            self.refused_peers += 1;
            return;
        }
        if let Ok(connection) = Connection::new(stream, SocketRole::Publisher, MOST_REQUEST) {
            let accepted = Instant::now();
            self.subscribers.push(Subscriber { connection, host, accepted, prefixes: Vec::new() });
        }
    }

    /// Queues a record for all subscribers that asked for it.
    pub(super) fn send(&mut self, name: &str, number_and_time: [u64; 2], payload: &[u8]) {
        let head: Vec<u8> = number_and_time.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut waiting: usize =
            self.subscribers.iter().map(|of| of.connection.waiting_bytes()).sum();
        for of in &mut self.subscribers {
            let is_wanted = |prefix: &Vec<u8>| name.as_bytes().starts_with(prefix);
            if !of.prefixes.iter().any(is_wanted) {
                continue;
            }
            if of.connection.waiting_bytes() + payload.len() > MOST_WAITING {
                self.dropped += 1;
                continue;
            }
            let before = of.connection.waiting_bytes();
            put_message(&mut of.connection.waiting, &[name.as_bytes(), payload, &head]);
            waiting += of.connection.waiting_bytes() - before;
        }
        while waiting > self.most_memory {
            waiting -= self.disconnect_slowest();
        }
    }

    /// Disconnects the subscriber for which the most waits; returns how much, in bytes.
    fn disconnect_slowest(&mut self) -> usize {
        let waiting = |of: &Subscriber| of.connection.waiting_bytes();
        let places = 0..self.subscribers.len();
        let Some(slowest) = places.max_by_key(|place| waiting(&self.subscribers[*place])) else {
            return usize::MAX;
        };
        self.refused_peers += 1;
        waiting(&self.subscribers.swap_remove(slowest))
    }

    /// Returns whether records wait for a subscriber.
    pub(super) fn has_waiting(&self) -> bool {
        self.subscribers.iter().any(|of| of.connection.waiting_bytes() > 0)
    }

    /// Returns the number of records that were dropped because a subscriber did not read.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of peers that were refused or disconnected at a limit.
    pub(super) const fn refused_peers(&self) -> u64 {
        self.refused_peers
    }
}

impl Subscriber {
    /// `None` if the subscriber is to be forgotten.
    fn read_subscriptions(&mut self) -> Option<()> {
        // One that keeps sending has its turn like the others.
        for _ in 0..READS_IN_A_TURN {
            if !self.connection.fill().ok()? {
                break;
            }
            while let Some(message) = self.connection.decoder.next_message().ok()? {
                self.subscribe(&message)?;
            }
        }
        Some(())
    }

    fn subscribe(&mut self, message: &[Vec<u8>]) -> Option<()> {
        match message.first().and_then(|frame| frame.split_first()) {
            Some((1, _)) if self.prefixes.len() >= MOST_PREFIXES => return None,
            Some((1, prefix)) => self.prefixes.push(prefix.to_vec()),
            Some((0, prefix)) => self.prefixes.retain(|own| own != prefix),
            _ => {}
        }
        Some(())
    }
}

/// A socket of the type SUB that asks for everything, and connects again when its publisher is back.
#[derive(Debug)]
pub(super) struct ZmqSubscriber {
    address: SocketAddr,
    most_message: usize,
    connection: Option<Connection>,
    has_subscribed: bool,
    tried: Option<Instant>,
    next: HashMap<String, u64>,
    account: LcmAccount,
}

impl ZmqSubscriber {
    pub(super) fn open(url: &str, most_memory: usize) -> Result<Self, GatewayError> {
        Ok(Self {
            address: endpoint(url)?,
            most_message: most_memory.min(MOST_MESSAGE),
            connection: None,
            has_subscribed: false,
            tried: None,
            next: HashMap::new(),
            account: LcmAccount::default(),
        })
    }

    /// Returns messages received, lost by the gaps in their numbers, and those that are not valid.
    pub(super) const fn account(&self) -> LcmAccount {
        self.account
    }

    /// Returns the next message; `None` if there is none now.
    pub(super) fn receive(&mut self) -> Option<NetworkMessage> {
        self.connect();
        let connection = self.connection.as_mut()?;
        for _ in 0..READS_IN_A_TURN {
            match connection.decoder.next_message() {
                Ok(Some(frames)) => {
                    let published = self.take(frames);
                    self.account.strange += u64::from(published.is_none());
                    return published;
                }
                Ok(None) => {}
                Err(_) => {
                    self.account.strange += 1;
                    self.connection = None;
                    return None;
                }
            }

            // Before its READY, a publisher takes no message.
            if connection.decoder.is_ready() && !self.has_subscribed {
                connection.waiting.extend(subscription());
                self.has_subscribed = true;
            }

            match connection.flush().and_then(|()| connection.fill()) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => {
                    self.connection = None;
                    return None;
                }
            }
        }
        None
    }

    fn connect(&mut self) {
        let is_due = self.tried.is_none_or(|tried| tried.elapsed() >= CONNECT_EVERY);
        if self.connection.is_some() || !is_due {
            return;
        }
        self.tried = Some(Instant::now());
        let stream = TcpStream::connect_timeout(&self.address, CONNECT_WITHIN);
        let most = self.most_message;
        let connection =
            stream.and_then(|stream| Connection::new(stream, SocketRole::Subscriber, most));
        self.connection = connection.ok();
        self.has_subscribed = false;
    }

    /// Counts the records between the last one of this name and this one.
    fn take(&mut self, frames: Vec<Vec<u8>>) -> Option<NetworkMessage> {
        let mut frames = frames.into_iter();
        let name = String::from_utf8(frames.next()?).ok()?;
        let payload = frames.next()?;
        self.account.received += 1;
        let number = frames.next().and_then(|head| head.first_chunk().copied());
        let is_followed = self.next.len() < MOST_NAMES || self.next.contains_key(&name);
        if let Some(number) = number.map(u64::from_le_bytes).filter(|_| is_followed) {
            let next = self.next.insert(name.clone(), number.wrapping_add(1)).unwrap_or(number);
            // A lower number is that of a publisher that has started again.
            self.account.lost += number.saturating_sub(next);
        }
        Some(NetworkMessage { name, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A publisher on a free port of the loopback.
    fn publisher(most_memory: usize) -> (ZmqPublisher, SocketAddr) {
        let publisher = ZmqPublisher::bind("tcp://127.0.0.1:0", most_memory).unwrap();
        let address = publisher.listener.local_addr().unwrap();
        (publisher, address)
    }

    fn poll_until(publisher: &mut ZmqPublisher, is_done: impl Fn(&ZmqPublisher) -> bool) {
        let began = Instant::now();
        while !is_done(publisher) && began.elapsed() < PATIENCE {
            publisher.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(is_done(publisher));
    }

    fn subscribed(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&opening(SocketRole::Subscriber)).unwrap();
        stream.write_all(&subscription()).unwrap();
        stream
    }

    #[test]
    fn endpoints_are_those_of_zeromq() {
        let local = endpoint("tcp://localhost:5556").unwrap();
        assert!(local.ip().is_loopback() && local.port() == 5556, "{local}");
        assert_eq!(endpoint("tcp://[::1]:5556").unwrap().to_string(), "[::1]:5556");
        let all = ZmqPublisher::bind("tcp://*:0", 0).unwrap().listener.local_addr().unwrap();
        assert!(all.ip().is_unspecified());
        for wrong in ["localhost:5556", "tcp://", "tcp://localhost", "ipc:///a"] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_has_its_share_of_connections_and_the_rest_is_refused() {
        let (mut publisher, address) = publisher(64 << 20);
        let _streams: Vec<_> =
            (0..MOST_OF_A_HOST + 10).map(|_| TcpStream::connect(address).unwrap()).collect();
        poll_until(&mut publisher, |it| it.refused_peers() == 10);
        assert_eq!(publisher.subscribers.len(), MOST_OF_A_HOST);
    }

    #[test]
    fn a_subscriber_that_reads_gets_everything_beside_ones_that_do_not() {
        let most_memory = 4 << 20;
        let (mut publisher, address) = publisher(most_memory);
        let _slow: Vec<_> = (0..8).map(|_| subscribed(address)).collect();
        let reading = subscribed(address);
        reading.set_nonblocking(true).unwrap();
        let mut reader = Connection {
            stream: reading,
            waiting: Vec::new(),
            sent: 0,
            decoder: ZmtpDecoder::new(MOST_MESSAGE),
        };
        let have_subscribed = |it: &ZmqPublisher| {
            it.subscribers.iter().filter(|of| !of.prefixes.is_empty()).count() == 9
        };
        poll_until(&mut publisher, have_subscribed);

        let payload = vec![7; 200_000];
        let mut received = 0;
        for number in 0..100_u64 {
            publisher.send("walker/cycle", [number, 0], &payload);
            let waiting: usize =
                publisher.subscribers.iter().map(|of| of.connection.waiting_bytes()).sum();
            assert!(waiting <= most_memory);
            let began = Instant::now();
            while received <= number && began.elapsed() < PATIENCE {
                publisher.poll();
                while reader.fill().unwrap() {}
                while let Some(message) = reader.decoder.next_message().unwrap() {
                    assert_eq!(
                        (&message[1], &message[2][..8]),
                        (&payload, &received.to_le_bytes()[..])
                    );
                    received += 1;
                }
            }
        }
        assert_eq!((received, publisher.refused_peers()), (100, 8));
    }

    #[test]
    fn a_subscriber_that_keeps_sending_ends_its_turn() {
        let (mut publisher, address) = publisher(64 << 20);
        let mut stream = subscribed(address);
        poll_until(&mut publisher, |it| it.subscribers.len() == 1);
        let flooding = std::thread::spawn(move || {
            // Commands that mean nothing, until the connection is closed.
            while stream.write_all(&[4, 1, 0].repeat(10_000)).is_ok() {}
        });
        for _ in 0..50 {
            publisher.poll();
        }
        drop(publisher);
        flooding.join().unwrap();
    }
}
