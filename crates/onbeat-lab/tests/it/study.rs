//! QEMU's threads on a real host, and a whole study: `make test-vm`.
//!
//! The tests of threads need QEMU alone; a guest that never boots has all threads. The study needs
//! root and what `tests/it/guests.rs` needs. What is missing is printed, and the test skipped.

use crate::test_lab::TestLab;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onbeat::campaign::CampaignEvent;
use onbeat_lab::study::{StudyFile, StudyRequest, StudyResults, StudySide, conduct};
use onbeat_lab::vm::{
    Initramfs, Kernel, PackageSource, PlaceError, QemuSocket, QemuThread, ThreadPlan, Virtual,
    WorkDirectory, place_threads, qemu_threads, qemu_version,
};
use onbeat_tune::{CpuList, HostFiles, Journal, LiveHost, Purpose, UndoMode, repair};

/// Set in the process that is killed in place of the whole test: its journal and QEMU's socket.
const PLACER: &str = "ONBEAT_STUDY_PLACER";
const RT: &str = "linux-image-rt-amd64";

/// One QEMU or study at a time, however many threads run tests.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A QEMU with three virtual CPUs that are stopped: each has a thread, and none runs.
struct StoppedQemu {
    child: Child,
    directory: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl StoppedQemu {
    /// None, with the reason on standard output, where QEMU is missing or threads cannot be placed.
    fn start() -> Option<Self> {
        if let Err(why) = qemu_version() {
            println!("skipped: {why}");
            return None;
        }
        if !LiveHost::new().is_root() || online().iter().count() < 2 {
            println!("skipped: placing threads under SCHED_FIFO needs root, and two CPUs");
            return None;
        }

        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args("-S -machine q35 -accel tcg,thread=multi -smp 3 -m 64M -nodefaults".split(' '));
        command.args("-display none -name guest=stopped,debug-threads=on".split(' '));
        command.args(["-qmp", "unix:qmp,server=on,wait=off"]).current_dir(directory.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("QEMU");
        let this = Self { child, directory, _turn: turn };
        while !this.socket().exists() {
            std::thread::yield_now();
        }
        Some(this)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("qmp")
    }

    fn journals(&self) -> PathBuf {
        self.directory.path().join("journal")
    }

    fn ask(&self) -> QemuSocket {
        // The socket's file is there before it is listened to.
        loop {
            if let Ok(found) = QemuSocket::ask(&self.socket()) {
                return found;
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for StoppedQemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn online() -> CpuList {
    onbeat::host::online_cpus().into_iter().collect()
}

/// The last CPU for virtual CPUs at priority 1, the first one for everything else.
fn plan() -> ThreadPlan {
    let (first, last) = (online().iter().next(), online().iter().last());
    let one = |cpu: Option<u32>| cpu.into_iter().collect::<CpuList>();
    ThreadPlan::new(3, &one(last), &one(first), Some(1)).expect("a plan")
}

fn place(host: &LiveHost, journals: &Path, qemu: &QemuSocket) -> Journal {
    let mut journal =
        Journal::begin(journals, host, &Purpose::new("test", "test")).expect("a journal");
    place_threads(host, &mut journal, qemu.pid, &qemu.vcpus, &plan()).expect("placed threads");
    journal
}

/// What `/proc/TID/status` and the scheduler say, without the thread's name.
fn states(threads: &[QemuThread]) -> Vec<(i32, String, String)> {
    threads.iter().map(|one| (one.tid, one.cpus.to_string(), one.policy.clone())).collect()
}

#[test]
fn each_virtual_cpu_is_placed_by_itself_and_no_other_thread_has_its_priority() {
    let Some(running) = StoppedQemu::start() else { return };
    let (host, qemu) = (LiveHost::new(), running.ask());
    assert_eq!(qemu.pid, running.child.id().cast_signed());
    assert_eq!(qemu.vcpus.len(), 3);
    let before = qemu_threads(&host, qemu.pid, &qemu.vcpus);
    assert!(before.len() > 3, "vCPUs and the main loop: {before:?}");

    let mut journal = place(&host, &running.journals(), &qemu);
    let plan = plan();
    for thread in qemu_threads(&host, qemu.pid, &qemu.vcpus) {
        let status = fs::read_to_string(format!("/proc/{}/status", thread.tid)).expect("a thread");
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        let shown = line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_default();
        let as_before = before.iter().find(|one| one.tid == thread.tid);
        let as_before = as_before.map_or("other", |one| one.policy.as_str());
        let (cpus, policy) = match thread.vcpus.first() {
            Some(vcpu @ 2) => (&plan.vcpus[*vcpu].cpus, "fifo 1"),
            Some(vcpu) => (&plan.vcpus[*vcpu].cpus, as_before),
            None => (&plan.others, as_before),
        };
        assert_eq!(
            (shown, thread.policy.as_str()),
            (cpus.to_string().as_str(), policy),
            "{thread:?}"
        );
    }

    journal.undo_all(&host, UndoMode::Careful).expect("an undo");
    journal.close().expect("nothing is left");
    assert_eq!(states(&qemu_threads(&host, qemu.pid, &qemu.vcpus)), states(&before));
}

#[test]
fn a_socket_that_names_other_threads_changes_nothing() {
    let Some(running) = StoppedQemu::start() else { return };
    let (host, qemu) = (LiveHost::new(), running.ask());
    let before = qemu_threads(&host, qemu.pid, &qemu.vcpus);
    let purpose = Purpose::new("test", "test");
    let mut journal = Journal::begin(&running.journals(), &host, &purpose).expect("a journal");
    let refused = place_threads(&host, &mut journal, qemu.pid, &[1], &plan()).expect_err("PID 1");
    assert!(matches!(refused, PlaceError::NoThread { vcpu: 0, thread: 1, .. }), "{refused}");
    assert_eq!(states(&qemu_threads(&host, qemu.pid, &qemu.vcpus)), states(&before));
}

#[test]
fn what_a_killed_onbeat_has_placed_is_put_back_by_the_next_start() {
    if let Some(both) = std::env::var_os(PLACER) {
        return place_and_wait(Path::new(&both));
    }
    let Some(running) = StoppedQemu::start() else { return };
    let (host, qemu) = (LiveHost::new(), running.ask());
    let before = states(&qemu_threads(&host, qemu.pid, &qemu.vcpus));

    let mut placer = Command::new(std::env::current_exe().expect("this test"));
    let own = "study::what_a_killed_onbeat_has_placed_is_put_back_by_the_next_start";
    placer.args(["--exact", own]);
    placer.arg("--nocapture").env(PLACER, running.directory.path()).stdout(Stdio::piped());
    let mut placer = placer.spawn().expect("a process");
    let lines = BufReader::new(placer.stdout.take().expect("its output")).lines();
    let placed = lines.map_while(Result::ok).any(|line| line.contains("threads are placed"));
    assert!(placed);
    assert_ne!(states(&qemu_threads(&host, qemu.pid, &qemu.vcpus)), before);

    placer.kill().expect("a signal");
    placer.wait().expect("its end");
    let repaired = repair(&running.journals(), &host).expect("a repair");
    assert!(repaired.iter().all(onbeat_tune::Repaired::is_settled), "{repaired:?}");
    assert_eq!(states(&qemu_threads(&host, qemu.pid, &qemu.vcpus)), before);
}

fn place_and_wait(directory: &Path) {
    let qemu = QemuSocket::ask(&directory.join("qmp")).expect("a control socket");
    let _journal = place(&LiveHost::new(), &directory.join("journal"), &qemu);
    println!("\nthreads are placed");
    loop {
        std::thread::park();
    }
}

/// Two stages: one setting of the host, and QEMU's.
const STUDY: &str = r#"
    clock = "virtual"
    duration_s = 1
    period_us = 1000
    runs = 1
    commands = 50
    price_settings = false
    loads = [{ name = "idle" }]
    [[stage]]
    name = "host"
    settings = ["timer.migration"]
    [[stage]]
    name = "qemu"
    settings = ["vmm.mem", "host.vcpu_pin", "host.emulator_pin", "host.vcpu_prio"]
"#;
const MIGRATION: &str = "/proc/sys/kernel/timer_migration";

struct TestStudy {
    onbeat: PathBuf,
    work: WorkDirectory,
    directory: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl TestStudy {
    fn open() -> Option<Self> {
        let (Some(onbeat), Some(work)) =
            (std::env::var_os("ONBEAT"), std::env::var_os("ONBEAT_VM_WORK"))
        else {
            println!("skipped: ONBEAT and ONBEAT_VM_WORK are not both set; see make test-vm");
            return None;
        };
        if !LiveHost::new().is_root() || online().iter().count() < 2 {
            println!("skipped: a study changes settings, which needs root, and two CPUs");
            return None;
        }

        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let work = WorkDirectory::open(Path::new(&work)).expect("a work directory");
        let directory = tempfile::tempdir().expect("a directory");
        Some(Self { onbeat: onbeat.into(), work, directory, _turn: turn })
    }

    /// Conducts the study; after `most` measurements it is stopped. Returns the results, and the
    /// measurements of this call.
    fn conduct(&self, most: usize) -> (StudyResults, Vec<String>) {
        let source = match std::env::var_os("ONBEAT_VM_DOWNLOAD") {
            Some(_) => PackageSource::Download,
            None => PackageSource::Directory(self.work.path.join("packages")),
        };
        let kernel = Kernel::from_package(&self.work, RT, &source).expect("a kernel");
        let mut initramfs =
            Initramfs::new(&kernel, Path::new("/usr/bin/busybox")).expect("an initramfs");
        initramfs.program("bin/onbeat", &self.onbeat).expect("a static onbeat");
        let boot = initramfs.build(&self.work).expect("an archive");

        let request = StudyRequest {
            study: &StudyFile::from_toml(STUDY).expect("a study"),
            out: &self.directory.path().join("out"),
            journals: &self.directory.path().join("journal"),
            work: &self.work,
            boot: &boot,
            onbeat: &self.onbeat,
            command: "test",
            because: "asked for",
        };
        let (stop, mut stored) = (AtomicBool::new(false), Vec::new());
        let mut report = |event: CampaignEvent<'_>| match event {
            CampaignEvent::Stored { cell, .. } => {
                stored.push(cell.to_owned());
                stop.store(stored.len() == most, Ordering::Relaxed);
            }
            CampaignEvent::Failed { cell, why } => panic!("{cell}: {why}"),
            _ => {}
        };
        let results = conduct(&request, |seed| Virtual { shift: 3, seed }, &stop, &mut report)
            .expect("results");
        (results, stored)
    }
}

#[test]
fn a_study_resumes_after_a_stop_and_leaves_the_host_as_it_was() {
    let Some(study) = TestStudy::open() else { return };
    let migration = fs::read_to_string(MIGRATION).expect("a setting");
    let (stopped, first) = study.conduct(3);
    assert_eq!((first.len(), stopped.missing), (3, 3), "{stopped:?}");
    assert_eq!(fs::read_to_string(MIGRATION).expect("a setting"), migration);

    let (whole, rest) = study.conduct(usize::MAX);
    assert_eq!((rest.len(), whole.measured.len(), whole.missing), (3, 6, 0));
    assert_eq!(fs::read_to_string(MIGRATION).expect("a setting"), migration);
    assert!(
        fs::read_dir(study.directory.path().join("journal")).expect("a directory").count() <= 1
    );

    // Outside by the machine's clock, inside by the guest's; every command was answered.
    for measured in &whole.measured {
        let clock = if measured.slot.side == StudySide::Outside { "real" } else { "virtual" };
        assert_eq!(measured.clock, clock);
        let answers = measured.answers.as_ref().expect("answers");
        assert_eq!((answers.sent, answers.answered), (50, 50));
        assert_eq!(answers.round_trips_ns.is_empty(), clock == "virtual");
        // Each has its time: in virtual time as well, where the way to the edge is some thousand
        // instructions of 8 ns.
        assert_eq!(answers.edges_ns.len(), 50);
        if clock == "virtual" {
            let least_ns = answers.edges_ns.iter().min().expect("edges");
            assert!((1_000..1_000_000).contains(least_ns), "{:?}", answers.edges_ns);
            let bound_ns = answers.bound_ns.expect("a bound");
            assert!((560..100_000).contains(&bound_ns), "{bound_ns}");
        }
    }
    let pinned = whole.measured.iter().find(|one| one.slot.row == "host+qemu").expect("a row");
    let vcpu = pinned.threads.iter().find(|one| !one.vcpus.is_empty()).expect("a vCPU");
    assert_eq!(vcpu.cpus, whole.baseline.host_cpus);
    let own: CpuList = vcpu.cpus.parse().expect("a list");
    for other in pinned.threads.iter().filter(|one| one.vcpus.is_empty()) {
        assert!(!own.meets(&other.cpus.parse().expect("a list")), "{other:?}");
    }

    let tables = whole.tables().expect("tables");
    let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
    for title in ["Latency in us (real clock), idle", "Latency in virtual us (virtual clock), idle"]
    {
        assert!(titles.contains(&title), "{titles:?}");
    }
    let again = study.conduct(usize::MAX);
    assert!(again.1.is_empty(), "{:?}", again.1);
    assert_eq!(again.0.tables().expect("tables"), tables);
}

/// Of one measurement inside, at a line of the guest's: as long as it takes, and no stage of the host's.
const AT_A_LINE: &str = "kernel = \"linux-image-rt-amd64\"\nclock = \"virtual\"\nduration_s = 1\nruns = 1\ncommands = 20\n\
     price_settings = false\nservo = \"gpio:gpiochip0/0\"\nloads = [{ name = \"idle\" }]\n\
     [[stage]]\nname = \"host\"\nsettings = [\"mem.swappiness\"]\n";

#[test]
fn each_command_moves_a_line_of_a_guest_whose_servo_is_at_one() {
    let Some(lab) = TestLab::open() else { return };
    if !LiveHost::new().is_root() {
        println!("skipped: a study needs root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("line.toml"), AT_A_LINE).expect("a file");
    let mut command = Command::new(&lab.onbeat);
    command.args(["vm", "study", "line.toml", "--out", "out", "--work"]).arg(&lab.work.path);
    command.arg("--onbeat").arg(&lab.onbeat).current_dir(directory.path());
    command.args(std::env::var_os("ONBEAT_VM_DOWNLOAD").map(|_| "--download"));
    let output = command.env("ONBEAT_STATE_DIR", directory.path()).output().expect("onbeat");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{said}");
    let moved = text.lines().filter(|line| line.starts_with("guest, ") && line.ends_with("20/20"));
    assert!(moved.count() >= 2, "{text}\n{said}");
}
