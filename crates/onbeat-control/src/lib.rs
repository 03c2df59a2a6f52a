//! The control interface: the process image of a bus, for any number of processes. It corresponds to the paper's ECCI.
//!
//! One bus process creates an [`Image`] with a name and calls [`BusSide::exchange`] once per cycle,
//! which publishes inputs and takes the owner's newest outputs. At most one process owns the
//! outputs ([`Client::claim`]). Any number of processes read cycles, events and statistics, and
//! request SDO transfers and
//! registers ([`Client`]). If the bus process moves joints itself, one process commands
//! them by goals ([`Client::command`]). [`Sharing`] selects how processes are kept from
//! interfering; by default no process waits for another. `docs/control.md` specifies rules
//! and the effects of a process's death, `include/onbeat_control.h` messages and memory layout,
//! and provides the same for C.
//!
//! A client connects to the bus's socket and receives descriptors of memory: the image, which the
//! bus process alone can write, and, with a role, slots of its own. A role ends with its
//! connection.
//!
//! No killed process leaves anything to clean up: a dead owner's outputs are replaced by safe
//! values, a dead requester's request is dropped, and a dead bus process's socket is replaced by
//! the next one of that name.
//!
//! ```
//! use onbeat_control::{Client, Image, Sharing};
//! use onbeat_ethercat::layout::Layout;
//! use onbeat_ethercat::step::BusCycle;
//!
//! let name = format!("example-{}", std::process::id());
//! let layout = Layout { input_bytes: 4, output_bytes: 4, ..Layout::default() };
//! let mut bus = Image::create(&name, &layout, Sharing::WaitFree)?;
//! let mut outputs = [0; 4];
//! bus.exchange(&BusCycle { cycle: 7, ..BusCycle::default() }, &[1, 2, 3, 4], &mut outputs);
//!
//! let mut client = Client::open(&name)?;
//! let mut seen = client.snapshot();
//! client.read(&mut seen)?;
//! assert_eq!((seen.cycle.cycle, seen.inputs), (7, vec![1, 2, 3, 4]));
//! # Ok::<(), onbeat_control::ControlError>(())
//! ```
//!
//! Messages of any other kind go through rings: [`RingWriter`] publishes records in shared memory
//! without waiting, any number of [`RingReader`]s read them and learn what they lost.
//! `include/onbeat_ring.h` has the memory. [`frames`] is the same for the pictures of a camera.
//!
//! Absent on purpose: system calls and allocation in the exchange (except for a contended lock in
//! the two kinds of sharing with a lock), trust in what other processes write, several owners.

// A library that programs are written against: each of its names has its sentence.
#![deny(missing_docs)]

mod abi;
mod area;
mod bus_condition;
mod bus_side;
mod client;
mod command_watch;
mod create;
mod device_state;
mod device_table;
mod error;
mod error_record;
pub mod frames;
mod goals;
mod handover;
mod image;
mod joint;
mod link;
mod lock;
mod map;
mod message;
mod owner;
mod place;
mod process;
mod request;
mod requests;
mod ring_error;
mod ring_file;
mod ring_head;
mod ring_map;
mod ring_object;
mod ring_reader;
mod ring_writer;
mod service;
mod settings;
mod sharing;
mod snapshot;
mod socket;
mod stats;
pub mod truncation;
mod value_place;

pub use bus_condition::{AlStates, CableLink, WorkingCounterState};
pub use bus_side::{BusSide, ColdSide, OutputsFrom};
pub use client::{BusState, Client, DeviceInfo, EventBatch, Outage};
pub use command_watch::{CommandWatch, safe_stop, without_power};
pub use create::Image;
pub use device_state::{DeviceState, Presence};
pub use error::{ControlError, Refusal};
pub use goals::{Commander, GoalAnswer, GoalSide};
pub use joint::Joint;
pub use owner::Owner;
pub use place::{group_id, names};
pub use request::{
    BusRequest, CablePosition, REGISTER_BYTES, RegisterAction, RegisterRequest, RequestAnswer,
    RequestFailure, SdoAction, SdoRequest,
};
pub use requests::RequestJob;
pub use ring_error::RingError;
pub use ring_file::remove_leftovers;
pub use ring_head::{FoundChannels, RingHead};
pub use ring_map::RingWatch;
pub use ring_object::{Channel, RecordType, channels};
pub use ring_reader::{Reading, RingReader, Start};
pub use ring_writer::{RingSettings, RingWriter};
pub use settings::ImageSettings;
pub use sharing::Sharing;
pub use snapshot::Snapshot;
pub use stats::{Counter, Stats, Timed, Times};
pub use value_place::ValuePlace;
