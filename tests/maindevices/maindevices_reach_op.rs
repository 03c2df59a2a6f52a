//! MainDevices that know nothing of onbeat run the simulated humanoid over a pair of network interfaces.
//!
//! The pair is made in a network namespace of its own, which takes root; pysoem is installed below `target/` on the first run, which
//! needs the network then. Where something is missing, the test is counted as ignored, with the reason in its line.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;

const CYCLES: u64 = 10_000;

fn main() -> ExitCode {
    let name = "pysoem_brings_all_59_devices_to_op_and_sees_the_exact_working_counter_for_ten_thousand_cycles";
    let test = Trial::ignorable_test(name, || match equip() {
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(python) => {
            pysoem_cycles(&python);
            Ok(Completion::Completed)
        }
    });
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}

fn pysoem_cycles(python: &Path) {
    let script = root().join("tests/maindevices/pysoem_cycles.py");
    let run = Command::new("unshare")
        .arg("--net")
        .arg(python)
        .arg(script)
        .args([env!("CARGO_BIN_EXE_onbeat"), &CYCLES.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&told["devices"], &told["listed"]), (&59.into(), &59.into()), "{told}");
    assert_eq!(told["expected"], 48 * 3 + 8 * 3 + 3, "{told}");
    // A reply that this machine was too slow for is not a wrong one.
    assert_eq!(told["others"], Value::Array(Vec::new()), "{told}");
    let (exact, lost) = (told["exact"].as_u64().unwrap(), told["lost"].as_u64().unwrap());
    assert_eq!(exact + lost, CYCLES, "{told}");
    assert!(lost * 10 <= CYCLES, "{told}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Python with pysoem, and the right to make interfaces.
fn equip() -> Result<PathBuf, String> {
    let isolated = Command::new("unshare").args(["--net", "ip", "link", "add", "name", "a", "type", "veth"]).output();
    if !isolated.is_ok_and(|output| output.status.success()) {
        return Err("no network namespace with a veth pair can be made here; it takes root, unshare and ip".to_owned());
    }
    let place = root().join("target/maindevices-venv");
    let program = place.join("bin/python");
    let works = || Command::new(&program).args(["-c", "import pysoem"]).output().is_ok_and(|one| one.status.success());
    if !works() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err("python3 with venv is not installed (package python3-venv)".to_owned());
        }
        let packages = root().join("tests/maindevices/requirements.txt");
        let _ = Command::new(&program).args(["-m", "pip", "install", "-q", "-r"]).arg(packages).output();
        if !works() {
            return Err("pysoem cannot be installed: no network, or no package for this Python".to_owned());
        }
    }
    Ok(program)
}
