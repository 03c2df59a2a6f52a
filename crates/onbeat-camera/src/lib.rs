//! draft
pub mod convert;
