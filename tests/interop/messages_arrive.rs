//! Messages travel over LCM and ZeroMQ: from a ring to the Python packages `lcm` and `pyzmq`, which
//! send back what they receive, and from there to another ring, the same bytes. All of it is in a
//! network namespace of its own, on its loopback interface.
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
const LCM: &str = "udpm://239.255.76.67:7667?ttl=0";
/// Where the gateway publishes, and where Python does.
const ZMQ: [&str; 2] = ["tcp://127.0.0.1:5556", "tcp://127.0.0.1:5557"];

#[derive(Clone, Copy, PartialEq)]
enum Network {
    Lcm,
    Zmq,
}

fn main() -> ExitCode {
    let tests = [
        trial("lcm_sends_random_messages_back_with_the_same_bytes", equip, |python| {
            bytes_come_back(python, Network::Lcm);
        }),
        trial("pyzmq_sends_random_messages_back_with_the_same_bytes", equip, |python| {
            bytes_come_back(python, Network::Zmq);
        }),
        trial("long_messages_come_back", equip, long_messages_come_back),
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
    fn start(python: &Python, network: Network, orders: &[String]) -> Self {
        let mut script = python.script("echo.py");
        // Python asks for what the kernel grants everybody.
        let lcm = format!("{LCM}&recv_buf_size=1000000");
        script.arg(env!("CARGO_BIN_EXE_onbeat-gateway"));
        match network {
            Network::Lcm => script.args(["lcm", &lcm]),
            Network::Zmq => script.args(["zmq", ZMQ[0], ZMQ[1]]),
        };
        script.args(orders);
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

/// A way there and back.
struct Way {
    writer: RingWriter,
    reader: RingReader,
    echo: Echo,
    sent: u64,
}

impl Way {
    fn new(python: &Python, network: Network, name: &str, most_bytes: usize) -> Self {
        let (writer, there) = ring(&format!("{name}.there"), most_bytes);
        let own = there.split_once('/').unwrap().0;
        let back = format!("{own}/{name}.back");
        let [to, from] = if network == Network::Lcm { [LCM; 2] } else { ZMQ };
        let remote = format!("{own}/{name}");
        let received = json!({
            "remote": format!("{remote}/back"), "channel": back, "type_name": "", "schema": "",
            "hash": "", "most_bytes": most_bytes,
        });
        let sent = json!({ "remote": format!("{remote}/there"), "channel": there });
        let orders = [
            format!("receive {}", json!({ "from": from, "channels": [received] })),
            format!("send {}", json!({ "to": to, "channels": [sent] })),
        ];
        let echo = Echo::start(python, network, &orders);
        assert!(echo.answers[0]["buffer_bytes"].is_u64(), "{:?}", echo.answers);
        let reader = RingReader::open(&back.parse().unwrap(), Start::Oldest).unwrap();
        let mut way = Self { writer, reader, echo, sent: 0 };
        way.connect();
        way
    }

    fn publish(&mut self, message: &[u8]) {
        self.writer.publish(1, message);
        self.sent += 1;
    }

    /// Publishes until a message comes back: those before a subscription arrives are not for it.
    fn connect(&mut self) {
        let began = Instant::now();
        while self.reader.pending() == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "no message comes back");
            self.publish(&[1]);
            std::thread::sleep(Duration::from_millis(50));
        }
        // What else is on the way arrives before the mark.
        self.publish(&[9]);
        while self.next() != [9] {}
    }

    fn next(&mut self) -> Vec<u8> {
        let began = Instant::now();
        loop {
            match self.reader.next() {
                Reading::Record { bytes, .. } => return bytes.to_vec(),
                Reading::Nothing => std::thread::sleep(Duration::from_micros(200)),
                Reading::Lost(lost) => panic!("{lost} records lost in the ring"),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "a message did not come back");
        }
    }

    /// Publishes a batch and waits until all of it is back.
    fn exchange(&mut self, batch: &[Vec<u8>]) {
        for message in batch {
            self.publish(message);
        }
        for wanted in batch {
            assert!(self.next() == *wanted, "another message came back");
        }
    }
}

fn bytes_come_back(python: &Python, network: Network) {
    let types = random_messages::types();
    let name = if network == Network::Lcm { "random-lcm" } else { "random-zmq" };
    let mut way = Way::new(python, network, name, 1 << 14);
    for name in types.names() {
        for batch in random_messages::encoded(&types, name, random_messages::count()).chunks(BATCH)
        {
            way.exchange(batch);
        }
    }

    let Way { writer, echo, sent, .. } = way;
    drop(writer);
    let end = echo.end();
    assert_eq!(end[1]["channels"][0]["received"], sent, "{end:?}");
    assert_eq!((&end[0]["lost"], &end[0]["strange"]), (&json!(0), &json!(0)), "{end:?}");
    assert_eq!((&end[0]["published"], &end[1]["dropped"]), (&end[2], &json!(0)), "{end:?}");
}

fn long_messages_come_back(python: &Python) {
    let mut random = fastrand::Rng::with_seed(3);
    for (network, name) in [(Network::Lcm, "long-lcm"), (Network::Zmq, "long-zmq")] {
        let mut way = Way::new(python, network, name, 1 << 18);
        for bytes in [0, 255, 256, 65_000, 65_470, 65_480, 65_490, 131_000, 200_000] {
            let message: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
            way.exchange(&[message]);
        }
        assert_eq!(way.echo.end()[0]["lost"], 0);
    }
}

/// Until the receiver continues, its buffer overflows; every message is received or counted.
fn losses_are_counted(python: &Python) {
    let mut way = Way::new(python, Network::Lcm, "lost", 1 << 14);
    let receiver = way.reader.writer().0.to_string();
    let signal = |name: &str| equipment::done(Command::new("kill").args([name, &receiver]));
    signal("-STOP");
    let message = vec![7; 1 << 14];
    for _ in 0..200 {
        for _ in 0..10 {
            way.publish(&message);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(500));
    signal("-CONT");

    // A last message shows that those before it are missing.
    let began = Instant::now();
    let mut marked = false;
    loop {
        match way.reader.next() {
            Reading::Record { bytes, .. } if bytes == [2] => break,
            Reading::Record { .. } | Reading::Lost(_) => {}
            Reading::Nothing if marked => std::thread::sleep(Duration::from_millis(1)),
            Reading::Nothing => {
                std::thread::sleep(Duration::from_millis(200));
                way.publish(&[2]);
                marked = true;
            }
        }
        assert!(began.elapsed() < Duration::from_secs(60), "the last message does not come");
    }
    let end = way.echo.end();
    let number = |of: &Value| of.as_u64().unwrap();
    let received = number(&end[0]["received"]);
    let lost = number(&end[0]["lost"]);
    assert!(lost > 0, "{end:?}");
    // Those of Python count as well: both directions are in one group.
    let sent = number(&end[1]["channels"][0]["received"]) + number(&end[2]);
    assert_eq!(received + lost, sent, "{end:?}");
}
