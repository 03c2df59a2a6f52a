//! The product as others meet it: what the library depends on, front pages, the README.

use std::collections::BTreeSet;

use super::source::Source;
use super::{catches, holds, tracked};

// ---- dependencies

/// Dependencies that outweigh the code that needs them, and the libraries that do without.
const WITHOUT: [(&str, &str); 5] = [
    ("onbeat", "ethercrab"),
    ("onbeat-tune", "ethercrab"),
    ("onbeat-ethercat", "ethercrab"),
    ("onbeat-control", "ethercrab"),
    ("onbeat-segment", "onbeat"),
];

/// The names that a package of `Cargo.lock` depends on, with those that its tests need.
fn dependencies<'l>(lock: &'l str, package: &str) -> Vec<&'l str> {
    let is_it = |part: &&str| part.starts_with(&format!("\nname = \"{package}\"\n"));
    let Some(found) = lock.split("[[package]]").find(is_it) else { return Vec::new() };
    let listed = found.split_once("dependencies = [").map_or("", |(_, rest)| rest);
    let names = listed.lines().map_while(|line| (line != "]").then(|| line.trim()));
    names.filter_map(|line| line.trim_matches(['"', ',']).split(' ').next()).collect()
}

/// Everything that a package depends on, at any distance.
fn all_dependencies<'l>(lock: &'l str, package: &'l str) -> BTreeSet<&'l str> {
    let mut known = BTreeSet::new();
    let mut open = vec![package];
    while let Some(next) = open.pop() {
        if known.insert(next) {
            open.extend(dependencies(lock, next));
        }
    }

    known
}

fn heavy_dependencies(sources: &[Source]) -> Vec<String> {
    let Some(lock) = sources.iter().find(|source| source.path == "Cargo.lock") else {
        return Vec::new();
    };
    let has =
        |(package, heavy): &&(&str, &str)| all_dependencies(&lock.text, package).contains(heavy);
    WITHOUT
        .iter()
        .filter(has)
        .map(|(package, heavy)| lock.at(1, &format!("{package} depends on {heavy}")))
        .collect()
}

#[test]
fn libraries_do_without_what_outweighs_them() {
    holds(heavy_dependencies);
    let sources = tracked();
    let lock = sources.iter().find(|source| source.path == "Cargo.lock").expect("it is tracked");
    assert!(all_dependencies(&lock.text, "onbeat-robot").contains("ethercrab"));
}

#[test]
fn a_dependency_at_a_distance_is_found() {
    let package = |name: &str, needs: &str| {
        format!(
            "[[package]]\nname = \"{name}\"\nversion = \"1\"\ndependencies = [\n \"{needs}\",\n]\n"
        )
    };
    let wrong = package("onbeat", "middle") + &package("middle", "ethercrab 0.7.1");
    let right = package("onbeat", "middle") + &package("middle", "libc");
    catches(heavy_dependencies, "Cargo.lock", &wrong, 1, &right);
}

// ---- front pages

/// Rooms whose public items are used together, so that their front page shows how.
const ROOMS: [&str; 3] =
    ["crates/onbeat/src/", "crates/onbeat-robot/src/", "crates/onbeat-tune/src/"];

/// Whether a file is the front page of a crate, or of a public room in a folder of its own.
fn is_front_page(sources: &[Source], source: &Source) -> bool {
    if source.path.starts_with("crates/") && source.path.ends_with("/src/lib.rs") {
        return true;
    }

    let room = ROOMS.iter().find_map(|crate_| {
        let name = source.path.strip_prefix(crate_)?.strip_suffix("/mod.rs")?;
        (!name.contains('/')).then(|| (format!("{crate_}lib.rs"), format!("\npub mod {name};")))
    });
    room.is_some_and(|(library, declared)| {
        sources.iter().any(|source| source.path == library && source.text.contains(&declared))
    })
}

fn front_pages_without_example(sources: &[Source]) -> Vec<String> {
    let has_example = |source: &Source| source.text.lines().any(|line| line == "//! ```");
    sources
        .iter()
        .filter(|source| is_front_page(sources, source) && !has_example(source))
        .map(|source| source.at(1, "the front page has no example"))
        .collect()
}

#[test]
fn every_front_page_has_an_example() {
    holds(front_pages_without_example);
}

#[test]
fn a_front_page_without_an_example_is_found() {
    let check = front_pages_without_example;
    let page = "crates/onbeat-rt/src/lib.rs";
    catches(
        check,
        page,
        "//! The loop.\n",
        1,
        "//! The loop.\n//!\n//! ```\n//! run();\n//! ```\n",
    );
}

// ---- README

/// What a person reads before deciding.
const README_LINES: usize = 130;

fn long_readme(sources: &[Source]) -> Vec<String> {
    let readme = sources.iter().filter(|source| source.path == "README.md");
    let is_long = |source: &&Source| source.text.lines().count() > README_LINES;
    let what = format!("more than {README_LINES} lines");
    readme.filter(is_long).map(|source| source.at(README_LINES + 1, &what)).collect()
}

#[test]
fn the_readme_has_at_most_130_lines() {
    holds(long_readme);
}

#[test]
fn a_readme_of_131_lines_is_found() {
    catches(long_readme, "README.md", &"line\n".repeat(131), 131, &"line\n".repeat(130));
}
