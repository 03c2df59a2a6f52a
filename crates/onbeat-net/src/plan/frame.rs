//! How long a UDP packet is on an Ethernet wire.

/// Preamble and start delimiter, in bytes.
const PREAMBLE: u64 = 8;
/// Addresses and type.
const ETHERNET: u64 = 14;
const VLAN_TAG: u64 = 4;
const IPV4: u64 = 20;
const IPV6: u64 = 40;
const UDP: u64 = 8;
const CHECK_SEQUENCE: u64 = 4;
/// Least content of a frame between its Ethernet header and its check sequence; a tag is part of it
/// (IEEE 802.3, 4.4.2: 64 bytes from address to check sequence).
const LEAST_CONTENT: u64 = 46;
/// Largest content of a frame.
const MOST_CONTENT: u64 = 1500;
/// Least time between two frames, in bytes.
pub(super) const GAP: u64 = 12;
/// What a cut-through switch reads before it forwards: preamble and Ethernet header, in bytes.
pub(super) const CUT_THROUGH: u64 = PREAMBLE + ETHERNET;

/// The headers around a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSize {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// With a VLAN tag.
    pub vlan: bool,
}

impl FrameSize {
    /// Returns the bytes of a packet on the wire, from preamble to check sequence, without the gap.
    ///
    /// ```
    /// use onbeat_net::plan::FrameSize;
    ///
    /// let plain = FrameSize { ipv6: false, vlan: false };
    /// assert_eq!(plain.on_wire(200), 254);
    /// assert_eq!(plain.on_wire(1), 72, "a frame has 64 bytes at least, and the preamble");
    /// let tagged = FrameSize { vlan: true, ..plain };
    /// assert_eq!([tagged.on_wire(200), tagged.on_wire(1)], [258, 72], "with its tag");
    /// ```
    #[must_use]
    pub const fn on_wire(self, payload: u64) -> u64 {
        let tag = if self.vlan { VLAN_TAG } else { 0 };
        let content = tag + self.ip() + UDP + payload;
        let content = if content < LEAST_CONTENT { LEAST_CONTENT } else { content };
        PREAMBLE + ETHERNET + content + CHECK_SEQUENCE
    }

    /// Returns the largest payload of one frame.
    #[must_use]
    pub const fn most_payload(self) -> u64 {
        MOST_CONTENT - self.ip() - UDP
    }

    const fn ip(self) -> u64 {
        if self.ipv6 { IPV6 } else { IPV4 }
    }
}

/// Picoseconds of a byte at a rate in bit/s.
pub(super) const fn byte_ps(bits_per_s: u64) -> u64 {
    8_000_000_000_000 / bits_per_s
}
