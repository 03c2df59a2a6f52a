//! kill -9 of `onbeat vm run`, of `onbeat vm lab`, of `onbeat vm pin` and of QEMU, at instants over
//! their whole run: the next start finds no guest, no directory of one, nothing half written and no
//! thread of another priority or CPU, and runs.
//!
//! This program is also the QEMU of these guests, under the name of QEMU: it answers on the control
//! socket as a guest that is saved, restored, and sends an empty result. `make test-vm` kills the
//! real one.

#[path = "pinned.rs"]
mod pinned;
#[path = "stand_in.rs"]
mod stand_in;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

/// Instants at which a program is killed, evenly over the time that it needs.
const INSTANTS: u32 = 24;
const QEMU: &str = "qemu-system-x86_64";

/// As the QEMU of a guest, where this program was started by that name.
pub(crate) fn answered_as_qemu() -> Option<ExitCode> {
    let name = std::env::args().next().unwrap_or_default();
    let is_qemu = Path::new(&name).file_name().is_some_and(|name| name == QEMU);
    is_qemu.then(|| match std::env::args().nth(1).as_deref() {
        Some(stand_in::WITH_THREADS) => stand_in::run_with_threads(),
        _ => stand_in::run(),
    })
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(format!("vm_killed::{name}"), move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("a_killed_run_leaves_nothing_after_the_next_start", || onbeat_is_killed(&Bench::RUN)),
        trial("a_killed_laboratory_leaves_nothing_after_the_next_start", || {
            onbeat_is_killed(&Bench::LAB);
        }),
        trial("a_killed_qemu_is_one_sentence_and_leaves_nothing", qemu_is_killed),
        trial("a_killed_pin_leaves_no_thread_changed_after_the_next_start", pinned::pin_is_killed),
    ]
}

/// A directory with a kernel, its modules, and a QEMU that is this program.
struct Bench(tempfile::TempDir);

impl Bench {
    const RUN: [&'static str; 8] =
        ["run", "./vmlinux", "--modules", "modules", "--onbeat", "text", "--", "true"];
    const LAB: [&'static str; 4] = ["lab", "lab.toml", "--onbeat", "text"];

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("bin")).unwrap();
        symlink(std::env::current_exe().unwrap(), path("bin").join(QEMU)).unwrap();
        fs::write(path("vmlinux"), stand_in::kernel()).unwrap();
        fs::create_dir(path("modules")).unwrap();
        let built_in = ["virtio_pci", "virtio_console", "qemu_fw_cfg"];
        let lines = built_in.map(|name| format!("kernel/{name}.ko\n")).concat();
        fs::write(path("modules/modules.builtin"), lines).unwrap();
        fs::write(path("text"), "neither needs a library\n").unwrap();
        let lab =
            "kernels = [{ name = \"k\", image = \"vmlinux\", modules = \"modules\" }]\nseeds = 4\n";
        fs::write(path("lab.toml"), lab).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Starts `onbeat vm` with these words.
    fn start(&self, words: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command.arg("vm").arg(words[0]).args(["--work", "work", "--busybox", "text"]);
        command.args(&words[1..]).current_dir(self.0.path()).env("PATH", self.path("bin"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs it to its end, which must be a good one; returns the time that it took.
    fn run(&self, words: &[&str]) -> Duration {
        let since = Instant::now();
        let output = self.start(words).wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        since.elapsed()
    }

    /// Removes what is kept on purpose, so that the next run does everything again.
    fn forget(&self) {
        for name in ["work/snapshots", "work/kernels", "onbeat-lab", "onbeat-vm"] {
            let _ = fs::remove_dir_all(self.path(name));
        }
    }

    /// Processes that run in a directory of a guest.
    fn guests(&self) -> Vec<i32> {
        let guests = self.path("work/guests");
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let runs_there = processes.filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&guests))
        });
        runs_there.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
    }

    fn assert_nothing_is_left(&self, when: &str) {
        assert_eq!(self.guests(), [] as [i32; 0], "processes, {when}");
        let names = |path: PathBuf| -> Vec<String> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(self.path("work/guests")), [] as [&str; 0], "directories, {when}");
        for place in ["work", "onbeat-lab/lab"] {
            let partial = names(self.path(place)).into_iter().find(|name| name.contains("partial"));
            assert_eq!(partial, None, "in {place}, {when}");
        }
    }
}

/// Kills onbeat at instants over its run, and starts it again.
fn onbeat_is_killed(words: &[&str]) {
    let bench = Bench::new();
    let whole = bench.run(words);
    bench.assert_nothing_is_left("after a whole run");

    for instant in 0..INSTANTS {
        bench.forget();
        let mut killed = bench.start(words);
        std::thread::sleep(whole * instant / INSTANTS);
        killed.kill().unwrap();
        killed.wait().unwrap();

        bench.run(words);
        bench.assert_nothing_is_left(&format!("killed after {instant}/{INSTANTS} of {whole:?}"));
    }
}

/// Kills QEMU, as soon as there is one and at instants after that.
fn qemu_is_killed() {
    let bench = Bench::new();
    let whole = bench.run(&Bench::RUN);
    let mut seen = 0;
    for instant in 0..INSTANTS {
        bench.forget();
        let onbeat = bench.start(&Bench::RUN);
        std::thread::sleep(whole * instant / INSTANTS);
        // Where it had not begun, or was over, the run goes on to its end.
        for guest in bench.guests() {
            let pid = rustix::process::Pid::from_raw(guest).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }

        let output = onbeat.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            assert_eq!(output.status.code(), Some(2), "{errors}");
            let sentence = errors.lines().last().unwrap_or_default();
            assert!(sentence.contains("signal: 9 (SIGKILL)"), "{errors}");
            seen += 1;
        }
        bench.run(&Bench::RUN);
        bench.assert_nothing_is_left(&format!("QEMU killed after {instant}/{INSTANTS}"));
    }
    assert!(seen > 0, "no instant of {INSTANTS} found a QEMU");
}
