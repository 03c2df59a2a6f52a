//! A plan as nodes and links, for programs that build it; and the plan of a run that is measured.

use super::file::{NetPlanError, Network, Send};
use super::topology::{NetworkTopology, NodeRole};

/// Cycles that a prediction for a run simulates.
const PREDICTED_CYCLES: u64 = 100;

/// A node of a plan. The first one is the controller; each is listed after the one above it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedNode {
    pub name: String,
    /// The link towards the controller; the controller has none.
    pub up: Option<PlannedLink>,
    /// What it is.
    pub role: PlannedRole,
}

/// A link to the node above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedLink {
    /// Place of the node above in the list.
    pub to: usize,
    /// Rate in both directions, in bit/s.
    pub bits_per_s: u64,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlannedRole {
    /// The sender of commands.
    Controller,
    /// A switch, or a member of a chain with a device in it.
    Switch {
        /// Size of its buffer, in bytes; `None` without limit.
        buffer_bytes: Option<u64>,
        /// From the last bit of a frame to its forwarding, in microseconds.
        overhead_us: f64,
        /// Number of the device in it, from 0.
        device: Option<usize>,
    },
    /// A device with its number, from 0.
    Device { number: usize },
    /// Another computer.
    Host,
}

impl Network {
    /// Returns the nodes of the plan, the controller first.
    ///
    /// ```
    /// use onbeat_net::plan::{Network, PlannedRole};
    ///
    /// let plan = "[[devices]]\nname = \"board\"\ncount = 2\nlink = \"100M\"\n";
    /// let nodes = Network::parse(plan)?.nodes()?;
    /// assert_eq!(nodes[0].role, PlannedRole::Controller);
    /// assert_eq!(nodes[2].name, "board-2");
    /// assert_eq!(nodes[2].up.map(|link| (link.to, link.bits_per_s)), Some((0, 100_000_000)));
    /// # Ok::<(), onbeat_net::plan::NetPlanError>(())
    /// ```
    ///
    /// # Errors
    /// [`NetPlanError`], which a plan that was read does not have.
    pub fn nodes(&self) -> Result<Vec<PlannedNode>, NetPlanError> {
        let topology = NetworkTopology::from_network(self)?;
        let role = |role: &NodeRole| match *role {
            NodeRole::Controller => PlannedRole::Controller,
            NodeRole::Switch { overhead_ps, buffer, device, .. } => PlannedRole::Switch {
                buffer_bytes: buffer,
                overhead_us: overhead_ps as f64 / 1e6,
                device,
            },
            NodeRole::Device(number) => PlannedRole::Device { number },
            NodeRole::Host => PlannedRole::Host,
        };

        let nodes = topology.nodes.iter().map(|node| PlannedNode {
            name: node.name.clone(),
            up: node.up.map(|(to, bits_per_s)| PlannedLink { to, bits_per_s }),
            role: role(&node.role),
        });
        Ok(nodes.collect())
    }

    /// Returns the same network with the traffic of a run of round trips: one packet for each device
    /// per period, answered with as many bytes.
    #[must_use]
    pub fn with_round_trips(mut self, payload: u64, period_ns: u64) -> Self {
        let traffic = &mut self.traffic;
        traffic.payload = payload;
        traffic.answer = None;
        traffic.send = Send::Each;
        traffic.rate_hz = 1e9 / period_ns.max(1) as f64;
        traffic.cycles = traffic.cycles.min(PREDICTED_CYCLES);
        self
    }

    /// Returns the number of background streams of the plan.
    #[must_use]
    pub fn background_streams(&self) -> usize {
        self.background.len()
    }

    /// Returns the payload of a command, in bytes.
    #[must_use]
    pub fn payload(&self) -> u64 {
        self.traffic.payload
    }

    /// Returns whether packets are larger than those of plain IPv4: by IPv6 or a VLAN tag.
    #[must_use]
    pub fn has_larger_headers(&self) -> bool {
        self.traffic.ipv6 || self.traffic.vlan
    }
}
