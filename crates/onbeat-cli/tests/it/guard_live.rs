//! kill -9 of what changes the machine or makes interfaces: its guard undoes all of it, without a
//! second command; where the guard is killed too, the next start does.
//!
//! `ONBEAT_KILLS` is the number of kills of each command, 3 without it; of run and guard together
//! there are a quarter as many. Needs root; prints a reason where something cannot be tried.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const KILLS: usize = 3;
/// Waits at most this long for the machine to be as before; how long it took is printed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The tests compare the whole machine.
static HOST: Mutex<()> = Mutex::new(());

fn kills() -> usize {
    std::env::var("ONBEAT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: it takes root to change the machine");
    }
    is_root
}

/// A process that ends with its test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the commands change of the machine, as text by name.
fn machine(namespace: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let entries = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    for base in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpuset", "/sys/kernel/tracing/instances"] {
        for directory in entries(base).into_iter().filter(|path| path.is_dir()) {
            found.insert(directory.display().to_string(), String::new());
        }
    }
    let mut files = vec![
        "/proc/irq/default_smp_affinity".into(),
        "/sys/devices/virtual/workqueue/cpumask".into(),
        "/proc/1/timerslack_ns".into(),
        "/proc/sys/vm/swappiness".into(),
        "/proc/sys/kernel/sched_rt_runtime_us".into(),
        PathBuf::from("/proc/sys/vm/stat_interval"),
    ];
    files.extend(entries("/proc/irq").into_iter().map(|irq| irq.join("smp_affinity_list")));
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        found.insert(file.display().to_string(), text);
    }
    let allowed = fs::read_to_string("/proc/1/status").unwrap_or_default();
    let allowed = allowed.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
    found.insert("the first process".to_owned(), allowed.unwrap_or_default().to_owned());
    found.insert("interfaces".to_owned(), interfaces(namespace).unwrap_or_default());
    found
}

/// The names of the interfaces in a namespace, each with the kind of program that is attached to it.
fn interfaces(namespace: &Path) -> Option<String> {
    let output = Command::new("nsenter")
        .arg(format!("--net={}", namespace.display()))
        .args(["ip", "-o", "link", "show"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = |line: &str| {
        let name = line.split(": ").nth(1)?;
        let program = line.split_whitespace().find(|word| word.starts_with("xdp"));
        Some(format!("{name} {}", program.unwrap_or_default()))
    };
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort_unstable();
    Some(names.join(", "))
}

/// A network namespace of its own, kept by a process that sleeps in it.
struct Namespace(Child);

impl Namespace {
    fn new() -> Option<Self> {
        let child = Command::new("unshare").args(["--net", "sleep", "100000"]).spawn().ok()?;
        let kept = Self(child);
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        for _ in 0..1_000 {
            if fs::read_link(kept.path()).is_ok_and(|its| its != own) {
                let loopback = ["ip", "link", "set", "lo", "up"];
                let net = format!("--net={}", kept.path().display());
                Command::new("nsenter").arg(net).args(loopback).status().ok()?;
                return interfaces(&kept.path()).map(|_| kept);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.0.id()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Place {
    dir: tempfile::TempDir,
    namespace: PathBuf,
}

impl Place {
    fn onbeat(&self) -> Command {
        // Entering does not fork: the process that is killed is onbeat itself.
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.namespace.display()))
            .arg(env!("CARGO_BIN_EXE_onbeat"))
            .env("ONBEAT_STATE_DIR", self.dir.path().join("state"))
            .env("LC_ALL", "C")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn repair(&self) -> Output {
        self.onbeat().arg("repair").stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
    }

    fn journals(&self) -> Vec<PathBuf> {
        let state = self.dir.path().join("state/journal");
        let entries = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
        let all = entries(state.join("beside")).chain(entries(state)).map(|entry| entry.path());
        all.filter(|path| path.extension().is_some_and(|end| end == "journal")).collect()
    }
}

/// The guards of a process: of its journal, and of its flight recorders.
fn guards_of(pid: u32) -> Vec<i32> {
    let wanted = format!("guard\0{pid}\0");
    let guard = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        let is_it = String::from_utf8_lossy(&words).contains(&wanted);
        is_it.then(|| entry.file_name().to_string_lossy().parse().ok()).flatten()
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(guard).collect()
}

/// One of them, when there is one.
fn guard_of(pid: u32) -> Option<i32> {
    guards_of(pid).first().copied()
}

fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Waits until the machine is as before; returns how long that took.
fn as_before(place: &Place, before: &BTreeMap<String, String>, what: &str) -> Duration {
    let began = Instant::now();
    loop {
        let now = machine(&place.namespace);
        let left = place.journals();
        if now == *before && left.is_empty() {
            return began.elapsed();
        }
        if began.elapsed() > PATIENCE {
            let differs = now.iter().filter(|(name, text)| before.get(*name) != Some(text));
            panic!("{what}: {:?}, {left:?}", differs.collect::<Vec<_>>());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The commands, each with the longest time after which it is killed, in milliseconds.
fn commands() -> [(&'static str, u64); 9] {
    [
        ("bench --tunings none,C,PMC --loads cpu=30%,idle --for 20s --out runs", 3_000),
        ("measure timer --no-causes --tuning PMC --for 20s --out runs", 1_500),
        ("robot run humanoid --tuning PC --for 20s --out runs", 1_500),
        ("segment run humanoid --veth kill0 --priority 0", 700),
        ("segment run humanoid --tap kill1 --priority 0", 700),
        ("net device --in-kernel lo --priority 0", 300),
        ("net lab --for 20s --out runs", 1_000),
        ("tune measure mem.swappiness --for 20s --out runs", 2_500),
        ("inject cpu-quota --for 20ms --every 200ms --count 100", 1_500),
    ]
}

#[test]
fn a_killed_run_leaves_the_machine_as_it_was_without_a_second_command() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        return;
    }
    let Some(namespace) = Namespace::new() else {
        return println!("skipped: no network namespace can be made; it takes unshare and ip");
    };
    let place = Place { dir: tempfile::tempdir().unwrap(), namespace: namespace.path() };
    let before = machine(&place.namespace);
    let seed = fastrand::u64(..);
    println!("moments drawn with seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);

    for (line, longest_ms) in commands() {
        let mut longest = Duration::ZERO;
        let mut changed = 0;
        for _ in 0..kills() {
            let mut run = place.onbeat().args(line.split(' ')).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(rng.u64(0..longest_ms)));
            changed += usize::from(machine(&place.namespace) != before);
            run.kill().unwrap();
            run.wait().unwrap();
            longest = longest.max(as_before(&place, &before, line));
        }
        println!(
            "{} kills, {changed} of a changed machine, as before after at most {} ms: {line}",
            kills(),
            longest.as_millis()
        );
    }
}

#[test]
fn what_is_killed_with_its_guard_is_undone_by_the_next_start() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        return;
    }
    let Some(namespace) = Namespace::new() else {
        return println!("skipped: no network namespace can be made; it takes unshare and ip");
    };
    let place = Place { dir: tempfile::tempdir().unwrap(), namespace: namespace.path() };
    let before = machine(&place.namespace);
    let mut rng = fastrand::Rng::new();
    for (line, longest_ms) in commands() {
        let mut without_guard = 0;
        for _ in 0..kills().div_ceil(4) {
            let mut run = place.onbeat().args(line.split(' ')).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(rng.u64(0..longest_ms)));
            // The guards first, each of which undoes everything: they must not come to their work.
            let guards = guards_of(run.id());
            guards.iter().for_each(|guard| kill(*guard));
            without_guard += usize::from(!guards.is_empty());
            run.kill().unwrap();
            run.wait().unwrap();

            let repaired = place.repair();
            let said = String::from_utf8_lossy(&repaired.stdout).into_owned();
            assert!(repaired.status.success(), "{line}: {said}");
            as_before(&place, &before, line);
        }
        println!("{without_guard} of {} killed with their guards: {line}", kills().div_ceil(4));
    }
}

/// `tune apply` leaves its changes on purpose, so a kill finds them whole or undone, never in part.
#[test]
fn a_killed_apply_has_made_all_of_its_changes_or_none() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let place = Place { dir, namespace: PathBuf::from("/proc/self/ns/net") };
    let before = machine(&place.namespace);
    let apply = "tune apply mem.swappiness timer.vmstat sched.rt_runtime --yes --ignore-owners";
    let (mut whole, mut none, mut longest) = (0, 0, Duration::ZERO);
    let mut rng = fastrand::Rng::new();
    for _ in 0..kills() {
        let mut run = place.onbeat().args(apply.split(' ')).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.u64(0..60)));
        run.kill().unwrap();
        run.wait().unwrap();

        // The guard works, or has nothing to do.
        let began = Instant::now();
        while guard_of(run.id()).is_some() {
            assert!(began.elapsed() < PATIENCE, "the guard does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        longest = longest.max(began.elapsed());
        if place.journals().is_empty() {
            assert_eq!(machine(&place.namespace), before, "no record, and something is changed");
            none += 1;
            continue;
        }
        let undone = place.onbeat().args(["tune", "undo"]).stderr(Stdio::piped()).output().unwrap();
        assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
        as_before(&place, &before, apply);
        whole += 1;
    }
    println!("{whole} whole, {none} undone after at most {} ms: {apply}", longest.as_millis());
}

#[test]
fn a_guard_is_small_sleeps_and_ends_with_its_run() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(["bench", "--tunings", "none", "--loads", "idle", "--for", "20s", "--out", "runs"])
        .env("ONBEAT_STATE_DIR", dir.path().join("state"))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let guard = loop {
        if let Some(guard) = guard_of(run.id()) {
            break guard;
        }
        assert!(began.elapsed() < PATIENCE, "no guard is started");
        std::thread::sleep(Duration::from_millis(5));
    };

    let read = |file: &str| fs::read_to_string(format!("/proc/{guard}/{file}")).unwrap_or_default();
    let field = |name: &str| {
        let status = read("status");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    // Of the pipe: read(2) is 0, and so is the descriptor. It has read its own files before.
    while !read("syscall").starts_with("0 0x0 ") && began.elapsed() < PATIENCE {
        // Where the file cannot be read, the state says as much.
        if read("syscall").is_empty() && field("voluntary_ctxt_switches:") > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }

    let switches = field("voluntary_ctxt_switches:");
    let resident_kib = field("VmRSS:");
    println!("the guard has {resident_kib} KiB of memory, of them {} its own", field("RssAnon:"));
    let descriptors = fs::read_dir(format!("/proc/{guard}/fd")).unwrap().flatten();
    let open: Vec<PathBuf> = descriptors.filter_map(|it| fs::read_link(it.path()).ok()).collect();
    assert_eq!(open.len(), 3, "{open:?}");
    assert!(
        open.iter().all(|it| it.starts_with("pipe:")
            || it.ends_with("null")
            || it.to_string_lossy().starts_with("pipe:")),
        "{open:?}"
    );
    let session = read("stat");
    let session = session.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, guard.to_string(), "a session of its own");

    for signal in
        [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::HUP]
    {
        let pid = rustix::process::Pid::from_raw(guard).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(field("voluntary_ctxt_switches:"), switches, "it does not wake up");
    // A second guard of the run, of its flight recorder, may have a smaller number.
    assert!(read("cmdline").contains("guard"), "it is not ended with a group of processes");

    let pid = rustix::process::Pid::from_raw(run.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    run.wait().unwrap();
    // A run waits for its guard for a second, and not at all where it is cut off itself.
    let ended = Instant::now();
    while guard_of(run.id()).is_some() {
        assert!(ended.elapsed() < PATIENCE, "it does not end with its run");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_second_shield_names_the_first_one_and_touches_nothing() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let bench = |state: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command
            .args(["bench", "--tunings", "C", "--loads", "idle", "--for", "60s", "--out", state])
            .env("ONBEAT_STATE_DIR", dir.path().join(state))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    };
    let mut first = Ended(bench("one").stderr(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    let group = Path::new("/sys/fs/cgroup/cpuset/onbeat-rest");
    while !group.exists() {
        if first.0.try_wait().unwrap().is_some() || began.elapsed() > PATIENCE {
            return println!("skipped: a shield does not come up here in a cpuset of version 1");
        }
        std::thread::sleep(Duration::from_millis(10));
    }

    let second = bench("two").output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).replace("\n", " ");
    let who = format!("pid {}", first.0.id());
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains(&who) && !said.contains("rmdir"), "{said}");
    assert!(group.exists(), "the first one is not touched");

    let pid = rustix::process::Pid::from_raw(first.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    first.0.wait().unwrap();
    // Where the run is cut off on its way, its guard takes the shield down.
    let ended = Instant::now();
    while group.exists() {
        assert!(ended.elapsed() < PATIENCE, "the shield stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// As root in a container: `/sys` cannot be written, and the bounding set lacks the capability.
#[test]
fn where_nothing_is_permitted_no_interrupt_moves_and_cap_add_is_named() {
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount --rbind /sys /sys && mount -o remount,bind,ro /sys || exit 77
        for mount in $(awk '$5 ~ "^/sys/" {print $5}' /proc/self/mountinfo); do mount -o remount,bind,ro "$mount" 2>/dev/null; done
        exec setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice "$0" bench --tunings C,PC --loads idle --for 8s --out runs"#;
    let before = machine(Path::new("/proc/self/ns/net"));
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_onbeat")])
        .env("ONBEAT_STATE_DIR", dir.path().join("state"))
        .env("LC_ALL", "C")
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output();
    let Some(output) = output.ok().filter(|it| it.status.code() != Some(77)) else {
        return println!("skipped: no mount namespace with a read-only /sys can be made here");
    };

    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(machine(Path::new("/proc/self/ns/net")), before, "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("--cap-add=SYS_NICE") && !words.contains("setcap"), "{said}");
    assert!(!words.contains("interrupts moved"), "{said}");
    let refused = words.matches("Not permitted: ").count();
    assert!(output.status.code() == Some(2) || refused == 2, "{said}");
}
