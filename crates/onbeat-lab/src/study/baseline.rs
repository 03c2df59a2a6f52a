//! What a study finds out before its first measurement, when nothing is tuned yet.

use std::path::Path;

use onbeat_host::machine::lasting_id;
use onbeat_tune::CpuList;
use onbeat_tune::catalogue::{Finding, HostTree, LoopSetup, check};
use onbeat_tune::plan::{CpuChoice, PlanRequest, plan};

use super::error::StudyError;
use super::file::{StudyFile, StudyStage};
use super::row::Stage;
use super::setting::{FIRMWARE, MachineSetting, SettingState, StageSetting, resolve};
use super::store::{BASELINE, StudyBaseline, StudyStore};
use crate::vm::work_directory::key_of;

/// The loop that the host is tuned for: the guest's virtual CPU, which keeps its host CPU where the
/// guest halts by itself, and in virtual time.
pub(super) fn loop_setup(cpus: &CpuList, study: &StudyFile, clock: &str) -> LoopSetup {
    let halts_itself = study
        .stages
        .iter()
        .flat_map(|stage| &stage.settings)
        .any(|id| MachineSetting::from_id(id) == Some(MachineSetting::IdlesItself));
    LoopSetup {
        period_us: i64::try_from(study.period.as_micros()).unwrap_or(i64::MAX),
        loop_priority: i64::from(study.priority),
        polls: clock == "virtual" || (clock == "real" && halts_itself),
        runs_guests: true,
        ..LoopSetup::on(cpus.clone())
    }
}

/// The stored baseline, or a new one: before the first measurement nothing is tuned, and so a
/// setting that is as wanted has no price here.
pub(super) fn baseline(
    study: &StudyFile,
    clock: &str,
    because: &str,
    store: &StudyStore,
) -> Result<StudyBaseline, StudyError> {
    let StudyFile { stages, host_cpus, .. } = study;
    // As tuples, by which studies that have begun are known.
    let named: Vec<_> = stages.iter().map(|stage| (&stage.name, &stage.settings)).collect();
    let key = key_of(format!("{named:?} {host_cpus:?} {clock}").as_bytes());
    let machine = lasting_id();
    if let Some(known) = store.results.read::<StudyBaseline>(BASELINE.as_ref())? {
        check_known(&known, &key, machine.as_deref(), store.results.path())?;
        return Ok(known);
    }

    let tree = HostTree::live();
    let own = chosen(&tree, host_cpus.as_ref())?;
    let setup = loop_setup(&own, study, clock);
    let stage = |stage: &StudyStage| Stage {
        name: stage.name.clone(),
        settings: stage
            .settings
            .iter()
            .map(|id| StageSetting { id: id.clone(), state: resolve(&tree, id, &setup, clock) })
            .collect(),
    };
    let baseline = StudyBaseline {
        key,
        machine,
        clock: clock.to_owned(),
        because: because.to_owned(),
        host_cpus: own.to_string(),
        stages: stages.iter().map(stage).collect(),
        firmware: firmware(&tree, &setup),
    };
    store.results.write(BASELINE.as_ref(), &baseline)?;
    Ok(baseline)
}

/// Refuses a stored baseline of another study; and of another machine, as far as both have an id.
fn check_known(
    known: &StudyBaseline,
    key: &str,
    machine: Option<&str>,
    directory: &Path,
) -> Result<(), StudyError> {
    let what = match (known.machine.as_deref(), machine) {
        _ if known.key != key => "study file",
        (Some(then), Some(now)) if then != now => "machine",
        _ => return Ok(()),
    };
    Err(StudyError::Other { path: directory.to_owned(), what })
}

/// The guest's host CPUs, as `onbeat tune plan` chooses them.
fn chosen(tree: &HostTree, given: Option<&CpuList>) -> Result<CpuList, StudyError> {
    let mut request = PlanRequest::ids(["wq.unbound"])?;
    if let Some(cpus) = given {
        request.cpus = CpuChoice::List(cpus.clone());
    }
    Ok(plan(tree, &request)?.loop_cpus()?)
}

/// What the firmware is set to, as far as the machine shows it.
fn firmware(tree: &HostTree, setup: &LoopSetup) -> Vec<StageSetting> {
    let findings = check(tree, setup);
    let of_firmware = findings.into_iter().filter(|one| FIRMWARE.contains(&one.id.as_str()));

    let setting =
        |found: Finding| StageSetting { id: found.id.clone(), state: SettingState::found(found) };
    of_firmware.map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_study_or_machine_are_not_continued() {
        let begun = |machine: Option<&str>| StudyBaseline {
            key: "k".to_owned(),
            machine: machine.map(str::to_owned),
            clock: "real".to_owned(),
            because: String::new(),
            host_cpus: "1".to_owned(),
            stages: Vec::new(),
            firmware: Vec::new(),
        };
        let refused = |known: &StudyBaseline, key: &str, machine: Option<&str>| {
            let checked = check_known(known, key, machine, Path::new("onbeat-study/default"));
            checked.err().map(|why| why.to_string())
        };
        let other = refused(&begun(Some("a1")), "k", Some("b2")).expect("another machine");
        assert!(other.starts_with("onbeat-study/default holds results of another machine"));
        assert!(refused(&begun(None), "j", None).expect("another study").contains("study file"));
        for (then, now) in [(Some("a1"), Some("a1")), (None, Some("b2")), (Some("a1"), None)] {
            assert_eq!(refused(&begun(then), "k", now), None);
        }
    }
}
