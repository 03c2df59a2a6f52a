//! The laboratory of namespaces through the binary: forty devices, a plan's rates, its end by a
//! signal, and nothing left of it after kill -9.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use onbeat::record::{RunFile, RunFileError};
use serde_json::Value;

/// Eight devices behind a slow link of the controller: its rate decides when answers arrive.
const SLOW_LINK: &str = "\
name = \"Eight devices behind 10 Mbit/s\"
[[switches]]
name = \"switch\"
link = \"10M\"
[[devices]]
name = \"board\"
count = 8
to = \"switch\"
link = \"100M\"
";
/// A packet of 200 bytes with all headers and its gap, at 10 Mbit/s.
const SLOW_FRAME_NS: u64 = 266 * 8 * 100;
/// A moment of a kill: when the first histograms are in the run file.
const UNTIL_RECORDED: u64 = u64::MAX;

/// Prints why, and returns false, where no namespaces can be created.
fn can_build() -> bool {
    let made = Command::new("unshare").args(["--net", "true"]).output();
    let can = made.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: no network namespace can be created here; it takes root and unshare");
    }
    can
}

fn lab(out: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["net", "lab", "--priority", "0", "--json", "--out"]).arg(out).args(words);
    command.env("ONBEAT_STATE_DIR", out.join("state")).env("LC_ALL", "C");
    command
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().expect("onbeat");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    output
}

/// The accounts of packets, a run each.
fn accounts(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let summaries = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    summaries.map(|summary| summary["cells"][0]["packets"].clone()).collect()
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of}"))
}

/// Asserts that each packet of a device has its fate, and that none was lost or in doubt.
fn assert_complete(device: &Value, scheduled: u64) {
    assert_eq!(count(device, "scheduled"), scheduled, "{device}");
    let fates = ["answered", "late", "unsent"].map(|fate| count(device, fate));
    assert_eq!(fates.iter().sum::<u64>(), scheduled, "none lost: {device}");
    for name in ["lost", "refused", "duplicates", "strays"] {
        assert_eq!(count(device, name), 0, "{name}: {device}");
    }
}

#[test]
fn forty_devices_answer_at_100_hz_and_at_1_khz_and_every_packet_is_accounted_for() {
    if !can_build() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let words = ["--for", "1s", "--", "--no-causes", "--lost-after", "10s"];
    let output = ran(&mut lab(out.path(), &words));

    let accounts = accounts(&output);
    assert_eq!(accounts.len(), 2, "a run for each period");
    for (account, scheduled) in accounts.iter().zip([100, 1000]) {
        let devices = account["devices"].as_array().expect("devices");
        assert_eq!(devices.len(), 40);
        devices.iter().for_each(|device| assert_complete(device, scheduled));
        let cycles = &account["cycles"];
        assert!(count(cycles, "complete") > 0, "{cycles}");
        assert!(count(&cycles["first"], "p50_ns") <= count(&cycles["last"], "p50_ns"));
        assert_eq!(cycles["latest"][0]["response_ns"].as_array().map(Vec::len), Some(40));
    }
}

#[test]
fn a_slow_link_delays_the_answers_as_planned_and_keeps_their_order() {
    if !can_build() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let plan = out.path().join("slow.toml");
    fs::write(&plan, SLOW_LINK).unwrap();
    let words = ["--periods", "20ms", "--for", "2s", "--", "--no-causes", "--lost-after", "10s"];
    let output = ran(lab(out.path(), &[]).arg(&plan).args(words));

    let account = &accounts(&output)[0];
    let devices = account["devices"].as_array().expect("devices");
    let predicted = account["predicted"]["devices"].as_array().expect("a prediction");
    assert_eq!((devices.len(), predicted.len()), (8, 8));
    for (device, plan) in devices.iter().zip(predicted) {
        assert_complete(device, 100);
        assert_eq!(count(plan, "lost_ppm"), 0);
        let place = count(device, "place_sum") as f64 / count(device, "place_count") as f64;
        let planned = count(plan, "place") as f64;
        assert!((place - planned).abs() <= 0.5, "place {place}, planned {planned}: {device}");
    }

    // A token bucket lets two frames pass at once, then one per frame time.
    let last = &account["cycles"]["last"];
    let least_ns = (8 - 3) * SLOW_FRAME_NS;
    assert!(count(last, "min_ns") >= least_ns, "{last}, at least {least_ns}");
    let planned = &account["predicted"]["last"];
    assert!(count(planned, "p50_ns") >= 7 * SLOW_FRAME_NS, "{planned}");
}

#[test]
fn every_shape_of_a_plan_is_reachable() {
    if !can_build() {
        return;
    }
    let shapes = [
        "[[chains]]\nname = \"joint\"\ncount = 6\nlink = \"1G\"\n",
        "[[switches]]\nname = \"s\"\ncount = 3\nlink = \"1G\"\n[[devices]]\nname = \"d\"\ncount = 6\nto = \"s\"\nlink = \"1G\"\n",
        "[[devices]]\nname = \"alone\"\ncount = 6\nlink = \"1G\"\n",
    ];

    for shape in shapes {
        let out = tempfile::tempdir().unwrap();
        let plan = out.path().join("plan.toml");
        fs::write(&plan, shape).unwrap();
        let words =
            ["--periods", "10ms", "--for", "300ms", "--", "--no-causes", "--lost-after", "10s"];
        let output = ran(lab(out.path(), &[]).arg(&plan).args(words));

        let account = &accounts(&output)[0];
        let devices = account["devices"].as_array().expect("devices");
        assert_eq!(devices.len(), 6, "{shape}");
        devices.iter().for_each(|device| assert_complete(device, 30));
    }
}

/// The namespaces that a process has open or is in, as the kernel names them: `net:[4026532281]`.
fn namespaces_of(pid: &str) -> BTreeSet<PathBuf> {
    let process = Path::new("/proc").join(pid);
    let entries = |below: &str| {
        let entries = fs::read_dir(process.join(below)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let tasks = entries("task").into_iter().map(|task| task.join("ns/net"));
    let links = entries("fd").into_iter().chain(tasks).filter_map(|link| fs::read_link(link).ok());
    links.filter(|to| to.to_string_lossy().starts_with("net:")).collect()
}

/// Who has one of these namespaces.
fn keepers(namespaces: &BTreeSet<PathBuf>) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| !namespaces_of(pid).is_disjoint(namespaces))
        .collect()
}

/// Waits for something that comes soon, as kernels collect the dead. A laboratory of another test
/// may be given the numbers of namespaces that are gone, and has them until it ends itself.
fn soon(what: &str, holds: impl Fn() -> Vec<String>) {
    for _ in 0..1_200 {
        if holds().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}: {:?}", holds());
}

/// The laboratory's own namespaces; the machine's is not among them.
fn own_namespaces(lab: &Child) -> BTreeSet<PathBuf> {
    let machines = fs::read_link("/proc/self/ns/net").unwrap();
    let mut all = namespaces_of(&lab.id().to_string());
    all.remove(&machines);
    all
}

/// Interfaces of this machine, and names of namespaces that `ip netns` would list.
fn machine() -> Vec<PathBuf> {
    let list = |of: &str| {
        let entries = fs::read_dir(of).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut found = [list("/sys/class/net"), list("/run/netns")].concat();
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ["switch", "port", "eth0", "p1", "onbeat"].iter().any(|start| name.starts_with(start))
    });
    found.sort();
    found
}

fn run_files(out: &Path) -> Vec<PathBuf> {
    let runs = fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = runs.filter(|path| path.is_dir() && !path.is_symlink()).flat_map(|run| {
        fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.path())
    });
    files.filter(|path| path.to_string_lossy().ends_with(".onbeat.hlog")).collect()
}

/// Starts a laboratory that runs for long, and waits until it says that it is built.
fn built(out: &Path) -> Child {
    let words = ["--periods", "2ms", "--for", "60s", "--", "--no-causes"];
    let mut child =
        lab(out, &words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("onbeat");
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("40 devices"), "{line}");
    child
}

/// Histograms of all runs.
fn recorded(out: &Path) -> usize {
    let entries = |file: PathBuf| match RunFile::read(&file) {
        Ok(run) => run.entries.len(),
        // Killed before the header was whole: there was nothing recorded to lose.
        Err(RunFileError::Foreign { .. }) => 0,
        Err(why) => panic!("{why}"),
    };
    run_files(out).into_iter().map(entries).sum()
}

fn wait_until_recorded(out: &Path) {
    while recorded(out) == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_laboratory_killed_at_any_moment_leaves_no_namespace_interface_or_process() {
    if !can_build() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let before = machine();
    for wait_ms in [0, 100, 400, UNTIL_RECORDED] {
        let mut lab = built(out.path());
        match wait_ms {
            UNTIL_RECORDED => wait_until_recorded(out.path()),
            _ => std::thread::sleep(Duration::from_millis(wait_ms)),
        }
        let namespaces = own_namespaces(&lab);
        assert!(namespaces.len() >= 2, "those of the controller and the switches: {namespaces:?}");
        lab.kill().unwrap();
        lab.wait().unwrap();
        soon(&format!("keepers, killed after {wait_ms} ms"), || keepers(&namespaces));
        assert_eq!(machine(), before, "killed after {wait_ms} ms");
    }
    // While namespaces are being created, nothing has been said yet.
    for wait_ms in [5, 20, 60] {
        let mut lab = lab(out.path(), &["--for", "60s"]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        let namespaces = own_namespaces(&lab);
        lab.kill().unwrap();
        lab.wait().unwrap();
        soon(&format!("keepers, killed after {wait_ms} ms"), || keepers(&namespaces));
        assert_eq!(machine(), before, "killed after {wait_ms} ms");
    }

    assert!(recorded(out.path()) > 0, "what was recorded before a kill is readable");
    let again = ["--periods", "10ms", "--for", "200ms", "--", "--no-causes"];
    assert_eq!(accounts(&ran(&mut lab(out.path(), &again))).len(), 1, "the next start");
}

#[test]
fn a_signal_ends_the_run_with_its_report_and_the_laboratory_with_it() {
    if !can_build() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let lab = built(out.path());
    let namespaces = own_namespaces(&lab);
    // A run that has not begun is withdrawn.
    wait_until_recorded(out.path());

    let pid = rustix::process::Pid::from_child(&lab);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = lab.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    soon("keepers after SIGINT", || keepers(&namespaces));
    let run = RunFile::read(&run_files(out.path())[0]).unwrap();
    if ended.status.success() {
        assert!(run.end.is_some() && run.packets.is_some(), "closed in order");
    } else {
        // A machine that leaves it no time ends it after two seconds, by the signal.
        let interrupted = rustix::process::Signal::INT.as_raw();
        assert_eq!(ended.status.signal(), Some(interrupted), "{}: {said}", ended.status);
        assert!(!run.entries.is_empty(), "what was recorded is kept");
    }
}

#[test]
fn what_a_laboratory_lacks_is_one_sentence() {
    let out = tempfile::tempdir().unwrap();
    let mut unprivileged = Command::new("setpriv");
    unprivileged
        .args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"])
        .arg(env!("CARGO_BIN_EXE_onbeat"))
        .args(["net", "lab", "--out"])
        .arg(out.path());
    match unprivileged.output() {
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("setpriv:") => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("need root (CAP_SYS_ADMIN"), "{said}");
            assert!(run_files(out.path()).is_empty(), "nothing was begun");
        }
        other => println!("skipped: the case without rights, setpriv gives {other:?}"),
    }

    let mut many = lab(out.path(), &[]);
    let plan = out.path().join("many.toml");
    fs::write(&plan, "[[devices]]\nname = \"d\"\ncount = 200\nlink = \"1G\"\n").unwrap();
    let output = many.arg(&plan).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("200 devices") && said.contains("128"), "{said}");

    let output = lab(out.path(), &["--", "--no-such-option"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("options of `onbeat measure rtt`"), "{said}");
}
