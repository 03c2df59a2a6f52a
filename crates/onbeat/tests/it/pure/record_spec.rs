//! What a run file says of a run, and what is left of it after a crash.

use std::path::Path;

use onbeat::record::{
    Account, EndReason, Exclusion, Header, Moments, Recorder, Recording, RunFile, RunFileError,
    RunWriter, Series, Stall, Surrounding, WriteError, interval_ns_for,
};
use onbeat_rt::{Flags, Instant, Outcome, Sample};
use proptest::prelude::*;

use crate::record_world::{MS, SECOND_NS, recording};

fn header() -> Header {
    crate::record_world::header(&["onbeat", "measure", "timer"])
}

fn recorder(path: &Path, interval_ns: u64) -> Recorder {
    let recording = Recording { interval_ns, ..recording() };
    crate::record_world::recorder(path, &header(), recording)
}

fn sample(index: u64, skipped: u64, wakeup_latency_ns: u64) -> Sample {
    Sample {
        index,
        release: Instant::from_ns(index * MS),
        wakeup_latency_ns,
        execution_time_ns: 7_000,
        sleep_latency_ns: wakeup_latency_ns,
        skipped,
        ..Sample::default()
    }
}

fn outcome(slots: u64, cycles: u64, skipped_at_end: u64) -> Outcome {
    Outcome { skipped_at_end, ..crate::record_world::outcome(Instant::from_ns(0), slots, cycles) }
}

/// One block of these samples, from header to closing line.
fn record(path: &Path, samples: &[Sample], outcome: &Outcome, warmup: u64) -> Account {
    record_without(path, (samples, outcome), warmup, &[])
}

/// The same with stretches left out, as (from, to) in microseconds: a stretch is seen before the
/// first sample that ended after its beginning.
fn record_without(
    path: &Path,
    (samples, outcome): (&[Sample], &Outcome),
    warmup: u64,
    stretches: &[(u64, u64)],
) -> Account {
    let us = |us: u64| Instant::from_ns(us * 1_000);
    let mut to_come = stretches.iter().map(|&(from, to)| Exclusion {
        from: us(from),
        to: us(to),
        what: Surrounding::ClockStep,
        sentence: "the wall clock was set".into(),
    });

    let mut next = to_come.next();
    let mut recorder = recorder(path, SECOND_NS);
    recorder.begin_block(0, Instant::from_ns(0), "idle", warmup).unwrap();
    for sample in samples {
        while let Some(stretch) =
            next.take_if(|stretch| stretch.from < sample.release.plus_ns(sample.response_time_ns()))
        {
            recorder.exclude(stretch);
            next = to_come.next();
        }

        recorder.sample(sample, None).unwrap();
    }

    next.into_iter().chain(to_come).for_each(|stretch| recorder.exclude(stretch));
    recorder.end_block(outcome).unwrap();
    recorder.close(&Account { reason: EndReason::Complete, ..Account::default() }).unwrap()
}

fn in_a_file(test: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    test(&dir.path().join("test.onbeat.hlog"));
}

#[test]
fn what_was_counted_is_what_is_read() {
    in_a_file(|path| {
        let samples: Vec<Sample> = (0..3_500).map(|k| sample(k, 0, 20_000 + k)).collect();
        record(path, &samples, &outcome(3_500, 3_500, 0), 0);
        let run = RunFile::read(path).unwrap();
        assert_eq!(run.header, header());
        assert_eq!(run.intervals.len(), 4, "three whole seconds and a half");
        assert_eq!(run.distribution(Series::WakeupLatency).count(), 3_500);
        assert_eq!(
            run.distribution(Series::ObservedPeriod).count(),
            3_499,
            "the first cycle has no period"
        );
        let moments = run.moments(Series::WakeupLatency);

        assert_eq!((moments.min_ns, moments.max_ns), (20_000, 23_499), "extremes are exact");
        assert!((moments.mean_ns - 21_749.5).abs() < 1e-6);
        assert_eq!(run.end.unwrap().slots, 3_500);
    });
}

#[test]
fn skipped_releases_have_the_latency_until_the_next_start() {
    in_a_file(|path| {
        let samples = [sample(0, 0, 10_000), sample(4, 3, 500_000)];
        record(path, &samples, &outcome(5, 2, 0), 0);
        let skipped = RunFile::read(path).unwrap().moments(Series::SkippedLatency);
        assert_eq!((skipped.n, skipped.min_ns, skipped.max_ns), (3, 1_500_000, 3_500_000));
    });
}

#[test]
fn releases_skipped_at_the_end_waited_at_least_until_the_last_cycle_ended() {
    in_a_file(|path| {
        let mut end = outcome(5, 2, 3);
        end.last_end = Instant::from_ns(4_700_000);
        record(path, &[sample(0, 0, 10_000), sample(1, 0, 10_000)], &end, 0);
        let run = RunFile::read(path).unwrap();
        let skipped = run.moments(Series::SkippedLatency);

        assert_eq!((skipped.n, skipped.min_ns, skipped.max_ns), (3, 700_000, 2_700_000));
        assert_eq!(run.intervals[0].skipped, 3);
    });
}

#[test]
fn a_lost_sample_is_counted_and_makes_no_false_period() {
    in_a_file(|path| {
        let samples = [
            sample(0, 0, 10_000),
            sample(1, 0, 10_000),
            sample(9, 2, 10_000),
            sample(10, 0, 10_000),
        ];
        let account = record(path, &samples, &outcome(11, 9, 0), 0);
        assert_eq!(account.lost, 5, "releases 2 to 6 are unknown, 7 and 8 were skipped");
        let run = RunFile::read(path).unwrap();
        assert_eq!(run.moments(Series::ObservedPeriod).n, 2);
        assert_eq!(run.moments(Series::ObservedPeriod).max_ns, MS);
    });
}

#[test]
fn releases_skipped_before_a_lost_sample_are_counted_once() {
    in_a_file(|path| {
        let samples = [sample(0, 0, 10_000), sample(9, 2, 10_000)];
        // Of the releases 1 to 6 three more were skipped, and the samples of three lost.
        let account = record(path, &samples, &outcome(11, 5, 1), 0);
        assert_eq!((account.cycles, account.skipped, account.lost), (2, 3, 6));
        assert_eq!(account.slots, account.cycles + account.skipped + account.lost);
    });
}

#[test]
fn a_stall_that_is_a_rule_of_the_scheduler_is_written_beside_its_spike() {
    in_a_file(|path| {
        let mut recorder = recorder(path, SECOND_NS);
        recorder.begin_block(0, Instant::from_ns(0), "idle", 0).unwrap();
        recorder.sample(&sample(0, 0, 20_000), None).unwrap();
        recorder.sample(&sample(51, 50, 20_000), None).unwrap();
        recorder.sample(&sample(52, 0, 50 * MS), Some(Stall::FairServer)).unwrap();
        recorder.end_block(&outcome(53, 3, 0)).unwrap();
        recorder.close(&Account::default()).unwrap();
        let run = RunFile::read(path).unwrap();

        assert_eq!(run.spikes.len(), 1);
        assert_eq!((run.spikes[0].index, run.spikes[0].stall), (52, Some(Stall::FairServer)));
    });
}

#[test]
fn only_the_ten_worst_spikes_of_an_interval_are_kept_and_the_rest_are_counted() {
    in_a_file(|path| {
        let samples: Vec<Sample> = (0..900)
            .map(|k| sample(k, 0, if k % 20 == 19 { MS + k * 1_000 } else { 20_000 }))
            .collect();
        record(path, &samples, &outcome(900, 900, 0), 0);
        let run = RunFile::read(path).unwrap();
        assert_eq!((run.intervals[0].spikes, run.spikes.len()), (45, 10));
        assert_eq!(run.spikes[0].index, 719, "the ten worst are the last ten");
    });
}

#[test]
fn what_cycles_usually_take_beyond_the_planned_work_is_not_a_spike() {
    in_a_file(|path| {
        let execution_time_ns = |k| if k % 100 == 99 { MS } else { 400_000 };
        let cycle = |k| Sample { execution_time_ns: execution_time_ns(k), ..sample(k, 0, 10_000) };
        let samples: Vec<Sample> = (0..2_000).map(cycle).collect();
        record(path, &samples, &outcome(2_000, 2_000, 0), 0);
        let run = RunFile::read(path).unwrap();

        let spikes: Vec<u64> = run.intervals.iter().map(|interval| interval.spikes).collect();
        assert_eq!(spikes, [1 + 10, 10], "the first cycle has none before it to compare with");
        assert!(run.spikes.iter().all(|spike| spike.index % 100 == 99));
    });
}

#[test]
fn the_first_sample_is_compared_with_the_releases_that_warmed_up() {
    for (first_ns, spikes) in [(78_000, 0), (5 * MS, 1)] {
        in_a_file(|path| {
            let wakeup_ns = |k| if k == 10 { first_ns } else { 90_000 + k % 5 * 1_000 };
            let samples: Vec<Sample> = (0..100).map(|k| sample(k, 0, wakeup_ns(k))).collect();
            record(path, &samples, &outcome(100, 100, 0), 10);
            let run = RunFile::read(path).unwrap();
            assert_eq!(run.intervals[0].spikes, spikes, "first sample of {first_ns} ns");
        });
    }
}

#[test]
fn long_runs_have_few_histograms_and_every_seconds_maximum() {
    assert_eq!(interval_ns_for(60 * SECOND_NS), SECOND_NS);
    assert_eq!(interval_ns_for(3_600 * SECOND_NS), 12 * SECOND_NS);
    assert_eq!(interval_ns_for(86_400 * SECOND_NS), 288 * SECOND_NS);
    assert_eq!(interval_ns_for(u64::MAX), 300 * SECOND_NS);
    in_a_file(|path| {
        let mut recorder = recorder(path, 60 * SECOND_NS);
        recorder.begin_block(0, Instant::from_ns(0), "idle", 0).unwrap();
        for k in 0..120_000 {
            recorder.sample(&sample(k, 0, 20_000 + k / 1_000), None).unwrap();
        }

        recorder.end_block(&outcome(120_000, 120_000, 0)).unwrap();
        recorder.close(&Account::default()).unwrap();
        let run = RunFile::read(path).unwrap();
        assert_eq!(run.intervals.len(), 2);
        let maxima: Vec<u64> = run
            .maxima
            .iter()
            .flat_map(|note| note.series[&Series::ReleaseLatency].iter().copied())
            .collect();

        assert_eq!(maxima, (0..120).map(|second| 20_000 + second).collect::<Vec<_>>());
    });
}

#[test]
fn a_file_cut_at_any_byte_is_read_up_to_its_last_whole_line() {
    in_a_file(|path| {
        let samples: Vec<Sample> = (0..2_500).map(|k| sample(k, 0, 20_000 + k)).collect();
        record(path, &samples, &outcome(2_500, 2_500, 0), 0);
        let whole = std::fs::read(path).unwrap();
        let header_ends = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').nth(1).unwrap().0;
        let mut seen = 0;
        for cut in (0..whole.len()).step_by(7).chain([whole.len()]) {
            match RunFile::parse(path, &whole[..cut]) {
                Ok(run) => {
                    let count = run.distribution(Series::WakeupLatency).count();
                    assert!(count >= seen, "more bytes never say less");
                    seen = count;
                    assert_eq!(run.cut_line, whole[..cut].last() != Some(&b'\n'));
                }
                Err(RunFileError::Foreign { .. }) => assert!(cut <= header_ends, "cut at {cut}"),
                Err(why) => panic!("cut at {cut}: {why}"),
            }
        }

        assert_eq!(seen, 2_500);
    });
}

#[test]
fn a_foreign_file_is_refused_in_one_sentence() {
    let foreign =
        RunFile::parse(Path::new("x.txt"), b"# /dev/cpu_dma_latency set to 0us\nT: 0 P:98\n")
            .unwrap_err();
    assert!(foreign.to_string().contains("x.txt is not an onbeat run file"), "{foreign}");
    for other in [&b""[..], b"\x89PNG\r\n\x1a\n\0", b"\xff\xfe#\0[\0\n\0"] {
        let refused = RunFile::parse(Path::new("x.txt"), other).unwrap_err();
        assert!(matches!(refused, RunFileError::Foreign { .. }), "{refused}");
    }
}

#[test]
fn a_damaged_line_is_named_with_its_number() {
    in_a_file(|path| {
        record(path, &[sample(0, 0, 20_000)], &outcome(1, 1, 0), 0);
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().position(|line| line.contains("HISTFAAA")).unwrap() + 1;
        let damaged = text.replacen("HISTFAAA", "HISTF?AA", 1);
        let why = RunFile::parse(path, damaged.as_bytes()).unwrap_err().to_string();
        assert!(why.contains(&format!("line {line}:")) && why.contains("base64"), "{why}");
        assert!(why.ends_with(&format!("(head -n {}) is read", line - 1)), "{why}");
        let entries = |text: &str| RunFile::parse(path, text.as_bytes()).unwrap().entries.len();
        assert_eq!(entries(&format!("\u{feff}{text}")), entries(&text));
        for (bytes, what) in [
            (text.repeat(2).into_bytes(), "a second header"),
            (b"\x1f\x8b\x08\0\n".to_vec(), "unpack it first with gunzip"),
        ] {
            let why = RunFile::parse(path, &bytes).unwrap_err().to_string();
            assert!(why.contains(what), "{why}");
        }
    });
}

#[test]
fn notes_of_a_later_version_are_passed_over() {
    in_a_file(|path| {
        record(path, &[sample(0, 0, 20_000)], &outcome(1, 1, 0), 0);
        let text =
            std::fs::read_to_string(path).unwrap() + "#[onbeat: {\"weather\":{\"rain\":true}}]\n";
        assert_eq!(
            RunFile::parse(path, text.as_bytes()).unwrap().moments(Series::WakeupLatency).n,
            1
        );
    });
}

#[test]
fn a_file_of_a_later_schema_is_refused() {
    in_a_file(|path| {
        record(path, &[sample(0, 0, 20_000)], &outcome(1, 1, 0), 0);
        let text = std::fs::read_to_string(path).unwrap().replace("onbeat.run/1", "onbeat.run/2");
        let why = RunFile::parse(path, text.as_bytes()).unwrap_err().to_string();
        let expected = "its schema is onbeat.run/2, this onbeat reads onbeat.run/1";
        assert!(why.contains(expected), "{why}");
    });
}

#[test]
fn a_known_note_that_cannot_be_read_is_not_passed_over() {
    in_a_file(|path| {
        record(path, &[sample(0, 0, 20_000)], &outcome(1, 1, 0), 0);
        let text = std::fs::read_to_string(path)
            .unwrap()
            .replace("\"observed_period\"", "\"observed_mood\"");
        let damaged = text.replace("\"wakeup_latency\":{", "\"wakeup_mood\":{");
        let why = RunFile::parse(path, damaged.as_bytes()).unwrap_err().to_string();
        assert!(why.contains("a note that cannot be read"), "{why}");
    });
}

#[test]
fn a_full_disk_is_one_sentence_that_says_what_is_kept() {
    let why = RunWriter::create(Path::new("/dev/full"), &header())
        .err()
        .expect("the device is always full");
    assert!(matches!(why, WriteError::Append { written: 0, .. }));
    assert!(why.to_string().contains("/dev/full after 0 bytes: No space left on device"), "{why}");
}

#[test]
fn a_link_in_the_place_of_a_run_file_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (precious, path) = (dir.path().join("precious"), dir.path().join("timer.onbeat.hlog"));
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, &path).unwrap();
    let why = RunWriter::create(&path, &header()).err().expect("a link is refused");

    assert!(
        matches!(why, WriteError::Create { .. }) && why.to_string().contains("timer.onbeat.hlog"),
        "{why}"
    );
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

proptest! {
    /// Every slot of the grid is in exactly one place: counted, skipped, lost, warm-up, or
    /// excluded.
    #[test]
    fn every_slot_is_in_one_place(
        steps in prop::collection::vec((0_u64..5, 0_u64..3, 1_u64..3_000_000), 1..150),
        skipped_at_end in 0_u64..4,
        lost_at_end in 0_u64..3,
        warmup in 0_u64..10,
        stretches in prop::collection::vec((0_u64..40_000, 0_u64..30_000), 0..4),
    ) {
        in_a_file(|path| {
            let mut next = 0;
            let mut cycles = 0;
            let samples: Vec<Sample> = steps.iter().map(|&(skipped, lost, latency)| {
                next += skipped + lost + 1;
                cycles += lost + 1;
                let flags = Flags::default().with_if(Flags::OVERRUN, latency > MS);
                Sample { flags, ..sample(next - 1, skipped, latency) }
            }).collect();
            let slots = next + lost_at_end + skipped_at_end;
            let mut from = 0;
            let stretches: Vec<(u64, u64)> = stretches.iter().map(|&(after, length)| {
                let begins = from + after;
                from = begins + length;
                (begins, from)
            }).collect();
            let outcome = outcome(slots, cycles + lost_at_end, skipped_at_end);
            let account = record_without(path, (&samples, &outcome), warmup, &stretches);
            let run = RunFile::read(path).unwrap();
            let counted = run.moments(Series::WakeupLatency).n;
            let skipped = run.moments(Series::SkippedLatency).n;

            assert_eq!(counted + skipped + account.lost + account.warmup + account.excluded, slots);
            assert_eq!(account.slots, account.cycles + account.skipped + account.lost);
            let kept = |of: fn(&onbeat::record::Interval) -> u64| run.intervals.iter().map(of).sum::<u64>();
            assert_eq!((kept(|i| i.cycles), kept(|i| i.skipped), kept(|i| i.excluded)), (counted, skipped, account.excluded));
            assert_eq!(run.exclusions.len(), stretches.len(), "each stretch is written down once");
            let noted: u64 = run.exclusions.iter().map(|note| note.samples).sum();

            assert!(noted >= account.excluded, "{noted} of {}", account.excluded);
            let all = run.distribution(Series::WakeupLatency).count();
            assert_eq!(all, counted, "histograms and moments agree");
            assert_eq!(run.distribution(Series::ReleaseLatency).count(), counted + skipped);
            assert_eq!(run.moments(Series::ReleaseLatency).n, counted + skipped);
            assert_eq!(kept(|i| i.warmup), account.warmup);
            let is_free = |s: &&Sample| stretches.iter().all(|&(from, to)| {
                s.release.as_ns() >= to * 1_000 || s.release.as_ns() + s.response_time_ns() <= from * 1_000
            });
            let warms_up = |s: &&Sample| s.index < warmup && s.skipped == 0 && !s.flags.has(Flags::OVERRUN);
            let exact = samples.iter().filter(|s| !warms_up(s)).filter(is_free).fold(Moments::default(), |mut m, s| {
                m.add(s.wakeup_latency_ns);
                m
            });

            assert_eq!(run.moments(Series::WakeupLatency).max_ns, exact.max_ns);
        });
    }
}

#[test]
fn a_file_of_tagged_wake_up_latency_reads_as_one_of_all_releases() {
    in_a_file(|path| {
        let samples = [sample(0, 0, 10_000), sample(4, 3, 500_000), sample(5, 0, 20_000)];
        record(path, &samples, &outcome(6, 3, 0), 0);
        let now = RunFile::read(path).unwrap();
        let served = {
            let mut counts = onbeat::record::empty_counts(Series::WakeupLatency);
            [10_000, 500_000, 20_000].into_iter().for_each(|ns| counts.record(ns).unwrap());
            let mut bytes = Vec::new();
            hdrhistogram::serialization::Serializer::serialize(
                &mut hdrhistogram::serialization::V2DeflateSerializer::new(),
                &counts,
                &mut bytes,
            )
            .unwrap();

            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
        };

        let text = std::fs::read_to_string(path).unwrap();
        let older: Vec<String> = text
            .lines()
            .map(|line| {
                if line.starts_with("0.000,") {
                    format!("Tag=wakeup_latency,0.000,0.006,0.500,{served}")
                } else {
                    line.to_owned()
                }
            })
            .collect();
        let older = RunFile::parse(path, (older.join("\n") + "\n").as_bytes()).unwrap();

        for series in [Series::ReleaseLatency, Series::WakeupLatency, Series::SkippedLatency] {
            assert_eq!(older.distribution(series), now.distribution(series), "{series:?}");
        }
    });
}

#[test]
fn an_outage_that_begins_in_the_warm_up_is_counted() {
    in_a_file(|path| {
        // Stopped from behind release 6 until 18.5 periods: cycle 7 wakes up late, ten releases are
        // skipped.
        let late = Flags::default().with(Flags::OVERRUN).with(Flags::DEADLINE_MISS);
        let samples: Vec<Sample> = (0..7)
            .map(|k| sample(k, 0, 20_000))
            .chain([
                Sample { flags: late, ..sample(7, 0, 11_500_000) },
                sample(19, 11, 20_000),
                sample(20, 0, 20_000),
            ])
            .collect();
        let account = record(path, &samples, &outcome(21, 10, 0), 10);
        let run = RunFile::read(path).unwrap();

        assert_eq!((account.warmup, account.skipped), (7, 11));
        assert_eq!(
            run.moments(Series::ReleaseLatency).max_ns,
            11_500_000,
            "the late one is in no warm-up"
        );
        assert_eq!(run.moments(Series::SkippedLatency).n, 11);
        assert_eq!(
            run.distribution(Series::ReleaseLatency).count(),
            14,
            "of 21 slots all but seven that were on time"
        );
    });
}

#[test]
fn what_was_under_way_in_a_stretch_is_in_no_series_and_counted() {
    in_a_file(|path| {
        let late = sample(12, 1, 500_000);
        let samples: Vec<Sample> = (0..11)
            .map(|k| sample(k, 0, 20_000))
            .chain([late])
            .chain((13..40).map(|k| sample(k, 0, 20_000)))
            .collect();
        // From the middle of cycle 8 to between the releases of cycles 14 and 15.
        let account = record_without(path, (&samples, &outcome(40, 39, 0)), 0, &[(8_010, 14_900)]);

        assert_eq!(
            (account.slots, account.cycles, account.skipped, account.excluded),
            (40, 39, 1, 7)
        );
        let run = RunFile::read(path).unwrap();
        let note = &run.exclusions[0];
        assert_eq!(
            (note.samples, note.what),
            (7, Surrounding::ClockStep),
            "cycles 8, 9, 10, 12, 13, 14 and release 11"
        );
        assert!(
            (note.t - 0.008_01).abs() < 1e-9 && (note.length - 0.006_89).abs() < 1e-9,
            "{note:?}"
        );
        let latency = run.moments(Series::WakeupLatency);

        assert_eq!((latency.n, latency.max_ns), (33, 20_000), "the late one too is left out");
        assert_eq!(run.moments(Series::SkippedLatency).n, 0);
        assert_eq!(
            run.moments(Series::ObservedPeriod).n,
            31,
            "no period begins or ends in the stretch"
        );
        assert_eq!((run.intervals[0].excluded, run.intervals[0].excluded_skipped), (7, 1));
    });
}

#[test]
fn releases_skipped_after_the_last_cycle_are_left_out_too() {
    in_a_file(|path| {
        let mut end = outcome(5, 2, 3);
        end.last_end = Instant::from_ns(4_700_000);
        let account = record_without(
            path,
            (&[sample(0, 0, 10_000), sample(1, 0, 10_000)], &end),
            0,
            &[(2_500, 3_500)],
        );
        assert_eq!(
            (account.excluded, RunFile::read(path).unwrap().moments(Series::SkippedLatency).n),
            (2, 1)
        );
    });
}

#[test]
fn the_trend_has_a_step_for_each_tenth_of_a_short_interval_and_counts_cycles_across_skips() {
    in_a_file(|path| {
        let samples: Vec<Sample> = (0..1_500)
            .map(|k| {
                sample(
                    if k < 700 { k } else { k + 300 },
                    if k == 700 { 300 } else { 0 },
                    20_000 + k,
                )
            })
            .collect();
        record(path, &samples, &outcome(1_800, 1_500, 0), 0);
        let run = RunFile::read(path).unwrap();

        assert_eq!(
            run.trends.iter().map(|trend| trend.cycles).collect::<Vec<_>>(),
            [0, 700],
            "300 were skipped"
        );
        let steps: Vec<_> = run.trends.iter().flat_map(onbeat::record::Trend::steps).collect();
        assert_eq!(
            steps.len(),
            18,
            "steps of 100 ms, those among them in which every release was skipped"
        );
        assert!(
            (steps[8].p50_ns - 150.6e6).abs() < 1e6,
            "released half a step from 0.8 s on, served at 1 s: {:?}",
            steps[8]
        );
        assert!(
            (steps[3].p50_ns - 20_349.5).abs() < 60.0 && (steps[3].t - 0.3).abs() < 1e-9,
            "{:?}",
            steps[3]
        );
        assert!(
            (steps[3].worst_t - 0.399).abs() < 1e-3,
            "the last of a hundred rising ones: {:?}",
            steps[3]
        );
    });
}
