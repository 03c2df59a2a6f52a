//! The firmware of `firmware/` answers in QEMU: built here, run by its own test, `make firmware-test`.
//!
//! Ignored, with the reason in its line, where compiler, QEMU, root or lwIP's source package are missing.

use std::process::{Command, Output};

use libtest_mimic::Trial;

use crate::equipment::{root, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "firmware_in_qemu::every_packet_and_edge_is_answered_in_order",
        built,
        every_packet_and_edge_is_answered_in_order,
    )]
}

/// The test of the built firmware; `Err` says what is missing.
fn built() -> Result<Command, String> {
    if Command::new("arm-none-eabi-gcc").arg("--version").output().is_err() {
        return Err("arm-none-eabi-gcc is not installed (package gcc-arm-none-eabi)".to_owned());
    }
    let target = root().join("target/firmware");
    let fetched = Command::new("sh").arg(root().join("firmware/lwip.sh")).arg(&target).output();
    let fetched = fetched.map_err(|why| why.to_string())?;
    if !fetched.status.success() {
        return Err(text(&fetched).lines().last().unwrap_or("lwIP is missing").to_owned());
    }
    let mut make = Command::new("make");
    let make = make.args(["test", "PACKETS=2000", "-C"]).arg(root().join("firmware")).output();
    let make = make.map_err(|_| "make is not installed (package make)".to_owned())?;
    assert!(make.status.success(), "{}", text(&make));

    let test = || {
        let mut test = Command::new("python3");
        test.arg(root().join("firmware/test.py")).arg(&target).arg(env!("CARGO_BIN_EXE_onbeat"));
        test
    };
    let asked = test().arg("--missing").output().map_err(|why| why.to_string())?;
    match String::from_utf8_lossy(&asked.stdout).trim().strip_prefix("skipped: ") {
        Some(why) => Err(why.to_owned()),
        None => {
            let mut test = test();
            test.arg("2000");
            Ok(test)
        }
    }
}

fn every_packet_and_edge_is_answered_in_order(mut test: Command) {
    let ran = test.output().unwrap();
    assert!(ran.status.success(), "{}", text(&ran));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("echo: 2,000 sent, 2,000 answered, 0 lost, in order"), "{said}");
    assert!(said.contains("lockstep: 2,000 requests, 2,000 answers"), "{said}");
    assert!(said.ends_with("firmware: all passed\n"), "{said}");
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
