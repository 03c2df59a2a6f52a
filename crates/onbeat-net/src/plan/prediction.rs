//! What a simulation predicts, as figures in microseconds.

use serde::Serialize;

use super::simulation::{PlannedPort, Simulation};
use super::topology::{Device, PlannedNode, PlannedRole, Wiring};

/// The round trips of a simulation, in picoseconds.
pub(super) struct MeasuredRoundTrips {
    /// By device, in the order of arrival.
    by_device: Vec<Vec<u64>>,
    /// First and last answer of each cycle.
    of_cycle: Vec<(u64, u64)>,
}

impl MeasuredRoundTrips {
    pub(super) fn new(devices: usize) -> Self {
        Self { by_device: vec![Vec::new(); devices], of_cycle: Vec::new() }
    }

    pub(super) fn add(&mut self, device: u32, cycle: u32, ps: u64) {
        self.by_device[device as usize].push(ps);
        let cycle = cycle as usize;
        if self.of_cycle.len() <= cycle {
            self.of_cycle.resize(cycle + 1, (u64::MAX, 0));
        }
        let (first, last) = &mut self.of_cycle[cycle];
        *first = ps.min(*first);
        *last = ps.max(*last);
    }
}

/// Times of several packets, in microseconds. All 0 when none arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PredictedDistribution {
    /// Smallest.
    pub min_us: f64,
    /// Median, by nearest rank.
    pub p50_us: f64,
    /// 99th percentile, by nearest rank.
    pub p99_us: f64,
    /// Largest.
    pub max_us: f64,
}

impl PredictedDistribution {
    fn from_values(mut values_ps: Vec<u64>) -> Self {
        values_ps.sort_unstable();
        let rank = |share: f64| {
            let place = (share * values_ps.len() as f64).ceil() as usize;
            us(values_ps.get(place.saturating_sub(1)).copied().unwrap_or(0))
        };
        Self { min_us: rank(0.0), p50_us: rank(0.5), p99_us: rank(0.99), max_us: rank(1.0) }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DevicePrediction {
    pub name: String,
    /// The table of the plan's file that it comes from, from 1.
    pub group: usize,
    /// Command and answer on its links to the controller, where no frame waits for another.
    pub on_wire_us: f64,
    /// From the release to the program that takes the answer.
    pub round_trip: PredictedDistribution,
    /// Answers that arrived.
    pub answered: u64,
    /// Of these, later than one period after the release.
    pub late: u64,
    /// Commands or answers that a full buffer dropped.
    pub lost: u64,
}

impl DevicePrediction {
    /// Names devices of one table that follow one another: the first and the last.
    #[must_use]
    pub fn names(devices: &[Self]) -> String {
        match devices {
            [] => String::new(),
            [alone] => alone.name.clone(),
            [first, .., last] => format!("{} to {}", first.name, last.name),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchPrediction {
    pub name: String,
    /// Most bytes in its buffer at the same time.
    pub buffered_bytes: u64,
    /// Size of the buffer; `None` without limit.
    pub buffer_bytes: Option<u64>,
    /// Frames that found it full.
    pub dropped: u64,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkPrediction {
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// Rate, in bit/s.
    pub bits_per_s: u64,
    /// Time with a frame or its gap on the wire, in percent of the cycles; above 100 it cannot carry them.
    pub busy_percent: f64,
    /// Most frames that waited for it at the same time.
    pub most_queued: u64,
}

/// The outcome of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetPrediction {
    /// Name of the plan.
    pub name: String,
    /// Simulated cycles.
    pub cycles: u64,
    /// Period, in microseconds.
    pub period_us: f64,
    /// A command on the wire, from preamble to check sequence, in bytes.
    pub command_bytes: u64,
    /// An answer on the wire, in bytes.
    pub answer_bytes: u64,
    /// All answers.
    pub round_trip: PredictedDistribution,
    /// First answer of each cycle.
    pub first_answer: PredictedDistribution,
    /// Last answer of each cycle.
    pub last_answer: PredictedDistribution,
    /// Devices whose answers all arrived within one period.
    pub in_time: u64,
    /// The devices, in the order of the file: chains first.
    pub devices: Vec<DevicePrediction>,
    /// The switches, members of chains among them.
    pub switches: Vec<SwitchPrediction>,
    /// The links, two directions each.
    pub links: Vec<LinkPrediction>,
}

impl NetPrediction {
    pub(super) fn new(simulation: &Simulation<'_>) -> Self {
        let Simulation { network, measured, .. } = simulation;
        let devices = devices(simulation);
        let of_cycles = |pick: fn(&(u64, u64)) -> u64| {
            let answered = measured.of_cycle.iter().filter(|(_, last)| *last > 0);
            PredictedDistribution::from_values(answered.map(pick).collect())
        };

        Self {
            name: network.name.clone(),
            cycles: network.traffic.cycles,
            period_us: us(network.period_ps()),
            command_bytes: network.command_bytes(),
            answer_bytes: network.answer_bytes(),
            round_trip: PredictedDistribution::from_values(measured.by_device.concat()),
            first_answer: of_cycles(|(first, _)| *first),
            last_answer: of_cycles(|(_, last)| *last),
            in_time: devices.iter().filter(|device| device.late + device.lost == 0).count() as u64,
            devices,
            switches: switches(simulation),
            links: links(simulation),
        }
    }
}

fn devices(simulation: &Simulation<'_>) -> Vec<DevicePrediction> {
    let Simulation { network, topology, measured, .. } = simulation;
    let both_ways = [network.command_bytes(), network.answer_bytes()];
    let on_wire_ps =
        |node| both_ways.map(|bytes| topology.on_wire_ps(node, bytes)).iter().sum::<u64>();
    let period_ps = network.period_ps();
    let one = |(device, values): (&Device, &Vec<u64>)| DevicePrediction {
        name: device.name.clone(),
        group: device.group,
        on_wire_us: us(on_wire_ps(device.node)),
        round_trip: PredictedDistribution::from_values(values.clone()),
        answered: values.len() as u64,
        late: values.iter().filter(|ps| **ps > period_ps).count() as u64,
        lost: network.traffic.cycles - values.len() as u64,
    };
    topology.devices.iter().zip(&measured.by_device).map(one).collect()
}

fn switches(simulation: &Simulation<'_>) -> Vec<SwitchPrediction> {
    let Simulation { topology, ports, held, .. } = simulation;
    let one = |(node, (_, most_held)): (&PlannedNode, &(u64, u64))| {
        let PlannedRole::Switch { buffer_bytes, .. } = node.role else { return None };
        Some(SwitchPrediction {
            name: node.name.clone(),
            buffered_bytes: *most_held,
            buffer_bytes,
            dropped: node.ports.iter().map(|port| ports[*port].count.dropped).sum(),
        })
    };
    topology.nodes.iter().zip(held).filter_map(one).collect()
}

fn links(simulation: &Simulation<'_>) -> Vec<LinkPrediction> {
    let Simulation { topology, ports, end_ps, .. } = simulation;
    let name = |node: usize| topology.nodes[node].name.clone();
    let one = |(wiring, port): (&Wiring, &PlannedPort)| LinkPrediction {
        from: name(wiring.from),
        to: name(wiring.to),
        bits_per_s: wiring.bits_per_s,
        busy_percent: 100.0 * port.count.busy_ps as f64 / *end_ps as f64,
        most_queued: port.count.most_queued,
    };
    topology.ports.iter().zip(ports).map(one).collect()
}

/// Microseconds, to the nanosecond.
fn us(ps: u64) -> f64 {
    (ps as f64 / 1e3).round() / 1e3
}
