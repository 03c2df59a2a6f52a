//! A publisher and a subscriber of ZeroMQ over TCP, polled, without threads.
//!
//! A message has three frames: the name of the channel, the payload, and number and time of the
//! record, two 64-bit numbers, little-endian. A peer may leave the third one out.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::error::GatewayError;
use super::transport_message::NetworkMessage;
use super::zmtp::{SocketRole, ZmtpDecoder, opening, put_message, subscription};

/// Bytes that may wait for a subscriber; what does not fit is counted as dropped for it.
const MOST_WAITING: usize = 8 << 20;
/// Bytes read at a time.
const READ: usize = 1 << 16;
/// Interval between two attempts to connect, and the time limit of one.
const CONNECT_EVERY: Duration = Duration::from_millis(100);
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Returns the address of an endpoint of ZeroMQ, `tcp://ADDRESS:PORT`.
pub(super) fn endpoint(url: &str) -> Result<SocketAddr, GatewayError> {
    let address = url.strip_prefix("tcp://").and_then(|address| address.parse().ok());
    address.ok_or_else(|| GatewayError::Endpoint { url: url.to_owned() })
}

/// A connection: what is to be sent, and what has arrived.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    waiting: Vec<u8>,
    decoder: ZmtpDecoder,
}

impl Connection {
    fn new(stream: TcpStream, role: SocketRole) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, waiting: opening(role), decoder: ZmtpDecoder::default() })
    }

    /// Sends what waits, as far as the kernel takes it.
    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.waiting.len() {
            match self.stream.write(&self.waiting[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => sent += bytes,
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        self.waiting.drain(..sent);
        Ok(())
    }

    /// Reads what has arrived, up to 64 KiB; returns whether there was any.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; READ];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.decoder.put(&bytes[..read]);
                Ok(true)
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(false)
            }
            Err(why) => Err(why),
        }
    }
}

/// A subscriber, and the beginnings of names that it asked for.
#[derive(Debug)]
struct Subscriber {
    connection: Connection,
    prefixes: Vec<Vec<u8>>,
}

/// A socket of the type PUB.
#[derive(Debug)]
pub(super) struct ZmqPublisher {
    listener: TcpListener,
    subscribers: Vec<Subscriber>,
    dropped: u64,
}

impl ZmqPublisher {
    pub(super) fn bind(url: &str) -> Result<Self, GatewayError> {
        let address = endpoint(url)?;
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener =
            bound.map_err(|source| GatewayError::Tcp { what: "listen on", address, source })?;
        Ok(Self { listener, subscribers: Vec::new(), dropped: 0 })
    }

    /// Accepts subscribers, reads their subscriptions, and sends what waits for them.
    pub(super) fn poll(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if let Ok(connection) = Connection::new(stream, SocketRole::Publisher) {
                self.subscribers.push(Subscriber { connection, prefixes: Vec::new() });
            }
        }
        // A subscriber that is gone, or speaks another protocol, is forgotten.
        self.subscribers.retain_mut(|of| of.read_subscriptions().is_some());
        self.subscribers.retain_mut(|of| of.connection.flush().is_ok());
    }

    /// Queues a record for all subscribers that asked for it.
    pub(super) fn send(&mut self, name: &str, number_and_time: [u64; 2], payload: &[u8]) {
        let head: Vec<u8> = number_and_time.iter().flat_map(|word| word.to_le_bytes()).collect();
        for of in &mut self.subscribers {
            let is_wanted = |prefix: &Vec<u8>| name.as_bytes().starts_with(prefix);
            if !of.prefixes.iter().any(is_wanted) {
                continue;
            }
            if of.connection.waiting.len() + payload.len() > MOST_WAITING {
                self.dropped += 1;
                continue;
            }
            put_message(&mut of.connection.waiting, &[name.as_bytes(), payload, &head]);
        }
    }

    /// Returns whether records wait for a subscriber.
    pub(super) fn has_waiting(&self) -> bool {
        self.subscribers.iter().any(|of| !of.connection.waiting.is_empty())
    }

    /// Returns the number of records that were dropped because a subscriber did not read.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Subscriber {
    /// `None` if the subscriber is to be forgotten.
    fn read_subscriptions(&mut self) -> Option<()> {
        while self.connection.fill().ok()? {}
        while let Some(message) = self.connection.decoder.next().ok()? {
            match message.first().and_then(|frame| frame.split_first()) {
                Some((1, prefix)) => self.prefixes.push(prefix.to_vec()),
                Some((0, prefix)) => self.prefixes.retain(|own| own != prefix),
                _ => {}
            }
        }
        Some(())
    }
}

/// A socket of the type SUB that asks for everything, and connects again when its publisher is back.
#[derive(Debug)]
pub(super) struct ZmqSubscriber {
    address: SocketAddr,
    connection: Option<Connection>,
    has_subscribed: bool,
    tried: Option<Instant>,
    next: HashMap<String, u64>,
    received: u64,
    lost: u64,
    strange: u64,
}

impl ZmqSubscriber {
    pub(super) fn open(url: &str) -> Result<Self, GatewayError> {
        let address = endpoint(url)?;
        let next = HashMap::new();
        Ok(Self {
            address,
            connection: None,
            has_subscribed: false,
            tried: None,
            next,
            received: 0,
            lost: 0,
            strange: 0,
        })
    }

    /// Returns messages received, lost by the gaps in their numbers, and those that are not valid.
    pub(super) const fn counts(&self) -> [u64; 3] {
        [self.received, self.lost, self.strange]
    }

    /// Returns the next message; `None` if there is none now.
    pub(super) fn receive(&mut self) -> Option<NetworkMessage> {
        self.connect();
        let connection = self.connection.as_mut()?;
        loop {
            match connection.decoder.next() {
                Ok(Some(frames)) => {
                    let published = self.take(frames);
                    self.strange += u64::from(published.is_none());
                    return published;
                }
                Ok(None) => {}
                Err(_) => {
                    self.strange += 1;
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
    }

    fn connect(&mut self) {
        let is_due = self.tried.is_none_or(|tried| tried.elapsed() >= CONNECT_EVERY);
        if self.connection.is_some() || !is_due {
            return;
        }
        self.tried = Some(Instant::now());
        let stream = TcpStream::connect_timeout(&self.address, CONNECT_WITHIN);
        let connection = stream.and_then(|stream| Connection::new(stream, SocketRole::Subscriber));
        self.connection = connection.ok();
        self.has_subscribed = false;
    }

    /// Counts the records between the last one of this name and this one.
    fn take(&mut self, frames: Vec<Vec<u8>>) -> Option<NetworkMessage> {
        let mut frames = frames.into_iter();
        let name = String::from_utf8(frames.next()?).ok()?;
        let payload = frames.next()?;
        self.received += 1;
        let number = frames.next().and_then(|head| head.first_chunk().copied());
        if let Some(number) = number.map(u64::from_le_bytes) {
            let next = self.next.insert(name.clone(), number.wrapping_add(1)).unwrap_or(number);
            // A lower number is that of a publisher that has started again.
            self.lost += number.saturating_sub(next);
        }
        Some(NetworkMessage { name, payload })
    }
}
