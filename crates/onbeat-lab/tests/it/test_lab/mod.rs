//! A laboratory for tests: guests with the onbeat that the caller names.
//!
//! It needs QEMU, busybox, a static onbeat (`ONBEAT`) and a work directory (`ONBEAT_VM_WORK`);
//! without these two variables there is none. Packages of kernels are taken from `packages/` in the
//! work directory, and downloaded where `ONBEAT_VM_DOWNLOAD` is set.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onbeat_lab::vm::{
    BootImage, Guest, GuestResult, Initramfs, Job, Kernel, LatencyTest, PackageSource, VmClock,
    WorkDirectory,
};

pub(crate) const BUSYBOX: &str = "/usr/bin/busybox";
pub(crate) const RT: &str = "linux-image-rt-amd64";
pub(crate) const STOCK: &str = "linux-image-cloud-amd64";

/// One guest at a time, however many threads run tests.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub(crate) struct TestLab {
    pub(crate) onbeat: PathBuf,
    pub(crate) work: WorkDirectory,
    _turn: MutexGuard<'static, ()>,
}

impl TestLab {
    /// None, with the reason on standard output, where guests are not to be run.
    pub(crate) fn open() -> Option<Self> {
        let (Some(onbeat), Some(work)) =
            (std::env::var_os("ONBEAT"), std::env::var_os("ONBEAT_VM_WORK"))
        else {
            println!(
                "skipped: ONBEAT (a static onbeat) and ONBEAT_VM_WORK (a work directory) are not both set; see make test-vm"
            );
            return None;
        };

        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let work = WorkDirectory::open(Path::new(&work)).expect("a work directory");
        Some(Self { onbeat: onbeat.into(), work, _turn: turn })
    }

    pub(crate) fn kernel(&self, package: &str) -> Kernel {
        Kernel::from_package(&self.work, package, &packages(&self.work)).expect("a kernel")
    }

    pub(crate) fn boot(&self, kernel: &Kernel) -> BootImage {
        let mut initramfs = Initramfs::new(kernel, Path::new(BUSYBOX)).expect("an initramfs");
        initramfs.program("bin/onbeat", &self.onbeat).expect("a static onbeat");
        initramfs.build(&self.work).expect("an archive")
    }

    pub(crate) fn guest<C: VmClock>(&self, package: &str, clock: C) -> Guest<C> {
        let mut guest = Guest::new(self.boot(&self.kernel(package)), clock);
        guest.niceness = 19;
        guest.limit = Duration::from_secs(280);
        guest
    }

    pub(crate) fn run<C: VmClock>(&self, guest: &Guest<C>, job: &Job) -> GuestResult<C> {
        let result = guest.run(&self.work, job, &AtomicBool::new(false)).expect("a result");
        result.succeeded().expect("a job that succeeds");
        result
    }
}

pub(crate) fn packages(work: &WorkDirectory) -> PackageSource {
    match std::env::var_os("ONBEAT_VM_DOWNLOAD") {
        Some(_) => PackageSource::Download,
        None => PackageSource::Directory(work.path.join("packages")),
    }
}

pub(crate) fn loaded() -> Job {
    Job::measure_latency(&LatencyTest {
        load: LatencyTest::WRITER.to_owned(),
        ..LatencyTest::default()
    })
}

/// Processes that keep all CPUs of the host busy until they are dropped.
pub(crate) struct HostLoad(Vec<std::process::Child>);

impl HostLoad {
    pub(crate) fn start() -> Self {
        let busy = || {
            Command::new("nice")
                .args(["-n", "19", "sh", "-c", "while :; do :; done"])
                .spawn()
                .expect("a load")
        };
        Self(std::iter::repeat_with(busy).take(3).collect())
    }
}

impl Drop for HostLoad {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
