//! Every command that README and the pages show with its output still prints output of that shape.
//!
//! `tests/shown/commands.toml` says how each of them is run, or why it is not. A new command in a
//! page needs an entry there, and an entry whose command is no longer shown fails too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde::Deserialize;

use super::tables::copy;
use super::watch_live::{copy_program, foreign_loop};

/// Pages at once, unless the long commands are run: some of these take a CPU from all others.
const SIDE_BY_SIDE: usize = 3;

/// How a command of a page is run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    page: String,
    /// The command as the page has it, without prompt, `sudo` and comment.
    shown: String,
    /// In its place: for a shorter time, or on files that are in the repository.
    run: Option<String>,
    #[serde(default)]
    like: Like,
    /// Beginnings of lines of the page that need not be there: what this machine may not have, or
    /// what a short run may not show.
    #[serde(default)]
    except: Vec<String>,
    /// A control loop that runs meanwhile, by the name that the page gives it.
    program: Option<String>,
    /// Why the command is not run.
    not: Option<String>,
    /// Whether it takes longer than `make test` may.
    #[serde(default)]
    long: bool,
}

/// What of the output is compared.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Like {
    /// All words of the page, in order, with figures and verdicts masked.
    Words,
    /// The beginning of each line up to its first figure, and the heads of tables: the rest depends
    /// on what was measured.
    #[default]
    Lines,
    /// That the command ends with a verdict or without one, and prints something.
    Status,
}

#[derive(Debug, Deserialize)]
struct Entries {
    command: Vec<Entry>,
}

/// A command in a page, with the lines below it.
#[derive(Debug)]
struct Shown {
    page: String,
    line: usize,
    command: String,
    output: Vec<String>,
}

/// Whether `make test-long` runs this.
fn is_long() -> bool {
    std::env::var_os("ONBEAT_LONG").is_some()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn entries() -> Vec<Entry> {
    let text = fs::read_to_string(root().join("tests/shown/commands.toml")).unwrap();
    toml::from_str::<Entries>(&text).unwrap().command
}

/// README and the pages below docs.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/guide", "docs/start"] {
        let Ok(files) = fs::read_dir(root().join(folder)) else { continue };
        let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        let pages = names.filter(|name| name.ends_with(".md"));
        found.extend(pages.map(|name| format!("{folder}/{name}")));
    }
    found.sort();
    found
}

/// The commands after a prompt in the blocks of a page. In README all commands count: a reader
/// pastes them before any other.
fn shown_in(page: &str, text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    // Whether lines now belong to the last command found.
    let mut fence = None;
    let mut follows = false;
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim_start().starts_with("```") {
            fence = fence.is_none().then(|| text.trim_start().trim_start_matches('`').to_owned());
            follows = false;
            continue;
        }
        let typed = match &fence {
            Some(language) if page == "README.md" && language == "sh" => Some(text),
            Some(_) => text.strip_prefix("$ "),
            None if page == "README.md" && text.starts_with('|') => text.split('`').nth(1),
            None => None,
        };
        if let Some(typed) = typed.filter(|typed| !typed.is_empty()) {
            let command = without_comment(typed).replace("sudo ", "");
            found.push(Shown { page: page.to_owned(), line, command, output: Vec::new() });
            follows = fence.is_some();
        } else if follows && let Some(last) = found.last_mut() {
            last.output.push(text.to_owned());
        }
    }
    found.retain(|shown| page != "README.md" || shown.command.contains("onbeat"));
    found
}

/// A comment begins after two spaces.
fn without_comment(typed: &str) -> &str {
    typed.split("  # ").next().unwrap_or(typed).trim_end()
}

/// Files and programs that the commands need, in a folder of their own for each page.
struct Workplace {
    folder: tempfile::TempDir,
    programs: Vec<Child>,
}

impl Drop for Workplace {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

impl Workplace {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let golden = root().join("tests/golden");
        for (from, to) in [
            ("runs/before", "r1"),
            ("runs/after", "r2"),
            ("runs/before", "before1"),
            ("runs/after", "after1"),
            ("runs/bench", "bench"),
            ("machine", "machine"),
        ] {
            copy(&golden.join(from), &folder.path().join(to));
        }
        for name in ["docs", "crates"] {
            std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).unwrap();
        }
        Self { folder, programs: Vec::new() }
    }

    /// Starts a control loop under the name that a page gives it.
    fn start(&mut self, name: &str) -> Result<(), String> {
        let program = self.folder.path().join(name);
        if program.exists() {
            return Ok(());
        }
        if !rustix::process::geteuid().is_root() {
            return Err("watching a program of this priority needs root".to_owned());
        }
        let built = foreign_loop().ok_or("there is no C compiler `cc`")?;
        copy_program(built, &program);
        let mut start = Command::new(program);
        start.args(["absolute", "1000", "600000", "80"]).stdout(Stdio::null());
        self.programs.push(start.spawn().unwrap());
        Ok(())
    }

    /// Runs a command of a page as a shell does; its exit status and all that it printed.
    fn run(&self, command: &str) -> (Option<i32>, String) {
        let built = Path::new(env!("CARGO_BIN_EXE_onbeat"));
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", built.parent().unwrap().display()))
            .env("ONBEAT_STATE_DIR", self.folder.path().join("state"))
            .env("COLUMNS", "80")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn is_figure(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit()) && !is_percentile(word) || word == "-"
}

/// `p99.9` is a word of a table's head.
fn is_percentile(word: &str) -> bool {
    word.trim_start_matches('~')
        .strip_prefix('p')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The words of a text: a figure is `#`, whatever its unit, and a verdict is one whichever it is.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 5] = ["ns", "µs", "us", "ms", "s"];
    let mut masked: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', ';', ':', '.', ')']);
        if UNITS.contains(&bare) && masked.last().is_some_and(|last| last == "#") {
            continue;
        }
        masked.push(if is_figure(word) {
            "#".to_owned()
        } else if ["PASS", "FAIL", "INCONCLUSIVE"].contains(&bare) {
            "VERDICT".to_owned()
        } else {
            word.to_owned()
        });
    }
    masked
}

/// What stays of a line however a run ends: a table's head, else its words up to the first figure
/// or, where the line begins with a label, that.
fn beginning(line: &str) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let line = line.trim();
    let all = words(line);
    let gaps = line.split("  ").filter(|part| !part.trim().is_empty()).count();
    if gaps > 3 && !all.iter().any(|word| word == "#") {
        return all;
    }
    let label = line.split("  ").next().unwrap_or(line);
    // The second line of a sentence is no label.
    if indent > 3 || indent > 0 && label == line {
        return Vec::new();
    }
    words(label).into_iter().take_while(|word| word != "#" && !word.ends_with(':')).collect()
}

/// What of the shown lines the output lacks.
fn missing(shown: &[String], output: &str, entry: &Entry) -> Option<String> {
    match entry.like {
        Like::Status => output.trim().is_empty().then(|| "anything".to_owned()),
        Like::Words => {
            let whole = words(output);
            let mut from = 0;
            for part in shown.split(|line| line.trim() == "...") {
                let part = words(&part.join("\n"));
                let found = (from..=whole.len().saturating_sub(part.len()))
                    .find(|&at| whole.get(at..at + part.len()).is_some_and(|own| own == part));
                let Some(at) = found else { return Some(part.join(" ")) };
                from = at + part.len();
            }
            None
        }
        Like::Lines => {
            let mut printed = output.lines().map(words);
            for line in shown {
                let wanted = beginning(line);
                let is_free = entry.except.iter().any(|start| line.trim().starts_with(start));
                if wanted.is_empty() || is_free || line.trim() == "..." {
                    continue;
                }
                if !printed.any(|own| own.starts_with(&wanted)) {
                    return Some(line.clone());
                }
            }
            None
        }
    }
}

/// Runs the commands of a page in their order; what does not print what is shown, and what was not
/// run.
fn check(page: &str, of_page: &[Shown], entries: &[Entry]) -> (Vec<String>, Vec<String>) {
    let (mut wrong, mut skipped) = (Vec::new(), Vec::new());
    let mut workplace = Workplace::new();
    // A page may show a command twice.
    let mut ran = BTreeMap::new();
    let is_long = is_long();
    for shown in of_page {
        let place = format!("{}:{}: {}", shown.page, shown.line, shown.command);
        let known = |entry: &&Entry| entry.page == page && entry.shown == shown.command;
        let Some(entry) = entries.iter().find(known) else {
            wrong.push(format!("{place}\n    has no entry in tests/shown/commands.toml"));
            continue;
        };
        if let Some(why) = &entry.not {
            skipped.push(format!("{place}: {why}"));
            continue;
        }
        if entry.long && !is_long {
            skipped.push(format!("{place}: too long; `make test-long` runs it"));
            continue;
        }
        let command = entry.run.as_ref().unwrap_or(&shown.command);
        if let Some(program) = &entry.program
            && let Err(why) = workplace.start(program)
        {
            skipped.push(format!("{place}: {why}"));
            continue;
        }
        let (status, output) =
            ran.entry(command.clone()).or_insert_with(|| workplace.run(command)).clone();
        if !matches!(status, Some(0 | 1 | 3)) {
            wrong.push(format!("{place}\n    `{command}` ended with {status:?}:\n{output}"));
        } else if let Some(lacks) = missing(&shown.output, &output, entry) {
            wrong.push(format!(
                "{place}\n    `{command}` does not print like: {lacks}\nbut:\n{output}"
            ));
        }
    }
    (wrong, skipped)
}

#[test]
fn every_command_shown_with_its_output_prints_output_of_that_shape() {
    let (entries, pages) = (entries(), pages());
    let at_once = if is_long() { 1 } else { SIDE_BY_SIDE };
    // Most commands wait: pages are checked side by side, and the commands of each in their order.
    let check_each = |of_one: usize| {
        let (mut wrong, mut skipped, mut count) = (Vec::new(), Vec::new(), 0);
        for page in pages.iter().skip(of_one).step_by(at_once) {
            let text = fs::read_to_string(root().join(page)).unwrap();
            let of_page = shown_in(page, &text);
            count += of_page.len();
            let (of_page_wrong, of_page_skipped) = check(page, &of_page, &entries);
            wrong.extend(of_page_wrong);
            skipped.extend(of_page_skipped);
        }
        (wrong, skipped, count)
    };
    let (mut wrong, mut skipped, mut count) = (Vec::new(), Vec::new(), 0);
    thread::scope(|scope| {
        let check_each = &check_each;
        let start = |of_one| scope.spawn(move || check_each(of_one));
        let threads: Vec<_> = (0..at_once).map(start).collect();
        for thread in threads {
            let (of_one_wrong, of_one_skipped, of_one) = thread.join().unwrap();
            wrong.extend(of_one_wrong);
            skipped.extend(of_one_skipped);
            count += of_one;
        }
    });
    for why in &skipped {
        println!("skipped: {why}");
    }
    println!("{} of {count} commands were run", count - skipped.len());
    assert!(count - skipped.len() >= 25, "{count} commands, {} not run", skipped.len());
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_entry_is_of_a_command_that_is_shown() {
    let mut shown = BTreeSet::new();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        shown.extend(shown_in(&page, &text).into_iter().map(|one| (page.clone(), one.command)));
    }
    let stale: Vec<_> = entries()
        .into_iter()
        .filter(|entry| !shown.contains(&(entry.page.clone(), entry.shown.clone())))
        .map(|entry| format!("{}: {}", entry.page, entry.shown))
        .collect();
    assert!(stale.is_empty(), "not shown (any more):\n{}", stale.join("\n"));
}

/// An entry that compares in this way, but for lines that begin so.
fn like(like: Like, except: &[&str]) -> Entry {
    let except = except.iter().map(|&start| start.to_owned()).collect();
    let (page, shown) = (String::new(), String::new());
    Entry { page, shown, run: None, like, except, program: None, not: None, long: false }
}

#[test]
fn other_figures_have_the_same_shape_and_another_column_has_not() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let shown = lines(
        "verdict  PASS: 99 % of releases within 2 ms\n\ntuning   min    avg    max\nPM      11.7   30.9  3,731",
    );
    let other = "verdict  FAIL: fewer than 99 %\ntuning     min   avg      max\nPM         1.2  3.9  12,731\n";
    assert_eq!(missing(&shown, other, &like(Like::Lines, &[])), None);
    let renamed = other.replace("avg", "mean");
    assert_eq!(missing(&shown, &renamed, &like(Like::Lines, &[])), Some(shown[2].clone()));
    let without_a_row = other.replace("PM  ", "none");
    assert_eq!(missing(&shown, &without_a_row, &like(Like::Lines, &[])), Some(shown[3].clone()));
    assert_eq!(missing(&shown, &without_a_row, &like(Like::Lines, &["PM"])), None);
    assert_eq!(missing(&shown, "  \n", &like(Like::Status, &[])), Some("anything".to_owned()));
}

#[test]
fn words_are_compared_however_the_lines_are_folded() {
    let shown = vec!["12 of 400".to_owned(), "were late".to_owned(), "...".into(), "end".into()];
    let entry = like(Like::Words, &[]);
    assert!(missing(&shown, "begin 7 of\n9 were\nlate, not end\nend\n", &entry).is_some());
    assert_eq!(missing(&shown, "begin 7 of\n9 were\nlate\nmore\nend\n", &entry), None);
    assert_eq!(missing(&shown, "end 7 of 9 were late\n", &entry), Some("end".to_owned()));
}

#[test]
fn commands_are_found_with_their_output() {
    let text = "```console\n$ sudo onbeat bench --for 1m    # now\nverdict  PASS\n\n$ onbeat report\n```\n$ onbeat no\n```sh\nonbeat view\n```\n";
    let found = shown_in("docs/a.md", text);
    let commands: Vec<_> = found.iter().map(|one| one.command.as_str()).collect();
    assert_eq!(commands, ["onbeat bench --for 1m", "onbeat report"]);
    assert_eq!(found[0].output, ["verdict  PASS", ""]);
    let found =
        shown_in("README.md", "| task | `onbeat bench` |\n```sh\nsudo onbeat x  # y\n```\n");
    let commands: Vec<_> = found.iter().map(|one| one.command.as_str()).collect();
    assert_eq!(commands, ["onbeat bench", "onbeat x"]);
}
