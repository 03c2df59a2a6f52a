//! Every load does its work, and reports what it could not do.

use crate::load_carrier;

use std::time::Duration;

use load_carrier::{LARGEST_FILE, alone, carrier, did, let_work, part_of, run_for, until};
use onbeat::load::{LoadNotice, LoadNoticeKind, LoadStopReason, PartWork, RunningLoad};

/// Long enough for every part to do some work.
const SOME_TIME: Duration = Duration::from_millis(1_500);

fn reached_share(load: &str) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let (report, _) = run_for(load, directory.path(), SOME_TIME);
    match did(&report, "cpu") {
        PartWork::Cpu { cpus: 1.., reached_share, .. } => reached_share,
        other => panic!("{other:?}"),
    }
}

fn died<'e>(events: &'e [LoadNotice], name: &str) -> Option<&'e str> {
    events.iter().find_map(|event| match &event.what {
        LoadNoticeKind::PartDied { part, status } if part == name => Some(&**status),
        _ => None,
    })
}

#[test]
fn each_built_in_part_counts_what_it_does() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a file"), "x").unwrap();
    let (report, events) = run_for("disk+network+walk", directory.path(), SOME_TIME);

    assert!(matches!(
        did(&report, "disk"),
        PartWork::Disk { bytes_written: 1.., largest_file_bytes: LARGEST_FILE, .. }
    ));
    assert!(matches!(
        did(&report, "network"),
        PartWork::Network { packets_sent: 1.., packets_received: 1.. }
    ));
    assert!(matches!(
        did(&report, "walk"),
        PartWork::Walk { files: 1.., walks: 1.., unreadable: 0 }
    ));
    let (report, more) = run_for("sched=1", directory.path(), SOME_TIME);
    assert!(matches!(did(&report, "sched"), PartWork::Sched { groups: 1, messages: 1.. }));
    assert!(report.parts.iter().all(|part| part.alive && part.by == "built in"));
    assert_eq!(events.len() + more.len(), 4, "a start and a stop each: {events:?} {more:?}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();

    assert_eq!(left.len(), 1, "the file of the disk part never had a name: {left:?}");
}

#[test]
fn a_larger_requested_cpu_share_is_reached() {
    let _alone = alone();
    let mut pairs = Vec::new();
    for _attempt in 0..5 {
        // At the same time, so that both compete with the same other work; repeated if the machine
        // had no time at all.
        let little = std::thread::spawn(|| reached_share("cpu=30%"));
        let much = reached_share("cpu=70%");
        let little = little.join().unwrap();
        pairs.push((little, much));
        if 0.0 < little && little < much && much <= 1.0 {
            return;
        }
    }

    panic!("{pairs:?}");
}

#[test]
fn the_end_of_a_part_is_reported_with_its_status_and_its_last_line() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut running =
        RunningLoad::start(carrier("run:echo out of luck >&2; exit 3", directory.path())).unwrap();
    let mut events = Vec::new();
    until("the end of the part is reported", || {
        events.extend(running.events());
        died(&events, "run").is_some()
    });

    let (report, _) = running.stop().unwrap();
    assert_eq!(died(&events, "run"), Some("exit status: 3: out of luck"));
    assert!(!part_of(&report, "run").alive);
    assert!(
        matches!(did(&report, "run"), PartWork::Program { runs: 1, processes: 1.., .. }),
        "it is not restarted"
    );
}

#[test]
fn a_requested_program_that_is_not_installed_is_an_error_with_its_package() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut command = carrier("disk+stress-ng:--cpu 1", directory.path());
    command.env("PATH", "/nowhere");
    let message = RunningLoad::start(command).unwrap_err().to_string();
    assert!(
        message.contains("stress-ng is not installed; install the package stress-ng"),
        "{message}"
    );
}

#[test]
fn the_papers_load_goes_on_without_its_programs_and_names_their_packages() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut command = carrier("paper", directory.path());
    command.env("PATH", "/nowhere");
    let mut running = RunningLoad::start(command).unwrap();
    let_work(SOME_TIME);
    let events = running.events();
    let (report, _) = running.stop().unwrap();

    for (name, package) in [("hackbench", "rt-tests"), ("ping", "iputils-ping")] {
        let is_reported = events.iter().any(|event| match &event.what {
            LoadNoticeKind::PartSubstituted { part, package: Some(missing), .. } => {
                part == name && missing == package
            }
            _ => false,
        });
        assert!(is_reported, "{name}: {events:?}");
        assert_eq!(part_of(&report, name).by, "built in");
    }

    assert!(matches!(did(&report, "hackbench"), PartWork::Sched { groups: 1.., messages: 1.. }));
    assert!(matches!(did(&report, "ping"), PartWork::Network { packets_sent: 1.., .. }));
    assert_eq!(
        report.parts.iter().map(|part| &*part.part).collect::<Vec<_>>(),
        ["disk", "hackbench", "ping", "walk"]
    );
}

#[test]
fn a_program_that_gives_up_at_once_is_stood_in_for() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let programs = tempfile::tempdir().unwrap();
    for name in ["hackbench", "ping"] {
        let path = programs.path().join(name);
        std::fs::write(&path, "#!/bin/sh\necho 'not for you' >&2\nexit 2\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }

    let mut command = carrier("paper", directory.path());
    command.env("PATH", programs.path());
    let mut running = RunningLoad::start(command).unwrap();
    let mut whys = Vec::new();
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while whys.len() < 2 && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
        whys.extend(running.events().into_iter().filter_map(|event| match event.what {
            LoadNoticeKind::PartSubstituted { why, .. } => Some(why),
            _ => None,
        }));
    }

    drop(running);
    assert_eq!(whys.len(), 2, "{whys:?}");
    assert!(whys.iter().all(|why| why.contains("exit status: 2: not for you")), "{whys:?}");
}

#[test]
fn a_directory_that_cannot_be_written_in_is_an_error_with_its_name() {
    let _alone = alone();
    let message =
        RunningLoad::start(carrier("disk", "/nowhere/at/all".as_ref())).unwrap_err().to_string();
    assert!(
        message.contains("/nowhere/at/all") && message.contains("another directory"),
        "{message}"
    );
}

#[test]
fn idle_starts_nothing_and_ends_when_asked() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (report, events) = run_for("idle", directory.path(), Duration::ZERO);
    assert!(report.parts.is_empty() && report.why == LoadStopReason::Asked, "{report:?}");
    assert_eq!(events.len(), 2);
}

#[test]
fn an_event_is_written_with_the_fields_of_the_run_file() {
    let _alone = alone();
    let event = LoadNotice {
        t: 1.5,
        load: "paper".to_owned(),
        what: LoadNoticeKind::PartDied {
            part: "ping".to_owned(),
            status: "exit status: 2".to_owned(),
        },
    };

    let json = r#"{"t":1.5,"load":"paper","event":"part_died","detail":{"part":"ping","status":"exit status: 2"}}"#;
    assert_eq!(serde_json::to_string(&event).unwrap(), json);
    assert_eq!(serde_json::from_str::<LoadNotice>(json).unwrap(), event);
    assert_eq!(event.to_string(), "load part ping died: exit status: 2");
}
