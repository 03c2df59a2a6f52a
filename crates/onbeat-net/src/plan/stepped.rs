//! The network of a plan for programs that send frames of their own: the same engine, one arrival at
//! a time.

use super::events::{Class, PlannedFrame};
use super::file::{NetPlanError, Network};
use super::simulation::{Simulation, Step};
use super::topology::{NetworkTopology, NodeId};

/// Picoseconds of a nanosecond.
const NS_PS: u64 = 1000;

/// Whom a frame is for. Ends are counted from the controller, which is 0; device N is N + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedTo {
    /// One end.
    End(usize),
    /// All ends but its own.
    All,
}

/// A frame at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedArrival {
    /// When its last bit arrived, in nanoseconds, rounded up.
    pub at_ns: u64,
    /// Where.
    pub end: usize,
    /// Which frame, as [`SteppedNetwork::send`] numbered it.
    pub frame: u32,
}

/// The links and switches of a plan with frames of programs, which share the plan's background
/// traffic. Its commands and answers are not sent.
///
/// ```
/// use onbeat_net::plan::{CarriedTo, Network, SteppedNetwork};
///
/// let network = Network::parse(
///     "[[switches]]\nname = \"switch\"\nlink = \"100M\"\n\
///      [[devices]]\nname = \"board\"\nto = \"switch\"\nlink = \"100M\"\n",
/// )?;
/// let mut stepped = SteppedNetwork::new(&network)?;
/// let frame = stepped.send(1_000, 0, CarriedTo::End(1), 254);
/// let mut arrivals = Vec::new();
/// while stepped.next_ns().is_some() {
///     arrivals.extend(stepped.step());
/// }
/// // Twice 20.32 µs: the switch stores a frame before it forwards it.
/// assert_eq!((arrivals.len(), arrivals[0].at_ns, arrivals[0].end), (1, 41_640, 1));
/// assert_eq!(arrivals[0].frame, frame);
/// # Ok::<(), onbeat_net::plan::NetPlanError>(())
/// ```
pub struct SteppedNetwork<'n> {
    simulation: Simulation<'n>,
    /// Nodes of the ends.
    ends: Vec<NodeId>,
    sent: u32,
}

impl<'n> SteppedNetwork<'n> {
    /// Returns the network of a plan with nothing but its background traffic on it, which does not
    /// end.
    ///
    /// # Errors
    /// [`NetPlanError`], when the plan is not valid.
    pub fn new(network: &'n Network) -> Result<Self, NetPlanError> {
        let mut simulation = Simulation::new(network)?;
        simulation.end_ps = u64::MAX;
        let devices = simulation.topology.devices.iter().map(|device| device.node);
        let ends = [NetworkTopology::ROOT].into_iter().chain(devices).collect();
        Ok(Self { simulation, ends, sent: 0 })
    }

    /// Returns the number of ends: the controller and the devices.
    #[must_use]
    pub fn ends(&self) -> usize {
        self.ends.len()
    }

    /// Puts a frame on the link of an end, and returns its number. `bytes` are those on the wire,
    /// from preamble to check sequence. Frames to an end that does not exist are discarded.
    pub fn send(&mut self, at_ns: u64, from: usize, to: CarriedTo, bytes: u32) -> u32 {
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        let class = match to {
            CarriedTo::All => Some(Class::Flooded),
            CarriedTo::End(end) => self.ends.get(end).map(|node| Class::Carried(*node as u32)),
        };
        if let (Some(class), Some(node)) = (class, self.ends.get(from)) {
            let sent_ps = at_ns * NS_PS;
            let frame = PlannedFrame { bytes, cycle: number, class, sent_ps };
            self.simulation.leave(sent_ps, *node, frame);
        }
        number
    }

    /// Returns when something next happens in the network, in nanoseconds, rounded up.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.simulation.agenda.next_ps().map(|ps| ps.div_ceil(NS_PS))
    }

    /// Lets the next event of the network happen. Returns the frame that it brought to an end.
    pub fn step(&mut self) -> Option<CarriedArrival> {
        let Step::Arrival { at_ps, node, frame } = self.simulation.step()? else { return None };
        let end = self.ends.iter().position(|end| *end == node)?;
        Some(CarriedArrival { at_ns: at_ps.div_ceil(NS_PS), end, frame: frame.cycle })
    }
}
