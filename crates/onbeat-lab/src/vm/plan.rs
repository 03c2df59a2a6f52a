//! A measurement in a guest, as the host has planned it: its options were read and admitted before the guest boots.

use std::time::Duration;

use onbeat::load::Load;
use onbeat::probe::{Description, Given, Setting, SettingValue};
use onbeat::record::{LimitNote, interval_ns_for};
use onbeat::thread::ThreadRequest;
use serde::{Deserialize, Serialize};

/// One of [`onbeat::probe::ALL`], its loop, and the load beside it: all that the agent needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestPlan {
    /// The probe's name, such as `latency`.
    pub probe: String,
    /// The probe's own options.
    pub given: Vec<(String, SettingValue)>,
    /// The loop.
    pub setting: Setting,
    /// The background load.
    pub load: Load,
    /// Releases to measure; `u64::MAX` for no end.
    pub releases: u64,
    /// The limit that the run is judged by.
    pub limit: Option<LimitNote>,
    /// The command that was typed, for the run file.
    pub command: Vec<String>,
}

impl GuestPlan {
    /// Plans release latency for `duration` at a period of both more than 0, in memory that is locked; a priority of 0 is an ordinary
    /// thread. Causes of spikes are not recorded.
    #[must_use]
    pub fn latency(duration: Duration, period: Duration, priority: u32, load: Load) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let setting = Setting {
            thread: ThreadRequest {
                fifo: (priority > 0).then_some(priority),
                lock_memory: true,
                ..ThreadRequest::default()
            },
            interval_ns: interval_ns_for(ns(duration)),
            ..Setting::new(ns(period))
        };
        let typed = format!(
            "onbeat measure latency --for {}us --period {}us --priority {priority} --load {load} --no-causes",
            duration.as_micros(),
            period.as_micros()
        );
        Self {
            probe: "latency".to_owned(),
            given: Vec::new(),
            setting,
            load,
            releases: (ns(duration) / ns(period).max(1)).max(1),
            limit: None,
            command: typed.split(' ').map(str::to_owned).collect(),
        }
    }

    /// The probe's own options, as it reads them.
    #[must_use]
    pub fn given_to(&self, probe: &Description) -> Given {
        let named = |name: &str| self.given.iter().find(|(given, _)| given == name);
        let of_probe = probe
            .choices
            .iter()
            .filter_map(|choice| named(choice.name).map(|(_, value)| (choice.name, value.clone())));
        Given(of_probe.collect())
    }

    /// As one word of a job.
    #[must_use]
    pub fn to_word(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reaches_the_guest_as_it_was_made() {
        let (duration, period) = (Duration::from_secs(2), Duration::from_millis(1));
        let load: Load = "run:while :; do dd if=/dev/zero of=/tmp/load bs=1M count=16; done"
            .parse()
            .expect("a load");
        let plan = GuestPlan {
            given: vec![
                (
                    "target".to_owned(),
                    SettingValue::Place("file:/dev/null".parse().expect("a place")),
                ),
                ("share".to_owned(), SettingValue::Percent(9_550)),
            ],
            ..GuestPlan::latency(duration, period, 98, load)
        };
        let word = plan.to_word();
        assert_eq!(serde_json::from_str::<GuestPlan>(&word).expect("a plan"), plan);
        assert_eq!((plan.releases, plan.setting.thread.fifo), (2_000, Some(98)));
        // Beside other commands of a job, which is 4 KiB long at most.
        assert!(word.len() < 2_048, "{} bytes", word.len());
    }

    #[test]
    fn options_of_another_probe_are_not_given() {
        let plan = GuestPlan {
            given: vec![("no-such-option".to_owned(), SettingValue::Switch)],
            ..GuestPlan::latency(Duration::from_secs(1), Duration::from_millis(1), 0, Load::IDLE)
        };
        assert_eq!(plan.given_to(onbeat::probe::WAKE_UP), Given::default());
        assert_eq!(plan.setting.thread.fifo, None);
    }
}
