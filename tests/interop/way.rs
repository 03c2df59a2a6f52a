//! A way through a network and back: a ring, a gateway, a peer in Python, a gateway, another ring. All
//! of it is in a network namespace of its own, on its loopback interface.
#![allow(dead_code, clippy::unwrap_used)] // No test uses all of it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use onbeat_control::{Channel, Reading, RecordType, RingReader, RingSettings, RingWriter, Start};
use serde_json::{Value, json};

use super::equipment::Python;

const LCM: &str = "udpm://239.255.76.67:7667?ttl=0";
/// Where the gateway publishes, and where Python does.
const ZMQ: [&str; 2] = ["tcp://127.0.0.1:5556", "tcp://127.0.0.1:5557"];
/// The domain of ROS 2.
const DOMAIN: u16 = 7;
/// Longest wait for a message to come back.
const BACK_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Network {
    Lcm,
    Zmq,
    /// With the policy RELIABILITY.
    Ros2(&'static str),
    /// IHMC's Java as the peer.
    Ihmc,
}

impl Network {
    /// Returns the addresses of the gateway that sends and of the one that receives.
    fn addresses(self) -> [String; 2] {
        match self {
            Self::Lcm => [LCM, LCM].map(str::to_owned),
            Self::Zmq => ZMQ.map(str::to_owned),
            Self::Ros2(reliability) => {
                [(); 2].map(|()| format!("ros2://{DOMAIN}?reliability={reliability}"))
            }
            Self::Ihmc => [(); 2].map(|()| format!("ros2://{DOMAIN}")),
        }
    }

    /// Returns the arguments of `echo.py` that select the network.
    fn of_peer(self, remote: &str, type_name: &str) -> [String; 3] {
        match self {
            // Python asks for what the kernel grants everybody.
            Self::Lcm => ["lcm".into(), format!("{LCM}&recv_buf_size=1000000"), String::new()],
            Self::Zmq => ["zmq".into(), ZMQ[0].into(), ZMQ[1].into()],
            Self::Ros2(reliability) => {
                ["ros2".into(), format!("{remote},{DOMAIN},{reliability}"), type_name.into()]
            }
            Self::Ihmc => {
                let classes = std::env::var("ONBEAT_IHMC").unwrap();
                ["ihmc".into(), format!("{remote},{DOMAIN}"), classes]
            }
        }
    }
}

/// What a channel carries: nothing for plain bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) type_name: String,
    pub(crate) schema: String,
    /// Texts of `.lcm` files: the network has LCM's own encoding.
    pub(crate) lcm: Vec<String>,
}

/// Waits until the kernel has dropped a datagram for a process: one of its sockets is full.
pub(crate) fn await_drops(pid: &str) {
    let began = Instant::now();
    let opened = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links: Vec<PathBuf> =
        opened.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok()).collect();
    let is_own = |inode: &str| links.contains(&PathBuf::from(format!("socket:[{inode}]")));

    loop {
        // The inode is the tenth word of a line, the number of drops the last one.
        let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/udp")).unwrap();
        let lines = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut own = lines.filter(|words| words.get(9).is_some_and(|&inode| is_own(inode)));
        if own.any(|words| words.last().is_some_and(|drops| *drops != "0")) {
            return;
        }
        assert!(began.elapsed() < BACK_WITHIN, "nothing is dropped: {sockets}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Python, and the right to make a network namespace.
pub(crate) fn equip() -> Result<Python, String> {
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
pub(crate) fn in_namespace(command: &mut Command) -> Command {
    let up = "ip link set lo up multicast on && ip route add 224.0.0.0/4 dev lo && exec \"$@\"";
    let mut unshared = Command::new("unshare");
    unshared.args(["--net", "sh", "-c", up, "sh"]);
    unshared.arg(command.get_program()).args(command.get_args());
    unshared.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    unshared
}

/// Python and one gateway for each order; both ends of the way are rings of this process.
pub(crate) struct Echo {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    answers: Vec<Value>,
}

impl Echo {
    fn start(python: &Python, peer: &[String], orders: &[String]) -> Self {
        let mut script = python.script("echo.py");
        script.arg(env!("CARGO_BIN_EXE_onbeat-gateway")).args(peer).args(orders);
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
    pub(crate) fn end(mut self) -> Vec<Value> {
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

fn ring(topic: &str, most_bytes: usize, carried: &Carried) -> (RingWriter, String) {
    let name = format!("way_{}", std::process::id());
    let channel = Channel::new(&name, topic).unwrap();
    let Carried { type_name, schema, .. } = carried.clone();
    let record_type = RecordType { name: type_name, hash: [0; 32], schema };
    let settings = RingSettings {
        records: 4096,
        record_bytes: most_bytes,
        record_type,
        description: String::new(),
    };
    (RingWriter::create(&channel, &settings).unwrap(), channel.to_string())
}

/// Returns what is compared of a message.
pub(crate) type Compared = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A way there and back.
pub(crate) struct Way {
    pub(crate) writer: RingWriter,
    pub(crate) reader: RingReader,
    pub(crate) echo: Echo,
    pub(crate) sent: u64,
    /// What is compared of a message that comes back: all of it, unless the test says otherwise.
    pub(crate) compared: Compared,
}

impl Way {
    pub(crate) fn new(python: &Python, network: Network, name: &str, most_bytes: usize) -> Self {
        let mut way = Self::with_type(python, network, name, most_bytes, &Carried::default());
        way.connect(&[1], &[9]);
        way
    }

    /// The same with messages of a type; still to be connected.
    pub(crate) fn with_type(
        python: &Python,
        network: Network,
        name: &str,
        most_bytes: usize,
        carried: &Carried,
    ) -> Self {
        let (writer, there) = ring(&format!("{name}.there"), most_bytes, carried);
        let own = there.split_once('/').unwrap().0;
        let back = format!("{own}/{name}.back");
        let [to, from] = network.addresses();
        let remote = format!("{own}/{name}");
        let received = json!({
            "remote": format!("{remote}/back"), "channel": back, "type_name": carried.type_name,
            "schema": carried.schema, "hash": "", "most_bytes": most_bytes, "lcm": carried.lcm,
        });
        let remote_there = format!("{remote}/there");
        let sent = json!({ "remote": remote_there, "channel": there, "lcm": carried.lcm });
        let orders = [
            format!("receive {}", json!({ "from": from, "channels": [received] })),
            format!("send {}", json!({ "to": to, "channels": [sent] })),
        ];

        let peer = network.of_peer(&remote, &carried.type_name);
        let echo = Echo::start(python, &peer, &orders);
        assert!(echo.answers[0]["buffer_bytes"].is_u64(), "{:?}", echo.answers);
        let reader = RingReader::open(&back.parse().unwrap(), Start::Oldest).unwrap();
        Self { writer, reader, echo, sent: 0, compared: Box::new(<[u8]>::to_vec) }
    }

    pub(crate) fn publish(&mut self, message: &[u8]) {
        self.writer.publish(1, message);
        self.sent += 1;
    }

    /// Publishes until a message comes back: those before a subscription arrives are not for it. What
    /// else is on the way arrives before the mark.
    pub(crate) fn connect(&mut self, hello: &[u8], mark: &[u8]) {
        let began = Instant::now();
        while self.reader.pending() == 0 {
            assert!(began.elapsed() < BACK_WITHIN, "no message comes back");
            self.publish(hello);
            std::thread::sleep(Duration::from_millis(50));
        }
        self.publish(mark);
        while self.next() != mark {}
    }

    pub(crate) fn next(&mut self) -> Vec<u8> {
        let began = Instant::now();
        loop {
            match self.reader.next() {
                Reading::Record { bytes, .. } => return (self.compared)(bytes),
                Reading::Nothing => std::thread::sleep(Duration::from_micros(200)),
                Reading::Lost(lost) => panic!("{lost} records lost in the ring"),
            }
            assert!(began.elapsed() < BACK_WITHIN, "a message did not come back");
        }
    }

    /// Publishes a batch and waits until all of it is back.
    pub(crate) fn exchange(&mut self, batch: &[Vec<u8>]) {
        for message in batch {
            self.publish(message);
        }
        for wanted in batch {
            assert!(self.next() == *wanted, "another message came back");
        }
    }
}
