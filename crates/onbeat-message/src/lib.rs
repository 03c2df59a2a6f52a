//! Message types in the `.msg` language of ROS 2, without a ROS installation.
//!
//! [`Definition`] is one parsed file, [`TypeSet`] a type with all those it uses: from the text that
//! a ring or an MCAP log carries, or from files. It computes the type's hash, and encodes and
//! decodes [`Value`]s in CDR, little-endian. [`generate`] writes codecs for other languages.
//! [`own`] are the messages of onbeat itself. [`LcmTypes`] reads LCM's `.lcm` files as the same
//! types, and has LCM's own encoding.
//!
//! ```
//! use onbeat_message::{TypeSet, Value};
//!
//! let types = TypeSet::from_text("demo/msg/Point", "float64 x\nfloat64 y\n")?;
//! let mut point = types.default_value("demo/msg/Point")?;
//! point.set("x", Value::Float64(1.5));
//! let bytes = types.encode("demo/msg/Point", &point)?;
//! assert_eq!(types.value("demo/msg/Point", &bytes)?, point);
//! # Ok::<(), onbeat_message::MessageError>(())
//! ```
//!
//! Absent on purpose: services and actions, encodings other than CDR version 1 and LCM's, and
//! knowledge of how bytes travel.

// A library that programs are written against: each of its names has its sentence.
#![deny(missing_docs)]

mod cdr;
mod definition;
mod error;
pub mod generate;
mod hash;
mod idl;
mod json_value;
mod lcm;
mod lcm_codec;
pub mod own;
mod type_set;
mod value;
mod wide_text;
mod words;

pub use definition::{Constant, Definition, Field, FieldShape, FieldType, Primitive};
pub use error::MessageError;
pub use idl::IdlTypes;
pub use lcm::LcmTypes;
pub use lcm_codec::LcmCodec;
pub use type_set::TypeSet;
pub use value::Value;
