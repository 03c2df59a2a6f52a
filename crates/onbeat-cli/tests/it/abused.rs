//! Misuse of commands, and what it leaves behind: links where files should be, old results in the
//! way, refused runs. Each ends in one sentence, and no other file is changed.

use crate::abused_stage;
use crate::outputs::was_cut_off;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use abused_stage::{done, ended, names, onbeat, refused, samples, stage, stderr_of};
use onbeat_tune::{Journal, LiveHost, Purpose};

// ---- links

#[test]
fn a_page_beside_a_run_replaces_a_link_and_never_follows_it() {
    let dir = stage();
    let precious = dir.path().join("precious");
    let page = dir.path().join("run/report.html");
    fs::write(&precious, "precious").unwrap();
    fs::remove_file(&page).unwrap();
    symlink(&precious, &page).unwrap();
    done(dir.path(), &["report", "run"]);

    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(fs::symlink_metadata(&page).unwrap().is_file());
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    assert!(
        names(&dir.path().join("run")).iter().all(|name| !name.starts_with('.')),
        "nothing is left beside it"
    );
}

#[test]
fn a_page_that_was_named_follows_a_link_as_any_program_does() {
    let dir = stage();
    let page = dir.path().join("page.html");
    let link = dir.path().join("link.html");
    fs::write(&page, "old").unwrap();
    symlink("page.html", &link).unwrap();
    for words in [
        &["report", "run", "--html", "link.html"][..],
        &["compare", "run", "run", "--html", "link.html"],
    ] {
        fs::write(&page, "old").unwrap();
        done(dir.path(), words);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    }
}

#[test]
fn files_of_an_exported_directory_replace_links() {
    let dir = stage();
    done(dir.path(), &["export", "run", "--hgrm", "out"]);
    let exported = names(&dir.path().join("out"));
    assert_eq!(exported.len(), 1, "{exported:?}");
    let precious = dir.path().join("precious");
    let file = dir.path().join("out").join(&exported[0]);
    fs::write(&precious, "precious").unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&precious, &file).unwrap();
    done(dir.path(), &["export", "run", "--hgrm", "out"]);

    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(fs::read_to_string(&file).unwrap().contains("Percentile"));
}

#[test]
fn an_export_that_fails_leaves_the_one_before() {
    let dir = stage();
    fs::write(dir.path().join("all.csv"), "before").unwrap();
    fs::create_dir(dir.path().join("taken")).unwrap();
    refused(dir.path(), &["export", "run", "--csv", "taken"]);
    refused(dir.path(), &["export", "missing", "--csv", "all.csv"]);

    assert_eq!(fs::read_to_string(dir.path().join("all.csv")).unwrap(), "before");
    done(dir.path(), &["export", "run", "--csv", "all.csv"]);
    assert!(fs::read_to_string(dir.path().join("all.csv")).unwrap().contains("wakeup_latency"));
}

#[test]
fn nothing_is_written_over_a_run() {
    let dir = stage();
    let file = "run/a.onbeat.hlog";
    let before = fs::read_to_string(dir.path().join(file)).unwrap();
    symlink(dir.path().join(file), dir.path().join("link")).unwrap();
    for words in [
        &["report", "run", "--html", file][..],
        &["report", file, "--html", file],
        &["compare", "run", "run", "--html", file],
        &["gate", "run", "--limit", "1s", "--junit", file],
        &["gate", "run", "--limit", "1s", "--junit", "link"],
        &["export", "run", "--csv", file],
        &["export", "run", "--json", "other.json", "--openmetrics", "./run/../run/a.onbeat.hlog"],
    ] {
        let message = refused(dir.path(), words);
        assert!(
            message.contains("is a file of the run run") && message.contains("another place"),
            "{words:?}: {message}"
        );
    }

    assert_eq!(fs::read_to_string(dir.path().join(file)).unwrap(), before);
    assert!(!dir.path().join("other.json").exists());
}

#[test]
fn a_run_behind_a_link_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "measure",
        "timer",
        "--for",
        "1h",
        "--priority",
        "0",
        "--no-causes",
        "--out",
        "runs",
        "--resume",
    ];
    // Ended early, by the signal that Ctrl-C is, once it measures.
    let begun = || {
        let mut command = onbeat(dir.path(), &words);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let latest = dir.path().join("runs/latest");
        let before = fs::read_link(&latest).ok();
        // Where a run is resumed although it should not be, `latest` stays, and the wait ends all
        // the same.
        let until = Instant::now() + Duration::from_secs(60);
        while fs::read_link(&latest).ok() == before
            && child.try_wait().unwrap().is_none()
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(5));
        }

        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = stderr_of(&ended);
        assert!(ended.status.success() || was_cut_off(ended.status, &said), "{said}");
        fs::canonicalize(&latest).unwrap().join("timer.onbeat.hlog")
    };

    let run = begun();
    let precious = dir.path().join("precious");
    fs::rename(&run, &precious).unwrap();
    symlink(&precious, &run).unwrap();
    let before = fs::read(&precious).unwrap();

    assert_ne!(begun(), run, "a new run begins");
    assert_eq!(fs::read(&precious).unwrap(), before);
}

// ---- old results

#[test]
fn a_gate_that_cannot_run_leaves_no_old_result() {
    let dir = stage();
    let junit = dir.path().join("gate.xml");
    for words in [
        &["gate", "missing", "--limit", "1s"][..],
        &["gate", "run", "--limit", "1s", "--tuning", "nobody"],
        &["gate", "run", "--baseline", "missing"],
        &["gate", "run", "--limit", "10"],
        &["gate", "run", "--limmit", "1s"],
    ] {
        done(dir.path(), &["gate", "run", "--limit", "1s", "--at", "50", "--junit", "gate.xml"]);
        assert!(fs::read_to_string(&junit).unwrap().contains("failures=\"0\" errors=\"0\""));
        let output = ended(dir.path(), &[words, &["--junit", "gate.xml"]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let result = fs::read_to_string(&junit).unwrap();
        assert!(
            result.contains("tests=\"1\" failures=\"0\" errors=\"1\"")
                && result.contains("<error "),
            "{words:?}: {result}"
        );
    }

    let own = fs::read(dir.path().join("run/a.onbeat.hlog")).unwrap();
    ended(dir.path(), &["gate", "run", "--limit", "10", "--junit", "run/a.onbeat.hlog"]);
    assert_eq!(
        fs::read(dir.path().join("run/a.onbeat.hlog")).unwrap(),
        own,
        "that is not the result of a gate"
    );
    let joined = ended(dir.path(), &["gate", "run", "--limit", "10", "--junit=other.xml"]);
    assert_eq!(joined.status.code(), Some(2));
    assert!(fs::read_to_string(dir.path().join("other.xml")).unwrap().contains("has no unit"));
}

#[test]
fn a_result_into_a_pipe_is_one_document() {
    let dir = stage();
    for to in ["-", "/dev/stdout"] {
        for (run, errors) in [("run", 0), ("missing", 1)] {
            let output =
                ended(dir.path(), &["gate", run, "--limit", "1s", "--at", "50", "--junit", to]);
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(text.matches("<?xml").count(), 1, "{to} {run}: {text}");
            assert!(text.contains(&format!("errors=\"{errors}\"")), "{to} {run}: {text}");
        }
    }
}

#[test]
fn a_directory_with_several_runs_is_said_to_hold_them() {
    let dir = stage();
    let words =
        ["measure", "timer", "--for", "100ms", "--priority", "0", "--no-causes", "--out", "runs"];
    done(dir.path(), &words);
    for name in ["monday", "tuesday"] {
        let to = dir.path().join(format!("both/{name}.onbeat.hlog"));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(dir.path().join("runs/latest/timer.onbeat.hlog"), to).unwrap();
    }
    for words in [&["report", "both"][..], &["gate", "both", "--limit", "1s"]] {
        let message = refused(dir.path(), words);
        assert!(
            message.contains("both holds 2 run files of different runs; name one"),
            "{message}"
        );
    }
}

#[test]
fn two_results_on_standard_output_are_refused_and_a_page_stands_there_alone() {
    let dir = stage();
    for words in [
        &["gate", "run", "--limit", "1s", "--at", "99", "--json", "--junit", "-"][..],
        &["export", "run", "--csv", "-", "--json", "-"],
        &["report", "run", "--html", "-", "--markdown", "-"],
        &["report", "run", "--html", "-", "--json"],
    ] {
        let message = refused(dir.path(), words);
        assert!(
            message.contains("one result alone can be written to standard output"),
            "{message}"
        );
    }
    for words in [&["report", "run", "--html", "-"][..], &["compare", "run", "run", "--html", "-"]]
    {
        let output = ended(dir.path(), words);
        let page = String::from_utf8(output.stdout).unwrap();
        let end = page.trim_end().get(page.trim_end().len() - 7..);
        assert_eq!(
            (page.starts_with("<!doctype html>"), end),
            (true, Some("</html>")),
            "{words:?}"
        );
    }
}

// ---- a terminal that goes

#[test]
fn what_nohup_started_goes_on_when_its_terminal_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    // As nohup(1), without its file of output.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_onbeat")]);
    command.args(["measure", "timer", "--for", "2s", "--priority", "0", "--no-causes"]);
    command.args(["--out", "runs"]).current_dir(dir.path());
    command.env("ONBEAT_STATE_DIR", dir.path().join("state"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let latest = dir.path().join("runs/latest");
    let until = Instant::now() + Duration::from_secs(60);
    while fs::read_link(&latest).is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }

    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    assert!(child.wait().unwrap().success());
    let text = fs::read_to_string(latest.join("timer.onbeat.hlog")).unwrap();
    assert!(text.contains("\"reason\":\"complete\""), "{text}");
}

// ---- refused runs

#[test]
fn a_bench_that_is_refused_leaves_nothing_and_latest_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let too_short = ["bench", "--for", "3s", "--out", "deep/runs"];
    assert!(refused(dir.path(), &too_short).contains("too short"));
    assert!(!dir.path().join("deep").exists(), "{:?}", names(dir.path()));

    samples(dir.path());
    done(dir.path(), &["import", "a.csv", "--out", "runs"]);
    let before =
        (names(&dir.path().join("runs")), fs::read_link(dir.path().join("runs/latest")).unwrap());
    assert_eq!(before.0.len(), 2);
    refused(dir.path(), &["bench", "--for", "3s", "--out", "runs"]);

    // Another one is at work: it holds the journal.
    let journal = dir.path().join("state/journal");
    let host = LiveHost::new();
    let other = Journal::begin(&journal, &host, &Purpose::new("bench", "another bench")).unwrap();
    let words = ["bench", "--for", "1m", "--tunings", "none", "--loads", "idle", "--out", "runs"];

    assert!(refused(dir.path(), &words).contains("is changing this machine"));
    other.close().unwrap();
    let after =
        (names(&dir.path().join("runs")), fs::read_link(dir.path().join("runs/latest")).unwrap());
    assert_eq!(before, after);
}

#[test]
fn a_bench_none_of_whose_cells_is_permitted_could_not_run() {
    let dir = tempfile::tempdir().unwrap();
    // Root keeps its user and loses the right; without root, only a limit could give it.
    let is_root = rustix::process::geteuid().is_root();
    let without: &[&str] =
        if is_root { &["setpriv", "--bounding-set", "-sys_nice"] } else { &["env"] };
    let mut command = Command::new(without[0]);
    command.args(&without[1..]).args(["prlimit", "--rtprio=0", env!("CARGO_BIN_EXE_onbeat")]);
    command.args(["bench", "--for", "8s", "--tunings", "P,PS", "--loads", "idle", "--no-causes"]);
    command.current_dir(dir.path()).env("ONBEAT_STATE_DIR", dir.path().join("state"));
    let Ok(output) = command.output() else {
        println!("skipped: setpriv and prlimit (package util-linux) are missing");
        return;
    };
    let message = stderr_of(&output);
    if ["setpriv: ", "env: ", "prlimit: "].iter().any(|tool| message.starts_with(tool)) {
        println!("skipped: the right cannot be given up here: {message}");
        return;
    }

    assert_eq!(output.status.code(), Some(2), "{message}");
    let sentence = "onbeat: no cell is permitted to run; P, PS: real-time priority (SCHED_FIFO 98)";
    assert!(message.contains(sentence) && message.contains("to grant it"), "{message}");
    assert!(!dir.path().join("onbeat-runs").exists(), "{:?}", names(dir.path()));
}

#[test]
fn a_measurement_whose_load_cannot_start_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["measure", "timer", "--for", "1s", "--priority", "0", "--load", "stress-ng:--vm 1"];
    let output = onbeat(dir.path(), &words).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr_of(&output).contains("stress-ng"), "{}", stderr_of(&output));
    assert!(!dir.path().join("onbeat-runs").exists(), "{:?}", names(dir.path()));
    let words = ["measure", "timer", "--for", "1s", "--load-sweep", "0..50/50", "--period", "0"];
    refused(dir.path(), &words);

    assert!(!dir.path().join("onbeat-runs").exists(), "{:?}", names(dir.path()));
}

#[test]
fn latest_points_at_a_run_that_goes_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["measure", "timer", "--for", "100ms", "--priority", "0", "--no-causes", "--out", "runs"];
    let mut seen = Vec::new();
    for _ in 0..2 {
        done(dir.path(), &words);
        seen.push(fs::read_link(dir.path().join("runs/latest")).unwrap());
    }

    assert_ne!(seen[0], seen[1]);
    assert!(
        seen.iter().all(|run| dir.path().join("runs").join(run).join("timer.onbeat.hlog").exists())
    );
    assert_eq!(names(&dir.path().join("runs")).len(), 3);
}

#[test]
fn a_bench_with_two_cells_of_one_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = refused(
        dir.path(),
        &["bench", "--for", "1h", "--tunings", "none,PM,MP", "--loads", "idle"],
    );
    assert!(message.contains("tuning PM is listed twice"), "{message}");
    let message = refused(
        dir.path(),
        &["bench", "--for", "1h", "--tunings", "none", "--loads", "cpu,idle,cpu=100%"],
    );
    assert!(message.contains("load cpu is listed twice"), "{message}");
    assert!(!dir.path().join("onbeat-runs").exists(), "{:?}", names(dir.path()));
}

#[test]
fn a_page_that_cannot_be_written_says_how_to_do_without() {
    let dir = stage();
    fs::remove_file(dir.path().join("run/report.html")).unwrap();
    fs::create_dir(dir.path().join("run/report.html")).unwrap();
    let message = refused(dir.path(), &["report", "run"]);

    assert!(
        message.contains("run/report.html")
            && message.contains("--html FILE")
            && message.contains("--brief"),
        "{message}"
    );
    done(dir.path(), &["report", "run", "--brief"]);
    done(dir.path(), &["report", "run", "--html", "elsewhere.html"]);
    let left: Vec<String> = names(&dir.path().join("run"));
    assert_eq!(left, ["a.onbeat.hlog", "report.html"]);
}

#[test]
fn a_limit_of_a_files_size_is_a_sentence_and_ends_nothing_by_a_signal() {
    let dir = stage();
    fs::write(dir.path().join("all.csv"), "before").unwrap();
    let measured =
        ["measure", "timer", "--for", "200ms", "--priority", "0", "--no-causes", "--out", "runs"];
    for (words, reason) in [
        (&measured[..], "(ulimit -f) is reached: raise it"),
        (&["export", "run", "--csv", "all.csv"], "cannot write all.csv"),
        (&["report", "run"], "cannot write run/report.html"),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 4; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_onbeat")]);
        command.args(words).current_dir(dir.path());
        let output = command.env("ONBEAT_STATE_DIR", dir.path().join("state")).output().unwrap();
        let message = stderr_of(&output);

        assert_eq!(output.status.code(), Some(2), "{words:?}: {} {message}", output.status);
        assert!(message.contains("File too large") && message.contains(reason), "{message}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("all.csv")).unwrap(), "before");
}

#[test]
fn a_segment_that_cannot_write_its_capture_leaves_no_interfaces() {
    let can = Command::new("unshare")
        .args(["--net", "ip", "link", "add", "name", "a", "type", "veth"])
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: no network namespace with a veth pair can be made here; it takes root, unshare and ip"
        );
        return;
    }

    let dir = tempfile::tempdir().unwrap();
    for outlet in ["--pcap nowhere/a", "--log nowhere/a"] {
        let line =
            format!("\"$0\" segment run humanoid --veth o0 --for 1s {outlet}; echo $?; ip -o link");
        let mut command = Command::new("unshare");
        command
            .args(["--net", "sh", "-c", &line, env!("CARGO_BIN_EXE_onbeat")])
            .current_dir(dir.path());
        let output = command.env("ONBEAT_STATE_DIR", dir.path().join("state")).output().unwrap();
        let links = String::from_utf8_lossy(&output.stdout).into_owned();

        assert!(
            links.starts_with("2\n") && links.contains("lo:") && !links.contains("o0"),
            "{links}{}",
            stderr_of(&output)
        );
        assert!(stderr_of(&output).contains("nowhere/a"), "{}", stderr_of(&output));
    }
}
