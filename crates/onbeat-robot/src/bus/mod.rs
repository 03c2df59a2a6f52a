//! The MainDevice: brings the devices of a segment to OP and exchanges process data with them,
//! cycle by cycle.
//!
//! ```text
//! bring_up ── ethercrab, frames by pump ──▶ devices in SAFEOP, configuration recorded (config_record)
//!     └ preop_setup: the file's settings in PREOP │
//! Bus::cycle ── cyclic: one frame ────────────────┤  inputs, working counter, AL states, clock
//!                └ diagnostics: an acyclic frame ─┘  only after a problem: which device, and its recovery
//! ```
//!
//! ethercrab finds and configures the devices. From the first cycle on everything is implemented
//! here, synchronously and without allocation, so a loop can call [`Bus::cycle`]. The bus uses only
//! the wire's clock: on a virtual clock, runs are identical to the byte.
//!
//! A second network interface (cable redundancy) is part of the wire. Absent on purpose: device groups with different
//! periods, and mailbox protocols other than CoE.

mod acyclic;
mod addresses;
mod bring_up;
mod clock_sync;
mod config_record;
mod cyclic;
mod datagram_view;
mod device;
mod device_ids;
mod diagnostics;
mod emergency;
mod error;
mod event_queue;
mod frame_exchange;
mod identification;
mod image_shares;
mod known_device;
mod link_error_readings;
mod link_error_reads;
mod lock_step;
mod mailbox_layout;
mod main_device;
mod mapped_objects;
mod no_answer;
mod optional_groups;
mod options;
mod panic_guard;
mod plugged_modules;
mod position_scan;
mod preop_setup;
mod pump;
mod rate_limit;
mod recovery;
mod register_query;
mod register_transfer;
mod scan;
mod sdo;
mod shutdown;
mod sii_cache;
mod single_datagram;
mod stale_inputs;
mod sync0;
mod topology;
mod transfer;

pub use addresses::MOST_DEVICES;
pub(crate) use cyclic::SCAN;
pub use error::{BusError, RunningBus, Unready};
pub(crate) use frame_exchange::FrameExchange;
pub(crate) use mailbox_layout::MailboxLayout;
pub use main_device::Bus;
pub use onbeat_ethercat::wire::{Packets, Wire};
pub use onbeat_segment::InProcess;
pub use options::{BusCounts, BusOptions, ExchangeMode};
pub(crate) use rate_limit::EventRateLimit;
pub(crate) use register_query::sii_request;
pub use scan::{DeviceIdentity, ScannedDevice, scan};
pub(crate) use sdo::{MailboxStep, SdoTransfer};
pub use topology::{PortLinks, Upstream, upstreams};
pub use transfer::BusTransfer;
