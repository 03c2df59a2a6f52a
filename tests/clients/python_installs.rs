//! `pip install ./python` in a clean virtual environment gives the package and the program.
//!
//! Where Python, its venv or the network is missing, the test is counted as ignored, with the
//! reason in its line.
#![allow(clippy::unwrap_used)]

use crate::equipment;

use std::path::PathBuf;
use std::process::Command;

use equipment::{done, root, trial};
use libtest_mimic::Trial;

/// As an engineer types it, and what follows from it.
const BENCH: &str =
    "import onbeat; print(onbeat.bench(duration='10s', tunings=['none','S'], loads=['idle']).best)";
const OBJECTS: &str = "
import onbeat
run = onbeat.Run('onbeat-runs/latest')
assert {cell['tuning'] for cell in run.cells} == {'none', 'S'}, run.raw
assert run.cell('none', 'idle')['cycles'] > 0
taken = onbeat.measure(duration='1s', limit='1s', no_causes=True)
assert taken.verdict['sentence'], taken.raw
print(len(run.cells), onbeat.program.program())
";

pub(crate) fn trials() -> Vec<Trial> {
    let tests = [trial("python_installs::pip_installs_package_and_program", pip, benches)];
    Vec::from(tests)
}

/// Set to 1, it lets the test build the wheel, which builds the program again: some minutes.
const WANTED: &str = "ONBEAT_TEST_PIP";

/// Python of a clean virtual environment that can reach what a build needs.
fn pip() -> Result<PathBuf, String> {
    if std::env::var_os(WANTED).is_none() {
        return Err(format!(
            "the wheel takes minutes to build; run `make test-python` ({WANTED}=1)"
        ));
    }
    let place = root().canonicalize().unwrap().join("target/python-installs-venv");
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place).output();
    if !made.is_ok_and(|output| output.status.success()) {
        return Err("python3 with venv is not installed (package python3-venv)".to_owned());
    }
    let program = place.join("bin/python");
    let mut fetch = Command::new(&program);
    fetch.args(["-m", "pip", "install", "-q", "maturin>=1.7,<2", "numpy>=1.24"]);
    if !fetch.output().is_ok_and(|output| output.status.success()) {
        return Err("maturin and numpy cannot be installed: no network".to_owned());
    }
    Ok(program)
}

fn benches(installed: PathBuf) {
    let program = installed;
    let mut install = Command::new(&program);
    install.args(["-m", "pip", "install"]).arg(root().join("python"));
    done(install.env("MATURIN_PEP517_ARGS", "--profile dev"));

    let folder = tempfile::tempdir().unwrap();
    let python = |script: &str| {
        let mut run = Command::new(&program);
        run.args(["-c", script]).current_dir(folder.path()).env_remove("ONBEAT");
        String::from_utf8(done(run.env("ONBEAT_STATE_DIR", folder.path())).stdout).unwrap()
    };
    let best = python(BENCH);
    assert!(["none/idle", "S/idle", "None"].contains(&best.trim()), "{best}");
    let said = python(OBJECTS);
    assert_eq!(said.trim(), format!("2 {}", program.with_file_name("onbeat").display()));
}
