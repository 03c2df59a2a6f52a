//! Tests of onbeat-camera, one module a subject. The runner gives each module a process of its own
//! (`tests/limits/run.py`).
#![allow(missing_docs)]

mod camera;
mod convert;
