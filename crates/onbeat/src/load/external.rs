//! Programs: started in a group of their own, run anew where that is the load, listened to for their last words.

use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group};

use super::event::PartWork;
use super::process::MARK;
use super::reap::{EndedChild, spawn};

/// A program that fails with less CPU time than this never was the load. Not time by the clock: under a heavy load the
/// dead wait long for their burial.
const AT_ONCE: Duration = Duration::from_millis(200);
/// How many failures in a row end a program that is run over and over.
const MOST_FAILURES: u32 = 3;
/// What is kept of what a program writes, in bytes.
const KEPT: usize = 2048;
/// Process groups of earlier runs whose dead may still come in.
const GROUPS_KEPT: usize = 8;

/// How to run a program.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Where it runs; `None` for where the load was started.
    pub(super) directory: Option<PathBuf>,
    /// The Debian package it comes from.
    pub(super) package: &'static str,
    /// What the load is made of: one run, or one after the other.
    pub(super) repeat: Repeat,
    /// The signal after which it ends in good order.
    pub(super) ending: Signal,
    /// Whether its standard output holds figures.
    pub(super) figures: bool,
}

/// How often a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Once; its end is the part's death.
    Once,
    /// Over and over, and killed with all its processes every so often.
    KilledEvery(Duration),
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// As the load wants it: to be run anew.
    AsMeant,
    /// It failed, in words; and whether it is worth another run.
    Died { status: String, at_once: bool, run_anew: bool },
}

/// A program at work, with what its runs did.
pub(super) struct ExternalProgram {
    recipe: Recipe,
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
    /// Starts it. `mark` goes into its environment.
    pub(super) fn start(recipe: Recipe, mark: &str) -> Result<Self, std::io::Error> {
        let now = Instant::now();
        let next_kill = match recipe.repeat {
            Repeat::Once => None,
            Repeat::KilledEvery(time) => Some(now + time),
        };

        let mut program = Self {
            recipe,
            mark: mark.to_owned(),
            leader: None,
            watch: None,
            words: None,
            groups: Vec::new(),
            next_kill,
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
        command.stdout(if self.recipe.figures { Stdio::from(writer.try_clone()?) } else { Stdio::null() });
        command.stderr(writer);

        if let Some(directory) = &self.recipe.directory {
            command.current_dir(directory);
        }

        let pid = spawn(&mut command)?;
        // The command holds the pipe's other end open.
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

    /// What it does.
    pub(super) fn plan(&self) -> String {
        let words = self.words_typed();
        match self.recipe.repeat {
            Repeat::Once => words,
            Repeat::KilledEvery(time) => format!("{words} over and over, killed every {} s", time.as_secs()),
        }
    }

    /// The program with its arguments.
    pub(super) fn words_typed(&self) -> String {
        self.recipe.words.join(" ")
    }

    /// What becomes readable when something happens to it.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let watch = self.watch.as_ref().map(AsFd::as_fd);
        watch.into_iter().chain(self.words.as_ref().filter(|words| !words.over).map(|words| words.pipe.as_fd()))
    }

    /// Takes what it has written.
    pub(super) fn listen(&mut self) {
        if let Some(words) = &mut self.words {
            words.take();
        }
    }

    fn keep(&mut self, words: &OutputTail) {
        self.packets_sent = packets(&words.text()).or(self.packets_sent);
    }

    /// Whether this dead one was its own.
    pub(super) fn owns(&self, dead: &EndedChild) -> bool {
        self.groups.contains(&dead.group)
    }

    /// Counts one of its dead; says how the run ended when that was the first process of the run.
    pub(super) fn bury(&mut self, dead: &EndedChild) -> Option<RunEnd> {
        self.processes += 1;
        self.cpu += dead.cpu;
        self.killed += u64::from(std::os::unix::process::ExitStatusExt::signal(&dead.status) == Some(9));
        if self.leader != Some(dead.pid) {
            return None;
        }

        let last_line = self.last_line();
        (self.leader, self.watch) = (None, None);
        let over_and_over = self.recipe.repeat != Repeat::Once;
        if over_and_over {
            // What a failed or killed run leaves of its processes would add up from run to run.
            signal_group(dead.pid, Signal::KILL);
        }

        if over_and_over && (self.killed_by_us || dead.status.success()) {
            self.failures = 0;
            return Some(RunEnd::AsMeant);
        }

        self.failures += 1;
        Some(RunEnd::Died {
            status: in_words(dead.status, &last_line),
            at_once: self.runs == 1 && dead.cpu < AT_ONCE && !dead.status.success(),
            run_anew: over_and_over && self.failures < MOST_FAILURES,
        })
    }

    fn last_line(&mut self) -> String {
        let Some(mut words) = self.words.take() else { return String::new() };
        words.take();
        self.keep(&words);
        words
            .text()
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .map_or_else(String::new, |line| line.trim().to_owned())
    }

    /// Kills all processes of the run when their time has come.
    pub(super) fn kill_in_turn(&mut self) {
        let Repeat::KilledEvery(time) = self.recipe.repeat else { return };
        let now = Instant::now();
        if self.next_kill.is_some_and(|next| now >= next) {
            self.next_kill = Some(now + time);
            if let Some(leader) = self.leader {
                self.killed_by_us = true;
                signal_group(leader, Signal::KILL);
            }
        }
    }

    /// Asks all its processes to end.
    pub(super) fn ask_to_end(&self) {
        for group in &self.groups {
            signal_group(*group, self.recipe.ending);
        }
    }

    /// Whether none of its processes is left.
    pub(super) fn is_over(&self) -> bool {
        self.leader.is_none()
            && self
                .groups
                .iter()
                .all(|group| Pid::from_raw(*group).is_none_or(|group| test_kill_process_group(group).is_err()))
    }

    /// Whether it runs.
    pub(super) const fn is_alive(&self) -> bool {
        self.leader.is_some()
    }

    /// Its counts.
    pub(super) fn did(&self) -> PartWork {
        let Self { runs, processes, killed, packets_sent, .. } = *self;
        PartWork::Program { runs, processes, killed, cpu_s: self.cpu.as_secs_f64(), packets_sent }
    }
}

fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // A group that is gone already needs no signal.
        let _ = kill_process_group(group, signal);
    }
}

fn in_words(status: ExitStatus, last_line: &str) -> String {
    // The standard library's words: "exit status: 3", "signal: 9 (SIGKILL)".
    if last_line.is_empty() { status.to_string() } else { format!("{status}: {last_line}") }
}

/// The figure in ping's "184515 packets transmitted, ...".
fn packets(text: &str) -> Option<u64> {
    let (before, _) = text.split_once(" packets transmitted")?;
    before.rsplit(char::is_whitespace).next()?.parse().ok()
}

/// The end of what a program writes.
struct OutputTail {
    pipe: File,
    kept: Vec<u8>,
    /// Nobody can write any more.
    over: bool,
}

impl OutputTail {
    fn from(pipe: PipeReader) -> Option<Self> {
        let pipe = File::from(OwnedFd::from(pipe));
        let flags = fcntl_getfl(&pipe).ok()?;
        fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).ok()?;
        Some(Self { pipe, kept: Vec::new(), over: false })
    }

    /// Reads what is there: at most a few pipes full, so that a talkative program does not keep its watcher from
    /// watching.
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

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
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
        assert_eq!(in_words(ExitStatus::from_raw(3 << 8), ""), "exit status: 3");
        assert_eq!(in_words(ExitStatus::from_raw(9), "no memory"), "signal: 9 (SIGKILL): no memory");
    }
}
