//! Advice depends on the situation: none that is in effect already, none that cannot apply, and
//! each with a row in docs/advice.md.

use std::collections::BTreeSet;
use std::fmt::Write;

use onbeat::bench::LoopOptions;
use onbeat::cause::advice::{self, Advice, Fact, Situation};
use onbeat::cause::{Cause, CauseKind as Kind, Culprit};
use onbeat::record::Header;
use onbeat_report::remedies::situation;
use onbeat_tune::catalogue::record::TakesEffect;
use serde_json::{Value, json};

const DOCS: &str = include_str!("../../../../../docs/advice.md");
/// The advice against each cause in each situation; the page's test reads it too.
const CASES: &str = include_str!("../../advice_cases.json");

fn cause(kind: Kind, culprit: Option<Culprit>) -> Cause {
    Cause { kind, ns: 200_000, evidence: String::new(), culprit }
}

fn by(kind: Kind, name: &str) -> Cause {
    cause(kind, Some(Culprit { name: name.to_owned(), ..Culprit::default() }))
}

fn preempted(name: &str, prio: i32) -> Cause {
    cause(
        Kind::Preempted,
        Some(Culprit {
            name: name.to_owned(),
            tid: Some(7),
            prio: Some(prio),
            ..Culprit::default()
        }),
    )
}

fn with_facts<const N: usize>(facts: [Fact; N]) -> Situation {
    Situation { facts: facts.into(), ..Situation::default() }
}

fn causes() -> Vec<Cause> {
    let mut all: Vec<Cause> = Kind::ALL.into_iter().map(|kind| cause(kind, None)).collect();
    all.extend(
        ["TIMER", "HRTIMER", "RCU", "SCHED", "NET_RX", "BLOCK"].map(|name| by(Kind::Softirq, name)),
    );
    let interrupts =
        ["timer tick_nohz_handler", "timer posix_timer_fn", "reschedule", "virtio1-req.0 (irq 36)"];
    all.extend(interrupts.map(|name| by(Kind::HardIrq, name)));
    for kind in [Kind::RtThrottling, Kind::FairServer] {
        all.extend([49, 120].map(|prio| Cause { kind, ..preempted("hog", prio) }));
    }
    let threads = [
        ("hog", 49),
        ("hog", 120),
        ("hog", 0),
        ("hog", -1),
        ("irq/24-nvme", 49),
        ("migration/1", 0),
    ];
    all.extend(threads.map(|(name, prio)| preempted(name, prio)));
    all.extend(["ksoftirqd/1", "kworker/1:0H", "kworker/u8:3"].map(|name| preempted(name, 120)));
    let mut in_a_call = preempted("hog", 120);
    in_a_call.culprit.as_mut().unwrap().woken_in = Some("ppoll".to_owned());
    all.push(in_a_call);
    let halted = by(Kind::LateTimer, Culprit::HALTED);
    all.extend([halted.clone(), Cause { ns: 900_000, ..halted }]);

    all
}

fn situations() -> Vec<Situation> {
    use Fact as F;
    let tuned = with_facts([F::Bound, F::MemoryLocked, F::Shielded, F::Spins, F::CpusetV2]);
    let guest = |mut of: Situation, idle_exit_ns, priority| {
        of.facts.insert(F::Guest);
        Situation { idle_exit_ns: Some(idle_exit_ns), priority, ..of }
    };

    let all = [
        F::PreemptRt,
        F::PreemptFull,
        F::IdlePolls,
        F::RcuElsewhere,
        F::NoTick,
        F::ManagedIrqsElsewhere,
        F::NoRtLimit,
        F::FrequencyFixed,
        F::MemoryLocked,
        F::Bound,
        F::Shielded,
        F::Spins,
        F::IdleBound,
    ];
    vec![
        Situation::default(),
        guest(Situation::default(), 1_000, 0),
        guest(tuned.clone(), 1_000, 98),
        guest(with_facts([F::EvidenceMissing, F::CpusetV1]), 133_000, 40),
        Situation { priority: 98, ..tuned },
        Situation { priority: 99, ..with_facts(all) },
        with_facts([F::OneCpu, F::PreemptRt]),
    ]
}

/// Headers of runs: a guest with everything granted, and bare metal with little.
fn runs() -> Vec<Value> {
    let grant = |what: &str, granted: bool| json!({"what": what, "wanted": "", "granted": granted, "why_not": null, "costs": null, "remedy": null});
    let run = |host: Value, wait: &str, cpu: Value, grants: Vec<Value>| {
        json!({"schema": "onbeat.run/1", "version": "0", "command": [], "probe": "timer", "started_unix_s": 0.0, "host": host, "cell": null,
            "timing": {"period_ns": 1_000_000, "phase_ns": 0, "deadline_ns": 1_000_000, "work_ns": 0, "wait": wait, "on_overrun": "skip", "cpu": cpu, "priority": 98},
            "grants": grants})
    };

    let tuned = [
        "real-time priority",
        "locked memory",
        "CPU affinity",
        "CPU shield",
        "idle-state bound",
        "flight recorder",
    ];
    let guest = json!({"hypervisor": "KVM", "cpuset": "cgroup v1", "CPUs online": "2", "preemption": "PREEMPT_DYNAMIC", "deepest idle state": "haltpoll idle, 1000 ns to leave",
        "kernel command line": "ro preempt=full idle=poll rcu_nocbs=0-1 nohz_full=0 isolcpus=managed_irq,domain,1"});
    let bare = json!({"CPUs online": "1", "cpuset": "cgroup v2", "preemption": "PREEMPT_RT", "real-time budget": "unlimited", "frequency governor": "performance",
        "kernel command line": "ro idle=halt nohz_full=all"});
    vec![
        run(guest, "spin=50us", json!(1), tuned.map(|what| grant(what, true)).to_vec()),
        run(
            bare,
            "sleep",
            Value::Null,
            vec![grant("real-time priority", false), grant("steal counter", false)],
        ),
        run(json!({}), "relative", json!(3), vec![grant("CPU affinity", false)]),
    ]
}

/// Returns the expected file: a line for each cause, run and situation, so that a diff shows each
/// change.
fn cases() -> String {
    let situations = situations();
    let mut text = String::from("{\n\"situations\": [\n");
    let lines =
        |values: Vec<Value>| values.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n");
    text.push_str(&lines(situations.iter().map(|one| json!(one)).collect()));
    text.push_str("\n],\n\"runs\": [\n");
    let of_run = |run: Value| {
        let header: Header = serde_json::from_value(run.clone()).unwrap();
        json!({"run": run, "situation": situation(&header)})
    };

    text.push_str(&lines(runs().into_iter().map(of_run).collect()));
    text.push_str("\n],\n\"causes\": [\n");
    let ids = |cause: &Cause, one: &Situation| {
        cause.advice(one).iter().map(|advice| advice.id()).collect::<Vec<_>>()
    };
    let tuned = |cause: &Cause, one: &Situation| advice::tunings(&cause.advice(one), one);
    let of_cause = |cause: &Cause| {
        let advice: Vec<_> = situations.iter().map(|one| ids(cause, one)).collect();
        let tunings: Vec<_> = situations.iter().map(|one| tuned(cause, one)).collect();
        let measured: Vec<_> = tunings.iter().map(|ids| advice::measure_command(ids)).collect();
        json!({"cause": cause, "advice": advice, "tunings": tunings, "measured": measured})
    };
    text.push_str(&lines(causes().iter().map(of_cause).collect()));
    let _ = writeln!(text, "\n]\n}}");
    text
}

#[test]
fn the_advice_for_each_cause_and_situation_is_that_of_the_list_of_cases() {
    // `ONBEAT_WRITE_CASES=1 cargo test -p onbeat --test it advice::` rewrites the list, for review with
    // the change.
    if std::env::var_os("ONBEAT_WRITE_CASES").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/advice_cases.json"), cases())
            .unwrap();
        return;
    }

    for (is, should) in CASES.lines().zip(cases().lines()) {
        assert_eq!(is, should);
    }

    assert_eq!(CASES.lines().count(), cases().lines().count());
}

#[test]
fn no_advice_is_given_without_what_it_needs_or_where_it_is_in_effect() {
    for situation in situations() {
        for cause in causes() {
            for advice in cause.advice(&situation) {
                let words = format!("{} against {} in {situation:?}", advice.id(), cause.words());
                assert!(
                    advice.needs().iter().all(|fact| situation.facts.contains(fact)),
                    "{words}"
                );
                assert!(
                    !advice.not_with().iter().any(|fact| situation.facts.contains(fact)),
                    "{words}"
                );
            }
        }
    }
}

#[test]
fn every_advice_of_the_list_is_given_somewhere() {
    let causes = causes();
    let given = situations().into_iter().flat_map(|situation| {
        let all = causes.iter().flat_map(|cause| cause.advice(&situation)).collect::<Vec<_>>();
        all.into_iter()
    });

    let given: BTreeSet<Advice> = given.collect();
    assert_eq!(given, Advice::all().collect());
}

#[test]
fn a_priority_is_advised_only_where_it_would_precede_the_culprit() {
    let advised = |priority, prio| {
        let situation = Situation { priority, ..Situation::default() };
        preempted("hog", prio).advice(&situation).contains(&Advice::Priority)
    };

    assert!(advised(0, 120), "an ordinary loop behind an ordinary thread");
    assert!(advised(50, 49), "equal priorities");
    assert!(!advised(98, 49), "the loop precedes it already");
    assert!(!advised(98, 0), "nothing precedes priority 99");
    assert!(!advised(0, -1), "no priority precedes a deadline");
}

#[test]
fn a_halted_vcpu_is_kept_awake_below_half_a_millisecond_and_needs_its_host_above() {
    let guest = with_facts([Fact::Guest]);
    let halted = |ns| Cause { ns, ..by(Kind::LateTimer, Culprit::HALTED) }.advice(&guest);
    assert_eq!(halted(200_000), [Advice::KeepAwake, Advice::Spin]);
    assert_eq!(halted(900_000), [Advice::PinVcpu, Advice::BareMetal]);
    let bare_metal = cause(Kind::HypervisorSteal, None).advice(&Situation::default());
    assert_eq!(bare_metal, [], "bare metal has no host");
}

/// Returns the rows of the table: id and text.
fn rows() -> Vec<(String, String)> {
    let cells = |line: &str| {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let rows = DOCS.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|cells| (cells[0].trim_matches('`').to_owned(), cells[1].clone())).collect()
}

#[test]
fn docs_have_a_row_for_each_advice_and_no_other() {
    let documented: BTreeSet<_> = rows().into_iter().collect();
    let printed: BTreeSet<_> =
        Advice::all().map(|advice| (advice.id().to_owned(), advice.text().to_owned())).collect();
    assert_eq!(
        documented.difference(&printed).collect::<Vec<_>>(),
        [] as [&(String, String); 0],
        "rows without advice"
    );
    assert_eq!(
        printed.difference(&documented).collect::<Vec<_>>(),
        [] as [&(String, String); 0],
        "advice without a row"
    );
    assert_eq!(rows().len(), documented.len(), "a row for each");
}

#[test]
fn docs_name_the_causes_that_each_advice_is_for() {
    let causes = causes();
    for line in DOCS.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, _, _, kinds, _, _, tried, _] = cells[..] else {
            panic!("eight cells, not {}: {line}", cells.len())
        };
        let of = |advice: Advice| advice.id() == id.trim_matches('`');
        let given = causes
            .iter()
            .filter(|cause| situations().iter().any(|one| cause.advice(one).into_iter().any(of)));
        let given: BTreeSet<&str> = given.map(|cause| cause.kind.words()).collect();

        assert_eq!(kinds.split(", ").collect::<BTreeSet<_>>(), given, "{id}");
        assert!(["not tried", "tried"].iter().any(|word| tried.starts_with(word)), "{id}: {tried}");
    }
}

#[test]
fn docs_name_the_tunings_of_each_advice() {
    let everywhere = with_facts([Fact::CpusetV1, Fact::CpusetV2]);
    for line in DOCS.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let advice =
            Advice::all().find(|advice| advice.id() == cells[0].trim_matches('`')).unwrap();
        let ids: Vec<&str> =
            cells[2].split(", ").map(|id| id.trim_matches('`')).filter(|id| *id != "–").collect();
        assert_eq!(ids, advice.tunings(&everywhere), "{}", advice.id());
    }
}

#[test]
fn each_tuning_of_an_advice_is_in_the_catalogue_and_is_against_one_of_its_causes() {
    let everywhere = with_facts([Fact::CpusetV1, Fact::CpusetV2]);
    let causes = causes();
    for advice in Advice::all() {
        let given = causes
            .iter()
            .filter(|cause| situations().iter().any(|one| cause.advice(one).contains(&advice)));
        let given: BTreeSet<String> = given
            .map(|cause| serde_json::to_value(cause.kind).unwrap().as_str().unwrap().to_owned())
            .collect();
        for id in advice.tunings(&everywhere) {
            let record = onbeat_tune::catalogue::catalogue()
                .get(id)
                .unwrap_or_else(|| panic!("{id} is not a tuning"));
            assert!(
                record.mends.iter().any(|cause| given.contains(cause)),
                "{id} is not against {given:?}"
            );
        }
    }
}

/// A setting of the loop is an option of the bench's cell, and needs no change of the machine.
#[test]
fn what_is_offered_for_measuring_takes_effect_without_a_reboot_or_another_program() {
    let everywhere = with_facts([Fact::CpusetV1, Fact::CpusetV2]);
    let mut offered = BTreeSet::new();
    for id in Advice::all().flat_map(|advice| advice.tunings(&everywhere)) {
        let record = onbeat_tune::catalogue::catalogue().get(id).unwrap();
        let in_turns =
            record.takes_effect.contains(&TakesEffect::Now) || LoopOptions::of_id(id).is_some();
        assert_eq!(advice::measure_command(&[id]).is_some(), in_turns, "{id}");
        offered.extend(in_turns.then_some(id));
    }

    assert!(offered.len() >= 10, "{offered:?}");
    assert_eq!(
        advice::measure_command(&["kern.preempt_rt", "shield.cpuset_v1"]).unwrap(),
        "onbeat tune measure shield.cpuset_v1"
    );
    assert_eq!(advice::measure_command(&["kern.preempt_rt"]), None);
}

#[test]
fn a_tuning_of_the_cpuset_hierarchy_is_named_only_where_it_exists() {
    assert_eq!(Advice::OthersOff.tunings(&with_facts([Fact::CpusetV1])), ["shield.cpuset_v1"]);
    assert_eq!(Advice::OthersOff.tunings(&with_facts([Fact::CpusetV2])), ["shield.cpuset_v2"]);
    assert_eq!(Advice::MoveThread.tunings(&Situation::default()), ["shield.threads"]);
}
