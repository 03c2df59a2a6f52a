//! The shield as a step of a plan: a loop of a whole process gets a partition; for any other the
//! outcome says why it has none.

use crate::tune_fake;

use onbeat_tune::apply::{AppliedStep, ApplyRequest, StepOutcome, apply, undo};
use onbeat_tune::plan::{PLAN_SCHEMA, Plan, PlanStep, StepTarget};
use onbeat_tune::{HostFiles, UndoMode};
use tune_fake::{Cgroups, Fake, LOOP, World};

const PARTITION: &str = "/sys/fs/cgroup/onbeat-loop/cpuset.cpus.partition";
/// A process of one thread.
const ALONE: i32 = 120;

fn plan(task: i32) -> Plan {
    let step = PlanStep {
        id: "shield.cpuset_v2".to_owned(),
        target: StepTarget::Shield {},
        old: String::new(),
        new: "3".to_owned(),
        shell: String::new(),
        takes: String::new(),
        risk: String::new(),
    };
    Plan {
        schema: PLAN_SCHEMA.to_owned(),
        profile: None,
        cpus: "3".to_owned(),
        cpus_because: String::new(),
        task: Some(task),
        task_start_ticks: None,
        steps: vec![step],
        left_out: vec![],
    }
}

/// Applies the shield for a task. Returns what was refused of it, and the kind of partition.
fn applied(task: i32) -> (Vec<String>, String) {
    let host = Fake::new(World::new(Cgroups::V2));
    let before = host.settings();
    let directory = tempfile::tempdir().unwrap();
    let request = ApplyRequest::new("onbeat tune apply");
    let applied = apply(&host, directory.path(), &plan(task), &request).unwrap();
    let partition = host.read(PARTITION).unwrap().trim().to_owned();

    undo(directory.path(), &host, UndoMode::Careful).unwrap();
    assert_eq!(host.settings(), before);
    let [AppliedStep { outcome: StepOutcome::Changed { refused, .. }, .. }] = &applied.steps[..]
    else {
        panic!("{applied:?}");
    };
    (refused.clone(), partition)
}

#[test]
fn a_loop_that_is_its_process_gets_a_partition() {
    let (refused, partition) = applied(ALONE);
    assert_eq!(partition, "isolated", "{refused:?}");
    assert!(!refused.iter().any(|why| why.contains("no partition")), "{refused:?}");
}

#[test]
fn for_a_loop_in_a_process_with_other_threads_the_outcome_says_why_it_has_no_partition() {
    let (refused, partition) = applied(LOOP);
    assert_eq!(partition, "member");
    let reason = "no partition: the loop's process has other threads too";
    assert!(refused.iter().any(|why| why == reason), "{refused:?}");
}
