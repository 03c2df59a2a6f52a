//! Errors of this room, with the next step in each message.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onbeat::campaign::{CellFailure, FailureScope, StoreError};
use onbeat_host::foreign::printable;

use super::accelerator::KvmRefusal;
use super::frame::FrameError;
use super::kernel::{ImageError, ModuleError};
use super::qemu::QEMU;

/// An error while a guest is built or run.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A file or a stored result could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A user's guest cannot be run.
    #[error(transparent)]
    Own(#[from] super::OwnGuestError),
    /// Nobody could log in at the guest.
    #[error("{source}; its console is in {}", console.display())]
    Login {
        /// Why.
        source: super::LoginError,
        /// The guest's console.
        console: PathBuf,
    },
    /// A login takes its time by the host's clock.
    #[error(
        "no login in virtual time: an idle guest leaps over the seconds in which somebody could log in; take --clock free or real"
    )]
    LoginInVirtualTime,
    /// Words for a command line that the boot loader has.
    #[error("the guest's boot loader has its kernel command line: `{words}` cannot be added to it")]
    CommandLineOnDisk {
        /// The words.
        words: String,
    },
    /// No file of this package is in the directory, and downloads are not allowed.
    #[error(
        "package {package} is not in {}: put {package}_VERSION_ARCH.deb there (apt-get download {package}), or allow the download by --download",
        directory.display()
    )]
    PackageMissing {
        /// Name of the package.
        package: String,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// `apt-get download` failed.
    #[error(
        "apt-get could not download {package}: {message}. Run apt-get update, or check the name with apt-cache policy {package}"
    )]
    Download {
        /// Name of the package.
        package: String,
        /// Last line of its output.
        message: String,
    },
    /// A file is not a Debian package.
    #[error("{} is not a Debian package: {reason}", path.display())]
    NotAPackage {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// A package and those it depends on contain no kernel.
    #[error("package {package} and the kernel packages it depends on contain no boot/vmlinuz-*")]
    NoKernelInPackage {
        /// Name of the package.
        package: String,
    },
    /// A file is not a kernel that can be booted.
    #[error("{} is not a bootable kernel: {source}", path.display())]
    NotAKernel {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ImageError,
    },
    /// A module cannot be loaded in this kernel.
    #[error("kernel {release}: {source}")]
    Module {
        /// Release of the kernel.
        release: String,
        /// Which module, and why.
        source: ModuleError,
    },
    /// A kernel without GPIO.
    #[error(
        "kernel {release} is built without GPIO lines (CONFIG_GPIO_CDEV); linux-image-amd64 and linux-image-rt-amd64 have them"
    )]
    NoGpio {
        /// Release of the kernel.
        release: String,
    },
    /// The module with GPIO lines could not be built.
    #[error("the GPIO module for kernel {release} could not be built: {message}")]
    ModuleBuild {
        /// Release of the kernel.
        release: String,
        /// The compiler's error, or the last line of its output.
        message: String,
    },
    /// A program that is run as a process is missing.
    #[error("{program} is not installed: apt-get install {package}")]
    ProgramMissing {
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program for the guest needs shared libraries, which the guest does not have.
    #[error("{} is not statically linked, and guests have no shared libraries: {remedy}", path.display())]
    NotStatic {
        /// The program.
        path: PathBuf,
        /// What to do.
        remedy: &'static str,
    },
    /// No guest runs under KVM here, and the real clock needs one.
    #[error(
        "the real clock needs KVM: {reason}; use the virtual clock to rank kernels and settings"
    )]
    NoKvm {
        /// Why not.
        reason: KvmRefusal,
    },
    /// The description of a guest contradicts itself.
    #[error("guest with {cpus} CPUs in virtual time: instruction counting allows 1")]
    CpusInVirtualTime {
        /// Number of CPUs asked for.
        cpus: u32,
    },
    /// The job is too long.
    #[error("the job is {length} bytes long as a script, at most {limit} reach a guest")]
    JobTooLong {
        /// Its length in bytes.
        length: usize,
        /// The largest length in bytes.
        limit: usize,
    },
    /// The kernel command line is too long.
    #[error(
        "the kernel command line is {length} bytes long, the kernel reads {limit}: shorten the guest's kernel arguments or its job"
    )]
    CommandLineTooLong {
        /// Its length in bytes.
        length: usize,
        /// The largest length in bytes.
        limit: usize,
    },
    /// QEMU could not be started, or ended at once.
    #[error("{QEMU} ended with {status} before the guest started{}", after_colon(message))]
    Qemu {
        /// Its exit status.
        status: String,
        /// Last line of its standard error; empty without one.
        message: String,
    },
    /// A process of QEMU could not be waited for or ended.
    #[error("cannot end QEMU, process {pid}: {source}. Try kill -9 {pid}")]
    Process {
        /// Its number.
        pid: u32,
        /// The kernel's answer.
        source: io::Error,
    },
    /// QEMU's control socket did not answer as specified.
    #[error("QEMU's control socket: {message}")]
    Control {
        /// What happened.
        message: String,
    },
    /// The guest did not end in time.
    #[error("the guest did not end within {limit:?}; it was stopped. Its last console line: {last_line:?}; all of it: {}", console.display())]
    Timeout {
        /// The limit, in real time.
        limit: Duration,
        /// Last line of the console.
        last_line: String,
        /// The console's log.
        console: PathBuf,
    },
    /// QEMU was killed, or failed, while the guest ran.
    #[error("QEMU ended with {status} while the guest ran{}", after_colon(message))]
    Killed {
        /// Signal or exit status.
        status: String,
        /// Last line of its standard error; empty without one.
        message: String,
    },
    /// The guest ended before it could be saved.
    #[error(
        "the guest ended before it could be saved, QEMU with {status}. Its last console line: {last_line:?}; all of it: {}",
        console.display()
    )]
    NotPaused {
        /// Exit status of QEMU.
        status: String,
        /// Last line of the console.
        last_line: String,
        /// The console's log.
        console: PathBuf,
    },
    /// The caller stopped the guest.
    #[error("the guest was stopped before its job ended")]
    Stopped,
    /// The guest ended before its job did.
    #[error("the guest ended before its job did ({reason}). Its last console line: {last_line:?}; all of it: {}", console.display())]
    Incomplete {
        /// What the frames lack.
        reason: FrameError,
        /// Last line of the console.
        last_line: String,
        /// The console's log.
        console: PathBuf,
    },
    /// The job ended with another exit status than 0.
    #[error("the job ended with exit status {status}: {message}")]
    JobFailed {
        /// Exit status of the job's script.
        status: i32,
        /// The line of its standard error that says why.
        message: String,
    },
    /// The plugin of QEMU that traces a guest could not be built.
    #[error("cannot build the plugin that traces a guest: {message}")]
    PluginBuild {
        /// The compiler's message.
        message: String,
    },
    /// A kernel shows no addresses of its functions.
    #[error("kernel {release} lists no functions in /proc/kallsyms: a path cannot name any")]
    NoSymbols { release: String },
    /// A traced guest had no wake-up of a sleeping thread.
    #[error(
        "the traced guest ran through {stretches} functions, and none of its threads was woken by a timer"
    )]
    NoWakeUp {
        /// Number of functions in the trace, each time that one is entered or returned to.
        stretches: usize,
    },
    /// No wake-up of a traced guest is as long as the recorded one.
    #[error(
        "the recorded wake-up latency is {latency_ns} ns, and the nearest path from a timer's interrupt to the loop {nearest_ns} ns: \
         they differ by more than a tenth, so the trace does not show this latency; the interrupt itself may have been late"
    )]
    NoMatchingPath {
        /// The recorded latency, in nanoseconds.
        latency_ns: u64,
        /// Length of the path that is nearest to it, in nanoseconds.
        nearest_ns: u64,
    },
    /// A laboratory has no result to replay.
    #[error("{} has no experiment to replay: run `onbeat vm lab` with the same file and options first", out.display())]
    NoExperiment {
        /// Directory of its results.
        out: PathBuf,
    },
    /// The output of a program is not of the format that it is read as.
    #[error("the output of `{program}` cannot be read as {format}: {reason}")]
    Foreign {
        /// Its words.
        program: String,
        /// Name of the format.
        format: &'static str,
        /// Why.
        reason: String,
    },
    /// A result of the job is missing or cannot be read.
    #[error("the job's result {name} cannot be used: {reason}")]
    Result {
        name: String,
        /// Why.
        reason: String,
    },
}

impl VmError {
    /// For `map_err` after a read of `path`.
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Store(StoreError::reading(path)(source))
    }

    /// For `map_err` after a write to `path`.
    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Store(StoreError::writing(path)(source))
    }
}

impl CellFailure for VmError {
    fn scope(&self) -> FailureScope {
        match self {
            Self::Stopped => FailureScope::Stopped,
            Self::Timeout { .. }
            | Self::Incomplete { .. }
            | Self::Killed { .. }
            | Self::NotPaused { .. }
            | Self::JobFailed { .. }
            | Self::Foreign { .. } => FailureScope::Cell,
            _ => FailureScope::Campaign,
        }
    }
}

/// A message behind a colon, as a terminal may show it; nothing where there is none.
fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", printable(message)) }
}

/// The last line of a text that is not empty.
pub(super) fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// The line of a program's standard error that says why it failed: the first that begins with
/// `error`, or the last one.
pub(crate) fn reason_line(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    let stated = text.lines().map(str::trim).find(|line| line.starts_with("error"));
    stated.map_or_else(|| last_line(errors), str::to_owned)
}
