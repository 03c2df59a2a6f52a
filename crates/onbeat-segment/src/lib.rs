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
//! [`serving`] puts a segment behind network interfaces, [`InProcess`] is the wire of a MainDevice in the same process.
//!
//! Everything is a function of the frames and of the instants they come with: no clock is read, no socket is opened, and after
//! set-up no memory is asked for. The same file, seed, frames and instants give the same bytes.
//!
//! [`Description`] is the file; where it names vendors' ESI files, it reads them before anything begins.
//!
//! ```
//! use onbeat_segment::{Instant, Passage, Segment};
//!
//! let mut segment = Segment::from_toml(Segment::HUMANOID)?;
//! // BRD of the AL status, 0130h, of all devices: 14 bytes of Ethernet, 2 of EtherCAT, one datagram.
//! let mut frame = vec![0xff; 12];
//! frame.extend([0x88, 0xa4, 14, 0x10, 7, 0, 0, 0, 0x30, 0x01, 2, 0, 0, 0, 0, 0, 0, 0]);
//! let passage = segment.frame(&mut frame, Instant::from_ns(1_000_000));
//! assert!(matches!(passage, Passage::Back { .. }));
//! // The working counter: 59 devices have answered, all of them in INIT.
//! assert_eq!((frame[26], frame[28]), (1, 59));
//! # Ok::<(), onbeat_segment::DescriptionError>(())
//! ```
//!
//! Absent on purpose: Ethernet checksums (a carrier's business), EtherCAT in UDP, and every mailbox protocol but CoE
//! (they are answered with a mailbox error, as a device without them does). Register addresses and their meaning: ETG.1000.4 and the
//! Beckhoff SubDevice controller data sheet, section II.

#[cfg(test)]
mod agreement;
mod build;
mod clock;
mod coe;
mod controller;
mod device;
mod eeprom;
mod esi_parts;
mod exchange;
mod fault;
mod fault_words;
mod firmware;
mod fmmu;
mod frame;
mod in_process;
mod link;
mod log;
mod mailbox;
mod parts;
mod process_data;
mod registers;
mod seats;
mod segment;
pub mod serving;
#[cfg(test)]
mod short_ways;
mod sii;
mod subdevice;
mod sync_channel;
mod topology;

pub use fault::Fault;
pub use fault_words::{FAULT_KINDS, FaultError};
pub use frame::Command;
pub use in_process::InProcess;
pub use link::{Happening, Link, LinkCounts, Logged};
pub use log::FaultLog;
pub use onbeat_ethercat::description::{Description, DescriptionError, FaultWords};
pub use onbeat_ethercat::esi::EsiError;
pub use onbeat_rt::time::{Clock, Instant};
pub use segment::{DeviceStatus, Nic, Passage, Segment};
