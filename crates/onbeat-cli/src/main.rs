//! The binary `onbeat`: words, colours and exit statuses.
//!
//! Every number it shows comes from the library. Exit status: 0 done or PASS, 1 FAIL, 2 could not
//! run, 3 INCONCLUSIVE.

mod bench_file;
mod cli;
mod cmd;
mod completion;
#[cfg(test)]
mod pasted;
mod probes;
mod surface;
mod term;
mod worth;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

use onbeat_commands::habits::{self, Translated};
use onbeat_commands::{complete, options, signals, state, units};

use cli::{Cli, Colour, Command};
use cmd::{ExitVerdict, Failure};

fn main() -> ExitCode {
    onbeat_host::program::survive_file_limit();
    // Before anything else: a guard has to stay small.
    let words = std::env::args_os().skip(1);
    if let Some(status) = onbeat_tune::guard::answer(words, cmd::repair::by_guard) {
        return status;
    }

    onbeat::cause::guard_instances_by(cmd::repair::guard_of_recorders);
    completion::answer();
    // Where the system refuses it, a truncated ring ends this process, as it ends others.
    let _ = onbeat_control::truncation::install();
    let cli = match read_command_line() {
        Ok(cli) => cli,
        Err(answer) => return answered(&answer),
    };

    match cli.color {
        Colour::Auto => {}
        Colour::Always => anstream::ColorChoice::Always.write_global(),
        Colour::Never => anstream::ColorChoice::Never.write_global(),
    }

    ended(run(cli.command))
}

/// Parses the command line; help is folded to the terminal.
fn read_command_line() -> Result<Cli, clap::Error> {
    let (extent, words) = surface::asked(std::env::args_os().collect());
    let width = term::fold::help_width(term::columns());
    let mut command = term::fold::command(surface::command(extent), width);
    let words = match own_words(words, &command) {
        Ok(words) => words,
        Err(why) => return Err(command.error(clap::error::ErrorKind::ValueValidation, why)),
    };
    let matches = command.try_get_matches_from_mut(words);
    let matches = matches
        .map_err(|why| surface::with_own_names(surface::with_paths(why, &command), &command))?;
    Cli::from_arg_matches(&matches).map_err(|why| why.format(&mut command))
}

/// The words as clap reads them: options of cyclictest in onbeat's words, and the settings of a file among those typed.
fn own_words(mut words: Vec<OsString>, command: &clap::Command) -> Result<Vec<OsString>, String> {
    if let Some(translated) = habits::translated(&words)? {
        words = told(translated);
    }
    if let Some(settings) = bench_file::with_settings(&words, command)? {
        words = told(settings);
        cmd::type_instead(&words);
    }
    Ok(words)
}

/// Says what the words came to.
fn told(words: Translated) -> Vec<OsString> {
    term::advise(term::Tone::Faint, &term::wrapped(&words.hint, term::columns()));
    words.words
}

/// Returns the exit status. Output that was lost is a failure, whatever the result.
fn ended(ran: Result<ExitVerdict, Failure>) -> ExitCode {
    let arrived = term::finish().map_err(cmd::Common::Output);
    match ran.and_then(|verdict| Ok(arrived.map(|()| verdict)?)) {
        Ok(verdict) => ExitCode::from(verdict.status()),
        Err(failure) => {
            term::say_error(&failure.to_string());
            ExitCode::from(2)
        }
    }
}

/// Writes help and version to standard output, usage errors to standard error.
fn answered(answer: &clap::Error) -> ExitCode {
    if !answer.use_stderr() {
        term::put(|_| answer.print());
        return ended(Ok(ExitVerdict::Pass));
    }

    cmd::gate::not_understood(&answer.to_string());
    term::say_usage(answer);
    ExitCode::from(2)
}

fn run(command: Command) -> Result<ExitVerdict, Failure> {
    match command {
        Command::Bench(options) => cmd::bench::run(&options),
        Command::Measure(measure) => cmd::measure::run(&measure),
        Command::Watch(options) => cmd::watch::run(&options),
        Command::Inject(options) => cmd::inject::run(&options),
        Command::Load(options) => cmd::load::run(options),
        Command::Export(options) => cmd::export::run(&options),
        Command::Report(options) => cmd::report::run(&options),
        Command::View(options) => cmd::view::run(&options),
        Command::Metrics(options) => cmd::metrics::run(&options),
        Command::Trend(options) => cmd::trend::run(&options),
        Command::Compare(options) => cmd::compare::run(&options),
        Command::Gate(options) => cmd::gate::run(&options),
        Command::Import(options) => cmd::import::run(&options),
        Command::Robot(command) => cmd::robot::run(&command),
        Command::Segment(command) => cmd::segment::run(&command),
        Command::Bus(command) => cmd::bus::run(&command),
        // Its decoders and clients of the network would make this program larger for those who have no camera.
        Command::Camera { words } => cmd::gateway::become_program("onbeat-camera", &words),
        Command::Fleet { words } => cmd::gateway::become_program(cmd::fleet::PROGRAM, &words),
        Command::Message(command) => cmd::message::run(&command),
        Command::Net(command) => cmd::net::run(&command),
        Command::Tune(command) => cmd::tune::run(&command),
        Command::Vm(command) => cmd::vm::run(&command),
        Command::Repair(options) => cmd::repair::run(options),
        Command::Cell => cmd::cell::run(),
        Command::Agent { words } => cmd::agent::run(words),
        Command::Screen { run } => cmd::screen::run(&run),
        Command::Completion { shell } => cmd::completion::run(shell),
        Command::Generate { into } => cmd::generate::run(&into),
    }
}
