//! The paper's Figure 3: how long a real-time task waits for its exchange, in three kinds of
//! sharing, with three readers and a hog.
//!
//! The kinds take turns, each in a process of its own; a loop that shares with nobody shows what
//! the machine itself takes. Then a bus publishes without a pause, and 10^8 images are read and
//! looked through. `ONBEAT_CONTROL_READINGS=100_000_000 cargo test --release -p onbeat --test
//! control_image` does so with processes too.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onbeat::record::{RunFile, Series};
use onbeat_control::{Client, ControlError, Image, Sharing};
use onbeat_ethercat::layout::Layout;
use onbeat_ethercat::step::BusCycle;
use onbeat_report::units::count;
use onbeat_tune::catalogue::HostTree;
use onbeat_tune::plan::cpus::loop_cpu;

use crate::Length;
use crate::failure::Failure;
use crate::running::Running;
use crate::table::{Finding, Part, format_times};
use crate::turns::{self, Contestant, Spread, in_turns, quantile};

const QUANTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.999, "p99.9"), (1.0, "max")];
const HOLD_NS: f64 = 200_000.0;
/// Beyond one reader's stay: being woken, and getting on the CPU.
const WAY_NS: f64 = 100_000.0;
/// What the exchange may take without a lock.
const WAIT_FREE_NS: f64 = 1_000.0;

/// One kind of sharing.
#[derive(Clone, Copy, Debug)]
struct Trial {
    kind: &'static str,
    readers: u32,
    /// How long a reader stays in each of its readings.
    hold: Option<&'static str>,
}

impl Trial {
    const fn new(kind: &'static str) -> Self {
        Self { kind, readers: 3, hold: None }
    }

    const fn staying(kind: &'static str) -> Self {
        Self { hold: Some("200us"), ..Self::new(kind) }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        if self.readers == 0 {
            f.write_str(" with nobody")?;
        }
        self.hold.map_or(Ok(()), |hold| write!(f, ", readers stay {hold}"))
    }
}

const BRIEF: [Trial; 4] = [
    Trial { readers: 0, ..Trial::new("wait-free") },
    Trial::new("wait-free"),
    Trial::new("pi"),
    Trial::new("plain"),
];
const STAYING: [Trial; 3] =
    [Trial::staying("wait-free"), Trial::staying("pi"), Trial::staying("plain")];

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let seconds: u64 = length.pick(5, 1);
    let rounds = length.pick(5, 1);
    let cpu = loop_cpu(&HostTree::live()).cpu;
    let dir = tempfile::tempdir().map_err(Failure::system("make a directory"))?;
    let title = format!(
        "Exchange of 1,312 bytes at 1 kHz, priority 90 on CPU {cpu}, three readers and a hog of priority 45 beside: medians of {} of \
         {seconds} s each",
        turns::describe(rounds)
    );
    let mut part = Part::alone(title);
    let dir = dir.path();

    for trials in [&BRIEF[..], &STAYING[..]] {
        let mut each: Vec<_> = trials
            .iter()
            .map(|trial| {
                move |round: u32| {
                    eprintln!("sharing: {trial}, turn {} of {rounds}", round + 1);
                    onbeat(dir, *trial, seconds, cpu)
                }
            })
            .collect();
        let mut contestants: Vec<Contestant<'_, [f64; QUANTILES.len()]>> =
            each.iter_mut().map(|contestant| contestant as Contestant<'_, _>).collect();
        let runs = in_turns(rounds, &mut contestants)?;

        for (trial, runs) in trials.iter().zip(&runs) {
            for (place, (share, quantile)) in QUANTILES.into_iter().enumerate() {
                let spread = Spread::from_figures(runs.iter().map(|run| run[place]));
                let finding = Finding::new(format!("{quantile}, {trial}"), format_times(spread));
                let median = spread.map_or(f64::INFINITY, |spread| spread.median);
                let finding = match trial {
                    Trial { kind: "wait-free", readers: 3, .. } if share == 0.999 => {
                        finding.with_goal("≤ 1 µs", median <= WAIT_FREE_NS)
                    }
                    Trial { kind: "pi", hold: Some(_), .. } if share == 0.999 => {
                        finding.with_goal("≤ 1 stay + 100 µs", median <= HOLD_NS + WAY_NS)
                    }
                    _ => finding,
                };

                part.add(if place == 0 { finding.that_begins_a_group() } else { finding });
            }
        }
    }

    part.add(torn(length.pick(100_000_000, 1_000_000))?.that_begins_a_group());
    part.remark(
        "The hog takes 8 of 10 ms of the loop's CPU, where one of the readers runs too. Behind the plain mutex the loop waits until the \
         hog lets that reader go on.",
    );
    Ok(part)
}

/// Counts torn images among those that three threads read while they are published without a pause.
fn torn(readings: u64) -> Result<Finding, Failure> {
    const BYTES: usize = 656;
    const READERS: u64 = 3;
    eprintln!("sharing: {} readings", count(readings));
    let name = format!("peers-{}", std::process::id());
    let layout = Layout { input_bytes: BYTES, output_bytes: BYTES, ..Layout::default() };
    let mut bus = Image::create(&name, &layout, Sharing::WaitFree)?;
    let mut publish = |number: u64| {
        let words = number.to_ne_bytes().repeat(BYTES / 8);
        bus.publish(&BusCycle { cycle: number, ..BusCycle::default() }, &words, &words);
    };

    publish(1);
    let read = || -> Result<(u64, u64), ControlError> {
        let mut client = Client::open(&name)?;
        let mut seen = client.snapshot();
        let mut torn = 0;
        for _ in 0..readings.div_ceil(READERS) {
            client.read(&mut seen)?;
            let number = seen.cycle.cycle.to_ne_bytes();
            let words =
                seen.inputs.as_chunks::<8>().0.iter().chain(seen.outputs.as_chunks::<8>().0);
            torn += u64::from(words.copied().any(|word| word != number));
        }

        Ok((torn, seen.retries))
    };

    let is_over = AtomicBool::new(false);
    let found = thread::scope(|threads| {
        threads.spawn(|| {
            for number in 2.. {
                publish(number);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });

        let readers: Vec<_> = (0..READERS).map(|_| threads.spawn(read)).collect();
        let found: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        found
    });

    let mut torn = 0;
    let mut retries = 0;
    for reader in found {
        let panicked =
            |_| Failure::system("read an image")(std::io::Error::other("a reader panicked"));
        let (its_torn, its_retries) = reader.map_err(panicked)??;
        (torn, retries) = (torn + its_torn, retries + its_retries);
    }

    let formatted = format!("{} ({} read again)", count(torn), count(retries));
    Ok(Finding::new(format!("torn images in {} readings", count(readings)), formatted)
        .with_goal("0", torn == 0))
}

fn onbeat(
    dir: &Path,
    trial: Trial,
    seconds: u64,
    cpu: u32,
) -> Result<[f64; QUANTILES.len()], Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["measure", "sharing", "--json", "--no-causes", "--hog", "--sharing", trial.kind]);
    command.arg(format!("--readers={}", trial.readers));
    command.args(trial.hold.map(|hold| format!("--hold={hold}")));
    command.arg(format!("--for={seconds}s")).arg(format!("--cpu={cpu}"));
    command.arg("--out").arg(dir).env("ONBEAT_STATE_DIR", dir.join("state"));
    Running::start(command)?.finish()?;
    let path = dir.join("latest/sharing.onbeat.hlog");
    let run = RunFile::read(&path)?;
    let text = std::fs::read_to_string(&path).map_err(Failure::system("read a run file"))?;

    if !text.contains("; 0 images were torn") {
        return Err(Failure::Unreadable {
            path,
            program: "onbeat",
            why: "a reader saw a torn image".to_owned(),
        });
    }

    let all = run.distribution(Series::Exchange);
    let buckets = || all.buckets().iter().map(|bucket| (bucket.middle_ns(), bucket.count));
    Ok(QUANTILES.map(|(share, _)| quantile(buckets(), all.count(), share)))
}
