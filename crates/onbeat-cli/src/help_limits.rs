//! Limits of the help texts, held for every command: length, verbs, words that do not occur.

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// Words of an option's help, without what stands in brackets.
const MOST_WORDS: usize = 12;

/// What commands do.
const VERBS: [&str; 27] = [
    "Apply", "Check", "Compare", "Convert", "Decide", "End", "Export", "Find", "Inject", "Inspect",
    "List", "Measure", "Move", "Play", "Print", "Read", "Receive", "Record", "Run", "Scan", "Send",
    "Show", "Simulate", "Trace", "Undo", "Write", "Stop",
];

/// The words that no text of the project holds, each either quaint or in place of a number.
const LIST: &str = include_str!("../../../tests/limits/banned.txt");

/// A finding per option or command that breaks a limit.
fn findings(command: &Command, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let words = without_brackets(&help).split_whitespace().count();
        if !(1..=MOST_WORDS).contains(&words) {
            found
                .push(format!("{path} {}: {words} words, 1 to {MOST_WORDS}: {help}", arg.get_id()));
        }

        let long = arg.get_long_help().map(ToString::to_string).unwrap_or_default();
        found.extend(
            banned(&format!("{help} {long}"))
                .map(|word| format!("{path} {}: \"{word}\"", arg.get_id())),
        );
    }

    let texts = [
        command.get_before_help(),
        command.get_after_help(),
        command.get_about(),
        command.get_long_about(),
    ];
    let all = texts.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    found.extend(banned(&all).map(|word| format!("{path}: \"{word}\"")));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = format!("{path} {}", below.get_name());
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        if !VERBS.contains(&about.split(' ').next().unwrap_or_default()) {
            found.push(format!("{path} does not begin with a verb: {about}"));
        }
        found.extend(findings(below, &path));
    }

    found
}

fn without_brackets(help: &str) -> String {
    let pieces = help.split('[').enumerate();
    pieces
        .map(
            |(nth, piece)| {
                if nth == 0 { piece } else { piece.split_once(']').map_or("", |(_, after)| after) }
            },
        )
        .collect()
}

fn banned_words() -> impl Iterator<Item = &'static str> {
    LIST.lines().skip_while(|line| *line != "[words]").skip(1).take_while(|line| !line.is_empty())
}

fn banned(text: &str) -> impl Iterator<Item = &'static str> {
    let text =
        format!(" {} ", text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
    banned_words().filter(move |word| {
        text.match_indices(word).any(|(at, _)| {
            let ending: String =
                text[at + word.len()..].chars().take_while(char::is_ascii_alphabetic).collect();
            let is_form = ["", "s", "en", "ing"].contains(&ending.as_str());
            is_form && !text[..at].ends_with(|before: char| before.is_alphanumeric())
        })
    })
}

#[test]
fn help_is_short_and_in_the_words_of_the_field() {
    let found = findings(&Cli::command(), "onbeat");
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
}

#[test]
fn long_help_a_missing_verb_and_a_banned_word_are_found() {
    let planted = Command::new("planted")
        .arg(
            clap::Arg::new("long")
                .long("long")
                .help("one two three four five six seven eight nine ten eleven twelve thirteen"),
        )
        .arg(
            clap::Arg::new("default")
                .long("default")
                .help("Limit [default: one two three four five six seven eight nine ten eleven]"),
        )
        .arg(
            clap::Arg::new("quaint")
                .long("quaint")
                .help(format!("Number of devices {}", banned_words().next().unwrap_or_default())),
        )
        .subcommand(Command::new("noun").about("The state of it"));
    let found = findings(&planted, "planted");

    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(banned("threshold unbefallen").count(), 0, "parts of other words are not meant");
}
