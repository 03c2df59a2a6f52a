//! What guests are made of: a work directory, packages, programs.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use onbeat_lab::vm::{
    AGENT_PROGRAM, BootImage, CANARY_LIMIT, Guest, GuestWiring, Initramfs, Kernel, OwnGuest,
    PackageSource, Real, VmClock, VmError, WorkDirectory, choose_accelerator, runs_in_guests,
};

use super::options::{
    GuestOptions, KernelOptions, KernelParts, MachineOptions, OwnGuestOptions, StockOptions,
};
use crate::cmd::Common;
use crate::cmd::Failure;
use crate::cmd::failure::vm::VmFailure;
use crate::term::{Tone, advise};

/// A work directory, and what guests are made of.
pub(in crate::cmd) struct Stock {
    pub(in crate::cmd) work: WorkDirectory,
    pub(in crate::cmd) source: PackageSource,
    onbeat: PathBuf,
    /// Whether the user has named it.
    is_named: bool,
    busybox: PathBuf,
}

impl Stock {
    /// Opens the work directory and advises of guests that were left there.
    pub(in crate::cmd) fn open(options: &StockOptions) -> Result<Self, Failure> {
        let path = options.work.clone().map_or_else(default_work_directory, Ok)?;
        let failed = |why: VmError| match why {
            VmError::Store(source) => Failure::from(VmFailure::Work { source }),
            why => why.into(),
        };
        let work = WorkDirectory::open(&path).map_err(failed)?;
        for ended in work.ended_guests.iter().filter(|ended| !ended.processes.is_empty()) {
            let sentence = format!(
                "ended a guest left by an interrupted onbeat (process {})",
                ended.processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            );
            advise(Tone::Careful, &sentence);
        }

        let packages = options.packages.clone().unwrap_or_else(|| work.path.join("packages"));
        let source = if options.download {
            PackageSource::Download
        } else {
            PackageSource::Directory(packages)
        };
        let myself = || std::env::current_exe().map_err(Common::OwnProgram);
        let onbeat = options.onbeat.clone().map_or_else(myself, Ok)?;
        let is_named = options.onbeat.is_some();
        Ok(Self { work, source, onbeat, is_named, busybox: options.busybox.clone() })
    }

    /// Has guests carry the agent alone where this program cannot be in them, for a job that the agent can do. The whole program looks
    /// for settings that delay a loop as well, and keeps them in the run file.
    pub(in crate::cmd) fn with_agent_if_needed(self) -> Self {
        if runs_in_guests(&self.onbeat) { self } else { self.with_agent() }
    }

    /// Whether guests carry the agent, which knows plans only.
    pub(in crate::cmd) fn has_agent(&self) -> bool {
        self.onbeat.file_name().is_some_and(|name| name == AGENT_PROGRAM)
    }

    /// Has guests carry the agent alone. A program that the user has named stays, as does this one where no agent is beside it.
    pub(in crate::cmd) fn with_agent(mut self) -> Self {
        let beside = |place| Some(self.onbeat.parent()?.join(place).join(AGENT_PROGRAM));
        let places = ["", "../lib/onbeat"];
        let agent = places.into_iter().filter_map(beside).find(|agent| agent.exists());
        if let Some(agent) = agent.filter(|_| !self.is_named) {
            self.onbeat = agent;
        }
        self
    }

    /// Returns the boot image of a kernel with these modules and onbeat in it, built on first use.
    pub(in crate::cmd) fn boot(
        &self,
        kernel: &Kernel,
        modules: &[String],
        wiring: GuestWiring,
    ) -> Result<BootImage, Failure> {
        let mut initramfs = Initramfs::new(kernel, &self.busybox)?;
        initramfs.program("bin/onbeat", &self.onbeat)?;
        for module in modules {
            initramfs.module(module);
        }
        initramfs.wire(wiring, &self.work, &self.source)?;
        Ok(initramfs.build(&self.work)?)
    }

    /// Returns the boot image of the kernel of a command line.
    pub(in crate::cmd) fn boot_of(&self, options: &KernelOptions) -> Result<BootImage, Failure> {
        let KernelParts { module, gpio, .. } = &options.parts;
        let wiring = if *gpio { GuestWiring::Gpio } else { GuestWiring::None };
        self.boot(&self.kernel(options)?, module, wiring)
    }

    /// Returns what the guest of a command line boots: the user's own, or a kernel with onbeat.
    pub(in crate::cmd) fn guest(&self, options: &GuestOptions) -> Result<BootImage, Failure> {
        let GuestOptions { kernel, parts, own } = options;
        let has_own = own.qemu.is_some() || own.domain.is_some();
        if has_own && (parts.modules.is_some() || !parts.module.is_empty() || parts.gpio) {
            return Err(VmFailure::PartsOfOwnGuest.into());
        }
        if let Some(own) = self.own_guest(own)? {
            return Ok(own);
        }
        let kernel = kernel.clone().unwrap_or_default();
        self.boot_of(&KernelOptions { kernel, parts: parts.clone() })
    }

    /// Reads a user's guest and returns what it boots; `None` where none is named.
    pub(in crate::cmd) fn own_guest(
        &self,
        options: &OwnGuestOptions,
    ) -> Result<Option<BootImage>, Failure> {
        let own = match (&options.qemu, &options.domain) {
            (Some(script), _) => OwnGuest::from_script(script)?,
            (None, Some(domain)) => OwnGuest::from_domain(domain)?,
            (None, None) if options.login.is_some() => return Err(VmFailure::LoginOfNoGuest.into()),
            (None, None) => return Ok(None),
        };
        let file = options.password_file.clone();
        let login = options.login.clone().map(|user| (user, file));
        let own = own.with_login_of(login.as_ref())?;
        Ok(Some(self.boot_own(&own)?))
    }

    /// Returns what a user's guest boots; advises of what is not as the user wrote it.
    pub(in crate::cmd) fn boot_own(&self, own: &OwnGuest) -> Result<BootImage, Failure> {
        own.changes.iter().for_each(|change| advise(Tone::Faint, &format!("guest    {change}")));
        Ok(own.boot(&self.work, &self.onbeat, &self.busybox)?)
    }

    /// Returns a boot image without onbeat, for a canary guest.
    pub(in crate::cmd) fn canary(&self, kernel: &Kernel) -> Result<BootImage, Failure> {
        Ok(Initramfs::new(kernel, &self.busybox)?.build(&self.work)?)
    }

    /// Returns the kernel of a command line: an image where the word is a path or a file here, else a
    /// package.
    fn kernel(&self, options: &KernelOptions) -> Result<Kernel, Failure> {
        let KernelOptions { kernel, parts } = options;
        let modules = &parts.modules;
        if kernel.contains('/') || Path::new(kernel).is_file() {
            return Ok(Kernel::from_image(&self.work, Path::new(kernel), modules.as_deref())?);
        }
        if modules.is_some() {
            return Err(VmFailure::ModulesOfPackage { kernel: kernel.clone() }.into());
        }
        Ok(Kernel::from_package(&self.work, kernel, &self.source)?)
    }

    /// Returns the real clock after a guest has run under KVM.
    pub(in crate::cmd) fn real_clock(
        &self,
        boot: &BootImage,
        stop: &AtomicBool,
    ) -> Result<Real, Failure> {
        let found = choose_accelerator(&self.work, boot, CANARY_LIMIT, stop)?;
        Ok(found.map_err(|reason| VmError::NoKvm { reason })?)
    }
}

/// The guest of a command line; the number of CPUs is for one of onbeat's own.
pub(super) fn guest<C: VmClock>(
    machine: &MachineOptions,
    cpus: u32,
    boot: BootImage,
    clock: C,
) -> Guest<C> {
    let mut guest = Guest::new(boot, clock);
    guest.cpus = cpus;
    guest.memory_mib = machine.memory;
    guest.limit = Duration::from_nanos(machine.limit);
    guest.kernel_arguments = machine.append.split_whitespace().map(str::to_owned).collect();
    guest
}

/// The user's cache directory. In one for temporary files others could have put kernels and packages.
fn default_work_directory() -> Result<PathBuf, VmFailure> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("onbeat/vm")).ok_or(VmFailure::NoCache)
}
