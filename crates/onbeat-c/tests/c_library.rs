//! The C library as a new user has it: installed, found with pkg-config, linked as shared and as
//! static library, in C and C++.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use onbeat::record::RunFile;
use onbeat_c::last_error::{onbeat_last_error, without_panic};
use onbeat_c::ring::hash_of;
use serde_json::Value;

/// Languages of the header, each with its compiler flags.
const DIALECTS: [(&str, &[&str]); 3] = [
    ("cc", &["-std=c11", "-xc"]),
    ("cc", &["-std=gnu17", "-Wpedantic", "-xc"]),
    ("c++", &["-std=c++17", "-Wpedantic", "-xc++"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

fn words(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

/// The library, its header and its pkg-config file, installed below a folder.
struct Installed(tempfile::TempDir);

impl Installed {
    fn new() -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        // Beside the tests, cargo has put the library that they belong to.
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let mut install = Command::new("sh");
        install.arg(root().join("scripts/install.sh")).arg("library").env("BUILT", folder);
        done(install.env("PREFIX", own.0.path()));
        own
    }

    fn flags(&self, options: &[&str]) -> Vec<String> {
        let mut ask = Command::new("pkg-config");
        ask.args(options).arg("onbeat");
        words(&done(ask.env("PKG_CONFIG_PATH", self.0.path().join("lib/pkgconfig"))))
    }

    /// Compiles the program of this test; returns its path.
    fn compiled(&self, (compiler, dialect): (&str, &[&str]), link: &[String]) -> PathBuf {
        let program = self.0.path().join("loops");
        let mut compile = Command::new(compiler);
        compile.args(dialect).args(["-O1", "-Wall", "-Wextra", "-Werror"]);
        compile.arg(root().join("crates/onbeat-c/tests/c_library/loops.c"));
        compile.args(["-x", "none"]).args(self.flags(&["--cflags"])).args(link);
        done(compile.arg("-o").arg(&program));
        program
    }

    fn library(&self) -> PathBuf {
        self.0.path().join("lib")
    }
}

fn has_tools() -> bool {
    let missing = ["cc", "c++", "pkg-config"]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_err());
    if let Some(program) = missing {
        eprintln!("skipped: {program} is not installed (packages g++ and pkg-config)");
    }
    missing.is_none()
}

/// Runs the program; returns its lines by their names.
fn said(program: &Path, installed: &Installed, number: usize) -> (Vec<Value>, PathBuf) {
    let file = installed.0.path().join(format!("loop-{number}.onbeat.hlog"));
    let channel = format!("c-library-{}/numbers-{number}", std::process::id());
    let mut command = Command::new(program);
    command.arg(&file).arg(channel).env("LD_LIBRARY_PATH", installed.library());
    let output = done(&mut command);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")));
    (lines.collect(), file)
}

fn line<'l>(lines: &'l [Value], name: &str) -> &'l Value {
    lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name}: {lines:?}"))
}

fn number(line: &Value, key: &str) -> u64 {
    line[key].as_u64().unwrap_or_else(|| panic!("{key}: {line}"))
}

#[test]
fn c_and_cpp_run_loops_and_publish_records_with_the_shared_library() {
    if !has_tools() {
        return;
    }
    let installed = Installed::new();
    let link = installed.flags(&["--libs"]);
    for (place, dialect) in DIALECTS.into_iter().enumerate() {
        let program = installed.compiled(dialect, &link);
        let (lines, file) = said(&program, &installed, place);
        check_loops(&lines, &file);
        check_ring(&lines);
        check_delayed_lock(&lines);
    }

    let needed = done(
        Command::new("ldd")
            .arg(installed.0.path().join("loops"))
            .env("LD_LIBRARY_PATH", installed.library()),
    );
    assert!(words(&needed).contains(&"libonbeat.so.0".to_owned()), "{needed:?}");
}

#[test]
fn c_runs_loops_with_the_static_library() {
    if !has_tools() {
        return;
    }
    let installed = Installed::new();
    let mut link = vec![installed.library().join("libonbeat.a").to_string_lossy().into_owned()];
    let private = installed.flags(&["--static", "--libs-only-l"]);
    link.extend(private.into_iter().filter(|word| word != "-lonbeat"));
    let program = installed.compiled(DIALECTS[0], &link);
    std::fs::remove_file(installed.library().join("libonbeat.so.0")).unwrap();
    let (lines, file) = said(&program, &installed, 9);
    check_loops(&lines, &file);
    check_ring(&lines);
}

fn check_loops(lines: &[Value], file: &Path) {
    let complete = line(lines, "complete");
    assert_eq!((complete["result"].as_i64(), number(complete, "releases")), (Some(0), 200));
    let [cycles, skipped, lost] = ["cycles", "skipped", "lost"].map(|key| number(complete, key));
    assert_eq!(cycles + skipped + lost, 200, "{complete}");
    assert_eq!((number(complete, "called"), number(complete, "ended")), (cycles + lost, 1));
    assert!(RunFile::read(file).unwrap().is_complete());

    let exists = line(lines, "exists");
    assert_eq!((exists["result"].as_i64(), number(exists, "called")), (Some(-3), 0));
    assert!(exists["sentence"].as_str().unwrap().contains(&file.display().to_string()), "{exists}");

    let stopped = line(lines, "stopped");
    assert_eq!((number(stopped, "called"), number(stopped, "ended")), (10, 2));
    assert_eq!(
        number(stopped, "steps_ns"),
        (number(stopped, "last_index") + 1) * 1_000_000,
        "whole periods, from the first release to the one served last"
    );
    assert!(number(stopped, "releases") > number(stopped, "last_index"), "{stopped}");
    let failed = line(lines, "failed");
    assert_eq!((number(failed, "called"), number(failed, "ended")), (10, 2));
    let overrun = line(lines, "overrun");
    assert_eq!((number(overrun, "called"), number(overrun, "ended")), (1, 3));

    let refused = |name: &str, result: i64, word: &str| {
        let line = line(lines, name);
        assert_eq!(line["result"].as_i64(), Some(result), "{line}");
        assert_eq!((number(line, "releases"), number(line, "ended")), (0, 0), "{line}");
        assert!(line["sentence"].as_str().unwrap().contains(word), "{line}");
    };
    refused("policy", -1, "on_overrun is 7");
    refused("period", -4, "the period is 0");

    let priority = line(lines, "priority");
    assert_eq!((priority["result"].as_i64(), number(priority, "ended")), (Some(0), 1));
    let sentence = priority["sentence"].as_str().unwrap();
    assert_eq!(number(priority, "refused") > 0, sentence.contains("without"), "{priority}");
    let null = line(lines, "null");
    assert_eq!((null["result"].as_i64(), null["version"].as_i64()), (Some(-1), Some(-1)));
}

fn check_ring(lines: &[Value]) {
    let second = line(lines, "second");
    assert_eq!(second["refused"].as_bool(), Some(true));
    assert!(second["sentence"].as_str().unwrap().contains("writes c-library-"), "{second}");

    let ring = line(lines, "ring");
    assert_eq!((number(ring, "number"), number(ring, "too_long")), (1, 0));
    assert_eq!((number(ring, "next"), number(ring, "at_ns")), (1, 5), "a record, with its time");
    assert_eq!(
        (ring["bytes"].as_str(), ring["type"].as_str()),
        (Some("position"), Some("example/Number"))
    );
    assert!(ring["hash"].as_str().unwrap().ends_with("0f0f0f0f"));
    assert_eq!(ring["forked"].as_i64(), Some(0), "a forked process does not end the ring");
    assert_eq!(ring["ended"].as_i64(), Some(-3), "readers learn of the end");
    assert_eq!((number(ring, "foreign"), number(ring, "last")), (2, 2), "nothing was written");
}

/// 0 entered, 1 held, 2 too near.
fn check_delayed_lock(lines: &[Value]) {
    let lock = line(lines, "delayed");
    let results = ["free", "held", "short", "long", "loop", "second", "withdrawn", "null"];
    assert_eq!(results.map(|key| number(lock, key)), [0, 1, 0, 2, 0, 1, 0, 1], "{lock}");
}

#[test]
fn the_header_declares_every_function_of_the_library() {
    let header = std::fs::read_to_string(root().join("include/onbeat.h")).unwrap();
    let mut found = 0;
    for module in ["delayed_lock", "last_error", "ring", "run_loop"] {
        let path = root().join(format!("crates/onbeat-c/src/{module}.rs"));
        let source = std::fs::read_to_string(path).unwrap();
        for after in source.split("extern \"C\" fn onbeat_").skip(1) {
            let name = format!("onbeat_{}(", after.split('(').next().unwrap());
            assert!(header.contains(&name), "the header has no {name}");
            found += 1;
        }
    }
    assert_eq!(found, 11);
}

#[allow(unsafe_code)]
fn last_error() -> String {
    // SAFETY: the pointer is valid until the next call in this thread.
    unsafe { CStr::from_ptr(onbeat_last_error()) }.to_string_lossy().into_owned()
}

#[test]
fn a_panic_becomes_a_failure_with_a_sentence() {
    assert_eq!(without_panic(-5, || panic!("planted")), -5);
    assert!(last_error().contains("a bug in onbeat"));
    assert_eq!(without_panic(-5, || 0), 0);
    assert_eq!(last_error(), "");
}

#[test]
fn a_hash_is_32_bytes_in_the_notation_of_ros_2() {
    let word = format!("RIHS01_{}", "0f".repeat(32));
    assert_eq!(hash_of(&word), Ok([15; 32]));
    assert_eq!(hash_of(""), Ok([0; 32]));
    assert!(hash_of("RIHS01_0f").is_err() && hash_of(&word.replace('f', "x")).is_err());
}
