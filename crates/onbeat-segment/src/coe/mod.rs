//! CANopen over EtherCAT: the objects of a device, and the server that MainDevices reach them by.
//!
//! Sources: ETG.1000.6 (mailbox, SDO, SDO information), ETG.1020, and CiA 301 for abort codes.

mod dictionary;
mod information;
mod server;

pub(crate) use dictionary::{Dictionary, Entry, Slot};
pub(crate) use onbeat_ethercat::coe::{DataType, abort, access, details};
pub(crate) use server::{Answer, Server};
