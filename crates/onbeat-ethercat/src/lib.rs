//! EtherCAT in the standards' words: what a MainDevice, a simulated SubDevice and anybody who looks on have in common.
//!
//! | module | what is in it |
//! |---|---|
//! | [`description`] | a segment's file with vendors' ESI files beside it: devices, cables, what is mapped |
//! | [`layout`] | which devices a segment should have, and where their values stand in the process image |
//! | [`setup`] | configuration that devices get on their way up: values of objects, SYNC0, the watchdog |
//! | [`registers`], [`al`] | addresses in a SubDevice controller, and its AL states |
//! | [`coe`], [`esi`], [`sii`] | objects, vendors' files, EEPROMs |
//! | [`step`], [`event`], [`event_words`] | what a controller is given in each cycle, and what happens on a bus, in records and in words |
//! | [`wire`], [`carrier`] | what frames leave by: the trait [`Wire`](wire::Wire), raw sockets, cables in a namespace of their own |
//! | [`input`] | files that people name: regular ones, of a bounded size |
//!
//! Words are those of the ETG's standards: MainDevice, SubDevice, working counter, AL state. Absent on purpose: simulated devices
//! (`onbeat-segment`), a MainDevice (`onbeat-robot`), and any clock of its own.
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
//! // The statusword, 6041h, stands in front of the second drive's inputs.
//! assert_eq!(knee.input_at(0x6041, 0), Some(layout.devices[0].inputs.end));
//! # Ok::<(), onbeat_ethercat::description::DescriptionError>(())
//! ```

pub mod al;
pub mod carrier;
pub mod coe;
pub mod description;
pub mod esi;
pub mod event;
pub mod event_words;
pub mod input;
pub mod layout;
pub mod registers;
pub mod setup;
pub mod sii;
mod spin;
pub mod step;
pub mod wire;
