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

/// Arguments that clippy allows, with `self` (`too-many-arguments-threshold`).
const ARGUMENTS: usize = 5;

/// What stands between the parentheses of a signature; `text` begins at its name.
fn argument_list(text: &str) -> Option<&str> {
    let mut in_generics = 0;
    let open = text.char_indices().find_map(|(at, c)| {
        let is_arrow = text[..at].ends_with('-');
        in_generics += i32::from(c == '<') - i32::from(c == '>' && !is_arrow);
        (c == '(' && in_generics == 0).then_some(at + 1)
    })?;
    let list = &text[open..];
    list[..list.len() - behind_parenthesis(list).len()].strip_suffix(')')
}

/// The arguments of a list, each from its pattern on.
fn arguments(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut is_arrow = false;
    let ends = list.split(|c: char| {
        depth += i32::from("([{<".contains(c)) - i32::from(")]}>".contains(c) && !is_arrow);
        is_arrow = c == '-';
        c == ',' && depth == 0
    });
    ends.map(str::trim).filter(|argument| !argument.is_empty()).collect()
}

/// The number of names in a tuple or array that is taken apart; `None` for another argument.
fn names_in_tuple(argument: &str) -> Option<usize> {
    let names = argument.strip_prefix(['(', '['])?.split([')', ']']).next()?;
    Some(names.split(',').filter(|name| !name.trim().is_empty()).count())
}

/// A tuple in a signature that hides a sixth argument from clippy.
fn hidden_arguments(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in of_crates(sources) {
        let code = code_without_tests(&source.text);
        for place in words(&code, "fn") {
            let Some(list) = argument_list(&code[place.end..]) else { continue };
            let arguments = arguments(list);
            let in_tuples: Vec<usize> =
                arguments.iter().filter_map(|argument| names_in_tuple(argument)).collect();
            let all = arguments.len() - in_tuples.len() + in_tuples.iter().sum::<usize>();
            if !in_tuples.is_empty() && all > ARGUMENTS {
                let what =
                    format!("a tuple hides some of {all} arguments; {ARGUMENTS} are allowed");
                found.push(source.at(line_of(&code, place.start), &what));
            }
        }
    }

    found
}

#[test]
fn no_tuple_hides_an_argument() {
    holds(hidden_arguments);
}

#[test]
fn a_tuple_that_hides_an_argument_is_found() {
    let wrong = "fn f<A: Fn(u8) -> u8>(\n    &self,\n    (a, b): (A, B),\n    c: C,\n    d: D,\n    e: E,\n) {}\n";
    let right = "fn f<A: Fn(u8) -> u8>(\n    &self,\n    pair: (A, B),\n    c: &dyn Fn(u8, u8),\n    (d, e): (D, E),\n) {}\n";
    catches(hidden_arguments, "crates/onbeat-rt/src/wait.rs", wrong, 1, right);
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

// ---- what steers, and what is read once

/// Text that steers what the program does, where an enum would: privileges, tunings, waits.
const STEERING: [&str; 8] = [
    "what ==",
    ".contains('P')",
    ".contains('M')",
    ".contains('C')",
    ".contains('S')",
    "wait.starts_with(",
    "partition.starts_with(",
    "order ==",
];

fn steering_strings(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in of_crates(sources) {
        // Strings are what is looked for, so that only lines of code count, not the words in them.
        let code = code_without_tests(&source.text);
        let lines_of_code = code.lines().count();
        for (number, line) in source.lines().take(lines_of_code) {
            let is_comment = line.trim_start().starts_with("//");
            let is_text = |end: &str| end.trim_start().starts_with(['"', '\'']);
            let steers = STEERING.iter().filter(|steering| {
                line.split_once(**steering)
                    .is_some_and(|(_, end)| steering.ends_with(')') || is_text(end))
            });
            if !is_comment {
                found.extend(steers.map(|words| source.at(number, &format!("`{words}` steers"))));
            }
        }
    }

    found
}

#[test]
fn no_text_steers_what_the_program_does() {
    holds(steering_strings);
}

#[test]
fn a_text_that_steers_is_found() {
    let check = steering_strings;
    let path = "crates/onbeat/src/bench/cell.rs";
    let right =
        "if grant.privilege() == Some(Privilege::LockedMemory) {}\n// grant.what == \"x\"\n";
    catches(check, path, "if grant.what == \"memory\" {}\n", 1, right);
    catches(check, path, "if tuning.contains('C') {}\n", 1, right);
    catches(check, path, "if timing.wait.starts_with(\"relative\") {}\n", 1, right);
}

/// Commands that read run files themselves: what they print needs no page and no summary.
const READ_THEMSELVES: [&str; 3] = [
    "crates/onbeat-cli/src/cmd/runs.rs",
    "crates/onbeat-cli/src/cmd/export.rs",
    "crates/onbeat-cli/src/cmd/measure_tuning.rs",
];
/// What reads a whole run file.
const READS: [&str; 3] = ["RunFile::read", "read_with_text", "read_cells"];

/// A command that reads run files past the function that reads each once for summary and page.
fn files_read_twice(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in of_crates(sources) {
        let is_command = source.path.starts_with("crates/onbeat-cli/src/");
        if !is_command || READ_THEMSELVES.contains(&source.path.as_str()) {
            continue;
        }

        let code = code_without_tests(&source.text);
        for (number, line) in (1..).zip(code.lines()) {
            let reads = READS.iter().filter(|name| line.contains(**name));
            found.extend(reads.map(|name| {
                source.at(number, &format!("{name}; `runs::reported` reads each file once"))
            }));
        }
    }

    found
}

#[test]
fn a_run_file_is_read_once_for_summary_and_page() {
    holds(files_read_twice);
}

#[test]
fn a_command_that_reads_run_files_again_is_found() {
    catches(
        files_read_twice,
        "crates/onbeat-cli/src/cmd/report.rs",
        "fn f() {\n    let run = RunFile::read(path)?;\n}\n",
        2,
        "fn f() {\n    let kept = runs::reported(path, None, None)?;\n}\n",
    );
}

// ---- registers

/// The tables of registers and AL states.
const TABLES: [&str; 2] =
    ["crates/onbeat-ethercat/src/registers.rs", "crates/onbeat-ethercat/src/al.rs"];

/// Constants with a number for a value: line, name, number.
fn numbers(source: &Source) -> Vec<(usize, String, u64)> {
    let named = |line: &str| {
        let (_, rest) = line.split_once("const ")?;
        let (name, rest) = rest.split_once(": ")?;
        let value = rest.split_once(" = ")?.1.strip_suffix(';')?.replace('_', "");
        let number = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        Some((name.to_owned(), number))
    };
    let numbered = |(line, text): (usize, &str)| {
        let (name, number) = named(text)?;
        Some((line, name, number))
    };
    source.lines().filter_map(numbered).collect()
}

/// Registers and AL states that a file lists again.
fn listed_again(sources: &[Source]) -> Vec<String> {
    let all = tracked();
    let of_tables: Vec<(usize, String, u64)> = all
        .iter()
        .filter(|source| TABLES.contains(&source.path.as_str()))
        .flat_map(numbers)
        .collect();
    let mut found = Vec::new();
    for source in of_crates(sources).filter(|source| !TABLES.contains(&source.path.as_str())) {
        for (line, name, number) in numbers(source) {
            if of_tables.iter().any(|(_, known, value)| *known == name && *value == number) {
                found.push(source.at(line, &format!("{name} is in the table of onbeat-ethercat")));
            }
        }
    }

    found
}

#[test]
fn registers_and_al_states_have_one_table() {
    holds(listed_again);
}

#[test]
fn a_register_that_is_listed_again_is_found() {
    let wrong = "const AL_STATUS: u16 = 0x0130;\n";
    let right = "const AL_STATUS: u16 = registers::AL_STATUS;\nconst ERROR: u8 = 7;\n";
    catches(listed_again, "crates/onbeat-robot/src/bus/scan.rs", wrong, 1, right);
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
