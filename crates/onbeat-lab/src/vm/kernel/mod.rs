//! Kernels that guests boot: from Debian packages by name, or from a file.
//!
//! A kernel is unpacked once, into the work directory, and booted directly from its ELF file (PVH):
//! software emulation needs seconds to decompress the usual image.

mod compression;
mod image;
mod listing;
mod modules;
mod package;
mod wires;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use onbeat_host::foreign;

pub use image::ImageError;
pub use listing::{KernelState, ListedKernel, downloadable_kernels, list_kernels};
pub use modules::{Module, ModuleError};
pub use package::PackageSource;

use modules::Modules;

use super::work_directory::hex_digest;
use super::{VmError, WorkDirectory};

/// Largest size of a kernel or an initrd, in bytes; a `vmlinux` with everything for a debugger has
/// above 1 GiB.
pub(super) const MOST_BYTES: u64 = 4 << 30;

/// A kernel that is ready to boot, with its modules.
///
/// ```no_run
/// use onbeat_lab::vm::{Kernel, PackageSource, WorkDirectory};
///
/// let work = WorkDirectory::open("target/lab".as_ref())?;
/// let kernel = Kernel::from_package(&work, "linux-image-rt-amd64", &PackageSource::Download)?;
/// println!("{} is in {}", kernel.release, kernel.vmlinux.display());
/// # Ok::<(), onbeat_lab::vm::VmError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The release as `uname -r` prints it; of a kernel from a file, what follows `vmlinuz-` in its
    /// name.
    pub release: String,
    /// The uncompressed ELF file, in the work directory.
    pub vmlinux: PathBuf,
    modules: Modules,
}

impl Kernel {
    /// Returns the kernel of a Debian package such as `linux-image-6.12.117+deb12-rt-amd64`, or of
    /// a meta-package that depends on one.
    ///
    /// Unpacks it on first use. A package that is unpacked already is used again, also when its
    /// file has been removed since.
    ///
    /// # Errors
    /// When the package is not found, is not allowed to be downloaded, or contains no kernel that
    /// can be booted.
    pub fn from_package(
        work: &WorkDirectory,
        package: &str,
        source: &PackageSource,
    ) -> Result<Self, VmError> {
        let unpacked = match source.find(package, &work.packages()) {
            Ok(deb) => work.kernels().join(deb.file_stem().unwrap_or_default()),
            // The last one that was unpacked earlier.
            Err(missing) => {
                let prefix = format!("{package}_");
                last(&work.kernels(), |name| name.starts_with(&prefix))?.ok_or(missing)?
            }
        };
        unpack(work, package, source, &unpacked)?;
        Self::from_tree(&unpacked)
    }

    /// Returns the kernel of a file: an image such as `/boot/vmlinuz-6.12.0`, or a `vmlinux`.
    ///
    /// `modules` is the directory of its modules, such as `/lib/modules/6.12.0`, when the guest
    /// needs any.
    ///
    /// # Errors
    /// When the file cannot be read or is not a kernel that can be booted.
    pub fn from_image(
        work: &WorkDirectory,
        image: &Path,
        modules: Option<&Path>,
    ) -> Result<Self, VmError> {
        let bytes = foreign::read(image, MOST_BYTES).map_err(VmError::reading(image))?;
        let unpacked = work.kernels().join(format!("image-{}", &hex_digest(&bytes)[..16]));
        work.create_whole(&unpacked, |directory| {
            let elf = image::vmlinux(&bytes)
                .map_err(|source| VmError::NotAKernel { path: image.to_owned(), source })?;
            let path = directory.join(VMLINUX);
            fs::write(&path, elf).map_err(VmError::writing(&path))
        })?;

        let name = image.file_name().unwrap_or_default().to_string_lossy();
        let release = name.strip_prefix("vmlinuz-").unwrap_or(&name).to_owned();
        let modules = match modules {
            Some(directory) => Modules::list(directory).map_err(VmError::reading(directory))?,
            None => Modules::default(),
        };
        Ok(Self { release, vmlinux: unpacked.join(VMLINUX), modules })
    }

    /// A kernel that [`unpack`] has left.
    fn from_tree(tree: &Path) -> Result<Self, VmError> {
        let path = tree.join(RELEASE);
        let release = fs::read_to_string(&path).map_err(VmError::reading(&path))?;
        let directories =
            ["usr/lib/modules", "lib/modules"].map(|below| tree.join(below).join(&release));
        let directory =
            directories.iter().find(|directory| directory.is_dir()).unwrap_or(&directories[0]);
        let modules = Modules::list(directory).map_err(VmError::reading(directory))?;

        Ok(Self { release, vmlinux: tree.join(VMLINUX), modules })
    }

    /// Whether this module exists or is built in. Dashes and underscores are the same.
    #[must_use]
    pub fn has_module(&self, name: &str) -> bool {
        self.modules.has(name)
    }

    /// Returns a module with a GPIO chip whose lines are wired in pairs: what is written to line 0
    /// arrives at line 1, and so on up to line 7. Built on first use, by `make` and `gcc` against the
    /// package `linux-headers-RELEASE`.
    ///
    /// # Errors
    /// When the kernel has no GPIO, or headers or compiler are missing.
    pub fn gpio_wires(
        &self,
        work: &WorkDirectory,
        source: &PackageSource,
    ) -> Result<Module, VmError> {
        let content = wires::module(&self.release, work, source)?;
        Ok(Module { name: wires::NAME.to_owned(), content })
    }

    /// Returns these modules and those they depend on, each after what it depends on, without those
    /// that are built in.
    ///
    /// # Errors
    /// When one of them is missing or cannot be read, or when they depend on each other in a
    /// circle.
    pub fn modules(&self, names: &[&str]) -> Result<Vec<Module>, VmError> {
        let order = self.modules.in_load_order(names);
        order.map_err(|source| VmError::Module { release: self.release.clone(), source })
    }
}

const VMLINUX: &str = "vmlinux";
const RELEASE: &str = "release";

/// Names in a directory, in order; none where there is no directory.
fn names(directory: &Path) -> Result<Vec<String>, VmError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(VmError::reading(directory))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(VmError::reading(directory))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }

    names.sort();
    Ok(names)
}

/// The last entry of a directory, in the order of names, whose name fits.
fn last(directory: &Path, fits: impl Fn(&str) -> bool) -> Result<Option<PathBuf>, VmError> {
    let name = names(directory)?.into_iter().rfind(|name| fits(name));
    Ok(name.map(|name| directory.join(name)))
}

/// Unpacks a package and the kernel packages it depends on, unless they are, replaces the image by its
/// ELF file, and notes the release.
fn unpack(
    work: &WorkDirectory,
    package: &str,
    source: &PackageSource,
    into: &Path,
) -> Result<(), VmError> {
    work.create_whole(into, |tree| {
        package::KERNEL.unpack(package, source, work, tree)?;
        let no_kernel = || VmError::NoKernelInPackage { package: package.to_owned() };
        let image = last(&tree.join("boot"), |name| name.starts_with("vmlinuz-"))?;
        let image = image.ok_or_else(no_kernel)?;
        let bytes = fs::read(&image).map_err(VmError::reading(&image))?;
        let elf = image::vmlinux(&bytes)
            .map_err(|source| VmError::NotAKernel { path: image.clone(), source })?;
        let vmlinux = tree.join(VMLINUX);
        fs::write(&vmlinux, elf).map_err(VmError::writing(&vmlinux))?;
        fs::remove_file(&image).map_err(VmError::writing(&image))?;

        let name = image.file_name().unwrap_or_default().to_string_lossy();
        let release = tree.join(RELEASE);
        fs::write(&release, name.trim_start_matches("vmlinuz-")).map_err(VmError::writing(&release))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::image::tests::elf_with_note;
    use super::package::tests::write_deb;
    use super::*;

    /// A kernel with the modules of this `modules.dep`, each with its name as content.
    pub(in super::super) fn kernel_with_modules(
        directory: &Path,
        listed: &str,
        built_in: &str,
    ) -> Kernel {
        modules::tests::write_modules(directory, listed, built_in);
        let modules = Modules::list(directory).expect("a list");
        Kernel { release: "6.1-test".to_owned(), vmlinux: directory.join(VMLINUX), modules }
    }

    #[test]
    fn a_meta_package_leads_to_its_kernel_which_is_unpacked_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let debs = directory.path().join("debs");
        fs::create_dir(&debs).expect("a directory");
        let elf = elf_with_note(18);
        write_deb(&debs.join("linux-image-rt_1_amd64.deb"), "linux-image-6-rt (= 1)", &[]);
        let files: [(&str, &[u8]); 2] = [
            ("./boot/vmlinuz-6-rt", &elf),
            ("./lib/modules/6-rt/modules.builtin", b"kernel/a-b.ko\n"),
        ];
        write_deb(&debs.join("linux-image-6-rt_1_amd64.deb"), "kmod", &files);

        let work = WorkDirectory::open(&directory.path().join("work")).expect("a work directory");
        let source = PackageSource::Directory(debs.clone());
        let kernel = Kernel::from_package(&work, "linux-image-rt", &source).expect("a kernel");
        assert_eq!(kernel.release, "6-rt");
        assert_eq!(fs::read(&kernel.vmlinux).expect("vmlinux"), elf);
        assert!(kernel.has_module("a_b"));

        fs::remove_dir_all(&debs).expect("the packages");
        let again =
            Kernel::from_package(&work, "linux-image-rt", &source).expect("the same kernel");
        assert_eq!(again.vmlinux, kernel.vmlinux);
    }

    #[test]
    fn a_package_without_a_kernel_leaves_nothing_in_the_work_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        write_deb(&directory.path().join("tool_1_amd64.deb"), "libc6", &[]);
        let work = WorkDirectory::open(&directory.path().join("work")).expect("a work directory");
        let source = PackageSource::Directory(directory.path().to_owned());
        let refused = Kernel::from_package(&work, "tool", &source).expect_err("no kernel");
        assert!(matches!(refused, VmError::NoKernelInPackage { .. }), "{refused}");
        assert_eq!(fs::read_dir(work.kernels()).expect("a directory").count(), 0);
    }

    #[test]
    fn a_kernel_from_a_file_is_unpacked_by_its_content() {
        let directory = tempfile::tempdir().expect("a directory");
        let image = directory.path().join("vmlinuz-6.12.0");
        fs::write(&image, elf_with_note(18)).expect("an image");
        let work = WorkDirectory::open(&directory.path().join("work")).expect("a work directory");
        let kernel = Kernel::from_image(&work, &image, None).expect("a kernel");
        assert_eq!(kernel.release, "6.12.0");
        assert!(kernel.vmlinux.exists());
        fs::write(&image, b"text").expect("not an image");
        assert!(matches!(Kernel::from_image(&work, &image, None), Err(VmError::NotAKernel { .. })));
    }
}
