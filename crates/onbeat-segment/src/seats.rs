//! Where on the cables each device is: devices are exchanged with each other, taken off the cable, and put back.
//!
//! The file says how cables run from seat to seat. A device that is taken off leaves its seat, and the cable goes past it; whoever has
//! changed places with another sits in the other's seat, on or off the cable. Power is another matter.

use super::topology::{Cable, End, Topology};

/// Who sits where.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    /// Cables as the file lays them, from seat to seat.
    laid: Vec<Cable>,
    /// By device.
    seat: Vec<usize>,
    unplugged: Vec<bool>,
}

impl Seats {
    pub(crate) fn new(devices: usize, laid: &[Cable]) -> Self {
        Self { laid: laid.to_vec(), seat: (0..devices).collect(), unplugged: vec![false; devices] }
    }

    /// Ports of a seat that have cables.
    fn ports(&self, seat: usize) -> impl Iterator<Item = usize> {
        let ends = self.laid.iter().flat_map(|cable| cable.ends);
        ends.filter_map(move |end| match end {
            End::Port { device, port } if device == seat => Some(port),
            _ => None,
        })
    }

    /// The cables as they run from device to device now.
    fn cables(&self) -> Vec<Cable> {
        let mut cables = self.laid.clone();
        for (device, _) in self.unplugged.iter().enumerate().filter(|(_, unplugged)| **unplugged) {
            go_past(&mut cables, self.seat[device]);
        }

        let mut device_in = vec![0; self.seat.len()];
        for (device, &seat) in self.seat.iter().enumerate() {
            device_in[seat] = device;
        }

        for end in cables.iter_mut().flat_map(|cable| &mut cable.ends) {
            if let End::Port { device, .. } = end {
                *device = device_in[*device];
            }
        }

        cables
    }
}

/// Joins the two cables of a seat; the last seat of a line just loses its cable.
fn go_past(cables: &mut Vec<Cable>, seat: usize) {
    let is_of = |end: &End| matches!(end, End::Port { device, .. } if *device == seat);
    let far = |cable: &Cable| if is_of(&cable.ends[0]) { cable.ends[1] } else { cable.ends[0] };
    let mut own: Vec<Cable> = Vec::new();
    cables.retain(|cable| {
        let is_own = cable.ends.iter().any(is_of);
        if is_own {
            own.push(cable.clone());
        }
        !is_own
    });

    if let [first, second] = &own[..] {
        cables.push(Cable {
            ends: [far(first), far(second)],
            delay_ns: first.delay_ns + second.delay_ns,
            intact: first.intact && second.intact,
        });
    }
}

impl Topology {
    /// Cuts or heals the cable to a device's port 0; `false` when it has none.
    pub(crate) fn cut(&mut self, device: usize, intact: bool) -> bool {
        let Some(&seat) = self.seats.seat.get(device) else { return false };
        let end = End::Port { device: seat, port: 0 };
        let Some(cable) = self.seats.laid.iter_mut().find(|cable| cable.ends.contains(&end)) else { return false };
        cable.intact = intact;
        self.lay();
        true
    }

    /// Has two devices change places; `has_port` says which ports they have. `false` when one lacks a port that the other's cables need.
    pub(crate) fn swap(&mut self, [one, other]: [usize; 2], has_port: impl Fn(usize, usize) -> bool) -> bool {
        let seats = &mut self.seats;
        if one.max(other) >= seats.seat.len() || one == other {
            return false;
        }

        let fits = |device: usize, seat: usize| seats.ports(seat).all(|port| has_port(device, port));
        if !fits(one, seats.seat[other]) || !fits(other, seats.seat[one]) {
            return false;
        }

        seats.seat.swap(one, other);
        self.lay();
        true
    }

    /// Takes a device off the cable, which goes past it, or puts it back. `false` for one with branches.
    pub(crate) fn unplug(&mut self, device: usize, unplugged: bool) -> bool {
        let seats = &mut self.seats;
        if seats.seat.get(device).is_none_or(|&seat| seats.ports(seat).count() > 2) {
            return false;
        }

        seats.unplugged[device] = unplugged;
        self.lay();
        true
    }

    fn lay(&mut self) {
        let cables = self.seats.cables();
        self.set_cables(cables);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(devices: usize) -> Topology {
        let end = |device, port| End::Port { device, port };
        let cable = |ends| Cable { ends, delay_ns: 10, intact: true };
        let first = cable([End::Nic(0), end(0, 0)]);
        let rest = (1..devices).map(|device| cable([end(device - 1, 1), end(device, 0)]));
        Topology::new(devices, std::iter::once(first).chain(rest).collect())
    }

    /// Devices on the cable, in its order.
    fn order(topology: &Topology) -> Vec<usize> {
        let (mut at, mut order) = (End::Nic(0), Vec::new());
        while let Some(cable) = topology.cables.iter().find(|cable| cable.ends.contains(&at)) {
            let far = if cable.ends[0] == at { cable.ends[1] } else { cable.ends[0] };
            let End::Port { device, .. } = far else { break };
            order.push(device);
            at = End::Port { device, port: 1 };
        }

        order
    }

    #[test]
    fn devices_change_places_and_leave_the_cable_in_any_order_and_come_back() {
        let mut topology = line(5);
        let all = |_, port| port < 2;
        assert!(topology.swap([1, 2], all));
        assert_eq!(order(&topology), [0, 2, 1, 3, 4]);
        assert!(topology.unplug(1, true) && topology.unplug(3, true));
        assert_eq!(order(&topology), [0, 2, 4]);
        assert!(topology.swap([1, 4], all));
        assert_eq!(order(&topology), [0, 2, 4], "4 sits where 1 was, and 1, unplugged, at the end");
        assert!(topology.unplug(1, false) && topology.unplug(3, false));
        assert_eq!(order(&topology), [0, 2, 4, 3, 1]);
        assert!(topology.unplug(0, true));
        assert_eq!(order(&topology), [2, 4, 3, 1]);
        assert!(topology.unplug(0, false) && topology.swap([1, 4], all) && topology.swap([2, 1], all));
        assert_eq!(order(&topology), [0, 1, 2, 3, 4]);
        assert_eq!(topology.cables.len(), 5);
    }

    #[test]
    fn a_cut_stays_with_its_cable() {
        let mut topology = line(3);
        assert!(topology.cut(1, false) && topology.swap([1, 2], |_, _| true));
        assert!(topology.cut(2, true));
        assert!(topology.cables.iter().all(|cable| cable.intact), "2 sits where 1 was");
    }

    #[test]
    fn a_fork_cannot_be_taken_off_nor_a_device_without_its_ports_take_its_place() {
        let end = |device, port| End::Port { device, port };
        let cables = vec![
            Cable { ends: [End::Nic(0), end(0, 0)], delay_ns: 1, intact: true },
            Cable { ends: [end(0, 1), end(1, 0)], delay_ns: 1, intact: true },
            Cable { ends: [end(0, 3), end(2, 0)], delay_ns: 1, intact: true },
            Cable { ends: [end(2, 1), end(3, 0)], delay_ns: 1, intact: true },
        ];
        let mut topology = Topology::new(4, cables);

        assert!(!topology.unplug(0, true));
        assert!(!topology.swap([0, 1], |device, port| device == 0 || port < 2));
        assert!(topology.swap([1, 2], |_, port| port < 2));
        assert!(!topology.swap([1, 1], |_, _| true) && !topology.swap([1, 9], |_, _| true));
    }
}
