//! How the messages of a channel are encoded on a network.

use onbeat_message::{LcmCodec, LcmTypes, TypeSet};

use super::error::GatewayError;
use super::transport_message::NetworkChannel;

/// The types of the texts of `.lcm` files.
pub(super) fn lcm_types(files: &[String]) -> Result<LcmTypes, GatewayError> {
    let mut types = LcmTypes::default();
    for (number, text) in (1..).zip(files) {
        types.add(&format!(".lcm file {number}"), text)?;
    }
    Ok(types)
}

/// Encoding of a channel's messages on a network.
#[derive(Clone, Debug)]
pub(super) enum NetworkEncoding {
    /// That of the ring.
    Same,
    /// LCM's own, while the ring has CDR.
    Lcm { codec: LcmCodec, types: TypeSet, type_name: String },
}

impl NetworkEncoding {
    /// `files` are the texts of `.lcm` files; none for the encoding of the ring.
    pub(super) fn new(files: &[String], of: &NetworkChannel) -> Result<Self, GatewayError> {
        if files.is_empty() {
            return Ok(Self::Same);
        }

        let lcm = lcm_types(files)?;
        let codec = LcmCodec::new(&lcm, &of.type_name)?;
        let types = lcm.types()?;
        // The ring may have another version of the type.
        types.check_same(&of.type_name, &TypeSet::from_text(&of.type_name, &of.schema)?)?;
        Ok(Self::Lcm { codec, types, type_name: of.type_name.clone() })
    }

    /// Returns a message of the network as the ring has it; `None` if it is not of the type.
    pub(super) fn to_ring(&self, payload: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Self::Same => Some(payload),
            Self::Lcm { codec, types, type_name } => {
                types.encode(type_name, &codec.decode(&payload).ok()?).ok()
            }
        }
    }

    /// Gives a record of the ring to `send` as the network has it; returns `None` if it is not of the
    /// type.
    pub(super) fn to_network<T>(&self, bytes: &[u8], send: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self {
            Self::Same => Some(send(bytes)),
            Self::Lcm { codec, types, type_name } => {
                let encoded = codec.encode(&types.value(type_name, bytes).ok()?).ok()?;
                Some(send(&encoded))
            }
        }
    }
}
