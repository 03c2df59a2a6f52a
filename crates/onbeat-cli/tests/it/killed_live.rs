//! kill -9 at any moment: no load keeps running, no shield stays, and the recorded part is
//! readable.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use onbeat::record::{RunFile, RunFileError};

const MOMENTS: u64 = 12;
const ROBOT_MOMENTS: u64 = 4;
/// A word in the environment of everything that the bench starts, and of nothing else on this
/// machine.
const MARK: &str = "ONBEAT_TEST_KILLED";

/// Both tests shield a CPU and compare the whole host.
static HOST: Mutex<()> = Mutex::new(());

/// What of the host a bench changes: who may run where.
#[derive(Debug, PartialEq, Eq)]
struct HostState {
    cgroups: Vec<PathBuf>,
    interrupts: BTreeMap<PathBuf, String>,
    default_affinity: String,
}

fn host_state() -> HostState {
    let dirs = |base: &str| {
        let entries = fs::read_dir(base).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };

    let mut cgroups = [dirs("/sys/fs/cgroup"), dirs("/sys/fs/cgroup/cpuset")].concat();
    cgroups.sort();
    let affinity = |irq: PathBuf| {
        let file = irq.join("smp_affinity_list");
        Some((file.clone(), fs::read_to_string(file).ok()?))
    };

    HostState {
        cgroups,
        interrupts: dirs("/proc/irq").into_iter().filter_map(affinity).collect(),
        default_affinity: fs::read_to_string("/proc/irq/default_smp_affinity").unwrap_or_default(),
    }
}

/// Everything alive that carries the mark, with its command line.
fn alive(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let marked = processes.filter(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|entry| entry == wanted.as_bytes())
    });

    marked
        .filter_map(|process| {
            let words = fs::read(process.join("cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            // A process that is only waiting to be collected has no words left.
            (!words.is_empty()).then(|| format!("{} {words}", process.display()))
        })
        .collect()
}

fn onbeat(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command
        .env("ONBEAT_STATE_DIR", state)
        .env("LC_ALL", "C")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn run_files_are_readable(dir: &Path) -> usize {
    let files = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> =
        files.filter(|path| path.to_string_lossy().ends_with(".onbeat.hlog")).collect();
    for file in &files {
        match RunFile::read(file) {
            // Killed before the header was whole: there was nothing recorded to lose.
            Ok(_) | Err(RunFileError::Foreign { .. }) => {}
            Err(why) => panic!("{why}"),
        }
    }

    files.len()
}

/// Waits for something that comes soon, as kernels collect the dead: the hundreds of processes of a
/// load too, one after the other, on a busy machine.
fn soon(what: &str, holds: impl Fn() -> Vec<String>) {
    for _ in 0..1_200 {
        if holds().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}: {:?}", holds());
}

/// What is killed: after a time, or when it has begun a run file, and with what it has recorded below
/// `out`.
struct Victim<'v> {
    words: &'v [&'v str],
    out: &'v Path,
    wait_ms: Option<u64>,
    moment: u64,
}

fn wait_for_a_run_file(victim: &mut Child, out: &Path) {
    while run_files_are_readable(&out.join("latest")) == 0 {
        assert!(victim.try_wait().unwrap().is_none(), "it has ended without a run file");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts, kills, and starts again: nothing may be left. Returns how many run files are readable.
fn leaves_nothing(state: &Path, victim: &Victim<'_>, before: &HostState) -> usize {
    let Victim { words, out, wait_ms, moment } = victim;
    let mark = format!("{}-{}-{moment}", std::process::id(), words[0]);
    let mut killed =
        onbeat(state).args(*words).arg("--out").arg(out).env(MARK, &mark).spawn().unwrap();
    match wait_ms {
        Some(wait_ms) => std::thread::sleep(Duration::from_millis(*wait_ms)),
        None => wait_for_a_run_file(&mut killed, out),
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let repaired = onbeat(state).arg("repair").stdout(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&repaired.stdout);

    assert!(
        repaired.status.success(),
        "the next start puts things back (killed after {wait_ms:?} ms): {said}"
    );
    soon(&format!("alive, killed after {wait_ms:?} ms"), || alive(&mark));
    assert_eq!(host_state(), *before, "killed after {wait_ms:?} ms: {said}");
    run_files_are_readable(&out.join("latest"))
}

#[test]
fn a_bench_or_a_tuned_robot_killed_at_any_moment_leaves_nothing_behind() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let out = dir.path().join("runs");
    let before = host_state();
    let seed = fastrand::u64(..);
    println!("moments drawn with seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut readable = 0;

    let bench = ["bench", "--tunings", "none,C,PMC", "--loads", "paper,idle", "--for", "9s"];
    for moment in 0..MOMENTS {
        // From before the first process starts to the end of the first loaded blocks.
        let wait_ms = rng.u64(0..if moment % 2 == 0 { 1_500 } else { 3_800 });
        let victim = Victim { words: &bench, out: &out, wait_ms: Some(wait_ms), moment };
        readable += leaves_nothing(&state, &victim, &before);
    }
    // A slow machine may have come to no file before any of them.
    let victim = Victim { words: &bench, out: &out, wait_ms: None, moment: MOMENTS };
    readable += leaves_nothing(&state, &victim, &before);

    let robot = ["robot", "run", "humanoid", "--tuning", "PMC", "--load", "cpu=50%", "--for", "9s"];
    for moment in 0..ROBOT_MOMENTS {
        // From before the load starts to the run under the shield.
        let wait_ms = Some(rng.u64(0..2_000));
        let victim = Victim { words: &robot, out: &out, wait_ms, moment };
        readable += leaves_nothing(&state, &victim, &before);
    }

    assert!(readable > 0, "some moments came after the first file was there");
}

#[test]
fn a_run_under_a_tuning_says_what_was_made_and_leaves_the_host_as_it_was() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let before = host_state();
    for words in [
        ["robot", "run", "humanoid", "--tuning", "PMC", "--load", "cpu=20%", "--for", "1s"],
        ["measure", "timer", "--no-causes", "--tuning", "PC", "--load", "cpu=20%", "--for", "1s"],
    ] {
        let state = dir.path().join("state");
        let mut run = onbeat(&state);
        run.args(words).args(["--json", "--out"]).arg(dir.path());
        let output = run.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("CPU shield") {
            println!("skipped: {words:?} is not permitted here: {said}");
            assert_eq!(output.status.code(), Some(2), "{said}");
            continue;
        }

        assert!(said.contains("is shielded by"), "{said}");
        let files: Vec<PathBuf> = fs::read_dir(dir.path().join("latest"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(".onbeat.hlog"))
            .collect();
        let file = RunFile::read(&files[0]).unwrap();
        let has_shield = |grant: &onbeat::thread::Grant| grant.what == "CPU shield";
        assert!(file.header.grants.iter().any(|grant| has_shield(grant) && grant.granted));
        assert_eq!(host_state(), before, "after {words:?}");
        let repaired = onbeat(&state).arg("repair").stdout(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&repaired.stdout);
        assert!(said.contains("nothing to"), "nothing is on record after {words:?}: {said}");
    }
}
