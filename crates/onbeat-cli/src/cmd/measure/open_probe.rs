//! A probe of the command line, opened.

use onbeat::bench::run_tuning::RunTuning;
use onbeat::probe::description::Parts;
use onbeat::probe::{RunError, Setting};

use super::options::Measure;
use crate::cmd::Failure;
use crate::cmd::looping::{ThreadChoice, setting};
use crate::options::LoopArguments;

/// Returns the setting of a probe's loop by the options; a tuning decides about the loop's thread
/// and its wait.
pub(crate) fn planned_setting(
    measure: &Measure,
    duration_ns: u64,
    tuning: Option<&RunTuning>,
) -> Setting {
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
    match tuning {
        Some(tuning) => tuning.tuned(&setting),
        None => setting,
    }
}

/// Opens a probe with its options, and returns the setting of its loop as the probe wants it.
pub(crate) fn open_probe(
    measure: &Measure,
    mut setting: Setting,
) -> Result<(Setting, Parts), Failure> {
    let Measure { probe, given, .. } = measure;
    setting.admit()?;
    let parts = (probe.open)(&mut setting, given).map_err(RunError::from)?;
    Ok((setting, parts))
}

/// Returns the number of releases in a duration; `u64::MAX` when the duration is 0.
pub(crate) fn releases(duration_ns: u64, options: &LoopArguments) -> u64 {
    match duration_ns.checked_div(options.period) {
        Some(0) if duration_ns == 0 => u64::MAX,
        Some(releases) => releases.max(1),
        None => 0,
    }
}
