//! Messages travel over LCM: from a ring to the Python package `lcm`, which sends back what it
//! receives, and from there to another ring, the same bytes. All of it is in a network namespace of
//! its own, on its loopback interface.
#![allow(clippy::unwrap_used)]

mod equipment;
mod random_messages;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use equipment::{Python, trial};
use libtest_mimic::Arguments;
use onbeat_control::{Channel, Reading, RecordType, RingReader, RingSettings, RingWriter, Start};
use serde_json::{Value, json};

/// Messages on the way at a time: they fit into the kernel's smallest receive buffer, so none is lost.
const BATCH: usize = 50;
const URL: &str = "udpm://239.255.76.67:7667?ttl=0";

fn main() -> ExitCode {
    let tests = [
        trial("random_messages_come_back_from_python_with_the_same_bytes", equip, bytes_come_back),
        trial("messages_in_several_datagrams_come_back", equip, long_messages_come_back),
        trial("a_receiver_that_is_stopped_counts_what_it_lost", equip, losses_are_counted),
    ];
    libtest_mimic::run(&Arguments::from_args(), Vec::from(tests)).exit_code()
}

fn equip() -> Result<Python, String> {
    let python = Python::equip()?;
    let unshared = in_namespace(&mut Command::new("true")).output();
    match unshared.is_ok_and(|output| output.status.success()) {
        true => Ok(python),
        false => {
            Err("needs root, unshare (util-linux) and ip (iproute2) for a network namespace".into())
        }
    }
}

/// The same command in a network namespace of its own with a loopback interface that multicasts.
fn in_namespace(command: &mut Command) -> Command {
    let up = "ip link set lo up multicast on && ip route add 224.0.0.0/4 dev lo && exec \"$@\"";
    let mut unshared = Command::new("unshare");
    unshared.args(["--net", "sh", "-c", up, "sh"]);
    unshared.arg(command.get_program()).args(command.get_args());
    unshared.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    unshared
}

/// Python and one gateway for each order; both ends of the way are rings of this process.
struct Echo {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    answers: Vec<Value>,
}

impl Echo {
    fn start(python: &Python, orders: &[String]) -> Self {
        let mut script = python.script("lcm_echo.py");
        // Python asks for what the kernel grants everybody.
        let url = format!("{URL}&recv_buf_size=1000000");
        script.arg(env!("CARGO_BIN_EXE_onbeat-gateway")).arg(url).args(orders);
        let mut command = in_namespace(&mut script);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut own = Self { child, input, output, answers: Vec::new() };
        own.answers = orders.iter().map(|_| own.line()).collect();
        own
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line}"))
    }

    /// Ends all; returns the accounts of the gateways and the number of messages echoed.
    fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        (0..=self.answers.len()).map(|_| self.line()).collect()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ring(topic: &str, most_bytes: usize) -> (RingWriter, String) {
    let name = format!("lcm-{}", std::process::id());
    let channel = Channel::new(&name, topic).unwrap();
    let record_type = RecordType { name: String::new(), hash: [0; 32], schema: String::new() };
    let settings = RingSettings {
        records: 4096,
        record_bytes: most_bytes,
        record_type,
        description: String::new(),
    };
    (RingWriter::create(&channel, &settings).unwrap(), channel.to_string())
}

/// Starts the way there and back: `(writer, reader, rest)`.
fn there_and_back(
    python: &Python,
    name: &str,
    most_bytes: usize,
) -> (RingWriter, RingReader, Echo) {
    let (writer, there) = ring(&format!("{name}.there"), most_bytes);
    let own = there.split_once('/').unwrap().0;
    let back = format!("{own}/{name}.back");
    let receive = json!({
        "from": URL,
        "channels": [{
            "lcm": there.replace(".there", "/back"), "channel": back, "type_name": "", "schema": "",
            "hash": "", "most_bytes": most_bytes,
        }],
    });
    let sent = json!({ "channel": there, "lcm": there.replace(".there", "/there") });
    let send = json!({ "channels": [sent], "to": URL });
    let echo = Echo::start(python, &[format!("receive {receive}"), format!("send {send}")]);
    assert!(echo.answers[0]["buffer_bytes"].as_u64().unwrap() > 100_000, "{:?}", echo.answers);
    let reader = RingReader::open(&back.parse().unwrap(), Start::Oldest).unwrap();
    (writer, reader, echo)
}

/// Publishes a batch and waits until all of it is back.
fn exchanged(writer: &mut RingWriter, reader: &mut RingReader, batch: &[Vec<u8>]) {
    for message in batch {
        writer.publish(1, message);
    }
    let began = Instant::now();
    for wanted in batch {
        loop {
            match reader.next() {
                Reading::Record { bytes, .. } => {
                    assert!(bytes == wanted, "another message came back");
                    break;
                }
                Reading::Nothing => std::thread::sleep(Duration::from_micros(200)),
                Reading::Lost(lost) => panic!("{lost} records lost in the ring"),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "a message did not come back");
        }
    }
}

fn bytes_come_back(python: &Python) {
    let types = random_messages::types();
    let (mut writer, mut reader, echo) = there_and_back(python, "random", 1 << 14);
    let mut count = 0;
    for name in types.names() {
        for batch in random_messages::encoded(&types, name, random_messages::count()).chunks(BATCH)
        {
            exchanged(&mut writer, &mut reader, batch);
            count += batch.len();
        }
    }
    drop(writer);
    let end = echo.end();
    assert_eq!(end[2], count, "echoed");
    assert_eq!(end[0]["lost"], 0, "{end:?}");
    assert_eq!(end[0]["published"], count);
    assert_eq!(end[1]["channels"][0]["received"], count);
}

fn long_messages_come_back(python: &Python) {
    let (mut writer, mut reader, echo) = there_and_back(python, "long", 1 << 18);
    let mut random = fastrand::Rng::with_seed(3);
    for bytes in [65_000, 65_470, 65_480, 65_490, 131_000, 200_000] {
        let message: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
        exchanged(&mut writer, &mut reader, &[message]);
    }
    assert_eq!(echo.end()[0]["lost"], 0);
}

/// Until the receiver continues, its buffer overflows; every message is received or counted.
fn losses_are_counted(python: &Python) {
    let (mut writer, mut reader, echo) = there_and_back(python, "lost", 1 << 14);
    exchanged(&mut writer, &mut reader, &[vec![1]]);
    let receiver = reader.writer().0.to_string();
    let signal = |name: &str| equipment::done(Command::new("kill").args([name, &receiver]));
    signal("-STOP");
    let message = vec![7; 1 << 14];
    for _ in 0..200 {
        for _ in 0..10 {
            writer.publish(1, &message);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(500));
    signal("-CONT");

    // A last message shows that those before it are missing.
    let began = Instant::now();
    let mut marked = false;
    loop {
        match reader.next() {
            Reading::Record { bytes, .. } if bytes == [2] => break,
            Reading::Record { .. } | Reading::Lost(_) => {}
            Reading::Nothing if marked => std::thread::sleep(Duration::from_millis(1)),
            Reading::Nothing => {
                std::thread::sleep(Duration::from_millis(200));
                writer.publish(1, &[2]);
                marked = true;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the last message does not come");
    }
    let end = echo.end();
    let number = |of: &Value| of.as_u64().unwrap();
    let (received, lost) = (number(&end[0]["received"]), number(&end[0]["lost"]));
    assert!(lost > 0, "{end:?}");
    // Those of Python count as well: both directions are in one group.
    let sent = number(&end[1]["channels"][0]["received"]) + number(&end[2]);
    assert_eq!(received + lost, sent, "{end:?}");
}
