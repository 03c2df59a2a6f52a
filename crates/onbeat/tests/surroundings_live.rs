//! A change around a run, reported by a simulated source: no clock is set and no CPU taken away.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use onbeat::probe::description::OnGrid;
use onbeat::probe::surroundings::{SurroundingsReading, of_this_machine};
use onbeat::probe::timer::Timer;
use onbeat::probe::{self, BlockPlan, Destination, Interruptions, Run, Setting};
use onbeat::record::{RunFile, Series, Surrounding};
use onbeat_rt::Clock;
use onbeat_rt::cycle::Phase;
use onbeat_rt::sys::Monotonic;

const MS: u64 = 1_000_000;
const RELEASES: u64 = 600;

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
    let (mut machine, mut looks) = (of_this_machine(), 0);
    run.surround(Box::new(move || {
        looks += 1;
        let now = machine();
        let set_ns = if looks > 10 { 3_600_000_000_000 } else { 0 };
        SurroundingsReading { wall_ns: now.wall_ns + set_ns, ..now }
    }));
    let block = BlockPlan { index: 0, load: "idle", releases: RELEASES };
    let mut task = OnGrid { task: Timer { work_ns: 0 }, has_ports: false };
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

    assert_eq!(kept + account.excluded + account.warmup + account.lost, RELEASES);
    assert_eq!(account.slots, account.cycles + account.skipped + account.lost);
}
