//! Register writes that wait for a frame together.

use std::collections::VecDeque;

use onbeat_ethercat::registers::{PORT_TIMES, SYNC_UNIT};
use onbeat_rt::frame::{Command, Writer, word};

use super::OutOfStep;
use crate::bus::datagram_view::datagrams;
use crate::bus::error::Unready;
use crate::bus::single_datagram::SingleDatagram;

/// A register write.
#[derive(Clone, Debug)]
struct QueuedWrite {
    command: Command,
    address: u32,
    data: Box<[u8]>,
}

/// Register writes in their order.
#[derive(Debug, Default)]
pub(super) struct WriteQueue(VecDeque<QueuedWrite>);

impl WriteQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Queues the write in a frame of ethercrab.
    pub(super) fn push(&mut self, command: Command, write: SingleDatagram, frame: &[u8]) {
        let address = u32::from(write.station) | u32::from(write.register) << 16;
        self.0.push_back(QueuedWrite { command, address, data: write.data(frame).into() });
    }

    /// Moves the writes of another queue behind those of this one.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Appends as many as fit; returns their number.
    pub(super) fn write(&self, writer: &mut Writer<'_>) -> usize {
        let fit = self.0.iter().take_while(|write| {
            writer.push_data(write.command, write.address, &write.data).is_some()
        });
        fit.count()
    }

    /// Removes the writes of a frame; `reply` is its reply. Returns the first write to one device
    /// that it did not take.
    pub(super) fn confirm(&mut self, count: usize, reply: &[u8]) -> Option<OutOfStep> {
        let (write, _) = self
            .0
            .drain(..count)
            .zip(datagrams(reply))
            .find(|(write, datagram)| write.must_be_taken() && datagram.counter == 0)?;
        let address = write.address.to_le_bytes();
        Some((word(&address, 0), Unready::Untaken { register: word(&address, 2) }))
    }
}

impl QueuedWrite {
    /// Returns whether ethercrab checks that the device takes it: not where it addresses all, and
    /// not at the clock, which a device may lack.
    fn must_be_taken(&self) -> bool {
        let register = word(&self.address.to_le_bytes(), 2);
        self.command != Command::Bwr && !(PORT_TIMES..SYNC_UNIT).contains(&register)
    }
}
