//! CANopen over EtherCAT (CoE): the object dictionary of a device, and the SDO server.
//!
//! Sources: ETG.1000.6 (mailbox, SDO, SDO information), ETG.1020, and CiA 301 for abort codes.

mod dictionary;
mod information;
mod server;

pub(crate) use dictionary::{Dictionary, EntryFormat, ObjectEntry, ValueSlot};
pub(crate) use onbeat_ethercat::coe::{DataType, abort, access, details, message};
pub(crate) use server::{SdoOutcome, SdoServer};
