//! Programs that are not onbeat at either end of a round trip, or beside it: a plain client in Python, a
//! plain echo, tshark on the packets of a run.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

const PACKETS: u64 = 200;

/// A program that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a program; `None`, with a printed reason, when it is not installed.
fn started(command: &mut Command, package: &str) -> Option<Ended> {
    match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => Some(Ended(child)),
        Err(why) => {
            println!("skipped: {command:?} cannot be run ({why}); Debian package {package}");
            None
        }
    }
}

/// Sends bytes to a port until something comes back.
fn await_echo(port: u16, bytes: &[u8]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut answer = [0; 2048];
    while socket.send(bytes).and_then(|_| socket.recv(&mut answer)).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_plain_client_in_python_measures_a_device() {
    let port = free_port();
    let mut device = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    let device = started(device.args(["net", "device", "--port", &port.to_string()]), "onbeat");
    let device = device.expect("onbeat");
    let mut knock = [0; 56];
    onbeat_net::packet::WireHeader::echo(0, 0, 1).write(&mut knock);
    await_echo(port, &knock);

    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/round_trip.py");
    let mut python = Command::new("python3");
    python.arg(client).args(["127.0.0.1", &port.to_string(), &PACKETS.to_string()]);
    match python.output() {
        Err(why) => println!("skipped: python3 cannot be run ({why}); Debian package python3"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}{errors}");
            assert!(said.starts_with(&format!("{PACKETS} answers of 200 bytes")), "{said}");
        }
    }
    drop(device);
}

/// A UDP echo that knows no format. All packets of a run have room while it stands still.
const ECHO: &str = "\
import socket, sys
plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
plug.bind(('127.0.0.1', int(sys.argv[1])))
while True:
    plug.sendto(*plug.recvfrom(2048))
";

#[test]
fn a_plain_echo_answers_and_its_round_trips_are_whole() {
    let port = free_port();
    let mut python = Command::new("python3");
    python.args(["-c", ECHO, &port.to_string()]);
    let Some(echo) = started(&mut python, "python3") else { return };
    await_echo(port, b"anything");

    let out = tempfile::tempdir().unwrap();
    let mut measure = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    measure.args(["measure", "rtt", "--to", &format!("127.0.0.1:{port}"), "--priority", "0"]);
    // A stall of any length makes packets late here, and none lost.
    measure.args(["--period", "5ms", "--for", "1s", "--lost-after", "60s", "--on-overrun"]);
    measure.args(["catch-up=1000", "--no-causes", "--json", "--out"]).arg(out.path());
    let output = measure.env("ONBEAT_STATE_DIR", out.path().join("state")).output().unwrap();
    drop(echo);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = &summary["cells"][0]["packets"]["devices"][0];
    let count = |name: &str| device[name].as_u64().unwrap_or_else(|| panic!("{name}: {device}"));
    assert_eq!(count("scheduled"), PACKETS, "{device}");
    assert_eq!(count("answered") + count("late") + count("unsent"), PACKETS, "{device}");
    let text = summary.to_string();
    assert!(text.contains("came back unchanged, from a plain echo"), "{text}");
}

/// A run in a network namespace of its own whose packets tshark captures and decodes. `$0` is onbeat,
/// `$1` the dissector, `$2` the number of packets.
const CAPTURED: &str = r#"
ip link set lo up
timeout 120 tshark -i lo -f 'udp port 7470' -c "$2" -l -X "lua_script:$1" -T fields \
    -e onbeat.kind -e onbeat.device -e onbeat.sequence -e onbeat.session -e onbeat.length >"$3/decoded" 2>"$3/errors" &
tshark=$!
"$0" net device --for 300s 2>/dev/null &
# It says "Capturing on" before it listens, and this when it does; an older one says nothing then.
looks=0
until grep -q 'Capture started' "$3/errors" || [ $looks -ge 600 ]; do
    kill -0 $tshark 2>/dev/null || break
    sleep 0.05
    looks=$((looks + 1))
done
"$0" measure rtt --to 127.0.0.1 --period 5ms --for 1s --size 123 --on-overrun catch-up=1000 --priority 0 --no-causes --json --out "$3/runs" >/dev/null
wait $tshark
kill %2
"#;
const CAPTURED_PACKETS: usize = 300;

#[test]
fn tshark_decodes_the_packets_of_a_run_as_they_pass() {
    let can = |words: &[&str]| Command::new(words[0]).args(&words[1..]).output();
    for words in [&["unshare", "--net", "ip", "link", "set", "lo", "up"][..], &["tshark", "-v"]] {
        if !can(words).is_ok_and(|output| output.status.success()) {
            println!("skipped: `{}` fails; it takes root, iproute2 and tshark", words.join(" "));
            return;
        }
    }
    let out = tempfile::tempdir().unwrap();
    let dissector =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/wireshark/onbeat_net.lua");
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "bash", "-c", CAPTURED]);
    command.arg(env!("CARGO_BIN_EXE_onbeat")).arg(dissector).arg(CAPTURED_PACKETS.to_string());
    let run = command.arg(out.path()).env("ONBEAT_STATE_DIR", out.path().join("state"));
    let run = run.output().expect("unshare");
    let read = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap_or_default();
    let errors = read("errors");
    if errors.contains("permission") || errors.contains("no interfaces") {
        return println!("skipped: tshark cannot capture here: {errors}");
    }

    let decoded = read("decoded");
    let packets: Vec<Vec<u64>> = decoded
        .lines()
        .map(|line| line.split('\t').map(|field| field.parse().expect(line)).collect())
        .collect();
    assert_eq!(packets.len(), CAPTURED_PACKETS, "{errors}{run:?}");
    let kinds = |kind: u64| packets.iter().filter(|packet| packet[0] == kind).count();
    assert_eq!(kinds(1) + kinds(2), CAPTURED_PACKETS, "requests and answers: {decoded}");
    // In the order of the wire: nothing is answered before it was asked.
    let mut asked = std::collections::BTreeSet::new();
    for packet in &packets {
        let request = (packet[2], packet[3]);
        let is_in_order =
            if packet[0] == 1 { asked.insert(request) } else { asked.remove(&request) };
        assert!(is_in_order, "{packet:?} in {decoded}");
    }
    assert!(kinds(2) > 0, "{decoded}");
    assert!(packets.iter().all(|packet| packet[1] == 0 && packet[4] == 123), "{decoded}");
    // The packets before the run have session 0, the others one number. An answer from before it
    // may pass after its first packet.
    let sessions: std::collections::BTreeSet<u64> =
        packets.iter().map(|packet| packet[3]).collect();
    assert_eq!((sessions.len(), sessions.first(), packets[0][3]), (2, Some(&0), 0), "{sessions:?}");
    let requests = packets.iter().filter(|packet| packet[0] == 1 && packet[3] != 0);
    let numbers: Vec<u64> = requests.map(|packet| packet[2]).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}
