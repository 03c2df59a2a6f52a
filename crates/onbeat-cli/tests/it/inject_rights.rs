//! The file capabilities of the rights guide give a user no power over other users' processes.
//!
//! Needs root, to become another user, and `setcap`; prints a reason where they are missing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// An ordinary user who owns nothing here.
const USER: u32 = 65_534;

/// A program of root's that looks like a loop; killed with the test.
struct Robot(Child);

impl Robot {
    fn new(directory: &Path) -> Self {
        // A process is named after its file.
        let program = directory.join("onbeat-loop");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let child = Command::new(program).arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let robot = Self(child);
        // Spawned is not asleep: what is checked of it later must not be its own start.
        while !robot.field("State:").starts_with('S') || robot.field("Name:") != "onbeat-loop" {
            std::thread::sleep(Duration::from_millis(1));
        }

        robot
    }

    fn field(&self, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    }

    /// When it started, in ticks (field 22 of its stat).
    fn start_ticks(&self) -> String {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().to_owned()
    }
}

impl Drop for Robot {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A place that the user reaches, with an onbeat of the capabilities; `None`, with the reason
/// printed, where that is not possible.
fn place() -> Option<(tempfile::TempDir, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: it takes root to be another user");
        return None;
    }

    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("onbeat");
    // Copied by a process of its own: a program that this process has open for writing cannot be
    // run, and a child that another test has just forked holds what was open here until it runs its
    // own program.
    let copied =
        Command::new("cp").arg(env!("CARGO_BIN_EXE_onbeat")).arg(&program).status().unwrap();

    assert!(copied.success(), "cp ended with {copied}");
    let set = Command::new("setcap").arg("cap_sys_nice,cap_ipc_lock+ep").arg(&program).status();
    if !set.is_ok_and(|status| status.success()) {
        println!("skipped: setcap (package libcap2-bin) cannot give capabilities here");
        return None;
    }

    Some((directory, program))
}

fn run_as_user(program: &Path, state: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command
        .args(words)
        .env("ONBEAT_STATE_DIR", state)
        .env("LC_ALL", "C")
        .current_dir("/")
        .uid(USER)
        .gid(USER);
    command.output().unwrap()
}

#[test]
fn capabilities_of_the_file_give_nobody_another_users_loop() {
    let Some((directory, program)) = place() else { return };
    let robot = Robot::new(directory.path());
    let pid = robot.0.id().to_string();
    let before = robot.field("Cpus_allowed_list:");
    for fault in ["forced-migration", "stop-signal", "kernel-section"] {
        let words = ["inject", fault, "--pid", &pid, "--for", "1ms", "--count", "1"];
        let run = run_as_user(&program, directory.path(), &words);
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(
            said.contains(&format!(
                "to process {pid} is not permitted: it belongs to root (uid 0)"
            )),
            "{fault}: {said}"
        );
        assert!(said.contains("(uid 65534)") && run.status.code() == Some(2), "{fault}: {said}");
        assert_eq!(robot.field("Cpus_allowed_list:"), before);
        assert!(robot.field("State:").starts_with('S'));
    }
}

#[test]
fn a_journal_of_a_users_own_moves_nobody_elses_threads() {
    let Some((directory, program)) = place() else { return };
    let robot = Robot::new(directory.path());
    let before = robot.field("Cpus_allowed_list:");
    let Some(one) = before.split([',', '-']).next().filter(|one| *one != before) else {
        return println!("skipped: there is one CPU only");
    };
    let state = directory.path().join("state");
    let journals = state.join("journal");
    fs::create_dir_all(&journals).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();
    let pid = robot.0.id();
    let start = robot.start_ticks();
    let journal = journals.join("20261122T000000Z-1-01.journal");
    let text = format!(
        r#"{{"onbeat_journal":1,"version":"0","boot_id":"{boot}","owner":{{"tid":4194304,"start_ticks":1}},"started_unix_s":0,"purpose":"bench","command":"onbeat bench"}}
{{"intent":{{"step":1,"id":"shield.threads","key":{{"affinity":{{"tid":{pid},"start_ticks":{start}}}}},"old":"{one}","new":"{before}"}}}}
"#
    );
    fs::write(&journal, text).unwrap();

    for path in [&state, &journals, &journal] {
        chown(path, Some(USER), Some(USER)).unwrap();
    }

    let run = run_as_user(&program, &state, &["repair"]);
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        said.contains(&format!("could not restore the CPUs of task {pid}")),
        "{said}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert_eq!((robot.field("Cpus_allowed_list:"), run.status.code()), (before, Some(2)));

    let dropped = run_as_user(&program, &state, &["repair", "--forget"]);
    assert!(
        dropped.status.success() && !journal.exists(),
        "{}",
        String::from_utf8_lossy(&dropped.stdout)
    );
}

#[test]
fn a_journal_of_a_users_own_sets_no_attribute_of_anybody_elses_threads() {
    let Some((directory, program)) = place() else { return };
    let robot = Robot::new(directory.path());
    let pid = robot.0.id();
    let (task, start) = (format!("/proc/{pid}"), robot.start_ticks());
    let state = directory.path().join("state");
    let journals = state.join("journal");
    fs::create_dir_all(&journals).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let boot = boot.trim();

    let of_task = |setting: &str| {
        format!(r#"{{"task":{{"tid":{pid},"start_ticks":{start},"setting":"{setting}"}}}}"#)
    };
    // The mode of this file lets everybody write, and the kernel then asks for CAP_SYS_NICE.
    let by_path = format!(r#"{{"file":{{"path":"{task}/timerslack_ns","kind":"text"}}}}"#);
    let attributes = [
        ("timerslack_ns", of_task("timer_slack"), "1234"),
        ("timerslack_ns", by_path, "1234"),
        ("oom_score_adj", of_task("oom_score"), "500"),
        ("limits", of_task("core_limit"), "1 1"),
    ];
    for (file, key, old) in attributes {
        let before = fs::read_to_string(format!("{task}/{file}")).unwrap();
        let journal = journals.join("20261122T000000Z-1-01.journal");
        let text = format!(
            r#"{{"onbeat_journal":1,"version":"0","boot_id":"{boot}","owner":{{"tid":4194304,"start_ticks":1}},"started_unix_s":0,"purpose":"bench","command":"onbeat bench"}}
{{"intent":{{"step":1,"id":"task.attribute","key":{key},"old":"{old}","new":"50000"}}}}
"#
        );
        fs::write(&journal, text).unwrap();
        for path in [&state, &journals, &journal] {
            chown(path, Some(USER), Some(USER)).unwrap();
        }

        let run = run_as_user(&program, &state, &["repair", "--force"]);
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(
            said.contains("could not restore"),
            "{key}: {said}{}",
            String::from_utf8_lossy(&run.stderr)
        );
        assert_eq!(run.status.code(), Some(2), "{key}: {said}");
        assert_eq!(fs::read_to_string(format!("{task}/{file}")).unwrap(), before, "{key}: {said}");
    }
}
