//! Files of other tools as run files: what they hold is kept, what they do not hold is said.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, Error, Format, SourceOptions, Stream};
use onbeat::record::{Cell, DevicePackets, LimitNote, PacketAccount, RunFile, Series};
use onbeat_report::compare::{Comparison, Digest, SHARES};
use onbeat_report::verdict::judge;
use onbeat_report::{CellSummary, JudgeBy, JudgedRun, Outcome, imported};
use proptest::prelude::*;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_files").join(name)
}

fn streams_of(bytes: &[u8], asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    import::read(&mut Cursor::new(bytes), asked)
}

fn streams(name: &str, asked: &SourceOptions) -> Vec<Stream> {
    streams_of(&std::fs::read(path(name)).unwrap(), asked).unwrap()
}

/// Through a run file and back.
fn run_of(stream: &Stream) -> RunFile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let cell = Cell::new("a run", "unknown");
    import::write(
        stream,
        &ImportLabels { command: vec!["onbeat".to_owned()], file: "source".to_owned(), cell },
        &path,
    )
    .unwrap();
    RunFile::read(&path).unwrap()
}

fn runs(name: &str, asked: &SourceOptions) -> Vec<RunFile> {
    streams(name, asked).iter().map(run_of).collect()
}

fn cell(run: &RunFile) -> CellSummary {
    imported::summary(std::slice::from_ref(run), None).unwrap().cells.remove(0)
}

fn refused(text: &str, asked: &SourceOptions) -> String {
    streams_of(text.as_bytes(), asked).unwrap_err().to_string()
}

#[test]
fn cyclictests_json_keeps_its_threads_its_overflows_and_its_own_figures() {
    let runs = runs("cyclictest.json", &SourceOptions::default());
    assert_eq!(runs.len(), 2);
    let of = cell(&runs[0]).series[&Series::WakeupLatency].clone();
    assert_eq!((of.count, of.min_ns, of.max_ns), (1999, 22_000, 1_204_000));
    assert!((of.mean_ns - 43_030.0).abs() < 1e-6 && !of.from_buckets);
    let import = runs[0].import.as_ref().unwrap();
    let beyond = import.beyond(Series::WakeupLatency).unwrap();

    assert_eq!(
        (beyond.count, beyond.from_ns, beyond.to_ns),
        (20, 100_000, 1_204_999),
        "20 of 1,999 are in no bucket"
    );
    assert_eq!((import.period_ns, import.stream.as_str()), (Some(1_000_000), "thread 0 (CPU 0)"));
    assert_eq!(runs[0].header.host.fact("kernel"), Some("6.18.44-fc-v657"));
    assert!(runs[0].header.started_unix_s > 1.7e9);
}

#[test]
fn a_percentile_beyond_the_histogram_is_an_upper_bound_and_marked() {
    let run = &runs("cyclictest.json", &SourceOptions::default())[0];
    let of = cell(run).series[&Series::WakeupLatency].clone();
    let stated: Vec<(f64, u64, bool)> =
        of.percentiles.iter().map(|p| (p.p, p.value_ns, p.supported)).collect();
    assert_eq!(stated[0], (50.0, 40_999, true), "the upper end of a microsecond");
    assert_eq!(
        stated[2],
        (99.0, 1_204_000, false),
        "twenty lie beyond: anywhere up to the maximum"
    );
}

#[test]
fn text_and_json_of_cyclictest_count_the_same_way() {
    for (name, totals, overflows, maxima) in [
        ("cyclictest-h.txt", [2_000, 1_993], [30, 35], [896_000, 770_000]),
        ("cyclictest-H.txt", [1_999, 1_992], [66, 31], [778_000, 969_000]),
    ] {
        let runs = runs(name, &SourceOptions::default());
        assert_eq!(runs.len(), 2, "{name}: the column of sums is not a thread");
        for (thread, run) in runs.iter().enumerate() {
            let of = cell(run).series[&Series::WakeupLatency].clone();
            let beyond = run.import.as_ref().unwrap().beyond(Series::WakeupLatency).unwrap();
            assert_eq!(
                (of.count, beyond.count, of.max_ns),
                (totals[thread], overflows[thread], maxima[thread]),
                "{name}"
            );
        }
    }
}

#[test]
fn text_of_cyclictest_in_nanoseconds_is_read_with_its_unit() {
    let text = "# Histogram\n000041 000007\n000042 000003\n# Total: 000000010\n# Min Latencies: 00041\n\
                # Avg Latencies: 00041\n# Max Latencies: 00042\n# Histogram Overflows: 00000\n";
    let asked = SourceOptions { unit_ns: Some(1.0), ..SourceOptions::default() };
    let run = run_of(&streams_of(text.as_bytes(), &asked).unwrap()[0]);
    let buckets: Vec<(u64, u64, u64)> = run
        .distribution(Series::WakeupLatency)
        .buckets()
        .iter()
        .map(|b| (b.low_ns, b.width_ns, b.count))
        .collect();

    assert_eq!(buckets, [(41, 1, 7), (42, 1, 3)]);
}

#[test]
fn oslats_last_bucket_holds_all_that_is_beyond() {
    let run = &runs("oslat.json", &SourceOptions::default())[0];
    let of = cell(run).series[&Series::Gap].clone();
    assert_eq!(of.count, 30_808_913);
    assert_eq!(of.max_ns, 23_778_000);
    let beyond = run.import.as_ref().unwrap().beyond(Series::Gap).unwrap();

    assert_eq!((beyond.count, beyond.from_ns), (180, 63_000));
    assert_eq!(
        run.distribution(Series::Gap).buckets()[0].low_ns,
        0,
        "a gap of up to 1 us is counted as 1"
    );
}

#[test]
fn stress_ngs_distribution_keeps_its_twenty_microseconds() {
    let run = &runs("stress-ng.log", &SourceOptions::default())[0];
    let of = cell(run).series[&Series::SleepLatency].clone();
    assert_eq!((of.count, of.min_ns, of.max_ns), (10_000, 11_237, 1_175_580));
    assert!((of.mean_ns - 29_639.91).abs() < 1e-6 && (of.sd_ns - 18_500.20).abs() < 0.01);
    let first = run.distribution(Series::SleepLatency).buckets()[0];

    assert_eq!((first.low_ns, first.width_ns, first.count), (0, 20_000, 71));
    assert!(
        run.import
            .as_ref()
            .unwrap()
            .missing
            .iter()
            .any(|what| what.contains("first 10000 of 22553"))
    );
}

/// A log whose table ends before the two largest of its ten samples.
const TABLE_THAT_ENDS_EARLY: &str = "\
stress-ng: info:  [9] cyclic: sched SCHED_RR: 100000 ns delay, 10 samples
stress-ng: info:  [9] cyclic:   mean: 2000.00 ns, mode: 20730 ns
stress-ng: info:  [9] cyclic:   min: 9714 ns, max: 18066010 ns, std.dev. 443.71
stress-ng: info:  [9] cyclic: latency distribution (20000 ns intervals):
stress-ng: info:  [9] cyclic: (for the first 2 buckets of 904)
stress-ng: info:  [9] cyclic: latency (ns)  frequency
stress-ng: info:  [9] cyclic:            0          7
stress-ng: info:  [9] cyclic:        20000          1
";

#[test]
fn samples_that_stress_ng_kept_and_did_not_print_are_counted_up_to_the_maximum() {
    let imported = |log: &str| {
        let run = run_of(&streams_of(log.as_bytes(), &SourceOptions::default()).unwrap()[0]);
        let of = cell(&run).series[&Series::SleepLatency].clone();
        let import = run.import.unwrap();
        let beyond = import.beyond(Series::SleepLatency).unwrap();
        (of.count, of.max_ns, beyond.from_ns, beyond.count, import.missing.join("; "))
    };

    let all = format!(
        "{TABLE_THAT_ENDS_EARLY}stress-ng: info:  [9] cyclic: Note: --cyclic-samples needed to be 73 to capture all\n"
    );
    let (count, max_ns, from_ns, beyond, missing) = imported(&all);
    assert_eq!((count, max_ns, from_ns, beyond), (10, 18_066_010, 40_000, 2));
    assert!(missing.contains("kept the first 10 of 73"), "{missing}");
    assert!(missing.contains("samples beyond 40000 ns: 2,"), "{missing}");

    // Without the note it kept all that it measured: its first line counts those.
    let (count, max_ns, _, beyond, missing) = imported(TABLE_THAT_ENDS_EARLY);
    assert_eq!((count, max_ns, beyond), (10, 18_066_010, 2));
    assert!(missing.contains("samples beyond 40000 ns: 2,"), "{missing}");

    // Percentiles beyond the table part its last samples.
    let percentiles = "stress-ng: info:  [9] cyclic:   50.00%:      15000 ns\n\
        stress-ng: info:  [9] cyclic:   80.00%:     300000 ns\n";
    let all = format!("{TABLE_THAT_ENDS_EARLY}{percentiles}");
    let run = run_of(&streams_of(all.as_bytes(), &SourceOptions::default()).unwrap()[0]);
    let cells = run.distribution(Series::SleepLatency);
    let cells: Vec<(u64, u64)> = cells.buckets().iter().map(|b| (b.high_ns(), b.count)).collect();
    assert_eq!(cells, [(19_999, 7), (39_999, 1), (300_000, 1), (18_066_010, 1)]);

    let (_, rows) = TABLE_THAT_ENDS_EARLY.split_once("10 samples\n").unwrap();
    let (count, max_ns, _, beyond, missing) = imported(rows);
    assert_eq!((count, max_ns, beyond), (9, 18_066_010, 1));
    assert!(missing.contains("samples beyond 40000 ns: at least 1,"), "{missing}");
}

#[test]
fn percentiles_of_stress_ng_part_its_samples() {
    let log = "\
stress-ng: info:  [9339] cyclic: sched SCHED_FIFO: 100000 ns delay, 7552 samples
stress-ng: info:  [9339] cyclic:   mean: 24742.04 ns, mode: 20510 ns
stress-ng: info:  [9339] cyclic:   min: 10640 ns, max: 580718 ns, std.dev. 16623.12
stress-ng: info:  [9339] cyclic: latency percentiles:
stress-ng: info:  [9339] cyclic:   50.00%:      21438 ns
stress-ng: info:  [9339] cyclic:   99.00%:     102120 ns
stress-ng: info:  [9339] cyclic:   99.90%:     202822 ns
stress-ng: info:  [9339] cyclic:   99.99%:     580718 ns
";
    let of = |log: &str| {
        let run = run_of(&streams_of(log.as_bytes(), &SourceOptions::default()).unwrap()[0]);
        let of = cell(&run).series[&Series::SleepLatency].clone();
        (run.distribution(Series::SleepLatency), of)
    };
    let (cells, figures) = of(log);
    let counts: Vec<(u64, u64)> = cells.buckets().iter().map(|b| (b.high_ns(), b.count)).collect();
    assert_eq!(counts, [(21_438, 3_777), (102_120, 3_700), (202_822, 68), (580_718, 7)]);
    assert_eq!((figures.count, figures.min_ns, figures.max_ns), (7_552, 10_640, 580_718));
    assert!((figures.sd_ns - 16_623.12).abs() < 0.01, "{}", figures.sd_ns);
    let p99 = figures.percentiles.iter().find(|of| of.p == 99.0).unwrap();
    assert_eq!(p99.value_ns, 102_120);

    // Without a number of samples they part nothing.
    let (_, figures) = of(&log.replacen(", 7552 samples", "", 1));
    assert!(figures.percentiles.is_empty());
}

/// What a tool that is installed writes today into its file; `None`, with the reason printed, where
/// it is not installed.
fn recorded_now(program: &str, words: &str, file: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let ran = Command::new(program).args(words.split(' ')).current_dir(dir.path()).output();
    let skipped = match ran {
        Err(why) => Err(format!("{program}: {why}")),
        Ok(ran) if !ran.status.success() => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
        Ok(_) => {
            std::fs::read_to_string(dir.path().join(file)).map_err(|why| format!("{file}: {why}"))
        }
    };

    skipped.map_err(|why| println!("skipped, {program} {words} recorded nothing: {why}")).ok()
}

#[test]
fn what_the_installed_cyclictest_records_is_imported_with_every_cycle() {
    let words = "-D 1 -q -t 2 -i 1000 -h 100";
    if let Some(json) = recorded_now("cyclictest", &format!("{words} --json=out"), "out") {
        let stated: serde_json::Value = serde_json::from_str(&json).unwrap();
        let streams = streams_of(json.as_bytes(), &SourceOptions::default()).unwrap();
        assert_eq!(streams.len(), 2);
        for (thread, stream) in streams.iter().enumerate() {
            let (of, stated) = (cell(&run_of(stream)), &stated["thread"][thread.to_string()]);
            let of = &of.series[&Series::WakeupLatency];
            assert_eq!(Some(of.count), stated["cycles"].as_u64(), "thread {thread}");
            assert_eq!(Some(of.max_ns / 1000), stated["max"].as_u64(), "thread {thread}");
        }
    }

    if let Some(text) = recorded_now("cyclictest", &format!("{words} --histfile=out"), "out") {
        let totals = text.lines().find_map(|line| line.strip_prefix("# Total: ")).unwrap();
        let overflows =
            text.lines().find_map(|line| line.strip_prefix("# Histogram Overflows: ")).unwrap();
        let numbers = |line: &str| {
            line.split_whitespace().map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>()
        };
        let counts = streams_of(text.as_bytes(), &SourceOptions::default()).unwrap();
        let counts =
            counts.iter().map(|stream| cell(&run_of(stream)).series[&Series::WakeupLatency].count);
        let all =
            numbers(totals).into_iter().zip(numbers(overflows)).map(|(total, over)| total + over);

        assert_eq!(counts.collect::<Vec<_>>(), all.collect::<Vec<_>>());
    }
}

#[test]
fn what_the_installed_stress_ng_records_is_imported_with_its_own_figures() {
    let words = "--cyclic 1 --cyclic-policy rr --cyclic-dist 20000 --cyclic-samples 2000 --timeout 1s --log-file out";
    let Some(log) = recorded_now("stress-ng", words, "out") else { return };
    let of = cell(&run_of(&streams_of(log.as_bytes(), &SourceOptions::default()).unwrap()[0]));
    let of = &of.series[&Series::SleepLatency];
    assert!(
        log.contains(&format!("min: {} ns, max: {} ns", of.min_ns, of.max_ns)),
        "{of:?}\n{log}"
    );
    assert!(log.contains(&format!("{} samples", of.count)), "{of:?}\n{log}");
}

#[test]
fn rtla_records_three_latencies_per_cpu() {
    let runs = runs("rtla-timerlat.txt", &SourceOptions::default());
    assert_eq!(runs.len(), 2);
    let of = cell(&runs[0]);
    for (series, max_ns, over) in [
        (Series::InterruptLatency, 417_000, 20),
        (Series::WakeupLatency, 803_000, 80),
        (Series::ReturnLatency, 811_000, 100),
    ] {
        assert_eq!((of.series[&series].count, of.series[&series].max_ns), (10_000, max_ns));
        let beyond = runs[0].import.as_ref().unwrap().beyond(series).unwrap();
        assert_eq!(
            (beyond.count, beyond.from_ns),
            (over, 8_000),
            "rows are 2 us apart, and the last is 6"
        );
    }

    let missing = |run: &RunFile| run.import.as_ref().unwrap().missing.clone();
    assert_eq!(missing(&runs[0]), missing(&runs[1]), "a report says it once for all CPUs");

    let noise = &self::runs("rtla-osnoise.txt", &SourceOptions::default())[0];
    assert_eq!(cell(noise).series[&Series::Gap].count, 436);
    let missing = &noise.import.as_ref().unwrap().missing;
    assert!(missing.iter().any(|what| what.contains("rounds each gap down")), "{missing:?}");
}

#[test]
fn a_jhiccup_log_keeps_its_coarse_cells_and_its_times() {
    let run = &runs("hiccups.hlog", &SourceOptions::default())[0];
    let import = run.import.as_ref().unwrap();
    assert_eq!(
        import.resolution[&Series::Hiccup].step_ns,
        16_384,
        "20 us and two digits are steps of 16.4 us"
    );
    assert_eq!(run.entries.len(), 4);
    assert!((run.entries[1].t - run.entries[0].t - 1.0).abs() < 0.5);
    assert!(run.header.started_unix_s > 1.7e9);

    for bucket in run.distribution(Series::Hiccup).buckets() {
        assert!(bucket.width_ns >= 16_384 && bucket.low_ns.is_multiple_of(16_384), "{bucket:?}");
    }
}

#[test]
fn a_tagged_log_becomes_the_series_of_its_tag_bucket_by_bucket() {
    let run = &runs("tagged.hlog", &SourceOptions::default())[0];
    let of = run.distribution(Series::WakeupLatency);
    assert_eq!(of.count(), 3_000);
    let mut expected = onbeat::record::empty_counts(Series::WakeupLatency);
    (1..=1_000_u64).for_each(|value| expected.record_n(20_000 + 10 * value, 3).unwrap());
    assert_eq!(
        of,
        onbeat::record::Distribution::from_histogram(&expected),
        "the same cells as onbeat's own"
    );
}

#[test]
fn logs_without_legend_version_or_base_time_are_read_as_the_reference_reads_them() {
    let text = std::fs::read_to_string(path("hiccups.hlog")).unwrap();
    let bare: String = text
        .lines()
        .filter(|line| !line.starts_with(['#', '"']))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let stated = &streams_of(bare.as_bytes(), &SourceOptions::default()).unwrap()[0];
    let whole = &streams("hiccups.hlog", &SourceOptions::default())[0];

    assert_eq!(stated.started_unix_s, 0.0, "not in the file");
    assert_eq!(
        stated.parts.iter().map(|part| &part.cells).collect::<Vec<_>>(),
        whole.parts.iter().map(|part| &part.cells).collect::<Vec<_>>()
    );
    let absolute = bare.replace("\r\n0.", "\r\n1763712000.").replace("\r\n1.", "\r\n1763712001.");
    let absolute = format!("#[StartTime: 1763712000.000 (seconds since epoch)]\n{absolute}");

    assert!(streams_of(absolute.as_bytes(), &SourceOptions::default()).is_ok());
}

#[test]
fn percentile_text_is_uneven_cells_and_needs_a_unit() {
    let text = std::fs::read_to_string(path("hiccups.hgrm")).unwrap();
    assert!(refused(&text, &SourceOptions::default()).contains("--unit"));
    let asked = SourceOptions {
        unit_ns: Some(1e6),
        series: Some(Series::Hiccup),
        ..SourceOptions::default()
    };
    let of = cell(&run_of(&streams_of(text.as_bytes(), &asked).unwrap()[0])).series
        [&Series::Hiccup]
        .clone();
    let log =
        cell(&runs("hiccups.hlog", &SourceOptions::default())[0]).series[&Series::Hiccup].clone();

    assert_eq!(of.count, log.count);
    let relative = |a: u64, b: u64| (a as f64 - b as f64).abs() / b as f64;
    assert!(relative(of.percentiles[0].value_ns, log.percentiles[0].value_ns) < 0.2);
    assert!(relative(of.max_ns, log.max_ns) < 0.01);
    assert_eq!(of.min_ns, 20_000, "0.02 ms, and not the 0.025 ms that it may be");
}

#[test]
fn samples_in_csv_keep_their_times_and_no_more_digits_than_they_have() {
    let run = &runs("time-and-latency.csv", &SourceOptions::default())[0];
    let of = cell(run).series[&Series::Recorded].clone();
    assert_eq!((of.count, of.min_ns, of.max_ns), (6, 19_800, 480_900));
    assert_eq!(run.import.as_ref().unwrap().resolution[&Series::Recorded].step_ns, 100);
    assert_eq!(
        run.entries.iter().map(|entry| (entry.t, entry.counts.count())).collect::<Vec<_>>(),
        [(0.0, 4), (1.0, 2)]
    );
}

#[test]
fn samples_without_times_get_them_from_the_period() {
    let text: String = (0..3_000).map(|k| format!("{}\n", 20 + k % 7)).collect();
    let asked = SourceOptions {
        unit_ns: Some(1e3),
        period_ns: Some(1_000_000),
        series: Some(Series::WakeupLatency),
        ..SourceOptions::default()
    };

    let run = run_of(&streams_of(text.as_bytes(), &asked).unwrap()[0]);
    assert_eq!(run.entries.len(), 3);
    let limit = LimitNote { limit_ns: 100_000, at: 99.0, on: Series::WakeupLatency };
    let verdict = judge(&run, limit);
    assert_eq!(verdict.outcome, Outcome::Inconclusive, "an outage may last: {}", verdict.sentence);
    let without = SourceOptions { period_ns: None, ..asked };
    let run = run_of(&streams_of(text.as_bytes(), &without).unwrap()[0]);
    assert_eq!((run.entries.len(), run.entries[0].length), (1, 0.0));
    assert_eq!(judge(&run, limit).outcome, Outcome::Pass, "taken singly");
}

#[test]
fn what_cannot_be_read_says_which_line_and_why() {
    let of = |text: &str| refused(text, &SourceOptions::default());
    assert!(of("Dear reader,\nthis is a letter.\n").contains("line 1 is `Dear reader,`"));
    let cut = std::fs::read_to_string(path("cyclictest-h.txt"))
        .unwrap()
        .replace("000043 000063\t000099\n", "");
    assert!(
        of(&cut).contains("thread 0: its rows add up to 1907, `# Total` says 1970"),
        "{}",
        of(&cut)
    );
    let json = std::fs::read_to_string(path("cyclictest.json")).unwrap();

    assert!(of(&json[..900]).starts_with("read as cyclictest-json, line "), "{}", of(&json[..900]));
    assert!(of("time_s,latency_us\n0.1,20\n0.2,late\n").contains("line 3: `late` is not a number"));
    assert!(of("latency_us\n20\nNaN\n").contains("line 3: `NaN` is not a number"));
    assert!(of("17\n18\n").contains("line 1: the values have no unit"));
    let log = std::fs::read_to_string(path("hiccups.hlog")).unwrap().replace("HISTF", "HISTF!");

    assert!(of(&log).contains("line 6: the histogram is not valid base64"), "{}", of(&log));
    assert!(of("#[onbeat: {\"run\":{}}]\n").contains("already"));
    let rtla =
        std::fs::read_to_string(path("rtla-osnoise.txt")).unwrap().replace("Index", "0\nIndex");
    assert!(
        of(&rtla).contains("line 5: the heading of the columns comes after rows"),
        "{}",
        of(&rtla)
    );
}

#[test]
fn a_format_can_be_named_against_the_content() {
    let asked = SourceOptions {
        format: Some(Format::Csv),
        unit_ns: Some(1e3),
        column: Some("2".to_owned()),
        ..SourceOptions::default()
    };
    let rows = "000020 000003 000004\n000021 000003 000004\n";
    assert_eq!(streams_of(rows.as_bytes(), &asked).unwrap()[0].parts[0].samples(), 2);
}

#[test]
fn a_limit_inside_a_cell_is_decided_by_neither_side() {
    let run = &runs("cyclictest.json", &SourceOptions::default())[0];
    let judged = |limit_ns, at| judge(run, LimitNote { limit_ns, at, on: Series::WakeupLatency });
    let inside = judged(40_500, 50.0);
    assert!(inside.unsure > 100, "those of the whole microsecond 40");
    assert_eq!(
        judged(300_000, 99.5).outcome,
        Outcome::Inconclusive,
        "twenty lie anywhere from 100 us to 1.2 ms"
    );
    let (over, unsure) = (judged(300_000, 99.5).over, judged(300_000, 99.5).unsure);
    assert_eq!((over, unsure), (1, 19), "the largest is stated: one of them is over");
    assert_eq!(judged(300_000, 100.0).outcome, Outcome::Fail, "the maximum is 1.2 ms");
    assert_eq!(judged(99_999, 99.9).outcome, Outcome::Fail, "all twenty are over");
    assert_eq!(judged(1_204_999, 99.0).outcome, Outcome::Pass);
}

#[test]
fn a_longer_run_is_estimated_by_what_decides_it() {
    let text = "T: 0 ( 8437) P:80 I:1000 C:    987 Min:     24 Act:   82 Avg:  105 Max:    6314\n";
    let run = run_of(&streams_of(text.as_bytes(), &SourceOptions::default()).unwrap()[0]);
    let limit = LimitNote { limit_ns: 100_000, at: 99.99, on: Series::WakeupLatency };
    let verdict = judge(&run, limit);
    assert_eq!((verdict.outcome, verdict.over, verdict.unsure), (Outcome::Inconclusive, 1, 986));
    assert!(verdict.times_longer.unwrap() > 1.0, "{}", verdict.sentence);
    assert!(!verdict.sentence.contains("about 987 ms would decide it"), "{}", verdict.sentence);
}

#[test]
fn streams_share_the_level_of_a_fail() {
    let text = "# Histogram\n000005 009880\t009980\n000150 000120\t000020\n";
    let streams = streams_of(text.as_bytes(), &SourceOptions::default()).unwrap();
    let runs: Vec<RunFile> = streams.iter().map(run_of).collect();
    let limit = LimitNote { limit_ns: 100_000, at: 99.0, on: Series::WakeupLatency };
    let verdict = |runs: &[RunFile]| {
        imported::summary(runs, Some(limit)).unwrap().cells.remove(0).verdict.unwrap()
    };
    assert_eq!(verdict(&runs[..1]).outcome, Outcome::Fail);
    let both = verdict(&runs);
    assert_eq!(both.outcome, Outcome::Inconclusive, "{}", both.sentence);
    assert!(both.basis.contains("the 5 % for a wrong FAIL are shared by 2"), "{}", both.basis);

    let ping = "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.115 ms\n";
    let ping = run_of(&streams_of(ping.as_bytes(), &SourceOptions::default()).unwrap()[0]);
    let beside = [runs[0].clone(), ping];
    assert_eq!(verdict(&beside).outcome, Outcome::Fail, "the other has no such series");
}

proptest! {
    #[test]
    fn any_text_is_imported_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), format in 0..Format::ALL.len()) {
        let asked = SourceOptions { format: Some(Format::ALL[format]), unit_ns: Some(1e3), ..SourceOptions::default() };
        let _ = streams_of(&bytes, &asked);
        let _ = streams_of(&bytes, &SourceOptions::default());
    }
}

/// A histogram of cyclictest of so many samples: a bell around a latency, and a long tail.
fn histogram(samples: u64, around_us: u64, seed: u64) -> RunFile {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counts = vec![0_u64; 100];
    for _ in 0..samples {
        let bell = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let us = (around_us as f64 + 1.3 * bell) as usize + random.usize(..200) / 199 * 15;
        counts[us.min(99)] += 1;
    }
    let lines = (0..).zip(&counts).map(|(us, n): (usize, _)| format!("{us:06} {n:06}\n"));
    let text = format!(
        "# Histogram\n{}# Total: {samples:09}\n# Min Latencies: 00001\n# Avg Latencies: 00010\n\
         # Max Latencies: 00099\n# Histogram Overflows: 00000\n",
        lines.collect::<String>()
    );
    run_of(&streams_of(text.as_bytes(), &SourceOptions::default()).unwrap()[0])
}

/// What is said of two runs.
fn said(a: &RunFile, b: &RunFile) -> String {
    let digest = |name: &str, place: u64, run: &RunFile| {
        let summary = imported::summary(std::slice::from_ref(run), None).unwrap();
        Digest::new(name, place, summary, std::slice::from_ref(run), &SHARES)
    };
    Comparison::new(&[digest("before", 0, a), digest("after", 1, b)]).sentences.remove(0)
}

#[test]
fn plain_histograms_before_and_after_differ_by_ranks_and_the_assumption_is_named() {
    let before = histogram(60_000, 11, 1);
    let shifted = said(&before, &histogram(60_000, 16, 2));
    assert!(shifted.contains("of after differs from that of before: p50 x 1.3"), "{shifted}");
    assert!(shifted.contains("p99 x 1."), "{shifted}");
    assert!(shifted.contains("taking samples to come independently"), "{shifted}");

    for seed in 3..13 {
        let same = said(&before, &histogram(60_000, 11, seed));
        assert!(same.starts_with("No visible difference"), "{same}");
        assert!(same.contains("taking samples to come independently"), "{same}");
    }

    let few = said(&histogram(15, 11, 1), &histogram(15, 16, 2));
    assert!(few.ends_with("fewer than 10 samples beyond each percentile"), "{few}");
}

#[test]
fn a_percentile_in_the_bucket_of_a_maximum_that_was_rounded_down_may_be_larger() {
    let two_buckets = |us: u64| {
        let text = format!(
            "# Histogram\n{us:06} 030000\n{:06} 030000\n# Total: 000060000\n\
             # Min Latencies: {us:05}\n# Avg Latencies: {us:05}\n# Max Latencies: {:05}\n\
             # Histogram Overflows: 00000\n",
            us + 1,
            us + 1
        );
        run_of(&streams_of(text.as_bytes(), &SourceOptions::default()).unwrap()[0])
    };
    let same = said(&two_buckets(1), &two_buckets(2));
    assert!(same.starts_with("No visible difference"), "2.99 and 3.01 us: {same}");
    assert!(same.contains("p99 x 1.50 (1.00 to 2.00)"), "{same}");
}

/// Each file a run of its own, all of them one side.
fn side(name: &str, place: u64, files: Vec<RunFile>) -> Digest {
    let runs =
        files.into_iter().map(|file| JudgedRun::new(vec![file], JudgeBy::default()).unwrap());
    Digest::of_side(name, place, runs.collect(), &SHARES).unwrap()
}

fn compared(before: Vec<RunFile>, after: Vec<RunFile>) -> Comparison {
    Comparison::new(&[side("before", 0, before), side("after", 1, after)])
}

/// Three runs of one machine state: their level differs from run to run by chance, as after a reboot.
fn three(around_us: u64, seed: u64) -> Vec<RunFile> {
    let mut random = fastrand::Rng::with_seed(seed);
    let level = |random: &mut fastrand::Rng| around_us + random.u64(0..7) - 3;
    (0..3).map(|run| histogram(20_000, level(&mut random), seed * 10 + run)).collect()
}

#[test]
fn three_histograms_a_side_are_blocks_and_none_is_left_out() {
    let comparison = compared(three(30, 1), three(60, 2));
    let said = &comparison.sentences[0];
    assert!(said.contains("of after differs from that of before: p50 x "), "{said}");
    assert!(!said.contains("independently"), "{said}");
    let rows = &comparison.cells[0].runs;
    assert_eq!([rows[0].count, rows[1].count], [60_000, 60_000]);
    for name in ["before", "after"] {
        let words = format!("{name}: 3 runs are taken together, each as a block");
        assert!(comparison.warnings.contains(&words), "{:#?}", comparison.warnings);
    }
    assert!(!comparison.is_undecided());
}

#[test]
fn files_of_one_directory_that_measured_the_same_are_taken_together_as_well() {
    let whole = |files: Vec<RunFile>| JudgedRun::new(files, JudgeBy::default()).unwrap();
    let directory = |name: &str, place, files| {
        Digest::of_side(name, place, vec![whole(files)], &SHARES).unwrap()
    };
    let in_one = [directory("before", 0, three(30, 1)), directory("after", 1, three(60, 2))];
    let one_by_one = compared(three(30, 1), three(60, 2));
    assert_eq!(Comparison::new(&in_one).cells, one_by_one.cells);

    let summary = imported::summary(&three(30, 1), None).unwrap();
    let digest = Digest::new("before", 0, summary, &three(30, 1), &SHARES);
    assert_eq!(digest.summary.cells.len(), 1, "three files of one stream");
    assert_eq!(digest.summary.cells[0].main().unwrap().1.count, 60_000);
}

#[test]
fn levels_that_differ_from_run_to_run_are_no_difference_of_the_sides() {
    let pairs = 60;
    let (mut by_blocks, mut by_ranks) = (0, 0);
    for pair in 0..pairs {
        let (a, b) = (three(30, 1_000 + pair), three(30, 5_000 + pair));
        by_ranks += u64::from(said(&a[0], &b[0]).contains("differs"));
        by_blocks += u64::from(compared(a, b).sentences[0].contains("differs"));
    }
    assert!(by_blocks <= 9, "5 % of {pairs} and chance: {by_blocks}");
    assert!(by_ranks > pairs / 2, "single histograms do not show it: {by_ranks}");
}

#[test]
fn two_histograms_a_side_are_counted_together_and_the_assumption_is_named() {
    let two = |around_us, seed| {
        vec![histogram(30_000, around_us, seed), histogram(30_000, around_us, seed + 1)]
    };
    let comparison = compared(two(11, 1), two(16, 5));
    let said = &comparison.sentences[0];
    assert!(said.contains("p50 x 1.4") && said.contains("to come independently"), "{said}");
    assert_eq!(comparison.cells[0].runs[1].count, 60_000);
    let words =
        "after: 2 runs are taken together, one after the other; from three on each is a block";
    assert!(comparison.warnings.iter().any(|said| said == words), "{:#?}", comparison.warnings);
}

#[test]
fn what_does_not_add_up_over_the_runs_of_a_side_is_said_with_its_counts() {
    let with_packets = |lost: u64, seed| {
        let mut run = histogram(20_000, 30, seed);
        let devices = vec![DevicePackets { scheduled: 20_000, lost, ..DevicePackets::default() }];
        run.packets = Some(PacketAccount { devices, ..PacketAccount::default() });
        run
    };
    let before = (0..3).map(|run| with_packets(run, run)).collect();
    let comparison = compared(before, three(30, 9));
    let words = "before: its packets device by device (60,000 scheduled, 0 late, 3 lost, \
                 0 unsent in all) are only in the reports of the single runs";
    assert!(comparison.warnings.iter().any(|said| said == words), "{:#?}", comparison.warnings);
    assert!(!comparison.warnings.iter().any(|said| said.starts_with("after: its packets")));
}

#[test]
fn a_side_of_three_beside_a_single_histogram_has_ranks() {
    let comparison = compared(vec![histogram(60_000, 11, 1)], three(40, 2));
    assert!(comparison.sentences[0].contains("independently"), "{}", comparison.sentences[0]);
}

#[test]
fn a_quotient_whose_interval_is_wider_than_a_factor_of_100_is_undecided() {
    let far_apart = |seed| {
        vec![
            histogram(20_000, 2, seed),
            histogram(20_000, 40, seed + 1),
            histogram(20_000, 90, seed + 2),
        ]
    };
    let comparison = compared(far_apart(1), far_apart(7));
    let said = &comparison.sentences[0];
    assert!(said.contains("undecided: p50") || said.contains("the interval of p50"), "{said}");
    assert!(said.contains("wider than a factor of 100") && !said.contains("p50 x"), "{said}");
}

#[test]
fn what_differs_between_the_runs_of_a_side_and_what_has_no_counterpart_is_told() {
    let mut files = three(30, 1);
    files[1].header.host = onbeat::host::Host::from_facts([("kernel", Some("6.1".to_owned()))]);
    let comparison = compared(files, three(60, 2));
    let unlike = |said: &String| {
        said.starts_with("The runs of before are not alike: ") && said.contains("kernel")
    };
    assert!(comparison.warnings.iter().any(unlike), "{:#?}", comparison.warnings);

    let mut other = three(30, 1);
    for file in &mut other {
        file.import.as_mut().unwrap().stream = "thread 1".to_owned();
        file.header.cell.as_mut().unwrap().tuning = "ct thread 1".to_owned();
    }
    let both = [three(30, 1), other].concat();
    let comparison = compared(both, three(60, 2));
    let alone =
        |said: &String| said.starts_with("Without a counterpart, and not compared: ct thread 1");
    assert!(comparison.warnings.iter().any(alone), "{:#?}", comparison.warnings);
}
