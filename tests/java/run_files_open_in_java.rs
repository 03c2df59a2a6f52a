//! Java's HdrHistogram opens onbeat's run files unchanged, and counts what onbeat counts.
//!
//! The Java side below `src/main/java/onbeat`, `IntervalLogs.java` and the loop of
//! `HiccupLoop.java`, knows HdrHistogram's classes and nothing of onbeat. Maven builds it on the
//! first run, and needs the network then; from the second run on it works offline.
//!
//! Without Java or Maven, every test here is counted as ignored, with the reason in its line; hence
//! a harness that can say so while it runs.
// Everything here is a test, although clippy cannot see it without the attribute.
#![allow(clippy::unwrap_used)]

pub(crate) mod java_side;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use java_side::Missing;
use libtest_mimic::{Completion, Failed, Trial};
use onbeat::probe;
use onbeat::record::{
    Account, Distribution, LONGEST_NS, Past, Recorder, Recording, RunFile, RunWriter, Series,
    SpikeLimit,
};
use onbeat_rt::{End, Flags, Instant, Outcome, Sample};
use serde::Deserialize;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "run_files_open_in_java::java_counts_in_a_real_bench_what_onbeat_counts",
            java_counts_in_a_real_bench_what_onbeat_counts,
        ),
        trial(
            "run_files_open_in_java::spikes_skipped_releases_and_the_ends_of_the_range_are_the_same_in_java",
            spikes_skipped_releases_and_the_ends_of_the_range_are_the_same_in_java,
        ),
        trial(
            "run_files_open_in_java::a_file_cut_off_after_a_whole_line_opens_as_far_as_it_goes",
            a_file_cut_off_after_a_whole_line_opens_as_far_as_it_goes,
        ),
        trial(
            "run_files_open_in_java::a_run_that_was_killed_and_resumed_is_one_log",
            a_run_that_was_killed_and_resumed_is_one_log,
        ),
        trial(
            "run_files_open_in_java::a_log_that_java_wrote_is_refused_in_one_sentence",
            a_log_that_java_wrote_is_refused_in_one_sentence,
        ),
        trial(
            "run_files_open_in_java::a_log_that_java_wrote_is_imported_sample_by_sample",
            a_log_that_java_wrote_is_imported_sample_by_sample,
        ),
        trial(
            "run_files_open_in_java::a_log_of_the_hiccup_loop_in_java_is_imported_whole",
            a_log_of_the_hiccup_loop_in_java_is_imported_whole,
        ),
        trial(
            "run_files_open_in_java::percentile_text_is_that_of_java_row_by_row",
            percentile_text_is_that_of_java_row_by_row,
        ),
    ];
    Vec::from(tests)
}

fn trial(name: &str, body: fn(&Java)) -> Trial {
    Trial::ignorable_test(name, move || match java_side::class_path() {
        Err(Missing::Tool(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Missing::Build(reason)) => Err(Failed::from(reason)),
        Ok(class_path) => {
            body(&Java { class_path });
            Ok(Completion::Completed)
        }
    })
}

fn java_counts_in_a_real_bench_what_onbeat_counts(java: &Java) {
    let out = tempfile::tempdir().unwrap();
    let bench = onbeat()
        .args(["bench", "--for", "5s", "--tunings", "none,S", "--loads", "idle", "--json", "--out"])
        .arg(out.path())
        .env("ONBEAT_STATE_DIR", out.path().join("state"))
        .output()
        .unwrap();

    assert!(bench.status.success(), "{}", words(&bench.stderr));
    let dir = out.path().join("latest");
    let files = ["none-idle.onbeat.hlog", "S-idle.onbeat.hlog"].map(|name| dir.join(name));
    java.agrees_on(&files);
    let no_samples = java.read(&[dir.join("bench.onbeat.hlog")]);

    assert_eq!(no_samples.len(), 0, "the bench's own file has notes and no histogram");
    let spins = RunFile::read(&files[1]).unwrap();
    assert!(spins.distribution(Series::SleepLatency).count() > 100, "S brings the sixth series");
}

fn spikes_skipped_releases_and_the_ends_of_the_range_are_the_same_in_java(java: &Java) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("synthetic.onbeat.hlog");
    let mut recorder = recorder(&path, 2 * SECOND);
    for block in 0..3 {
        let first_release = Instant::from_ns(u64::from(block) * 20 * SECOND + 250_000);
        recorder.begin_block(block, first_release, "idle", 10).unwrap();
        let mut next = 0;
        for k in 0_u64..9_000 {
            let skipped = if k % 700 == 699 { 1 + k % 50 } else { 0 };
            let lost = u64::from(k == 4_000) * 7;
            let index = next + skipped + lost;
            let sample = sample(first_release, index, skipped, latency_ns(k));
            recorder.sample(&sample, None).unwrap();
            next = index + 1;
        }

        recorder.end_block(&outcome(first_release, next, 9_007)).unwrap();
    }

    let account = recorder.close(&Account::default()).unwrap();
    assert_eq!(account.lost, 21, "seven samples were lost in each block");
    java.agrees_on(std::slice::from_ref(&path));
    let run = RunFile::read(&path).unwrap();

    // The tool that people open logs with, asked for no tag: it shows every release, skipped ones
    // among them.
    let shown = java.run_class(
        "org.HdrHistogram.HistogramLogProcessor",
        &["-i"],
        std::slice::from_ref(&path),
    );
    let total =
        format!("Total count    = {:12}]", run.distribution(Series::ReleaseLatency).count());
    assert!(words(&shown.stdout).contains(&total), "{total} is not in\n{}", words(&shown.stdout));
    assert!(
        run.moments(Series::SkippedLatency).n > 100
            && !run.spikes.is_empty()
            && !run.maxima.is_empty()
    );
    assert_eq!(
        run.moments(Series::WakeupLatency).max_ns,
        4 * LONGEST_NS,
        "exact, although the histogram ends before"
    );
}

fn a_file_cut_off_after_a_whole_line_opens_as_far_as_it_goes(java: &Java) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole.onbeat.hlog");
    let mut recorder = recorder(&path, SECOND);
    recorder.begin_block(0, Instant::from_ns(0), "idle", 0).unwrap();
    for k in 0..3_000 {
        recorder.sample(&sample(Instant::from_ns(0), k, 0, latency_ns(k)), None).unwrap();
    }

    recorder.end_block(&outcome(Instant::from_ns(0), 3_000, 3_000)).unwrap();
    recorder.close(&Account::default()).unwrap();
    let whole = std::fs::read_to_string(&path).unwrap();
    let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let cut: Vec<PathBuf> =
        ends.iter().skip(1).map(|&end| dir.path().join(format!("{end}.onbeat.hlog"))).collect();
    for (path, &end) in cut.iter().zip(ends.iter().skip(1)) {
        std::fs::write(path, &whole[..end]).unwrap();
    }

    java.agrees_on(&cut);
}

fn a_run_that_was_killed_and_resumed_is_one_log(java: &Java) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("resumed.onbeat.hlog");
    let origin = Instant::from_ns(0);
    let mut killed = recorder(&path, SECOND);
    killed.begin_block(0, origin, "idle", 0).unwrap();
    for k in 0..2_500 {
        killed.sample(&sample(origin, k, 0, latency_ns(k)), None).unwrap();
    }

    drop(killed);
    let mut torn = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    torn.write_all(b"2.000,1.0").unwrap();
    drop(torn);
    let past = Past::open(&path).unwrap();
    let (from_ns, recording) = (60 * SECOND, recording(SECOND));
    let mut gone_on = Recorder::go_on(past, (origin, from_ns), recording).unwrap();
    gone_on.begin_block(1, origin, "idle", 0).unwrap();

    for k in 0..1_000 {
        gone_on.sample(&sample(origin, k, 0, latency_ns(k)), None).unwrap();
    }

    gone_on.end_block(&outcome(origin, 1_000, 1_000)).unwrap();
    assert_eq!(
        gone_on.close(&Account::default()).unwrap().slots,
        3_000,
        "two whole seconds, and one more"
    );
    java.agrees_on(std::slice::from_ref(&path));
    let starts: Vec<f64> =
        RunFile::read(&path).unwrap().entries.iter().map(|entry| entry.t).collect();
    assert!(starts.is_sorted(), "{starts:?}");
}

fn a_log_that_java_wrote_is_refused_in_one_sentence(java: &Java) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jhiccup.hlog");
    java.run("write", std::slice::from_ref(&path));
    assert!(
        !java.read(std::slice::from_ref(&path)).is_empty(),
        "it is a log that Java itself opens"
    );
    let answer = onbeat().arg("report").arg(&path).output().unwrap();
    let said = words(&answer.stderr);

    assert_eq!((answer.status.code(), said.trim_end().lines().count()), (Some(2), 1), "{said}");
    assert!(
        said.contains(&format!("{} is not an onbeat run file: line 6", path.display())),
        "{said}"
    );
    assert!(
        answer.stdout.is_empty() && !dir.path().join("report.html").exists(),
        "and nothing else comes of it"
    );
}

fn a_log_that_java_wrote_is_imported_sample_by_sample(java: &Java) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("java.hlog");
    java.run("write", std::slice::from_ref(&path));
    let to = dir.path().join("run");
    let done = onbeat().arg("import").arg(&path).arg("-o").arg(&to).output().unwrap();

    assert!(done.status.success(), "{}", words(&done.stderr));
    let imported = to.join("java.onbeat.hlog");
    let (theirs, ours) =
        (java.read(std::slice::from_ref(&path)), java.read(std::slice::from_ref(&imported)));
    let tags = |tags: &[Tag]| {
        tags.iter()
            .map(|tag| (tag.tag.clone(), tag.counts.clone(), tag.maxima_ns.clone()))
            .collect::<Vec<_>>()
    };

    assert_eq!(tags(&theirs), tags(&ours), "Java finds in the run file what it wrote into the log");
}

fn a_log_of_the_hiccup_loop_in_java_is_imported_whole(java: &Java) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hiccups.hlog");
    java.run_class(
        "onbeat.HiccupLoop",
        &["-r", "1", "-i", "500", "-t", "2"],
        std::slice::from_ref(&path),
    );
    let to = dir.path().join("run");
    let done = onbeat().arg("import").arg(&path).arg("-o").arg(&to).output().unwrap();

    assert!(done.status.success(), "{}", words(&done.stderr));
    let (theirs, ours) = (
        java.read(std::slice::from_ref(&path)),
        RunFile::read(&to.join("hiccups.onbeat.hlog")).unwrap(),
    );
    let counts: Vec<u64> = ours.entries.iter().map(|entry| entry.counts.count()).collect();
    assert_eq!((theirs.len(), theirs[0].lines), (1, 4), "an interval per half second, and no tag");
    assert_eq!(counts.iter().sum::<u64>(), theirs[0].total_count);
    assert!(
        ours.entries.iter().all(|entry| entry.series == Series::Hiccup),
        "from the log's own comment"
    );
    // Whatever held it up: what is longer than the resolution counts as the many hiccups that it
    // would have been.
    assert!(
        (500..=2_400).contains(&theirs[0].total_count),
        "{} in two seconds",
        theirs[0].total_count
    );
}

fn percentile_text_is_that_of_java_row_by_row(java: &Java) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let mut recorder = recorder(&path, SECOND);
    recorder.begin_block(0, Instant::from_ns(0), "idle", 0).unwrap();
    for k in 0..5_000 {
        recorder.sample(&sample(Instant::from_ns(0), k, 0, latency_ns(k)), None).unwrap();
    }

    recorder.end_block(&outcome(Instant::from_ns(0), 5_000, 5_000)).unwrap();
    recorder.close(&Account::default()).unwrap();
    let done = onbeat()
        .arg("export")
        .arg(&path)
        .arg("--hgrm")
        .arg(dir.path().join("text"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", words(&done.stderr));
    let ours =
        std::fs::read_dir(dir.path().join("text")).unwrap().map(|entry| entry.unwrap().path());
    let ours =
        ours.into_iter().find(|path| path.to_string_lossy().contains("release_latency")).unwrap();
    let rows = |text: &str| -> Vec<(f64, f64, u64)> {
        let numbers = |line: &str| -> Option<(f64, f64, u64)> {
            let mut words = line.split_whitespace();
            Some((
                words.next()?.parse().ok()?,
                words.next()?.parse().ok()?,
                words.next()?.parse().ok()?,
            ))
        };
        text.lines().filter_map(numbers).collect()
    };

    let ours = rows(&std::fs::read_to_string(ours).unwrap());
    let theirs = rows(&words(
        &java.run("percentiles", &[path, PathBuf::from(tag_of(Series::ReleaseLatency))]).stdout,
    ));
    assert!(theirs.len() > 20);
    for (p, value, count) in theirs.iter().map(|(value, p, count)| (*p, *value, *count)) {
        let own = ours.iter().find(|(_, own, _)| (own - p).abs() < 1e-9);
        let &(own, _, own_count) = own.unwrap_or_else(|| panic!("no row at {p} among {ours:?}"));
        assert!((own - value).abs() <= 0.001 + value * 0.001, "at {p}: {own} ms, Java {value} ms");
        assert_eq!(own_count, count, "at {p}");
    }
}

/// What Java says of one tag in one file.
#[derive(Debug, Deserialize)]
struct Tag {
    file: PathBuf,
    start_time_s: f64,
    tag: String,
    lines: usize,
    total_count: u64,
    min_ns: u64,
    max_ns: u64,
    counts: Vec<u64>,
    maxima_ns: Vec<u64>,
    starts_ms: Vec<f64>,
    ends_ms: Vec<f64>,
}

struct Java {
    class_path: &'static str,
}

impl Java {
    fn run(&self, verb: &str, files: &[PathBuf]) -> Output {
        self.run_class("onbeat.IntervalLogs", &[verb], files)
    }

    fn run_class(&self, class: &str, options: &[&str], files: &[PathBuf]) -> Output {
        // Each lives too short for a better compiler and several collectors.
        let java = Command::new("java")
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
            .args(["-cp", self.class_path, class])
            .args(options)
            .args(files)
            .output();
        let java = java.unwrap();
        assert!(java.status.success() && java.stderr.is_empty(), "Java: {}", words(&java.stderr));
        java
    }

    fn read(&self, files: &[PathBuf]) -> Vec<Tag> {
        words(&self.run("read", files).stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Both readers give the same answer for every series of these files.
    fn agrees_on(&self, files: &[PathBuf]) {
        let tags = self.read(files);
        for file in files {
            let run = RunFile::read(file).unwrap();
            let of_file: BTreeMap<&str, &Tag> = tags
                .iter()
                .filter(|tag| &tag.file == file)
                .map(|tag| (tag.tag.as_str(), tag))
                .collect();
            let max_fields = max_fields(file);
            // Wake-up latency is in no line of its own: it is what is left of the untagged line
            // without the skipped releases.
            for series in Series::ALL.into_iter().filter(|series| *series != Series::WakeupLatency)
            {
                let entries: Vec<_> =
                    run.entries.iter().filter(|entry| entry.series == series).collect();
                let Some(tag) = of_file.get(tag_of(series)) else {
                    assert!(entries.is_empty(), "Java sees no {series:?} in {}", file.display());
                    continue;
                };
                same_counts(tag, &run, series);
                same_times(tag, &run, series);

                assert_eq!(tag.maxima_ns.len(), max_fields[tag_of(series)].len());
                for (&max_ns, &field_ms) in tag.maxima_ns.iter().zip(&max_fields[tag_of(series)]) {
                    let away_ms = (max_ns as f64 / 1e6 - field_ms).abs();
                    assert!(
                        away_ms < 0.000_501,
                        "{series:?}: Interval_Max is {field_ms}, the largest value {max_ns} ns"
                    );
                }
            }
        }
    }
}

/// The `Tag=` of a series' lines; empty for the one that has none.
fn tag_of(series: Series) -> &'static str {
    if series == Series::ReleaseLatency { "" } else { series.tag() }
}

fn same_counts(tag: &Tag, run: &RunFile, series: Series) {
    let ours = run.distribution(series);
    assert_eq!(tag.total_count, ours.count(), "{series:?} in {}", run.path.display());
    assert_eq!((tag.max_ns, tag.min_ns), extremes(&ours), "{series:?} in {}", run.path.display());
    let entries = run.entries.iter().filter(|entry| entry.series == series);
    let per_line: Vec<(u64, u64)> =
        entries.map(|entry| (entry.counts.count(), extremes(&entry.counts).0)).collect();

    assert_eq!(tag.lines, per_line.len());
    assert_eq!(
        tag.counts.iter().copied().zip(tag.maxima_ns.iter().copied()).collect::<Vec<_>>(),
        per_line
    );
    let exact = run.moments(series);
    if exact.n == ours.count() {
        let last = ours.buckets().last().unwrap();
        let max_ns = exact.max_ns.clamp(1, LONGEST_NS);
        assert!(
            (last.low_ns..=last.high_ns()).contains(&max_ns),
            "{series:?}: {max_ns} ns is outside {last:?}"
        );
    } else {
        assert_eq!(
            run.end, None,
            "only a file cut off may have a histogram without its exact figures"
        );
    }
}

/// Java reports time stamps in whole milliseconds, rounded down.
fn same_times(tag: &Tag, run: &RunFile, series: Series) {
    let start_s = run.header.started_unix_s;
    assert!((tag.start_time_s - start_s).abs() < 0.001, "{} is not {start_s}", tag.start_time_s);
    let entries = run.entries.iter().filter(|entry| entry.series == series);
    for ((entry, start_ms), end_ms) in entries.zip(&tag.starts_ms).zip(&tag.ends_ms) {
        let expected_ms = (start_s + entry.t) * 1e3;
        assert!(
            (start_ms - expected_ms).abs() < 2.0,
            "{series:?} at {}: {start_ms} ms, not {expected_ms}",
            entry.t
        );
        assert!(
            (end_ms - start_ms - entry.length * 1e3).abs() < 2.0,
            "{series:?} at {} s: its length",
            entry.t
        );
    }
}

/// Largest and smallest value as HdrHistogram reports them: the end of the last bucket, the beginning
/// of the first.
fn extremes(counts: &Distribution) -> (u64, u64) {
    (counts.buckets().last().unwrap().high_ns(), counts.buckets()[0].low_ns)
}

/// The `Interval_Max` of each line, per tag: Java's reader passes over it.
fn max_fields(file: &Path) -> BTreeMap<String, Vec<f64>> {
    let mut fields: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let is_untagged = line.starts_with(|first: char| first.is_ascii_digit());
        let tagged = line.strip_prefix("Tag=").and_then(|rest| rest.split_once(','));
        let Some((tag, rest)) = tagged.or(is_untagged.then_some(("", line))) else { continue };
        fields
            .entry(tag.to_owned())
            .or_default()
            .push(rest.split(',').nth(2).unwrap().parse().unwrap());
    }

    fields
}

fn recorder(path: &Path, interval_ns: u64) -> Recorder {
    let header = probe::header(
        &["onbeat", "measure", "timer"].map(str::to_owned),
        "timer",
        &[Series::ReleaseLatency],
        1_763_712_000.123,
    );
    Recorder::new(
        RunWriter::create(path, &header).unwrap(),
        Instant::from_ns(0),
        recording(interval_ns),
    )
}

fn recording(interval_ns: u64) -> Recording {
    Recording { period_ns: MS, work_ns: 0, interval_ns, spike_limit: SpikeLimit::TenTimesMedian }
}

/// Around 20 µs, with spikes of milliseconds, zeros, and a value beyond the histograms' end.
fn latency_ns(k: u64) -> u64 {
    match k {
        8_000 => 4 * LONGEST_NS,
        _ if k % 997 == 996 => 3_721_000 + k * 1_001,
        _ if k % 101 == 100 => 0,
        _ => 17_000 + k * 7_919 % 9_000,
    }
}

fn sample(first_release: Instant, index: u64, skipped: u64, wakeup_latency_ns: u64) -> Sample {
    Sample {
        index,
        release: first_release.plus_ns(index * MS),
        wakeup_latency_ns,
        execution_time_ns: 7_000 + index % 300,
        sleep_latency_ns: wakeup_latency_ns + 40_000,
        skipped,
        flags: Flags::default().with_if(Flags::OVERRUN, wakeup_latency_ns > MS),
        spun_ns: 20_000,
        ..Sample::default()
    }
}

fn outcome(first_release: Instant, slots: u64, cycles: u64) -> Outcome {
    let last_end = first_release.plus_ns(slots * MS);
    Outcome {
        end: End::Complete,
        slots,
        cycles,
        skipped: slots - cycles,
        skipped_at_end: 0,
        last_end,
    }
}

fn onbeat() -> Command {
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
