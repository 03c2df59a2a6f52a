//! A bus without devices, and processes that share its image: this test binary, started again with
//! a role.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::hint::spin_loop;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use onbeat_control::{BusSide, Client, EventBatch, Sharing};
use onbeat_ethercat::event::EventKind;
use onbeat_ethercat::layout::{DeviceKind, DeviceLayout, Layout, MappedValue};
use onbeat_ethercat::step::BusCycle;
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::process::{Pid, Signal, kill_process};

/// The paper's size: 656 bytes of inputs, 656 bytes of outputs.
pub const BYTES: usize = 656;
pub const PATIENCE: Duration = Duration::from_secs(60);

const ROLE: &str = "ONBEAT_TEST_ROLE";

/// Publications without a pause: more than there are slots, so readers are overtaken.
const BURST: usize = 64;
/// Shortest pause after a burst. Where a reader takes longer for its copy than a publisher for all
/// slots, no read would succeed without pauses; no bus and no owner publishes without them.
const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
/// One pause in this number of bursts is longer than the slowest copy. A reader that is overtaken
/// 1,000 times has met at least 46 bursts: each time, three publications or more.
const LONG_PAUSE_EVERY: u64 = 16;
const LONG_PAUSE: Duration = Duration::from_micros(200);

/// With the time: a killed process with the same id may have left objects.
pub fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{}-{next}", std::process::id(), Monotonic.now().as_ns())
}

pub fn layout() -> Layout {
    let mut layout = Layout { name: "two joints".to_owned(), ..Layout::default() };
    for (name, alias) in [("left knee", 11), ("right knee", 12)] {
        let value = |index, name: &str, bits, bit_at| MappedValue {
            index,
            entry: 0,
            bits,
            data_type: 0,
            bit_at,
            name: name.to_owned(),
        };
        layout.add(DeviceLayout {
            name: name.to_owned(),
            kind: DeviceKind::Drive,
            alias,
            vendor: 0xF1C7_1005,
            product: 4,
            revision: 1,
            serial: 0,
            outputs: 0..BYTES / 2,
            inputs: 0..BYTES / 2,
            output_values: vec![
                value(0x6040, "Controlword", 16, 0),
                value(0x607A, "Target position", 32, 16),
            ],
            input_values: vec![
                value(0x6041, "Statusword", 16, 0),
                value(0x6064, "Position actual value", 32, 16),
            ],
            increments: 65_536,
            travel: [-1000, 1000],
            setup: onbeat_ethercat::setup::DeviceSetup::default(),
        });
    }

    layout
}

pub fn cycle(number: u64) -> BusCycle {
    BusCycle {
        cycle: number,
        release_ns: number * 1_000_000,
        expected: 6,
        working_counter: 6,
        ..BusCycle::default()
    }
}

/// Returns bytes that encode a number and reveal tearing.
pub fn pattern(number: u64) -> Vec<u8> {
    number.to_ne_bytes().repeat(BYTES / 8)
}

/// Returns the number of such bytes, if they are not torn.
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    let first = bytes.get(..8)?;
    bytes
        .chunks_exact(8)
        .all(|chunk| chunk == first)
        .then(|| u64::from_ne_bytes(first.try_into().unwrap()))
}

/// Runs one cycle; returns the outputs it sends.
pub fn exchange(bus: &mut BusSide, number: u64) -> Vec<u8> {
    let mut outputs = vec![0xAA; BYTES];
    bus.exchange(&cycle(number), &pattern(number), &mut outputs);
    outputs
}

/// Publishes these numbers in bursts; see [`SHORTEST_PAUSE`].
pub fn in_bursts(numbers: impl Iterator<Item = u64>, mut publish: impl FnMut(u64)) {
    let mut numbers = numbers.peekable();
    let mut bursts = 0_u64;
    while numbers.peek().is_some() {
        let began = Instant::now();
        numbers.by_ref().take(BURST).for_each(&mut publish);
        bursts += 1;

        // As long as the burst, whatever it took here.
        let published = Instant::now();
        let is_long = bursts.is_multiple_of(LONG_PAUSE_EVERY);
        let shortest = if is_long { LONG_PAUSE } else { SHORTEST_PAUSE };
        let pause = (published - began).max(shortest);
        while published.elapsed() < pause {
            spin_loop();
        }
    }
}

pub fn kinds(events: &EventBatch) -> Vec<EventKind> {
    events.events.iter().map(|(_, event)| event.kind).collect()
}

/// Polls a condition; the closure may run cycles.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub const ALL: [Sharing; 3] = [Sharing::WaitFree, Sharing::Pi, Sharing::Plain];

/// Returns the role of this process, with its arguments.
pub fn role() -> Option<Vec<String>> {
    std::env::var(ROLE).ok().map(|words| words.split(' ').map(str::to_owned).collect())
}

pub fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {line}").unwrap();
    out.flush().unwrap();
}

/// Opens a bus that another process has just created.
pub fn client(name: &str) -> Client {
    Client::open(name).unwrap()
}

/// Another process; killed on drop.
pub struct Other {
    child: Child,
    lines: BufReader<ChildStdout>,
}

/// The name of that test: the path of its module without the crate's.
pub fn in_another_process(module: &str) -> String {
    let (_crate, module) = module.split_once("::").unwrap();
    format!("{module}::in_another_process")
}

impl Other {
    /// Starts this test binary again, with only the test `in_another_process` of a module
    /// (`module_path!()`).
    pub fn with(module: &str, role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &in_another_process(module), "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line it prints; empty when it has ended.
    pub fn next_line(&mut self) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some(text) = line.strip_prefix("> ") {
                return text.trim_end().to_owned();
            }
            line.clear();
        }

        String::new()
    }

    /// Sends SIGSTOP, and waits until no thread runs any more: the one that the kernel chooses to take
    /// the signal stops the others only when it gets a CPU.
    pub fn stop(&self) {
        kill_process(self.id(), Signal::STOP).unwrap();
        let tasks = format!("/proc/{}/task", self.pid());
        until("all threads have stopped", || {
            std::fs::read_dir(&tasks).unwrap().all(|task| {
                let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
                stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
            })
        });
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        kill_process(self.id(), Signal::CONT).unwrap();
    }

    fn id(&self) -> Pid {
        Pid::from_raw(self.pid().cast_signed()).unwrap()
    }

    /// Sends SIGKILL, and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn has_succeeded(mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
