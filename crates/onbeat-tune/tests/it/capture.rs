//! Captures: they hold what the check finds on a machine, and nothing that says whose it is.

use crate::check_tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use check_tree::{CapturedMachine, directory_in_memory, in_words, setup};
use flate2::read::GzDecoder;
use onbeat_tune::capture::{CaptureError, capture};
use onbeat_tune::catalogue::probes::ProbeSpec;
use onbeat_tune::catalogue::{CheckVerdict, Finding, HostTree, LoopSetup, catalogue};
use onbeat_tune::check;
use onbeat_tune::plan::{CpuChoice, PlanProfile, PlanRequest, StepTarget, plan};

/// The capture of a machine as bytes, and as the tree that is read from them.
fn captured(host: &HostTree) -> (Vec<u8>, HostTree) {
    let mut archive = Vec::new();
    capture(host, "a machine of a test", &mut archive).unwrap();
    let tree = HostTree::from_capture(archive.as_slice()).unwrap();
    (archive, tree)
}

/// Whether a finding shows names of programs, devices or interfaces, which captures leave out.
fn shows_names(id: &str) -> bool {
    let record = catalogue().get(id).unwrap();
    ["io.atime", "net.rps_xps"].contains(&id)
        || record.probe.iter().any(|spec| matches!(spec, ProbeSpec::Tasks(_)))
}

/// What must be the same on the machine and in its capture.
fn essence(finding: &Finding) -> (String, String, String, String, String) {
    let Finding { id, verdict, current, wanted, fix } = finding;
    let current = if shows_names(id) { String::new() } else { current.clone() };
    (id.clone(), in_words(verdict), current, wanted.clone(), fix.clone())
}

#[test]
fn a_capture_is_found_as_its_machine_is() {
    for machine in [CapturedMachine::hardware(), CapturedMachine::guest(), CapturedMachine::empty()]
    {
        let directory = machine.tree();
        let (_, archive) = captured(&directory);
        for polls in [false, true] {
            let setup = LoopSetup { polls, runs_guests: polls, ..setup() };
            let there: Vec<_> = check(&directory, &setup).iter().map(essence).collect();
            let here: Vec<_> = check(&archive, &setup).iter().map(essence).collect();
            assert_eq!(there, here);
        }
    }
}

/// Interrupts beside those of a check: the loop's CPU is chosen by their counts, and each step names
/// the directories of handlers.
fn with_interrupts() -> CapturedMachine {
    let machine = CapturedMachine::hardware();
    for cpu in 0..4 {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        machine.file(&path, &format!("{cpu}\n"));
    }

    let counts = "            CPU0   CPU1   CPU2   CPU3\n 24:   1  2  3  40000  PCI-MSI  eth0\n \
                  26:   0  0  70  0  PCI-MSI  nvme0q3\nLOC: 5 5 5 5  Local timer interrupts\n";
    machine.file("/proc/interrupts", counts);
    machine.dir("/proc/irq/24/eth0");
    machine.dir("/proc/irq/26/nvme0q3");
    machine.file("/proc/irq/26/smp_affinity_list", "2\n");
    machine.file("/proc/irq/26/effective_affinity_list", "2\n");
    machine.file("/sys/kernel/irq/26/actions", "nvme0q3\n");
    machine
}

#[test]
fn a_plan_of_a_capture_is_that_of_its_machine_with_its_interrupts() {
    let machine = with_interrupts();
    let directory = machine.tree();
    let (_, archive) = captured(&directory);
    for (profile, name) in PlanProfile::ALL {
        let request = PlanRequest::profile(profile);
        let there = plan(&directory, &request).unwrap();
        assert_eq!(plan(&archive, &request).unwrap(), there, "{name}");
    }

    let made = plan(&archive, &PlanRequest::ids(["irq.affinity"]).unwrap()).unwrap();
    assert_eq!(made.cpus, "1", "without managed interrupts, and with few of the others");
    let target = StepTarget::Interrupt { number: 24, handlers: vec!["eth0".to_owned()] };
    let step = made.steps.iter().find(|step| step.target == target).unwrap();
    assert_eq!((step.old.as_str(), step.new.as_str()), ("0-3", "0,2-3"));

    let asked = PlanRequest {
        cpus: CpuChoice::List("2".parse().unwrap()),
        ..PlanRequest::ids(["irq.affinity"]).unwrap()
    };
    let made = plan(&archive, &asked).unwrap();
    assert_eq!(made.steps.len(), 1, "{:#?}", made.steps);
    assert!(made.left_out[0].because.starts_with("interrupt 26 (nvme0q3)"), "{:?}", made.left_out);
}

#[test]
fn the_same_machine_gives_the_same_bytes() {
    let tree = CapturedMachine::hardware().tree();
    let (first, again) = (captured(&tree).0, captured(&tree).0);
    assert_eq!(first, again);
}

/// Settings that change while the test runs are left out: others use the machine too. One that has
/// changed just for the time of the capture is another one in the next capture.
#[test]
fn this_machine_is_found_elsewhere_as_it_is_here() {
    let mut wrong = differences_in_a_capture();
    for _ in 0..9 {
        if wrong.is_empty() {
            return;
        }
        let again = differences_in_a_capture();
        wrong.retain(|id, _| again.contains_key(id));
    }
    assert!(wrong.is_empty(), "in each of ten captures: {wrong:#?}");
}

/// Captures this machine; returns the findings in it that are not those here, although these did
/// not change meanwhile.
fn differences_in_a_capture() -> BTreeMap<String, String> {
    let setup = LoopSetup::on("0".parse().unwrap());
    let before: Vec<_> = check(&HostTree::live(), &setup).iter().map(essence).collect();
    let (_, archive) = captured(&HostTree::live());
    let after: Vec<_> = check(&HostTree::live(), &setup).iter().map(essence).collect();

    let elsewhere: Vec<_> = check(&archive, &setup).iter().map(essence).collect();
    let constant: Vec<_> =
        before.iter().zip(&after).zip(&elsewhere).filter(|((b, a), _)| b == a).collect();
    println!("{} of {} findings did not change meanwhile", constant.len(), before.len());
    // A capture has no process whose capabilities could be shown.
    let different = constant.into_iter().filter(|((here, _), there)| here != there);
    different
        .filter(|((here, _), _)| here.0 != "env.caps")
        .map(|((here, _), there)| (here.0.clone(), format!("here {here:?}, there {there:?}")))
        .collect()
}

#[test]
fn a_capture_of_this_machine_names_no_host_no_address_and_no_program() {
    let (archive, _) = captured(&HostTree::live());
    let text = String::from_utf8_lossy(&archive);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();

    let mut private = BTreeSet::from([read("/proc/sys/kernel/hostname"), read("/etc/machine-id")]);
    for interface in fs::read_dir("/sys/class/net").unwrap() {
        private.insert(read(&format!("{}/address", interface.unwrap().path().display())));
    }
    // This test's own name is among the programs of this machine.
    private.insert(format!("({})", read("/proc/self/comm")));
    private.extend(
        read("/proc/cmdline")
            .split_whitespace()
            .filter(|word| word.starts_with("root="))
            .map(str::to_owned),
    );

    for secret in private.iter().filter(|secret| secret.len() > 3 && *secret != "00:00:00:00:00:00")
    {
        assert!(!text.contains(secret.as_str()), "{secret:?}");
    }
}

#[test]
fn a_path_that_a_capture_does_not_hold_is_unknown_and_not_absent() {
    let (_, tree) = captured(&CapturedMachine::hardware().tree());
    let error = tree.read("/sys/kernel/of_a_later_version").unwrap_err();
    assert!(error.to_string().contains("the capture does not hold it"), "{error}");
    assert!(tree.exists("/sys/kernel/of_a_later_version").is_err());
    assert!(!tree.exists("/.dockerenv").unwrap(), "asked for, and absent");
}

#[test]
fn what_is_refused_on_the_machine_is_refused_in_the_capture() {
    let machine = CapturedMachine::hardware();
    machine.make_unreadable("/proc/swaps");
    let (_, tree) = captured(&machine.tree());
    let verdict = check(&tree, &setup())
        .into_iter()
        .find(|finding| finding.id == "mem.swap")
        .unwrap()
        .verdict;
    assert_eq!(
        verdict,
        CheckVerdict::Unknown("cannot read /proc/swaps: not a regular file".to_owned())
    );
}

/// An archive with one entry.
fn archive_with(kind: tar::EntryType, path: &[u8], content: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_entry_type(kind);
    header.set_mode(0o444);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, content.as_bytes()).unwrap();
    builder.into_inner().unwrap()
}

#[test]
fn archives_that_no_capture_is_are_refused_with_the_entry() {
    let problem = |archive: &[u8]| HostTree::from_capture(archive).unwrap_err();
    let link = problem(&archive_with(tar::EntryType::Symlink, b"etc/passwd", ""));
    assert!(matches!(&link, CaptureError::Entry { path, .. } if path == "etc/passwd"), "{link}");
    let outside = problem(&archive_with(tar::EntryType::Regular, b"../etc/passwd", "x"));

    assert!(
        matches!(&outside, CaptureError::Entry { path, .. } if path == "../etc/passwd"),
        "{outside}"
    );

    let manifest = problem(&archive_with(
        tar::EntryType::Regular,
        b"capture.json",
        "{\"schema\": \"other\", \"about\": \"\"}",
    ));

    assert!(
        matches!(&manifest, CaptureError::Manifest(text) if text.contains("other")),
        "{manifest}"
    );

    let wrapped = archive_with(tar::EntryType::Regular, b"robot/proc/cmdline", "quiet\n");
    assert!(matches!(problem(&wrapped), CaptureError::NoMachine));

    assert!(matches!(problem(b"\xfd7zXZ\0"), CaptureError::Packed { by: "xz" }));
    assert!(matches!(problem(b"not an archive"), CaptureError::Archive(_)));
    assert!(matches!(problem(b""), CaptureError::Archive(_)));
}

// ---- captured machines against the truth about them

struct TrueMachine {
    name: &'static str,
    setup: LoopSetup,
}

fn machines() -> Vec<TrueMachine> {
    let on = |name, cpu: &str| TrueMachine {
        name,
        setup: LoopSetup {
            interfaces: vec!["eth0".to_owned()],
            ..LoopSetup::on(cpu.parse().unwrap())
        },
    };

    let mut machines = vec![
        on("virtual", "1"),
        on("container", "1"),
        on("server", "70"),
        on("board", "3"),
        on("rt_pc", "3"),
        on("laptop", "3"),
        on("guest", "3"),
        on("pi", "3"),
        on("no_nohz", "3"),
        on("service", "3"),
    ];

    machines[1].setup.interfaces.clear();
    machines[2].setup.runs_guests = true;
    machines[8].setup.polls = true;
    machines[9].setup.task = Some(812);
    machines
}

fn archive(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.tar.gz")))
        .unwrap()
}

const TRUTH: &str = include_str!("../machines/truth.txt");

/// The true letters of each record, in the order of [`machines`].
fn truth() -> Vec<(&'static str, Vec<char>)> {
    let lines = TRUTH.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        (words.next().unwrap(), words.next().unwrap().chars().collect())
    };
    lines.map(row).collect()
}

const fn letter(verdict: &CheckVerdict) -> char {
    match verdict {
        CheckVerdict::Good => 'g',
        CheckVerdict::Bad => 'b',
        CheckVerdict::NotApplicable(_) => 'n',
        CheckVerdict::Unknown(_) => 'u',
    }
}

#[test]
fn the_truth_table_has_each_record_once() {
    let mut rows: Vec<_> = truth().into_iter().map(|(id, _)| id).collect();
    let mut records: Vec<_> = catalogue().records.iter().map(|record| record.id.as_str()).collect();
    rows.sort_unstable();
    records.sort_unstable();
    assert_eq!(rows, records);
    assert!(truth().iter().all(|(_, letters)| letters.len() == machines().len()));
}

#[test]
fn the_findings_on_each_captured_machine_are_true() {
    let truth = truth();
    let mut wrong = Vec::new();
    for (column, machine) in machines().iter().enumerate() {
        let tree = HostTree::from_capture(archive(machine.name).as_slice()).unwrap();
        for finding in check(&tree, &machine.setup) {
            let expected = truth.iter().find(|(id, _)| *id == finding.id).unwrap().1[column];
            if letter(&finding.verdict) != expected {
                let Finding { id, current, .. } = &finding;
                let what = if finding.verdict == CheckVerdict::Good { " FALSE GOOD" } else { "" };
                wrong.push(format!(
                    "{} {id}: {expected}, found {} {current}{what}",
                    machine.name,
                    in_words(&finding.verdict)
                ));
            }
        }
    }

    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn each_captured_machine_is_below_100_kilobytes_and_says_what_it_is() {
    for machine in machines() {
        let packed = archive(machine.name);
        assert!(packed.len() < 100_000, "{}: {} bytes", machine.name, packed.len());

        let mut start = vec![0; 4096];
        GzDecoder::new(packed.as_slice()).read_exact(&mut start).unwrap();
        let start = String::from_utf8_lossy(&start).into_owned();
        assert!(
            start.contains("\"about\": \"generated: ") || start.contains("\"about\": \"captured: "),
            "{}",
            machine.name
        );
    }
}

/// A file taken out of a machine's capture must not make anything look better.
#[test]
fn nothing_of_a_captured_machine_becomes_good_because_its_threads_or_cpus_are_missing() {
    for machine in machines() {
        let unpacked = directory_in_memory();
        let bytes = archive(machine.name);
        tar::Archive::new(GzDecoder::new(bytes.as_slice())).unpack(unpacked.path()).unwrap();
        let is_good = |tree: &HostTree| -> BTreeSet<String> {
            let good = check(tree, &machine.setup)
                .into_iter()
                .filter(|finding| finding.verdict == CheckVerdict::Good);
            good.map(|finding| finding.id).collect()
        };

        let whole = is_good(&HostTree::from_capture(bytes.as_slice()).unwrap());
        for missing in
            ["proc/2", "sys/devices/system/cpu", "proc/irq", "sys/fs/cgroup", "proc/cmdline"]
        {
            let place = unpacked.path().join(missing);
            let aside = unpacked.path().join("aside");
            if !place.exists() {
                continue;
            }
            fs::rename(&place, &aside).unwrap();
            let rest = is_good(&HostTree::captured(unpacked.path()).unwrap());
            fs::rename(&aside, &place).unwrap();
            let new: Vec<_> = rest.difference(&whole).collect();
            assert!(new.is_empty(), "{} without {missing}: {new:?}", machine.name);
        }
    }
}
