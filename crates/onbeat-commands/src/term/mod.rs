//! Output in a terminal: results on standard output, progress and advice on standard error.

pub mod fold;
mod output;

use std::io::Write;

use anstyle::{AnsiColor, Style};
use onbeat_figures::table::width_of;
use onbeat_figures::units::Letters;

pub use output::{finish, is_read, print_json, put, say};

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const CAREFUL: Style = AnsiColor::Yellow.on_default().bold();
const HEAD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

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
            Self::Head => HEAD,
            Self::Good => GOOD,
            Self::Bad => BAD,
            Self::Careful => CAREFUL,
            Self::Faint => FAINT,
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
    let text = folded_for_stderr(&format!("{BAD}onbeat:{BAD:#} {text}"));
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Writes clap's message about a wrong command line.
pub fn say_usage(answer: &clap::Error) {
    let text = folded_for_stderr(answer.render().ansi().to_string().trim_end());
    // An error of standard error itself cannot be reported anywhere.
    let _ = writeln!(anstream::stderr(), "{text}");
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
    broken(text, width, unicode())
}

/// Writes a paragraph of results, broken into lines of their width.
pub fn say_wrapped(tone: Tone, text: &str) {
    say(tone, &wrapped(text, columns()));
}

/// Writes lines of results, folded to their width.
pub fn say_folded(tone: Tone, text: &str) {
    say(tone, &fold::lines(text, columns()));
}

/// Units that stay on the line of their number.
const UNITS: [&str; 13] =
    ["s", "ms", "us", "µs", "ns", "min", "h", "%", "KiB", "MiB", "Hz", "kHz", "times"];

/// Whether `word` is the unit, or the unit and a mark behind it, of the number before it.
fn is_unit_of(before: &str, word: &str) -> bool {
    let bare = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
    before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&bare)
}

fn broken(text: &str, width: usize, unicode: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut().filter(|before| is_unit_of(before, word)) {
            Some(number) => {
                number.push(' ');
                let is_micro = word.starts_with("us");
                number.push_str(&if unicode && is_micro {
                    word.replacen('u', "µ", 1)
                } else {
                    word.to_owned()
                });
            }
            None => words.push(word.to_owned()),
        }
    }

    let mut lines = vec![String::new()];
    for word in words {
        let fits = lines
            .last()
            .is_some_and(|line| line.is_empty() || width_of(line) + 1 + width_of(&word) <= width);
        if !fits {
            lines.push(String::new());
        }

        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
    }

    lines.join("\n")
}

/// `1 step`, `2 steps`.
pub fn counted(count: usize, noun: &str) -> String {
    onbeat_figures::units::counted(count as u64, noun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_broken_between_words() {
        assert_eq!(broken("one two three", 7, true), "one two\nthree");
        assert_eq!(broken("unbreakable words", 3, true), "unbreakable\nwords");
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            broken("at most 97.8 us, 100 % of it", 13, true),
            "at most\n97.8 µs,\n100 % of it"
        );
        assert_eq!(broken("(worst 97.8 us)", 80, false), "(worst 97.8 us)");
        assert_eq!(broken("give us 5 us.", 80, true), "give us 5 µs.");
    }
}
