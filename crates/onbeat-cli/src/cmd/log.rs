//! Logs of channels, written by `onbeat-gateway`: a program and a process of its own, so that the
//! loop does not notice, and this program stays small.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use onbeat::report::units::{count, listed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::bus_words::print_json;
use super::{ExitVerdict, Failure};
use crate::cli_message::{From, LogCompression, RecordOptions};
use crate::signals::{self, OnUsr1};
use crate::term::{Tone, advise, say};

/// The program that writes logs.
const GATEWAY: &str = "onbeat-gateway";
/// Interval between two looks at Ctrl-C and at the end of the gateway.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why a log cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogFailure {
    #[error(
        "the program {GATEWAY} is not installed, which writes logs; it belongs beside {beside}, and `make install` puts both there"
    )]
    NoGateway { beside: PathBuf },
    #[error("cannot start {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error(
        "{GATEWAY} has ended ({status}) without an account; {path} can be read up to its last second"
    )]
    Died { path: PathBuf, status: String },
}

/// A log that is being written.
#[derive(Debug)]
pub(super) struct Log {
    child: Child,
    answers: BufReader<ChildStdout>,
    path: PathBuf,
}

impl Log {
    /// Starts the gateway with this order; returns once it writes the log.
    pub(super) fn begin(path: &Path, order: &Value) -> Result<Self, Failure> {
        let program = gateway()?;
        let started = Command::new(&program)
            .args(["record", &order.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Ctrl-C reaches the writers of the channels; their end is the end of the log.
            .process_group(0)
            .spawn();
        let mut child = started.map_err(|source| LogFailure::Start { program, source })?;
        let Some(answers) = child.stdout.take() else {
            return Err(LogFailure::Refused(format!("{GATEWAY} has no output")).into());
        };

        let mut log = Self { child, answers: BufReader::new(answers), path: path.to_owned() };
        log.answer()?;
        Ok(log)
    }

    /// Begins the log of a robot with its first cycle.
    pub(super) fn of_robot(path: &Path, name: &str) -> Result<Self, Failure> {
        let channel = format!("{name}/{}", onbeat_robot::cycle_messages::TOPIC);
        let order = json!({ "channels": [channel], "out": path, "from": "oldest" });
        Self::begin(path, &order)
    }

    fn answer(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        let answer: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        match answer {
            Some(answer) => match answer["error"].as_str() {
                Some(why) => Err(LogFailure::Refused(why.to_owned()).into()),
                None => Ok(answer),
            },
            None => {
                let ended = self.child.wait();
                let status =
                    ended.map_or_else(|why| why.to_string(), |it: ExitStatus| it.to_string());
                Err(LogFailure::Died { path: self.path.clone(), status }.into())
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn stop(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
    }

    /// Waits until the log is complete, which it is soon after its channels have ended; returns
    /// the account.
    pub(super) fn finish(mut self) -> Result<Value, Failure> {
        let account = self.answer()?;
        let _ = self.child.wait();
        Ok(account)
    }
}

/// Finds the gateway: beside this program, else in a folder of PATH.
fn gateway() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::Myself)?;
    let beside = own.with_file_name(GATEWAY);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&folders).map(|folder| folder.join(GATEWAY));
    let found = std::iter::once(beside).chain(in_path).find(|program| program.is_file());
    Ok(found.ok_or(LogFailure::NoGateway { beside: own })?)
}

/// Returns the sentence about a complete log.
pub(super) fn sentence(path: &Path, account: &Value) -> String {
    let channels = account["channels"].as_array().map_or(&[][..], Vec::as_slice);
    let number = |of: &Value, name: &str| count(of[name].as_u64().unwrap_or(0));
    let parts: Vec<String> = channels
        .iter()
        .map(|of| {
            let name = of["channel"].as_str().unwrap_or_default();
            format!("{} of {name}, {} lost", number(of, "received"), number(of, "lost"))
        })
        .collect();
    let bytes = number(account, "bytes");
    format!("log {}: records {}; {bytes} bytes", path.display(), listed(&parts))
}

/// Records channels until Ctrl-C, until their writers have ended, or for the given time.
pub(super) fn record(options: &RecordOptions) -> Result<ExitVerdict, Failure> {
    let interruptions = signals::watch(OnUsr1::Refuse)?;
    let channels: Vec<String> = options.channels.iter().map(ToString::to_string).collect();
    let order = json!({
        "channels": channels,
        "out": options.out,
        "from": if options.from == From::Oldest { "oldest" } else { "newest" },
        "compression": if options.compression == LogCompression::Lz4 { "lz4" } else { "none" },
        "for_ns": options.duration,
    });

    let mut log = Log::begin(&options.out, &order)?;
    advise(Tone::Faint, &format!("recording {}", listed(&channels)));
    while !log.has_ended() && !interruptions.stop.load(Ordering::Relaxed) {
        sleep(LOOK_EVERY);
    }
    log.stop();
    let account = log.finish()?;

    if options.json {
        print_json(&account)?;
    } else {
        say(Tone::Plain, &sentence(&options.out, &account));
    }
    Ok(ExitVerdict::Holds)
}
