//! When the kernel refuses to change a fair server.
//!
//! A root domain adds up the bandwidth of the fair servers of its CPUs. Whenever scheduling domains
//! are rebuilt the sum begins at 0, without the servers; a change of one then looks like more than
//! the domain has, and is refused with EBUSY (`__dl_overflow` in kernel/sched/deadline.c). Domains are
//! rebuilt for a partition, and in some 6.12 even when `sched_rt_runtime_us` is read (6.12.117, tried
//! in a guest). While that setting is -1 nothing is limited, and nothing is refused.

use super::PlanStep;
use crate::catalogue::survey::Survey;
use crate::cpu_list::CpuList;

/// The tuning without which it is refused, and the setting that it makes.
const UNLIMITED: &str = "sched.rt_runtime";
const LIMIT: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// The tuning that is refused there.
const REFUSED: &str = "sched.fair_server";
const PARTITIONS: [&str; 2] = ["isolated", "root"];

/// Returns why a tuning cannot be applied now, because a CPU of the loop is in a partition; `None`
/// where it can. `before`: the steps of the plan so far.
pub(super) fn refusal(id: &str, before: &[PlanStep], survey: &Survey<'_>) -> Option<String> {
    let has_no_limit = || survey.text(LIMIT).is_ok_and(|limit| limit.trim() == "-1");
    if id != REFUSED || before.iter().any(|step| step.id == UNLIMITED) || has_no_limit() {
        return None;
    }
    let cpus = survey.loop_cpus().ok()?;
    let inside = partitioned(survey)?.and(&cpus);
    (!inside.is_empty()).then(|| {
        format!(
            "CPU {inside} is in a cpuset partition, where the kernel refuses the change (EBUSY) unless kernel.sched_rt_runtime_us is -1: apply {UNLIMITED} with it"
        )
    })
}

/// The CPUs of isolated partitions and of the shield's.
fn partitioned(survey: &Survey<'_>) -> Option<CpuList> {
    let mount = &survey.unified_mount().ok()?.path;
    let list = |name: &str| {
        let text = survey.text(&format!("{mount}/{name}")).unwrap_or_default();
        CpuList::parse_list(&text).unwrap_or_default()
    };

    let kind = survey.text(&format!("{mount}/onbeat-loop/cpuset.cpus.partition"));
    let is_partition = kind.is_ok_and(|kind| PARTITIONS.contains(&kind.trim()));
    let shield = if is_partition { list("onbeat-loop/cpuset.cpus") } else { CpuList::default() };
    Some(list("cpuset.cpus.isolated").iter().chain(shield.iter()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::catalogue::{HostTree, LoopSetup};

    /// The refusal on a machine with these files of the root's and of the shield's group.
    #[allow(clippy::unwrap_used)]
    fn refused_at(limit: &str, id: &str, files: &[(&str, &str)]) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let place = directory.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        };
        put("sys/devices/system/cpu/online", "0-3\n");
        put("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        put("proc/sys/kernel/sched_rt_runtime_us", limit);
        files.iter().for_each(|(name, text)| put(&format!("sys/fs/cgroup/{name}"), text));
        let tree = HostTree::captured(directory.path()).unwrap();
        let setup = LoopSetup { cpus: "3".parse().unwrap(), ..LoopSetup::default() };
        refusal(id, &[], &Survey::new(&tree, &setup))
    }

    fn refused(id: &str, files: &[(&str, &str)]) -> Option<String> {
        refused_at("950000\n", id, files)
    }

    #[test]
    fn the_fair_server_of_a_cpu_in_a_partition_is_refused_in_a_sentence() {
        let isolated = [("cpuset.cpus.isolated", "3\n")];
        let why = refused(REFUSED, &isolated).unwrap_or_default();
        assert!(why.starts_with("CPU 3 is in a cpuset partition, where"), "{why}");
        assert!(why.ends_with("apply sched.rt_runtime with it"), "{why}");
        assert_eq!(refused("timer.migration", &isolated), None);
        assert_eq!(refused_at("-1\n", REFUSED, &isolated), None);
        assert_eq!(refused(REFUSED, &[("cpuset.cpus.isolated", "1\n")]), None);

        let shield = |kind| {
            let group = "onbeat-loop/cpuset.cpus.partition";
            refused(REFUSED, &[(group, kind), ("onbeat-loop/cpuset.cpus", "2-3\n")])
        };
        assert!(shield("root\n").is_some());
        assert_eq!(shield("member\n"), None);
        assert_eq!(refused(REFUSED, &[]), None);
    }
}
