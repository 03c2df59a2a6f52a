//! A laboratory of network namespaces: the network of a plan, built from virtual cables, with a
//! device at each end.
//!
//! [`NetworkLab::build`] gives the controller and every device a network namespace of its own, and
//! every switch of the plan a bridge; virtual cables (veth pairs) connect them, limited to the
//! plan's rates on request. Devices answer from their namespaces, and whatever runs
//! [within](NetworkLab::within_controller) the controller's namespace reaches them over the cables.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use onbeat_lab::net::{LinkRates, NetworkLab, forty_devices};
//!
//! let lab = NetworkLab::build(&forty_devices(), LinkRates::Unlimited)?;
//! assert_eq!(lab.addresses.len(), 40);
//! let devices = Arc::clone(&lab.devices).start(false, None)?;
//! let answered = lab.within_controller(|| { /* measure here */ })?;
//! drop(devices);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Nothing is left behind.** No namespace has a name and no interface lies in the machine's own
//! namespace: descriptors and sockets of this process are all that keeps them, so the kernel removes
//! them with the process, however it ends. There is nothing to undo, and nothing in the journal.
//!
//! | file | what is in it |
//! |---|---|
//! | `cabling` | which bridges, cables and addresses a plan needs: a pure function |
//! | `netlink` | requests to the kernel, without a process for each |
//! | `namespace` | a namespace that only descriptors keep |
//! | `lab` | the laboratory, and its devices |
//! | [`lockstep`] | firmware in QEMU at the ends of a plan's modelled network, in virtual time |
//! | [`board_tests`] | the three tests of Mossige, Sampath and Rao (2007) in guests in virtual time |

pub mod board_tests;
mod cabling;
mod error;
mod lab;
pub mod lockstep;
mod namespace;
mod netlink;

pub use cabling::forty_devices;
pub use error::NetworkLabError;
pub use lab::{LinkRates, NetworkLab};
