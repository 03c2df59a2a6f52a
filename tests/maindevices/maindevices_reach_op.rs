//! Independent MainDevices run the simulated humanoid over a pair of network interfaces.
//!
//! The pair is created in a private network namespace, which needs root; pysoem and KickCAT are
//! installed below `target/` in the first run, which needs the network. If something is missing,
//! the test is ignored and its line has the reason.
//!
//! MainDevice and devices run at the highest non-real-time priority: the libraries fail when a
//! reply is late, and other work on the machine must not cause that.
#![allow(clippy::unwrap_used)]

mod corpus;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Completion, Trial};
use serde_json::Value;

const CYCLES: u64 = 10_000;

/// A test; gets the Python interpreter with the MainDevices.
type Check = fn(&Path);

const CHECKS: [(&str, Check); 6] = [
    ("output_of_a_library_is_not_part_of_the_result", a_library_that_prints),
    (
        "pysoem_brings_all_59_devices_to_op_and_sees_the_exact_working_counter_for_ten_thousand_cycles",
        all_59_devices_in_op_by_pysoem,
    ),
    (
        "kickcat_brings_all_59_devices_to_op_with_correct_working_counters",
        all_59_devices_in_op_by_kickcat,
    ),
    (
        "pysoem_and_onbeat_bring_each_generated_device_to_op_with_its_chosen_pdos_and_slots",
        each_generated_device_in_op,
    ),
    ("the_cable_redundancy_of_pysoem_keeps_a_ring_in_op_through_a_cut", a_ring_through_a_cut),
    (
        "a_robot_stops_with_a_reason_when_pysoem_uses_the_same_cable",
        a_robot_beside_another_main_device,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let tests = CHECKS.map(|(name, check)| {
        Trial::ignorable_test(format!("maindevices_reach_op::{name}"), move || match equip() {
            Err(reason) => Ok(Completion::ignored_with(reason)),
            Ok(python) => {
                check(&python);
                Ok(Completion::Completed)
            }
        })
    });

    tests.into()
}

fn a_library_that_prints(python: &Path) {
    const SCRIPT: &str = "import ctypes, segment\n\
        write_result = segment.result_alone()\n\
        c = ctypes.CDLL(None)\n\
        c.printf(b'written when the process ends')\n\
        c.puts(b'')\n\
        write_result({'exact': 7})\n";
    let mut command = Command::new(python);
    let run = command
        .args(["-B", "-c", SCRIPT])
        .env("PYTHONPATH", root().join("tests/maindevices"))
        .output()
        .unwrap();

    assert_eq!(result(&run)["exact"], 7);
    assert_eq!(String::from_utf8_lossy(&run.stderr), "written when the process ends\n");
}

fn all_59_devices_in_op_by_pysoem(python: &Path) {
    let result = cycles(python, "pysoem_cycles.py", CYCLES, &[]);
    assert_eq!((&result["devices"], &result["listed"]), (&59.into(), &59.into()), "{result}");
    assert_eq!(result["expected"], 48 * 3 + 8 * 3 + 3, "{result}");
    // A reply that is lost because the machine is busy is not a wrong one.
    assert_eq!(result["others"], Value::Array(Vec::new()), "{result}");
    let exact = result["exact"].as_u64().unwrap();
    let lost = result["lost"].as_u64().unwrap();

    assert_eq!(exact + lost, CYCLES, "{result}");
    assert!(lost * 10 <= CYCLES, "{result}");
}

fn all_59_devices_in_op_by_kickcat(python: &Path) {
    let result = cycles(python, "kickcat_cycles.py", CYCLES, &[]);
    assert_eq!(
        (&result["devices"], &result["vendor"]),
        (&59.into(), &0xf1c7_1005u32.into()),
        "{result}"
    );
    // KickCAT does not distinguish a wrong working counter from a late reply; few cycles may have
    // either.
    assert!(result["exact"].as_u64().unwrap() * 10 >= CYCLES * 9, "{result}");
}

fn each_generated_device_in_op(python: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let cases = corpus::written_to(folder.path());
    let list = folder.path().join("cases.json");
    std::fs::write(&list, serde_json::to_string(&cases).unwrap()).unwrap();
    let mut command = Command::new("nice");
    command.args(["-n", "-20", "unshare", "--net"]).arg(python).arg("-B");
    command.arg(root().join("tests/maindevices/pysoem_corpus.py"));
    command.arg(env!("CARGO_BIN_EXE_onbeat")).arg(&list);
    let results = result(&command.output().unwrap());

    let results = results.as_array().unwrap();
    assert_eq!(results.len(), cases.len());
    for (case, result) in cases.iter().zip(results) {
        let name = &case["name"];
        let lengths = serde_json::json!([case["outputs"], case["inputs"]]);
        assert_eq!(result["found"], 2, "{name}: {result}");
        assert_eq!(result["wrong"], serde_json::json!([]), "{name}: {result}");
        assert!(result["exact"].as_u64().unwrap() >= 40, "{name}: {result}");
        assert_eq!(result["lengths"], serde_json::json!([lengths, lengths]), "{name}");
    }
}

fn a_ring_through_a_cut(python: &Path) {
    const DRIVES: u64 = 5;
    let file = root().join("tests/maindevices/ring.toml");
    let result =
        cycles(python, "pysoem_cycles.py", CYCLES / 3, &["--ring", file.to_str().unwrap()]);
    assert_eq!(
        (&result["devices"], &result["expected"]),
        (&DRIVES.into(), &(3 * DRIVES).into()),
        "{result}"
    );
    // Exceptions: frames in flight when the cable was cut or repaired, and late replies.
    let exact = result["exact"].as_u64().unwrap();

    assert!(exact * 10 >= CYCLES / 3 * 9, "{result}");
    assert!(result["others"].as_array().unwrap().len() <= 2, "{result}");
}

/// Six identical drives get other station addresses while the robot moves. Without identification,
/// set-points of one would reach another afterwards.
fn a_robot_beside_another_main_device(python: &Path) {
    let room = tempfile::tempdir().unwrap();
    let [script, file] =
        ["foreign.py", "six.toml"].map(|name| root().join("tests/maindevices").join(name));
    let mut command = Command::new("nice");
    command.args(["-n", "-20", "unshare", "--net"]).arg(python).arg("-B").arg(script);
    command.arg(env!("CARGO_BIN_EXE_onbeat")).arg(file);
    command.env("ONBEAT_STATE_DIR", room.path().join("state")).current_dir(room.path());
    let result = result(&command.output().unwrap());
    let said = result["said"].as_str().unwrap();

    assert_eq!(result["found"], 6, "{said}");
    // In INIT by the robot, or in PREOP where the other MainDevice was not done when the robot judged.
    let states: Vec<u64> =
        result["states"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert!(
        states.len() == 6 && states.iter().all(|state| [1, 2].contains(state)),
        "none returns to OP, because their positions are not proven: {states:?} {said}"
    );
    for sentence in [
        ": another MainDevice uses the same interface, 1 of its frames so far; end one of the two",
        ": safe stop: ",
        ": j3: it may have changed places with one like it",
    ] {
        assert_eq!(said.matches(sentence).count(), 1, "{sentence}: {said}");
    }

    assert_eq!(result["status"], 1, "{said}");
}

/// Runs a script in a private network namespace and returns its result.
fn cycles(python: &Path, script: &str, count: u64, others: &[&str]) -> Value {
    let script = root().join("tests/maindevices").join(script);
    let mut command = Command::new("nice");
    command.args(["-n", "-20", "unshare", "--net"]).arg(python).arg("-B").arg(script);
    command.args([env!("CARGO_BIN_EXE_onbeat"), &count.to_string()]).args(others);
    result(&command.output().unwrap())
}

/// Parses the standard output of a script.
fn result(run: &Output) -> Value {
    let said =
        format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}");
    serde_json::from_slice(&run.stdout)
        .unwrap_or_else(|why| panic!("the output is not one JSON value ({why}): {said}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a Python interpreter with the MainDevices, or the reason why the tests cannot run.
fn equip() -> Result<PathBuf, String> {
    let isolated = Command::new("unshare")
        .args(["--net", "ip", "link", "add", "name", "a", "type", "veth"])
        .output();
    if !isolated.is_ok_and(|output| output.status.success()) {
        return Err(
            "cannot create a veth pair in a network namespace; this needs root, unshare and ip"
                .to_owned(),
        );
    }

    let directory = root().join("target/maindevices-venv");
    let program = directory.join("bin/python");
    let works = || {
        Command::new(&program)
            .args(["-c", "import kickcat, pysoem"])
            .output()
            .is_ok_and(|one| one.status.success())
    };
    if !works() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&directory).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return Err("python3 with venv is not installed (package python3-venv)".to_owned());
        }

        let packages = root().join("tests/maindevices/requirements.txt");
        let _ = Command::new(&program)
            .args(["-m", "pip", "install", "-q", "-r"])
            .arg(packages)
            .output();
        if !works() {
            return Err(
                "pysoem and kickcat cannot be installed: no network, or no package for this Python"
                    .to_owned(),
            );
        }
    }

    Ok(program)
}
