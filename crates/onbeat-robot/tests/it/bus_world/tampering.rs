//! Tampering with a segment while a bus runs on it: devices change positions, leave the cable, lose
//! power, and another MainDevice writes. The set-points that each device applies are checked on the
//! device's side.
#![allow(dead_code, unreachable_pub)]

use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::bus::{InProcess, Wire};
use onbeat_rt::frame::{Command, LONGEST, Writer, position, register};
use onbeat_rt::time::Instant;
use onbeat_segment::{Fault, Link, Segment};

use super::VirtualClock;

/// One action.
#[derive(Clone, Debug)]
pub enum Tampering {
    Begin(Fault),
    End(Fault),
    /// Affects frames: duration in ns, and fraction of the frames.
    Frames(Fault, u64, f64),
    /// Assigns station addresses from this one on, by position.
    Stations(u16),
    /// Requests an AL state of all devices.
    StateOfAll(u8),
    /// Requests an AL state of the device at this position.
    State(u16, u8),
    /// Clears all FMMUs.
    ClearFmmus,
    /// Maps the outputs of the device at this position: logical address and length.
    Fmmu(u16, u32, u16),
}

/// A wire that executes the planned actions before the first frame after their time.
#[derive(Clone)]
pub struct TamperingWire<'c> {
    inner: InProcess<&'c VirtualClock>,
    plan: Vec<(u64, Tampering)>,
    done: usize,
    pub set_points: SetPoints,
}

impl<'c> TamperingWire<'c> {
    pub fn at(link: Link, clock: &'c VirtualClock, set_points: SetPoints) -> Self {
        Self {
            inner: InProcess::on_virtual_clock(link, clock),
            plan: Vec::new(),
            done: 0,
            set_points,
        }
    }

    /// Moves the wire to another clock.
    pub fn on(self, clock: &VirtualClock) -> TamperingWire<'_> {
        let inner = InProcess::on_virtual_clock(self.inner.into_link(), clock);
        TamperingWire { inner, plan: self.plan, done: self.done, set_points: self.set_points }
    }

    /// Plans actions at times relative to `began_ns`.
    pub fn plan(&mut self, began_ns: u64, acts: &[(u64, Tampering)]) {
        self.plan = acts.iter().map(|(at_ns, act)| (began_ns + at_ns, act.clone())).collect();
        self.plan.sort_by_key(|(at_ns, _)| *at_ns);
        self.done = 0;
    }

    /// Identifies indistinguishable devices by their present positions.
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
                    one(
                        Command::Apwr,
                        register(position(place), 0x0010),
                        &(first + place).to_le_bytes(),
                    );
                }
            }
            Tampering::StateOfAll(state) => {
                one(Command::Bwr, register(0, 0x0120), &[state | 0x10, 0]);
            }
            Tampering::State(place, state) => {
                one(Command::Apwr, register(position(place), 0x0120), &[state | 0x10, 0]);
            }
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

/// Unit of the mark in set-points: the intended position plus 1, times this.
pub const MARK: i32 = 1_000_000;

/// Sends each drive set-points with its mark.
pub struct Marking {
    /// Offset of the set-point in the outputs, by position.
    at: Vec<Option<usize>>,
    count: i32,
}

impl Marking {
    pub fn new(layout: &Layout) -> Self {
        Self {
            at: layout.devices.iter().map(|device| device.output_at(0x607a, 0)).collect(),
            count: 0,
        }
    }
}

impl Controller for Marking {
    fn step(&mut self, _: &BusCycle, _: &[u8], outputs: &mut [u8]) {
        self.count += 1;
        for (place, at) in
            self.at.iter().enumerate().filter_map(|(place, at)| Some((place, (*at)?)))
        {
            let target = (place as i32 + 1) * MARK + self.count;
            outputs[at..at + 4].copy_from_slice(&target.to_le_bytes());
        }
    }
}

/// Set-points applied by each physical device, with the position that the device belongs to.
#[derive(Clone, Debug)]
pub struct SetPoints {
    /// By device of the segment: its position in the file.
    owner: Vec<Option<usize>>,
    /// Positions of each device since it was connected, as bits. Off the cable a device takes
    /// nothing, and those before still count: a set-point that it took may be seen only now.
    stood: Vec<u64>,
    is_connected: Vec<bool>,
    drives: Vec<usize>,
    /// Set-points applied by the wrong device: device, and intended position.
    pub astray: Vec<(usize, usize)>,
    pub taken: u64,
}

impl SetPoints {
    /// For devices with distinct identities: `place` returns the position in the file of each
    /// device of the segment.
    pub fn new(segment: &Segment, place: impl Fn(&str) -> Option<usize>) -> Self {
        let name = |device: usize| segment.status(device).map_or("", |status| status.name);
        let drives = (0..segment.len())
            .filter(|&device| segment.value(device, 0x607a, 0).is_some())
            .collect();
        let owner = (0..segment.len()).map(|device| place(name(device))).collect();
        let stood = vec![0; segment.len()];
        let is_connected = vec![false; segment.len()];
        Self { owner, stood, is_connected, drives, astray: Vec::new(), taken: 0 }
    }

    /// Identifies indistinguishable devices by their present positions.
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
            let place = order.iter().position(|other| *other == device);
            let was_connected = std::mem::replace(&mut self.is_connected[device], place.is_some());
            let Some(place) = place else { continue };
            if !was_connected {
                self.stood[device] = 0;
            }

            self.stood[device] |= 1 << place;
        }
    }

    fn look(&mut self, segment: &Segment) {
        for &device in &self.drives {
            let Some(&[a, b, c, d]) = segment.value(device, 0x607a, 0) else { continue };
            let target = i32::from_le_bytes([a, b, c, d]);
            let is_open =
                segment.status(device).is_some_and(|status| status.al_state == 8 && status.powered);
            if target < MARK || !is_open {
                continue;
            }

            let place = (target / MARK - 1) as usize;
            self.taken += 1;
            // An indistinguishable device exactly at that position counts as a spare part.
            if self.owner[device].is_none() && self.stood[device] & 1 << place != 0 {
                self.owner[device] = Some(place);
            }
            if self.owner[device] != Some(place) && !self.astray.contains(&(device, place)) {
                self.astray.push((device, place));
            }
        }
    }
}
