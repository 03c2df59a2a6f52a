//! The nodes of a plan and the links between them: a tree with the controller at its root.

use std::collections::BTreeMap;

use super::file::{Forwarding, NetPlanError, Network, rate_bps, us_as_ps};
use super::frame::byte_ps;

/// Place of a node in [`NetworkTopology::nodes`].
pub(super) type NodeId = usize;
/// Place of a port in [`NetworkTopology::ports`].
pub(super) type PortId = usize;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    /// Towards the controller, and the rate in bit/s; the controller has none.
    pub(super) up: Option<(NodeId, u64)>,
    pub(super) role: NodeRole,
    /// Ports that send from here.
    pub(super) ports: Vec<PortId>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeRole {
    Controller,
    Switch {
        forwarding: Forwarding,
        overhead_ps: u64,
        /// `None` without limit.
        buffer: Option<u64>,
        /// The device in it, for a member of a chain.
        device: Option<usize>,
    },
    /// Number of the device.
    Device(usize),
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
    pub(super) nodes: Vec<Node>,
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
        building.add(Self::CONTROLLER.to_owned(), None, NodeRole::Controller)?;
        building.groups.insert(Self::CONTROLLER.to_owned(), vec![Self::ROOT]);

        building.switches(network)?;
        building.chains(network)?;
        building.devices(network)?;
        for table in &network.hosts {
            let up = building.resolve(&table.name, &table.to)?[0];
            building.add(table.name.clone(), Some((up, rate_bps(&table.link)?)), NodeRole::Host)?;
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
        let fits = |node: &Node| {
            node.name == name && matches!(node.role, NodeRole::Controller | NodeRole::Host)
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
            .map(|node| self.nodes[node].up.and_then(|(up, _)| port_to(node, up)))
            .collect();
        let mut next: Vec<Vec<Option<PortId>>> =
            upwards.iter().map(|port| vec![*port; count]).collect();

        for (target, node) in self.nodes.iter().enumerate() {
            next[target][target] = None;
            let mut below = target;
            let mut up = node.up;
            while let Some((above, _)) = up {
                next[above][target] = port_to(above, below);
                below = above;
                up = self.nodes[above].up;
            }
        }

        next
    }

    /// Returns the ports from the controller to a device, in order.
    pub(super) fn path_to(&self, device: usize) -> Vec<PortId> {
        let routes = self.routes_to(self.devices[device].node);
        let mut at = Self::ROOT;
        let mut path = Vec::new();
        while let Some(port) = routes.get(&at) {
            path.push(*port);
            at = self.ports[*port].to;
        }
        path
    }

    fn routes_to(&self, target: NodeId) -> BTreeMap<NodeId, PortId> {
        let mut routes = BTreeMap::new();
        let mut below = target;
        while let Some((above, _)) = self.nodes[below].up {
            let ports = &self.nodes[above].ports;
            if let Some(port) = ports.iter().find(|port| self.ports[**port].to == below) {
                routes.insert(above, *port);
            }
            below = above;
        }
        routes
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
        up: Option<(NodeId, u64)>,
        role: NodeRole,
    ) -> Result<NodeId, NetPlanError> {
        let nodes = &mut self.topology.nodes;
        let node = nodes.len();
        if self.groups.contains_key(&name) {
            return Err(NetPlanError::Twice { name });
        }

        self.groups.insert(name.clone(), vec![node]);
        nodes.push(Node { name, up, role, ports: Vec::new() });
        if let Some((up, bits_per_s)) = up {
            let byte_ps = byte_ps(bits_per_s);
            for (from, to) in [(node, up), (up, node)] {
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
                NodeRole::Controller | NodeRole::Switch { .. }
            )
        };
        let found = self.groups.get(to).filter(|nodes| nodes.iter().all(may_carry));
        let missing = || NetPlanError::NoSuchNode { node: node.to_owned(), to: to.to_owned() };
        found.map(Vec::as_slice).ok_or_else(missing)
    }

    fn switches(&mut self, network: &Network) -> Result<(), NetPlanError> {
        for table in &network.switches {
            let bits_per_s = rate_bps(&table.link)?;
            let mut up = self.last(&table.name, &table.to)?;
            let role = NodeRole::Switch {
                forwarding: table.forwarding,
                overhead_ps: us_as_ps(table.overhead_us),
                buffer: table.buffer_kb.map(|kb| (kb * 1000.0) as u64),
                device: None,
            };

            let mut members = Vec::new();
            for name in names(&table.name, table.count) {
                up = self.add(name, Some((up, bits_per_s)), role.clone())?;
                members.push(up);
            }
            self.name_group(&table.name, members)?;
        }
        Ok(())
    }

    fn chains(&mut self, network: &Network) -> Result<(), NetPlanError> {
        for table in &network.chains {
            let bits_per_s = rate_bps(&table.link)?;
            let mut up = self.last(&table.name, &table.to)?;
            self.tables += 1;

            let mut members = Vec::new();
            for name in names(&table.name, table.count) {
                let role = NodeRole::Switch {
                    forwarding: table.forwarding,
                    overhead_ps: us_as_ps(table.overhead_us),
                    buffer: None,
                    device: Some(self.topology.devices.len()),
                };
                up = self.add(name.clone(), Some((up, bits_per_s)), role)?;
                self.add_device(name, up, table.off_wire_us);
                members.push(up);
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
                let up = above[place * above.len() / count];
                let device = NodeRole::Device(self.topology.devices.len());
                let node = self.add(name.clone(), Some((up, bits_per_s)), device)?;
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
