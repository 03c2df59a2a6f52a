//! kill -9 of `onbeat vm trace` and `onbeat vm study` at drawn moments, with real guests: `make
//! test-vm-trace`. `ONBEAT_KILLS` is the number of kills, 8 without it.
//!
//! After the next start (`onbeat repair`, which every command begins with, and the opening of the
//! work directory) nothing is left: neither a guest, nor its directory with the shared page, nor an
//! instance of the kernel's tracing, nor an open journal, nor a mount.

use crate::test_lab;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use onbeat::cause::Tracefs;
use onbeat_lab::vm::WorkDirectory;
use onbeat_tune::{HostFiles, LiveHost};

use test_lab::TestLab;

const RT: &str = "linux-image-6.12-rt-amd64";
/// Moments, drawn from the time that a whole trace takes.
const DRAWS: u32 = 8;
/// Waits at most this long for a guard; how long it took is printed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Begins the draws.
const SEED: u64 = 15;

/// What a trace may leave on the host.
#[derive(Debug, Default, PartialEq, Eq)]
struct HostLeftovers {
    guests: Vec<PathBuf>,
    processes: Vec<u32>,
    instances: Vec<String>,
    journals: Vec<PathBuf>,
    mounts: Vec<String>,
}

struct TraceBench<'l> {
    lab: &'l TestLab,
    state: tempfile::TempDir,
}

impl TraceBench<'_> {
    fn onbeat(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.lab.onbeat);
        command.args(words).env("ONBEAT_STATE_DIR", self.state.path());
        command.current_dir(self.state.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        command
    }

    /// A short trace on the last CPU.
    fn trace(&self) -> Command {
        let cpu = onbeat::host::online_cpus().last().copied().expect("a CPU").to_string();
        let path = |path: &Path| path.to_str().expect("a path").to_owned();
        let (work, onbeat) = (path(&self.lab.work.path), path(&self.lab.onbeat));
        let words = ["vm", "trace", RT, "--cpu", &cpu, "--work", &work, "--onbeat", &onbeat];
        let job = "--exchanges 100 --out out -- measure latency --period 5ms --for 1s";
        let mut command = self.onbeat(&words);
        command.args(download()).args(job.split(' '));
        command
    }

    /// What is left of a process of onbeat that has ended; other guests may run beside it.
    fn left_by(&self, pid: u32) -> HostLeftovers {
        let guests = fs::canonicalize(&self.lab.work.path).expect("a path").join("guests");
        // The directory of a guest is named after its starter.
        let is_own = |path: &Path| {
            let name = path.strip_prefix(&guests).ok().and_then(|below| below.to_str());
            name.is_some_and(|name| name.starts_with(&format!("onbeat-{pid}-")))
        };
        let processes = fs::read_dir("/proc").expect("processes").flatten();
        let runs_there = processes.filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| is_own(&cwd))
        });

        let mut directories = entries(&guests);
        directories.retain(|path| is_own(path));
        HostLeftovers {
            processes: runs_there
                .filter_map(|one| one.file_name().to_str()?.parse().ok())
                .collect(),
            guests: directories,
            instances: instances_of(pid),
            journals: entries(&self.state.path().join("journal")),
            mounts: mounts(),
        }
    }
}

/// Where the kernel's package may be fetched, as [`TestLab`] may.
fn download() -> Option<&'static str> {
    std::env::var_os("ONBEAT_VM_DOWNLOAD").map(|_| "--download")
}

fn instances_of(pid: u32) -> Vec<String> {
    let tracing = Tracefs::open().expect("the kernel's tracing");
    let mut names = tracing.instances().expect("instances");
    names.retain(|name| name.starts_with(&format!("onbeat-{pid}-")));
    names
}

/// Mounts of the kernel's tracing.
fn mounts() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let of_tracing = |line: &&str| line.contains(" tracefs ") || line.contains(" debugfs ");
    mounts.lines().filter(of_tracing).map(str::to_owned).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // The lock of a directory stays, and is nobody's.
    let is_lock =
        |path: &PathBuf| path.ends_with("lock") || path.extension() == Some("lock".as_ref());
    paths.retain(|path| !is_lock(path));
    paths.sort_unstable();
    paths
}

/// SplitMix64: the next draw below `limit`.
fn drawn(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % limit.max(1)
}

fn draws() -> u32 {
    std::env::var("ONBEAT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(DRAWS)
}

#[test]
fn a_killed_trace_leaves_nothing_after_the_next_start() {
    let Some(lab) = TestLab::open() else { return };
    if !LiveHost::new().is_root() {
        println!("skipped: tracing the host takes root");
        return;
    }

    let traced = TraceBench { lab: &lab, state: tempfile::tempdir().expect("a directory") };
    let before = HostLeftovers { mounts: mounts(), ..HostLeftovers::default() };
    let since = Instant::now();
    let whole_trace = traced.trace().spawn().expect("a trace");
    let pid = whole_trace.id();
    let output = whole_trace.wait_with_output().expect("its end");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let whole = since.elapsed();
    assert_eq!(traced.left_by(pid), before, "after a whole trace");

    let (mut state, mut while_tracing) = (SEED, 0);
    for draw in 0..draws() {
        let after = Duration::from_nanos(drawn(&mut state, whole.as_nanos() as u64));
        let mut killed = traced.trace().spawn().expect("a trace");
        let pid = killed.id();
        std::thread::sleep(after);
        killed.kill().expect("a signal");
        killed.wait().expect("its end");
        while_tracing += u32::from(!instances_of(pid).is_empty());

        let repaired = traced.onbeat(&["repair"]).status().expect("a repair");
        assert!(repaired.success(), "draw {draw}: {repaired}");
        WorkDirectory::open(&lab.work.path).expect("a work directory");
        // A guest that got its starter's signal may still be giving up its memory; without the
        // signal this would not end.
        while !traced.left_by(pid).processes.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(traced.left_by(pid), before, "draw {draw}: killed after {after:?} of {whole:?}");
    }
    println!("{} traces of {whole:.1?} killed, {while_tracing} of them while they traced", draws());
    assert!(while_tracing > 0, "no draw found a trace in progress");
}

/// What the settings of the study below are on this machine.
fn settings() -> Vec<String> {
    let files = ["/proc/sys/vm/swappiness", "/proc/sys/vm/stat_interval"];
    files.iter().map(|file| fs::read_to_string(file).expect("a setting")).collect()
}

/// The guard of a study undoes its settings, and its guest ends, without a second command.
#[test]
fn a_killed_study_leaves_the_machine_as_it_was() {
    let Some(lab) = TestLab::open() else { return };
    if !LiveHost::new().is_root() {
        println!("skipped: the settings of a study take root");
        return;
    }

    let studied = TraceBench { lab: &lab, state: tempfile::tempdir().expect("a directory") };
    let before = (settings(), HostLeftovers { mounts: mounts(), ..HostLeftovers::default() });
    let file = studied.state.path().join("study.toml");
    let text = format!(
        "kernel = \"{RT}\"\nloads = [{{ name = \"idle\" }}]\n\
         [[stage]]\nname = \"host\"\nsettings = [\"mem.swappiness\", \"timer.vmstat\"]\n"
    );
    fs::write(&file, text).expect("a study");
    let place = |path: &Path| path.to_str().expect("a path").to_owned();
    let study = |out: &str| {
        let (work, onbeat) = (place(&lab.work.path), place(&lab.onbeat));
        let words = ["vm", "study", &place(&file), "--quick", "--work", &work, "--onbeat", &onbeat];
        let mut command = studied.onbeat(&words);
        command.args(download()).args(["--out", out]).spawn().expect("a study")
    };

    let since = Instant::now();
    let output = study("whole").wait_with_output().expect("its end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let whole = since.elapsed();
    let (mut state, mut killed_ones, mut changed, mut longest) = (SEED, 0, 0, Duration::ZERO);
    for draw in 0..draws() {
        let mut killed = study(&format!("out-{draw}"));
        let pid = killed.id();
        std::thread::sleep(Duration::from_nanos(drawn(&mut state, whole.as_nanos() as u64)));
        changed += u32::from(settings() != before.0);
        killed.kill().expect("a signal");
        killed_ones += u32::from(killed.wait().expect("its end").code().is_none());

        let since = Instant::now();
        while (settings(), HostLeftovers { guests: Vec::new(), ..studied.left_by(pid) }) != before {
            assert!(since.elapsed() < PATIENCE, "draw {draw}: {:?}", studied.left_by(pid));
            std::thread::sleep(Duration::from_millis(5));
        }
        longest = longest.max(since.elapsed());
        // The directory of a killed guest is the next start's to remove.
        WorkDirectory::open(&lab.work.path).expect("a work directory");
        assert_eq!(studied.left_by(pid), before.1, "draw {draw}");
    }
    println!(
        "{killed_ones} studies of {whole:.1?} killed, {changed} under settings, as before after {longest:.1?}"
    );
    assert!(changed > 0 && killed_ones > 0, "no draw found a changed machine");
}
