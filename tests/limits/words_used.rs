//! Words: of names, of what is left to do, of machines, and of the glossary.

use super::source::{Source, code, line_of, words};
use super::{PROGRAM, PROSE, catches, holds, tracked};

/// Written in two halves, so that the check does not find this file.
const OLD_WORDS: [&str; 2] = [concat!("mas", "ter"), concat!("sla", "ve")];
const LEFT_TO_DO: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("unimple", "mented!"),
    concat!("to", "do!"),
];
const VAGUE: [&str; 3] = ["manager", "helper", "utils"];
/// ETG.1000's name for a part of an EtherCAT device, which says what it is.
const SYNC_MANAGER: [&str; 2] = ["syncmanager", "sync_manager"];

// ---- names

/// Keywords before a name, in the languages of the repository.
const NAMING: [&str; 9] =
    ["struct", "enum", "trait", "type", "union", "mod", "class", "interface", "record"];

fn vague_names(sources: &[Source]) -> Vec<String> {
    let is_vague = |name: &str| {
        let name =
            SYNC_MANAGER.iter().fold(name.to_lowercase(), |name, term| name.replace(term, ""));
        VAGUE.iter().find(|vague| name.contains(**vague)).copied()
    };
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension(&["rs", "ts", "java", "py"]))
    {
        found.extend(
            is_vague(&source.path).map(|vague| source.at(1, &format!("a file is named {vague}"))),
        );
        let code = code(&source.text);
        for keyword in NAMING {
            for place in words(&code, keyword) {
                let name = code[place.end..]
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .nth(1)
                    .unwrap_or_default();
                let line = line_of(&code, place.start);
                found.extend(
                    is_vague(name).map(|vague| {
                        source.at(line, &format!("{name} says {vague}, not what it is"))
                    }),
                );
            }
        }
    }

    found
}

#[test]
fn no_type_and_no_file_has_a_vague_name() {
    holds(vague_names);
}

#[test]
fn a_vague_name_is_found() {
    let right = "/// No Manager here.\npub struct Recorder;\n";
    catches(
        vague_names,
        "crates/onbeat/src/a.rs",
        "pub struct A;\npub struct LoadManager;\n",
        2,
        right,
    );

    catches(
        vague_names,
        "crates/onbeat/src/a.rs",
        "struct SyncManagerHelper;\n",
        1,
        "struct SyncManager;\n",
    );

    catches(
        vague_names,
        "viewer/src/a.ts",
        "export class DrawHelper {}\n",
        1,
        "export class Axis {}\n",
    );

    let found = vague_names(&[Source::planted("viewer/src/utils.ts", "")]);
    assert_eq!(found.len(), 1, "{found:?}");
}

fn old_words(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.has_extension(&PROGRAM) || source.has_extension(&PROSE))
    {
        for (number, line) in source.lines() {
            let own = without_quotes(line).to_lowercase();
            let word = OLD_WORDS.iter().find(|word| own.contains(**word));
            found.extend(word.map(|word| {
                source.at(number, &format!("`{word}`; the words are MainDevice and SubDevice"))
            }));
        }
    }

    found
}

/// A line without what it quotes: between backticks, between double quotes, and addresses.
fn without_quotes(line: &str) -> String {
    let pieces = line.split(['`', '"']).step_by(2).collect::<Vec<_>>().join(" ");
    pieces.split_whitespace().filter(|word| !word.contains("://")).collect::<Vec<_>>().join(" ")
}

#[test]
fn devices_are_called_as_the_standard_calls_them() {
    holds(old_words);
}

#[test]
fn an_old_word_is_found_unless_it_is_a_quote() {
    let wrong = format!("# Bus\nThe bus {} sends.\n", OLD_WORDS[0]);
    let right = format!(
        "# Bus\nThe kernel calls it `{}` (\"{}\"), see https://a.b/{}/c.\n",
        OLD_WORDS[0], OLD_WORDS[1], OLD_WORDS[0]
    );
    catches(old_words, "docs/bus.md", &wrong, 2, &right);
}

// ---- what is left to do

fn left_to_do(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.has_extension(&PROGRAM) || source.has_extension(&PROSE))
    {
        for word in LEFT_TO_DO {
            let name = word.trim_end_matches('!');
            let places = words(&source.text, name)
                .filter(|place| source.text[place.start..].starts_with(word));
            found.extend(places.map(|place| source.at(line_of(&source.text, place.start), word)));
        }
    }

    found
}

#[test]
fn nothing_is_left_to_do_in_the_text() {
    holds(left_to_do);
}

#[test]
fn a_note_of_something_left_to_do_is_found() {
    let wrong = format!("fn f() {{\n    // {}: later\n}}\n", LEFT_TO_DO[0]);
    catches(left_to_do, "crates/onbeat/src/a.rs", &wrong, 2, "fn f() {}\n// METHODOLOGY\n");
    let wrong = format!("fn f() {{\n    {}()\n}}\n", LEFT_TO_DO[3]);
    catches(left_to_do, "crates/onbeat/src/a.rs", &wrong, 2, "// todo = \"deny\"\n");
}

// ---- machines

const PRIVATE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")];
/// Invented users of tests and documents.
const NOBODY: [&str; 2] = ["ann", "robot"];
/// Parts of the names of package registries, which are configuration of a machine.
const REGISTRIES: [&str; 11] = [
    "registry",
    "artifactory",
    "nexus",
    "verdaccio",
    "mirror",
    "proxy",
    "pypi",
    "pythonhosted",
    "npmjs",
    "crates.io",
    "repo1",
];

fn traces_of_a_machine(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        for (number, line) in source.lines() {
            let path = PRIVATE_PATHS.iter().find(|path| {
                line.match_indices(**path).any(|(at, _)| begins_a_path(line, path, at))
            });
            found.extend(
                path.map(|path| {
                    source.at(number, &format!("a path of somebody's machine: {path}"))
                }),
            );
            found.extend(
                registry(line)
                    .map(|host| source.at(number, &format!("a package registry's host: {host}"))),
            );
        }
    }

    found
}

/// Whether an absolute path of a user begins here, as opposed to a part of a longer path.
fn begins_a_path(line: &str, path: &str, at: usize) -> bool {
    let user =
        line[at + path.len()..].split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~*}>)".contains(c))
        && !NOBODY.contains(&user)
}

fn registry(line: &str) -> Option<&str> {
    line.match_indices("://").find_map(|(at, separator)| {
        let rest = &line[at + separator.len()..];
        let host = rest
            .split(|c: char| !c.is_alphanumeric() && !".-".contains(c))
            .next()
            .unwrap_or_default();
        REGISTRIES.iter().any(|name| host.contains(name)).then_some(host)
    })
}

#[test]
fn no_file_holds_a_path_of_somebodys_machine_or_a_registrys_host() {
    holds(traces_of_a_machine);
}

#[test]
fn a_path_of_a_machine_and_a_registrys_host_are_found() {
    let right = "see target/work/x, HOME=/ho\u{6d}e/robot/, https://github.com/rust-lang/crates.io-index and https://docs.rs\n";
    let wrong = format!("one\nread {}somebody/x\n", PRIVATE_PATHS[1]);
    catches(traces_of_a_machine, "docs/a.md", &wrong, 2, right);
    let wrong = format!("\"resolved\": \"https{}registry.example.org/a.tgz\"\n", "://");
    catches(traces_of_a_machine, "viewer/package-lock.json", &wrong, 1, right);
}

// ---- the glossary

/// Words of the program that the glossary must explain, each in backticks.
fn words_to_explain(sources: &[Source]) -> Vec<String> {
    let text = |path: &str| {
        sources.iter().find(|source| source.path == path).map_or("", |source| source.text.as_str())
    };
    let series = literals(item(text("crates/onbeat/src/record/series.rs"), "fn tag"));
    let notes = text("crates/onbeat/src/record/note.rs");
    let kinds = variants(item(notes, "enum Note")).into_iter().map(|kind| snake_case(&kind));
    let stalls = variants(item(notes, "enum Stall")).into_iter().map(|stall| snake_case(&stall));
    let reasons =
        variants(item(notes, "enum EndReason")).into_iter().map(|reason| snake_case(&reason));
    let shared = text("crates/onbeat-cli/src/options.rs");
    let typed = ["fn wait(", "fn overrun(", "fn phase("]
        .iter()
        .flat_map(|function| literals(item(shared, function)));
    let typed = typed.filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    let mut all: Vec<String> =
        series.into_iter().chain(kinds).chain(stalls).chain(reasons).chain(typed).collect();
    all.extend(options_of_time(shared));
    all.extend(options_of_time(text("crates/onbeat-cli/src/cli.rs")));

    all
}

/// An item of Rust, from its name to the end of its block.
fn item<'t>(text: &'t str, name: &str) -> &'t str {
    let Some(start) = text.find(name) else { return "" };
    let end = text[start..].find("\n}").into_iter().chain(text[start..].find("\n    }\n")).min();
    &text[start..start + end.unwrap_or(text.len() - start)]
}

fn literals(item: &str) -> Vec<String> {
    item.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn variants(item: &str) -> Vec<String> {
    let name = |line: &str| {
        let name: String = line.trim().chars().take_while(char::is_ascii_alphanumeric).collect();
        let is_variant =
            line.starts_with("    ") && name.starts_with(|c: char| c.is_ascii_uppercase());
        is_variant.then_some(name)
    };
    item.lines().skip(1).filter_map(name).collect()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }

    snake
}

/// `--period` and all other options of the command line that take a time.
fn options_of_time(cli: &str) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    let lines: Vec<&str> = cli.lines().collect();
    for (line, next) in lines.iter().zip(&lines[1.min(lines.len())..]) {
        let parser =
            line.split_once("value_parser = ").and_then(|(_, rest)| rest.split([',', ')']).next());
        if !parser.is_some_and(|parser| parser.ends_with("_ns")) {
            continue;
        }

        let named = line
            .split_once("long = \"")
            .and_then(|(_, rest)| rest.split_once('"'))
            .map(|(name, _)| name.to_owned());
        let field = next
            .trim()
            .trim_start_matches("pub(crate) ")
            .split(':')
            .next()
            .unwrap_or_default()
            .replace('_', "-");
        options.push(format!("--{}", named.unwrap_or(field)));
    }

    options.sort();
    options.dedup();
    options
}

fn missing_from_the_glossary(sources: &[Source]) -> Vec<String> {
    let Some(glossary) = sources.iter().find(|source| source.path == "GLOSSARY.md") else {
        return vec!["GLOSSARY.md:1: there is none".to_owned()];
    };
    let quoted: Vec<&str> = glossary.text.split('`').skip(1).step_by(2).collect();
    let is_there = |word: &String| {
        quoted.iter().any(|quote| quote == word || words(quote, word).next().is_some())
    };
    let missing = words_to_explain(sources).into_iter().filter(|word| !is_there(word));

    missing.map(|word| glossary.at(1, &format!("`{word}` is used and not explained"))).collect()
}

#[test]
fn every_series_and_every_word_that_is_typed_stands_in_the_glossary() {
    let words = words_to_explain(&tracked());
    for known in ["wakeup_latency", "interval", "rt_throttling", "adaptive", "--period", "--for"] {
        assert!(words.iter().any(|word| word == known), "{known} is not among {words:?}");
    }
    holds(missing_from_the_glossary);
}

#[test]
fn a_series_that_the_glossary_lacks_is_found() {
    let series = "impl Series {\n    pub const fn tag(self) -> &'static str {\n        match self { Self::Nap => \"nap_time\" }\n    }\n}\n";
    let cli = "    #[arg(long, value_parser = time_ns)]\n    pub(crate) nap_every: u64,\n";
    let with = |glossary: &str| {
        missing_from_the_glossary(&[
            Source::planted("crates/onbeat/src/record/series.rs", series),
            Source::planted("crates/onbeat-cli/src/cli.rs", cli),
            Source::planted("GLOSSARY.md", glossary),
        ])
    };

    assert_eq!(with("| `nap_time` |\n").len(), 1, "{:?}", with("| `nap_time` |\n"));
    assert_eq!(with("| `nap_time` | `--nap-every <TIME>` |\n"), [] as [String; 0]);
}

/// Words that several rows of the glossary explain, and rows without the column of the usual term.
fn glossary_rows_that_are_wrong(sources: &[Source]) -> Vec<String> {
    let Some(glossary) = sources.iter().find(|source| source.path == "GLOSSARY.md") else {
        return Vec::new();
    };
    let rows =
        glossary.lines().filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| word "));
    let mut found = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (number, line) in rows {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        if cells.len() != 4 {
            found.push(glossary.at(
                number,
                &format!("{} columns; word, what it is, unit, usual term", cells.len()),
            ));
        }

        for word in cells[0].split(',').map(|word| word.trim().trim_matches('`')) {
            if known.contains(&word) {
                found.push(glossary.at(number, &format!("`{word}` stands twice")));
            }
            known.push(word);
        }
    }

    found
}

#[test]
fn a_word_stands_once_in_the_glossary_and_beside_its_usual_term() {
    holds(glossary_rows_that_are_wrong);
}

#[test]
fn a_word_that_stands_twice_and_a_row_without_its_usual_term_are_found() {
    let head = "| word | what it is | unit | usual term |\n|---|---|---|---|\n";
    let right = format!("{head}| nap | a pause | ns | sleep |\n| `doze`, rest | another | | |\n");
    let twice = format!("{right}| nap | a third | | |\n");
    catches(glossary_rows_that_are_wrong, "GLOSSARY.md", &twice, 5, &right);
    catches(
        glossary_rows_that_are_wrong,
        "GLOSSARY.md",
        &format!("{head}| nap | a pause |\n"),
        3,
        &right,
    );
}
