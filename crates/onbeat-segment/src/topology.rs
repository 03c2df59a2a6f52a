//! Cables, ports, and the way a frame takes.
//!
//! A frame that comes in by port 0 passes the processing unit and goes on to ports 3, 1, 2 and back to 0, leaving by each port that is
//! open and coming back by it. A closed port is passed over. A frame that reaches port 0 from within, because that port is closed,
//! passes the processing unit then. Line, tree, ring, and both halves of a cut ring follow from this one rule.

pub(crate) use onbeat_ethercat::description::End;

use super::seats::Seats;

/// Time through a device with its processing unit, and without.
const PROCESSING_NS: u64 = 320;
const FORWARDING_NS: u64 = 120;

#[derive(Clone, Debug)]
pub(crate) struct Cable {
    pub(crate) ends: [End; 2],
    pub(crate) delay_ns: u64,
    pub(crate) intact: bool,
}

/// A port as the wire sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) link: bool,
    pub(crate) open: bool,
    /// Closed at a lost link and told to stay so until opened by hand.
    latched: bool,
}

/// What a topology asks of its devices.
pub(crate) trait Ports {
    /// Loop control of a port: 0 opens and closes by itself, 1 closes by itself, 2 is open, 3 is closed.
    fn loop_control(&self, device: usize, port: usize) -> u8;
    /// Whether the device has power.
    fn is_powered(&self, device: usize) -> bool;
}

/// Cables between devices.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) cables: Vec<Cable>,
    plugs: Vec<[Option<usize>; 4]>,
    pub(crate) ports: Vec<[Port; 4]>,
    pub(super) seats: Seats,
}

/// A device whose processing unit a frame passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) device: usize,
    /// When, counted from the sending.
    pub(crate) after_ns: u64,
}

/// The way of a frame that one network interface sends.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// Where it is processed, in this order.
    pub(crate) order: Vec<Stop>,
    /// For each device, its place in `order`.
    pub(crate) place: Vec<Option<usize>>,
    /// For each device, when the frame comes in by each port, counted from the sending; 0 for ports it does not come in by.
    pub(crate) ports_ns: Vec<[u64; 4]>,
    /// Interface it comes back to, and how long after the sending.
    pub(crate) back: Option<(usize, u64)>,
}

impl Route {
    fn new(devices: usize) -> Self {
        Self {
            order: Vec::with_capacity(devices),
            place: vec![None; devices],
            ports_ns: vec![[0; 4]; devices],
            back: None,
        }
    }

    fn clear(&mut self) {
        self.order.clear();
        self.place.fill(None);
        self.ports_ns.fill([0; 4]);
        self.back = None;
    }
}

impl Topology {
    pub(crate) fn new(devices: usize, cables: Vec<Cable>) -> Self {
        let seats = Seats::new(devices, &cables);
        let ports = vec![[Port::default(); 4]; devices];
        let mut topology = Self { cables: Vec::new(), plugs: vec![[None; 4]; devices], ports, seats };
        topology.set_cables(cables);
        topology
    }

    /// Lays other cables between the same devices.
    pub(super) fn set_cables(&mut self, cables: Vec<Cable>) {
        self.plugs.fill([None; 4]);
        for (number, cable) in cables.iter().enumerate() {
            for end in cable.ends {
                if let End::Port { device, port } = end {
                    self.plugs[device][port] = Some(number);
                }
            }
        }

        self.cables = cables;
    }

    pub(crate) fn new_route(&self) -> Route {
        Route::new(self.plugs.len())
    }

    /// Brings links and open ports up to date. Calls `lost` for each port whose link went.
    pub(crate) fn update(&mut self, devices: &impl Ports, mut lost: impl FnMut(usize, usize)) {
        for device in 0..self.plugs.len() {
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

    fn has_link(&self, devices: &impl Ports, device: usize, port: usize) -> bool {
        let Some(cable) = self.plugs[device][port].map(|number| &self.cables[number]) else { return false };
        let far_end_is_up = |end: &End| match end {
            End::Nic(_) => true,
            End::Port { device, .. } => devices.is_powered(*device),
        };
        cable.intact && cable.ends.iter().all(far_end_is_up)
    }

    /// DL status of a device, but for its two lowest bits.
    pub(crate) fn dl_status(&self, device: usize) -> u16 {
        let mut status = 0;
        for (number, port) in self.ports[device].iter().enumerate() {
            status |= u16::from(port.link) << (4 + number);
            status |= u16::from(!port.open) << (8 + 2 * number);
            status |= u16::from(port.link && port.open) << (9 + 2 * number);
        }

        status
    }

    /// Follows a frame from an interface until it comes back or is lost.
    pub(crate) fn walk(&self, nic: usize, route: &mut Route) {
        route.clear();
        let mut at = self.far_end(End::Nic(nic));
        let mut elapsed_ns = 0;
        // No way is longer than once in and out by every port.
        for _ in 0..=8 * self.plugs.len() {
            match at {
                None => return,
                Some((End::Nic(back), delay_ns)) => {
                    route.back = Some((back, elapsed_ns + delay_ns));
                    return;
                }
                Some((End::Port { device, port }, delay_ns)) => {
                    elapsed_ns += delay_ns;
                    at = self.through(device, port, route, &mut elapsed_ns);
                }
            }
        }
    }

    /// Takes a frame that arrives at a port through the device, to the far end of the cable by which it leaves.
    fn through(&self, device: usize, port: usize, route: &mut Route, elapsed_ns: &mut u64) -> Option<(End, u64)> {
        const AFTER: [usize; 4] = [3, 2, 0, 1];
        route.ports_ns[device][port] = *elapsed_ns;
        if !self.ports[device][port].open {
            return None;
        }

        let mut at = port;
        for _ in 0..4 {
            if at == 0 {
                // A second time round, the frame is one that circulates, and is destroyed.
                if route.place[device].is_some() {
                    return None;
                }

                route.place[device] = Some(route.order.len());
                route.order.push(Stop { device, after_ns: *elapsed_ns });
                *elapsed_ns += PROCESSING_NS - FORWARDING_NS;
            }

            at = AFTER[at];
            if self.ports[device][at].open {
                break;
            }
        }

        *elapsed_ns += FORWARDING_NS;
        // An open port without a link swallows what leaves by it.
        self.ports[device][at].link.then(|| self.far_end(End::Port { device, port: at }))?
    }

    fn far_end(&self, end: End) -> Option<(End, u64)> {
        let number = match end {
            End::Nic(_) => self.cables.iter().position(|cable| cable.ends.contains(&end))?,
            End::Port { device, port } => self.plugs[device][port]?,
        };

        let cable = &self.cables[number];
        let far = if cable.ends[0] == end { cable.ends[1] } else { cable.ends[0] };
        cable.intact.then_some((far, cable.delay_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices with power, all ports on automatic.
    struct Automatic;

    impl Ports for Automatic {
        fn loop_control(&self, _: usize, _: usize) -> u8 {
            0
        }

        fn is_powered(&self, _: usize) -> bool {
            true
        }
    }

    fn cable(ends: [End; 2]) -> Cable {
        Cable { ends, delay_ns: 10, intact: true }
    }

    fn port(device: usize, port: usize) -> End {
        End::Port { device, port }
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

    fn line(devices: usize) -> Vec<Cable> {
        let first = cable([End::Nic(0), port(0, 0)]);
        std::iter::once(first).chain((1..devices).map(|d| cable([port(d - 1, 1), port(d, 0)]))).collect()
    }

    #[test]
    fn a_line_is_passed_in_order_and_comes_back() {
        let route = route(&mut Topology::new(3, line(3)), 0);
        assert_eq!(order(&route), [0, 1, 2]);
        // Three cables there and back; all process, all but the last forward what comes back.
        assert_eq!(route.back, Some((0, 6 * 10 + 3 * 320 + 2 * 120)));
        assert_eq!(route.ports_ns[1][0], 10 + 320 + 10);
    }

    #[test]
    fn a_tree_is_passed_by_port_3_then_1_then_2() {
        let cables = vec![
            cable([End::Nic(0), port(0, 0)]),
            cable([port(0, 1), port(1, 0)]),
            cable([port(0, 2), port(2, 0)]),
            cable([port(0, 3), port(3, 0)]),
        ];
        assert_eq!(order(&route(&mut Topology::new(4, cables), 0)), [0, 3, 1, 2]);
    }

    #[test]
    fn what_is_beyond_a_cut_is_not_passed_and_the_frame_comes_back() {
        let mut cables = line(4);
        cables[2].intact = false;
        let mut topology = Topology::new(4, cables);
        let route = route(&mut topology, 0);

        assert_eq!((order(&route), route.back.is_some()), (vec![0, 1], true));
        assert_eq!(topology.dl_status(1) >> 4 & 0x0f, 0b0001);
        assert_eq!(topology.dl_status(1) >> 8 & 0x0f, 0b0110);
    }

    #[test]
    fn a_ring_comes_out_at_the_other_interface_and_a_cut_one_at_both() {
        let mut cables = line(3);
        cables.push(cable([port(2, 1), End::Nic(1)]));
        let mut topology = Topology::new(3, cables);
        let (there, back) = (route(&mut topology, 0), route(&mut topology, 1));

        assert_eq!((order(&there).as_slice(), there.back.map(|(nic, _)| nic)), ([0, 1, 2].as_slice(), Some(1)));
        assert_eq!((order(&back).as_slice(), back.back.map(|(nic, _)| nic)), ([].as_slice(), Some(0)));
        topology.cables[1].intact = false;
        let (there, back) = (route(&mut topology, 0), route(&mut topology, 1));
        assert_eq!((order(&there).as_slice(), there.back.map(|(nic, _)| nic)), ([0].as_slice(), Some(0)));
        assert_eq!((order(&back).as_slice(), back.back.map(|(nic, _)| nic)), ([1, 2].as_slice(), Some(1)));
    }
}
