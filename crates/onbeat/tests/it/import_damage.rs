//! Generated text of the tools is read with its figures; cut off or damaged it is fewer samples or a
//! sentence.

use std::fmt::Write as _;
use std::path::Path;

use onbeat::import::SourceOptions;
use onbeat::record::Series;
use proptest::prelude::*;

use crate::import_world;
use import_world::{cell, figures, read, run_of, skipping, streams};

/// A wake-up, the switch to the thread and the switch away from it, per value.
fn trace_of(values: &[u64], text: &mut String) {
    for (k, value) in values.iter().enumerate() {
        let (from, to) = (k as u64 * 1_000_000, k as u64 * 1_000_000 + value);
        writeln!(text, "  <idle>-0 [003] dNh. {}.{:06}: sched_wakeup: comm=loop pid=812 prio=19 target_cpu=003", from / 1_000_000, from % 1_000_000).unwrap();
        writeln!(text, "  <idle>-0 [003] d... {}.{:06}: sched_switch: prev_comm=swapper/3 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=812 next_prio=19", to / 1_000_000, to % 1_000_000).unwrap();
        writeln!(text, "  loop-812 [003] d... {}.{:06}: sched_switch: prev_comm=loop prev_pid=812 prev_prio=19 prev_state=S ==> next_comm=swapper/3 next_pid=0 next_prio=120", to / 1_000_000, to % 1_000_000).unwrap();
    }
}

/// Samples as the text of a format.
#[derive(Clone, Copy, Debug)]
enum Text {
    Verbose,
    Status,
    Histogram,
    Ping,
    Excel,
    Hwlat,
    Gnuplot,
    Trace,
    Timerlat,
    Jittersamples,
}

const TEXTS: [Text; 10] = [
    Text::Verbose,
    Text::Status,
    Text::Histogram,
    Text::Ping,
    Text::Excel,
    Text::Hwlat,
    Text::Gnuplot,
    Text::Trace,
    Text::Timerlat,
    Text::Jittersamples,
];

impl Text {
    const fn series(self) -> Series {
        match self {
            Self::Ping => Series::RoundTrip,
            Self::Excel => Series::Recorded,
            Self::Hwlat => Series::Gap,
            _ => Series::WakeupLatency,
        }
    }

    /// `values` in whole microseconds, from 0 on.
    fn of(self, values: &[u64]) -> String {
        let mut text = String::new();
        let (n, min, max) =
            (values.len(), values.iter().min().unwrap(), values.iter().max().unwrap());
        let avg = values.iter().sum::<u64>() as f64 / n as f64;
        match self {
            Self::Verbose => {
                for (k, value) in values.iter().enumerate() {
                    writeln!(text, "{:8}:{k:8}:{value:8}", 0).unwrap();
                }
            }
            Self::Status => {
                writeln!(
                    text,
                    "T: 0 (  812) P:80 I:1000 C:{n:7} Min:{min:7} Act:{:5} Avg:{:5} Max:{max:8}",
                    values[n - 1],
                    avg.round()
                )
                .unwrap();
            }
            Self::Histogram => {
                writeln!(text, "# Histogram").unwrap();
                for latency in 0..=*max {
                    let n = values.iter().filter(|value| **value == latency).count();
                    writeln!(text, "{latency:06} {n:06}").unwrap();
                }
                writeln!(text, "# Total: {n:09}\n# Min Latencies: {min:05}\n# Avg Latencies: {:05}\n# Max Latencies: {max:05}\n# Histogram Overflows: 00000", avg.round()).unwrap();
            }
            Self::Ping => {
                for (k, value) in values.iter().enumerate() {
                    writeln!(
                        text,
                        "[{}.000000] 64 bytes from 10.0.0.1: icmp_seq={k} ttl=64 time={}.{:03} ms",
                        1_700_000_000 + k,
                        value / 1_000,
                        value % 1_000
                    )
                    .unwrap();
                }
            }
            Self::Excel => {
                text.push_str("\u{feff}time;latency_ms\r\n");
                for (k, value) in values.iter().enumerate() {
                    write!(text, "{k},5;{},{:03}\r\n", value / 1_000, value % 1_000).unwrap();
                }
            }
            Self::Hwlat => {
                text.push_str("hwlatdetect:  test duration 120 seconds\n");
                for (k, value) in values.iter().enumerate() {
                    writeln!(
                        text,
                        "ts: {}.000000000, inner:{value}, outer:0, cpu:3",
                        1_700_000_000 + k
                    )
                    .unwrap();
                }
            }
            Self::Gnuplot => {
                writeln!(text, "# 00:10:00 (periodic user-mode task, 100 us period, priority 99)\n# ----lat min|----lat avg|----lat max|-overrun|---msw|\n# {min}.000|{avg:.3}|{max}.000|0|0|").unwrap();
                // Each count is one more, for a logarithmic axis.
                writeln!(text, "{min} 1").unwrap();
                for latency in *min..=*max {
                    let n = values.iter().filter(|value| **value == latency).count();
                    writeln!(text, "{latency}.5 {}", n + 1).unwrap();
                }
                writeln!(text, "{} 1", max + 1).unwrap();
            }
            Self::Trace => trace_of(values, &mut text),
            Self::Timerlat => {
                for (k, value) in (1..).zip(values) {
                    writeln!(text, "      timerlat/5-1035    [005] .......   548.{k:06}: #{k:<5} context thread timer_latency {value:>9}000 ns").unwrap();
                }
            }
            Self::Jittersamples => {
                for (k, value) in (0..).zip(values) {
                    writeln!(text, "0;1114.{k:09};{value}").unwrap();
                }
            }
        }
        text
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn text_of_every_kind_is_read_with_count_extremes_and_mean(
        values in prop::collection::vec(1_u64..900, 2..40),
        kind in prop::sample::select(&TEXTS[..]),
    ) {
        let text = kind.of(&values);
        let all = streams(&text);
        prop_assert_eq!(all.len(), 1);
        let (n, min, max, mean) = figures(&all[0], kind.series());
        prop_assert_eq!((n, min, max), (
            values.len() as u64,
            values.iter().min().unwrap() * 1_000,
            values.iter().max().unwrap() * 1_000,
        ), "{}", text);
        let expected = values.iter().sum::<u64>() as f64 * 1_000.0 / values.len() as f64;
        prop_assert!((mean - expected).abs() <= 501.0, "{mean} and not {expected}: {text}");
        prop_assert!(all[0].remarks.iter().all(|remark| !remark.contains("passed over")));
    }

    #[test]
    fn text_that_is_cut_off_anywhere_is_fewer_samples_or_a_sentence(
        values in prop::collection::vec(1_u64..200, 2..12),
        kind in prop::sample::select(&TEXTS[..]),
        share in 0.0..1.0_f64,
    ) {
        let text = kind.of(&values);
        let cut = (text.len() as f64 * share) as usize;
        match read(&text.as_bytes()[..cut], &SourceOptions::default()) {
            Ok(all) => for stream in &all {
                let of = cell(stream);
                for figures in of.series.values() {
                    prop_assert!(figures.count <= values.len() as u64, "{}", &text[..cut]);
                    prop_assert!(figures.max_ns <= 1_000 * values.iter().max().unwrap() + 999);
                }
            },
            Err(why) => prop_assert!(why.to_string().len() > 20, "{why}"),
        }
    }

    #[test]
    fn damaged_text_is_a_sentence_or_a_run_file(
        values in prop::collection::vec(1_u64..200, 2..12),
        kind in prop::sample::select(&TEXTS[..]),
        flips in prop::collection::vec((0.0..1.0_f64, 0_u8..8), 1..8),
        skip_damaged in any::<bool>(),
    ) {
        let mut bytes = kind.of(&values).into_bytes();
        for (share, bit) in flips {
            let place = (bytes.len() as f64 * share) as usize;
            bytes[place] ^= 1 << bit;
        }
        if let Ok(all) = read(&bytes, &SourceOptions { skip_damaged, ..SourceOptions::default() }) {
            for stream in &all {
                let _ = cell(stream);
            }
        }
    }

    #[test]
    fn every_file_that_people_posted_may_be_cut_and_damaged(
        file in 0_usize..22,
        share in 0.0..1.0_f64,
        flips in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..4),
    ) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_files/posted");
        let mut files: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut bytes = std::fs::read(&files[file % files.len()]).unwrap();
        bytes.truncate((bytes.len() as f64 * share) as usize + 1);
        for (share, byte) in flips {
            let place = (bytes.len() as f64 * share) as usize;
            bytes[place] = byte;
        }
        if let Ok(all) = read(&bytes, &skipping()) {
            for stream in all.iter().filter(|stream| !stream.parts.is_empty()) {
                let _ = run_of(stream);
            }
        }
    }
}

/// Lines that are further apart than the steps of a run file can be cost the trend, and nothing else.
#[test]
fn times_that_are_centuries_apart_are_read_without_a_trend() {
    let text = "hwlatdetect:  test duration 120 seconds\n\
        ts: 1700000000.000000000, inner:7, outer:0, cpu:3\n\
        ts: 9700000000.000000000, inner:9, outer:0, cpu:3\n";
    let all = streams(text);
    assert!(all[0].steps.is_none());
    assert_eq!(figures(&all[0], Series::Gap), (2, 7_000, 9_000, 8_000.0));
}
