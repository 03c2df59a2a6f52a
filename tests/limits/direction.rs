//! The rooms and crates that each room or crate may name: one list, in the order of dependency.

use crate::source::{Source, code, code_without_tests, paths, tracked};
use crate::{catches, holds, rust_below};

/// All crates as paths name them.
const CRATES: [&str; 15] = [
    "onbeat_rt",
    "onbeat_host",
    "onbeat_tune",
    "onbeat_ethercat",
    "onbeat_segment",
    "onbeat_control",
    "onbeat_message",
    "onbeat",
    "onbeat_robot",
    "onbeat_lab",
    "onbeat_watch",
    "onbeat_c",
    "onbeat_gateway",
    "onbeat_camera",
    "onbeat_cli",
];

/// Folder or file, and the parts of this project that its code may name besides itself. These have
/// earlier entries.
///
/// A room of `onbeat` is named by its name alone.
const MAY_NAME: [(&str, &[&str]); 28] = [
    ("crates/onbeat-rt/src/", &[]),
    ("crates/onbeat-host/src/", &[]),
    ("crates/onbeat-tune/src/", &["onbeat_rt", "onbeat_host"]),
    ("crates/onbeat-ethercat/src/", &["onbeat_rt", "onbeat_host"]),
    ("crates/onbeat-segment/src/", &["onbeat_rt", "onbeat_ethercat"]),
    ("crates/onbeat-control/src/", &["onbeat_rt", "onbeat_host", "onbeat_ethercat"]),
    ("crates/onbeat-message/src/", &[]),
    ("crates/onbeat/src/host", &["onbeat_rt", "onbeat_tune::user", "onbeat_host::power"]),
    ("crates/onbeat/src/thread", &["onbeat_rt"]),
    ("crates/onbeat/src/cause", &["onbeat_rt", "host", "thread"]),
    (
        "crates/onbeat/src/record",
        &["onbeat_rt", "onbeat_ethercat::event", "onbeat_host", "host", "thread", "cause"],
    ),
    ("crates/onbeat/src/import", &["onbeat_rt", "onbeat_host", "host", "record"]),
    ("crates/onbeat/src/load", &["onbeat_rt"]),
    // A fault that changes a setting of the host does so by the journal of `onbeat-tune`.
    (
        "crates/onbeat/src/inject",
        &["onbeat_rt", "onbeat_ethercat", "onbeat_tune", "host", "thread", "cause"],
    ),
    ("crates/onbeat/src/probe", &["onbeat_rt", "host", "thread", "cause", "record", "inject"]),
    // A device in the kernel is a program as those that watch the scheduler.
    ("crates/onbeat/src/net", &["onbeat_rt", "onbeat_host", "thread", "cause", "record", "probe"]),
    ("crates/onbeat/src/control_loop", &["onbeat_rt", "thread", "record", "probe"]),
    (
        "crates/onbeat/src/bench",
        &["onbeat_rt", "onbeat_tune", "host", "thread", "cause", "record", "load", "probe", "net"],
    ),
    ("crates/onbeat/src/report", &["onbeat_ethercat::event", "host", "thread", "cause", "record"]),
    ("crates/onbeat/src/worth", &["host", "record", "report"]),
    ("crates/onbeat/src/lib.rs", &[]),
    (
        "crates/onbeat-robot/src/",
        &[
            "onbeat_rt",
            "onbeat_host",
            "onbeat_ethercat",
            "onbeat_segment",
            "onbeat_control",
            "onbeat_message",
            "onbeat",
        ],
    ),
    ("crates/onbeat-lab/src/", &["onbeat_rt", "onbeat_host", "onbeat_tune", "onbeat"]),
    ("crates/onbeat-watch/src/", &["onbeat_rt", "onbeat_tune", "onbeat"]),
    ("crates/onbeat-c/src/", &["onbeat_rt", "onbeat_control", "onbeat"]),
    // Nobody names it: `onbeat` starts it as a program.
    ("crates/onbeat-gateway/src/", &["onbeat_host", "onbeat_control", "onbeat_message"]),
    (
        "crates/onbeat-camera/src/",
        &["onbeat_rt", "onbeat_host", "onbeat_control", "onbeat_message"],
    ),
    (
        "crates/onbeat-cli/src/",
        &[
            "onbeat_rt",
            "onbeat_host",
            "onbeat_tune",
            "onbeat_ethercat",
            "onbeat_segment",
            "onbeat_control",
            "onbeat_message",
            "onbeat",
            "onbeat_robot",
            "onbeat_lab",
            "onbeat_watch",
        ],
    ),
];

const LIBRARY: &str = "crates/onbeat/src/";

/// Whether `path` is `name` or below it.
fn is_below(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The entry of a file.
fn entry(path: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
    let is_whole = |folder: &str| folder.ends_with('/') || folder.ends_with(".rs");
    // A room is a file, a folder, or both.
    let fits = |folder: &str| {
        path.strip_prefix(folder)
            .is_some_and(|rest| is_whole(folder) || rest.starts_with(['/', '.']))
    };
    MAY_NAME.iter().find(|(folder, _)| fits(folder))
}

/// The parts of this project outside its own crate or room that a file names, with the lines.
fn named(source: &Source) -> Vec<(usize, String)> {
    let code = code_without_tests(&source.text);
    let own = source.path.split('/').nth(1).unwrap_or_default().replace('-', "_");
    let others = CRATES.iter().filter(|name| **name != own);
    let mut found: Vec<(usize, String)> = others.flat_map(|name| paths(&code, name)).collect();

    if let Some(below) = source.path.strip_prefix(LIBRARY) {
        let room = below.split(['/', '.']).next().unwrap_or_default();
        for (line, path) in paths(&code, "crate").into_iter().chain(paths(&code, "super")) {
            // From a room's own file, `super` is the crate too; deeper down it is the room.
            let outwards = path.starts_with("crate")
                || path.starts_with("super::super")
                || !below.contains('/')
                || below.ends_with("/mod.rs");
            let inside: Vec<&str> =
                path.split("::").skip_while(|name| ["crate", "super"].contains(name)).collect();
            let is_room = inside.first().is_some_and(|name| {
                MAY_NAME.iter().any(|(folder, _)| *folder == format!("{LIBRARY}{name}"))
            });

            if outwards && is_room && inside.first() != Some(&room) {
                found.push((line, inside.join("::")));
            }
        }
    }

    found
}

fn named_against_the_list(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in rust_below(sources, "crates/").filter(|source| source.path.contains("/src/")) {
        let Some((folder, may)) = entry(&source.path) else {
            found.push(source.at(1, "a room or crate without an entry in MAY_NAME"));
            continue;
        };
        for (line, path) in named(source) {
            if !may.iter().any(|name| is_below(&path, name)) {
                found.push(source.at(line, &format!("{folder} may not name {path}")));
            }
        }
    }

    found
}

#[test]
fn rooms_and_crates_name_what_their_entry_lists() {
    holds(named_against_the_list);
}

#[test]
fn a_room_or_crate_that_names_something_else_is_found() {
    let check = named_against_the_list;
    let right = "//! Figures are [`crate::report`]'s.\nuse crate::host::{Host, report as printed};\nuse super::Series;\n";
    let record = "crates/onbeat/src/record/recorder.rs";
    catches(check, record, "use crate::host::Host;\nuse crate::report::Summary;\n", 2, right);
    let grouped = "use crate::{\n    host::Host,\n    report::{self, Summary},\n};\n";
    catches(check, record, grouped, 1, right);
    catches(check, record, "fn f() {\n    super::super::bench::run();\n}\n", 2, right);
    catches(
        check,
        "crates/onbeat/src/thread.rs",
        "use super::bench::Tuning;\n",
        1,
        "use onbeat_rt::Wait;\n",
    );
    catches(
        check,
        record,
        "use onbeat_ethercat::wire::Wire;\n",
        1,
        "use onbeat_ethercat::event::Event;\n",
    );

    let ethercat = "crates/onbeat-ethercat/src/layout.rs";
    catches(check, ethercat, "use onbeat_segment::Segment;\n", 1, "use onbeat_rt::Instant;\n");
    let tune = "crates/onbeat-tune/src/shield.rs";
    catches(
        check,
        tune,
        "fn f() {\n    onbeat::host::online_cpus();\n}\n",
        2,
        "use crate::user::owner;\n",
    );
    catches(
        check,
        "crates/onbeat/src/bench/cell.rs",
        "use onbeat_robot::motion::Robot;\n",
        1,
        "use crate::probe::Run;\n",
    );

    let unlisted = "crates/onbeat/src/new_room/mod.rs";
    let found = check(&[Source::planted(unlisted, "")]);
    assert_eq!(found, [format!("{unlisted}:1: a room or crate without an entry in MAY_NAME")]);
}

/// The list is an order: what an entry names has an entry before it.
#[test]
fn what_an_entry_names_stands_before_it() {
    for (place, (folder, may)) in MAY_NAME.iter().enumerate() {
        for name in *may {
            let first = name.split("::").next().unwrap_or_default();
            let of = |(folder, _): &(&str, &[&str])| {
                let krate = folder
                    .strip_prefix("crates/")
                    .and_then(|rest| rest.split('/').next())
                    .unwrap_or_default();
                *folder == format!("{LIBRARY}{first}") || krate.replace('-', "_") == first
            };
            assert!(
                MAY_NAME[..place].iter().any(of),
                "{folder} names {name}, which does not stand before it"
            );
        }
    }
}

#[test]
fn every_room_of_the_library_has_its_entry() {
    let sources = tracked();
    let library = sources
        .iter()
        .find(|source| source.path == format!("{LIBRARY}lib.rs"))
        .expect("the library's front page");
    let code = code(&library.text);
    let rooms =
        code.lines().filter_map(|line| line.trim().strip_prefix("pub mod ")?.strip_suffix(';'));
    for room in rooms {
        assert!(
            MAY_NAME.iter().any(|(folder, _)| *folder == format!("{LIBRARY}{room}")),
            "room {room} is not in MAY_NAME"
        );
    }
}

/// The same for manifests: a crate depends only on crates of this project that its code may name.
fn dependencies_against_the_list(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for manifest in sources
        .iter()
        .filter(|source| source.path.starts_with("crates/") && source.path.ends_with("/Cargo.toml"))
    {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let may: Vec<&str> = MAY_NAME
            .iter()
            .filter(|(entry, _)| entry.starts_with(folder))
            .flat_map(|(_, may)| may.iter().filter_map(|name| name.split("::").next()))
            .collect();
        let normal = manifest.lines().skip_while(|(_, line)| *line != "[dependencies]").skip(1);

        for (number, line) in normal.take_while(|(_, line)| !line.starts_with('[')) {
            let name = line.split([' ', '=', '.']).next().unwrap_or_default().replace('-', "_");
            if CRATES.contains(&name.as_str()) && !may.contains(&name.as_str()) {
                found.push(manifest.at(number, &format!("may not depend on {name}")));
            }
            if name == "ethercrab" && folder != "crates/onbeat-robot/" {
                found.push(manifest.at(number, "ethercrab is the robot's alone"));
            }
        }
    }

    found
}

#[test]
fn crates_depend_on_what_their_entry_lists() {
    holds(dependencies_against_the_list);
}

#[test]
fn a_dependency_that_no_entry_lists_is_found() {
    let manifest = |line: &str| {
        format!(
            "[package]\n\n[dependencies]\n{line}\n\n[dev-dependencies]\nonbeat-robot = \"0\"\nethercrab = \"0\"\n"
        )
    };
    let right = manifest("onbeat-tune = { workspace = true }");

    for wrong in [
        "onbeat-robot = { workspace = true }",
        "onbeat-robot.workspace = true",
        "ethercrab = { workspace = true }",
    ] {
        catches(
            dependencies_against_the_list,
            "crates/onbeat/Cargo.toml",
            &manifest(wrong),
            4,
            &right,
        );
    }
}
