//! What people post of their tools, detected without its name and read with the figures that the
//! tool itself states; and what happens to it when it is cut off or damaged.
#![allow(clippy::print_stdout, missing_docs, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::{BufRead, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;

use onbeat::import::stream::ImportLabels;
use onbeat::import::{self, Error, SourceOptions, Stream};
use onbeat::record::{Cell, RunFile, Series};
use onbeat::report::{CellSummary, imported};
use proptest::prelude::*;

fn bytes_of(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import_files/posted");
    std::fs::read(dir.join(name)).unwrap()
}

fn read(bytes: &[u8], asked: &SourceOptions) -> Result<Vec<Stream>, Error> {
    import::read(&mut Cursor::new(bytes), asked)
}

fn streams(text: impl AsRef<[u8]>) -> Vec<Stream> {
    read(text.as_ref(), &SourceOptions::default()).unwrap()
}

fn refused(text: impl AsRef<[u8]>) -> String {
    read(text.as_ref(), &SourceOptions::default()).unwrap_err().to_string()
}

fn skipping() -> SourceOptions {
    SourceOptions { skip_damaged: true, ..SourceOptions::default() }
}

/// Through a run file and back.
fn run_of(stream: &Stream) -> RunFile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.onbeat.hlog");
    let cell = Cell { tuning: "a run".to_owned(), load: "unknown".to_owned() };
    let labels =
        ImportLabels { command: vec!["onbeat".to_owned()], file: "source".to_owned(), cell };
    import::write(stream, &labels, &path).unwrap();
    RunFile::read(&path).unwrap()
}

fn cell(stream: &Stream) -> CellSummary {
    imported::summary(std::slice::from_ref(&run_of(stream)), None).unwrap().cells.remove(0)
}

/// Count, minimum, maximum and mean of a series, in nanoseconds.
fn figures(stream: &Stream, series: Series) -> (u64, u64, u64, f64) {
    let cell = cell(stream);
    let of = &cell.series[&series];
    (of.count, of.min_ns, of.max_ns, (of.mean_ns * 100.0).round() / 100.0)
}

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
    assert!(cell.series[&Series::WakeupLatency].percentiles.is_empty());
    assert!(cell.notes.iter().any(|note| note.contains("percentiles and SD are not known")));
    assert_eq!(streams[0].host.fact("scheduling"), Some("SCHED_FIFO 80"));
    assert!(!says(&streams[0], "without real-time priority"));
}

#[test]
fn a_terminals_output_of_cyclictest_counts_its_last_line() {
    let streams = streams(bytes_of("ct-out.txt"));
    assert_eq!(all_figures(&streams, Series::WakeupLatency), [(1974, 17_000, 5_112_000, 43_000.0)]);
    assert_eq!(streams[0].remarks, Vec::<String>::new(), "all lines are cyclictest's");
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
fn verbose_cyclictest_has_every_sample() {
    let streams = streams(bytes_of("ct-v.txt"));
    assert_eq!(figures(&streams[0], Series::WakeupLatency), (300, 17_000, 74_000, 28_373.33));
    assert_eq!(streams[0].period_ns, Some(1_000_000));
    let of = &cell(&streams[0]).series[&Series::WakeupLatency];
    assert_eq!(of.percentiles[0].value_ns, 26_999, "the 150th of 300 is 26 us");
    assert!(streams[0].steps.is_some());
}

#[test]
fn json_without_a_histogram_is_figures_and_a_missing_priority_is_said() {
    let of = streams(bytes_of("ct-nohist.json"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1990, 17_000, 4_827_000, 47_450.0));
    assert!(of[0].figures_only.contains(&Series::WakeupLatency) && of[0].remarks.is_empty());

    let of = streams(bytes_of("ct-noprio.json"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1907, 56_000, 11_963_000, 149_990.0));
    assert!(says(&of[0], "ran without real-time priority (SCHED_OTHER)"));
    assert!(cell(&of[0]).notes.iter().any(|note| note.contains("without real-time priority")));
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

    let of = streams(bytes_of("rtai.txt"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1, 0, 3_712, 354.0));
    assert_eq!(of[0].early[&Series::WakeupLatency].earliest_ns, 37);
    assert!(of[0].missing.iter().any(|what| what.contains("the number of samples")));
}

#[test]
fn negative_values_of_a_csv_are_counted() {
    let of = streams(bytes_of("neg.csv"));
    assert_eq!(figures(&of[0], Series::Recorded), (3, 0, 3_099, 1152.67));
    let early = of[0].early[&Series::Recorded];
    assert_eq!((early.count, early.earliest_ns), (Some(1), 12));
}

#[test]
fn jitterdebugger_and_the_other_rt_tests_are_read_from_json() {
    let of = streams(bytes_of("jd.json"));
    assert_eq!(
        all_figures(&of, Series::SleepLatency),
        [(9996, 3_000, 61_000, 3_770.0), (9996, 3_000, 5_000, 3_800.0)]
    );
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
fn gaps_of_the_hardware_and_of_a_busy_loop_are_read_from_text() {
    let of = streams(bytes_of("hwlat.txt"));
    assert_eq!(figures(&of[0], Series::Gap), (2, 14_000, 18_000, 16_000.0));
    assert!(of[0].missing.iter().any(|what| what.contains("below the threshold of 10us")));
    let of = streams(bytes_of("hwlattrace.txt"));
    assert_eq!(figures(&of[0], Series::Gap), (2, 12_000, 16_000, 14_000.0));
    assert!(of[0].missing.iter().any(|what| what.contains("5 of 7 gaps")), "{:?}", of[0].missing);
    let of = streams(bytes_of("os.txt"));
    assert_eq!(figures(&of[0], Series::Gap), (24_075_702, 0, 125_593_000, 564.0));
    assert!(says(&of[0], "without real-time priority"));
    let none = "hwlatdetect:  test duration 2 seconds\n        Latency threshold: 10us\nMax Latency: Below threshold\nSamples recorded: 0\n";
    assert!(refused(none).contains("no gap exceeded the threshold of 10us"));
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
    let osnoise = "                          Operating System Noise\nduration:   0 00:00:10 | time is in us\nCPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single\n  0 #10       10000000         1200    99.98800        300          200\n";
    assert!(refused(osnoise).contains("rtla osnoise hist has all of them"));
}

#[test]
fn a_trace_as_text_is_from_wake_up_to_switch() {
    let of = streams(bytes_of("ftrace.txt"));
    assert_eq!(figures(&of[0], Series::WakeupLatency), (1, 49_000, 49_000, 49_000.0));
    assert_eq!(of[0].host.fact("scheduling"), Some("real-time priority 80"));
    assert!(says(&of[0], "loop (812): from sched_wakeup to sched_switch"));

    // A thread that is woken while it runs does not wait.
    let running = "  loop-812 [003] d... 5.000100: sched_wakeup: comm=loop pid=812 prio=19 target_cpu=003\n  loop-812 [003] d... 5.000200: sched_switch: prev_comm=loop prev_pid=812 prev_prio=19 prev_state=S ==> next_comm=swapper/3 next_pid=0 next_prio=120\n  <idle>-0 [003] d... 6.000000: sched_switch: prev_comm=swapper/3 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=loop next_pid=812 next_prio=19\n";
    assert!(refused(running).contains("no thread was woken and then switched to"));
    let by_trace_cmd = "cpus=4\n          <idle>-0     [003]   100.000101: sched_wakeup:         loop:812 [19] success=1 CPU:003\n          <idle>-0     [003]   100.000150: sched_switch:         swapper/3:0 [120] R ==> loop:812 [19]\n";
    assert_eq!(figures(&streams(by_trace_cmd)[0], Series::WakeupLatency).1, 49_000);
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
    let quiet = "--- 10.0.0.1 ping statistics ---\n9 packets transmitted, 9 packets received, 0% packet loss\nround-trip min/avg/max = 0.021/0.038/0.055 ms\n";
    let of = streams(quiet);
    assert_eq!(figures(&of[0], Series::RoundTrip), (9, 21_000, 55_000, 38_000.0));
    assert!(of[0].figures_only.contains(&Series::RoundTrip));
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
    let mixed = "t;latency_us\n0,1;12,5\n0,2;13.1\n";
    assert!(refused(mixed).contains("decimal commas (line 2) and decimal points (line 3)"));
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
    assert!(why.contains("before it stand 1 interval that"), "{why}");
    assert!(why.contains("--skip-damaged"), "{why}");
    let of = read(damaged.as_bytes(), &skipping()).unwrap();
    assert!(says(&of[0], "1 damaged line is not imported: line 6"), "{:?}", of[0].remarks);
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
    assert!(refused([0xfd, b'7', b'z', b'X', b'Z', 0]).contains("xz -d"));
}

#[test]
fn what_no_reader_knows_is_refused_with_the_list_of_formats() {
    for text in ["Dear reader,\nthis is a letter.\n", "{\"a\": 1}\n", "", "\0\0\0\u{1}"] {
        let why = refused(text);
        assert!(why.contains("fits no known format") && why.contains("xenomai"), "{why}");
    }
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
    Some(text)
}

/// The figure after a key, in microseconds.
fn stated(text: &str, key: &str) -> u64 {
    let after = text.rsplit_once(key).unwrap().1.trim_start();
    after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
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
}

const TEXTS: [Text; 8] = [
    Text::Verbose,
    Text::Status,
    Text::Histogram,
    Text::Ping,
    Text::Excel,
    Text::Hwlat,
    Text::Gnuplot,
    Text::Trace,
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
                for latency in 0..=*max {
                    let n = values.iter().filter(|value| **value == latency).count();
                    writeln!(text, "{latency}.5 {n}").unwrap();
                }
            }
            Self::Trace => trace_of(values, &mut text),
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

/// A log of `-v` that is made while it is read.
struct Endless {
    lines: u64,
    at: u64,
    line: Vec<u8>,
    place: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Endless {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.place == self.line.len() && self.at < self.lines {
            let latency = 20 + self.at * 7919 % 61;
            self.line = format!("{:8}:{:8}:{latency:8}\n", 0, self.at).into_bytes();
            (self.place, self.at) = (0, self.at + 1);
        }
        Ok(&self.line[self.place..])
    }

    fn consume(&mut self, n: usize) {
        self.place += n;
    }
}

impl Seek for Endless {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        assert_eq!(to, SeekFrom::Start(0));
        (self.at, self.place) = (0, self.line.len());
        Ok(0)
    }
}

#[test]
fn a_hundred_megabytes_of_samples_take_no_more_memory_than_their_values() {
    let lines = 100_000_000 / 27;
    let mut log = Endless { lines, at: 0, line: Vec::new(), place: 0 };
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        stated(&status, "VmRSS:")
    };
    let before = resident();
    let of = import::read(&mut log, &SourceOptions::default()).unwrap();
    let after = resident();
    assert_eq!(of[0].parts[0].samples(), lines);
    assert_eq!(of[0].parts[0].cells.len(), 61);
    assert!(after < before + 64 * 1024, "{before} KiB before, {after} KiB after");
}
