//! The file of a plan: traffic, controller, switches, devices, other hosts.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::frame::FrameSize;
use super::topology::NetworkTopology;

/// Largest number of nodes of a plan.
const MOST_NODES: usize = 4096;
/// Largest number of packets that one prediction sends.
const MOST_PACKETS: u64 = 20_000_000;
/// Longest simulated time, in seconds: its picoseconds fit 64 bits many times over.
const MOST_SECONDS: u64 = 1_000_000;
/// Largest frame of background traffic, in bytes: jumbo frames, as cameras send them.
const MOST_FRAME: f64 = 9_216.0;
const SLOWEST_BPS: u64 = 1_000_000;
const FASTEST_BPS: u64 = 400_000_000_000;

/// Why a plan cannot be read or simulated.
#[derive(Debug, thiserror::Error)]
pub enum NetPlanError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not valid TOML, or has other keys than a plan.
    #[error("not a valid plan (docs/net.md lists the keys): {}", .0.to_string().trim_end())]
    Toml(Box<toml::de::Error>),
    /// A rate cannot be parsed.
    #[error(
        "link = \"{text}\" is not a rate; write such as \"100M\", \"1G\" or \"2.5G\" (1M to 400G)"
    )]
    Rate {
        /// As written.
        text: String,
    },
    /// A node is connected to one that does not exist or comes after it.
    #[error(
        "{node} is connected to {to}, which is neither \"controller\" nor a switch or chain defined before it"
    )]
    NoSuchNode {
        node: String,
        /// As written.
        to: String,
    },
    /// Background traffic has an end that does not exist.
    #[error("background traffic {what} {name}, which is neither \"controller\" nor a host")]
    NoSuchHost {
        /// `from` or `to`.
        what: &'static str,
        /// As written.
        name: String,
    },
    /// Background traffic has one end.
    #[error("background traffic comes from {name} and goes to {name}; its ends must differ")]
    OneEnd { name: String },
    /// A name stands twice.
    #[error("the name {name} is used twice")]
    Twice { name: String },
    /// A name cannot be shown in a line of a picture or table.
    #[error("the name {name:?} is empty or has control characters")]
    Name { name: String },
    /// A number is outside its range.
    #[error("{what} = {value} is outside {least} to {most}")]
    Range {
        /// The key.
        what: &'static str,
        /// As written.
        value: f64,
        /// Smallest valid value.
        least: f64,
        /// Largest valid value.
        most: f64,
    },
    /// Nothing answers.
    #[error("the plan has no device; add [[devices]] or [[chains]]")]
    NoDevices,
    /// The plan is larger than the model's limits.
    #[error("{what}: {count}, at most {most}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// Number of them.
        count: u64,
        /// Limit.
        most: u64,
    },
}

/// How a switch forwards frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// After the last bit has arrived.
    #[default]
    StoreAndForward,
    /// After the Ethernet header, where the outgoing link is idle and has the same rate.
    CutThrough,
}

/// How the controller sends in each cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Send {
    /// One packet, to all devices.
    #[default]
    Broadcast,
    /// One packet for each device, back to back.
    Each,
}

/// How the packets of background traffic are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arrivals {
    #[default]
    Periodic,
    /// Exponential intervals, from the plan's seed.
    Random,
}

/// A plan as its file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What it is, for people.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub(super) traffic: Traffic,
    #[serde(default)]
    pub(super) controller: ControllerTable,
    #[serde(default)]
    pub(super) switches: Vec<SwitchTable>,
    #[serde(default)]
    pub(super) chains: Vec<ChainTable>,
    #[serde(default)]
    pub(super) devices: Vec<PlannedDevices>,
    #[serde(default)]
    pub(super) hosts: Vec<HostTable>,
    #[serde(default)]
    pub(super) background: Vec<BackgroundTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Traffic {
    /// Payload of a command, in bytes.
    pub(super) payload: u64,
    /// Payload of an answer; that of a command by default.
    pub(super) answer: Option<u64>,
    pub(super) rate_hz: f64,
    pub(super) cycles: u64,
    pub(super) send: Send,
    pub(super) ipv6: bool,
    pub(super) vlan: bool,
    /// Switches send this traffic before any background traffic.
    pub(super) priority: bool,
    /// Of random background traffic.
    pub(super) seed: u64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self {
            payload: 200,
            answer: None,
            rate_hz: 1000.0,
            cycles: 100,
            send: Send::Broadcast,
            ipv6: false,
            vlan: false,
            priority: false,
            seed: 1,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ControllerTable {
    /// From the release to the first bit on the wire.
    pub(super) send_us: f64,
    /// From the last bit of an answer to the program.
    pub(super) receive_us: f64,
    /// The program takes answers no faster than this.
    pub(super) per_answer_us: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchTable {
    pub(super) name: String,
    /// That many in a line, `NAME-1` being the first.
    #[serde(default = "one")]
    pub(super) count: u64,
    #[serde(default = "controller")]
    pub(super) to: String,
    pub(super) link: String,
    #[serde(default)]
    pub(super) forwarding: Forwarding,
    #[serde(default)]
    pub(super) overhead_us: f64,
    /// Memory for frames that wait, shared by all ports; none: without limit.
    pub(super) buffer_kb: Option<f64>,
}

/// Devices with a switch of three ports in each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainTable {
    pub(super) name: String,
    pub(super) count: u64,
    #[serde(default = "controller")]
    pub(super) to: String,
    pub(super) link: String,
    #[serde(default)]
    pub(super) forwarding: Forwarding,
    #[serde(default)]
    pub(super) overhead_us: f64,
    #[serde(default)]
    pub(super) off_wire_us: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedDevices {
    pub(super) name: String,
    #[serde(default = "one")]
    pub(super) count: u64,
    #[serde(default = "controller")]
    pub(super) to: String,
    pub(super) link: String,
    /// From the last bit of a command to the first of its answer.
    #[serde(default)]
    pub(super) off_wire_us: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostTable {
    pub(super) name: String,
    #[serde(default = "controller")]
    pub(super) to: String,
    pub(super) link: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackgroundTable {
    pub(super) from: String,
    pub(super) to: String,
    /// From destination address to check sequence, in bytes.
    #[serde(default = "full_frame")]
    pub(super) frame: u64,
    pub(super) every_us: f64,
    #[serde(default)]
    pub(super) offset_us: f64,
    #[serde(default)]
    pub(super) arrivals: Arrivals,
}

fn one() -> u64 {
    1
}

fn controller() -> String {
    NetworkTopology::CONTROLLER.to_owned()
}

fn full_frame() -> u64 {
    1518
}

impl Network {
    /// Reads a plan from its file.
    ///
    /// # Errors
    /// [`NetPlanError`].
    pub fn read(path: &Path) -> Result<Self, NetPlanError> {
        let text = onbeat_host::foreign::text(path, onbeat_host::foreign::MOST_BYTES_BY_HAND)
            .map_err(|source| NetPlanError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads a plan from text, and checks it.
    ///
    /// # Errors
    /// [`NetPlanError`].
    pub fn parse(text: &str) -> Result<Self, NetPlanError> {
        let network: Self =
            toml::from_str(text).map_err(|why| NetPlanError::Toml(Box::new(why)))?;
        network.check()?;
        NetworkTopology::from_network(&network)?;
        Ok(network)
    }

    /// Returns the period, in picoseconds.
    pub(super) fn period_ps(&self) -> u64 {
        (1e12 / self.traffic.rate_hz).round() as u64
    }

    fn frame_size(&self) -> FrameSize {
        FrameSize { ipv6: self.traffic.ipv6, vlan: self.traffic.vlan }
    }

    /// Returns the bytes of a command on the wire.
    pub(super) fn command_bytes(&self) -> u64 {
        self.frame_size().on_wire(self.traffic.payload)
    }

    pub(super) fn answer_bytes(&self) -> u64 {
        self.frame_size().on_wire(self.traffic.answer.unwrap_or(self.traffic.payload))
    }

    pub(super) fn check(&self) -> Result<(), NetPlanError> {
        let traffic = &self.traffic;
        let most_payload = self.frame_size().most_payload() as f64;
        within("payload", traffic.payload as f64, 0.0, most_payload)?;
        within("answer", traffic.answer.unwrap_or(0) as f64, 0.0, most_payload)?;
        within("rate_hz", traffic.rate_hz, 0.001, 1e6)?;
        within("cycles", traffic.cycles as f64, 1.0, 1e7)?;
        for background in &self.background {
            within("frame", background.frame as f64, 64.0, MOST_FRAME)?;
            within("every_us", background.every_us, 0.1, 1e9)?;
            within("offset_us", background.offset_us, 0.0, 1e9)?;
        }

        for us in self.times_us() {
            within("a time in us", us, 0.0, 1e9)?;
        }
        for kb in self.switches.iter().filter_map(|switch| switch.buffer_kb) {
            within("buffer_kb", kb, 1.0, 1e9)?;
        }

        let counts = (self.switches.iter().map(|table| table.count))
            .chain(self.chains.iter().map(|table| table.count))
            .chain(self.devices.iter().map(|table| table.count));
        for count in counts {
            within("count", count as f64, 1.0, MOST_NODES as f64)?;
        }
        self.check_sizes()
    }

    fn times_us(&self) -> impl Iterator<Item = f64> {
        let ControllerTable { send_us, receive_us, per_answer_us } = self.controller;
        [send_us, receive_us, per_answer_us]
            .into_iter()
            .chain(self.switches.iter().map(|table| table.overhead_us))
            .chain(self.chains.iter().flat_map(|table| [table.overhead_us, table.off_wire_us]))
            .chain(self.devices.iter().map(|table| table.off_wire_us))
    }

    fn check_sizes(&self) -> Result<(), NetPlanError> {
        let devices: u64 = (self.chains.iter().map(|table| table.count))
            .chain(self.devices.iter().map(|table| table.count))
            .sum();
        if devices == 0 {
            return Err(NetPlanError::NoDevices);
        }

        let switches: u64 = self.switches.iter().map(|table| table.count).sum();
        let count = devices + switches + self.hosts.len() as u64;
        let most = MOST_NODES as u64;
        if count > most {
            return Err(NetPlanError::TooMany { what: "devices, switches and hosts", count, most });
        }

        let duration_us = self.traffic.cycles as f64 * 1e6 / self.traffic.rate_hz;
        let background: f64 =
            self.background.iter().map(|table| duration_us / table.every_us).sum();
        let answers = devices * self.traffic.cycles;
        let count = answers.saturating_add(background as u64);
        if count > MOST_PACKETS {
            return Err(NetPlanError::TooMany { what: "packets", count, most: MOST_PACKETS });
        }

        let taking_us = answers as f64 * self.controller.per_answer_us;
        let count = ((duration_us + taking_us) / 1e6) as u64;
        if count > MOST_SECONDS {
            let what = "seconds to simulate, by cycles, rate_hz and per_answer_us";
            return Err(NetPlanError::TooMany { what, count, most: MOST_SECONDS });
        }
        Ok(())
    }
}

/// Returns the picoseconds of a time in microseconds, rounded to the nearest.
pub(super) fn us_as_ps(us: f64) -> u64 {
    (us * 1e6).round() as u64
}

/// Parses a rate such as `100M`, or as ethtool, tc and people write it, in bit/s.
pub(super) fn rate_bps(text: &str) -> Result<u64, NetPlanError> {
    let bad = || NetPlanError::Rate { text: text.to_owned() };
    let trimmed = text.trim();
    let unit = ["bit/s", "bit", "b/s", "bps"].iter().find(|unit| trimmed.ends_with(**unit));
    let trimmed = trimmed[..trimmed.len() - unit.map_or(0, |unit| unit.len())].trim_end();
    let factor = match trimmed.chars().last() {
        Some('M' | 'm') => 1e6,
        Some('G' | 'g') => 1e9,
        _ => return Err(bad()),
    };

    let number: f64 = trimmed[..trimmed.len() - 1].trim().parse().map_err(|_| bad())?;
    let bps = (number * factor).round() as u64;
    if (SLOWEST_BPS..=FASTEST_BPS).contains(&bps) { Ok(bps) } else { Err(bad()) }
}

fn within(what: &'static str, value: f64, least: f64, most: f64) -> Result<(), NetPlanError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(NetPlanError::Range { what, value, least, most })
    }
}
