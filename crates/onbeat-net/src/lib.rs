//! Ethernet and UDP: what the wire costs, what devices answer, how long a round trip takes.
//!
//! | module | what is in it |
//! |---|---|
//! | [`actuator`], [`io_board`] | what devices play besides an echo |
//! | [`address`] | allow lists, and what counts as a local network |
//! | [`background`] | threads that end with their owner |
//! | [`boards`] | two boards: an edge at the first becomes an output of the second |
//! | [`clock_fit`] | the clock of another board, with a bound |
//! | [`device`] | devices that answer: the other end of a round trip |
//! | [`drop_counters`] | where this kernel dropped packets |
//! | [`hand_over`] | from a thread that must not wait to one that may |
//! | [`kernel_device`] | devices whose echoes the kernel answers |
//! | [`packet`] | the wire format: messages and their bytes |
//! | [`plan`] | a model of the wire: round trips of a topology, predicted |
//! | [`rtt`] | round trips to devices, every packet of the schedule accounted for |
//! | [`run_log`] | run files over UDP to another machine, as they grow |
//! | [`socket_drops`] | what the kernel dropped at a socket |
//! | [`udp`] | sockets with room for a burst |
//!
//! ```
//! use onbeat_net::plan::{Network, simulate};
//!
//! let network = Network::parse(
//!     "[traffic]\ncycles = 10\n\
//!      [[devices]]\nname = \"board\"\nto = \"controller\"\nlink = \"100M\"\n",
//! )?;
//! let prediction = simulate(&network)?;
//! assert!(prediction.devices[0].round_trip.max_us > 0.0);
//! # Ok::<(), onbeat_net::plan::NetPlanError>(())
//! ```
//!
//! Absent on purpose: a timing loop of its own, printing, and any traffic that the caller did not
//! ask for.

pub mod actuator;
pub mod background;
pub mod boards;
pub mod clock_fit;
pub mod device;
pub mod drop_counters;
pub mod hand_over;
pub mod io_board;
pub mod kernel_device;
mod knock;
pub mod offset_lines;
pub mod packet;
pub mod plan;
pub mod rtt;
pub mod run_log;
pub mod socket_drops;
pub mod udp;

use onbeat::probe::Description;
pub use onbeat_host::address;

/// Held by unit tests that count each packet on the loopback, and by one that floods it: the kernel
/// drops what exceeds the backlog of a CPU, whosever it is.
#[cfg(test)]
pub(crate) static LOOPBACK: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The probes with a network.
pub const PROBES: [&Description; 1] = [&rtt::RTT];
