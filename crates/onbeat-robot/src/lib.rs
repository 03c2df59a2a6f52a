//! A robot from its file to a run: the MainDevice of its bus, the motion controller, and the probes
//! that measure both.
//!
//! | module | content |
//! |---|---|
//! | [`bus`] | the MainDevice: takes the devices of a segment to OP, exchanges process data with them, recovers them |
//! | [`motion`] | moves joints along trajectories, within limits, with the miss ladder |
//! | [`cycle_messages`] | publishes every cycle of a bus on a ring in shared memory |
//! | [`image_service`] | publishes a bus to other processes through shared memory |
//! | [`session`] | runs a robot from its file |
//! | [`live_view`] | shows a running robot in a browser of the same machine |
//! | [`probe`] | the probes bus, chain and sharing of `onbeat measure` |
//!
//! ```
//! use onbeat_ethercat::layout::Layout;
//! use onbeat_robot::bus::{Bus, InProcess, ExchangeMode, BusOptions};
//! use onbeat_rt::time::{Instant, MockClock};
//! use onbeat_segment::{Link, Segment};
//!
//! let layout = Layout::from_toml(Segment::HUMANOID)?;
//! let clock = MockClock::starting_at(Instant::from_ns(0), |_| 0).ns_per_reading(100);
//! let wire = InProcess::on_virtual_clock(Link::from_toml(Segment::HUMANOID)?, clock);
//! let options = BusOptions { mode: ExchangeMode::Pipelined, period_ns: 1_000_000, follow_clock: false };
//! let bus = Bus::bring_up(wire, Some(&layout), options, "the simulated segment")?;
//! assert_eq!(bus.layout().devices.len(), 59);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ethercrab configures the devices during bring-up; no library runs in a cycle. Descriptions and
//! layouts of segments are in `onbeat-ethercat`, simulated devices in `onbeat-segment`.

// A library that programs are written against: each of its names has its sentence.
#![deny(missing_docs)]

pub mod bus;
pub mod commission;
pub mod cycle_messages;
pub mod image_service;
pub mod live_view;
pub mod motion;
pub mod probe;
pub mod session;
