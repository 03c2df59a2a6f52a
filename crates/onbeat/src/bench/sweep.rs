//! A sweep: one probe under a load that rises in steps, with the measured CPU utilisation of each
//! step.
//!
//! After Mossige, Sampath and Rao (2007), figures 6 to 8: minimum, mean and maximum over the load.
//! Their load came from `stress` with parameters adjusted by hand; here each step requests a share
//! of the CPUs, and the utilisation is measured. The number of groups of tasks that wake each other
//! can rise too; no utilisation is requested for them.

use std::io;
use std::str::FromStr;

use crate::load::Load;

/// The loads of a sweep, in rising order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepSteps {
    /// The load of each step: idle for 0.
    pub loads: Vec<Load>,
    /// The share of all CPUs that each step requests, in percent; `None` where groups of tasks that
    /// wake each other rise.
    pub percents: Option<Vec<u16>>,
}

/// The text is not a valid sweep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a valid sweep; write the first load, the last one and the step in percent, such as 0..100/10, or groups of tasks \
     that wake each other, such as sched:0..100/20"
)]
pub struct SweepError(String);

impl FromStr for SweepSteps {
    type Err = SweepError;

    fn from_str(text: &str) -> Result<Self, SweepError> {
        let wrong = || SweepError(text.to_owned());
        let (kind, range) = text.split_once(':').unwrap_or(("cpu", text));
        let (unit, range) = match kind {
            "cpu" => ("%", range.replace('%', "")),
            "sched" => ("", range.to_owned()),
            _ => return Err(wrong()),
        };

        let (range, step) = range.split_once('/').unwrap_or((&range, "10"));
        let (from, to) = range.split_once("..").ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let from = number(from)?;
        let to = number(to)?;
        let step = number(step)?;
        if from > to || step == 0 {
            return Err(wrong());
        }

        let values: Vec<u16> = (from..=to).step_by(usize::from(step)).collect();
        let load = |value: &u16| match value {
            0 => Ok(Load::IDLE),
            value => format!("{kind}={value}{unit}").parse::<Load>().map_err(|_| wrong()),
        };
        // The end of the range is a load of its kind, whether or not a step meets it.
        load(&to)?;
        let loads = values.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { loads, percents: (kind == "cpu").then_some(values) })
    }
}

/// CPU time of all CPUs since boot, in ticks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    busy: u64,
    all: u64,
}

impl Busy {
    /// Reads the current times.
    ///
    /// # Errors
    /// The system's answer when `/proc/stat` cannot be read.
    pub fn read() -> io::Result<Self> {
        Ok(Self::from_text(&std::fs::read_to_string("/proc/stat")?))
    }

    /// Parses the text of `/proc/stat` (proc(5)). Steal counts as busy: the time was wanted. `user`
    /// includes the time of guests.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = first
            .split_whitespace()
            .skip(1)
            .take(8)
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        let all: u64 = ticks.iter().sum();
        Self { busy: all - idle, all }
    }

    /// Returns the utilisation of the CPUs since `earlier`, in percent of all of them; `None` when
    /// no tick has passed.
    #[must_use]
    pub fn percent_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|all| *all > 0)?;
        Some(self.busy.saturating_sub(earlier.busy) as f64 / all as f64 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<u16> {
        text.parse::<SweepSteps>().expect("a sweep").percents.expect("shares of the CPUs")
    }

    #[test]
    fn a_sweep_is_first_last_and_step() {
        assert_eq!(values("0..100/50"), [0, 50, 100]);
        assert_eq!(values("20%..60%/20%"), [20, 40, 60]);
        assert_eq!(values("cpu:20%..60%/20%"), [20, 40, 60]);
        assert_eq!(values("0..100").len(), 11);
        assert_eq!(values("0..95/30"), [0, 30, 60, 90]);

        for wrong in [
            "",
            "10",
            "50..10/5",
            "0..200/10",
            "0..100/0",
            "a..b/c",
            "sched:0..1001",
            "disk:0..10",
            "sched:5%..10%",
            "cpu:",
        ] {
            assert!(wrong.parse::<SweepSteps>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_load_of_a_step_is_one_that_onbeat_load_knows() {
        let loads = |text: &str| {
            let loads = text.parse::<SweepSteps>().expect("a sweep").loads;
            loads.iter().map(Load::to_string).collect::<Vec<_>>()
        };
        assert_eq!(loads("0..100/50"), ["idle", "cpu=50%", "cpu"]);
        assert_eq!(loads("sched:0..20/10"), ["idle", "sched", "sched=20"]);
        assert_eq!(loads("sched:0..1000/500"), ["idle", "sched=500", "sched=1000"]);
    }

    #[test]
    fn busy_is_what_was_neither_idle_nor_waiting_for_a_disk() {
        let stat = |user: u64, idle: u64, iowait: u64, steal: u64| {
            Busy::from_text(&format!(
                "cpu  {user} 0 0 {idle} {iowait} 0 0 {steal} 7 0\ncpu0 1 2 3 4\n"
            ))
        };
        let reached = stat(130, 150, 10, 10).percent_since(stat(100, 100, 0, 0)).expect("ticks");
        assert!((reached - 40.0).abs() < 1e-9, "{reached}");
        assert_eq!(stat(1, 1, 1, 1).percent_since(stat(1, 1, 1, 1)), None);
    }
}
