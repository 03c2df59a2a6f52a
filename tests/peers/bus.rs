//! The bus beside others: ethercrab's own loop on io_uring, and pysoem, each on the simulated robot
//! behind a pair of interfaces.
//!
//! Each contestant runs in a process and a network namespace of its own, with `onbeat segment run`
//! at the other end. Once a millisecond, a round trip brings process data; that of onbeat and
//! ethercrab the AL states of all devices too, and onbeat's one frame the clock and the mailboxes
//! besides.

use std::future::Future;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant as Wall};

use ethercrab::{MainDevice, MainDeviceConfig, PduStorage, Timeouts};
use onbeat_ethercat::carrier::WireMethod;
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::{BusCycle, Controller};
use onbeat_report::units::count;
use onbeat_robot::bus::{
    Bus, BusOptions as Options, ExchangeMode as Mode, InProcess, Packets, Wire,
};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};
use onbeat_segment::{Link, Segment};
use serde_json::{Value, json};

use crate::Length;
use crate::failure::Failure;
use crate::table::{Finding, Part, format_times};
use crate::turns::{self, Contestant, Spread, in_turns};

/// The first word of a contestant's process.
pub(crate) const ROLE: &str = "--bus-contestant";
/// The contestant whose frames pass AF_XDP.
const OVER_XDP: &str = "onbeat-xdp";
const INTERFACE: &str = "ecat0";
const MS: u64 = 1_000_000;
const OPTIONS: Options =
    Options { mode: Mode::SameCycle { reply_within_ns: MS }, period_ns: MS, follow_clock: false };

/// What one run of a contestant came to: times in ns.
#[derive(Clone, Copy, Debug)]
struct Ran {
    up: f64,
    p50: f64,
    p99: f64,
    frames: f64,
}

struct Still;

impl Controller for Still {
    fn step(&mut self, _: &BusCycle, _: &[u8], _: &mut [u8]) {}
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let rounds = length.pick(5, 1);
    let cycles = length.pick(2_000, 500);
    let title = format!(
        "EtherCAT: 59 simulated devices, {cycles} cycles at 1 kHz, {}",
        turns::describe(rounds)
    );
    let mut part = Part::new(title, "peer");
    for finding in in_process(length) {
        part.add(finding);
    }

    let python =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/maindevices-venv/bin/python");
    let mut peers = vec!["ethercrab"];
    if python.exists() {
        peers.push("pysoem");
    } else {
        part.remark("pysoem: left out, it is installed by `cargo test -p onbeat-cli --test elsewhere maindevices_reach_op::`");
    }

    for peer in peers {
        let contestant = |name: &'static str| {
            move |round: u32| {
                eprintln!("bus: {name}, turn {} of {rounds}", round + 1);
                contest(name, cycles)
            }
        };

        let mut ours = contestant("onbeat");
        let mut theirs = contestant(peer);
        let mut over_xdp = contestant(OVER_XDP);
        let mut contestants: [Contestant<'_, Ran>; 3] = [&mut ours, &mut theirs, &mut over_xdp];
        let runs = in_turns(rounds, &mut contestants)?;
        compare(&mut part, peer, &runs);
        compare_wires(&mut part, peer, &runs);
    }

    Ok(part)
}

fn compare(part: &mut Part, peer: &str, runs: &[Vec<Ran>]) {
    let of = |figure: fn(&Ran) -> f64| {
        let [ours, theirs] =
            [0, 1].map(|side: usize| runs[side].iter().map(figure).collect::<Vec<f64>>());
        (ours, theirs)
    };

    let mut times = |what: &str, figure: fn(&Ran) -> f64, goal: Option<f64>| {
        let (ours, theirs) = of(figure);
        let median = |times: &[f64]| format_times(Spread::from_figures(times.iter().copied()));
        let finding =
            Finding::new(format!("{what}, beside {peer}"), median(&ours)).beside(median(&theirs));
        let mut finding = finding.with_ratio(Spread::of_ratios(&ours, &theirs));
        if let (Some(goal), Some(ratio)) = (goal, Spread::of_ratios(&ours, &theirs)) {
            finding = finding.with_goal(format!("≤ {goal}"), ratio.median <= goal);
        }

        part.add(finding);
    };

    times("round trip p50", |ran| ran.p50, Some(1.0));
    times("round trip p99", |ran| ran.p99, None);
    times("to OP", |ran| ran.up, (peer == "ethercrab").then_some(0.8));
    let (ours, theirs) = of(|ran| ran.frames);
    let median = |frames: &[f64]| {
        Spread::from_figures(frames.iter().copied())
            .map_or_else(String::new, |spread| count(spread.median as u64))
    };
    let ratio = Spread::of_ratios(&ours, &theirs);
    let finding = Finding::new(format!("frames to OP, beside {peer}"), median(&ours))
        .beside(median(&theirs))
        .with_ratio(ratio);
    part.add(match (peer, ratio) {
        ("ethercrab", Some(ratio)) => finding.with_goal("≤ 1", ratio.median <= 1.0),
        _ => finding,
    });
}

/// Round trips by AF_XDP beside the peer's, and beside those by the ring.
fn compare_wires(part: &mut Part, peer: &str, runs: &[Vec<Ran>]) {
    let of =
        |side: usize, figure: fn(&Ran) -> f64| runs[side].iter().map(figure).collect::<Vec<f64>>();
    let median = |times: &[f64]| format_times(Spread::from_figures(times.iter().copied()));
    for (side, beside) in [(1, peer), (0, "the ring")] {
        for (what, figure) in
            [("p50", (|ran| ran.p50) as fn(&Ran) -> f64), ("p99", |ran: &Ran| ran.p99)]
        {
            let (ours, theirs) = (of(2, figure), of(side, figure));
            let finding = Finding::new(
                format!("round trip {what} by AF_XDP, beside {beside}"),
                median(&ours),
            );
            part.add(finding.beside(median(&theirs)).with_ratio(Spread::of_ratios(&ours, &theirs)));
        }
    }
}

// ---- in one process

/// The segment's time per frame, and the MainDevice's per cycle.
fn in_process(length: Length) -> Vec<Finding> {
    let cycles = length.pick(200_000, 20_000);
    let runs: Vec<(f64, f64)> = (0..length.pick(5, 1)).map(|_| costs(cycles)).collect();
    let spread = |figure: fn(&(f64, f64)) -> f64| Spread::from_figures(runs.iter().map(figure));
    let segment = spread(|run| run.0);
    let bus = spread(|run| run.1);
    let reached =
        |spread: Option<Spread>, most: f64| spread.is_some_and(|spread| spread.median <= most);
    vec![
        Finding::new("segment, time per frame in process", format_times(segment))
            .with_goal("≤ 3 µs", reached(segment, 3_000.0)),
        Finding::new("MainDevice, time per cycle in process", format_times(bus))
            .with_goal("≤ 5 µs", reached(bus, 5_000.0)),
    ]
}

/// A wire that says how long the segment took.
struct Timed {
    inner: InProcess<Monotonic>,
    spent_ns: u64,
    frame_ns: u64,
}

impl Timed {
    fn time<T>(&mut self, work: impl FnOnce(&mut InProcess<Monotonic>) -> T) -> (T, u64) {
        let began = Monotonic.now();
        let done = work(&mut self.inner);
        let took = Monotonic.now().ns_since(began);
        self.spent_ns += took;
        (done, took)
    }
}

impl Wire for Timed {
    fn send(&mut self, frame: &[u8]) {
        let ((), took) = self.time(|wire| wire.send(frame));
        self.frame_ns += took;
    }

    fn receive(&mut self, buffer: &mut [u8], until: Instant) -> Option<usize> {
        self.time(|wire| wire.receive(buffer, until)).0
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn rest(&mut self) {
        self.time(Wire::rest);
    }
}

fn costs(cycles: u64) -> (f64, f64) {
    let (Ok(link), Ok(layout)) =
        (Link::from_toml(Segment::HUMANOID), Layout::from_toml(Segment::HUMANOID))
    else {
        return (f64::INFINITY, f64::INFINITY);
    };
    let wire = Timed { inner: InProcess::on_clock(link, Monotonic), spent_ns: 0, frame_ns: 0 };
    let options = Options { mode: Mode::Pipelined, ..OPTIONS };
    let Ok(mut bus) = Bus::bring_up(wire, Some(&layout), options, "the segment") else {
        return (f64::INFINITY, f64::INFINITY);
    };

    for _ in 0..100 {
        bus.cycle(Monotonic.now(), MS, &mut Still);
        thread::sleep(Duration::from_micros(100));
    }

    (bus.wire_mut().spent_ns, bus.wire_mut().frame_ns) = (0, 0);
    let sent = bus.counts().sent;
    let began = Monotonic.now();
    for _ in 0..cycles {
        bus.cycle(Monotonic.now(), MS, &mut Still);
    }

    let whole_ns = Monotonic.now().ns_since(began) as f64;
    let spent_ns = bus.wire().spent_ns as f64;
    let frame_ns = bus.wire().frame_ns as f64;
    let frames = (bus.counts().sent - sent) as f64;
    (frame_ns / frames, (whole_ns - spent_ns) / cycles as f64)
}

// ---- contestants

fn contest(name: &str, cycles: u64) -> Result<Ran, Failure> {
    let onbeat = env!("CARGO_BIN_EXE_onbeat");
    let mut command = Command::new("unshare");
    command.arg("--net");
    if name == "pysoem" {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        command
            .arg(root.join("target/maindevices-venv/bin/python"))
            .arg(root.join("tests/maindevices/pysoem_cycles.py"));
        command.arg(onbeat).arg(cycles.to_string()).args(["--period-us", "1000"]);
    } else {
        let myself = std::env::current_exe().map_err(Failure::system("find this program"))?;
        command.arg(myself).args([ROLE, name, &cycles.to_string()]).arg(onbeat);
    }

    let ran =
        command.output().map_err(|source| Failure::Start { program: name.to_owned(), source })?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let result: Value = serde_json::from_str(&said).map_err(|_| Failure::Ended {
        program: name.to_owned(),
        status: ran.status,
        said: said + &String::from_utf8_lossy(&ran.stderr),
    })?;

    let figure = |key: &str| result[key].as_f64().unwrap_or(f64::NAN);
    Ok(Ran {
        up: figure("seconds_to_op") * 1e9,
        p50: figure("p50_us") * 1e3,
        p99: figure("p99_us") * 1e3,
        frames: result["frames"].as_f64().unwrap_or(0.0),
    })
}

/// A contestant, alone in its namespace.
pub(crate) fn child(name: &str, cycles: &str, onbeat: &Path) -> Result<(), Failure> {
    let cycles = cycles.parse().unwrap_or(1_000);
    let mut segment = segment(onbeat)?;
    let result = if name == "ethercrab" {
        with_ethercrab(onbeat, cycles)
    } else {
        let method = if name == OVER_XDP { WireMethod::Xdp } else { WireMethod::Ring };
        with_onbeat(onbeat, cycles, method)
    };
    let _ = segment.kill();
    let _ = segment.wait();
    println!("{}", result?);

    Ok(())
}

fn segment(onbeat: &Path) -> Result<Child, Failure> {
    let started = Command::new(onbeat)
        .args(["segment", "run", "humanoid", "--veth", INTERFACE])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| Failure::Start { program: "onbeat segment run".to_owned(), source })?;
    let is_up = || {
        std::fs::read_to_string(format!("/sys/class/net/{INTERFACE}/operstate"))
            .is_ok_and(|state| state.trim() == "up")
    };

    for _ in 0..500 {
        if is_up() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }

    // The devices' socket is open a moment after the interface is up.
    thread::sleep(Duration::from_millis(300));
    Ok(started)
}

fn failed(what: &str, why: impl std::fmt::Display) -> Failure {
    let source = std::io::Error::other(format!("{what}: {why}"));
    Failure::System { what: "run the devices", source }
}

/// Frames that the segment has seen.
fn frames(onbeat: &Path) -> Result<u64, Failure> {
    let asked = Command::new(onbeat).args(["segment", "status", "--json"]).output();
    let said = asked.map_err(Failure::system("ask the segment"))?.stdout;
    let result: Value =
        serde_json::from_slice(&said).map_err(|why| failed("segment status", why))?;
    result["counts"]["sent"].as_u64().ok_or_else(|| failed("segment status", "no count of frames"))
}

fn result_json(up: Duration, frames: u64, mut round_trips_ns: Vec<u64>) -> Value {
    round_trips_ns.sort_unstable();
    let at = |share: f64| {
        let place = ((round_trips_ns.len() as f64 * share) as usize)
            .min(round_trips_ns.len().saturating_sub(1));
        round_trips_ns.get(place).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
    };
    json!({ "seconds_to_op": up.as_secs_f64(), "frames": frames, "p50_us": at(0.5), "p99_us": at(0.99) })
}

fn with_onbeat(onbeat: &Path, cycles: u64, method: WireMethod) -> Result<Value, Failure> {
    let layout = Layout::from_toml(Segment::HUMANOID).map_err(|why| failed("layout", why))?;
    let packets = Packets::open_by(INTERFACE, method).map_err(|why| failed("interface", why))?;
    if packets.is_fallback() {
        return Err(failed("AF_XDP", packets.words()));
    }
    let began = Wall::now();
    let mut bus = Bus::bring_up(packets, Some(&layout), OPTIONS, INTERFACE)
        .map_err(|why| failed("onbeat", why))?;
    let mut release = Monotonic.now();
    while !bus.is_up() {
        release = release.plus_ns(MS).max(Monotonic.now());
        let _ = Monotonic.sleep_until(release);
        bus.cycle(release, MS, &mut Still);
    }

    let up = began.elapsed();
    let frames = frames(onbeat)?;
    let mut round_trips_ns = Vec::new();
    for _ in 0..cycles {
        release = release.plus_ns(MS).max(Monotonic.now());
        let _ = Monotonic.sleep_until(release);
        let began = Monotonic.now();
        let seen = bus.cycle(release, MS, &mut Still);
        if seen.fresh {
            round_trips_ns.push(Monotonic.now().ns_since(began));
        }
    }

    Ok(result_json(up, frames, round_trips_ns))
}

type Storage = PduStorage<16, { PduStorage::element_size(1400) }>;

fn with_ethercrab(onbeat: &Path, cycles: u64) -> Result<Value, Failure> {
    let storage: &'static Storage = Box::leak(Box::new(Storage::new()));
    let (tx, rx, pdu_loop) =
        storage.try_split().map_err(|()| failed("ethercrab", "its storage is split"))?;
    #[cfg(feature = "peer-on-io-uring")]
    thread::spawn(move || ethercrab::std::tx_rx_task_io_uring(INTERFACE, tx, rx).is_ok());
    #[cfg(not(feature = "peer-on-io-uring"))]
    thread::spawn(move || {
        ethercrab::std::tx_rx_task(INTERFACE, tx, rx).is_ok_and(|task| block_on(task).is_ok())
    });
    thread::sleep(Duration::from_millis(200));
    let config = MainDeviceConfig { dc_static_sync_iterations: 0, ..MainDeviceConfig::default() };
    let timeouts = Timeouts {
        pdu: Duration::from_millis(200),
        eeprom: Duration::from_secs(1),
        ..Timeouts::default()
    };
    let main_device = MainDevice::new(pdu_loop, timeouts, config);
    let began = Wall::now();
    let up = async {
        let group = main_device.init_single_group::<64, 2048>(ethercrab::std::ethercat_now).await?;
        group.into_op(&main_device).await
    };

    let group = block_on(up).map_err(|why| failed("ethercrab", why))?;
    let up = began.elapsed();
    let frames = frames(onbeat)?;
    let mut round_trips_ns = Vec::new();
    let mut release = Monotonic.now();
    for _ in 0..cycles {
        release = release.plus_ns(MS).max(Monotonic.now());
        let _ = Monotonic.sleep_until(release);
        let began = Monotonic.now();
        if block_on(group.tx_rx(&main_device)).is_ok() {
            round_trips_ns.push(Monotonic.now().ns_since(began));
        }
    }

    Ok(result_json(up, frames, round_trips_ns))
}

/// Runs a future on this thread, which sleeps meanwhile.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = Box::pin(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
