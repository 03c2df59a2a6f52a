//! The injector's cgroups on a fake host: created, entered and removed, also after the injector was
//! killed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustix::io::Errno;

use super::*;
use onbeat_tune::{CpuList, repair};

const LOOP: i32 = 501;
const OWN: i32 = 500;

/// Cgroups and the threads in them.
struct Tree {
    mounts: &'static str,
    directories: BTreeSet<String>,
    files: BTreeMap<String, String>,
    /// The directory of each thread's cgroup.
    threads: BTreeMap<i32, String>,
    /// Whether the injector still runs.
    lives: bool,
}

#[derive(Clone)]
struct FakeHost(Rc<RefCell<Tree>>);

impl FakeHost {
    fn new(mounts: &'static str, home: &str, files: &[(&str, &str)]) -> Self {
        let files =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let threads = [OWN, LOOP].into_iter().map(|tid| (tid, home.to_owned())).collect();
        let directories = [home.to_owned()].into_iter().collect();
        Self(Rc::new(RefCell::new(Tree { mounts, directories, files, threads, lives: true })))
    }

    fn place_of(&self, tid: i32) -> String {
        self.0.borrow().threads[&tid].clone()
    }

    fn file(&self, path: &str) -> Option<String> {
        self.0.borrow().files.get(path).cloned()
    }
}

fn missing() -> io::Error {
    Errno::NOENT.into()
}

impl HostFiles for FakeHost {
    fn read(&self, path: &str) -> io::Result<String> {
        let tree = self.0.borrow();
        let tid = path
            .strip_prefix("/proc/")
            .and_then(|rest| rest.split('/').next()?.parse::<i32>().ok());
        let members =
            || path.rsplit_once('/').filter(|(_, file)| ["tasks", "cgroup.threads"].contains(file));
        if path == "/proc/self/mountinfo" {
            Ok(tree.mounts.to_owned())
        } else if path == "/proc/sys/kernel/random/boot_id" {
            Ok("boot".to_owned())
        } else if let Some(tid) = tid.filter(|tid| *tid != OWN || tree.lives) {
            let stat = format!("{tid} (robot) S 1 1 1 0 0 0 {}77", "0 ".repeat(12));
            let status = format!("Tgid:\t{OWN}\n");
            let place = tree.threads.get(&tid).ok_or_else(missing)?;
            let below = place
                .strip_prefix("/cg/freezer")
                .or_else(|| place.strip_prefix("/cg"))
                .ok_or_else(missing)?;
            let cgroup = format!("3:freezer:{below}\n2:cpuset:/else\n0::{below}\n");
            Ok(if path.ends_with("stat") {
                stat
            } else if path.ends_with("status") {
                status
            } else {
                cgroup
            })
        } else if let Some((directory, _)) = members() {
            let inside = tree.threads.iter().filter(|(_, place)| *place == directory);
            Ok(inside.map(|(tid, _)| format!("{tid}\n")).collect())
        } else {
            tree.files.get(path).cloned().ok_or_else(missing)
        }
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut tree = self.0.borrow_mut();
        let (directory, file) = path.rsplit_once('/').ok_or_else(missing)?;
        if !tree.directories.contains(directory) {
            return Err(missing());
        }

        match (file, text.parse::<i32>()) {
            ("tasks" | "cgroup.threads", Ok(tid)) => tree.threads.insert(tid, directory.to_owned()),
            ("cgroup.subtree_control", _) => tree
                .files
                .insert(path.to_owned(), text.strip_prefix('+').unwrap_or_default().to_owned()),
            _ => tree.files.insert(path.to_owned(), text.to_owned()),
        };

        Ok(())
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        self.0.borrow().directories.contains(path).then(Vec::new).ok_or_else(missing)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.0.borrow_mut().directories.insert(path.to_owned());
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut tree = self.0.borrow_mut();
        if tree.threads.values().any(|place| place == path) {
            return Err(Errno::BUSY.into());
        }

        tree.directories.remove(path);
        tree.files.retain(|file, _| !file.starts_with(path));
        Ok(())
    }

    fn set_affinity(&self, _: i32, _: &CpuList) -> io::Result<()> {
        Ok(())
    }

    fn kill_session(&self, _: i32, _: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn is_root(&self) -> bool {
        true
    }

    fn own_pid(&self) -> i32 {
        OWN
    }

    fn unix_seconds(&self) -> u64 {
        1
    }

    fn pause(&self) {}
}

const V1: &str = "25 24 0:21 / /cg/freezer rw - cgroup cgroup rw,freezer\n26 24 0:22 / /cg rw - cgroup2 cgroup2 rw\n";
const V2: &str = "26 24 0:22 / /cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

fn freezer_v1() -> FakeHost {
    FakeHost::new(V1, "/cg/freezer/robots", &[])
}

fn cgroup(host: &FakeHost, journal: &Path, controller: &str) -> InjectionCgroup<FakeHost> {
    let home = thread_cgroup(host, controller, LOOP).unwrap();
    InjectionCgroup::create(host.clone(), journal, home, controller).unwrap()
}

#[test]
fn a_hierarchy_of_its_own_comes_before_the_unified_one() {
    let v1 = thread_cgroup(&freezer_v1(), "freezer", LOOP).unwrap();
    assert_eq!((v1.directory.as_str(), v1.version), ("/cg/freezer/robots", CgroupVersion::V1));
    let controllers = [("/cg/robots/cgroup.controllers", "cpuset cpu io")];
    let v2 = thread_cgroup(&FakeHost::new(V2, "/cg/robots", &controllers), "cpu", LOOP).unwrap();

    assert_eq!((v2.directory.as_str(), v2.version), ("/cg/robots", CgroupVersion::V2Threads));
    let why = thread_cgroup(&FakeHost::new(V2, "/cg/robots", &[]), "cpu", LOOP).unwrap_err();
    assert!(why.contains("\"cpu\""), "{why}");
}

#[test]
fn the_loops_thread_goes_in_and_comes_back_with_the_end() {
    let host = freezer_v1();
    let journal = tempfile::tempdir().unwrap();
    let cgroup = cgroup(&host, journal.path(), "freezer");
    cgroup.move_in(LOOP).unwrap();
    assert_eq!(host.place_of(LOOP), "/cg/freezer/robots/onbeat-inject");
    drop(cgroup);

    assert_eq!(host.place_of(LOOP), "/cg/freezer/robots");
    assert!(host.directories("/cg/freezer/robots/onbeat-inject").is_err());
}

#[test]
fn a_second_injector_does_not_take_the_first_ones_cgroup() {
    let host = freezer_v1();
    let journal = tempfile::tempdir().unwrap();
    let _first = cgroup(&host, journal.path(), "freezer");
    let home = thread_cgroup(&host, "freezer", LOOP).unwrap();
    let again = InjectionCgroup::create(host, journal.path(), home, "freezer").err();
    assert!(matches!(again, Some(TuneError::CgroupExists { .. })), "{again:?}");
}

#[test]
fn what_a_killed_injector_left_frozen_is_thawed_and_removed_by_a_repair() {
    let host = freezer_v1();
    let journal = tempfile::tempdir().unwrap();
    host.0
        .borrow_mut()
        .files
        .insert("/cg/freezer/robots/onbeat-inject/freezer.state".to_owned(), "THAWED".to_owned());
    let mut cgroup = cgroup(&host, journal.path(), "freezer");
    let FreezerFiles { file, thaw, freeze, .. } = freezer_files(cgroup.home.version);
    cgroup.will_change(file, (thaw, freeze), &["FREEZING"]).unwrap();
    cgroup.move_in(LOOP).unwrap();

    assert!(cgroup.freeze(&freezer_files(CgroupVersion::V1), Instant::from_ns(u64::MAX)).is_some());
    // Killed: nothing is undone, and its lock is gone with it.
    drop(cgroup.journal.take());
    host.0.borrow_mut().lives = false;
    let repaired = repair(journal.path(), &host).unwrap();

    assert!(repaired.iter().all(onbeat_tune::Repaired::is_settled), "{repaired:?}");
    assert_eq!(host.place_of(LOOP), "/cg/freezer/robots");
    assert!(host.directories("/cg/freezer/robots/onbeat-inject").is_err());
}

#[test]
fn a_quota_of_the_unified_hierarchy_is_a_threaded_cgroups() {
    let files =
        [("/cg/robots/cgroup.controllers", "cpu"), ("/cg/robots/cgroup.subtree_control", "")];
    let host = FakeHost::new(V2, "/cg/robots", &files);
    let journal = tempfile::tempdir().unwrap();
    let cgroup = cgroup(&host, journal.path(), "cpu");
    let file = |name: &str| host.file(&format!("/cg/robots/onbeat-inject/{name}"));

    assert_eq!(file("cgroup.type").as_deref(), Some("threaded"));
    assert_eq!(host.file("/cg/robots/cgroup.subtree_control").as_deref(), Some("cpu"));
    cgroup.move_in(LOOP).unwrap();
    cgroup.limit(Some(5_000), 25_000).unwrap();
    assert_eq!(file("cpu.max").as_deref(), Some("5000 25000"));
    cgroup.limit(None, 25_000).unwrap();

    assert_eq!(file("cpu.max").as_deref(), Some("max 25000"));
    host.write("/cg/robots/onbeat-inject/cpu.stat", "nr_throttled 3\nthrottled_usec 41\n").unwrap();
    assert_eq!(cgroup.throttled_ns(), 41_000);
    drop(cgroup);
    assert_eq!(host.place_of(LOOP), "/cg/robots");
    assert_eq!(host.file("/cg/robots/cgroup.subtree_control").as_deref(), Some(""));
}
