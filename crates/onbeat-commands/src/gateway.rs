//! Programs of onbeat beside this one, so that this one stays small, and `onbeat-gateway` among them, which passes
//! records on: a process of its own, so that the loop does not notice.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::failure::gateway::{GatewayFailure, PROGRAM};
use crate::signals::EndOf;
use crate::{Common, ExitVerdict, Failure};

/// Longest time that a gateway may take to end after it was asked to, before it is killed: a log is on
/// the disk before its account is given, and a disk may take seconds.
const END: Duration = Duration::from_secs(20);
/// Interval between two looks at Ctrl-C and at the end of the gateway.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A gateway that carries out an order.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    answers: BufReader<ChildStdout>,
    begun: Value,
}

impl Gateway {
    /// Starts the gateway with this order; returns once it is being carried out. A gateway that waits
    /// for something, such as a pipe in the place of a log, is killed when `stop` is set.
    pub fn begin(verb: &str, order: &Value, stop: &AtomicBool) -> Result<Self, Failure> {
        Self::begin_as(verb, order, None, stop)
    }

    /// As [`Gateway::begin`]; the gateway continues as this user once everything is open.
    pub fn begin_as(
        verb: &str,
        order: &Value,
        user: Option<&str>,
        stop: &AtomicBool,
    ) -> Result<Self, Failure> {
        let program = installed(PROGRAM)?;
        let started = Command::new(&program)
            .args([verb, &order.to_string()])
            .args(user)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C reaches the writers of the channels; their end is the end of the order.
            .process_group(0)
            .spawn();
        let mut child = started.map_err(|source| GatewayFailure::Start { program, source })?;
        let Some(answers) = child.stdout.take() else {
            return Err(GatewayFailure::Refused(format!("{PROGRAM} has no output")).into());
        };

        let mut gateway = Self { child, answers: BufReader::new(answers), begun: Value::Null };
        if !gateway.has_answer(|| stop.load(Ordering::Relaxed)) {
            let _ = gateway.child.kill();
        }
        gateway.begun = gateway.answer()?;
        Ok(gateway)
    }

    /// Returns what the gateway answered when it began.
    pub const fn begun(&self) -> &Value {
        &self.begun
    }

    /// Waits for an answer, or its end; `false` when there is none until `is_over`.
    fn has_answer(&self, is_over: impl Fn() -> bool) -> bool {
        let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
        while self.answers.buffer().is_empty() {
            let mut answers = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
            match poll(&mut answers, Some(&look)) {
                Ok(0) | Err(_) if is_over() => return false,
                Ok(0) | Err(_) => {}
                Ok(_) => break,
            }
        }
        true
    }

    fn answer(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        let answer: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        match answer {
            Some(answer) => match answer["error"].as_str() {
                Some(why) => Err(GatewayFailure::Refused(why.to_owned()).into()),
                None => Ok(answer),
            },
            None => {
                let ended = self.child.wait();
                let status =
                    ended.map_or_else(|why| why.to_string(), |it: ExitStatus| it.to_string());
                Err(GatewayFailure::Died { status }.into())
            }
        }
    }

    /// Waits until the order is carried out, or ends it when `stop` is set; returns the account.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Value, Failure> {
        while matches!(self.child.try_wait(), Ok(None)) && !stop.load(Ordering::Relaxed) {
            sleep(LOOK_EVERY);
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _end = EndOf::orderly("its gateway, which brings the last records to the disk");
            let _ = kill_process(pid, Signal::INT);
            let asked = Instant::now();
            if !self.has_answer(|| asked.elapsed() > END) {
                let _ = self.child.kill();
            }
        }
        self.finish()
    }

    /// Ends the order now; returns the account.
    pub fn end(self) -> Result<Value, Failure> {
        self.run(&AtomicBool::new(true))
    }

    /// Waits until the order is carried out, which it is soon after its channels have ended; returns
    /// the account.
    pub fn finish(mut self) -> Result<Value, Failure> {
        let account = self.answer()?;
        let _ = self.child.wait();
        Ok(account)
    }
}

/// Becomes another program of onbeat; returns only if that is not possible.
pub fn become_program(name: &'static str, words: &[OsString]) -> Result<ExitVerdict, Failure> {
    let program = installed(name)?;
    // Its --help has everything.
    let words = words.iter().map(|word| match word.to_str() {
        Some("--help-all") => OsStr::new("--help"),
        _ => word.as_os_str(),
    });
    let source = Command::new(&program).args(words).exec();
    Err(GatewayFailure::Start { program, source }.into())
}

/// Finds a program of onbeat: beside this one, else in a folder of PATH.
pub fn installed(name: &'static str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Common::OwnProgram)?;
    let beside = own.with_file_name(name);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let found = std::iter::once(beside).chain(in_path).find(|program| program.is_file());
    Ok(found.ok_or(GatewayFailure::NotInstalled { program: name, beside: own })?)
}
