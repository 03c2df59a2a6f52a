//! The table on the front page of `onbeat-rt`, held: no system call but sleep and time, and no
//! allocation.
//!
//! The filter kills the process, so the loops under it run in children: this file's own executable,
//! called again for one test with a word in the environment.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use assert_no_alloc::{assert_no_alloc, reset_violation_count, violation_count};
use onbeat::probe::ports::{Output, PortAddress};
use onbeat::thread::{LoopPorts, ThreadRequest, lockdown};
use onbeat_control::{BusSide, Client, Image, Owner, Sharing, Snapshot};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::BusCycle;
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::{Monotonic, tick};
use onbeat_rt::{
    Clock, Cycle, Flow, OnOverrun, Outcome, Plan, Sample, Slot, Task, Wait, cycle, split,
};

const CYCLES: u64 = 2000;
const SIGSYS: i32 = 31;
const RELATIVE: Wait = Wait::Relative { margin_ns: 50_000 };

/// A 2 kHz loop with a spin, so that both parts of a wait are passed.
fn run_loop(
    task: &mut (impl Task + Send),
    arm: fn(),
    around: fn(&mut dyn FnMut()),
) -> (Outcome, usize) {
    run_loop_waiting(Wait::SleepThenSpin { margin_ns: 50_000 }, task, arm, around)
}

/// The same, with a wait of one's own.
fn run_loop_waiting(
    wait: Wait,
    task: &mut (impl Task + Send),
    arm: fn(),
    around: fn(&mut dyn FnMut()),
) -> (Outcome, usize) {
    let mut slots: Vec<Slot<Sample>> = (0..4096).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let stop = AtomicBool::new(false);
    let outcome = std::thread::scope(|threads| {
        let body = threads.spawn(|| {
            let _ = ThreadRequest::default().prepare_thread();
            let period_ns = 500_000;
            let first_release = cycle::Phase::AvoidTick.first_release(
                Monotonic.now().plus_ns(5_000_000),
                period_ns,
                tick(),
            );
            let plan = Plan {
                period_ns,
                first_release,
                deadline_ns: period_ns,
                releases: CYCLES,
                wait,
                on_overrun: OnOverrun::SkipKeepPhase,
            };

            arm();
            let mut outcome = None;
            around(&mut || outcome = Some(cycle::run(&Monotonic, &plan, task, &mut hot, &stop)));
            outcome.unwrap()
        });
        body.join().unwrap()
    });

    (outcome, std::iter::from_fn(|| cold.pop()).count())
}

fn plainly(run: &mut dyn FnMut()) {
    run();
}

fn quiet(_: &Cycle) -> Flow {
    Flow::Continue
}

/// In the first cycle: a stop of the machine may leave no other one.
fn prints_once(_: &Cycle) -> Flow {
    println!("a print in the loop");
    Flow::Stop
}

/// As above.
fn allocates_once(_: &Cycle) -> Flow {
    std::hint::black_box(vec![0_u8; 64]);
    Flow::Stop
}

/// A bus, the owner of its outputs and a reader, all in one loop; every hundredth cycle the owner
/// writes nothing for long enough to be stale, which is an event.
struct Exchanges {
    bus: BusSide,
    owner: Owner,
    reader: Client,
    seen: Snapshot,
    image: [Vec<u8>; 2],
}

impl Exchanges {
    fn new(name: &str) -> Self {
        let name = format!("test-{name}-{}", std::process::id());
        let layout = Layout { input_bytes: 656, output_bytes: 656, ..Layout::default() };
        let bus = Image::create(&name, &layout, Sharing::WaitFree).unwrap();
        let reader = Client::open(&name).unwrap();
        let owner = reader.claim().unwrap();
        Self { bus, owner, seen: reader.snapshot(), reader, image: [vec![0; 656], vec![0; 656]] }
    }
}

impl Task for Exchanges {
    fn cycle(&mut self, cycle: &Cycle) -> Flow {
        let [inputs, outputs] = &mut self.image;
        let of = BusCycle { cycle: cycle.index, ..BusCycle::default() };
        self.bus.exchange(&of, inputs, outputs);
        self.reader.read(&mut self.seen).unwrap();

        assert_eq!(self.seen.cycle.cycle, cycle.index);
        if cycle.index % 100 < 80 {
            self.owner.write_with(|wanted| wanted[0] = cycle.index as u8).unwrap();
        }

        Flow::Continue
    }
}

fn child(word: &str) -> ExitStatus {
    let me = std::env::current_exe().unwrap();
    let test = "hot_path_is_quiet::in_a_child_with_the_filter";
    Command::new(me)
        .args(["--exact", test, "--nocapture"])
        .env("ONBEAT_TEST_CHILD", word)
        .status()
        .unwrap()
}

#[test]
fn in_a_child_with_the_filter() {
    let arm = || lockdown(LoopPorts::None).expect("the filter can be installed");
    let with_ports = || lockdown(LoopPorts::Open).expect("the filter can be installed");
    let output = Output::open(&PortAddress::File("/dev/null".into())).unwrap().expect("no pipe");
    let mut writes = |cycle: &Cycle| {
        assert!(output.set(cycle.index as u8));
        Flow::Continue
    };

    let outcome = match std::env::var("ONBEAT_TEST_CHILD").unwrap_or_default().as_str() {
        "quiet" => run_loop(&mut quiet, arm, plainly).0,
        "relative" => {
            // Without a grid the loop ends by its time, with fewer cycles: with one where its
            // machine stands still for all of it.
            for _ in 0..20 {
                let outcome = run_loop_waiting(RELATIVE, &mut quiet, arm, plainly).0;
                let is_counted = outcome.slots == outcome.cycles && outcome.cycles <= CYCLES;
                assert!(is_counted, "{outcome:?}");
                if outcome.cycles > 1 {
                    return;
                }
            }
            panic!("no loop of twenty slept");
        }
        "exchanges" => run_loop(&mut Exchanges::new("filter"), arm, plainly).0,
        "writes" => run_loop(&mut writes, with_ports, plainly).0,
        "writes without ports" => run_loop(&mut writes, arm, plainly).0,
        "prints" => run_loop(&mut prints_once, arm, plainly).0,
        // Called as an ordinary test: the tests below call it with a word.
        _ => return,
    };

    assert_eq!(outcome.slots, CYCLES);
}

#[test]
fn the_loop_asks_the_kernel_for_nothing_but_sleep_and_time() {
    let status = child("quiet");
    assert!(status.success(), "{status}");
}

#[test]
fn a_relative_sleep_asks_the_kernel_for_nothing_else_either() {
    let status = child("relative");
    assert!(status.success(), "{status}");
}

#[test]
fn a_print_planted_in_a_cycle_is_caught() {
    assert_eq!(child("prints").signal(), Some(SIGSYS), "the filter must kill what prints");
}

#[test]
fn a_loop_with_ports_may_write_and_one_without_may_not() {
    let status = child("writes");
    assert!(status.success(), "{status}");
    assert_eq!(child("writes without ports").signal(), Some(SIGSYS));
}

#[test]
fn bus_owner_and_reader_of_an_image_ask_the_kernel_for_nothing() {
    let status = child("exchanges");
    assert!(status.success(), "{status}");
}

#[test]
fn bus_owner_and_reader_of_an_image_ask_for_no_memory() {
    static SEEN: AtomicU32 = AtomicU32::new(u32::MAX);
    let mut exchanges = Exchanges::new("memory");
    let (outcome, _) = run_loop(
        &mut exchanges,
        || {},
        |run| {
            reset_violation_count();
            assert_no_alloc(run);
            SEEN.store(violation_count(), Ordering::Relaxed);
        },
    );

    assert_eq!(SEEN.load(Ordering::Relaxed), 0, "allocations in {} cycles", outcome.cycles);
    assert!(exchanges.reader.state().events > 1, "events were among what it did");
}

#[test]
fn the_loop_allocates_nothing_and_an_allocation_would_be_seen() {
    // The count belongs to the thread, so the loop's thread takes it along.
    static SEEN: AtomicU32 = AtomicU32::new(0);
    let watched: fn(&mut dyn FnMut()) = |run| {
        reset_violation_count();
        assert_no_alloc(run);
        SEEN.store(violation_count(), Ordering::Relaxed);
    };

    let (outcome, samples) = run_loop(&mut quiet, || {}, watched);
    assert_eq!(SEEN.load(Ordering::Relaxed), 0, "allocations in {} cycles", outcome.cycles);
    assert_eq!(samples as u64, outcome.cycles);

    let (outcome, samples) = run_loop_waiting(RELATIVE, &mut quiet, || {}, watched);
    assert_eq!(
        SEEN.load(Ordering::Relaxed),
        0,
        "allocations in {} cycles without a grid",
        outcome.cycles
    );
    assert_eq!(samples as u64, outcome.cycles);

    run_loop(&mut allocates_once, || {}, watched);
    assert!(SEEN.load(Ordering::Relaxed) > 0, "the counter must see a planted allocation");
}
