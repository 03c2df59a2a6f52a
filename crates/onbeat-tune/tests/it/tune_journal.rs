//! The journal: its content, its owner, and what a later start does with it.

use crate::tune_fake;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use onbeat_tune::apply::status;
use onbeat_tune::change::Kind;
use onbeat_tune::repair::{Ending, repair_as, undo};
use onbeat_tune::tasks::TaskId;
use onbeat_tune::{
    ChangeOutcome, HostFiles, Intent, Journal, Key, Purpose, Repaired, TuneError, UndoMode, repair,
};
use rustix::fs::Mode;
use tune_fake::{BOUND, Cgroups, Fake, OWN, World, directory_in_memory};

const DEFAULT: &str = "/proc/irq/default_smp_affinity";
const WORK: &str = "/sys/devices/virtual/workqueue/cpumask";

fn host() -> Fake {
    Fake::new(World::new(Cgroups::V1))
}

fn begin(directory: &Path, host: &Fake) -> Journal {
    Journal::begin(directory, host, &Purpose::new("bench", "onbeat bench")).unwrap()
}

fn mask(path: &str, old: &str, new: &str) -> Intent {
    let key = Key::File { path: path.to_owned(), kind: Kind::Mask, shown_in: None };
    Intent::new("irq.default", key, old, new)
}

fn affinity(tid: i32, start_ticks: u64, old: &str, new: &str) -> Intent {
    let key = Key::Affinity { task: TaskId { tid, start_ticks }, follows: false };
    Intent::new("shield.threads", key, old, new)
}

/// Leaves the changes of an onbeat that was killed.
fn left_behind(directory: &Path, host: &Fake, intents: &[Intent]) {
    let mut journal = begin(directory, host);
    for intent in intents {
        journal.change(host, intent).unwrap();
    }
    drop(journal);
    host.world.borrow_mut().kill_owner();
}

fn journals(directory: &Path) -> usize {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "journal")).count()
}

/// The only journal of a directory.
fn journal_in(directory: &Path) -> PathBuf {
    let mut paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some()).unwrap()
}

fn sentences(repaired: &[Repaired]) -> String {
    repaired.iter().flat_map(Repaired::sentences).collect::<Vec<_>>().join("\n")
}

#[test]
fn changes_of_a_dead_bench_are_undone_and_reported_in_a_sentence() {
    let host = host();
    let directory = directory_in_memory();
    let before = host.settings();
    left_behind(
        directory.path(),
        &host,
        &[mask(DEFAULT, "ff", "f7"), mask(WORK, "ff", "f7"), affinity(100, 200, "0-7", "0-2")],
    );

    assert_ne!(host.settings(), before);
    let repaired = repair(directory.path(), &host).unwrap();
    assert_eq!(host.settings(), before);
    assert_eq!(
        sentences(&repaired),
        "undid 3 changes left by a bench started at 2026-11-21 08:10:02 UTC: 2 files, 1 task's CPUs"
    );
    assert_eq!(journals(directory.path()), 0);
    assert!(repair(directory.path(), &host).unwrap().is_empty(), "once is enough");
}

#[test]
fn an_intent_is_on_disk_before_its_change_is_made() {
    let host = host();
    let directory = directory_in_memory();
    let mut journal = begin(directory.path(), &host);
    *host.watched.borrow_mut() = Some(journal.path().to_owned());
    journal.change(&host, &mask(DEFAULT, "ff", "f7")).unwrap();
    let moments = host.moments.borrow();
    let text = String::from_utf8(moments[0].journal.clone()).unwrap();

    assert!(text.ends_with("\"old\":\"ff\",\"new\":\"f7\"}}\n"), "{text}");
    assert!(
        fs::read_to_string(journal.path())
            .unwrap()
            .contains("\"done\":{\"step\":1,\"read_back\":\"f7\"}")
    );
}

/// Each path below a directory with its mode.
fn modes(directory: &Path) -> Vec<(String, u32)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let name = |path: &Path| {
        path.extension().unwrap_or(path.file_name().unwrap()).to_string_lossy().into_owned()
    };
    let mut all: Vec<_> = entries.map(|path| (name(&path), mode(&path))).collect();
    all.sort();
    all
}

#[test]
fn journal_and_directories_are_their_users_alone_whatever_the_umask() {
    if let Ok(umask) = std::env::var("ONBEAT_TEST_UMASK") {
        // The mask belongs to the whole process: this one is made for it.
        let directory = directory_in_memory();
        rustix::process::umask(Mode::from_raw_mode(umask.parse().unwrap()));
        let journal = begin(&directory.path().join("state/journal"), &host());

        assert_eq!(modes(directory.path()), [("state".to_owned(), 0o700)]);
        assert_eq!(modes(&directory.path().join("state")), [("journal".to_owned(), 0o700)]);
        let files = [("journal".to_owned(), 0o600), ("lock".to_owned(), 0o600)];
        assert_eq!(modes(&directory.path().join("state/journal")), files);
        return drop(journal);
    }
    for umask in [0o000_u32, 0o022, 0o777] {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let own = "tune_journal::journal_and_directories_are_their_users_alone_whatever_the_umask";
        again.args(["--exact", own]);
        let run = again.env("ONBEAT_TEST_UMASK", umask.to_string()).output().unwrap();
        assert!(
            run.status.success(),
            "umask {umask:03o}: {}",
            String::from_utf8_lossy(&run.stdout)
        );
    }
}

#[test]
fn a_journal_that_others_can_write_is_not_undone_and_the_rest_is() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7")]);
    let path = journal_in(directory.path());
    let own = directory.path().join("20200101T000000Z-1-01.journal");
    fs::write(&own, fs::read_to_string(&path).unwrap().replace(DEFAULT, WORK)).unwrap();
    host.write(WORK, "f7").unwrap();
    let set_mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(&own, 0o600);

    for mode in [0o620, 0o602] {
        set_mode(&path, mode);
        let refused = repair(directory.path(), &host).unwrap_err().to_string();
        assert!(
            refused.contains(&format!(
                "{} can be written by other users (mode {mode:04o})",
                path.display()
            )),
            "{refused}"
        );
        assert_eq!([DEFAULT, WORK].map(|path| host.read(path).unwrap()), ["f7\n", "ff\n"]);
    }

    set_mode(&path, 0o600);
    set_mode(directory.path(), 0o777);
    for refused in [
        repair(directory.path(), &host).unwrap_err(),
        Journal::begin(directory.path(), &host, &Purpose::new("bench", "onbeat bench"))
            .unwrap_err(),
    ] {
        assert!(matches!(refused, TuneError::OpenToOthers { mode: 0o777, .. }), "{refused}");
    }

    assert_eq!(host.read(DEFAULT).unwrap(), "f7\n");
    set_mode(directory.path(), 0o755);
    assert!(repair(directory.path(), &host).unwrap()[0].is_settled(), "others may read");
}

#[test]
fn a_journal_of_another_user_is_not_undone() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7")]);
    let path = journal_in(directory.path());
    if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
        return println!("skipped: only root can give a file to another user");
    }

    for (path, owner) in [(path.as_path(), 0), (directory.path(), 65_534)] {
        let refused = repair(directory.path(), &host).unwrap_err();
        let (given, is_foreign) = (
            refused.to_string(),
            matches!(refused, TuneError::NotOwn { owner: 65_534, user: 0, .. }),
        );
        assert!(
            is_foreign && given.contains(&format!("{} belongs to ", path.display())),
            "{given}"
        );
        assert!(given.contains("(uid 65534), and this is root (uid 0)"), "{given}");
        std::os::unix::fs::chown(directory.path(), Some(65_534), None).unwrap();
        std::os::unix::fs::chown(path, Some(owner), None).unwrap();
    }

    assert_eq!(host.read(DEFAULT).unwrap(), "f7\n");
}

#[test]
fn a_directory_that_cannot_be_used_refuses_the_journal_before_anything_is_changed() {
    let host = host();
    let directory = directory_in_memory();
    let blocked = directory.path().join("file");
    fs::write(&blocked, "").unwrap();
    let refused =
        Journal::begin(&blocked.join("below"), &host, &Purpose::new("bench", "onbeat bench"));
    assert!(matches!(refused.map(|_| ()), Err(TuneError::Journal { doing: "create", .. })));
    assert_eq!(host.changes.get(), 0);
    let undone = undo(&blocked, &host, UndoMode::Careful);
    assert!(matches!(undone, Err(TuneError::Journal { doing: "read", .. })), "{undone:?}");
    assert!(repair(&blocked, &host).unwrap().is_empty(), "a run needs nothing of it");
}

#[test]
fn the_journal_of_a_living_owner_is_not_touched() {
    let host = host();
    let directory = directory_in_memory();
    let mut journal = begin(directory.path(), &host);
    journal.change(&host, &mask(DEFAULT, "ff", "f7")).unwrap();
    let changed = host.settings();
    let bytes = fs::read(journal.path()).unwrap();
    let with_lock = repair(directory.path(), &host).unwrap();
    let path = journal.path().to_owned();
    drop(journal);
    let without_lock = repair(directory.path(), &host).unwrap();

    for repaired in [with_lock, without_lock] {
        assert_eq!(repaired[0].ending, Ending::InUse { pid: OWN });
        assert!(sentences(&repaired).contains("another onbeat (pid 500) is running"));
    }

    assert_eq!((host.settings(), fs::read(path).unwrap()), (changed, bytes));
}

#[test]
fn a_second_onbeat_gets_the_pid_of_the_first() {
    let host = host();
    let directory = directory_in_memory();
    let first = begin(directory.path(), &host);
    let second =
        Journal::begin(directory.path(), &host, &Purpose::new("tune", "onbeat tune apply"))
            .map(|_| ());
    let error = second.unwrap_err();

    assert!(
        matches!(&error, TuneError::Busy(holder) if holder.pid == OWN && holder.what == "bench"),
        "{error:?}"
    );
    let said = error.to_string();
    assert!(
        said.contains("pid 500, `") && said.contains("since ") && !said.contains("kill"),
        "{said}"
    );
    first.close().unwrap();
    begin(directory.path(), &host).close().unwrap();
}

#[test]
fn an_owner_whose_number_is_reused_is_dead() {
    let host = host();
    let directory = directory_in_memory();
    let before = host.settings();
    drop({
        let mut journal = begin(directory.path(), &host);
        journal.change(&host, &mask(DEFAULT, "ff", "f7")).unwrap();
        journal
    });

    host.world.borrow_mut().tasks.get_mut(&OWN).unwrap().start += 1_000;
    repair(directory.path(), &host).unwrap();
    assert_eq!((host.settings(), journals(directory.path())), (before, 0));
}

#[test]
fn a_task_whose_number_is_reused_is_not_touched() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[affinity(100, 200, "0-7", "0-2")]);
    host.world.borrow_mut().tasks.get_mut(&100).unwrap().start = 9_999;
    let repaired = repair(directory.path(), &host).unwrap();

    assert_eq!(host.mask(100), "0-2");
    let Ending::Undone(undone) = &repaired[0].ending else { panic!("{repaired:?}") };
    assert_eq!((undone[0].outcome.clone(), journals(directory.path())), (ChangeOutcome::Gone, 0));
}

/// A worker of the kernel's is bound after it was made, and may have been found in between.
#[test]
fn a_thread_that_the_kernel_has_bound_since_is_not_touched() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[affinity(16, 116, "0-7", "0-2")]);
    host.world.borrow_mut().tasks.get_mut(&16).unwrap().flags = BOUND;
    let repaired = repair(directory.path(), &host).unwrap();

    assert_eq!(host.mask(16), "0-2");
    let Ending::Undone(undone) = &repaired[0].ending else { panic!("{repaired:?}") };
    assert_eq!((undone[0].outcome.clone(), journals(directory.path())), (ChangeOutcome::Gone, 0));
}

#[test]
fn a_journal_of_an_earlier_boot_is_closed_without_touching_anything() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7")]);
    host.world
        .borrow_mut()
        .files
        .insert("/proc/sys/kernel/random/boot_id".to_owned(), "another\n".to_owned());
    let changed = host.settings();
    let changes = host.changes.get();
    let repaired = repair(directory.path(), &host).unwrap();

    assert_eq!(
        (host.settings(), host.changes.get(), journals(directory.path())),
        (changed, changes, 0)
    );
    assert!(sentences(&repaired).contains("the machine has rebooted since"), "{repaired:?}");
}

#[test]
fn a_journal_of_another_machine_is_left_to_it() {
    let Some(own) = onbeat_host::machine::lasting_id() else {
        return println!("skipped: this machine has no id");
    };
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7")]);
    let path = journal_in(directory.path());
    let text = fs::read_to_string(&path).unwrap();
    let other = text.replacen("\"boot_id\":\"", "\"boot_id\":\"of-it-", 1);
    fs::write(&path, other.replacen(&own, "00", 1)).unwrap();
    let changed = host.settings();

    assert!(repair(directory.path(), &host).unwrap().is_empty());
    assert!(undo(directory.path(), &host, UndoMode::Force).unwrap().is_empty());
    assert_eq!((host.settings(), journals(directory.path())), (changed, 1));

    // In this boot it is of this machine: that of a container with an id of its own.
    fs::write(&path, text.replacen(&own, "00", 1)).unwrap();
    assert!(repair(directory.path(), &host).unwrap()[0].is_settled());
    assert_eq!(journals(directory.path()), 0);
}

#[test]
fn changes_by_others_stay_and_stay_on_record_until_forced_or_forgotten() {
    for (mode, after) in [(UndoMode::Force, "ff"), (UndoMode::Forget, "0f")] {
        let host = host();
        let directory = directory_in_memory();
        left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7"), mask(WORK, "ff", "f7")]);
        host.write(DEFAULT, "0f").unwrap();
        for _ in 0..2 {
            let said = sentences(&repair(directory.path(), &host).unwrap());
            assert!(
                said.contains(&format!("{DEFAULT} not restored: its value is now \"0f\"")),
                "{said}"
            );
            let now = [DEFAULT, WORK].map(|path| host.read(path).unwrap());
            assert_eq!(
                (now, journals(directory.path())),
                (["0f\n".to_owned(), "ff\n".to_owned()], 1)
            );
        }

        undo(directory.path(), &host, mode).unwrap();
        assert_eq!((host.read(DEFAULT).unwrap().trim(), journals(directory.path())), (after, 0));
    }
}

#[test]
fn dropping_from_the_record_is_reported_and_settles_the_journal() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7")]);
    host.write(DEFAULT, "0f").unwrap();
    assert!(!repair(directory.path(), &host).unwrap()[0].is_settled());
    let repaired = repair_as(directory.path(), &host, UndoMode::Forget).unwrap();

    assert!(repaired[0].is_settled());
    assert_eq!(
        sentences(&repaired),
        format!(
            "dropped {DEFAULT} from the record: its value is now \"0f\", which onbeat did not write; before onbeat it was \"ff\""
        )
    );
}

#[test]
fn after_a_cpu_went_offline_everything_is_restored_to_the_online_cpus() {
    let irq = |number: u32, action: &str, old: &str, new: &str| {
        let key = Key::Irq { number, actions: vec![action.to_owned()], effective: "3".to_owned() };
        Intent::new("irq.affinity", key, old, new)
    };

    let group = |path: &str, old: &str, new: &str| {
        let path = format!("/sys/fs/cgroup{path}/cpuset.cpus");
        Intent::new(
            "shield.cpuset_v1",
            Key::File { path, kind: Kind::List, shown_in: None },
            old,
            new,
        )
    };

    // Of the loop's CPU 3 or of a housekeeping CPU: interrupt, pinned task, cpuset.
    for (offline, online, narrowed) in [(3, "0-2", "0-2"), (1, "0,2-3", "2-3")] {
        let host = host();
        let directory = directory_in_memory();
        let pinned = affinity(111, 211, "3", "0-2");
        let changes = [
            irq(24, "eth0", "0-3", "0-2"),
            irq(26, "usb1", "3", "0-2"),
            pinned,
            group("/pods/a", "1-3", "1-2"),
        ];
        host.world.borrow_mut().with_actions(26, &["usb1"]);
        left_behind(directory.path(), &host, &changes);
        host.world.borrow_mut().take_offline(offline);
        let repaired = repair(directory.path(), &host).unwrap();
        let said = sentences(&repaired);

        assert!(repaired[0].is_settled() && journals(directory.path()) == 0, "{said}");
        let cpus = |path: &str| host.read(path).unwrap().trim().to_owned();
        assert_eq!(cpus("/proc/irq/24/smp_affinity_list"), "0-3", "{said}");
        let bound = if offline == 3 { online } else { "3" };
        assert_eq!(
            (cpus("/proc/irq/26/smp_affinity_list"), host.mask(111)),
            (bound.to_owned(), bound.to_owned()),
            "{said}"
        );
        let group = if offline == 3 { "1-2" } else { narrowed };

        assert_eq!(cpus("/sys/fs/cgroup/pods/a/cpuset.cpus"), group, "{said}");
        assert!(said.contains(&format!("CPU {offline} is now offline")), "{said}");
        assert!(repair(directory.path(), &host).unwrap().is_empty(), "once is enough");
    }
}

#[test]
fn leading_zeros_in_a_mask_are_not_a_change_by_others() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7")]);
    host.write(DEFAULT, "00000000,000000f7").unwrap();
    assert!(repair(directory.path(), &host).unwrap()[0].is_settled());
    assert_eq!(host.read(DEFAULT).unwrap(), "ff\n");
}

#[test]
fn changes_kept_on_purpose_wait_for_an_explicit_undo() {
    let host = host();
    let directory = directory_in_memory();
    let before = host.settings();
    let mut journal = begin(directory.path(), &host);
    journal.change(&host, &mask(DEFAULT, "ff", "f7")).unwrap();
    journal.keep().unwrap();
    host.world.borrow_mut().kill_owner();

    assert!(repair(directory.path(), &host).unwrap().is_empty());
    assert_eq!((host.read(DEFAULT).unwrap().as_str(), journals(directory.path())), ("f7\n", 1));
    undo(directory.path(), &host, UndoMode::Careful).unwrap();
    assert_eq!((host.settings(), journals(directory.path())), (before, 0));
}

#[test]
fn journals_are_undone_newest_first() {
    let host = host();
    let directory = directory_in_memory();
    let mut first = begin(directory.path(), &host);
    first.change(&host, &mask(DEFAULT, "ff", "f7")).unwrap();
    drop(first);
    left_behind(directory.path(), &host, &[mask(DEFAULT, "f7", "0f")]);

    assert_eq!(journals(directory.path()), 2);
    repair(directory.path(), &host).unwrap();
    assert_eq!((host.read(DEFAULT).unwrap().as_str(), journals(directory.path())), ("ff\n", 0));
}

#[test]
fn remaining_processes_of_a_session_are_killed() {
    let host = host();
    let directory = directory_in_memory();
    let session =
        |sid| Intent::new("load", Key::Session { sid, start_ticks: 77 }, "absent", "running");
    left_behind(directory.path(), &host, &[session(120), session(4_444)]);
    let repaired = repair(directory.path(), &host).unwrap();

    assert_eq!(*host.killed_sessions.borrow(), [(4_444, 77), (120, 77)]);
    assert!(
        sentences(&repaired).ends_with(" UTC: 1 session of processes"),
        "{}",
        sentences(&repaired)
    );
    assert_eq!(journals(directory.path()), 0);
}

#[test]
fn a_session_without_processes_needs_no_undo() {
    let live = onbeat_tune::LiveHost::new();
    let intent =
        Intent::new("load", Key::Session { sid: i32::MAX, start_ticks: 1 }, "absent", "running");
    assert_eq!(intent.undo(&live, UndoMode::Careful), ChangeOutcome::Gone);
}

#[test]
fn a_damaged_line_in_the_middle_stays_on_record_and_the_rest_is_undone() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7"), mask(WORK, "ff", "f7")]);
    let path = journal_in(directory.path());
    let text = fs::read_to_string(&path).unwrap().replacen("{\"done\"", "{\u{0}done\"", 1);
    fs::write(&path, text).unwrap();
    let repaired = repair(directory.path(), &host).unwrap();

    assert_eq!(repaired[0].damaged_lines, 1);
    assert!(sentences(&repaired).contains("1 line of"), "{}", sentences(&repaired));
    assert_eq!(host.read(WORK).unwrap(), "ff\n");

    let torn = fs::read_to_string(&path).unwrap() + "{\"undone\"";
    fs::write(&path, torn).unwrap();
    for _ in 0..2 {
        let again = repair(directory.path(), &host).unwrap();
        assert_eq!((again[0].damaged_lines, again[0].is_settled()), (1, false));
    }
    let on_record = &status(&host, directory.path()).unwrap()[0];
    assert_eq!((on_record.changes.len(), on_record.damaged_lines), (0, 1));
    let dropped = repair_as(directory.path(), &host, UndoMode::Forget).unwrap();
    assert!(dropped[0].is_settled(), "{}", sentences(&dropped));
    assert!(sentences(&dropped).starts_with("dropped "), "{}", sentences(&dropped));
    assert_eq!(journals(directory.path()), 0);
}

#[test]
fn a_journal_with_changes_and_without_a_known_head_is_not_undone() {
    let host = host();
    let directory = directory_in_memory();
    left_behind(directory.path(), &host, &[mask(DEFAULT, "ff", "f7")]);
    let path = journal_in(directory.path());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("boot_id", "boot", 1)).unwrap();
    let changed = host.settings();

    assert!(matches!(repair(directory.path(), &host), Err(TuneError::Headless { steps: 1, .. })));
    assert!(matches!(status(&host, directory.path()), Err(TuneError::Headless { steps: 1, .. })));
    fs::write(&path, text.replacen("\"onbeat_journal\":1", "\"onbeat_journal\":2", 1)).unwrap();
    let refused = repair(directory.path(), &host);
    assert!(matches!(refused, Err(TuneError::OtherFormat { format: 2, .. })), "{refused:?}");
    assert_eq!((host.settings(), journals(directory.path())), (changed, 1));
}

#[test]
fn leftovers_of_an_ended_journal_are_removed_and_files_of_the_user_are_not() {
    let host = host();
    let directory = directory_in_memory();
    let users = ["case-7.closed", "lock", "monday.journal", "notes.new"];
    for name in ["20261121T081002Z-500-01.closed", "20261121T081002Z-500-02.new"] {
        fs::write(directory.path().join(name), "{}").unwrap();
    }
    for name in users {
        fs::write(directory.path().join(name), "a line").unwrap();
    }

    assert!(repair(directory.path(), &host).unwrap().is_empty());
    let left = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut left: Vec<_> = left.collect();
    left.sort();
    assert_eq!(left, users);
    assert!(repair(&directory.path().join("nowhere"), &host).unwrap().is_empty());
}

#[test]
fn the_directory_follows_the_user() {
    let host = host();
    let of = |state: Option<&str>| {
        let path = onbeat_tune::journal::default_directory(
            &host,
            state.map(Path::new),
            Some(Path::new("/home/ann")),
        );
        path.display().to_string()
    };

    assert_eq!(of(Some("/state")), "/var/lib/onbeat/journal");
    host.world.borrow_mut().root = false;
    assert_eq!(
        (of(Some("/state")), of(None)),
        ("/state/onbeat/journal".into(), "/home/ann/.local/state/onbeat/journal".into())
    );
}
