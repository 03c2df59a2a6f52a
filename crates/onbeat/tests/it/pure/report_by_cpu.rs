//! Several CPUs at once: the run is as good as its worst CPU, and there is no best one.

use crate::report_world::{US, bench_file, run_in_memory};
use onbeat::record::{LimitNote, RunFile, RunOrder, Series};
use onbeat_report::by_cpu::{is_by_cpu, worst_in_words};
use onbeat_report::units::Letters;
use onbeat_report::{Outcome, Summary, tables};

/// A CPU of 6,000 cycles in three blocks: one `max_us` late, all others 20 µs.
fn cpu(number: u32, max_us: u64) -> RunFile {
    let one = |i: u64| if i == 3_000 { max_us * US } else { 20 * US + i % 97 };
    let block = |from: u64| (from..from + 2_000).map(one).collect::<Vec<u64>>();
    run_in_memory(&format!("CPU {number}"), "idle", &[block(1), block(2_001), block(4_001)])
}

fn measured(files: &[RunFile], limit: Option<LimitNote>) -> Summary {
    let names: Vec<String> =
        files.iter().map(|file| file.header.cell.clone().unwrap().tuning).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = bench_file(&names, &["idle"], limit);
    bench.bench.as_mut().unwrap().order = RunOrder::AtOnce;
    Summary::of_bench(&bench, files)
}

fn limit(us: u64, at: f64) -> Option<LimitNote> {
    Some(LimitNote { limit_ns: us * US, at, on: Series::ReleaseLatency })
}

fn worst(summary: &Summary) -> &str {
    &summary.verdict.worst.as_ref().unwrap().tuning
}

#[test]
fn a_cpu_without_a_file_leaves_the_limit_open() {
    let files: Vec<RunFile> = (0..2).map(|n| cpu(n, 30)).collect();
    let mut bench = bench_file(&["CPU 0", "CPU 1", "CPU 2"], &["idle"], limit(500, 50.0));
    bench.bench.as_mut().unwrap().order = RunOrder::AtOnce;
    let summary = Summary::of_bench(&bench, &files);
    assert_eq!(summary.verdict.outcome, Some(Outcome::Inconclusive));
    assert!(
        summary.verdict.sentence.contains("Without samples: CPU 2"),
        "{}",
        summary.verdict.sentence
    );
}

#[test]
fn of_cpus_that_are_on_time_the_one_with_the_largest_value_is_the_worst() {
    let files = [cpu(0, 300), cpu(1, 900), cpu(2, 40)];
    let summary = measured(&files, None);
    assert!(is_by_cpu(&summary));
    assert_eq!(worst(&summary), "CPU 1");
    let words = worst_in_words(&summary).unwrap();
    assert!(words.starts_with("CPU 1: ") && words.ends_with("max 900 us"), "{words}");
    assert_eq!(summary.focus.as_ref().unwrap().tunings, ["CPU 1", "CPU 2"]);
    let sentence = &summary.verdict.sentence;
    assert!(
        sentence.contains("at most 900 us") && sentence.contains("least late is CPU 2"),
        "{sentence}"
    );
}

#[test]
fn the_largest_value_is_named_although_it_is_not_of_the_worst_cpu() {
    let often = |i: u64| if i.is_multiple_of(50) { 300 * US } else { 20 * US };
    let late_often: Vec<u64> = (1..=6_000).map(often).collect();
    let mut files = [run_in_memory("CPU 0", "idle", &[late_often]), cpu(1, 5_000)];
    files[0].intervals[0].deadline_misses = 120;
    let summary = measured(&files, None);
    assert_eq!(worst(&summary), "CPU 0");
    let words = worst_in_words(&summary).unwrap();
    assert!(words.ends_with("max 300 us; the latest was on CPU 1: 5 ms"), "{words}");
    let sentence = &summary.verdict.sentence;
    assert!(sentence.contains("at most 300 us") && !sentence.contains("least late"), "{sentence}");
    assert!(sentence.ends_with("the latest was on CPU 1: 5 ms"), "{sentence}");
}

#[test]
fn the_table_has_a_row_for_each_cpu_and_calls_none_of_them_a_tuning() {
    let files: Vec<RunFile> = (0..3).map(|n| cpu(n, 30)).collect();
    let summary = measured(&files, None);
    let text = tables::by_tuning(&summary, "idle", Letters::Ascii).to_text(80);
    for name in ["CPU 0", "CPU 1", "CPU 2", "min", "avg", "p99.9", "max", "misses"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(!text.contains("tuning"), "{text}");
}
