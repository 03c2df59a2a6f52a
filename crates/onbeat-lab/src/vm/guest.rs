//! A guest: its description as plain data, QEMU's command line, and QEMU's life from start to end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::error::last_line;
use super::frame::{self, FrameError};
use super::leftover::{self, RunningRecord};
use super::qmp::ControlSocket;
use super::result::GuestResult;
use super::work_directory::new_directory;
use super::{BootImage, Job, VmError, WorkDirectory, process};

const PROGRAM: &str = "qemu-system-x86_64";
/// Files in a guest's directory, which is QEMU's working directory.
const CONSOLE: &str = "console.log";
const STREAM: &str = "stream";
const SOCKET: &str = "qmp";
const JOB: &str = "job";
const ERRORS: &str = "qemu.log";
const COMMAND: &str = "command";

/// How often the end of QEMU is looked for.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// How long QEMU has from its start until it answers; a busy host with many guests needs seconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Description of a guest that runs by clock `C`.
///
/// A guest has no network and no disk.
#[derive(Clone, Debug)]
pub struct Guest<C: Clock> {
    /// What it boots.
    pub boot: BootImage,
    /// The clock it runs by.
    pub clock: C,
    /// Number of CPUs; in virtual time 1.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Arguments for its kernel, after those that the clock needs.
    pub kernel_arguments: Vec<String>,
    /// Added to the nice value of QEMU's threads, 0 to 19.
    pub niceness: i32,
    /// Longest time until its end, in the host's time.
    pub limit: Duration,
}

impl<C: Clock> Guest<C> {
    /// A guest with one CPU, 512 MiB and a limit of two minutes.
    #[must_use]
    pub fn new(boot: BootImage, clock: C) -> Self {
        let limit = Duration::from_secs(120);
        Self { boot, clock, cpus: 1, memory_mib: 512, kernel_arguments: Vec::new(), niceness: 0, limit }
    }

    /// Runs a job to its end. Blocks; `stop` ends the guest from another thread or a signal handler.
    ///
    /// # Errors
    /// When the guest cannot be started, is stopped, exceeds its limit, or ends before it has sent everything. A job that fails is not
    /// an error: see [`GuestResult::status`].
    pub fn run(&self, work: &WorkDirectory, job: &Job, stop: &AtomicBool) -> Result<GuestResult<C>, VmError> {
        self.start(work, job)?.wait(stop)
    }

    /// Starts a guest. It ends with the calling thread, however that ends.
    ///
    /// # Errors
    /// When the description is contradictory, the job is too long, or QEMU does not start.
    pub fn start(&self, work: &WorkDirectory, job: &Job) -> Result<RunningGuest<C>, VmError> {
        if self.clock.cpu_limit().is_some_and(|limit| self.cpus > limit) {
            return Err(VmError::CpusInVirtualTime { cpus: self.cpus });
        }

        let directory = new_directory(&work.guests(), "")?;
        let arguments = self.arguments(&directory, job)?;
        if self.boot.takes_job_file {
            write(&directory.join(JOB), &job.to_file()?)?;
        }
        write(&directory.join(COMMAND), shell_line(&arguments).as_bytes())?;

        let record = RunningRecord::create(&directory)?;
        let errors_path = directory.join(ERRORS);
        let errors = File::create(&errors_path).map_err(VmError::writing(&errors_path))?;
        let mut command = Command::new(PROGRAM);
        command.args(&arguments).current_dir(&directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let started = Instant::now();
        let child = process::spawn(&mut command, self.niceness).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => {
                VmError::ProgramMissing { program: PROGRAM.to_owned(), package: "qemu-system-x86" }
            }
            _ => VmError::Qemu {
                program: PROGRAM.to_owned(),
                status: "an error".to_owned(),
                message: source.to_string(),
            },
        });
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                record.close()?;
                return Err(error);
            }
        };

        let mut running = RunningGuest {
            process: QemuProcess { child, directory, record: Some(record) },
            socket: None,
            started,
            limit: self.limit,
            clock: self.clock.clone(),
        };
        running.connect()?;
        Ok(running)
    }

    /// QEMU's arguments. Paths within the guest's directory are relative to it.
    fn arguments(&self, directory: &Path, job: &Job) -> Result<Vec<OsString>, VmError> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |words: &str| arguments.extend(words.split(' ').map(OsString::from));
        add("-name");
        add(&leftover::name_argument(directory));
        // A machine without a file of the host's, a network, a screen; a guest that restarts or crashes ends.
        add("-machine q35 -no-user-config -nodefaults -nic none -display none -no-reboot");
        add(&format!("-smp {} -m {}M", self.cpus, self.memory_mib));
        for argument in self.clock.qemu_arguments() {
            add(&argument);
        }

        add(&format!("-serial file:{CONSOLE} -qmp unix:{SOCKET},server=on,wait=off"));
        // Without ioeventfd the device answers in the CPU's thread, not in one that runs when the host lets it.
        add(&format!("-chardev file,id=stream,path={STREAM} -device virtio-serial-pci,ioeventfd=off"));
        add("-device virtserialport,chardev=stream,name=onbeat");
        if self.boot.takes_job_file {
            add(&format!("-fw_cfg name=opt/onbeat/job,file={JOB}"));
        }

        arguments.extend(["-kernel".into(), self.boot.vmlinux.clone().into_os_string()]);
        arguments.extend(["-initrd".into(), self.boot.initramfs.clone().into_os_string()]);
        arguments.extend(["-append".into(), self.kernel_command_line(job)?.into()]);
        Ok(arguments)
    }

    fn kernel_command_line(&self, job: &Job) -> Result<String, VmError> {
        // A panic ends the guest at once.
        let mut words = vec!["console=ttyS0".to_owned(), "quiet".to_owned(), "panic=-1".to_owned()];
        words.extend(self.clock.kernel_arguments().iter().map(|word| (*word).to_owned()));
        words.extend(self.kernel_arguments.iter().cloned());
        if !self.boot.takes_job_file {
            words.push(job.to_kernel_argument()?);
        }

        Ok(words.join(" "))
    }
}

/// A guest that has been started. Dropping it ends it.
#[derive(Debug)]
pub struct RunningGuest<C: Clock> {
    process: QemuProcess,
    socket: Option<ControlSocket>,
    started: Instant,
    limit: Duration,
    clock: C,
}

impl<C: Clock> RunningGuest<C> {
    /// Waits for the guest's end and returns what it has sent. See [`Guest::run`].
    ///
    /// # Errors
    /// When the guest is stopped, exceeds its limit, or ends before it has sent everything.
    pub fn wait(mut self, stop: &AtomicBool) -> Result<GuestResult<C>, VmError> {
        let console = self.console_path();
        loop {
            if self.process.ended()?.is_some() {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                self.process.end()?;
                return Err(VmError::Stopped);
            }
            if self.started.elapsed() > self.limit {
                self.process.end()?;
                let last_line = last_line(&fs::read(&console).unwrap_or_default());
                return Err(VmError::Timeout { limit: self.limit, last_line, console });
            }

            std::thread::sleep(POLL_EVERY);
        }

        let elapsed = self.started.elapsed();
        self.process.close()?;
        let directory = self.process.directory.clone();
        let shipment = read_shipment(&directory)?;
        Ok(GuestResult::new(shipment, directory, elapsed))
    }

    /// Host threads of the virtual CPUs, in order.
    ///
    /// # Errors
    /// When QEMU has ended, or its control socket does not answer.
    pub fn cpu_threads(&mut self) -> Result<Vec<i32>, VmError> {
        let ended = || VmError::Control { message: "closed".to_owned() };
        let cpus = self.socket.as_mut().ok_or_else(ended)?.cpus()?;
        Ok(cpus.into_iter().map(|cpu| cpu.thread).collect())
    }

    /// Process number of QEMU.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// The guest's directory on the host.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.process.directory
    }

    /// The clock that the guest runs by.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    fn console_path(&self) -> PathBuf {
        self.process.directory.join(CONSOLE)
    }

    /// Connects to the control socket as soon as QEMU has created it.
    fn connect(&mut self) -> Result<(), VmError> {
        while self.started.elapsed() < ANSWERS_WITHIN.min(self.limit) {
            let socket = ControlSocket::connect(&self.process.directory, SOCKET);
            // QEMU's own message says more than the connection that its end has cut off.
            let status = if socket.is_err() { self.process.ended_soon()? } else { self.process.ended()? };
            if let Some(status) = status {
                return Err(self.failed_start(status)?);
            }

            self.socket = socket?;
            if self.socket.is_some() {
                return Ok(());
            }
            std::thread::sleep(POLL_EVERY);
        }

        Err(VmError::Control { message: format!("QEMU did not answer within {ANSWERS_WITHIN:?}") })
    }

    fn failed_start(&mut self, status: ExitStatus) -> Result<VmError, VmError> {
        self.process.close()?;
        let message = last_line(&fs::read(self.process.directory.join(ERRORS)).unwrap_or_default());
        Ok(VmError::Qemu { program: PROGRAM.to_owned(), status: status.to_string(), message })
    }
}

/// QEMU as a process. Dropping it ends it.
#[derive(Debug)]
struct QemuProcess {
    child: Child,
    directory: PathBuf,
    record: Option<RunningRecord>,
}

impl QemuProcess {
    fn ended(&mut self) -> Result<Option<ExitStatus>, VmError> {
        self.child.try_wait().map_err(VmError::reading(&self.directory))
    }

    /// The status of a process that is about to end, or nothing after a second.
    fn ended_soon(&mut self) -> Result<Option<ExitStatus>, VmError> {
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            std::thread::sleep(POLL_EVERY);
        }

        Ok(None)
    }

    /// Kills QEMU and waits for its end.
    fn end(&mut self) -> Result<(), VmError> {
        // It fails only when the process has been waited for already.
        let _ = self.child.kill();
        self.child.wait().map_err(VmError::reading(&self.directory))?;
        self.close()
    }

    /// Removes the record after the process has ended.
    fn close(&mut self) -> Result<(), VmError> {
        self.record.take().map_or(Ok(()), RunningRecord::close)
    }
}

impl Drop for QemuProcess {
    fn drop(&mut self) {
        if self.record.is_some() {
            // The record stays when this fails, and the next start tries again.
            let _ = self.end();
        }
    }
}

/// What a guest has sent, by its port or else by its console.
fn read_shipment(directory: &Path) -> Result<frame::Shipment, VmError> {
    let console = directory.join(CONSOLE);
    let lines = fs::read(&console).unwrap_or_default();
    let path = directory.join(STREAM);
    let mut stream = fs::read(&path).map_err(VmError::reading(&path))?;
    if stream.is_empty() {
        stream = frame::from_console(&lines);
    }

    let incomplete = |reason: FrameError| VmError::Incomplete { reason, last_line: last_line(&lines), console };
    frame::parse(&stream).map_err(incomplete)
}

fn write(path: &Path, content: &[u8]) -> Result<(), VmError> {
    fs::write(path, content).map_err(VmError::writing(path))
}

/// QEMU's command as a line for a shell, to run the same guest by hand from its directory.
fn shell_line(arguments: &[OsString]) -> String {
    let quoted = arguments.iter().map(|argument| {
        let text = argument.to_string_lossy();
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_=,./:+".contains(c));
        if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
    });
    format!("{PROGRAM} {}\n", quoted.collect::<Vec<_>>().join(" "))
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
            takes_job_file,
        }
    }

    fn line<C: Clock>(guest: &Guest<C>) -> String {
        let mut job = Job::new();
        job.command(["true"]);
        shell_line(&guest.arguments(Path::new("/w/guests/7-0"), &job).expect("arguments"))
    }

    #[test]
    fn in_virtual_time_nothing_comes_from_the_host() {
        let line = line(&Guest::new(boot(true), Virtual { shift: 4, seed: 9 }));
        let expected = "qemu-system-x86_64 -name guest=onbeat-7-0,debug-threads=on -machine q35 -no-user-config -nodefaults -nic none \
            -display none -no-reboot -smp 1 -m 512M -accel tcg,thread=single -icount shift=4,sleep=off -cpu max \
            -rtc base=2026-01-01T00:00:00,clock=vm -seed 9 -serial file:console.log -qmp unix:qmp,server=on,wait=off \
            -chardev file,id=stream,path=stream -device virtio-serial-pci,ioeventfd=off \
            -device virtserialport,chardev=stream,name=onbeat -fw_cfg name=opt/onbeat/job,file=job -kernel /k/vmlinux \
            -initrd /k/i.cpio -append 'console=ttyS0 quiet panic=-1 idle=poll nokaslr norandmaps tsc=reliable mitigations=off'\n";
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
        assert!(line.contains(" mitigations=off isolcpus=1 onbeat.job=d29yaygpIHsKJ3"), "{line}");
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
}
