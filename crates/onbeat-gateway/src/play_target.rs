//! Where the messages of a log go: a network, or rings of this machine.

use onbeat_control::{Channel, RecordType, RingSettings, RingWriter};
use onbeat_message::TypeSet;

use super::bridge::{check_names, empty, hash};
use super::error::GatewayError;
use super::log_reader::LoggedChannel;
use super::network_encoding::NetworkEncoding;
use super::playing::PlayOrder;
use super::transport::Outlet;
use super::transport_message::{NetworkChannel, NumberedRecord};

/// Memory of a ring, in bytes; it keeps at least 64 messages.
const RING_BYTES: usize = 64 << 20;
const FEWEST_RECORDS: usize = 64;
/// Longest message of a ring, in bytes.
const MOST_RECORD: usize = 16 << 20;

/// Where the messages of a log go.
#[derive(Debug)]
pub(super) enum PlayTarget {
    Rings(Vec<RingWriter>),
    Network {
        outlet: Outlet,
        channels: Vec<NetworkChannel>,
        encodings: Vec<NetworkEncoding>,
        not_encoded: u64,
    },
}

impl PlayTarget {
    /// Opens rings if the order names no network. `names` are those of the channels there.
    pub(super) fn open(
        order: &PlayOrder,
        names: &[String],
        logged: &[&LoggedChannel],
    ) -> Result<Self, GatewayError> {
        let (url, lcm) = (order.to.as_str(), &order.lcm);
        if url.is_empty() {
            let rings = names.iter().zip(logged).map(|(name, of)| ring(name, of));
            return Ok(Self::Rings(rings.collect::<Result<_, _>>()?));
        }

        check_names(url, names.iter().map(String::as_str))?;
        let channel = |(name, of): (&String, &&LoggedChannel)| NetworkChannel {
            name: name.clone(),
            type_name: of.type_name.clone(),
            schema: of.schema.clone(),
        };
        let channels: Vec<_> = names.iter().zip(logged).map(channel).collect();
        let encodings = channels.iter().map(|of| NetworkEncoding::new(lcm, of));
        let encodings = encodings.collect::<Result<_, _>>()?;
        let most_bytes = usize::try_from(order.most_memory).unwrap_or(usize::MAX);
        let outlet = Outlet::open(url, &channels, most_bytes)?;
        Ok(Self::Network { outlet, channels, encodings, not_encoded: 0 })
    }

    /// Passes a message on; `place` is that of its channel.
    pub(super) fn play(
        &mut self,
        place: usize,
        record: NumberedRecord<'_>,
    ) -> Result<(), GatewayError> {
        match self {
            Self::Rings(rings) => {
                rings[place].publish(record.at_ns, record.bytes);
                Ok(())
            }
            Self::Network { outlet, channels, encodings, not_encoded } => {
                let name = &channels[place].name;
                let send = |bytes: &[u8]| outlet.send(name, NumberedRecord { bytes, ..record });
                let sent = encodings[place].to_network(record.bytes, send);
                *not_encoded += u64::from(sent.is_none());
                sent.unwrap_or(Ok(()))
            }
        }
    }

    /// Does what a network wants regularly, and checks that rings are complete.
    pub(super) fn poll(&mut self) -> Result<(), GatewayError> {
        match self {
            Self::Rings(rings) => {
                rings.iter().try_for_each(RingWriter::check)?;
                Ok(())
            }
            Self::Network { outlet, .. } => outlet.poll(),
        }
    }

    /// Gives peers a second to read what waits for them; returns whether nothing waits any more.
    pub(super) fn empty(&mut self) -> Result<bool, GatewayError> {
        match self {
            Self::Rings(_) => Ok(true),
            Self::Network { outlet, .. } => {
                outlet.poll()?;
                empty(outlet)?;
                Ok(!outlet.has_waiting())
            }
        }
    }

    /// Returns how many messages were dropped because a peer did not read, how many peers were
    /// refused or disconnected at a limit, and how many messages are not of the type of the `.lcm` files.
    pub(super) const fn counts(&self) -> [u64; 3] {
        match self {
            Self::Rings(_) => [0; 3],
            Self::Network { outlet, not_encoded, .. } => {
                [outlet.dropped(), outlet.refused_peers(), *not_encoded]
            }
        }
    }
}

/// Creates the ring for a channel of a log, whose times are those of the log.
fn ring(name: &str, of: &LoggedChannel) -> Result<RingWriter, GatewayError> {
    let channel: Channel = name.parse()?;
    let record_bytes = of.longest_bytes.max(1);
    if record_bytes > MOST_RECORD {
        let (topic, bytes) = (of.topic.clone(), record_bytes);
        return Err(GatewayError::LongMessage { topic, bytes, most: MOST_RECORD });
    }
    let fitting = (RING_BYTES / record_bytes).max(FEWEST_RECORDS);
    // One slot more than messages: a ring of n slots keeps n - 1.
    let wanted = usize::try_from(of.messages + 1).unwrap_or(fitting).clamp(FEWEST_RECORDS, fitting);
    let wanted = wanted.min(RingSettings::most_records(record_bytes));

    let settings = RingSettings {
        records: wanted.next_power_of_two(),
        record_bytes,
        record_type: RecordType {
            name: of.type_name.clone(),
            hash: type_hash(of),
            schema: of.schema.clone(),
        },
        description: of.texts.get("onbeat:description").cloned().unwrap_or_default(),
    };

    let mut writer = RingWriter::create(&channel, &settings)?;
    writer.set_utc_offset_ns(of.utc_offset_ns());
    Ok(writer)
}

/// Returns the hash in the log, or that of the definition; zeros if it is not one of ROS 2.
fn type_hash(of: &LoggedChannel) -> [u8; 32] {
    let noted = of.texts.get("onbeat:type_hash").and_then(|text| text.strip_prefix("RIHS01_"));
    let own = || TypeSet::from_text(&of.type_name, &of.schema)?.hash(&of.type_name);
    noted.and_then(hash).unwrap_or_else(|| own().unwrap_or_default())
}
