//! A segment: devices connected by cables, and the frames that pass them.

use onbeat_ethercat::link_errors::ErrorCounter;
use onbeat_ethercat::ring::Nic;
use onbeat_rt::time::Instant;

use super::cable_positions::{CableEnd, SimulatedCable};
use super::coe::ObjectEntry;
use super::datagram_exchange::{
    DatagramExchange, FmmuMapping, MOST_DATA, StationTable, rebuild_mappings,
};
use super::esc::change;
use super::frame::{DatagramMut, Datagrams, mark_returned};
use super::subdevice::SubDevice;
use super::topology::{DevicePorts, Route, Topology};

/// Longest simulated pause; of a longer pause, only the end is simulated.
const LONGEST_PAUSE_NS: u64 = 10_000_000_000;

/// Outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The frame returns.
    Back {
        /// Interface to which it returns.
        nic: Nic,
        /// Round trip on cables and in devices, in ns.
        after_ns: u64,
        /// Whether devices latched receive times: the frame must not arrive before `after_ns`.
        is_timed: bool,
    },
    /// The frame does not return.
    Lost,
    /// Not an EtherCAT frame; devices ignore it.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceStatus<'s> {
    /// Name in the file.
    pub name: &'s str,
    /// AL state: 1 INIT, 2 PREOP, 4 SAFEOP, 8 OP.
    pub al_state: u8,
    /// AL status code, 0 without an error.
    pub al_status_code: u16,
    /// Configured station address.
    pub station: u16,
    /// Length of its outputs, in bytes.
    pub output_bytes: usize,
    /// Length of its inputs, in bytes.
    pub input_bytes: usize,
    /// Whether it has power.
    pub powered: bool,
}

/// A simulated segment.
///
/// Frames have instants, which must not go backwards; everything else follows from the file.
///
/// ```
/// use onbeat_segment::Segment;
///
/// let segment = Segment::from_toml(Segment::HUMANOID)?;
/// let knee = segment.find("left knee").unwrap();
/// let status = segment.status(knee).unwrap();
/// assert_eq!((segment.len(), status.al_state, status.output_bytes), (59, 1, 8));
/// # Ok::<(), onbeat_segment::DescriptionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Segment {
    name: String,
    seed: u64,
    pub(crate) devices: Vec<SubDevice>,
    pub(crate) topology: Topology,
    /// Optional groups: name, and file positions of their devices, the first one first.
    pub(crate) groups: Vec<(String, Vec<usize>)>,
    routes: [Route; 2],
    mappings: [Vec<FmmuMapping>; 2],
    stations: StationTable,
    due_ns: Vec<u64>,
    /// No device runs before this.
    next_due_ns: u64,
    scratch: Vec<u8>,
    pub(crate) now_ns: u64,
    /// Fault: added to the working counter of every datagram that at least one device processed.
    pub(crate) counter_offset: i16,
    /// `false` only in tests, which compare both paths.
    pub(crate) fast_path: bool,
}

struct PortsOf<'s>(&'s [SubDevice]);

impl DevicePorts for PortsOf<'_> {
    fn loop_control(&self, device: usize, port: usize) -> u8 {
        self.0[device].esc.loop_control(port)
    }

    fn is_powered(&self, device: usize) -> bool {
        self.0[device].powered
    }
}

impl Segment {
    /// Connects devices by cables. `seed` is that of the file.
    pub(crate) fn new(
        name: String,
        seed: u64,
        devices: Vec<SubDevice>,
        cables: Vec<SimulatedCable>,
    ) -> Self {
        let count = devices.len();
        let topology = Topology::new(count, cables);
        let mapping = || Vec::with_capacity(count * 16);
        let mut segment = Self {
            name,
            seed,
            devices,
            routes: [topology.new_route(), topology.new_route()],
            topology,
            groups: Vec::new(),
            mappings: [mapping(), mapping()],
            stations: StationTable::new(),
            due_ns: vec![0; count],
            next_due_ns: 0,
            scratch: vec![0; MOST_DATA],
            now_ns: 0,
            counter_offset: 0,
            fast_path: true,
        };

        segment.rebuild(change::ADDRESS | change::MAPPING | change::PORTS);
        segment
    }

    /// Returns the name in the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the seed in the file.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Passes a frame through the devices, in place, as sent at `now` on the first interface.
    ///
    /// ```
    /// use onbeat_rt::frame::{Command, LONGEST, Writer, register, working_counter};
    /// use onbeat_segment::{Instant, Passage, Segment};
    ///
    /// let mut segment = Segment::from_toml(Segment::HUMANOID)?;
    /// let mut buffer = [0; LONGEST];
    /// let mut writer = Writer::new(&mut buffer, 1);
    /// let at = writer.push(Command::Brd, register(0, 0x0130), 2).expect("it has room");
    /// let length = writer.finish();
    ///
    /// let passage = segment.frame(&mut buffer[..length], Instant::from_ns(0));
    /// assert!(matches!(passage, Passage::Back { .. }));
    /// assert_eq!(working_counter(&buffer[..length], at, 2), 59, "one for each device");
    /// # Ok::<(), onbeat_segment::DescriptionError>(())
    /// ```
    pub fn frame(&mut self, frame: &mut [u8], now: Instant) -> Passage {
        self.frame_from(Nic::First, frame, now)
    }

    /// Passes a frame through the devices, in place, as sent at `now` on this interface.
    ///
    /// `frame` is an Ethernet frame without its checksum, of up to 1514 bytes, or 1518 with a VLAN
    /// tag. The devices are advanced to `now` first.
    pub fn frame_from(&mut self, nic: Nic, frame: &mut [u8], now: Instant) -> Passage {
        self.advance(now);
        let direction = nic as usize;
        let Some(datagrams) = Datagrams::new(frame) else { return Passage::Foreign };
        let mut port_changes = 0;
        let mut is_timed = false;
        for mut datagram in datagrams {
            is_timed |= datagram.latches_receive_times();
            let before = datagram.working_counter();
            let bits = self.pass(&mut datagram, direction);
            if self.counter_offset != 0 && datagram.working_counter() != before {
                let off = datagram.working_counter().saturating_add_signed(self.counter_offset);
                datagram.set_working_counter(off);
            }

            // The route of a frame does not change while the frame is on it.
            port_changes |= bits & change::PORTS;
            if bits & !change::PORTS != 0 {
                self.rebuild(bits & !change::PORTS);
            }
        }

        if port_changes != 0 {
            self.rebuild(port_changes);
        }

        match self.routes[direction].back {
            Some((back, after_ns)) => {
                mark_returned(frame);
                Passage::Back {
                    nic: if back == 0 { Nic::First } else { Nic::Second },
                    after_ns,
                    is_timed,
                }
            }
            None => Passage::Lost,
        }
    }

    /// Counts a frame that is damaged on the cable to port 0 of a device: an invalid frame and an RX
    /// error there, and a forwarded error at each port that it passes afterwards. Returns whether a
    /// frame from this interface passes that cable.
    pub(crate) fn count_damaged_frame(&mut self, nic: Nic, device: usize) -> bool {
        let route = &self.routes[nic as usize];
        let at_ns = route.ports_ns[device][0];
        // The first cable may take no time.
        if route.position[device] != Some(0) && at_ns == 0 {
            return false;
        }

        self.devices[device].esc.count_error(ErrorCounter::InvalidFrames(0));
        self.devices[device].esc.count_error(ErrorCounter::RxErrors(0));
        for (behind, ports_ns) in self.devices.iter_mut().zip(&route.ports_ns) {
            for (port, _) in (0..).zip(ports_ns).filter(|(_, passed_ns)| **passed_ns > at_ns) {
                behind.esc.count_error(ErrorCounter::ForwardedErrors(port));
            }
        }

        true
    }

    /// Passes one datagram through the devices. Returns the bits of [`change`].
    fn pass(&mut self, datagram: &mut DatagramMut<'_>, direction: usize) -> u8 {
        let mut exchange = DatagramExchange {
            devices: &mut self.devices,
            route: &self.routes[direction],
            mappings: &self.mappings[direction],
            stations: &self.stations,
            scratch: &mut self.scratch,
            sent_ns: self.now_ns,
            changes: 0,
            due_ns: &mut self.due_ns,
            is_firmware_due: false,
            fast_path: self.fast_path,
        };

        exchange.pass(datagram);
        let changes = exchange.changes;
        if exchange.is_firmware_due {
            self.next_due_ns = self.next_due_ns.min(self.now_ns);
        }

        changes
    }

    /// Advances the devices to `now`.
    ///
    /// [`Segment::frame`] does the same; a carrier calls this after sending a reply, so that the
    /// next frame does not have to wait.
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
                bits |= std::mem::take(&mut device.esc.changes);
            }
            self.next_due_ns = self.next_due_ns.min(*due_ns);
        }

        if bits != 0 {
            self.rebuild(bits);
        }
    }

    /// Returns the instant at which a device runs next.
    #[must_use]
    pub fn next_due(&self) -> Instant {
        Instant::from_ns(self.next_due_ns)
    }

    /// Rebuilds routes, stations and mappings after changes of registers and cables.
    pub(crate) fn rebuild(&mut self, bits: u8) {
        if bits & change::PORTS != 0 {
            let mut lost = Vec::new();
            self.topology.update(&PortsOf(&self.devices), |device, port| {
                lost.push((device, port as u8));
            });
            for (device, port) in lost {
                self.devices[device].esc.count_error(ErrorCounter::LostLinks(port));
            }

            for (number, device) in self.devices.iter_mut().enumerate() {
                device.esc.set_dl_status(self.topology.dl_status(number) | 0x03);
            }

            for (nic, route) in self.routes.iter_mut().enumerate() {
                self.topology.walk(nic, route);
            }
        }

        if bits & change::ADDRESS != 0 {
            self.stations.rebuild(&self.devices);
        }

        if bits & (change::MAPPING | change::PORTS) != 0 {
            for (mapping, route) in self.mappings.iter_mut().zip(&self.routes) {
                rebuild_mappings(mapping, &self.devices, route);
            }
        }
    }

    /// Makes a device run at the current instant, after a change from outside.
    pub(crate) fn wake(&mut self, device: usize) {
        self.due_ns[device] = self.due_ns[device].min(self.now_ns);
        self.next_due_ns = self.next_due_ns.min(self.now_ns);
        let bits = change::PORTS | std::mem::take(&mut self.devices[device].esc.changes);
        self.rebuild(bits);
    }

    /// Returns the file positions of the devices in the order in which a frame from the first
    /// interface passes them.
    #[must_use]
    pub fn order_on_cable(&self) -> Vec<usize> {
        self.routes[0].order.iter().map(|stop| stop.device).collect()
    }

    /// Returns whether the last device is connected to the second interface.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        self.topology.cables.iter().any(|cable| cable.ends.contains(&CableEnd::Nic(1)))
    }

    /// Connects or disconnects the cable at a network interface.
    pub fn set_link(&mut self, nic: Nic, is_connected: bool) {
        let end = CableEnd::Nic(nic as usize);
        if self.topology.set_intact(end, is_connected) {
            self.rebuild(change::PORTS);
        }
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns `false`: every segment has a device.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Returns the file position of the named device.
    ///
    /// ```
    /// use onbeat_segment::Segment;
    ///
    /// let segment = Segment::from_toml(Segment::HUMANOID)?;
    /// assert!(segment.find("left knee").is_some());
    /// assert_eq!(segment.find("third knee"), None);
    /// # Ok::<(), onbeat_segment::DescriptionError>(())
    /// ```
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| &*device.name == name)
    }

    /// Returns the file position of the device with this name, or of the first device of the
    /// optional group with this name.
    #[must_use]
    pub fn find_device_or_group(&self, name: &str) -> Option<usize> {
        let group = || self.groups.iter().find(|(group, _)| group == name);
        self.find(name).or_else(|| group()?.1.first().copied())
    }

    /// Returns the status of the device at this file position.
    #[must_use]
    pub fn status(&self, device: usize) -> Option<DeviceStatus<'_>> {
        let device = self.devices.get(device)?;
        Some(DeviceStatus {
            name: &device.name,
            al_state: device.firmware.state(),
            al_status_code: device.esc.state_code(),
            station: device.esc.station(),
            output_bytes: device.firmware.outputs.bytes(),
            input_bytes: device.firmware.inputs.bytes(),
            powered: device.powered,
        })
    }

    /// Returns the current value of an object, little endian.
    #[must_use]
    pub fn value(&self, device: usize, index: u16, entry: u8) -> Option<&[u8]> {
        let objects = &self.devices.get(device)?.firmware.objects;
        objects.lookup(index, entry).ok().map(|entry| objects.bytes(entry))
    }

    /// Sets the value of an object from within the device, as a sensor does; a shorter value is
    /// zero-filled.
    ///
    /// Returns `false` when the device or object does not exist.
    ///
    /// ```
    /// use onbeat_segment::Segment;
    ///
    /// let mut segment = Segment::from_toml(Segment::HUMANOID)?;
    /// let knee = segment.find("left knee").expect("a device of the humanoid");
    /// // 6064h: the actual position of a drive.
    /// assert!(segment.value(knee, 0x6064, 0).is_some());
    /// assert!(!segment.set_value(knee, 0x9999, 0, &[0; 4]), "a drive has no such object");
    /// # Ok::<(), onbeat_segment::DescriptionError>(())
    /// ```
    pub fn set_value(&mut self, device: usize, index: u16, entry: u8, value: &[u8]) -> bool {
        let Some(device) = self.devices.get_mut(device) else { return false };
        let objects = &mut device.firmware.objects;
        let Ok(&ObjectEntry { slot, kind, .. }) = objects.lookup(index, entry) else {
            return false;
        };
        let target = objects.raw_mut(slot, kind.bytes());
        target.fill(0);
        let given = value.len().min(target.len());
        target[..given].copy_from_slice(&value[..given]);
        device.firmware.pins_changed(&mut device.esc);
        true
    }
}
