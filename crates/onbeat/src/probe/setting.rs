//! How a loop runs, and the same as JSON and as people type it.

use onbeat_rt::cycle::Phase;
use onbeat_rt::{OnOverrun, Wait};
use serde::{Deserialize, Serialize};

use super::error::RunError;
use onbeat_host::thread::ThreadRequest;
use onbeat_record::{LimitNote, Recording, SpikeLimit, Timing, Watch, interval_ns_for};

/// Cycles at the start of a block that run with cold caches and are in no series, unless said
/// otherwise.
pub const WARMUP_CYCLES: u64 = 10;

/// How a loop runs: its timing, its thread, and what is recorded of it.
///
/// ```
/// use onbeat::probe::Setting;
/// use onbeat_rt::Wait;
///
/// let setting = Setting { wait: Wait::SleepThenSpin { margin_ns: 50_000 }, ..Setting::new(1_000_000) };
/// assert!(setting.admit().is_ok());
/// assert!(Setting::new(0).admit().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Period T, in nanoseconds.
    pub period_ns: u64,
    /// Deadline D after the release, in nanoseconds.
    pub deadline_ns: u64,
    /// Planned work per cycle, in nanoseconds.
    pub work_ns: u64,
    /// Time from an edge to the release of its answer, in nanoseconds; 0 for a loop on the grid.
    pub delay_ns: u64,
    /// How the loop waits for a release.
    #[serde(with = "WaitAsJson")]
    pub wait: Wait,
    /// Reaction to a cycle that ends after the next release.
    #[serde(with = "OnOverrunAsJson")]
    pub on_overrun: OnOverrun,
    /// Release phase relative to the kernel tick.
    #[serde(with = "PhaseAsJson")]
    pub phase: Phase,
    /// Priority, CPU and memory of the loop's thread.
    pub thread: ThreadRequest,
    /// Cycles at the start of a block that are in no series, at most a tenth of it.
    pub warmup: u64,
    /// Length of interval histograms, in nanoseconds.
    pub interval_ns: u64,
    /// Spike threshold.
    pub spike_limit: SpikeLimit,
    /// The limit that the run is judged by where its header has none, so that its outages are
    /// recorded: that of a bench.
    #[serde(default)]
    pub limit: Option<LimitNote>,
    /// Whether a flight recorder beside the loop explains spikes.
    pub causes: bool,
    /// Whether it copies the kernel's stack at late wake-ups ([`FlightSetting::stacks`]).
    ///
    /// [`FlightSetting::stacks`]: onbeat_cause::FlightSetting::stacks
    #[serde(default)]
    pub stacks: bool,
    /// Whether each wake-up is split into its parts by the flight recorder's stamps.
    #[serde(default)]
    pub split: bool,
    /// Whether the process is killed when the loop makes an unexpected system call.
    pub lockdown: bool,
}

impl Setting {
    /// Returns the setting of a loop that sleeps to its releases, in an ordinary thread, with the
    /// deadline at the next release.
    #[must_use]
    pub fn new(period_ns: u64) -> Self {
        Self {
            period_ns,
            deadline_ns: period_ns,
            work_ns: 0,
            delay_ns: 0,
            wait: Wait::Sleep,
            on_overrun: OnOverrun::SkipKeepPhase,
            phase: Phase::AvoidTick,
            thread: ThreadRequest::default(),
            warmup: WARMUP_CYCLES,
            interval_ns: interval_ns_for(0),
            spike_limit: SpikeLimit::TenTimesMedian,
            limit: None,
            causes: false,
            stacks: false,
            split: false,
            lockdown: false,
        }
    }

    /// Checks the limits that hold for every loop.
    ///
    /// # Errors
    /// [`RunError::Plan`], [`RunError::NoGrid`].
    pub fn admit(&self) -> Result<(), RunError> {
        if self.wait.is_relative() {
            self.admit_without_a_grid()?;
        }
        onbeat_rt::cycle::admit(self.period_ns, self.wait, self.work_ns).map_err(RunError::Plan)
    }

    fn admit_without_a_grid(&self) -> Result<(), RunError> {
        if let Phase::At(phase_ns) = self.phase {
            let option = format!("--phase {}us", phase_ns as f64 / 1e3);
            return Err(RunError::NoGrid {
                option,
                why: "each release follows the end of the cycle before",
            });
        }

        if self.on_overrun != OnOverrun::SkipKeepPhase {
            let option = format!("--on-overrun {}", overrun_words(self.on_overrun));
            return Err(RunError::NoGrid {
                option,
                why: "it passes no release over, however long a cycle takes",
            });
        }
        Ok(())
    }

    /// What is watched for outages: the limit, parts of it, and the deadline.
    pub(super) fn watches(&self, of_run: Option<LimitNote>) -> Vec<Watch> {
        Watch::of_run(of_run.or(self.limit), self.deadline_ns)
    }

    pub(super) const fn recording(&self) -> Recording {
        Recording {
            period_ns: self.period_ns,
            work_ns: self.work_ns,
            interval_ns: self.interval_ns,
            spike_limit: self.spike_limit,
        }
    }

    pub(crate) fn timing(&self, phase_ns: u64) -> Timing {
        Timing {
            period_ns: self.period_ns,
            phase_ns,
            avoids_tick: self.phase == Phase::AvoidTick,
            deadline_ns: self.deadline_ns,
            work_ns: self.work_ns,
            wait: wait_words(self.wait),
            on_overrun: overrun_words(self.on_overrun),
            cpu: self.thread.cpu,
            priority: self.thread.fifo.unwrap_or(0),
            delay_ns: self.delay_ns,
        }
    }
}

/// Returns a wait as people type it.
#[must_use]
pub fn wait_words(wait: Wait) -> String {
    match wait {
        Wait::Sleep => "sleep".to_owned(),
        Wait::SleepThenSpin { margin_ns } => format!("spin={}us", margin_ns as f64 / 1000.0),
        Wait::Adaptive { cap_ns } => format!("adaptive={}us", cap_ns as f64 / 1000.0),
        Wait::Relative { margin_ns: 0 } => "relative".to_owned(),
        Wait::Relative { margin_ns } => format!("relative-spin={}us", margin_ns as f64 / 1000.0),
    }
}

/// Returns an overrun policy as people type it.
#[must_use]
pub fn overrun_words(policy: OnOverrun) -> String {
    match policy {
        OnOverrun::SkipKeepPhase => "skip".to_owned(),
        OnOverrun::CatchUp { at_most } => format!("catch-up={at_most}"),
        OnOverrun::Stop => "stop".to_owned(),
    }
}

/// [`Wait`] as JSON; the hot crate depends on `libc` alone.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Wait", rename_all = "snake_case")]
pub(crate) enum WaitAsJson {
    Sleep,
    SleepThenSpin { margin_ns: u64 },
    Adaptive { cap_ns: u64 },
    Relative { margin_ns: u64 },
}

/// [`OnOverrun`] as JSON.
#[derive(Serialize, Deserialize)]
#[serde(remote = "OnOverrun", rename_all = "snake_case")]
enum OnOverrunAsJson {
    SkipKeepPhase,
    CatchUp { at_most: u32 },
    Stop,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Phase", rename_all = "snake_case")]
enum PhaseAsJson {
    AvoidTick,
    At(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_survives_json() {
        let plain = Setting::new(1_000_000);
        let waits = [
            Wait::Sleep,
            Wait::SleepThenSpin { margin_ns: 1 },
            Wait::Adaptive { cap_ns: 2 },
            Wait::Relative { margin_ns: 3 },
        ];
        let overruns =
            [OnOverrun::SkipKeepPhase, OnOverrun::CatchUp { at_most: 3 }, OnOverrun::Stop];

        for (wait, on_overrun) in
            waits.into_iter().flat_map(|wait| overruns.map(|policy| (wait, policy)))
        {
            let phase = Phase::At(u64::MAX);
            let spike_limit = SpikeLimit::Above(7);
            let setting = Setting { wait, on_overrun, phase, spike_limit, ..plain.clone() };
            let json = serde_json::to_string(&setting).unwrap();
            assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting, "{json}");
        }
    }
}
