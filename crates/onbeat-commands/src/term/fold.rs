//! Folding of text to the width of a terminal. Escape sequences for colours have no width.

use clap::Command;
use clap::builder::StyledStr;
use onbeat_figures::table::width_of;

/// Lines are never folded to fewer columns than this.
pub const NARROWEST: usize = 40;
/// Width limit of help: longer lines are hard to read.
const WIDEST_HELP: usize = 100;
/// Indentation of the continuation of a folded command.
const COMMAND_HANG: &str = "      ";
/// Units that stay on the line of their number.
const UNITS: [&str; 13] =
    ["s", "ms", "us", "µs", "ns", "min", "h", "%", "KiB", "MiB", "Hz", "kHz", "times"];

/// The width of help on a terminal of `columns`.
pub fn help_width(columns: usize) -> usize {
    columns.clamp(NARROWEST, WIDEST_HELP)
}

/// Folds the examples and closing texts of a command and its subcommands; clap folds the rest.
pub fn command(command: Command, width: usize) -> Command {
    let before = |text: &StyledStr| examples(&text.ansi().to_string(), width);
    let after = |text: &StyledStr| lines(&text.ansi().to_string(), width);
    let short = command.get_before_help().map(before);
    let long = command.get_before_long_help().map(before);
    let short_end = command.get_after_help().map(after);
    let long_end = command.get_after_long_help().map(after);
    let command = command.term_width(width);
    let command = short.into_iter().fold(command, Command::before_help);
    let command = long.into_iter().fold(command, Command::before_long_help);
    let command = short_end.into_iter().fold(command, Command::after_help);
    let command = long_end.into_iter().fold(command, Command::after_long_help);
    command.mut_subcommands(|below| self::command(below, width))
}

/// Folds each line that is longer than `width`. The continuation is aligned with the line's text,
/// or with the second column of a line in two columns.
pub fn lines(text: &str, width: usize) -> String {
    let folded: Vec<String> = text.lines().map(|line| prose(line, width)).collect();
    folded.join("\n")
}

/// Folds examples. A line indented by two spaces is a command and can still be pasted when folded;
/// other lines describe it.
fn examples(text: &str, width: usize) -> String {
    let folded = text.lines().map(|line| match line.len() - line.trim_start().len() {
        2 => pasted(line, width),
        _ => prose(line, width),
    });
    folded.collect::<Vec<_>>().join("\n")
}

fn prose(line: &str, width: usize) -> String {
    if visible(line) <= width {
        return line.to_owned();
    }

    let indent = line.len() - line.trim_start().len();
    let text = &line[indent..];
    let second =
        text.find("  ").map(|gap| gap + text[gap..].len() - text[gap..].trim_start().len());
    let hang =
        second.map(|column| indent + visible(&text[..column])).filter(|hang| *hang <= width / 2);
    // The first column keeps its width.
    let (head, words) = hang.zip(second).map_or(("", text), |(_, second)| text.split_at(second));
    let begin = format!("{}{head}", &line[..indent]);

    let words = held(words, false);
    let words = words.iter().map(String::as_str);
    filled(&begin, words, &" ".repeat(hang.unwrap_or(indent)), ("", width))
}

/// Breaks a paragraph into lines of at most `width` columns.
pub(super) fn broken(text: &str, width: usize, unicode: bool) -> String {
    filled("", held(text, unicode).iter().map(String::as_str), "", ("", width))
}

/// Words, each number with its unit; `us` becomes `µs` with `unicode`.
fn held(text: &str, unicode: bool) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut().filter(|before| is_unit_of(before, word)) {
            Some(number) => {
                let micro = word.strip_prefix("us").filter(|_| unicode);
                number.push_str(if micro.is_some() { " µs" } else { " " });
                number.push_str(micro.unwrap_or(word));
            }
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// Whether `word` is the unit, or the unit and a mark behind it, of the number before it.
fn is_unit_of(before: &str, word: &str) -> bool {
    let bare = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
    before.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&bare)
}

fn pasted(line: &str, width: usize) -> String {
    if visible(line) <= width {
        return line.to_owned();
    }
    filled("  ", shell_words(line.trim_start()).into_iter(), COMMAND_HANG, (" \\", width - 2))
}

/// Lines of at most `width` columns: the first begins with `begin`, each further one with `hang`;
/// all but the last end with `end`.
fn filled<'t>(
    begin: &str,
    words: impl Iterator<Item = &'t str>,
    hang: &str,
    (end, width): (&str, usize),
) -> String {
    let mut text = begin.to_owned();
    let mut column = visible(begin);
    let mut is_empty = true;
    for word in words {
        if !is_empty && column + 1 + visible(word) > width {
            text.push_str(end);
            text.push('\n');
            text.push_str(hang);
            column = hang.len();
            is_empty = true;
        }

        if !is_empty {
            text.push(' ');
            column += 1;
        }

        text.push_str(word);
        column += visible(word);
        is_empty = false;
    }

    text
}

/// Splits a command line at blanks outside quotes.
fn shell_words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut quote = None;
    let mut begins = 0;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, ' ') => {
                words.push(&line[begins..at]);
                begins = at + 1;
            }
            _ => {}
        }
    }

    words.push(&line[begins..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Width of a text in columns.
fn visible(text: &str) -> usize {
    let mut columns = 0;
    let mut is_escaped = false;
    for letter in text.chars() {
        match (is_escaped, letter) {
            (false, '\x1b') => is_escaped = true,
            (true, 'm') => is_escaped = false,
            (true, _) => {}
            (false, _) => columns += width_of(letter.encode_utf8(&mut [0; 4])),
        }
    }

    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_line_continues_below_its_own_text() {
        assert_eq!(lines("      one two three", 14), "      one two\n      three");
        assert_eq!(lines("  2  could not run", 15), "  2  could not\n     run");
        assert_eq!(lines("short", 14), "short");
        assert_eq!(lines("cause    worst 636 µs", 19), "cause    worst\n         636 µs");
    }

    #[test]
    fn a_folded_command_can_be_pasted() {
        let folded = examples("  onbeat robot goal walker \"left knee=0.3\" neck=-0.1", 40);
        assert_eq!(folded, "  onbeat robot goal walker \\\n      \"left knee=0.3\" neck=-0.1");
    }

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

    #[test]
    fn colours_have_no_width() {
        assert_eq!(visible("\x1b[1mExamples\x1b[0m"), 8);
        assert_eq!(visible("延迟 µs"), 7);
        assert_eq!(lines("\x1b[1mone\x1b[0m two", 7), "\x1b[1mone\x1b[0m two");
    }
}
