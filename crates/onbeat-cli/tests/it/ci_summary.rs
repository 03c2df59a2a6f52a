//! What a job of continuous integration shows of runs: `report --markdown`, `report --png`, `trend`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs").join(name)
}

/// A copy of a run, which may be changed.
fn copied(name: &str, to: &Path, change: impl Fn(&str) -> String) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(golden(name)).unwrap() {
        let file = file.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(to.join(file.file_name().unwrap()), change(&text)).unwrap();
    }
}

fn onbeat(directory: &Path, line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .args(line)
        .env("ONBEAT_STATE_DIR", directory.join("state"))
        .env("ONBEAT_RUNTIME_DIR", directory)
        .env("LC_ALL", "C.UTF-8")
        .current_dir(directory)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of a table of Markdown: as many cells in each as in its head.
fn assert_tables(markdown: &str) {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut lines = markdown.lines().peekable();
    let mut tables = 0;
    while let Some(line) = lines.next() {
        if !line.starts_with("| ") {
            continue;
        }
        let rule = lines.next().unwrap_or_default();
        assert!(rule.starts_with("| ---"), "below `{line}` stands `{rule}`");
        assert_eq!(cells(line), cells(rule));
        while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
            assert_eq!(cells(row), cells(rule), "{row}");
        }
        tables += 1;
    }
    assert!(tables > 0, "{markdown}");
}

#[test]
fn the_summary_of_a_job_has_verdict_figures_and_causes() {
    let directory = tempfile::tempdir().unwrap();
    for (run, limit) in [("bench", "1s"), ("before", "1ns"), ("sweep", "1s"), ("latency", "1s")] {
        let run = golden(run).to_string_lossy().into_owned();
        let line = ["report", &run, "--limit", limit, "--at", "50", "--html", "page.html"];
        let output = onbeat(directory.path(), &[&line[..], &["--markdown", "-"]].concat());
        let markdown = text(&output.stdout);
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{}", text(&output.stderr));
        let word = ["PASS", "FAIL", "", "INCONCLUSIVE"][output.status.code().unwrap() as usize];
        assert!(markdown.starts_with("### "), "{markdown}");
        assert!(markdown.lines().next().unwrap().contains(word), "{markdown}");
        for part in ["| p50 |", "| p99 |", "| max |", "<details>", "</details>", "onbeat "] {
            assert!(markdown.contains(part), "{part} in {markdown}");
        }
        assert_tables(&markdown);

        // The same into a file, with everything else in the terminal.
        let to_file = onbeat(directory.path(), &[&line[..], &["--markdown", "r.md"]].concat());
        assert_eq!(fs::read_to_string(directory.path().join("r.md")).unwrap(), markdown);
        assert!(text(&to_file.stdout).contains("report   "), "tables and page as usual");
    }
}

#[test]
fn names_of_loads_and_programs_are_no_markup() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("strange");
    let name = "<img src=x> | `a` *b* @all [c](http://d)";
    let json = serde_json::to_string(name).unwrap();
    copied("bench", &run, |lines| lines.replace("\"cpu=20%\"", &json));
    let run = run.to_string_lossy().into_owned();
    let output =
        onbeat(directory.path(), &["report", &run, "--html", "page.html", "--markdown", "-"]);
    let markdown = text(&output.stdout);
    assert!(markdown.contains("&lt;img"), "{markdown}\n{}", text(&output.stderr));
    assert!(!markdown.contains("<img") && !markdown.contains(" @all"), "{markdown}");
    assert!(!markdown.contains("[c](http"), "{markdown}");
    assert_tables(&markdown);
}

/// Width, height, and the scan lines of a PNG of 8 bits a channel.
fn decoded(png: &[u8]) -> (u32, u32, Vec<u8>) {
    use std::io::Read;
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    let (mut at, mut packed) = (8, Vec::new());
    while at < png.len() {
        let length = number(at) as usize;
        if &png[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&png[at + 8..at + 8 + length]);
        }
        at += 12 + length;
    }
    let mut lines = Vec::new();
    flate2::read::ZlibDecoder::new(packed.as_slice()).read_to_end(&mut lines).unwrap();
    (number(16), number(20), lines)
}

#[test]
fn the_picture_is_drawn_for_every_kind_of_run_and_depends_on_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut pictures = Vec::new();
    for (run, limit) in [("bench", "1s"), ("bench", "1ns"), ("before", "1ms"), ("sweep", "1s")] {
        let path = golden(run).to_string_lossy().into_owned();
        let line = ["report", &path, "--limit", limit, "--at", "50", "--html", "page.html"];
        let output = onbeat(directory.path(), &[&line[..], &["--png", "-"]].concat());
        let (width, height, lines) = decoded(&output.stdout);
        assert_eq!((width, height), (1200, 675), "{run}");
        let drawn = lines.iter().filter(|byte| **byte != 0).count();
        assert!(drawn > 10_000, "{run}: {drawn} bytes of the picture are not plain");
        pictures.push(output.stdout);
    }
    pictures.sort();
    pictures.dedup();
    assert_eq!(pictures.len(), 4, "another run, or another limit, is another picture");
}

#[test]
fn an_output_that_cannot_be_written_is_one_sentence_and_status_2() {
    let directory = tempfile::tempdir().unwrap();
    let run = golden("before").to_string_lossy().into_owned();
    for option in ["--png", "--markdown"] {
        let output = onbeat(
            directory.path(),
            &["report", &run, "--html", "page.html", option, "no/such/place"],
        );
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains("no/such/place") && said.lines().count() <= 3, "{said}");
    }
    let other = onbeat(directory.path(), &["report", &run, "--png", "chart.jpg"]);
    assert_eq!(other.status.code(), Some(2));
    let said = text(&other.stderr);
    assert!(said.contains("'chart.jpg'") && said.contains("is a PNG"), "{said}");
    // A run cannot be measured again.
    let copy = directory.path().join("run");
    copied("before", &copy, str::to_owned);
    let own = copy.join("timer.onbeat.hlog").to_string_lossy().into_owned();
    let copy = copy.to_string_lossy().into_owned();
    for option in ["--png", "--markdown"] {
        let output = onbeat(directory.path(), &["report", &copy, option, &own]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
    assert!(fs::read_to_string(&own).unwrap().starts_with('#'));
}

/// Runs in the order of their starts, `after` from place `from` on.
fn history(directory: &Path, runs: usize, from: usize) {
    for place in 0..runs {
        let name = if place < from { "before" } else { "after" };
        let start = format!("\"started_unix_s\":{}", 1_700_000_000 + 86_400 * place);
        copied(name, &directory.join(format!("runs/day-{place:02}")), |lines| {
            let at = lines.find("\"started_unix_s\":").unwrap();
            let end = lines[at..].find([',', '}']).unwrap() + at;
            format!("{}{start}{}", &lines[..at], &lines[end..])
        });
    }
}

#[test]
fn a_trend_names_the_run_from_which_on_the_level_is_another() {
    let directory = tempfile::tempdir().unwrap();
    history(directory.path(), 14, 7);
    let output = onbeat(directory.path(), &["trend", "runs", "--at", "50", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["schema"], "onbeat.trend/1");
    assert_eq!(found["runs"].as_array().unwrap().len(), 14);
    let changes = found["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{found}");
    assert_eq!((changes[0]["at"].as_u64(), changes[0]["run"].as_str()), (Some(7), Some("day-07")));
    let [ratio, low, high] =
        ["ratio", "low", "high"].map(|name| changes[0][name].as_f64().unwrap());
    assert!(low <= ratio && ratio <= high && (low > 1.0) == (ratio > 1.0));

    let said = text(&onbeat(directory.path(), &["trend", "runs", "--at", "50"]).stdout);
    assert!(said.contains("from day-07 on"), "{said}");
}

#[test]
fn a_trend_of_equal_or_few_runs_has_no_change_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    history(directory.path(), 12, 12);
    let said = text(&onbeat(directory.path(), &["trend", "runs", "--at", "50"]).stdout);
    assert!(said.contains("does not change over 12 runs"), "{said}");

    // An archive of a directory of runs has its link `latest` as a directory.
    for name in ["day-11", "latest"] {
        let to = directory.path().join("runs").join(name);
        copied("before", &to, |lines| {
            lines.replacen("{\"schema\":", "{\"id\":\"0123456789abcdef\",\"schema\":", 1)
        });
    }
    let output = onbeat(directory.path(), &["trend", "runs", "--at", "50"]);
    let (said, advised) = (text(&output.stdout), text(&output.stderr).replace('\n', " "));
    assert!(said.contains("over 12 runs") && !said.contains("latest"), "{said}");
    assert!(advised.contains("runs/latest is a copy of the run day-11"), "{advised}");

    let few = ["trend", "runs/day-00", "runs/day-01", "--at", "50"];
    let said = text(&onbeat(directory.path(), &few).stdout).replace('\n', " ");
    assert!(said.contains("a search for changes takes 10 of them"), "{said}");
}

#[test]
fn a_trend_refuses_what_is_no_run_and_leaves_out_what_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    history(directory.path(), 3, 3);
    fs::create_dir(directory.path().join("empty")).unwrap();
    for line in [
        ["trend", "empty", "--at", "50"],
        ["trend", "absent", "--at", "50"],
        ["trend", "runs", "--at", "42"],
        ["trend", "runs", "--series", "hiccup"],
        ["trend", "runs", "--cell", "PMCS"],
        ["trend", "runs", "--cell", "PMCS/paper"],
    ] {
        let output = onbeat(directory.path(), &line);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {}", text(&output.stderr));
    }
    fs::write(directory.path().join("runs/day-01/timer.onbeat.hlog"), "no run").unwrap();
    let output = onbeat(directory.path(), &["trend", "runs", "--at", "50", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["runs"].as_array().unwrap().len(), 2);
    assert!(text(&output.stderr).contains("left out"), "{}", text(&output.stderr));
}
