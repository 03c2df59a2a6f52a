//! Datagrams of an Ethernet frame, processed in place.

pub use onbeat_rt::frame::Command;

use super::registers::{PORT_TIMES, word};

pub(crate) const ETHERTYPE: u16 = 0x88a4;
/// EtherType of a VLAN tag (IEEE 802.1Q), which precedes the EtherType and stays in the reply.
const VLAN: u16 = 0x8100;
const VLAN_TAG: usize = 4;
/// Destination, source and EtherType of an Ethernet frame.
const ETHERNET_HEADER: usize = 14;
/// Command, index, address, length and event word of a datagram.
const DATAGRAM_HEADER: usize = 10;
/// Flag "another datagram follows" in the length word.
const MORE: u16 = 0x8000;
const LENGTH: u16 = 0x07ff;

/// One datagram: header, data and working counter, borrowed from the frame.
pub(crate) struct DatagramMut<'f> {
    header: &'f mut [u8],
    pub(crate) data: &'f mut [u8],
    counter: &'f mut [u8],
}

impl DatagramMut<'_> {
    pub(crate) fn command(&self) -> Option<Command> {
        Command::from_wire(self.header[0])
    }

    /// Returns the auto-increment or station address.
    pub(crate) fn address(&self) -> u16 {
        word(self.header, 2)
    }

    pub(crate) fn set_address(&mut self, address: u16) {
        self.header[2..4].copy_from_slice(&address.to_le_bytes());
    }

    /// Returns the register or memory address within the device.
    pub(crate) fn offset(&self) -> u16 {
        word(self.header, 4)
    }

    pub(crate) fn logical_address(&self) -> u32 {
        u32::from(self.address()) | u32::from(self.offset()) << 16
    }

    /// Returns whether it latches receive times (a write to register 0x0900).
    pub(crate) fn latches_receive_times(&self) -> bool {
        use Command::{Aprw, Apwr, Armw, Brw, Bwr, Fprw, Fpwr, Frmw};
        let writes =
            matches!(self.command(), Some(Aprw | Apwr | Armw | Brw | Bwr | Fprw | Fpwr | Frmw));
        writes && usize::from(self.offset()) == PORT_TIMES
    }

    pub(crate) fn working_counter(&self) -> u16 {
        word(self.counter, 0)
    }

    pub(crate) fn set_working_counter(&mut self, count: u16) {
        self.counter.copy_from_slice(&count.to_le_bytes());
    }
}

/// Iterates over the datagrams of a frame. Ends at the end of the frame, whatever its length words
/// are.
pub(crate) struct Datagrams<'f> {
    rest: &'f mut [u8],
    more: bool,
}

impl<'f> Datagrams<'f> {
    /// Returns `None` when the frame is not an EtherCAT frame with datagrams.
    pub(crate) fn new(frame: &'f mut [u8]) -> Option<Self> {
        let is_tagged = frame.get(12..ETHERNET_HEADER)? == VLAN.to_be_bytes();
        let begin = if is_tagged { ETHERNET_HEADER + VLAN_TAG } else { ETHERNET_HEADER };
        let ethertype = frame.get(begin - 2..begin)?;
        let header = word(frame.get(begin..begin + 2)?, 0);
        let is_ethercat = ethertype == ETHERTYPE.to_be_bytes() && header >> 12 == 1;
        is_ethercat.then(|| Self { rest: &mut frame[begin + 2..], more: true })
    }
}

impl<'f> Iterator for Datagrams<'f> {
    type Item = DatagramMut<'f>;

    fn next(&mut self) -> Option<DatagramMut<'f>> {
        let rest = std::mem::take(&mut self.rest);
        if !self.more || rest.len() < DATAGRAM_HEADER + 2 {
            return None;
        }

        let (header, rest) = rest.split_at_mut(DATAGRAM_HEADER);
        let length_word = word(header, 6);
        let length = usize::from(length_word & LENGTH);
        if rest.len() < length + 2 {
            return None;
        }

        let (data, rest) = rest.split_at_mut(length);
        let (counter, rest) = rest.split_at_mut(2);
        self.more = length_word & MORE != 0;
        self.rest = rest;
        Some(DatagramMut { header, data, counter })
    }
}

/// Marks a frame as returned: sets bit 1 of the first byte of the source address, as the first
/// SubDevice controller on a line does.
pub(crate) fn mark_returned(frame: &mut [u8]) {
    frame[6] |= 0x02;
}
