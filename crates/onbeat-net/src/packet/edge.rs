//! What stands behind the header of an edge that passes two boards.

use super::fields::{Fields, Writing};

/// An edge, on its way from the board that saw it to the board that writes an output for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCommand {
    /// The instant of the edge, by the sender's clock, in nanoseconds.
    pub edge_ns: u64,
    /// The end of the sender's delay, by the same clock.
    pub release_ns: u64,
    /// From taking the edge up to writing the output, at the receiver, in nanoseconds.
    pub delay_ns: u32,
}

impl EdgeCommand {
    pub(super) fn decode(fields: Fields<'_>) -> Self {
        Self { edge_ns: fields.u64(0), release_ns: fields.u64(8), delay_ns: fields.u32(16) }
    }

    pub(super) fn write(&self, into: &mut Writing<'_>) {
        into.put(&self.edge_ns.to_le_bytes());
        into.put(&self.release_ns.to_le_bytes());
        into.put(&self.delay_ns.to_le_bytes());
        into.put(&[0; 4]);
    }
}

/// The receiver's answer: when it wrote its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeReport {
    /// The edge, as it was sent.
    pub edge: EdgeCommand,
    /// Bits: 1 the write to the output failed.
    pub state: u32,
    /// When its program took the edge up, by its clock, in nanoseconds.
    pub taken_ns: u64,
    /// When its write returned, by the same clock.
    pub written_ns: u64,
}

impl EdgeReport {
    /// Of [`EdgeReport::state`]: the write to the output failed.
    pub const WRITE_FAILED: u32 = 1;

    pub(super) fn decode(fields: Fields<'_>) -> Self {
        Self {
            edge: EdgeCommand::decode(fields),
            state: fields.u32(20),
            taken_ns: fields.u64(24),
            written_ns: fields.u64(32),
        }
    }

    pub(super) fn write(&self, into: &mut Writing<'_>) {
        into.put(&self.edge.edge_ns.to_le_bytes());
        into.put(&self.edge.release_ns.to_le_bytes());
        into.put(&self.edge.delay_ns.to_le_bytes());
        into.put(&self.state.to_le_bytes());
        into.put(&self.taken_ns.to_le_bytes());
        into.put(&self.written_ns.to_le_bytes());
        into.put(&[0; 8]);
    }
}
