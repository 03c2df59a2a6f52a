//! Output in a terminal: results on standard output, progress and advice on standard error.

pub mod fold;
mod output;

use std::io::Write;

use anstyle::{AnsiColor, Style};
use onbeat_figures::units::Letters;

pub use output::{finish, is_read, print_json, put, say};

/// The letters that the terminal shows.
pub fn letters() -> Letters {
    if unicode() { Letters::Unicode } else { Letters::Ascii }
}

/// Meaning of a line, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Head,
    Good,
    Bad,
    Careful,
    Faint,
}

impl Tone {
    const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Head => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default().bold(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Careful => AnsiColor::Yellow.on_default().bold(),
            Self::Faint => Style::new().dimmed(),
        }
    }
}

/// Writes a line of advice to standard error, folded for a terminal.
pub fn advise(tone: Tone, text: &str) {
    let style = tone.style();
    let text = folded_for_stderr(text);
    let _ = writeln!(anstream::stderr(), "{style}{text}{style:#}");
}

/// Writes an error message to standard error, folded for a terminal.
pub fn say_error(text: &str) {
    let style = Tone::Bad.style();
    let text = folded_for_stderr(&format!("{style}onbeat:{style:#} {text}"));
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Writes clap's message about a wrong command line.
pub fn say_usage(answer: &clap::Error) {
    let text = without_rust(answer.render().ansi().to_string());
    let text = folded_for_stderr(text.trim_end());
    // An error of standard error itself cannot be reported anywhere.
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Returns clap's message without the words that Rust has for numbers and ranges.
fn without_rust(mut text: String) -> String {
    for (words, instead) in [
        ("': invalid digit found in string", "': it is not a whole number"),
        ("': cannot parse integer from empty string", "': it is not a whole number"),
        ("': invalid float literal", "': it is not a number"),
    ] {
        text = text.replace(words, instead);
    }
    match text.split_once(" is not in ") {
        Some((before, range)) if range.contains("..=") => {
            format!("{before} is not in the range {}", range.replacen("..=", " to ", 1))
        }
        _ => text,
    }
}

/// Folds for a terminal; programs that read standard error get whole lines.
fn folded_for_stderr(text: &str) -> String {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let width = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    width.map_or_else(
        || text.to_owned(),
        |width| fold::lines(text, width.clamp(fold::NARROWEST, WIDEST)),
    )
}

/// Whether the locale is UTF-8.
pub fn unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Width limit of results and messages on wide terminals.
const WIDEST: usize = 120;
/// Width without a terminal.
const DEFAULT_WIDTH: usize = 80;

/// Width of results: that of the terminal, else `COLUMNS`, else 80; at least 40 and at most 120
/// columns.
pub fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let of_terminal = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    let of_environment = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal.or_else(of_environment).unwrap_or(DEFAULT_WIDTH).clamp(fold::NARROWEST, WIDEST)
}

/// Breaks a paragraph into lines of at most `width` columns. `us` becomes `µs` where the terminal
/// shows it.
pub fn wrapped(text: &str, width: usize) -> String {
    fold::broken(text, width, unicode())
}

/// Writes a paragraph of results, broken into lines of their width.
pub fn say_wrapped(tone: Tone, text: &str) {
    say(tone, &wrapped(text, columns()));
}

/// Writes lines of results, folded to their width.
pub fn say_folded(tone: Tone, text: &str) {
    say(tone, &fold::lines(text, columns()));
}

/// `1 step`, `2 steps`.
pub fn counted(count: usize, noun: &str) -> String {
    onbeat_figures::units::counted(count as u64, noun)
}
