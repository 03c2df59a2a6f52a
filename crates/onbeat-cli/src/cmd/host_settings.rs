//! The settings of the host that tunings of a bench name, resolved on this machine.

use std::path::Path;

use onbeat::bench::CellTuning;
use onbeat::bench::conduct::BenchPlan;
use onbeat::bench::host_settings::{HostSetting, SettingRequest, resolve};
use onbeat_tune::LiveHost;
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::plan::Plan;

use super::Failure;

/// Returns the settings that the tunings of a bench name, each once.
pub(super) fn resolved(
    plan: &BenchPlan,
    plan_file: Option<&Path>,
) -> Result<Vec<HostSetting>, Failure> {
    let mut names: Vec<&str> = plan.tunings.iter().flat_map(CellTuning::host_names).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(Vec::new());
    }

    let request = SettingRequest {
        setup: LoopSetup {
            period_us: i64::try_from(plan.setting.period_ns / 1000).unwrap_or(i64::MAX),
            loop_priority: i64::from(plan.priority),
            ..LoopSetup::on([plan.cpu].into_iter().collect())
        },
        plan_file,
    };
    let tree = HostTree::live();
    let host = LiveHost::new();
    let settings = names.into_iter().map(|name| resolve(name, (&tree, &host), &request));
    Ok(settings.collect::<Result<Vec<_>, _>>()?)
}

/// Returns the first CPU of the first plan that tunings name; `None` without a readable plan, which
/// [`resolved`] reports.
pub(super) fn cpu_of_plan(tunings: &[CellTuning], plan_file: Option<&Path>) -> Option<u32> {
    let plan = |name: &str| {
        let path = if name == "plan" { plan_file? } else { Path::new(name) };
        let text = std::fs::read_to_string(path).ok()?;
        Plan::from_text(&text).ok()?.loop_cpus().ok()?.iter().next()
    };
    tunings.iter().flat_map(CellTuning::host_names).find_map(plan)
}
