//! A running segment takes orders, and does not block the next one after it was killed. Needs root
//! and network namespaces; prints a reason where they are missing.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const FILE: &str = "[segment]\nname = \"two\"\nseed = 7\nring = true\n[types.j]\nkind = \"drive\"\n[[devices]]\ntype = \"j\"\nnames = [\"hip\", \"knee\"]\n";

fn can_isolate() -> bool {
    let made = Command::new("unshare")
        .args(["--net", "ip", "link", "add", "name", "a", "type", "veth"])
        .output();
    let can = made.is_ok_and(|output| output.status.success());
    if !can {
        println!(
            "skipped: no network namespace with a veth pair can be made here; it takes root, unshare and ip"
        );
    }
    can
}

fn onbeat(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.env("ONBEAT_STATE_DIR", state).env("LC_ALL", "C").current_dir(state);
    command
}

/// Starts the segment in a namespace of its own; its process is the one that is returned.
fn start(state: &Path, words: &[&str]) -> Child {
    let mut command = Command::new("unshare");
    command.arg("--net").arg(env!("CARGO_BIN_EXE_onbeat")).args([
        "segment",
        "run",
        "two.toml",
        "--priority",
        "0",
    ]);
    command.args(words).env("ONBEAT_STATE_DIR", state).current_dir(state).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ask(state: &Path, words: &[&str]) -> Output {
    onbeat(state).arg("segment").args(words).output().unwrap()
}

/// Asks until the segment has started, for a minute: a loaded machine may stop for seconds.
fn wait_for(state: &Path) -> String {
    for _ in 0..3_000 {
        let output = ask(state, &["status"]);
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{}", String::from_utf8_lossy(&ask(state, &["status"]).stderr));
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn ended(mut child: Child) -> (String, String) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_running_segment_takes_orders_and_a_killed_one_does_not_block_the_next_live() {
    if !can_isolate() {
        return;
    }

    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    fs::write(state.join("two.toml"), FILE).unwrap();
    let words = ["--veth", "o0", "--log", "faults.jsonl", "--pcap", "frames.pcap"];
    let mut killed = start(state, &words);
    let first = wait_for(state);

    assert!(
        first.contains("two: 2 devices on o0, seed 7") && first.contains("no faults"),
        "{first}"
    );
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(state.join("segments/o0.sock").exists(), "kill -9 leaves the socket");
    let refused = ask(state, &["heal"]);

    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no segment is running"));

    let running = start(state, &words);
    wait_for(state);
    let message = said(&ask(state, &["fault", "power-off", "--device", "knee", "--on", "o0"]));
    assert_eq!(message, "o0: power-off of \"knee\"\n");
    let why = ask(state, &["fault", "cut", "--device", "ankle"]);

    assert!(String::from_utf8_lossy(&why.stderr).contains("the segment has no device \"ankle\""));
    let status = said(&ask(state, &["status"]));
    assert!(
        status.contains("knee  0x0000  no power")
            && status.contains("fault: power-off of \"knee\""),
        "{status}"
    );
    let list = said(&ask(state, &["fault", "--list"]));
    assert!(list.contains("mail-abort") && list.contains("fault: power-off of \"knee\""), "{list}");
    assert_eq!(said(&ask(state, &["heal"])), "o0: no faults any more\n");
    let json: serde_json::Value =
        serde_json::from_str(&said(&ask(state, &["status", "--json"]))).unwrap();

    assert_eq!(
        (&json["devices"][1]["powered"], &json["faults"]),
        (&true.into(), &serde_json::json!([]))
    );
    let (summary, message) = ended(running);
    assert!(summary.contains("0 frames") && summary.contains("2 in INIT"), "{summary}");
    assert!(message.contains("o0 and o0b, the two ends of a ring"), "{message}");
    assert!(
        message.contains("power-off of \"knee\" begins")
            && message.contains("power-off of \"knee\" ends"),
        "{message}"
    );
    assert!(!state.join("segments/o0.sock").exists(), "an ended segment leaves nothing");
    let log = fs::read_to_string(state.join("faults.jsonl")).unwrap();
    let kinds: Vec<String> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["what"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();

    assert_eq!(kinds, ["begins", "ends"], "{log}");
    assert_eq!(fs::read(state.join("frames.pcap")).unwrap()[..4], [0x4d, 0x3c, 0xb2, 0xa1]);
}
