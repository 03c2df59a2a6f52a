//! Compares the fast path with the general one: for any frames, settings and faults, both give the
//! same bytes and leave devices in the same state.

use onbeat_ethercat::ring::Nic;
use onbeat_rt::time::Instant;
use proptest::collection::vec;
use proptest::prelude::*;

use super::esc::ReadMode;
use super::fault::Fault;
use super::registers::{MEMORY_END, MEMORY_START};
use super::segment::Segment;

/// A ring with various devices: a branch, one device without a clock, two of the same type.
const RING: &str = "[segment]\nname = \"ring\"\nring = true\n[types.drive]\nkind = \"drive\"\n[types.imu]\nkind = \"imu\"\n\
    [types.contacts]\nkind = \"digital\"\nclock = false\ndelay_us = 300\n[types.fork]\nkind = \"coupler\"\nports = 4\n\
    [[devices]]\ntype = \"drive\"\nname = \"0\"\n[[devices]]\ntype = \"fork\"\nname = \"1\"\n\
    [[devices]]\ntype = \"contacts\"\nname = \"2\"\nafter = \"1\"\nport = 3\n\
    [[devices]]\ntype = \"imu\"\nname = \"3\"\nafter = \"1\"\nport = 1\n[[devices]]\ntype = \"drive\"\nname = \"4\"\n";
const DEVICES: u16 = 5;
/// Length of the logical process data, and start addresses in the devices.
const LOGICAL: u16 = 72;
const OUTPUTS: u16 = 0x1800;
const INPUTS: u16 = 0x2400;

/// Command number, address, offset, data.
type RawDatagram = (u8, u16, u16, Vec<u8>);

#[derive(Clone, Debug)]
enum TestStep {
    Frame(bool, Vec<RawDatagram>),
    Wait(u64),
    Fault(Fault, bool),
}

/// Cyclic datagrams, to any station, complete or partial.
fn cyclic() -> impl Strategy<Value = RawDatagram> {
    let station = prop_oneof![0x1001..0x1001 + DEVICES, Just(0x1fff)];
    let time = (prop_oneof![9 => Just(8usize), 1 => 1..12usize], any::<[u8; 12]>());

    prop_oneof![
        (station, time).prop_map(|(station, (length, data))| (
            14,
            station,
            0x0910,
            data[..length].to_vec()
        )),
        (any::<u16>(), 0..8u16, 0..4u8).prop_map(|(position, channel, value)| {
            (7, position, 0x0805 + 8 * channel, vec![value])
        }),
        prop_oneof![
            Just((0x092c, 4)),
            Just((0x0130, 2)),
            (0x0128..0x0138u16, 1..8usize),
            (0x0928..0x0930u16, 1..8usize)
        ]
        .prop_map(|(offset, length)| (7, 0, offset, vec![0; length])),
        (10..13u8, 0..LOGICAL, vec(any::<u8>(), 0..96))
            .prop_map(|(command, at, data)| (command, at, 0, data)),
        (10..13u8, vec(any::<u8>(), 96)).prop_map(|(command, data)| (command, 0, 0, data)),
    ]
}

/// Settings that the fast path depends on: FMMUs, SyncManagers, addresses, AL states, loops, the
/// clock.
fn setting() -> impl Strategy<Value = RawDatagram> {
    let physical = prop_oneof![
        Just(OUTPUTS),
        Just(INPUTS),
        0x1800..0x1808u16,
        Just(0x2ffcu16),
        Just(0xfffau16),
        0x0800..0x0840u16
    ];
    let bits = prop_oneof![4 => Just((0u8, 7u8, 0u8)), 1 => (0..8u8, 0..8u8, 0..8u8)];
    let fmmu = (0..4u16, 0..LOGICAL as u8, 0..16u8, physical.clone(), bits, 0..4u8).prop_map(
        |(channel, logical, length, physical, (first, last, bit), direction)| {
            let [low, high] = physical.to_le_bytes();
            let registers = vec![
                logical, 0, 0, 0, length, 0, first, last, low, high, bit, direction, 1, 0, 0, 0,
            ];
            (0x0600 + 16 * channel, registers)
        },
    );
    let kinds =
        prop_oneof![Just(0x64u8), Just(0x20), Just(0x26), Just(0x22), Just(0x24), any::<u8>()];
    let sync_manager = (0..5u16, physical, 0..16u8, kinds, 0..4u8).prop_map(
        |(channel, start, length, kind, enable)| {
            let [low, high] = start.to_le_bytes();
            (0x0800 + 8 * channel, vec![low, high, length, 0, kind, 0, enable, 0])
        },
    );

    let other = prop_oneof![
        (0x1001..0x1003u16).prop_map(|station| (0x0010, station.to_le_bytes().to_vec())),
        prop_oneof![Just(2u8), Just(4), Just(8), Just(0x14), any::<u8>()]
            .prop_map(|state| (0x0120, vec![state, 0])),
        (0..4u8).prop_map(|control| (0x0101, vec![control << 2])),
        (0..4u8).prop_map(|depth| (0x0934, vec![depth])),
        (0x0918..0x0932u16, vec(any::<u8>(), 1..12)),
        (0..3u8).prop_map(|units| (0x0420, vec![units, 0])),
    ];
    (
        prop_oneof![Just(4u8), Just(5), Just(6), Just(8), Just(13)],
        0..=DEVICES,
        prop_oneof![fmmu, sync_manager, other],
    )
        .prop_map(|(command, place, (offset, data))| {
            let address = if command == 13 { 0u16.wrapping_sub(place) } else { 0x1001 + place };
            (command, address, offset, data)
        })
}

fn anything() -> impl Strategy<Value = RawDatagram> {
    (0..16u8, any::<u16>(), 0..0x1100u16, vec(any::<u8>(), 0..300))
}

fn fault() -> impl Strategy<Value = Fault> {
    (0..usize::from(DEVICES), -3..4i16, 0..8u8).prop_map(|(device, by, kind)| match kind {
        0 => Fault::CounterOff { device: Some(device), by },
        1 => Fault::CounterOff { device: None, by },
        2 => Fault::Cut { device },
        3 => Fault::PowerOff { device },
        4 => Fault::AlError { device, code: 0x1b },
        5 => Fault::ClockStep { device, by_ns: i64::from(by) * 100_000 },
        6 => Fault::ClockDrift { device, by_ppb: i64::from(by) * 10_000 },
        _ => Fault::Emergency { device, code: 0x5000 },
    })
}

fn step() -> impl Strategy<Value = TestStep> {
    let datagram = prop_oneof![6 => cyclic(), 3 => setting(), 1 => anything()];
    prop_oneof![
        8 => (prop::bool::weighted(0.9), vec(datagram, 1..5)).prop_map(|(first, datagrams)| TestStep::Frame(first, datagrams)),
        2 => prop_oneof![0..1_000u64, 0..2_000_000u64, 0..300_000_000u64].prop_map(TestStep::Wait),
        1 => (fault(), any::<bool>()).prop_map(|(fault, begins)| TestStep::Fault(fault, begins)),
    ]
}

fn frame_of(datagrams: &[RawDatagram]) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    let length: usize = datagrams.iter().map(|(.., data)| data.len() + 12).sum();
    frame.extend([0x88, 0xa4]);
    frame.extend((length as u16 | 0x1000).to_le_bytes());
    for (number, (command, address, offset, data)) in datagrams.iter().enumerate() {
        let more = if number + 1 < datagrams.len() { 0x8000 } else { 0 };
        frame.extend([*command, number as u8]);
        for word in [*address, *offset, data.len() as u16 | more, 0] {
            frame.extend(word.to_le_bytes());
        }

        frame.extend(data);
        frame.extend([0, 0]);
    }

    frame
}

/// Two identical segments, one with the fast path, at the same instant.
struct Twins {
    fast: Segment,
    general: Segment,
    now_ns: u64,
}

impl Twins {
    /// Both in OP, with consecutive process data.
    fn in_op() -> Self {
        let fast = Segment::from_toml(RING).unwrap();
        let mut twins = Self { general: fast.clone(), fast, now_ns: 1_000_000 };
        twins.general.fast_path = false;
        let mut logical = 0;
        for device in 0..DEVICES {
            twins.frame(
                true,
                &[(2, 0u16.wrapping_sub(device), 0x0010, (0x1001 + device).to_le_bytes().to_vec())],
            );
            let settings = twins.settings(device, &mut logical);
            for (offset, data) in settings {
                twins.frame(true, &[(5, 0x1001 + device, offset, data)]);
            }

            for state in [2, 4, 8] {
                twins.frame(true, &[(5, 0x1001 + device, 0x0120, vec![state, 0])]);
                twins.now_ns += 10_000;
            }
        }

        twins.frame(true, &[(12, 0, 0, vec![0; usize::from(logical)])]);
        assert!(u16::from(logical) <= LOGICAL, "{logical}");
        assert!(
            (0..usize::from(DEVICES))
                .all(|device| twins.fast.status(device).unwrap().al_state == 8)
        );
        twins
    }

    fn settings(&self, device: u16, logical: &mut u8) -> Vec<(u16, Vec<u8>)> {
        let status = self.fast.status(usize::from(device)).unwrap();
        let has_mailbox = self.fast.devices[usize::from(device)].firmware.mailbox.is_some();
        let mut settings = Vec::new();
        let sync_manager = |channel: u16, start: u16, length: u8, kind: u8| {
            let [low, high] = start.to_le_bytes();
            (0x0800 + 8 * channel, vec![low, high, length, 0, kind, 0, u8::from(length > 0), 0])
        };

        if has_mailbox {
            settings
                .extend([sync_manager(0, 0x1000, 128, 0x26), sync_manager(1, 0x1080, 128, 0x22)]);
        }

        let first = if has_mailbox { 2 } else { 0 };
        let areas = [
            (OUTPUTS, status.output_bytes as u8, 0x64, 2),
            (INPUTS, status.input_bytes as u8, 0x20, 1),
        ];
        for (number, (start, length, kind, direction)) in (0..).zip(areas) {
            settings.push(sync_manager(first + number, start, length, kind));
            let [low, high] = start.to_le_bytes();
            let fmmu =
                vec![*logical, 0, 0, 0, length, 0, 0, 7, low, high, 0, direction, 1, 0, 0, 0];
            settings.push((0x0600 + 16 * number, fmmu));
            *logical += length;
        }

        settings
    }

    fn frame(&mut self, first: bool, datagrams: &[RawDatagram]) {
        let nic = if first { Nic::First } else { Nic::Second };
        let now = Instant::from_ns(self.now_ns);
        let mut fast = frame_of(datagrams);
        let mut general = fast.clone();
        let passages = [
            self.fast.frame_from(nic, &mut fast, now),
            self.general.frame_from(nic, &mut general, now),
        ];

        assert_eq!(passages[0], passages[1], "{datagrams:x?}");
        assert_eq!(fast, general, "{datagrams:x?}");
    }

    fn run(&mut self, step: &TestStep) {
        match step {
            TestStep::Frame(first, datagrams) => self.frame(*first, datagrams),
            TestStep::Wait(ns) => self.now_ns += ns,
            TestStep::Fault(fault, true) => {
                assert_eq!(self.fast.begin(fault), self.general.begin(fault));
            }
            TestStep::Fault(fault, false) => {
                assert_eq!(self.fast.end(fault), self.general.end(fault));
            }
        }
    }

    /// Compares the complete state of the devices some time later, after all registers were read.
    fn compare(&mut self) {
        self.now_ns += 7_000_000;
        let now = Instant::from_ns(self.now_ns);
        let [fast, general] = [&mut self.fast, &mut self.general].map(|segment| {
            segment.advance(now);
            for device in &mut segment.devices {
                device.esc.read(0, &mut [0; MEMORY_START], ReadMode::Replace, now.as_ns());
            }
            format!("{:?}", segment.devices)
        });

        assert!(fast == general, "the devices differ");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fast_path_and_the_general_one_agree(steps in vec(step(), 1..60)) {
        let mut twins = Twins::in_op();
        for step in &steps {
            twins.run(step);
        }
        twins.compare();
    }
}

#[test]
fn an_area_beyond_the_end_of_memory_is_accessible_up_to_the_end() {
    let mut twins = Twins::in_op();
    let [low, high] = (MEMORY_END as u16 - 2).to_le_bytes();
    twins.frame(true, &[(5, 0x1001, 0x0810, vec![low, high, 8, 0, 0x20, 0, 1, 0])]);
    twins.frame(true, &[(4, 0x1001, MEMORY_END as u16 - 2, vec![0; 8])]);
    twins.frame(true, &[(5, 0x1001, 0x0810, vec![0, 0xf0, 8, 0, 0x20, 0, 1, 0])]);
    twins.frame(true, &[(4, 0x1001, 0xf000, vec![0; 8])]);
    twins.compare();
}

/// Found by a random sequence: register values of the last read came back as a mail.
#[test]
fn a_mailbox_set_up_over_the_registers_receives_nothing_from_them() {
    let mut twins = Twins::in_op();
    twins.frame(true, &[(8, 0x1001, 0x0800, vec![0x00, 0x08, 6, 0, 0x64, 0, 0, 0])]);
    twins.frame(true, &[(8, 0x1001, 0x0810, vec![0x00, 0x18, 1, 0, 0x26, 0, 1, 0])]);
    twins.frame(true, &[(11, 0, 0, vec![0]), (7, 0, 0x0805, vec![0])]);
    twins.compare();
}
