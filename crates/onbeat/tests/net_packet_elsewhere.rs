//! The golden messages, decoded by others: the C header of firmware, and tshark with our dissector.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const GOLDEN: &str = include_str!("net_packet/messages.hex");
/// The header's languages, and the Debian package of each compiler.
const DIALECTS: [(&str, &[&str], &str); 2] =
    [("cc", &["-std=c11"], "gcc"), ("c++", &["-x", "c++", "-std=c++17"], "g++")];

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
fn the_c_header_reads_the_same_fields() {
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
         not a message\n"
    );
    for (place, (compiler, words, package)) in DIALECTS.into_iter().enumerate() {
        let program = folder.path().join(format!("decode-{place}"));
        let mut compile = Command::new(compiler);
        compile.args(words).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        compile.arg(here("../../include")).arg(here("tests/net_c/decode.c"));
        if output(compile.arg("-o").arg(&program), &[], package).is_some() {
            let found = output(&mut Command::new(&program), &input, package);
            assert_eq!(found.as_deref(), Some(expected.as_str()), "{words:?}");
        }
    }
}

#[test]
fn tshark_decodes_the_documented_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("messages.pcap");
    std::fs::write(&capture, pcap(&messages())).expect("written");
    let mut tshark = Command::new("tshark");
    tshark
        .arg("-X")
        .arg(format!("lua_script:{}", here("../../packaging/wireshark/onbeat_net.lua").display()));
    tshark.arg("-r").arg(&capture).args(["-T", "fields"]);
    for field in ["kind", "device", "sequence", "command.position_rad", "actuator.target_rad"] {
        tshark.args(["-e", &format!("onbeat.{field}")]);
    }

    let Some(found) = output(&mut tshark, &[], "tshark") else { return };
    let head = |kind: u8| format!("{kind}\t258\t{}", 0x1112_1314_1516_1718_u64);
    let expected = [
        format!("{}\t\t", head(1)),
        format!("{}\t\t", head(2)),
        format!("{}\t0.125\t", head(3)),
        format!("{}\t\t-1.5", head(4)),
        format!("{}\t\t", head(5)),
        format!("{}\t\t", head(6)),
    ];
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
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
