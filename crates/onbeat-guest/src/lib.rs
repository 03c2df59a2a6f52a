//! What runs in a guest: measurements by a plan of the host's, answers to its commands, events of the guest's kernel.
//!
//! ```text
//! agent measure OUT PLAN             a probe of the library by a GuestPlan; its run file, and its summary on standard output
//! agent answer --port NAME [...]     moves a servo for each command of a study
//! agent answer --clock               exchanges of clocks by shared memory
//! agent answer --record FILE         all events of the guest's kernel
//! load --supervised LOAD             the process that carries the load of a measurement
//! ```
//!
//! The words come from jobs of onbeat-lab and from this agent itself, not from people. The same words do the same in the whole
//! program, so that a job need not know which of the two is in its guest.

mod measure;

use std::fs::File;
use std::io::{self, Write, stdin, stdout};
use std::os::fd::AsFd;
use std::path::Path;

use onbeat::bench::BenchError;
use onbeat::load::{Load, Options, serve};
use onbeat::probe::{Interruptions, ProbeError};
use onbeat::record::RunFileError;
use onbeat_lab::joined::{self, RecordError};
use onbeat_lab::study::{self, AnsweringSide, Servo};

/// Why the agent could not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The host speaks another version's words.
    #[error(
        "the agent of onbeat {version} does not know \"{words}\"; the host's onbeat and this agent should be of one version",
        version = env!("CARGO_PKG_VERSION")
    )]
    Words {
        /// What it was told.
        words: String,
    },
    /// A plan is not one.
    #[error("the plan of a measurement cannot be used: {0}")]
    Plan(#[from] serde_json::Error),
    /// A probe that only the whole program has.
    #[error("the agent has no probe {probe}; the whole onbeat has it: name that by --onbeat")]
    NoSuchProbe {
        /// Its name.
        probe: String,
    },
    /// What the measurement needs is not there.
    #[error(transparent)]
    Measurement(#[from] BenchError),
    /// The output of commands is not there.
    #[error(transparent)]
    Output(#[from] ProbeError),
    /// The run file cannot be read again.
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    /// Events could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file or a port of the guest.
    #[error("cannot use {what}: {source}")]
    Io {
        /// Which.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

const ABOUT: &str =
    "The agent of onbeat in a guest: measures, answers commands, hands out kernel events.
`onbeat vm` of the host brings it into a guest, and tells it what to do.";

/// Does what the words say. Blocks; `interruptions` end a measurement and a recording.
///
/// # Errors
/// [`AgentError`].
pub fn run(words: &[String], interruptions: &Interruptions) -> Result<(), AgentError> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        // The name of the agent in the whole program.
        ["agent", "measure", out, plan] => measure::measure(Path::new(out), plan, interruptions),
        ["agent", "answer", "--clock"] => {
            joined::answer_exchanges().map_err(io_of("the page of the clocks"))
        }
        ["agent", "answer", "--record", file] => {
            Ok(joined::record_events(Path::new(file), &interruptions.stop)?)
        }
        ["agent", "answer", ref options @ ..] => answer(options).unwrap_or_else(|| unknown(&words)),
        ["--version" | "-V"] => say(&format!("onbeat-guest {}", env!("CARGO_PKG_VERSION"))),
        ["--help" | "-h"] => say(ABOUT),
        ["load", "--supervised", load] => match load.parse::<Load>() {
            Ok(load) => carry(&load),
            Err(_) => unknown(&words),
        },
        _ => unknown(&words),
    }
}

fn say(words: &str) -> Result<(), AgentError> {
    writeln!(stdout(), "{words}").map_err(io_of("standard output"))
}

fn unknown(words: &[&str]) -> Result<(), AgentError> {
    Err(AgentError::Words { words: words.join(" ") })
}

fn io_of(what: &str) -> impl FnOnce(io::Error) -> AgentError {
    let what = what.to_owned();
    move |source| AgentError::Io { what, source }
}

/// Answers commands until the host closes the port, or the socket that is standard input. `None` where an option is unknown.
fn answer(options: &[&str]) -> Option<Result<(), AgentError>> {
    let (mut port, mut cpu, mut output, mut by_timer) = (None, None, None, false);
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        match *option {
            "--port" => port = Some(*rest.next()?),
            "--cpu" => cpu = Some(rest.next()?.parse().ok()?),
            "--output" => output = Some(rest.next()?.parse().ok()?),
            "--timer" => by_timer = true,
            _ => return None,
        }
    }

    let answered = || {
        let what = port.unwrap_or("standard input");
        let opened = match port {
            Some(port) => study::open_port(port),
            None => stdin().as_fd().try_clone_to_owned().map(File::from),
        };
        let mut opened = opened.map_err(io_of(what))?;
        let mut servo = Servo::open(output.as_ref())?;
        let side = match port {
            Some(_) if by_timer => AnsweringSide::VirtualGuest,
            Some(_) => AnsweringSide::Guest,
            None => AnsweringSide::Host(cpu),
        };
        study::answer(&mut opened, &mut servo, side).map_err(io_of(what))
    };
    Some(answered())
}

/// Carries a load until the measurement that started it has ended.
fn carry(load: &Load) -> Result<(), AgentError> {
    let input = stdin().as_fd().try_clone_to_owned().map_err(io_of("standard input"))?;
    // What kept it from starting is told to the one that started it, on standard output.
    let served = serve(load, &Options::default(), input, &mut stdout());
    served.map(drop).map_err(|error| io_of("the load")(io::Error::other(error.to_string())))
}
