//! EtherCAT: devices on a bus, simulated as far as their registers.
//!
//! [`sim`] is a segment of software SubDevices. It takes an Ethernet frame, does to it what a ring of SubDevices would do, and gives
//! it back. [`carrier`] brings frames there from network interfaces. [`layout`] is what a segment should be and where values stand in
//! the process image, [`setup`] what its devices are told on their way up; [`sii`] reads what the EEPROM of a device says; [`event`] is what happens on a bus, [`step`] what a controller does in
//! each cycle. [`control`] shares a bus's process image with other processes,
//! and [`served`] is what a bus's loop does for them.
//!
//! Words are those of the ETG's standards: MainDevice, SubDevice, working counter, AL state.

pub mod bus;
pub mod carrier;
pub mod control;
pub mod event;
pub mod event_words;
pub mod layout;
pub mod served;
pub mod setup;
pub mod sii;
pub mod sim;
pub mod step;
