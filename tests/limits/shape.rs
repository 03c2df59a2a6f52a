//! The shape of the code: paragraphs in long functions, one name for one type.

use std::collections::BTreeMap;

use super::source::{Source, block, code_without_tests, line_of, words};
use super::{catches, holds, tracked};

/// Source files of the crates.
fn of_crates(sources: &[Source]) -> impl Iterator<Item = &Source> {
    let is_code = |source: &&Source| {
        source.path.starts_with("crates/")
            && source.path.contains("/src/")
            && source.has_extension(&["rs"])
            && !source.path.contains("/tests")
    };
    sources.iter().filter(is_code)
}

// ---- paragraphs

/// A body of this length has more than one step; one expression, such as a `match`, may be longer.
const LONG_BODY: usize = 25;
/// Statements of a body that has steps.
const STATEMENTS: usize = 4;

/// Statements of a body that are not inside a block of it.
fn statements(body: &str) -> usize {
    let mut depth = 0;
    let mut count = 0;
    for c in body.chars() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            ';' if depth == 0 => count += 1,
            _ => {}
        }
    }

    count
}

fn functions_without_paragraphs(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in of_crates(sources) {
        let code = code_without_tests(&source.text);
        let lines: Vec<&str> = source.text.lines().collect();
        for function in words(&code, "fn") {
            let Some(open) = code[function.end..].find(['{', ';']).map(|at| function.end + at)
            else {
                continue;
            };
            if code[open..].starts_with(';') {
                continue;
            }

            let end = open + block(&code[open..]);
            let first = line_of(&code, open);
            let last = line_of(&code, end - 1);
            let body = lines.get(first..last.saturating_sub(1)).unwrap_or_default();
            let has_steps = body.len() >= LONG_BODY
                && statements(&code[open + 1..end.saturating_sub(1)]) >= STATEMENTS;
            if has_steps && !body.iter().any(|line| line.trim().is_empty()) {
                let what = format!("{} lines without a blank line between steps", body.len());
                found.push(source.at(line_of(&code, function.start), &what));
            }
        }
    }

    found
}

#[test]
fn long_functions_have_paragraphs() {
    holds(functions_without_paragraphs);
}

#[test]
fn a_long_function_in_one_piece_is_found() {
    let steps = "    step(1,\n        2);\n".repeat(LONG_BODY / 2 + 1);
    let wrong = format!("fn f() {{\n{steps}}}\n");
    let right = format!("fn f() {{\n{steps}\n    last();\n}}\n");
    catches(functions_without_paragraphs, "crates/onbeat-rt/src/wait.rs", &wrong, 1, &right);
}

// ---- pairs and constructors

/// What stands behind the parenthesis that `text` begins inside of.
fn behind_parenthesis(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return &text[at + 1..];
        }
    }

    ""
}

/// `let (a, b) = (x, y)` saves a line and hides that there are two steps.
fn pairs_that_save_a_line(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in of_crates(sources) {
        let code = code_without_tests(&source.text);
        for place in words(&code, "let") {
            let Some(pattern) = code[place.end..].trim_start().strip_prefix('(') else { continue };
            let names = |c: char| c.is_alphanumeric() || matches!(c, '_' | ',' | ' ');
            let Some(value) = pattern.trim_start_matches(names).strip_prefix(") = (") else {
                continue;
            };

            // Behind the parenthesis of one value follows its method, such as `.sin_cos()`.
            if behind_parenthesis(value).starts_with(';') {
                found.push(source.at(line_of(&code, place.start), "two values in one `let`"));
            }
        }
    }

    found
}

#[test]
fn a_let_binds_one_value() {
    holds(pairs_that_save_a_line);
}

#[test]
fn two_values_in_one_let_are_found() {
    let wrong = "fn f() {\n    let (mut a, b) = (0, g(1));\n}\n";
    let right = "fn f() {\n    let (a, b) = (0.5).sin_cos();\n    let (c, d) = split();\n}\n";
    catches(pairs_that_save_a_line, "crates/onbeat-rt/src/wait.rs", wrong, 2, right);
}

/// Associated functions that make a value and are named `of`: `new` and `from_...` say what they
/// do.
fn constructors_named_of(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in of_crates(sources) {
        let code = code_without_tests(&source.text);
        for place in words(&code, "fn") {
            let Some(arguments) = code[place.end..].trim_start().strip_prefix("of(") else {
                continue;
            };
            let signature = arguments.split(['{', ';']).next().unwrap_or_default();
            let is_method = signature.split(',').next().is_some_and(|first| first.contains("self"));
            if !is_method && signature.split("->").nth(1).is_some_and(|made| made.contains("Self"))
            {
                found.push(source.at(line_of(&code, place.start), "a constructor named `of`"));
            }
        }
    }

    found
}

#[test]
fn constructors_are_new_or_from() {
    holds(constructors_named_of);
}

#[test]
fn a_constructor_named_of_is_found() {
    let wrong = "impl A {\n    fn of(b: B) -> Self {\n        A(b)\n    }\n}\n";
    let right = "impl A {\n    fn of(&self) -> Self {\n        A(b)\n    }\n}\n";
    catches(constructors_named_of, "crates/onbeat-rt/src/wait.rs", wrong, 2, right);
}

// ---- names

/// Names that types of several files share: each is the word of both fields, and the two never
/// meet. New ones are found, and so are those that no longer share their name.
const SHARED: &str = "Bus Command Description Entry Error Fault Free Outcome Plan PlanError \
    ReleaseGrid Robot Segment Task";

/// The files that declare a type of each name.
fn declared(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in of_crates(sources) {
        let code = code_without_tests(&source.text);
        for keyword in ["struct", "enum", "trait"] {
            for place in words(&code, keyword) {
                let rest = code[place.end..].trim_start();
                let name: String =
                    rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if name.starts_with(char::is_uppercase) {
                    let place = source.at(line_of(&code, place.start), "");
                    declared.entry(name).or_default().push(place);
                }
            }
        }
    }

    declared
}

fn names_of_several_types(sources: &[Source]) -> Vec<String> {
    let shared: Vec<&str> = SHARED.split_whitespace().collect();
    let files = |places: &[String]| {
        let mut files: Vec<&str> =
            places.iter().filter_map(|place| place.split(':').next()).collect();
        files.dedup();
        files.len()
    };
    declared(sources)
        .into_iter()
        .filter(|(name, places)| files(places) > 1 && !shared.contains(&name.as_str()))
        .flat_map(|(name, places)| {
            places.into_iter().map(move |place| format!("{place} another type is named {name} too"))
        })
        .collect()
}

#[test]
fn one_name_is_one_type() {
    holds(names_of_several_types);
    let declared = declared(&tracked());
    for name in SHARED.split_whitespace() {
        let places = declared.get(name).map_or(0, Vec::len);
        assert!(places > 1, "{name} is the name of one type now: take it off the list");
    }
}

#[test]
fn a_second_type_of_a_name_is_found() {
    let planted = |path: &str, text: &str| Source::planted(path, text);
    let first = planted("crates/onbeat-rt/src/wait.rs", "pub struct Nap;\n");
    let second = planted("crates/onbeat/src/load/mod.rs", "enum Nap {\n    Short,\n}\n");
    assert_eq!(names_of_several_types(&[first, second]).len(), 2);
}
