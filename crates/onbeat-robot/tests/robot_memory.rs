//! A robot that runs for hours takes as much memory and as many descriptors at the end as after a
//! minute: the whole session, with the image, the ring of cycles, the live view and browsers that
//! come and go, in virtual time, with every allocation counted.
//!
//! A quarter of an hour here; `ONBEAT_SOAK_HOURS` sets another length, and `make test-long` runs a day.
#![allow(missing_docs, unsafe_code, clippy::unwrap_used, clippy::expect_used)]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::probe::surroundings::SurroundingsReading;
use onbeat::probe::{self, Destination, Interruptions, Origin, Run, Setting};
use onbeat_control::{Image, ImageSettings};
use onbeat_ethercat::event::Event;
use onbeat_robot::bus::{BusOptions, ExchangeMode, InProcess};
use onbeat_robot::cycle_messages::CycleMessages;
use onbeat_robot::live_view::{LiveView, PageServerPlan, ViewLimits};
use onbeat_robot::motion::{MotionController, RobotView, Trajectory};
use onbeat_robot::session::{RobotFile, Session, SessionObserver, SessionPlan};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::time::Interrupted;
use onbeat_rt::{Clock, Instant};
use onbeat_segment::Link;

const PERIOD_NS: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600 * 1_000_000_000;
/// Phases of the run whose largest memory is compared; the first one warms up.
const PHASES: usize = 12;
/// What the largest memory of a phase may exceed that of the first two by: events of a view, answers to
/// browsers and lines of the run file are of different lengths. A run that kept 100 bytes per second
/// of its own would exceed it within an hour.
const PLAY_BYTES: usize = 256 * 1024;

/// Browsers may be in other numbers at the moments of looking: each is a descriptor here and there.
const PLAY_DESCRIPTORS: usize = 6;

/// Bytes in use, and the most of them since the last look.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count.
struct Counting;

// SAFETY: every call is passed on unchanged, and its answer returned.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        let live = LIVE.fetch_add(memory.size(), Ordering::Relaxed) + memory.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(memory) }
    }

    // SAFETY: as for the whole.
    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        LIVE.fetch_sub(memory.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A clock that stands still but where its loop sleeps. Most wake-ups take microseconds, some of them
/// longer than a period: cycles are missed, spikes recorded.
#[derive(Debug)]
struct VirtualClock {
    now_ns: AtomicU64,
    sleeps: AtomicU64,
}

impl VirtualClock {
    /// Some time before now by the real clock, so that bringing up the bus takes none of the run.
    fn new() -> Self {
        let now_ns = Monotonic.now().as_ns().saturating_sub(10 * 1_000_000_000);
        Self { now_ns: AtomicU64::new(now_ns), sleeps: AtomicU64::new(0) }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        Instant::from_ns(self.now_ns.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, wake_up: Instant) -> Result<(), Interrupted> {
        let sleeps = self.sleeps.fetch_add(1, Ordering::Relaxed);
        let late_ns = match sleeps {
            n if n % 50_021 == 0 => 1_700_000,
            n if n % 7_001 == 0 => 300_000,
            n => 2_000 + n * 7_919 % 3_000,
        };
        if wake_up > self.now() {
            self.now_ns.store(wake_up.as_ns() + late_ns, Ordering::Relaxed);
        }
        Ok(())
    }

    fn sleep_for(&self, ns: u64) -> Result<(), Interrupted> {
        self.sleep_until(self.now().plus_ns(ns))
    }
}

/// The surroundings as the virtual clock has them: nothing changes.
fn unchanging(clock: &Arc<VirtualClock>) -> impl FnMut() -> SurroundingsReading + 'static {
    let clock = Arc::clone(clock);
    move || {
        let now = clock.now();
        let ns = now.as_ns().cast_signed();
        SurroundingsReading { from: now, to: now, wall_ns: ns, boot_ns: ns, cpus: Some(1) }
    }
}

/// What a phase of the run took at most.
#[derive(Clone, Copy, Debug)]
struct Taken {
    heap: usize,
    descriptors: usize,
}

/// Notes what each phase takes, and keeps the disk from filling.
struct Meter<'c> {
    clock: &'c VirtualClock,
    began: Instant,
    phase_ns: u64,
    taken: Vec<Taken>,
    descriptors: usize,
    path: PathBuf,
    view: LiveView,
}

impl SessionObserver for Meter<'_> {
    fn view(&mut self, view: &RobotView) {
        self.view.show(view);
        self.descriptors = self.descriptors.max(descriptors());
        let phase = self.clock.now().ns_since(self.began) / self.phase_ns;
        if phase as usize <= self.taken.len() {
            return;
        }

        let heap = PEAK.swap(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
        let descriptors = std::mem::take(&mut self.descriptors);
        self.taken.push(Taken { heap, descriptors });
        // Lines that follow leave a hole before them, which takes no room.
        File::options().write(true).open(&self.path).unwrap().set_len(0).unwrap();
    }

    fn event(&mut self, event: &Event, device: &str) {
        self.view.add(event, device);
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Browsers that come and go until they are asked to stop: one follows the events for a while, one
/// takes the page, one leaves in the middle of its request. Returns how often the first came.
fn browse(port: u16, stop: &AtomicBool) -> u64 {
    const EVENTS: usize = 4;
    let mut followed = 0;
    let mut bytes = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let host = format!("HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
        let mut leaving = connect();
        let _ = leaving.write_all(b"GET /events HTTP/1.1\r\nHost: 127");
        let mut page = connect();
        let _ = page.write_all(format!("GET / {host}").as_bytes());
        while page.read(&mut bytes).is_ok_and(|read| read > 0) {}

        let mut events = connect();
        let _ = events.write_all(format!("GET /events {host}").as_bytes());
        events.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut seen = 0;
        while seen < EVENTS && !stop.load(Ordering::Relaxed) {
            let read = events.read(&mut bytes).unwrap_or(0);
            if read == 0 {
                break;
            }
            let is_event = |words: &&[u8]| words == b"event: cycles";
            seen += bytes[..read].windows(13).filter(is_event).count();
        }
        followed += u64::from(seen >= EVENTS);
    }
    followed
}

fn hours() -> f64 {
    std::env::var("ONBEAT_SOAK_HOURS").map_or(0.25, |hours| hours.parse().expect("a number"))
}

#[test]
#[allow(clippy::too_many_lines)] // One session from begin to end.
fn memory_and_descriptors_stay_what_they_were_after_the_first_phase() {
    let lasting_ns = (hours() * HOUR_NS as f64) as u64;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("robot.onbeat.hlog");
    let file = RobotFile::read(Path::new("humanoid"), PERIOD_NS).unwrap();
    let name = format!("test-memory-{}", std::process::id());
    let clock = Arc::new(VirtualClock::new());
    let mut image = Image::create(&name, &file.layout, ImageSettings::default()).unwrap();
    image.keep_outputs().unwrap();
    let messages =
        CycleMessages::create(&name, &file.layout, &file.robot.commanded(), PERIOD_NS).unwrap();
    let (page, limits) = ("<!doctype html>".into(), ViewLimits::default());
    let plan = PageServerPlan { port: 0, page, avoid_cpu: None, limits };
    let view = LiveView::open(&name, &file, plan).unwrap();
    let port = view.server.address().rsplit([':', '/']).nth(1).unwrap().parse().unwrap();

    let link = Link::from_description(&file.description).unwrap();
    let wire = InProcess::on_virtual_clock(link, &*clock);
    let options =
        BusOptions { mode: ExchangeMode::Pipelined, period_ns: PERIOD_NS, follow_clock: true };
    let session = Session::bring_up(wire, "the simulated segment", &file, options).unwrap();
    let origin = Origin::now();
    let header = probe::header(&["a program".to_owned()], "robot", &[], origin.unix_s);
    let destination = Destination { path: &path, header, origin: origin.at };
    let mut run = Run::open(destination, Setting::new(PERIOD_NS)).unwrap();
    run.surround(Box::new(unchanging(&clock)));
    let plan = SessionPlan {
        controller: MotionController::new(&file.robot, Trajectory::gait(&file.robot).unwrap()),
        trajectory: "gait",
        image: Some(image),
        messages: Some(messages),
        work_ns: 0,
        load: None,
        view_every_ns: 125 * PERIOD_NS,
        duration_ns: lasting_ns,
    };

    let mut meter = Meter {
        clock: &clock,
        began: Monotonic.now(),
        phase_ns: lasting_ns / PHASES as u64,
        taken: Vec::with_capacity(2 * PHASES),
        descriptors: 0,
        path: path.clone(),
        view,
    };
    let stop = AtomicBool::new(false);
    let started = std::time::Instant::now();
    let (outcome, followed) = thread::scope(|threads| {
        let browsing = threads.spawn(|| browse(port, &stop));
        let interruptions = Interruptions::default();
        let outcome = session.on_clock(&*clock).run(run, plan, &interruptions, &mut meter);
        stop.store(true, Ordering::Relaxed);
        (outcome.unwrap(), browsing.join().unwrap())
    });

    let account = meter.view.server.finish();
    let took = started.elapsed().as_secs_f64();
    eprintln!(
        "{:.2} h in {took:.0} s, {} cycles, {followed} browsers; by phase: {:?}",
        lasting_ns as f64 / HOUR_NS as f64,
        outcome.motion.cycles,
        meter.taken
    );

    // The run was one worth the name: it walked, missed cycles, had spikes, and was looked at.
    assert!(outcome.ended_in_order(), "{:?}", outcome.motion);
    let whole = lasting_ns / PERIOD_NS;
    assert!((whole * 9 / 10..whole * 11 / 10).contains(&outcome.motion.cycles), "{whole}");
    let seen = outcome.view.as_ref().unwrap();
    assert!(seen.of_loop.skipped > 3 && seen.of_loop.spikes > 10, "{:?}", seen.of_loop);
    assert_eq!(seen.spikes.len(), 3);
    assert!(followed > 0 && account.events > 0 && account.browsers >= followed, "{account:?}");

    let (first, later) = meter.taken.split_at(2);
    assert!(later.len() >= PHASES - 4, "{:?}", meter.taken);
    let most = |taken: &[Taken], of: fn(&Taken) -> usize| taken.iter().map(of).max().unwrap();
    let [before, after] = [first, later].map(|taken| most(taken, |phase| phase.heap));
    assert!(after <= before + PLAY_BYTES, "{before} and {after} bytes: {:?}", meter.taken);
    let [before, after] = [first, later].map(|taken| most(taken, |phase| phase.descriptors));
    assert!(after <= before + PLAY_DESCRIPTORS, "{before} and {after} descriptors");
}
