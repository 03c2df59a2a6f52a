//! The stream from a guest to the host: frames with lengths and checksums.
//!
//! ```text
//! onbeat ready RELEASE
//! onbeat file LENGTH SHA256 PATH
//! LENGTH bytes and a newline
//! onbeat end STATUS FILES
//! ```
//!
//! The host reads it after the guest has ended, and does not trust it: lengths are checked against
//! the stream, paths against `..`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::work_directory::hex_digest;

/// Why a stream cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The guest has sent nothing.
    #[error("it sent nothing")]
    Empty,
    /// Something else stands where a frame should begin.
    #[error("byte {at} does not begin a frame: {line:?}")]
    NotAFrame {
        /// Position in the stream.
        at: usize,
        /// The line that stands there, at most 80 characters.
        line: String,
    },
    /// The stream ends within a file.
    #[error("{path} should have {length} bytes, {present} arrived")]
    Truncated {
        /// The file.
        path: String,
        /// Its stated length in bytes.
        length: usize,
        /// Bytes that are there.
        present: usize,
    },
    /// A file's content does not match its checksum.
    #[error("{path} arrived damaged: its checksum differs")]
    Checksum {
        /// The file.
        path: String,
    },
    /// A path leads out of the directory of results.
    #[error("{path:?} is not a path below the directory of results")]
    Path {
        /// The path as sent.
        path: String,
    },
    /// The last frame is missing.
    #[error("{files} files arrived, the end did not")]
    NoEnd {
        /// Files that arrived.
        files: usize,
    },
    /// The number of files differs from that in the last frame.
    #[error("{present} files arrived, {stated} were sent")]
    Count {
        /// Number in the last frame.
        stated: usize,
        /// Files that arrived.
        present: usize,
    },
}

/// A file that a guest has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFile {
    /// Its path, relative and without `..`.
    pub path: String,
    pub content: Vec<u8>,
}

/// A whole stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shipment {
    /// The kernel's release, by `uname -r`.
    pub(super) release: String,
    /// In the order of paths.
    pub(super) files: Vec<GuestFile>,
    /// Exit status of the job.
    pub(super) status: i32,
}

/// Words before the frames on the console, one line of base64 each.
const CONSOLE_PREFIX: &str = "onbeat> ";
const MOST_SHOWN: usize = 80;

/// The stream among the lines of a console.
pub(super) fn from_console(console: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(console);
    let lines = text.lines().filter_map(|line| line.split_once(CONSOLE_PREFIX));
    // A line that the kernel has torn is noticed by the checksum.
    lines.filter_map(|(_, encoded)| STANDARD.decode(encoded.trim()).ok()).flatten().collect()
}

/// Reads a whole stream.
pub(super) fn parse(stream: &[u8]) -> Result<Shipment, FrameError> {
    let mut reader = StreamReader { stream, at: 0 };
    let first = reader.line().ok_or(FrameError::Empty)?;
    let release = first.strip_prefix("onbeat ready ").filter(|release| is_release(release));
    let release = release.ok_or_else(|| not_a_frame(0, &first))?;

    let mut files = Vec::new();
    loop {
        let at = reader.at;
        let line = reader.line().ok_or(FrameError::NoEnd { files: files.len() })?;
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        match words[..] {
            ["onbeat", "file", length, checksum, path] => {
                let length = length.parse().map_err(|_| not_a_frame(at, &line))?;
                files.push(reader.file(path, length, checksum)?);
            }
            ["onbeat", "end", status, stated] => {
                let status = status.parse().map_err(|_| not_a_frame(at, &line))?;
                let stated: usize = stated.parse().map_err(|_| not_a_frame(at, &line))?;
                let release = release.to_owned();
                return match files.len() {
                    present if present == stated => Ok(Shipment { release, files, status }),
                    present => Err(FrameError::Count { stated, present }),
                };
            }
            _ => return Err(not_a_frame(at, &line)),
        }
    }
}

/// Whether a guest may have this release. The host names a directory after it, and a guest may send
/// anything.
fn is_release(release: &str) -> bool {
    !release.is_empty() && !release.contains(|letter: char| letter == '/' || letter.is_control())
}

fn not_a_frame(at: usize, line: &str) -> FrameError {
    FrameError::NotAFrame { at, line: line.chars().take(MOST_SHOWN).collect() }
}

struct StreamReader<'s> {
    stream: &'s [u8],
    at: usize,
}

impl StreamReader<'_> {
    /// The next line, without its end; nothing when no whole line is left.
    fn line(&mut self) -> Option<String> {
        let rest = &self.stream[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n')?;
        self.at += length + 1;
        Some(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn file(&mut self, path: &str, length: usize, checksum: &str) -> Result<GuestFile, FrameError> {
        let inside = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        if !inside {
            return Err(FrameError::Path { path: path.to_owned() });
        }

        let rest = &self.stream[self.at..];
        let Some(content) = rest.get(..length) else {
            return Err(FrameError::Truncated {
                path: path.to_owned(),
                length,
                present: rest.len(),
            });
        };
        if hex_digest(content) != checksum {
            return Err(FrameError::Checksum { path: path.to_owned() });
        }

        // The newline after the content; where it is missing, the next frame is too.
        self.at += (length + 1).min(rest.len());
        Ok(GuestFile { path: path.to_owned(), content: content.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a guest would send.
    fn stream(files: &[(&str, &[u8])], status: i32) -> Vec<u8> {
        let mut stream = b"onbeat ready 6.1-rt\n".to_vec();
        for (path, content) in files {
            stream.extend(
                format!("onbeat file {} {} {path}\n", content.len(), hex_digest(content)).bytes(),
            );
            stream.extend_from_slice(content);
            stream.push(b'\n');
        }
        stream.extend(format!("onbeat end {status} {}\n", files.len()).bytes());
        stream
    }

    #[test]
    fn files_with_any_content_arrive_as_sent() {
        let content = b"onbeat end 0 0\nbinary \0\xff";
        let found = parse(&stream(&[("a", b""), ("runs/x y/b", content)], 3)).expect("a stream");
        assert_eq!(found.release, "6.1-rt");
        assert_eq!(found.status, 3);
        assert_eq!(
            found.files[1],
            GuestFile { path: "runs/x y/b".to_owned(), content: content.to_vec() }
        );
    }

    #[test]
    fn the_console_carries_the_same_stream_between_other_lines() {
        let sent = stream(&[("output", &[7; 300])], 0);
        let mut console = "[    0.1] Linux\r\n".to_owned();
        for piece in sent.chunks(90) {
            console +=
                &format!("{CONSOLE_PREFIX}{}\r\n[    0.2] message\r\n", STANDARD.encode(piece));
        }
        assert_eq!(from_console(console.as_bytes()), sent);
    }

    #[test]
    fn what_is_missing_or_damaged_is_named() {
        assert_eq!(parse(b""), Err(FrameError::Empty));
        assert_eq!(parse(b"onbeat ready 6\n"), Err(FrameError::NoEnd { files: 0 }));
        let whole = stream(&[("a", b"content")], 0);
        let cut = &whole[..whole.len() - 17];
        assert_eq!(
            parse(cut),
            Err(FrameError::Truncated { path: "a".to_owned(), length: 7, present: 6 })
        );
        let mut damaged = whole.clone();
        let last = whole.len() - 20;
        damaged[last] ^= 1;
        assert_eq!(parse(&damaged), Err(FrameError::Checksum { path: "a".to_owned() }));
        let short = String::from_utf8(whole).expect("text").replace("end 0 1", "end 0 2");
        assert_eq!(parse(short.as_bytes()), Err(FrameError::Count { stated: 2, present: 1 }));
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for path in ["/etc/passwd", "../x", "a/../../x", "a//b", "."] {
            let refused = parse(&stream(&[(path, b"")], 0));
            assert_eq!(refused, Err(FrameError::Path { path: path.to_owned() }));
        }
        // A directory of the host is named after the release.
        for release in ["../../etc/x", "/etc/x", "", "6\x1b[2J"] {
            let stream = format!("onbeat ready {release}\nonbeat end 0 0\n");
            let refused = parse(stream.as_bytes());
            assert!(matches!(refused, Err(FrameError::NotAFrame { at: 0, .. })), "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn no_stream_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let mut with_head = b"onbeat ready x\nonbeat file 9 ".to_vec();
            with_head.extend(bytes);
            let _ = parse(&with_head);
            let _ = from_console(&with_head);
        }
    }
}
