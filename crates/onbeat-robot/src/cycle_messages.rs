//! Publishes every cycle of a bus as a message on a ring: timing, bus, robot, joints, process image.
//!
//! The lengths of all arrays are those of the bus, so each field has a fixed place in the message,
//! and encoding it is copying. `docs/ring.md` describes the channel.

use onbeat_control::{Channel, Joint, RecordType, RingError, RingSettings, RingWatch, RingWriter};
use onbeat_ethercat::layout::{DeviceLayout, Layout, MappedValue};
use onbeat_ethercat::step::{BusCycle, RobotState};
use onbeat_message::own;
use serde_json::{Value, json};

/// The topic of cycles.
pub const TOPIC: &str = "cycle";
/// Number of cycles that a ring keeps.
// Eight seconds at 1 kHz: a reader that was stopped for a garbage collection finds all of its
// cycles.
const CYCLES: usize = 8192;
/// Robot phase without a robot: the constant `NO_ROBOT` of the message.
const NO_ROBOT: u8 = 255;
/// Bytes of the header of a message.
pub(crate) const HEADER: usize = 4;
/// Offset of the first field with several values.
pub(crate) const ARRAYS_AT: usize = HEADER + 64;

/// State of a joint in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JointSample {
    /// Set-point sent, in rad.
    pub target_rad: f64,
    /// Actual position, in rad.
    pub actual_rad: f64,
    /// Velocity, in rad/s.
    pub velocity_rad_s: f64,
    /// Torque, in thousandths of the rated torque.
    pub torque_permille: i16,
    /// Statusword of the drive.
    pub statusword: u16,
}

/// The writing end of a channel of cycles. It belongs to the bus's loop.
#[derive(Debug)]
pub struct CycleMessages {
    writer: RingWriter,
    message: CycleMessage,
}

impl CycleMessages {
    /// Creates the channel `NAME/cycle` of a bus with this layout, and of the joints that it moves.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn create(
        name: &str,
        layout: &Layout,
        joints: &[Joint],
        period_ns: u64,
    ) -> Result<Self, RingError> {
        let message = CycleMessage::new(joints.len(), layout.input_bytes, layout.output_bytes);
        let types = own::types();
        let record_type = RecordType {
            name: own::CYCLE.to_owned(),
            // The definition is part of the program, and a test reads it.
            hash: types.hash(own::CYCLE).unwrap_or_default(),
            schema: types.text(own::CYCLE).unwrap_or_default(),
        };
        let settings = RingSettings {
            records: CYCLES,
            record_bytes: message.bytes.len(),
            record_type,
            description: description(layout, joints, period_ns).to_string(),
        };

        let writer = RingWriter::create(&Channel::new(name, TOPIC)?, &settings)?;
        Ok(Self { writer, message })
    }

    /// Sets the state of the robot and of its joints, for the next cycle.
    pub fn set_robot(
        &mut self,
        robot: Option<RobotState>,
        joints: impl Iterator<Item = JointSample>,
    ) {
        self.message.set_robot(robot, joints);
    }

    /// Publishes a cycle with its wake-up latency and its execution time, in ns. No allocation, no
    /// system call.
    pub fn publish(
        &mut self,
        cycle: &BusCycle,
        times_ns: [u64; 2],
        (inputs, outputs): (&[u8], &[u8]),
    ) {
        self.message.set_cycle(cycle, times_ns);
        self.message.set_image(inputs, outputs);
        // Encoded once at its creation, and numbers are put into their places: publishing is a copy
        // of known length.
        self.writer.publish(cycle.release_ns, &self.message.bytes);
    }

    /// Returns a watch over the ring's file for another thread; `None` if the system refuses it a
    /// descriptor.
    #[must_use]
    pub fn watch(&self) -> Option<RingWatch> {
        self.writer.watch().ok()
    }

    /// Prepares the next publication outside the time-critical part of a cycle.
    pub fn prepare(&self) {
        self.writer.prepare();
    }
}

/// A message of the type `Cycle`, encoded, with the places of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CycleMessage {
    bytes: Vec<u8>,
    joints: usize,
    targets: usize,
    actuals: usize,
    velocities: usize,
    torques: usize,
    statuswords: usize,
    inputs: usize,
    outputs: usize,
}

impl CycleMessage {
    fn new(joints: usize, input_bytes: usize, output_bytes: usize) -> Self {
        let mut bytes = vec![0; ARRAYS_AT];
        // The encapsulation of CDR, little-endian, without options: what ROS 2 and Foxglove read as
        // it is.
        bytes[..HEADER].copy_from_slice(&[0, 1, 0, 0]);
        // A sequence is its count, then its elements, aligned from the end of the header.
        let mut sequence = |count: usize, size: usize| {
            let align = |bytes: &mut Vec<u8>, to: usize| {
                // CDR aligns from the end of its header, not from the beginning of the message.
                let body = bytes.len() - HEADER;
                bytes.resize(HEADER + body.next_multiple_of(to), 0);
            };
            align(&mut bytes, 4);
            bytes.extend((count as u32).to_le_bytes());
            if count > 0 {
                align(&mut bytes, size);
            }
            let at = bytes.len();
            bytes.resize(at + count * size, 0);
            at
        };

        let [targets, actuals, velocities] = [8; 3].map(|size| sequence(joints, size));
        let [torques, statuswords] = [2; 2].map(|size| sequence(joints, size));
        let [inputs, outputs] = [input_bytes, output_bytes].map(|count| sequence(count, 1));
        let mut message = Self {
            bytes,
            joints,
            targets,
            actuals,
            velocities,
            torques,
            statuswords,
            inputs,
            outputs,
        };
        message.set_robot(None, std::iter::empty());
        message
    }

    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&value);
    }

    fn set_cycle(&mut self, cycle: &BusCycle, [wakeup_latency, execution_time]: [u64; 2]) {
        let words = [
            cycle.cycle,
            cycle.release_ns,
            cycle.dt_ns,
            cycle.reference_ns,
            wakeup_latency,
            execution_time,
        ];
        for (place, word) in words.into_iter().enumerate() {
            self.put(HEADER + 8 * place, word.to_le_bytes());
        }

        self.put(HEADER + 48, cycle.round_trip_ns.to_le_bytes());
        let halves = [cycle.working_counter, cycle.expected, cycle.in_op, cycle.devices];
        for (place, half) in halves.into_iter().enumerate() {
            self.put(HEADER + 52 + 2 * place, half.to_le_bytes());
        }
        self.bytes[HEADER + 60] = u8::from(cycle.fresh);
    }

    fn set_robot(&mut self, robot: Option<RobotState>, joints: impl Iterator<Item = JointSample>) {
        let state =
            robot.map_or([NO_ROBOT, 0, 0], |robot| [robot.phase, robot.rung, robot.stopped_by]);
        self.put(HEADER + 61, state);
        for (place, joint) in joints.take(self.joints).enumerate() {
            self.put(self.targets + 8 * place, joint.target_rad.to_le_bytes());
            self.put(self.actuals + 8 * place, joint.actual_rad.to_le_bytes());
            self.put(self.velocities + 8 * place, joint.velocity_rad_s.to_le_bytes());
            self.put(self.torques + 2 * place, joint.torque_permille.to_le_bytes());
            self.put(self.statuswords + 2 * place, joint.statusword.to_le_bytes());
        }
    }

    /// The image of a bus has the lengths of its layout; what is longer is cut.
    fn set_image(&mut self, inputs: &[u8], outputs: &[u8]) {
        for (at, part) in [(self.inputs, inputs), (self.outputs, outputs)] {
            let room = &mut self.bytes[at..];
            // A shorter image leaves zeros, a longer one is cut: a layout that does not fit must
            // not write beyond the message.
            let length = part.len().min(room.len());
            room[..length].copy_from_slice(&part[..length]);
        }
    }
}

/// Returns the names of joints and values, in the order of the message.
fn description(layout: &Layout, joints: &[Joint], period_ns: u64) -> Value {
    type Values = fn(&DeviceLayout) -> (&[MappedValue], usize);
    let values = |of: Values| -> Vec<Value> {
        let of_device = |device: &DeviceLayout| -> Vec<Value> {
            let (values, first) = of(device);
            let one = |value: &MappedValue| {
                json!({
                    "device": device.name, "name": value.name, "index": value.index, "entry": value.entry,
                    "type": value.data_type, "bits": value.bits, "bit_at": 8 * first + value.bit_at,
                })
            };
            values.iter().map(one).collect()
        };
        layout.devices.iter().flat_map(of_device).collect()
    };

    let joint = |joint: &Joint| {
        let name = layout.devices.get(joint.device).map_or("", |device| &device.name);
        json!({
            "name": name, "device": joint.device, "low_rad": joint.low_rad,
            "high_rad": joint.high_rad, "velocity_rad_s": joint.velocity_rad_s,
        })
    };
    let joints: Vec<Value> = joints.iter().map(joint).collect();
    json!({
        "segment": layout.name, "period_ns": period_ns, "joints": joints,
        "inputs": values(|device| (&device.input_values, device.inputs.start)),
        "outputs": values(|device| (&device.output_values, device.outputs.start)),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use onbeat_message::Value as Field;

    /// An encoded cycle without process data, whose other fields are zero.
    pub(crate) fn encoded(cycle: u64, joints: &[JointSample]) -> Vec<u8> {
        let mut message = CycleMessage::new(joints.len(), 0, 0);
        message.set_cycle(&BusCycle { cycle, ..BusCycle::default() }, [0, 0]);
        message.set_robot(None, joints.iter().copied());
        message.bytes
    }

    fn cycle() -> BusCycle {
        BusCycle {
            cycle: 7,
            release_ns: 8,
            dt_ns: 9,
            reference_ns: 10,
            round_trip_ns: 11,
            working_counter: 12,
            expected: 13,
            fresh: true,
            in_op: 14,
            devices: 15,
        }
    }

    /// The definition decides; places computed here must agree with it, for any lengths.
    #[test]
    fn the_message_is_what_its_definition_says() {
        let types = own::types();
        for (joints, inputs, outputs) in
            [(0, 0, 0), (1, 3, 0), (3, 5, 9), (0, 656, 393), (48, 1, 1)]
        {
            let mut message = CycleMessage::new(joints, inputs, outputs);
            message.set_cycle(&cycle(), [20, 21]);
            let robot = RobotState { phase: 2, rung: 1, stopped_by: 3, device: 4, misses: 5 };
            let joint = |n: usize| JointSample {
                target_rad: n as f64 + 0.5,
                actual_rad: -(n as f64),
                velocity_rad_s: 0.25,
                torque_permille: -3,
                statusword: 0x1237,
            };
            let all: Vec<JointSample> = (0..joints).map(joint).collect();
            message.set_robot(Some(robot), all.iter().copied());
            message.set_image(&vec![1; inputs], &vec![2; outputs]);

            let value = types.value(own::CYCLE, &message.bytes).unwrap();
            assert_eq!(types.encode(own::CYCLE, &value).unwrap(), message.bytes, "{joints}");
            let field = |name: &str| value.field(name).unwrap().to_json();
            let numbers = json!([7, 8, 9, 10, 20, 21, 11, 12, 13, 14, 15, true, 2, 1, 3]);
            let names = [
                "cycle",
                "release_ns",
                "dt_ns",
                "reference_ns",
                "wakeup_latency_ns",
                "execution_time_ns",
                "round_trip_ns",
                "working_counter",
                "expected_working_counter",
                "devices_in_op",
                "devices",
                "inputs_new",
                "robot_phase",
                "robot_rung",
                "stopped_by",
            ];
            assert_eq!(Value::from_iter(names.map(field)), numbers);
            let targets: Vec<f64> = all.iter().map(|joint| joint.target_rad).collect();
            assert_eq!(field("target_rad"), json!(targets));
            assert_eq!(field("torque_permille"), json!(vec![-3; joints]));
            assert_eq!(value.field("inputs"), Some(&Field::List(vec![Field::Uint(1); inputs])));
            assert_eq!(value.field("outputs"), Some(&Field::List(vec![Field::Uint(2); outputs])));
        }
    }

    #[test]
    fn a_bus_without_a_robot_says_so() {
        let message = CycleMessage::new(0, 4, 4);
        let value = own::types().value(own::CYCLE, &message.bytes).unwrap();
        assert_eq!(value.field("robot_phase"), Some(&Field::Uint(255)));
    }
}
