//! `onbeat vm` where something is missing or wrong: one sentence with the way on, exit status 2.
//!
//! No guest is booted here; `make test-vm` boots them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `onbeat vm` with a work directory of the test's own and without any program to start.
fn vm(work: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onbeat"));
    command.arg("vm").args(words).arg("--work").arg(work.join("work"));
    command.current_dir(work).env("PATH", work).stdin(Stdio::null()).output().unwrap()
}

/// The one line of an error, without its beginning.
fn refused(work: &Path, words: &[&str]) -> String {
    let output = vm(work, words);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{words:?}: {errors}");
    errors.trim_end().strip_prefix("onbeat: ").unwrap_or(&errors).to_owned()
}

#[test]
fn a_list_without_qemu_and_kernels_names_the_packages_and_the_command() {
    let work = tempfile::tempdir().unwrap();
    let output = vm(work.path(), &["list"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("0 kernels"), "{text}");
    assert!(text.contains("onbeat vm build PACKAGE --download"), "{text}");
    // A table may break the sentence into lines of its own cell.
    assert!(text.contains("qemu-system-x86"), "{text}");

    let output = vm(work.path(), &["list", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["emulation"]["works"], false);
    assert_eq!(
        list["emulation"]["why_not"],
        "qemu-system-x86_64 is not installed: apt-get install qemu-system-x86"
    );
    assert_eq!(list["kvm"]["works"], false);
}

#[test]
fn a_kernel_that_is_not_here_is_not_downloaded_without_being_asked() {
    let work = tempfile::tempdir().unwrap();
    let error = refused(work.path(), &["run", "linux-image-x"]);
    assert!(error.starts_with("package linux-image-x is not in "), "{error}");
    assert!(
        error.ends_with("(apt-get download linux-image-x), or allow the download by --download"),
        "{error}"
    );

    let error = refused(work.path(), &["run", "linux-image-x", "--download"]);
    assert_eq!(error, "apt-get is not installed: apt-get install apt");
}

#[test]
fn a_file_that_is_not_a_kernel_and_modules_of_a_package_are_refused() {
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join("text"), "text").unwrap();
    let error = refused(work.path(), &["build", "./text"]);
    assert_eq!(
        error,
        "./text is not a bootable kernel: neither an ELF file nor an x86 kernel image"
    );
    let error = refused(work.path(), &["build", "linux-image-x", "--modules", "/lib/modules"]);
    assert!(error.contains("linux-image-x is a package, which brings its own"), "{error}");
}

#[test]
fn a_wrong_file_of_a_laboratory_is_named_with_line_and_column() {
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join("lab.toml"), "kernels = [\"k\"]\nseed = 3\n").unwrap();
    let error = refused(work.path(), &["lab", "lab.toml"]);
    assert!(error.starts_with("lab.toml: line 2, column 1: unknown field `seed`"), "{error}");
    let error = refused(work.path(), &["lab", "none.toml"]);
    assert!(error.starts_with("none.toml: cannot be read: No such file"), "{error}");
}
