//! On this kernel: the parts of every cycle's wake-up, and who takes a CPU from a polling thread.
//!
//! Needs what the flight recorder needs, and real-time priority; prints a reason where they are
//! missing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::cause::{Explainer, FlightSetting, LoopThread, NoiseSource};
use onbeat::probe::noise::NOISE;
use onbeat::probe::timer::TIMER;
use onbeat::probe::{
    self, BlockPlan, Description, Destination, Given, Interruptions, Run, Setting, SettingValue,
};
use onbeat::record::{NoiseAccount, Recorder, RunFile, Series};
use onbeat::thread::ThreadRequest;
use onbeat_rt::cycle::Phase;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Instant};

const MS: u64 = 1_000_000;
const POLLING_PERIOD_NS: u64 = 10 * MS;

fn last_cpu() -> u32 {
    *onbeat_host::machine::online_cpus().last().unwrap()
}

fn real_time(fifo: u32) -> ThreadRequest {
    ThreadRequest { fifo: Some(fifo), cpu: Some(last_cpu()), ..ThreadRequest::default() }
}

/// Returns the reason why this machine cannot run the test.
fn skipped() -> Option<String> {
    let probe = LoopThread { tid: std::process::id(), cpu: None, fifo: None };
    let explainer = match Explainer::open(probe, &FlightSetting::default()) {
        Ok(explainer) => explainer,
        Err(why) => return Some(why.to_string()),
    };
    if let Err(why) = explainer.splitter() {
        return Some(why);
    }
    let granted = thread::spawn(|| real_time(60).prepare_thread()).join().unwrap();
    granted.into_iter().find(|grant| !grant.granted).and_then(|grant| grant.why_not)
}

/// Runs a probe for so many releases, and reads its file. `has_begun` is set once it has served one.
fn measured(
    (probe, given): (&Description, &Given),
    mut setting: Setting,
    releases: u64,
    interruptions: &Interruptions,
    has_begun: &AtomicBool,
) -> RunFile {
    let dir = tempfile::tempdir().unwrap();
    let path: &Path = &dir.path().join("probe.onbeat.hlog");
    let mut parts = (probe.open)(&mut setting, given).unwrap();
    let header = probe::header(&["onbeat".into()], probe.name, probe.series, 0.0);
    let destination = Destination { path, header, origin: Monotonic.now() };
    let mut run = Run::open(destination, setting).unwrap();
    let block = BlockPlan { index: 0, load: "idle", releases };
    let mut look = |recorder: &mut Recorder| {
        if recorder.progress().cycles > 0 {
            has_begun.store(true, Ordering::Relaxed);
        }
    };
    run.single_block(&block, &mut parts, interruptions, &mut look).unwrap();
    run.close().unwrap();
    RunFile::read(path).unwrap()
}

#[test]
fn every_cycle_is_split_or_counted_as_unsplit_and_parts_sum_to_the_latency() {
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let setting = Setting { thread: real_time(80), causes: true, split: true, ..Setting::new(MS) };
    let run = measured(
        (&TIMER, &Given::default()),
        setting,
        1_500,
        &Interruptions::default(),
        &AtomicBool::default(),
    );
    let (mut split, mut cycles) = (0, 0);
    for interval in &run.intervals {
        let of = |series: Series| interval.series.get(&series).copied().unwrap_or_default();
        let parts = [Series::InterruptLatency, Series::DispatchLatency, Series::UserReturn].map(of);
        assert_eq!(parts[0].n, parts[1].n);
        assert_eq!(parts[0].n, parts[2].n);
        assert_eq!(parts[0].n + interval.unsplit, interval.cycles, "no cycle is left out");
        if interval.unsplit == 0 {
            let sum: f64 = parts.iter().map(|part| part.mean_ns * part.n as f64).sum();
            let whole = of(Series::WakeupLatency);
            let error = sum - whole.mean_ns * whole.n as f64;
            assert!(error.abs() < 1.0, "{error} ns beside the wake-up latency");
        }
        split += parts[0].n;
        cycles += interval.cycles;
    }
    assert!(split * 10 > cycles * 9, "{split} of {cycles} cycles are split");
}

/// Burns 200 µs of the CPU inside of a window, so many times, as a thread of a known name.
fn plant_hogs(times: u64, ends: &AtomicBool) -> u64 {
    assert!(real_time(99).prepare_thread().iter().all(|grant| grant.granted));
    let mut planted = 0;
    for time in 0..times {
        let next = (Monotonic.now().as_ns() / POLLING_PERIOD_NS + 2) * POLLING_PERIOD_NS;
        // Windows are the first 9 of 10 ms.
        let at = Instant::from_ns(next + 2 * MS + time % 40 * 100_000);
        if Monotonic.sleep_until(at).is_err() {
            continue;
        }
        let began = Monotonic.now();
        // What this machine itself was late with may lie outside of the window.
        let is_inside = began.ns_since(at) < MS;
        while Monotonic.now().ns_since(began) < 200_000 {
            std::hint::spin_loop();
        }
        planted += u64::from(is_inside && Monotonic.now().ns_since(began) < MS);
    }
    ends.store(true, Ordering::Relaxed);
    planted
}

fn assert_adds_up(account: &NoiseAccount) {
    assert_eq!(account.window_ns, account.polled_ns + account.gaps_ns, "{account:?}");
    let named: u64 = account.sources.iter().map(|count| count.ns).sum();
    assert_eq!(named, account.gaps_ns, "sources add up to the gaps: {account:?}");
    assert!(account.sources.iter().all(|count| count.longest_ns <= account.longest_ns));
}

fn polling() -> (Given, Setting) {
    let given = Given(vec![
        ("busy", SettingValue::Percent(90_00)),
        ("threshold", SettingValue::Time(1_000)),
    ]);
    let setting = Setting {
        thread: real_time(90),
        causes: true,
        phase: Phase::At(0),
        ..Setting::new(POLLING_PERIOD_NS)
    };
    (given, setting)
}

#[test]
fn planted_threads_are_named_and_the_account_of_the_cpu_adds_up() {
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    const PLANTS: u64 = 100;
    /// A run that fails to begin fails the test, and not the wait for it.
    const MOST_NS: u64 = 60_000 * MS;
    let (given, setting) = polling();
    let (interruptions, has_begun) = (Interruptions::default(), AtomicBool::default());
    let (run, planted) = thread::scope(|threads| {
        let plant = thread::Builder::new().name("planted-hog".into());
        let plant = plant.spawn_scoped(threads, || {
            // Opening the recorder takes seconds on a busy machine, and nothing polls before.
            let since = Monotonic.now();
            while !has_begun.load(Ordering::Relaxed) && Monotonic.now().ns_since(since) < MOST_NS {
                thread::sleep(Duration::from_millis(20));
            }
            plant_hogs(PLANTS, &interruptions.stop)
        });
        let run = measured((&NOISE, &given), setting, u64::MAX, &interruptions, &has_begun);
        (run, plant.unwrap().join().unwrap())
    });

    let account = run.noise.clone().unwrap();
    assert_adds_up(&account);
    assert!(planted * 5 >= PLANTS, "{planted} plants fell into windows");
    // Where the machine stopped the polling thread until the next release, nothing polled.
    let polled = planted.saturating_sub(run.account().skipped);
    let of = |source: NoiseSource| {
        account.sources.iter().find(|count| count.source == source).map_or(0, |count| count.gaps)
    };
    let named = of(NoiseSource::Thread("planted-hog".into()));
    assert!(named * 100 >= polled * 95, "{named} of {polled} are named: {account:?}");
    assert!(of(NoiseSource::Irq("local_timer".into())) > 0, "{account:?}");
    let gaps: u64 =
        run.intervals.iter().filter_map(|of| of.series.get(&Series::Gap)).map(|of| of.n).sum();
    assert!(gaps <= account.gaps && gaps > 0, "{gaps} of {}", account.gaps);
}

#[test]
fn a_run_that_is_stopped_in_a_long_window_ends_at_once_with_what_was_measured() {
    if let Some(why) = skipped() {
        println!("skipped: {why}");
        return;
    }

    let (given, setting) = polling();
    let setting = Setting { thread: ThreadRequest { fifo: None, ..setting.thread }, ..setting };
    // A window of 54 s, which begins when all has been opened, on a busy machine too.
    let setting = Setting { period_ns: 60_000 * MS, deadline_ns: 60_000 * MS, ..setting };
    let setting = Setting {
        phase: Phase::At((Monotonic.now().as_ns() + 5_000 * MS) % setting.period_ns),
        ..setting
    };
    let interruptions = Interruptions::default();
    let run = thread::scope(|threads| {
        threads.spawn(|| {
            thread::sleep(Duration::from_secs(7));
            interruptions.stop.store(true, Ordering::Relaxed);
        });
        measured((&NOISE, &given), setting, 1, &interruptions, &AtomicBool::default())
    });
    let account = run.noise.unwrap();
    assert_adds_up(&account);
    // None where opening took so long that the stop came first.
    assert!(account.windows <= 1, "{account:?}");
    assert!(account.window_ns < 50_000 * MS, "the window was cut off: {account:?}");
}
