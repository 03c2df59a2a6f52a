//! EtherCAT in the terms of the standards: what a MainDevice, a simulated SubDevice and a
//! monitoring tool have in common.
//!
//! | module | contents |
//! |---|---|
//! | [`description`] | segment files and the ESI files they name: devices, cables, PDO mappings |
//! | [`layout`] | expected devices and the positions of their values in the process image |
//! | [`setup`] | configuration of devices on the way to OP: start-up values, SYNC0, watchdog |
//! | [`registers`], [`al`] | register addresses of a SubDevice controller (ESC), AL states |
//! | [`link_errors`] | error counters of ports and processing units |
//! | [`coe`], [`esi`], [`sii`] | CoE objects, vendors' ESI files, EEPROMs (SII) |
//! | [`step`], [`event`], [`event_words`] | the interface of a robot controller, events of a bus as records and as text |
//! | [`wire`], [`carrier`] | transport of frames: the trait [`Wire`](wire::Wire), raw and AF_XDP sockets, private veth pairs |
//!
//! Terms are those of the ETG's standards: MainDevice, SubDevice, working counter, AL state. Absent
//! on purpose: simulated devices (`onbeat-segment`), a MainDevice (`onbeat-robot`), and reading of
//! clocks.
//!
//! ```
//! use onbeat_ethercat::layout::{DeviceKind, Layout};
//!
//! let layout = Layout::from_toml(
//!     r#"
//!     [types.joint]
//!     kind = "drive"
//!     [[devices]]
//!     type = "joint"
//!     names = ["left knee", "right knee"]
//!     "#,
//! )?;
//! let knee = &layout.devices[1];
//! assert_eq!((knee.name.as_str(), knee.kind), ("right knee", DeviceKind::Drive));
//! // The statusword, 6041h, is the first input of the second drive.
//! assert_eq!(knee.input_at(0x6041, 0), Some(layout.devices[0].inputs.end));
//! # Ok::<(), onbeat_ethercat::description::DescriptionError>(())
//! ```

pub mod al;
pub mod al_codes;
mod busy_wait;
pub mod carrier;
pub mod coe;
pub mod description;
pub mod emergency_codes;
pub mod eni;
pub mod esi;
pub mod event;
pub mod event_words;
pub mod layout;
pub mod link_errors;
pub mod registers;
pub mod ring;
pub mod setup;
pub mod sii;
pub mod step;
mod vocabulary;
pub mod wire;
