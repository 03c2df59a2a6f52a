//! Tunings in guests with PREEMPT_RT: applied, checked after a reboot, undone. `make test-vm-tune`.
//!
//! A guest has no disk. Its reboot is another guest, which gets the files of the one before, and the
//! kernel parameters that GRUB's files had there. The guests have two CPUs, so they run by the free
//! clock: nothing here is about time.

use crate::test_lab;

use std::path::Path;

use onbeat_lab::vm::{Free, Guest, GuestResult, Initramfs, Job};
use serde_json::Value;

use test_lab::{BUSYBOX, TestLab};

/// A kernel that shows its isolated partitions, which 6.1 does not.
const RT: &str = "linux-image-6.12-rt-amd64";
const STEPS: &[u8] = include_bytes!("../tuned_guests/steps.sh");
/// Files of a guest for the next boot.
const MACHINE: &str = "machine.tar";
/// The third, rcu_nocbs, needs the kernel's build configuration, which a guest does not have.
const BOOT_IDS: [&str; 2] = ["shield.isolcpus", "shield.nohz_full"];

/// Boots a guest with the files and the kernel parameters of the one before.
fn boot(lab: &TestLab, name: &str, before: Option<&GuestResult<Free>>) -> GuestResult<Free> {
    let kernel = lab.kernel(RT);
    let mut initramfs = Initramfs::new(&kernel, Path::new(BUSYBOX)).expect("an initramfs");
    initramfs.program("bin/onbeat", &lab.onbeat).expect("a static onbeat");
    initramfs.file("steps.sh", STEPS.to_vec());
    if let Some(machine) = before.and_then(|before| before.file(MACHINE)) {
        initramfs.file(MACHINE, machine.to_vec());
    }

    let mut guest = Guest { cpus: 2, ..lab.guest(RT, Free) };
    guest.boot = initramfs.build(&lab.work).expect("an archive");
    let line = before.map(|before| text(before, "line")).unwrap_or_default();
    guest.kernel_arguments = line.split_whitespace().map(str::to_owned).collect();

    let mut job = Job::new();
    job.command(["sh", "/steps.sh", name]);
    let result = lab.run(&guest, &job);
    println!("{name} boot: {:.1} s", result.elapsed.as_secs_f64());
    result
}

fn text(result: &GuestResult<Free>, file: &str) -> String {
    let bytes = result.file(file).unwrap_or_default();
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn json(result: &GuestResult<Free>, file: &str) -> Value {
    serde_json::from_str(&text(result, file)).expect(file)
}

/// The verdict of `tune check` on a tuning.
fn verdict(result: &GuestResult<Free>, id: &str) -> String {
    let check = json(result, "check.json");
    let all = check["findings"].as_array().expect("findings");
    let found = all.iter().find(|tuning| tuning["id"] == id).expect(id);
    found["verdict"].as_str().expect("a verdict").to_owned()
}

/// All that was applied was in effect, and undone to the last setting.
fn assert_applied_and_undone(result: &GuestResult<Free>) {
    let applied = json(result, "apply.json");
    for step in applied["steps"].as_array().expect("steps") {
        assert_eq!(step["outcome"], "changed", "{step}");
    }
    let ids: Vec<&Value> = applied["steps"].as_array().into_iter().flatten().collect();
    assert!(ids.iter().any(|step| step["id"] == "shield.cpuset_v2"), "{applied}");
    // The loop has the CPU of its partition, the other program the one that is not shielded.
    let cpus = text(result, "applied");
    let lists: Vec<&str> =
        cpus.lines().filter_map(|line| line.split_once('\t')).map(|(_, list)| list).collect();
    assert_eq!(lists, ["1", "0"], "{cpus}");
    // The loop is its whole process, and without a limit of real time the fair server can be set.
    let partition = text(result, "partition");
    assert_eq!(partition.lines().collect::<Vec<_>>(), ["isolated", "0"], "{applied}");
    assert_eq!(text(result, "difference"), "");
}

#[test]
fn boot_parameters_and_a_shield_are_applied_checked_after_a_reboot_and_undone() {
    let Some(lab) = TestLab::open() else { return };
    let first = boot(&lab, "first", None);
    assert_applied_and_undone(&first);
    assert_eq!(
        (text(&first, "isolated"), text(&first, "nohz_full")),
        (String::new(), "(null)".to_owned())
    );
    for id in BOOT_IDS {
        assert_ne!(verdict(&first, id), "good", "{id}");
    }

    let second = boot(&lab, "second", Some(&first));
    assert_eq!(
        (text(&second, "isolated"), text(&second, "nohz_full")),
        ("1".to_owned(), "1".to_owned())
    );
    for id in BOOT_IDS {
        assert_eq!(verdict(&second, id), "good", "{id}");
    }
    println!("{}", text(&second, "persisted.json"));
    assert!(
        text(&second, "undone").contains("the machine has rebooted since"),
        "{}",
        text(&second, "undone")
    );

    let third = boot(&lab, "third", Some(&second));
    assert_eq!(text(&third, "line"), "panic=-1");
    assert_eq!(text(&third, "isolated"), "");
    for id in BOOT_IDS {
        assert_ne!(verdict(&third, id), "good", "{id}");
    }
    assert_applied_and_undone(&third);
    // In a shield's partition the kernel refuses the fair server, and a plan says so beforehand.
    assert!(text(&third, "busy").contains("busy"), "{}", text(&third, "busy"));
    // Not every kernel refuses it alone.
    let alone = text(&third, "alone");
    println!("alone: {alone}");
    assert!(!alone.contains("busy") || alone.contains("apply sched.rt_runtime with it"), "{alone}");
    let refused = text(&third, "refused.json");
    assert!(refused.contains("is in a cpuset partition"), "{refused}");
}
