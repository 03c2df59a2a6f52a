//! The settings of the host that tunings name, resolved on this machine.

use std::path::Path;

use onbeat::bench::CellTuning;
use onbeat::bench::host_settings::{HostSetting, SettingRequest, resolve};
use onbeat_tune::LiveHost;
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::plan::Plan;

use super::Failure;

/// Returns the settings that tunings name for a loop, each once; `plan_file` is what the name `plan`
/// stands for.
pub(super) fn resolved(
    tunings: &[CellTuning],
    setup: LoopSetup,
    plan_file: Option<&Path>,
) -> Result<Vec<HostSetting>, Failure> {
    let mut names: Vec<&str> = tunings.iter().flat_map(CellTuning::host_names).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(Vec::new());
    }

    let request = SettingRequest { setup, plan_file };
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
