//! A kernel that does not describe its structures: `/sys/kernel/btf` is hidden in a mount namespace
//! of the measurement's own.

use std::process::Command;

use onbeat::record::RunFile;
use rustix::process::geteuid;

/// Runs the rest of its arguments with nothing in `/sys/kernel/btf`.
const HIDDEN: &str = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";

/// What the flight recorder of a short measurement was granted, in words; `None` where this machine
/// grants none at all.
fn granted(is_hidden: bool) -> Option<String> {
    let out = tempfile::tempdir().unwrap();
    let onbeat = env!("CARGO_BIN_EXE_onbeat");
    let mut command = if is_hidden {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", HIDDEN, "sh", onbeat]);
        command
    } else {
        Command::new(onbeat)
    };
    command.args(["measure", "timer", "--for", "1s", "--json", "--out"]).arg(out.path());
    let ended = command.env("ONBEAT_STATE_DIR", out.path().join("state")).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));

    let run = RunFile::read(&out.path().join("latest/timer.onbeat.hlog")).unwrap();
    assert_eq!(run.end.unwrap().slots, 1000);
    let recorder = run.header.grants.into_iter().find(|one| one.what == "flight recorder")?;
    if !recorder.granted {
        println!("skipped: {}", recorder.refusal());
        return None;
    }
    Some(recorder.wanted)
}

#[test]
fn without_btf_the_path_is_recorded_by_tracefs_and_one_sentence_says_so() {
    if !geteuid().is_root() {
        println!("skipped: hiding /sys/kernel/btf takes root");
        return;
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("skipped: this kernel has no BTF to hide");
        return;
    }
    let (Some(with), Some(without)) = (granted(false), granted(true)) else { return };
    assert!(!with.contains("tracefs") || !with.contains("BTF"), "{with}");
    let sentence =
        "the loop's events by tracefs, about 2 us per wake-up (no BTF in /sys/kernel/btf/vmlinux: ";
    assert_eq!(without.matches(sentence).count(), 1, "{without}");
    assert!(without.contains("the kernel needs CONFIG_DEBUG_INFO_BTF)"), "{without}");
    assert!(!without.contains("needs root"), "no right would help: {without}");
}
