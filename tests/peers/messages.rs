//! Messages into Octave, Java and Python: rates, losses, ages, and what readers cost the writer. The
//! measuring is in `messages/run.py`, since the readers are not in Rust.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Length;
use crate::failure::Failure;
use crate::table::{Finding, Part};

pub(crate) fn run(length: Length) -> Result<Part, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let flood =
        built(&root, &["-p", "onbeat-control", "--example", "ring_flood"], "examples/ring_flood")?;
    let gateway = built(&root, &["-p", "onbeat-gateway"], "onbeat-gateway")?;
    let mut script = Command::new("python3");
    script.arg(root.join("tests/peers/messages/run.py")).args([flood, gateway]);
    if length == Length::Quick {
        script.arg("--quick");
    }

    let output = script.stderr(Stdio::inherit()).output().map_err(unstarted("python3"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut part = Part::alone("messages of 128 bytes to readers in other languages");
    for line in text.lines() {
        let Ok(found) = serde_json::from_str::<Value>(line) else { continue };
        let word = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        let finding = Finding::new(word("what"), word("measured"));
        part.add(match found["reached"].as_bool() {
            Some(reached) => finding.with_goal(word("goal"), reached),
            None => finding,
        });
    }
    match output.status.success() {
        true => Ok(part),
        false => Err(Failure::Ended {
            program: "messages/run.py".to_owned(),
            status: output.status,
            said: text.into_owned(),
        }),
    }
}

/// Builds a program that this benchmark does not contain; returns its file.
fn built(root: &Path, what: &[&str], file: &str) -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--quiet"]).args(what).current_dir(root);
    let status = build.status().map_err(unstarted("cargo"))?;
    if !status.success() {
        let program = format!("cargo build {}", what.join(" "));
        return Err(Failure::Ended { program, status, said: String::new() });
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("release").join(file))
}

fn unstarted(program: &str) -> impl FnOnce(io::Error) -> Failure {
    move |source| Failure::Start { program: program.to_owned(), source }
}
