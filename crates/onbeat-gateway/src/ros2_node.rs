//! Topics of ROS 2, by the DDS of the crate `rustdds`, without a ROS 2 installation.
//!
//! Payloads pass as bytes: CDR, little-endian, as both sides have it. RustDDS has threads of its
//! own, and answers discovery there; messages are taken and given on the caller's. Its threads
//! (0.15.1) end when a wait of theirs is interrupted, as it is after SIGSTOP and SIGCONT or a
//! suspended machine; then the node joins again, and what it missed is in the gaps of the numbers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::time::{Duration, Instant};

use onbeat_message::TypeSet;
use rustdds::bytes::Bytes;
use rustdds::no_key::{
    DataWriter, Decode, DefaultDecoder, DeserializerAdapter, SerializerAdapter, SimpleDataReader,
};
use rustdds::policy::{Durability, History, Reliability, ResourceLimits};
use rustdds::{
    DomainParticipant, DomainParticipantBuilder, GUID, QosPolicies, QosPolicyBuilder,
    RepresentationIdentifier, Topic, TopicKind,
};

use super::error::GatewayError;
use super::lcm_packets::LcmAccount;
use super::ros2_names::{Ros2Reliability, Ros2Url, dds_topic, dds_type};
use super::transport_message::{NetworkChannel, NetworkMessage};

/// CDR, little-endian, without options: the head of each payload of a ring.
const HEAD: [u8; 4] = [0, 1, 0, 0];
/// Longest wait for a reader that does not acknowledge what was sent.
const ACKNOWLEDGED_WITHIN: rustdds::Duration = rustdds::Duration::from_millis(100);
/// Messages that wait for a reader to acknowledge them, or here to be taken.
const MOST_WAITING: i32 = 1 << 14;
/// Padding that DDS puts behind a payload, at most: payloads are whole words there.
const MOST_PADDING: usize = 3;

/// Interval between two checks of RustDDS' threads.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Payloads as they are.
struct CdrBytes;

impl SerializerAdapter<Bytes> for CdrBytes {
    type Error = Infallible;

    fn output_encoding() -> RepresentationIdentifier {
        RepresentationIdentifier::CDR_LE
    }

    fn to_bytes(body: &Bytes) -> Result<Bytes, Infallible> {
        Ok(body.clone())
    }
}

impl DeserializerAdapter<Vec<u8>> for CdrBytes {
    type Error = Infallible;
    type Decoded = Vec<u8>;

    fn supported_encodings() -> &'static [RepresentationIdentifier] {
        &[RepresentationIdentifier::CDR_LE]
    }

    fn transform_decoded(decoded: Vec<u8>) -> Vec<u8> {
        decoded
    }
}

impl DefaultDecoder<Vec<u8>> for CdrBytes {
    type Decoder = WholePayload;
    const DECODER: WholePayload = WholePayload;
}

/// Puts the head before a body again, which RustDDS takes off.
#[derive(Clone)]
struct WholePayload;

impl Decode<'_, Vec<u8>> for WholePayload {
    type Error = Infallible;

    fn decode_bytes(
        self,
        body: &[u8],
        _encoding: RepresentationIdentifier,
    ) -> Result<Vec<u8>, Infallible> {
        Ok([&HEAD, body].concat())
    }
}

/// A participant of a domain, and the policies of its writers and readers.
struct Ros2Node {
    participant: DomainParticipant,
    policies: QosPolicies,
    url: Ros2Url,
    /// Threads of this process once it had joined.
    threads: usize,
    checked: Instant,
}

/// Returns the number of threads of this process.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

impl Ros2Node {
    fn join(url: Ros2Url) -> Result<Self, GatewayError> {
        let builder = DomainParticipantBuilder::new(url.domain);
        let participant = builder.with_only_networks([url.interface]).build();
        let participant = participant.map_err(|why| refused("join", url)(why))?;

        let reliability = match url.reliability {
            Ros2Reliability::Reliable => {
                Reliability::Reliable { max_blocking_time: ACKNOWLEDGED_WITHIN }
            }
            Ros2Reliability::BestEffort => Reliability::BestEffort,
        };
        let limits = ResourceLimits {
            max_samples: MOST_WAITING,
            max_instances: 1,
            max_samples_per_instance: MOST_WAITING,
        };
        let policies = QosPolicyBuilder::new()
            .reliability(reliability)
            .durability(Durability::Volatile)
            .history(History::KeepAll)
            .resource_limits(limits)
            .build();
        Ok(Self { participant, policies, url, threads: threads(), checked: Instant::now() })
    }

    /// Returns whether a thread of RustDDS has ended; looks at most every 100 ms.
    fn has_ended(&mut self) -> bool {
        if self.checked.elapsed() < CHECK_EVERY {
            return false;
        }
        self.checked = Instant::now();
        threads() < self.threads
    }

    fn topic(&self, of: &NetworkChannel) -> Result<Topic, GatewayError> {
        let topic = dds_topic(&of.name)?;
        let of_type = dds_type(&of.type_name, &of.name)?;
        let made = self.participant.create_topic(topic, of_type, &self.policies, TopicKind::NoKey);
        made.map_err(refused("create a topic in", self.url))
    }
}

fn refused<E: std::error::Error + Send + Sync + 'static>(
    what: &'static str,
    url: Ros2Url,
) -> impl FnOnce(E) -> GatewayError {
    move |source| GatewayError::Ros2 {
        what,
        domain: url.domain,
        interface: url.interface,
        source: Box::new(source),
    }
}

/// A writer for each channel.
pub(super) struct Ros2Sender {
    // Dropped before the participant.
    writers: HashMap<String, DataWriter<Bytes, CdrBytes>>,
    node: Ros2Node,
    channels: Vec<NetworkChannel>,
    dropped: u64,
}

impl Ros2Sender {
    pub(super) fn open(url: Ros2Url, channels: &[NetworkChannel]) -> Result<Self, GatewayError> {
        let node = Ros2Node::join(url)?;
        let publisher = node.participant.create_publisher(&node.policies);
        let publisher = publisher.map_err(refused("create a publisher in", url))?;

        let mut writers = HashMap::new();
        for channel in channels {
            let topic = node.topic(channel)?;
            let policies = Some(node.policies.clone());
            let writer = publisher.create_datawriter_no_key::<Bytes, CdrBytes>(&topic, policies);
            let writer = writer.map_err(refused("create a writer in", url))?;
            writers.insert(channel.name.clone(), writer);
        }
        Ok(Self { writers, node, channels: channels.to_vec(), dropped: 0 })
    }

    /// Joins again after the threads of RustDDS have ended.
    pub(super) fn poll(&mut self) -> Result<(), GatewayError> {
        if self.node.has_ended() {
            let dropped = self.dropped;
            *self = Self { dropped, ..Self::open(self.node.url, &self.channels)? };
        }
        Ok(())
    }

    /// Sends a payload; one without the head of CDR, or that no reader takes in time, is counted as
    /// dropped.
    pub(super) fn send(&mut self, name: &str, payload: &[u8]) {
        let sent = payload
            .strip_prefix(&HEAD)
            .zip(self.writers.get(name))
            .map(|(body, writer)| writer.write(Bytes::copy_from_slice(body), None));
        self.dropped += u64::from(!matches!(sent, Some(Ok(()))));
    }

    /// Returns whether a reliable reader has not acknowledged everything.
    pub(super) fn has_waiting(&self) -> bool {
        let all_taken = |writer: &DataWriter<Bytes, CdrBytes>| {
            writer.wait_for_acknowledgments(Duration::ZERO).unwrap_or(true)
        };
        !self.writers.values().all(all_taken)
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl fmt::Debug for Ros2Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ros2Sender").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

/// A channel that is received.
struct Received {
    channel: NetworkChannel,
    types: TypeSet,
    reader: SimpleDataReader<Vec<u8>, CdrBytes>,
    /// The next number of each writer.
    next: HashMap<GUID, i64>,
}

/// A reader for each channel.
pub(super) struct Ros2Receiver {
    // Dropped before the participant.
    channels: Vec<Received>,
    node: Ros2Node,
    account: LcmAccount,
}

impl Ros2Receiver {
    pub(super) fn open(url: Ros2Url, channels: &[NetworkChannel]) -> Result<Self, GatewayError> {
        let node = Ros2Node::join(url)?;
        let subscriber = node.participant.create_subscriber(&node.policies);
        let subscriber = subscriber.map_err(refused("create a subscriber in", url))?;

        let mut received = Vec::new();
        for channel in channels {
            let topic = node.topic(channel)?;
            let policies = Some(node.policies.clone());
            let reader =
                subscriber.create_simple_datareader_no_key::<Vec<u8>, CdrBytes>(&topic, policies);
            received.push(Received {
                channel: channel.clone(),
                types: TypeSet::from_text(&channel.type_name, &channel.schema)?,
                reader: reader.map_err(refused("create a reader in", url))?,
                next: HashMap::new(),
            });
        }
        Ok(Self { channels: received, node, account: LcmAccount::default() })
    }

    /// Returns the next message; `None` if there is none now.
    pub(super) fn receive(&mut self) -> Result<Option<NetworkMessage>, GatewayError> {
        let account = &mut self.account;
        let message = self.channels.iter_mut().find_map(|channel| channel.take(account));
        if message.is_none() && self.node.has_ended() {
            self.join_again()?;
        }
        Ok(message)
    }

    /// Makes new readers, which count from the numbers of the old ones.
    fn join_again(&mut self) -> Result<(), GatewayError> {
        let channels: Vec<_> = self.channels.iter().map(|of| of.channel.clone()).collect();
        let mut again = Self::open(self.node.url, &channels)?;
        for (new, old) in again.channels.iter_mut().zip(&mut self.channels) {
            new.next = std::mem::take(&mut old.next);
        }
        again.account = self.account;
        *self = again;
        Ok(())
    }

    pub(super) const fn account(&self) -> LcmAccount {
        self.account
    }
}

impl fmt::Debug for Ros2Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ros2Receiver").field("account", &self.account).finish_non_exhaustive()
    }
}

impl Received {
    /// Returns the next message, and counts those between the last one of its writer and this one.
    fn take(&mut self, account: &mut LcmAccount) -> Option<NetworkMessage> {
        loop {
            self.reader.drain_read_notifications();
            let taken = match self.reader.try_take_one() {
                Ok(taken) => taken?,
                Err(_) => {
                    account.strange += 1;
                    continue;
                }
            };

            account.received += 1;
            let number = i64::from(taken.sequence_number);
            let next = self.next.insert(taken.writer_guid(), number + 1).unwrap_or(number);
            account.lost += (number - next).max(0).unsigned_abs();

            match self.without_padding(taken.into_value()) {
                Some(payload) => {
                    return Some(NetworkMessage { name: self.channel.name.clone(), payload });
                }
                None => account.strange += 1,
            }
        }
    }

    /// Cuts off padding; `None` if the payload is not a message of the type.
    fn without_padding(&self, mut payload: Vec<u8>) -> Option<Vec<u8>> {
        let end = self.types.encoded_bytes(&self.channel.type_name, &payload).ok()?;
        // A newer version of the type has more fields, and keeps them.
        if payload.len() - end <= MOST_PADDING {
            payload.truncate(end);
        }
        Some(payload)
    }
}
