//! Repairs any bytes as a journal, on a host that accepts every change: the reader never fails but by a
//! sentence, and a journal whose owner is alive, or of another boot, changes nothing.
#![no_main]

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use onbeat_tune::repair::{repair_as, undo};
use onbeat_tune::task_setting::TaskSetting;
use onbeat_tune::tasks::TaskId;
use onbeat_tune::{CpuList, HostFiles, UndoMode};

const BOOT: &str = "5e1f";
/// A head whose owner has ended, one whose owner is alive, and one of another boot.
const HEADS: [(&str, i32); 3] = [(BOOT, 4), (BOOT, 1), ("other", 4)];

#[derive(Default)]
struct Host {
    changes: Cell<usize>,
}

impl Host {
    fn change(&self) -> io::Result<()> {
        self.changes.set(self.changes.get() + 1);
        Ok(())
    }
}

impl HostFiles for Host {
    fn read(&self, path: &str) -> io::Result<String> {
        Ok(match path {
            "/proc/sys/kernel/random/boot_id" => BOOT,
            "/sys/devices/system/cpu/online" => "0-3",
            "/proc/1/status" => "Name:\tx\nTgid:\t1\nCpus_allowed_list:\t0-3\n",
            "/proc/1/stat" | "/proc/1/task/1/stat" => {
                "1 (x) S 0 1 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 1 1000 200"
            }
            "/proc/1/cgroup" => "4:cpuset:/rest\n0::/rest\n",
            _ if path.starts_with("/proc/") => return Err(io::ErrorKind::NotFound.into()),
            _ => "1",
        }
        .to_owned())
    }

    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        self.change()
    }

    fn directories(&self, path: &str) -> io::Result<Vec<String>> {
        Ok(if path.starts_with("/proc") { vec!["1".to_owned()] } else { Vec::new() })
    }

    fn create_dir(&self, _: &str) -> io::Result<()> {
        self.change()
    }

    fn remove_dir(&self, _: &str) -> io::Result<()> {
        self.change()
    }

    fn set_affinity(&self, _: i32, _: &CpuList) -> io::Result<()> {
        self.change()
    }

    fn kill_session(&self, _: i32, _: u64) -> io::Result<usize> {
        self.change().map(|()| 1)
    }

    fn set_scheduling(&self, _: i32, _: &str) -> io::Result<()> {
        self.change()
    }

    fn set_limit(&self, _: i32, _: TaskSetting, _: &str) -> io::Result<()> {
        self.change()
    }

    fn end_process(&self, _: TaskId) -> io::Result<()> {
        self.change()
    }

    fn read_register(&self, _: u32, _: u32) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn write_register(&self, _: u32, _: u32, _: u64) -> io::Result<()> {
        self.change()
    }

    fn is_root(&self) -> bool {
        true
    }

    fn own_pid(&self) -> i32 {
        1
    }

    fn unix_seconds(&self) -> u64 {
        0
    }

    fn pause(&self) {}
}

static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = PathBuf::from(format!("/dev/shm/onbeat-fuzz-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&directory).expect("a directory in memory");
    directory
});

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let journal = DIRECTORY.join("20261122T000000Z-1-01.journal");
    let mut text = Vec::new();
    let head = HEADS.get(usize::from(first % 4));
    if let Some((boot, owner)) = head {
        text = format!(
            r#"{{"onbeat_journal":1,"version":"0","boot_id":"{boot}","owner":{{"tid":{owner},"start_ticks":1}},"started_unix_s":0,"purpose":"bench","command":"onbeat"}}"#
        )
        .into_bytes();
        text.push(b'\n');
    }
    text.extend_from_slice(rest);

    let host = Host::default();
    for mode in [UndoMode::Careful, UndoMode::Force, UndoMode::Forget] {
        let mut file = fs::OpenOptions::new();
        file.write(true).create(true).truncate(true).mode(0o600);
        let file = file.open(&journal).and_then(|mut file| io::Write::write_all(&mut file, &text));
        file.expect("a journal in memory");
        for one in repair_as(&DIRECTORY, &host, mode).unwrap_or_default() {
            let _ = one.sentences();
        }
        if head.is_some_and(|head| *head != HEADS[0]) {
            assert_eq!(host.changes.get(), 0, "nothing of a living owner or another boot");
        }
    }
    let _ = undo(&DIRECTORY, &host, UndoMode::Forget);
    let _ = fs::remove_file(&journal);
});
