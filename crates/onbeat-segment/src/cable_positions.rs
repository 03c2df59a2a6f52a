//! Positions of devices on the cables: devices are swapped, unplugged, and plugged in again.
//!
//! The file defines the cables between positions. An unplugged device keeps its position, and its
//! cables are joined; a swapped device has the position of the other one, on or off the cable.
//! Power is independent of this.

pub(crate) use onbeat_ethercat::description::CableEnd;

/// A cable and whether it is intact.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedCable {
    pub(crate) ends: [CableEnd; 2],
    pub(crate) delay_ns: u64,
    pub(crate) intact: bool,
}

/// Position of each device.
#[derive(Clone, Debug)]
pub(crate) struct CablePositions {
    /// Cables between positions, as in the file.
    file_cables: Vec<SimulatedCable>,
    /// Position of each device.
    position: Vec<usize>,
    unplugged: Vec<bool>,
}

impl CablePositions {
    pub(crate) fn new(devices: usize, file_cables: &[SimulatedCable]) -> Self {
        Self {
            file_cables: file_cables.to_vec(),
            position: (0..devices).collect(),
            unplugged: vec![false; devices],
        }
    }

    /// Returns the ports of a position that have cables.
    fn ports(&self, position: usize) -> impl Iterator<Item = usize> {
        let ends = self.file_cables.iter().flat_map(|cable| cable.ends);
        ends.filter_map(move |end| match end {
            CableEnd::Port { device, port } if device == position => Some(port),
            _ => None,
        })
    }

    /// Returns the current cables between devices.
    pub(crate) fn cables(&self) -> Vec<SimulatedCable> {
        let mut cables = self.file_cables.clone();
        for (device, _) in self.unplugged.iter().enumerate().filter(|(_, unplugged)| **unplugged) {
            bypass(&mut cables, self.position[device]);
        }

        let mut device_at = vec![0; self.position.len()];
        for (device, &position) in self.position.iter().enumerate() {
            device_at[position] = device;
        }

        for end in cables.iter_mut().flat_map(|cable| &mut cable.ends) {
            if let CableEnd::Port { device, .. } = end {
                *device = device_at[*device];
            }
        }

        cables
    }

    /// Cuts or repairs the cable at port 0 of a device. Returns `false` when it has none.
    pub(crate) fn cut(&mut self, device: usize, intact: bool) -> bool {
        let Some(&position) = self.position.get(device) else { return false };
        let end = CableEnd::Port { device: position, port: 0 };
        let Some(cable) = self.file_cables.iter_mut().find(|cable| cable.ends.contains(&end))
        else {
            return false;
        };

        cable.intact = intact;
        true
    }

    /// Cuts or repairs the cable at an end, which is not a port. Returns `false` when it has none.
    pub(crate) fn set_intact(&mut self, end: CableEnd, intact: bool) -> bool {
        let cable = self.file_cables.iter_mut().find(|cable| cable.ends.contains(&end));
        cable.map(|cable| cable.intact = intact).is_some()
    }

    /// Swaps two devices; `has_port` returns which ports they have. Returns `false` when one lacks
    /// a port that the other's cables need.
    pub(crate) fn swap(
        &mut self,
        [one, other]: [usize; 2],
        has_port: impl Fn(usize, usize) -> bool,
    ) -> bool {
        if one.max(other) >= self.position.len() || one == other {
            return false;
        }

        let fits = |device: usize, position: usize| {
            self.ports(position).all(|port| has_port(device, port))
        };
        if !fits(one, self.position[other]) || !fits(other, self.position[one]) {
            return false;
        }

        self.position.swap(one, other);
        true
    }

    /// Unplugs a device, joining its cables, or plugs it in again. Returns `false` for a device
    /// with branches.
    pub(crate) fn unplug(&mut self, device: usize, unplugged: bool) -> bool {
        if self.position.get(device).is_none_or(|&position| self.ports(position).count() > 2) {
            return false;
        }

        self.unplugged[device] = unplugged;
        true
    }
}

/// Joins the two cables of a position; at the end of a line, the cable is removed.
fn bypass(cables: &mut Vec<SimulatedCable>, position: usize) {
    let is_at_position =
        |end: &CableEnd| matches!(end, CableEnd::Port { device, .. } if *device == position);
    let far = |cable: &SimulatedCable| {
        if is_at_position(&cable.ends[0]) { cable.ends[1] } else { cable.ends[0] }
    };
    let mut own: Vec<SimulatedCable> = Vec::new();
    cables.retain(|cable| {
        let is_own = cable.ends.iter().any(is_at_position);
        if is_own {
            own.push(cable.clone());
        }
        !is_own
    });

    if let [first, second] = &own[..] {
        cables.push(SimulatedCable {
            ends: [far(first), far(second)],
            delay_ns: first.delay_ns + second.delay_ns,
            intact: first.intact && second.intact,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(devices: usize) -> CablePositions {
        let end = |device, port| CableEnd::Port { device, port };
        let cable = |ends| SimulatedCable { ends, delay_ns: 10, intact: true };
        let first = cable([CableEnd::Nic(0), end(0, 0)]);
        let rest = (1..devices).map(|device| cable([end(device - 1, 1), end(device, 0)]));
        CablePositions::new(devices, &std::iter::once(first).chain(rest).collect::<Vec<_>>())
    }

    /// Devices in cable order.
    fn order(positions: &CablePositions) -> Vec<usize> {
        let cables = positions.cables();
        let mut at = CableEnd::Nic(0);
        let mut order = Vec::new();
        while let Some(cable) = cables.iter().find(|cable| cable.ends.contains(&at)) {
            let far = if cable.ends[0] == at { cable.ends[1] } else { cable.ends[0] };
            let CableEnd::Port { device, .. } = far else { break };
            order.push(device);
            at = CableEnd::Port { device, port: 1 };
        }

        order
    }

    #[test]
    fn devices_are_swapped_and_unplugged_in_any_order_and_restored() {
        let mut positions = line(5);
        let all = |_, port| port < 2;
        assert!(positions.swap([1, 2], all));
        assert_eq!(order(&positions), [0, 2, 1, 3, 4]);
        assert!(positions.unplug(1, true) && positions.unplug(3, true));
        assert_eq!(order(&positions), [0, 2, 4]);
        assert!(positions.swap([1, 4], all));
        assert_eq!(
            order(&positions),
            [0, 2, 4],
            "4 has the position of 1, and 1, unplugged, the last one"
        );

        assert!(positions.unplug(1, false) && positions.unplug(3, false));
        assert_eq!(order(&positions), [0, 2, 4, 3, 1]);
        assert!(positions.unplug(0, true));
        assert_eq!(order(&positions), [2, 4, 3, 1]);
        assert!(
            positions.unplug(0, false)
                && positions.swap([1, 4], all)
                && positions.swap([2, 1], all)
        );

        assert_eq!(order(&positions), [0, 1, 2, 3, 4]);
        assert_eq!(positions.cables().len(), 5);
    }

    #[test]
    fn a_cut_stays_with_its_cable() {
        let mut positions = line(3);
        assert!(positions.cut(1, false) && positions.swap([1, 2], |_, _| true));
        assert!(positions.cut(2, true));
        assert!(positions.cables().iter().all(|cable| cable.intact), "2 has the position of 1");
    }

    #[test]
    fn a_device_with_branches_cannot_be_unplugged_nor_swapped_with_one_that_lacks_its_ports() {
        let end = |device, port| CableEnd::Port { device, port };
        let cables = vec![
            SimulatedCable { ends: [CableEnd::Nic(0), end(0, 0)], delay_ns: 1, intact: true },
            SimulatedCable { ends: [end(0, 1), end(1, 0)], delay_ns: 1, intact: true },
            SimulatedCable { ends: [end(0, 3), end(2, 0)], delay_ns: 1, intact: true },
            SimulatedCable { ends: [end(2, 1), end(3, 0)], delay_ns: 1, intact: true },
        ];
        let mut positions = CablePositions::new(4, &cables);

        assert!(!positions.unplug(0, true));
        assert!(!positions.swap([0, 1], |device, port| device == 0 || port < 2));
        assert!(positions.swap([1, 2], |_, port| port < 2));
        assert!(!positions.swap([1, 1], |_, _| true) && !positions.swap([1, 9], |_, _| true));
    }
}
