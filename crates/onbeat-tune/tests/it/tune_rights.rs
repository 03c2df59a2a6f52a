//! What capabilities on the program's file give to the undo of a forged journal: nothing.

use std::cell::{Cell, RefCell};
use std::io;

use onbeat_tune::change::{CgroupVersion, Hierarchy, Kind};
use onbeat_tune::interfaces::MadeInterface;
use onbeat_tune::task_setting::TaskSetting;
use onbeat_tune::tasks::TaskId;
use onbeat_tune::{ChangeOutcome, CpuList, HostFiles, Intent, Key, UndoMode};

/// Root's task, on a host where an ordinary user runs a program with capabilities.
const ROOTS: TaskId = TaskId { tid: 1, start_ticks: 1 };

#[derive(Default)]
struct UsersHost {
    is_without_capabilities: Cell<bool>,
    /// Changes that were tried with capabilities.
    with_capabilities: RefCell<Vec<String>>,
    without: Cell<usize>,
}

impl UsersHost {
    /// The kernel's answer to a change by the user himself.
    fn change<T>(&self, what: &str) -> io::Result<T> {
        if self.is_without_capabilities.get() {
            self.without.set(self.without.get() + 1);
        } else {
            self.with_capabilities.borrow_mut().push(what.to_owned());
        }
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

impl HostFiles for UsersHost {
    fn read(&self, path: &str) -> io::Result<String> {
        Ok(match path {
            "/sys/devices/system/cpu/online" => "0-3",
            "/proc/1/status" => "Name:\tinit\nTgid:\t1\nCpus_allowed_list:\t0\n",
            "/proc/1/stat" | "/proc/1/task/1/stat" => {
                "1 (init) S 0 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 1 1000 200"
            }
            "/proc/1/cgroup" => "4:cpuset:/new\n0::/new\n",
            "/control" => "cpuset",
            _ => "new",
        }
        .to_owned())
    }

    fn write(&self, path: &str, _: &str) -> io::Result<()> {
        self.change(path)
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        Ok(if path == "/proc" || path == "/proc/1/task" {
            vec!["1".to_owned()]
        } else {
            Vec::new()
        })
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.change(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.change(path)
    }

    fn set_affinity(&self, _: i32, _: &CpuList) -> io::Result<()> {
        self.change("affinity")
    }

    fn kill_session(&self, _: i32, _: u64) -> io::Result<usize> {
        self.change("session")
    }

    fn scheduling(&self, _: i32) -> io::Result<String> {
        Ok("new".to_owned())
    }

    fn set_scheduling(&self, _: i32, _: &str) -> io::Result<()> {
        self.change("policy")
    }

    fn set_limit(&self, _: i32, _: TaskSetting, _: &str) -> io::Result<()> {
        self.change("limit")
    }

    fn unit_state(&self, _: &str) -> io::Result<String> {
        Ok("new".to_owned())
    }

    fn set_unit_state(&self, _: &str, _: &str) -> io::Result<()> {
        self.change("unit")
    }

    fn end_process(&self, _: TaskId) -> io::Result<()> {
        self.change("process")
    }

    fn read_register(&self, _: u32, _: u32) -> io::Result<u64> {
        Ok(1)
    }

    fn write_register(&self, _: u32, _: u32, _: u64) -> io::Result<()> {
        self.change("register")
    }

    fn has_interface(&self, _: &MadeInterface) -> io::Result<bool> {
        Ok(true)
    }

    fn remove_interface(&self, _: &MadeInterface) -> io::Result<()> {
        self.change("interface")
    }

    fn is_foreign(&self, tid: i32) -> bool {
        tid == ROOTS.tid
    }

    fn without_capabilities(&self, act: &mut dyn FnMut()) -> io::Result<()> {
        let before = self.is_without_capabilities.replace(true);
        act();
        self.is_without_capabilities.set(before);
        Ok(())
    }

    fn is_root(&self) -> bool {
        false
    }

    fn own_pid(&self) -> i32 {
        500
    }

    fn unix_seconds(&self) -> u64 {
        0
    }

    fn pause(&self) {}
}

/// A change of each kind to what is root's.
fn forged() -> Vec<Intent> {
    let hierarchy =
        Hierarchy { mount: "/cpuset".to_owned(), root: "/".to_owned(), version: CgroupVersion::V1 };
    let file = |path: &str| Key::File { path: path.to_owned(), kind: Kind::Text, shown_in: None };
    let task = |setting| Key::Task { task: ROOTS, setting };
    let made = MadeInterface {
        name: "eth0".to_owned(),
        link: "veth".to_owned(),
        address: "02:00:00:00:00:01".to_owned(),
        namespace: 1,
    };

    let keys = [
        file("/proc/1/timerslack_ns"),
        file("/proc/sys/kernel/core_pattern"),
        Key::Irq { number: 7, actions: Vec::new(), effective: String::new() },
        Key::Affinity { task: ROOTS, follows: false },
        Key::Born { since_ticks: 0 },
        Key::CgroupDir {
            path: "/cpuset/system".to_owned(),
            home: "/cpuset".to_owned(),
            version: CgroupVersion::V1,
        },
        Key::CgroupTask { task: ROOTS, hierarchy },
        Key::Controller { path: "/control".to_owned(), name: "cpuset".to_owned() },
        Key::Session { sid: 2, start_ticks: 1 },
        task(TaskSetting::Scheduling),
        task(TaskSetting::TimerSlack),
        task(TaskSetting::OomScore),
        task(TaskSetting::PriorityLimit),
        task(TaskSetting::LockedMemoryLimit),
        task(TaskSetting::RealTimeLimit),
        task(TaskSetting::CoreLimit),
        Key::Unit { name: "ssh.service".to_owned() },
        Key::Holder { path: "/dev/cpu_dma_latency".to_owned(), process: ROOTS },
        Key::Register { cpu: 0, register: 0x1a0, high: 0, low: 0 },
        Key::Interface(made),
    ];
    keys.into_iter()
        .map(|key| {
            let old =
                if matches!(key, Key::Born { .. } | Key::Affinity { .. }) { "1-3" } else { "5" };
            let new = if matches!(key, Key::Born { .. }) { "0" } else { "new" };
            Intent::new("forged", key, old, new)
        })
        .collect()
}

#[test]
fn a_forged_journal_of_any_setting_changes_nothing_that_its_user_could_not_change_himself() {
    let host = UsersHost::default();
    for intent in forged() {
        for mode in [UndoMode::Careful, UndoMode::Force, UndoMode::Forget] {
            let outcome = intent.undo(&host, mode);
            assert_ne!(outcome, ChangeOutcome::Restored, "{intent:?}");
            assert!(
                host.with_capabilities.borrow().is_empty(),
                "{intent:?}: {:?}",
                host.with_capabilities
            );
        }

        // The door for changes is the same one.
        let _ = intent.make(&host);
        assert!(host.with_capabilities.borrow().is_empty(), "{intent:?}");
    }
    assert!(host.without.get() > 20, "the user's own rights were tried: {}", host.without.get());
}

#[test]
fn another_users_task_is_not_changed_at_all() {
    let host = UsersHost::default();
    let of_tasks = forged()
        .into_iter()
        .filter(|intent| matches!(intent.key, Key::Affinity { .. } | Key::Task { .. }));
    for intent in of_tasks {
        match intent.undo(&host, UndoMode::Force) {
            ChangeOutcome::Failed { reason } => {
                assert!(reason.contains("not permitted"), "{intent:?}: {reason}");
            }
            outcome => panic!("{intent:?}: {outcome:?}"),
        }
        assert_eq!(host.without.get(), 0, "{intent:?}");
    }
}

#[test]
fn bits_that_no_register_has_are_neither_read_nor_written() {
    let host = UsersHost::default();
    for (high, low) in [(64, 0), (0, 1), (u32::MAX, 0), (63, 64), (0, u32::MAX)] {
        let key = Key::Register { cpu: 0, register: 1, high, low };
        assert_eq!(key.current(&host).unwrap().as_deref(), Some("0"));
        assert_eq!(key.set(&host, "1").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
