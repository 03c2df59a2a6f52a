//! What `/proc` says of a process and its threads. No tracing, and for most of it no rights.

use std::collections::BTreeMap;
use std::fs;

use onbeat::cause::{WaitingCall, syscalls};
use onbeat_host::process::{StatLine, text};
use onbeat_tune::LiveHost;
use onbeat_tune::tasks::{self, Task, TaskId};

/// Scheduling policy of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`, `SCHED_BATCH` or `SCHED_IDLE`, with a nice value.
    Ordinary {
        /// −20 to 19.
        nice: i32,
    },
    /// `SCHED_FIFO`.
    Fifo(u32),
    /// `SCHED_RR`.
    RoundRobin(u32),
    /// `SCHED_DEADLINE`.
    Deadline,
}

impl Policy {
    /// Whether it is a real-time policy.
    #[must_use]
    pub const fn is_real_time(self) -> bool {
        !matches!(self, Self::Ordinary { .. })
    }

    /// Returns the priority among real-time threads: 1 to 99, 100 for `SCHED_DEADLINE`, 0 for an
    /// ordinary thread.
    #[must_use]
    pub const fn priority(self) -> u32 {
        match self {
            Self::Ordinary { .. } => 0,
            Self::Fifo(priority) | Self::RoundRobin(priority) => priority,
            Self::Deadline => 100,
        }
    }

    /// Returns it in the words of chrt(1).
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Ordinary { nice: 0 } => "OTHER".to_owned(),
            Self::Ordinary { nice } => format!("OTHER {nice:+}"),
            Self::Fifo(priority) => format!("FIFO {priority}"),
            Self::RoundRobin(priority) => format!("RR {priority}"),
            Self::Deadline => "DEADLINE".to_owned(),
        }
    }
}

/// A thread as `/proc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Number and start time.
    pub id: TaskId,
    /// The process.
    pub pid: i32,
    /// Name, at most 15 bytes.
    pub name: String,
    /// Policy and priority.
    pub policy: Policy,
    /// Allowed CPUs, as in `Cpus_allowed_list`.
    pub cpus: String,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// Counters since its start.
    pub counters: ThreadCounters,
}

impl ThreadFacts {
    /// Returns the thread number.
    #[must_use]
    pub fn tid(&self) -> u32 {
        self.id.tid.unsigned_abs()
    }

    /// Returns the CPU that it is bound to, if it is one.
    #[must_use]
    pub fn bound_cpu(&self) -> Option<u32> {
        self.cpus.parse().ok()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounters {
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Time for which it was runnable and waited for a CPU, in nanoseconds.
    pub delayed_ns: u64,
    /// Times it left the CPU to wait.
    pub waits: u64,
    /// Times it was made to leave the CPU.
    pub preemptions: u64,
    /// Page faults without and with a read from a disk.
    pub faults: u64,
    /// Calls that write to files, terminals and pipes; 0 without the right to know.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written: u64,
}

impl ThreadCounters {
    /// Returns the sums of two threads.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            delayed_ns: self.delayed_ns + other.delayed_ns,
            waits: self.waits + other.waits,
            preemptions: self.preemptions + other.preemptions,
            faults: self.faults + other.faults,
            writes: self.writes + other.writes,
            written: self.written + other.written,
        }
    }

    /// Reads the counters of a thread; `None` when it has ended.
    #[must_use]
    pub fn read(tid: u32) -> Option<Self> {
        let read = |file: &str| text(tid, file).ok();
        let status = read("status")?;
        let of_status = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        let schedstat = read("schedstat").unwrap_or_default();
        let mut times = schedstat.split_whitespace().map(|word| word.parse().unwrap_or(0));
        let stat = read("stat")?;
        let stat = StatLine::parse(&stat)?;
        if matches!(stat.field(3), Some("Z" | "X" | "x")) {
            // It has ended, and whoever started it has not asked yet.
            return None;
        }
        let io = read("io").unwrap_or_default();
        let of_io = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
        };
        Some(Self {
            writes: of_io("syscw:"),
            written: of_io("wchar:"),
            cpu_ns: times.next().unwrap_or(0),
            delayed_ns: times.next().unwrap_or(0),
            waits: of_status("voluntary_ctxt_switches:").unwrap_or(0),
            preemptions: of_status("nonvoluntary_ctxt_switches:").unwrap_or(0),
            faults: stat.number(10).unwrap_or(0) + stat.number(12).unwrap_or(0),
        })
    }

    /// Returns what was counted since `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            delayed_ns: self.delayed_ns.saturating_sub(before.delayed_ns),
            waits: self.waits.saturating_sub(before.waits),
            preemptions: self.preemptions.saturating_sub(before.preemptions),
            faults: self.faults.saturating_sub(before.faults),
            writes: self.writes.saturating_sub(before.writes),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// Returns what `/proc` says of a thread; `None` when it is gone.
#[must_use]
pub fn thread(tid: i32) -> Option<ThreadFacts> {
    facts(&tasks::task(&LiveHost::new(), tid)?)
}

/// Where the stack of a process begins, 0 if it may not be known: `startstack` of proc_pid_stat(5).
pub(crate) fn stack_at(tid: i32) -> u64 {
    let stat = text(tid, "stat").unwrap_or_default();
    StatLine::parse(&stat).and_then(|stat| stat.number(28)).unwrap_or(0)
}

fn facts(task: &Task) -> Option<ThreadFacts> {
    let tid = task.id.tid;
    let stat = text(tid, "stat").ok()?;
    let status = text(tid, "status").ok()?;
    let stat = StatLine::parse(&stat)?;
    let priority = stat.number(40).unwrap_or(0);
    let policy = match stat.field(41) {
        Some("1") => Policy::Fifo(priority),
        Some("2") => Policy::RoundRobin(priority),
        Some("6") => Policy::Deadline,
        _ => Policy::Ordinary { nice: stat.number(19).unwrap_or(0) },
    };
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Some(ThreadFacts {
        id: task.id,
        pid: task.pid,
        name: task.comm.clone(),
        policy,
        cpus: cpus.unwrap_or_default().trim().to_owned(),
        is_kernel: task.is_kernel(),
        counters: ThreadCounters::read(tid.unsigned_abs())?,
    })
}

/// Whether a thread is stopped, by a signal or by a debugger.
#[must_use]
pub fn is_stopped(tid: i32) -> bool {
    let stat = text(tid, "stat").unwrap_or_default();
    matches!(StatLine::parse(&stat).and_then(|stat| stat.field(3)), Some("T" | "t"))
}

/// The system call in which a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The call.
    pub call: WaitingCall,
    /// In a word or two: `epoll_wait`, `futex (condition)`.
    pub words: String,
}

/// Returns the system call in which a thread waits; `None` while it runs, or without rights.
#[must_use]
pub fn waiting(tid: u32) -> Option<Waiting> {
    let line = text(tid, "syscall").ok()?;
    let words = waiting_words(&line)?;
    let mut numbers = line.split_whitespace();
    let number = numbers.next()?.parse().ok()?;
    let first = u64::from_str_radix(numbers.next()?.trim_start_matches("0x"), 16).ok()?;
    Some(Waiting { call: WaitingCall { number, first }, words })
}

/// Futex operations without their flags (include/uapi/linux/futex.h).
const FUTEX_OP: u64 = 0x7f;

/// From `number arguments...` as in `/proc/PID/syscall`; `None` for a thread of the kernel, which has zeros there and is
/// in no call.
fn waiting_words(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    if words.clone().skip(1).all(|word| word == "0x0") {
        return None;
    }
    let number: i64 = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let name = syscalls::name(number)?;
    let argument =
        |word: Option<&str>| u64::from_str_radix(word?.trim_start_matches("0x"), 16).ok();
    let operation = argument(words.nth(1)).map(|operation| operation & FUTEX_OP);
    Some(match (name, operation) {
        // glibc waits for conditions, and with a timeout for locks, with the operation of bit sets.
        ("futex", Some(9 | 11)) => "futex (condition)".to_owned(),
        ("futex", Some(0)) => "futex (lock)".to_owned(),
        ("futex", Some(6 | 13)) => "futex (lock with priority inheritance)".to_owned(),
        _ => name.to_owned(),
    })
}

/// Returns the threads of a process and of its descendants, in order of their numbers.
#[must_use]
pub fn threads_of(pid: i32) -> Vec<ThreadFacts> {
    let host = LiveHost::new();
    let family = tasks::descendants(&host, pid).unwrap_or_default();
    // Who watches an ancestor of its own, such as a shell or an init, is not part of what it watches.
    let own = std::process::id().cast_signed();
    family.values().filter(|task| pid == own || task.pid != own).filter_map(facts).collect()
}

/// A process that a name may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedProcess {
    /// Its number.
    pub pid: i32,
    /// Its command line, or its name in brackets.
    pub command: String,
}

/// Returns the processes with this name: of the process, of its program file or of its first word;
/// where there is none, of the script that it runs. Without this process and those that started it.
#[must_use]
pub fn named(name: &str) -> Vec<NamedProcess> {
    let host = LiveHost::new();
    let all = tasks::all(&host).unwrap_or_default();
    let ours = ancestors(&all);
    let leaders = all.values().filter(|task| task.id.tid == task.pid && !ours.contains(&task.pid));
    // A path is typed as the program was.
    let name = name.rsplit('/').next().unwrap_or(name);
    let found = leaders.filter_map(|task| {
        let words = command_line(task.pid);
        let by = named_by(name, &task.comm, &words)?;
        let command = if words.is_empty() { format!("[{}]", task.comm) } else { words.join(" ") };
        Some((by, NamedProcess { pid: task.pid, command }))
    });
    let found: Vec<(NamedBy, NamedProcess)> = found.collect();
    let first = found.iter().map(|(by, _)| *by).min();
    found.into_iter().filter(|(by, _)| Some(*by) == first).map(|(_, process)| process).collect()
}

/// Options of Java and Python whose value is the next word.
const WITH_VALUE: [&str; 6] = ["-cp", "-classpath", "--class-path", "--module-path", "-X", "-W"];

/// What of a process has a name. `sudo my_loop`, or an editor with its file, is not the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NamedBy {
    Itself,
    Script,
}

fn named_by(name: &str, comm: &str, words: &[String]) -> Option<NamedBy> {
    let is_it = |word: &String| word.rsplit('/').next() == Some(name);
    let is_comm = comm == name || name.as_bytes().get(..15) == Some(comm.as_bytes());
    if is_comm || words.first().is_some_and(is_it) {
        return Some(NamedBy::Itself);
    }
    // Behind the options of its interpreter, and their values.
    let mut words = words.iter().skip(1);
    let script = loop {
        let word = words.next()?;
        if WITH_VALUE.contains(&word.as_str()) {
            words.next();
        } else if !word.starts_with('-') {
            break word;
        }
    };
    is_it(script).then_some(NamedBy::Script)
}

/// Returns the words of the command line of a process; none for a kernel thread.
#[must_use]
pub fn command_line(pid: i32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// This process and those above it: `sudo onbeat watch NAME` has NAME in its own command line.
fn ancestors(all: &BTreeMap<i32, Task>) -> Vec<i32> {
    let mut at = std::process::id().cast_signed();
    let mut found = vec![at];
    while let Some(task) = all.get(&at).filter(|task| task.parent() > 0) {
        at = task.parent();
        if found.contains(&at) {
            break;
        }
        found.push(at);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_watches_an_ancestor_is_not_part_of_it() {
        let own = std::process::id().cast_signed();
        let of_parent = threads_of(rustix::process::getppid().unwrap().as_raw_pid());
        assert!(!of_parent.is_empty() && of_parent.iter().all(|thread| thread.pid != own));
    }

    #[test]
    fn this_process_has_its_threads_and_is_not_found_by_its_name() {
        let own = std::process::id().cast_signed();
        let threads = threads_of(own);
        let main = threads.iter().find(|thread| thread.id.tid == own).unwrap();
        assert!(!main.is_kernel && !main.cpus.is_empty());
        assert!(named(&main.name).iter().all(|process| process.pid != own));
    }

    #[test]
    fn a_program_goes_before_those_that_name_it_and_a_script_is_behind_options() {
        let by = |comm: &str, line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            named_by("my_controller_loop", comm, &words)
        };
        assert_eq!(
            by("my_controller_l", "./my_controller_loop --rate 1000"),
            Some(NamedBy::Itself)
        );
        assert_eq!(by("servo", "/opt/my_controller_loop"), Some(NamedBy::Itself));
        assert_eq!(by("sudo", "sudo ./my_controller_loop"), Some(NamedBy::Script));
        assert_eq!(by("python3", "python3 -u ./my_controller_loop"), Some(NamedBy::Script));
        let java = "java -Xmx1g -cp a.jar:b.jar my_controller_loop";
        assert_eq!(by("java", java), Some(NamedBy::Script));
        assert_eq!(by("grep", "grep x my_controller_loop"), None);
        assert!(NamedBy::Itself < NamedBy::Script);
    }

    #[test]
    fn a_waiting_call_is_told_with_the_purpose_of_a_futex() {
        let futex = |operation: u64| {
            let number = 202;
            waiting_words(&format!("{number} 0x7f00 {operation:#x} 0x2 0x0 0x0 0x0 0x7ff 0x7fe"))
        };
        if cfg!(target_arch = "x86_64") {
            assert_eq!(futex(0x189).as_deref(), Some("futex (condition)"));
            assert_eq!(futex(0x80).as_deref(), Some("futex (lock)"));
            assert_eq!(futex(0x86).as_deref(), Some("futex (lock with priority inheritance)"));
        }
        assert_eq!(waiting_words("running"), None);
        assert_eq!(waiting_words("-1 0x0 0x0"), None);
        assert_eq!(waiting_words("0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0"), None, "a kernel thread");
        assert_eq!(waiting_words(""), None);
    }

    #[test]
    fn a_thread_that_has_ended_has_no_counters_even_before_its_parent_has_asked() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let since = std::time::Instant::now();
        while ThreadCounters::read(child.id()).is_some() && since.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(fs::exists(format!("/proc/{}", child.id())).unwrap(), "nobody has asked yet");
        assert_eq!(ThreadCounters::read(child.id()), None);
        child.wait().unwrap();
    }

    #[test]
    fn policies_are_shown_as_by_chrt() {
        let words = [
            Policy::Ordinary { nice: 0 },
            Policy::Ordinary { nice: -5 },
            Policy::Fifo(80),
            Policy::Deadline,
        ]
        .map(Policy::words);
        assert_eq!(words, ["OTHER", "OTHER -5", "FIFO 80", "DEADLINE"]);
    }
}
