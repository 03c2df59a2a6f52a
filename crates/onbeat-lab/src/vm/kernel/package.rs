//! Debian packages: found by name in a directory, downloaded when the caller allows it, unpacked as
//! far as a guest needs them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{compression, last};
use crate::vm::{VmError, WorkDirectory, process};

/// Where packages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageSource {
    /// Files `NAME_VERSION_ARCH.deb` in this directory; nothing is downloaded.
    Directory(PathBuf),
    /// `apt-get download`, into the work directory, when a package is not there yet.
    Download,
}

/// Modules that no guest here has devices for; they are most of a package.
const NOT_IN_A_GUEST: [&str; 7] = [
    "/kernel/sound/",
    "/kernel/drivers/gpu/",
    "/kernel/drivers/media/",
    "/kernel/drivers/infiniband/",
    "/kernel/drivers/net/wireless/",
    "/kernel/drivers/net/ethernet/mellanox/",
    "/kernel/drivers/staging/",
];

impl PackageSource {
    /// The file of a package. `downloads` is where downloaded packages are kept.
    pub(super) fn find(&self, package: &str, downloads: &Path) -> Result<PathBuf, VmError> {
        let directory = match self {
            Self::Directory(directory) => directory.as_path(),
            Self::Download => downloads,
        };
        if let Some(file) = newest_file(package, directory)? {
            return Ok(file);
        }

        if *self == Self::Download {
            download(package, downloads)?;
        }
        newest_file(package, directory)?.ok_or_else(|| VmError::PackageMissing {
            package: package.to_owned(),
            directory: directory.to_owned(),
        })
    }
}

/// The last file `PACKAGE_*.deb` of a directory in the order of names.
fn newest_file(package: &str, directory: &Path) -> Result<Option<PathBuf>, VmError> {
    let prefix = format!("{package}_");
    last(directory, |name| name.starts_with(&prefix) && name.ends_with(".deb"))
}

fn download(package: &str, into: &Path) -> Result<(), VmError> {
    let mut command = Command::new("apt-get");
    // Root downloads as root: the user _apt may not write to the work directory.
    command.args(["-q", "-o", "APT::Sandbox::User=root", "download", package]);
    let failed = |message| VmError::Download { package: package.to_owned(), message };
    process::run(command.current_dir(into), "apt", failed)
}

/// What is unpacked of a package, and which of those that it depends on belong to it: by the
/// beginnings of their names.
pub(super) struct PackageParts {
    is_wanted: fn(&str) -> bool,
    followed: &'static [&'static str],
}

/// Kernel, configuration and modules.
pub(super) const KERNEL: PackageParts =
    PackageParts { is_wanted, followed: &["linux-image-", "linux-binary-", "linux-modules-"] };
/// All of a kernel's headers.
pub(super) const HEADERS: PackageParts =
    PackageParts { is_wanted: |_| true, followed: &["linux-headers-", "linux-kbuild-"] };

impl PackageParts {
    /// Unpacks a package, and those of its own that it depends on, below `into`.
    pub(super) fn unpack(
        &self,
        package: &str,
        source: &PackageSource,
        work: &WorkDirectory,
        into: &Path,
    ) -> Result<(), VmError> {
        let mut waiting = vec![package.to_owned()];
        let mut done: Vec<String> = Vec::new();
        while let Some(next) = waiting.pop() {
            if !done.contains(&next) {
                let deb = source.find(&next, &work.packages())?;
                waiting.extend(unpack_one(&deb, into, self)?);
                done.push(next);
            }
        }
        Ok(())
    }
}

/// Unpacks the file of a package. Returns the packages of its own that it depends on.
fn unpack_one(deb: &Path, into: &Path, parts: &PackageParts) -> Result<Vec<String>, VmError> {
    let not_a_package = |reason: String| VmError::NotAPackage { path: deb.to_owned(), reason };
    let file = File::open(deb).map_err(VmError::reading(deb))?;
    let mut archive = ar::Archive::new(io::BufReader::new(file));
    let mut dependencies = None;
    let mut has_data = false;

    while let Some(member) = archive.next_entry() {
        let mut member = member.map_err(|error| not_a_package(error.to_string()))?;
        let name =
            String::from_utf8_lossy(member.header().identifier()).trim_end_matches('/').to_owned();
        if !name.starts_with("control.tar") && !name.starts_with("data.tar") {
            continue;
        }

        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).map_err(VmError::reading(deb))?;
        let unusable = |error: io::Error| not_a_package(format!("{name}: {error}"));
        let content = compression::reader(&bytes).map_err(unusable)?;
        if name.starts_with("control.tar") {
            let control = control_file(content).map_err(unusable)?;
            dependencies = Some(dependencies_on(&control, parts.followed));
        } else {
            unpack_data(content, into, parts.is_wanted).map_err(unusable)?;
            has_data = true;
        }
    }

    match dependencies {
        Some(dependencies) if has_data => Ok(dependencies),
        Some(_) => Err(not_a_package("no data.tar in it".to_owned())),
        None => Err(not_a_package("no control.tar in it".to_owned())),
    }
}

/// The text of the file `control`, empty when there is none.
fn control_file(tar: impl Read) -> io::Result<String> {
    let mut archive = tar::Archive::new(tar);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.path()?.file_name().is_some_and(|name| name == "control") {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            return Ok(text);
        }
    }

    Ok(String::new())
}

fn unpack_data(tar: impl Read, into: &Path, is_wanted: fn(&str) -> bool) -> io::Result<()> {
    let mut archive = tar::Archive::new(tar);
    archive.set_preserve_mtime(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        if is_wanted(path.trim_start_matches("./")) {
            // Refuses paths that lead out of the directory.
            entry.unpack_in(into)?;
        }
    }

    Ok(())
}

fn is_wanted(path: &str) -> bool {
    let of_boot = path.starts_with("boot/vmlinuz-") || path.starts_with("boot/config-");
    let module = path.starts_with("lib/modules/") || path.starts_with("usr/lib/modules/");
    of_boot || (module && !NOT_IN_A_GUEST.iter().any(|left_out| path.contains(left_out)))
}

/// Packages of the field `Depends` whose names begin like one of `followed`: the first alternative
/// of each, without its version.
fn dependencies_on(control: &str, followed: &[&str]) -> Vec<String> {
    let field = control.lines().find_map(|line| line.strip_prefix("Depends:")).unwrap_or_default();
    let names = field.split(',').filter_map(|one| one.split(['|', '(', ':']).next()).map(str::trim);
    let of_kernel = names.filter(|name| followed.iter().any(|prefix| name.starts_with(prefix)));
    of_kernel.map(str::to_owned).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *content).expect("an entry");
        }
        builder.into_inner().expect("a tar archive")
    }

    /// Writes a package without compression.
    pub(in super::super) fn write_deb(path: &Path, depends: &str, files: &[(&str, &[u8])]) {
        let control =
            tar_of(&[("./control", format!("Package: x\nDepends: {depends}\n").as_bytes())]);
        let data = tar_of(files);
        let mut archive = ar::Builder::new(File::create(path).expect("a file"));
        for (name, content) in
            [("debian-binary", b"2.0\n".to_vec()), ("control.tar", control), ("data.tar", data)]
        {
            let header = ar::Header::new(name.as_bytes().to_vec(), content.len() as u64);
            archive.append(&header, content.as_slice()).expect("a member");
        }
    }

    #[test]
    fn kernel_and_modules_are_unpacked_and_the_rest_is_left_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let deb = directory.path().join("linux-image-6_1_amd64.deb");
        let depends = "kmod, linux-base (>= 4.3~), linux-binary-6 (= 6.1), linux-modules-6:amd64 | linux-modules-7";
        let files: [(&str, &[u8]); 4] = [
            ("./boot/vmlinuz-6", b"kernel"),
            ("./usr/share/doc/x", b"text"),
            ("./usr/lib/modules/6/kernel/fs/a.ko", b"module"),
            ("./usr/lib/modules/6/kernel/sound/b.ko", b"module"),
        ];
        write_deb(&deb, depends, &files);

        let into = directory.path().join("tree");
        fs::create_dir(&into).expect("a directory");
        let follows = unpack_one(&deb, &into, &KERNEL).expect("a package");
        assert_eq!(follows, ["linux-binary-6", "linux-modules-6"]);
        assert_eq!(fs::read(into.join("boot/vmlinuz-6")).expect("the kernel"), b"kernel");
        assert!(into.join("usr/lib/modules/6/kernel/fs/a.ko").exists());
        assert!(!into.join("usr/lib/modules/6/kernel/sound").exists());
        assert!(!into.join("usr/share").exists());
    }

    #[test]
    fn a_package_that_is_not_there_is_named_with_the_command_that_brings_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let source = PackageSource::Directory(directory.path().to_owned());
        let missing = source
            .find("linux-image-x", directory.path())
            .expect_err("an empty directory")
            .to_string();
        assert!(missing.contains("apt-get download linux-image-x"), "{missing}");

        fs::write(directory.path().join("linux-image-x-dbg_2_amd64.deb"), b"")
            .expect("another package");
        fs::write(directory.path().join("linux-image-x_1_amd64.deb"), b"").expect("a package");
        let found = source.find("linux-image-x", directory.path()).expect("the package");
        assert!(found.ends_with("linux-image-x_1_amd64.deb"));
    }

    #[test]
    fn a_file_that_is_not_a_package_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let deb = directory.path().join("x_1_amd64.deb");
        fs::write(&deb, b"text").expect("a file");
        let refused = unpack_one(&deb, directory.path(), &KERNEL).expect_err("not a package");
        let refused = refused.to_string();
        assert!(refused.contains("is not a Debian package"), "{refused}");
    }
}
