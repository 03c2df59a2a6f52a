//! `--tuning` of a run: the tuning of a bench's cell, for as long as the run lasts.

use onbeat::bench::CellTuning;
use onbeat::bench::run_tuning::RunTuning;
use onbeat_rt::Wait;

use super::{Common, Failure, host_settings, typed};
use crate::state::journal_directory;

/// How long S polls the clock before a release, as in a bench.
const SPIN_NS: u64 = 50_000;

/// The loop of a run under a tuning.
pub(super) struct TunedLoop<'t> {
    pub(super) tuning: Option<&'t CellTuning>,
    /// As given; else that of the tuning's plan, else the one that a plan would choose.
    pub(super) cpu: Option<u32>,
    pub(super) priority: u32,
    pub(super) period_ns: u64,
}

/// Resolves the tuning, if one is given, on this machine; nothing is changed yet.
pub(super) fn resolved(of: &TunedLoop<'_>) -> Result<Option<RunTuning>, Failure> {
    let Some(tuning) = of.tuning else { return Ok(None) };
    if tuning.options().letters.priority && of.priority == 0 {
        return Err(Common::NoPriority { tuning: tuning.to_string() }.into());
    }
    let tunings = std::slice::from_ref(tuning);
    let cpu = of.cpu.unwrap_or_else(|| host_settings::cpu_of_loop(tunings, None));
    let (cpus, timing) = ([cpu].into_iter().collect(), (of.period_ns, of.priority));
    Ok(Some(RunTuning {
        tuning: tuning.clone(),
        settings: host_settings::resolved(tunings, cpus, timing, None)?,
        cpu,
        priority: of.priority,
        spin: Wait::SleepThenSpin { margin_ns: SPIN_NS },
        journal: journal_directory(),
        command: typed(),
    }))
}
