//! Datagrams of an Ethernet frame, in place.

use super::registers::{PORT_TIMES, word};

/// EtherType of EtherCAT.
pub(crate) const ETHERTYPE: u16 = 0x88a4;
/// EtherType of a VLAN tag (IEEE 802.1Q), which stands before the frame's own and stays in the reply.
const VLAN: u16 = 0x8100;
const VLAN_TAG: usize = 4;
/// Destination, source and EtherType of an Ethernet frame.
const ETHERNET_HEADER: usize = 14;
/// Command, index, address, length and event word of a datagram.
const DATAGRAM_HEADER: usize = 10;
/// "Another datagram follows", in the length word.
const MORE: u16 = 0x8000;
const LENGTH: u16 = 0x07ff;

/// What a datagram asks of the SubDevices it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing: passes unchanged.
    Nop,
    /// Read by position.
    Aprd,
    /// Write by position.
    Apwr,
    /// Read, then write, by position.
    Aprw,
    /// Read by station address.
    Fprd,
    /// Write by station address.
    Fpwr,
    /// Read, then write, by station address.
    Fprw,
    /// Read from all, into one result by OR.
    Brd,
    /// Write to all.
    Bwr,
    /// Read from all by OR, then write to all.
    Brw,
    /// Read by logical address.
    Lrd,
    /// Write by logical address.
    Lwr,
    /// Read and write by logical address.
    Lrw,
    /// One reads, by position, all others write.
    Armw,
    /// One reads, by station address, all others write.
    Frmw,
}

impl Command {
    /// The command with this number on the wire; `None` for numbers without meaning, which devices pass over.
    #[must_use]
    pub fn from_wire(number: u8) -> Option<Self> {
        const ALL: [Command; 15] = [
            Command::Nop,
            Command::Aprd,
            Command::Apwr,
            Command::Aprw,
            Command::Fprd,
            Command::Fpwr,
            Command::Fprw,
            Command::Brd,
            Command::Bwr,
            Command::Brw,
            Command::Lrd,
            Command::Lwr,
            Command::Lrw,
            Command::Armw,
            Command::Frmw,
        ];
        ALL.get(usize::from(number)).copied()
    }
}

/// One datagram: header, data and working counter where they are in the frame.
pub(crate) struct Datagram<'f> {
    header: &'f mut [u8],
    pub(crate) data: &'f mut [u8],
    counter: &'f mut [u8],
}

impl Datagram<'_> {
    pub(crate) fn command(&self) -> Option<Command> {
        Command::from_wire(self.header[0])
    }

    /// Position or station address.
    pub(crate) fn address(&self) -> u16 {
        word(self.header, 2)
    }

    pub(crate) fn set_address(&mut self, address: u16) {
        self.header[2..4].copy_from_slice(&address.to_le_bytes());
    }

    /// Register or memory address within the device.
    pub(crate) fn offset(&self) -> u16 {
        word(self.header, 4)
    }

    pub(crate) fn logical_address(&self) -> u32 {
        u32::from(self.address()) | u32::from(self.offset()) << 16
    }

    /// Whether it has devices take down when it passes (registers 0x0900 on).
    pub(crate) fn takes_times(&self) -> bool {
        use Command::{Aprw, Apwr, Armw, Brw, Bwr, Fprw, Fpwr, Frmw};
        let writes = matches!(self.command(), Some(Aprw | Apwr | Armw | Brw | Bwr | Fprw | Fpwr | Frmw));
        writes && usize::from(self.offset()) == PORT_TIMES
    }

    pub(crate) fn working_counter(&self) -> u16 {
        word(self.counter, 0)
    }

    pub(crate) fn set_working_counter(&mut self, count: u16) {
        self.counter.copy_from_slice(&count.to_le_bytes());
    }
}

/// Goes from datagram to datagram. Ends where the frame ends, whatever its length words say.
pub(crate) struct Datagrams<'f> {
    rest: &'f mut [u8],
    more: bool,
}

impl<'f> Datagrams<'f> {
    /// `None` when the frame is no EtherCAT frame with datagrams, or too short to say.
    pub(crate) fn of(frame: &'f mut [u8]) -> Option<Self> {
        let is_tagged = frame.get(12..ETHERNET_HEADER)? == VLAN.to_be_bytes();
        let begin = if is_tagged { ETHERNET_HEADER + VLAN_TAG } else { ETHERNET_HEADER };
        let ethertype = frame.get(begin - 2..begin)?;
        let header = word(frame.get(begin..begin + 2)?, 0);
        let is_ethercat = ethertype == ETHERTYPE.to_be_bytes() && header >> 12 == 1;
        is_ethercat.then(|| Self { rest: &mut frame[begin + 2..], more: true })
    }
}

impl<'f> Iterator for Datagrams<'f> {
    type Item = Datagram<'f>;

    fn next(&mut self) -> Option<Datagram<'f>> {
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
        Some(Datagram { header, data, counter })
    }
}

/// Marks a frame as come back: bit 1 of the first byte of the source address, as the first SubDevice controller on a line does.
pub(crate) fn mark_returned(frame: &mut [u8]) {
    frame[6] |= 0x02;
}
