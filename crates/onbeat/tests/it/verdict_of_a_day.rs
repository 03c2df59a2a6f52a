//! A verdict over a day: what it needs is a small part of the file, and judging takes no longer than
//! in proportion.
//!
//! `cargo test` records six hours at 100 Hz; with `ONBEAT_LONG=1` it is a day at a kilohertz.

use crate::report_days;

use std::time::Duration;

use onbeat::record::{RunFile, Series, Watch};
use onbeat_host::thread::thread_cpu_ns;
use onbeat_report::verdict::judge;
use onbeat_report::{Limit, Outcome};
use report_days::{Day, MS, drawn};

/// Outages of 20 cycles every 1,000 s, of cycles that begin after the next release.
fn with_outages(hours: u64) -> RunFile {
    let period_ns = drawn(10, 1) * MS;
    let per_second = 1_000 * MS / period_ns;
    let late = move |_, cycle: u64| {
        if cycle % (1_000 * per_second) < 20 { 3 * period_ns / 2 } else { 0 }
    };
    let watch = Watch::of_limit(Series::ReleaseLatency, period_ns, 99.9);
    Day::at(period_ns).hours(hours).seeded(3).watching(vec![watch]).recorded(late)
}

/// CPU time of this thread: others on its CPU take none of it.
fn cpu_time() -> Duration {
    Duration::from_nanos(thread_cpu_ns())
}

#[test]
fn a_day_is_judged_in_proportion_and_its_outages_take_a_small_part_of_the_file() {
    let hours = drawn(6, 24);
    let (whole, part) = (with_outages(hours), with_outages(hours / 6));
    let timing = whole.header.timing.clone().unwrap();
    let on_deadline = Limit { limit_ns: timing.deadline_ns, at: 99.9, on: Series::ReleaseLatency };
    let verdict = judge(&whole, on_deadline);
    println!("{hours} h, {} intervals: {}", whole.intervals.len(), verdict.sentence);
    assert_eq!(verdict.outcome, Outcome::Pass, "{}", verdict.sentence);
    assert!(verdict.outages >= hours * 3_600 / 1_000, "{}", verdict.sentence);

    let notes = whole.intervals.iter().flat_map(|interval| &interval.late);
    let bytes: usize = notes.map(|note| serde_json::to_string(note).unwrap().len()).sum();
    let of_file: usize = whole.entries.iter().map(|entry| entry.counts.buckets().len()).sum();
    assert!(bytes > 0, "outages are recorded");
    println!("{bytes} bytes of notes on outages, {of_file} buckets in histograms");
    assert!(bytes < of_file, "less than a byte for each bucket: {bytes} of {of_file}");

    for limit in [on_deadline, Limit { limit_ns: 500_000, ..on_deadline }] {
        let takes = |run: &RunFile| {
            let begun = cpu_time();
            drop(judge(run, limit));
            cpu_time() - begun
        };
        let (mut all, mut sixth) = (Duration::MAX, Duration::MAX);
        // In turns, so that what slows this machine for a while slows both.
        for _ in 0..15 {
            (all, sixth) = (all.min(takes(&whole)), sixth.min(takes(&part)));
        }
        println!("{} ns: {all:?} for {hours} h, {sixth:?} for a sixth", limit.limit_ns);
        assert!(all < sixth * 20, "{all:?}, {sixth:?} for a sixth");
    }
}
