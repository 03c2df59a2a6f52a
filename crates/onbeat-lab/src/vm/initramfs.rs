//! The file system in memory that a guest boots into: a first process, busybox, the modules of its
//! kernel, and the caller's programs.
//!
//! The first process is a shell script run by busybox (`init.sh`): it needs no second build, and
//! any kernel with any static program can run a job.

use std::fs;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use super::archive::Archive;
use super::own::OwnMachine;
use super::{Kernel, Module, VmError, WorkDirectory, program};

pub(super) const INIT: &[u8] = include_bytes!("init.sh");
/// Path of busybox in a guest.
const BUSYBOX: &str = "bin/busybox";
const STATIC_BUSYBOX: &str = "apt-get install busybox-static";
const STATIC_PROGRAM: &str = "name a static one, such as the onbeat of the package, or build it with -C target-feature=+crt-static";
/// Modules that carry results to the host. Guests without them use the console.
const SERIAL_PORT: [&str; 2] = ["virtio_pci", "virtio_console"];
/// Module that carries the job to the guest. Guests without it read the kernel command line.
const JOB_FILE: &str = "qemu_fw_cfg";

/// A kernel with the initramfs that it boots into, both in the work directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootImage {
    /// The kernel's release.
    pub release: String,
    /// The kernel's ELF file.
    pub vmlinux: PathBuf,
    /// The archive, named after its content.
    pub initramfs: PathBuf,
    /// Whether results leave by a virtio-serial port, instead of the console.
    pub has_port: bool,
    /// Whether the job comes as a file of QEMU's `fw_cfg` device, instead of on the kernel's
    /// command line.
    pub takes_job_file: bool,
    /// The machine of a user's guest; `None` for one of onbeat's own.
    pub own: Option<OwnMachine>,
}

/// Builder of an initramfs.
///
/// ```no_run
/// use onbeat_lab::vm::{Initramfs, Kernel, PackageSource, WorkDirectory};
///
/// let work = WorkDirectory::open("target/lab".as_ref())?;
/// let packages = PackageSource::Directory("packages".into());
/// let kernel = Kernel::from_package(&work, "linux-image-6.12.117+deb12-rt-amd64", &packages)?;
/// let mut initramfs = Initramfs::new(&kernel, "/usr/bin/busybox".as_ref())?;
/// initramfs.program("bin/onbeat", "target/release/onbeat".as_ref())?;
/// let boot = initramfs.build(&work)?;
/// # Ok::<(), onbeat_lab::vm::VmError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Initramfs<'k> {
    pub(super) kernel: &'k Kernel,
    archive: Archive,
    modules: Vec<String>,
    /// Modules that are not the kernel's, loaded last.
    foreign: Vec<Module>,
    has_port: bool,
    takes_job_file: bool,
}

impl<'k> Initramfs<'k> {
    /// Creates an initramfs with a statically linked busybox and the modules that carry job and
    /// results.
    ///
    /// # Errors
    /// When busybox is missing or not statically linked.
    pub fn new(kernel: &'k Kernel, busybox: &Path) -> Result<Self, VmError> {
        let busybox_program = static_busybox(busybox)?;
        let mut archive = Archive::new();
        archive.program("init", INIT.to_vec());
        archive.program("bin/pause", program::pause());
        archive.program("bin/spin", program::spin());
        archive.file("etc/hosts", b"127.0.0.1 localhost\n".to_vec());
        let has_port = SERIAL_PORT.iter().all(|name| kernel.has_module(name));
        let takes_job_file = kernel.has_module(JOB_FILE);
        let carriers = SERIAL_PORT
            .into_iter()
            .filter(|_| has_port)
            .chain(Some(JOB_FILE).filter(|_| takes_job_file));
        let modules = carriers.map(str::to_owned).collect();

        archive.program(BUSYBOX, busybox_program);
        Ok(Self { kernel, archive, modules, foreign: Vec::new(), has_port, takes_job_file })
    }

    /// Adds a program at a path of the guest, such as `bin/onbeat`.
    ///
    /// # Errors
    /// When it cannot be read, or needs shared libraries.
    pub fn program(&mut self, path: &str, from: &Path) -> Result<(), VmError> {
        self.archive.program(path, static_program(from, STATIC_PROGRAM)?);
        Ok(())
    }

    /// Adds a file at a path of the guest.
    pub fn file(&mut self, path: &str, content: Vec<u8>) {
        self.archive.file(path, content);
    }

    /// Has the guest load a module, and those it depends on, before its job starts.
    pub fn module(&mut self, name: &str) {
        self.modules.push(name.to_owned());
    }

    /// Has the guest load a module that is not the kernel's own, after the others.
    pub fn foreign_module(&mut self, module: Module) {
        self.foreign.push(module);
    }

    /// Writes the archive into the work directory, unless the same is there already.
    ///
    /// # Errors
    /// When a module is missing, or a file cannot be written.
    pub fn build(&self, work: &WorkDirectory) -> Result<BootImage, VmError> {
        let initramfs = work.keep_archive(&self.archive()?.to_bytes())?;
        Ok(BootImage {
            release: self.kernel.release.clone(),
            vmlinux: self.kernel.vmlinux.clone(),
            initramfs,
            has_port: self.has_port,
            takes_job_file: self.takes_job_file,
            own: None,
        })
    }

    /// The archive with all modules, and the list that `init.sh` loads them by.
    fn archive(&self) -> Result<Archive, VmError> {
        let mut archive = self.archive.clone();
        let names: Vec<&str> = self.modules.iter().map(String::as_str).collect();
        let mut load = String::new();
        for module in self.kernel.modules(&names)?.into_iter().chain(self.foreign.clone()) {
            load += &format!("{}.ko\n", module.name);
            archive.file(&format!("lib/modules/{}.ko", module.name), module.content);
        }

        archive.file("lib/modules/load", load.into_bytes());
        Ok(archive)
    }
}

/// Reads a busybox that runs in any guest.
pub(super) fn static_busybox(from: &Path) -> Result<Vec<u8>, VmError> {
    if !from.exists() {
        let program = from.display().to_string();
        return Err(VmError::ProgramMissing { program, package: "busybox-static" });
    }
    static_program(from, STATIC_BUSYBOX)
}

/// Reads a program that runs in any guest.
pub(super) fn static_onbeat(from: &Path) -> Result<Vec<u8>, VmError> {
    static_program(from, STATIC_PROGRAM)
}

/// Whether a program is there and needs no shared libraries, which guests do not have.
#[must_use]
pub fn runs_in_guests(program: &Path) -> bool {
    static_program(program, STATIC_PROGRAM).is_ok()
}

fn static_program(from: &Path, remedy: &'static str) -> Result<Vec<u8>, VmError> {
    let content = fs::read(from).map_err(VmError::reading(from))?;
    if needs_libraries(&content) {
        return Err(VmError::NotStatic { path: from.to_owned(), remedy });
    }
    Ok(content)
}

/// Whether a program is an ELF file with an interpreter: the loader of shared libraries.
fn needs_libraries(program: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<Endianness>::parse(program) else { return false };
    let Ok(endian) = header.endian() else { return false };
    let segments = header.program_headers(endian, program).unwrap_or_default();
    segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::kernel::tests::kernel_with_modules;

    #[test]
    fn modules_of_the_carriers_are_listed_in_load_order() {
        let directory = tempfile::tempdir().expect("a directory");
        let listed = "a/virtio.ko:\na/virtio_pci.ko: a/virtio.ko\na/virtio_console.ko: a/virtio.ko\na/qemu_fw_cfg.ko:\na/extra.ko:\n";
        let kernel = kernel_with_modules(directory.path(), listed, "");
        let busybox = directory.path().join("busybox");
        fs::write(&busybox, b"#!").expect("a file");

        let mut initramfs = Initramfs::new(&kernel, &busybox).expect("an initramfs");
        initramfs.module("extra");
        let archive = initramfs.archive().expect("an archive");
        let bytes = archive.to_bytes();
        let load = b"virtio.ko\nvirtio_pci.ko\nvirtio_console.ko\nqemu_fw_cfg.ko\nextra.ko\n";
        assert!(bytes.windows(load.len()).any(|window| window == load));
        for path in ["init", "bin/busybox", "lib/modules/virtio.ko", "lib/modules/load"] {
            assert!(archive.entries.contains_key(path), "{path}");
        }
        assert!(initramfs.takes_job_file);
    }

    #[test]
    fn a_kernel_without_carriers_gets_an_initramfs_without_modules() {
        let directory = tempfile::tempdir().expect("a directory");
        let kernel = kernel_with_modules(directory.path(), "", "");
        let busybox = directory.path().join("busybox");
        fs::write(&busybox, b"#!").expect("a file");
        let mut initramfs = Initramfs::new(&kernel, &busybox).expect("an initramfs");
        assert!(!initramfs.takes_job_file);
        assert!(initramfs.archive().is_ok());

        initramfs.module("extra");
        assert!(matches!(initramfs.archive(), Err(VmError::Module { .. })));
    }

    #[test]
    fn a_program_that_needs_libraries_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let kernel = kernel_with_modules(directory.path(), "", "");
        let own = std::env::current_exe().expect("this test");
        // Tests are linked with shared libraries on all hosts that this project supports.
        assert!(matches!(Initramfs::new(&kernel, &own), Err(VmError::NotStatic { .. })));
        let missing = Initramfs::new(&kernel, "/nonexistent/busybox".as_ref())
            .expect_err("missing")
            .to_string();
        assert_eq!(
            missing,
            "/nonexistent/busybox is not installed: apt-get install busybox-static"
        );
    }
}
