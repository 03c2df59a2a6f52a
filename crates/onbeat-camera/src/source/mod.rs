//! Where pictures come from.
//!
//! A [`Source`] gives one picture after the other, each in the format of its decoder and with its times.
//! Those that receive over a network have a thread that does nothing else, so that a slow conversion never
//! makes the stream late: of pictures that wait, only the newest is kept, and the others are counted.
//!
//! Absent on purpose: a decoder for H.264 and H.265, and the formats of video devices and files: the
//! machine's `ffmpeg` is started where they are needed; TLS, recording.

mod address;
mod clock_fit;
mod error;
mod ffmpeg;
pub(crate) mod jpeg;
mod mailbox;
mod matroska;
mod mjpeg;
mod multipart;
pub mod painted;
mod rtsp;
pub mod test_picture;

use std::time::Duration;

use onbeat_control::frames::FrameTimes;

pub use address::{Address, TestPicture, VideoDevice};
pub use error::SourceError;
pub use ffmpeg::ffmpeg_version;

use crate::camera::now_ns;
use crate::compressed::PictureChannel;
use crate::convert::Picture;

/// Longest time for a picture to come in a connection. A camera that is silent for its own rate is opened again earlier.
const MOST_SILENCE: Duration = Duration::from_secs(60);
/// Largest compressed picture that is read, in bytes.
const MOST_COMPRESSED: usize = 32 << 20;

/// A picture with its times; `published_ns` is still open.
#[derive(Debug)]
pub struct Captured<'s> {
    pub picture: Picture<'s>,
    /// When it was captured, received, decoded.
    pub times: FrameTimes,
}

/// What a source is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its address without a password.
    pub address: String,
    /// What is decoded, and by what, with its cost.
    pub decoder: String,
}

/// A source of pictures.
pub trait Source {
    /// Waits for the next picture, for at most `patience`; `None` after it.
    ///
    /// # Errors
    /// [`SourceError`]; the source is to be opened again then.
    fn next(&mut self, patience: Duration) -> Result<Option<Captured<'_>>, SourceError>;

    /// Returns what it is.
    fn description(&self) -> Description;

    /// Returns what came since the last picture, for the sentence about a silent source.
    fn seen(&self) -> String {
        "nothing was received".to_owned()
    }

    /// Takes the number of pictures dropped since the last one, when no more are asked for.
    fn take_dropped(&mut self) -> u64 {
        0
    }
}

/// Opens a source. What it receives in compressed form is published on `log` too, as it came.
///
/// # Errors
/// [`SourceError`].
pub fn open(
    address: &Address,
    is_gray: bool,
    log: Option<&PictureChannel>,
) -> Result<Box<dyn Source>, SourceError> {
    Ok(match address {
        Address::Test(test) => Box::new(test_picture::TestSource::new(*test)),
        Address::Rtsp(url) => rtsp::open(url, is_gray, log.cloned())?,
        Address::Http(url) => mjpeg::open(url, is_gray, log.cloned())?,
        Address::Device(device) => Box::new(ffmpeg::of_device(device)?),
        Address::File(path) => Box::new(ffmpeg::of_file(path)?),
    })
}

/// The time of CLOCK_MONOTONIC that an instant of the standard library was.
fn ns_of(instant: std::time::Instant) -> u64 {
    now_ns().saturating_sub(u64::try_from(instant.elapsed().as_nanos()).unwrap_or(0))
}
