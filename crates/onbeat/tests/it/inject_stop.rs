//! A stop is logged if and only if the loop's thread stood still.
#![allow(clippy::exit, unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as WallInstant};

use onbeat::inject::{Fault, Injected, InjectionPlan, InjectionTarget, Injector, Log, ReleaseGrid};
use onbeat_rt::Clock;
use onbeat_rt::sys::Monotonic;
use rustix::process::{Pid, Signal, kill_process};

const MS: u64 = 1_000_000;
const FOR_NS: u64 = 100 * MS;
const ROLE: &str = "ONBEAT_TEST_ROBOT";
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks the first thread, which waits for a child that never ends: it cannot even stop until the
/// process is killed.
extern "C" fn hold_this_thread(_: libc::c_int) {
    static mut STACK: [u8; 65_536] = [0; 65_536];
    extern "C" fn sleep_on(_: *mut libc::c_void) -> libc::c_int {
        loop {
            // SAFETY: numbers only; the child ends with the thread that created it.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                libc::pause();
            }
        }
    }
    // SAFETY: only this child uses the stack; `sleep_on` makes system calls only.
    unsafe {
        let end = (&raw mut STACK).cast::<u8>().add(65_536).cast();
        libc::clone(
            sleep_on,
            end,
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            std::ptr::null_mut(),
        );
    }
}

/// Runs a loop of 1 kHz. Returns begin and end in nanoseconds of the gaps between two cycles that
/// were longer than half of a stop.
fn gaps(is_over: &AtomicBool) -> Vec<(u64, u64)> {
    println!("\n> {}", rustix::thread::gettid().as_raw_nonzero());
    let (mut gaps, mut last) = (Vec::new(), Monotonic.now());
    // Once more after the end: a stop may come between a reading of the clock and the look at it.
    let mut ends = false;
    while !ends {
        ends = is_over.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
        let now = Monotonic.now();
        if now.ns_since(last) > FOR_NS / 2 {
            gaps.push((last.as_ns(), now.as_ns()));
        }
        last = now;
    }

    gaps
}

#[test]
fn in_a_process_that_is_stopped() {
    let Ok(role) = std::env::var(ROLE) else { return };
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let body = std::thread::spawn(|| gaps(&IS_OVER));
    if role == "held" {
        let pid = std::process::id().cast_signed();
        // SAFETY: the handler makes one system call; the first thread's number is that of the
        // process.
        unsafe {
            libc::signal(libc::SIGUSR1, hold_this_thread as *const () as libc::sighandler_t);
            libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGUSR1);
        }
    }

    std::io::stdin().read_line(&mut String::new()).unwrap();
    IS_OVER.store(true, Ordering::Relaxed);
    for (from, to) in body.join().unwrap() {
        println!("> {from} {to}");
    }

    println!("> end");
    std::io::stdout().flush().unwrap();
    // The harness waits in the first thread, which may be blocked.
    std::process::exit(0);
}

/// A process with a loop; killed on drop.
struct Robot {
    child: Child,
    lines: BufReader<ChildStdout>,
    tid: i32,
}

impl Robot {
    fn new(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "inject_stop::in_a_process_that_is_stopped", "--nocapture"])
            .env(ROLE, role);
        // In a group of its own: the kernel continues the stopped members of a process group when
        // its last parent outside the group ends, and the test's group may lose its shell.
        let mut child =
            command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut robot = Self { child, lines, tid: 0 };
        robot.tid = robot.hear().parse().unwrap();

        robot
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the robot has ended");
            if let Some(message) = line.strip_prefix("> ") {
                return message.trim_end().to_owned();
            }
        }
    }

    /// Returns the state of a thread.
    fn state(&self, tid: i32) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/task/{tid}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    fn plan(&self) -> InjectionPlan {
        InjectionPlan {
            fault: Fault::StopSignal,
            every_ns: 2 * FOR_NS,
            for_ns: FOR_NS,
            count: 3,
            target: InjectionTarget { pid: self.pid(), tid: self.tid, cpu: 0, priority: 0 },
            grid: ReleaseGrid { first_release: Monotonic.now(), period_ns: MS, spin_ns: 0 },
        }
    }

    /// Ends the loop gracefully and returns its gaps.
    fn gaps(&mut self) -> Vec<(u64, u64)> {
        self.child.stdin.as_mut().unwrap().write_all(b"over\n").unwrap();
        let lines = std::iter::from_fn(|| Some(self.hear()).filter(|line| line != "end"));
        let gap = |line: String| {
            line.split_once(' ').map(|(from, to)| (from.parse().unwrap(), to.parse().unwrap()))
        };
        lines.map(|line| gap(line).unwrap()).collect()
    }
}

impl Drop for Robot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn comes_true(what: &str, mut condition: impl FnMut() -> bool) {
    let end = WallInstant::now() + PATIENCE;
    while !condition() {
        assert!(WallInstant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn one_injector(robot: &Robot) -> Log {
    let injector = Injector::start(robot.plan()).unwrap();
    comes_true("finished", || injector.is_finished());
    injector.stop()
}

/// Injects at least three stops, with several injectors if necessary: an injector gives up if it is
/// too late too often on a busy machine.
fn three_stops(robot: &Robot) -> Vec<Injected> {
    let mut injected = Vec::new();
    comes_true("three stops", || {
        injected.extend(one_injector(robot).injected);
        injected.len() >= 3
    });
    injected
}

fn each_is_true(injected: &[Injected], gaps: &[(u64, u64)]) {
    for entry in injected {
        let (at, end) = (entry.at.as_ns(), entry.at.as_ns() + FOR_NS);
        assert!(
            gaps.iter().any(|(from, to)| *from <= at && *to >= end),
            "{entry:?} is in none of {gaps:?}"
        );
    }
}

#[test]
fn the_loop_stands_still_for_each_stop_that_is_logged() {
    let mut robot = Robot::new("free");
    let injected = three_stops(&robot);
    each_is_true(&injected, &robot.gaps());
}

#[test]
fn a_process_whose_first_thread_cannot_stop_is_stopped_by_its_loop() {
    let mut robot = Robot::new("held");
    comes_true("held", || robot.state(robot.pid()) == 'D');
    let injected = three_stops(&robot);
    each_is_true(&injected, &robot.gaps());
}

#[test]
fn a_process_stopped_by_others_is_neither_logged_nor_continued() {
    let mut robot = Robot::new("free");
    robot.signal(Signal::STOP);
    comes_true("stopped", || robot.state(robot.tid) == 'T');
    let log = one_injector(&robot);

    assert_eq!((log.injected.len(), robot.state(robot.tid)), (0, 'T'), "{log:?}");
    robot.signal(Signal::CONT);
    robot.gaps();
}

#[test]
fn a_stop_that_others_end_is_not_logged() {
    let mut robot = Robot::new("free");
    let injector = Injector::start(InjectionPlan { count: 20, ..robot.plan() }).unwrap();
    // Each stop is ended here at once; on a busy machine some may be missed.
    comes_true("one is missed", || {
        if robot.state(robot.tid) == 'T' {
            robot.signal(Signal::CONT);
        }
        injector.log().missed > 0 || injector.is_finished()
    });

    let log = injector.log();
    assert!(log.missed > 0, "{log:?}");
    let log = injector.stop();
    each_is_true(&log.injected, &robot.gaps());
}
