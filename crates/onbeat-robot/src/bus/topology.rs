//! Which port of which device each device is connected to, from the links of their ports.
//!
//! A frame visits the ports of a device in the order 0, 3, 1, 2 (ETG.1000.4, 4.3), so the order of
//! the devices on the cable and their open ports give the tree.

/// Order in which a frame leaves through the ports behind port 0.
const ORDER: [u8; 3] = [3, 1, 2];

/// DL status of a device: links and loops of its four ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortLinks(u16);

impl PortLinks {
    /// From register 0x0110.
    #[must_use]
    pub const fn from_status(status: u16) -> Self {
        Self(status)
    }

    /// Returns whether a port has a physical link.
    #[must_use]
    pub const fn has_link(self, port: u8) -> bool {
        self.0 >> (4 + port) & 1 != 0
    }

    /// Returns whether frames leave through a port: it is not looped back, and communicates.
    #[must_use]
    pub const fn is_open(self, port: u8) -> bool {
        let pair = self.0 >> (8 + 2 * port);
        pair & 1 == 0 && pair & 2 != 0
    }
}

/// What a device is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// The interface.
    Interface,
    /// A port of another device: its position, and the port.
    Device(u16, u8),
    /// Not known: the ports and the number of devices contradict.
    Unknown,
}

/// Returns what each device is connected to, from the ports of all devices in the order of the
/// cable.
///
/// ```
/// use onbeat_robot::bus::{PortLinks, Upstream, upstreams};
///
/// // Ports 0 and 1 open; then port 0 only.
/// let [both, last] = [0x5a32, 0x5612].map(PortLinks::from_status);
/// assert!(both.is_open(0) && both.is_open(1) && !last.is_open(1));
/// assert_eq!(upstreams(&[both, last]), [Upstream::Interface, Upstream::Device(0, 1)]);
/// ```
#[must_use]
pub fn upstreams(devices: &[PortLinks]) -> Vec<Upstream> {
    let mut open: Vec<(u16, u8)> = Vec::new();
    let mut found = Vec::with_capacity(devices.len());
    for (place, links) in devices.iter().enumerate() {
        found.push(match (place, open.pop()) {
            (0, _) => Upstream::Interface,
            (_, Some((device, port))) => Upstream::Device(device, port),
            (_, None) => Upstream::Unknown,
        });
        // The first port of the order is visited first: it is pushed last.
        let ports = ORDER.into_iter().rev().filter(|port| links.is_open(*port));
        open.extend(ports.map(|port| (place as u16, port)));
    }

    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DL status with these ports open, and the others closed without a link.
    fn open(ports: &[u8]) -> PortLinks {
        let all = (0..4).map(|port| {
            if ports.contains(&port) {
                1 << (4 + port) | 2 << (8 + 2 * port)
            } else {
                1 << (8 + 2 * port)
            }
        });
        PortLinks::from_status(all.fold(1, |status, bits: u16| status | bits))
    }

    #[test]
    fn a_tree_is_found_in_the_order_of_the_frame() {
        // 0 has a branch of 1 and 2 at port 3, then 3 at port 1, and 4 at port 2.
        let devices = [open(&[0, 1, 2, 3]), open(&[0, 1]), open(&[0]), open(&[0]), open(&[0])];
        let expected = [
            Upstream::Interface,
            Upstream::Device(0, 3),
            Upstream::Device(1, 1),
            Upstream::Device(0, 1),
            Upstream::Device(0, 2),
        ];
        assert_eq!(upstreams(&devices), expected);
    }

    #[test]
    fn devices_without_an_open_port_before_them_are_not_placed() {
        assert_eq!(upstreams(&[open(&[0]), open(&[0])])[1], Upstream::Unknown);
    }
}
