//! Rings to a network, and from one to rings.

use std::thread::sleep;
use std::time::{Duration, Instant};

use onbeat_control::{
    Channel, Reading, RecordType, RingError, RingReader, RingSettings, RingWriter, Start,
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::account::ChannelAccount;
use super::error::GatewayError;
use super::lcm_packets::{LcmAccount, LcmLimits, MOST_NAME};
use super::limit_notice::LimitNotice;
use super::network_encoding::NetworkEncoding;
use super::transport::{Inlet, Outlet};
use super::transport_message::{NetworkChannel, NumberedRecord};

/// Interval between two looks at empty rings.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Records of a channel that are sent before it is the next one's turn.
const IN_A_TURN: u64 = 256;
/// Interval between two checks of the writers.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Looks at what waits for peers before it is given up: about a second. They are counted, because a
/// machine that stood still for a second has looked once.
const LAST_LOOKS: u32 = 1_800;
/// Memory of a ring that receives, in bytes; it keeps at least 64 messages.
const RING_BYTES: usize = 8 << 20;
const FEWEST_RECORDS: usize = 64;

/// Which channels of this machine to send to a network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendOrder {
    pub channels: Vec<SentChannel>,
    /// The network: `udpm://GROUP:PORT?ttl=N` for LCM, `tcp://ADDRESS:PORT` for ZeroMQ, which is
    /// listened on, `ros2://DOMAIN` for ROS 2 ([`crate::Ros2Url`]).
    pub to: String,
    /// Time limit in ns; 0 for none.
    #[serde(default)]
    pub for_ns: u64,
    /// Memory for what waits for slow peers, of all of them together, in bytes.
    #[serde(default = "most_memory")]
    pub most_memory: usize,
}

fn most_memory() -> usize {
    LcmLimits::default().most_memory
}

fn most_senders() -> usize {
    LcmLimits::default().most_senders
}

const fn most_age_ns() -> u64 {
    1_000_000_000
}

/// A channel of this machine, and its name on the network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentChannel {
    /// Channel on this machine, `NAME/TOPIC`.
    pub channel: String,
    /// Name on the network, 1 to 63 bytes.
    pub remote: String,
    /// Texts of `.lcm` files: messages are sent in LCM's own encoding. Without them in CDR, as the
    /// ring has them.
    #[serde(default)]
    pub lcm: Vec<String>,
}

/// Which channels of a network to receive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveOrder {
    /// The network: `udpm://GROUP:PORT?ttl=N` for LCM, `tcp://ADDRESS:PORT` of a publisher of ZeroMQ,
    /// `ros2://DOMAIN` for ROS 2 ([`crate::Ros2Url`]).
    pub from: String,
    pub channels: Vec<ReceivedChannel>,
    /// Time limit in ns; 0 for none.
    #[serde(default)]
    pub for_ns: u64,
    /// Memory for messages of which parts are missing, in bytes.
    #[serde(default = "most_memory")]
    pub most_memory: usize,
    /// Senders of LCM whose numbers are followed.
    #[serde(default = "most_senders")]
    pub most_senders: usize,
    /// Time within which all parts of a message must arrive, in ns.
    #[serde(default = "most_age_ns")]
    pub most_age_ns: u64,
}

/// A channel of a network, and the ring for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceivedChannel {
    /// Name on the network, 1 to 63 bytes.
    pub remote: String,
    /// Channel on this machine, `NAME/TOPIC`.
    pub channel: String,
    /// Type of the messages, its definition and its hash; empty texts for plain bytes.
    pub type_name: String,
    /// Definition of the type.
    pub schema: String,
    /// Hash of the type, as 64 hexadecimal digits; empty for none.
    pub hash: String,
    /// Length of the longest message, in bytes. Longer ones are counted as too long.
    pub most_bytes: usize,
    /// Texts of `.lcm` files: messages arrive in LCM's own encoding, and the ring has them in CDR.
    #[serde(default)]
    pub lcm: Vec<String>,
}

/// What was received from a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReceiveAccount {
    /// What the network's receiver has found; what is not of the channel's type is strange too.
    #[serde(flatten)]
    pub network: LcmAccount,
    /// Messages on the ordered channels.
    pub published: u64,
    /// Messages that were too long for their ring.
    pub too_long: u64,
}

/// What was sent to a network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SendAccount {
    /// Account of each channel: records sent, and those lost before.
    pub channels: Vec<ChannelAccount>,
    /// Records that were dropped because a peer did not read.
    pub dropped: u64,
    /// Peers that were refused or disconnected at a limit.
    pub refused_peers: u64,
    /// Records that were not sent, because they are not of the type of the `.lcm` files.
    pub not_encoded: u64,
}

/// Sends records until the writers have ended, the time is over, or `is_stopped` returns true.
///
/// # Errors
/// [`GatewayError`].
pub fn send(
    order: &SendOrder,
    ready: impl FnOnce() -> Result<(), GatewayError>,
    is_stopped: impl Fn() -> bool,
) -> Result<SendAccount, GatewayError> {
    check_names(&order.to, order.channels.iter().map(|of| of.remote.as_str()))?;
    let opened =
        order.channels.iter().map(|of| RingReader::open(&of.channel.parse()?, Start::Newest));
    let mut readers: Vec<RingReader> = opened.collect::<Result<_, RingError>>()?;
    let typed = order.channels.iter().zip(&readers).map(|(of, reader)| {
        let RecordType { name: type_name, schema, .. } = reader.record_type();
        NetworkChannel { name: of.remote.clone(), type_name, schema }
    });
    let typed: Vec<_> = typed.collect();
    let encodings = encodings(order.channels.iter().map(|of| &of.lcm), &typed)?;
    let mut outlet = Outlet::open(&order.to, &typed, order.most_memory)?;
    let until = limit(order.for_ns);
    ready()?;

    let mut checked = Instant::now();
    let mut ends = vec![String::new(); readers.len()];
    let mut not_encoded = 0;
    while !is_stopped() && until.is_none_or(|end| Instant::now() < end) {
        if checked.elapsed() >= CHECK_EVERY {
            checked = Instant::now();
            ends = readers.iter().map(end_of).collect();
        }

        outlet.poll()?;
        let mut sent = 0;
        for (reader, (of, encoding)) in readers.iter_mut().zip(typed.iter().zip(&encodings)) {
            let mut to_network = |record: NumberedRecord<'_>| {
                let send = |bytes: &[u8]| outlet.send(&of.name, NumberedRecord { bytes, ..record });
                let done = encoding.to_network(record.bytes, send);
                not_encoded += u64::from(done.is_none());
                done.unwrap_or(Ok(()))
            };
            sent += send_pending(reader, &mut to_network)?;
        }
        // The last records of a writer are sent after its end is known.
        match sent {
            0 if ends.iter().all(|end| !end.is_empty()) => break,
            0 => sleep(LOOK_EVERY),
            _ => {}
        }
    }

    empty(&mut outlet)?;
    let channels = readers.iter().zip(ends).map(|(reader, end)| account_of(reader, end)).collect();
    let (dropped, refused_peers) = (outlet.dropped(), outlet.refused_peers());
    Ok(SendAccount { channels, dropped, refused_peers, not_encoded })
}

/// Returns why a channel has ended; an empty text while it has not.
fn end_of(reader: &RingReader) -> String {
    reader.check_alive().err().map_or_else(String::new, |why| why.to_string())
}

fn account_of(reader: &RingReader, end: String) -> ChannelAccount {
    ChannelAccount {
        channel: reader.channel().to_string(),
        received: reader.received(),
        lost: reader.lost(),
        gaps: 0,
        end,
    }
}

/// Gives peers a second to read what waits for them.
pub(super) fn empty(outlet: &mut Outlet) -> Result<(), GatewayError> {
    for _ in 0..LAST_LOOKS {
        if !outlet.has_waiting() {
            break;
        }
        outlet.poll()?;
        sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Sends what is pending, at most a turn's records; returns their number.
fn send_pending(
    reader: &mut RingReader,
    to_network: &mut impl FnMut(NumberedRecord<'_>) -> Result<(), GatewayError>,
) -> Result<u64, GatewayError> {
    let count = reader.pending().min(IN_A_TURN);
    for _ in 0..count {
        if let Reading::Record { number, at_ns, bytes } = reader.next() {
            to_network(NumberedRecord { number, at_ns, bytes })?;
        }
    }
    Ok(count)
}

/// Returns the encoding of each channel.
fn encodings<'f>(
    files: impl Iterator<Item = &'f Vec<String>>,
    channels: &[NetworkChannel],
) -> Result<Vec<NetworkEncoding>, GatewayError> {
    files.zip(channels).map(|(texts, of)| NetworkEncoding::new(texts, of)).collect()
}

/// Receives messages until the time is over or `is_stopped` returns true. `ready` is given the size
/// of the receive buffer, in bytes; `warn` a sentence when a limit has been reached, at most every 10 s.
///
/// # Errors
/// [`GatewayError`].
pub fn receive(
    order: &ReceiveOrder,
    ready: impl FnOnce(usize) -> Result<(), GatewayError>,
    warn: impl Fn(&str),
    is_stopped: impl Fn() -> bool,
) -> Result<ReceiveAccount, GatewayError> {
    check_names(&order.from, order.channels.iter().map(|of| of.remote.as_str()))?;
    let typed = order.channels.iter().map(|of| NetworkChannel {
        name: of.remote.clone(),
        type_name: of.type_name.clone(),
        schema: of.schema.clone(),
    });
    let typed: Vec<_> = typed.collect();
    let encodings = encodings(order.channels.iter().map(|of| &of.lcm), &typed)?;
    let limits = LcmLimits {
        most_memory: order.most_memory,
        most_senders: order.most_senders,
        most_age: Duration::from_nanos(order.most_age_ns),
        ..LcmLimits::default()
    };
    let mut inlet = Inlet::open(&order.from, &typed, limits)?;
    // Whoever waits for a ring may take it for a network that was joined.
    let rings: Vec<RingWriter> = order.channels.iter().map(ring).collect::<Result<_, _>>()?;
    let mut targets: Vec<_> = order.channels.iter().zip(rings.into_iter().zip(encodings)).collect();
    let mut notice = LimitNotice::new(limits);
    let until = limit(order.for_ns);
    ready(inlet.buffer_bytes())?;

    let mut account = ReceiveAccount::default();
    let mut checked = Instant::now();
    while !is_stopped() && until.is_none_or(|end| Instant::now() < end) {
        if checked.elapsed() >= CHECK_EVERY {
            checked = Instant::now();
            targets.iter().try_for_each(|(_, (ring, _))| ring.check())?;
        }
        let message = inlet.receive()?;
        if let Some(sentence) = notice.sentence(&inlet.account(), Instant::now()) {
            warn(&sentence);
        }
        let Some(message) = message else { continue };
        let is_for = |of: &ReceivedChannel| of.remote == message.name;
        for (of, (ring, encoding)) in targets.iter_mut().filter(|(of, _)| is_for(of)) {
            match encoding.to_ring(message.payload.clone()) {
                None => account.network.strange += 1,
                Some(payload) if payload.len() > of.most_bytes => account.too_long += 1,
                Some(payload) => {
                    ring.publish(now_ns(ClockId::Monotonic), &payload);
                    account.published += 1;
                }
            }
        }
    }

    let found = inlet.account();
    let strange = found.strange + account.network.strange;
    Ok(ReceiveAccount { network: LcmAccount { strange, ..found }, ..account })
}

/// Creates the ring for a channel.
fn ring(of: &ReceivedChannel) -> Result<RingWriter, GatewayError> {
    let records = (RING_BYTES / of.most_bytes.max(1)).clamp(FEWEST_RECORDS, 1 << 14);
    let records = records.min(RingSettings::most_records(of.most_bytes));
    let hash = hash(&of.hash).ok_or_else(|| GatewayError::Hash { hash: of.hash.clone() })?;
    let settings = RingSettings {
        records: records.next_power_of_two(),
        record_bytes: of.most_bytes,
        record_type: RecordType { name: of.type_name.clone(), hash, schema: of.schema.clone() },
        description: String::new(),
    };
    let channel: Channel = of.channel.parse()?;
    Ok(RingWriter::create(&channel, &settings)?)
}

/// The hash of a type; zeros for an empty text.
pub(super) fn hash(text: &str) -> Option<[u8; 32]> {
    if text.is_empty() { Some([0; 32]) } else { bytes_of_hex(text) }
}

/// The bytes of 64 hexadecimal digits.
pub(super) fn bytes_of_hex(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Topics of ROS 2 have rules of their own, which its transport checks.
pub(super) fn check_names<'n>(
    url: &str,
    mut names: impl ExactSizeIterator<Item = &'n str>,
) -> Result<(), GatewayError> {
    if names.len() == 0 {
        return Err(GatewayError::NoChannels);
    }
    if url.starts_with("ros2://") {
        return Ok(());
    }
    match names.find(|name| name.is_empty() || name.len() > MOST_NAME || name.contains('\0')) {
        Some(name) => Err(GatewayError::LcmName { name: name.to_owned() }),
        None => Ok(()),
    }
}

pub(super) fn limit(for_ns: u64) -> Option<Instant> {
    (for_ns > 0).then(|| Instant::now() + Duration::from_nanos(for_ns))
}

/// The time by a clock: that of rings is the monotonic one.
pub(super) fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
