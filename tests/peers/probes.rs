//! Probes beside the tools that measure the same: `hiccup` beside a loop on the JVM that counts as
//! jHiccup does, `latency` beside `cyclictest` at 10 kHz. `timer` beside `cyclictest` is the part
//! `wakeup`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use onbeat::record::{RunFile, Series};
use onbeat_report::units::percent;
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;

use crate::Length;
use crate::cyclictest::{self, Cyclictest};
use crate::failure::Failure;
use crate::running::Running;
use crate::table::{Finding, Part, format_times};
use crate::timer::IdleStates;
use crate::turns::{self, Contestant, Spread, in_turns, quantile};
use crate::wakeup::watch;

const QUANTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];
/// The smallest difference that the loop on the JVM records: two digits from 20 µs on.
const JVM_RESOLUTION_NS: f64 = 20_000.0;
const LATENCY_PERIOD_US: u64 = 100;

/// What one run came to.
#[derive(Clone, Debug)]
struct Figures {
    quantiles_ns: [f64; QUANTILES.len()],
    cpu: f64,
    resident_bytes: f64,
}

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let seconds = length.pick(8, 2);
    let rounds = length.pick(5, 1);
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let cpu = loop_cpu(&HostTree::live()).cpu;
    let title = format!(
        "Probes beside tools that measure the same: medians of {} of {seconds} s each",
        turns::describe(rounds)
    );
    let mut part = Part::new(title, "the other");
    let announce =
        |round: u32, what: &str| eprintln!("probes: {what}, turn {} of {rounds}", round + 1);
    let mut hiccup = |round| {
        announce(round, "hiccup");
        onbeat(dir.path(), &["hiccup", "--no-lock-memory"], Series::Hiccup, seconds)
    };

    let classes = classes();
    if let Some(classes) = &classes {
        let mut jvm = |round| {
            announce(round, "hiccups on the JVM");
            on_the_jvm(dir.path(), classes, seconds)
        };

        let mut contestants: Vec<Contestant<'_, Figures>> = vec![&mut hiccup, &mut jvm];
        let mut runs = in_turns(rounds, &mut contestants)?.into_iter();
        hiccups(&mut part, &runs.next().unwrap_or_default(), &runs.next().unwrap_or_default());
    } else {
        part.remark("java or mvn is not installed (packages default-jdk-headless, maven): no loop on the JVM.");
    }

    if cyclictest::version().is_none() {
        part.remark("cyclictest is not installed (package rt-tests).");
        return Ok(part);
    }

    let on_cpu = format!("--cpu={cpu}");
    let mut latency = |round| {
        announce(round, "latency");
        let words = ["latency", "--priority=90", "--dma-latency=0", &on_cpu];
        onbeat(dir.path(), &words, Series::WakeupLatency, seconds)
    };

    let mut theirs = |round| {
        announce(round, "cyclictest");
        peer(dir.path(), seconds, cpu)
    };

    let mut contestants: Vec<Contestant<'_, Figures>> = vec![&mut latency, &mut theirs];
    let mut runs = in_turns(rounds, &mut contestants)?.into_iter();
    let ours = runs.next().unwrap_or_default();
    let theirs = runs.next().unwrap_or_default();
    rows(&mut part, ("latency", "cyclictest"), &ours, &theirs);
    Ok(part)
}

fn hiccups(part: &mut Part, ours: &[Figures], theirs: &[Figures]) {
    rows(part, ("hiccup", "JVM"), ours, theirs);
    let quarter =
        |part: &mut Part, what: &str, of: fn(&Figures) -> f64, formatted: fn(f64) -> String| {
            let (ours, theirs): (Vec<f64>, Vec<f64>) =
                (ours.iter().map(of).collect(), theirs.iter().map(of).collect());
            let ratio = Spread::of_ratios(&ours, &theirs);
            let median = |figures: &[f64]| {
                Spread::from_figures(figures.iter().copied())
                    .map_or_else(String::new, |s| formatted(s.median))
            };
            let finding = Finding::new(format!("{what}, hiccup | JVM"), median(&ours))
                .beside(median(&theirs))
                .with_ratio(ratio);
            part.add(finding.with_goal("≤ 1/4", ratio.is_some_and(|ratio| ratio.median <= 0.25)));
        };

    quarter(part, "CPU of the process", |run| run.cpu, percent);
    quarter(
        part,
        "memory at its largest",
        |run| run.resident_bytes,
        |bytes| format!("{:.1} MB", bytes / 1e6),
    );
    let apart = ours
        .iter()
        .zip(theirs)
        .map(|(ours, theirs)| (ours.quantiles_ns[0] - theirs.quantiles_ns[0]).abs());
    let apart = Spread::from_figures(apart);
    let same = apart.is_some_and(|apart| apart.median <= JVM_RESOLUTION_NS);
    part.add(
        Finding::new("p50 apart, hiccup | JVM", format_times(apart)).with_goal("≤ 20 µs", same),
    );
}

fn rows(part: &mut Part, (name, other): (&str, &str), ours: &[Figures], theirs: &[Figures]) {
    for (place, (_, quantile)) in QUANTILES.into_iter().enumerate() {
        let of = |runs: &[Figures]| -> Vec<f64> {
            runs.iter().map(|run| run.quantiles_ns[place]).collect()
        };
        let ours = of(ours);
        let theirs = of(theirs);
        let ratio = Spread::of_ratios(&ours, &theirs);
        let finding = Finding::new(
            format!("{quantile}, {name} | {other}"),
            format_times(Spread::from_figures(ours)),
        )
        .beside(format_times(Spread::from_figures(theirs)))
        .with_ratio(ratio);
        part.add(if place == 0 { finding.that_begins_a_group() } else { finding });
    }
}

fn onbeat(dir: &Path, words: &[&str], series: Series, seconds: u64) -> Result<Figures, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command
        .arg("measure")
        .args(words)
        .args(["--json", "--no-causes"])
        .arg(format!("--for={seconds}s"));
    command.arg("--out").arg(dir).env("ONBEAT_STATE_DIR", dir.join("state"));
    let running = Running::start_looping(command)?;
    let cpu = watch(&running, Duration::from_secs(seconds)).map_or(f64::NAN, |share| share.process);
    let resident_bytes = running.resident_peak_bytes();
    running.finish()?;
    let run = RunFile::read(&dir.join(format!("latest/{}.onbeat.hlog", words[0])))?;

    Ok(Figures { quantiles_ns: quantiles(&run, series), cpu, resident_bytes })
}

fn quantiles(run: &RunFile, series: Series) -> [f64; QUANTILES.len()] {
    let all = run.distribution(series);
    let buckets = || all.buckets().iter().map(|bucket| (bucket.middle_ns(), bucket.count));
    QUANTILES.map(|(q, _)| quantile(buckets(), all.count(), q))
}

fn on_the_jvm(dir: &Path, classes: &str, seconds: u64) -> Result<Figures, Failure> {
    let log = dir.join("jvm.hlog");
    let mut command = Command::new("java");
    // It takes a moment to start: the same seconds are measured, and a second more for the machine
    // to warm up.
    command.args(["-cp", classes, "onbeat.HiccupLoop", "-r", "1", "-i", "1000", "-t"]);
    command.arg((seconds + 1).to_string()).arg(&log);
    let running = Running::start(command)?;
    let cpu = watch(&running, Duration::from_secs(seconds)).map_or(f64::NAN, |share| share.process);
    let resident_bytes = running.resident_peak_bytes();
    running.finish()?;
    let imported = dir.join("jvm");
    let _ = std::fs::remove_dir_all(&imported);
    let mut import = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    import.arg("import").arg(&log).args(["--as", "hiccup", "-o"]).arg(&imported);
    Running::start(import)?.finish()?;
    let file = std::fs::read_dir(&imported).map_err(Failure::system("read an imported run"))?;
    let mut files = file.flatten().map(|entry| entry.path());
    let run = files.find(|path| path.to_string_lossy().ends_with(".onbeat.hlog")).unwrap_or(log);

    Ok(Figures {
        quantiles_ns: quantiles(&RunFile::read(&run)?, Series::Hiccup),
        cpu,
        resident_bytes,
    })
}

fn peer(dir: &Path, seconds: u64, cpu: u32) -> Result<Figures, Failure> {
    let cyclictest =
        Cyclictest { interval_us: LATENCY_PERIOD_US, seconds, cpu, idle: IdleStates::Held };
    let answer = cyclictest.run(dir, |running| Ok(watch(running, cyclictest.duration())))?;
    let cpu = answer.cpu.map_or(f64::NAN, |share| share.process);
    Ok(Figures {
        quantiles_ns: QUANTILES.map(|(q, _)| answer.quantile_ns(q)),
        cpu,
        resident_bytes: f64::NAN,
    })
}

/// The class path of the loop on the JVM, compiled here; `None` without Java or Maven.
fn classes() -> Option<String> {
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/java");
    let goals =
        ["compiler:compile", "dependency:build-classpath", "-Dmdep.outputFile=target/classpath"];
    // It colours nothing, but ends its colours.
    let mut maven = Command::new("mvn");
    let compiled = maven
        .args(["-q", "-B"])
        .args(goals)
        .current_dir(&project)
        .stdout(Stdio::null())
        .status()
        .ok()?;
    let dependencies = std::fs::read_to_string(project.join("target/classpath")).ok()?;
    let has_java = Command::new("java").arg("-version").output().is_ok();
    let path = format!("{}:{}", project.join("target/classes").display(), dependencies.trim());

    (compiled.success() && has_java).then_some(path)
}
