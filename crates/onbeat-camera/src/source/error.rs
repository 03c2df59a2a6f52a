//! Why a source gives no pictures.

use std::io;
use std::path::PathBuf;

/// Why a source gives no pictures. `place` is its address without a password.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The text is not an address of a source.
    #[error(
        "\"{given}\" is not a source: {why}; write rtsp://HOST/PATH, http://HOST/PATH, /dev/videoN, test:1920x1080@30 or a file"
    )]
    BadAddress {
        /// The text, without a password.
        given: String,
        /// What is wrong with it.
        why: String,
    },
    /// No connection.
    #[error("cannot connect to {place}: {source}")]
    Unreachable {
        place: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The connection ended or failed.
    #[error("{place} has ended the connection: {why}")]
    Disconnected {
        place: String,
        /// What was seen last.
        why: String,
    },
    /// User name or password is missing or wrong.
    #[error(
        "{place} refuses the user name or password; write the address with USER:PASSWORD@ before the host"
    )]
    Password { place: String },
    /// Another answer than a stream.
    #[error("{place} does not send pictures: {why}")]
    NoStream {
        place: String,
        /// What it sends.
        why: String,
    },
    /// A length that no picture has.
    #[error("{place} announces {what} of {given} bytes, at most {most} are read")]
    TooLong {
        place: String,
        what: &'static str,
        /// The length.
        given: u64,
        /// The bound.
        most: u64,
    },
    /// Pictures that cannot be decoded, one after the other.
    #[error("{count} pictures of {place} in a row cannot be decoded: {why}")]
    Undecodable {
        place: String,
        /// How many.
        count: u64,
        /// Why the last one is not.
        why: String,
    },
    /// Nothing came.
    #[error("no picture from {place} for {seconds:.1} s: {seen}")]
    Silent {
        place: String,
        /// For how long.
        seconds: f64,
        /// What came instead.
        seen: String,
    },
    /// No decoder on this machine.
    #[error(
        "{place} needs a decoder for {what}, and the program ffmpeg is not installed: apt install ffmpeg"
    )]
    NoDecoder {
        place: String,
        /// The coding.
        what: String,
    },
    #[error("ffmpeg, which decodes {place}, has ended ({status}): {said}")]
    DecoderEnded {
        place: String,
        /// Its exit status.
        status: String,
        /// Its last line.
        said: String,
    },
    /// The stream is over, as that of a file.
    #[error("{place} has ended after {frames} frames")]
    Ended {
        place: String,
        /// Frames given.
        frames: u64,
    },
    /// A device or file cannot be used.
    #[error("cannot {what} {}: {source}", .path.display())]
    Device {
        /// What was tried.
        what: &'static str,
        /// The device or file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A device that is not a camera of a known kind.
    #[error("{} cannot be used: {why}", .path.display())]
    NotACamera {
        /// The device.
        path: PathBuf,
        why: String,
    },
}

impl SourceError {
    /// Returns whether time alone can cure it: at the start of a camera, others end it.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Disconnected { .. }
            | Self::Silent { .. }
            | Self::Undecodable { .. } => true,
            Self::BadAddress { .. }
            | Self::Password { .. }
            | Self::NoStream { .. }
            | Self::TooLong { .. }
            | Self::NoDecoder { .. }
            | Self::DecoderEnded { .. }
            | Self::Ended { .. }
            | Self::Device { .. }
            | Self::NotACamera { .. } => false,
        }
    }
}
