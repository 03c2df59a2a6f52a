//! A change around a run, reported by a simulated source: no clock is set and no CPU taken away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onbeat::probe::description::OnGrid;
use onbeat::probe::surroundings::{SurroundingsReading, of_this_machine};
use onbeat::probe::{self, BlockPlan, Destination, Interruptions, Run, Setting};
use onbeat::record::{RunFile, Series, Surrounding};
use onbeat_rt::cycle::Phase;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow};

const MS: u64 = 1_000_000;
/// The cycle after which the clock is set, and the looks after that until the loop ends.
const SET_AFTER: u64 = 200;
const LOOKS: u64 = 15;

fn setting() -> Setting {
    Setting { phase: Phase::At(0), ..Setting::new(MS) }
}

#[test]
fn cycles_under_way_while_the_clock_is_set_are_excluded_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("timer.onbeat.hlog");
    let header = probe::header(&["onbeat".into()], "timer", &[Series::ReleaseLatency], 0.0);
    let mut run =
        Run::open(Destination { path: &path, header, origin: Monotonic.now() }, setting()).unwrap();
    // Loop and looks wait for each other, however long one of them gets no CPU.
    let (cycle, looks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (mut machine, reached, looked) = (of_this_machine(), cycle.clone(), looks.clone());
    run.surround(Box::new(move || {
        let now = machine();
        let is_set = reached.load(Ordering::Relaxed) >= SET_AFTER;
        looked.fetch_add(u64::from(is_set), Ordering::Relaxed);
        let set_ns = if is_set { 3_600_000_000_000 } else { 0 };
        SurroundingsReading { wall_ns: now.wall_ns + set_ns, ..now }
    }));

    let until_looked_at = |now: &Cycle| {
        cycle.store(now.index, Ordering::Relaxed);
        if looks.load(Ordering::Relaxed) < LOOKS { Flow::Continue } else { Flow::Stop }
    };
    let block = BlockPlan { index: 0, load: "idle", releases: u64::MAX };
    let mut task = OnGrid { task: until_looked_at, has_ports: false };
    run.begin_body(&mut task).block(&block, &Interruptions::default(), &mut |_| {}).unwrap();
    let account = run.close().unwrap();
    let file = RunFile::read(&path).unwrap();
    let note = &file.exclusions[0];

    assert_eq!((file.exclusions.len(), note.what), (1, Surrounding::ClockStep));
    assert_eq!(note.sentence, "the wall clock was set forward by 3600.000 s");
    // The stretch is one look long: its cycles, and those that reach into it at either end.
    let due = (note.length * 1e3).floor() as u64;
    assert!(
        account.excluded >= due && account.excluded == note.samples,
        "{} of {due}",
        account.excluded
    );
    let kept = file.moments(Series::WakeupLatency).n + file.moments(Series::SkippedLatency).n;

    assert_eq!(kept + account.excluded + account.warmup + account.lost, account.slots);
    assert!(account.slots > SET_AFTER);
    assert_eq!(account.slots, account.cycles + account.skipped + account.lost);
}
