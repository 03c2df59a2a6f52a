//! A simulated EtherCAT segment, from the registers of its SubDevice controllers up.
//!
//! ```text
//! Link ── faults on the way ──▶ Segment::frame ──▶ Controller (registers, FMMUs, SyncManagers, SII, clock)
//!                                                       │ events
//!                                                  Firmware (AL state machine, mailbox, objects)
//!                                                       │ once per cycle of the device
//!                                                  Model (drive, I/O, IMU, force-torque sensor, coupler)
//! ```
//!
//! Everything is a function of the frames and of the instants they come with: no clock is read, no socket is opened, and after
//! set-up no memory is asked for. The same file, seed, frames and instants give the same bytes.
//!
//! [`Description`] is the file; where it names vendors' ESI files, it reads them before anything begins.
//!
//! Absent on purpose: Ethernet checksums (a carrier's business), EtherCAT in UDP, and every mailbox protocol but CoE
//! (they are answered with a mailbox error, as a device without them does). Register addresses and their meaning: ETG.1000.4 and the
//! Beckhoff SubDevice controller data sheet, section II.

mod build;
mod clock;
mod coe;
mod controller;
mod description;
mod device;
mod eeprom;
mod esi;
mod exchange;
mod fault;
mod fault_words;
mod firmware;
mod fmmu;
mod frame;
mod link;
mod listing;
mod log;
mod mailbox;
mod parts;
mod process_data;
mod registers;
mod seats;
mod segment;
mod setup_words;
#[cfg(test)]
mod short_ways;
mod sii;
mod subdevice;
mod sync_channel;
mod topology;

pub(crate) use description::DeviceCycle;
pub use description::{Description, DescriptionError};
pub(crate) use eeprom::checksum;
pub use esi::EsiError;
pub use fault::Fault;
pub use fault_words::{FAULT_KINDS, FaultError, FaultWords};
pub use frame::Command;
pub use link::{Happening, Link, LinkCounts, Logged};
pub(crate) use listing::layout_of;
pub use log::FaultLog;
pub use segment::{DeviceStatus, Nic, Passage, Segment};
