//! The benchmark of causes in a PREEMPT_RT guest in virtual time: `make causes-vm`.
//!
//! The guest runs the program of `make causes` itself, which plants the faults, judges the reported
//! causes by the same rules, and fails where fewer are named rightly than it is asked for. It runs
//! twice, and must succeed both times. The bytes are compared and the answer is printed: guests with
//! two network cards and a disk do not always send the same ones.
//!
//! It needs what the other guests need, and the benchmark as a static program (`ONBEAT_CAUSES`).

use crate::test_lab;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use onbeat_lab::vm::{BootImage, Guest, GuestResult, Initramfs, Job, Virtual};

use test_lab::{BUSYBOX, TestLab};

/// A kernel with fair servers.
const RT: &str = "linux-image-6.12-rt-amd64";
const STEPS: &[u8] = include_bytes!("../planted_causes/steps.sh");
/// A disk in memory whose reads and writes are done by another thread, and the checksum that its
/// file system asks for by name.
const DISK: [&str; 3] = ["crc32c_generic", "loop", "ext4"];
/// Network cards, with interrupts that are threads on this kernel. The driver of an e1000 raises one
/// every two seconds to watch the card: a fault that nobody planted.
const CARDS: &str = "8139cp";
/// Two cards on one cable, which ends in QEMU.
const CABLE: [&str; 8] = [
    "-netdev",
    "hubport,id=left,hubid=0",
    "-netdev",
    "hubport,id=right,hubid=0",
    "-device",
    "rtl8139,netdev=left,mac=52:54:00:00:00:01",
    "-device",
    "rtl8139,netdev=right,mac=52:54:00:00:00:02",
];

fn boot(lab: &TestLab, causes: &Path) -> BootImage {
    let kernel = lab.kernel(RT);
    let mut initramfs = Initramfs::new(&kernel, Path::new(BUSYBOX)).expect("an initramfs");
    initramfs.program("bin/causes", causes).expect("a static benchmark");
    initramfs.file("steps.sh", STEPS.to_vec());
    DISK.into_iter().chain([CARDS]).for_each(|module| initramfs.module(module));
    initramfs.build(&lab.work).expect("an archive")
}

fn text(result: &GuestResult<Virtual>, file: &str) -> String {
    String::from_utf8_lossy(result.file(file).unwrap_or_default()).into_owned()
}

#[test]
fn planted_causes_are_named_in_virtual_time() {
    let Some(causes) = std::env::var_os("ONBEAT_CAUSES").map(PathBuf::from) else {
        println!("skipped: ONBEAT_CAUSES (the static benchmark) is not set; see make causes-vm");
        return;
    };
    let Some(lab) = TestLab::open() else { return };
    let mut guest = Guest::new(boot(&lab, &causes), Virtual::default());
    guest.limit = Duration::from_secs(1200);
    guest.qemu_arguments = CABLE.map(str::to_owned).to_vec();

    let mut job = Job::new();
    let words = std::env::var("ONBEAT_CAUSES_ARGS").unwrap_or_default();
    job.command(["sh", "/steps.sh"].into_iter().chain(words.split_whitespace()));
    let run = || guest.run(&lab.work, &job, &AtomicBool::new(false)).expect("a result");
    let first = run();
    println!("{}", text(&first, "errors"));
    println!("{}", text(&first, "output"));
    println!("the guest ran for {:.0} s", first.elapsed.as_secs_f64());
    first.succeeded().expect("enough causes that are named rightly");

    let second = run();
    second.succeeded().expect("enough causes that are named rightly, again");
    let is_same = first.digest() == second.digest();
    println!("a second guest sent {} bytes", if is_same { "the same" } else { "other" });
    if !is_same {
        println!("{}", text(&second, "output"));
    }
}
