//! What a plan predicts for the packets of a run: `--plan FILE`.

use std::path::Path;

use super::RttError;
use crate::plan::{DevicePrediction, NetPrediction, Network, PredictedDistribution, simulate};
use onbeat::probe::description::{OptionKind, ProbeOption};
use onbeat_record::{AnswerTimes, PredictedAnswers, PredictedDevice};

pub(super) const PLAN: ProbeOption = ProbeOption {
    name: "plan",
    help: "Plan of the network, to compare its prediction with the measurement\n\
           A file as for `onbeat net plan`; size, rate, packets per cycle and IP are those of the run.",
    default: None,
    kind: OptionKind::Name,
};

/// Returns what the plan in a file predicts for a run; `None` without a file.
pub(super) fn predicted(
    path: Option<&str>,
    devices: u64,
    payload: u64,
    ipv6: bool,
    period_ns: u64,
) -> Result<Option<PredictedAnswers>, RttError> {
    let Some(path) = path else { return Ok(None) };
    let failed = |source| RttError::Plan { path: path.to_owned(), source };
    let network = Network::read(Path::new(path)).map_err(failed)?;
    let trips = network.with_round_trips(payload, ipv6, period_ns).map_err(failed)?;
    let prediction = simulate(&trips).map_err(failed)?;

    let planned = prediction.devices.len();
    if planned as u64 != devices {
        return Err(RttError::PlanDevices { path: path.to_owned(), planned, devices });
    }
    Ok(Some(answers(path, &prediction)))
}

fn answers(path: &str, prediction: &NetPrediction) -> PredictedAnswers {
    let device = |device: &DevicePrediction| {
        let earlier = |other: &&DevicePrediction| {
            other.answered > 0 && other.round_trip.p50_us < device.round_trip.p50_us
        };
        PredictedDevice {
            name: device.name.clone(),
            response_p50_ns: ns(device.round_trip.p50_us),
            on_wire_ns: Some(ns(device.on_wire_us)),
            place: 1 + prediction.devices.iter().filter(earlier).count() as u64,
            lost_ppm: device.lost * 1_000_000 / prediction.cycles.max(1),
        }
    };

    PredictedAnswers {
        plan: path.to_owned(),
        first: times(&prediction.first_answer),
        last: times(&prediction.last_answer),
        devices: prediction.devices.iter().map(device).collect(),
    }
}

fn times(of: &PredictedDistribution) -> AnswerTimes {
    let PredictedDistribution { min_us, p50_us, p99_us, max_us } = *of;
    AnswerTimes { min_ns: ns(min_us), p50_ns: ns(p50_us), p99_ns: ns(p99_us), max_ns: ns(max_us) }
}

fn ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}
