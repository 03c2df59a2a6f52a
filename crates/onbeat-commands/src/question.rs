//! A question on the terminal, before something is written or changed.

use std::io::{self, IsTerminal, Write};

/// Why a question has no answer. What was not done is a word: `written`, `changed`.
#[derive(Debug, thiserror::Error)]
pub enum QuestionFailure {
    #[error(
        "nothing was {done}: {question} needs an answer, and standard input is not a terminal; add --yes"
    )]
    Unanswered { done: &'static str, question: &'static str },
    #[error("cannot read the answer: {source}; nothing was {done}")]
    Answer { done: &'static str, source: io::Error },
}

/// Asks whether to go ahead; `question` names it where nobody can answer on a terminal. Anything
/// but `y` or `yes` is a no, the end of the input too.
pub fn ask(
    text: &str,
    question: &'static str,
    done: &'static str,
) -> Result<bool, QuestionFailure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(QuestionFailure::Unanswered { done, question });
    }

    let mut line = String::new();
    let asked = write!(io::stderr(), "{text} [y/N] ").and_then(|()| io::stderr().flush());
    asked
        .and_then(|()| io::stdin().read_line(&mut line))
        .map_err(|source| QuestionFailure::Answer { done, source })?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
