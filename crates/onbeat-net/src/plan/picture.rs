//! Draws a topology with the times of its devices, as text.

use std::fmt::Write;

use super::file::{Forwarding, NetPlanError, Network};
use super::prediction::{DevicePrediction, NetPrediction, SwitchPrediction};
use super::topology::{NetworkTopology, NodeId, PlannedRole};

/// Draws the topology of a plan as a tree, with the rate of each link, the overhead and buffer of
/// each switch, and the round trips of each device. Neighbours of one table that hang on the same
/// switch share a line.
///
/// # Errors
/// [`NetPlanError`], when the plan is not valid.
pub fn picture(network: &Network, prediction: &NetPrediction) -> Result<String, NetPlanError> {
    let topology = NetworkTopology::from_network(network)?;
    let mut text = format!("{}\n", NetworkTopology::CONTROLLER);
    Drawing { topology: &topology, prediction, text: &mut text }.below(NetworkTopology::ROOT, "");
    Ok(text)
}

struct Drawing<'d> {
    topology: &'d NetworkTopology,
    prediction: &'d NetPrediction,
    text: &'d mut String,
}

impl Drawing<'_> {
    fn below(&mut self, node: NodeId, indent: &str) {
        let rows = self.rows(node);
        let last = rows.len().saturating_sub(1);
        for (place, row) in rows.iter().enumerate() {
            let (branch, next) =
                if place == last { ("└─", "   ") } else { ("├─", "│  ") };
            let line = self.line(row);
            let _ = writeln!(self.text, "{indent}{branch} {line}");
            if let [alone] = row[..] {
                self.below(alone, &format!("{indent}{next}"));
            }
        }
    }

    /// The nodes below one, those that share a line together.
    fn rows(&self, node: NodeId) -> Vec<Vec<NodeId>> {
        let nodes = &self.topology.nodes;
        let is_below = |child: &NodeId| nodes[*child].up.is_some_and(|link| link.to == node);
        let mut rows: Vec<Vec<NodeId>> = Vec::new();
        for child in (0..nodes.len()).filter(is_below) {
            let group = self.group(child);
            match rows.last_mut() {
                Some(row) if group.is_some() && self.group(row[0]) == group => row.push(child),
                _ => rows.push(vec![child]),
            }
        }
        rows
    }

    /// The table that a device comes from; none for other nodes.
    fn group(&self, node: NodeId) -> Option<usize> {
        match self.topology.nodes[node].role {
            PlannedRole::Device { number } => Some(self.topology.devices[number].group),
            _ => None,
        }
    }

    fn line(&self, row: &[NodeId]) -> String {
        let node = &self.topology.nodes[row[0]];
        let rate = node.up.map_or(String::new(), |link| rate_words(link.bits_per_s));
        match node.role {
            PlannedRole::Switch { forwarding, overhead_ps, device, .. } => {
                let words = self.switch_words(&node.name, forwarding, overhead_ps);
                let own = device.map(|device| &self.prediction.devices[device..=device]);
                let own = own.map_or(String::new(), |device| format!("  {}", times(device)));
                format!("{rate} ─ {}{words}{own}", node.name)
            }
            PlannedRole::Device { number } => {
                let devices = &self.prediction.devices[number..number + row.len()];
                format!("{rate} ─ {}  {}", DevicePrediction::names(devices), times(devices))
            }
            PlannedRole::Host | PlannedRole::Controller => {
                format!("{rate} ─ {} (background)", node.name)
            }
        }
    }

    fn switch_words(&self, name: &str, forwarding: Forwarding, overhead_ps: u64) -> String {
        let how = match forwarding {
            Forwarding::StoreAndForward => "store-and-forward",
            Forwarding::CutThrough => "cut-through",
        };
        let buffer = self.prediction.switches.iter().find(|switch| switch.name == name);
        let buffer = buffer.map_or(String::new(), buffer_words);
        format!(" [{how} +{} µs{buffer}]", overhead_ps as f64 / 1e6)
    }
}

fn buffer_words(switch: &SwitchPrediction) -> String {
    let kb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e3);
    let of = switch.buffer_bytes.map_or(String::new(), |bytes| format!(" of {}", kb(bytes)));
    let dropped = match switch.dropped {
        0 => String::new(),
        frames => format!(", {frames} frames dropped"),
    };
    format!(", buffer {}{of} kB{dropped}", kb(switch.buffered_bytes))
}

/// Smallest and largest round trip of some devices.
fn times(devices: &[DevicePrediction]) -> String {
    let answered = || devices.iter().filter(|device| device.answered > 0);
    let min = answered().map(|device| device.round_trip.min_us).fold(f64::INFINITY, f64::min);
    let max = answered().map(|device| device.round_trip.max_us).fold(0.0, f64::max);
    let lost: u64 = devices.iter().map(|device| device.lost).sum();
    let times = match answered().next() {
        None => "no answer".to_owned(),
        Some(_) if format!("{min:.1}") == format!("{max:.1}") => format!("{max:.1} µs"),
        Some(_) => format!("{min:.1} to {max:.1} µs"),
    };
    if lost > 0 { format!("{times}, {lost} lost") } else { times }
}

/// A rate as people write it.
fn rate_words(bits_per_s: u64) -> String {
    match bits_per_s {
        bps if bps >= 1_000_000_000 => format!("{} Gbit/s", bps as f64 / 1e9),
        bps => format!("{} Mbit/s", bps as f64 / 1e6),
    }
}
