//! Files that are text only after one more step: gzip and UTF-16. Others are named.

use std::io::Read;

use super::error::{Error, LARGEST};

/// What a file's first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Bytes as they are.
    Plain,
    Gzip,
    Utf16 {
        is_little_endian: bool,
    },
}

impl Encoding {
    /// Of the first bytes of a file.
    ///
    /// # Errors
    /// Compressed in a way that is not read, or not text at all.
    pub(super) fn from_beginning(bytes: &[u8]) -> Result<Self, Error> {
        let packed = |by, command| Err(Error::Packed { by, command });
        let other = |what, advice| Err(Error::OtherKind { what, advice });
        let log_advice = "`onbeat message list` reads it";
        let has = |mark: &[u8]| bytes.windows(mark.len()).any(|part| part == mark);
        match bytes {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0xff, 0xfe, ..] => Ok(Self::Utf16 { is_little_endian: true }),
            [0xfe, 0xff, ..] => Ok(Self::Utf16 { is_little_endian: false }),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => packed("xz", "xz -d"),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => packed("zstd", "zstd -d"),
            [b'B', b'Z', b'h', ..] => packed("bzip2", "bzip2 -d"),
            [b'P', b'K', 3, 4, ..]
                if has(b"[Content_Types].xml") || has(b"opendocument.spreadsheet") =>
            {
                other("a workbook", "save its sheet as CSV")
            }
            [0xd0, 0xcf, 0x11, 0xe0, ..] => other("a workbook", "save its sheet as CSV"),
            [b'P', b'K', 3, 4, ..] => packed("zip", "unzip"),
            [0x17, 0x08, b'D', b't', b'r', b'a', b'c', ..] => {
                other("a binary recording of trace-cmd", "import what `trace-cmd report` prints")
            }
            [b'P', b'E', b'R', b'F', b'I', b'L', b'E', ..] => {
                other("a binary recording of perf", "import what `perf script` prints")
            }
            [0x89, b'M', b'C', b'A', b'P', ..] => other("an MCAP log of messages", log_advice),
            [0xed, 0xa1, 0xda, 0x01, ..] => other("a log of LCM messages", log_advice),
            [b'S', b'Q', b'L', b'i', b't', b'e', b' ', ..] => other(
                "an SQLite database",
                "`onbeat message list` reads it if it is a bag of ROS 2",
            ),
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => {
                other("a NumPy array", "import what numpy.savetxt writes")
            }
            // Of version 7.3 it is HDF5.
            [b'M', b'A', b'T', b'L', b'A', b'B', b' ', b'5' | b'7', b'.', ..]
            | [0x89, b'H', b'D', b'F', ..] => {
                other("a MAT-file or HDF5", "import what MATLAB's writematrix writes as CSV")
            }
            // A page begins with its kind, a number: text has none there.
            [b'P', b'A', b'R', b'1', 0x15, ..] => {
                other("Apache Parquet", "import its column of values as CSV")
            }
            // pcap of microseconds and nanoseconds, in both byte orders, and pcapng.
            [0xa1, 0xb2, 0xc3, 0xd4, ..]
            | [0xd4, 0xc3, 0xb2, 0xa1, ..]
            | [0xa1, 0xb2, 0x3c, 0x4d, ..]
            | [0x4d, 0x3c, 0xb2, 0xa1, ..]
            | [0x0a, 0x0d, 0x0d, 0x0a, ..] => other(
                "a packet capture",
                "import the times between packets that `tshark -r FILE -T fields -e frame.time_epoch \
                 -e frame.time_delta_displayed` prints, with --unit s --as observed_period",
            ),
            _ => Ok(Self::Plain),
        }
    }

    /// The bytes of the text, at most 64 MiB.
    ///
    /// # Errors
    /// [`Error`].
    pub(super) fn decode(self, file: &mut impl Read) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        match self {
            Self::Plain | Self::Utf16 { .. } => {
                file.take(LARGEST + 1).read_to_end(&mut bytes)?;
            }
            Self::Gzip => {
                let mut inflated = flate2::read::MultiGzDecoder::new(file).take(LARGEST + 1);
                inflated.read_to_end(&mut bytes).map_err(|_| Error::Inflate)?;
            }
        }

        if bytes.len() as u64 > LARGEST {
            return Err(Error::TooLongUnpacked);
        }

        Ok(match self {
            Self::Utf16 { is_little_endian } => {
                let pairs = bytes.chunks_exact(2).skip(1).map(|pair| match is_little_endian {
                    true => u16::from_le_bytes([pair[0], pair[1]]),
                    false => u16::from_be_bytes([pair[0], pair[1]]),
                });
                let text: String =
                    char::decode_utf16(pairs).map(|c| c.unwrap_or('\u{fffd}')).collect();
                text.into_bytes()
            }
            _ => bytes,
        })
    }
}
