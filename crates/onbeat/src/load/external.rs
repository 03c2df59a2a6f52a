//! External programs of a load: run in a process group of their own, repeated if the load consists
//! of that, and their last output is kept.

use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group,
};

use super::event::PartWork;
use super::reap::{EndedChild, spawn};
use onbeat_host::process::MARK;

/// A program that fails with less CPU time than this did not load the machine. CPU time, because
/// under a heavy load it takes long until an ended process is reaped.
const FAILED_AT_ONCE: Duration = Duration::from_millis(200);
/// Number of failures in a row after which a repeated program is given up.
const MOST_FAILURES: u32 = 3;
/// Kept part of a program's output, in bytes.
const KEPT: usize = 2048;
/// Number of process groups of earlier runs whose processes may still be reaped.
const GROUPS_KEPT: usize = 8;

/// How to run a program.
#[derive(Clone, Debug)]
pub(super) struct LoadRecipe {
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Working directory; `None` for that of the load.
    pub(super) directory: Option<PathBuf>,
    /// The Debian package that contains it.
    pub(super) package: &'static str,
    /// Where it is run repeatedly, the interval at which it is killed with all its processes. One
    /// that runs once has died when it ends.
    pub(super) kill_every: Option<Duration>,
    /// The signal that ends it gracefully.
    pub(super) ending: Signal,
    /// Whether its standard output holds figures.
    pub(super) figures: bool,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// As intended; the program is run again.
    AsMeant,
    /// It failed: its status in words, whether it failed at once, and whether it is run again.
    Died { status: String, at_once: bool, restart: bool },
}

/// A running program, with the counts of its runs.
pub(super) struct ExternalProgram {
    recipe: LoadRecipe,
    mark: String,
    leader: Option<i32>,
    watch: Option<OwnedFd>,
    words: Option<OutputTail>,
    groups: Vec<i32>,
    next_kill: Option<Instant>,
    killed_by_us: bool,
    failures: u32,
    runs: u64,
    processes: u64,
    killed: u64,
    cpu: Duration,
    packets_sent: Option<u64>,
}

impl ExternalProgram {
    /// Starts the program, with `mark` in its environment.
    pub(super) fn start(recipe: LoadRecipe, mark: &str) -> Result<Self, std::io::Error> {
        let mut program = Self {
            next_kill: recipe.kill_every.map(|time| Instant::now() + time),
            recipe,
            mark: mark.to_owned(),
            leader: None,
            watch: None,
            words: None,
            groups: Vec::new(),
            killed_by_us: false,
            failures: 0,
            runs: 0,
            processes: 0,
            killed: 0,
            cpu: Duration::ZERO,
            packets_sent: None,
        };

        program.run()?;
        Ok(program)
    }

    /// Starts the next run.
    pub(super) fn run(&mut self) -> Result<(), std::io::Error> {
        let (reader, writer) = std::io::pipe()?;
        let [program, arguments @ ..] = &self.recipe.words[..] else {
            return Err(std::io::ErrorKind::NotFound.into());
        };
        let mut command = Command::new(program);
        command.args(arguments).env(MARK, &self.mark).stdin(Stdio::null());
        command.stdout(if self.recipe.figures {
            Stdio::from(writer.try_clone()?)
        } else {
            Stdio::null()
        });
        command.stderr(writer);

        if let Some(directory) = &self.recipe.directory {
            command.current_dir(directory);
        }

        let pid = spawn(&mut command)?;
        // The command holds the other end of the pipe open.
        drop(command);
        self.leader = Some(pid);
        self.watch = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.words = OutputTail::from(reader);
        self.groups.insert(0, pid);
        self.groups.truncate(GROUPS_KEPT);
        self.killed_by_us = false;
        self.runs += 1;

        Ok(())
    }

    /// Returns what the part does.
    pub(super) fn plan(&self) -> String {
        let words = self.command_line();
        match self.recipe.kill_every {
            None => words,
            Some(time) => format!("{words} repeatedly, killed every {} s", time.as_secs()),
        }
    }

    /// Returns the program with its arguments.
    pub(super) fn command_line(&self) -> String {
        self.recipe.words.join(" ")
    }

    /// Returns the descriptors that become readable on its output or its end.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let watch = self.watch.as_ref().map(AsFd::as_fd);
        watch
            .into_iter()
            .chain(self.words.as_ref().filter(|words| !words.over).map(|words| words.pipe.as_fd()))
    }

    /// Reads its output.
    pub(super) fn listen(&mut self) {
        if let Some(words) = &mut self.words {
            words.take();
        }
    }

    /// Whether the ended process belongs to this program.
    pub(super) fn owns(&self, ended: &EndedChild) -> bool {
        self.groups.contains(&ended.group)
    }

    /// Counts an ended process. Returns how the run ended if it was the first process of the run.
    pub(super) fn reap(&mut self, ended: &EndedChild) -> Option<RunEnd> {
        self.processes += 1;
        self.cpu += ended.cpu;
        self.killed +=
            u64::from(std::os::unix::process::ExitStatusExt::signal(&ended.status) == Some(9));
        if self.leader != Some(ended.pid) {
            return None;
        }

        let last_line = self.last_line();
        (self.leader, self.watch) = (None, None);
        let over_and_over = self.recipe.kill_every.is_some();
        if over_and_over {
            // Processes left by failed or killed runs would accumulate.
            signal_group(ended.pid, Signal::KILL);
        }

        if over_and_over && (self.killed_by_us || ended.status.success()) {
            self.failures = 0;
            return Some(RunEnd::AsMeant);
        }

        self.failures += 1;
        Some(RunEnd::Died {
            status: status_with_last_line(ended.status, &last_line),
            at_once: self.runs == 1 && ended.cpu < FAILED_AT_ONCE && !ended.status.success(),
            restart: over_and_over && self.failures < MOST_FAILURES,
        })
    }

    fn last_line(&mut self) -> String {
        let Some(mut words) = self.words.take() else { return String::new() };
        words.take();
        let text = String::from_utf8_lossy(&words.kept);
        self.packets_sent = packets(&text).or(self.packets_sent);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.unwrap_or_default().to_owned()
    }

    /// Kills all processes of the run if the interval has passed.
    pub(super) fn kill_if_due(&mut self) {
        let now = Instant::now();
        if self.next_kill.is_none_or(|next| now < next) {
            return;
        }
        self.next_kill = self.recipe.kill_every.map(|time| now + time);
        if let Some(leader) = self.leader {
            self.killed_by_us = true;
            signal_group(leader, Signal::KILL);
        }
    }

    /// Sends all its processes the signal that ends them.
    pub(super) fn request_end(&self) {
        for group in &self.groups {
            signal_group(*group, self.recipe.ending);
        }
    }

    /// Whether all its processes have ended.
    pub(super) fn is_over(&self) -> bool {
        self.leader.is_none()
            && self.groups.iter().all(|group| {
                Pid::from_raw(*group).is_none_or(|group| test_kill_process_group(group).is_err())
            })
    }

    /// Whether it is running.
    pub(super) const fn is_alive(&self) -> bool {
        self.leader.is_some()
    }

    /// Returns its counts.
    pub(super) fn did(&self) -> PartWork {
        let Self { runs, processes, killed, packets_sent, .. } = *self;
        PartWork::Program { runs, processes, killed, cpu_s: self.cpu.as_secs_f64(), packets_sent }
    }
}

fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // A group that has ended needs no signal.
        let _ = kill_process_group(group, signal);
    }
}

fn status_with_last_line(status: ExitStatus, last_line: &str) -> String {
    // The standard library's words: "exit status: 3", "signal: 9 (SIGKILL)".
    if last_line.is_empty() { status.to_string() } else { format!("{status}: {last_line}") }
}

/// Parses the number in ping's "184515 packets transmitted, ...".
fn packets(text: &str) -> Option<u64> {
    let (before, _) = text.split_once(" packets transmitted")?;
    before.rsplit(char::is_whitespace).next()?.parse().ok()
}

/// The last part of a program's output.
struct OutputTail {
    pipe: File,
    kept: Vec<u8>,
    /// All writers have closed the pipe.
    over: bool,
}

impl OutputTail {
    fn from(pipe: PipeReader) -> Option<Self> {
        let pipe = File::from(OwnedFd::from(pipe));
        let flags = fcntl_getfl(&pipe).ok()?;
        fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).ok()?;
        Some(Self { pipe, kept: Vec::new(), over: false })
    }

    /// Reads the available output, at most a few pipe capacities, so that a verbose program does
    /// not block the supervisor.
    fn take(&mut self) {
        let mut piece = [0; 4096];
        for _ in 0..64 {
            match self.pipe.read(&mut piece) {
                Ok(0) => {
                    self.over = true;
                    return;
                }
                Ok(count) => {
                    self.kept.extend_from_slice(&piece[..count]);
                    let too_much = self.kept.len().saturating_sub(KEPT);
                    self.kept.drain(..too_much);
                }
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_own_count_of_packets_is_read() {
        let text = "PING localhost\n\n--- statistics ---\n184515 packets transmitted, 78139 received, 57% loss\n";
        assert_eq!(packets(text), Some(184_515));
        assert_eq!(packets("ping: unknown host"), None);
    }

    #[test]
    fn a_status_is_put_into_words_with_the_last_line() {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(status_with_last_line(ExitStatus::from_raw(3 << 8), ""), "exit status: 3");
        assert_eq!(
            status_with_last_line(ExitStatus::from_raw(9), "no memory"),
            "signal: 9 (SIGKILL): no memory"
        );
    }
}
