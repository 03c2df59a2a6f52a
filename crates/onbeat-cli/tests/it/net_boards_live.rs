//! Two boards in two network namespaces, the second one's monotonic clock shifted by a time
//! namespace: an edge at the first becomes an output of the second.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// How far the second board's clock is ahead.
const SHIFT_S: i64 = 100_000;
const EDGES: u64 = 500;
/// The second board waits for its interface, then runs; the first one connects both and measures.
/// `$0` is onbeat, `$1` the shift, the rest the words behind `onbeat measure`.
const BOARDS: &str = r#"
shift_s=$1
shift
ip link set lo up
unshare --net --time --monotonic "$shift_s" --fork --kill-child sh -c '
    until ip address add 10.77.0.2/24 dev board 2>/dev/null; do sleep 0.02; done
    ip link set lo up
    ip link set board up
    exec "$0" net board $TRANSMITTER --priority 0 --bind 10.77.0.2 --allow 10.77.0.0/24 --output "file:$1"' "$0" "$OUTPUT" &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
ip link add first type veth peer name board netns $!
ip address add 10.77.0.1/24 dev first
ip link set first up
# Until its socket is open; what arrives before it serves waits there.
until grep -q 'takes edges' "$ERRORS" || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
"$0" measure "$@"
"#;

/// A group of processes that is ended with the test.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// Prints why, and returns false, where no namespaces can be created.
fn can_build() -> bool {
    let words = ["--net", "--time", "--fork", "ip", "link", "set", "lo", "up"];
    let made = Command::new("unshare").args(words).output();
    let can = made.is_ok_and(|output| output.status.success());
    if !can {
        println!(
            "skipped: no network and time namespace can be created here; it takes root, unshare and ip"
        );
    }
    can
}

/// `PATH` with the `ptp4l` that scripts/setup.sh unpacks, for where it is not installed.
fn path() -> std::ffi::OsString {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/linuxptp/usr/sbin");
    let own = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&own).chain([unpacked]);
    std::env::join_paths(all).expect("a path without colons")
}

/// Prints why, and returns false, where `ptp4l` cannot be run.
fn has_ptp4l() -> bool {
    let shown = Command::new("sh").args(["-c", "ptp4l -v"]).env("PATH", path()).output();
    let has = shown.is_ok_and(|output| output.status.success());
    if !has {
        println!("skipped: no ptp4l; scripts/setup.sh test unpacks it from the package linuxptp");
    }
    has
}

/// Runs `onbeat measure` on the first board; returns what it printed.
fn boards(out: &Path, transmitter: &str, words: &[&str]) -> Value {
    let output = out.join("output");
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", BOARDS, env!("CARGO_BIN_EXE_onbeat")]);
    command.arg(SHIFT_S.to_string()).args(words).args(["--json", "--no-causes", "--out"]).arg(out);
    command.env("ONBEAT_STATE_DIR", out.join("state")).env("OUTPUT", &output);
    command.env("TRANSMITTER", transmitter).env("PATH", path());
    command.env("ERRORS", out.join("errors"));
    let printed = std::fs::File::create(out.join("printed")).unwrap();
    let errors = std::fs::File::create(out.join("errors")).unwrap();
    command.stdin(Stdio::null()).stdout(printed).stderr(errors).process_group(0);
    let mut group = Group(command.spawn().expect("unshare"));

    let status = group.0.wait().unwrap();
    drop(group);
    let errors = std::fs::read_to_string(out.join("errors")).unwrap();
    assert!(status.success(), "{status}: {errors}");
    serde_json::from_str(&std::fs::read_to_string(out.join("printed")).unwrap()).expect("JSON")
}

#[test]
fn an_edge_passes_two_boards_whose_clocks_differ_by_a_day() {
    if !can_build() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let edges = EDGES.to_string();
    let mut words = vec!["chain", "--via", "udp:10.77.0.2:7471", "--period", "4ms"];
    words.extend(["--count", &edges, "--priority", "0", "--on-overrun", "catch-up=1000"]);
    let summary = boards(out.path(), "", &words);

    let account = &summary["cells"][0]["boards"];
    let count = |name: &str| account[name].as_u64().unwrap_or_else(|| panic!("{name}: {account}"));
    assert_eq!((count("sent"), count("returned"), count("lost")), (EDGES, EDGES, 0), "{account}");
    assert_eq!((count("unfitted"), count("write_failures")), (0, 0), "{account}");

    // The file at the second board has a byte for each edge, in order.
    let written = std::fs::read(out.path().join("output")).unwrap();
    let expected: Vec<u8> = (0..EDGES).map(|edge| edge as u8).collect();
    assert_eq!(written, expected);

    // The truth is known to the nanosecond: both namespaces have one clock.
    let clock = &account["clock"];
    let offset_ns = clock["offset_ns"].as_i64().expect("an offset");
    let bound_ns = clock["most_bound_ns"].as_u64().expect("a bound");
    let error_ns = (offset_ns - SHIFT_S * 1_000_000_000).unsigned_abs();
    assert!(error_ns <= bound_ns, "{error_ns} ns: {clock}");
    assert!(summary.to_string().contains("t_n = t_rwn - t_rw"), "{summary}");
}

#[test]
fn ptp4l_compares_the_clocks_beside_a_run_and_a_missing_transmitter_is_said() {
    if !can_build() || !has_ptp4l() {
        return;
    }
    for (transmitter, is_locked) in [("--ptp board", true), ("", false)] {
        let out = tempfile::tempdir().unwrap();
        let mut words = vec!["chain", "--via", "udp:10.77.0.2:7471", "--ptp", "first"];
        words.extend(["--period", "4ms", "--count", "100", "--priority", "0"]);
        let summary = boards(out.path(), transmitter, &words);

        let ptp = &summary["cells"][0]["boards"]["ptp"];
        assert_eq!(ptp["is_locked"].as_bool(), Some(is_locked), "{ptp}");
        assert_eq!(ptp["readings"].as_u64().is_some_and(|n| n > 0), is_locked, "{ptp}");
        let said = if is_locked { "neither clock was set" } else { "the clocks were not locked" };
        assert!(summary.to_string().contains(said), "{summary}");
    }
}

/// A board with `ptp4l` in a network namespace of its own; its first line says that it runs.
fn board_beside_ptp4l(state: &Path) -> Group {
    let words = "ip link set lo up; ip link add board type veth peer name other; ip link set other up; \
                 ip link set board up; exec \"$0\" net board --ptp board --priority 0";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", words, env!("CARGO_BIN_EXE_onbeat")]).env("PATH", path());
    command.env("ONBEAT_STATE_DIR", state).stdin(Stdio::null()).stdout(Stdio::null());
    let mut board =
        Group(command.stderr(Stdio::piped()).process_group(0).spawn().expect("unshare"));

    let errors = board.0.stderr.as_mut().expect("a pipe");
    let mut line = String::new();
    BufReader::new(errors).read_line(&mut line).unwrap();
    assert!(line.contains("takes edges"), "{line}");
    board
}

/// Processes whose command line names the socket of a board's `ptp4l`.
fn daemons(pid: u32) -> Vec<String> {
    let name = format!("onbeat-ptp-{pid}-");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let words = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).ok();
    let lines = processes.filter_map(words).map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.contains(&name)).collect()
}

/// Waits for something that the kernel does soon, for a minute: a loaded machine may stop for
/// seconds.
fn soon(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1_200 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{what}");
}

#[test]
fn a_killed_board_leaves_no_ptp4l_and_its_socket_ends_with_the_next_start() {
    if !can_build() || !has_ptp4l() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let mut killed = board_beside_ptp4l(state.path());
    let pid = killed.0.id();
    let sockets = || {
        let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let name = format!("onbeat-ptp-{pid}-");
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count()
    };
    // Within execve, a process has no command line.
    soon("ptp4l runs", || daemons(pid).len() == 1);
    // From linuxptp 4 on, there is another one for reading only.
    soon("its socket", || sockets() >= 1);

    // Only onbeat itself.
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    soon("ptp4l ends with its starter", || daemons(pid).is_empty());

    let next = board_beside_ptp4l(state.path());
    assert_eq!(sockets(), 0, "removed at the next start");
    drop(next);
}

/// The mean of a series of the only cell, in nanoseconds.
fn mean_ns(summary: &Value, series: &str) -> f64 {
    let statistics = &summary["cells"][0]["series"][series];
    statistics["mean_ns"].as_f64().unwrap_or_else(|| panic!("{series}: {summary}"))
}

#[test]
fn the_three_tests_of_2007_run_beside_ptp4l_and_give_t_w_t_r_and_t_n() {
    if !can_build() || !has_ptp4l() {
        return;
    }
    let run = |words: &str| {
        let out = tempfile::tempdir().unwrap();
        let words: Vec<&str> = words.split(' ').collect();
        boards(out.path(), "--ptp board", &words)
    };
    let write = run("write --period 500us --for 1s --priority 0");
    let read_write = run("read-write --period 4ms --for 1s --priority 0");
    // A stall makes edges late here, and none skipped.
    let network = run("chain --via udp:10.77.0.2:7471 --ptp first --period 4ms --count 250 \
                       --priority 0 --on-overrun catch-up=1000");

    // t_rw without its delay is t_r + t_w of the same edges; t_rwn has t_n in addition.
    let delay_ns = 200_000.0;
    let write_ns = mean_ns(&write, "response_time");
    let read_write_ns = mean_ns(&read_write, "read_write") - delay_ns;
    let parts_ns = mean_ns(&read_write, "read_latency") + mean_ns(&read_write, "response_time");
    let whole_ns = mean_ns(&network, "chain") - 2.0 * delay_ns;
    println!("t_w {write_ns:.0} ns, t_rw {read_write_ns:.0} ns, t_rwn {whole_ns:.0} ns");
    assert!((read_write_ns - parts_ns).abs() <= 0.01 * (read_write_ns + delay_ns), "{read_write}");

    let account = &network["cells"][0]["boards"];
    let ptp = &account["ptp"];
    println!("{ptp}");
    assert_eq!((account["lost"].as_u64(), account["returned"].as_u64()), (Some(0), Some(250)));
    assert_eq!(ptp["is_locked"].as_bool(), Some(true), "{ptp}");
    assert!(
        ["UNCALIBRATED", "SLAVE"].contains(&ptp["state"].as_str().unwrap_or_default()),
        "{ptp}"
    );
    // Both namespaces have one wall clock, so that every reading is ptp4l's own error: the way there
    // and back is longer.
    let number = |name: &str| ptp[name].as_u64().unwrap_or_else(|| panic!("{name}: {ptp}"));
    assert!(number("readings") > 0 && number("path_delay_ns") > 0, "{ptp}");
}
