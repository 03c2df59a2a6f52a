//! The wire format: fixed bytes, every field there and back, any bytes without a panic.

use onbeat_net::packet::{
    self, ActuatorCommand, ActuatorFeedback, ActuatorMode, EdgeCommand, EdgeReport, IoCommand,
    IoFeedback, PacketBody, PacketError, PacketKind, WireHeader,
};
use proptest::prelude::*;

/// One message of each kind, as hexadecimal lines.
const GOLDEN: &str = include_str!("../net_packet/messages.hex");

fn header(kind: PacketKind) -> WireHeader {
    WireHeader {
        kind,
        device: 0x0102,
        sequence: 0x1112_1314_1516_1718,
        sent_ns: 0x2122_2324_2526_2728,
        received_ns: 0x3132_3334_3536_3738,
        answered_ns: 0x4142_4344_4546_4748,
        session: 0x5152_5354,
        lifetime_us: 0x6162_6364,
    }
}

fn feedback() -> ActuatorFeedback {
    ActuatorFeedback {
        mode: ActuatorMode::Velocity,
        state: 3,
        fault: 0x0405,
        command_age_us: 6,
        command_sequence: 7,
        position_rad: 1.5,
        target_rad: -1.5,
        velocity_rad_s: 0.25,
        torque_nm: -0.25,
        current_a: 2.0,
        supply_v: 48.0,
        temperatures_c: [40.0, 41.0],
        gyro_rad_s: [0.1, 0.2, 0.3],
        acceleration_m_s2: [0.0, 0.5, 9.81],
        loop_cycles: 1_000_000,
        loop_period_ns: 250_000,
        loop_latency_ns: 900,
    }
}

fn bodies() -> [(PacketKind, PacketBody<'static>); 8] {
    let command = ActuatorCommand {
        mode: ActuatorMode::Position,
        position_rad: 0.125,
        velocity_rad_s: 1.0,
        torque_nm: 2.0,
        most_velocity_rad_s: 3.0,
        most_torque_nm: 4.0,
    };
    let pwm = [0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0];
    let outputs = IoCommand { digital_mask: 0xF, digital: 0x5, pwm_mask: 0xFF, pwm };
    let inputs = IoFeedback {
        digital_in: 0xA,
        digital_out: 0x5,
        changed_ns: [1, 2, 3, 4, 5, 6, 7, 8],
        sampled_ns: 9,
        analogue_v: std::array::from_fn(|place| place as f32),
        pwm,
        command_sequence: 10,
        command_age_us: 11,
    };
    let edge = EdgeCommand { edge_ns: 12, release_ns: 13, delay_ns: 200_000 };
    let report = EdgeReport { edge, state: EdgeReport::WRITE_FAILED, taken_ns: 14, written_ns: 15 };
    [
        (PacketKind::EchoRequest, PacketBody::Echo(b"any bytes")),
        (PacketKind::EchoAnswer, PacketBody::Echo(b"any bytes")),
        (PacketKind::ActuatorCommand, PacketBody::ActuatorCommand(command)),
        (PacketKind::ActuatorFeedback, PacketBody::ActuatorFeedback(feedback())),
        (PacketKind::IoCommand, PacketBody::IoCommand(outputs)),
        (PacketKind::IoFeedback, PacketBody::IoFeedback(inputs)),
        (PacketKind::EdgeCommand, PacketBody::EdgeCommand(edge)),
        (PacketKind::EdgeReport, PacketBody::EdgeReport(report)),
    ]
}

fn message(kind: PacketKind, body: &PacketBody<'_>) -> Vec<u8> {
    let bytes = match body {
        PacketBody::Echo(bytes) => bytes.len(),
        _ => kind.body_bytes().expect("a fixed body"),
    };
    let mut message = vec![0xEE; packet::HEADER_BYTES + bytes];
    header(kind).write(&mut message);
    body.write(&mut message[packet::HEADER_BYTES..]);
    message
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of version 1 never change. `ONBEAT_BLESS=1` writes the file for a new version.
#[test]
fn the_bytes_of_each_kind_are_those_of_the_golden_file() {
    let lines: Vec<String> = bodies()
        .iter()
        .map(|(kind, body)| format!("{kind}: {}\n", hex(&message(*kind, body))))
        .collect();
    if std::env::var_os("ONBEAT_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/net_packet/messages.hex");
        std::fs::write(path, lines.concat()).expect("the golden file");
        return;
    }
    assert_eq!(lines.concat(), GOLDEN);
}

#[test]
fn every_field_comes_back() {
    for (kind, body) in bodies() {
        assert_eq!(packet::decode(&message(kind, &body)), Ok((header(kind), body)));
    }
    let actuator = message(PacketKind::ActuatorFeedback, &PacketBody::ActuatorFeedback(feedback()));
    assert_eq!(actuator.len(), 200, "as the actuators of the article send");
}

#[test]
fn a_request_has_an_answer_and_an_answer_has_none() {
    let answers = PacketKind::ALL.map(PacketKind::answer);
    assert_eq!(answers[0], Some(PacketKind::EchoAnswer));
    assert_eq!(answers[2], Some(PacketKind::ActuatorFeedback));
    assert_eq!(answers.iter().flatten().count(), 4);
}

#[test]
fn bytes_that_are_not_a_message_violate_a_named_rule() {
    let good = message(PacketKind::EchoRequest, &PacketBody::Echo(b"any bytes"));
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let length = good.len();
    let cases = [
        (good[..55].to_vec(), PacketError::Short { bytes: 55, header: 56 }),
        (with(0, b'X'), PacketError::Magic { found: *b"XNBT", wanted: packet::MAGIC }),
        (with(4, 2), PacketError::Version { found: 2, wanted: packet::VERSION }),
        (with(5, 0), PacketError::UnknownKind { found: 0 }),
        (with(5, 9), PacketError::UnknownKind { found: 9 }),
        (good[..length - 1].to_vec(), PacketError::Length { stated: 65, bytes: 64 }),
        (with(5, 3), PacketError::Body { kind: PacketKind::ActuatorCommand, bytes: 9, wanted: 32 }),
    ];
    for (bytes, why) in cases {
        assert_eq!(packet::decode(&bytes), Err(why));
    }

    let mut actuator =
        message(PacketKind::ActuatorFeedback, &PacketBody::ActuatorFeedback(feedback()));
    actuator[56] = 4;
    assert_eq!(packet::decode(&actuator), Err(PacketError::UnknownMode { found: 4 }));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_rejected(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0_u8..10, whole in any::<bool>()) {
        let _ = packet::decode(&bytes);
        // The same with a valid beginning, so that bodies are reached.
        if bytes.len() >= packet::HEADER_BYTES && whole {
            bytes[..4].copy_from_slice(&packet::MAGIC);
            bytes[4] = packet::VERSION;
            bytes[5] = kind;
            let length = (bytes.len() as u16).to_le_bytes();
            bytes[48..50].copy_from_slice(&length);
            if let Ok((header, body)) = packet::decode(&bytes) {
                let mut again = vec![0; bytes.len()];
                header.write(&mut again);
                body.write(&mut again[packet::HEADER_BYTES..]);
                // A float may be any pattern of bits, also one that is equal to nothing.
                prop_assert_eq!(packet::decode(&again).map(|(header, _)| header), Ok(header));
            }
        }
    }
}
