//! What travels on any network.

/// A channel of a network, with the type of its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NetworkChannel {
    pub(super) name: String,
    /// Empty for plain bytes, as is the definition then.
    pub(super) type_name: String,
    pub(super) schema: String,
}

/// A record on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedRecord<'r> {
    pub(super) number: u64,
    pub(super) at_ns: u64,
    pub(super) bytes: &'r [u8],
}

/// A message of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NetworkMessage {
    pub(super) name: String,
    pub(super) payload: Vec<u8>,
}
