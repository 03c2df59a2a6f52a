//! Processing of datagrams by the devices of a route.

use std::ops::Range;

use super::esc::{CyclicRegister, Esc, PassTimes, ReadMode};
use super::fmmu::Fmmu;
use super::frame::{Command, DatagramMut};
use super::registers::{SYSTEM_TIME, quad};
use super::subdevice::SubDevice;
use super::sync_manager::AccessDirection;
use super::topology::{Route, RouteStop};

/// Most data of a datagram, in bytes.
pub(crate) const MOST_DATA: usize = 2047;

/// One direction of an FMMU of a device on a route. Small, because every cycle iterates over all of
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FmmuMapping {
    /// Time from sending a frame until it passes the device, in ns.
    after_ns: u64,
    fmmu: Fmmu,
    device: u16,
    /// The SyncManager whose whole area is mapped, or [`FmmuMapping::NO_CHANNEL`].
    channel: u8,
    writes: bool,
    is_last_of_device: bool,
}

impl FmmuMapping {
    const NO_CHANNEL: u8 = u8::MAX;

    fn new(stop: RouteStop, fmmu: Fmmu, channel: Option<usize>, writes: bool) -> Self {
        Self {
            after_ns: stop.after_ns,
            fmmu,
            device: stop.device as u16,
            channel: channel.map_or(Self::NO_CHANNEL, |channel| channel as u8),
            writes,
            is_last_of_device: false,
        }
    }

    /// Returns the range of the mapping in a datagram, if the fast path applies and the datagram
    /// contains the whole mapping.
    #[inline]
    fn fast_range(&self, logical: u32, bytes: usize) -> Option<Range<usize>> {
        let start = self.fmmu.logical.wrapping_sub(logical) as usize;
        let end = start + usize::from(self.fmmu.length);
        (self.channel != Self::NO_CHANNEL && end <= bytes).then_some(start..end)
    }
}

/// Devices by station address.
#[derive(Clone, Debug)]
pub(crate) struct StationTable {
    devices: Vec<u16>,
}

impl StationTable {
    const NONE: u16 = 0xffff;
    const SEVERAL: u16 = 0xfffe;

    pub(crate) fn new() -> Self {
        Self { devices: vec![Self::NONE; 0x1_0000] }
    }

    pub(crate) fn rebuild(&mut self, devices: &[SubDevice]) {
        self.devices.fill(Self::NONE);
        for (number, device) in devices.iter().enumerate() {
            let addresses = [Some(device.esc.station()), device.esc.alias()];
            for address in addresses.into_iter().flatten() {
                let entry = &mut self.devices[usize::from(address)];
                let is_used = *entry != Self::NONE && usize::from(*entry) != number;
                *entry = if is_used { Self::SEVERAL } else { number as u16 };
            }
        }
    }

    /// Returns the devices with a station address.
    fn at(&self, address: u16) -> Recipients {
        match self.devices[usize::from(address)] {
            Self::NONE => Recipients::None,
            Self::SEVERAL => Recipients::Several(address),
            number => Recipients::One(usize::from(number)),
        }
    }
}

/// The devices that a datagram addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recipients {
    None,
    One(usize),
    Several(u16),
}

impl Recipients {
    fn includes(self, number: usize, esc: &Esc) -> bool {
        match self {
            Self::None => false,
            Self::One(one) => one == number,
            Self::Several(address) => esc.station() == address || esc.alias() == Some(address),
        }
    }
}

/// Context of a datagram: the devices, their order and addresses, and the instant of sending.
pub(crate) struct DatagramExchange<'s> {
    pub(crate) devices: &'s mut [SubDevice],
    pub(crate) route: &'s Route,
    pub(crate) mappings: &'s [FmmuMapping],
    pub(crate) stations: &'s StationTable,
    pub(crate) scratch: &'s mut [u8],
    pub(crate) sent_ns: u64,
    /// Bits of [`super::esc::change`], of all devices.
    pub(crate) changes: u8,
    /// For each device, the next time at which its firmware runs.
    pub(crate) due_ns: &'s mut [u64],
    /// Whether the firmware of a device must run now.
    pub(crate) is_firmware_due: bool,
    /// Whether cyclic datagrams may use the fast path, which bypasses the register tables.
    pub(crate) fast_path: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AccessKind {
    Read(ReadMode),
    Write,
    ReadWrite(ReadMode),
}

impl DatagramExchange<'_> {
    /// Passes one datagram along the route.
    pub(crate) fn pass(&mut self, datagram: &mut DatagramMut<'_>) {
        use Command::{
            Aprd, Aprw, Apwr, Armw, Brd, Brw, Bwr, Fprd, Fprw, Fpwr, Frmw, Lrd, Lrw, Lwr, Nop,
        };
        let Some(command) = datagram.command() else { return };
        let before = datagram.working_counter();
        let count = match command {
            Nop => 0,
            Aprd => self.by_position(datagram, AccessKind::Read(ReadMode::Replace)),
            Apwr => self.by_position(datagram, AccessKind::Write),
            Aprw => self.by_position(datagram, AccessKind::ReadWrite(ReadMode::Replace)),
            Fprd => self.by_station(datagram, AccessKind::Read(ReadMode::Replace)),
            Fpwr => self.by_station(datagram, AccessKind::Write),
            Fprw => self.by_station(datagram, AccessKind::ReadWrite(ReadMode::Replace)),
            Brd => self.broadcast(datagram, AccessKind::Read(ReadMode::Or)),
            Bwr => self.broadcast(datagram, AccessKind::Write),
            Brw => self.broadcast(datagram, AccessKind::ReadWrite(ReadMode::Or)),
            Lrd => self.logical(datagram, true, false),
            Lwr => self.logical(datagram, false, true),
            Lrw => self.logical(datagram, true, true),
            Armw => {
                let reader = self.at_position(datagram.address());
                self.one_reads(
                    datagram,
                    reader.map_or(Recipients::None, |stop| Recipients::One(stop.device)),
                )
            }
            Frmw => self.one_reads(datagram, self.stations.at(datagram.address())),
        };

        if matches!(command, Aprd | Apwr | Aprw | Brd | Bwr | Brw | Armw) {
            let passed = self.route.order.len() as u16;
            datagram.set_address(datagram.address().wrapping_add(passed));
        }

        datagram.set_working_counter(before.wrapping_add(count));
    }

    fn at_position(&self, address: u16) -> Option<RouteStop> {
        let position = usize::from(0u16.wrapping_sub(address));
        self.route.order.get(position).copied()
    }

    fn by_position(&mut self, datagram: &mut DatagramMut<'_>, act: AccessKind) -> u16 {
        self.at_position(datagram.address()).map_or(0, |stop| self.act(stop, datagram, act))
    }

    fn by_station(&mut self, datagram: &mut DatagramMut<'_>, act: AccessKind) -> u16 {
        match self.stations.at(datagram.address()) {
            Recipients::None => 0,
            Recipients::One(device) => self.route.position[device]
                .map_or(0, |position| self.act(self.route.order[position], datagram, act)),
            several @ Recipients::Several(_) => self.each(datagram, act, several),
        }
    }

    fn broadcast(&mut self, datagram: &mut DatagramMut<'_>, act: AccessKind) -> u16 {
        let cyclic_register = CyclicRegister::from_datagram(datagram.offset(), datagram.data.len());
        if let Some(cyclic_register) =
            cyclic_register.filter(|_| self.fast_path && act == AccessKind::Read(ReadMode::Or))
        {
            return self.read_cyclic_register(datagram, cyclic_register);
        }
        self.route
            .order
            .iter()
            .fold(0u16, |count, &stop| count.wrapping_add(self.act(stop, datagram, act)))
    }

    /// Fast path of the broadcast reads that a loop makes in each cycle.
    fn read_cyclic_register(
        &self,
        datagram: &mut DatagramMut<'_>,
        cyclic_register: CyclicRegister,
    ) -> u16 {
        let mut all = 0u32;
        let mut count = 0u16;
        for stop in &self.route.order {
            let esc = &self.devices[stop.device].esc;
            if let Some(value) = esc.read_cyclic_register(cyclic_register) {
                all |= value;
                count = count.wrapping_add(esc.counted(1));
            }
        }

        for (byte, own) in datagram.data.iter_mut().zip(all.to_le_bytes()) {
            *byte |= own;
        }

        count
    }

    fn each(
        &mut self,
        datagram: &mut DatagramMut<'_>,
        act: AccessKind,
        answering: Recipients,
    ) -> u16 {
        let mut count = 0;
        for &stop in &self.route.order {
            if answering.includes(stop.device, &self.devices[stop.device].esc) {
                count += self.act(stop, datagram, act);
            }
        }

        count
    }

    fn pass_times(&self, stop: RouteStop) -> PassTimes {
        let at = |after_ns: u64| if after_ns == 0 { 0 } else { self.sent_ns + after_ns };
        PassTimes {
            now_ns: self.sent_ns + stop.after_ns,
            ports_ns: self.route.ports_ns[stop.device].map(at),
        }
    }

    /// Lets one device read, write, or both. Returns its increment of the working counter.
    fn act(&mut self, stop: RouteStop, datagram: &mut DatagramMut<'_>, act: AccessKind) -> u16 {
        let pass_times = self.pass_times(stop);
        let offset = datagram.offset();
        let esc = &mut self.devices[stop.device].esc;
        let count = match act {
            AccessKind::Read(join) => {
                u16::from(esc.read(offset, datagram.data, join, pass_times.now_ns))
            }
            AccessKind::Write => u16::from(esc.write(offset, datagram.data, &pass_times)),
            AccessKind::ReadWrite(join) => {
                let incoming = &mut self.scratch[..datagram.data.len()];
                incoming.copy_from_slice(datagram.data);
                let read = u16::from(esc.read(offset, datagram.data, join, pass_times.now_ns));
                read + 2 * u16::from(esc.write(offset, incoming, &pass_times))
            }
        };

        self.collect_events(stop.device);
        self.devices[stop.device].esc.counted(count)
    }

    /// One device reads, the others write the data that the datagram holds when it passes them.
    fn one_reads(&mut self, datagram: &mut DatagramMut<'_>, reader: Recipients) -> u16 {
        let mut count = 0u16;
        let is_time = usize::from(datagram.offset()) == SYSTEM_TIME && datagram.data.len() == 8;
        let use_fast_path = is_time && self.fast_path;
        let mut reference_ns = if is_time { quad(datagram.data, 0) } else { 0 };
        for &stop in &self.route.order {
            let esc = &mut self.devices[stop.device].esc;
            let part = if reader.includes(stop.device, esc) {
                let part = self.act(stop, datagram, AccessKind::Read(ReadMode::Replace));
                reference_ns = if is_time { quad(datagram.data, 0) } else { 0 };
                part
            } else if use_fast_path {
                let received = esc.receive_system_time(reference_ns, self.sent_ns + stop.after_ns);
                esc.counted(u16::from(received))
            } else {
                self.act(stop, datagram, AccessKind::Write)
            };

            count = count.wrapping_add(part);
        }

        count
    }

    fn logical(&mut self, datagram: &mut DatagramMut<'_>, reads: bool, writes: bool) -> u16 {
        let logical = datagram.logical_address();
        let mut count = 0u16;
        let mut read = false;
        let mut written = false;
        // FMMUs are grouped by device, writing ones first: a device receives its outputs before it
        // provides its inputs.
        for mapping in self.mappings {
            match mapping.writes {
                true if writes => written |= self.write_mapping(mapping, logical, datagram.data),
                false if reads => read |= self.read_mapping(mapping, logical, datagram.data),
                _ => (),
            }
            if mapping.is_last_of_device && (read || written) {
                let device = usize::from(mapping.device);
                let both = reads && writes;
                let part = u16::from(read) + if both { 2 } else { 1 } * u16::from(written);
                self.collect_events(device);
                count = count.wrapping_add(self.devices[device].esc.counted(part));
                (read, written) = (false, false);
            }
        }

        count
    }

    /// Writes the mapped outputs to a device. Returns whether it accepted any.
    #[inline]
    fn write_mapping(&mut self, mapping: &FmmuMapping, logical: u32, data: &[u8]) -> bool {
        let now_ns = self.sent_ns + mapping.after_ns;
        let esc = &mut self.devices[usize::from(mapping.device)].esc;
        if let Some(range) = mapping.fast_range(logical, data.len()).filter(|_| self.fast_path) {
            esc.write_outputs(
                usize::from(mapping.channel),
                mapping.fmmu.physical,
                &data[range],
                now_ns,
            );
            return true;
        }

        esc.write_mapped(&mapping.fmmu, logical, data, &PassTimes { now_ns, ports_ns: [0; 4] })
    }

    /// Reads the mapped inputs of a device. Returns whether it provided any.
    #[inline]
    fn read_mapping(&mut self, mapping: &FmmuMapping, logical: u32, data: &mut [u8]) -> bool {
        let esc = &mut self.devices[usize::from(mapping.device)].esc;
        if let Some(range) = mapping.fast_range(logical, data.len()).filter(|_| self.fast_path) {
            esc.read_inputs(usize::from(mapping.channel), mapping.fmmu.physical, &mut data[range]);
            return true;
        }
        esc.read_mapped(&mapping.fmmu, logical, data, self.sent_ns + mapping.after_ns)
    }

    fn collect_events(&mut self, device: usize) {
        let esc = &mut self.devices[device].esc;
        self.changes |= std::mem::take(&mut esc.changes);
        if esc.events != 0 {
            self.due_ns[device] = self.due_ns[device].min(self.sent_ns);
            self.is_firmware_due = true;
        }
    }
}

/// Collects the FMMU mappings of the devices of a route.
pub(crate) fn rebuild_mappings(
    mappings: &mut Vec<FmmuMapping>,
    devices: &[SubDevice],
    route: &Route,
) {
    mappings.clear();
    for &stop in &route.order {
        let before = mappings.len();
        let esc = &devices[stop.device].esc;
        let fmmus = esc.fmmus.iter().flatten();
        // An FMMU that writes to registers can change the SyncManagers before the datagram reaches
        // the next FMMU.
        let is_stable = fmmus.clone().all(|fmmu| !fmmu.writes || fmmu.is_of_memory());
        for (writes, direction) in [(true, AccessDirection::Write), (false, AccessDirection::Read)]
        {
            for fmmu in fmmus.clone().filter(|fmmu| if writes { fmmu.writes } else { fmmu.reads }) {
                let channel = esc.whole_sync_manager(fmmu, direction).filter(|_| is_stable);
                mappings.push(FmmuMapping::new(stop, *fmmu, channel, writes));
            }
        }

        if let Some(last) = mappings[before..].last_mut() {
            last.is_last_of_device = true;
        }
    }
}
