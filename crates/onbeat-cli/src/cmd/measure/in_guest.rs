//! A measurement that is typed for a guest: its options are read here, before the guest boots.

use onbeat_lab::vm::GuestPlan;

use super::options::{Measure, MeasureOptions};
use super::probe_plan::{planned_setting, releases};
use crate::cmd::looping::{limit, most_alarms};

/// Returns the plan of a measurement by the words behind `onbeat`; `None` where it takes the whole program: another command, a probe of
/// the network or of a robot, an option that the agent does not have.
///
/// # Errors
/// What is wrong with the options, in a sentence.
pub(crate) fn guest_plan(words: &[String]) -> Result<Option<GuestPlan>, String> {
    let Some((_, options)) = words.split_first().filter(|(first, _)| *first == "measure") else {
        return Ok(None);
    };
    let Ok(measure) = Measure::from_words(options)? else { return Ok(None) };
    let Measure { probe, options, given } = &measure;
    if !is_the_agents(options) || !onbeat::probe::ALL.iter().any(|known| known.name == probe.name) {
        return Ok(None);
    }

    let setting = planned_setting(&measure, options.duration);
    setting.admit().map_err(|error| error.to_string())?;
    let typed = std::iter::once("onbeat".to_owned()).chain(words.iter().cloned());
    Ok(Some(GuestPlan {
        probe: probe.name.to_owned(),
        given: given.0.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        setting,
        load: options.load.clone(),
        releases: releases(options.duration, &options.looping),
        limit: limit(&options.limit, probe.series[0]),
        command: typed.collect(),
    }))
}

/// Whether a plan holds all that these options say. How a run is shown and where it is kept is decided on the host.
fn is_the_agents(options: &MeasureOptions) -> bool {
    let MeasureOptions { until, cpus, tuning, load_dir, loads, load_sweep, .. } = options;
    let MeasureOptions { resume, log_to, beside, beside_view, limit, .. } = options;
    let is_one_run = until.is_none() && cpus.is_none() && loads.is_empty() && load_sweep.is_none();
    let is_plain = tuning.is_none() && load_dir.is_none() && !resume && log_to.is_none();
    let is_alone = beside.is_none() && beside_view.view.is_none() && beside_view.metrics.is_none();
    is_one_run && is_plain && is_alone && most_alarms(limit).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Option<GuestPlan>, String> {
        guest_plan(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_measurement_is_planned_as_it_is_typed() {
        let line = "measure latency --period 5ms --for 2s --priority 98 --load cpu=50% --limit 3ms";
        let plan = plan(line).expect("options").expect("a plan");
        assert_eq!((plan.probe.as_str(), plan.releases), ("latency", 400));
        assert_eq!((plan.setting.period_ns, plan.setting.thread.fifo), (5_000_000, Some(98)));
        assert!(plan.setting.causes && plan.limit.is_some_and(|limit| limit.limit_ns == 3_000_000));
        assert_eq!(plan.command.join(" "), format!("onbeat {line}"));
        assert_eq!(plan.load.to_string(), "cpu=50%");
    }

    #[test]
    fn what_the_agent_lacks_takes_the_whole_program() {
        for line in [
            "bench --for 4s",
            "measure rtt --to 10.0.0.2",
            "measure latency --tuning PM",
            "measure latency --loads idle,cpu",
            "measure latency --cpus all",
            "measure latency --help",
            "uname -a",
        ] {
            assert_eq!(plan(line), Ok(None), "{line}");
        }
    }

    #[test]
    fn options_that_cannot_be_met_are_refused_before_a_guest_boots() {
        assert_eq!(
            plan("measure latency --perid 5ms").expect_err("a typing error"),
            "unexpected argument '--perid' found"
        );
        assert!(plan("measure latency --period 0").is_err());
    }
}
