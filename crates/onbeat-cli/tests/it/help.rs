//! Help of every command: reachable by `onbeat help COMMAND`, short enough for two screens, whole
//! with `--help-all` as in `tests/golden/help`, and folded to the terminal.
//!
//! `make bless` rebuilds the golden files; `ONBEAT_BLESS` does so here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Of a terminal, and of half a one.
const WIDE: usize = 80;
const NARROW: usize = 40;

/// What `onbeat` prints on a terminal of `columns`.
fn printed(words: &[&str], columns: usize) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    let output = command
        .args(words)
        .env("COLUMNS", columns.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "onbeat {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The whole help of every command by `onbeat help ... --help-all`, by the names of the command.
fn all(columns: usize) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let words: Vec<&str> = ["help"]
            .into_iter()
            .chain(path.iter().map(String::as_str))
            .chain(["--help-all"])
            .collect();
        let help = printed(&words, columns);
        open.extend(commands(&help).into_iter().map(|name| [path.clone(), vec![name]].concat()));
        found.insert(path.join("-"), help);
    }

    found
}

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/help");
    folder.join(format!("onbeat{}{name}.txt", if name.is_empty() { "" } else { "-" }))
}

#[test]
fn help_is_as_it_was_agreed_on() {
    let all = all(WIDE);
    assert!(all.len() > 30, "{:?}", all.keys());
    if std::env::var_os("ONBEAT_BLESS").is_some() {
        let folder = golden("").parent().unwrap().to_owned();
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        all.iter().for_each(|(name, help)| fs::write(golden(name), help).unwrap());
    }

    for (name, help) in &all {
        let file = golden(name);
        let agreed = fs::read_to_string(&file).unwrap_or_default();
        assert!(help.is_ascii(), "a terminal may show no other letters: {help}");
        assert!(
            agreed == *help,
            "{} is not what onbeat prints; `make bless` rebuilds it:\n{help}",
            file.display()
        );
    }

    let files = fs::read_dir(golden("").parent().unwrap()).unwrap().count();
    assert_eq!(files, all.len(), "a golden file belongs to no command");
}

/// Lines of a terminal.
const SCREEN: usize = 40;

#[test]
fn help_fits_two_screens() {
    for name in all(WIDE).keys() {
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        // Names of two words, such as read-write, are tried whole.
        let words = match words.as_slice() {
            [first, rest @ ..] if rest.len() > 1 && *first == "measure" => {
                vec![first.to_string(), rest.join("-")]
            }
            words => words.iter().map(ToString::to_string).collect(),
        };
        let words: Vec<&str> =
            ["help"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let lines = printed(&words, WIDE).lines().count();
        assert!((3..=2 * SCREEN).contains(&lines), "onbeat {words:?}: {lines} lines");
    }
}

#[test]
fn a_hidden_command_is_listed_among_all_and_works() {
    assert!(!printed(&["bus", "--help"], WIDE).contains("topology"));
    assert!(printed(&["bus", "--help"], WIDE).contains("More commands: onbeat bus --help-all"));
    assert!(printed(&["bus", "--help-all"], WIDE).contains("topology"));
    assert!(printed(&["bus", "topology", "--help"], WIDE).contains("Usage: onbeat bus topology"));
}

#[test]
fn the_completion_of_each_shell_calls_onbeat() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completion", shell], WIDE);
        assert!(script.contains("ONBEAT_COMPLETE"), "{shell}: {script}");
    }
}

#[test]
fn help_of_a_command_is_the_same_by_both_ways() {
    assert_eq!(
        printed(&["help", "measure", "timer"], WIDE),
        printed(&["measure", "timer", "--help"], WIDE)
    );
}

/// Lines wider than `columns`, without those that cannot be broken: an option with its value, a
/// word too long, and usage, which clap does not fold.
fn too_wide(help: &str, columns: usize) -> Vec<&str> {
    let wide = help.lines().filter(|line| line.chars().count() > columns);
    let wide =
        wide.filter(|line| !line.starts_with("Usage:") && !line.trim_start().starts_with("--"));
    wide.filter(|line| line.split_whitespace().all(|word| word.chars().count() + 10 < columns))
        .collect()
}

#[test]
fn help_folds_to_the_terminal() {
    for columns in [WIDE, NARROW] {
        for (name, help) in all(columns) {
            let wide = too_wide(&help, columns);
            assert!(
                wide.is_empty(),
                "onbeat help {name} on {columns} columns:\n{}",
                wide.join("\n")
            );
        }
    }
    assert_eq!(too_wide("a line of words that is longer than forty columns", NARROW).len(), 1);
}

#[test]
fn usage_fits_a_terminal() {
    for (name, help) in all(WIDE) {
        let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default();
        assert!(usage.chars().count() <= WIDE, "onbeat help {name}: {usage}");
    }
}
