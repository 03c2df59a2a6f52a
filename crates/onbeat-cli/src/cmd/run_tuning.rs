//! `--tuning` of a run: the tuning of a bench's cell, for as long as the run lasts.

use onbeat::bench::CellTuning;
use onbeat::bench::run_tuning::RunTuning;
use onbeat_rt::Wait;
use onbeat_tune::catalogue::{HostTree, LoopSetup};
use onbeat_tune::plan::cpus::loop_cpu;

use super::{Failure, host_settings, typed};
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
    let tunings = std::slice::from_ref(tuning);
    let of_plan = || host_settings::cpu_of_plan(tunings, None);
    let cpu = of.cpu.or_else(of_plan).unwrap_or_else(|| loop_cpu(&HostTree::live()).cpu);

    let setup = LoopSetup {
        period_us: i64::try_from(of.period_ns / 1000).unwrap_or(i64::MAX),
        loop_priority: i64::from(of.priority),
        ..LoopSetup::on([cpu].into_iter().collect())
    };
    Ok(Some(RunTuning {
        tuning: tuning.clone(),
        settings: host_settings::resolved(tunings, setup, None)?,
        cpu,
        priority: of.priority,
        spin: Wait::SleepThenSpin { margin_ns: SPIN_NS },
        journal: journal_directory(),
        command: typed(),
    }))
}
