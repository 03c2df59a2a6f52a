//! What the options of a probe measure.

use onbeat::bench::measurement::ProbePlan;
use onbeat::probe::Setting;

use super::options::Measure;
use crate::cmd::looping::{ThreadChoice, limit, most_alarms, setting};
use crate::cmd::so_far::looks_of;
use crate::cmd::{findings, typed};
use crate::options::LoopArguments;

/// Returns what the options measure, for so long in each run.
pub(crate) fn probe_plan(measure: &Measure, duration_ns: u64) -> ProbePlan {
    let Measure { probe, options, given } = measure;
    let setting = planned_setting(measure, duration_ns);
    let releases = releases(duration_ns, &options.looping);
    ProbePlan {
        given: given.clone(),
        limit: limit(&options.limit, probe.series[0]),
        looks: looks_of(options.until, options.duration).len(),
        most_alarms: most_alarms(&options.limit),
        findings: findings::findings(options.cpu, options.looping.period),
        ..ProbePlan::new(probe, setting, releases, &typed())
    }
}

/// Returns the setting of a probe's loop by the options.
pub(crate) fn planned_setting(measure: &Measure, duration_ns: u64) -> Setting {
    let Measure { options, .. } = measure;
    let thread = ThreadChoice {
        cpu: options.cpu,
        priority: options.priority,
        lock_memory: !options.no_lock_memory,
        wait: options.wait,
        causes: !options.no_causes,
    };

    let duration_ns = if duration_ns == 0 { u64::MAX } else { duration_ns };
    let mut setting = setting(&options.looping, thread, duration_ns);
    setting.stacks = options.stacks;
    setting.split = options.split;
    setting
}

/// Returns the number of releases in a duration; `u64::MAX` when the duration is 0.
pub(crate) fn releases(duration_ns: u64, options: &LoopArguments) -> u64 {
    match duration_ns.checked_div(options.period) {
        Some(0) if duration_ns == 0 => u64::MAX,
        Some(releases) => releases.max(1),
        None => 0,
    }
}
