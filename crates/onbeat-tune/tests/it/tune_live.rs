//! The shield on the machine that runs the tests: raised briefly, and no change after.
//!
//! User tasks that do not descend from this test are left as they are, unless
//! `ONBEAT_SHIELD_WHOLE_MACHINE=1` says that the machine is there for tests.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use onbeat_tune::shield::UnmovedTask;
use onbeat_tune::tasks::{self, TaskId};
use onbeat_tune::{
    CpuList, Free, HostFiles, Journal, LiveHost, Mechanism, Purpose, Report, Scope, Shield,
    ShieldRequest, repair,
};

const CHILD: &str = "ONBEAT_TUNE_CHILD_JOURNAL";
const WHOLE: &str = "ONBEAT_SHIELD_WHOLE_MACHINE";
const BUSY: &str = "while :; do :; done";

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

fn own_tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The name of a task, and the settings that the shield may change.
type NamedTask = (String, String);

/// Every membership, list of CPUs and interrupt's place on this machine.
fn snapshot(host: &LiveHost) -> (BTreeMap<TaskId, NamedTask>, BTreeMap<String, String>) {
    let read = |path: &str| host.read(path).unwrap_or_default().trim().to_owned();
    let mut of_tasks = BTreeMap::new();
    for task in tasks::all(host).unwrap().into_values() {
        // The kernel makes, binds and ends its workers as it needs them: the list of CPUs that is
        // theirs is the mask of the work queues, below.
        if task.is_kernel() && task.comm.starts_with("kworker") {
            continue;
        }

        let cgroups = read(&format!("/proc/{}/cgroup", task.id.tid));
        if let Ok(cpus) = tasks::affinity(host, task.id.tid) {
            of_tasks.insert(task.id, (task.comm, format!("CPUs {cpus}, cgroups {cgroups}")));
        }
    }

    let mut files = BTreeMap::new();
    for number in host.directories("/proc/irq").unwrap() {
        // Which of the permitted CPUs an interrupt comes to is the kernel's choice, and no setting.
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        files.insert(path.clone(), read(&path));
    }

    for path in ["/proc/irq/default_smp_affinity", "/sys/devices/virtual/workqueue/cpumask"] {
        files.insert(path.to_owned(), read(path));
    }

    for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpuset"] {
        let mut groups = host.directories(mount).unwrap_or_default();
        groups.sort();
        files.insert(mount.to_owned(), groups.join(" "));
        let control = format!("{mount}/cgroup.subtree_control");
        files.insert(control.clone(), read(&control));
    }

    (of_tasks, files)
}

/// Compares what was there before and still is. Not the names: a task that has just been started
/// still has its parent's.
fn assert_nothing_has_changed(
    host: &LiveHost,
    before: &(BTreeMap<TaskId, NamedTask>, BTreeMap<String, String>),
    when: &str,
) {
    let after = snapshot(host);
    let changed: Vec<String> = before
        .0
        .iter()
        .filter_map(|(id, (_, was))| {
            let (name, is) = after.0.get(id).filter(|(_, is)| is != was)?;
            Some(format!("{name}: {was} -> {is}"))
        })
        .collect();

    assert!(changed.is_empty(), "{when}: tasks have changed: {changed:#?}");
    assert_eq!(after.1, before.1, "{when}");
}

/// The CPU a task ran on last: field 39 of its `stat`.
fn last_cpu(tid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    fields.split_ascii_whitespace().nth(36).unwrap().parse().unwrap()
}

/// A process that never sleeps, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        Self(
            Command::new("sh")
                .args(["-c", BUSY])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn last_cpu(&self) -> u32 {
        last_cpu(self.0.id())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another onbeat may shield this machine just now; its cgroup says so. Waits for its end, a minute
/// at most.
fn is_shielded_by_another() -> bool {
    let groups = ["/sys/fs/cgroup/cpuset/onbeat-rest", "/sys/fs/cgroup/onbeat-loop"];
    let until = Instant::now() + Duration::from_secs(60);
    while groups.iter().any(|group| Path::new(group).exists()) {
        if Instant::now() > until {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }

    false
}

/// The tasks that a report has as left and that still are. Awaited is the end of those that the
/// kernel is just making, which it binds to their CPU after they have started.
fn still_left(host: &LiveHost, mut left: Vec<UnmovedTask>) -> Vec<UnmovedTask> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        left.retain(|one| {
            tasks::task(host, one.task.tid).is_some_and(|now| now.id == one.task && !now.is_bound())
        });
        if left.is_empty() || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn wish(rt: &CpuList, free: Vec<Free>) -> ShieldRequest {
    let scope =
        if std::env::var_os(WHOLE).is_some() { Scope::Machine } else { Scope::Under(own_pid()) };
    ShieldRequest { rt: rt.clone(), free, scope }
}

/// A thread in the role of the loop: it follows orders and returns the CPUs it may use.
struct LoopThread {
    tid: i32,
    orders: mpsc::Sender<CpuList>,
    answers: mpsc::Receiver<Result<(), String>>,
}

impl LoopThread {
    fn start() -> Self {
        let (orders, inbox) = mpsc::channel::<CpuList>();
        let (outbox, answers) = mpsc::channel();
        let (report_tid, tid) = mpsc::channel();
        std::thread::spawn(move || {
            report_tid.send(own_tid()).unwrap();
            for cpus in inbox {
                let host = LiveHost::new();
                let pinned = host.set_affinity(own_tid(), &cpus).map_err(|error| error.to_string());
                std::thread::sleep(Duration::from_millis(2));
                outbox.send(pinned).unwrap();
            }
        });

        Self { tid: tid.recv().unwrap(), orders, answers }
    }

    fn pin(&self, cpus: &CpuList) -> Result<(), String> {
        self.orders.send(cpus.clone()).unwrap();
        self.answers.recv().unwrap()
    }
}

/// Raises the shield, checks the CPUs of all tasks, lowers it. Returns the shield's report.
fn up_and_down(host: &LiveHost, journal: &mut Journal, rt: &CpuList) -> Report {
    let loop_thread = LoopThread::start();
    let before = Busy::start();
    let mut shield =
        Shield::prepare_as(host, journal, &wish(rt, vec![Free::Thread(loop_thread.tid)])).unwrap();
    let started = Instant::now();
    let report = shield.raise(host, journal).unwrap();
    let raised_in = started.elapsed();
    let forked = Busy::start();
    let mut seen = Vec::new();
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(10));
        seen.extend([before.last_cpu(), forked.last_cpu()]);
    }

    let pinned = loop_thread.pin(rt);
    let loop_cpu = last_cpu(loop_thread.tid.cast_unsigned());
    let started = Instant::now();
    shield.lower(host, journal).unwrap();
    let lowered_in = started.elapsed();
    let again = shield.raise(host, journal).unwrap();
    let undone = shield.dismantle(host, journal).unwrap();
    println!(
        "raised in {raised_in:?}, lowered in {lowered_in:?}\n{}",
        report.sentences().join("\n")
    );

    assert!(seen.iter().all(|cpu| !rt.contains(*cpu)), "busy processes ran on CPU {rt}: {seen:?}");
    assert_eq!(
        (pinned, rt.contains(loop_cpu)),
        (Ok(()), true),
        "the loop may use CPU {rt}, and was on {loop_cpu}"
    );
    assert!(undone.iter().all(|one| one.outcome.is_settled()), "{undone:#?}");
    assert_eq!(still_left(host, again.left), []);
    report
}

/// What the killed process does: raises a shield, leaves a process behind, and waits for its end.
/// When the test itself has ended, and so nobody kills it, it takes the shield down.
fn be_the_child(directory: &Path, rt: &CpuList) {
    let host = LiveHost::new();
    let mut left_behind = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().unwrap();
    let mut journal =
        Journal::begin(directory, &host, &Purpose::new("bench", "onbeat bench")).unwrap();
    let mut shield =
        Shield::prepare_as(&host, &mut journal, &wish(rt, vec![Free::Thread(own_tid())])).unwrap();
    shield.raise(&host, &mut journal).unwrap();
    eprintln!("up {}", left_behind.id());
    let _ = std::io::stdin().read_line(&mut String::new());
    shield.dismantle(&host, &mut journal).unwrap();
    journal.close().unwrap();
    // Only reached when nobody killed this process.
    left_behind.kill().unwrap();
    left_behind.wait().unwrap();
}

/// Starts this test again as a child that raises a shield, and kills it as soon as the shield is
/// up. Returns the process that the child left running.
fn raise_and_be_killed(directory: &Path) -> i32 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tune_live::a_shield_on_this_machine_leaves_no_trace_live",
            "--nocapture",
        ])
        .env(CHILD, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said.push(line);
        if said.last().is_some_and(|line| line.starts_with("up ")) {
            break;
        }
    }

    child.kill().unwrap();
    child.wait().unwrap();
    let up = said
        .last()
        .and_then(|line| line.strip_prefix("up "))
        .unwrap_or_else(|| panic!("{said:#?}"));
    up.parse().unwrap()
}

fn end(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_shield_on_this_machine_leaves_no_trace_live() {
    let host = LiveHost::new();
    let online =
        CpuList::parse_list(&host.read("/sys/devices/system/cpu/online").unwrap()).unwrap();
    let rt: CpuList = online.iter().last().into_iter().collect();
    if let Some(directory) = std::env::var_os(CHILD) {
        return be_the_child(Path::new(&directory), &rt);
    }

    if !host.is_root() || online.iter().count() < 2 {
        println!(
            "skipped: a shield needs root and two CPUs; this is root: {}, CPUs: {online}",
            host.is_root()
        );
        return;
    }

    if is_shielded_by_another() {
        println!("skipped: another onbeat has shielded this machine for a minute");
        return;
    }

    let directory = tempfile::tempdir().unwrap();
    let before = snapshot(&host);
    let mut journal = Journal::begin(
        directory.path(),
        &host,
        &Purpose::new("test", "cargo test --test tune_live"),
    )
    .unwrap();
    let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        up_and_down(&host, &mut journal, &rt)
    }));
    // The machine must not stay shielded, whatever failed above.
    journal.undo_all(&host, onbeat_tune::UndoMode::Careful).unwrap();
    let closed = journal.close();
    let report = worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    closed.unwrap();

    assert_nothing_has_changed(&host, &before, "after dismantling");
    let left = still_left(&host, report.left);
    assert_eq!(left, [], "only bound threads may be left on CPU {rt}");

    let left_running = raise_and_be_killed(directory.path());
    let shielded = snapshot(&host);
    let repaired = repair(directory.path(), &host);
    let own_list = tasks::affinity(&host, left_running).unwrap();
    end(left_running);
    println!(
        "{}",
        repaired
            .as_ref()
            .unwrap()
            .iter()
            .flat_map(onbeat_tune::Repaired::sentences)
            .collect::<Vec<_>>()
            .join("\n")
    );

    assert!(repaired.unwrap().iter().all(onbeat_tune::Repaired::is_settled));
    assert_ne!(shielded.1, before.1, "the killed process had shielded");
    assert_nothing_has_changed(&host, &before, "after a kill and a repair");
    assert!(online.is_within(&own_list), "what it left running may use all CPUs again: {own_list}");
    if report.mechanism == Mechanism::CpusetV1 {
        assert!(!Path::new("/sys/fs/cgroup/cpuset/onbeat-rest").exists());
    }
}
