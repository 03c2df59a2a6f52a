//! MainDevices that know nothing of onbeat run the simulated humanoid over a pair of network interfaces.
//!
//! The pair is made in a network namespace of its own, which takes root; pysoem and KickCAT are installed below `target/` on the first
//! run, which needs the network then. Where something is missing, the test is counted as ignored, with the reason in its line.
//!
//! MainDevice and devices run at the highest ordinary priority: the libraries give up when a reply of theirs comes late, and other work
//! on the machine must not decide whether one does.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Completion, Trial};
use serde_json::Value;

const CYCLES: u64 = 10_000;

/// A test that gets the Python that has the MainDevices.
type Check = fn(&Path);

const CHECKS: [(&str, Check); 5] = [
    ("what_a_library_prints_is_not_taken_for_the_result", a_library_that_prints),
    (
        "pysoem_brings_all_59_devices_to_op_and_sees_the_exact_working_counter_for_ten_thousand_cycles",
        all_59_devices_in_op_by_pysoem,
    ),
    ("kickcat_brings_all_59_devices_to_op_and_finds_each_working_counter_right", all_59_devices_in_op_by_kickcat),
    ("the_cable_redundancy_of_pysoem_keeps_a_ring_in_op_through_a_cut", a_ring_through_a_cut),
    ("a_robot_that_pysoem_shares_the_cable_with_stops_and_says_why", a_robot_beside_another_main_device),
];

fn main() -> ExitCode {
    let tests = CHECKS.map(|(name, check)| {
        Trial::ignorable_test(name, move || match equip() {
            Err(reason) => Ok(Completion::ignored_with(reason)),
            Ok(python) => {
                check(&python);
                Ok(Completion::Completed)
            }
        })
    });

    let mut arguments = Arguments::from_args();
    // They install what they need, and take time.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, tests.into()).exit_code()
}

fn a_library_that_prints(python: &Path) {
    const SCRIPT: &str = "import ctypes, segment\n\
        write_result = segment.result_alone()\n\
        c = ctypes.CDLL(None)\n\
        c.printf(b'written when the process ends')\n\
        c.puts(b'')\n\
        write_result({'exact': 7})\n";
    let mut command = Command::new(python);
    let run = command.args(["-B", "-c", SCRIPT]).env("PYTHONPATH", root().join("tests/maindevices")).output().unwrap();

    assert_eq!(result(&run)["exact"], 7);
    assert_eq!(String::from_utf8_lossy(&run.stderr), "written when the process ends\n");
}

fn all_59_devices_in_op_by_pysoem(python: &Path) {
    let told = cycles(python, "pysoem_cycles.py", CYCLES, &[]);
    assert_eq!((&told["devices"], &told["listed"]), (&59.into(), &59.into()), "{told}");
    assert_eq!(told["expected"], 48 * 3 + 8 * 3 + 3, "{told}");
    // A reply that this machine was too slow for is not a wrong one.
    assert_eq!(told["others"], Value::Array(Vec::new()), "{told}");
    let (exact, lost) = (told["exact"].as_u64().unwrap(), told["lost"].as_u64().unwrap());

    assert_eq!(exact + lost, CYCLES, "{told}");
    assert!(lost * 10 <= CYCLES, "{told}");
}

fn all_59_devices_in_op_by_kickcat(python: &Path) {
    let told = cycles(python, "kickcat_cycles.py", CYCLES, &[]);
    assert_eq!((&told["devices"], &told["vendor"]), (&59.into(), &0xf1c7_1005u32.into()), "{told}");
    // It refuses a wrong working counter and a reply that comes too late alike; nothing may be wrong for long.
    assert!(told["exact"].as_u64().unwrap() * 10 >= CYCLES * 9, "{told}");
}

fn a_ring_through_a_cut(python: &Path) {
    const DRIVES: u64 = 5;
    let file = root().join("tests/maindevices/ring.toml");
    let told = cycles(python, "pysoem_cycles.py", CYCLES / 3, &["--ring", file.to_str().unwrap()]);
    assert_eq!((&told["devices"], &told["expected"]), (&DRIVES.into(), &(3 * DRIVES).into()), "{told}");
    // What was on its way when the cable was cut, or when it was whole again, and what came too late.
    let exact = told["exact"].as_u64().unwrap();

    assert!(exact * 10 >= CYCLES / 3 * 9, "{told}");
    assert!(told["others"].as_array().unwrap().len() <= 2, "{told}");
}

/// Six drives that nothing distinguishes get other stations while they walk. Without a look at who is who, set-points of one would reach
/// another afterwards.
fn a_robot_beside_another_main_device(python: &Path) {
    let room = tempfile::tempdir().unwrap();
    let [script, file] = ["foreign.py", "six.toml"].map(|name| root().join("tests/maindevices").join(name));
    let mut command = Command::new("nice");
    command.args(["-n", "-20", "unshare", "--net"]).arg(python).arg("-B").arg(script);
    command.arg(env!("CARGO_BIN_EXE_onbeat")).arg(file);
    command.env("ONBEAT_STATE_DIR", room.path().join("state")).current_dir(room.path());
    let told = result(&command.output().unwrap());
    let said = told["said"].as_str().unwrap();

    assert_eq!(told["found"], 6, "{said}");
    assert_eq!(told["states"], Value::from(vec![1; 6]), "none is in OP again: nothing proves which is which: {said}");
    for sentence in [
        ": another MainDevice uses the same interface, 1 of its frames so far; end one of the two",
        ": safe stop: ",
        ": j3: it may have changed places with one like it",
    ] {
        assert_eq!(said.matches(sentence).count(), 1, "{sentence}: {said}");
    }

    assert_eq!(told["status"], 1, "{said}");
}

/// The result of a script, from a network namespace of its own.
fn cycles(python: &Path, script: &str, count: u64, others: &[&str]) -> Value {
    let script = root().join("tests/maindevices").join(script);
    let mut command = Command::new("nice");
    command.args(["-n", "-20", "unshare", "--net"]).arg(python).arg("-B").arg(script);
    command.args([env!("CARGO_BIN_EXE_onbeat"), &count.to_string()]).args(others);
    result(&command.output().unwrap())
}

/// The whole standard output of a script.
fn result(run: &Output) -> Value {
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}");
    serde_json::from_slice(&run.stdout).unwrap_or_else(|why| panic!("no JSON alone ({why}): {said}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A Python with the MainDevices, and the right to make interfaces.
fn equip() -> Result<PathBuf, String> {
    let isolated = Command::new("unshare").args(["--net", "ip", "link", "add", "name", "a", "type", "veth"]).output();
    if !isolated.is_ok_and(|output| output.status.success()) {
        return Err("no network namespace with a veth pair can be made here; it takes root, unshare and ip".to_owned());
    }

    let place = root().join("target/maindevices-venv");
    let program = place.join("bin/python");
    let works =
        || Command::new(&program).args(["-c", "import kickcat, pysoem"]).output().is_ok_and(|one| one.status.success());
    if !works() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err("python3 with venv is not installed (package python3-venv)".to_owned());
        }

        let packages = root().join("tests/maindevices/requirements.txt");
        let _ = Command::new(&program).args(["-m", "pip", "install", "-q", "-r"]).arg(packages).output();
        if !works() {
            return Err("pysoem and kickcat cannot be installed: no network, or no package for this Python".to_owned());
        }
    }

    Ok(program)
}
