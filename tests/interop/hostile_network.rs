//! The program against hostile senders and planted logs: its memory stays bounded, a proper sender is heard
//! beside them, and it has no rights left.
// A test that skips prints why.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use libtest_mimic::Trial;
use onbeat_gateway::datagrams;
use serde_json::{Value, json};

const GATEWAY: &str = env!("CARGO_BIN_EXE_onbeat-gateway");
const GROUP: &str = "239.255.76.67:7667";
const INSIDE: &str = "ONBEAT_TEST_IN_NAMESPACE";

pub(crate) fn trials() -> Vec<Trial> {
    let senders = thirty_thousand_hostile_senders_leave_memory_and_a_proper_sender_alone;
    let logs = planted_logs_end_with_a_sentence_in_bounded_memory;
    let trial = |name: &str, test: fn()| {
        Trial::test(format!("hostile_network::{name}"), move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("thirty_thousand_hostile_senders_leave_memory_and_a_proper_sender_alone", senders),
        trial("planted_logs_end_with_a_sentence_in_bounded_memory", logs),
    ]
}

/// Runs the named test again in a network namespace of its own that multicasts to itself; returns whether
/// this process is in it.
fn is_in_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root makes a network namespace");
        return false;
    }
    let script = "ip link set lo up multicast on && ip addr add 127.0.0.2/8 dev lo && \
         ip route add 224.0.0.0/4 dev lo && exec \"$@\"";
    let own = std::env::current_exe().unwrap();
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", script, "sh"])
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(ran.success());
    false
}

struct Running {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Running {
    fn begin(verb: &str, order: &Value, directory: &Path) -> Self {
        let mut child = Command::new(GATEWAY)
            .args([verb, &order.to_string()])
            .env("ONBEAT_RUNTIME_DIR", directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, answers };
        assert_eq!(running.answer()["error"], Value::Null);
        running
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn status(&self, field: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// Ends it; returns its account and what it said.
    fn end(mut self) -> (Value, String) {
        let id = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let account = self.answer();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success());
        (account, said)
    }
}

fn private_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    directory
}

fn thirty_thousand_hostile_senders_leave_memory_and_a_proper_sender_alone() {
    if !is_in_namespace(
        "hostile_network::thirty_thousand_hostile_senders_leave_memory_and_a_proper_sender_alone",
    ) {
        return;
    }
    let directory = private_directory();
    let channel = format!("hostile{}/plan", std::process::id());
    let order = json!({
        "from": format!("udpm://{GROUP}?ttl=0"), "most_memory": 8 << 20,
        "channels": [{
            "remote": "good", "channel": channel, "type_name": "", "schema": "", "hash": "",
            "most_bytes": 2_000_000,
        }],
    });
    let gateway = Running::begin("receive", &order, directory.path());
    assert_eq!(gateway.status("CapEff:"), "0000000000000000");
    assert_eq!([gateway.status("NoNewPrivs:"), gateway.status("Seccomp:")], ["1", "2"]);
    let before_kib: u64 = gateway.status("VmHWM:").parse().unwrap();

    let mut first = datagrams("x", 0, &vec![7; 4 << 20]).remove(0);
    first.truncate(1200);
    let proper = UdpSocket::bind("127.0.0.2:0").unwrap();
    let payload = vec![9; 1_000_000];
    for number in 0..30_000_u32 {
        let hostile = UdpSocket::bind("127.0.0.1:0").unwrap();
        hostile.send_to(&first, GROUP).unwrap();
        if number % 100 == 0 {
            sleep(Duration::from_millis(2));
        }
        if number % 3000 == 0 {
            for part in datagrams("good", number / 3000, &payload) {
                proper.send_to(&part, GROUP).unwrap();
            }
        }
    }
    sleep(Duration::from_millis(200));

    let grown_kib = gateway.status("VmHWM:").parse::<u64>().unwrap() - before_kib;
    let (account, said) = gateway.end();
    let number = |name: &str| account[name].as_u64().unwrap();
    println!("grown by {grown_kib} KiB: {account}");
    // What is held, a message that is handed over, its ring of 8 MiB, and the allocator's slack.
    assert!(grown_kib < 64 << 10, "{grown_kib} KiB");
    assert!(number("most_held_bytes") <= 8 << 20);
    assert!(number("published") > 0, "{account}");
    assert!(number("forgotten_senders") > 0, "{account}");
    assert!(said.contains("limit reached") && said.lines().count() < 10, "{said}");
}

fn planted_logs_end_with_a_sentence_in_bounded_memory() {
    let folder = private_directory();
    let record = |kind: u8, bytes: u64| [&[kind][..], &bytes.to_le_bytes()].concat();
    let mut logs = Vec::new();
    for bytes in [1 << 31, 1 << 32, 1 << 46, 1 << 63, u64::MAX] {
        for kind in [1, 3, 4, 5, 6, 15] {
            logs.push((record(kind, bytes), 0));
        }
        let chunk =
            [&[0; 16][..], &u64::to_le_bytes(bytes), &[0; 4], &[3, 0, 0, 0], b"lz4"].concat();
        let chunk = [&chunk[..], &8_u64.to_le_bytes(), &[0; 8]].concat();
        logs.push(([record(6, chunk.len() as u64), chunk].concat(), 0));
    }
    // A file that has the length on the disk, without its blocks.
    logs.push((record(6, 1 << 40), (1 << 40) + 17));

    for (number, (records, length)) in logs.iter().enumerate() {
        let path = folder.path().join(format!("{number}.mcap"));
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&[b"\x89MCAP0\r\n", &records[..]].concat()).unwrap();
        if *length > 0 {
            file.set_len(*length).unwrap();
        }
        let order = json!({ "log": path });
        let ran = Command::new("sh")
            .args([
                "-c",
                "ulimit -v 300000; exec \"$@\"",
                "sh",
                GATEWAY,
                "play",
                &order.to_string(),
            ])
            .env("ONBEAT_RUNTIME_DIR", folder.path())
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{number}: {answer}");
        let why = answer["error"].as_str().unwrap();
        assert!(why.contains("cannot read") && !why.contains('\n'), "{why}");
    }
}
