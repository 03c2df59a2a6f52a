//! kill -9 of `onbeat vm pin` at drawn moments: the threads of QEMU are as they were after the next
//! start, or, where the command had ended before, after `tune undo`.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::QEMU;
use super::stand_in::WITH_THREADS;

/// Moments at which the command is killed, drawn from twice the time that it needs.
const DRAWS: u64 = 40;
/// Begins the draws.
const SEED: u64 = 15;

/// A QEMU that is this program, with its control socket, and the state of onbeat beside it.
struct PinBench {
    directory: tempfile::TempDir,
    qemu: Child,
}

impl Drop for PinBench {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl PinBench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(QEMU);
        symlink(std::env::current_exe().unwrap(), &program).unwrap();
        let mut command = Command::new(&program);
        command.arg0(&program).arg(WITH_THREADS).current_dir(directory.path());
        let qemu = command.stdin(Stdio::null()).spawn().unwrap();
        while !directory.path().join("qmp").exists() {
            std::thread::yield_now();
        }
        Self { directory, qemu }
    }

    fn onbeat(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.args(words).current_dir(self.directory.path());
        command.env("ONBEAT_STATE_DIR", self.directory.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn pin(&self) -> Command {
        let cpus = onbeat::host::online_cpus();
        let [first, last] = [cpus.first(), cpus.last()].map(|cpu| cpu.unwrap().to_string());
        self.onbeat(&["vm", "pin", "qmp", "--cpus", &last, "--others", &first, "--priority", "3"])
    }

    /// Runs a command of onbeat that must succeed.
    fn done(&self, words: &[&str]) -> Output {
        let output = self.onbeat(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        output
    }

    /// Name, CPUs, policy and priority of each thread.
    fn threads(&self) -> Vec<String> {
        let tasks = format!("/proc/{}/task", self.qemu.id());
        let mut threads: Vec<String> =
            fs::read_dir(tasks).unwrap().flatten().map(|task| settings_of(&task.path())).collect();
        threads.sort_unstable();
        threads
    }

    fn has_open_journal(&self) -> bool {
        let entries = fs::read_dir(self.directory.path().join("state/journal"));
        let names = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        names.filter(|path| path.extension().is_some_and(|end| end == "journal")).count() > 0
    }
}

fn settings_of(task: &Path) -> String {
    let status = fs::read_to_string(task.join("status")).unwrap();
    let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap();
    let stat = fs::read_to_string(task.join("stat")).unwrap();
    // The fields of proc(5) behind the name: priority, real-time priority and policy.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    format!("{} {cpus} {} {} {}", task.display(), fields[15], fields[37], fields[38])
}

/// SplitMix64: the next draw below `limit`.
fn drawn(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % limit.max(1)
}

pub(crate) fn pin_is_killed() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: placing the threads of QEMU takes root");
        return;
    }
    if onbeat::host::online_cpus().len() < 2 {
        println!("skipped: the threads are placed on two CPUs, and this machine has one");
        return;
    }

    let bench = PinBench::new();
    let before = bench.threads();
    let since = Instant::now();
    assert!(bench.pin().output().unwrap().status.success());
    let whole = since.elapsed();
    assert_ne!(bench.threads(), before, "pinned");
    bench.done(&["tune", "undo"]);
    assert_eq!(bench.threads(), before);

    let (mut state, mut changed) = (SEED, 0);
    for draw in 0..DRAWS {
        let after = Duration::from_nanos(drawn(&mut state, 2 * whole.as_nanos() as u64));
        let mut killed = bench.pin().spawn().unwrap();
        std::thread::sleep(after);
        let _ = killed.kill();
        killed.wait().unwrap();

        changed += u32::from(bench.threads() != before);
        bench.done(&["repair"]);
        // What had ended by itself is kept until it is undone.
        if bench.threads() != before {
            bench.done(&["tune", "undo"]);
        }
        assert_eq!(bench.threads(), before, "draw {draw}: killed after {after:?} of {whole:?}");
        assert!(!bench.has_open_journal(), "draw {draw}: a journal is left");
    }
    assert!(changed > 0, "no draw of {DRAWS} found a thread changed");
}
