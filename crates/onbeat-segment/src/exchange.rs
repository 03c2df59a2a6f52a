//! What a datagram does on its way past the devices.

use std::ops::Range;

use super::controller::{Controller, Join, Passing, Watched};
use super::fmmu::Fmmu;
use super::frame::{Command, Datagram};
use super::registers::{SYSTEM_TIME, quad};
use super::subdevice::SubDevice;
use super::sync_channel::Direction;
use super::topology::{Route, Stop};

/// Longest data of a datagram.
pub(crate) const MOST_DATA: usize = 2047;

/// An FMMU of a device on a route, one direction of it. Small, because all of them are gone through in each cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    /// When a frame passes the device, counted from the sending.
    after_ns: u64,
    fmmu: Fmmu,
    device: u16,
    /// The SyncManager whose whole area is mapped, or [`Mapping::NO_CHANNEL`].
    channel: u8,
    writes: bool,
    is_last_of_device: bool,
}

impl Mapping {
    const NO_CHANNEL: u8 = u8::MAX;

    fn new(stop: Stop, fmmu: Fmmu, channel: Option<usize>, writes: bool) -> Self {
        Self {
            after_ns: stop.after_ns,
            fmmu,
            device: stop.device as u16,
            channel: channel.map_or(Self::NO_CHANNEL, |channel| channel as u8),
            writes,
            is_last_of_device: false,
        }
    }

    /// Where the whole mapping is in a datagram, if it has the short way and is in there as a whole.
    #[inline]
    fn short_way(&self, logical: u32, bytes: usize) -> Option<Range<usize>> {
        let start = self.fmmu.logical.wrapping_sub(logical) as usize;
        let end = start + usize::from(self.fmmu.length);
        (self.channel != Self::NO_CHANNEL && end <= bytes).then_some(start..end)
    }
}

/// Which devices have which station address.
#[derive(Clone, Debug)]
pub(crate) struct Stations {
    devices: Vec<u16>,
}

impl Stations {
    const NONE: u16 = 0xffff;
    const SEVERAL: u16 = 0xfffe;

    pub(crate) fn new() -> Self {
        Self { devices: vec![Self::NONE; 0x1_0000] }
    }

    pub(crate) fn rebuild(&mut self, devices: &[SubDevice]) {
        self.devices.fill(Self::NONE);
        for (number, device) in devices.iter().enumerate() {
            let addresses = [Some(device.controller.station()), device.controller.alias()];
            for address in addresses.into_iter().flatten() {
                let place = &mut self.devices[usize::from(address)];
                let taken = *place != Self::NONE && usize::from(*place) != number;
                *place = if taken { Self::SEVERAL } else { number as u16 };
            }
        }
    }

    /// Devices that answer to an address.
    fn at(&self, address: u16) -> Answering {
        match self.devices[usize::from(address)] {
            Self::NONE => Answering::Nobody,
            Self::SEVERAL => Answering::Several(address),
            number => Answering::One(usize::from(number)),
        }
    }
}

/// Which devices a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answering {
    Nobody,
    One(usize),
    Several(u16),
}

impl Answering {
    fn includes(self, number: usize, controller: &Controller) -> bool {
        match self {
            Self::Nobody => false,
            Self::One(one) => one == number,
            Self::Several(address) => controller.station() == address || controller.alias() == Some(address),
        }
    }
}

/// All that a datagram meets: the devices, their order and addresses, and the instant of sending.
pub(crate) struct Exchange<'s> {
    pub(crate) devices: &'s mut [SubDevice],
    pub(crate) route: &'s Route,
    pub(crate) mappings: &'s [Mapping],
    pub(crate) stations: &'s Stations,
    pub(crate) scratch: &'s mut [u8],
    pub(crate) sent_ns: u64,
    /// Bits of [`super::controller::touched`], of all devices.
    pub(crate) touched: u8,
    /// For each device, when its firmware has something to do.
    pub(crate) due_ns: &'s mut [u64],
    /// Whether a device has something to do now.
    pub(crate) woke: bool,
    /// Whether datagrams of every cycle may take their short ways past the register tables.
    pub(crate) short_ways: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Read(Join),
    Write,
    ReadWrite(Join),
}

impl Exchange<'_> {
    /// Takes one datagram along the route.
    pub(crate) fn pass(&mut self, datagram: &mut Datagram<'_>) {
        use Command::{Aprd, Aprw, Apwr, Armw, Brd, Brw, Bwr, Fprd, Fprw, Fpwr, Frmw, Lrd, Lrw, Lwr, Nop};
        let Some(command) = datagram.command() else { return };
        let before = datagram.working_counter();
        let count = match command {
            Nop => 0,
            Aprd => self.addressed(datagram, Act::Read(Join::Replace)),
            Apwr => self.addressed(datagram, Act::Write),
            Aprw => self.addressed(datagram, Act::ReadWrite(Join::Replace)),
            Fprd => self.stationed(datagram, Act::Read(Join::Replace)),
            Fpwr => self.stationed(datagram, Act::Write),
            Fprw => self.stationed(datagram, Act::ReadWrite(Join::Replace)),
            Brd => self.all(datagram, Act::Read(Join::Or)),
            Bwr => self.all(datagram, Act::Write),
            Brw => self.all(datagram, Act::ReadWrite(Join::Or)),
            Lrd => self.logical(datagram, true, false),
            Lwr => self.logical(datagram, false, true),
            Lrw => self.logical(datagram, true, true),
            Armw => {
                let reader = self.at_position(datagram.address());
                self.one_reads(datagram, reader.map_or(Answering::Nobody, |stop| Answering::One(stop.device)))
            }
            Frmw => self.one_reads(datagram, self.stations.at(datagram.address())),
        };

        if matches!(command, Aprd | Apwr | Aprw | Brd | Bwr | Brw | Armw) {
            let passed = self.route.order.len() as u16;
            datagram.set_address(datagram.address().wrapping_add(passed));
        }

        datagram.set_working_counter(before.wrapping_add(count));
    }

    fn at_position(&self, address: u16) -> Option<Stop> {
        let position = usize::from(0u16.wrapping_sub(address));
        self.route.order.get(position).copied()
    }

    fn addressed(&mut self, datagram: &mut Datagram<'_>, act: Act) -> u16 {
        self.at_position(datagram.address()).map_or(0, |stop| self.act(stop, datagram, act))
    }

    fn stationed(&mut self, datagram: &mut Datagram<'_>, act: Act) -> u16 {
        match self.stations.at(datagram.address()) {
            Answering::Nobody => 0,
            Answering::One(device) => {
                self.route.place[device].map_or(0, |place| self.act(self.route.order[place], datagram, act))
            }
            several @ Answering::Several(_) => self.each(datagram, act, several),
        }
    }

    fn all(&mut self, datagram: &mut Datagram<'_>, act: Act) -> u16 {
        let watched = Watched::of(datagram.offset(), datagram.data.len());
        if let Some(watched) = watched.filter(|_| self.short_ways && act == Act::Read(Join::Or)) {
            return self.watch(datagram, watched);
        }
        self.route.order.iter().fold(0u16, |count, &stop| count.wrapping_add(self.act(stop, datagram, act)))
    }

    /// The short way of reads from all that a loop does in each of its cycles.
    fn watch(&self, datagram: &mut Datagram<'_>, watched: Watched) -> u16 {
        let (mut all, mut count) = (0u32, 0u16);
        for stop in &self.route.order {
            let controller = &self.devices[stop.device].controller;
            if let Some(value) = controller.watched(watched) {
                all |= value;
                count = count.wrapping_add(controller.counted(1));
            }
        }

        for (byte, own) in datagram.data.iter_mut().zip(all.to_le_bytes()) {
            *byte |= own;
        }

        count
    }

    fn each(&mut self, datagram: &mut Datagram<'_>, act: Act, answering: Answering) -> u16 {
        let mut count = 0;
        for &stop in &self.route.order {
            if answering.includes(stop.device, &self.devices[stop.device].controller) {
                count += self.act(stop, datagram, act);
            }
        }

        count
    }

    fn passing(&self, stop: Stop) -> Passing {
        let at = |after_ns: u64| if after_ns == 0 { 0 } else { self.sent_ns + after_ns };
        Passing { now_ns: self.sent_ns + stop.after_ns, ports_ns: self.route.ports_ns[stop.device].map(at) }
    }

    /// One device reads, writes, or both. Its part of the working counter.
    fn act(&mut self, stop: Stop, datagram: &mut Datagram<'_>, act: Act) -> u16 {
        let passing = self.passing(stop);
        let offset = datagram.offset();
        let controller = &mut self.devices[stop.device].controller;
        let count = match act {
            Act::Read(join) => u16::from(controller.read(offset, datagram.data, join, passing.now_ns)),
            Act::Write => u16::from(controller.write(offset, datagram.data, &passing)),
            Act::ReadWrite(join) => {
                let incoming = &mut self.scratch[..datagram.data.len()];
                incoming.copy_from_slice(datagram.data);
                let read = u16::from(controller.read(offset, datagram.data, join, passing.now_ns));
                read + 2 * u16::from(controller.write(offset, incoming, &passing))
            }
        };

        self.settle(stop.device);
        self.devices[stop.device].controller.counted(count)
    }

    /// One device reads, the others write what the datagram holds when it passes them.
    fn one_reads(&mut self, datagram: &mut Datagram<'_>, reader: Answering) -> u16 {
        let mut count = 0u16;
        let is_time = usize::from(datagram.offset()) == SYSTEM_TIME && datagram.data.len() == 8;
        let short = is_time && self.short_ways;
        let mut reference_ns = if is_time { quad(datagram.data, 0) } else { 0 };
        for &stop in &self.route.order {
            let controller = &mut self.devices[stop.device].controller;
            let part = if reader.includes(stop.device, controller) {
                let part = self.act(stop, datagram, Act::Read(Join::Replace));
                reference_ns = if is_time { quad(datagram.data, 0) } else { 0 };
                part
            } else if short {
                let heard = controller.hear_time(reference_ns, self.sent_ns + stop.after_ns);
                controller.counted(u16::from(heard))
            } else {
                self.act(stop, datagram, Act::Write)
            };

            count = count.wrapping_add(part);
        }

        count
    }

    fn logical(&mut self, datagram: &mut Datagram<'_>, reads: bool, writes: bool) -> u16 {
        let logical = datagram.logical_address();
        let mut count = 0u16;
        let (mut read, mut written) = (false, false);
        // All FMMUs of a device stand together, those that write first: a device takes its outputs before it gives its inputs.
        for mapping in self.mappings {
            match mapping.writes {
                true if writes => written |= self.take(mapping, logical, datagram.data),
                false if reads => read |= self.give(mapping, logical, datagram.data),
                _ => (),
            }
            if mapping.is_last_of_device && (read || written) {
                let device = usize::from(mapping.device);
                let both = reads && writes;
                let part = u16::from(read) + if both { 2 } else { 1 } * u16::from(written);
                self.settle(device);
                count = count.wrapping_add(self.devices[device].controller.counted(part));
                (read, written) = (false, false);
            }
        }

        count
    }

    /// A device takes what an FMMU maps for it. Whether it took anything.
    #[inline]
    fn take(&mut self, mapping: &Mapping, logical: u32, data: &[u8]) -> bool {
        let now_ns = self.sent_ns + mapping.after_ns;
        let controller = &mut self.devices[usize::from(mapping.device)].controller;
        if let Some(place) = mapping.short_way(logical, data.len()).filter(|_| self.short_ways) {
            controller.take_outputs(usize::from(mapping.channel), mapping.fmmu.physical, &data[place], now_ns);
            return true;
        }

        controller.write_mapped(&mapping.fmmu, logical, data, &Passing { now_ns, ports_ns: [0; 4] })
    }

    /// A device gives what an FMMU maps of it. Whether it gave anything.
    #[inline]
    fn give(&mut self, mapping: &Mapping, logical: u32, data: &mut [u8]) -> bool {
        let controller = &mut self.devices[usize::from(mapping.device)].controller;
        if let Some(place) = mapping.short_way(logical, data.len()).filter(|_| self.short_ways) {
            controller.give_inputs(usize::from(mapping.channel), mapping.fmmu.physical, &mut data[place]);
            return true;
        }
        controller.read_mapped(&mapping.fmmu, logical, data, self.sent_ns + mapping.after_ns)
    }

    fn settle(&mut self, device: usize) {
        let controller = &mut self.devices[device].controller;
        self.touched |= std::mem::take(&mut controller.touched);
        if controller.events != 0 {
            self.due_ns[device] = self.due_ns[device].min(self.sent_ns);
            self.woke = true;
        }
    }
}

/// Puts together what the devices of a route map.
pub(crate) fn rebuild_mappings(mappings: &mut Vec<Mapping>, devices: &[SubDevice], route: &Route) {
    mappings.clear();
    for &stop in &route.order {
        let before = mappings.len();
        let controller = &devices[stop.device].controller;
        let fmmus = controller.fmmus.iter().flatten();
        // One that writes into registers may change the SyncManagers before a datagram comes to the next.
        let lasting = fmmus.clone().all(|fmmu| !fmmu.writes || fmmu.is_of_memory());
        for (writes, direction) in [(true, Direction::Write), (false, Direction::Read)] {
            for fmmu in fmmus.clone().filter(|fmmu| if writes { fmmu.writes } else { fmmu.reads }) {
                let channel = controller.whole_channel(fmmu, direction).filter(|_| lasting);
                mappings.push(Mapping::new(stop, *fmmu, channel, writes));
            }
        }

        if let Some(last) = mappings[before..].last_mut() {
            last.is_last_of_device = true;
        }
    }
}
