//! Why a measurement could not be made, or a probe not opened.

use std::io;
use std::path::PathBuf;

use onbeat_rt::PlanError;

use super::resume::OtherRun;
use onbeat_host::thread::LockdownError;
use onbeat_record::{RunFileError, WriteError};

/// A measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The timing of the loop is not valid.
    #[error("{}", plan_sentence(.0))]
    Plan(PlanError),
    /// The run file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The run file could not be opened to resume it.
    #[error(transparent)]
    RunFile(#[from] RunFileError),
    /// The system call filter could not be installed.
    #[error(transparent)]
    Lockdown(#[from] LockdownError),
    /// The option needs a grid of releases.
    #[error("{option} has no meaning with --wait relative: {why}; leave one of them out")]
    NoGrid {
        /// The option as typed.
        option: String,
        /// Why it has no meaning with a relative sleep.
        why: &'static str,
    },
    /// The probe could not be opened.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The run would be resumed under other conditions than it began.
    #[error(transparent)]
    OtherRun(#[from] OtherRun),
    /// The loop's thread could not be started.
    #[error("cannot start the loop's thread: {0}; the limit of threads (ulimit -u) may be reached")]
    Thread(io::Error),
    /// The loop's thread panicked: a bug.
    #[error(
        "the loop's thread panicked; this is a bug in onbeat, please report it with the command you typed"
    )]
    Panicked,
}

fn plan_sentence(why: &PlanError) -> String {
    let us = |ns: &u64| *ns as f64 / 1000.0;
    match why {
        PlanError::NoPeriod => "the period is 0; a loop needs one, such as --period 1ms".to_owned(),
        PlanError::SpinTooLong { spin_ns, period_ns } => format!(
            "the wait would poll for {} us of a {} us period; some sleep must remain: shorten the spin",
            us(spin_ns),
            us(period_ns)
        ),
        PlanError::TooBusy { work_ns, spin_ns, period_ns } => format!(
            "{} us of work{} in a {} us period leave less than a tenth of the CPU; the kernel would stop the loop for 50 ms a \
             second (RT throttling, fair server): lengthen the period or shorten the {}",
            us(work_ns),
            if *spin_ns > 0 {
                format!(" and {} us of polling", us(spin_ns))
            } else {
                String::new()
            },
            us(period_ns),
            if *spin_ns > 0 { "spin" } else { "work" }
        ),
    }
}

/// A probe cannot run as asked.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The delay is too long for the period.
    #[error(
        "the answer to an edge begins {delay_us} us after it was taken up{}, and edges come every {period_us} us; \
         shorten --delay{} to at most nine tenths of --period",
        if *work_us > 0.0 { format!(" and works for {work_us} us") } else { String::new() },
        if *work_us > 0.0 { " and --work together" } else { "" }
    )]
    DelayTooLong {
        /// The delay, in microseconds.
        delay_us: f64,
        /// Planned work of an answer, in microseconds.
        work_us: f64,
        /// The period of the edges, in microseconds.
        period_us: f64,
    },
    /// An option has no effect together with the others.
    #[error("{option} has no meaning here: {why}; leave it out")]
    NoMeaning {
        /// The option as typed.
        option: &'static str,
        /// Why it has no effect.
        why: &'static str,
    },
    /// The share of polling is out of range.
    #[error(
        "--busy {percent}% cannot be polled: give more than 0 % and at most {most} %, so that the thread sleeps in each period"
    )]
    Share {
        /// As typed.
        percent: f64,
        /// The largest that is accepted.
        most: f64,
    },
    /// The kernel would stop the polling thread.
    #[error(
        "--busy {percent}% at SCHED_FIFO {priority} is more than this kernel gives to real-time threads: {runtime_us} of \
         {period_us} us (kernel.sched_rt_runtime_us); give a smaller share, or --priority 0 for an ordinary thread"
    )]
    Throttled {
        /// As typed.
        percent: f64,
        /// Priority of the thread.
        priority: u32,
        /// What real-time threads get of each period, in microseconds.
        runtime_us: u64,
        /// The period of RT throttling, in microseconds.
        period_us: u64,
    },
    /// Polling threads on several CPUs would leave nothing to the rest of the machine.
    #[error(
        "--busy {percent}% on {loops} CPUs leaves {left} % of a CPU to everything else, the threads that record it among \
         it, which takes {least} %; use --busy {most}%, fewer CPUs, or --priority 0 for ordinary threads"
    )]
    NothingLeft {
        /// As typed.
        percent: f64,
        /// Polling threads.
        loops: u64,
        /// What is left, in percent of a CPU.
        left: f64,
        /// What has to be left.
        least: f64,
        /// The largest share that leaves as much.
        most: u64,
    },
    /// A place cannot be read from or written to as requested.
    #[error("{place} cannot be {what}: {why}")]
    Unfit {
        /// The place as typed.
        place: String,
        /// The requested use: `an input`, `an output`.
        what: &'static str,
        /// Why it cannot, and which place can.
        why: &'static str,
    },
    /// The system refused to open a place.
    #[error("cannot open {place} as {what}: {source}{hint}")]
    Open {
        /// The place as typed.
        place: String,
        /// The requested use.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
        /// What to do next, after a semicolon; may be empty.
        hint: &'static str,
    },
    /// The GPIO chip does not exist.
    #[error(
        "{chip} does not exist, {}; without hardware leave the option out: the default is a signal generator of \
         onbeat's own on another CPU, and a pipe",
        if others.is_empty() { "and this machine has no GPIO chip".to_owned() } else { format!("this machine has {}", others.join(", ")) }
    )]
    NoChip {
        /// The chip that was requested.
        chip: PathBuf,
        /// Chips that exist.
        others: Vec<String>,
    },
    /// The PWM chip does not exist.
    #[error(
        "{chip} does not exist, {}; without hardware leave the option out: the default is a pipe",
        if others.is_empty() { "and this machine has no PWM chip".to_owned() } else { format!("this machine has {}", others.join(", ")) }
    )]
    NoPwm {
        /// The chip that was requested.
        chip: PathBuf,
        /// Chips that exist.
        others: Vec<String>,
    },
    /// The chip does not have the line.
    #[error("{chip} has no line {line}; `gpioinfo` (Debian package gpiod) lists its {lines} lines")]
    NoLine {
        /// The chip.
        chip: PathBuf,
        /// The line that was requested.
        line: String,
        /// Number of its lines.
        lines: u32,
    },
    /// A probe of another crate cannot run.
    #[error(transparent)]
    Own(Box<dyn std::error::Error + Send + Sync>),
    /// A thread could not be started.
    #[error(
        "cannot start the thread of {what}: {source}; the limit of threads (ulimit -u) may be reached"
    )]
    Thread {
        /// The name of the thread.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}
