//! The parts of an MJPEG stream: one JPEG picture each.

use std::io::{self, BufRead, Read};

use super::MOST_COMPRESSED;
use super::jpeg::segments;

/// Longest line of a part's head, and most lines.
const MOST_LINE: u64 = 1024;
const MOST_LINES: usize = 64;

/// Beginnings of types of parts that are not pictures.
const NOT_PICTURES: [&str; 4] = ["text/", "audio/", "application/json", "application/xml"];

/// Reads the next picture into `to`: by its stated length, else up to its end. Returns `false` at the end of
/// the stream. Empty parts, and those of another type with a length, are passed over. Calls `begins` when the
/// first byte of the picture is there: the head of a part can come with the picture before.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] with a sentence, and those of the reader.
pub(super) fn next_part(
    from: &mut impl BufRead,
    to: &mut Vec<u8>,
    begins: impl FnOnce(),
) -> io::Result<bool> {
    to.clear();
    loop {
        match head_of_part(from)? {
            Head::End => return Ok(false),
            Head::Other(length) => {
                io::copy(&mut from.by_ref().take(length as u64), &mut io::sink())?;
            }
            Head::Length(length) => {
                from.fill_buf()?;
                begins();
                let read = from.by_ref().take(length as u64).read_to_end(to)?;
                if read < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                return Ok(true);
            }
            Head::Unknown => {
                from.fill_buf()?;
                begins();
                return read_to_marker(from, to).map(|()| true);
            }
        }
    }
}

enum Head {
    End,
    Length(usize),
    /// Bytes that are not a picture.
    Other(usize),
    Unknown,
}

/// Reads the head of a part: blank lines, its boundary, headers, a blank line. A picture can begin without:
/// parts need no headers (RFC 2046, section 5.1), and some servers send pictures alone, one after the other.
fn head_of_part(from: &mut impl BufRead) -> io::Result<Head> {
    let mut length = None;
    let mut has_headers = false;
    let mut is_picture = true;
    for _ in 0..MOST_LINES {
        if matches!(from.fill_buf()?, [0xff] | [0xff, 0xd8, ..]) {
            return Ok(Head::Unknown);
        }
        let mut line = Vec::new();
        if from.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(Head::End);
        }
        if !line.ends_with(b"\n") {
            return Err(bad("the head of a part has a line of over 1,024 bytes"));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.is_empty() {
            if has_headers {
                return Ok(match length {
                    None => Head::Unknown,
                    Some(length) if length == 0 || !is_picture => Head::Other(length),
                    Some(length) => Head::Length(length),
                });
            }
        } else if let Some((key, value)) = text.split_once(':') {
            has_headers = true;
            if key.eq_ignore_ascii_case("content-length") {
                length = Some(length_from(value)?);
            } else if key.eq_ignore_ascii_case("content-type") {
                let kind = value.trim().to_ascii_lowercase();
                is_picture = !NOT_PICTURES.iter().any(|it| kind.starts_with(it));
            }
        } else if !text.starts_with("--") && has_headers {
            return Err(bad("the head of a part has a line that is not a header"));
        }
    }
    Err(bad("the head of a part does not end"))
}

fn length_from(value: &str) -> io::Result<usize> {
    let length: Option<usize> = value.trim().parse().ok();
    match length {
        None => Err(bad("a part states a length that is not a number of bytes")),
        Some(length) if length > MOST_COMPRESSED => {
            let most = MOST_COMPRESSED >> 20;
            Err(bad(&format!("a part states {length} bytes, at most {most} MiB are read")))
        }
        Some(length) => Ok(length),
    }
}

/// Reads up to the marker of a picture's end, which its data cannot hold. A thumbnail in its head can.
fn read_to_marker(from: &mut impl BufRead, to: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let room = (MOST_COMPRESSED - to.len()) as u64;
        if from.by_ref().take(room).read_until(0xd9, to)? == 0 {
            let why =
                if room == 0 { "a picture of over 32 MiB" } else { "the stream ends in a picture" };
            return Err(bad(why));
        }
        if to.ends_with(&[0xff, 0xd9]) {
            // Without what comes before: a part of text has no marker of an end.
            let begin = to.windows(2).position(|it| it == [0xff, 0xd8]).unwrap_or(0);
            if is_in_head(&to[begin..]) {
                continue;
            }
            to.drain(..begin);
            return Ok(());
        }
    }
}

/// Whether the last two bytes belong to a segment before the data.
fn is_in_head(picture: &[u8]) -> bool {
    let found = segments(picture).find(|(marker, end)| *marker == 0xda || end + 2 > picture.len());
    found.is_some_and(|(marker, _)| marker != 0xda)
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(mut stream: &[u8]) -> Vec<Result<Vec<u8>, String>> {
        let mut all = Vec::new();
        let mut part = Vec::new();
        loop {
            match next_part(&mut stream, &mut part, || {}) {
                Ok(true) => all.push(Ok(part.clone())),
                Ok(false) => return all,
                Err(why) => {
                    all.push(Err(why.to_string()));
                    return all;
                }
            }
        }
    }

    #[test]
    fn parts_are_read_by_length_or_up_to_the_end_of_the_picture() {
        let stream = b"--b\r\nContent-Type: image/jpeg\r\ncontent-length: 3\r\n\r\nabc\r\n--b\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8xy\xd9z\xff\xd9\r\n--b\r\nContent-Length: 1\r\n\r\nq";
        let expected: [&[u8]; 3] = [b"abc", b"\xff\xd8xy\xd9z\xff\xd9", b"q"];
        assert_eq!(parts(stream), expected.map(|it| Ok(it.to_vec())));
    }

    #[test]
    fn a_part_of_text_before_a_picture_is_passed_over() {
        let stream = b"--b\r\nContent-Type: text/plain\r\n\r\nalarm=0\r\n--b\r\nContent-Length: 5\r\n\r\n\xff\xd8a\xff\xd9\r\n";
        assert_eq!(parts(stream), [Ok(b"\xff\xd8a\xff\xd9".to_vec())]);
    }

    #[test]
    fn a_thumbnail_in_the_head_of_a_picture_is_not_its_end() {
        let picture = b"\xff\xd8\xff\xe1\0\x0aExif\xff\xd8\xff\xd9\xff\xda\0\x02data\xff\xd9";
        let one = [&b"--b\r\nContent-Type: image/jpeg\r\n\r\n"[..], picture, b"\r\n"].concat();
        assert_eq!(parts(&one.repeat(2)), [Ok(picture.to_vec()), Ok(picture.to_vec())]);
    }

    #[test]
    fn pictures_without_headers_and_alone_are_read_and_other_parts_are_passed_over() {
        let picture = b"\xff\xd8\xff\xda\0\x02data\xff\xd9";
        let headless = [&b"--b\r\n\r\n"[..], picture, b"\r\n"].concat();
        let alone = picture.to_vec();
        let after = |part: &[u8]| [part, &headless].concat();
        let empty = after(b"--b\r\nContent-Type: image/jpeg\r\nContent-Length: 0\r\n\r\n\r\n");
        let text = after(b"--b\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\na=0\r\n");
        for stream in [headless.clone(), alone, empty, text] {
            let shown = String::from_utf8_lossy(&stream).into_owned();
            let expected = [Ok(picture.to_vec()), Ok(picture.to_vec())];
            assert_eq!(parts(&stream.repeat(2)), expected, "{shown}");
        }
    }

    #[test]
    fn lengths_are_bounded_and_endless_heads_end() {
        let of = |text: &str| parts(text.as_bytes()).pop().unwrap().unwrap_err();
        assert!(of("--b\nContent-Length: 99999999999\n\n").contains("at most 32 MiB"));
        assert!(of("--b\nContent-Length: -1\n\n").contains("not a number"));
        assert!(of(&"x".repeat(5000)).contains("1,024"));
        assert!(of(&"a: b\n".repeat(100)).contains("does not end"));
        assert_eq!(parts(b""), []);
    }

    #[test]
    fn any_bytes_end_in_an_error_or_the_end() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..2_000 {
            let length = random.usize(..400);
            let mut stream: Vec<u8> =
                b"--b\r\nContent-Length: 5\r\n\r\nabcde\r\n--b\r\n\r\n".to_vec();
            for _ in 0..length {
                let at = random.usize(..stream.len());
                stream.insert(at, random.u8(..));
            }
            assert!(parts(&stream).len() <= stream.len());
        }
    }
}
