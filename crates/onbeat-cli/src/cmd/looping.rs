//! The options that every loop has: its thread, its limit, and the verdict on it.

use onbeat::host;
use onbeat::probe::Setting;
use onbeat::record::{LimitNote, Series, SpikeLimit, interval_ns_for};
use onbeat::thread::ThreadRequest;
use onbeat_report::{JudgeBy, Outcome};
use onbeat_rt::Wait;

use super::{Common, ExitVerdict, Failure};
use crate::options::{LimitOn, LimitOptions, LoopArguments};

/// Returns the verdict of a judged limit; a run without a limit passes.
pub(crate) fn verdict(outcome: Option<Outcome>) -> ExitVerdict {
    match outcome {
        None | Some(Outcome::Pass) => ExitVerdict::Pass,
        Some(Outcome::Fail) => ExitVerdict::Fail,
        Some(Outcome::Inconclusive) => ExitVerdict::Inconclusive,
    }
}

/// Returns the requested limit; `main` is the primary series of the run.
pub(crate) fn limit(options: &LimitOptions, main: Series) -> Option<LimitNote> {
    let series = |on: &LimitOn| match on {
        LimitOn::Main => Some(main),
        LimitOn::Series(series) => Some(*series),
        LimitOn::Events(_) => None,
    };

    let on = options.limit_on.iter().rev().find_map(series).unwrap_or(main);
    options.limit.map(|limit_ns| LimitNote { limit_ns, at: options.at, on })
}

/// Returns the allowed alarms of bus and robot, when they were limited.
pub(crate) fn most_alarms(options: &LimitOptions) -> Option<u64> {
    let most = |on: &LimitOn| if let LimitOn::Events(most) = on { Some(*most) } else { None };
    options.limit_on.iter().rev().find_map(most)
}

/// Returns both limits, for a run that is read again.
pub(crate) fn asked(options: &LimitOptions, main: Series) -> JudgeBy {
    JudgeBy { limit: limit(options, main), most_alarms: most_alarms(options), ..JudgeBy::default() }
}

pub(crate) fn check_cpu(cpu: Option<u32>) -> Result<(), Failure> {
    let online = host::online_cpus();
    match cpu {
        Some(cpu) if !online.contains(&cpu) => {
            let online = online.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            Err(Common::NoSuchCpu { cpu, online }.into())
        }
        _ => Ok(()),
    }
}

/// The options of the loop's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadChoice {
    pub(crate) cpu: Option<u32>,
    pub(crate) priority: u32,
    pub(crate) lock_memory: bool,
    pub(crate) wait: Wait,
    pub(crate) causes: bool,
}

/// The loop of a cell before its tuning.
pub(crate) const WITHOUT_TUNING: ThreadChoice =
    ThreadChoice { cpu: None, priority: 0, lock_memory: false, wait: Wait::Sleep, causes: false };

pub(crate) fn setting(options: &LoopArguments, thread: ThreadChoice, duration_ns: u64) -> Setting {
    let dma_latency_us = options.dma_latency.map(|ns| i32::try_from(ns / 1000).unwrap_or(i32::MAX));

    Setting {
        deadline_ns: options.deadline.unwrap_or(options.period),
        work_ns: options.work,
        wait: thread.wait,
        on_overrun: options.on_overrun,
        phase: options.phase,
        thread: ThreadRequest {
            fifo: (thread.priority > 0).then_some(thread.priority),
            cpu: thread.cpu,
            lock_memory: thread.lock_memory,
            dma_latency_us,
        },
        interval_ns: interval_ns_for(duration_ns),
        spike_limit: options.spikes_over.map_or(SpikeLimit::TenTimesMedian, SpikeLimit::Above),
        causes: thread.causes,
        lockdown: options.lockdown,
        ..Setting::new(options.period)
    }
}
