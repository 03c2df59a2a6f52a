//! Tests that read no clock and no setting of the machine, and share nothing but a temporary
//! directory of their own each: one program, which takes less to link than one for each file.
#![allow(missing_docs)]

mod cycle_spec;
mod edge_loop_spec;
mod frame_spec;
mod relative_spec;
