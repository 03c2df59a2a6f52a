//! Words that must not occur: paths of a machine, hosts of registries.

use super::source::Source;
use super::{catches, holds};

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
