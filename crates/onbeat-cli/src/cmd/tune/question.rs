//! A question on the terminal.

use std::io::{self, IsTerminal, Write};

use crate::cmd::failure::tune::TuneFailure;

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserAnswer {
    Yes,
    No,
}

/// Asks whether to go ahead; `what` names the question where nobody can answer on a terminal.
/// Anything but `y` or `yes` is a no, the end of the input too.
pub(super) fn ask(text: &str, what: &'static str) -> Result<UserAnswer, TuneFailure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(TuneFailure::Unanswered { question: what });
    }

    let mut line = String::new();
    let asked = write!(io::stderr(), "{text} [y/N] ").and_then(|()| io::stderr().flush());
    asked.and_then(|()| io::stdin().read_line(&mut line)).map_err(TuneFailure::Answer)?;
    let is_yes = matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    Ok(if is_yes { UserAnswer::Yes } else { UserAnswer::No })
}
