//! Addresses: who may talk to a device, and which networks are local.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and those that share its first bits.
///
/// ```
/// use onbeat_host::address::AddressRange;
///
/// let robot: AddressRange = "192.168.7.0/24".parse()?;
/// assert!(robot.contains("192.168.7.40".parse().unwrap()));
/// assert!(!robot.contains("192.168.8.1".parse().unwrap()));
/// # Ok::<(), onbeat_host::address::RangeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    bits: u8,
}

/// Why a text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an address or a range; write such as 192.168.7.2 or 192.168.7.0/24")]
pub struct RangeError {
    /// As typed.
    pub text: String,
}

impl AddressRange {
    /// The addresses of this machine's loopback interface.
    pub const LOOPBACK: [Self; 2] = [
        Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), bits: 8 },
        Self { address: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 },
    ];

    /// All IPv4 addresses: for a network that nobody else reaches.
    pub const ANY_IPV4: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), bits: 0 };

    /// Returns the first address and the mask of a range of IPv4 addresses.
    #[must_use]
    pub fn ipv4(self) -> Option<(Ipv4Addr, Ipv4Addr)> {
        let IpAddr::V4(address) = self.address else { return None };
        let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
        Some((Ipv4Addr::from_bits(address.to_bits() & mask), Ipv4Addr::from_bits(mask)))
    }

    /// Returns whether an address is in the range. An IPv4 address written as IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                (own.to_bits() ^ other.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let bad = || RangeError { text: text.to_owned() };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits.map_or(Ok(most), |bits| bits.trim().parse().map_err(|_| bad()))?;
        let canonical = address.to_canonical();
        // An IPv4 address written as IPv6 has 96 bits before its own.
        let before = if canonical.is_ipv4() { most - 32 } else { 0 };
        match bits.checked_sub(before) {
            Some(own) if bits <= most => Ok(Self { address: canonical, bits: own }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        if self.bits == whole {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.bits)
        }
    }
}

/// Returns whether an address belongs to this machine or to a network that routers of the Internet
/// do not forward: loopback, private (RFC 1918), link-local, unique local (RFC 4193).
#[must_use]
pub fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_its_first_bits() {
        let all: AddressRange = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains([8, 8, 8, 8].into()));
        let one: AddressRange = "fe80::1".parse().unwrap();
        assert!(one.contains("fe80::1".parse().unwrap()));
        assert!(!one.contains("fe80::2".parse().unwrap()));
        assert!(AddressRange::LOOPBACK[0].contains("::ffff:127.0.0.9".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()), "another family");
        assert_eq!(AddressRange::LOOPBACK.map(|range| range.to_string()), ["127.0.0.1/8", "::1"]);
        let is = |text: &str, peer: &str| {
            text.parse::<AddressRange>().unwrap().contains(peer.parse().unwrap())
        };
        assert!(is("10.1.2.0/24", "10.1.2.255") && !is("10.1.2.0/24", "10.1.3.0"));
        assert!(is("10.0.0.0/8", "::ffff:10.9.9.9"), "IPv4 through a socket of IPv6");
        assert!(is("::ffff:10.9.9.9", "10.9.9.9") && !is("::ffff:10.9.9.9", "10.9.9.8"));
        assert!(is("fd00::/8", "fdff::1") && !is("fd00::/8", "fe80::1") && is("::/0", "::1"));
        for (as_ipv6, text) in
            [("::ffff:10.0.0.0/104", "10.0.0.0/8"), ("::ffff:10.1.1.1", "10.1.1.1")]
        {
            let range: AddressRange = as_ipv6.parse().unwrap();
            assert_eq!(range.to_string(), text);
            assert!(!range.contains([192, 168, 0, 1].into()), "{as_ipv6}");
        }
        let wrong =
            ["", "10.0.0.1/33", "::/129", "::ffff:10.0.0.0/95", "host", "10.0.0.1/", "10.0.0.0/-1"];
        for text in wrong {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn local_networks_are_those_that_the_internet_does_not_route() {
        for local in
            ["127.0.0.1", "10.1.2.3", "192.168.0.9", "169.254.1.1", "::1", "fd00::1", "fe80::1"]
        {
            assert!(is_local(local.parse().unwrap()), "{local}");
        }
        for other in ["8.8.8.8", "172.32.0.1", "2001:db8::1", "224.0.0.1"] {
            assert!(!is_local(other.parse().unwrap()), "{other}");
        }
    }
}
