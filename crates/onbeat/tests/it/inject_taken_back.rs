//! The changes of an injector to another process are undone, regardless of which process dies.
//!
//! An injector that is killed as a whole runs in a child: this test executable, started again for
//! one test with the target's number in the environment.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant as WallInstant};

use onbeat::inject::{
    Detail, Error, Fault, InLoop, InjectionPlan, InjectionTarget, Injector, ReleaseGrid,
};
use onbeat_rt::sys::Monotonic;
use onbeat_rt::{Clock, Cycle, Flow};
use onbeat_tune::{LiveHost, repair};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use rustix::thread::sched_getaffinity;

const MS: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// The tests check limits and children of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A process that sleeps; killed on drop.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        // In a group of its own: the kernel sends SIGHUP to stopped members of a group that has
        // lost its shell.
        Self(
            Command::new("sleep")
                .arg("1000")
                .process_group(0)
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    fn state(&self) -> char {
        state_of(self.pid())
    }

    fn cpus(&self) -> Vec<usize> {
        let cpus = sched_getaffinity(Pid::from_raw(self.pid())).unwrap();
        (0..1024).filter(|&cpu| cpus.is_set(cpu)).collect()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn plan(fault: Fault, pid: i32) -> InjectionPlan {
    InjectionPlan {
        fault,
        every_ns: 400 * MS,
        for_ns: 300 * MS,
        count: 1000,
        target: InjectionTarget { pid, tid: pid, cpu: 0, priority: 0 },
        grid: ReleaseGrid { first_release: Monotonic.now(), period_ns: MS, spin_ns: 0 },
    }
}

fn comes_true(what: &str, mut condition: impl FnMut() -> bool) {
    let end = WallInstant::now() + PATIENCE;
    while !condition() {
        assert!(WallInstant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Asserts a condition for longer than one injection and the pause after it.
fn stays_true(what: &str, condition: impl Fn() -> bool) {
    let end = WallInstant::now() + Duration::from_millis(900);
    while WallInstant::now() < end {
        assert!(condition(), "did not stay true: {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn state_of(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

/// Halts an actor that holds its target, so that it holds it for as long as this test needs;
/// `false` if it did not hold it at that moment.
fn halted(actor: i32, holds: impl Fn() -> bool) -> bool {
    if !holds() {
        return false;
    }

    signal(actor, Signal::STOP);
    comes_true("the actor is halted", || state_of(actor) == 'T');
    let still_holds = holds();
    if !still_holds {
        signal(actor, Signal::CONT);
    }
    still_holds
}

/// Returns the processes that an injector in a child has started for a target, and the child.
fn injecting_into(target: &Sleeper) -> Vec<i32> {
    let wanted = format!("{}={}", IN_A_CHILD[1], target.pid());
    let carries_it = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(carries_it).collect()
}

#[test]
fn a_stopped_process_is_in_state_t_and_runs_again_after_the_time_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Sleeper::new();
    // As many as it takes until one is seen here.
    let injector = Injector::start(plan(Fault::StopSignal, target.pid())).unwrap();
    comes_true("stopped", || target.state() == 'T');
    comes_true("continued", || target.state() == 'S');
    drop(injector);

    // An injector gives up if it is too late too often on a busy machine: its log has fewer then.
    let two = || InjectionPlan { count: 2, ..plan(Fault::StopSignal, target.pid()) };
    let mut injected = Vec::new();
    comes_true("two stops", || {
        let injector = Injector::start(two()).unwrap();
        comes_true("finished", || injector.is_finished());
        let log = injector.stop();
        assert!(log.injected.len() == 2 || log.missed > 2, "{log:?}");
        injected.extend(log.injected);
        injected.len() >= 2
    });

    for entry in &injected {
        assert_eq!(entry.detail, Detail::Stopped { pid: u64::from(target.pid().unsigned_abs()) });
        assert!(entry.ns >= 300 * MS, "{entry:?}");
    }

    comes_true("sleeps again", || target.state() == 'S');
}

#[test]
fn a_process_runs_again_when_the_actor_is_killed_while_it_holds_it_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Sleeper::new();
    let injector = Injector::start(plan(Fault::StopSignal, target.pid())).unwrap();
    let actor = injector.actor_pid().unwrap();
    comes_true("stopped", || halted(actor, || target.state() == 'T'));
    let before = injector.log().injected.len();
    kill(actor);
    comes_true("continued by the guard", || target.state() == 'S');
    comes_true("finished", || injector.is_finished());
    stays_true("running", || target.state() == 'S');

    assert_eq!(
        injector.stop().injected.len(),
        before,
        "an injection that was not undone as planned is not logged"
    );
}

#[test]
fn an_affinity_is_back_when_the_actor_is_killed_while_it_holds_it_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Sleeper::new();
    let home = target.cpus();
    if home.len() < 2 {
        return println!("skipped: this process may use one CPU only, {home:?}");
    }

    let injector = match Injector::start(plan(Fault::ForcedMigration, target.pid())) {
        Ok(injector) => injector,
        Err(why @ Error::NotPossible { .. }) => return println!("skipped: {why}"),
        Err(why) => panic!("{why}"),
    };

    let actor = injector.actor_pid().unwrap();
    comes_true("moved", || halted(actor, || target.cpus() != home));
    assert!(!target.cpus().contains(&0), "away from its CPU: {:?}", target.cpus());
    kill(actor);
    comes_true("undone by the guard", || target.cpus() == home);
    drop(injector);
    stays_true("at home", || target.cpus() == home);
}

#[test]
fn a_traced_thread_is_halted_for_its_time_and_continues_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Sleeper::new();
    let injector =
        Injector::start(InjectionPlan { count: 2, ..plan(Fault::PtraceStop, target.pid()) })
            .unwrap();
    comes_true("finished", || injector.is_finished());
    let log = injector.stop();
    if log.injected.is_empty() {
        return println!(
            "skipped: this process may not trace its child (kernel.yama.ptrace_scope)"
        );
    }

    for entry in &log.injected {
        assert_eq!(entry.detail, Detail::Stopped { pid: u64::from(target.pid().unsigned_abs()) });
        assert!(entry.ns >= 300 * MS, "{entry:?}");
    }

    comes_true("sleeps again", || target.state() == 'S');
}

#[test]
fn a_traced_thread_continues_when_its_tracer_is_killed_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Sleeper::new();
    let injector = Injector::start(plan(Fault::PtraceStop, target.pid())).unwrap();
    let actor = injector.actor_pid().unwrap();
    let mut is_traced = false;
    comes_true("traced, or given up", || {
        is_traced = !injector.is_finished() && halted(actor, || target.state() == 't');
        is_traced || injector.is_finished()
    });

    if !is_traced {
        return println!(
            "skipped: this process may not trace its child (kernel.yama.ptrace_scope)"
        );
    }

    let before = injector.log().injected.len();
    kill(actor);
    comes_true("continued by the kernel", || target.state() == 'S');
    stays_true("running", || target.state() == 'S');
    assert_eq!(
        injector.stop().injected.len(),
        before,
        "an injection that was not undone as planned is not logged"
    );
}

/// Environment variables of the child: fault and target.
const IN_A_CHILD: [&str; 2] = ["ONBEAT_TEST_FAULT", "ONBEAT_TEST_TARGET"];

#[test]
fn in_a_child_that_is_killed() {
    let [Ok(fault), Ok(target)] = IN_A_CHILD.map(std::env::var) else { return };
    match Injector::start(plan(fault.parse().unwrap(), target.parse().unwrap())) {
        Ok(_injector) => std::thread::sleep(PATIENCE),
        Err(why) => println!("skipped: {why}"),
    }
}

/// Starts an injector in a child process with its own journal.
fn injector_in_a_child(fault: Fault, target: &Sleeper, state: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "inject_taken_back::in_a_child_that_is_killed", "--nocapture"])
        .env("ONBEAT_STATE_DIR", state);
    command.env(IN_A_CHILD[0], fault.word()).env(IN_A_CHILD[1], target.pid().to_string());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_cgroup_that_a_killed_injector_left_frozen_is_thawed_and_removed_by_a_repair_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (target, state) = (Sleeper::new(), tempfile::tempdir().unwrap());
    let cgroups = || fs::read_to_string(format!("/proc/{}/cgroup", target.pid())).unwrap();
    let before = cgroups();
    let mut injector = injector_in_a_child(Fault::CgroupFreezer, &target, state.path());
    comes_true("in the cgroup, or ended", || {
        cgroups() != before || injector.try_wait().unwrap().is_some()
    });

    if cgroups() == before {
        let said = std::io::read_to_string(injector.stdout.take().unwrap()).unwrap();
        return println!(
            "{}",
            said.lines()
                .find(|line| line.contains("skipped"))
                .unwrap_or("skipped: no reason given")
        );
    }

    let frozen = cgroups()
        .lines()
        .find_map(|line| line.split_once(":freezer:").map(|(_, path)| path.to_owned()));
    if let Some(path) = frozen {
        let file = format!("/sys/fs/cgroup/freezer{path}/freezer.state");
        comes_true("frozen", || {
            fs::read_to_string(&file).is_ok_and(|text| text.trim() == "FROZEN")
        });
    }

    injector.kill().unwrap();
    injector.wait().unwrap();
    let repaired = repair(&state.path().join("journal"), &LiveHost::new()).unwrap();
    assert!(
        !repaired.is_empty() && repaired.iter().all(onbeat_tune::Repaired::is_settled),
        "{repaired:?}"
    );
    assert_eq!(cgroups(), before);
    comes_true("runs again", || target.state() == 'S');
}

#[test]
fn a_process_runs_again_when_the_whole_injector_is_killed_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Sleeper::new();
    let state = tempfile::tempdir().unwrap();
    let mut injector = injector_in_a_child(Fault::StopSignal, &target, state.path());
    comes_true("stopped", || target.state() == 'T');
    injector.kill().unwrap();
    injector.wait().unwrap();
    comes_true("continued", || target.state() == 'S');
    // An actor that did not hold its target at that moment may do so once more before it ends.
    comes_true("its processes have ended", || injecting_into(&target).is_empty());
    // Continued last by that actor, the target may still wait for a CPU.
    comes_true("continued once more", || target.state() == 'S');
    stays_true("running", || target.state() == 'S');
}

#[test]
fn a_stopped_injector_leaves_no_process_and_no_limit_live() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Sleeper::new();
    let before = getrlimit(Resource::Nofile);
    let injector = Injector::start(plan(Fault::StopSignal, target.pid())).unwrap();
    let actor = injector.actor_pid().unwrap();
    comes_true("stopped", || target.state() == 'T');
    let _ = injector.stop();

    comes_true("sleeps again", || target.state() == 'S');
    assert!(!fs::exists(format!("/proc/{actor}")).unwrap(), "the actor is gone");

    let section = Injector::start(InjectionPlan {
        for_ns: MS / 2,
        ..plan(Fault::KernelSection, target.pid())
    });
    if let Err(why) = &section {
        println!("skipped: {why}");
    }

    drop(section);
    assert_eq!(getrlimit(Resource::Nofile), before);
}

#[test]
fn a_missing_target_is_refused_with_its_number() {
    // One more than the kernel's highest number: no process gets it.
    let gone = 4_194_305;
    for fault in [Fault::StopSignal, Fault::ForcedMigration] {
        let Err(Error::NotPossible { reason, .. }) = Injector::start(plan(fault, gone)) else {
            panic!("{fault}")
        };
        assert!(reason.contains(&gone.to_string()), "{reason}");
    }
}

#[test]
fn each_fault_has_one_origin_and_is_refused_elsewhere() {
    let nothing = |_: &Cycle| Flow::Continue;
    for fault in Fault::ALL {
        let plan = InjectionPlan {
            every_ns: fault.least_every_ns().max(400 * MS),
            for_ns: MS,
            count: 1,
            ..plan(fault, 1)
        };
        match fault.origin() {
            onbeat::inject::FaultOrigin::InLoop => {
                assert!(matches!(Injector::start(plan), Err(Error::Elsewhere { .. })), "{fault}");
                let here = InLoop::new(nothing, &plan);
                // A lock whose holder can be preempted takes PREEMPT_RT.
                let may_be_refused = fault == Fault::KernelLockWait;
                let is_refused = matches!(&here, Err(Error::NotPossible { .. }));
                assert!(here.is_ok() || may_be_refused && is_refused, "{fault}");
            }
            onbeat::inject::FaultOrigin::OutsideLoop => {
                let said = InLoop::new(nothing, &plan).err().map(|why| why.to_string());
                assert!(said.is_some_and(|said| said.contains("outside the loop")), "{fault}");
            }
        }
    }
}

#[test]
fn every_fault_has_a_word_that_parses_and_a_sentence() {
    for fault in Fault::ALL {
        assert_eq!(fault.to_string().parse(), Ok(fault));
        assert_eq!(fault.to_string().replace('_', "-").parse(), Ok(fault));
        assert_eq!(serde_json::to_string(&fault).unwrap(), format!("\"{fault}\""));
        assert!(
            fault.describe().ends_with('.') && fault.describe().len() < 100,
            "{}",
            fault.describe()
        );
    }

    let unknown = "lightning".parse::<Fault>().unwrap_err().to_string();
    assert!(unknown.contains("lightning") && unknown.contains("stop-signal"), "{unknown}");
}
