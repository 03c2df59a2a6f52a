//! Evidence from two readings of one machine, and what it makes of findings.

use crate::check_tree;

use check_tree::{CapturedMachine, setup};
use onbeat_tune::catalogue::{CheckVerdict, Finding, catalogue};
use onbeat_tune::evidence::{Evidence, HostCounters, RecordEvidence};

/// `/proc/interrupts` with these numbers of interrupt 24 on CPUs 2 and 3.
fn interrupts(on_2: u64, on_3: u64) -> String {
    format!("     CPU2 CPU3\n 24: {on_2} {on_3} PCI-MSI 1-edge eth0\nCAL: 5 9 Function call\n")
}

fn stat(steal_of_3: u64) -> String {
    format!("cpu2 0 0 0 0 0 0 0 7 0 0\ncpu3 0 0 0 0 0 0 0 {steal_of_3} 0 0\nctxt 1000\n")
}

/// The evidence of ten seconds in which `change` happened.
fn watched(machine: &CapturedMachine, change: impl FnOnce()) -> Evidence {
    let before = HostCounters::read(&machine.tree(), &setup());
    change();
    let after = HostCounters::read(&machine.tree(), &setup());
    Evidence::between(&before, &after, 10.0)
}

fn machine() -> CapturedMachine {
    let machine = CapturedMachine::hardware();
    machine.file("/proc/interrupts", &interrupts(100, 1000));
    machine.file("/proc/stat", &stat(7));
    machine
}

fn about(evidence: &Evidence, id: &str) -> Option<RecordEvidence> {
    evidence.about(catalogue().get(id).unwrap(), &setup().cpus)
}

#[test]
fn an_interrupt_on_the_loops_cpu_is_named_with_its_device_and_its_number() {
    let machine = machine();
    let evidence = watched(&machine, || machine.file("/proc/interrupts", &interrupts(999, 2204)));
    let sentence = "interrupt 24 (eth0) fired 1,204 times on CPU 3".to_owned();
    assert_eq!(about(&evidence, "irq.affinity"), Some(RecordEvidence::Moved(vec![sentence])));
    assert_eq!(
        about(&evidence, "irq.managed"),
        Some(RecordEvidence::Still),
        "not of such a device"
    );
    assert_eq!(about(&evidence, "clock.source"), None, "no counter shows it");
}

#[test]
fn interrupts_of_other_cpus_are_no_evidence_against_the_loops() {
    let machine = machine();
    let evidence = watched(&machine, || machine.file("/proc/interrupts", &interrupts(999, 1000)));
    assert_eq!(about(&evidence, "irq.affinity"), Some(RecordEvidence::Still));
}

#[test]
fn counters_that_were_not_read_say_so() {
    let evidence = watched(&machine(), || ());
    let Some(RecordEvidence::Unread(reason)) = about(&evidence, "mem.swap") else {
        panic!("{evidence:?}");
    };
    assert_eq!(reason, "/proc/vmstat does not exist");
}

#[test]
fn own_switches_are_taken_out() {
    let machine = machine();
    let threads = || machine.file("/proc/stat", &stat(7).replace("1000", "4000"));
    let evidence = watched(&machine, threads);
    let sentences = |evidence: &Evidence| about(evidence, "shield.threads");
    let moved = |text: &str| Some(RecordEvidence::Moved(vec![text.to_owned()]));
    assert_eq!(sentences(&evidence), moved("the machine switched threads 3,000 times"));
    let without = evidence.clone().without_switches(3, 2999);
    assert_eq!(sentences(&without), moved("the machine switched threads once"));
    assert_eq!(sentences(&evidence.without_switches(3, 3000)), Some(RecordEvidence::Still));
}

/// A finding that needs two readings, after them.
fn judged(machine: &CapturedMachine, evidence: &Evidence, id: &str) -> Finding {
    let finding = machine.finding(id, &setup());
    assert!(matches!(finding.verdict, CheckVerdict::Unknown(_)), "{finding:?}");
    evidence.judged(catalogue().get(id).unwrap(), finding, &setup().cpus)
}

#[test]
fn what_needs_two_readings_becomes_bad_or_stays_unknown_and_never_becomes_good() {
    let machine = machine();
    let evidence = watched(&machine, || machine.file("/proc/interrupts", &interrupts(100, 1001)));
    let noise = judged(&machine, &evidence, "irq.noise");
    assert_eq!(noise.verdict, CheckVerdict::Bad);
    assert_eq!(noise.current, "interrupt 24 (eth0) fired once on CPU 3");

    let quiet = watched(&machine, || ());
    let verdict = judged(&machine, &quiet, "irq.noise").verdict;
    let reason = "none in 10 s, which excludes nothing rarer".to_owned();
    assert_eq!(verdict, CheckVerdict::Unknown(reason));
}

#[test]
fn a_finding_of_one_reading_keeps_its_verdict() {
    let machine = machine();
    let evidence = watched(&machine, || ());
    let finding = machine.finding("irq.affinity", &setup());
    let record = catalogue().get("irq.affinity").unwrap();
    assert_eq!(evidence.judged(record, finding.clone(), &setup().cpus), finding);
}
