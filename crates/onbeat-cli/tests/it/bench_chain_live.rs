//! A bench whose cells measure a chain through a bus: cycles from command to effect, predicted and
//! measured, in its summary and on its page.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use onbeat::record::RunFile;
use serde_json::{Value, json};

fn bench(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onbeat"))
        .current_dir(dir)
        .env("ONBEAT_STATE_DIR", dir.join("state"))
        .args(["bench", "--with", "chain", "--no-causes", "--quiet", "--loads", "idle"])
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn a_chain_of_devices_of_half_a_cycle_is_predicted_at_the_papers_three_to_four() {
    let dir = tempfile::tempdir().unwrap();
    let half = ["--period", "2ms", "--device-delay", "1ms", "--tunings", "none", "--for", "4s"];
    let output = bench(dir.path(), &[&half[..], &["--json"]].concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    let summary: Value = serde_json::from_slice(&output.stdout).expect(&complaint);

    for cell in summary["cells"].as_array().unwrap() {
        let chain = &cell["chain"];
        assert_eq!(chain["predicted"], json!([3.0, 4.0]), "{cell}");
        assert_eq!(chain["device_delay_ns"], 1_000_000);
        let of = |figure: &str| chain[figure].as_f64().unwrap();
        assert!(of("count") > 0.0 && of("min") <= of("p50") && of("p50") <= of("max"), "{chain}");
        assert_eq!(of("count"), cell["series"]["chain"]["count"].as_f64().unwrap());
        let file = dir.path().join("onbeat-runs/latest").join(cell["file"].as_str().unwrap());
        assert_eq!(RunFile::read(&file).unwrap().chain.unwrap().exchange, "pipelined");
    }

    // The page's data are packed; its script shows each cell's chain.
    let page = dir.path().join("onbeat-runs/latest/report.html");
    let unpacked = "grep -o 'H4sI[A-Za-z0-9+/=]*' \"$0\" | base64 -d | gzip -dc";
    let data = Command::new("sh").args(["-c", unpacked]).arg(&page).output().unwrap();
    let data = String::from_utf8(data.stdout).unwrap();
    assert_eq!(data.matches("\"chain\":{\"sensor\":").count(), 1, "one for each cell");
    assert!(fs::read_to_string(&page).unwrap().contains("Command to effect"));
}

#[test]
fn options_that_a_chain_has_no_use_for_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for option in [["--interface", "eth1"], ["--trajectory", "gait"], ["--to", "127.0.0.1"]] {
        let output = bench(dir.path(), &option);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(option[0]) && said.contains("chain"), "{said}");
    }
}
