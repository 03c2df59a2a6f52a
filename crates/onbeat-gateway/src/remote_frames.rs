//! Frames of a connection by which a robot is commanded, authenticated, without a socket.
//!
//! A connection begins with a greeting of each side, which holds a nonce. From the key that both have and
//! the two nonces come two keys of this connection alone, one for each direction. Every frame thereafter
//! has a number, one more than that of the frame before, and a tag over kind, number and payload:
//! HMAC-SHA256 (RFC 2104), of which the first 16 bytes travel. A frame of another connection, of the other
//! direction, or one that was sent before is not valid. `docs/remote.md` specifies the bytes.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

type Hmac256 = Hmac<Sha256>;

/// First bytes of both greetings.
pub(super) const MAGIC: &[u8; 16] = b"onbeat remote 1\n";
/// Bytes of a nonce, and of the greetings.
pub(super) const NONCE: usize = 32;
pub(super) const HELLO: usize = MAGIC.len() + NONCE + 1;
/// Bytes of a frame before its payload: length, kind, number; and behind it.
const LENGTH: usize = 4;
const HEAD: usize = 9;
const TAG: usize = 16;
/// Longest frame that a peer may send, in bytes: a command for 64 Ki joints would be longer, one for 256 is not.
const MOST_FRAME: usize = 4096;

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotValid {
    #[error("it does not speak this protocol")]
    Greeting,
    #[error("a frame of {0} bytes, and at most {MOST_FRAME} are read")]
    Length(usize),
    #[error("a forged frame: its tag is not that of this key and connection")]
    Forged,
    #[error("a replayed or missing frame: number {number}, expected {expected}")]
    Number { number: u64, expected: u64 },
    #[error("a frame that cannot be read, of kind {0}")]
    Content(u8),
}

/// Keys of a connection.
#[derive(Clone)]
pub(super) struct SessionKeys {
    to_robot: Hmac256,
    from_robot: Hmac256,
}

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKeys")
    }
}

impl SessionKeys {
    /// Derives them from the key of the robot, empty for none, and the nonces.
    pub(super) fn derive(key: &[u8], of_peer: &[u8], of_robot: &[u8]) -> Self {
        let mut session = keyed(key);
        for part in [&b"onbeat remote 1 session"[..], of_peer, of_robot] {
            session.update(part);
        }
        let session = session.finalize().into_bytes();
        let derived = |direction: &[u8]| {
            let mut of = keyed(&session);
            of.update(direction);
            keyed(&of.finalize().into_bytes())
        };
        Self { to_robot: derived(b"to the robot"), from_robot: derived(b"from the robot") }
    }
}

fn keyed(key: &[u8]) -> Hmac256 {
    // Keys of any length are valid; the empty one stands for the impossible.
    Hmac256::new_from_slice(key)
        .unwrap_or_else(|_| Hmac256::new(&hmac::digest::Key::<Hmac256>::default()))
}

/// A frame that was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) number: u64,
    pub(super) payload: Vec<u8>,
}

/// Takes bytes as they arrive; returns verified frames. Holds no more than a frame and what was read last.
#[derive(Debug)]
pub(super) struct FrameReader {
    key: Hmac256,
    bytes: Vec<u8>,
    next: u64,
}

impl FrameReader {
    /// For frames to the robot.
    pub(super) fn to_robot(keys: &SessionKeys) -> Self {
        Self { key: keys.to_robot.clone(), bytes: Vec::new(), next: 1 }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Returns the next frame; `None` until it is complete.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, NotValid> {
        let Some(length) = self.bytes.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if !(HEAD + TAG..=MOST_FRAME).contains(&length) {
            return Err(NotValid::Length(length));
        }
        let Some(frame) = self.bytes.get(LENGTH..LENGTH + length) else { return Ok(None) };
        let (content, tag) = frame.split_at(length - TAG);
        let mut key = self.key.clone();
        key.update(content);
        key.verify_truncated_left(tag).map_err(|_| NotValid::Forged)?;

        let (head, payload) = content.split_at(HEAD);
        let number = head[1..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        if number != self.next {
            return Err(NotValid::Number { number, expected: self.next });
        }
        let frame = Frame { kind: head[0], number, payload: payload.to_vec() };
        self.bytes.drain(..LENGTH + length);
        self.next += 1;
        Ok(Some(frame))
    }
}

/// Makes the frames of one direction.
#[derive(Debug)]
pub(super) struct FrameWriter {
    key: Hmac256,
    next: u64,
}

impl FrameWriter {
    /// For frames from the robot.
    pub(super) fn from_robot(keys: &SessionKeys) -> Self {
        Self { key: keys.from_robot.clone(), next: 1 }
    }

    /// Appends a frame.
    pub(super) fn put(&mut self, bytes: &mut Vec<u8>, kind: u8, payload: &[u8]) {
        let length = HEAD + payload.len() + TAG;
        bytes.extend((length as u32).to_le_bytes());
        let from = bytes.len();
        bytes.push(kind);
        bytes.extend(self.next.to_le_bytes());
        bytes.extend(payload);
        let mut key = self.key.clone();
        key.update(&bytes[from..]);
        bytes.extend(&key.finalize().into_bytes()[..TAG]);
        self.next += 1;
    }
}

/// What a peer's greeting says: its nonce, and whether it has a key.
pub(super) fn hello(bytes: &[u8; HELLO]) -> Result<([u8; NONCE], bool), NotValid> {
    let (magic, rest) = bytes.split_at(MAGIC.len());
    let nonce = rest.first_chunk().copied().unwrap_or([0; NONCE]);
    match rest[NONCE] {
        has_key @ 0..=1 if magic == MAGIC => Ok((nonce, has_key == 1)),
        _ => Err(NotValid::Greeting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (FrameWriter, FrameReader) {
        let keys = SessionKeys::derive(b"key", &[1; NONCE], &[2; NONCE]);
        // A peer's frames: the same code with the other direction's key.
        let writer = FrameWriter { key: keys.to_robot.clone(), next: 1 };
        (writer, FrameReader::to_robot(&keys))
    }

    #[test]
    fn frames_arrive_in_any_pieces_and_no_byte_of_them_can_be_changed() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let (mut writer, mut reader) = pair();
            let sent: Vec<Vec<u8>> =
                (0..5).map(|_| (0..random.usize(..300)).map(|_| random.u8(..)).collect()).collect();
            let mut bytes = Vec::new();
            sent.iter().for_each(|payload| writer.put(&mut bytes, 2, payload));
            let mut read = Vec::new();
            for piece in bytes.chunks(random.usize(1..100)) {
                reader.put(piece);
                while let Some(frame) = reader.next().unwrap() {
                    read.push(frame.payload);
                }
            }
            assert_eq!(read, sent);

            // Any changed bit ends the connection before the changed frame, or leaves it incomplete.
            let at = random.usize(..bytes.len());
            bytes[at] ^= 1 << random.u32(..8);
            let (_, mut reader) = pair();
            reader.put(&bytes);
            let mut whole = 0;
            let end = loop {
                match reader.next() {
                    Ok(Some(frame)) => {
                        assert_eq!(frame.payload, sent[whole], "a changed frame passed");
                    }
                    Ok(None) => break None,
                    Err(why) => break Some(why),
                }
                whole += 1;
            };
            assert!(whole < sent.len(), "{end:?}");
        }
    }

    #[test]
    fn a_frame_is_valid_once_in_its_place_its_direction_and_its_connection() {
        let (mut writer, mut reader) = pair();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        writer.put(&mut first, 2, b"one");
        writer.put(&mut second, 2, b"two");

        reader.put(&first);
        reader.put(&first);
        assert_eq!(reader.next().unwrap().unwrap().payload, b"one");
        assert_eq!(reader.next(), Err(NotValid::Number { number: 1, expected: 2 }), "replayed");

        let (_, mut reader) = pair();
        reader.put(&second);
        assert_eq!(reader.next(), Err(NotValid::Number { number: 2, expected: 1 }), "reordered");

        for (key, of_peer, of_robot) in
            [(&b"kez"[..], 1, 2), (b"key", 3, 2), (b"key", 1, 3), (b"", 1, 2), (b"key", 2, 1)]
        {
            let keys = SessionKeys::derive(key, &[of_peer; NONCE], &[of_robot; NONCE]);
            let mut reader = FrameReader::to_robot(&keys);
            reader.put(&first);
            assert_eq!(reader.next(), Err(NotValid::Forged), "another key or connection");
        }
        let keys = SessionKeys::derive(b"key", &[1; NONCE], &[2; NONCE]);
        let mut back = Vec::new();
        FrameWriter::from_robot(&keys).put(&mut back, 2, b"one");
        let mut reader = FrameReader::to_robot(&keys);
        reader.put(&back);
        assert_eq!(reader.next(), Err(NotValid::Forged), "the robot's own frame, sent back");
    }

    #[test]
    fn a_claimed_length_is_refused_before_memory_is_found_for_it() {
        for length in [0, 24, 4097, 1 << 31, u32::MAX] {
            let (_, mut reader) = pair();
            reader.put(&length.to_le_bytes());
            assert_eq!(reader.next(), Err(NotValid::Length(length as usize)));
        }
    }
}
