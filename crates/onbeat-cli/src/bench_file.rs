//! `onbeat.toml`: the options of a bench in a file, for a bench under version control.
//!
//! ```text
//! # onbeat.toml                       $ onbeat bench --for 1m
//! for = "10m"                         as if typed: onbeat bench --tunings=none,PMC --limit=100us --at=99.99 --for 1m
//! tunings = ["none", "PMC"]
//! limit = "100us"
//! at = 99.99
//! ```
//!
//! A key is an option without its dashes; what is typed goes before it. The words are put in front of those of the
//! command line, so that clap alone judges values, and a file knows every option that `bench` has.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Command};
use onbeat_commands::habits::Translated;
use onbeat_host::foreign::{self, MOST_BYTES_BY_HAND};
use toml::{Spanned, Value};

const FILE: &str = "onbeat.toml";
/// Options that belong to one start of the command.
const NOT_IN_FILES: [&str; 4] = ["config", "resume", "help", "version"];

/// Returns the words of a bench with the settings of its file in them; `None` without a file, and for other commands.
///
/// # Errors
/// A sentence with the file, the line and what is possible there.
pub(crate) fn with_settings(
    words: &[OsString],
    command: &Command,
) -> Result<Option<Translated>, String> {
    // A path among them may be of other letters.
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let is_global =
        |word: &&&str| word.starts_with('-') || ["auto", "always", "never"].contains(*word);
    let at = 1 + texts.iter().skip(1).take_while(is_global).count();
    if texts.get(at) != Some(&"bench") {
        return Ok(None);
    }
    let typed: Vec<&str> =
        texts[at + 1..].iter().copied().take_while(|word| *word != "--").collect();
    let has = |name: &str| {
        let is_it = |word: &&str| {
            word.strip_prefix("--").is_some_and(|word| word.split('=').next() == Some(name))
        };
        typed.iter().any(is_it)
    };
    // Of a bench that is resumed the plan decides; one that begins instead has the options of the file.
    if ["help", "help-all"].into_iter().any(has) || typed.contains(&"-h") {
        return Ok(None);
    }
    let Some(path) = file_of(&typed) else { return Ok(None) };

    let text = foreign::text(&path, MOST_BYTES_BY_HAND)
        .map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    let bench = command.find_subcommand("bench").unwrap_or(command);
    let settings = SettingsFile { path: &path, text: &text, bench };
    let mut own = Vec::new();
    let mut names = Vec::new();
    for (name, value) in settings.read()? {
        let of_key = settings.words(&name, &value)?;
        if !has(name.get_ref()) {
            names.push(name.get_ref().clone());
            own.extend(of_key);
        }
    }
    let names = match names.as_slice() {
        [] => "nothing that the command line leaves open".to_owned(),
        names => names.join(", "),
    };
    let hint = format!("{}: {names}", path.display());
    let (before, behind) = words.split_at(at + 1);
    let own = own.into_iter().map(OsString::from);
    let rest = without_file(behind);
    Ok(Some(Translated { words: before.iter().cloned().chain(own).chain(rest).collect(), hint }))
}

/// The file that is named, else the one of this directory.
fn file_of(typed: &[&str]) -> Option<PathBuf> {
    let named =
        typed.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--config")? {
            "" => typed.get(at + 1).copied(),
            rest => rest.strip_prefix('='),
        });
    let here = || Some(PathBuf::from(FILE)).filter(|path| path.exists());
    named.map(PathBuf::from).or_else(here)
}

/// The words without `--config FILE`, which has been read.
fn without_file(words: &[OsString]) -> Vec<OsString> {
    let is_config =
        |word: &OsString| word.to_str().is_some_and(|word| word.starts_with("--config="));
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            words.next();
        } else if !is_config(word) {
            rest.push(word.clone());
        }
    }
    rest
}

struct SettingsFile<'f> {
    path: &'f Path,
    text: &'f str,
    bench: &'f Command,
}

impl SettingsFile<'_> {
    fn read(&self) -> Result<BTreeMap<Spanned<String>, Value>, String> {
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(self.text);
        toml::from_str(text).map_err(|error| {
            let line = line_of(text, error.span().map_or(0, |span| span.start));
            format!("{}, line {line}: {}", self.path.display(), error.message())
        })
    }

    /// The option of a key, as words.
    fn words(&self, name: &Spanned<String>, value: &Value) -> Result<Vec<String>, String> {
        let key = name.get_ref().as_str();
        let line = line_of(self.text, name.span().start);
        let place = format!("{}, line {line}", self.path.display());
        let options = || {
            let all = self.bench.get_arguments().filter(|arg| !arg.is_hide_set());
            all.filter_map(clap::Arg::get_long).filter(|name| !NOT_IN_FILES.contains(name))
        };
        let Some(arg) = self.bench.get_arguments().find(|arg| arg.get_long() == Some(key)) else {
            let nearest = options().max_by(|a, b| likeness(key, a).total_cmp(&likeness(key, b)));
            let nearest = nearest.filter(|name| likeness(key, name) > 0.5);
            let meant = nearest.map_or_else(
                || "onbeat bench --help lists them".to_owned(),
                |name| format!("did you mean {name}?"),
            );
            return Err(format!("{place}: \"{key}\" is not an option of bench; {meant}"));
        };
        if NOT_IN_FILES.contains(&key) {
            return Err(format!("{place}: {key} is for the command line alone"));
        }

        let is_flag = !arg.get_action().takes_values();
        let option = |value: &str| format!("--{key}={value}");
        match value {
            Value::Boolean(set) if is_flag => {
                Ok(Some(format!("--{key}")).filter(|_| *set).into_iter().collect())
            }
            _ if is_flag => Err(format!("{place}: {key} is true or false")),
            Value::Array(values) => {
                let values: Option<Vec<String>> = values.iter().map(scalar).collect();
                let values = values.ok_or_else(|| format!("{place}: {key} is a list of words"))?;
                match (arg.get_value_delimiter(), arg.get_action()) {
                    (Some(delimiter), _) if values.iter().any(|one| one.contains(delimiter)) => {
                        Err(format!(
                            "{place}: a value of {key} cannot hold a \"{delimiter}\", which separates them on a command line; \
                             put the command of run: into a script"
                        ))
                    }
                    (Some(delimiter), _) => Ok(vec![option(&values.join(&delimiter.to_string()))]),
                    (None, ArgAction::Append) => Ok(values.iter().map(|one| option(one)).collect()),
                    _ => Err(format!("{place}: {key} has one value, not a list")),
                }
            }
            one => {
                let text = scalar(one);
                let text = text.ok_or_else(|| format!("{place}: {key} is a word or a number"))?;
                Ok(vec![option(&text)])
            }
        }
    }
}

/// A text or a number, as it would be typed.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

/// Twice the pairs of letters that two words share, over all their pairs (Dice): 1 for the same word.
fn likeness(a: &str, b: &str) -> f64 {
    let pairs = |word: &str| -> Vec<(char, char)> {
        let letters: Vec<char> = format!(" {word} ").chars().collect();
        letters.windows(2).map(|pair| (pair[0], pair[1])).collect()
    };
    let (a, mut b) = (pairs(a), pairs(b));
    let all = (a.len() + b.len()) as f64;
    let shared = a.iter().filter(|pair| {
        b.iter().position(|other| other == *pair).map(|at| b.swap_remove(at)).is_some()
    });
    2.0 * shared.count() as f64 / all
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn with(text: &str, typed: &str) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b.toml");
        std::fs::write(&path, text).unwrap();
        let config = format!("--config={}", path.display());
        let words = ["onbeat", "bench"]
            .into_iter()
            .chain(typed.split_whitespace())
            .chain([config.as_str()]);
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let found = with_settings(&words, &Cli::command())
            .map_err(|why| why.replace(&path.display().to_string(), "b.toml"))?;
        let words = found.unwrap().words;
        let words: Vec<&str> = words[2..].iter().map(|word| word.to_str().unwrap()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn a_file_holds_every_option_and_what_is_typed_goes_before_it() {
        let text = "tunings = [\"none\", \"PMC\"]\nlimit = \"100us\"\nat = 99.99\nfor = \"10m\"\nno-causes = true\njson = false\n";
        let words = with(text, "--for 1m").unwrap();
        assert_eq!(words, "--at=99.99 --limit=100us --no-causes --tunings=none,PMC --for 1m");
        assert_eq!(with("\u{feff}seed = 7\r\n", "").unwrap(), "--seed=7");
    }

    #[test]
    fn each_error_names_file_and_line_and_what_is_possible() {
        let refused = |text: &str| with(text, "").unwrap_err();
        assert_eq!(
            refused("for = \"1m\"\ntuning = \"none\"\n"),
            "b.toml, line 2: \"tuning\" is not an option of bench; did you mean tunings?"
        );
        assert!(refused("\n[bench]\nfor = 1\n").starts_with("b.toml, line 2: \"bench\" is not"));
        assert_eq!(refused("json = 1"), "b.toml, line 1: json is true or false");
        assert_eq!(refused("for = [1, 2]"), "b.toml, line 1: for has one value, not a list");
        assert!(
            refused("\nloads = [\"idle\", \"run:taskset -c 0,1 make\"]\n")
                .starts_with("b.toml, line 2: a value of loads cannot hold a \",\"")
        );
        assert_eq!(
            refused("resume = true"),
            "b.toml, line 1: resume is for the command line alone"
        );
        assert!(refused("for = \"1m\"\nfor = \"2m\"\n").starts_with("b.toml, line 2: "));
        assert!(refused("for = ").starts_with("b.toml, line 1: "));
    }

    #[test]
    fn other_commands_and_help_read_no_file() {
        let read = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            with_settings(&words, &Cli::command()).map(|found| found.is_some())
        };
        for line in [
            "onbeat measure timer",
            "onbeat bench --help --config x",
            "onbeat bench --help-all --config x",
            "onbeat",
        ] {
            assert_eq!(read(line), Ok(false), "{line}");
        }
        for line in ["onbeat --color never bench", "onbeat bench --resume"] {
            assert!(read(&format!("{line} --config /no/such")).is_err(), "{line}");
        }
    }

    #[test]
    fn a_file_is_read_beside_a_path_that_is_not_utf_8() {
        let out = OsString::from_vec(b"b\xffd".to_vec());
        let words = ["onbeat", "bench", "--config", "/no/such", "--out"].map(OsString::from);
        let words: Vec<OsString> = words.into_iter().chain([out]).collect();
        assert!(with_settings(&words, &Cli::command()).is_err());
    }

    #[test]
    fn settings_of_a_file_are_accepted_by_the_command_itself() {
        let words =
            with("tunings = [\"none\"]\nloads = \"idle\"\nperiod = \"2ms\"\nfor = \"20s\"\n", "")
                .unwrap();
        let line = format!("onbeat bench {words}");
        assert!(Cli::command().try_get_matches_from(line.split(' ')).is_ok(), "{line}");
    }
}
