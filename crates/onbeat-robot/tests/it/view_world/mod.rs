//! A robot whose cycles a test publishes itself, its live view, and browsers.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use onbeat_ethercat::step::BusCycle;
use onbeat_robot::cycle_messages::{CycleMessages, JointSample};
use onbeat_robot::live_view::{LiveView, LiveViewError, PageServerPlan, ViewLimits};
use onbeat_robot::session::RobotFile;
use serde_json::Value;

pub const PERIOD_NS: u64 = 1_000_000;
pub const PAGE: &str = "<!doctype html><title>the page</title>";
/// Joint that the tests look at.
pub const KNEE: usize = 7;
/// For the view, which a busy machine may keep waiting.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A robot whose cycles the test publishes itself, and its view.
pub struct Shown {
    pub cycles: CycleMessages,
    pub next: u64,
    pub view: LiveView,
    pub port: u16,
}

impl Shown {
    pub fn open(name: &str, port: u16) -> Result<Self, LiveViewError> {
        Self::open_with(name, port, ViewLimits::default())
    }

    pub fn open_with(name: &str, port: u16, limits: ViewLimits) -> Result<Self, LiveViewError> {
        let name = format!("live-{name}-{}", std::process::id());
        let file = RobotFile::read(Path::new("humanoid"), PERIOD_NS).unwrap();
        let joints = file.robot.commanded();
        let cycles = CycleMessages::create(&name, &file.layout, &joints, PERIOD_NS)?;
        let plan = PageServerPlan { port, page: PAGE.into(), avoid_cpu: None, limits };
        let view = LiveView::open(&name, &file, plan)?;
        let address = view.server.address();
        let port = address.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        Ok(Self { cycles, next: 1, view, port })
    }

    /// Publishes a cycle in which the knee is at `actual_rad`, and its target at 0.
    pub fn publish(&mut self, actual_rad: f64, wakeup_latency_ns: u64) {
        let joint = JointSample { actual_rad, statusword: 0x1237, ..JointSample::default() };
        // Numbers with many digits, so that events are as long as those of a moving robot.
        let other = JointSample {
            target_rad: -2.0 / 3.0,
            actual_rad: 1.0 / 3.0,
            statusword: 0x1237,
            ..JointSample::default()
        };
        let joints = (0..48).map(|place| if place == KNEE { joint } else { other });
        self.cycles.set_robot(None, joints);

        let cycle = BusCycle {
            cycle: self.next,
            release_ns: self.next * PERIOD_NS,
            dt_ns: PERIOD_NS,
            ..BusCycle::default()
        };
        self.next += 1;
        self.cycles.publish(&cycle, [wakeup_latency_ns, 10], (&[], &[]));
    }

    /// Sends a request and returns the whole answer.
    pub fn ask(&self, request: &str) -> String {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let request = request.replace("PORT", &self.port.to_string()).replace('\n', "\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Follows the events, with this size of the receive buffer.
    pub fn follow(&self, buffer: Option<usize>) -> BufReader<TcpStream> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        if let Some(bytes) = buffer {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, bytes).unwrap();
        }
        let head = format!("GET /events HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port);
        socket.write_all(head.as_bytes()).unwrap();
        BufReader::new(socket)
    }
}

/// The next event: its name and its data.
pub fn next_event(events: &mut impl BufRead) -> Option<(String, Value)> {
    let mut name = None;
    let mut line = String::new();
    while events.read_line(&mut line).unwrap() > 0 {
        if let Some(event) = line.strip_prefix("event: ") {
            name = Some(event.trim().to_owned());
        } else if let Some(data) = line.strip_prefix("data: ") {
            return Some((name.unwrap(), serde_json::from_str(data).unwrap()));
        }
        line.clear();
    }
    None
}
