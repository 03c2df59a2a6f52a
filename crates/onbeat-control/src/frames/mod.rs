//! Pictures of a camera in shared memory: one writer, any number of readers, no lock.
//!
//! A [`FrameWriter`] fills slots with pictures, [`FrameReader`]s look at the newest one or take each in
//! order. As with a ring of messages, the writer waits for nobody; a reader that is killed, stopped or
//! interrupted holds nothing. A picture of another size needs a ring of its own: it replaces the file, and
//! the memory that readers have mapped stays as long as they keep it. `include/onbeat_frames.h` specifies the
//! memory to the byte, and reads it in C.
//!
//! ```
//! use onbeat_control::frames::{FrameFormat, FrameReader, FrameTimes, FrameWriter, PixelLayout, Want};
//!
//! let name = format!("example-{}", std::process::id());
//! let format = FrameFormat { width: 4, height: 2, channels: 3, layout: PixelLayout::ColumnPlanes };
//! let mut writer = FrameWriter::create(&name, format, 4, "{}")?;
//! let mut reader = FrameReader::open(&name)?;
//!
//! writer.pixels().fill(7);
//! writer.publish(&FrameTimes { capture_ns: 1_000, ..FrameTimes::default() });
//! let frame = reader.take(Want::Newest).expect("one picture");
//! assert_eq!((frame.number, frame.times.capture_ns, frame.pixels), (1, 1_000, [7; 24].as_slice()));
//! # Ok::<(), onbeat_control::frames::FrameError>(())
//! ```
//!
//! Absent on purpose: capture, decoding and conversion, which are those of the program `onbeat-camera`;
//! waiting: a reader polls at its own pace.

mod error;
mod file;
mod format;
mod memory;
mod reader;
mod stamp;
mod writer;

pub use error::FrameError;
pub use file::{FoundCamera, cameras, remove_leftovers};
pub use format::{FrameFormat, MOST_SIDE, MOST_SLOTS, PixelLayout};
pub use reader::{Frame, FrameReader, SeenFrame, Want};
pub use stamp::{FrameTimes, TimeSource};
pub use writer::FrameWriter;

#[cfg(test)]
mod tests;
