//! Explanations of tunings on captured trees.

use crate::check_tree;

use check_tree::{CapturedMachine, LOOP_CPU};
use onbeat_tune::catalogue::{LoopSetup, catalogue};
use onbeat_tune::explain::{ExplainError, ManualStep, TuningExplanation, explain};

fn explained(id: &str) -> TuningExplanation {
    let machine = CapturedMachine::hardware();
    let setup = LoopSetup::on(LOOP_CPU.parse().unwrap());
    explain(id, &machine.tree(), &setup).unwrap().remove(0)
}

fn shell(line: &str) -> ManualStep {
    ManualStep::Shell(line.to_owned())
}

#[test]
fn a_sysctl_is_explained_with_its_values_and_the_lines_that_set_and_restore_it() {
    let explanation = explained("timer.migration");
    assert_eq!((explanation.verdict, explanation.wanted.as_str()), ("bad", "0"));
    assert!(explanation.current.ends_with("1"), "{}", explanation.current);
    assert_eq!(explanation.set[0], shell("sysctl -w kernel.timer_migration=0"));
    assert_eq!(explanation.undo[0], shell("sysctl -w kernel.timer_migration=1"));
}

#[test]
fn a_choice_in_brackets_is_put_back_as_its_word() {
    let explanation = explained("mem.thp");
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    assert!(
        explanation.set.contains(&shell(&format!("echo never > {path}"))),
        "{:?}",
        explanation.set
    );
    assert!(
        explanation.undo.contains(&shell(&format!("echo always > {path}"))),
        "{:?}",
        explanation.undo
    );
    assert!(
        explanation
            .set
            .contains(&ManualStep::KernelParameters("transparent_hugepage=never".to_owned()))
    );
}

#[test]
fn variables_have_the_values_of_this_machine() {
    let explanation = explained("irq.affinity");
    assert_eq!(explanation.set[0], shell("echo 0-2 > /proc/irq/N/smp_affinity_list"));
    assert!(explanation.after.contains(&"irq.irqbalance".to_owned()), "{:?}", explanation.after);
    assert!(explained("shield.cpuset_v2").conflicts.contains(&"shield.hotplug_cycle".to_owned()));
    assert!(explained("shield.hotplug_cycle").conflicts.contains(&"shield.cpuset_v2".to_owned()));
}

#[test]
fn of_two_drivers_the_one_that_is_here_is_set() {
    let machine = CapturedMachine::hardware();
    let boost = "/sys/devices/system/cpu/cpufreq/boost";
    machine.file(boost, "1\n");
    let setup = LoopSetup::on(LOOP_CPU.parse().unwrap());
    let explanation = explain("fw.turbo", &machine.tree(), &setup).unwrap().remove(0);
    assert_eq!(explanation.set, [shell(&format!("echo 0 > {boost}"))]);
    assert_eq!(explanation.undo, [shell(&format!("echo 1 > {boost}"))]);
}

#[test]
fn every_record_is_explained_within_80_columns_except_lines_for_a_shell() {
    let machine = CapturedMachine::hardware();
    let setup = LoopSetup::on(LOOP_CPU.parse().unwrap());
    for record in &catalogue().records {
        let explanation = explain(&record.id, &machine.tree(), &setup).unwrap().remove(0);
        assert_eq!(explanation.set.is_empty(), record.ways_to_set().is_empty(), "{}", record.id);
        assert_eq!(explanation.undo.is_empty(), record.is_check_only(), "{}", record.id);
        assert!(
            !explanation.sources.is_empty() && !explanation.verdict.is_empty(),
            "{}",
            record.id
        );

        let shell_lines: Vec<&str> = explanation
            .set
            .iter()
            .chain(&explanation.undo)
            .filter_map(|step| match step {
                ManualStep::Shell(line) | ManualStep::KernelParameters(line) => Some(line.as_str()),
                ManualStep::Instruction(_) => None,
            })
            .collect();
        for line in explanation.to_string().lines() {
            let is_for_shell = shell_lines.iter().any(|shell| line.contains(shell));
            let is_one_word = line.split_whitespace().count() <= 1;
            assert!(
                line.chars().count() <= 80 || is_for_shell || is_one_word,
                "{}: {line}",
                record.id
            );
        }
    }
}

#[test]
fn an_alias_is_explained_by_its_records_and_an_unknown_id_by_similar_ones() {
    let machine = CapturedMachine::hardware();
    let setup = LoopSetup::default();
    let by_alias = explain("net.irq_prio", &machine.tree(), &setup).unwrap();
    assert_eq!(by_alias[0].id, "irq.thread_prio");

    let ExplainError::UnknownId { nearest, known, .. } =
        explain("irq.afinity", &machine.tree(), &setup).unwrap_err();
    assert_eq!(nearest.first().map(String::as_str), Some("irq.affinity"));
    assert!(known > 190);
}

#[test]
fn the_explanation_in_json_names_its_schema() {
    let json = serde_json::to_value(explained("mem.swappiness")).unwrap();
    assert_eq!(json["schema"], "onbeat.explanation/1");
    assert_eq!(json["set"][0]["kind"], "shell");
    assert_eq!(json["risk"], explained("mem.swappiness").risk.unwrap());
}
