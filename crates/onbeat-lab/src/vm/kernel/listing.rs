//! The kernels that a work directory has, and those that the package manager offers.

use std::fs;
use std::process::{Command, Stdio};

use super::{RELEASE, VMLINUX, names};
use crate::vm::{VmError, WorkDirectory};

/// Where a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelState {
    /// Ready to boot.
    Unpacked,
    /// A package in the work directory; it is unpacked on first use.
    Package,
}

/// A kernel of a work directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedKernel {
    /// Name of its package, or `image-` and a part of its checksum for one from a file.
    pub name: String,
    /// Version of the package; none for a kernel from a file.
    pub version: Option<String>,
    /// Release as `uname -r` prints it, once unpacked.
    pub release: Option<String>,
    /// Where it is.
    pub state: KernelState,
}

/// Returns the kernels that are unpacked, then the packages that are not, each by name.
///
/// # Errors
/// When the work directory cannot be read.
pub fn list_kernels(work: &WorkDirectory) -> Result<Vec<ListedKernel>, VmError> {
    let mut found: Vec<ListedKernel> = Vec::new();
    for name in names(&work.kernels())? {
        let tree = work.kernels().join(&name);
        if tree.join(VMLINUX).exists() {
            let release = fs::read_to_string(tree.join(RELEASE)).ok();
            found.push(listed(&name, release, KernelState::Unpacked));
        }
    }

    for name in names(&work.packages())? {
        let Some(package) = name.strip_suffix(".deb") else { continue };
        // The package that a meta-package depends on is unpacked with it.
        let unpacked = listed(package, None, KernelState::Package);
        if package.starts_with("linux-image-") && !found.iter().any(|other| holds(other, &unpacked))
        {
            found.push(unpacked);
        }
    }

    found.sort_by(|a, b| (a.state, &a.name).cmp(&(b.state, &b.name)));
    Ok(found)
}

/// Whether an unpacked kernel is this package, or comes from it.
fn holds(unpacked: &ListedKernel, package: &ListedKernel) -> bool {
    let of_release = unpacked.release.as_ref().map(|release| format!("linux-image-{release}"));
    let same = (&unpacked.name, &unpacked.version) == (&package.name, &package.version);
    same || of_release.is_some_and(|name| name == package.name)
}

fn listed(name: &str, release: Option<String>, state: KernelState) -> ListedKernel {
    let mut parts = name.split('_');
    let name = parts.next().unwrap_or_default().to_owned();
    // apt-get writes the colon of an epoch as %3a.
    let version = parts.next().map(|version| version.replace("%3a", ":"));
    ListedKernel { name, version, release, state }
}

/// Returns the kernel packages that this machine's package manager offers, by name; empty without
/// `apt-cache`. Reads the lists that the machine has, and downloads nothing.
#[must_use]
pub fn downloadable_kernels() -> Vec<String> {
    let mut command = Command::new("apt-cache");
    command.args(["pkgnames", "linux-image-"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    bootable(&String::from_utf8_lossy(&output))
}

/// The packages of these names that have a kernel for this processor, sorted.
fn bootable(names: &str) -> Vec<String> {
    const OTHER_CONTENT: [&str; 3] = ["-dbg", "-unsigned", "-template"];

    let is_bootable = |name: &&str| {
        name.ends_with("-amd64") && !OTHER_CONTENT.iter().any(|part| name.contains(part))
    };
    let mut names: Vec<String> = names.lines().filter(is_bootable).map(str::to_owned).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacked_kernels_come_first_and_their_packages_are_not_listed_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let work = WorkDirectory::open(directory.path()).expect("a work directory");
        let tree = work.kernels().join("linux-image-rt-amd64_6.1.158-1_amd64");
        fs::create_dir(&tree).expect("a tree");
        fs::write(tree.join(VMLINUX), b"").expect("a kernel");
        fs::write(tree.join(RELEASE), "6.1.0-41-rt-amd64").expect("its release");
        for package in [
            "linux-image-rt-amd64_6.1.158-1_amd64.deb",
            "linux-image-6.1.0-41-rt-amd64_6.1.158-1_amd64.deb",
            "linux-image-6.12-amd64_1%3a6.12-1_amd64.deb",
            "busybox_1_amd64.deb",
        ] {
            fs::write(work.packages().join(package), b"").expect("a package");
        }

        let found = list_kernels(&work).expect("a list");
        let names: Vec<&str> = found.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["linux-image-rt-amd64", "linux-image-6.12-amd64"]);
        assert_eq!(found[0].release.as_deref(), Some("6.1.0-41-rt-amd64"));
        assert_eq!(found[1].version.as_deref(), Some("1:6.12-1"));
        assert_eq!(found[1].state, KernelState::Package);
    }

    #[test]
    fn packages_without_a_kernel_for_this_processor_are_left_out() {
        let offered = "linux-image-rt-amd64\nlinux-image-6.1-rt-amd64-dbg\nlinux-image-686\nlinux-image-amd64\nlinux-image-6.1-amd64-unsigned\n";
        assert_eq!(bootable(offered), ["linux-image-amd64", "linux-image-rt-amd64"]);
    }
}
