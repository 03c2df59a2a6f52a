//! Pictures of cameras, for the languages in which robots are prototyped.
//!
//! A [`camera`](camera::run) takes pictures from a [`source`], converts each one once into the layout of its
//! readers ([`convert`]) and publishes it in a ring in shared memory ([`onbeat_control::frames`]), with the
//! times of its capture, reception, decoding and publication on the clock of the robot. Octave, MATLAB,
//! Python, Java and C read it without a lock. `docs/camera.md` is the manual, `docs/frames.md` describes the ring.
//!
//! ```
//! use onbeat_camera::convert::{Converter, Picture};
//! use onbeat_control::frames::{FrameFormat, PixelLayout};
//!
//! // Two columns and one row: red, blue.
//! let picture = Picture::Rgb { width: 2, height: 1, pixels: &[255, 0, 0, 0, 0, 255] };
//! let format = FrameFormat { width: 2, height: 1, channels: 3, layout: PixelLayout::ColumnPlanes };
//! let mut planes = [0; 6];
//! Converter::default().convert(&picture, format, &mut planes);
//! assert_eq!(planes, [255, 0, 0, 0, 0, 255]);
//! ```
//!
//! Absent on purpose: printing, which is the program's; files of logs: [`compressed`] is a channel that a recorder reads.

pub mod camera;
pub mod compressed;
pub mod convert;
pub mod source;
pub mod thumbnails;
