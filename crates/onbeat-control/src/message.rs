//! Messages between a bus and its clients: 24 bytes of head, then up to 1,024 bytes of data, as
//! `include/onbeat_control.h` specifies them.

use super::abi::REQUEST_BYTES;

/// Bytes of a message without its data.
const HEAD_BYTES: usize = 24;
/// Maximum length of a message.
pub(super) const MESSAGE_BYTES: usize = HEAD_BYTES + REQUEST_BYTES;

/// Kinds of messages to the bus.
pub(super) mod ask {
    pub(crate) const CLAIM_OUTPUTS: u32 = 1;
    pub(crate) const LEAVE_OUTPUTS: u32 = 2;
    pub(crate) const CLAIM_JOINTS: u32 = 3;
    pub(crate) const LEAVE_JOINTS: u32 = 4;
    /// `a` is the target, `b` the length.
    pub(crate) const REQUEST: u32 = 5;
    /// Gives up the request.
    pub(crate) const GIVE_UP: u32 = 6;
}

/// Kinds of messages of the bus.
pub(super) mod tell {
    /// `a` is the version and, from bit 32 on, the kind of sharing; `b` the image's instance.
    /// Descriptors: the image, and the lock if there is one.
    pub(crate) const WELCOME: u32 = 1;
    /// The role is granted. Descriptor: the slots.
    pub(crate) const GRANTED: u32 = 2;
    /// Process `a` has the role.
    pub(crate) const HELD: u32 = 3;
    pub(crate) const NO_GOALS: u32 = 4;
    /// The role was given up.
    pub(crate) const LEFT: u32 = 5;
    /// `a` is the outcome, `b` the length of the data.
    pub(crate) const ANSWER: u32 = 6;
    /// All `a` requests are in use.
    pub(crate) const BUSY: u32 = 7;
    /// No connection, for reason `a` with limit `b`.
    pub(crate) const REFUSED: u32 = 8;
}

/// Why a client gets no connection.
pub(super) mod refusal {
    /// Neither the bus's user, root, nor of its group.
    pub(crate) const OTHER_USER: u64 = 1;
    /// A lock is shared by processes of one user.
    pub(crate) const LOCK: u64 = 2;
    /// Too many connections of this user.
    pub(crate) const OF_USER: u64 = 3;
    /// Too many connections.
    pub(crate) const IN_ALL: u64 = 4;
}

/// A message of either side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: u32,
    /// Number that a client gives its request; the answer has the same.
    pub(super) id: u32,
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) data: Vec<u8>,
}

impl Message {
    pub(super) fn new(kind: u32, id: u32) -> Self {
        Self { kind, id, ..Self::default() }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.data.len());
        bytes.extend_from_slice(&self.kind.to_ne_bytes());
        bytes.extend_from_slice(&self.id.to_ne_bytes());
        bytes.extend_from_slice(&self.a.to_ne_bytes());
        bytes.extend_from_slice(&self.b.to_ne_bytes());
        bytes.extend_from_slice(&self.data);
        bytes
    }

    /// `None` if it is too short or too long.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, data) = bytes.split_at_checked(HEAD_BYTES)?;
        if data.len() > REQUEST_BYTES {
            return None;
        }
        let ([kind, id, ..], []) = head.as_chunks::<4>() else { return None };
        let ([_, a, b], []) = head.as_chunks::<8>() else { return None };
        Some(Self {
            kind: u32::from_ne_bytes(*kind),
            id: u32::from_ne_bytes(*id),
            a: u64::from_ne_bytes(*a),
            b: u64::from_ne_bytes(*b),
            data: data.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_encoding_and_decoding_and_a_wrong_length_is_refused() {
        let message = Message { kind: 5, id: 7, a: u64::MAX, b: 3, data: vec![1, 2, 3] };
        assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
        assert_eq!(Message::from_bytes(&[0; HEAD_BYTES - 1]), None);
        assert_eq!(Message::from_bytes(&[0; MESSAGE_BYTES + 1]), None);
        assert_eq!(Message::from_bytes(&[0; HEAD_BYTES]), Some(Message::default()));
    }
}
