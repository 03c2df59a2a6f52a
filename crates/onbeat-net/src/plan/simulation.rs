//! Sends the packets of a plan through its topology.

use std::collections::VecDeque;

use super::events::{Agenda, Class, Hop, NetEvent, PlannedFrame};
use super::file::{Arrivals, Forwarding, NetPlanError, Network, Send, us_as_ps};
use super::frame::{CUT_THROUGH, GAP};
use super::prediction::{MeasuredRoundTrips, NetPrediction};
use super::topology::{NetworkTopology, NodeId, PlannedRole, PortId};

/// Preamble of a frame of background traffic, in bytes.
const PREAMBLE: u64 = 8;
/// Largest number of frames of a prediction, each counted on each of its links: about a minute.
const MOST_ON_LINKS: u64 = 400_000_000;

/// Simulates all cycles of a plan.
///
/// # Errors
/// [`NetPlanError`], when the plan is not valid.
///
/// ```
/// use onbeat_net::plan::{Network, simulate};
///
/// let network = Network::parse(
///     r#"
///     [[devices]]
///     name = "board"
///     link = "100M"
///     off_wire_us = 100
///     "#,
/// )?;
/// let predicted = simulate(&network)?;
/// // 2 × 20.32 µs on the wire: 200 bytes of payload are 254 bytes there.
/// assert_eq!(predicted.devices[0].round_trip.max_us, 140.64);
/// # Ok::<(), onbeat_net::plan::NetPlanError>(())
/// ```
pub fn simulate(network: &Network) -> Result<NetPrediction, NetPlanError> {
    let mut simulation = Simulation::new(network)?;
    simulation.check_length()?;
    simulation.agenda.add(0, NetEvent::Cycle(0));
    while simulation.step().is_some() {}
    Ok(NetPrediction::new(&simulation))
}

/// What a port did, for the prediction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortCount {
    pub(super) busy_ps: u64,
    pub(super) dropped: u64,
    pub(super) most_queued: u64,
}

/// The sending side of one direction of a link.
#[derive(Default)]
pub(super) struct PlannedPort {
    /// When the next frame may begin.
    free_ps: u64,
    /// Frames that wait: background, and those before it.
    queues: [VecDeque<PlannedFrame>; 2],
    wakes: bool,
    /// Ends and sizes of frames that still occupy the buffer; those that wait have no end yet.
    leaving: VecDeque<(u64, u64)>,
    pub(super) count: PortCount,
}

struct Source {
    from: NodeId,
    to: NodeId,
    bytes: u64,
    every_ps: u64,
    arrivals: Arrivals,
}

pub(super) struct Simulation<'n> {
    pub(super) network: &'n Network,
    pub(super) topology: NetworkTopology,
    routes: Vec<Vec<Option<PortId>>>,
    pub(super) agenda: Agenda,
    pub(super) ports: Vec<PlannedPort>,
    /// Bytes in the buffers of each node, and the most there were.
    pub(super) held: Vec<(u64, u64)>,
    sources: Vec<Source>,
    random: fastrand::Rng,
    period_ps: u64,
    /// When background traffic ends.
    pub(super) end_ps: u64,
    /// When the controller's program can take the next answer.
    taking_ps: u64,
    pub(super) measured: MeasuredRoundTrips,
}

/// What a step of the simulation was.
pub(super) enum Step {
    /// Within the network.
    Inside,
    /// A carried frame has reached a node.
    Arrival { at_ps: u64, node: NodeId, frame: PlannedFrame },
}

impl<'n> Simulation<'n> {
    /// Nothing but background traffic is on the agenda.
    pub(super) fn new(network: &'n Network) -> Result<Self, NetPlanError> {
        let topology = NetworkTopology::from_network(network)?;
        let source = |table: &super::file::BackgroundTable| {
            Ok::<_, NetPlanError>(Source {
                from: topology.host("comes from", &table.from)?,
                to: topology.host("goes to", &table.to)?,
                bytes: table.frame + PREAMBLE,
                every_ps: us_as_ps(table.every_us),
                arrivals: table.arrivals,
            })
        };
        let sources = network.background.iter().map(source).collect::<Result<Vec<_>, _>>()?;
        let period_ps = network.period_ps();
        let mut simulation = Self {
            network,
            routes: topology.routes(),
            agenda: Agenda::default(),
            ports: topology.ports.iter().map(|_| PlannedPort::default()).collect(),
            held: vec![(0, 0); topology.nodes.len()],
            measured: MeasuredRoundTrips::new(topology.devices.len()),
            topology,
            sources,
            random: fastrand::Rng::with_seed(network.traffic.seed),
            period_ps,
            end_ps: period_ps * network.traffic.cycles,
            taking_ps: 0,
        };

        for (number, table) in network.background.iter().enumerate() {
            let first = NetEvent::Background(number as u32);
            simulation.agenda.add(us_as_ps(table.offset_us), first);
        }
        Ok(simulation)
    }

    /// Refuses a plan whose frames would take hours: a long chain has few devices and many hops.
    fn check_length(&self) -> Result<(), NetPlanError> {
        let links = |node: NodeId| self.topology.links_to(node);
        let answers: u64 = self.topology.devices.iter().map(|device| links(device.node)).sum();
        let commands = match self.network.traffic.send {
            Send::Broadcast => self.topology.nodes.len() as u64,
            Send::Each => answers,
        };
        let of_source = |source: &Source| {
            self.end_ps / source.every_ps * self.topology.links_between(source.from, source.to)
        };
        let background: u64 = self.sources.iter().map(of_source).sum();
        let count = (answers + commands) * self.network.traffic.cycles + background;
        if count > MOST_ON_LINKS {
            let what = "frames on links (fewer cycles take less)";
            return Err(NetPlanError::TooMany { what, count, most: MOST_ON_LINKS });
        }
        Ok(())
    }

    /// Takes the next event; `None` when there is none.
    pub(super) fn step(&mut self) -> Option<Step> {
        let (now, event) = self.agenda.next()?;
        match event {
            NetEvent::Cycle(cycle) => self.begin_cycle(now, cycle),
            NetEvent::Background(source) => self.send_background(now, source),
            NetEvent::Forward { hop, frame, full_ps } => self.forward(now, hop, frame, full_ps),
            NetEvent::Queue { port, frame } => self.send(now, port, frame),
            NetEvent::Free(port) => self.send_next(now, port),
            NetEvent::AtDevice { device, frame } => self.answer(now, device, frame),
            NetEvent::AtController(frame) => self.take(now, frame),
            NetEvent::Carried { node, frame } => {
                return Some(Step::Arrival { at_ps: now, node, frame });
            }
        }
        Some(Step::Inside)
    }

    fn begin_cycle(&mut self, now: u64, cycle: u32) {
        let traffic = &self.network.traffic;
        let bytes = self.network.command_bytes() as u32;
        let begins_ps = now + us_as_ps(self.network.controller.send_us);
        let frame = |class| PlannedFrame { bytes, cycle, class, sent_ps: now };
        match traffic.send {
            Send::Broadcast => {
                self.leave(begins_ps, NetworkTopology::ROOT, frame(Class::Broadcast));
            }
            Send::Each => {
                for device in 0..self.topology.devices.len() as u32 {
                    self.leave(begins_ps, NetworkTopology::ROOT, frame(Class::Command(device)));
                }
            }
        }

        if u64::from(cycle) + 1 < traffic.cycles {
            self.agenda.add(now + self.period_ps, NetEvent::Cycle(cycle + 1));
        }
    }

    fn send_background(&mut self, now: u64, number: u32) {
        let source = &self.sources[number as usize];
        let class = Class::Background(source.to as u32);
        let frame = PlannedFrame { bytes: source.bytes as u32, cycle: 0, class, sent_ps: now };
        let from = source.from;
        let pause_ps = match source.arrivals {
            Arrivals::Periodic => source.every_ps,
            // By inversion; 1 − u is never 0.
            Arrivals::Random => {
                (-(1.0 - self.random.f64()).ln() * source.every_ps as f64).round() as u64
            }
        };

        self.leave(now, from, frame);
        if now + pause_ps < self.end_ps {
            self.agenda.add(now + pause_ps, NetEvent::Background(number));
        }
    }

    /// A frame leaves the node that made it, by one port, or by all for a broadcast.
    pub(super) fn leave(&mut self, at_ps: u64, node: NodeId, frame: PlannedFrame) {
        if frame.class.is_for_all() {
            for place in 0..self.topology.nodes[node].ports.len() {
                let port = self.topology.nodes[node].ports[place];
                self.agenda.add(at_ps, NetEvent::Queue { port, frame });
            }
        } else if let Some(port) = self.routes[node][self.target(frame)] {
            self.agenda.add(at_ps, NetEvent::Queue { port, frame });
        }
    }

    fn target(&self, frame: PlannedFrame) -> NodeId {
        match frame.class {
            Class::Broadcast | Class::Flooded | Class::Answer(_) => NetworkTopology::ROOT,
            Class::Command(device) => self.topology.devices[device as usize].node,
            Class::Background(node) | Class::Carried(node) => node as NodeId,
        }
    }

    /// A switch sends a frame on; `full_ps` is when its last bit arrives here.
    fn forward(&mut self, now: u64, hop: Hop, frame: PlannedFrame, full_ps: u64) {
        let Hop { switch, from } = hop;
        if !frame.class.is_for_all() {
            if let Some(port) = self.routes[switch][self.target(frame)] {
                self.pass_on(now, port, frame, full_ps);
            }
            return;
        }

        for place in 0..self.topology.nodes[switch].ports.len() {
            let port = self.topology.nodes[switch].ports[place];
            if self.topology.ports[port].to != from {
                self.pass_on(now, port, frame, full_ps);
            }
        }
    }

    /// Cuts a frame through where its last bit has not arrived yet, if the port is idle.
    fn pass_on(&mut self, now: u64, port: PortId, frame: PlannedFrame, full_ps: u64) {
        let PlannedRole::Switch { overhead_ps, .. } =
            self.topology.nodes[self.topology.ports[port].from].role
        else {
            return;
        };
        let arrived_ps = full_ps + overhead_ps;
        let wire_ps = u64::from(frame.bytes) * self.topology.ports[port].byte_ps;
        // At the same rate the outgoing frame begins as much before the incoming one ends as both
        // are long; at another rate it would run out of bits, or gain nothing.
        let is_same_rate =
            now + wire_ps == arrived_ps + CUT_THROUGH * self.topology.ports[port].byte_ps;
        let is_idle = self.ports[port].free_ps <= now && !self.ports[port].wakes;

        if now >= arrived_ps || is_same_rate && is_idle {
            self.send(now, port, frame);
        } else {
            self.agenda.add(arrived_ps, NetEvent::Queue { port, frame });
        }
    }

    /// A frame joins a port: at once on the wire when that is idle.
    fn send(&mut self, now: u64, port: PortId, frame: PlannedFrame) {
        if !self.takes(now, port, frame) {
            self.ports[port].count.dropped += 1;
            return;
        }

        let line = &mut self.ports[port];
        if line.free_ps <= now && !line.wakes {
            self.transmit(now, port, frame);
            return;
        }

        let is_first =
            self.network.traffic.priority && !matches!(frame.class, Class::Background(_));
        line.queues[usize::from(is_first)].push_back(frame);
        let queued = line.queues.iter().map(VecDeque::len).sum::<usize>() as u64;
        line.count.most_queued = line.count.most_queued.max(queued);
        if !line.wakes {
            line.wakes = true;
            self.agenda.add(line.free_ps, NetEvent::Free(port));
        }
    }

    fn send_next(&mut self, now: u64, port: PortId) {
        let queues = &mut self.ports[port].queues;
        let next = queues[1].pop_front().or_else(|| queues[0].pop_front());
        if let Some(frame) = next {
            self.transmit(now, port, frame);
        }

        let line = &mut self.ports[port];
        line.wakes = line.queues.iter().any(|queue| !queue.is_empty());
        if line.wakes {
            self.agenda.add(line.free_ps, NetEvent::Free(port));
        }
    }

    /// Puts a frame on the wire, which is idle.
    fn transmit(&mut self, now: u64, port: PortId, frame: PlannedFrame) {
        let wiring = self.topology.ports[port];
        let bytes = u64::from(frame.bytes);
        let full_ps = now + bytes * wiring.byte_ps;
        let line = &mut self.ports[port];
        line.free_ps = full_ps + GAP * wiring.byte_ps;
        line.count.busy_ps += line.free_ps - now;
        if matches!(self.topology.nodes[wiring.from].role, PlannedRole::Switch { .. }) {
            line.leaving.push_back((full_ps, bytes));
        }

        if frame.class.is_carried_to(wiring.to) {
            self.agenda.add(full_ps, NetEvent::Carried { node: wiring.to, frame });
        }
        match self.topology.nodes[wiring.to].role {
            PlannedRole::Controller if matches!(frame.class, Class::Answer(_)) => {
                self.agenda.add(full_ps, NetEvent::AtController(frame));
            }
            PlannedRole::Device { number } => self.reach(full_ps, number as u32, frame),
            PlannedRole::Switch { forwarding, overhead_ps, device, .. } => {
                if let Some(device) = device {
                    self.reach(full_ps, device as u32, frame);
                }
                let read_ps = match forwarding {
                    Forwarding::StoreAndForward => full_ps,
                    Forwarding::CutThrough => now + CUT_THROUGH * wiring.byte_ps,
                };
                let event = NetEvent::Forward {
                    hop: Hop { switch: wiring.to, from: wiring.from },
                    frame,
                    full_ps,
                };
                self.agenda.add(read_ps + overhead_ps, event);
            }
            PlannedRole::Controller | PlannedRole::Host => {}
        }
    }

    /// A frame reaches a device, which takes what is meant for it.
    fn reach(&mut self, at_ps: u64, device: u32, frame: PlannedFrame) {
        if frame.class == Class::Broadcast || frame.class == Class::Command(device) {
            self.agenda.add(at_ps, NetEvent::AtDevice { device, frame });
        }
    }

    fn answer(&mut self, now: u64, device: u32, command: PlannedFrame) {
        let bytes = self.network.answer_bytes() as u32;
        let answer = PlannedFrame { bytes, class: Class::Answer(device), ..command };
        let described = &self.topology.devices[device as usize];
        let (leaves_ps, node) = (now + described.off_wire_ps, described.node);
        self.leave(leaves_ps, node, answer);
    }

    /// The controller's program takes an answer.
    fn take(&mut self, now: u64, frame: PlannedFrame) {
        let controller = &self.network.controller;
        let begins_ps = now.max(self.taking_ps);
        self.taking_ps = begins_ps + us_as_ps(controller.per_answer_us);
        let taken_ps = self.taking_ps + us_as_ps(controller.receive_us);
        if let Class::Answer(device) = frame.class {
            self.measured.add(device, frame.cycle, taken_ps - frame.sent_ps);
        }
    }

    /// Whether the buffer of a port's switch has room for a frame.
    fn takes(&mut self, now: u64, port: PortId, frame: PlannedFrame) -> bool {
        let node = self.topology.ports[port].from;
        let PlannedRole::Switch { buffer_bytes, .. } = self.topology.nodes[node].role else {
            return true;
        };
        let bytes = u64::from(frame.bytes);
        let most = buffer_bytes.unwrap_or(u64::MAX);
        let (held, peak) = self.held[node];
        if held + bytes > peak.min(most) {
            // Frames that have left since are counted out only now: it is seldom needed.
            self.count_out(now, node);
        }

        let (held, peak) = self.held[node];
        if held + bytes > most {
            return false;
        }
        self.held[node] = (held + bytes, peak.max(held + bytes));
        true
    }

    fn count_out(&mut self, now: u64, node: NodeId) {
        for port in &self.topology.nodes[node].ports {
            let leaving = &mut self.ports[*port].leaving;
            while leaving.front().is_some_and(|(end_ps, _)| *end_ps <= now) {
                let bytes = leaving.pop_front().map_or(0, |(_, bytes)| bytes);
                self.held[node].0 -= bytes;
            }
        }
    }
}
