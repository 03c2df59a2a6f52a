//! LCM's packets over UDP, without a socket: messages to datagrams and back.
//!
//! A message is one datagram (`LC02`), or several (`LC03`) if it is long. Numbers are big-endian
//! (LCM, "UDP Multicast Protocol").

use std::collections::HashMap;
use std::net::SocketAddrV4;

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

/// What a receiver has found so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LcmAccount {
    /// Complete messages, on all channels.
    pub received: u64,
    /// Messages that did not arrive, or not completely: gaps in the senders' sequences.
    pub lost: u64,
    /// Datagrams that are not LCM's.
    pub strange: u64,
}

/// Puts messages together, sender by sender, and counts what is missing.
#[derive(Debug, Default)]
pub struct LcmAssembler {
    senders: HashMap<SocketAddrV4, Sender>,
    account: LcmAccount,
}

/// A sender, and its message of which parts have arrived.
#[derive(Debug, Default)]
struct Sender {
    next: Option<u32>,
    partial: Option<PartialMessage>,
}

#[derive(Debug)]
struct PartialMessage {
    sequence: u32,
    channel: String,
    payload: Vec<u8>,
    missing: usize,
    has: Vec<bool>,
}

/// A part of a message.
struct MessagePart<'d> {
    sequence: u32,
    at: usize,
    bytes: usize,
    number: usize,
    count: usize,
    channel: Option<&'d str>,
    payload: &'d [u8],
}

impl LcmAssembler {
    /// Takes a datagram; returns channel and payload of the message that it completes.
    pub fn take(&mut self, from: SocketAddrV4, datagram: &[u8]) -> Option<(String, Vec<u8>)> {
        let complete = match word(datagram, 0) {
            Some(SHORT) => self.short(from, datagram),
            Some(FRAGMENT) => self.part(from, datagram),
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

    /// Returns the account.
    #[must_use]
    pub const fn account(&self) -> LcmAccount {
        self.account
    }

    fn short(&mut self, from: SocketAddrV4, datagram: &[u8]) -> Option<DatagramContent> {
        let (channel, payload) = named(datagram.get(SHORT_HEAD..)?)?;
        let lost = &mut self.account.lost;
        self.senders.entry(from).or_default().count(word(datagram, 4)?, lost);
        Some(DatagramContent::Message(channel.to_owned(), payload.to_vec()))
    }

    fn part(&mut self, from: SocketAddrV4, datagram: &[u8]) -> Option<DatagramContent> {
        let part = MessagePart::from_datagram(datagram)?;
        let lost = &mut self.account.lost;
        let sender = self.senders.entry(from).or_default();
        if sender.partial.as_ref().is_none_or(|partial| partial.sequence != part.sequence) {
            // What is not complete now never will be.
            *lost += u64::from(sender.partial.take().is_some());
            sender.count(part.sequence, lost);
            sender.partial = Some(PartialMessage {
                sequence: part.sequence,
                channel: String::new(),
                payload: vec![0; part.bytes],
                missing: part.count,
                has: vec![false; part.count],
            });
        }

        let partial = sender.partial.as_mut()?;
        partial.add(&part)?;
        if partial.missing > 0 {
            return Some(DatagramContent::Part);
        }
        sender.partial.take().map(|whole| DatagramContent::Message(whole.channel, whole.payload))
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
    /// `None` for a part that contradicts the others.
    fn add(&mut self, part: &MessagePart<'_>) -> Option<()> {
        let room = self.payload.get_mut(part.at..)?.get_mut(..part.payload.len())?;
        let has = self.has.get_mut(part.number)?;
        if let Some(channel) = part.channel {
            channel.clone_into(&mut self.channel);
        }
        if !*has {
            room.copy_from_slice(part.payload);
            *has = true;
            self.missing -= 1;
        }
        Some(())
    }
}

impl<'d> MessagePart<'d> {
    fn from_datagram(datagram: &'d [u8]) -> Option<Self> {
        let half = |at: usize| {
            let bytes = datagram.get(at..at + 2)?.try_into().ok()?;
            Some(usize::from(u16::from_be_bytes(bytes)))
        };
        let number = half(16)?;
        let count = half(18)?;
        let bytes = word(datagram, 8)? as usize;
        if count == 0 || number >= count || bytes > MOST_MESSAGE {
            return None;
        }

        let rest = datagram.get(FRAGMENT_HEAD..)?;
        let (channel, payload) = match number {
            0 => named(rest).map(|(channel, payload)| (Some(channel), payload))?,
            _ => (None, rest),
        };
        let at = word(datagram, 12)? as usize;
        Some(Self { sequence: word(datagram, 4)?, at, bytes, number, count, channel, payload })
    }
}

fn word(datagram: &[u8], at: usize) -> Option<u32> {
    datagram.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
}

/// Splits a name, up to its closing 0, from what follows.
fn named(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().take(MOST_NAME + 1).position(|byte| *byte == 0)?;
    Some((str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1);

    fn taken(assembler: &mut LcmAssembler, datagrams: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
        datagrams.iter().filter_map(|datagram| assembler.take(FROM, datagram)).collect()
    }

    fn long(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|n| (n % 251) as u8).collect()
    }

    #[test]
    fn messages_of_any_length_arrive_in_any_order_of_their_parts() {
        let mut assembler = LcmAssembler::default();
        for (sequence, bytes) in [0, 1, 65_492, 65_493, 65_494, 200_000].into_iter().enumerate() {
            let mut parts = datagrams("robot", sequence as u32, &long(bytes));
            assert!(parts.iter().all(|part| part.len() <= 65_507), "UDP carries no more");
            parts.reverse();
            assert_eq!(taken(&mut assembler, &parts), [("robot".to_owned(), long(bytes))]);
        }
        assert_eq!(assembler.account(), LcmAccount { received: 6, lost: 0, strange: 0 });
    }

    #[test]
    fn gaps_and_incomplete_messages_are_lost_and_late_ones_are_not() {
        let mut assembler = LcmAssembler::default();
        let one = |sequence: u32| datagrams("a", sequence, b"x").remove(0);
        taken(&mut assembler, &[one(u32::MAX), one(0), one(4), one(2)]);
        assert_eq!(assembler.account().lost, 2, "1 and 3");

        let parts = datagrams("a", 5, &long(100_000));
        taken(&mut assembler, &parts[..1]);
        taken(&mut assembler, &datagrams("a", 6, &long(100_000)));
        assert_eq!(assembler.account(), LcmAccount { received: 5, lost: 3, strange: 0 });
        // A sender that starts again.
        taken(&mut assembler, &[one(500_000), one(3)]);
        assert_eq!(assembler.account().lost, 3 + 499_993);
    }

    #[test]
    fn any_bytes_are_taken_or_counted_as_strange() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut assembler = LcmAssembler::default();
        let valid = datagrams("a", 1, &long(70_000));
        for _ in 0..20_000 {
            let mut datagram = random.choice(&valid).unwrap()[..random.usize(0..60)].to_vec();
            for _ in 0..random.usize(0..4) {
                if let Some(place) = datagram.len().checked_sub(1) {
                    datagram[random.usize(0..=place)] = random.u8(..);
                }
            }
            let _ = assembler.take(FROM, &datagram);
        }
        assert!(assembler.account().strange > 0);
    }
}
