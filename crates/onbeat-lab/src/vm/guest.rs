//! A guest: its description as plain data, QEMU's arguments, and its run from start to result.

use std::ffi::OsString;
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use super::clock::VmClock;
use super::error::last_line;
use super::frame::{self, FrameError};
use super::leftover::{self, GuestDirectory};
use super::own::{CONSOLE_SOCKET, LoginThread, OwnLogin, OwnMachine};
use super::qemu::{POLL_EVERY, QemuProcess, SOCKET, shell_line, split};
use super::result::GuestResult;
use super::snapshot::{self, SNAPSHOT};
use super::{BootImage, Job, VmError, WorkDirectory};

/// Files in a guest's directory, which is QEMU's working directory.
pub(crate) const CONSOLE: &str = "console.log";
const STREAM: &str = "stream";
/// The same by a serial port, of a guest that may lack the driver of the other.
const SERIAL_STREAM: &str = "stream.serial";
pub(super) const JOB: &str = "job";

/// How long the state of a restored guest may take to arrive; on a busy host it needs seconds.
const RESTORED_WITHIN: Duration = Duration::from_secs(60);

/// `COMMAND_LINE_SIZE` of x86, less the null byte at the end. The kernel cuts off what is longer,
/// without a word.
const COMMAND_LINE_LIMIT: usize = 2047;

/// Description of a guest that runs by clock `C`.
///
/// One of onbeat's own has no network and no disk; a user's (`BootImage::own`) is as its owner wrote it.
#[derive(Clone, Debug)]
pub struct Guest<C: VmClock> {
    /// What it boots.
    pub boot: BootImage,
    /// The clock it runs by.
    pub clock: C,
    /// Number of CPUs of a guest of onbeat's own; in virtual time 1.
    pub cpus: u32,
    /// Its memory.
    pub memory_mib: u32,
    /// Arguments for its kernel, after those that the clock needs.
    pub kernel_arguments: Vec<String>,
    /// Further arguments of QEMU, behind all others.
    pub qemu_arguments: Vec<String>,
    /// Arguments of QEMU that observe from outside and change nothing in the guest, such as
    /// `-plugin`: they are no part of what identifies it, nor of its snapshot.
    pub observers: Vec<String>,
    /// Added to the nice value of QEMU's threads, 0 to 19.
    pub niceness: i32,
    /// Longest time until its end, in the host's time.
    pub limit: Duration,
}

impl<C: VmClock> Guest<C> {
    /// A guest with one CPU, 512 MiB and a limit of two minutes.
    #[must_use]
    pub fn new(boot: BootImage, clock: C) -> Self {
        let limit = Duration::from_secs(120);
        Self {
            boot,
            clock,
            cpus: 1,
            memory_mib: 512,
            kernel_arguments: Vec::new(),
            qemu_arguments: Vec::new(),
            observers: Vec::new(),
            niceness: 0,
            limit,
        }
    }

    /// Runs a job to its end. Blocks; `stop` ends the guest from another thread or a signal
    /// handler.
    ///
    /// In virtual time the guest is restored from a snapshot, which is made on first use.
    ///
    /// # Errors
    /// When the guest cannot be started, is stopped, exceeds its limit, or ends before it has sent
    /// everything. A job that fails is not an error: see [`GuestResult::status`].
    pub fn run(
        &self,
        work: &WorkDirectory,
        job: &Job,
        stop: &AtomicBool,
    ) -> Result<GuestResult<C>, VmError> {
        self.check()?;
        let snapshot = self.snapshot(work, stop)?;
        self.begin(work, job, snapshot.as_deref())?.wait(stop)
    }

    /// Starts a guest. It ends with the calling thread, however that ends.
    ///
    /// # Errors
    /// When the description is contradictory, the job is too long, or QEMU does not start.
    pub fn start(&self, work: &WorkDirectory, job: &Job) -> Result<RunningGuest<C>, VmError> {
        self.check()?;
        let snapshot = self.snapshot(work, &AtomicBool::new(false))?;
        self.begin(work, job, snapshot.as_deref())
    }

    fn check(&self) -> Result<(), VmError> {
        if let Some(login) = self.login() {
            if C::NAME == "virtual" {
                return Err(VmError::LoginInVirtualTime);
            }
            if login.kernel.is_none() && !self.kernel_arguments.is_empty() {
                let words = self.kernel_arguments.join(" ");
                return Err(VmError::CommandLineOnDisk { words });
            }
        }
        let cpus = self.boot.own.as_ref().map_or(self.cpus, |own| own.cpus);
        match self.clock.cpu_limit() {
            Some(limit) if cpus > limit => Err(VmError::CpusInVirtualTime { cpus }),
            _ => Ok(()),
        }
    }

    /// How the agent comes into a guest that boots from its disk.
    fn login(&self) -> Option<&OwnLogin> {
        self.boot.own.as_ref()?.login.as_ref()
    }

    /// The clock of the guest as it is saved; none when each guest is booted.
    fn saved_clock(&self) -> Option<C> {
        // Only a job in a file can differ between a saved guest and a restored one.
        self.clock.of_saved().filter(|_| self.boot.takes_job_file)
    }

    /// Returns the snapshot that the guest is restored from, made on first use.
    fn snapshot(
        &self,
        work: &WorkDirectory,
        stop: &AtomicBool,
    ) -> Result<Option<PathBuf>, VmError> {
        let Some(clock) = self.saved_clock() else { return Ok(None) };
        let saved = Self { clock, ..self.clone() };
        let arguments = saved.arguments(Path::new("guest"), &Job::new())?;
        snapshot::of(&saved, &arguments, work, stop).map(Some)
    }

    /// Starts QEMU with the guest, restored where there is a snapshot.
    fn begin(
        &self,
        work: &WorkDirectory,
        job: &Job,
        snapshot: Option<&Path>,
    ) -> Result<RunningGuest<C>, VmError> {
        let directory = GuestDirectory::create(&work.guests())?;
        let mut arguments = self.arguments(&directory.path, job)?;
        if self.boot.takes_job_file {
            let path = directory.path.join(JOB);
            fs::write(&path, job.to_file()?).map_err(VmError::writing(&path))?;
        }
        let login = self.login();
        if let Some(login) = login {
            let job = format!("export ONBEAT_CLOCK={}\n{}", C::NAME, job.script());
            login.write_disk(&directory.path, &job)?;
        }
        arguments.extend(self.observers.iter().map(OsString::from));
        if let Some(snapshot) = snapshot {
            let link = directory.path.join(SNAPSHOT);
            // Under this name it stays, whatever becomes of the one in the cache.
            fs::hard_link(snapshot, &link).map_err(VmError::writing(&link))?;
            arguments.extend(snapshot::restoring());
        }

        let qemu = QemuProcess::start(directory, &arguments, self.niceness)?;
        let login =
            login.map(|login| LoginThread::start(qemu.directory(), login, self.limit / 10 * 9));
        let mut running = RunningGuest { login, qemu, limit: self.limit, clock: PhantomData };
        if snapshot.is_some() {
            running.go_on()?;
        }
        Ok(running)
    }

    /// Everything that decides what a guest sends in virtual time, apart from QEMU itself: its
    /// arguments, with an initramfs that is named after its content, and the job.
    pub(super) fn identity(&self, job: &Job) -> Result<String, VmError> {
        let mut arguments = self.arguments(Path::new("guest"), job)?;
        if self.saved_clock().is_some() {
            arguments.extend(snapshot::restoring());
        }
        Ok(shell_line(&arguments) + &job.script())
    }

    /// QEMU's arguments. Paths within the guest's directory are relative to it.
    fn arguments(&self, directory: &Path, job: &Job) -> Result<Vec<OsString>, VmError> {
        let mut words = vec!["-name".to_owned(), leftover::name_argument(directory)];
        words.extend(self.machine_words());
        let console = match self.login() {
            None => format!("-serial file:{CONSOLE}"),
            Some(_) => format!(
                "-chardev socket,id=onbeat-console,path={CONSOLE_SOCKET},server=on,wait=off,logfile={CONSOLE} -serial chardev:onbeat-console"
            ),
        };
        words.extend(split(&format!("{console} -qmp unix:{SOCKET},server=on,wait=off")));
        words.extend(self.carrier_words());
        let mut arguments: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        arguments.extend(self.boot_arguments(job)?);
        arguments.extend(self.qemu_arguments.iter().map(OsString::from));
        Ok(arguments)
    }

    /// Kernel, initramfs and command line; none for a guest whose boot loader has them.
    fn boot_arguments(&self, job: &Job) -> Result<Vec<OsString>, VmError> {
        let (kernel, initramfs) = match self.login() {
            None => (Some(&self.boot.vmlinux), Some(&self.boot.initramfs)),
            Some(login) => (login.kernel.as_ref(), login.initrd.as_ref()),
        };
        let Some(kernel) = kernel else { return Ok(Vec::new()) };
        let initramfs = initramfs.map(|path| ["-initrd".into(), path.clone().into()]);
        let line = ["-append".into(), self.kernel_command_line(job)?.into()];
        let kernel = ["-kernel".into(), kernel.clone().into()];
        Ok(kernel.into_iter().chain(initramfs.into_iter().flatten()).chain(line).collect())
    }

    /// The machine, without what carries job and results.
    fn machine_words(&self) -> Vec<String> {
        let clock = self.clock.qemu_arguments();
        let Some(own) = &self.boot.own else {
            // A machine without a file of the host's, a network, a screen; a guest that restarts or
            // crashes ends.
            let bare =
                "-machine q35 -no-user-config -nodefaults -nic none -display none -no-reboot";
            let size = format!("-smp {} -m {}M", self.cpus, self.memory_mib);
            return [split(bare), split(&size), clock].concat();
        };

        // What the guest writes to its disks goes into files that QEMU has deleted already.
        let safe = split("-display none -no-reboot -snapshot");
        // The user's processor and accelerator are for KVM.
        let is_real = C::NAME == "real" && !own.processor.is_empty();
        let processor = if is_real { own.processor.clone() } else { clock };
        [safe, own.words.clone(), processor].concat()
    }

    /// What carries the job to the guest and its results to the host.
    fn carrier_words(&self) -> Vec<String> {
        if let Some(own) = &self.boot.own {
            // The driver of serial ports is part of every PC's kernel; that of virtio may be a module.
            let mut words = split(&format!(
                "-chardev file,id=onbeat-serial,path={SERIAL_STREAM} -device isa-serial,chardev=onbeat-serial,index=1"
            ));
            words.extend(own.login.iter().flat_map(|login| login.words(&own.words)));
            return words;
        }

        // Without ioeventfd the device answers in the CPU's thread, not in one that runs when the
        // host lets it.
        let mut words = split(&format!(
            "-chardev file,id=stream,path={STREAM} -device virtio-serial-pci,ioeventfd=off -device virtserialport,chardev=stream,name=onbeat"
        ));
        if self.boot.takes_job_file {
            words.extend(split(&format!("-fw_cfg name=opt/onbeat/job,file={JOB}")));
        }
        if self.saved_clock().is_some() {
            // The device by which a guest pauses itself, to be saved.
            words.extend(split("-device pvpanic -action panic=pause"));
        }
        words
    }

    fn kernel_command_line(&self, job: &Job) -> Result<String, VmError> {
        let append = self.boot.own.as_ref().map(OwnMachine::split_append);
        let (of_kernel, to_init) = append.unwrap_or_default();
        if self.login().is_some() {
            return Ok([of_kernel, self.kernel_arguments.clone(), to_init].concat().join(" "));
        }
        let of_clock = self.clock.kernel_arguments().iter().map(|word| (*word).to_owned());
        let mut words: Vec<String> = match &self.boot.own {
            // A panic ends the guest at once.
            None => split("console=ttyS0 quiet panic=-1"),
            Some(own) => own.command_line(),
        };
        // What makes emulation faster is not asked of a guest that the user has made.
        if self.boot.own.is_none() || C::NAME != "free" {
            words.extend(of_clock);
        }
        // By this word, run files note their clock.
        words.push(format!("onbeat.clock={}", C::NAME));
        words.extend(self.kernel_arguments.iter().cloned());
        if !self.boot.takes_job_file {
            words.push(job.to_kernel_argument());
        }
        words.extend(to_init);

        let line = words.join(" ");
        match line.len() {
            0..=COMMAND_LINE_LIMIT => Ok(line),
            length => Err(VmError::CommandLineTooLong { length, limit: COMMAND_LINE_LIMIT }),
        }
    }
}

/// A guest that has been started. Dropping it ends it.
#[derive(Debug)]
pub struct RunningGuest<C: VmClock> {
    // Dropped first: it holds the console.
    login: Option<LoginThread>,
    qemu: QemuProcess,
    limit: Duration,
    clock: PhantomData<C>,
}

impl<C: VmClock> RunningGuest<C> {
    /// Lets a restored guest go on, once its state has arrived: it is stopped then.
    fn go_on(&mut self) -> Result<(), VmError> {
        let never = AtomicBool::new(false);
        snapshot::wait_until(&mut self.qemu, RESTORED_WITHIN, &never, |qemu| {
            Ok(qemu.execute("query-status", &json!({}))?["status"] != "inmigrate")
        })?;
        self.qemu.execute("cont", &json!({})).map(drop)
    }

    /// Waits for the guest's end and returns what it has sent. See [`Guest::run`].
    ///
    /// # Errors
    /// When the guest is stopped, exceeds its limit, or ends before it has sent everything.
    pub fn wait(mut self, stop: &AtomicBool) -> Result<GuestResult<C>, VmError> {
        let status = loop {
            if let Some(status) = self.qemu.ended()? {
                break status;
            }
            if let Err(error) = self.check_patience(stop) {
                self.qemu.end()?;
                return Err(error);
            }

            std::thread::sleep(POLL_EVERY);
        };

        if !status.success() {
            return Err(self.qemu.killed(status));
        }

        let elapsed = self.qemu.elapsed();
        let directory = self.directory().to_owned();
        let shipment = read_shipment(&directory)?;
        Ok(GuestResult::new(shipment, directory, elapsed).holding(self.qemu.directory_lock()))
    }

    /// Fails once nobody can log in, and as [`QemuProcess::check`].
    fn check_patience(&mut self, stop: &AtomicBool) -> Result<(), VmError> {
        if let Some(source) = self.login.as_mut().and_then(LoginThread::failure).cloned() {
            return Err(VmError::Login { source, console: self.directory().join(CONSOLE) });
        }
        self.qemu.check(self.limit, stop)
    }

    /// Host threads of the virtual CPUs, in order.
    ///
    /// # Errors
    /// When QEMU has ended, or its control socket does not answer.
    pub fn cpu_threads(&mut self) -> Result<Vec<i32>, VmError> {
        self.qemu.cpu_threads()
    }

    /// Whether it has ended, has exceeded its limit, or lets nobody in.
    pub(crate) fn is_over(&mut self) -> Result<bool, VmError> {
        let is_closed = self.login.as_mut().is_some_and(|login| login.failure().is_some());
        Ok(is_closed || self.qemu.ended()?.is_some() || self.qemu.elapsed() > self.limit)
    }

    /// Process number of QEMU.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.qemu.pid()
    }

    /// The guest's directory on the host.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.qemu.directory()
    }
}

/// Reads what a guest has sent, by its port or else by its console, and removes the file of its
/// port.
fn read_shipment(directory: &Path) -> Result<frame::Shipment, VmError> {
    let console = directory.join(CONSOLE);
    let lines = fs::read(&console).unwrap_or_default();
    let paths = [STREAM, SERIAL_STREAM].map(|name| directory.join(name));
    let mut stream = Vec::new();
    for path in paths.iter().filter(|path| path.exists()) {
        if stream.is_empty() {
            stream = fs::read(path).map_err(VmError::reading(path))?;
        }
    }
    if stream.is_empty() {
        stream = frame::from_console(&lines);
    }

    let incomplete =
        |reason: FrameError| VmError::Incomplete { reason, last_line: last_line(&lines), console };
    let shipment = frame::parse(&stream).map_err(incomplete)?;
    // Its content is in memory; hundreds of guests would fill the disk with it.
    for path in paths.iter().filter(|path| path.exists()) {
        fs::remove_file(path).map_err(VmError::writing(path))?;
    }
    Ok(shipment)
}

#[cfg(test)]
mod tests {
    use super::super::clock::{Free, Real, Virtual};
    use super::*;

    fn boot(takes_job_file: bool) -> BootImage {
        BootImage {
            release: "6.1".to_owned(),
            vmlinux: "/k/vmlinux".into(),
            initramfs: "/k/i.cpio".into(),
            has_port: true,
            takes_job_file,
            own: None,
        }
    }

    fn line<C: VmClock>(guest: &Guest<C>) -> String {
        let mut job = Job::new();
        job.command(["true"]);
        shell_line(&guest.arguments(Path::new("/w/guests/7-0"), &job).expect("arguments"))
    }

    #[test]
    fn in_virtual_time_nothing_comes_from_the_host() {
        let line = line(&Guest::new(boot(true), Virtual { shift: 4, seed: 9 }));
        let expected = "qemu-system-x86_64 -name guest=onbeat-7-0,debug-threads=on -machine q35 -no-user-config -nodefaults -nic none \
            -display none -no-reboot -smp 1 -m 512M -accel tcg,thread=single,tb-size=64 -icount shift=4,sleep=off -cpu max \
            -rtc base=2026-01-01T00:00:00,clock=vm -seed 9 -serial file:console.log -qmp unix:qmp,server=on,wait=off \
            -chardev file,id=stream,path=stream -device virtio-serial-pci,ioeventfd=off \
            -device virtserialport,chardev=stream,name=onbeat -fw_cfg name=opt/onbeat/job,file=job -device pvpanic -action panic=pause -kernel /k/vmlinux \
            -initrd /k/i.cpio -append 'console=ttyS0 quiet panic=-1 idle=poll nokaslr norandmaps tsc=reliable mitigations=off onbeat.clock=virtual'\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn without_a_job_file_the_job_stands_on_the_kernel_command_line() {
        let mut guest = Guest::new(boot(false), Free);
        guest.kernel_arguments = vec!["isolcpus=1".to_owned()];
        guest.cpus = 2;
        let line = line(&guest);
        assert!(!line.contains("-fw_cfg"), "{line}");
        assert!(line.contains("-smp 2 "), "{line}");
        assert!(
            line.contains(" mitigations=off onbeat.clock=free isolcpus=1 onbeat.job=H4sI"),
            "{line}"
        );
    }

    #[test]
    fn by_the_real_clock_the_guest_runs_under_kvm() {
        let line = line(&Guest::new(boot(true), Real::assume()));
        assert!(line.contains("-accel kvm -cpu host"), "{line}");
        assert!(!line.contains("icount") && !line.contains("idle=poll"), "{line}");
    }

    #[test]
    fn several_cpus_in_virtual_time_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let work = WorkDirectory::open(directory.path()).expect("a work directory");
        let mut guest = Guest::new(boot(true), Virtual::default());
        guest.cpus = 2;
        let refused = guest.start(&work, &Job::new()).expect_err("two CPUs").to_string();
        assert_eq!(refused, "guest with 2 CPUs in virtual time: instruction counting allows 1");
    }

    #[test]
    fn a_command_line_that_the_kernel_would_cut_off_is_refused() {
        let mut guest = Guest::new(boot(false), Free);
        let mut job = Job::new();
        // Text that gzip finds no repetition in.
        let mut random = fastrand::Rng::with_seed(1);
        job.command([std::iter::repeat_with(|| random.alphanumeric())
            .take(2000)
            .collect::<String>()]);
        let refused = guest.kernel_command_line(&job).expect_err("too long").to_string();
        assert!(refused.starts_with("the kernel command line is 2"), "{refused}");

        guest.boot.takes_job_file = true;
        assert!(guest.kernel_command_line(&job).is_ok());
        guest.kernel_arguments = vec!["y".repeat(2000)];
        assert!(guest.kernel_command_line(&Job::new()).is_err());
    }
}
