//! `--view` and `onbeat view`: a run in a browser of this machine while it is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

fn onbeat(directory: &Path, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command
        .args(line)
        .env("ONBEAT_STATE_DIR", directory.join("state"))
        .env("ONBEAT_RUNTIME_DIR", directory)
        .env("LC_ALL", "C")
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// The port of the address that a command prints.
fn port_of(child: &mut Child) -> (u16, BufReader<std::process::ChildStderr>) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the command ended without an address");
        if let Some(address) = line.trim().strip_prefix("live view: http://127.0.0.1:") {
            return (address.trim_end_matches('/').parse().unwrap(), lines);
        }
    }
}

fn asked(port: u16, path: &str, host: &str) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    socket
}

fn answer(port: u16, path: &str, host: &str) -> String {
    let mut text = String::new();
    asked(port, path, host).read_to_string(&mut text).unwrap();
    text
}

/// What a browser gets until the run ends: the lines of the file, and all summaries.
fn followed(port: u16) -> (String, Vec<Value>) {
    let lines = BufReader::new(asked(port, "/events", &format!("127.0.0.1:{port}"))).lines();
    let (mut text, mut summaries, mut event) = (String::new(), Vec::new(), String::new());
    for line in lines {
        let line = line.unwrap();
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event);
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        match event.as_str() {
            "lines" => {
                let found: Value = serde_json::from_str(data).unwrap();
                text.push_str(found["text"].as_str().unwrap());
            }
            "summary" => summaries.push(serde_json::from_str(data).unwrap()),
            "end" => return (text, summaries),
            other => panic!("{other}"),
        }
    }
    panic!("the events ended without the end of the run: {} bytes", text.len());
}

#[test]
fn a_browser_gets_every_line_of_the_run_and_the_figures_of_the_report() {
    let directory = tempfile::tempdir().unwrap();
    // A program that starts beside the run shows it, and is asked five times before its end.
    let line = ["measure", "timer", "--for", "8s", "--priority", "0", "--out", "runs", "--view"];
    let mut child = onbeat(directory.path(), &line).spawn().unwrap();
    let (port, mut rest) = port_of(&mut child);
    // A pipe that is full would stop the command.
    let rest = std::thread::spawn(move || {
        let mut said = String::new();
        rest.read_to_string(&mut said).map(|_| said)
    });

    let own = format!("127.0.0.1:{port}");
    let page = answer(port, "/", &own);
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains(">live</script>"));
    assert!(page.contains("connect-src 'self'"));
    assert!(answer(port, "/", "evil.example").starts_with("HTTP/1.1 403"));
    assert!(answer(port, "/runs/latest", &own).starts_with("HTTP/1.1 404"));

    let (lines, summaries) = followed(port);
    assert!(child.wait().unwrap().success());
    let said = rest.join().unwrap().unwrap();
    assert!(said.contains("live view: 1 browser"), "{said}");

    let run = directory.path().join("runs/latest/timer.onbeat.hlog");
    let file = std::fs::read_to_string(run).unwrap();
    let kept: String = file
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("#[onbeat: {\"window\""))
        .collect();
    assert_eq!(lines, kept, "what the browser has is what the file has");

    let report = ["report", "runs/latest", "--json", "--html", "page.html"];
    let output = onbeat(directory.path(), &report).stdout(Stdio::piped()).output().unwrap();
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summaries.last().unwrap(), &reported, "the last figures are the report's");
}

#[test]
fn a_port_that_is_taken_is_refused_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let view = format!("--view={}", taken.local_addr().unwrap().port());
    for line in [
        vec!["measure", "timer", "--for", "1s", "--out", "runs", &view],
        vec![
            "bench",
            "--tunings",
            "none",
            "--loads",
            "idle",
            "--for",
            "5s",
            "--out",
            "runs",
            &view,
        ],
    ] {
        let output = onbeat(directory.path(), &line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("in use"), "{said}");
        assert!(!directory.path().join("runs").exists(), "nothing is left");
    }
}

#[test]
fn a_run_that_has_ended_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs/before");
    let output = onbeat(directory.path(), &["view", &golden.to_string_lossy()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is not being measured") && said.contains("onbeat report"), "{said}");
    let absent = onbeat(directory.path(), &["view", "absent"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(2));
}
