//! The settings of the host that tunings name, resolved on this machine.

use std::path::Path;

use onbeat::bench::CellTuning;
use onbeat::bench::host_settings::{HostSetting, SettingRequest, resolve};
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::plan::Plan;
use onbeat_tune::plan::cpus::loop_cpu;
use onbeat_tune::{CpuList, LiveHost};

use super::Failure;

/// Returns the settings that tunings name for a loop on `cpus`, of this period and priority, each
/// once; `plan_file` is what the name `plan` stands for.
pub(super) fn resolved(
    tunings: &[CellTuning],
    cpus: CpuList,
    (period_ns, priority): (u64, u32),
    plan_file: Option<&Path>,
) -> Result<Vec<HostSetting>, Failure> {
    let mut names: Vec<&str> = tunings.iter().flat_map(CellTuning::host_names).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(Vec::new());
    }

    let setup = LoopSetup {
        period_us: i64::try_from(period_ns / 1000).unwrap_or(i64::MAX),
        loop_priority: i64::from(priority),
        ..LoopSetup::on(cpus)
    };
    let (tree, host) = (HostTree::live(), LiveHost::new());
    let request = SettingRequest { tree: &tree, host: &host, setup, plan_file };
    let settings = names.into_iter().map(|name| resolve(name, &request));
    Ok(settings.collect::<Result<Vec<_>, _>>()?)
}

/// Returns the CPU of a loop where none is given: the first of the first plan that tunings name,
/// else the one that a plan would choose. A plan that cannot be read is reported by [`resolved`].
pub(super) fn cpu_of_loop(tunings: &[CellTuning], plan_file: Option<&Path>) -> u32 {
    let plan = |name: &str| {
        let path = if name == "plan" { plan_file? } else { Path::new(name) };
        let text = std::fs::read_to_string(path).ok()?;
        Plan::from_text(&text).ok()?.loop_cpus().ok()?.iter().next()
    };
    let planned = tunings.iter().flat_map(CellTuning::host_names).find_map(plan);
    planned.unwrap_or_else(|| loop_cpu(&HostTree::live()).cpu)
}
