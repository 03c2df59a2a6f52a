//! A GPIO chip for guests whose lines are wired in pairs, built against the headers of their
//! kernel: Debian's kernels have neither gpio-sim nor gpio-mockup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::package::{self, PackageSource};
use crate::vm::work_directory::hex_digest;
use crate::vm::{VmError, WorkDirectory, process};

const SOURCE: &str = include_str!("onbeat_wires.c");
/// The module's name.
pub(super) const NAME: &str = "onbeat_wires";

/// Returns the module for a kernel of this release, built on first use.
pub(super) fn module(
    release: &str,
    work: &WorkDirectory,
    source: &PackageSource,
) -> Result<Vec<u8>, VmError> {
    let built =
        work.kernels().join(format!("wires-{release}-{}", &hex_digest(SOURCE.as_bytes())[..8]));
    let file = format!("{NAME}.ko");
    work.create_whole(&built, |tree| {
        let headers = unpack_headers(release, work, source, tree)?;
        build(release, &headers, &tree.join("wires"))?;
        let from = tree.join("wires").join(&file);
        let to = tree.join(&file);
        fs::rename(&from, &to).map_err(VmError::writing(&to))?;
        // 80 MB that are needed once.
        for below in ["usr", "wires"] {
            let path = tree.join(below);
            fs::remove_dir_all(&path).map_err(VmError::writing(&path))?;
        }
        Ok(())
    })?;

    let path = built.join(&file);
    fs::read(&path).map_err(VmError::reading(&path))
}

/// Unpacks the headers of a kernel below `tree`. Returns their directory.
fn unpack_headers(
    release: &str,
    work: &WorkDirectory,
    source: &PackageSource,
    tree: &Path,
) -> Result<PathBuf, VmError> {
    let package = format!("linux-headers-{release}");
    package::HEADERS.unpack(&package, source, work, tree)?;
    let headers = tree.join("usr/src").join(&package);
    let config = headers.join(".config");
    let text = fs::read_to_string(&config).map_err(VmError::reading(&config))?;
    if !text.lines().any(|line| line == "CONFIG_GPIO_CDEV=y") {
        return Err(VmError::NoGpio { release: release.to_owned() });
    }

    // It includes the common headers where a package would be installed.
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(VmError::reading(&makefile))?;
    let here = format!("include {}/usr/src/", tree.display());
    fs::write(&makefile, text.replace("include /usr/src/", &here))
        .map_err(VmError::writing(&makefile))?;
    Ok(headers)
}

/// Builds the module in `directory`.
fn build(release: &str, headers: &Path, directory: &Path) -> Result<(), VmError> {
    fs::create_dir(directory).map_err(VmError::writing(directory))?;
    let files =
        [(format!("{NAME}.c"), SOURCE), ("Makefile".to_owned(), "obj-m := onbeat_wires.o\n")];
    for (name, text) in files {
        let path = directory.join(name);
        fs::write(&path, text).map_err(VmError::writing(&path))?;
    }

    let mut command = Command::new("make");
    command.arg("-C").arg(headers).arg(format!("M={}", directory.display()));
    // Debian names the compiler that built the kernel, which may not be installed.
    command.args(["CC=gcc", "modules"]);
    process::run(&mut command, "build-essential", |message| VmError::ModuleBuild {
        release: release.to_owned(),
        message,
    })
}
