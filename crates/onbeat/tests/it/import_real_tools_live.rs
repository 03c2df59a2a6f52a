//! Tools that are installed here run for a moment, and what is imported of their output equals what
//! they state themselves, read here by a few words each. A tool that is not installed, or that this
//! machine refuses, is printed with the reason.

use std::path::Path;
use std::process::{Command, Stdio};

use onbeat::import::Stream;
use onbeat::record::Series;

use crate::import_world;
use import_world::{figures, streams};

/// Count, minimum, maximum and mean in microseconds, as a tool states them.
type Stated = (u64, f64, f64, f64);

/// Runs a tool in a folder of its own; `None`, with the reason printed, where it cannot.
fn output(folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    // By its path: svsematest makes its semaphores from the file that it was started as.
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|one| one.join(program));
    let path = found.into_iter().find(|path| path.is_file()).unwrap_or_else(|| program.into());
    // What a tool mounts, as hwlatdetect does with debugfs, goes with it.
    let is_apart = path.is_file() && rustix::process::geteuid().is_root();
    let mut command = Command::new(if is_apart { "unshare".as_ref() } else { path.as_os_str() });
    if is_apart {
        command.arg("--mount").arg(&path);
    }
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let ran = match command.output() {
        Ok(ran) => ran,
        Err(error) => {
            println!("skipped: {program}: {error}");
            return None;
        }
    };
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    if ran.status.success() {
        return Some(String::from_utf8_lossy(&ran.stdout).into_owned() + &errors);
    }
    let reason = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    println!("skipped: {program} {arguments:?} ends with {}: {reason}", ran.status);
    None
}

/// Runs a tool for some seconds, longer where a busy machine has left it no sample in them.
fn until_it_has(
    has_samples: impl Fn(&str) -> bool,
    run: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    for seconds in ["1", "10"] {
        let text = run(seconds)?;
        if has_samples(&text) {
            return Some(text);
        }
    }
    run("60")
}

/// The number behind a name, such as `Min:`.
fn behind(line: &str, name: &str) -> f64 {
    let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("{name} in {line:?}"));
    let end = |c: char| !(c.is_ascii_digit() || c == '.');
    let number = rest.trim_start().split(end).next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("{name} in {line:?}"))
}

/// The last line of each thread: `T: 0 (812) P:80 I:1000 C: 9980 Min: 4 Act: 6 Avg: 9 Max: 53`.
fn of_threads(text: &str) -> Vec<Stated> {
    let mut threads: Vec<Stated> = Vec::new();
    for line in text.lines().filter_map(|line| line.find("T:").map(|at| &line[at..])) {
        let thread = behind(line, "T:") as usize;
        let of = |name: &str| behind(line, name);
        let stated = (of(" C:") as u64, of("Min:"), of("Max:"), of("Avg:"));
        match threads.get_mut(thread) {
            Some(known) => *known = stated,
            None => threads.push(stated),
        }
    }
    threads
}

/// The last state of a pair: `... Cycles 100` and `#1 -> #0, Min 2, Cur 24, Avg 129, Max 12534`.
fn of_a_pair(text: &str) -> Vec<Stated> {
    let last = |what: &str| text.lines().rfind(|line| line.contains(what)).unwrap();
    let (counted, figures) = (last("Cycles "), last("-> #0"));
    let of = |name: &str| behind(figures, name);
    vec![(behind(counted, "Cycles ") as u64, of("Min"), of("Max"), of("Avg"))]
}

/// `# Min Latencies: 00066 00071` below a histogram, of each thread.
fn below_a_histogram(text: &str) -> Vec<Stated> {
    let row = |name: &str| -> Vec<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    let (counts, beyond) = (row("# Total:"), row("# Histogram Overflows:"));
    let [min, avg, max] = ["# Min Latencies:", "# Avg Latencies:", "# Max Latencies:"].map(row);
    let thread = |at: usize| ((counts[at] + beyond[at]) as u64, min[at], max[at], avg[at]);
    (0..counts.len()).map(thread).collect()
}

/// Every sample of `cyclictest -v`: `       0:       1:      57`.
fn of_samples(text: &str) -> Vec<Stated> {
    let value = |line: &str| {
        let parts: Vec<&str> = line.split(':').map(str::trim).collect();
        match parts.as_slice() {
            [thread, _, value] if *thread == "0" => value.parse::<f64>().ok(),
            _ => None,
        }
    };
    let values: Vec<f64> = text.lines().filter_map(value).collect();
    let n = values.len();
    let (min, max) = values
        .iter()
        .fold((f64::MAX, 0.0_f64), |(min, max), value| (min.min(*value), max.max(*value)));
    vec![(n as u64, min, max, values.iter().sum::<f64>() / n as f64)]
}

/// What is imported equals what was stated; `unit_us` is how finely the tool prints.
fn assert_equal(what: &str, imported: &[Stream], stated: &[Stated], unit_us: f64) {
    assert_eq!(imported.len(), stated.len(), "{what}");
    for (stream, (n, min, max, mean)) in imported.iter().zip(stated) {
        let series: Series = stream.parts[0].series;
        let (count, min_ns, max_ns, mean_ns) = figures(stream, series);
        let us = |ns: u64| ns as f64 / 1000.0;
        let is_close = |a: f64, b: f64| (a - b).abs() <= unit_us + 1e-9;
        assert_eq!(count, *n, "{what}: count");
        assert!(is_close(us(min_ns), *min), "{what}: min {min_ns} ns, stated {min} µs");
        assert!(is_close(us(max_ns), *max), "{what}: max {max_ns} ns, stated {max} µs");
        assert!(is_close(mean_ns / 1000.0, *mean), "{what}: mean {mean_ns} ns, stated {mean} µs");
    }
    println!("{what}: {stated:?}");
}

#[test]
fn every_form_of_cyclictest_is_what_it_states_live() {
    let folder = tempfile::tempdir().unwrap();
    // One thread: the run ends with the first that is done, and another may have no sample by then.
    let usual = ["-l", "200", "-i", "1000", "-t", "1"];
    let run = |more: &[&str]| output(folder.path(), "cyclictest", &[&usual, more].concat());

    for (name, more) in [("cyclictest", &[][..]), ("cyclictest -q", &["-q"])] {
        let Some(text) = run(more) else { return };
        assert_equal(name, &streams(&text), &of_threads(&text), 0.0);
    }
    for (name, more) in [("-h", ["-q", "-h", "20000"]), ("-h, fewer", ["-q", "-h", "9000"])] {
        let Some(text) = run(&more) else { return };
        assert_equal(name, &streams(&text), &below_a_histogram(&text), 0.0);
    }
    if run(&["-q", "-h", "20000", "--histfile=histogram"]).is_some() {
        let text = std::fs::read_to_string(folder.path().join("histogram")).unwrap();
        assert_equal("--histfile", &streams(&text), &below_a_histogram(&text), 0.0);
    }
    if let Some(text) =
        output(folder.path(), "cyclictest", &["-v", "-l", "200", "-i", "1000", "-t", "1"])
    {
        assert_equal("-v", &streams(&text), &of_samples(&text), 0.01);
    }
    for more in [&["-q", "--json=figures"][..], &["-q", "-h", "20000", "--json=figures"]] {
        if run(more).is_none() {
            return;
        }
        let text = std::fs::read_to_string(folder.path().join("figures")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let of = |thread: &serde_json::Value| {
            let number = |name: &str| thread[name].as_f64().unwrap();
            (thread["cycles"].as_u64().unwrap(), number("min"), number("max"), number("avg"))
        };
        let stated: Vec<Stated> = json["thread"].as_object().unwrap().values().map(of).collect();
        assert_equal("--json", &streams(&text), &stated, 0.01);
    }
}

#[test]
fn the_other_programs_of_rt_tests_are_what_they_state_live() {
    let folder = tempfile::tempdir().unwrap();
    for program in ["ptsematest", "pmqtest", "svsematest", "sigwaittest"] {
        let Some(text) = output(folder.path(), program, &["-t1", "-l100", "-i1000"]) else {
            continue;
        };
        assert_equal(program, &streams(&text), &of_a_pair(&text), 0.0);
    }
    if let Some(text) = output(folder.path(), "signaltest", &["-t1", "-l200", "-q"]) {
        assert_equal("signaltest", &streams(&text), &of_threads(&text), 0.0);
    }
    let has_samples = |text: &str| of_threads(text).first().is_some_and(|(count, ..)| *count > 0);
    let run = |seconds: &str| {
        let lasting = format!("-D{seconds}");
        output(folder.path(), "cyclicdeadline", &["-i10000", "-t1", &lasting, "-q"])
    };
    if let Some(text) = until_it_has(has_samples, run) {
        assert_equal("cyclicdeadline", &streams(&text), &of_threads(&text), 0.0);
    }
    println!(
        "skipped: pi_stress states a number of inversions and no times, queuelat buckets of 100 ns and no maximum"
    );
    if let Some(text) = output(folder.path(), "hwlatdetect", &["--duration=1s"]) {
        // Without a gap above its threshold there is nothing to import.
        println!("hwlatdetect: {text}");
    }
}

/// oslat rounds each gap up to a microsecond: a gap of up to 1 is stated as 1, and half of that is
/// too much on average.
#[test]
fn oslat_is_what_it_states_without_its_rounding_live() {
    let folder = tempfile::tempdir().unwrap();
    let Some(text) = output(folder.path(), "oslat", &["-D", "1", "-c", "0"]) else { return };
    let of = |name: &str| text.lines().find(|line| line.trim().starts_with(name)).unwrap();
    let is_row = |line: &&str| line.contains("(us):") && line.trim().as_bytes()[0].is_ascii_digit();
    let count = text.lines().filter(is_row).map(|line| behind(line, "(us):") as u64).sum();
    let [min, mean, max] = ["Minimum", "Average", "Maximum"].map(|name| behind(of(name), ":"));
    let stated = (count, min - 1.0, max, mean - 0.5);
    assert_equal("oslat", &streams(&text), &[stated], 0.001);
}

#[test]
fn stress_ng_is_what_it_states_with_its_distribution_and_without_live() {
    let folder = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--cyclic-dist", "10000"]] {
        let run = |seconds: &str| {
            let usual = ["--cyclic", "1", "--cyclic-sleep", "1000000", "-t", seconds];
            output(folder.path(), "stress-ng", &[&usual, more].concat())
        };
        let Some(text) = until_it_has(|text| text.contains("mean:"), run) else { return };
        let line = |what: &str| text.lines().find(|line| line.contains(what)).unwrap();
        let (head, mean, extremes) = (line("cyclic: sched"), line("mean:"), line("min:"));
        let samples = behind(head, "delay,") as u64;
        let us = |line: &str, name: &str| behind(line, name) / 1000.0;
        let stated = (samples, us(extremes, "min:"), us(extremes, "max:"), us(mean, "mean:"));
        assert_equal(&format!("stress-ng {more:?}"), &streams(&text), &[stated], 0.001);
    }
}

#[test]
fn ping_is_what_it_states_live() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-c", "5", "-i", "0.2", "127.0.0.1"];
    let Some(text) = output(folder.path(), "ping", &arguments) else { return };
    let line = text.lines().rfind(|line| line.contains("min/avg/max")).unwrap();
    let numbers = line.split_once('=').unwrap().1.trim().split([' ', '/']);
    let ms: Vec<f64> = numbers.filter_map(|number| number.parse().ok()).collect();
    let received = text.lines().find(|line| line.contains(" received")).unwrap();
    let received = behind(received, "transmitted,") as u64;
    let stated = (received, ms[0] * 1e3, ms[2] * 1e3, ms[1] * 1e3);
    // It prints microseconds, and its mean is of what it did not print.
    assert_equal("ping", &streams(&text), &[stated], 1.0);
}

#[test]
fn rtla_is_what_it_states_live() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["timerlat", "hist", "-d", "1s", "-c", "0", "-e", "100"];
    if let Some(text) = output(folder.path(), "rtla", &arguments) {
        let imported = streams(&text);
        assert!(!imported.is_empty());
        println!("rtla: {} streams", imported.len());
    }
    println!("skipped: jHiccup is not installed; its logs are in tests/import_files/hiccups.hlog");
}
