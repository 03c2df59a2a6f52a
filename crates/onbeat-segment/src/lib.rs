//! A simulated EtherCAT segment, from the registers of its SubDevice controllers up.
//!
//! ```text
//! Link ── faults of frames ──▶ Segment::frame ──▶ ESC (registers, FMMUs, SyncManagers, SII, clock)
//!                                                       │ events
//!                                                  Firmware (AL state machine, mailbox, objects)
//!                                                       │ once per cycle of the device
//!                                                  Model (drive, I/O, IMU, force-torque sensor, coupler)
//! ```
//!
//! [`serving`] connects a segment to network interfaces; [`InProcess`] is the wire of a MainDevice
//! in the same process.
//!
//! The result is a function of the frames and their instants: the simulation reads no clock, opens
//! no socket, and does not allocate after set-up. The same file, seed, frames and instants give the
//! same bytes.
//!
//! [`Description`] is the segment file, with the ESI files it names.
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
//! // 59 devices have incremented the working counter, all of them in INIT.
//! assert_eq!((frame[26], frame[28]), (1, 59));
//! # Ok::<(), onbeat_segment::DescriptionError>(())
//! ```
//!
//! Absent on purpose: Ethernet checksums (added by the network card), EtherCAT over UDP, and
//! mailbox protocols other than CoE (refused with a mailbox error, as by a device without them).
//! Register addresses and their meaning: ETG.1000.4 and the Beckhoff SubDevice controller data
//! sheet, section II.

mod cable_positions;
mod coe;
mod datagram_exchange;
mod device;
mod device_parts;
mod distributed_clock;
mod eeprom;
mod esc;
mod esi_parts;
#[cfg(test)]
mod fast_path;
mod fault;
mod fault_log;
mod fault_table;
mod firmware;
mod fmmu;
mod foe;
mod frame;
mod from_description;
mod in_process;
#[cfg(test)]
mod layout_agreement;
mod link;
mod mailbox;
mod process_data;
mod registers;
mod segment;
pub mod serving;
mod sii_contents;
mod subdevice;
mod sync_manager;
mod topology;

pub use fault::Fault;
pub use fault_log::FaultLog;
pub use fault_table::{FAULT_KINDS, FaultError};
pub use frame::Command;
pub use in_process::InProcess;
pub use link::{FaultChange, FaultLogEntry, Link, LinkCounts};
pub use onbeat_ethercat::description::{Description, DescriptionError, FaultTable};
pub use onbeat_ethercat::esi::EsiError;
pub use onbeat_ethercat::ring::Nic;
pub use onbeat_rt::time::{Clock, Instant};
pub use segment::{DeviceStatus, Passage, Segment};
