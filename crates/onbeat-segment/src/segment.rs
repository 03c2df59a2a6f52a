//! The segment: devices on cables, and frames that pass them.

use onbeat_rt::time::Instant;

use super::build::build;
use super::controller::touched;
use super::exchange::{Exchange, MOST_DATA, Mapping, Stations, rebuild_mappings};
use super::frame::{Datagram, Datagrams, mark_returned};
use super::subdevice::SubDevice;
use super::topology::{End, Ports, Route, Topology};
use onbeat_ethercat::description::{Description, DescriptionError};

/// Of a pause longer than this, devices live through its end only.
const LONGEST_PAUSE_NS: u64 = 10_000_000_000;

/// Network interface of the MainDevice that a frame is sent by or comes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    /// The one that every segment hangs on.
    First,
    /// The far end of a ring.
    Second,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It comes back to this interface, so many ns after it was sent.
    Back {
        /// Where to.
        nic: Nic,
        /// Time on cables and in devices.
        after_ns: u64,
        /// Devices took down when it passed them: it may not be back sooner than that.
        is_timed: bool,
    },
    /// It does not come back.
    Lost,
    /// It is no EtherCAT frame; devices leave it alone.
    Foreign,
}

/// What can be seen of a device from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStatus<'s> {
    /// From the segment's file.
    pub name: &'s str,
    /// 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP.
    pub al_state: u8,
    /// 0 without an error.
    pub al_status_code: u16,
    /// Configured station address.
    pub station: u16,
    /// Bytes of process data that it takes.
    pub output_bytes: usize,
    /// Bytes of process data that it gives.
    pub input_bytes: usize,
    /// Whether it has power.
    pub powered: bool,
}

/// A simulated segment.
///
/// Frames come with instants, which must not go backwards; everything else follows from the file.
#[derive(Clone, Debug)]
pub struct Segment {
    name: String,
    seed: u64,
    pub(crate) devices: Vec<SubDevice>,
    pub(crate) topology: Topology,
    routes: [Route; 2],
    mappings: [Vec<Mapping>; 2],
    stations: Stations,
    due_ns: Vec<u64>,
    /// No device has anything to do before this.
    next_due_ns: u64,
    scratch: Vec<u8>,
    pub(crate) now_ns: u64,
    /// Added to the working counter of every datagram that some device answered: a fault.
    pub(crate) counter_offset: i16,
    /// `false` in tests only: nothing may depend on it.
    pub(crate) short_ways: bool,
}

struct PortsOf<'s>(&'s [SubDevice]);

impl Ports for PortsOf<'_> {
    fn loop_control(&self, device: usize, port: usize) -> u8 {
        self.0[device].controller.loop_control(port)
    }

    fn is_powered(&self, device: usize) -> bool {
        self.0[device].powered
    }
}

impl Segment {
    /// The robot that ships with onbeat: 48 drives, 8 digital I/O devices and 3 inertial measurement units.
    pub const HUMANOID: &'static str = Description::HUMANOID;

    /// Makes the segment that a file describes; `docs/segment.md` lists its keys.
    ///
    /// # Errors
    /// [`DescriptionError`] says what in the file makes no segment.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        Self::of(&Description::from_toml(text)?)
    }

    /// Makes the segment that was told.
    ///
    /// # Errors
    /// [`DescriptionError`] says what makes no segment.
    pub fn of(description: &Description) -> Result<Self, DescriptionError> {
        let built = build(description)?;
        let devices = built.devices.len();
        let topology = Topology::new(devices, built.cables);
        let mapping = || Vec::with_capacity(devices * 16);
        let mut segment = Self {
            name: description.segment.name.clone(),
            seed: description.segment.seed,
            devices: built.devices,
            routes: [topology.new_route(), topology.new_route()],
            topology,
            mappings: [mapping(), mapping()],
            stations: Stations::new(),
            due_ns: vec![0; devices],
            next_due_ns: 0,
            scratch: vec![0; MOST_DATA],
            now_ns: 0,
            counter_offset: 0,
            short_ways: true,
        };

        segment.settle(touched::ADDRESS | touched::MAPPING | touched::PORTS);
        Ok(segment)
    }

    /// Name from the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seed from the file.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Takes a frame past the devices, in place, as sent at `now` by the first interface.
    pub fn frame(&mut self, frame: &mut [u8], now: Instant) -> Passage {
        self.frame_from(Nic::First, frame, now)
    }

    /// Takes a frame past the devices, in place, as sent at `now` by this interface.
    ///
    /// `frame` is an Ethernet frame without its checksum, of up to 1514 bytes, and four more with a VLAN tag. What devices had to do since the last frame is
    /// done first.
    pub fn frame_from(&mut self, nic: Nic, frame: &mut [u8], now: Instant) -> Passage {
        self.advance(now);
        let way = usize::from(nic == Nic::Second);
        let Some(datagrams) = Datagrams::of(frame) else { return Passage::Foreign };
        let (mut ports_touched, mut is_timed) = (0, false);
        for mut datagram in datagrams {
            is_timed |= datagram.takes_times();
            let before = datagram.working_counter();
            let bits = self.pass(&mut datagram, way);
            if self.counter_offset != 0 && datagram.working_counter() != before {
                let off = datagram.working_counter().saturating_add_signed(self.counter_offset);
                datagram.set_working_counter(off);
            }

            // The way of a frame does not change while it is on it.
            ports_touched |= bits & touched::PORTS;
            if bits & !touched::PORTS != 0 {
                self.settle(bits & !touched::PORTS);
            }
        }

        if ports_touched != 0 {
            self.settle(ports_touched);
        }

        match self.routes[way].back {
            Some((back, after_ns)) => {
                mark_returned(frame);
                Passage::Back { nic: if back == 0 { Nic::First } else { Nic::Second }, after_ns, is_timed }
            }
            None => Passage::Lost,
        }
    }

    /// Takes one datagram past the devices. What they touched.
    fn pass(&mut self, datagram: &mut Datagram<'_>, way: usize) -> u8 {
        let mut exchange = Exchange {
            devices: &mut self.devices,
            route: &self.routes[way],
            mappings: &self.mappings[way],
            stations: &self.stations,
            scratch: &mut self.scratch,
            sent_ns: self.now_ns,
            touched: 0,
            due_ns: &mut self.due_ns,
            woke: false,
            short_ways: self.short_ways,
        };

        exchange.pass(datagram);
        let touched = exchange.touched;
        if exchange.woke {
            self.next_due_ns = self.next_due_ns.min(self.now_ns);
        }

        touched
    }

    /// Lets the devices do what they have to until `now`.
    ///
    /// [`Segment::frame`] does the same; a carrier calls it after a reply was sent, so that the next frame need not wait.
    pub fn advance(&mut self, now: Instant) {
        self.now_ns = self.now_ns.max(now.as_ns());
        if self.next_due_ns > self.now_ns {
            return;
        }

        let mut bits = 0;
        self.next_due_ns = u64::MAX;
        for (device, due_ns) in self.devices.iter_mut().zip(&mut self.due_ns) {
            *due_ns = (*due_ns).max(self.now_ns.saturating_sub(LONGEST_PAUSE_NS));
            while *due_ns <= self.now_ns {
                *due_ns = device.run(*due_ns).max(*due_ns + 1);
                bits |= std::mem::take(&mut device.controller.touched);
            }
            self.next_due_ns = self.next_due_ns.min(*due_ns);
        }

        if bits != 0 {
            self.settle(bits);
        }
    }

    /// When some device has something to do next.
    #[must_use]
    pub fn next_due(&self) -> Instant {
        Instant::from_ns(self.next_due_ns)
    }

    /// Puts together again what depends on registers and cables that changed.
    pub(crate) fn settle(&mut self, bits: u8) {
        if bits & touched::PORTS != 0 {
            let mut lost = Vec::new();
            self.topology.update(&PortsOf(&self.devices), |device, port| lost.push((device, port)));
            for (device, port) in lost {
                self.devices[device].controller.count_lost_link(port);
            }

            for (number, device) in self.devices.iter_mut().enumerate() {
                device.controller.set_dl_status(self.topology.dl_status(number) | 0x03);
            }

            for (nic, route) in self.routes.iter_mut().enumerate() {
                self.topology.walk(nic, route);
            }
        }

        if bits & touched::ADDRESS != 0 {
            self.stations.rebuild(&self.devices);
        }

        if bits & (touched::MAPPING | touched::PORTS) != 0 {
            for (mapping, route) in self.mappings.iter_mut().zip(&self.routes) {
                rebuild_mappings(mapping, &self.devices, route);
            }
        }
    }

    /// Has a device look at itself: something changed from outside.
    pub(crate) fn wake(&mut self, device: usize) {
        self.due_ns[device] = self.due_ns[device].min(self.now_ns);
        self.next_due_ns = self.next_due_ns.min(self.now_ns);
        let bits = touched::PORTS | std::mem::take(&mut self.devices[device].controller.touched);
        self.settle(bits);
    }

    /// Places in the file of the devices that a frame from the first interface passes, in this order.
    #[must_use]
    pub fn order_on_cable(&self) -> Vec<usize> {
        self.routes[0].order.iter().map(|stop| stop.device).collect()
    }

    /// Whether the last device leads on to the second interface.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        self.topology.cables.iter().any(|cable| cable.ends.contains(&End::Nic(1)))
    }

    /// How many devices there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Never: a file without devices makes no segment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Place of the device of this name in the file.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| &*device.name == name)
    }

    /// What can be seen of the device at this place in the file.
    #[must_use]
    pub fn status(&self, device: usize) -> Option<DeviceStatus<'_>> {
        let device = self.devices.get(device)?;
        Some(DeviceStatus {
            name: &device.name,
            al_state: device.firmware.state(),
            al_status_code: device.controller.state_code(),
            station: device.controller.station(),
            output_bytes: device.firmware.outputs.bytes(),
            input_bytes: device.firmware.inputs.bytes(),
            powered: device.powered,
        })
    }

    /// Bytes of an object's value, little endian, as the device has it now.
    #[must_use]
    pub fn value(&self, device: usize, index: u16, entry: u8) -> Option<&[u8]> {
        let objects = &self.devices.get(device)?.firmware.objects;
        objects.lookup(index, entry).ok().map(|entry| objects.bytes(entry))
    }

    /// Sets an object's value from within the device, as its sensors would; a shorter value is filled with zeros.
    ///
    /// `false` when there is no such device or object.
    pub fn set_value(&mut self, device: usize, index: u16, entry: u8, value: &[u8]) -> bool {
        let Some(device) = self.devices.get_mut(device) else { return false };
        let objects = &mut device.firmware.objects;
        let Some((slot, bytes)) = objects.lookup(index, entry).ok().map(|entry| (entry.slot, entry.kind.bytes()))
        else {
            return false;
        };

        let place = objects.raw_mut(slot, bytes);
        place.fill(0);
        let given = value.len().min(bytes);
        place[..given].copy_from_slice(&value[..given]);
        device.firmware.pins_changed(&mut device.controller);
        true
    }
}
