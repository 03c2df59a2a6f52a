//! A user's guest: the machine and the kernel of a script that starts QEMU, or of a libvirt domain,
//! with an agent that runs jobs in it.
//!
//! | of the user's line | in a run |
//! |---|---|
//! | `-kernel`, `-append` | as they are; the agent is the first process (`rdinit=`), which starts the guest's own |
//! | `-initrd` | as it is, with the agent's archive behind it |
//! | disks | as they are, under QEMU's `-snapshot`: what the guest writes is gone with it |
//! | shared directories (`-fsdev`, `-virtfs`) | read-only |
//! | `-cpu`, accelerator | as they are under KVM; by another clock, those of the clock |
//! | screen, serial ports, monitor, `-daemonize` | replaced: the console goes into a file, results leave by the second serial port |
//! | all others | as they are |
//!
//! The agent (`start.sh`, `agent.sh`, `wait.sh`) is busybox and onbeat in an archive of its own; nothing of the
//! guest's disk is needed or changed. In a guest whose kernel is on its disk, a boot loader's, a login at its
//! serial console starts it ([`OwnLogin`], `login.sh`), and kernel, initrd and command line are the guest's.

mod definition;
mod domain;
mod line;
mod login;

use std::fs;
use std::path::{Path, PathBuf};

use onbeat_host::foreign;
use onbeat_tune::lint::qemu_line::{QemuLineError, qemu_line};

pub use domain::DomainError;
use login::GuestUser;
pub(super) use login::{CONSOLE_SOCKET, LoginThread};
pub use login::{LoginError, OwnLogin};

use super::archive::Archive;
use super::initramfs::{INIT, static_busybox, static_onbeat};
use super::kernel::MOST_BYTES;
use super::{BootImage, VmError, WorkDirectory};

const START: &[u8] = include_bytes!("start.sh");
const AGENT: &[u8] = include_bytes!("agent.sh");
const WAIT: &[u8] = include_bytes!("wait.sh");
const LOGIN: &[u8] = include_bytes!("login.sh");
/// File name of the agent's program, where it is not the whole onbeat.
pub const AGENT_PROGRAM: &str = "onbeat-guest";
/// What the kernel starts first.
pub(super) const FIRST_PROCESS: &str = "/onbeat/start";

/// Why a user's guest cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum OwnGuestError {
    /// The script's command is not known from its text.
    #[error("{}: {source}", path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// Why.
        source: QemuLineError,
    },
    /// The domain definition cannot be read.
    #[error("{}: {source}", path.display())]
    Domain {
        /// The definition.
        path: PathBuf,
        /// Why.
        source: DomainError,
    },
    /// The file itself cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The kernel is on the guest's disk.
    #[error(
        "{}: it names no kernel: log in at the serial console of a guest that boots from its disk by --login root, or name -kernel, -initrd and -append (its /boot and /proc/cmdline have them)",
        path.display()
    )]
    NoKernel {
        /// The script or definition.
        path: PathBuf,
    },
    /// An option's file does not exist.
    #[error("{option}: no file {file} in {}", directory.display())]
    NoFile {
        /// The option.
        option: String,
        /// The file as named.
        file: String,
        /// Where relative names were looked for.
        directory: PathBuf,
    },
    /// An option that would let a run change what it must not.
    #[error("{option}: {why}")]
    Option {
        /// The option.
        option: String,
        /// What to write instead.
        why: &'static str,
    },
}

/// The machine of a user's guest, in QEMU's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnMachine {
    /// Words of the machine, without those of the processor and the accelerator.
    pub(super) words: Vec<String>,
    /// Words of processor and accelerator, for a guest under KVM.
    pub(super) processor: Vec<String>,
    /// The guest's kernel command line.
    pub(super) append: String,
    /// Its disks, kernel and firmware.
    pub(super) files: Vec<PathBuf>,
    /// Number of CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// How the agent comes into it; by the initrd without.
    pub login: Option<OwnLogin>,
}

/// A user's guest, read from a script or a domain definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnGuest {
    /// Its machine.
    pub machine: OwnMachine,
    /// Where it was read from.
    path: PathBuf,
    kernel: Option<PathBuf>,
    initrd: Option<PathBuf>,
    /// Who logs in, so that the agent starts.
    login: Option<GuestUser>,
    /// What is not as the user wrote it, a sentence each.
    pub changes: Vec<String>,
    /// What [`RealTimeMachine::to_libvirt_xml`](super::RealTimeMachine::to_libvirt_xml) leaves out.
    pub undefined: Vec<String>,
    disks: Vec<OwnDisk>,
    cards: Vec<OwnCard>,
    /// Its firmware, as elements of libvirt.
    loader: Vec<String>,
}

/// A disk of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnDisk {
    pub(super) file: PathBuf,
    /// `raw`, `qcow2`.
    pub(super) format: String,
    /// As `-drive if=` has it.
    pub(super) interface: String,
    pub(super) is_cdrom: bool,
    /// What `-device drive=` names it by.
    pub(super) id: Option<String>,
}

/// A network card of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnCard {
    /// As `-device` names it.
    pub(super) model: String,
    /// Bridge of the host; `None` is user networking.
    pub(super) bridge: Option<String>,
}

impl OwnGuest {
    /// Reads a script that starts QEMU. Relative names are those of this process's directory, else
    /// of the script's.
    ///
    /// # Errors
    /// [`OwnGuestError`].
    pub fn from_script(path: &Path) -> Result<Self, OwnGuestError> {
        let script = read(path)?;
        let options = qemu_line(&script)
            .map_err(|source| OwnGuestError::Script { path: path.to_owned(), source })?;
        line::own_guest(options, path)
    }

    /// Reads a libvirt domain definition.
    ///
    /// # Errors
    /// [`OwnGuestError`].
    pub fn from_domain(path: &Path) -> Result<Self, OwnGuestError> {
        let text = read(path)?;
        let domain = domain::options(&text)
            .map_err(|source| OwnGuestError::Domain { path: path.to_owned(), source })?;
        let mut own = line::own_guest(domain.options, path)?;
        own.changes.extend(domain.left_out);
        Ok(own)
    }

    /// Returns what it boots, with the agent in it. `onbeat` and `busybox` are statically linked.
    ///
    /// # Errors
    /// When a file cannot be read or written, or a program needs shared libraries.
    pub fn boot(
        &self,
        work: &WorkDirectory,
        onbeat: &Path,
        busybox: &Path,
    ) -> Result<BootImage, VmError> {
        let agent = agent(static_onbeat(onbeat)?, static_busybox(busybox)?);
        if let Some(login) = &self.login {
            let is_agent = onbeat.file_name().is_some_and(|name| name == AGENT_PROGRAM);
            let rest = is_agent.then(|| agent.without("onbeat/root/bin/onbeat"));
            return self.boot_by_login(work, &agent, rest.as_ref(), login.clone());
        }
        let mut bytes = match &self.initrd {
            Some(initrd) => foreign::read(initrd, MOST_BYTES).map_err(VmError::reading(initrd))?,
            None => Vec::new(),
        };
        // The kernel reads archives one behind the other, each at a multiple of four bytes.
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(agent.to_bytes());
        let no_kernel = || OwnGuestError::NoKernel { path: self.path.clone() };
        let kernel = self.kernel.clone().ok_or_else(no_kernel)?;
        Ok(self.image(kernel, work.keep_archive(&bytes)?, self.machine.clone()))
    }

    /// Has a login start the agent, for a guest that boots from its disk: by a user, with the first line
    /// of a file as the password.
    ///
    /// # Errors
    /// [`OwnGuestError::Unreadable`], the file of the password.
    pub fn with_login_of(
        mut self,
        login: Option<&(String, Option<PathBuf>)>,
    ) -> Result<Self, OwnGuestError> {
        if let Some((user, file)) = login {
            let text = file.as_deref().map(read).transpose()?;
            let password = text.map(|text| text.lines().next().unwrap_or_default().to_owned());
            self.login = Some(GuestUser { name: user.clone(), password });
        }
        Ok(self)
    }

    /// What it boots by a login: its own disk, or its own kernel as it is; the agent is on a disk of its
    /// own.
    fn boot_by_login(
        &self,
        work: &WorkDirectory,
        agent: &Archive,
        rest: Option<&Archive>,
        user: GuestUser,
    ) -> Result<BootImage, VmError> {
        let keep = |archive: &Archive| work.keep_archive(&login::agent_files(archive)?);
        let rest = rest.map(keep).transpose()?;
        let agent = keep(agent)?;
        let (kernel, initrd) = (self.kernel.clone(), self.initrd.clone());
        let login = OwnLogin { user, agent: agent.clone(), rest, kernel, initrd };
        let machine = OwnMachine { login: Some(login), ..self.machine.clone() };
        Ok(self.image(self.kernel.clone().unwrap_or_default(), agent, machine))
    }

    fn image(&self, vmlinux: PathBuf, initramfs: PathBuf, machine: OwnMachine) -> BootImage {
        BootImage {
            release: "own guest".to_owned(),
            vmlinux,
            initramfs,
            has_port: false,
            takes_job_file: false,
            own: Some(machine),
        }
    }
}

fn read(path: &Path) -> Result<String, OwnGuestError> {
    fs::read_to_string(path)
        .map_err(|source| OwnGuestError::Unreadable { path: path.to_owned(), source })
}

/// The agent with all that it needs; its root has the layout of onbeat's own guests.
fn agent(onbeat: Vec<u8>, busybox: Vec<u8>) -> Archive {
    let mut archive = Archive::new();
    archive.program("onbeat/start", START.to_vec());
    archive.file("onbeat/login", LOGIN.to_vec());
    archive.file("onbeat/root/agent", AGENT.to_vec());
    archive.file("onbeat/root/wait", WAIT.to_vec());
    archive.program("onbeat/root/init", INIT.to_vec());
    archive.program("onbeat/root/bin/busybox", busybox);
    archive.program("onbeat/root/bin/onbeat", onbeat);
    archive.file("onbeat/root/etc/hosts", b"127.0.0.1 localhost\n".to_vec());
    archive.file("onbeat/root/lib/modules/load", Vec::new());
    for directory in ["proc", "sys", "dev", "tmp", "run", "root", "out"] {
        archive.directory(&format!("onbeat/root/{directory}"));
    }
    archive
}

impl OwnMachine {
    /// What tells this machine from another one: its words, and sizes and times of its files.
    #[must_use]
    pub fn identity(&self) -> String {
        let of_file = |path: &PathBuf| {
            let found = fs::metadata(path).ok();
            let changed = found.as_ref().and_then(|found| found.modified().ok());
            format!(" {path:?} {:?} {changed:?}", found.map(|found| found.len()))
        };
        let files: String = self.files.iter().map(of_file).collect();
        let login = self.login.as_ref().map(OwnLogin::identity).unwrap_or_default();
        format!(" {:?} {:?} {}{files}{login}", self.words, self.processor, self.append)
    }

    /// The words of its kernel, and those that the kernel leaves to the first process: from `--` on.
    pub(super) fn split_append(&self) -> (Vec<String>, Vec<String>) {
        let mut kernel: Vec<String> = self.append.split_whitespace().map(str::to_owned).collect();
        let end = kernel.iter().position(|word| word == "--").unwrap_or(kernel.len());
        let to_init = kernel.split_off(end);
        (kernel, to_init)
    }

    /// The kernel command line without words for the first process, with what makes the agent that
    /// process and records the console.
    pub(super) fn command_line(&self) -> Vec<String> {
        let (own, _) = self.split_append();
        let console = (!self.append.contains("console=ttyS0")).then_some("console=ttyS0");
        let first = format!("rdinit={FIRST_PROCESS}");
        // With PREEMPT_RT and two CPUs the results fill the serial port faster than its interrupt thread takes note of: the kernel
        // then finds an interrupt that nobody cared for, disables it, and no byte leaves any more (kernel/irq/spurious.c). And a
        // guest that crashes ends at once. The check of the timer compares it with a counted loop, which an emulated processor on a
        // busy machine does not keep to ("IO-APIC + timer doesn't work"); under KVM the kernel leaves it out by itself.
        let kept = ["noirqdebug", "no_timer_check", "panic=-1"].map(str::to_owned);
        own.into_iter().chain(console.map(str::to_owned)).chain([first]).chain(kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_archive_is_behind_the_guests_own() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        for (name, content) in [("k", "kernel"), ("i", "12345"), ("p", "#!")] {
            fs::write(at(name), content).expect("a file");
        }
        let script = format!(
            "kvm -kernel {0}/k -initrd {0}/i -append 'root=/dev/vda console=tty0 -- single'",
            directory.path().display()
        );
        fs::write(at("start.sh"), script).expect("a file");
        let own = OwnGuest::from_script(&at("start.sh")).expect("a guest");
        let work = WorkDirectory::open(&at("work")).expect("a work directory");
        let boot = own.boot(&work, &at("p"), &at("p")).expect("a boot image");

        let bytes = fs::read(&boot.initramfs).expect("an archive");
        assert!(bytes.starts_with(b"12345\0\0\x00070701"), "{:?}", &bytes[..16]);
        let words = own.machine.command_line().join(" ");
        assert_eq!(
            words,
            "root=/dev/vda console=tty0 console=ttyS0 rdinit=/onbeat/start noirqdebug no_timer_check panic=-1"
        );
        assert_eq!(own.machine.split_append().1, ["--", "single"], "the kernel does not read them");
    }
}
