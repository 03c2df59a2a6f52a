//! LCM's packets over UDP, without a socket: messages to datagrams and back.
//!
//! A message is one datagram (`LC02`), or several (`LC03`) if it is long. Numbers are big-endian
//! (LCM, "UDP Multicast Protocol").

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use serde::Serialize;

/// The first word of a message in one datagram: `LC02`.
const SHORT: u32 = 0x4c43_3032;
/// The first word of a part of a message: `LC03`.
const FRAGMENT: u32 = 0x4c43_3033;
/// Bytes of the header of a short message, and of a part.
const SHORT_HEAD: usize = 8;
const FRAGMENT_HEAD: usize = 20;
/// Most bytes of name, closing 0 and payload in a short message, as LCM sends it.
const MOST_SHORT: usize = 65_499;
/// Most bytes of name, closing 0 and payload in a part.
const MOST_IN_FRAGMENT: usize = 65_487;
/// Longest name of a channel, in bytes.
pub(super) const MOST_NAME: usize = 63;
/// Longest message that is put together, in bytes; LCM's own receivers have the same limit of memory
/// for all of them.
const MOST_MESSAGE: usize = 1 << 24;
/// A datagram that is later than this number of messages is of a sender that has started again.
const MOST_LATE: i32 = 1000;

/// Returns the datagrams of a message. The name must have at most 63 bytes.
#[must_use]
pub fn datagrams(channel: &str, sequence: u32, payload: &[u8]) -> Vec<Vec<u8>> {
    let name = channel.as_bytes();
    if name.len() + 1 + payload.len() <= MOST_SHORT {
        let head = [SHORT.to_be_bytes(), sequence.to_be_bytes()].concat();
        return vec![[&head, name, &[0], payload].concat()];
    }

    let count = (name.len() + 1 + payload.len()).div_ceil(MOST_IN_FRAGMENT);
    let mut at = 0;
    let datagram = |number: usize| {
        let name = if number == 0 { [name, &[0]].concat() } else { Vec::new() };
        let bytes = (MOST_IN_FRAGMENT - name.len()).min(payload.len() - at);
        let words = [FRAGMENT, sequence, payload.len() as u32, at as u32];
        let mut datagram: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        datagram.extend((number as u16).to_be_bytes());
        datagram.extend((count as u16).to_be_bytes());
        datagram.extend(name);
        datagram.extend(&payload[at..at + bytes]);
        at += bytes;
        datagram
    };
    (0..count).map(datagram).collect()
}

/// Bounds of what a receiver holds for its senders, whoever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LcmLimits {
    /// Memory for messages of which parts are missing, of all senders together, in bytes.
    pub most_memory: usize,
    /// Longest message, in bytes; at most 16 MiB.
    pub most_message: usize,
    /// Senders whose numbers are followed.
    pub most_senders: usize,
    /// Time after its first part within which a message must be complete.
    pub most_age: Duration,
}

impl Default for LcmLimits {
    fn default() -> Self {
        Self {
            most_memory: 64 << 20,
            most_message: MOST_MESSAGE,
            most_senders: 1024,
            most_age: Duration::from_secs(1),
        }
    }
}

/// What a receiver has found so far, of LCM or of another network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LcmAccount {
    /// Complete messages, on all channels.
    pub received: u64,
    /// Messages that did not arrive, or not completely: gaps in the senders' sequences, and messages
    /// that were dropped at a limit.
    pub lost: u64,
    /// What arrived and is not of the network's protocol.
    pub strange: u64,
    /// Messages dropped while parts were missing: for memory, and for their age.
    pub dropped_for_memory: u64,
    /// As above.
    pub dropped_for_age: u64,
    /// Senders forgotten for others, with what was held of them.
    pub forgotten_senders: u64,
    /// The most memory that was held at a time, in bytes.
    pub most_held_bytes: usize,
}

/// Memory of a part beside its bytes, and of a message, as counted against the limit.
const OF_A_PART: usize = 64;
const OF_A_MESSAGE: usize = 192;

/// Puts messages together, sender by sender, and counts what is missing.
///
/// A part takes memory of its own length; what a sender claims takes none. Beyond a limit, the host that
/// holds the most loses its oldest message first, so that one host does not displace another.
#[derive(Debug, Default)]
pub struct LcmAssembler {
    limits: LcmLimits,
    senders: HashMap<SocketAddrV4, Sender>,
    hosts: HashMap<Ipv4Addr, HostShare>,
    held_bytes: usize,
    /// When messages were last checked for their age.
    checked: Option<Instant>,
    account: LcmAccount,
}

/// What the senders of a host have.
#[derive(Clone, Copy, Debug, Default)]
struct HostShare {
    senders: usize,
    bytes: usize,
}

/// A sender, and its message of which parts have arrived.
#[derive(Debug)]
struct Sender {
    heard: Instant,
    next: Option<u32>,
    partial: Option<PartialMessage>,
}

#[derive(Debug)]
struct PartialMessage {
    begun: Instant,
    sequence: u32,
    channel: String,
    bytes: usize,
    count: usize,
    /// Offset and bytes of the parts, by their numbers.
    parts: BTreeMap<usize, (usize, Box<[u8]>)>,
    held_bytes: usize,
}

struct MessagePart<'d> {
    sequence: u32,
    at: usize,
    bytes: usize,
    number: usize,
    count: usize,
    channel: Option<&'d str>,
    payload: &'d [u8],
}

/// Why a message of which parts have arrived is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenUp {
    /// Its sender has begun another one, or its parts contradict each other.
    BySender,
    ForMemory,
    ForAge,
}

impl LcmAssembler {
    /// Creates an assembler with these limits.
    #[must_use]
    pub fn new(limits: LcmLimits) -> Self {
        let most_message = limits.most_message.min(limits.most_memory);
        Self { limits: LcmLimits { most_message, ..limits }, ..Self::default() }
    }

    /// Takes a datagram; returns channel and payload of the message that it completes.
    pub fn take(
        &mut self,
        from: SocketAddrV4,
        datagram: &[u8],
        now: Instant,
    ) -> Option<(String, Vec<u8>)> {
        self.expire(now);
        let complete = match word(datagram, 0) {
            Some(SHORT) => self.short(from, datagram, now),
            Some(FRAGMENT) => self.part(from, datagram, now),
            _ => None,
        };
        match complete {
            Some(DatagramContent::Message(channel, payload)) => {
                self.account.received += 1;
                return Some((channel, payload));
            }
            Some(DatagramContent::Part) => {}
            None => self.account.strange += 1,
        }
        None
    }

    /// Drops messages that are too old; to be called while nothing arrives. Checks at most ten times
    /// within the longest age.
    pub fn expire(&mut self, now: Instant) {
        let age = self.limits.most_age;
        let is_due =
            self.checked.is_none_or(|checked| now.saturating_duration_since(checked) * 10 >= age);
        if !is_due || self.held_bytes == 0 {
            return;
        }
        self.checked = Some(now);
        let is_old = |partial: &PartialMessage| now.saturating_duration_since(partial.begun) >= age;
        let old = self.senders.iter().filter(|(_, of)| of.partial.as_ref().is_some_and(is_old));
        let old: Vec<_> = old.map(|(from, _)| *from).collect();
        for from in old {
            self.give_up(from, GivenUp::ForAge);
        }
    }

    /// Returns the account.
    #[must_use]
    pub const fn account(&self) -> LcmAccount {
        self.account
    }

    /// Returns the memory held for messages of which parts are missing, in bytes.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Returns the number of senders that are followed, and of messages of which parts are missing.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        let partial = self.senders.values().filter(|of| of.partial.is_some());
        (self.senders.len(), partial.count())
    }

    fn short(
        &mut self,
        from: SocketAddrV4,
        datagram: &[u8],
        now: Instant,
    ) -> Option<DatagramContent> {
        let (channel, payload) = named(datagram.get(SHORT_HEAD..)?)?;
        let sequence = word(datagram, 4)?;
        self.follow(from, now);
        self.count(from, sequence);
        Some(DatagramContent::Message(channel.to_owned(), payload.to_vec()))
    }

    fn part(
        &mut self,
        from: SocketAddrV4,
        datagram: &[u8],
        now: Instant,
    ) -> Option<DatagramContent> {
        let part = MessagePart::from_datagram(datagram, self.limits.most_message)?;
        self.follow(from, now);
        let partial = self.senders.get(&from).and_then(|of| of.partial.as_ref());
        let is_of_it = partial.map(|partial| partial.sequence == part.sequence);
        if is_of_it == Some(false) {
            // What is not complete now never will be.
            self.give_up(from, GivenUp::BySender);
        }
        if is_of_it != Some(true) {
            self.count(from, part.sequence);
        }

        let partial = self.senders.get(&from).and_then(|of| of.partial.as_ref());
        let more = match partial {
            Some(partial) => partial.bytes_more(&part)?,
            None => OF_A_MESSAGE + OF_A_PART + part.payload.len(),
        };
        if !self.make_room(from, more) {
            return Some(DatagramContent::Part);
        }

        self.held_bytes += more;
        self.account.most_held_bytes = self.account.most_held_bytes.max(self.held_bytes);
        self.hosts.entry(*from.ip()).or_default().bytes += more;
        let of = self.senders.get_mut(&from)?;
        let partial = of.partial.get_or_insert_with(|| PartialMessage::new(&part, now));
        partial.add(&part, more);
        if partial.parts.len() < partial.count {
            return Some(DatagramContent::Part);
        }
        let whole = self.release(from)?;
        let Some(payload) = whole.payload() else {
            self.account.lost += 1;
            return None;
        };
        Some(DatagramContent::Message(whole.channel, payload))
    }

    /// Counts the messages between the last one of a sender and this one.
    fn count(&mut self, from: SocketAddrV4, sequence: u32) {
        if let Some(of) = self.senders.get_mut(&from) {
            of.count(sequence, &mut self.account.lost);
        }
    }

    /// Notes that a sender was heard. For a new one, another one is forgotten where there are too many:
    /// of the host with the most, the one that was silent for the longest time.
    fn follow(&mut self, from: SocketAddrV4, now: Instant) {
        if let Some(known) = self.senders.get_mut(&from) {
            known.heard = now;
            return;
        }
        self.senders.insert(from, Sender { heard: now, next: None, partial: None });
        self.hosts.entry(*from.ip()).or_default().senders += 1;
        if self.senders.len() <= self.limits.most_senders.max(1) {
            return;
        }

        let of_most = self.hosts.iter().max_by_key(|(_, share)| share.senders);
        let of_most = of_most.map(|(host, _)| *host);
        let others = self.senders.iter().filter(|(other, _)| **other != from);
        // The new one can be the only one of that host.
        let silent = others.min_by_key(|(other, of)| (Some(*other.ip()) != of_most, of.heard));
        if let Some(silent) = silent.map(|(other, _)| *other) {
            self.forget(silent);
        }
    }

    fn forget(&mut self, sender: SocketAddrV4) {
        self.account.lost += u64::from(self.release(sender).is_some());
        self.account.forgotten_senders += 1;
        self.senders.remove(&sender);
        if let Some(share) = self.hosts.get_mut(sender.ip()) {
            share.senders -= 1;
            if share.senders == 0 {
                self.hosts.remove(sender.ip());
            }
        }
    }

    /// Gives messages up until there is room for more bytes of a sender; returns whether there is any,
    /// and the sender's own message has not been given up for it.
    fn make_room(&mut self, from: SocketAddrV4, more: usize) -> bool {
        while self.held_bytes + more > self.limits.most_memory {
            let most = |(host, share): (&Ipv4Addr, &HostShare)| {
                let own = if host == from.ip() { more } else { 0 };
                (share.bytes + own, *host)
            };
            let of_most = self.hosts.iter().map(most).max().map(|(_, host)| host);
            let partial = self
                .senders
                .iter()
                .filter(|(other, of)| Some(*other.ip()) == of_most && of.partial.is_some());
            let begun = |of: &Sender| of.partial.as_ref().map(|partial| partial.begun);
            let oldest = partial.min_by_key(|(_, of)| begun(of)).map(|(other, _)| *other);

            // A part that is longer than all memory, or the only one of the host with the most.
            let Some(oldest) = oldest else {
                self.account.lost += 1;
                self.account.dropped_for_memory += 1;
                return false;
            };
            self.give_up(oldest, GivenUp::ForMemory);
            if oldest == from {
                return false;
            }
        }
        true
    }

    fn give_up(&mut self, from: SocketAddrV4, why: GivenUp) {
        if self.release(from).is_none() {
            return;
        }
        self.account.lost += 1;
        match why {
            GivenUp::BySender => {}
            GivenUp::ForMemory => self.account.dropped_for_memory += 1,
            GivenUp::ForAge => self.account.dropped_for_age += 1,
        }
    }

    /// Takes the message of which parts have arrived from its sender, and its memory off the account.
    fn release(&mut self, from: SocketAddrV4) -> Option<PartialMessage> {
        let partial = self.senders.get_mut(&from)?.partial.take()?;
        self.held_bytes -= partial.held_bytes;
        if let Some(host) = self.hosts.get_mut(from.ip()) {
            host.bytes -= partial.held_bytes;
        }
        Some(partial)
    }
}

/// What a datagram was.
enum DatagramContent {
    /// The last part of a message, or all of it.
    Message(String, Vec<u8>),
    /// Another part of a message.
    Part,
}

impl Sender {
    /// Counts the messages between the last one and this one.
    fn count(&mut self, sequence: u32, lost: &mut u64) {
        let ahead = self.next.map_or(0, |next| sequence.wrapping_sub(next).cast_signed());
        match ahead {
            0.. => {
                *lost += u64::from(ahead.unsigned_abs());
                self.next = Some(sequence.wrapping_add(1));
            }
            // It was counted as lost when a later one came.
            _ if ahead > -MOST_LATE => *lost = lost.saturating_sub(1),
            _ => self.next = Some(sequence.wrapping_add(1)),
        }
    }
}

impl PartialMessage {
    const fn new(part: &MessagePart<'_>, begun: Instant) -> Self {
        Self {
            begun,
            sequence: part.sequence,
            channel: String::new(),
            bytes: part.bytes,
            count: part.count,
            parts: BTreeMap::new(),
            held_bytes: 0,
        }
    }

    /// Returns the memory that a part needs, 0 if it is here; `None` if it contradicts the others.
    fn bytes_more(&self, part: &MessagePart<'_>) -> Option<usize> {
        if (part.bytes, part.count) != (self.bytes, self.count) {
            return None;
        }
        let is_here = self.parts.contains_key(&part.number);
        Some(if is_here { 0 } else { OF_A_PART + part.payload.len() })
    }

    fn add(&mut self, part: &MessagePart<'_>, more: usize) {
        self.held_bytes += more;
        if let Some(channel) = part.channel {
            channel.clone_into(&mut self.channel);
        }
        if more > 0 {
            self.parts.insert(part.number, (part.at, part.payload.into()));
        }
    }

    /// `None` if the parts do not join without gaps to a message of the claimed length.
    fn payload(&self) -> Option<Vec<u8>> {
        let arrived: usize = self.parts.values().map(|(_, bytes)| bytes.len()).sum();
        if arrived != self.bytes {
            return None;
        }
        let mut payload = Vec::with_capacity(arrived);
        for (at, bytes) in self.parts.values() {
            if *at != payload.len() {
                return None;
            }
            payload.extend_from_slice(bytes);
        }
        Some(payload)
    }
}

impl<'d> MessagePart<'d> {
    fn from_datagram(datagram: &'d [u8], most_message: usize) -> Option<Self> {
        let half = |at: usize| {
            let bytes = datagram.get(at..at + 2)?.try_into().ok()?;
            Some(usize::from(u16::from_be_bytes(bytes)))
        };
        let number = half(16)?;
        let count = half(18)?;
        let bytes = word(datagram, 8)? as usize;
        // The first part can be without payload, behind a long name.
        if number >= count || count > bytes + 1 || bytes > most_message.min(MOST_MESSAGE) {
            return None;
        }

        let rest = datagram.get(FRAGMENT_HEAD..)?;
        let (channel, payload) = match number {
            0 => named(rest).map(|(channel, payload)| (Some(channel), payload))?,
            _ => (None, rest),
        };
        let at = word(datagram, 12)? as usize;
        if at + payload.len() > bytes {
            return None;
        }
        Some(Self { sequence: word(datagram, 4)?, at, bytes, number, count, channel, payload })
    }
}

/// Returns a word of bytes, big-endian.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
}

/// Splits a name, up to its closing 0, from what follows.
fn named(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().take(MOST_NAME + 1).position(|byte| *byte == 0)?;
    Some((str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
#[path = "lcm_packets_tests.rs"]
mod tests;
