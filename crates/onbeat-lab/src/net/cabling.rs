//! What a plan needs: bridges, cables and addresses. A pure function of the plan.

use std::net::Ipv4Addr;

use onbeat_net::plan::{Network, PlannedNode, PlannedRole};
use onbeat_net::rtt::targets::MOST_TARGETS;

use super::error::NetworkLabError;
use super::netlink::{BEYOND_KERNEL_BYTES, HardwareAddress, TokenBucket};

/// The network 10.76.0.0/16 has a network of 24 bits for each port of the controller.
const FIRST_OCTETS: [u8; 2] = [10, 76];
/// Last octet of the controller at each of its ports.
const CONTROLLER_OCTET: u8 = 254;
/// Bits of a port's network.
pub(super) const NETWORK_BITS: u8 = 24;
/// What may wait in front of a link without a stated buffer.
const LARGE_QUEUE_BYTES: u32 = 16 << 20;
/// Headers around a payload that the kernel counts: Ethernet, IPv4, UDP.
const HEADERS_BYTES: u64 = 42;
/// The kernel's timer is about this late; a bucket holds what the link carries meanwhile.
const TIMER_US: u64 = 20;

const FORTY_DEVICES: &str = "\
name = \"Forty devices on one switch\"
[[switches]]
name = \"switch\"
link = \"1G\"
[[devices]]
name = \"device\"
count = 40
to = \"switch\"
link = \"1G\"
";

/// Returns the network of a laboratory without a plan: forty devices on one switch.
///
/// # Panics
/// Never: a test reads the plan.
#[must_use]
pub fn forty_devices() -> Network {
    #[allow(clippy::expect_used)] // A constant of this file, and a test parses it.
    Network::parse(FORTY_DEVICES).expect("a valid plan")
}

/// Where a cable ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Socket {
    /// The controller's port of this number.
    Controller { port: u8 },
    /// A port of the bridge with this number.
    Bridge { bridge: usize },
    /// The device with this number.
    Device { device: usize },
}

/// A cable between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cable {
    /// Towards the controller.
    pub(super) upper: Socket,
    pub(super) lower: Socket,
    /// What each end sends at most, the upper one first; none inside a node.
    pub(super) limits: Option<[TokenBucket; 2]>,
}

/// The controller's port that a device is reached by, and both addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceAddress {
    pub(super) port: u8,
    pub(super) device: Ipv4Addr,
    pub(super) controller: Ipv4Addr,
}

/// All that is built.
#[derive(Debug)]
pub(super) struct Cabling {
    /// Names of the switches, and of the devices that have one in them.
    pub(super) bridges: Vec<String>,
    pub(super) cables: Vec<Cable>,
    /// By the number of the device.
    pub(super) devices: Vec<DeviceAddress>,
    /// Ports of the controller.
    pub(super) ports: u8,
    /// Other computers of the plan, which are left out.
    pub(super) hosts: usize,
    /// Whether switches of the plan have an overhead, which is left out.
    pub(super) has_overheads: bool,
}

impl Cabling {
    pub(super) fn from_plan(network: &Network) -> Result<Self, NetworkLabError> {
        let nodes = network.nodes()?;
        let devices = nodes.iter().filter(|node| device_of(node).is_some()).count();
        if devices as u64 > MOST_TARGETS {
            return Err(NetworkLabError::TooManyDevices { devices, most: MOST_TARGETS });
        }

        let mut cabling = Self {
            bridges: Vec::new(),
            cables: Vec::new(),
            devices: vec![address(0, 0); devices],
            ports: 0,
            hosts: nodes.iter().filter(|node| node.role == PlannedRole::Host).count(),
            has_overheads: nodes.iter().any(has_overhead),
        };
        // Where the cable of a lower node goes, and the port of the controller above, by node.
        let mut sockets: Vec<(Socket, u8)> = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let socket = cabling.add(node, &nodes, &sockets, network.payload());
            sockets.push(socket);
        }
        Ok(cabling)
    }

    /// Adds a node with its cable; returns where nodes below it are plugged in.
    fn add(
        &mut self,
        node: &PlannedNode,
        nodes: &[PlannedNode],
        sockets: &[(Socket, u8)],
        payload: u64,
    ) -> (Socket, u8) {
        let Some(link) = node.up else { return (Socket::Controller { port: 0 }, 0) };
        let (upper, port) = if link.to == 0 && node.role != PlannedRole::Host {
            let port = self.ports;
            self.ports += 1;
            (Socket::Controller { port }, port)
        } else {
            sockets[link.to]
        };

        let lower = match node.role {
            PlannedRole::Controller | PlannedRole::Host => return (upper, port),
            PlannedRole::Device { number } => Socket::Device { device: number },
            PlannedRole::Switch { .. } => {
                self.bridges.push(node.name.clone());
                Socket::Bridge { bridge: self.bridges.len() - 1 }
            }
        };
        let limit = |sender: &PlannedNode| bucket(link.bits_per_s, payload, sender);
        let limits = Some([limit(&nodes[link.to]), limit(node)]);
        self.cables.push(Cable { upper, lower, limits });

        if let Some(device) = device_of(node) {
            self.devices[device] = address(port, device);
            if let PlannedRole::Switch { .. } = node.role {
                let inside = Socket::Device { device };
                self.cables.push(Cable { upper: lower, lower: inside, limits: None });
            }
        }
        (lower, port)
    }
}

fn device_of(node: &PlannedNode) -> Option<usize> {
    match node.role {
        PlannedRole::Device { number } => Some(number),
        PlannedRole::Switch { device, .. } => device,
        PlannedRole::Controller | PlannedRole::Host => None,
    }
}

fn has_overhead(node: &PlannedNode) -> bool {
    matches!(node.role, PlannedRole::Switch { overhead_ps: 1.., .. })
}

/// How the link of a sender is limited: two frames and a quarter at once, or what the link carries
/// while the kernel's timer is late.
fn bucket(bits_per_s: u64, payload: u64, sender: &PlannedNode) -> TokenBucket {
    let frame = payload + HEADERS_BYTES + u64::from(BEYOND_KERNEL_BYTES);
    let while_late = bits_per_s / 8 * TIMER_US / 1_000_000;
    let queue = match sender.role {
        PlannedRole::Switch { buffer_bytes: Some(bytes), .. } => bytes,
        _ => LARGE_QUEUE_BYTES.into(),
    };
    let bytes = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    TokenBucket {
        bits_per_s,
        burst_bytes: bytes((frame * 9 / 4).max(while_late)),
        queue_bytes: bytes(queue),
    }
}

/// Addresses of a device at a port of the controller.
pub(super) fn address(port: u8, device: usize) -> DeviceAddress {
    let [first, second] = FIRST_OCTETS;
    DeviceAddress {
        port,
        device: Ipv4Addr::new(first, second, port, device as u8 + 1),
        controller: Ipv4Addr::new(first, second, port, CONTROLLER_OCTET),
    }
}

/// A hardware address of our own: locally administered, then "ON", who, and its number.
pub(super) const fn hardware_address(who: u8, number: u16) -> HardwareAddress {
    let [high, low] = number.to_be_bytes();
    [0x02, b'O', b'N', who, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cabling(plan: &str) -> Cabling {
        Cabling::from_plan(&Network::parse(plan).expect("a plan")).expect("a cabling")
    }

    #[test]
    fn forty_devices_stand_on_one_bridge() {
        let built = Cabling::from_plan(&forty_devices()).expect("a cabling");
        assert_eq!((built.bridges.len(), built.cables.len(), built.ports), (1, 41, 1));
        let bridge = Socket::Bridge { bridge: 0 };
        assert_eq!(built.cables[0].upper, Socket::Controller { port: 0 });
        assert!(built.cables[1..].iter().all(|cable| cable.upper == bridge));
        assert_eq!(built.devices[39].device, Ipv4Addr::new(10, 76, 0, 40));
    }

    #[test]
    fn a_chain_has_a_bridge_in_each_device_and_a_cable_to_the_next() {
        let built = cabling("[[chains]]\nname = \"joint\"\ncount = 2\nlink = \"100M\"\n");
        let first = Socket::Bridge { bridge: 0 };
        let second = Socket::Bridge { bridge: 1 };
        let ends: Vec<(Socket, Socket)> =
            built.cables.iter().map(|cable| (cable.upper, cable.lower)).collect();
        let device = |device| Socket::Device { device };
        assert_eq!(
            ends,
            [
                (Socket::Controller { port: 0 }, first),
                (first, device(0)),
                (first, second),
                (second, device(1)),
            ]
        );
        assert_eq!(built.cables[1].limits, None, "inside a device");
        assert_eq!(built.cables[2].limits.map(|limits| limits[0].bits_per_s), Some(100_000_000));
    }

    #[test]
    fn every_port_of_the_controller_has_a_network_of_its_own() {
        let built = cabling("[[devices]]\nname = \"board\"\ncount = 2\nlink = \"10M\"\n");
        assert_eq!(built.ports, 2);
        assert_eq!(built.devices[1].device, Ipv4Addr::new(10, 76, 1, 2));
        assert_eq!(built.devices[1].controller, Ipv4Addr::new(10, 76, 1, 254));
    }

    #[test]
    fn a_bucket_holds_two_frames_and_a_quarter_or_the_lateness_of_a_timer() {
        let built = cabling(
            "[[switches]]\nname = \"s\"\nlink = \"1G\"\nbuffer_kb = 64\n\
             [[devices]]\nname = \"d\"\nto = \"s\"\nlink = \"100M\"\n",
        );
        let limits = built.cables[1].limits.expect("limits");
        assert_eq!((limits[0].burst_bytes, limits[0].queue_bytes), (598, 64_000));
        assert_eq!(limits[1].queue_bytes, LARGE_QUEUE_BYTES, "a device has no small buffer");
        assert_eq!(built.cables[0].limits.map(|limits| limits[0].burst_bytes), Some(2500));
    }

    #[test]
    fn a_plan_with_more_devices_than_a_run_can_ask_is_refused() {
        let network = Network::parse("[[devices]]\nname = \"d\"\ncount = 129\nlink = \"1G\"\n")
            .expect("a plan");
        let refused = Cabling::from_plan(&network).expect_err("too many");
        assert!(refused.to_string().contains("129 devices"), "{refused}");
    }
}
