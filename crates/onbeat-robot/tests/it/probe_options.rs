//! Each probe with each common option: the option has its documented effect in every loop.
//!
//! The loops run on the real clock for a few cycles. Assertions hold on a machine of any lateness:
//! lower bounds, flags, and accounts. The exact effects are tested in the hot crate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use onbeat::bench::cell_start::BusCell;
use onbeat::probe::description::Parts;
use onbeat::probe::{self, Description, Given, OptionKind, Setting, SettingValue};
use onbeat_robot::probe::bus;
use onbeat_rt::cycle::Phase;
use onbeat_rt::ring::Ring;
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, End, Flags, OnOverrun, Outcome, Plan, Sample, Slot, Wait, split};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const T: u64 = 2 * MS;

/// Returns all probes but that of a camera, whose releases are the pictures of a program that runs
/// (`camera_probe.rs`).
fn all_probes() -> impl Iterator<Item = &'static Description> {
    probe::ALL.into_iter().chain(onbeat_robot::probe::ALL).filter(|probe| probe.name != "camera")
}

/// A probe in one of its variants.
struct Case {
    probe: &'static Description,
    with: &'static [(&'static str, &'static str)],
}

impl Case {
    fn all() -> Vec<Self> {
        let mut all: Vec<Self> =
            all_probes().map(|probe| Self { probe, with: &[("wire", "socket")] }).collect();
        let chain = all_probes().find(|probe| probe.name == "chain").unwrap();
        all.push(Self { probe: chain, with: &[("with", "bus"), ("wire", "socket")] });
        all
    }

    fn name(&self) -> String {
        format!("{} {:?}", self.probe.name, self.with)
    }

    /// Returns whether releases are on a grid; otherwise the probe answers edges.
    fn is_on_a_grid(&self) -> bool {
        self.probe.name != "read-write"
    }

    /// Returns the time that its cycles are to work; a polling thread has no other work, and refuses
    /// it.
    fn work_ns(&self, work_ns: u64) -> u64 {
        if self.probe.name == "noise" { 0 } else { work_ns }
    }

    /// Returns the probe's own options: defaults with the changes of this case.
    fn given(&self) -> Given {
        let value = |choice: &probe::ProbeOption| {
            let own =
                self.with.iter().find(|(name, _)| *name == choice.name).map(|(_, text)| *text);
            let text = own.or(choice.default)?;
            let value = match choice.kind {
                OptionKind::Time => {
                    SettingValue::Time(text.trim_end_matches("us").parse::<u64>().unwrap() * US)
                }
                OptionKind::Count => SettingValue::Count(text.parse().unwrap()),
                OptionKind::Percent => {
                    SettingValue::Percent(text.trim_end_matches('%').parse::<u64>().unwrap() * 100)
                }
                OptionKind::Place => SettingValue::Place(text.parse().unwrap()),
                OptionKind::Word(_) => SettingValue::Word(text.to_owned()),
                OptionKind::Name => SettingValue::Name(text.to_owned()),
                OptionKind::Switch => SettingValue::Switch,
            };

            Some((choice.name, value))
        };
        Given(self.probe.choices.iter().filter_map(value).collect())
    }

    fn open(&self, setting: &mut Setting) -> Parts {
        let opened = (self.probe.open)(setting, &self.given());
        opened.unwrap_or_else(|why| panic!("{}: {why}", self.name()))
    }

    fn run(&self, mut setting: Setting, cycles: usize) -> (Outcome, Vec<Sample>) {
        let parts = self.open(&mut setting);
        run(parts, &setting, cycles)
    }
}

fn setting() -> Setting {
    Setting { phase: Phase::At(0), warmup: 0, ..Setting::new(T) }
}

/// Runs the loop like a run does, without the recorder, for a number of cycles.
fn run(parts: Parts, setting: &Setting, cycles: usize) -> (Outcome, Vec<Sample>) {
    let Parts { mut body, companion: mut beside, .. } = parts;
    let mut slots: Vec<Slot<Sample>> = (0..4096).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    beside.start().unwrap();
    let plan = Plan {
        period_ns: setting.period_ns,
        first_release: Monotonic.now().plus_ns(5 * MS),
        deadline_ns: setting.deadline_ns,
        releases: u64::MAX,
        wait: setting.wait,
        on_overrun: setting.on_overrun,
    };

    let stop = AtomicBool::new(false);
    let mut samples = Vec::new();
    let outcome = thread::scope(|threads| {
        let running = threads.spawn(|| body.run(&plan, &mut hot, &stop));
        while samples.len() < cycles && !running.is_finished() {
            thread::sleep(Duration::from_millis(1));
            samples.extend(std::iter::from_fn(|| cold.pop()));
        }

        stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });

    samples.extend(std::iter::from_fn(|| cold.pop()));
    drop(body);
    beside.end();
    (outcome, samples)
}

fn assert_accounted(case: &Case, (outcome, samples): &(Outcome, Vec<Sample>)) {
    assert_eq!(outcome.slots, outcome.cycles + outcome.skipped, "{}", case.name());
    assert_eq!(outcome.cycles, samples.len() as u64, "{}", case.name());
    assert!(!samples.is_empty(), "{}", case.name());
}

#[test]
fn every_probe_works_for_the_requested_time() {
    for case in Case::all() {
        // A polling thread polls until its window ends, however late it began.
        let is_noise = case.probe.name == "noise";
        let ran = case.run(Setting { work_ns: case.work_ns(400 * US), ..setting() }, 8);
        assert_accounted(&case, &ran);
        // The end of the block ends its window as well.
        let whole = ran.1.len() - usize::from(is_noise);
        for sample in &ran.1[..whole] {
            let late_ns = if is_noise { sample.wakeup_latency_ns } else { 0 };
            let worked_ns = sample.execution_time_ns + late_ns;
            assert!(worked_ns >= 400 * US, "{}: {sample:?}", case.name());
        }
    }
}

#[test]
fn a_cell_with_the_bus_works_for_the_requested_time() {
    let setting = Setting { work_ns: 400 * US, ..setting() };
    let humanoid = BusCell {
        file: "humanoid".to_owned(),
        interface: None,
        exchange: "pipelined".to_owned(),
        trajectory: None,
        device_delay_ns: None,
        wire: None,
    };
    let (parts, _) = bus::parts_of_cell(&setting, &humanoid, None).unwrap();
    let (outcome, samples) = run(parts, &setting, 8);
    assert_eq!(outcome.slots, outcome.cycles + outcome.skipped);
    assert!(
        !samples.is_empty() && samples.iter().all(|sample| sample.execution_time_ns >= 400 * US),
        "{samples:?}"
    );
}

#[test]
fn every_probe_has_its_deadline() {
    for case in Case::all() {
        let ran =
            case.run(Setting { deadline_ns: 1, work_ns: case.work_ns(10 * US), ..setting() }, 4);
        assert_accounted(&case, &ran);
        assert!(
            ran.1.iter().all(|sample| sample.flags.has(Flags::DEADLINE_MISS)),
            "{}",
            case.name()
        );
    }
}

#[test]
fn every_probe_waits_as_requested() {
    for case in Case::all() {
        // With a margin beyond all periods the loop never has time to sleep.
        let spin =
            case.run(Setting { wait: Wait::SleepThenSpin { margin_ns: 100 * T }, ..setting() }, 4);
        assert_accounted(&case, &spin);
        assert!(spin.1.iter().all(|sample| sample.flags.has(Flags::NO_SLEEP)), "{}", case.name());
        let relative = case.run(Setting { wait: Wait::Relative { margin_ns: 0 }, ..setting() }, 6);

        assert_accounted(&case, &relative);
        let later = &relative.1[1..];
        assert!(
            later.iter().all(|sample| sample.flags.has(Flags::RELATIVE)),
            "{}: {later:?}",
            case.name()
        );
        if case.is_on_a_grid() {
            assert_eq!(
                relative.0.skipped,
                0,
                "{}: without a grid nothing is passed over",
                case.name()
            );
            for pair in relative.1.windows(2) {
                assert!(pair[1].release >= pair[0].start().plus_ns(T), "{}: {pair:?}", case.name());
            }
        }
    }
}

#[test]
fn every_probe_handles_an_overrun_as_requested() {
    // Only work makes a cycle overrun.
    for case in Case::all().into_iter().filter(|case| case.work_ns(1) > 0) {
        let overrunning = |on_overrun| {
            // A real loop would refuse this. The answering probe checks against a period longer
            // than the run's.
            let mut asked = Setting { on_overrun, work_ns: 7 * T / 2, ..setting() };
            if !case.is_on_a_grid() {
                asked.period_ns = 5 * T;
            }

            let parts = case.open(&mut asked);
            run(parts, &Setting { period_ns: T, ..asked }, 5)
        };

        let stopped = overrunning(OnOverrun::Stop);
        assert_accounted(&case, &stopped);
        assert_eq!((stopped.0.end, stopped.1.len()), (End::Overrun, 1), "{}", case.name());
        let skipping = overrunning(OnOverrun::SkipKeepPhase);
        assert_accounted(&case, &skipping);
        let catching_up = overrunning(OnOverrun::CatchUp { at_most: 2 });

        assert_accounted(&case, &catching_up);
        if case.is_on_a_grid() {
            assert!(
                skipping.1[1..].iter().all(|sample| sample.skipped >= 3),
                "{}: {:?}",
                case.name(),
                skipping.1
            );
            let passed: Vec<bool> =
                catching_up.1.iter().take(4).map(|sample| sample.skipped > 0).collect();
            assert_eq!(
                passed,
                [false, false, false, true],
                "{}: two in a row, then the rest is passed over",
                case.name()
            );
        }
    }
}

#[test]
fn every_probe_keeps_its_period() {
    for case in Case::all().iter().filter(|case| case.is_on_a_grid()) {
        let ran = case.run(setting(), 8);
        assert_accounted(case, &ran);
        for sample in &ran.1 {
            let since_ns = sample.release.ns_since(ran.1[0].release);
            assert_eq!(since_ns, (sample.index - ran.1[0].index) * T, "{}", case.name());
        }
    }
}

#[test]
fn options_without_meaning_are_refused_in_one_sentence() {
    let relative = Wait::Relative { margin_ns: 0 };
    let refused = |setting: Setting, words: &str| {
        let why = setting.admit().expect_err(words).to_string();
        assert!(why.contains(words) && !why.contains('\n'), "{why}");
    };

    refused(
        Setting { wait: relative, phase: Phase::At(250 * US), ..setting() },
        "--phase 250us has no meaning",
    );
    let catch_up = OnOverrun::CatchUp { at_most: 3 };
    let avoiding = || Setting { wait: relative, phase: Phase::AvoidTick, ..setting() };
    refused(
        Setting { on_overrun: catch_up, ..avoiding() },
        "--on-overrun catch-up=3 has no meaning",
    );
    refused(
        Setting { on_overrun: OnOverrun::Stop, ..avoiding() },
        "--on-overrun stop has no meaning",
    );

    assert!(avoiding().admit().is_ok());

    let bus = all_probes().find(|probe| probe.name == "bus").unwrap();
    let with = |with| Case { probe: bus, with };
    let why =
        |case: Case, mut setting: Setting| match (case.probe.open)(&mut setting, &case.given()) {
            Ok(_) => panic!("{} was taken", case.name()),
            Err(why) => why.to_string(),
        };

    let clock = why(with(&[("wire", "socket"), ("clock", "reference")]), avoiding());
    assert!(
        clock.contains("--clock reference has no meaning") && clock.contains("no grid"),
        "{clock}"
    );
    let delay = why(with(&[("wire", "socket"), ("device-delay", "2000us")]), setting());
    assert!(delay.contains("2000 us") && delay.contains("shorten --device-delay"), "{delay}");
    let read_write = all_probes().find(|probe| probe.name == "read-write").unwrap();
    let work =
        why(Case { probe: read_write, with: &[] }, Setting { work_ns: 1_700 * US, ..setting() });

    assert!(work.contains("begins 200 us after") && work.contains("works for 1700 us"), "{work}");
}
