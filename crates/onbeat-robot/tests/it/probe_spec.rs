//! The figures of each probe, exact on a scripted clock.
//!
//! The loops are those of the hot crate. A script determines lateness and work, and the probe's
//! figures are computed from the samples as in a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use onbeat::host::Host;
use onbeat::probe::hiccup::Hiccups;
use onbeat::probe::read_write::EdgeReactions as Reactions;
use onbeat::probe::write::Intervals;
use onbeat::probe::{self, header};
use onbeat::record::{
    Account, Figures, NoFigures, Recorder, Recording, RunFile, RunWriter, Series, SpikeLimit,
    Timing,
};
use onbeat_report::Summary;
use onbeat_robot::probe::chain::ChainFigures;
use onbeat_robot::probe::sharing::SharingFigures;
use onbeat_rt::ring::Ring;
use onbeat_rt::{
    Arrival, Clock, Cycle, Edge, EdgeLoop, EdgePlan, EdgeSource, Flow, Instant, MockClock,
    OnOverrun, Outcome, Plan, Sample, Slot, Wait, split,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const T: u64 = MS;
/// A remark that a probe adds to its figures.
const REMARK: &str = "the observer was 12 us late";

/// Releases of 1 ms; sleep k returns `late_us[k]` late, cycle k works for the time in `work`.
fn on_the_grid(late_us: &[u64], work: impl Fn(&Cycle, &dyn Fn(u64))) -> (Outcome, Vec<Sample>) {
    let late: Vec<u64> = late_us.to_vec();
    let clock = MockClock::starting_at(Instant::from_ns(0), move |until: Instant| {
        late.get(usize::try_from(until.as_ns() / T - 1).unwrap()).copied().unwrap_or(0) * US
    });
    let plan = Plan {
        period_ns: T,
        first_release: Instant::from_ns(T),
        deadline_ns: T,
        releases: late_us.len() as u64,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut task = |cycle: &Cycle| {
        work(cycle, &|us| clock.spend(us * US));
        Flow::Continue
    };

    let mut slots: Vec<Slot<Sample>> = (0..4096).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let outcome =
        onbeat_rt::cycle::run(&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));
    (outcome, std::iter::from_fn(|| cold.pop()).collect())
}

fn figures(mut of: impl Figures, samples: &[Sample]) -> BTreeMap<Series, Vec<u64>> {
    let mut counted: BTreeMap<Series, Vec<u64>> = BTreeMap::new();
    let mut before = None;
    for sample in samples {
        of.of(sample, before, &mut |series, ns| counted.entry(series).or_default().push(ns));
        before = Some(sample);
    }

    counted
}

fn us(values: &[u64]) -> Vec<u64> {
    values.iter().map(|value| value * US).collect()
}

/// Returns all probes.
fn all() -> impl Iterator<Item = &'static probe::Description> {
    probe::ALL.into_iter().chain(onbeat_robot::probe::ALL)
}

/// Writes a run file of these samples for a probe called `name`, and summarises it.
fn recorded(
    name: &str,
    of: Box<dyn Figures>,
    run: (Outcome, Vec<Sample>),
    delay_ns: u64,
) -> (RunFile, Summary) {
    recorded_as(name, of, run, (delay_ns, "sleep"))
}

/// The same with the wait in its header.
fn recorded_as(
    name: &str,
    of: Box<dyn Figures>,
    (outcome, samples): (Outcome, Vec<Sample>),
    (delay_ns, wait): (u64, &str),
) -> (RunFile, Summary) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let timing = Timing {
        period_ns: T,
        phase_ns: 0,
        avoids_tick: false,
        deadline_ns: T,
        work_ns: 0,
        wait: wait.into(),
        on_overrun: "skip".into(),
        cpu: None,
        priority: 0,
        delay_ns,
    };

    let command = vec!["onbeat".to_owned()];
    let series = all().find(|probe| probe.name == name).map_or(&[][..], |probe| probe.series);
    let header = header(&command, name, series, 0.0);
    let header = onbeat::record::Header { timing: Some(timing), host: Host::default(), ..header };
    let recording = Recording {
        period_ns: T,
        work_ns: 0,
        interval_ns: 1_000 * MS,
        spike_limit: SpikeLimit::TenTimesMedian,
    };
    let mut recorder =
        Recorder::new(RunWriter::create(&path, &header).unwrap(), Instant::from_ns(0), recording);
    recorder.count_also(of);
    recorder.keep_seconds();
    recorder.begin_block(0, Instant::from_ns(T), "idle", 0).unwrap();

    for sample in &samples {
        recorder.sample(sample, None).unwrap();
    }

    recorder.end_block(&outcome).unwrap();
    recorder.remark(REMARK.to_owned()).unwrap();
    recorder.close(&Account::default()).unwrap();
    let run = RunFile::read(Path::new(&path)).unwrap();
    let summary = Summary::of_run(&run, None);
    (run, summary)
}

#[test]
fn each_probe_has_one_sentence_with_start_and_end_of_its_measurement() {
    for probe in all() {
        assert!(
            probe.sentence.to_lowercase().contains("from ") && probe.sentence.contains(" to ")
                || probe.sentence.ends_with("as jHiccup does"),
            "{}",
            probe.name
        );
        assert!(
            !probe.sentence.ends_with('.') && probe.sentence.len() <= 130,
            "{}: {}",
            probe.name,
            probe.sentence.len()
        );
        assert!(
            probe.examples.contains(&format!("onbeat measure {}", probe.name)),
            "{}",
            probe.name
        );
        assert!(!probe.series.is_empty());
    }
}

#[test]
fn timer_is_release_latency_alone() {
    let run = on_the_grid(&[5, 7, 6], |_, _| ());
    let (run, summary) = recorded("timer", Box::new(NoFigures), run, 0);
    let moments = run.moments(Series::WakeupLatency);
    assert_eq!((moments.n, moments.min_ns, moments.max_ns), (3, 5 * US, 7 * US));
    assert_eq!(summary.cells[0].main().unwrap().0, Series::ReleaseLatency);
}

#[test]
fn a_hiccup_is_latency_beyond_the_smallest_so_far() {
    let (_, samples) = on_the_grid(&[9, 12, 4, 4, 30, 3], |_, _| ());
    assert_eq!(figures(Hiccups::new(T), &samples)[&Series::Hiccup], us(&[0, 3, 0, 0, 26, 0]));
}

#[test]
fn releases_skipped_by_a_hiccup_count_from_their_due_times() {
    // Release 1 is served 3.4 ms late: 2, 3 and 4 are skipped, and release 5 is on time.
    let (outcome, samples) = on_the_grid(&[10, 3_400, 0, 0, 0, 10, 10], |_, _| ());
    assert_eq!((outcome.cycles, outcome.skipped), (4, 3));
    let hiccups = &figures(Hiccups::new(T), &samples)[&Series::Hiccup];

    assert_eq!(hiccups.len() as u64, outcome.slots, "one for each release");
    // The next cycle reports the skipped ones: due 3, 2 and 1 ms before release 5, which starts 10
    // us late.
    assert_eq!(*hiccups, us(&[0, 3_390, 0, 1_000, 2_000, 3_000, 0]));
}

#[test]
fn latency_keeps_smallest_mean_largest_and_overruns_of_whole_seconds() {
    // Slightly over two seconds: 2 us except 1 ms of 50 us in the first, and three skipped releases
    // in the second.
    let mut late = vec![2; 2_010];
    late[500] = 50;
    late[1_500] = 3_300;
    let (outcome, samples) = on_the_grid(&late, |_, _| ());

    assert_eq!(outcome.skipped, 3);
    let (run, summary) = recorded("latency", Box::new(NoFigures), (outcome, samples), 0);
    let rows: Vec<_> = run.seconds.iter().flat_map(onbeat::record::Seconds::rows).collect();
    assert_eq!(rows.len(), 2, "the third second is incomplete");
    assert_eq!(
        (rows[0].count, rows[0].min_ns, rows[0].max_ns, rows[0].overruns),
        (1_000, 2 * US, 50 * US, 0)
    );
    assert_eq!(rows[0].sum_ns, (999 * 2 + 50) * US);
    assert_eq!((rows[1].count, rows[1].max_ns, rows[1].overruns), (1_000, 3_300 * US, 3));
    let of = summary.cells[0].by_second.unwrap();

    assert!(
        (of.max_mean_ns - 1_675.0 * US as f64).abs() < 1e-6
            && (of.max_sd_ns - 1_625.0 * US as f64).abs() < 1e-6
    );
    assert_eq!((of.seconds, of.overruns, of.samples), (2, 3, 2_000));
}

#[test]
fn a_write_interval_runs_from_the_end_of_one_write_to_the_end_of_the_next() {
    // Ends at 0 + 10 + 5, 1000 + 30 + 5, 2000 + 20 + 8, ...
    let late = [10, 30, 20, 20];
    let run = on_the_grid(&late, |cycle, spend| spend(if cycle.index == 2 { 8 } else { 5 }));
    assert_eq!(figures(Intervals, &run.1)[&Series::WriteInterval], us(&[1_020, 993, 997]));
    let (_, summary) = recorded("write", Box::new(Intervals), run, 0);
    let cell = &summary.cells[0];

    assert_eq!(cell.main().unwrap().0, Series::WriteInterval);
    // t_w = ((10 + 5) + (30 + 5) + (20 + 8) + (20 + 5)) / 4, jitter = 1020 - 993.
    assert!(cell.derived[0].contains("(max - min): 27 us"), "{:?}", cell.derived);
    assert!(cell.derived[0].ends_with("its write: 25.8 us"), "{:?}", cell.derived);
}

/// A loop without a grid: 1 ms of sleep, woken `late_us` late, with cycles of `work_us`.
fn relative(late_us: u64, work_us: &[u64]) -> (Outcome, Vec<Sample>) {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| late_us * US);
    let plan = Plan {
        period_ns: T,
        first_release: Instant::from_ns(T),
        deadline_ns: T,
        releases: u64::MAX,
        wait: Wait::Relative { margin_ns: 0 },
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut task = |cycle: &Cycle| {
        clock.spend(work_us[cycle.index as usize] * US);
        if cycle.index as usize + 1 == work_us.len() { Flow::Stop } else { Flow::Continue }
    };

    let mut slots: Vec<Slot<Sample>> = (0..64).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let outcome =
        onbeat_rt::cycle::run(&clock, &plan, &mut task, &mut hot, &AtomicBool::new(false));
    (outcome, std::iter::from_fn(|| cold.pop()).collect())
}

#[test]
fn without_a_grid_t_w_is_average_minus_sleep() {
    // Periods of 1,000 + 15 + 2 us and 1,000 + 15 + 4 us: 1,018 us on average.
    let run = relative(15, &[2, 4, 6]);
    let (file, summary) = recorded_as("timer", Box::new(NoFigures), run, (0, "relative"));
    assert_eq!(file.distribution(Series::ObservedPeriod).count(), 2);
    let sentence = &summary.cells[0].derived[0];

    assert!(
        sentence.contains(
            "sleep of 1,000.00 us per cycle, no grid: average observed period 1,018.00 us"
        ) && sentence.ends_with("t_w = average - sleep: 18.00 us"),
        "{sentence}"
    );
    assert_eq!((summary.cells[0].slots, summary.cells[0].skipped), (3, Some(0)));
}

#[test]
fn without_a_grid_t_w_of_writes_comes_from_their_intervals() {
    // From the end of one write to the end of the next: 1,000 + 15 + 4 us, and 1,000 + 15 + 6 us.
    let run = relative(15, &[2, 4, 6]);
    let (_, summary) = recorded_as("write", Box::new(Intervals), run, (0, "relative"));
    let sentence = &summary.cells[0].derived[0];
    assert!(
        sentence.contains("average write interval 1,020.00 us; t_w = average - sleep: 20.00 us"),
        "{sentence}"
    );
}

#[test]
fn a_run_on_the_grid_reports_no_relative_sleep() {
    let (_, summary) =
        recorded("timer", Box::new(NoFigures), on_the_grid(&[5, 7, 6], |_, _| ()), 0);
    assert_eq!(summary.cells[0].derived, [REMARK], "and nothing else");
}

#[test]
fn remarks_of_a_probe_are_reported_once() {
    let (_, summary) =
        recorded("timer", Box::new(NoFigures), on_the_grid(&[5, 7, 6], |_, _| ()), 0);
    let said = onbeat_report::bench_sentences(&summary);
    assert_eq!(said.iter().filter(|sentence| *sentence == REMARK).count(), 1, "{said:?}");
    assert!(!summary.cells[0].notes.contains(&REMARK.to_owned()), "{:?}", summary.cells[0].notes);
}

#[test]
fn unanswered_edges_are_reported_with_their_share_and_exceed_any_limit() {
    // Edges 1 and 2 never reached the loop.
    let (outcome, mut samples) = on_the_grid(&[10, 10, 10, 10], |_, _| ());
    samples.drain(1..3);
    samples[1].skipped = 2;
    let outcome = Outcome { cycles: 2, skipped: 2, ..outcome };
    let (run, summary) =
        recorded("read-write", Box::new(Reactions { delay_ns: 0 }), (outcome, samples), 0);
    let sentence = &summary.cells[0].derived[1];

    assert!(
        sentence.starts_with("2 of 4 edges (50 %) were never answered")
            && sentence.contains("over any limit"),
        "{sentence}"
    );
    let limit =
        onbeat::record::LimitNote { limit_ns: 1_000_000 * MS, at: 99.0, on: Series::ReadWrite };
    let judged = Summary::of_run(&run, Some(limit)).cells[0].verdict.clone().unwrap();
    assert_eq!((judged.over, judged.releases), (2, 4), "{}", judged.sentence);
}

#[test]
fn an_interval_across_lost_samples_is_not_counted() {
    let (_, samples) = on_the_grid(&[1, 1, 1, 1], |_, _| ());
    let mut of = Intervals;
    let mut counted = 0;
    for (i, sample) in samples.iter().enumerate() {
        let before = if i == 2 { None } else { i.checked_sub(1).map(|i| &samples[i]) };
        of.of(sample, before, &mut |_, _| counted += 1);
    }

    assert_eq!(counted, 2);
}

/// Edges every two milliseconds, received after `read_us[k]`.
struct Given<'c, L: Fn(Instant) -> u64> {
    clock: &'c MockClock<L>,
    read_us: &'c [u64],
    next: usize,
}

impl<L: Fn(Instant) -> u64> EdgeSource for Given<'_, L> {
    fn next(&mut self) -> Arrival {
        let Some(read_us) = self.read_us.get(self.next) else { return Arrival::Over };
        let at = Instant::from_ns((self.next as u64 + 1) * 2 * MS);
        self.clock.spend(at.plus_ns(read_us * US).ns_since(self.clock.now()));
        self.next += 1;
        Arrival::Edge(Edge { index: self.next as u64 - 1, at })
    }

    fn waiting(&mut self) -> Option<Edge> {
        None
    }
}

#[test]
fn a_reaction_is_read_latency_delay_and_write_and_their_means_add_up() {
    let clock = MockClock::starting_at(Instant::from_ns(0), |_| 12 * US);
    let read_us = [40, 60, 50];
    let mut edges = Given { clock: &clock, read_us: &read_us, next: 0 };
    let mut write = |cycle: &Cycle| {
        clock.spend((3 + cycle.index) * US);
        Flow::Continue
    };

    let answers = EdgePlan {
        delay_ns: 200 * US,
        period_ns: 2 * MS,
        deadline_ns: 2 * MS,
        edges: u64::MAX,
        wait: Wait::Sleep,
        on_overrun: OnOverrun::SkipKeepPhase,
    };

    let mut slots: Vec<Slot<Sample>> = (0..8).map(|_| Slot::empty()).collect();
    let mut ring = Ring::over(&mut slots).unwrap();
    let (mut hot, mut cold) = split(&mut ring);
    let answering =
        EdgeLoop { clock: &clock, plan: &answers, source: &mut edges, task: &mut write };
    let outcome = answering.run(&mut hot, &AtomicBool::new(false));
    let samples: Vec<Sample> = std::iter::from_fn(|| cold.pop()).collect();
    let counted = figures(Reactions { delay_ns: 200 * US }, &samples);

    assert_eq!(counted[&Series::ReadLatency], us(&[40, 60, 50]));
    assert_eq!(
        counted[&Series::ReadWrite],
        us(&[40 + 200 + 12 + 3, 60 + 200 + 12 + 4, 50 + 200 + 12 + 5])
    );
    let (_, summary) = recorded(
        "read-write",
        Box::new(Reactions { delay_ns: 200 * US }),
        (outcome, samples),
        200 * US,
    );
    let series = &summary.cells[0].series;
    let mean = |one: Series| series[&one].mean_ns;
    let t_rw = mean(Series::ReadWrite) - 200.0 * US as f64;

    assert!(
        (t_rw - mean(Series::ResponseTime) - mean(Series::ReadLatency)).abs() < 1e-6,
        "t_r = t_rw - t_w"
    );
    let sentence = &summary.cells[0].derived[0];
    assert!(
        sentence.contains("66 us; t_w")
            && sentence.contains("output: 16 us; t_r")
            && sentence.ends_with("loop: 50 us"),
        "{sentence}"
    );
}

#[test]
fn a_chain_runs_from_the_command_through_the_next_cycle_to_the_output() {
    // Cycle 1 serves a command issued 300 us before its start, cycle 3 one of 450 us; 0 and 2 serve
    // none.
    let work = |cycle: &Cycle, spend: &dyn Fn(u64)| match cycle.index {
        1 => {
            cycle.note(300 * 1_000);
            spend(6);
        }
        3 => {
            cycle.note(450 * 1_000);
            spend(8);
        }
        _ => (),
    };

    let run = on_the_grid(&[5, 5, 5, 5], work);
    let unseen = figures(ChainFigures { is_seen: false, every_ns: 7_618 * US }, &run.1);
    assert_eq!(
        (&unseen[&Series::Pickup], &unseen[&Series::Chain]),
        (&us(&[300, 450]), &us(&[306, 458]))
    );
    let seen = figures(ChainFigures { is_seen: true, every_ns: 7_618 * US }, &run.1);
    assert_eq!(seen.keys().collect::<Vec<_>>(), [&Series::Pickup], "the observer reports the rest");
    let (_, summary) =
        recorded("chain", Box::new(ChainFigures { is_seen: false, every_ns: 7_618 * US }), run, 0);

    assert!(
        summary.cells[0].derived[0].contains("0.31 at least, 0.38 on average, 0.46 at most"),
        "{:?}",
        summary.cells[0].derived
    );
}

#[test]
fn a_replaced_command_counts_until_the_effect_of_the_later_one() {
    // Cycle 2 serves a command issued 300 us before its start; two earlier ones were never served.
    let run = on_the_grid(&[5, 5, 5], |cycle, spend| {
        if cycle.index == 2 {
            cycle.note(300 * 1_000);
            cycle.note_too(2);
            spend(6);
        }
    });

    let unseen = figures(ChainFigures { is_seen: false, every_ns: 7_618 * US }, &run.1);
    assert_eq!(unseen[&Series::Chain], us(&[306, 306 + 7_618, 306 + 2 * 7_618]));
    assert_eq!(unseen[&Series::Pickup], us(&[300]));
}

#[test]
fn an_exchange_is_the_noted_duration_independent_of_other_work() {
    let run = on_the_grid(&[3, 0, 5], |cycle, spend| {
        spend(10);
        cycle.note(400 + cycle.index as u32);
    });

    let exchanges = figures(SharingFigures, &run.1);
    assert_eq!(exchanges[&Series::Exchange], [400, 401, 402]);
    let (file, summary) = recorded("sharing", Box::new(SharingFigures), run, 0);
    assert_eq!(file.distribution(Series::Exchange).count(), 3);
    assert_eq!(summary.cells[0].series[&Series::Exchange].max_ns, 402);
}
