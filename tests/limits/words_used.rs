//! Words that must not occur (paths of a machine, hosts of registries), and words that the glossary must explain.

use super::source::{Source, words};
use super::{catches, holds, tracked};

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
    let series = literals(item(text("crates/onbeat-record/src/series.rs"), "fn tag"));
    let notes = text("crates/onbeat-record/src/note.rs");
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
    for command in ["bench", "inject", "load", "report"] {
        let options = format!("crates/onbeat-cli/src/cmd/{command}/options.rs");
        all.extend(options_of_time(text(&options)));
    }

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
            Source::planted("crates/onbeat-record/src/series.rs", series),
            Source::planted("crates/onbeat-cli/src/cmd/bench/options.rs", cli),
            Source::planted("GLOSSARY.md", glossary),
        ])
    };

    assert_eq!(with("| `nap_time` |\n").len(), 1, "{:?}", with("| `nap_time` |\n"));
    assert_eq!(with("| `nap_time` | `--nap-every <TIME>` |\n"), [] as [String; 0]);
}
