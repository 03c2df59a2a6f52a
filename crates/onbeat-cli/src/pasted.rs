//! Every command that onbeat prints or its documents show is one that it takes: examples of the
//! help, advice, errors, the page, documents. A reader pastes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::Command;
use clap::error::ErrorKind;

use crate::surface::{Extent, command};

/// Folders and files with commands, below the repository.
const PLACES: [&str; 7] =
    ["README.md", "GLOSSARY.md", "CHANGELOG.md", "docs", "crates", "vocabulary", "viewer/src"];
/// Words that stand for something to fill in, with something that is taken in their place.
const FILLED_IN: [(&str, &str); 25] = [
    ("ADDRESS", "127.0.0.1"),
    ("BOARD", "127.0.0.1"),
    ("CAUSE", "stop-signal"),
    ("CHANNEL", "robot/state"),
    ("COMMAND", "bench"),
    ("COUNT", "1"),
    ("CPU", "1"),
    ("D", "1"),
    ("DOMAIN", "0"),
    ("FORMAT", "rtla-text"),
    ("HEX", "0x10"),
    ("HOST", "127.0.0.1"),
    ("ID", "irq.affinity"),
    ("LOAD", "idle"),
    ("N", "1"),
    ("PERCENT", "99"),
    ("PID", "1"),
    ("PLACE", "pipe"),
    ("PORT", "7000"),
    ("PROBE", "timer"),
    ("RANGE", "10.0.0.0/24"),
    ("SHELL", "bash"),
    ("TID", "1"),
    ("TIME", "1ms"),
    ("TUNING", "PMC"),
];
/// In place of a value that the program fills in: the first with which the command is taken.
const IN_BRACES: [&str; 7] = ["1", "1ms", "name", "irq.affinity", "pipe", "idle", "robot/state"];
/// A command ends before such a word, which belongs to the shell.
const OF_THE_SHELL: [&str; 12] =
    ["|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1", "#", "\\"];

/// A command in a text.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    line: usize,
    words: String,
    /// In running text, where a command may be named without what it needs.
    is_mention: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(place: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(place) else {
        into.push(place.to_owned());
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let is_input = ["tests", "target", "assets", "node_modules", "benches", "fuzz"]
            .iter()
            .any(|name| path.file_name().is_some_and(|own| own == *name));
        if !is_input {
            files(&path, into);
        }
    }
}

/// Commands of a text in its format.
fn commands_in(path: &Path, text: &str) -> Vec<Found> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("md") => in_markdown(text),
        Some("rs") => in_source(text.split("#[cfg(test)]").next().unwrap_or(text)),
        Some("ts" | "toml") => in_source(text),
        _ => Vec::new(),
    }
}

/// Between backquotes, and in blocks after a prompt or at the begin of a line.
fn in_markdown(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut is_block = false;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            continue;
        }
        let mut line = line.to_owned();
        while is_block && line.ends_with('\\') {
            line.pop();
            let Some((_, next)) = lines.next() else { break };
            line.push_str(next);
        }

        if is_block {
            let typed = line.trim_start().trim_start_matches("$ ").trim_start_matches("# ");
            let own = after_sudo(typed).filter(|_| is_command_line(typed));
            found.extend(own.map(|words| Found { line: at + 1, words, is_mention: false }));
        } else {
            found.extend(between_backquotes(&line, at + 1, true));
        }
    }
    found
}

/// `onbeat report x` is one, `onbeat reports:` is not.
fn is_command_line(typed: &str) -> bool {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let whole = command(Extent::All);
        whole.get_subcommands().map(|one| one.get_name().to_owned()).collect()
    });
    let words = after_sudo(typed).unwrap_or_default();
    let first = words.split_whitespace().nth(1);
    first.is_some_and(|first| first.starts_with('-') || NAMES.iter().any(|name| name == first))
}

fn after_sudo(typed: &str) -> Option<String> {
    let own = typed.strip_prefix("sudo ").unwrap_or(typed);
    own.starts_with("onbeat ").then(|| own.to_owned())
}

fn between_backquotes(line: &str, number: usize, is_mention: bool) -> Vec<Found> {
    let spans = line.split('`').skip(1).step_by(2);
    let commands = spans.filter_map(after_sudo);
    commands.map(|words| Found { line: number, words, is_mention }).collect()
}

/// In strings: between backquotes, after `: `, and lines of examples. Comments are not printed,
/// except those that are help.
fn in_source(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let is_comment = trimmed.starts_with("//") || trimmed.starts_with("* ");
        if is_comment {
            continue;
        }
        // In TypeScript backquotes enclose a template.
        found.extend(between_backquotes(line, at + 1, true));
        if line.contains('`') || line.ends_with('\\') {
            continue;
        }

        let last = if trimmed.contains("\\\"") { "\";" } else { "\"" };
        let example = trimmed.split(last).next().unwrap_or(trimmed).trim_end();
        let is_example = line.starts_with("  ") && is_command_line(example) && !line.contains("//");
        let string = line.split('"').skip(1).step_by(2).find(|text| is_command_line(text));
        let words = if is_example {
            after_sudo(example)
        } else if let Some(string) = string {
            after_sudo(string)
        } else {
            let printed =
                line.split_once(": onbeat ").or_else(|| line.split_once(": sudo onbeat "));
            printed.map(|(_, rest)| {
                format!("onbeat {}", rest.split(['"', ';', '<', '(']).next().unwrap_or(rest))
            })
        };
        found.extend(words.filter(|words| is_command_line(words)).map(|words| Found {
            line: at + 1,
            words,
            is_mention: false,
        }));
    }
    found
}

/// Why the command is refused.
fn refused(whole: &mut Command, found: &Found) -> Option<String> {
    // A grammar (`<A|B>`), a variable of a shell, a line of a protocol, several words in one pair of
    // braces, or a part of a template.
    let text = found.words.replace("${", "{");
    let is_part = text.matches('{').count() != text.matches('}').count();
    if is_part || ["<", "$", "\\n", "({", "{} {}"].iter().any(|sign| text.contains(sign)) {
        return None;
    }
    let words = words_of(&found.words);
    if is_name(whole, &words[1..]) || words.get(1).is_some_and(|word| is_left_open(word)) {
        return None;
    }

    let mut why = None;
    for text in IN_BRACES {
        let filled = words.iter().map(|word| filled_in(word, text));
        let Err(error) = whole.try_get_matches_from_mut(filled) else { return None };
        let said = error.to_string();
        let is_taken = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::MissingRequiredArgument => found.is_mention,
            // An option that is named without its value.
            _ => found.is_mention && said.contains("a value is required for"),
        };
        if is_taken {
            return None;
        }
        why.get_or_insert_with(|| said.lines().next().unwrap_or_default().to_owned());
        if !found.words.contains('{') {
            break;
        }
    }
    why
}

/// The words of a command up to what belongs to the shell or to the sentence around it.
fn words_of(text: &str) -> Vec<String> {
    let plain = text.replace("\\\"", "\"").replace(['…', '[', ']'], "").replace("...", "");
    let split = shlex::split(&plain)
        .unwrap_or_else(|| plain.split_whitespace().map(str::to_owned).collect());
    let mut words = Vec::new();
    for word in split {
        if OF_THE_SHELL.contains(&word.as_str()) || word.starts_with('>') {
            break;
        }
        let own = word.trim_end_matches([';', ',', '.', ':', ')']);
        words.extend((!own.is_empty()).then(|| own.to_owned()));
        if word.ends_with([';', ',']) {
            break;
        }
    }
    words
}

/// Whether the words are the name of a command.
fn is_name(whole: &Command, words: &[String]) -> bool {
    words.iter().try_fold(whole, |at, name| at.find_subcommand(name)).is_some()
}

/// `COMMAND`, `VERSION`: a name that the reader chooses.
fn is_left_open(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase())
}

/// A word with what it stands for: names in capitals, and `text` for each part in braces.
fn filled_in(word: &str, text: &str) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((_, behind)) = after.split_once('}') else { break };
        // In the program's own texts a place is one on a cable.
        let name = after.split('}').next().unwrap_or_default().to_uppercase();
        let known = FILLED_IN.iter().find(|(known, _)| *known == name && name != "PLACE");
        filled.push_str(before.trim_end_matches('$'));
        filled.push_str(known.map_or(text, |(_, value)| value));
        rest = behind;
    }
    filled.push_str(rest);

    let name = |part: &str| {
        let known = FILLED_IN.iter().find(|(name, _)| *name == part);
        known.map_or_else(|| part.to_owned(), |(_, value)| (*value).to_owned())
    };
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut out = String::new();
    let mut part = String::new();
    for c in filled.chars() {
        if is_letter(c) {
            part.push(c);
        } else {
            out.push_str(&name(&std::mem::take(&mut part)));
            out.push(c);
        }
    }
    out + &name(&part)
}

#[test]
fn every_command_that_is_printed_or_shown_is_taken() {
    let mut whole = command(Extent::All);
    let mut paths = Vec::new();
    PLACES.iter().for_each(|place| files(&root().join(place), &mut paths));
    let mut tried = 0;
    let mut wrong = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for found in commands_in(&path, &text) {
            tried += 1;
            if let Some(why) = refused(&mut whole, &found) {
                let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
                wrong.push(format!("{shown}:{}: {}\n    {why}", found.line, found.words));
            }
        }
    }
    assert!(tried > 500, "{tried} commands were found");
    assert!(wrong.is_empty(), "{} of {tried} are refused:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_example_of_the_help_is_taken() {
    fn walk(whole: &mut Command, below: &Command, wrong: &mut Vec<String>, tried: &mut usize) {
        let text = below.get_before_long_help().map(|text| text.ansi().to_string());
        for words in text
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| after_sudo(line.trim_start()))
        {
            *tried += 1;
            let found = Found { line: 0, words, is_mention: false };
            wrong.extend(refused(whole, &found).map(|why| format!("{}: {why}", found.words)));
        }
        for one in below.get_subcommands() {
            walk(whole, one, wrong, tried);
        }
    }
    let (mut wrong, mut tried) = (Vec::new(), 0);
    let mut whole = command(Extent::All);
    let all = whole.clone();
    walk(&mut whole, &all, &mut wrong, &mut tried);
    assert!(tried > 60, "{tried}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_is_refused_is_found() {
    let of = |text: &str| {
        let mut whole = command(Extent::All);
        let found = in_markdown(text);
        found.iter().filter_map(|one| refused(&mut whole, one)).count()
    };
    assert_eq!(of("`onbeat bench --for 1m`, `onbeat bench`, `onbeat compare`"), 0);
    assert_eq!(of("`onbeat bench --nosuch`, `onbeat nosuch`, `onbeat measure --cpu N`"), 3);
    assert_eq!(of("```\n$ sudo onbeat bench --for\nonbeat reports: a\n```"), 1);
    let printed = in_source(
        "    #[error(\"no run; `onbeat measure nosuch` makes one\")]\n  let x = \"Run: sudo onbeat bench --nosuch\";",
    );
    let mut whole = command(Extent::All);
    assert_eq!(printed.iter().filter_map(|one| refused(&mut whole, one)).count(), 2);
}
