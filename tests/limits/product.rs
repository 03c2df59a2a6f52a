//! The product as others meet it: what the library depends on, front pages, the README.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

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

// ---- links

/// The targets of links and pictures in a line of a document, without their place in the page.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let behind = line.split("](").skip(1);
    let targets = behind.filter_map(|rest| rest.split([')', '#', ' ']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// A path from the root of the repository, without `..`.
fn joined(folder: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::CurDir => {}
            part => path.push(part),
        }
    }

    path
}

/// Links and pictures of documents that lead nowhere.
fn dead_links(sources: &[Source]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.has_extension(&["md"])) {
        let folder = Path::new(&source.path).parent().unwrap_or(Path::new(""));
        let mut in_code = false;
        for (number, line) in source.lines() {
            if line.starts_with("```") {
                in_code = !in_code;
            }

            let dead = targets(line).filter(|target| !root.join(joined(folder, target)).exists());
            if !in_code {
                found.extend(dead.map(|target| source.at(number, &format!("no file {target}"))));
            }
        }
    }

    found
}

#[test]
fn links_and_pictures_of_documents_lead_to_files() {
    holds(dead_links);
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let right = "[ratios](../peers.md#net), [page](https://example.org/x.md)\n```\n[x](y)\n```\n";
    catches(dead_links, "docs/guide/net.md", "![view](../absent.png)\n", 1, right);
}

// ---- programs of documents

/// Documents whose first program is a part of an example that is built, and that example.
const EXAMPLES: [(&str, &str); 1] =
    [("docs/guide/own-loop.md", "crates/onbeat/examples/own_loop.rs")];

/// The first block of Rust code: the line of its fence, and its lines.
fn rust_block(source: &Source) -> Option<(usize, Vec<&str>)> {
    let (fence, _) = source.lines().find(|(_, line)| line.starts_with("```rust"))?;
    let lines = source.text.lines().skip(fence).take_while(|line| !line.starts_with("```"));
    Some((fence, lines.collect()))
}

/// Lines of such a program that its example has not.
fn untried_lines(sources: &[Source]) -> Vec<String> {
    let all = tracked();
    let mut found = Vec::new();
    for (document, example) in EXAMPLES {
        let built = all.iter().find(|source| source.path == example);
        let has = |line: &str| built.is_some_and(|built| built.text.contains(line.trim()));
        for source in sources.iter().filter(|source| source.path == document) {
            let (fence, lines) = rust_block(source).unwrap_or_default();
            let untried = (fence + 1..).zip(lines).filter(|(_, line)| !has(line));
            let what = format!("not a line of {example}");
            found.extend(untried.map(|(number, _)| source.at(number, &what)));
        }
    }

    found
}

#[test]
fn programs_of_documents_are_parts_of_examples() {
    holds(untried_lines);
    for (document, _) in EXAMPLES {
        let sources = tracked();
        let source = sources.iter().find(|source| source.path == document).expect("it is tracked");
        assert!(rust_block(source).is_some(), "{document} has no program");
    }
}

#[test]
fn a_program_that_no_example_has_is_found() {
    let document = "docs/guide/own-loop.md";
    let wrong = "```rust\nuse onbeat::{Loop, Period};\nLoop::new_at(5);\n```\n";
    catches(untried_lines, document, wrong, 3, "```rust\nuse onbeat::{Loop, Period};\n```\n");
}

// ---- fuzz targets

/// What compiles them, as a part of `make test`.
const FUZZ: &str = " fuzz-targets ";

/// Fuzz targets that are not in the manifest, and a `make test` that compiles none.
fn fuzz_targets_left_out(sources: &[Source]) -> Vec<String> {
    let all = tracked();
    let manifest = all.iter().find(|source| source.path == "fuzz/Cargo.toml");
    let mut found = Vec::new();
    for source in sources {
        let target = source.path.strip_prefix("fuzz/");
        let is_target = target.filter(|path| path.starts_with("fuzz_targets/"));
        let is_built = |path: &&str| {
            manifest.is_some_and(|manifest| manifest.text.contains(&format!("path = \"{path}\"")))
        };
        if is_target.is_some_and(|path| source.has_extension(&["rs"]) && !is_built(&path)) {
            found.push(source.at(1, "not a target of fuzz/Cargo.toml"));
        }

        let runs = |line: &str| line.starts_with("beside:") && line.contains(FUZZ);
        if source.path == "Makefile" && !source.text.lines().any(runs) {
            found.push(source.at(1, "the fuzz targets are not compiled by `make test`"));
        }
    }

    found
}

#[test]
fn every_fuzz_target_compiles_in_continuous_integration() {
    holds(fuzz_targets_left_out);
    let sources = tracked();
    assert!(sources.iter().any(|source| source.path.starts_with("fuzz/fuzz_targets/")));
}

#[test]
fn a_fuzz_target_that_is_left_out_is_found() {
    let check = fuzz_targets_left_out;
    assert_eq!(check(&[Source::planted("fuzz/fuzz_targets/absent.rs", "")]).len(), 1);
    catches(
        check,
        "Makefile",
        "beside: clippy outside\n",
        1,
        "beside: clippy fuzz-targets outside\n",
    );
}
