//! A segment at which tampering are at work while a bus runs on it: devices change places, leave the cable, lose their power, and another
//! MainDevice writes. What each device takes as its set-point is looked at on the device's own side.
#![allow(dead_code, unreachable_pub)]

use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{InProcess, Wire};
use onbeat_rt::frame::{Command, LONGEST, Writer, position, register};
use onbeat_rt::time::Instant;
use onbeat_segment::{Fault, Link, Segment};

use super::bus_world::VirtualClock;

/// One thing that is done.
#[derive(Clone, Debug)]
pub enum Tampering {
    Begin(Fault),
    End(Fault),
    /// For frames on their way: so long, and for this part of them.
    Frames(Fault, u64, f64),
    /// All devices get stations from this one on, by their places.
    Stations(u16),
    /// An AL state for all.
    StateOfAll(u8),
    /// An AL state for the device at this place.
    State(u16, u8),
    /// All FMMUs are cleared.
    ClearFmmus,
    /// The FMMU of outputs of the device at this place maps so many bytes from this logical address on.
    Fmmu(u16, u32, u16),
}

/// A wire to the segment. What is planned is done before the first frame behind its time leaves.
#[derive(Clone)]
pub struct TamperingWire<'c> {
    inner: InProcess<&'c VirtualClock>,
    plan: Vec<(u64, Tampering)>,
    done: usize,
    pub set_points: SetPoints,
}

impl<'c> TamperingWire<'c> {
    pub fn at(link: Link, clock: &'c VirtualClock, set_points: SetPoints) -> Self {
        Self { inner: InProcess::on_virtual_clock(link, clock), plan: Vec::new(), done: 0, set_points }
    }

    /// The same, on another clock.
    pub fn on(self, clock: &VirtualClock) -> TamperingWire<'_> {
        let inner = InProcess::on_virtual_clock(self.inner.into_link(), clock);
        TamperingWire { inner, plan: self.plan, done: self.done, set_points: self.set_points }
    }

    /// Does these at these instants, which count from `began_ns` on.
    pub fn plan(&mut self, began_ns: u64, acts: &[(u64, Tampering)]) {
        self.plan = acts.iter().map(|(at_ns, act)| (began_ns + at_ns, act.clone())).collect();
        self.plan.sort_by_key(|(at_ns, _)| *at_ns);
        self.done = 0;
    }

    /// Devices that cannot be told apart are those of the places in which they are now.
    pub fn name_by_place(&mut self) {
        self.set_points.name_by_place(self.inner.link().segment());
    }

    pub fn segment(&self) -> &Segment {
        self.inner.link().segment()
    }

    pub fn do_now(&mut self, act: &Tampering) {
        let now = self.inner.now();
        let link = self.inner.link_mut();
        match *act {
            Tampering::Begin(fault) => drop(link.segment_mut().begin(&fault)),
            Tampering::End(fault) => drop(link.segment_mut().end(&fault)),
            Tampering::Frames(fault, for_ns, share) => link.inject(fault, now, Some(for_ns), share),
            _ => self.write(act, now),
        }

        self.set_points.look_at_cable(self.inner.link().segment());
    }

    fn write(&mut self, act: &Tampering, now: Instant) {
        let segment = self.inner.link_mut().segment_mut();
        let count = segment.order_on_cable().len() as u16;
        let mut one = |command: Command, address: u32, data: &[u8]| {
            let mut frame = [0; LONGEST];
            let mut writer = Writer::new(&mut frame, 0x55);
            writer.push_data(command, address, data);
            let length = writer.finish();
            segment.frame(&mut frame[..length], now);
        };

        match *act {
            Tampering::Stations(first) => {
                for place in 0..count {
                    one(Command::Apwr, register(position(place), 0x0010), &(first + place).to_le_bytes());
                }
            }
            Tampering::StateOfAll(state) => one(Command::Bwr, register(0, 0x0120), &[state | 0x10, 0]),
            Tampering::State(place, state) => one(Command::Apwr, register(position(place), 0x0120), &[state | 0x10, 0]),
            Tampering::ClearFmmus => one(Command::Bwr, register(0, 0x0600), &[0; 64]),
            Tampering::Fmmu(place, logical, bytes) => {
                let mut fmmu = [0; 16];
                fmmu[..4].copy_from_slice(&logical.to_le_bytes());
                fmmu[4..6].copy_from_slice(&bytes.to_le_bytes());
                (fmmu[7], fmmu[8], fmmu[9], fmmu[11], fmmu[12]) = (7, 0x00, 0x18, 2, 1);
                one(Command::Apwr, register(position(place), 0x0600), &fmmu);
            }
            _ => {}
        }
    }
}

impl Wire for TamperingWire<'_> {
    fn send(&mut self, frame: &[u8]) {
        let now_ns = self.inner.now().as_ns();
        while self.plan.get(self.done).is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
            let act = self.plan[self.done].1.clone();
            self.done += 1;
            self.do_now(&act);
        }

        self.inner.send(frame);
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        self.inner.receive(buffer, until)
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn rest(&mut self) {
        self.inner.rest();
        self.set_points.look(self.inner.link().segment());
    }
}

/// Set-points carry the place that they are for in these units.
pub const MARK: i32 = 1_000_000;

/// Sends each drive set-points with its mark.
pub struct Marking {
    /// Where they stand in the outputs, by place.
    at: Vec<Option<usize>>,
    count: i32,
}

impl Marking {
    pub fn new(layout: &Layout) -> Self {
        Self { at: layout.devices.iter().map(|device| device.output_at(0x607a, 0)).collect(), count: 0 }
    }
}

impl Controller for Marking {
    fn step(&mut self, _: &BusCycle, _: &[u8], outputs: &mut [u8]) {
        self.count += 1;
        for (place, at) in self.at.iter().enumerate().filter_map(|(place, at)| Some((place, (*at)?))) {
            let target = (place as i32 + 1) * MARK + self.count;
            outputs[at..at + 4].copy_from_slice(&target.to_le_bytes());
        }
    }
}

/// What each physical device took. It does not know which device of the file it is; this does.
#[derive(Clone, Debug)]
pub struct SetPoints {
    /// By device of the segment: the file's place that it is.
    owner: Vec<Option<usize>>,
    /// Places at which a device was since it came to the cable, as bits.
    stood: Vec<u64>,
    drives: Vec<usize>,
    /// Set-points that a device took and that were another's: device, and the place they were for.
    pub astray: Vec<(usize, usize)>,
    pub taken: u64,
}

impl SetPoints {
    /// Of devices that are known by what they say: `place` gives the file's place of each of the segment's.
    pub fn new(segment: &Segment, place: impl Fn(&str) -> Option<usize>) -> Self {
        let name = |device: usize| segment.status(device).map_or("", |status| status.name);
        let drives = (0..segment.len()).filter(|&device| segment.value(device, 0x607a, 0).is_some()).collect();
        let owner = (0..segment.len()).map(|device| place(name(device))).collect();
        Self { owner, stood: vec![0; segment.len()], drives, astray: Vec::new(), taken: 0 }
    }

    /// Devices that cannot be told apart are those of the places in which they are now.
    pub fn name_by_place(&mut self, segment: &Segment) {
        self.owner.fill(None);
        for (place, device) in segment.order_on_cable().into_iter().enumerate() {
            self.owner[device] = Some(place);
        }
        self.look_at_cable(segment);
    }

    fn look_at_cable(&mut self, segment: &Segment) {
        let order = segment.order_on_cable();
        for device in 0..self.stood.len() {
            match order.iter().position(|other| *other == device) {
                Some(place) => self.stood[device] |= 1 << place,
                None => self.stood[device] = 0,
            }
        }
    }

    fn look(&mut self, segment: &Segment) {
        for &device in &self.drives {
            let Some(&[a, b, c, d]) = segment.value(device, 0x607a, 0) else { continue };
            let target = i32::from_le_bytes([a, b, c, d]);
            let is_open = segment.status(device).is_some_and(|status| status.al_state == 8 && status.powered);
            if target < MARK || !is_open {
                continue;
            }

            let place = (target / MARK - 1) as usize;
            self.taken += 1;
            // One that nobody can tell from another, in exactly its place, is a spare part that was put in.
            if self.owner[device].is_none() && self.stood[device] & 1 << place != 0 {
                self.owner[device] = Some(place);
            }
            if self.owner[device] != Some(place) && !self.astray.contains(&(device, place)) {
                self.astray.push((device, place));
            }
        }
    }
}
