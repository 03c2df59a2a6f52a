//! The golden messages, decoded by others: the C header of firmware, and tshark with our dissector.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onbeat_net::packet::{self, ActuatorCommand, ActuatorFeedback, PacketBody};

const GOLDEN: &str = include_str!("../net_packet/messages.hex");
/// The header's languages and byte orders: compiler, its options, what runs the program, and the Debian packages of both.
const DIALECTS: [(&str, &[&str], &[&str], &str); 4] = [
    ("cc", &["-std=c11"], &[], "gcc"),
    ("c++", &["-x", "c++", "-std=c++17"], &[], "g++"),
    ("powerpc-linux-gnu-gcc", &["-std=c11", "-static"], &["qemu-ppc-static"], POWERPC),
    ("powerpc-linux-gnu-gcc", &["-std=c11", "-static", "-O2"], &["qemu-ppc-static"], POWERPC),
];
/// Big-endian, as the boards of Mossige, Sampath and Rao (2007).
const POWERPC: &str = "gcc-powerpc-linux-gnu, libc6-dev-powerpc-cross, qemu-user-static";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn messages() -> Vec<Vec<u8>> {
    let bytes = |line: &str| {
        let (_, hex) = line.split_once(": ").expect("a name and bytes");
        let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        (0..hex.len()).step_by(2).map(pair).collect()
    };
    GOLDEN.lines().map(bytes).collect()
}

/// Runs a program on the messages; `None` when it is not installed.
fn output(command: &mut Command, input: &[u8], package: &str) -> Option<String> {
    let started =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(why) => {
            println!("skipped: {command:?} cannot be run ({why}); Debian package {package}");
            return None;
        }
    };
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads all");
    let done = child.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).expect("text"))
}

#[test]
fn the_c_header_reads_and_writes_the_same_fields_in_either_byte_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut input = Vec::new();
    for message in messages() {
        input.extend((message.len() as u16).to_le_bytes());
        input.extend(message);
    }
    input.extend([3, 0, 1, 2, 3]);

    let head = "device=258 sequence=1112131415161718 lifetime=61626364";
    let expected = format!(
        "kind=1 {head}\nkind=2 {head}\n\
         kind=3 {head} mode=1 position=0.125 most_torque=4\n\
         kind=4 {head} mode=2 target=-1.5 gyro=0.3 latency=900\n\
         kind=5 {head} mask=15 pwm=1\n\
         kind=6 {head} in=10 changed=8 analogue=15 age=11\n\
         kind=7 {head} edge=12 delay=200000\n\
         kind=8 {head} release=13 state=1 written=15\n\
         not a message\n"
    );
    for (place, (compiler, words, emulator, package)) in DIALECTS.into_iter().enumerate() {
        let program = folder.path().join(format!("decode-{place}"));
        let mut compile = Command::new(compiler);
        compile.args(words).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        compile.arg(here("../../include")).arg(here("tests/net_c/decode.c"));
        if output(compile.arg("-o").arg(&program), &[], package).is_some() {
            let mut run = Command::new(emulator.first().map_or(program.as_os_str(), OsStr::new));
            run.args(emulator.iter().map(|_| &program));
            if let Some(found) = output(&mut run, &input, package) {
                assert_eq!(found, expected, "{compiler} {words:?}");
            }
        }
    }
}

/// The fields of a message by our own decoder, as the dissector names them.
fn fields(message: &[u8]) -> Vec<(&'static str, Vec<f64>)> {
    let (header, body) = packet::decode(message).expect("a message");
    let mut fields = vec![
        ("version", vec![1.0]),
        ("kind", vec![f64::from(header.kind as u8)]),
        ("device", vec![header.device.into()]),
        ("sequence", vec![header.sequence as f64]),
        ("sent_ns", vec![header.sent_ns as f64]),
        ("received_ns", vec![header.received_ns as f64]),
        ("answered_ns", vec![header.answered_ns as f64]),
        ("session", vec![header.session.into()]),
        ("lifetime_us", vec![header.lifetime_us.into()]),
        ("length", vec![message.len() as f64]),
    ];
    fields.extend(match body {
        PacketBody::Echo(_) => Vec::new(),
        PacketBody::ActuatorCommand(command) => command_fields(command),
        PacketBody::ActuatorFeedback(feedback) => feedback_fields(feedback),
        PacketBody::IoCommand(outputs) => vec![
            ("outputs.digital_mask", vec![outputs.digital_mask.into()]),
            ("outputs.digital", vec![outputs.digital.into()]),
            ("outputs.pwm_mask", vec![outputs.pwm_mask.into()]),
            ("outputs.pwm", outputs.pwm.map(f64::from).into()),
        ],
        PacketBody::IoFeedback(inputs) => vec![
            ("inputs.digital_in", vec![inputs.digital_in.into()]),
            ("inputs.digital_out", vec![inputs.digital_out.into()]),
            ("inputs.changed_ns", inputs.changed_ns.map(|ns| ns as f64).into()),
            ("inputs.sampled_ns", vec![inputs.sampled_ns as f64]),
            ("inputs.analogue_v", inputs.analogue_v.map(f64::from).into()),
            ("inputs.pwm", inputs.pwm.map(f64::from).into()),
            ("inputs.command_sequence", vec![inputs.command_sequence as f64]),
            ("inputs.command_age_us", vec![inputs.command_age_us.into()]),
        ],
        PacketBody::EdgeCommand(edge) => vec![
            ("edge.edge_ns", vec![edge.edge_ns as f64]),
            ("edge.release_ns", vec![edge.release_ns as f64]),
            ("edge.delay_ns", vec![edge.delay_ns.into()]),
        ],
        PacketBody::EdgeReport(report) => vec![
            ("report.edge_ns", vec![report.edge.edge_ns as f64]),
            ("report.release_ns", vec![report.edge.release_ns as f64]),
            ("report.delay_ns", vec![report.edge.delay_ns.into()]),
            ("report.state", vec![report.state.into()]),
            ("report.taken_ns", vec![report.taken_ns as f64]),
            ("report.written_ns", vec![report.written_ns as f64]),
        ],
    });
    fields
}

fn command_fields(command: ActuatorCommand) -> Vec<(&'static str, Vec<f64>)> {
    vec![
        ("command.mode", vec![f64::from(command.mode as u8)]),
        ("command.position_rad", vec![command.position_rad]),
        ("command.velocity_rad_s", vec![command.velocity_rad_s.into()]),
        ("command.torque_nm", vec![command.torque_nm.into()]),
        ("command.most_velocity_rad_s", vec![command.most_velocity_rad_s.into()]),
        ("command.most_torque_nm", vec![command.most_torque_nm.into()]),
    ]
}

fn feedback_fields(feedback: ActuatorFeedback) -> Vec<(&'static str, Vec<f64>)> {
    vec![
        ("actuator.mode", vec![f64::from(feedback.mode as u8)]),
        ("actuator.state", vec![feedback.state.into()]),
        ("actuator.fault", vec![feedback.fault.into()]),
        ("actuator.command_age_us", vec![feedback.command_age_us.into()]),
        ("actuator.command_sequence", vec![feedback.command_sequence as f64]),
        ("actuator.position_rad", vec![feedback.position_rad]),
        ("actuator.target_rad", vec![feedback.target_rad]),
        ("actuator.velocity_rad_s", vec![feedback.velocity_rad_s.into()]),
        ("actuator.torque_nm", vec![feedback.torque_nm.into()]),
        ("actuator.current_a", vec![feedback.current_a.into()]),
        ("actuator.supply_v", vec![feedback.supply_v.into()]),
        ("actuator.temperatures_c", feedback.temperatures_c.map(f64::from).into()),
        ("actuator.gyro_rad_s", feedback.gyro_rad_s.map(f64::from).into()),
        ("actuator.acceleration_m_s2", feedback.acceleration_m_s2.map(f64::from).into()),
        ("actuator.loop_cycles", vec![feedback.loop_cycles as f64]),
        ("actuator.loop_period_ns", vec![feedback.loop_period_ns.into()]),
        ("actuator.loop_latency_ns", vec![feedback.loop_latency_ns.into()]),
    ]
}

/// The digits that tshark prints of a floating-point number.
const TSHARK_DIGITS: f64 = 1e-5;

#[test]
fn tshark_decodes_every_documented_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("messages.pcap");
    std::fs::write(&capture, pcap(&messages())).expect("written");
    let expected: Vec<_> = messages().iter().map(|message| fields(message)).collect();
    let mut names: Vec<&str> = expected.iter().flatten().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();

    let script = here("../../packaging/wireshark/onbeat_net.lua");
    let mut tshark = Command::new("tshark");
    tshark.arg("-X").arg(format!("lua_script:{}", script.display())).arg("-r").arg(&capture);
    tshark.args(["-T", "fields", "-E", "separator=;", "-E", "occurrence=a", "-E", "aggregator=,"]);
    names.iter().for_each(|name| {
        tshark.args(["-e", &format!("onbeat.{name}")]);
    });
    let Some(found) = output(&mut tshark, &[], "tshark") else { return };

    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(&expected) {
        for (name, text) in names.iter().zip(line.split(';')) {
            let numbers = text.split(',').filter(|text| !text.is_empty());
            let numbers: Vec<f64> = numbers.map(|text| text.parse().expect("a number")).collect();
            let wanted = expected.iter().find(|(field, _)| field == name);
            let wanted = wanted.map_or(&[][..], |(_, values)| values);
            assert_eq!(numbers.len(), wanted.len(), "{name}: {line}");
            for (found, wanted) in numbers.iter().zip(wanted) {
                assert!((found - wanted).abs() <= wanted.abs() * TSHARK_DIGITS, "{name}: {line}");
            }
        }
    }
}

/// A capture with each message as a UDP packet to port 7470.
fn pcap(messages: &[Vec<u8>]) -> Vec<u8> {
    // Version 2.4, no more than 65,535 bytes of a packet, Ethernet.
    let mut file: Vec<u8> = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 1]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    for message in messages {
        let udp = 8 + message.len() as u16;
        let mut frame = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0].to_vec();
        frame.extend([0x45, 0]);
        frame.extend((20 + udp).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        for word in [40_000, 7470, udp, 0] {
            frame.extend(word.to_be_bytes());
        }
        frame.extend(message);
        let length = frame.len() as u32;
        for word in [0, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}
