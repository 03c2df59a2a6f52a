//! Tests of onbeat-rt, one module a subject. They read no clock and no setting of the machine.
#![allow(missing_docs)]

#[cfg(not(loom))]
mod cycle_spec;
#[cfg(not(loom))]
mod edge_loop_spec;
#[cfg(not(loom))]
mod frame_spec;
#[cfg(loom)]
mod interleavings;
#[cfg(not(loom))]
mod relative_spec;
