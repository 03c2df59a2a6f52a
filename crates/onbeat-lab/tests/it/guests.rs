//! Guests under QEMU: `make test-vm`.
//!
//! They need QEMU, busybox, a static onbeat (`ONBEAT`) and a work directory (`ONBEAT_VM_WORK`);
//! without these two variables all tests are skipped. Packages of kernels are taken from
//! `packages/` in the work directory, and downloaded where `ONBEAT_VM_DOWNLOAD` is set.

use crate::test_lab;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onbeat::campaign::CampaignEvent;
use onbeat_lab::vm::{
    Free, Guest, Initramfs, Job, Kernel, LabResults, Laboratory, LatencyTest, Matrix, PathPart,
    Shard, Virtual, VmError, WorkDirectory, choose_accelerator,
};

use test_lab::{BUSYBOX, HostLoad, RT, STOCK, TestLab, loaded, packages};

/// Set in the process that is killed in place of the whole test.
const STARTER: &str = "ONBEAT_VM_STARTER";
/// The guest that it starts.
const STARTED: &str = "ONBEAT_VM_STARTED";

#[test]
fn the_same_job_gives_the_same_bytes_also_beside_a_load_on_the_host() {
    let Some(lab) = TestLab::open() else { return };
    let guest = lab.guest(RT, Virtual::default());
    let alone = lab.run(&guest, &loaded());
    let _load = HostLoad::start();
    let beside = lab.run(&guest, &loaded());
    assert_eq!(alone.files, beside.files);
    assert_eq!(alone.digest(), beside.digest());
}

#[test]
fn under_load_the_rt_kernel_s_maximum_is_below_a_fifth_of_the_stock_kernel_s() {
    let Some(lab) = TestLab::open() else { return };
    let rt = lab.run(&lab.guest(RT, Virtual::default()), &loaded()).figures().expect("figures");
    let stock =
        lab.run(&lab.guest(STOCK, Virtual::default()), &loaded()).figures().expect("figures");
    assert!(
        rt.samples > 1900 && stock.samples > 1900,
        "{} and {} samples",
        rt.samples,
        stock.samples
    );
    assert!(stock.max_ratio(&rt) > 5.0, "stock {} ns, RT {} ns", stock.max_ns, rt.max_ns);
}

#[test]
fn a_bench_in_a_guest_sends_its_summary_and_a_run_file_per_cell() {
    let Some(lab) = TestLab::open() else { return };
    let job = Job::recorded("bench --tunings none,PM --loads idle --for 4s".split(' '));
    let result = lab.run(&lab.guest(STOCK, Virtual::default()), &job);
    let printed = result.printed().expect("a run");
    assert_eq!(printed.cells.len(), 2);
    // The bench's own file and one for each cell.
    assert_eq!(result.run_files().count(), 3);
}

#[test]
fn a_guest_without_a_port_gets_its_job_and_sends_its_results_by_other_ways() {
    let Some(lab) = TestLab::open() else { return };
    // Of this kernel all that carries data is a module, and this guest has none.
    let vmlinux = lab.kernel(RT).vmlinux;
    let kernel = Kernel::from_image(&lab.work, &vmlinux, None).expect("a kernel without modules");
    let guest = Guest { boot: lab.boot(&kernel), ..lab.guest(RT, Virtual::default()) };
    let mut job = Job::new();
    job.command(["seq", "20000"]);
    let result = lab.run(&guest, &job);
    let output = String::from_utf8_lossy(result.file("output").expect("its output"));
    assert_eq!(output.lines().count(), 20000);
    assert!(output.ends_with("20000\n"));
}

#[test]
fn a_job_that_fails_reports_its_status_and_says_why() {
    let Some(lab) = TestLab::open() else { return };
    let mut job = Job::new();
    job.command(["onbeat", "measure", "latency", "--load", "no-such-load"]);
    let guest = lab.guest(STOCK, Free);
    let result = guest.run(&lab.work, &job, &AtomicBool::new(false)).expect("a result");
    assert_eq!(result.status, 2);
    let error = result.succeeded().expect_err("it failed").to_string();
    assert!(
        error.starts_with("the job ended with exit status 2: ") && error.contains("no-such-load"),
        "{error}"
    );
}

/// Two kernels under a load, each with two seeds.
fn small_matrix() -> Matrix {
    let text = format!(
        "kernels = [{{ name = \"rt\", package = \"{RT}\" }}, {{ name = \"stock\", package = \"{STOCK}\" }}]\n\
         loads = [{{ name = \"writer\", load = \"{}\" }}]\nduration_ms = 1000\nseeds = 2\n",
        LatencyTest::WRITER
    );
    Matrix::from_toml(&text, Path::new(".")).expect("a matrix")
}

/// Runs a matrix; after `most` experiments have been stored it is stopped.
fn conduct(laboratory: &Laboratory<'_>, most: usize) -> (LabResults<Virtual>, usize) {
    let (stop, mut kept, mut to_run) = (AtomicBool::new(false), 0, 0);
    let mut report = |event: CampaignEvent<'_>| match event {
        CampaignEvent::Begun { due, .. } => to_run = due,
        CampaignEvent::Stored { .. } => {
            kept += 1;
            stop.store(kept == most, Ordering::Relaxed);
        }
        CampaignEvent::Failed { cell, why } => panic!("{cell}: {why}"),
        _ => {}
    };
    let clock = |seed| Virtual { shift: 3, seed };
    let results = laboratory.conduct(&small_matrix(), clock, &stop, &mut report);
    (results.expect("results"), to_run)
}

#[test]
fn a_laboratory_resumes_after_a_stop_and_sends_the_same_bytes_twice() {
    let Some(lab) = TestLab::open() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let boots = [RT, STOCK].map(|package| lab.boot(&lab.kernel(package))).to_vec();
    let mut laboratory = Laboratory {
        work: &lab.work,
        out: out.path(),
        boots,
        jobs: 2,
        niceness: 19,
        again: 0,
        shard: Shard::WHOLE,
    };
    let (stopped, to_run) = conduct(&laboratory, 1);
    assert_eq!((stopped.stored.len() + stopped.missing, to_run), (4, 4));
    assert!(!stopped.stored.is_empty() && stopped.missing > 0, "{stopped:?}");

    laboratory.again = 1;
    let (whole, to_run) = conduct(&laboratory, usize::MAX);
    assert_eq!(to_run, 8 - stopped.stored.len());
    assert_eq!((whole.stored.len(), whole.missing, whole.compared), (4, 0, 4));
    assert_eq!(whole.differing, []);

    laboratory.again = 0;
    let (again, to_run) = conduct(&laboratory, usize::MAX);
    let table = whole.tables().expect("a table")[0].to_text(120);
    assert_eq!((to_run, again.tables().expect("a table")[0].to_text(120)), (0, table));

    let main = again.series().expect("series")[0];
    let cells = again.cells_of(main).expect("figures");
    let (rt, stock) = (&cells[0], &cells[1]);
    assert_eq!((&*rt.cell.kernel, rt.guests), ("rt", 2));
    assert!(stock.figures.max_ratio(&rt.figures) > 5.0, "{cells:?}");
    assert!(stock.worst.join("command").exists());
}

#[test]
fn the_worst_experiment_is_replayed_with_the_same_bytes_and_its_path_adds_up() {
    let Some(lab) = TestLab::open() else { return };
    let out = tempfile::tempdir().expect("a directory");
    let laboratory = Laboratory {
        work: &lab.work,
        out: out.path(),
        boots: vec![lab.boot(&lab.kernel(RT))],
        jobs: 1,
        niceness: 19,
        again: 0,
        shard: Shard::WHOLE,
    };
    let text = format!(
        "kernels = [{{ name = \"rt\", package = \"{RT}\" }}]\n\
         loads = [{{ name = \"writer\", load = \"{}\" }}]\nduration_ms = 1000\nseeds = 1\n",
        LatencyTest::WRITER
    );
    let matrix = Matrix::from_toml(&text, Path::new(".")).expect("a matrix");
    let clock = |seed| Virtual { shift: 3, seed };
    let stop = AtomicBool::new(false);
    laboratory.conduct(&matrix, clock, &stop, &mut |_| ()).expect("results");

    let (stored, replay) = laboratory.replay(&matrix, clock, None, &stop).expect("a replay");
    assert!(replay.is_same, "the trace has changed the guest");
    assert_eq!((stored.cell.kernel.as_str(), stored.seed), ("rt", 1));
    let path = &replay.path;
    assert_eq!(path.interrupt_ns + path.blocked_ns + path.switch_ns, path.length_ns);
    let sum = |parts: &[PathPart]| parts.iter().map(|part| part.ns).sum::<u64>();
    assert_eq!((sum(&path.blocked), sum(&path.functions)), (path.blocked_ns, path.length_ns));
}

#[test]
fn loops_are_measured_from_edge_to_edge_through_the_gpio_character_device() {
    let Some(lab) = TestLab::open() else { return };
    let kernel = lab.kernel(RT);
    let wires = kernel.gpio_wires(&lab.work, &packages(&lab.work)).expect("a module");
    let mut initramfs = Initramfs::new(&kernel, Path::new(BUSYBOX)).expect("an initramfs");
    initramfs.program("bin/onbeat", &lab.onbeat).expect("a static onbeat");
    initramfs.foreign_module(wires);
    let boot = initramfs.build(&lab.work).expect("an archive");
    let guest = Guest { boot, ..lab.guest(RT, Virtual::default()) };

    let write = "measure write --output gpio:gpiochip0/0 --for 1s --no-causes";
    let read_write = "measure read-write --stimulus gpio:gpiochip0/0 --input gpio:gpiochip0/1 \
                      --output gpio:gpiochip0/2 --delay 200us --for 1s --no-causes";
    for (words, least) in [(write, 1900), (read_write, 480)] {
        let job = Job::recorded(words.split_whitespace());
        let figures = lab.run(&guest, &job).figures().expect("figures");
        assert!(figures.samples > least, "{words}: {figures:?}");
        println!("{words}: {figures:?}");
    }
}

/// Where a guest that never ends by itself is needed.
fn endless() -> Job {
    let mut job = Job::new();
    job.command(["sleep", "100000"]);
    job
}

fn runs(pid: u32) -> bool {
    // A zombie is still listed, without a command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[test]
fn a_guest_ends_at_its_limit_when_it_is_stopped_and_when_it_is_dropped() {
    let Some(lab) = TestLab::open() else { return };
    let mut guest = lab.guest(STOCK, Free);
    guest.limit = Duration::from_secs(1);
    let error = guest.run(&lab.work, &endless(), &AtomicBool::new(false)).expect_err("the limit");
    let VmError::Timeout { console, .. } = error else { panic!("{error}") };
    assert!(console.exists());

    guest.limit = Duration::from_secs(100);
    assert!(matches!(
        guest.run(&lab.work, &endless(), &AtomicBool::new(true)),
        Err(VmError::Stopped)
    ));

    let running = guest.start(&lab.work, &endless()).expect("a guest");
    let pid = running.pid();
    assert!(runs(pid));
    drop(running);
    assert!(!runs(pid));
}

#[test]
fn the_threads_of_virtual_cpus_are_those_that_qemu_names_so() {
    let Some(lab) = TestLab::open() else { return };
    let mut guest = lab.guest(STOCK, Free);
    guest.cpus = 2;
    let mut running = guest.start(&lab.work, &endless()).expect("a guest");
    let threads = running.cpu_threads().expect("its threads");
    assert_eq!(threads.len(), 2);
    let name = fs::read_to_string(format!("/proc/{}/task/{}/comm", running.pid(), threads[0]))
        .expect("a thread");
    // Emulation of all CPUs in one thread has one thread for them.
    assert!(name.starts_with("ALL CPUs/TCG") || name.starts_with("CPU 0/TCG"), "{name}");
}

/// Starts this program as the starter of a guest, which is to be killed.
fn starter(work: &Path, test: &str, kind: &str) -> Child {
    let own = std::env::current_exe().expect("this test");
    let mut starter = Command::new(own);
    starter.args(["--exact", &format!("guests::{test}"), "--nocapture"]);
    starter.env(STARTER, work).env(STARTED, kind).stdout(Stdio::piped());
    starter.spawn().expect("a starter")
}

/// Process numbers of what runs in a guest's directory.
fn guests_in(work: &Path) -> Vec<u32> {
    let guests = fs::canonicalize(work).expect("a path").join("guests");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let runs_there = processes.filter(|process| {
        fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&guests))
    });
    runs_there.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn no_guest_outlives_a_starter_that_is_killed() {
    if let Some(work) = std::env::var_os(STARTER) {
        return start_and_wait(Path::new(&work));
    }
    let Some(lab) = TestLab::open() else { return };
    let mut starter = starter(&lab.work.path, "no_guest_outlives_a_starter_that_is_killed", "free");
    let lines = BufReader::new(starter.stdout.take().expect("its output")).lines();
    let numbers = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("guest runs as ")?.1.parse::<u32>().ok());
    let pid = numbers.expect("a guest");
    assert!(runs(pid));

    starter.kill().expect("a signal");
    starter.wait().expect("its end");
    // The signal is on its way; without it this would not end.
    while runs(pid) {
        std::thread::yield_now();
    }

    let again = WorkDirectory::open(&lab.work.path).expect("a work directory");
    assert_eq!(again.ended_guests.len(), 1, "the directory of the guest");
    assert_eq!(fs::read_dir(again.path.join("guests")).expect("a directory").count(), 0);
}

#[test]
fn a_starter_that_is_killed_while_a_guest_is_saved_leaves_nothing_after_the_next_start() {
    let name =
        "a_starter_that_is_killed_while_a_guest_is_saved_leaves_nothing_after_the_next_start";
    if let Some(work) = std::env::var_os(STARTER) {
        return start_and_wait(Path::new(&work));
    }
    let Some(lab) = TestLab::open() else { return };
    let guests = lab.work.path.join("guests");
    for instant in 0..8 {
        let mut starter = starter(&lab.work.path, name, &format!("saved{instant}"));
        // Some of these instants are before, some in the guest's boot, some after its saving.
        std::thread::sleep(Duration::from_millis(60 << instant));
        starter.kill().expect("a signal");
        starter.wait().expect("its end");

        WorkDirectory::open(&lab.work.path).expect("a work directory");
        // A guest that got its starter's signal may still be giving up its memory; without the signal
        // this would not end.
        while !guests_in(&lab.work.path).is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(fs::read_dir(&guests).expect("a directory").count(), 0, "instant {instant}");
    }
}

/// In the starter: a guest that never ends, by the wanted clock.
fn start_and_wait(work: &Path) {
    let work = WorkDirectory::open(work).expect("a work directory");
    let kernel = Kernel::from_package(&work, STOCK, &packages(&work)).expect("a kernel");
    let initramfs = Initramfs::new(&kernel, Path::new(BUSYBOX)).expect("an initramfs");
    let boot = initramfs.build(&work).expect("an archive");
    let kind = std::env::var(STARTED).expect("a kind");
    if kind == "free" {
        let running = Guest::new(boot, Free).start(&work, &endless()).expect("a guest");
        println!("\nguest runs as {}", running.pid());
        let _ = running.wait(&AtomicBool::new(false));
        return;
    }

    let mut guest = Guest::new(boot, Virtual::default());
    // A command line of its own, so that it is saved each time.
    guest.kernel_arguments = vec![format!("onbeat.{kind}={}", std::process::id())];
    let _ = guest.run(&work, &endless(), &AtomicBool::new(false));
}

#[test]
fn a_snapshot_restores_to_the_same_bytes_each_time() {
    let Some(lab) = TestLab::open() else { return };
    let mut guest = lab.guest(RT, Virtual::default());
    let test = LatencyTest { duration: Duration::from_secs(1), ..LatencyTest::default() };
    let job = Job::measure_latency(&test);
    let first = lab.run(&guest, &job);
    let restored = lab.run(&guest, &job);
    assert_eq!(first.digest(), restored.digest());
    // Booting it takes longer than the whole of a restored one.
    println!("restored guest, 1,000 cycles: {:?}", restored.elapsed);

    guest.clock.seed = 2;
    let seeded = lab.run(&guest, &job);
    assert_eq!(seeded.status, 0);
}

#[test]
fn the_accelerator_is_found_out_by_a_canary_guest() {
    let Some(lab) = TestLab::open() else { return };
    let boot = lab.boot(&lab.kernel(STOCK));
    let found =
        choose_accelerator(&lab.work, &boot, Duration::from_secs(5), &AtomicBool::new(false));
    match found.expect("an accelerator") {
        Ok(real) => {
            let mut job = Job::new();
            job.command(["uname", "-r"]);
            let result = lab.run(&Guest::new(boot, real), &job);
            assert_eq!(result.file("output"), Some(format!("{}\n", result.release).as_bytes()));
        }
        Err(reason) => println!("skipped: no guest under KVM: {reason}"),
    }
}
