//! What may name what: crates that stay apart, and the rooms of `onbeat` in the order of dependency. The
//! direction between crates that their manifests do not hold apart is the compiler's.

use std::collections::BTreeSet;

use super::source::{Source, code_without_tests, paths, tracked};
use super::{catches, holds, rust_below};

/// A crate, and what it does without, at any distance.
const APART: [(&str, &str); 12] = [
    ("onbeat-rt", "onbeat-host"),
    ("onbeat-host", "onbeat-cause"),
    ("onbeat-tune", "onbeat-record"),
    ("onbeat-cause", "onbeat-record"),
    ("onbeat-record", "onbeat-tune"),
    ("onbeat-commands", "onbeat-report"),
    ("onbeat-lab", "onbeat-report"),
    ("onbeat-report", "onbeat-tune"),
    ("onbeat-report", "onbeat"),
    ("onbeat", "onbeat-report"),
    ("onbeat-robot", "onbeat-report"),
    ("onbeat-segment", "onbeat-control"),
];

/// The only crate that knows it.
const ETHERCRAB_IS: &str = "crates/onbeat-robot/";

/// Names in the section `[dependencies]` of a manifest, with their lines.
fn depends_on(manifest: &Source) -> impl Iterator<Item = (usize, &str)> {
    let normal = manifest.lines().skip_while(|(_, line)| *line != "[dependencies]").skip(1);
    normal
        .take_while(|(_, line)| !line.starts_with('['))
        .map(|(number, line)| (number, line.split([' ', '=', '.']).next().unwrap_or_default()))
}

fn manifest_of<'s>(sources: &'s [Source], name: &str) -> Option<&'s Source> {
    let path = format!("crates/{name}/Cargo.toml");
    sources.iter().find(|source| source.path == path)
}

/// All crates of this project that a crate depends on, at any distance; those of its tests aside.
fn all_below<'s>(sources: &'s [Source], name: &'s str) -> BTreeSet<&'s str> {
    let (mut known, mut open) = (BTreeSet::new(), vec![name]);
    while let Some(manifest) = open.pop().and_then(|next| manifest_of(sources, next)) {
        let new = depends_on(manifest).map(|(_, name)| name).filter(|name| known.insert(*name));
        open.extend(new.filter(|name| name.starts_with("onbeat")));
    }
    known
}

fn crates_that_should_stay_apart(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, never) in APART {
        if let Some(manifest) = manifest_of(sources, name)
            && all_below(sources, name).contains(never)
        {
            found.push(manifest.at(1, &format!("{name} depends on {never}")));
        }
    }
    for manifest in sources.iter().filter(|source| source.path.ends_with("/Cargo.toml")) {
        let is_crate = manifest.path.starts_with("crates/");
        let others = depends_on(manifest)
            .filter(|_| is_crate && !manifest.path.starts_with(ETHERCRAB_IS))
            .filter(|(_, name)| *name == "ethercrab");
        found.extend(others.map(|(line, _)| manifest.at(line, "ethercrab is the robot's alone")));
    }
    found
}

#[test]
fn crates_stay_apart() {
    holds(crates_that_should_stay_apart);
    let sources = tracked();
    assert!(all_below(&sources, "onbeat-robot").contains("onbeat-rt"), "the manifests are read");
    for (name, never) in APART {
        assert!(manifest_of(&sources, name).is_some() && manifest_of(&sources, never).is_some());
    }
}

#[test]
fn a_dependency_that_joins_them_is_found() {
    let manifest = |line: &str| {
        format!(
            "[package]\n\n[dependencies]\n{line}\n\n[dev-dependencies]\nonbeat-report = \"0\"\n"
        )
    };
    let right = manifest("onbeat-rt = { workspace = true }");
    let check = crates_that_should_stay_apart;
    for wrong in ["onbeat-report = { workspace = true }", "onbeat-report.workspace = true"] {
        catches(check, "crates/onbeat-robot/Cargo.toml", &manifest(wrong), 1, &right);
    }
    let wrong = manifest("ethercrab = { workspace = true }");
    catches(check, "crates/onbeat/Cargo.toml", &wrong, 4, &right);
}

const LIBRARY: &str = "crates/onbeat/src/";

/// The rooms of `onbeat`, and those that each may name; these stand before it.
const ROOMS: [(&str, &[&str]); 8] = [
    ("near_word", &[]),
    ("json_lines", &[]),
    ("campaign", &[]),
    ("load", &["near_word", "json_lines"]),
    ("inject", &["near_word"]),
    ("probe", &["inject"]),
    ("control_loop", &["probe"]),
    ("bench", &["near_word", "load", "probe", "campaign", "json_lines"]),
];

/// The other rooms that a file of a room names, with the lines.
fn named(source: &Source) -> Vec<(usize, String)> {
    let Some(below) = source.path.strip_prefix(LIBRARY) else { return Vec::new() };
    let own = below.split(['/', '.']).next().unwrap_or_default();
    let code = code_without_tests(&source.text);
    let mut found = Vec::new();
    for (line, path) in paths(&code, "crate").into_iter().chain(paths(&code, "super")) {
        // From a room's own file, `super` is the crate too; deeper down it is the room.
        let outwards = path.starts_with("crate")
            || path.starts_with("super::super")
            || !below.contains('/')
            || below.ends_with("/mod.rs");
        let room = path.split("::").find(|name| !["crate", "super"].contains(name));
        let other = room.filter(|room| *room != own && ROOMS.iter().any(|(name, _)| name == room));
        found.extend(other.filter(|_| outwards).map(|room| (line, room.to_owned())));
    }
    found
}

fn rooms_against_the_list(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in rust_below(sources, LIBRARY).filter(|source| !source.path.ends_with("/lib.rs")) {
        let own = source.path[LIBRARY.len()..].split(['/', '.']).next().unwrap_or_default();
        let Some((_, may)) = ROOMS.iter().find(|(room, _)| *room == own) else {
            found.push(source.at(1, "a room that ROOMS does not list"));
            continue;
        };
        let wrong = named(source).into_iter().filter(|(_, room)| !may.contains(&room.as_str()));
        found.extend(wrong.map(|(line, room)| source.at(line, &format!("{own} names {room}"))));
    }
    found
}

#[test]
fn rooms_name_what_stands_before_them() {
    holds(rooms_against_the_list);
    for (place, (room, may)) in ROOMS.iter().enumerate() {
        let stands_before = |name: &&str| ROOMS[..place].iter().any(|(before, _)| before == name);
        assert!(may.iter().all(stands_before), "{room}");
    }
}

#[test]
fn a_room_that_names_something_else_is_found() {
    let check = rooms_against_the_list;
    let right = "//! Not [`crate::bench`]'s.\nuse crate::probe::Run;\nuse super::plan;\n";
    let path = "crates/onbeat/src/control_loop.rs";
    catches(check, path, "use crate::probe::Run;\nuse crate::bench::Cell;\n", 2, right);
    catches(check, path, "use crate::{\n    probe::Run,\n    bench::{self, Cell},\n};\n", 1, right);
    catches(check, path, "fn f() {\n    super::super::bench::run();\n}\n", 2, right);
    let unlisted = "crates/onbeat/src/new_room/mod.rs";
    assert_eq!(check(&[Source::planted(unlisted, "")]).len(), 1);
}
