//! Layout of the memory that a bus shows its clients, as specified in `include/onbeat_control.h`.
//!
//! Words have native byte order: the memory is never shared between machines.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64};

use onbeat_rt::latest::Latest;

use super::map::SharedMemory;
use onbeat_ethercat::step::{BusCycle, RobotState};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ONBEATCI");
/// Version of layout and messages; changes with every change of them.
pub(super) const ABI: u32 = 6;
/// Number of slots of the image, of owner outputs, and of goals.
pub(super) const SLOTS: usize = 4;
/// Number of events kept.
pub(super) const EVENTS: usize = 1024;
pub(super) const EVENT_BYTES: usize = 32;
/// Maximum number of concurrent requests.
pub(super) const REQUESTS: usize = 16;
/// Maximum length of a request or answer, in bytes.
pub(super) const REQUEST_BYTES: usize = 1024;
/// Bytes of [`BusCycle`] and [`RobotState`] in a slot.
pub(super) const CYCLE_BYTES: usize = 56;
/// Offset of the robot's state.
const ROBOT_AT: usize = 48;
/// Bytes of the record of a device, and of a value.
pub(super) const DEVICE_BYTES: usize = 128;
pub(super) const VALUE_BYTES: usize = 64;
/// Words of the record of a device's errors: 20 counts of 16 bits, then 1 once they were
/// read; a cache line.
pub(super) const ERROR_WORDS: usize = 8;
/// Word that is 1 once they were read.
pub(super) const ERROR_IS_READ: usize = 5;
/// Bytes of the record of a joint, and of a goal's head: time of creation, flags.
pub(super) const JOINT_BYTES: usize = 48;
pub(super) const GOAL_BYTES: usize = 16;
/// Goal flag: the commander has left.
pub(super) const LAST_GOAL: u64 = 1;
pub(super) const NAME_BYTES: usize = 64;
pub(super) const VALUE_NAME_BYTES: usize = 48;

/// State of the bus process, as it reports it; a killed process reports nothing.
pub(super) mod state {
    pub(crate) const RUNNING: u32 = 1;
    pub(crate) const ENDED: u32 = 2;
}

/// First page: identification and sizes. Constant once `magic` is set, except `state`,
/// `answered_at`, `link` and `answering`.
#[repr(C, align(64))]
pub(super) struct ImageHeader {
    pub(super) magic: AtomicU64,
    pub(super) abi: AtomicU32,
    pub(super) sharing: AtomicU32,
    pub(super) total_bytes: AtomicU64,
    pub(super) layout_hash: AtomicU64,
    /// Differs between two images of the same name.
    pub(super) instance: AtomicU64,
    /// Id of the bus process.
    pub(super) bus: AtomicU32,
    pub(super) state: AtomicU32,
    pub(super) devices: AtomicU32,
    pub(super) values: AtomicU32,
    pub(super) input_bytes: AtomicU32,
    pub(super) output_bytes: AtomicU32,
    pub(super) stale_after: AtomicU32,
    pub(super) events: AtomicU32,
    /// Number of joints that follow goals; 0 if none do.
    pub(super) joints: AtomicU32,
    /// Maximum age of a goal, in µs.
    pub(super) goal_age_us: AtomicU32,
    pub(super) places: [AtomicU64; 8],
    pub(super) segment: [AtomicU64; NAME_BYTES / 8],
    /// When all frames of a cycle were last answered, by `CLOCK_MONOTONIC` in ns; 0 before the
    /// first cycle.
    pub(super) answered_at: AtomicU64,
    /// Link of the interface; see [`CableLink`](super::CableLink).
    pub(super) link: AtomicU32,
    /// Number of devices that processed the last frame.
    pub(super) answering: AtomicU32,
    pub(super) spare: [AtomicU64; 4],
}

/// A word in a cache line of its own.
#[repr(C, align(64))]
pub(super) struct PaddedWord(pub(super) AtomicU64);

/// Words that change while the bus runs, each in a cache line of its own.
#[repr(C, align(64))]
pub(super) struct LiveWords {
    /// Number of image publications.
    pub(super) image: PaddedWord,
    /// Number of events.
    pub(super) events: PaddedWord,
    /// Id of the process that owns the outputs, 0 for none.
    pub(super) owner: PaddedWord,
    /// Id of the process that commands the joints, 0 for none.
    pub(super) commander: PaddedWord,
    /// Result of the goal evaluated last: its number × 4 + the answer.
    pub(super) answer: PaddedWord,
}

// `include/onbeat_control.h` asserts the same.
const _: () =
    assert!(size_of::<ImageHeader>() == 256 && std::mem::offset_of!(ImageHeader, answering) == 220);
const _: () =
    assert!(size_of::<LiveWords>() == 320 && std::mem::offset_of!(LiveWords, answer) == 256);
const _: () = assert!(size_of::<super::stats::StatsBlock>() == 19_328);

// SAFETY: `repr(C)`, atomics only.
unsafe impl SharedMemory for ImageHeader {}
// SAFETY: as above.
unsafe impl SharedMemory for LiveWords {}

/// Sizes that determine all offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageSize {
    pub(super) devices: usize,
    pub(super) values: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) joints: usize,
}

/// Returns the words of a slot. The reader of one slot and the writer of the next share no cache
/// line.
fn slot_words(parts: &[usize]) -> usize {
    Latest::slot_words(parts).next_multiple_of(8)
}

impl ImageSize {
    /// Words of a goal after its head: one bit per joint, then one position per joint.
    pub(super) const fn goal_words(self) -> usize {
        self.joints.div_ceil(64) + self.joints
    }

    /// Words of a slot of the owner's outputs.
    pub(super) fn output_slot_words(self) -> usize {
        slot_words(&[self.outputs])
    }

    /// Words of a slot of the commander's goals.
    pub(super) fn goal_slot_words(self) -> usize {
        slot_words(&[GOAL_BYTES, 8 * self.goal_words()])
    }
}

/// Offsets of all parts, in bytes from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageOffsets {
    pub(super) live: usize,
    pub(super) table: usize,
    pub(super) states: usize,
    pub(super) image: usize,
    pub(super) events: usize,
    pub(super) stats: usize,
    pub(super) joints: usize,
    pub(super) link_errors: usize,
    pub(super) total: usize,
    pub(super) image_slot_words: usize,
}

impl ImageOffsets {
    pub(super) fn new(size: ImageSize) -> Self {
        let image_slot_words = slot_words(&[CYCLE_BYTES, size.inputs, size.outputs]);
        let mut end = size_of::<ImageHeader>();
        let mut next = |bytes: usize| {
            let at = end.next_multiple_of(64);
            end = at + bytes;
            at
        };

        Self {
            live: next(size_of::<LiveWords>()),
            table: next(size.devices * DEVICE_BYTES + size.values * VALUE_BYTES),
            states: next(size.devices * 8),
            image: next(SLOTS * image_slot_words * 8),
            events: next(EVENTS * (8 + EVENT_BYTES)),
            stats: next(size_of::<super::stats::StatsBlock>()),
            joints: next(size.joints * JOINT_BYTES),
            link_errors: next(size.devices * ERROR_WORDS * 8),
            total: next(0),
            image_slot_words,
        }
    }

    /// Offsets in the header before the name of the segment.
    pub(super) const fn published(&self) -> [usize; 8] {
        [
            self.live,
            self.table,
            self.states,
            self.image,
            self.events,
            self.stats,
            self.joints,
            self.link_errors,
        ]
    }
}

/// Encodes a cycle and the robot's state for a slot; zeros without a robot.
pub(super) fn cycle_bytes(cycle: &BusCycle, robot: Option<RobotState>) -> [u8; CYCLE_BYTES] {
    let frame = u64::from(cycle.round_trip_ns)
        | u64::from(cycle.working_counter) << 32
        | u64::from(cycle.expected) << 48;
    let devices =
        u64::from(cycle.fresh) | u64::from(cycle.in_op) << 16 | u64::from(cycle.devices) << 32;
    let mut bytes = [0; CYCLE_BYTES];
    let words = [cycle.cycle, cycle.release_ns, cycle.dt_ns, cycle.reference_ns, frame, devices];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }

    if let Some(RobotState { phase, rung, stopped_by, device, misses }) = robot {
        let [device, misses] = [device.to_ne_bytes(), misses.to_ne_bytes()];
        let of_robot = [phase, rung, stopped_by, 1, device[0], device[1], misses[0], misses[1]];
        bytes[ROBOT_AT..].copy_from_slice(&of_robot);
    }

    bytes
}

/// Decodes the result of [`cycle_bytes`].
pub(super) fn cycle_of(bytes: &[u8; CYCLE_BYTES]) -> (BusCycle, Option<RobotState>) {
    let mut words = [0; ROBOT_AT / 8];
    for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*place);
    }

    let [cycle, release_ns, dt_ns, reference_ns, frame, devices] = words;
    let cycle = BusCycle {
        cycle,
        release_ns,
        dt_ns,
        reference_ns,
        round_trip_ns: frame as u32,
        working_counter: (frame >> 32) as u16,
        expected: (frame >> 48) as u16,
        fresh: devices & 1 != 0,
        in_op: (devices >> 16) as u16,
        devices: (devices >> 32) as u16,
    };

    let [.., phase, rung, stopped_by, is_there, device, device_too, misses, misses_too] = *bytes;
    let robot = RobotState {
        phase,
        rung,
        stopped_by,
        device: u16::from_ne_bytes([device, device_too]),
        misses: u16::from_ne_bytes([misses, misses_too]),
    };

    (cycle, (is_there != 0).then_some(robot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_survives_encoding_and_decoding() {
        let cycle = BusCycle {
            cycle: u64::MAX - 1,
            release_ns: 2,
            dt_ns: 3,
            reference_ns: 4,
            round_trip_ns: u32::MAX - 5,
            working_counter: 171,
            expected: 172,
            fresh: true,
            in_op: 58,
            devices: 59,
        };

        let robot = RobotState { phase: 3, rung: 3, stopped_by: 2, device: 0x1234, misses: 0x5678 };
        for robot in [None, Some(robot)] {
            assert_eq!(cycle_of(&cycle_bytes(&cycle, robot)), (cycle, robot));
        }

        assert_eq!(cycle_of(&[0; CYCLE_BYTES]), (BusCycle::default(), None));
    }

    #[test]
    fn nothing_overlaps_and_everything_begins_with_a_cache_line() {
        let offsets = ImageOffsets::new(ImageSize {
            devices: 59,
            values: 1180,
            inputs: 656,
            outputs: 393,
            joints: 48,
        });
        let mut all = offsets.published().to_vec();
        all.push(offsets.total);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(all.iter().all(|place| place.is_multiple_of(64)));
    }
}
