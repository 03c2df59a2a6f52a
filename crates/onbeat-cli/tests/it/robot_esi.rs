//! A robot whose drives come from a vendor's ESI file beside its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const FILE: &str = r#"
[segment]
name = "vendor"
[types.servo]
esi = "servo.xml"
device = "joint"
[[devices]]
type = "servo"
names = ["hip", "knee"]
"#;

#[test]
fn a_robot_moves_drives_of_an_esi_file_beside_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let esi =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../onbeat-segment/tests/esi_files/servo.xml");
    fs::copy(esi, folder.path().join("servo.xml")).unwrap();
    let file = folder.path().join("robot.toml");
    fs::write(&file, FILE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.args(["robot", "run"]).arg(&file).args([
        "--for",
        "500ms",
        "--priority",
        "0",
        "--no-causes",
        "--json",
    ]);
    // Elsewhere than the file: the ESI file is looked for beside it.
    command
        .arg("--out")
        .arg(folder.path().join("runs"))
        .env("ONBEAT_STATE_DIR", folder.path())
        .current_dir("/");
    let output = command.output().unwrap();
    let said: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    let names: Vec<&str> = said["robot"]["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["name"].as_str().unwrap())
        .collect();

    assert_eq!(names, ["hip", "knee"]);
    assert!(
        said["robot"]["devices"]
            .as_array()
            .unwrap()
            .iter()
            .all(|device| device["joint"].is_object())
    );
    assert_eq!(said["robot"]["bus"]["expected"], 6, "each gives and takes process data");
}
