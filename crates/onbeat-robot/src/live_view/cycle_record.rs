//! A record of the channel of cycles, read in place.

use crate::cycle_messages::{ARRAYS_AT, HEADER, JointSample};

/// The fields of one cycle that the live view shows. Arrays have one value per joint.
///
/// The places are those of `onbeat_msgs/msg/Cycle` in CDR, little-endian (`docs/ring.md`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CycleRecord<'r> {
    /// Number of the cycle since the bus reached OP.
    pub cycle: u64,
    /// Release, by `CLOCK_MONOTONIC`, in ns.
    pub release_ns: u64,
    /// Time since the previous step of the controller, in ns: a whole number of periods.
    pub dt_ns: u64,
    /// From the release to the start of the cycle, in ns.
    pub wakeup_latency_ns: u64,
    /// From the start of the cycle until control and exchange were done, in ns.
    pub execution_time_ns: u64,
    /// From sending the frame to its reply, in ns; 0 without a reply.
    pub round_trip_ns: u32,
    /// Working counter of the process data.
    pub working_counter: u16,
    /// Its value when all devices are in OP.
    pub expected: u16,
    /// Devices in OP.
    pub in_op: u16,
    /// Whether all inputs are new.
    pub is_fresh: bool,
    /// Phase of the robot.
    pub phase: u8,
    /// Rung of the miss ladder.
    pub rung: u8,
    targets: &'r [u8],
    actuals: &'r [u8],
    velocities: &'r [u8],
    torques: &'r [u8],
    statuswords: &'r [u8],
}

impl<'r> CycleRecord<'r> {
    /// Reads a record; `None` when it is too short for what it states.
    pub(super) fn from_bytes(bytes: &'r [u8]) -> Option<Self> {
        let body = bytes.get(HEADER..)?;
        let mut place = ARRAYS_AT - HEADER;
        let mut sequence = |size: usize| {
            place = usize::next_multiple_of(place, 4);
            let count = u32::from_le_bytes(part(body, place)?) as usize;
            place += 4;
            // CDR aligns elements, and a sequence without any is followed at once by the next.
            if count > 0 {
                place = place.next_multiple_of(size);
            }

            // Checked: the count is what another process has written.
            let values = body.get(place..place.checked_add(count.checked_mul(size)?)?)?;
            place += values.len();
            Some(values)
        };
        let targets = sequence(8)?;
        let actuals = sequence(8)?;
        let velocities = sequence(8)?;
        let torques = sequence(2)?;
        let statuswords = sequence(2)?;

        let word = |number: usize| Some(u64::from_le_bytes(part(body, 8 * number)?));
        let half = |at: usize| Some(u16::from_le_bytes(part(body, at)?));
        Some(Self {
            cycle: word(0)?,
            release_ns: word(1)?,
            dt_ns: word(2)?,
            wakeup_latency_ns: word(4)?,
            execution_time_ns: word(5)?,
            round_trip_ns: u32::from_le_bytes(part(body, 48)?),
            working_counter: half(52)?,
            expected: half(54)?,
            in_op: half(56)?,
            is_fresh: *body.get(60)? != 0,
            phase: *body.get(61)?,
            rung: *body.get(62)?,
            targets,
            actuals,
            velocities,
            torques,
            statuswords,
        })
    }

    /// Returns the joints.
    pub(super) fn joints(&self) -> impl Iterator<Item = JointSample> {
        let floats = |bytes: &'r [u8]| {
            bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes))
        };
        let torques = self.torques.as_chunks().0;
        let statuswords = self.statuswords.as_chunks().0;
        let motion = floats(self.targets).zip(floats(self.actuals)).zip(floats(self.velocities));
        let all = motion.zip(torques.iter().zip(statuswords));

        all.map(|(((target_rad, actual_rad), velocity_rad_s), (torque, status))| JointSample {
            target_rad,
            actual_rad,
            velocity_rad_s,
            torque_permille: i16::from_le_bytes(*torque),
            statusword: u16::from_le_bytes(*status),
        })
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_message::{Value, own};

    /// The definition decides; places computed here must agree with it, for any number of joints.
    #[test]
    fn a_record_is_read_as_its_definition_says() {
        let types = own::types();
        for joints in [0, 1, 2, 3, 48] {
            let list =
                |value: &dyn Fn(usize) -> Value| Value::List((0..joints).map(value).collect());
            let fields = [
                ("cycle", Value::Uint(7)),
                ("release_ns", Value::Uint(8)),
                ("dt_ns", Value::Uint(9)),
                ("wakeup_latency_ns", Value::Uint(11)),
                ("execution_time_ns", Value::Uint(12)),
                ("round_trip_ns", Value::Uint(13)),
                ("working_counter", Value::Uint(14)),
                ("expected_working_counter", Value::Uint(15)),
                ("devices_in_op", Value::Uint(16)),
                ("inputs_new", Value::Bool(true)),
                ("robot_phase", Value::Uint(2)),
                ("robot_rung", Value::Uint(1)),
                ("target_rad", list(&|n| Value::Float64(n as f64 + 0.5))),
                ("actual_rad", list(&|n| Value::Float64(-(n as f64)))),
                ("velocity_rad_s", list(&|_| Value::Float64(0.25))),
                ("torque_permille", list(&|n| Value::Int(-3 - n as i64))),
                ("statusword", list(&|n| Value::Uint(0x1237 + n as u64))),
            ];
            let mut value = types.value(own::CYCLE, &empty()).unwrap();
            fields.into_iter().for_each(|(name, given)| value.set(name, given));

            let bytes = types.encode(own::CYCLE, &value).unwrap();
            let record = CycleRecord::from_bytes(&bytes).unwrap();
            let numbers = [record.cycle, record.release_ns, record.dt_ns];
            assert_eq!(numbers, [7, 8, 9]);
            assert_eq!((record.wakeup_latency_ns, record.execution_time_ns), (11, 12));
            assert_eq!(
                (record.round_trip_ns, record.working_counter, record.expected),
                (13, 14, 15)
            );
            assert_eq!(
                (record.in_op, record.is_fresh, record.phase, record.rung),
                (16, true, 2, 1)
            );
            let expected: Vec<JointSample> = (0..joints)
                .map(|n| JointSample {
                    target_rad: n as f64 + 0.5,
                    actual_rad: -(n as f64),
                    velocity_rad_s: 0.25,
                    torque_permille: -3 - n as i16,
                    statusword: 0x1237 + n as u16,
                })
                .collect();
            assert_eq!(record.joints().collect::<Vec<_>>(), expected, "{joints}");
        }
    }

    /// A record without joints and process data: all fields zero.
    fn empty() -> Vec<u8> {
        let mut bytes = vec![0; 4 + 64 + 7 * 4];
        bytes[1] = 1;
        bytes
    }

    #[test]
    fn a_record_that_is_cut_off_anywhere_in_its_joints_is_refused() {
        let mut bytes = empty();
        bytes[4 + 64] = 2;
        bytes.resize(4 + 64 + 4 + 4 + 16 + 6 * 4, 0);
        assert!(CycleRecord::from_bytes(&bytes).is_some());
        for length in 0..4 + 64 + 4 + 4 + 16 + 4 * 4 {
            assert_eq!(CycleRecord::from_bytes(&bytes[..length]), None, "{length}");
        }

        let mut huge = empty();
        huge[4 + 64..4 + 68].fill(0xff);
        assert_eq!(CycleRecord::from_bytes(&huge), None);
    }
}
