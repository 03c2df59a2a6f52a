//! Captures of frames in pcap format with nanoseconds (`LINKTYPE_ETHERNET`;
//! draft-ietf-opsawg-pcap).

use std::io::{self, Write};

use onbeat_rt::time::Instant;

/// Writes a capture. Times are those of the carrier's clock, which counts from boot, or from any
/// start in a test.
///
/// ```
/// use onbeat_segment::Instant;
/// use onbeat_segment::serving::Pcap;
///
/// let mut file = Vec::new();
/// let mut capture = Pcap::begin(&mut file)?;
/// capture.record(Instant::from_ns(1_000), &[0; 60])?;
/// capture.end()?;
/// assert_eq!(file.len(), 24 + 16 + 60);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Pcap<W> {
    to: W,
}

impl<W: Write> Pcap<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn begin(mut to: W) -> io::Result<Self> {
        for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 65_535, 1] {
            to.write_all(&word.to_le_bytes())?;
        }
        Ok(Self { to })
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn record(&mut self, at: Instant, frame: &[u8]) -> io::Result<()> {
        let length = frame.len() as u32;
        for word in [
            (at.as_ns() / 1_000_000_000) as u32,
            (at.as_ns() % 1_000_000_000) as u32,
            length,
            length,
        ] {
            self.to.write_all(&word.to_le_bytes())?;
        }
        self.to.write_all(frame)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn end(mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_a_header_and_frames_with_their_times() {
        let mut bytes = Vec::new();
        let mut capture = Pcap::begin(&mut bytes).unwrap();
        capture.record(Instant::from_ns(2_000_000_003), &[1, 2, 3]).unwrap();
        capture.end().unwrap();

        assert_eq!(bytes.len(), 24 + 16 + 3);
        assert_eq!(bytes[..4], [0x4d, 0x3c, 0xb2, 0xa1]);
        assert_eq!(bytes[24..], [2, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]);
    }
}
