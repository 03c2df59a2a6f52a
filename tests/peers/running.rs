//! A program that runs beside the benchmark: its CPU time is watched, signals stop and end it.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;

/// Started here, and gone when this is dropped.
pub(crate) struct Running {
    child: Child,
    program: String,
    looping: Instant,
}

/// How often is looked whether the loop's thread is there, and how long at most.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const LONGEST_START: Duration = Duration::from_secs(10);

/// CPU time used so far, in nanoseconds (`/proc/PID/task/*/schedstat`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuTime {
    process_ns: u64,
    loop_ns: u64,
    at: Option<Instant>,
}

/// One thread of the program.
struct ThreadSeen {
    is_loop: bool,
    cpu_ns: u64,
}

/// Parts of one CPU, 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuShare {
    pub(crate) process: f64,
    pub(crate) of_loop: f64,
}

impl CpuTime {
    pub(crate) fn share_since(self, earlier: Self) -> Option<CpuShare> {
        let seconds = self.at?.duration_since(earlier.at?).as_secs_f64();
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e9 / seconds;
        Some(CpuShare {
            process: share(self.process_ns, earlier.process_ns),
            of_loop: share(self.loop_ns, earlier.loop_ns),
        })
    }
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Result<Self, Failure> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child = child.map_err(|source| Failure::Start { program: program.clone(), source })?;
        Ok(Self { child, program, looping: Instant::now() })
    }

    /// The same, and waits until its loop's thread is there.
    pub(crate) fn start_looping(command: Command) -> Result<Self, Failure> {
        let mut running = Self::start(command)?;
        let started = Instant::now();
        while !running.tasks().any(|task| task.is_loop) && started.elapsed() < LONGEST_START {
            sleep(LOOK_EVERY);
        }

        running.looping = Instant::now();
        Ok(running)
    }

    /// Waits until so much time has passed since the loop's thread was seen first.
    pub(crate) fn at(&self, since_start: Duration) {
        sleep(since_start.saturating_sub(self.looping.elapsed()));
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|why| Failure::system("send a signal")(why.into()))
    }

    /// Stops the program for so long, as a debugger or a full terminal would.
    pub(crate) fn stop_for(&self, pause: Duration) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        sleep(pause);
        self.signal(Signal::CONT)
    }

    /// What its threads have used.
    pub(crate) fn cpu_time(&self) -> CpuTime {
        let mut time = CpuTime { at: Some(Instant::now()), ..CpuTime::default() };
        for task in self.tasks() {
            time.process_ns += task.cpu_ns;
            time.loop_ns += if task.is_loop { task.cpu_ns } else { 0 };
        }
        time
    }

    /// Its resident memory at its largest so far, in bytes (`VmHWM`, proc(5)).
    pub(crate) fn resident_peak_bytes(&self) -> f64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes =
            line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
        kibibytes.map_or(f64::NAN, |kibibytes| kibibytes * 1024.0)
    }

    /// Its threads. The loop's is named `onbeat-loop`, and is the one that is not the first in
    /// `cyclictest`.
    fn tasks(&self) -> impl Iterator<Item = ThreadSeen> {
        let pid = self.child.id().to_string();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.map(move |task| {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let used =
                read("schedstat").split_whitespace().next().and_then(|word| word.parse().ok());
            let is_loop = match read("comm").trim() {
                "onbeat-loop" => true,
                "cyclictest" => task.file_name().to_string_lossy() != pid,
                _ => false,
            };

            ThreadSeen { is_loop, cpu_ns: used.unwrap_or(0) }
        })
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr
                .read_to_string(&mut said)
                .map_err(Failure::system("read what a program says"))?;
        }
        let status = self.child.wait().map_err(Failure::system("wait for a program"))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::Ended { program: self.program.clone(), status, said })
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended already, when all went well; then both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
