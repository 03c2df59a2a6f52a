//! A second Ctrl-C ends onbeat at once, with the command that undoes its changes.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn what_a_second_signal_leaves_behind_is_said_with_the_way_back() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let out = dir.path().join("runs");
    let onbeat = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
        command
            .env("ONBEAT_STATE_DIR", &state)
            .env("LC_ALL", "C")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };

    let words = ["bench", "--tunings", "none", "--loads", "idle", "--for", "60s", "--out"];
    let mut bench = onbeat().args(words).arg(&out).spawn().unwrap();
    let pid = Pid::from_raw(bench.id().cast_signed()).unwrap();
    let began = Instant::now();
    let has_journal = || {
        let names = fs::read_dir(state.join("journal")).into_iter().flatten().flatten();
        names
            .map(|entry| entry.path())
            .any(|path| path.extension().is_some_and(|kind| kind == "journal"))
    };

    while !has_journal() {
        assert!(
            began.elapsed() < PATIENCE && bench.try_wait().unwrap().is_none(),
            "no journal is begun"
        );
        std::thread::sleep(Duration::from_millis(1));
    }

    // Both are there before it goes on, so the first one's good order cannot be through before the
    // second.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(pid, signal).unwrap();
    }

    let status = bench.wait().unwrap();
    let mut said = String::new();
    bench.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(status.signal().is_some(), "it is ended by the second signal: {status}, {said}");
    assert!(said.contains("`onbeat repair`"), "{said}");

    let repaired = onbeat().arg("repair").output().unwrap();
    assert!(
        repaired.status.success() && !has_journal(),
        "{}",
        String::from_utf8_lossy(&repaired.stdout)
    );
}
