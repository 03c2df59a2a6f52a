//! The nodes of a plan and the links between them: a tree with the controller at its root.

use std::collections::BTreeMap;
use std::iter::successors;

use super::file::{Forwarding, NetPlanError, Network, rate_bps, us_as_ps};
use super::frame::{CUT_THROUGH, byte_ps};

/// Place of a node in [`NetworkTopology::nodes`].
pub(super) type NodeId = usize;
/// Place of a port in [`NetworkTopology::ports`].
pub(super) type PortId = usize;

/// A node of a plan. The first one is the controller; each is listed after the one above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNode {
    pub name: String,
    /// The link towards the controller; the controller has none.
    pub up: Option<PlannedLink>,
    /// What it is.
    pub role: PlannedRole,
    /// Ports that send from here.
    pub(super) ports: Vec<PortId>,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedRole {
    /// The sender of commands.
    Controller,
    /// A switch, or a member of a chain with a device in it.
    Switch {
        /// How it forwards frames.
        forwarding: Forwarding,
        /// From the last bit of a frame to its forwarding, in picoseconds.
        overhead_ps: u64,
        /// Size of its buffer, in bytes; `None` without limit.
        buffer_bytes: Option<u64>,
        /// Number of the device in it, from 0.
        device: Option<usize>,
    },
    /// A device with its number, from 0.
    Device { number: usize },
    /// Another computer.
    Host,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wiring {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) bits_per_s: u64,
    pub(super) byte_ps: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) name: String,
    /// The table of the file that it comes from, for drawing.
    pub(super) group: usize,
    /// Its node: of its own, or the switch that it is part of.
    pub(super) node: NodeId,
    pub(super) off_wire_ps: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NetworkTopology {
    pub(super) nodes: Vec<PlannedNode>,
    pub(super) ports: Vec<Wiring>,
    pub(super) devices: Vec<Device>,
}

impl NetworkTopology {
    /// Name of the root in files.
    pub(super) const CONTROLLER: &'static str = "controller";
    /// Place of the root.
    pub(super) const ROOT: NodeId = 0;

    pub(super) fn from_network(network: &Network) -> Result<Self, NetPlanError> {
        let mut building = Building::default();
        building.add(Self::CONTROLLER.to_owned(), None, PlannedRole::Controller)?;
        building.groups.insert(Self::CONTROLLER.to_owned(), vec![Self::ROOT]);

        building.switches(network)?;
        building.chains(network)?;
        building.devices(network)?;
        for table in &network.hosts {
            let to = building.resolve(&table.name, &table.to)?[0];
            let up = PlannedLink { to, bits_per_s: rate_bps(&table.link)? };
            building.add(table.name.clone(), Some(up), PlannedRole::Host)?;
        }

        let topology = building.topology;
        for table in &network.background {
            topology.host("comes from", &table.from)?;
            topology.host("goes to", &table.to)?;
            if table.from == table.to {
                return Err(NetPlanError::OneEnd { name: table.to.clone() });
            }
        }
        Ok(topology)
    }

    /// Returns an end of background traffic.
    pub(super) fn host(&self, what: &'static str, name: &str) -> Result<NodeId, NetPlanError> {
        let fits = |node: &PlannedNode| {
            node.name == name && matches!(node.role, PlannedRole::Controller | PlannedRole::Host)
        };
        let found = self.nodes.iter().position(fits);
        found.ok_or_else(|| NetPlanError::NoSuchHost { what, name: name.to_owned() })
    }

    /// Returns the port of each node towards each node: `next[from][to]`, none to itself.
    pub(super) fn routes(&self) -> Vec<Vec<Option<PortId>>> {
        let count = self.nodes.len();
        let port_to = |from: NodeId, to: NodeId| {
            self.nodes[from].ports.iter().copied().find(|port| self.ports[*port].to == to)
        };
        let upwards: Vec<Option<PortId>> = (0..count)
            .map(|node| self.nodes[node].up.and_then(|link| port_to(node, link.to)))
            .collect();
        let mut next: Vec<Vec<Option<PortId>>> =
            upwards.iter().map(|port| vec![*port; count]).collect();

        for (target, node) in self.nodes.iter().enumerate() {
            next[target][target] = None;
            let mut below = target;
            let mut up = node.up;
            while let Some(PlannedLink { to: above, .. }) = up {
                next[above][target] = port_to(above, below);
                below = above;
                up = self.nodes[above].up;
            }
        }

        next
    }

    /// Returns the number of links between a node and the controller.
    pub(super) fn links_to(&self, node: NodeId) -> u64 {
        successors(self.nodes[node].up, |link| self.nodes[link.to].up).count() as u64
    }

    /// Returns the number of links between two nodes.
    pub(super) fn links_between(&self, one: NodeId, other: NodeId) -> u64 {
        let from_controller = |node: NodeId| {
            let up = |at: &NodeId| self.nodes[*at].up.map(|link| link.to);
            let mut path: Vec<NodeId> = successors(Some(node), up).collect();
            path.reverse();
            path
        };
        let (one, other) = (from_controller(one), from_controller(other));
        let shared = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        (one.len() + other.len() - 2 * shared) as u64
    }

    /// Returns the picoseconds that a frame takes between a node and the controller where nothing
    /// waits: whole on each link, but only its header where a cut-through switch is between two links
    /// of one rate.
    pub(super) fn on_wire_ps(&self, node: NodeId, bytes: u64) -> u64 {
        let links = successors(self.nodes[node].up, |link| self.nodes[link.to].up);
        let time = |link: PlannedLink| {
            let PlannedNode { role, up, .. } = &self.nodes[link.to];
            let is_same_rate = up.is_some_and(|next| next.bits_per_s == link.bits_per_s);
            let is_cut = is_same_rate
                && matches!(role, PlannedRole::Switch { forwarding: Forwarding::CutThrough, .. });
            byte_ps(link.bits_per_s) * if is_cut { CUT_THROUGH } else { bytes }
        };
        links.map(time).sum()
    }
}

#[derive(Default)]
struct Building {
    topology: NetworkTopology,
    /// What a name in `to` stands for: one node, or all members of a line or chain.
    groups: BTreeMap<String, Vec<NodeId>>,
    tables: usize,
}

impl Building {
    fn add(
        &mut self,
        name: String,
        up: Option<PlannedLink>,
        role: PlannedRole,
    ) -> Result<NodeId, NetPlanError> {
        let nodes = &mut self.topology.nodes;
        let node = nodes.len();
        if self.groups.contains_key(&name) {
            return Err(NetPlanError::Twice { name });
        }
        if name.trim().is_empty() || name.contains(char::is_control) {
            return Err(NetPlanError::Name { name });
        }

        self.groups.insert(name.clone(), vec![node]);
        nodes.push(PlannedNode { name, up, role, ports: Vec::new() });
        if let Some(PlannedLink { to: above, bits_per_s }) = up {
            let byte_ps = byte_ps(bits_per_s);
            for (from, to) in [(node, above), (above, node)] {
                nodes[from].ports.push(self.topology.ports.len());
                self.topology.ports.push(Wiring { from, to, bits_per_s, byte_ps });
            }
        }
        Ok(node)
    }

    fn resolve(&self, node: &str, to: &str) -> Result<&[NodeId], NetPlanError> {
        let may_carry = |node: &NodeId| {
            matches!(
                self.topology.nodes[*node].role,
                PlannedRole::Controller | PlannedRole::Switch { .. }
            )
        };
        let found = self.groups.get(to).filter(|nodes| nodes.iter().all(may_carry));
        let missing = || NetPlanError::NoSuchNode { node: node.to_owned(), to: to.to_owned() };
        found.map(Vec::as_slice).ok_or_else(missing)
    }

    fn switches(&mut self, network: &Network) -> Result<(), NetPlanError> {
        for table in &network.switches {
            let bits_per_s = rate_bps(&table.link)?;
            let mut to = self.last(&table.name, &table.to)?;
            let role = PlannedRole::Switch {
                forwarding: table.forwarding,
                overhead_ps: us_as_ps(table.overhead_us),
                buffer_bytes: table.buffer_kb.map(|kb| (kb * 1000.0) as u64),
                device: None,
            };

            let mut members = Vec::new();
            for name in names(&table.name, table.count) {
                to = self.add(name, Some(PlannedLink { to, bits_per_s }), role)?;
                members.push(to);
            }
            self.name_group(&table.name, members)?;
        }
        Ok(())
    }

    fn chains(&mut self, network: &Network) -> Result<(), NetPlanError> {
        for table in &network.chains {
            let bits_per_s = rate_bps(&table.link)?;
            let mut to = self.last(&table.name, &table.to)?;
            self.tables += 1;

            let mut members = Vec::new();
            for name in names(&table.name, table.count) {
                let role = PlannedRole::Switch {
                    forwarding: table.forwarding,
                    overhead_ps: us_as_ps(table.overhead_us),
                    buffer_bytes: None,
                    device: Some(self.topology.devices.len()),
                };
                to = self.add(name.clone(), Some(PlannedLink { to, bits_per_s }), role)?;
                self.add_device(name, to, table.off_wire_us);
                members.push(to);
            }
            self.name_group(&table.name, members)?;
        }
        Ok(())
    }

    fn devices(&mut self, network: &Network) -> Result<(), NetPlanError> {
        for table in &network.devices {
            let bits_per_s = rate_bps(&table.link)?;
            let above = self.resolve(&table.name, &table.to)?.to_vec();
            self.tables += 1;

            let count = table.count as usize;
            for (place, name) in names(&table.name, table.count).enumerate() {
                // In equal parts over the switches of a line.
                let up = PlannedLink { to: above[place * above.len() / count], bits_per_s };
                let role = PlannedRole::Device { number: self.topology.devices.len() };
                let node = self.add(name.clone(), Some(up), role)?;
                self.add_device(name, node, table.off_wire_us);
            }
        }
        Ok(())
    }

    fn add_device(&mut self, name: String, node: NodeId, off_wire_us: f64) {
        let device = Device { name, group: self.tables, node, off_wire_ps: us_as_ps(off_wire_us) };
        self.topology.devices.push(device);
    }

    /// The end of a line; a node alone is its own.
    fn last(&self, node: &str, to: &str) -> Result<NodeId, NetPlanError> {
        let nodes = self.resolve(node, to)?;
        Ok(nodes[nodes.len() - 1])
    }

    /// Gives a line its name, besides those of its members.
    fn name_group(&mut self, name: &str, members: Vec<NodeId>) -> Result<(), NetPlanError> {
        let is_alone = members.len() == 1;
        match self.groups.insert(name.to_owned(), members) {
            Some(_) if !is_alone => Err(NetPlanError::Twice { name: name.to_owned() }),
            _ => Ok(()),
        }
    }
}

/// `NAME` for one, `NAME-1` and so on for several.
fn names(name: &str, count: u64) -> impl Iterator<Item = String> {
    (1..=count).map(
        move |number| {
            if count == 1 { name.to_owned() } else { format!("{name}-{number}") }
        },
    )
}
