//! One late CPU of several, in run files of known contents: named in the terminal, in JSON and on the
//! page, and decisive for the exit status. A machine that is late on one CPU only cannot be had on demand.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use onbeat::record::{Bench, Cell, LimitNote, RunOrder, Series};
use serde_json::Value;

use crate::outputs::{json_of, stdout_of};
use crate::report_world::{US, bench_note, run_text, with_outages, write_bench};

const N: usize = 20_000;
const LIMIT: LimitNote = LimitNote { limit_ns: 100 * US, at: 99.0, on: Series::ReleaseLatency };
const CPUS: [u32; 3] = [0, 1, 2];

/// Writes a loop's file; `over` of its releases are 2 ms late.
fn write(dir: &Path, cell: &Cell, over: usize) {
    let cycles = with_outages(N, over);
    let blocks: Vec<_> = cycles.chunks(N / 5).map(<[_]>::to_vec).collect();
    fs::write(dir.join(cell.file_name()), run_text(cell, &blocks)).unwrap();
}

/// A measurement on three CPUs, of which CPU 1 is late so often.
fn measured(dir: &Path, over: usize) {
    let names = CPUS.map(|cpu| format!("CPU {cpu}"));
    let note = bench_note(&names.each_ref().map(String::as_str), &["idle"], Some(LIMIT));
    write_bench(dir, Bench { order: RunOrder::AtOnce, ..note });
    for (cpu, name) in CPUS.into_iter().zip(names) {
        write(dir, &Cell::new(name, "idle"), if cpu == 1 { over } else { 0 });
    }
}

/// A bench on three CPUs: the untuned loop is late on CPU 0, the tuned one so often on CPU 1.
fn benched(dir: &Path, over: usize) {
    let note = bench_note(&["none", "P"], &["idle"], Some(LIMIT));
    write_bench(dir, Bench { cpus: CPUS.to_vec(), ..note });
    for cell in ["none", "P"].into_iter().flat_map(|of| Cell::new(of, "idle").on_each(&CPUS)) {
        let late = match (cell.tuning.as_str(), cell.cpu) {
            ("none", Some(0)) => 1_500,
            ("P", Some(1)) => over,
            _ => 0,
        };
        write(dir, &cell, late);
    }
}

fn onbeat(words: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(words).arg(dir).env("LC_ALL", "C").current_dir(dir).output().unwrap()
}

/// The summary that the page beside a run carries, and the names of the files in it.
fn page_of(dir: &Path) -> (Value, Vec<String>) {
    let page = fs::read_to_string(dir.join("report.html")).unwrap();
    let packed = page
        .split(['<', '>'])
        .map(str::trim)
        .find_map(|part| {
            STANDARD.decode(part).ok().filter(|bytes| bytes.starts_with(&[0x1f, 0x8b]))
        })
        .expect("the page has its data");
    let mut text = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    let notes = |kind: &str| -> Vec<Value> {
        let lines =
            text.lines().filter_map(|line| line.strip_prefix("#[onbeat: ")?.strip_suffix(']'));
        let notes = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        notes.filter_map(|note| note.get(kind).cloned()).collect()
    };
    let files = notes("file").iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    (notes("summary").remove(0), files)
}

#[test]
fn one_late_cpu_of_a_measurement_fails_all_and_is_named_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    measured(dir, 900);
    let shown = onbeat(&["report"], dir);
    assert_eq!(shown.status.code(), Some(1), "{}", String::from_utf8_lossy(&shown.stderr));
    let said = stdout_of(&shown);
    assert!(said.starts_with("verdict FAIL on CPU 1: "), "{said}");
    assert!(said.contains("CPU 1, 900 of 20,000 late"), "{said}");

    let printed = onbeat(&["report", "--json"], dir);
    assert_eq!(printed.status.code(), Some(1));
    let json = json_of(&printed);
    let outcomes: Vec<&Value> =
        json["cells"].as_array().unwrap().iter().map(|cell| &cell["verdict"]["outcome"]).collect();
    assert_eq!(outcomes, ["PASS", "FAIL", "PASS"], "the others pass");
    assert_eq!(
        (&json["verdict"]["outcome"], &json["verdict"]["worst"]["tuning"]),
        (&"FAIL".into(), &"CPU 1".into())
    );

    let (on_page, files) = page_of(dir);
    assert_eq!(on_page["verdict"], json["verdict"]);
    assert!(
        on_page["verdict"]["sentence"].as_str().unwrap().contains("on CPU 1; CPU 1 (the worst)")
    );
    assert_eq!(files.len(), 1 + CPUS.len(), "{files:?}");

    measured(dir, 6);
    let held = onbeat(&["report"], dir);
    assert_eq!(held.status.code(), Some(0), "{}", stdout_of(&held));
    assert!(stdout_of(&held).starts_with("verdict PASS on every CPU: "), "{}", stdout_of(&held));
}

#[test]
fn one_late_cpu_of_a_bench_fails_its_tuning_and_is_named_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    benched(dir, 900);
    let shown = onbeat(&["report"], dir);
    assert_eq!(shown.status.code(), Some(1), "{}", String::from_utf8_lossy(&shown.stderr));
    let said = stdout_of(&shown);
    assert!(said.starts_with("verdict FAIL with any tuning: "), "{said}");
    assert!(said.contains("worst on CPU 1, 900 of 20,000 late"), "{said}");
    assert!(said.contains("worst CPU 1 (P with no added load): "), "{said}");

    let json = json_of(&onbeat(&["report", "--json"], dir));
    assert_eq!(json["verdict"]["best"]["cpu"], 1);
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| &cell["cpu"]).collect::<Vec<_>>(), [0, 1]);
    let of_p = cells[1]["cpus"].as_array().unwrap();
    assert_eq!(of_p.iter().map(|of| &of["outcome"]).collect::<Vec<_>>(), ["PASS", "FAIL", "PASS"]);
    let (on_page, files) = page_of(dir);
    assert_eq!(on_page["cells"][1]["cpus"], cells[1]["cpus"]);
    assert_eq!(files.len(), 1 + 2 * CPUS.len(), "the panels draw every file: {files:?}");

    let gated = onbeat(&["gate", "--limit", "100us", "--at", "99"], dir);
    assert_eq!(gated.status.code(), Some(1), "{}", stdout_of(&gated));

    benched(dir, 6);
    let held = onbeat(&["report"], dir);
    assert_eq!(held.status.code(), Some(0), "{}", stdout_of(&held));
    assert!(stdout_of(&held).starts_with("verdict PASS with P: "), "{}", stdout_of(&held));
}
