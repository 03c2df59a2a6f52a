//! Predicts round trips: a discrete-event model of frames, links and switches.
//!
//! [`Network`] is read from a file ([`Network::parse`]), [`simulate`] sends its packets, and
//! [`picture()`] draws the result. The model knows what a frame costs on a wire and in a switch; what
//! operating systems cost is a parameter, `off_wire_us` and its kin. Times are whole picoseconds,
//! so that a bit at 100 Gbit/s has an exact length, and the same file gives the same figures on any
//! machine.
//!
//! A frame occupies a link for preamble, headers, payload and check sequence, and after it the link
//! rests for the gap between frames. A store-and-forward switch forwards a frame when its last bit
//! has arrived; a cut-through switch after its Ethernet header, when the outgoing link is idle and
//! has the same rate. Both add an overhead of their own.
//!
//! Absent on purpose: propagation (5 ns/m), bit errors, and flow control.

mod events;
mod file;
mod frame;
mod picture;
mod prediction;
mod simulation;
mod stepped;
mod topology;
mod wiring;

pub use file::{Forwarding, NetPlanError, Network, Send};
pub use frame::FrameSize;
pub use picture::picture;
pub use prediction::{
    DevicePrediction, LinkPrediction, NetPrediction, PredictedDistribution, SwitchPrediction,
};
pub use simulation::simulate;
pub use stepped::{CarriedArrival, CarriedTo, SteppedNetwork};
pub use topology::{PlannedLink, PlannedNode, PlannedRole};
