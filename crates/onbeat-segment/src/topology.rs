//! Cables, ports, and routes of frames.
//!
//! A frame received at port 0 passes the processing unit and is forwarded to ports 3, 1, 2 and back
//! to 0; it leaves by each open port and returns by it. Closed ports are skipped. A frame that
//! reaches a closed port 0 from within passes the processing unit at that point. Line, tree, ring,
//! and both halves of a cut ring follow from this rule.

use super::cable_positions::{CableEnd, CablePositions, SimulatedCable};

/// Delay of a device, with and without its processing unit, in ns.
const PROCESSING_NS: u64 = 320;
const FORWARDING_NS: u64 = 120;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortState {
    pub(crate) link: bool,
    pub(crate) open: bool,
    /// Auto close: closed by a lost link until it is opened explicitly.
    latched: bool,
}

/// Properties of devices that the topology depends on.
pub(crate) trait DevicePorts {
    /// Returns the loop control of a port: 0 auto, 1 auto close, 2 open, 3 closed.
    fn loop_control(&self, device: usize, port: usize) -> u8;
    /// Returns whether the device has power.
    fn is_powered(&self, device: usize) -> bool;
}

/// Cables and ports of all devices.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) cables: Vec<SimulatedCable>,
    /// For each port, the number of its cable.
    cable_at: Vec<[Option<usize>; 4]>,
    pub(crate) ports: Vec<[PortState; 4]>,
    placement: CablePositions,
}

/// A device on a route, at its processing unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteStop {
    pub(crate) device: usize,
    /// Time since sending, in ns.
    pub(crate) after_ns: u64,
}

/// Route of a frame sent by one network interface.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// Devices in processing order.
    pub(crate) order: Vec<RouteStop>,
    /// For each device, its position in `order`.
    pub(crate) position: Vec<Option<usize>>,
    /// For each device, the arrival time at each port since sending, in ns; 0 for ports at which it
    /// does not arrive.
    pub(crate) ports_ns: Vec<[u64; 4]>,
    /// Interface to which it returns, and the time since sending, in ns.
    pub(crate) back: Option<(usize, u64)>,
}

impl Route {
    fn new(devices: usize) -> Self {
        Self {
            order: Vec::with_capacity(devices),
            position: vec![None; devices],
            ports_ns: vec![[0; 4]; devices],
            back: None,
        }
    }

    fn clear(&mut self) {
        self.order.clear();
        self.position.fill(None);
        self.ports_ns.fill([0; 4]);
        self.back = None;
    }
}

impl Topology {
    pub(crate) fn new(devices: usize, cables: Vec<SimulatedCable>) -> Self {
        let placement = CablePositions::new(devices, &cables);
        let ports = vec![[PortState::default(); 4]; devices];
        let mut topology =
            Self { cables: Vec::new(), cable_at: vec![[None; 4]; devices], ports, placement };
        topology.set_cables(cables);
        topology
    }

    /// Moves devices or changes their cables; returns whether `change` was possible.
    pub(crate) fn rearrange(&mut self, change: impl FnOnce(&mut CablePositions) -> bool) -> bool {
        let is_possible = change(&mut self.placement);
        if is_possible {
            self.set_cables(self.placement.cables());
        }

        is_possible
    }

    /// Connects or cuts the cable at an end; returns whether that changed it.
    pub(crate) fn set_intact(&mut self, end: CableEnd, intact: bool) -> bool {
        let ends_here = |cable: &SimulatedCable| cable.ends.contains(&end);
        let changes = self.cables.iter().any(|cable| ends_here(cable) && cable.intact != intact);
        if changes && self.placement.set_intact(end, intact) {
            self.set_cables(self.placement.cables());
        }
        changes
    }

    /// Replaces the cables between the devices.
    fn set_cables(&mut self, cables: Vec<SimulatedCable>) {
        self.cable_at.fill([None; 4]);
        for (number, cable) in cables.iter().enumerate() {
            for end in cable.ends {
                if let CableEnd::Port { device, port } = end {
                    self.cable_at[device][port] = Some(number);
                }
            }
        }

        self.cables = cables;
    }

    pub(crate) fn new_route(&self) -> Route {
        Route::new(self.cable_at.len())
    }

    /// Updates links and loops of all ports. Calls `lost` for each port that lost its link.
    pub(crate) fn update(
        &mut self,
        devices: &impl DevicePorts,
        mut lost: impl FnMut(usize, usize),
    ) {
        for device in 0..self.cable_at.len() {
            for port in 0..4 {
                let link = devices.is_powered(device) && self.has_link(devices, device, port);
                let state = &mut self.ports[device][port];
                if state.link && !link {
                    lost(device, port);
                }

                let control = devices.loop_control(device, port);
                state.latched = control == 1 && (state.latched || state.link && !link);
                state.link = link;
                state.open = match control {
                    0 => link,
                    1 => link && !state.latched,
                    2 => true,
                    _ => false,
                };
            }
        }
    }

    fn has_link(&self, devices: &impl DevicePorts, device: usize, port: usize) -> bool {
        let Some(cable) = self.cable_at[device][port].map(|number| &self.cables[number]) else {
            return false;
        };
        let far_end_is_up = |end: &CableEnd| match end {
            CableEnd::Nic(_) => true,
            CableEnd::Port { device, .. } => devices.is_powered(*device),
        };
        cable.intact && cable.ends.iter().all(far_end_is_up)
    }

    /// Returns the DL status of a device, without its two lowest bits.
    pub(crate) fn dl_status(&self, device: usize) -> u16 {
        let mut status = 0;
        for (number, port) in self.ports[device].iter().enumerate() {
            status |= u16::from(port.link) << (4 + number);
            status |= u16::from(!port.open) << (8 + 2 * number);
            status |= u16::from(port.link && port.open) << (9 + 2 * number);
        }

        status
    }

    /// Computes the route of a frame from an interface until it returns or is lost.
    pub(crate) fn walk(&self, nic: usize, route: &mut Route) {
        route.clear();
        let mut at = self.far_end(CableEnd::Nic(nic));
        let mut elapsed_ns = 0;
        // A route passes each port at most once in each direction.
        for _ in 0..=8 * self.cable_at.len() {
            match at {
                None => return,
                Some((CableEnd::Nic(back), delay_ns)) => {
                    route.back = Some((back, elapsed_ns + delay_ns));
                    return;
                }
                Some((CableEnd::Port { device, port }, delay_ns)) => {
                    elapsed_ns += delay_ns;
                    at = self.through(device, port, route, &mut elapsed_ns);
                }
            }
        }
    }

    /// Forwards a frame that arrives at a port through the device. Returns the far end of the cable
    /// by which it leaves.
    fn through(
        &self,
        device: usize,
        port: usize,
        route: &mut Route,
        elapsed_ns: &mut u64,
    ) -> Option<(CableEnd, u64)> {
        const AFTER: [usize; 4] = [3, 2, 0, 1];
        route.ports_ns[device][port] = *elapsed_ns;
        if !self.ports[device][port].open {
            return None;
        }

        let mut at = port;
        for _ in 0..4 {
            if at == 0 {
                // A frame that passes a device twice circulates, and is destroyed.
                if route.position[device].is_some() {
                    return None;
                }

                route.position[device] = Some(route.order.len());
                route.order.push(RouteStop { device, after_ns: *elapsed_ns });
                *elapsed_ns += PROCESSING_NS - FORWARDING_NS;
            }

            at = AFTER[at];
            if self.ports[device][at].open {
                break;
            }
        }

        *elapsed_ns += FORWARDING_NS;
        // A frame that leaves by an open port without a link is lost.
        self.ports[device][at].link.then(|| self.far_end(CableEnd::Port { device, port: at }))?
    }

    fn far_end(&self, end: CableEnd) -> Option<(CableEnd, u64)> {
        let number = match end {
            CableEnd::Nic(_) => self.cables.iter().position(|cable| cable.ends.contains(&end))?,
            CableEnd::Port { device, port } => self.cable_at[device][port]?,
        };

        let cable = &self.cables[number];
        let far = if cable.ends[0] == end { cable.ends[1] } else { cable.ends[0] };
        cable.intact.then_some((far, cable.delay_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices with power, loop control of all ports on auto.
    struct Automatic;

    impl DevicePorts for Automatic {
        fn loop_control(&self, _: usize, _: usize) -> u8 {
            0
        }

        fn is_powered(&self, _: usize) -> bool {
            true
        }
    }

    fn cable(ends: [CableEnd; 2]) -> SimulatedCable {
        SimulatedCable { ends, delay_ns: 10, intact: true }
    }

    fn port(device: usize, port: usize) -> CableEnd {
        CableEnd::Port { device, port }
    }

    fn route(topology: &mut Topology, nic: usize) -> Route {
        topology.update(&Automatic, |_, _| ());
        let mut route = topology.new_route();
        topology.walk(nic, &mut route);
        route
    }

    fn order(route: &Route) -> Vec<usize> {
        route.order.iter().map(|stop| stop.device).collect()
    }

    fn line(devices: usize) -> Vec<SimulatedCable> {
        let first = cable([CableEnd::Nic(0), port(0, 0)]);
        std::iter::once(first)
            .chain((1..devices).map(|d| cable([port(d - 1, 1), port(d, 0)])))
            .collect()
    }

    #[test]
    fn a_frame_passes_a_line_in_order_and_returns() {
        let route = route(&mut Topology::new(3, line(3)), 0);
        assert_eq!(order(&route), [0, 1, 2]);
        // Three cables in both directions; all devices process, all but the last one forward the
        // returning frame.
        assert_eq!(route.back, Some((0, 6 * 10 + 3 * 320 + 2 * 120)));
        assert_eq!(route.ports_ns[1][0], 10 + 320 + 10);
    }

    #[test]
    fn a_frame_passes_a_tree_by_port_3_then_1_then_2() {
        let cables = vec![
            cable([CableEnd::Nic(0), port(0, 0)]),
            cable([port(0, 1), port(1, 0)]),
            cable([port(0, 2), port(2, 0)]),
            cable([port(0, 3), port(3, 0)]),
        ];
        assert_eq!(order(&route(&mut Topology::new(4, cables), 0)), [0, 3, 1, 2]);
    }

    #[test]
    fn devices_behind_a_cut_are_not_reached_and_the_frame_returns() {
        let mut cables = line(4);
        cables[2].intact = false;
        let mut topology = Topology::new(4, cables);
        let route = route(&mut topology, 0);

        assert_eq!((order(&route), route.back.is_some()), (vec![0, 1], true));
        assert_eq!(topology.dl_status(1) >> 4 & 0x0f, 0b0001);
        assert_eq!(topology.dl_status(1) >> 8 & 0x0f, 0b0110);
    }

    #[test]
    fn a_frame_leaves_a_ring_at_the_other_interface_and_a_cut_ring_at_the_same_one() {
        let mut cables = line(3);
        cables.push(cable([port(2, 1), CableEnd::Nic(1)]));
        let mut topology = Topology::new(3, cables);
        let there = route(&mut topology, 0);
        let back = route(&mut topology, 1);

        assert_eq!(
            (order(&there).as_slice(), there.back.map(|(nic, _)| nic)),
            ([0, 1, 2].as_slice(), Some(1))
        );
        assert_eq!(
            (order(&back).as_slice(), back.back.map(|(nic, _)| nic)),
            ([].as_slice(), Some(0))
        );
        topology.cables[1].intact = false;
        let there = route(&mut topology, 0);
        let back = route(&mut topology, 1);
        assert_eq!(
            (order(&there).as_slice(), there.back.map(|(nic, _)| nic)),
            ([0].as_slice(), Some(0))
        );
        assert_eq!(
            (order(&back).as_slice(), back.back.map(|(nic, _)| nic)),
            ([1, 2].as_slice(), Some(1))
        );
    }
}
