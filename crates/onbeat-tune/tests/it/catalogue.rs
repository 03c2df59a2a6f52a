//! The records of the catalogue: what they must have, and that a record without it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use onbeat_tune::catalogue::load::{self, CAUSES, SECTIONS, from_texts};
use onbeat_tune::catalogue::{CatalogueError, catalogue};
use onbeat_tune::plan::recipes::appliable;

use crate::tunings_page::{is_probed, page};

/// A record that obeys all rules.
const RECORD: &str = r#"
[[tuning]]
id = "test.first"
title = "First"
what = "Does something."
why = "It matters."
layers = ["bare", "guest"]
target = "sysctl"
effect = 1
takes_effect = ["now"]
probe = [{ kind = "sysctl", name = "kernel.first", format = "integer", want = "is 0", set = "0" }]
risk = { level = "low", text = "None." }
sources = ["book"]
mends = ["softirq"]

[[source]]
tag = "book"
title = "A book"

[[profile]]
name = "all"
title = "All"
"#;

fn load_text(text: &str) -> Result<usize, CatalogueError> {
    from_texts(&[("test", text)]).map(|catalogue| catalogue.records.len())
}

/// The error of a record in which `old` is `new`.
fn refused(old: &str, new: &str) -> CatalogueError {
    assert!(RECORD.contains(old), "{old}");
    load_text(&RECORD.replace(old, new)).unwrap_err()
}

#[test]
fn the_built_in_records_obey_all_rules() {
    let loaded = load::built_in();
    assert!(loaded.is_ok(), "{}", loaded.unwrap_err());
    assert!(catalogue().records.len() >= 190, "{} records", catalogue().records.len());
    assert_eq!(load_text(RECORD), Ok(1));
}

#[test]
fn unknown_fields_kinds_and_expressions_are_syntax_errors() {
    let cases = [
        ("effect = 1", "effect = 1\ncode = \"rm\""),
        ("kind = \"sysctl\"", "kind = \"shell\""),
        ("want = \"is 0\"", "want = \"zero\""),
        ("want = \"is 0\"", "want = \"is 0\", script = \"x\""),
        ("format = \"integer\"", "format = \"float\""),
        ("layers = [\"bare\", \"guest\"]", "layers = [\"cloud\"]"),
        ("effect = 1", "effect = 1\nneeds = [\"luck\"]"),
        ("title = \"First\"\n", ""),
        ("level = \"low\"", "level = \"tiny\""),
    ];
    for (old, new) in cases {
        let error = refused(old, new);
        assert!(matches!(error, CatalogueError::Syntax { section: "test", .. }), "{new}: {error}");
    }
}

#[test]
fn names_of_things_that_do_not_exist_are_refused_with_their_field() {
    let cases = [
        ("sources = [\"book\"]", "sources = [\"blog\"]", "sources"),
        ("mends = [\"softirq\"]", "mends = [\"bad_luck\"]", "mends"),
        ("mends = [\"softirq\"]", "before = [\"test.second\"]", "before"),
        ("mends = [\"softirq\"]", "after = [\"test.first\"]", "after"),
        ("mends = [\"softirq\"]", "profiles = [\"some\"]", "profiles"),
        ("set = \"0\"", "set = \"{everything}\"", "a variable"),
    ];
    for (old, new, field) in cases {
        match refused(old, new) {
            CatalogueError::UnknownName { id, field: named, .. } => {
                assert_eq!((id.as_str(), named), ("test.first", field));
            }
            other => panic!("{new}: {other}"),
        }
    }
}

#[test]
fn a_record_that_breaks_a_rule_is_refused() {
    let cases = [
        ("id = \"test.first\"", "id = \"First\""),
        ("effect = 1", "effect = 4"),
        ("what = \"Does something.\"", "what = \"Does something\""),
        ("sources = [\"book\"]", "sources = []"),
        ("risk = { level = \"low\", text = \"None.\" }\n", ""),
        (", set = \"0\"", ""),
        ("kernel.first", "net.{interface}.first"),
    ];
    for (old, new) in cases {
        let error = refused(old, new);
        assert!(matches!(error, CatalogueError::Rule { .. }), "{new}: {error}");
    }
}

#[test]
fn an_id_that_occurs_twice_and_a_circle_of_edges_are_refused() {
    let first = RECORD.split("[[source]]").next().unwrap();
    let twice = format!("{RECORD}{first}");
    assert_eq!(load_text(&twice), Err(CatalogueError::Duplicate { id: "test.first".to_owned() }));

    let second = first
        .replace("test.first", "test.second")
        .replace("mends", "after = [\"test.first\"]\nmends");
    let both = RECORD.replace("mends", "after = [\"test.second\"]\nmends") + &second;
    let ids = vec!["test.first".to_owned(), "test.second".to_owned()];
    assert_eq!(load_text(&both), Err(CatalogueError::Circle { ids }));
}

#[test]
fn the_order_follows_the_edges() {
    let order = load::order(catalogue()).unwrap();
    let place = |id: &str| order.iter().position(|known| *known == id).unwrap();
    assert_eq!(order.len(), catalogue().records.len());
    assert!(
        place("sched.fair_server") < place("shield.cpuset_v2"),
        "EBUSY inside an isolated partition"
    );
    assert!(
        place("irq.irqbalance") < place("irq.affinity"),
        "the daemon would move interrupts back"
    );
    assert!(place("svc.power") < place("freq.governor"));
    assert!(place("shield.threads") < place("irq.affinity"));
}

/// Every option of the script that starts QEMU, every step of the host's configuration, and every
/// setting that the other documents name.
#[test]
fn every_setting_of_the_documents_is_in_the_table() {
    let named = [
        (
            "yoon-2009",
            "priority, sched_setscheduler, shielding, sched_setaffinity, taskset, \
             smp_affinity, set_ioapic_affinity_irq, CPUSETS, mlock, nanosleep, RT-mutex, \
             TSC, ext2, runlevel, out-of-memory, sched_nr_migrate, delayed locking, \
             load under 50 %, without interrupts, priority queuing",
        ),
        (
            "pamuk-2024",
            "Hyper Threading, SpeedStep, Speed Shift, C-States, VT-d, \
             Affinity and Isolation, Interrupt Affinity, RT-Priority, RT Throttling, \
             Timer Migration, Work Queue, Stall Warnings, Stop Services, Machine Check, \
             Text-Based, LAPIC, taskset -c 4, chrt -f 99, -M pc, accel=kvm, -kernel, \
             -m 2048, -drive, rootfstype, -net nic, -netdev bridge, -fsdev, \
             vhost-vsock, pflash, memory-backend-ram, -mem-prealloc, -mem-path, vfio-pci, \
             -no-reboot, -nographic, PREEMPT-RT, trace-cmd, priority 99, CONFIG_FTRACE",
        ),
        (
            "enner-2016",
            "transparent_hugepage, swappiness, initdefault, cpuspeed, priority 98, \
             firewall, sleep mode, timeBeginPeriod, r8169, real-time kernel",
        ),
        ("mossige-2009", "rt-preempt, IEEE 1588, Bestcomm, stress, FPGA"),
    ];
    for (source, words) in named {
        let texts: Vec<&str> = catalogue()
            .published
            .iter()
            .filter(|known| known.source == source)
            .map(|known| known.text.as_str())
            .collect();
        for word in words.split(", ") {
            assert!(texts.iter().any(|text| text.contains(word)), "{source}: {word}");
        }
    }
}

/// Every parameter of the document's boot line, and what other documents publish.
#[test]
fn every_published_parameter_has_ids_or_a_reason() {
    let boot_line = "isolcpus=4 rcu_nocbs=4 rcu_nocb_poll nohz_full=4 default_hugepagesz=1G hugepagesz=1G hugepages=8 \
        intel_iommu=on rdt=13cat nmi_watchdog=0 idle=poll clocksource=tsc tsc=reliable audit=0 skew_tick=1 \
        intel_pstate=disable intel.max_cstate=0 intel_idle.max_cstate=0 processor.max_cstate=0 \
        processor_idle.max_cstate=0 nosoftlockup no_timer_check nospectre_v2 spectre_v2_user=off \
        kvm.kvmclock_periodic_sync=N kvm_intel.ple_gap=0 irqaffinity=0 schedstats=enable nohlt xeno_hal.smi=1 \
        xenomai.smi=1 threadirqs";
    for parameter in boot_line.split_whitespace() {
        let known = catalogue()
            .published
            .iter()
            .find(|known| known.source == "pamuk-2024" && known.text == parameter);
        let ids = known.unwrap_or_else(|| panic!("{parameter} is missing")).ids.len();
        assert!(ids > 0, "{parameter}");
    }

    let documents: BTreeSet<_> =
        catalogue().published.iter().map(|known| known.source.as_str()).collect();
    assert_eq!(
        documents.into_iter().collect::<Vec<_>>(),
        ["enner-2016", "mossige-2009", "pamuk-2024", "yoon-2009"]
    );
    assert!(
        catalogue().published.iter().all(|known| !known.ids.is_empty() || known.remark.is_some())
    );
}

#[test]
fn aliases_and_profiles_lead_to_records() {
    let resolved: Vec<_> =
        catalogue().resolve("net.irq_prio").iter().map(|record| record.id.as_str()).collect();
    assert_eq!(resolved, ["irq.thread_prio"]);
    assert!(catalogue().resolve("no.such_id").is_empty());

    let number = |profile: &str| catalogue().profile(profile).len();
    assert!(
        number("look") > 10
            && number("look") < number("bench")
            && number("bench") < number("robot-1k")
    );
    assert_eq!(number("unknown"), 0);
    let risky =
        ["sec.mitigations", "sched.rt_runtime", "hw.prefetch", "shield.hotplug_cycle", "rcu.stall"];
    for id in risky {
        assert!(catalogue().get(id).unwrap().profiles.is_empty(), "{id} is changed by name only");
    }
}

#[test]
fn the_largest_effect_against_a_cause_comes_first() {
    let records = catalogue().against("late_idle_exit");
    assert!(records.len() >= 5);
    assert!(records.is_sorted_by(|a, b| a.effect >= b.effect));
}

#[test]
fn most_causes_have_a_record_against_them() {
    // Nothing to tune: the freezer and a changed policy are somebody else's order, and what one
    // thread waits for from another is the program's design. What removes an exit of a guest depends
    // on its reason.
    let without: Vec<_> =
        CAUSES.iter().copied().filter(|cause| catalogue().against(cause).is_empty()).collect();
    assert_eq!(without, ["vm_exit", "cgroup_freezer", "policy_change", "data_wait"]);
}

#[test]
fn every_file_of_records_is_a_section() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/catalogue/records");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            SECTIONS.iter().any(|(_, section)| section.contains(&text)),
            "{} is not loaded",
            file.display()
        );
    }
}

const TRUTH: &str = include_str!("../machines/truth.txt");
const CHECKS: &str = include_str!("check.rs");

/// The tests of each record: its verdicts on the captured machines, and `check` where a test of
/// that name takes it through its values.
fn tests_of_records() -> BTreeMap<&'static str, String> {
    let verdicts = |id: &str| {
        let line = TRUTH.lines().find(|line| line.split_whitespace().next() == Some(id));
        line.and_then(|line| line.split_whitespace().nth(1))
    };
    let of = |id: &str| {
        let verdicts = verdicts(id).map(|letters| format!("`{letters}`"));
        let check = CHECKS.contains(&format!("\"{id}\"")).then(|| "check".to_owned());
        verdicts.into_iter().chain(check).collect::<Vec<_>>().join(" ")
    };
    catalogue().records.iter().map(|record| (record.id.as_str(), of(&record.id))).collect()
}

#[test]
fn each_record_has_a_test_and_most_are_probed_and_appliable() {
    let tests = tests_of_records();
    let without: Vec<_> = tests.iter().filter(|(_, tests)| tests.is_empty()).collect();
    assert!(without.is_empty(), "{without:?}");

    let probed = catalogue().records.iter().filter(|record| is_probed(record)).count();
    assert!(probed >= 150, "{probed} are probed");
    assert!(appliable().len() >= 80, "{} can be applied", appliable().len());
}

/// `ONBEAT_BLESS=1` writes the page.
#[test]
fn the_page_in_docs_is_the_generated_one() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    if !docs.is_dir() {
        println!("skipped: docs/ is not beside this crate");
        return;
    }

    let path = docs.join("tunings.md");
    let page = page(catalogue(), &tests_of_records());
    if std::env::var_os("ONBEAT_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }

    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        current == page,
        "docs/tunings.md differs: ONBEAT_BLESS=1 cargo test -p onbeat-tune --test it catalogue::"
    );
}
