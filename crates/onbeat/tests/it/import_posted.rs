//! What people post of their tools, detected without its name and read with the figures that the
//! tool itself states.

use std::process::Command;

use onbeat::import::{SourceOptions, Stream};
use onbeat::record::{Cell, LimitNote, Series};

use crate::import_world;
use import_world::{bytes_of, cell, figures, read, refused, skipping, streams};

/// The same of several streams.
fn all_figures(streams: &[Stream], series: Series) -> Vec<(u64, u64, u64, f64)> {
    streams.iter().map(|stream| figures(stream, series)).collect()
}

fn says(stream: &Stream, what: &str) -> bool {
    stream.remarks.iter().any(|remark| remark.contains(what))
}

#[test]
fn a_summary_of_cyclictest_is_its_figures_and_no_percentiles() {
    let streams = streams(bytes_of("ct-q.txt"));
    assert_eq!(
        all_figures(&streams, Series::WakeupLatency),
        [(1980, 16_000, 5_305_000, 49_000.0), (1313, 14_000, 10_043_000, 64_000.0)]
    );
    assert_eq!(
        streams.iter().map(|of| of.period_ns).collect::<Vec<_>>(),
        [Some(1_000_000), Some(1_500_000)]
    );
    let cell = cell(&streams[0]);
    let of = &cell.series[&Series::WakeupLatency];
    assert!(of.percentiles.is_empty());
    assert!(cell.notes.iter().any(|note| note.contains("percentiles and SD are not known")));
    assert!(!cell.notes.iter().any(|note| note.contains("histogram")), "{:?}", cell.notes);
    assert_eq!(streams[0].host.fact("scheduling"), Some("SCHED_FIFO 80"));
    assert!(!says(&streams[0], "without real-time priority"));
    assert!(!says(&streams[0], "without a cycle"));
    let text = String::from_utf8(bytes_of("ct-q.txt")).unwrap();
    let damaged = text.replacen("C:   1980", "C: 9007199254740993", 1);
    assert!(refused(damaged).contains("a figure is out of range"));
    let idle = "T: 2 (23591) P:80 I:2000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n";
    let of = import_world::streams([bytes_of("ct-q.txt"), idle.into()].concat());
    assert!(of.len() == 2 && says(&of[0], "threads without a cycle: 2"), "{:?}", of[0].remarks);
}

#[test]
fn figures_without_a_distribution_are_exported_as_gauges() {
    let runs: Vec<_> = streams(bytes_of("ct-q.txt")).iter().map(import_world::run_of).collect();
    let mut text = Vec::new();
    onbeat_report::export::openmetrics::write(&runs, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains("_bucket") && !text.contains(" histogram"), "{text}");
    for (name, value) in
        [("samples", "1980"), ("min_seconds", "0.000016"), ("max_seconds", "0.005305")]
    {
        let line = format!("onbeat_wakeup_latency_{name}{{load=\"unknown\",tuning=\"a run\"");
        let found = text.lines().find(|of| of.starts_with(&line)).expect(&text);
        assert!(found.ends_with(value), "{found}");
    }
}

#[test]
fn nanoseconds_of_cyclictest_are_known_by_the_padding_of_its_averages() {
    let text = "# /dev/cpu_dma_latency set to 0us\nT: 0 (23589) P:80 I:1000 C: 100000 Min:   1820 Act:    2101 Avg:    2203 Max:   35120\n";
    let streams = streams(text);
    assert_eq!(figures(&streams[0], Series::WakeupLatency), (100_000, 1_820, 35_120, 2_203.0));
    assert!(!streams[0].missing.iter().any(|what| what.contains("the unit")));
}

#[test]
fn a_ctrl_c_before_the_summary_costs_no_thread() {
    let text = String::from_utf8(bytes_of("ct-q.txt")).unwrap();
    let interrupted = text.replacen("T: 0", "^CT: 0", 1);
    assert_eq!(streams(&interrupted), streams(bytes_of("ct-q.txt")));
    let one = interrupted.lines().take(2).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(figures(&streams(one)[0], Series::WakeupLatency).0, 1980);
}

#[test]
fn a_terminals_output_of_cyclictest_counts_its_last_line() {
    let streams = streams(bytes_of("ct-out.txt"));
    assert_eq!(all_figures(&streams, Series::WakeupLatency), [(1974, 17_000, 5_112_000, 43_000.0)]);
    assert_eq!(streams[0].remarks, Vec::<String>::new(), "all lines are cyclictest's");
}

#[test]
fn the_thread_ids_of_a_break_trace_are_not_a_column_of_the_histogram() {
    let text = "# Histogram\n000000 000001\t000002\t000003\n000001 000004\t000000\t000004\n# Min Latencies: 00000 00000\n# Avg Latencies: 00001 00200\n# Max Latencies: 00001 00523 00523\n# Histogram Overflows: 00000 00001 00001\n# Histogram Overflow at cycle number:\n# Thread 0:\n# Thread 1: 00002\n\n# Thread Ids: 01234 01235\n# Break thread: 1235\n# Break value: 523\n";
    let of = streams(text);
    assert_eq!(
        all_figures(&of, Series::WakeupLatency),
        [(5, 0, 1_000, 1_000.0), (3, 0, 523_000, 200_000.0)]
    );
    assert!(says(&of[0], "beyond the limit: 523000 ns"), "{:?}", of[0].remarks);

    // The rows alone, as scripts that draw them keep them.
    let rows = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    assert_eq!(streams(rows.replace(' ', "\t") + "\n").len(), 2);
}

#[test]
fn the_spread_of_a_histogram_is_not_wider_than_its_mean_and_extremes_allow() {
    let text = "# Histogram\n000040 000002\n# Total: 000000002\n# Min Latencies: 00040\n# Avg Latencies: 00060\n# Max Latencies: 01000\n# Histogram Overflows: 00998\n";
    let of = &cell(&streams(text)[0]).series[&Series::WakeupLatency];
    assert_eq!(of.count, 1_000);
    // 998 of them beyond 41 us with a mean of 60 us: few can be near the maximum.
    assert!((140_500.0..140_700.0).contains(&of.sd_ns), "{}", of.sd_ns);
    // A mean of 41.9 us is printed as 41.
    let of = &cell(&streams(text.replace("00060", "00041"))[0]).series[&Series::WakeupLatency];
    assert!((43_800.0..43_900.0).contains(&of.sd_ns), "{}", of.sd_ns);
    // Equal samples have none, wherever in their microsecond they and the mean are.
    let text = "# Histogram\n000001 001000\n# Total: 000001000\n# Min Latencies: 00001\n# Avg Latencies: 00001\n# Max Latencies: 00001\n# Histogram Overflows: 00000\n";
    let of = &cell(&streams(text)[0]).series[&Series::WakeupLatency];
    assert!(of.sd_ns < 1e-6, "{}", of.sd_ns);
}

#[test]
fn a_prompt_around_cyclictest_is_counted_and_its_command_is_kept() {
    let text = "Last login: Fri\r\nuser@board:~$ sudo cyclictest -m -Sp0 -i 200 -D 2 -q\r\n# /dev/cpu_dma_latency set to 0us\r\nT: 0 (  812) P: 0 I:200 C:   9980 Min:      4 Act:    6 Avg:    9 Max:      53\r\nuser@board:~$ ";
    let streams = streams(text);
    assert_eq!(figures(&streams[0], Series::WakeupLatency), (9980, 4_000, 53_000, 9_000.0));
    assert_eq!(streams[0].command[..3], ["cyclictest", "-m", "-Sp0"]);
    assert!(says(&streams[0], "without real-time priority"), "{:?}", streams[0].remarks);
    assert!(says(&streams[0], "2 lines are not cyclictest's"), "{:?}", streams[0].remarks);
    assert!(says(&streams[0], "line 1: `Last login: Fri`"), "{:?}", streams[0].remarks);
}

#[test]
fn what_a_log_puts_in_front_of_lines_is_passed_over() {
    let histogram = "# Histogram\n000003 009990\n000004 000010\n# Total: 000010000\n# Min Latencies: 00003\n# Avg Latencies: 00003\n# Max Latencies: 00004\n# Histogram Overflows: 00000\n";
    let posted = |name: &str| String::from_utf8(bytes_of(name)).unwrap();
    let within = |before: &str, text: &str| {
        text.lines().map(|line| format!("{before}{line}\n")).collect::<String>()
    };
    for text in [posted("ct-q.txt"), histogram.to_owned(), posted("os.txt")] {
        let plain = streams(&text);
        for before in [
            "Nov 14 10:00:00 board cyclictest[123]: ",
            "2023-11-14T10:00:00+0100 board sh[7]: ",
            "2023-11-14T10:00:00.1234567Z ",
            "2023-11-14T10:00:00.123456Z 01O ",
            "[2023-11-14T10:00:00.123Z] ",
            "cyclictest-1  | ",
            "> ",
        ] {
            let of = streams(within(before, &text));
            assert_eq!(of.len(), plain.len(), "{before}");
            assert!(of.iter().zip(&plain).all(|(of, plain)| of.parts == plain.parts), "{before}");
            assert!(says(&of[0], "in front of each line: passed over"), "{:?}", of[0].remarks);
        }
    }

    let marked = "\u{feff}".to_owned() + &within("2023-11-14T10:00:00.1Z ", histogram);
    assert_eq!(figures(&streams(marked)[0], Series::WakeupLatency).0, 10_000);
    let console = within("[   12.345678] ", &posted("ct-q.txt"));
    assert_eq!(figures(&streams(console)[0], Series::WakeupLatency).0, 1980);
    let answered = within("> ", &posted("ct-q.txt"))
        + "T: 0 ( 5) P:80 I:1000 C: 9 Min: 1 Act: 2 Avg: 2 Max: 4\n";
    assert_eq!(figures(&streams(answered)[0], Series::WakeupLatency).0, 9, "not the quoted lines");
}

#[test]
fn verbose_cyclictest_has_every_sample() {
    let streams = streams(bytes_of("ct-v.txt"));
    assert_eq!(figures(&streams[0], Series::WakeupLatency), (300, 17_000, 74_000, 28_373.33));
    assert_eq!(streams[0].period_ns, Some(1_000_000));
    let of = &cell(&streams[0]).series[&Series::WakeupLatency];
    assert_eq!(of.percentiles[0].value_ns, 26_999, "the 150th of 300 is 26 us");
    assert!(streams[0].steps.is_some());
}

#[test]
fn verbose_cyclictest_may_count_smis_and_print_the_largest_of_several_cycles() {
    let text = "Using 1 cpus.\nThread 0 using cpu 3.\nThread 0 Interval: 1500\n       0:       0:      17       0\n       0:       1:      74       2\n";
    let of = streams(text);
    assert_eq!(figures(&of[0], Series::WakeupLatency), (2, 17_000, 74_000, 45_500.0));
    assert_eq!(of[0].remarks, Vec::<String>::new());

    let text = "T: 0 (  812) P:80 I:1000 C:   9980 Min:      4 Act:    6 Avg:    9 Max:      53 SMI:       3\n";
    assert!(says(&streams(text)[0], "cyclictest states 3 SMIs"));
    let text = "000000 000000\n000001 000010\n# SMIs: 00002\n";
    assert!(says(&streams(text)[0], "cyclictest states 2 SMIs"));

    let text = "       0:       7:      17\n       0:      12:      74\n";
    let asked = SourceOptions { period_ns: Some(1_000_000), ..SourceOptions::default() };
    let timed = &read(text.as_bytes(), &asked).unwrap()[0];
    let missing = timed.missing.join(";");
    assert!(missing.contains("cycle numbers times the interval are used"), "{missing}");
    assert!(!missing.contains("--period gives their distance"), "{missing}");
    let of = streams(text);
    assert!(says(&of[0], "4 cycles between the first and the last one are not in the text: "));
    assert!(says(&of[0], "prints the largest of several"), "{:?}", of[0].remarks);

    // -o 2: of each two cycles the larger one.
    let text: String = (0..100).map(|n| format!("       0:{:8}:      17\n", 2 * n)).collect();
    let of = streams(text);
    assert!(says(&of[0], "prints the largest of several"), "{:?}", of[0].remarks);
    assert_eq!(of[0].lost, 0);
}

#[test]
fn json_without_a_histogram_is_figures_and_a_missing_priority_is_said() {
    let of = streams(bytes_of("ct-nohist.json"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1990, 17_000, 4_827_000, 47_450.0));
    assert!(of[0].figures_only.contains(&Series::WakeupLatency) && of[0].remarks.is_empty());
    // A percentile of what has no distribution would be an invention, and so would the lowest 99 %.
    let cell_of = cell(&of[0]);
    let stated = &cell_of.series[&Series::WakeupLatency];
    assert!(stated.percentiles.is_empty());
    assert_eq!(stated.low.iter().map(|low| low.q).collect::<Vec<_>>(), [100.0]);

    let of = streams(bytes_of("ct-noprio.json"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1907, 56_000, 11_963_000, 149_990.0));
    assert!(says(&of[0], "ran without real-time priority (SCHED_OTHER)"));
    assert!(cell(&of[0]).notes.iter().any(|note| note.contains("without real-time priority")));

    let starved = "{\"cmdline\": \"cyclictest -p 80 -h 9 --json=a\", \"thread\": {\"0\": {\"histogram\": {\"4\": 9}, \"cycles\": 9, \"min\": 4, \"max\": 4, \"avg\": 4.00, \"cpu\": 0}, \"1\": {\"histogram\": {}, \"cycles\": 0, \"min\": 1000000, \"max\": 0, \"avg\": -nan, \"cpu\": 1}}}";
    let of = streams(starved);
    assert_eq!(all_figures(&of, Series::WakeupLatency), [(9, 4_000, 4_000, 4_000.0)]);
    assert!(says(&of[0], "thread 1 had no cycle"), "{:?}", of[0].remarks);
    let early = streams(starved.replacen("\"min\": 4", "\"min\": -2", 1));
    assert_eq!(early[0].early[&Series::WakeupLatency].earliest_ns, 2_000);
}

#[test]
fn xenomai_and_rtai_may_wake_early_and_the_report_says_so() {
    let of = streams(bytes_of("xeno-g.txt"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (10_012, 0, 5_101, 340.0));
    let early = of[0].early[&Series::WakeupLatency];
    assert_eq!((early.count, early.earliest_ns), (Some(12), 513));
    assert!(
        cell(&of[0]).notes.iter().any(|note| note.contains("12 samples are negative")),
        "{:?}",
        cell(&of[0]).notes
    );

    let of = streams(bytes_of("xeno-H.txt"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (10_000, 0, 5_101, 340.0));
    let early = of[0].early[&Series::WakeupLatency];
    assert_eq!((early.count, early.earliest_ns), (None, 513), "counted by absolute value");
    assert_eq!(of[0].period_ns, Some(100_000));
    assert_eq!(of[0].host.fact("scheduling"), Some("SCHED_FIFO 99"));

    let latmus = "# Linux version 5.5.0\n# libevl version: evl.0\n# sampling period: 1000 microseconds\n# context: user\n# thread priority: 90\n# min latency: 0.205\n# avg latency: 1.097\n# max latency: 3.510\n0 95\n1 2\n3 1+\n";
    let of = streams(latmus);
    assert_eq!(figures(&of[0], Series::WakeupLatency), (98, 205, 3_510, 1_097.0));
    assert_eq!(of[0].period_ns, Some(1_000_000));
    assert_eq!(of[0].host.fact("scheduling"), Some("SCHED_FIFO 90"));

    let outliers = latmus.replacen("3 1+\n", "199+ 1\n", 1).replacen("3.510", "263.510", 1);
    let of = streams(outliers.replacen("context: user", "context: irq", 1));
    assert_eq!(figures(&of[0], Series::InterruptLatency), (98, 205, 263_510, 1_097.0));
    let beyond = of[0].resolution[&Series::InterruptLatency].beyond.unwrap();
    assert_eq!((beyond.from_ns, beyond.count), (199_000, 1));
    let irq = "RTT|  00:00:01  (irq, 1000 us period, CPU1)\nRTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst\nRTD|      0.584|      1.205|      6.208|       0|     3|      0.584|      6.208\n";
    let of = streams(irq);
    assert_eq!(figures(&of[0], Series::InterruptLatency).2, 6_208);
    assert_eq!(of[0].period_ns, Some(1_000_000));
    assert!(says(&of[0], "3 switches of the task out of real-time mode"), "{:?}", of[0].remarks);
    let overrun = streams(irq.replacen("|       0|     3|", "|       5|     3|", 1));
    assert_eq!((of[0].lost, overrun[0].lost), (0, 5));
    let damaged = format!("{irq}RTD|      0.584|    --\n");
    assert_eq!(read(damaged.as_bytes(), &skipping()).unwrap()[0].lost, 1, "no closing line");

    let of = streams(bytes_of("rtai.txt"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1, 0, 3_712, 354.0));
    assert_eq!(of[0].early[&Series::WakeupLatency].earliest_ns, 37);
    assert!(of[0].missing.iter().any(|what| what.contains("the number of samples")));
    let run = import_world::run_of(&of[0]);
    let sentence = onbeat_report::imported::summary(&[run], None).unwrap().verdict.sentence;
    assert!(sentence.ends_with("at most 3.71 us in an unknown number of samples"), "{sentence}");
}

#[test]
fn a_file_of_xenomai_for_gnuplot_counts_one_more_in_each_row() {
    let head = "# 00:10:00 (periodic user-mode task, 100 us period, priority 99)\n# ----lat min|----lat avg|----lat max|-overrun|---msw|\n#      0.102|      0.340|      2.101|       0|     0|\n";
    for (rows, step_ns) in [
        ("0 1\n0.5 9954\n1.5 1\n2.5 8\n3 1\n", 1_000),
        ("0 1\n0.25 9954\n0.75 1\n1.25 1\n1.75 1\n2.25 8\n2.5 1\n", 500),
    ] {
        let of = streams(format!("{head}{rows}"));
        assert_eq!(figures(&of[0], Series::WakeupLatency), (9_960, 102, 2_101, 340.0), "{rows}");
        assert_eq!(of[0].resolution[&Series::WakeupLatency].step_ns, step_ns);
    }
}

#[test]
fn negative_values_of_a_csv_are_counted() {
    let of = streams(bytes_of("neg.csv"));
    assert_eq!(figures(&of[0], Series::Recorded), (3, 0, 3_099, 1152.67));
    let early = of[0].early[&Series::Recorded];
    assert_eq!((early.count, early.earliest_ns), (Some(1), 12));
    let notes = cell(&of[0]).notes;
    let what = "-12 ns; counted as 0; import absolute values where both sides count";
    assert!(notes.iter().any(|note| note.contains(what)), "{notes:?}");

    let judge = |name: &str, limit_ns: u64| {
        let of = streams(format!("{name}\n-500\n3\n4\n"));
        let limit = LimitNote { limit_ns, at: 100.0, on: of[0].parts[0].series };
        onbeat_report::verdict::judge(&import_world::run_of(&of[0]), limit)
    };
    let verdict = judge("jitter_us", 50_000);
    assert_eq!(verdict.outcome, onbeat_report::Outcome::Inconclusive, "{}", verdict.sentence);
    let what = "; 1 negative sample may be farther below 0 than the limit: import absolute values";
    assert!(verdict.sentence.ends_with(what), "{}", verdict.sentence);
    for (name, limit_ns) in [("jitter_us", 500_000), ("wakeup_latency_us", 50_000)] {
        assert_eq!(judge(name, limit_ns).outcome, onbeat_report::Outcome::Pass, "{name}");
    }
}

#[test]
fn jitterdebugger_and_the_other_rt_tests_are_read_from_json() {
    let of = streams(bytes_of("jd.json"));
    assert_eq!(
        all_figures(&of, Series::WakeupLatency),
        [(9996, 3_000, 61_000, 3_770.0), (9996, 3_000, 5_000, 3_800.0)]
    );
    assert!(!of[0].missing.iter().any(|what| what.contains("missed periods")));
    let older = String::from_utf8(bytes_of("jd.json")).unwrap();
    let older = older.replacen("\"file_version\": 1,", "\"version\": 1,", 1);
    let missing = &streams(older)[1].missing;
    assert!(missing.iter().any(|what| what.contains("missed periods")), "{missing:?}");
    let of = streams(bytes_of("pts.json"));
    assert_eq!(figures(&of[0], Series::Recorded), (1734, 0, 2_154_000, 2_670.0));
    assert!(says(&of[0], "without real-time priority") && says(&of[0], "ptsematest measures"));
    assert_eq!(of[0].period_ns, Some(1_000_000));
    let of = streams(bytes_of("sig.json"));
    assert_eq!(
        all_figures(&of, Series::Recorded),
        [(2849, 20_000, 5_355_000, 58_330.0), (2849, 30_000, 15_125_000, 688_590.0)]
    );
    assert_eq!(of[0].host.fact("scheduling"), Some("SCHED_FIFO 80"));
}

#[test]
fn jitterdebugger_is_read_from_a_terminal_and_with_every_sample() {
    // With -N its histogram ends at 1 ms as well.
    let of = "{\"version\": 3, \"sysinfo\": {\"resolution_in_ns\": 1}, \"cpu\": {\"0\": {\"histogram\": {\"18515\": 3}, \"count\": 4, \"min\": 18515, \"max\": 33514746, \"avg\": 8392572.75}}}";
    let posted = format!(
        "root@board:~# jitterdebugger -v -N\naffinity: 0 = 1 [0x1]\nT: 0 (  614) A: 0 C:         4 Min:     18515 Avg:8392572.75 Max:  33514746 \n^C\n{of}\nroot@board:~# "
    );
    for text in [of, posted.as_str()] {
        let of = streams(text);
        assert_eq!(figures(&of[0], Series::WakeupLatency), (4, 18_515, 33_514_746, 8_392_572.75));
        let beyond = of[0].resolution[&Series::WakeupLatency].beyond.unwrap();
        assert_eq!((beyond.from_ns, beyond.count), (1_000_000, 1));
    }

    let status = "T: 0 (  614) A: 0 C:         4 Min:     18515 Avg:8392572.75 Max:  33514746 \n";
    let asked = SourceOptions { unit_ns: Some(1.0), ..SourceOptions::default() };
    let of = read(status.as_bytes(), &asked).unwrap();
    assert_eq!(figures(&of[0], Series::WakeupLatency).2, 33_514_746);
    assert!(streams(status)[0].missing.iter().any(|what| what.contains("--unit ns")));
    let idle = "{\"version\": 3, \"cpu\": {\"0\": {\"histogram\": {}, \"count\": 0, \"min\": 4294967295, \"max\": 0, \"avg\": -nan}}}";
    assert!(refused(idle).contains("stopped before its first one"), "{}", refused(idle));

    let samples = "0;1114.936950838;9\n1;1114.936960111;30\n0;1114.937950838;3\n1;1114.9379";
    let of = streams(samples);
    assert_eq!(
        all_figures(&of, Series::WakeupLatency),
        [(2, 3_000, 9_000, 6_000.0), (1, 30_000, 30_000, 30_000.0)]
    );
    assert_eq!((of[1].label.as_str(), of[1].started_unix_s), ("thread 1", 0.0));
    assert!(says(&of[0], "its last line, 4, is not imported"), "{:?}", of[0].remarks);
    let damaged = samples.replacen("1;1114.936960111;30", "1;1114.936960111", 1);
    assert!(refused(damaged).contains("line 2: `1;1114.936960111` is not a thread"));
}

#[test]
fn gaps_of_the_hardware_and_of_a_busy_loop_are_read_from_text() {
    let of = streams(bytes_of("hwlat.txt"));
    assert_eq!(figures(&of[0], Series::Gap), (2, 14_000, 18_000, 16_000.0));
    assert!(of[0].missing.iter().any(|what| what.contains("below the threshold of 10us")));
    let text = String::from_utf8(bytes_of("hwlat.txt")).unwrap();
    let newer = text
        .replacen("parameters:\n", "parameters:\n        CPU list:          0-3\n", 1)
        .replacen("ts: ", "3 SMIs occured on cpu 1\nSMIs during run: 3\nts: ", 1);
    let of = streams(&newer);
    assert!(says(&of[0], "hwlatdetect states 3 SMIs") && !says(&of[0], "passed over"));
    let report = newer.lines().filter(|line| line.starts_with("ts: ")).collect::<Vec<_>>();
    assert_eq!(figures(&streams(report.join("\n") + "\n")[0], Series::Gap).0, 2);
    let damaged = text.replacen("outer:15", "out", 1);
    assert_eq!(read(damaged.as_bytes(), &skipping()).unwrap()[0].lost, 1);
    let lacks = text.replacen("recorded: 2", "recorded: 5", 1);
    assert_eq!(streams(lacks)[0].lost, 3, "of five two are in the text");
    let of = streams(bytes_of("hwlattrace.txt"));
    assert_eq!(figures(&of[0], Series::Gap), (2, 12_000, 16_000, 14_000.0));
    assert!(of[0].missing.iter().any(|what| what.contains("5 of 7 gaps")), "{:?}", of[0].missing);
    let of = streams(bytes_of("os.txt"));
    assert_eq!(figures(&of[0], Series::Gap), (24_075_702, 0, 125_593_000, 564.0));
    assert!(says(&of[0], "without real-time priority"));
    let text = String::from_utf8(bytes_of("os.txt")).unwrap();
    let omitted = text.replacen("    005 (us):", "    ...\n    005 (us):", 1);
    assert!(!says(&streams(omitted)[0], "passed over"), "oslat -z omits empty buckets");
    let none = "hwlatdetect:  test duration 2 seconds\n        Latency threshold: 10us\nMax Latency: Below threshold\nSamples recorded: 0\n";
    assert!(refused(none).contains("no gap exceeded the threshold of 10us"));
    let elsewhere = none.replacen("recorded: 0", "recorded: 3", 1);
    assert!(refused(elsewhere).contains("states 3 samples, none is in the text"));
}

#[test]
fn a_percentage_of_recorded_gaps_is_not_one_of_all() {
    let runs: Vec<_> = streams(bytes_of("hwlat.txt")).iter().map(import_world::run_of).collect();
    let limit = LimitNote { limit_ns: 20_000, at: 99.0, on: Series::Gap };
    let summary = onbeat_report::imported::summary(&runs, Some(limit)).unwrap();
    let cells: Vec<_> = summary.cells.iter().collect();
    let check = &onbeat_report::gate::limit_checks("run", &cells, limit)[0];
    assert!(check.basis.contains("of gaps beyond the detector's threshold"), "{check:?}");
}

#[test]
fn of_many_streams_the_worst_and_the_best_are_shown_first() {
    let text = "# Histogram\n000003 000009\t000008\t000009\n000007 000000\t000002\t000000\n000090 000001\t000000\t000001\n\
                # Total: 000000010 000000010 000000010\n# Min Latencies: 00003 00003 00003\n# Avg Latencies: 00011 00003 00011\n\
                # Max Latencies: 00090 00007 00090\n# Histogram Overflows: 00000 00000 00000\n";
    let named = |(number, stream): (usize, &Stream)| {
        let mut run = import_world::run_of(stream);
        run.header.cell = Some(Cell::new(format!("thread {number}"), "unknown"));
        run
    };
    let runs: Vec<_> = streams(text).iter().enumerate().map(named).collect();
    let summary = onbeat_report::imported::summary(&runs, None).unwrap();
    let (sentence, focus) = (summary.verdict.sentence, summary.focus.unwrap());
    assert!(sentence.starts_with("thread 2: "), "{sentence}");
    assert_eq!(focus.tunings, ["thread 2", "thread 1"]);
    let both = onbeat_report::imported::summary(&runs[..2], None).unwrap();
    assert_eq!(both.focus, None, "of two, both are shown");
}

#[test]
fn rtla_top_is_two_series_per_cpu() {
    let of = streams(bytes_of("timerlat-top.txt"));
    assert_eq!(
        all_figures(&of, Series::InterruptLatency),
        [(10_003, 0, 59_000, 1_000.0), (10_003, 0, 61_000, 1_000.0)]
    );
    assert_eq!(
        all_figures(&of, Series::WakeupLatency),
        [(10_003, 3_000, 68_000, 8_000.0), (10_003, 3_000, 70_000, 9_000.0)]
    );
    let top = String::from_utf8(bytes_of("timerlat-top.txt")).unwrap();
    let idle = "  2 #0         |        -         -         -         - |        -         -         -         -\n";
    let of = streams(top + idle);
    assert!(of.len() == 2 && says(&of[1], "without a sample: CPU 2"), "{:?}", of[1].remarks);
    let osnoise = "                          Operating System Noise\nduration:   0 00:00:10 | time is in us\nCPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single\n  0 #10       10000000         1200    99.98800        300          200\n";
    let hardware = osnoise.replacen("Operating System Noise", "Hardware-related Noise", 1);
    for text in [osnoise, hardware.as_str()] {
        assert!(refused(text).contains("rtla osnoise hist has all of them"), "{}", refused(text));
    }
}

#[test]
fn a_single_row_of_rtla_is_not_as_wide_as_a_maximum_beyond_it() {
    let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:10\nIndex   IRQ-000\n0          9990\nover:        10\ncount:    10000\nmin:          0\navg:          0\nmax:        417\n";
    let of = streams(text);
    let resolution = &of[0].resolution[&Series::InterruptLatency];
    assert_eq!((resolution.step_ns, resolution.beyond.unwrap().from_ns), (1_000, 1_000));
}

#[test]
fn a_histogram_without_its_summary_may_have_more_beyond_it() {
    let rtla = "# RTLA timerlat histogram\nIndex   Thr-000\n3          9990\n4            10\nover:         0\ncount:    10000\nmin:          3\navg:          3\nmax:          4\n";
    let cyclictest = "# Histogram\n000003 009990\n000004 000010\n# Total: 000010000\n# Min Latencies: 00003\n# Avg Latencies: 00003\n# Max Latencies: 00004\n# Histogram Overflows: 00000\n";
    let oslat = String::from_utf8(bytes_of("os.txt")).unwrap();
    for (whole, summary) in
        [(rtla, "over:"), (cyclictest, "# Total"), (oslat.as_str(), "     Minimum:")]
    {
        let cut = &whole[..whole.find(summary).unwrap()];
        let [whole, cut] = [whole, cut].map(|text| streams(text)[0].clone());
        assert_eq!((whole.lost, cut.lost), (0, 1), "{summary}");
        assert!(cut.missing.iter().any(|what| what.contains("summary lines are missing")));
    }

    let some_over = rtla.replacen("over:         0\ncount:    10000", "over:         3", 1);
    let cut = &some_over[..some_over.find("min:").unwrap()];
    assert!(refused(cut).contains("`max:` is missing"), "{}", refused(cut));
    let of = streams(cyclictest.replace("00004\n# Histogram Overflows: 00000\n", "00480\n"));
    let beyond = of[0].resolution[&Series::WakeupLatency].beyond.unwrap();
    assert_eq!((beyond.count, beyond.to_ns), (1, 480_999), "the maximum is beyond");
}

#[test]
fn what_rtla_says_of_a_whole_run_is_said_and_is_not_a_row() {
    let missed = "123 (0.45%) events missed, results might not be accurate\n";
    let stopped = "rtla timerlat hit stop tracing\n## CPU 1 hit stop tracing, analyzing it ##\n  IRQ latency:      28.13 us\n";
    let osnoise = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:01:00\nIndex   CPU-000\n0           420\n1            12\nover:         0\ncount:      432\nmin:          0\navg:       0.40\nmax:          1\n";
    let top = String::from_utf8(bytes_of("timerlat-top.txt")).unwrap();
    for text in [osnoise, top.as_str()] {
        let of = streams(text.to_owned() + missed);
        assert!(says(&of[0], "rtla: 123 (0.45%) events missed;"), "{:?}", of[0].remarks);
        assert_eq!(of[0].lost, 123);
        let unknown = "unknown number of events missed, results might not be accurate\n";
        assert_eq!(streams(text.to_owned() + unknown)[0].lost, 1, "at least");
        assert!(!says(&of[0], "passed over"), "{:?}", of[0].remarks);
        assert_eq!(of[0].parts, streams(text)[0].parts);

        let of = streams(text.to_owned() + stopped);
        assert!(says(&of[0], "ended the run at its first value beyond"), "{:?}", of[0].remarks);
        assert!(!says(&of[0], "passed over"), "{:?}", of[0].remarks);
        assert_eq!(of[0].parts, streams(text)[0].parts);
    }
}

#[test]
fn the_trace_of_timerlat_is_its_latencies_per_cpu() {
    let text = "# tracer: timerlat\n#\n# entries-in-buffer/entries-written: 9/14   #P:2\n#         TASK-PID      CPU# ||||   TIMESTAMP    ID            CONTEXT                LATENCY\n          <idle>-0       [000] d.h1    54.029328: #1     context    irq timer_latency       932 ns\n           <...>-867     [000] ....    54.029339: #1     context thread timer_latency     11700 ns\n          <idle>-0       [001] dNh1    54.029346: #1     context    irq timer_latency      2833 ns\n           <...>-868     [001] ....    54.029353: #1     context thread timer_latency      9820 ns\n          <idle>-0       [000] d.h1    54.032328: #4     context    irq timer_latency       768 ns\n           <...>-867     [000] ....    54.032330: #4     context thread timer_latency      3070 ns\n      timerlat/0-867     [000] ....1..  54.032331: <stack trace>\n  => timerlat_irq\n             cc1-87882   [001] dNLh1..  54.032400: irq_noise: local_timer:236 start 54.031077442 duration 7597 ns\n";
    let of = streams(text);
    assert_eq!(
        all_figures(&of, Series::InterruptLatency),
        [(2, 768, 932, 850.0), (1, 2_833, 2_833, 2_833.0)]
    );
    assert_eq!(
        all_figures(&of, Series::WakeupLatency),
        [(2, 3_070, 11_700, 7_385.0), (1, 9_820, 9_820, 9_820.0)]
    );
    assert_eq!((of[1].label.as_str(), of[0].started_unix_s), ("CPU 1", 0.0));
    assert!(says(
        &of[0],
        "wake-up latency: activations that are not in the text, between #1 and #4: 2"
    ));
    assert_eq!(of[0].lost, 2);
    assert!(says(&of[0], "the ring buffer kept 9 of 14 events"), "{:?}", of[0].remarks);
    assert!(!says(&of[0], "passed over"), "{:?}", of[0].remarks);

    let again = format!("{text}{}", text.replace("   54.", "   94."));
    assert!(refused(&again).contains("figures of a second run"), "{}", refused(&again));

    let event = " rtla-912 [003]   548.771104: timerlat_sample: seq:7\tcontext:1\ttimer_latency:39960\n rtla-912 [003]   548.771110: osnoise:timerlat_sample: seq:7\tcontext:2\ttimer_latency:41000\n <idle>-0 [003] d... 548.8: sched_switch: prev_comm=swapper/3 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=812 next_prio=19\n";
    let of = streams(event);
    assert_eq!(figures(&of[0], Series::WakeupLatency).2, 39_960);
    assert_eq!(figures(&of[0], Series::ReturnLatency).2, 41_000);
    let cut = text.split_inclusive('\n').take(6).collect::<String>();
    let of = streams(&cut[..cut.len() - 4]);
    assert!(says(&of[0], "its last line, 6, is not imported"), "{:?}", of[0].remarks);
}

#[test]
fn a_trace_as_text_is_from_wake_up_to_switch() {
    let of = streams(bytes_of("ftrace.txt"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1, 49_000, 49_000, 49_000.0));
    assert_eq!(of[0].host.fact("scheduling"), Some("real-time priority 80"));
    assert!(says(&of[0], "loop (812): from sched_wakeup to sched_switch"));

    let waking = " <idle>-0 [003] d... 5.000100: sched_waking: comm=loop pid=812 prio=19 target_cpu=003\n <idle>-0 [003] d... 5.000110: sched_switch: prev_comm=swapper/3 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=812 next_prio=19\n";
    assert!(says(&streams(waking)[0], "loop (812): from sched_waking to sched_switch"));

    // A thread that is woken while it runs does not wait.
    let running = "  loop-812 [003] d... 5.000100: sched_wakeup: comm=loop pid=812 prio=19 target_cpu=003\n  loop-812 [003] d... 5.000200: sched_switch: prev_comm=loop prev_pid=812 prev_prio=19 prev_state=S ==> next_comm=swapper/3 next_pid=0 next_prio=120\n  <idle>-0 [003] d... 6.000000: sched_switch: prev_comm=swapper/3 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=812 next_prio=19\n";
    assert!(refused(running).contains("no thread was woken and then switched to"));
    let by_trace_cmd = "cpus=4\nCPU 2 is empty\n          <idle>-0     [003]   100.000101: sched_wakeup:         loop:812 [19] success=1 CPU:003\n          <idle>-0     [003]   100.000150: sched_switch:         swapper/3:0 [120] R ==> loop:812 [19]\n";
    let of = streams(by_trace_cmd);
    assert_eq!(figures(&of[0], Series::WakeupLatency).1, 49_000);
    assert!(!says(&of[0], "passed over"), "{:?}", of[0].remarks);
    let head = "# entries-in-buffer/entries-written: 2/14   #P:4\n";
    let overrun = streams(head.to_owned() + by_trace_cmd);
    assert!(says(&overrun[0], "kept 2 of 14 events"), "{:?}", overrun[0].remarks);
    let lossy = streams(by_trace_cmd.to_owned() + "CPU:3 [LOST 12 EVENTS]\n");
    assert_eq!((of[0].lost, lossy[0].lost), (0, 1), "at least one");
    let dropped = by_trace_cmd.replacen("CPU:003\n", "CPU:003\nCPU:3 [12 EVENTS DROPPED]\n", 1);
    assert!(refused(dropped).contains("no thread was woken and then switched to"));
    let in_latency_format = by_trace_cmd.replace("[003]", "3d..2");
    assert_eq!(figures(&streams(in_latency_format)[0], Series::WakeupLatency).1, 49_000);
    let by_tsc = by_trace_cmd.replace("100.000", "100000");
    assert!(refused(&by_tsc).contains("no event has its time in seconds"), "{}", refused(&by_tsc));
}

#[test]
fn pings_of_all_systems_are_round_trips() {
    let of = streams(bytes_of("pingD.txt"));
    assert_eq!(figures(&of[0], Series::RoundTrip), (3, 115_000, 3_754_000, 1_346_000.0));
    let timed = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n[1700000000.100000] 64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.115 ms\n[1700000001.100000] 64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=0.215 ms\n\n--- 10.0.0.1 ping statistics ---\n3 packets transmitted, 2 received, 33% packet loss, time 2003ms\nrtt min/avg/max/mdev = 0.115/0.165/0.215/0.050 ms\n";
    let of = streams(timed);
    assert_eq!(figures(&of[0], Series::RoundTrip), (2, 115_000, 215_000, 165_000.0));
    assert!((of[0].started_unix_s - 1_700_000_000.1).abs() < 1e-3);
    assert!(says(&of[0], "1 of 3 requests were not answered"), "{:?}", of[0].remarks);
    let limit = LimitNote { limit_ns: 1_000_000, at: 100.0, on: Series::RoundTrip };
    let verdict = onbeat_report::verdict::judge(&import_world::run_of(&of[0]), limit);
    assert_eq!(verdict.outcome, onbeat_report::Outcome::Inconclusive, "one may be late");
    assert!(verdict.sentence.contains("; 1 lost sample counts"), "{}", verdict.sentence);
    let of = streams(format!("{timed}\n{timed}"));
    assert_eq!(figures(&of[0], Series::RoundTrip).0, 4, "many runs to one peer are a log");
    assert!(says(&of[0], "2 of 6 requests were not answered"), "{:?}", of[0].remarks);
    let quiet = "--- 10.0.0.1 ping statistics ---\n9 packets transmitted, 9 packets received, 0% packet loss\nround-trip min/avg/max = 0.021/0.038/0.055 ms\n";
    let of = streams(quiet);
    assert_eq!(figures(&of[0], Series::RoundTrip), (9, 21_000, 55_000, 38_000.0));
    assert!(of[0].figures_only.contains(&Series::RoundTrip));

    let translated = "PING 10.0.0.1 (10.0.0.1) 56(84) Bytes an Daten.\n64 Bytes von 10.0.0.1: icmp_seq=1 ttl=64 Zeit=0.115 ms\n64 octets de 10.0.0.1 : icmp_seq=2 ttl=64 temps=0.215 ms\n\n--- 10.0.0.1 Ping-Statistiken ---\n3 Pakete übertragen, 2 empfangen, 33% packet loss, time 2003ms\nrtt min/avg/max/mdev = 0.115/0.165/0.215/0.050 ms\n";
    let of = streams(translated);
    assert_eq!(figures(&of[0], Series::RoundTrip), (2, 115_000, 215_000, 165_000.0));
    assert!(says(&of[0], "1 of 3 requests were not answered"), "{:?}", of[0].remarks);
    assert!(!says(&of[0], "passed over"), "{:?}", of[0].remarks);

    let windows = "\r\nPinging 10.0.0.1 with 32 bytes of data:\r\nReply from 10.0.0.1: bytes=32 time=2ms TTL=64\r\nRequest timed out.\r\n\r\nPing statistics for 10.0.0.1:\r\n    Packets: Sent = 2, Received = 1, Lost = 1 (50% loss),\r\nApproximate round trip times in milli-seconds:\r\n    Minimum = 2ms, Maximum = 2ms, Average = 2ms\r\n";
    let of = streams(windows);
    assert_eq!(of[0].remarks[0], "1 of 2 requests were not answered and are in no figure");
    assert!(!says(&of[0], "passed over"), "{:?}", of[0].remarks);
    let of = streams(
        b"Ping wird ausgef\x81hrt f\x81r 10.0.0.1 mit 32 Bytes Daten:\r\nAntwort von 10.0.0.1: Bytes=32 Zeit=2ms TTL=64\r\nR\x82ponse de 10.0.0.1 : octets=32 temps<1 ms TTL=64\r\nZeit\x81berschreitung der Anforderung.\r\n\r\n    Pakete: Gesendet = 3, Empfangen = 2, Verloren = 1\r\n    (33% Verlust),\r\n",
    );
    assert_eq!(figures(&of[0], Series::RoundTrip), (2, 0, 2_000_000, 1_000_000.0));
    assert_eq!(of[0].remarks[0], "1 of 3 requests were not answered and are in no figure");
    let cut_off = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\nno answer yet for icmp_seq=1\n64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=0.215 ms\n";
    let timed = "[1700000000.1] no answer yet for icmp_seq=1\n[1700000001.2] 64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=0.215 ms\n";
    let late = "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=1500 ms\n";
    let of = streams(format!("{cut_off}{late}"));
    assert!(!says(&of[0], "requests without an answer"), "{:?}", of[0].remarks);
    // Killed, ping writes no closing lines: numbers show what did not come. They recur.
    let answer = |n: u16| format!("64 bytes from 10.0.0.1: icmp_seq={n} ttl=64 time=0.215 ms\n");
    let all = |of: &[u16]| of.iter().map(|n| answer(*n)).collect::<String>();
    let heading = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n";
    for (lost, text) in [
        (2, heading.to_owned() + &all(&[2, 4, 5])),
        (0, heading.to_owned() + &all(&[0, 1, 3, 2])),
        (1, all(&[65_534, 0, 1])),
        (2, all(&[1, 3, 4]) + heading + &all(&[1, 3])),
        (
            2,
            all(&[1, 3])
                + "3 packets transmitted, 2 received, 33% packet loss\n"
                + heading
                + &all(&[1, 3]),
        ),
        (2, all(&[1, 4, 5]).replace("icmp_seq", "seq")),
        (2, all(&[1]) + &"ping: sendmsg: Network is unreachable\n".repeat(2) + &all(&[4])),
        (1, all(&[7, 8, 10]) + "From 10.0.0.2 icmp_seq=9 Destination Host Unreachable\n"),
    ] {
        let of = streams(&text);
        assert_eq!(of[0].lost, lost, "{text}");
    }
    for text in [cut_off, timed] {
        let of = streams(text);
        assert!(
            says(&of[0], "requests without an answer, which are in no figure: 1"),
            "{:?}",
            of[0].remarks
        );
        assert!(!says(&of[0], "passed over"), "{:?}", of[0].remarks);
    }
}

#[test]
fn percentiles_of_sockperf_part_its_observations() {
    let text = "sockperf: == version #3.8-0.git31ee322aa82a ==\nsockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)\n\n[ 0] IP = 10.12.0.4       PORT = 12345 # TCP\nsockperf: Starting test...\nsockperf: [Total Run] RunTime=199.999 sec; Warm up time=400 msec; SentMessages=10001; ReceivedMessages=10000\nsockperf: ========= Printing statistics for Server No: 0\nsockperf: [Valid Duration] RunTime=199.548 sec; SentMessages=10000; ReceivedMessages=10000\nsockperf: ====> avg-rtt=1892.600 (std-dev=422.741, mean-ad=240.040)\nsockperf: # dropped messages = 3; # duplicated messages = 0; # out-of-order messages = 0\nsockperf: Summary: Round trip is 1892.600 usec\nsockperf: Total 10000 observations; each percentile contains 100.00 observations\nsockperf: ---> <MAX> observation = 11541.068\nsockperf: ---> percentile 99.900 = 7533.498\nsockperf: ---> percentile 50.000 = 1861.000\nsockperf: ---> <MIN> observation = 1000.743\n";
    let of = streams(text);
    let figures = &cell(&of[0]).series[&Series::RoundTrip];
    assert_eq!((figures.count, figures.min_ns, figures.max_ns), (10_000, 1_000_743, 11_541_068));
    assert!((figures.sd_ns - 422_741.0).abs() < 1.0 && (figures.mean_ns - 1_892_600.0).abs() < 1.0);
    assert_eq!(figures.percentiles[0].value_ns, 1_861_000);
    assert!(says(&of[0], "3 messages were dropped") && !says(&of[0], "passed over"));
    let half = text.replacen("Round trip is", "Latency is", 1);
    assert!(says(&streams(half)[0], "half of a round trip"));
}

#[test]
fn a_log_of_performance_test_is_its_figures_second_by_second() {
    let text = "Experiment id: 2d9f\nLogfile name: log.csv\n\n---EXPERIMENT-START---\nT_experiment,\tT_loop,\treceived,\tsent,\tlost,\trelative_loss,\tdata_received,\tlatency_min (ms),\tlatency_max (ms),\tlatency_mean (ms),\tlatency_variance (ms)\n";
    let text = text.to_owned()
        + "1.0, 1.0, 0, 1000, 0, 0, 0, 1.79769e+308, -1.79769e+308, nan, nan\n2.0, 1.0, 1000, 1000, 0, 0, 1000, 0.05, 0.9, 0.1, 0.001,\n3.0, 1.0, 500, 1000, 500, 0.5, 500, 0.04, 0.8, 0.4, 0.001,\n4.0, 1.0, 5";
    let of = streams(&text);
    assert_eq!(figures(&of[0], Series::Recorded), (1_500, 40_000, 900_000, 200_000.0));
    assert!(of[0].figures_only.contains(&Series::Recorded));
    let summed_up = cell(&of[0]).series[&Series::Recorded].clone();
    assert_eq!((summed_up.sd_ns, summed_up.tail_ratio), (0.0, None), "SD is not known");
    assert!(says(&of[0], "500 messages were lost"), "{:?}", of[0].remarks);
    assert!(says(&of[0], "its last line, 9, is not imported"), "{:?}", of[0].remarks);
    assert!(refused(text.replacen("2.0, 1.0, 1000", "2.0, 1.0, x", 1)).contains("line 7: "));
    let apart = streams(text.replacen("0.05, 0.9", "-0.05, 0.9", 1));
    assert_eq!(apart[0].early[&Series::Recorded].earliest_ns, 50_000, "clocks of two computers");
    let none = text.lines().take(6).collect::<Vec<_>>().join("\n") + "\n";
    assert!(refused(none).contains("no message was received"));
}

#[test]
fn spreadsheets_write_commas_marks_and_dates() {
    let of = streams(bytes_of("excel.csv"));
    assert_eq!(figures(&of[0], Series::Recorded), (3, 12_500, 912_000, 312_533.33));
    let asked = SourceOptions { unit_ns: Some(1e6), ..SourceOptions::default() };
    assert!(refused(bytes_of("datetime.csv")).contains("the values have no unit"));
    let of = read(&bytes_of("datetime.csv"), &asked).unwrap();
    assert_eq!(figures(&of[0], Series::Recorded), (2, 12_000, 13_000, 12_500.0));
    assert!((of[0].started_unix_s - 1_717_684_006.373).abs() < 1e-3, "{}", of[0].started_unix_s);

    let same = [
        "latency_us\n1234.5\n2\n",
        "\"time\";\"latency_us\"\r\n\"0,1\";\"1.234,5\"\r\n\r\n\"0,2\";\"2,0\"\r\n",
        "time\tlatency (\u{b5}s)\n0.1\t1234.5\n0.2\t2\n",
        "time_s,latency_us\n0.1,\"1,234.5\"\n0.2,2.0\n",
        "latency_us\n1234,5\n2,0\n",
        "# time_s latency_us\n0.1 1234.5\n0.2 2\n",
        "cpu;latency_us;note\n3;1234,5;a\n3;2,0;b\n",
        "\u{feff}sep=;\r\ntime_s;latency_us\r\n0,1;1234,5\r\n0,2;2,0\r\n",
        "t_s,speed (m/s),latency_us\n0.1,0.5,1234.5\n0.2,0.6,2.0\n",
        "latency_us\r1234.5\r2.0\r",
        "Time;Lag;CPU\r\ns;us;-\r\n0,1;1234,5;3\r\n0,2;2,0;3\r\n",
        "Time\tLag\n[s]\t[\u{b5}s]\n0.1\t1234.5\n0.2\t2\n",
        "cycle,jitter\n,us\n1,1234.5\n2,2.0\n",
        "Lag\nus\n1234.5\n2\n",
    ];
    for text in same {
        assert_eq!(
            figures(&streams(text)[0], Series::Recorded),
            (2, 2_000, 1_234_500, 618_250.0),
            "{text}"
        );
    }
    assert!(refused("12,5\n13,1\n").contains("two columns or a number with a decimal comma"));
    assert!(refused("latency_us\n20\nNaN\n").contains("line 3: `NaN` is not a number"));
    assert!(refused("a_us;b_us\n1;2\n").contains("2 columns (a_us, b_us)"));
    let of = streams("t_s,speed (m/s),latency_us,cpu\n0.1,0.5,1234.5,3\n");
    assert!(says(&of[0], "latency_us; not imported: speed (m/s), cpu"), "{:?}", of[0].remarks);
    assert!(!says(&streams("time_s,latency_us\n0.1,20\n")[0], "not imported"));
    assert!(refused("t_s,speed (m/s),lag\n0.1,0.5,20\n").contains("name the one of values"));
    let two_units = "Sample,Cycle time [us],Jitter [ns]\n1,1000.1,20\n";
    assert!(refused(two_units).contains("3 columns"), "{}", refused(two_units));
    let histogram = "Latency (us),Count\n1,500\n2,300\n";
    assert!(refused(histogram).contains("`Count` is a column of counts"), "{}", refused(histogram));
    let histogram = "latency_us,samples\n1,500\n2,300\n";
    assert!(refused(histogram).contains("`samples` is a column"), "{}", refused(histogram));
    assert_eq!(streams("t_s,latency_us,freq\n1,5,3000\n")[0].parts[0].samples(), 1);
    let of = streams("__time,latency_us\n1717683906.373,20\n1717683906.383,21\n");
    assert!((of[0].started_unix_s - 1_717_683_906.373).abs() < 1e-3, "{}", of[0].started_unix_s);
    let of = streams("%time,latency_us\n1717683906373000000,20\n1717683906383000000,21\n");
    assert!((of[0].started_unix_s - 1_717_683_906.373).abs() < 1e-3, "{}", of[0].started_unix_s);
    let of =
        streams("Datum;Uhrzeit;Latenz (us)\n01.02.2024;12:00:00,1;5\n01.02.2024;12:00:00,2;6\n");
    assert!((of[0].started_unix_s - 1_706_788_800.1).abs() < 1e-3, "{}", of[0].started_unix_s);
    assert!(!says(&of[0], "not imported"), "{:?}", of[0].remarks);
    assert!(refused("latency_us\n5 us\n6 us\n").contains("line 2: `5 us` is not a number"));
    let of_windows = b"Zeit;Latenz (\xb5s)\r\n0,001;20,5\r\n0,002;21,5\r\n";
    assert_eq!(figures(&streams(of_windows)[0], Series::Recorded).2, 21_500);
    assert_eq!(figures(&streams("seq latency(us)\n1 20\n2 25\n")[0], Series::Recorded).2, 25_000);
    assert_eq!(figures(&streams("i   lat_ns\n1   2000\n2   2500\n")[0], Series::Recorded).2, 2_500);
    assert_eq!(figures(&streams("latency (us)\n20\n25\n")[0], Series::Recorded).2, 25_000);
    // rt-app's log.
    let text = "#idx perf run wu_lat\n   0    90000   10023    33\n   0    90000   10033    31\n";
    let column = Some("wu_lat".to_owned());
    let asked = SourceOptions { unit_ns: Some(1e3), column, ..SourceOptions::default() };
    let of = read(text.as_bytes(), &asked).unwrap();
    assert_eq!(figures(&of[0], Series::Recorded), (2, 31_000, 33_000, 32_000.0));
    let percentiles = "Percentile,Latency (us)\n50,12\n99,40\n";
    assert!(refused(percentiles).contains("`Percentile` is a column of percentiles"));
    assert_eq!(figures(&streams("latency_micros\n12\n")[0], Series::Recorded).2, 12_000);
    let stamps = "timestamp,latency_us\n1717683906373,20\n1717683906383,21\n";
    assert!(refused(stamps).contains("name its unit in a first line, such as time_ms"));
    let of = streams(stamps.replacen("timestamp", "timestamp_ms", 1));
    assert!((of[0].started_unix_s - 1_717_683_906.373).abs() < 1e-3, "{}", of[0].started_unix_s);
    let mixed = "t;latency_us\n0,1;12,5\n0,2;13.1\n";
    assert!(refused(mixed).contains("decimal commas (line 2) and decimal points (line 3)"));
}

#[test]
fn a_column_beside_the_time_of_its_samples_is_theirs() {
    for text in ["t_s,samples\n1,5\n2,6\n", "time;freq\n1;5\n2;6\n", "date,time\n1,5\n2,6\n"] {
        let asked = SourceOptions { unit_ns: Some(1e3), ..SourceOptions::default() };
        let of = read(text.as_bytes(), &asked).unwrap();
        assert_eq!(figures(&of[0], Series::Recorded), (2, 5_000, 6_000, 5_500.0), "{text}");
    }
    assert!(refused("time_us,samples\n1,5\n").contains("`samples` is a column of counts"));
    for text in ["date,time_ms,url\n", "date,time_ms\n"] {
        let rest = if text.contains("url") { ",a" } else { "" };
        let of = streams(format!("{text}2024-02-01 12:00:00,12{rest}\n"));
        assert_eq!(figures(&of[0], Series::Recorded).2, 12_000_000, "{text}");
    }
}

#[test]
fn what_a_csv_leaves_open_is_refused_or_said() {
    for text in ["latency_us\n987\n1,234\n", "t;latency_us\n1;1.234\n2;12.345\n3;87\n"] {
        let why = refused(text);
        assert!(
            why.contains("`1,234` may have decimals or") || why.contains("`1;1.234` may"),
            "{why}"
        );
    }
    for (unit_ns, is_said) in [(1e3, true), (1e6, false)] {
        let asked = SourceOptions { unit_ns: Some(unit_ns), ..SourceOptions::default() };
        let of = read(b"latency_ms\n0.4\n", &asked).unwrap();
        assert_eq!(says(&of[0], "the name of the column has another one"), is_said);
    }
    for (names, stamp, what) in [
        ("time,latency_us", "2026-11-27T10:00:00.5", "the time zone of its date-times: UTC"),
        ("time,latency_us", "2026-11-27T10:00:00.5+01:00", ""),
        ("timestamp,latency_us", "1000000", "the unit of its times: seconds assumed"),
        ("timestamp_ms,latency_us", "1000000", ""),
        ("__time,latency_us", "1717683906.373", ""),
    ] {
        let missing = &streams(format!("{names}\n{stamp},20\n"))[0].missing;
        let said: Vec<&String> = missing.iter().filter(|of| of.contains(" of its ")).collect();
        assert_eq!(said.len(), usize::from(!what.is_empty()), "{names} {stamp}: {said:?}");
        assert!(said.iter().all(|of| of.starts_with(what)), "{said:?}");
    }
    let commas = "latency_us\n1,234\n2,345\n";
    assert!(says(&streams(commas)[0], "commas are read as decimal marks: line 2 is `1,234`"));
    let points = commas.replace(',', ".");
    for text in [points.clone() + "0\n", points, commas.to_owned() + "0,500\n1234\n"] {
        assert!(!says(&streams(&text)[0], "decimal marks"), "{text}");
    }
}

#[test]
fn an_interval_log_with_decimal_commas_is_the_same_log() {
    let text = String::from_utf8(bytes_of("comma.hlog")).unwrap();
    let dotted = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        match fields.as_slice() {
            [a, b, c, d, e, f, histogram] => format!("{a}.{b},{c}.{d},{e}.{f},{histogram}\n"),
            _ => format!("{line}\n"),
        }
    };
    let plain: String = text.lines().map(dotted).collect();
    assert_ne!(plain, text);
    assert_eq!(streams(&text), streams(&plain));
    assert!(figures(&streams(&text)[0], Series::Hiccup).0 > 1_000);
}

#[test]
fn a_log_that_is_cut_off_costs_its_last_line_and_a_damaged_line_is_said() {
    let text = String::from_utf8(bytes_of("cutlast.hlog")).unwrap();
    let whole: String = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    let of = streams(&text);
    assert!(says(&of[0], "its last line, 24, is not imported"), "{:?}", of[0].remarks);
    assert_eq!(of[0].parts, streams(&whole)[0].parts, "nothing of the cut line is counted");

    let damaged = whole.replacen("HISTFAAAAEJ42p", "HISTFAAAAE=42p", 1);
    let why = refused(&damaged);
    assert!(why.contains("line 6: the histogram is not valid base64"), "{why}");
    assert!(why.contains("; 1 interval before it can be read"), "{why}");
    assert!(why.contains("--skip-damaged"), "{why}");
    let of = read(damaged.as_bytes(), &skipping()).unwrap();
    assert!(says(&of[0], "1 damaged line is not imported: line 6"), "{:?}", of[0].remarks);
    assert_eq!(of[0].lost, 772, "as many as the other 18 have on average");
    let rest: String =
        whole.lines().enumerate().filter(|(i, _)| *i != 5).map(|(_, l)| format!("{l}\n")).collect();
    assert_eq!(of[0].parts, streams(&rest)[0].parts);
}

#[test]
fn gzip_and_utf_16_are_read_and_other_packing_is_named() {
    let plain = bytes_of("ct-q.txt");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &plain).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(streams(&packed), streams(&plain));
    assert!(refused(&packed[..packed.len() / 2]).contains("gzip that cannot be unpacked"));

    let text = String::from_utf8(plain.clone()).unwrap();
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    assert_eq!(streams(&wide), streams(&plain));
    assert!(refused(b"\x17\x08\x44tracing6\0").contains("`trace-cmd report`"));
    let json = bytes_of("ct-noprio.json");
    let marked = [&b"\xef\xbb\xbf"[..], &json].concat();
    assert_eq!(streams(&marked), streams(&json));
    assert!(refused(b"PERFILE2").contains("`perf script`"));
    assert!(refused([0xfd, b'7', b'z', b'X', b'Z', 0]).contains("xz -d"));
}

#[test]
fn what_no_reader_knows_is_refused_with_the_list_of_formats() {
    for text in ["Dear reader,\nthis is a letter.\n", "{\"a\": 1}\n", "\n# Max: \n"] {
        let why = refused(text);
        assert!(why.contains("fits no known format") && why.contains("xenomai"), "{why}");
        assert!(!why.contains("``"), "{why}");
    }
    for (bytes, what) in [
        (&b""[..], "an empty file"),
        (&b"\n \n"[..], "an empty file"),
        (&b"\0\0\0\x01"[..], "binary data of no known kind"),
        (&b"\x89MCAP0\r\n"[..], "an MCAP log of messages: `onbeat message list` reads it"),
        (&b"SQLite format 3\0"[..], "an SQLite database"),
        (&b"\x93NUMPY\x01\0v\0"[..], "a NumPy array: import what numpy.savetxt writes"),
        (&b"MATLAB 5.0 MAT-file, Platform: GLNXA64"[..], "a MAT-file or HDF5"),
        (&b"PAR1\x15\x04"[..], "Apache Parquet"),
        (&b"PK\x03\x04\x14\0\x06\0[Content_Types].xml"[..], "a workbook: save its sheet as CSV"),
        (&b"\xd0\xcf\x11\xe0\xa1\xb1"[..], "a workbook"),
        (&b"\xd4\xc3\xb2\xa1\x02\0\x04\0"[..], "a packet capture: import the times"),
        (
            &b"{\"start\": {\"version\": \"iperf 3.12\"}, \"end\": {\"receiver\": {}}}\n"[..],
            "what iperf3 prints",
        ),
        (&b"(1627304563.123456) can0 123#1122\n"[..], "what candump prints"),
        (
            &b"{\"schema\":\"onbeat.bench/1\",\"version\":\"0.1.0\"}"[..],
            "what onbeat report --json",
        ),
        (&b"  slcan1  18FEF1FE   [2]  11 22\n"[..], "what candump prints"),
        (&b" (000.001012)  vcan0  1A1  [02]  11 22\n"[..], "what candump prints"),
        (&b"10.0.0.5 : [0], 64 bytes, 0.21 ms (0.21 avg, 0% loss)\n"[..], "what fping prints"),
        (&b"core_i:          1\nint_n_per_sec:   1000.3\n"[..], "what sysjitter prints"),
    ] {
        assert!(refused(bytes).starts_with(&format!("it is {what}")), "{}", refused(bytes));
    }
}

#[test]
fn what_holds_less_than_another_output_of_its_tool_is_named() {
    let timehist = "           time    cpu  task name                       wait time  sch delay   run time\n                        [tid/pid]                          (msec)     (msec)     (msec)\n    1954.141160 [0000]  sleep[30861]                        0.000      0.051      0.729 \n";
    assert!(refused(timehist).contains("`perf sched script`"), "{}", refused(timehist));
    let load = "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)\nTime: 0.066\n";
    assert!(refused(load).starts_with("it is what hackbench prints"), "{}", refused(load));
    let osnoise = "# tracer: osnoise\n#           TASK-PID      CPU# ||||   TIMESTAMP    IN US       IN US  AVAILABLE  IN US\n                   <...>-859     [000] ....    81.637220: 1000000        190  99.98100       9     18      0   1007     18      1\n";
    assert!(refused(osnoise).contains("`rtla osnoise hist`"), "{}", refused(osnoise));
    let wakeup = "# tracer: wakeup_rt\n#\n# wakeup_rt latency trace v1.1.5 on 3.8.0-test+\n# latency: 5 us, #4/4, CPU#3 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:4)\n  <idle>-0       3d..3    5us :      0:120:R ==> [003]  2389: 94:R sleep\n";
    assert!(refused(wakeup).contains("the longest latency alone"), "{}", refused(wakeup));
    let runqlat = "Tracing run queue latency... Hit Ctrl-C to end.\n^C\n     usecs               : count     distribution\n         0 -> 1          : 233      |***********                             |\n";
    assert!(
        refused(runqlat).starts_with("it is what a tool of bcc prints"),
        "{}",
        refused(runqlat)
    );
    let rate = "average rate: 10.003\n\tmin: 0.095s max: 0.105s std dev: 0.00159s window: 12\n";
    assert!(refused(rate).starts_with("it is what ros2 topic hz prints"), "{}", refused(rate));
    for (text, by) in [
        (
            "average delay: 0.002\n\tmin: 0.001s max: 0.003s std dev: 0.00052s window: 10\n",
            "ros2 topic delay",
        ),
        (
            "32.11 KB/s from 100 messages\n\tMessage size mean: 0.32 KB min: 0.32 KB max: 0.32 KB\n",
            "ros2 topic bw",
        ),
        ("ptp4l[5.777]: master offset        -23 s2 freq   +8723 path delay       541\n", "ptp4l"),
        (
            "phc2sys[5.1]: CLOCK_REALTIME phc offset       -37 s2 freq   -7283 delay    541\n",
            "phc2sys",
        ),
        (
            "Reference ID    : CB00710F (a.example)\nLast offset     : -0.000006747 seconds\n",
            "chronyc tracking",
        ),
        (
            "# event histogram\n#\n\n{ lat:          4 } hitcount:          2\n",
            "a histogram trigger",
        ),
        (
            "  Task   |   Runtime ms  | Switches | Average delay ms | Maximum delay ms |\n",
            "perf sched latency",
        ),
        (
            "[ ID] Interval  Transfer  Bandwidth  Jitter   Lost/Total  Latency avg/min/max/stdev PPS\n",
            "iperf",
        ),
    ] {
        assert!(refused(text).starts_with(&format!("it is what {by}")), "{}", refused(text));
    }
}

#[test]
fn a_second_run_in_a_file_is_refused_because_one_would_hide_the_other() {
    let posted = |name: &str| String::from_utf8(bytes_of(name)).unwrap();
    let rtla = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:10\nIndex   IRQ-000\n0             9\n1             1\nover:         0\ncount:       10\nmin:          0\navg:          0\nmax:          1\nALL:        IRQ\ncount:       10\n";
    let quiet = "9 packets transmitted, 9 received, 0% packet loss\nrtt min/avg/max/mdev = 0.021/0.038/0.055/0.003 ms\n";
    let pairs = "#1 -> #0, Min    1, Cur    2, Avg    2, Max   40\n";
    for (text, [from, to]) in [
        (posted("ct-q.txt"), ["(2359", "(4401"]),
        (posted("ct-out.txt"), ["", ""]),
        (posted("ct-v.txt"), ["", ""]),
        (posted("jd.json"), ["", ""]),
        (posted("jd.json"), ["\"1\": {", "cut off"]),
        (posted("ct-nohist.json"), ["", ""]),
        (posted("timerlat-top.txt"), ["#10003", "#10001"]),
        (posted("xeno-H.txt"), ["", ""]),
        (posted("pingD.txt"), ["10.10.10.10", "10.10.10.11"]),
        (posted("comma.hlog"), ["", ""]),
        (rtla.to_owned(), ["", ""]),
        (quiet.to_owned(), ["0.055", "0.065"]),
        (pairs.to_owned(), ["   40", "   30"]),
    ] {
        let why = refused(format!("{text}\n{}", text.replace(from, to)));
        assert!(why.contains("figures of a second run"), "{why}: {text}");
    }

    // Logs of one run, of which each has a head; intervals of its tags have the same times.
    let log = posted("comma.hlog");
    let payload = log.lines().find_map(|line| line.find("HIST").map(|at| &line[at..])).unwrap();
    let part = |start: u32| {
        let line = |tag: &str| format!("Tag={tag},{start}.000,1.000,2.000,{payload}\n");
        let head = "#[StartTime: 1441812279.474 (seconds since epoch)]\n";
        format!("{head}{}{}", line("a"), line("b"))
    };
    assert_eq!(streams(part(0) + &part(1)).len(), 2);

    let rows =
        "000004 000009\n# Min Latencies: 00004\n# Avg Latencies: 00004\n# Max Latencies: 00004\n";
    let why = refused(posted("ct-q.txt") + rows);
    assert!(why.contains("figures of a second run"), "{why}");

    let table = "Value Percentile TotalCount 1/(1-Percentile)\n1.0 0.5 2 2.00\n4.0 1.0 3\n#[Mean = 2.0, StdDeviation = 1.4]\n";
    let asked = SourceOptions { unit_ns: Some(1e6), ..SourceOptions::default() };
    let of = read(format!("{table}\n{table}").as_bytes(), &asked).unwrap();
    assert_eq!(of[0].remarks, ["1 table below it not imported"]);
}

/// What an installed program writes, on standard output or into `out`.
fn recorded_now(program: &str, words: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let ran = Command::new(program).args(words.split(' ')).current_dir(dir.path()).output();
    let text = match ran {
        Ok(ran) if ran.status.success() => std::fs::read_to_string(dir.path().join("out"))
            .unwrap_or_else(|_| String::from_utf8_lossy(&ran.stdout).into_owned()),
        Ok(ran) => {
            println!("skipped: {program} {words}: {}", String::from_utf8_lossy(&ran.stderr));
            return None;
        }
        Err(why) => {
            println!("skipped: {program}: {why}");
            return None;
        }
    };
    if text.trim().is_empty() {
        // On a machine that is busy, a tool's second can end before its first cycle.
        println!("skipped: {program} {words}: it measured nothing");
        return None;
    }
    Some(text)
}

#[test]
fn what_the_installed_tools_print_now_is_imported_with_their_own_figures() {
    let tools = [
        ("cyclictest", "-q -D 1 -i 1000", Series::WakeupLatency, "C:"),
        ("signaltest", "-q -D 1 -t 1", Series::Recorded, "C:"),
        ("ptsematest", "-q -D 1", Series::Recorded, "Cycles"),
        ("pmqtest", "-q -D 1", Series::Recorded, "Cycles"),
        ("svsematest", "-q -D 1", Series::Recorded, "Cycles"),
        ("sigwaittest", "-q -D 1", Series::Recorded, "Cycles"),
        ("oslat", "-D 1 -b 8 -c 0", Series::Gap, ""),
    ];
    for (program, words, series, count) in tools {
        let Some(text) = recorded_now(program, words) else { continue };
        let of = figures(&streams(&text)[0], series);
        let digits = |key: &str| {
            let after = text.rsplit_once(key).unwrap().1.trim_start_matches([':', ' ', '\t']);
            after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap()
        };
        let max_key = if program == "oslat" { "Maximum" } else { "Max" };
        assert_eq!(of.2 / 1_000, digits(max_key), "{program} {words}: {text}");
        if !count.is_empty() {
            assert_eq!(of.0, digits(count), "{program} {words}: {text}");
            assert_eq!(of.1 / 1_000, digits("Min"), "{program} {words}: {text}");
        }
    }
}

#[test]
fn every_sample_that_the_installed_cyclictest_prints_now_is_imported() {
    let Some(text) = recorded_now("cyclictest", "-v -l 200 -i 1000") else { return };
    let sample = |line: &str| line.rsplit(':').next()?.trim().parse::<u64>().ok();
    let printed: Vec<u64> =
        text.lines().filter(|line| line.starts_with("       0:")).filter_map(sample).collect();
    assert!(!printed.is_empty(), "{text}");
    let of = figures(&streams(&text)[0], Series::WakeupLatency);
    assert_eq!(of.0, printed.len() as u64);
    assert_eq!(of.1 / 1_000, *printed.iter().min().unwrap());
    assert_eq!(of.2 / 1_000, *printed.iter().max().unwrap());
}
