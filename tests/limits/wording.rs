//! Wording: words and sentences that were replaced by the field's terms do not return.
//!
//! The list is `banned.txt` beside this file; the rule behind it is in CONTRIBUTING.md.

use super::source::Source;
use super::{catches, holds};

const LIST: &str = include_str!("banned.txt");

/// Files that may hold what is banned: the list, the test of the built page, and the history of
/// changes.
const EXEMPT: [&str; 3] = ["tests/limits/banned.txt", "viewer/test/words.test.ts", "CHANGELOG.md"];
/// Generated from checked sources, or written by others.
const NOT_OURS: [&str; 6] = [
    "share/",
    "tests/golden/",
    "fuzz/corpus/",
    "LICENSE-",
    "crates/onbeat-cli/assets/",
    "package-lock",
];
/// Data of programs, not prose.
const DATA: [&str; 5] = ["lock", "hlog", "hgrm", "raw", "log"];

/// A banned wording, and what stands in its place; words have no replacement.
struct Banned {
    wording: String,
    instead: Option<&'static str>,
}

fn banned() -> Vec<Banned> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
    let entry = |line: &'static str| {
        let parts = line.split_once(" -> ");
        let wording = parts.map_or(line, |(wording, _)| wording);
        Banned { wording: wording.to_lowercase(), instead: parts.map(|(_, instead)| instead) }
    };
    lines.map(entry).collect()
}

/// A file's text as one line, so that a wording is found across line ends, with the place where
/// each line begins.
struct Flow {
    text: String,
    lines: Vec<(usize, usize)>,
}

impl Flow {
    fn new(source: &Source) -> Self {
        let is_prose = source.has_extension(&["md"]);
        let mut flow = Self { text: String::new(), lines: Vec::new() };
        // A name of older files that is still read cannot be reworded.
        let current = |(_, line): &(usize, &str)| !line.contains("serde(alias = ");
        for (number, line) in source.lines().filter(current) {
            let line = if is_prose { without_quotes(line) } else { line.to_owned() };
            // Markers of comments and lists, and the backslash that continues a string, are not
            // part of a sentence.
            let line = line
                .trim()
                .trim_start_matches(['/', '!', '#', '*', '>'])
                .trim_end_matches('\\')
                .trim();
            flow.lines.push((flow.text.len(), number));
            flow.text.push_str(&line.to_lowercase().replace('_', " "));
            flow.text.push(' ');
        }

        flow
    }

    fn line_of(&self, place: usize) -> usize {
        self.lines.iter().rev().find(|(start, _)| *start <= place).map_or(1, |(_, number)| *number)
    }

    /// Where a wording begins, not as the end of a longer word. A word of the list counts with an
    /// ending only where that is one of its forms.
    fn places<'f>(&'f self, banned: &'f Banned) -> impl Iterator<Item = usize> + 'f {
        let wording = banned.wording.as_str();
        let is_word = banned.instead.is_none();
        self.text.match_indices(wording).map(|(place, _)| place).filter(move |place| {
            let rest = &self.text[place + wording.len()..];
            let ending: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
            let is_form = ["", "s", "en", "ing"].contains(&ending.as_str());
            !self.text[..*place].ends_with(char::is_alphanumeric) && (!is_word || is_form)
        })
    }
}

/// A line without what stands between double quotes or backticks: prose may quote what it replaces.
fn without_quotes(line: &str) -> String {
    line.split(['`', '"']).step_by(2).collect::<Vec<_>>().join("''")
}

fn replaced_wording(sources: &[Source]) -> Vec<String> {
    let is_exempt = |source: &Source| {
        EXEMPT.contains(&source.path.as_str())
            || NOT_OURS.iter().any(|part| source.path.contains(part))
            || source.has_extension(&DATA)
    };
    let list = banned();
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !is_exempt(source)) {
        let flow = Flow::new(source);
        for banned in &list {
            let what = match banned.instead {
                Some(instead) => format!("\"{}\"; write: {instead}", banned.wording),
                None => format!("\"{}\"", banned.wording),
            };
            found.extend(flow.places(banned).map(|place| source.at(flow.line_of(place), &what)));
        }
    }

    found.sort();
    found
}

#[test]
fn replaced_wording_does_not_return() {
    holds(replaced_wording);
}

#[test]
fn banned_words_are_found_in_prose_code_and_names() {
    let path = "crates/onbeat/src/a.rs";
    let right = "//! Threshold, unbefallen, is now, is not, to be handled; tolde.\nfn is_not_a_number() {}\n";
    catches(
        replaced_wording,
        path,
        &format!("// one\n/// It is {} the user.\n", listed("tol")),
        2,
        right,
    );

    catches(
        replaced_wording,
        path,
        &format!("fn a() {{}}\nfn an_edge_{}_edge() {{}}\n", listed("is n").replace(' ', "_")),
        2,
        right,
    );

    catches(
        replaced_wording,
        "docs/a.md",
        &format!("# Faults\n\nA fault {}s it.\n", listed("bef")),
        3,
        "It is not a `tol\u{64}`.\n",
    );
}

#[test]
fn a_banned_phrase_is_found_across_lines_and_named_with_its_replacement() {
    let phrase = listed("distance of");
    let (first, second) = phrase.rsplit_once(' ').unwrap_or_default();
    let wrong = format!("fn f() {{}}\n/// {first}\n/// {second}, in ns.\n");
    let found = replaced_wording(&[Source::planted("crates/onbeat/src/a.rs", &wrong)]);

    assert_eq!(found, [format!("crates/onbeat/src/a.rs:2: \"{phrase}\"; write: loop period")]);
}

#[test]
fn the_list_is_complete() {
    let list = banned();
    assert_eq!(list.iter().filter(|banned| banned.instead.is_none()).count(), 9);
    assert!(list.len() > 40, "{}", list.len());
}

/// The wording of the list that begins like this: written out here, this file would be among the
/// findings.
fn listed(beginning: &str) -> String {
    banned()
        .into_iter()
        .map(|banned| banned.wording)
        .find(|wording| wording.starts_with(beginning))
        .unwrap_or_default()
}
