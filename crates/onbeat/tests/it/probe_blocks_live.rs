//! Runs of one process that take turns: each keeps its own account, and its probe's figures go on
//! over its blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::probe::description::{Alone, Body, OnGrid, Parts};
use onbeat::probe::timer::Timer;
use onbeat::probe::{self, BlockPlan, Destination, Interruptions, Run, Setting};
use onbeat::record::{EndReason, Figures, Recorder, RunFile, Series};
use onbeat_rt::cycle::{Outcome, Phase, Plan};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Producer, Sample};

const MS: u64 = 1_000_000;
const WARM_UP: u64 = 10;

/// Counts the samples it has seen, and says so as its figure.
struct Seen(u64);

impl Figures for Seen {
    fn series(&self) -> &'static [Series] {
        &[Series::Hiccup]
    }

    fn of(&mut self, _: &Sample, _: Option<&Sample>, count: &mut dyn FnMut(Series, u64)) {
        self.0 += 1;
        count(Series::Hiccup, self.0);
    }
}

fn setting() -> Setting {
    Setting { phase: Phase::At(0), warmup: WARM_UP, ..Setting::new(MS) }
}

fn parts() -> Parts {
    Parts {
        body: Box::new(OnGrid { task: Timer { work_ns: 0 }, has_ports: false }),
        figures: Box::new(Seen(0)),
        companion: Box::new(Alone),
    }
}

/// A loop that says when it has ended.
struct Announced<'a>(&'a AtomicBool);

impl Body for Announced<'_> {
    fn run(&mut self, plan: &Plan, hot: &mut Producer<'_, Sample>, stop: &AtomicBool) -> Outcome {
        let mut body = OnGrid { task: Timer { work_ns: 0 }, has_ports: false };
        let outcome = body.run(plan, hot, stop);
        self.0.store(true, Ordering::Release);
        outcome
    }
}

#[test]
fn the_last_look_at_a_block_sees_all_its_releases_however_late_the_looks_come() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("timer.onbeat.hlog");
    let header = probe::header(&["onbeat".into()], "timer", &[Series::ReleaseLatency], 0.0);
    let destination = Destination { path: &path, header, origin: Monotonic.now() };
    let mut run = Run::open(destination, setting()).unwrap();
    let (ended, mut looked, mut seen) = (AtomicBool::new(false), false, None);
    let mut watch = |recorder: &mut Recorder| {
        while !looked && !ended.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(5));
        }
        looked = true;
        seen = Some(recorder.progress());
    };

    let block = BlockPlan { index: 0, load: "idle", releases: 60 };
    let mut body = Announced(&ended);
    let none = Interruptions::default();
    let outcome = run.begin_body(&mut body).block(&block, &none, &mut watch).unwrap();

    let seen = seen.unwrap();
    assert!(seen.cycles + seen.skipped + WARM_UP >= outcome.slots, "{seen:?} of {outcome:?}");
}

#[test]
fn runs_that_take_turns_keep_their_accounts_and_figures_apart() {
    let dir = tempfile::tempdir().unwrap();
    let origin = Monotonic.now();
    let paths = ["idle", "paper"].map(|load| dir.path().join(format!("{load}.onbeat.hlog")));
    let mut runs = paths.each_ref().map(|path| {
        let header = probe::header(&["onbeat".into()], "timer", &[Series::ReleaseLatency], 0.0);
        Run::open(Destination { path, header, origin }, setting()).unwrap()
    });

    let none = Interruptions::default();
    for index in 0..3 {
        for (run, load) in runs.iter_mut().zip(["idle", "paper"]) {
            let block = BlockPlan { index, load, releases: 60 + u64::from(index) };
            run.single_block(&block, &mut parts(), &none, &mut |_| {}).unwrap();
        }
    }

    let [mut first, second] = runs;
    first.mark_ended_early();
    let accounts = [first.close().unwrap(), second.close().unwrap()];
    assert_eq!(
        accounts.each_ref().map(|account| account.reason),
        [EndReason::Asked, EndReason::Complete]
    );
    for (account, path) in accounts.iter().zip(&paths) {
        assert_eq!(
            (account.slots, account.slots),
            (60 + 61 + 62, account.cycles + account.skipped + account.lost)
        );
        let file = RunFile::read(path).unwrap();
        assert_eq!(file.blocks.len(), 3);
        let kept = file.moments(Series::WakeupLatency).n + file.moments(Series::SkippedLatency).n;

        assert_eq!(kept + account.excluded + account.warmup + account.lost, account.slots);
        let seen = file.moments(Series::Hiccup);
        assert_eq!(
            seen.max_ns, seen.n,
            "the figures have seen the samples of all blocks, and of this run only"
        );
    }
}
