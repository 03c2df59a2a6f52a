//! A controller on a segment, without a bus: brought up manually, then one frame per cycle on a
//! virtual clock.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use onbeat_ethercat::event::{Event, EventKind};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_robot::motion::{MotionController, Robot, RobotPhase, Rung, Status, Trajectory};
use onbeat_rt::time::Instant;
use onbeat_segment::{Command, Fault, Link, Nic, Passage};

pub const PERIOD_NS: u64 = 1_000_000;
/// Two joints, for exact expectations.
pub const TWO: &str = include_str!("../../two_joints.toml");
const FIRST_STATION: u16 = 0x1001;

/// An Ethernet frame with one datagram.
fn frame_of(command: Command, address: u16, offset: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&[0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x88, 0xa4]);
    frame.extend_from_slice(&((data.len() as u16 + 12) | 0x1000).to_le_bytes());
    frame.extend_from_slice(&[command as u8, 0]);
    frame.extend_from_slice(&address.to_le_bytes());
    frame.extend_from_slice(&offset.to_le_bytes());
    frame.extend_from_slice(&(data.len() as u16).to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(data);
    frame.extend_from_slice(&[0, 0]);

    frame
}

/// A segment as a controller sees it.
pub struct Plant {
    pub link: Link,
    pub layout: Layout,
    pub now_ns: u64,
    pub cycle: BusCycle,
    pub inputs: Vec<u8>,
    pub outputs: Vec<u8>,
    /// Indices of the devices in the file, by position.
    stations: Vec<u16>,
}

impl Plant {
    /// Creates the devices of a file, all in OP.
    pub fn new(text: &str) -> Self {
        let layout = Layout::from_toml(text).unwrap_or_else(|error| panic!("{error}"));
        let link = Link::from_toml(text).unwrap();
        let inputs = vec![0; layout.input_bytes];
        let outputs = vec![0; layout.output_bytes];
        let stations =
            (0..layout.devices.len() as u16).map(|place| FIRST_STATION + place).collect();
        let cycle = BusCycle {
            devices: layout.devices.len() as u16,
            in_op: layout.devices.len() as u16,
            ..BusCycle::default()
        };

        let mut plant = Self { link, layout, now_ns: 1_000_000, cycle, inputs, outputs, stations };
        plant.bring_up();
        plant
    }

    fn send(&mut self, command: Command, address: u16, offset: u16, data: &[u8]) -> (u16, Vec<u8>) {
        let mut frame = frame_of(command, address, offset, data);
        self.now_ns += 10_000;
        let passage = self.link.segment_mut().frame(&mut frame, Instant::from_ns(self.now_ns));
        assert!(matches!(passage, Passage::Back { .. }), "{passage:?}");
        let end = frame.len() - 2;
        (u16::from_le_bytes([frame[end], frame[end + 1]]), frame[26..end].to_vec())
    }

    fn write(&mut self, station: u16, offset: u16, data: &[u8]) {
        assert_eq!(
            self.send(Command::Fpwr, station, offset, data).0,
            1,
            "{station:#x} {offset:#x}"
        );
    }

    fn bring_up(&mut self) {
        for place in 0..self.stations.len() {
            let station = self.stations[place];
            let set = self.send(
                Command::Apwr,
                0u16.wrapping_sub(place as u16),
                0x0010,
                &station.to_le_bytes(),
            );
            assert_eq!(set.0, 1);
        }
        for place in 0..self.stations.len() {
            let device = self.layout.devices[place].clone();
            let status = self
                .link
                .segment()
                .find(&device.name)
                .and_then(|at| self.link.segment().status(at))
                .unwrap();
            let out = status.output_bytes as u16;
            let input = status.input_bytes as u16;
            assert_eq!(
                (usize::from(out), usize::from(input)),
                (device.outputs.len(), device.inputs.len())
            );
            let has_mailbox = device.kind != onbeat_ethercat::layout::DeviceKind::Digital;
            let first = if has_mailbox { 2 } else { 0 };
            let station = self.stations[place];

            if has_mailbox {
                self.sync_manager(station, 0, (0x1000, 128, 0x26));
                self.sync_manager(station, 1, (0x1080, 128, 0x22));
            }

            self.sync_manager(station, first, (0x1800, out, 0x64));
            self.sync_manager(station, first + 1, (0x2400, input, 0x20));
            let inputs_from = self.layout.output_bytes as u32;
            self.fmmu(station, 0, device.outputs.start as u32, (out, 0x1800, 2));
            self.fmmu(station, 1, inputs_from + device.inputs.start as u32, (input, 0x2400, 1));
            for state in [2, 4, 8] {
                self.ask_state(place, state);
            }

            self.cycle.expected += u16::from(input > 0) + 2 * u16::from(out > 0);
        }
    }

    /// Requests an AL state of a device, and acknowledges errors.
    pub fn ask_state(&mut self, place: usize, state: u8) {
        let station = self.stations[place];
        self.write(station, 0x0120, &[state | 0x10, 0]);
        let (_, status) = self.send(Command::Fprd, station, 0x0130, &[0; 6]);
        assert_eq!(status[0], state, "{} {status:02x?}", self.layout.devices[place].name);
    }

    fn sync_manager(
        &mut self,
        station: u16,
        channel: u16,
        (start, length, control): (u16, u16, u8),
    ) {
        let [low, high] = start.to_le_bytes();
        let [length_low, length_high] = length.to_le_bytes();
        let registers = [low, high, length_low, length_high, control, 0, u8::from(length > 0), 0];
        self.write(station, 0x0800 + 8 * channel, &registers);
    }

    fn fmmu(
        &mut self,
        station: u16,
        channel: u16,
        logical: u32,
        (length, physical, direction): (u16, u16, u8),
    ) {
        let mut registers = [0; 16];
        registers[..4].copy_from_slice(&logical.to_le_bytes());
        registers[4..6].copy_from_slice(&length.to_le_bytes());
        registers[7] = 7;
        registers[8..10].copy_from_slice(&physical.to_le_bytes());
        (registers[11], registers[12]) = (direction, u8::from(length > 0));
        self.write(station, 0x0600 + 16 * channel, &registers);
    }

    /// Waits this number of periods, then exchanges the process image; the result is in `inputs`
    /// and `cycle`.
    pub fn exchange(&mut self, periods: u64) {
        self.now_ns += periods * PERIOD_NS;
        let now = Instant::from_ns(self.now_ns);
        let data: Vec<u8> =
            self.outputs.iter().chain(&vec![0; self.inputs.len()]).copied().collect();
        self.link.send(Nic::First, &frame_of(Command::Lrw, 0, 0, &data), now);
        let mut reply = [0; 1514];
        let back = self.link.receive(Instant::from_ns(self.now_ns + PERIOD_NS / 2), &mut reply);
        self.cycle.cycle += 1;
        (self.cycle.dt_ns, self.cycle.release_ns) = (periods * PERIOD_NS, self.now_ns);
        (self.cycle.working_counter, self.cycle.fresh, self.cycle.round_trip_ns) = (0, false, 0);
        let Some((_, length)) = back else { return };
        let from = 26 + self.outputs.len();
        let until = from + self.inputs.len();
        self.inputs.copy_from_slice(&reply[from..until]);
        self.cycle.working_counter = u16::from_le_bytes([reply[length - 2], reply[length - 1]]);
        self.cycle.fresh = self.cycle.working_counter == self.cycle.expected;
    }
}

/// A robot on its segment.
pub struct World {
    pub plant: Plant,
    pub robot: Robot,
    pub controller: MotionController,
    pub events: Vec<Event>,
}

impl World {
    pub fn new(text: &str, trajectory: impl FnOnce(&Robot) -> Trajectory) -> Self {
        let plant = Plant::new(text);
        let robot = Robot::from_toml(text, &plant.layout, PERIOD_NS)
            .unwrap_or_else(|error| panic!("{error}"));
        let controller = MotionController::new(&robot, trajectory(&robot));
        Self { plant, robot, controller, events: Vec::new() }
    }

    pub fn status(&self) -> &Status {
        self.controller.status()
    }

    fn take_events(&mut self) {
        self.events.extend(std::iter::from_fn(|| self.controller.take_event()));
    }

    /// Runs one cycle, this number of periods after the previous one.
    pub fn step_after(&mut self, periods: u64) {
        self.plant.exchange(periods);
        self.controller.step(&self.plant.cycle, &self.plant.inputs, &mut self.plant.outputs);
        self.take_events();
    }

    pub fn step(&mut self) {
        self.step_after(1);
    }

    pub fn steps(&mut self, cycles: usize) {
        (0..cycles).for_each(|_| self.step());
    }

    /// Runs a cycle whose frame is not answered.
    pub fn lose(&mut self) {
        self.plant.link.inject(
            Fault::Lose,
            Instant::from_ns(self.plant.now_ns),
            Some(PERIOD_NS + 1),
            1.0,
        );
        self.step();
        assert!(!self.plant.cycle.fresh);
    }

    /// Runs until the robot is in a phase; returns the number of cycles.
    pub fn until(&mut self, phase: RobotPhase) -> usize {
        for cycle in 0..20_000 {
            if self.status().phase == phase {
                return cycle;
            }
            self.step();
        }
        panic!("never {phase:?}, but {:?}", self.status().phase);
    }

    /// Stops the robot in order; returns the number of cycles.
    pub fn stop(&mut self) -> usize {
        for cycle in 1..20_000 {
            self.plant.exchange(1);
            let at_rest = self.controller.stop(
                &self.plant.cycle,
                &self.plant.inputs,
                &mut self.plant.outputs,
            );
            self.take_events();
            if at_rest {
                return cycle;
            }
        }
        panic!("never at rest, but {:?}", self.status().phase);
    }

    pub fn joint(&self, name: &str) -> usize {
        self.robot.joints.iter().position(|joint| joint.name == name).unwrap()
    }

    pub fn inject(&mut self, fault: Fault, for_ns: Option<u64>) {
        self.plant.link.inject(fault, Instant::from_ns(self.plant.now_ns), for_ns, 1.0);
    }

    /// Returns the index of a device in the file, for faults.
    pub fn device(&self, name: &str) -> usize {
        self.plant.link.segment().find(name).unwrap()
    }

    /// Returns the rungs entered, in order.
    pub fn rungs(&self) -> Vec<u16> {
        let rung = |event: &Event| match event.kind {
            EventKind::RungChanged => Some(event.new),
            EventKind::SafeStop => Some(Rung::SafeStop as u16),
            _ => None,
        };
        self.events.iter().filter_map(rung).collect()
    }

    pub fn kinds(&self) -> Vec<EventKind> {
        self.events.iter().map(|event| event.kind).collect()
    }

    pub fn is_on(&self, rung: Rung) -> bool {
        self.status().rung == rung
    }
}
